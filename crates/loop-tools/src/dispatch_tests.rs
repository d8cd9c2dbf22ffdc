//! What the dispatcher makes of everything that a call can do.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "dispatch_time_tests.rs"]
mod time;

use std::sync::atomic::{AtomicBool, Ordering};

use loop_core::types::{Effect, Scope};
use serde_json::json;

use super::*;
use crate::declaration::ToolDeclaration;
use crate::result::ToolResult;

/// A registry of one tool, `fetch_x`, alias `fetch_xs`, that does as `act` says.
fn one<F, Fut>(act: F) -> Registry
where
    F: Fn(Value, ToolContext, Credentials) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult> + Send + 'static,
{
    Registry::builder().tool_fn(declaration(), act).build().unwrap()
}

fn declaration() -> ToolDeclaration {
    ToolDeclaration::new("fetch_x").title("X").alias("fetch_xs").effect(Effect::Read).schema(json!({
        "type": "object",
        "properties": {
            "target": { "type": "string", "pattern": "^[A-Z]" },
            "list": { "type": "array", "items": { "type": "integer", "multipleOf": 2 } },
        },
        "required": ["target"],
    }))
}

fn fine() -> ToolResult {
    ToolResult::ok("fetch_x", "s", "m", json!([1]))
}

fn context() -> ToolContext {
    ToolContext::new(Scope::default(), "item", "r/1/action-0")
}

async fn dispatch(registry: &Registry, name: &str, parameters: Value) -> Observation {
    registry.dispatch(name, &parameters, context(), &Credentials::none(), 12_000, 4_000).await
}

async fn call(registry: &Registry) -> Observation {
    dispatch(registry, "fetch_x", json!({ "target": "A" })).await
}

// Issue 40, R89: what is not given is the default, for every kind of tool, also where no run has filled it in.
#[tokio::test]
async fn what_is_not_given_is_the_default_that_the_schema_declares() {
    let schema = json!({ "type": "object", "required": ["n"], "properties": {
        "n": { "type": "integer", "default": 2 }, "none": { "type": "string", "default": null }, "x": {},
    }});
    let registry = Registry::builder()
        .tool_fn(declaration().schema(schema), |given: Value, _, _| async move {
            ToolResult::ok("fetch_x", "s", given.to_string(), given)
        })
        .build()
        .unwrap();
    for (given, expected) in [
        (json!({}), json!({ "n": 2 })),
        (json!({ "n": 3, "x": 1 }), json!({ "n": 3, "x": 1 })),
        (json!({ "n": 0, "none": "a" }), json!({ "n": 0, "none": "a" })),
    ] {
        assert_eq!(*dispatch(&registry, "fetch_xs", given).await.data, *expected.to_string());
    }
    // Issue 43, K2: as a run reads them, a whole number is one however it is written.
    assert_eq!(*dispatch(&registry, "fetch_x", json!({ "n": 5.0 })).await.data, *r#"{"n":5}"#);
    for refused in [json!({ "n": null }), json!([]), json!("x")] {
        assert_eq!(dispatch(&registry, "fetch_x", refused).await.status, Status::InvalidInput);
    }
}

#[track_caller]
fn failed(seen: &Observation, status: Status, message: &str) {
    assert_eq!((seen.status, &*seen.summary), (status, message));
    assert_eq!(why(seen), ("X", message));
}

/// Title and message of a failure.
#[track_caller]
fn why(seen: &Observation) -> (&str, &str) {
    let failure = seen.failure.as_ref().unwrap();
    (&failure.title, &failure.message)
}

#[tokio::test]
async fn a_call_runs_by_name_and_by_alias_with_what_it_was_given() {
    // S0-37, S0-66, S0-84, S0-86, S0-d3
    let registry = one(|parameters, context, credentials| async move {
        let reported = json!([
            parameters,
            &*context.key,
            context.scope.account,
            credentials.get("crm"),
            context.ask.is_some()
        ]);
        ToolResult::ok("fetch_x", "s", "m", reported)
    });
    let credentials: Credentials = [("crm", "secret")].into_iter().collect();
    for name in ["fetch_x", "fetch_xs"] {
        let scope = Scope { account: Some("A-7".into()), ..Scope::default() };
        let context = ToolContext { scope, ..context() };
        let seen =
            registry.dispatch(name, &json!({ "target": "A" }), context, &credentials, 12_000, 4_000).await;
        assert_eq!((seen.status, &*seen.summary, &*seen.markdown), (Status::Ok, "s", "m"));
        assert_eq!(&*seen.data, r#"[{"target":"A"},"r/1/action-0","A-7","secret",false]"#);
        assert_eq!((seen.sub_call, seen.warnings), (None, vec![]));
    }
}

#[tokio::test]
async fn an_unknown_tool_is_answered_and_nothing_runs() {
    // S0-87, S0-88, S0-d1, S0-d2, S0-d4
    let registry = one(|_, _, _| async { panic!("it ran") });
    for name in ["", "fetch_", "etch_x", "fetch_X"] {
        let seen = dispatch(&registry, name, json!({ "target": "A" })).await;
        assert_eq!(seen.status, Status::PermanentError, "{name}");
        assert!(seen.summary.starts_with("Unknown tool: "), "{}", seen.summary);
        let (title, message) = why(&seen);
        assert_eq!(title, "Unknown tool");
        assert_eq!(message.contains("similar names: `fetch_x`"), !name.is_empty(), "{message}");
    }
}

#[tokio::test]
async fn parameters_are_held_against_the_whole_schema_before_the_tool_starts() {
    // S0-129: with a JSON pointer to what does not fit.
    let ran = Arc::new(AtomicBool::new(false));
    let seen_ran = Arc::clone(&ran);
    let registry = one(move |_, _, _| {
        seen_ran.store(true, Ordering::SeqCst);
        async { fine() }
    });
    let cases = [
        (json!({}), "/target: is required"),
        (json!({ "target": 3 }), "/target: 3 is not of type \"string\""),
        (json!({ "target": "a" }), "/target: \"a\" does not match \"^[A-Z]\""),
        (json!({ "target": "A", "list": [2, 3] }), "/list/1: 3 is not a multiple of 2"),
        (json!([]), "[] is not of type \"object\""),
        (json!({ "list": [1, "x"] }), "/list/0: 1 is not a multiple of 2"),
    ];
    for (parameters, expected) in cases {
        let seen = dispatch(&registry, "fetch_x", parameters).await;
        assert_eq!(seen.status, Status::InvalidInput);
        assert!(seen.summary.contains(expected), "{}", seen.summary);
        assert_eq!(why(&seen).0, "X");
    }
    assert!(!ran.load(Ordering::SeqCst));
    let huge = dispatch(&registry, "fetch_x", json!({ "target": "a\u{202e}".repeat(10_000) })).await;
    assert!(huge.text().len() < 1_000 && !huge.text().contains('\u{202e}'), "{}", huge.text().len());
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Args {
    n: u8,
}

#[tokio::test]
async fn typed_parameters_that_do_not_make_the_type_are_invalid_input() {
    // S0-71, S0-129
    let registry = Registry::builder()
        .typed::<Args, _, _>(declaration(), |args: Args, context: ToolContext| async move {
            match args.n {
                0 => Err("it was zero".to_owned()),
                n => Ok(ToolResult::ok("fetch_x", "s", format!("{n} {}", context.key), n)),
            }
        })
        .build()
        .unwrap();
    assert_eq!(&*dispatch(&registry, "fetch_x", json!({ "n": 7 })).await.markdown, "7 r/1/action-0");
    failed(&dispatch(&registry, "fetch_x", json!({ "n": 0 })).await, Status::PermanentError, "it was zero");
    assert_eq!(&*dispatch(&registry, "fetch_x", json!({ "n": 7.0 })).await.markdown, "7 r/1/action-0");
    // Within the schema as written (a `u8` of schemars has a maximum), and yet no `Args`.
    let arguments = r#"{"n": 7.0}"#.into();
    let seen =
        registry.dispatch_shared("fetch_x", &arguments, context(), &Credentials::none(), 12_000, 4_000).await;
    assert_eq!(seen.status, Status::InvalidInput);
    assert!(seen.text().contains("invalid type: floating point"), "{}", seen.text());
}

#[tokio::test]
async fn a_panic_is_a_failure_with_its_message() {
    panics_are_failures().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_task_of_its_own_is_the_same_failure() {
    panics_are_failures().await;
}

/// On several threads, a tool that keeps its own thread does not keep the caller that waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_keeps_its_thread_is_left() {
    let (release, kept) = std::sync::mpsc::channel::<()>();
    let kept = std::sync::Mutex::new(kept);
    let registry = one(move |_, _, _| {
        // Where it is waited for, the test fails in the end.
        let _ = kept.lock().unwrap().recv_timeout(Duration::from_secs(20));
        async { fine() }
    });
    let context = context();
    let cancel = context.cancel.clone();
    let canceller = tokio::spawn(async move { cancel.cancel() });
    let parameters = json!({ "target": "A" });
    let seen = registry.dispatch("fetch_x", &parameters, context, &Credentials::none(), 12_000, 4_000).await;
    canceller.await.unwrap();
    drop(release);
    failed(&seen, Status::Cancelled, "cancelled");
}

async fn panics_are_failures() {
    // S0-71, S0-81, S0-86, S0-89, T1
    let text = one(|_, _, _| async { panic!("disk on fire") });
    failed(&call(&text).await, Status::PermanentError, "the tool panicked: disk on fire");
    let formatted = one(|parameters, _, _| async move { panic!("no {}", parameters["target"]) });
    failed(&call(&formatted).await, Status::PermanentError, "the tool panicked: no \"A\"");
    let unknown = one(|_, _, _| async { std::panic::panic_any(7_u8) });
    failed(&call(&unknown).await, Status::PermanentError, "Unknown error");
}

#[tokio::test]
async fn the_cap_is_the_callers() {
    // S0-123, S0-d13
    let registry = one(|_, _, _| async { ToolResult::ok("fetch_x", "s", "👍".repeat(10), json!([1])) });
    let parameters = json!({ "target": "A" });
    let seen = registry.dispatch("fetch_x", &parameters, context(), &Credentials::none(), 12_000, 3).await;
    assert_eq!(&*seen.markdown, "👍👍👍… [cut: 3 of 10 characters]");
}
