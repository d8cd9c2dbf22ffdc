//! What the dispatcher makes of everything that a call can do.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use loop_core::{Effect, Scope, Usage};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ask::{Answer, AskError, ChoiceRequest};
use crate::declaration::ToolDeclaration;
use crate::tool::Tool;

const HOUR: Duration = Duration::from_secs(3_600);

/// A registry of one tool, `fetch_x`, alias `fetch_xs`, that does as `act` says.
fn one<F, Fut>(act: F) -> Registry
where
    F: Fn(Value, ToolContext, Credentials) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult> + Send + 'static,
{
    Registry::builder().tool_fn(declaration(), act).build().unwrap()
}

fn declaration() -> ToolDeclaration {
    ToolDeclaration::new("fetch_x")
        .title("X")
        .alias("fetch_xs")
        .effect(Effect::Read)
        .schema(json!({
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
    registry
        .dispatch(name, &parameters, context(), &Credentials::none(), 12_000, 4_000)
        .await
}

async fn call(registry: &Registry) -> Observation {
    dispatch(registry, "fetch_x", json!({ "target": "A" })).await
}

#[track_caller]
fn failed(seen: &Observation, status: Status, message: &str) {
    assert_eq!((seen.status, &*seen.summary), (status, message));
    assert_eq!(*seen.markdown, format!("> **X:** {message}"));
}

#[tokio::test]
async fn a_call_runs_by_name_and_by_alias_with_what_it_was_given() {
    // S0-37, S0-66, S0-84, S0-86, S0-d3
    let registry = one(|parameters, context, credentials| async move {
        let told = json!([
            parameters,
            &*context.key,
            context.scope.account,
            credentials.get("crm"),
            context.ask.is_some()
        ]);
        ToolResult::ok("fetch_x", "s", "m", told)
    });
    let credentials: Credentials = [("crm", "secret")].into_iter().collect();
    for name in ["fetch_x", "fetch_xs"] {
        let scope = Scope {
            account: Some("A-7".into()),
            ..Scope::default()
        };
        let context = ToolContext { scope, ..context() };
        let seen = registry
            .dispatch(
                name,
                &json!({ "target": "A" }),
                context,
                &credentials,
                12_000,
                4_000,
            )
            .await;
        assert_eq!(
            (seen.status, &*seen.summary, &*seen.markdown),
            (Status::Ok, "s", "m")
        );
        assert_eq!(
            &*seen.data,
            r#"[{"target":"A"},"r/1/action-0","A-7","secret",false]"#
        );
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
        assert!(
            seen.markdown.starts_with("> **Unknown tool:** "),
            "{}",
            seen.markdown
        );
        assert_eq!(
            seen.markdown.contains("near names: `fetch_x`"),
            !name.is_empty(),
            "{}",
            seen.markdown
        );
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
        (
            json!({ "target": "a" }),
            "/target: \"a\" does not match \"^[A-Z]\"",
        ),
        (
            json!({ "target": "A", "list": [2, 3] }),
            "/list/1: 3 is not a multiple of 2",
        ),
        (json!([]), "[] is not of type \"object\""),
        (json!({ "list": [1, "x"] }), "/list/0: 1 is not a multiple of 2"),
    ];
    for (parameters, expected) in cases {
        let seen = dispatch(&registry, "fetch_x", parameters).await;
        assert_eq!(seen.status, Status::InvalidInput);
        assert!(seen.summary.contains(expected), "{}", seen.summary);
        assert!(seen.markdown.starts_with("> **X:** "), "{}", seen.markdown);
    }
    assert!(!ran.load(Ordering::SeqCst));
    let huge = dispatch(
        &registry,
        "fetch_x",
        json!({ "target": "a\u{202e}".repeat(10_000) }),
    )
    .await;
    assert!(
        huge.markdown.len() < 1_000 && !huge.markdown.contains('\u{202e}'),
        "{}",
        huge.markdown.len()
    );
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
    assert_eq!(
        &*dispatch(&registry, "fetch_x", json!({ "n": 7 })).await.markdown,
        "7 r/1/action-0"
    );
    failed(
        &dispatch(&registry, "fetch_x", json!({ "n": 0 })).await,
        Status::PermanentError,
        "it was zero",
    );
    // Within the schema as written (a `u8` of schemars has a maximum), and yet no `Args`.
    let seen = dispatch(&registry, "fetch_x", json!({ "n": 7.0 })).await;
    assert_eq!(seen.status, Status::InvalidInput);
    assert!(
        seen.markdown.contains("invalid type: floating point"),
        "{}",
        seen.markdown
    );
}

#[tokio::test]
async fn a_panic_is_a_failure_with_its_message() {
    // S0-71, S0-81, S0-86, S0-89, T1
    let text = one(|_, _, _| async { panic!("disk on fire") });
    failed(
        &call(&text).await,
        Status::PermanentError,
        "the tool panicked: disk on fire",
    );
    let formatted = one(|parameters, _, _| async move { panic!("no {}", parameters["target"]) });
    failed(
        &call(&formatted).await,
        Status::PermanentError,
        "the tool panicked: no \"A\"",
    );
    let unknown = one(|_, _, _| async { std::panic::panic_any(7_u8) });
    failed(&call(&unknown).await, Status::PermanentError, "Unknown error");
}

/// Says that it was dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A tool that never ends, whether its future was dropped, and the token that it got.
fn hanging() -> (
    Registry,
    Arc<AtomicBool>,
    Arc<std::sync::Mutex<Option<CancellationToken>>>,
) {
    let dropped = Arc::new(AtomicBool::new(false));
    let token = Arc::new(std::sync::Mutex::new(None));
    let (flag, given) = (Arc::clone(&dropped), Arc::clone(&token));
    let registry = one(move |_, context, _| {
        let flag = Flag(Arc::clone(&flag));
        *given.lock().unwrap() = Some(context.cancel.clone());
        async move {
            let _flag = flag;
            sleep(HOUR).await;
            fine()
        }
    });
    (registry, dropped, token)
}

/// Lets aborted tasks be dropped.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_late_is_cut_off_and_cancelled() {
    // S0-94, S0-d6, S0-d7, C32, T2
    let (registry, dropped, token) = hanging();
    let began = Instant::now();
    let outer = CancellationToken::new();
    let context = context().with_cancel(outer.clone());
    let parameters = json!({ "target": "A" });
    let seen = registry
        .dispatch(
            "fetch_x",
            &parameters,
            context,
            &Credentials::none(),
            12_000,
            4_000,
        )
        .await;
    failed(&seen, Status::Timeout, "timeout after 12000 ms");
    assert_eq!(began.elapsed().as_millis(), 12_000);
    settle().await;
    assert!(dropped.load(Ordering::SeqCst), "the losing tool must not run on");
    assert!(token.lock().unwrap().as_ref().unwrap().is_cancelled());
    assert!(!outer.is_cancelled(), "its siblings go on");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_just_in_time_is_heard() {
    // S0-94
    let registry = one(|_, context, _| async move {
        assert_eq!(context.remaining(), Some(Duration::from_millis(12_000)));
        sleep(Duration::from_millis(11_999)).await;
        fine()
    });
    assert_eq!(call(&registry).await.status, Status::Ok);
    let forever = registry.dispatch(
        "fetch_x",
        &json!({ "target": "A" }),
        context(),
        &Credentials::none(),
        u64::MAX,
        9,
    );
    assert_eq!(
        forever.await.status,
        Status::PermanentError,
        "a limit without end is held, and the tool's own check fails"
    );
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_run_stops_the_tool() {
    // S0-d6
    let (registry, dropped, token) = hanging();
    let outer = CancellationToken::new();
    let context = context().with_cancel(outer.clone());
    let parameters = json!({ "target": "A" });
    let credentials = Credentials::none();
    let call = registry.dispatch("fetch_x", &parameters, context, &credentials, 12_000, 4_000);
    let stop = async {
        sleep(Duration::from_millis(50)).await;
        outer.cancel();
    };
    let (seen, ()) = tokio::join!(call, stop);
    failed(&seen, Status::Cancelled, "cancelled");
    settle().await;
    assert!(dropped.load(Ordering::SeqCst));
    assert!(token.lock().unwrap().as_ref().unwrap().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_stops_the_tool() {
    // S0-d6
    let (registry, dropped, token) = hanging();
    let given_up = tokio::time::timeout(Duration::from_millis(50), call(&registry)).await;
    assert!(given_up.is_err());
    settle().await;
    assert!(dropped.load(Ordering::SeqCst));
    assert!(token.lock().unwrap().as_ref().unwrap().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn calls_run_in_parallel_and_all_settle_in_their_order() {
    // S0-16, S0-93, S0-122, T1
    let registry = one(|parameters, _, _| async move {
        match parameters["target"].as_str().unwrap() {
            "PANIC" => panic!("oh"),
            "HANG" => sleep(HOUR).await,
            target => sleep(Duration::from_millis(target.get(1..).unwrap().parse().unwrap())).await,
        }
        ToolResult::ok("fetch_x", "s", "m", parameters)
    });
    let call = |(name, target): (&str, &str)| ToolCall {
        name: name.into(),
        parameters: json!({ "target": target }),
        context: context(),
        timeout_ms: 12_000,
        markdown_cap: 4_000,
    };
    let asked = [
        ("fetch_x", "T900"),
        ("fetch_x", "PANIC"),
        ("no", "T1"),
        ("fetch_x", "HANG"),
        ("fetch_xs", "T100"),
    ];
    let began = Instant::now();
    let seen = registry
        .dispatch_all(asked.into_iter().map(call).collect(), &Credentials::none())
        .await;
    assert_eq!(
        began.elapsed().as_millis(),
        12_000,
        "as long as the longest, not the sum"
    );
    let ended: Vec<(Status, &str)> = seen.iter().map(|seen| (seen.status, &*seen.data)).collect();
    assert_eq!(
        ended,
        [
            (Status::Ok, r#"{"target":"T900"}"#),
            (Status::PermanentError, "null"),
            (Status::PermanentError, "null"),
            (Status::Timeout, "null"),
            (Status::Ok, r#"{"target":"T100"}"#),
        ]
    );
    let empty = registry.dispatch_all(Vec::new(), &Credentials::none()).await;
    assert_eq!(empty, []);
}

/// A model that answers after a while.
struct Slow(AtomicU32, Duration);

#[async_trait]
impl AskModel for Slow {
    async fn choose(&self, _request: &ChoiceRequest) -> Result<Answer, AskError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        sleep(self.1).await;
        Ok(Answer {
            text: String::new(),
            usage: Some(Usage {
                input: 5,
                ..Usage::default()
            }),
        })
    }
}

/// Asks twice, and then does as the parameters say.
struct Curious(ToolDeclaration);

#[async_trait]
impl Tool for Curious {
    fn spec(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn call(&self, parameters: Value, context: &ToolContext, _credentials: &Credentials) -> ToolResult {
        let request = ChoiceRequest {
            title: String::new(),
            target: None,
            candidates: Vec::new(),
        };
        let model = context.ask.as_ref().unwrap();
        assert!(model.choose(&request).await.is_ok());
        assert!(
            model
                .choose(&request)
                .await
                .unwrap_err()
                .to_string()
                .contains("one sub-call was granted")
        );
        assert_ne!(parameters["target"], "PANIC", "it panics after the question");
        fine()
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_question_used_is_told_however_the_tool_ends() {
    // S0-65, S0-119, S0-128, T13: one grant, one call, and its cost is never lost.
    let registry = Registry::builder().tool(Curious(declaration())).build().unwrap();
    let used = Some(Usage {
        input: 5,
        ..Usage::default()
    });
    let cases = [
        ("FINE", 10, Status::Ok, used),
        ("PANIC", 10, Status::PermanentError, used),
        ("LATE", 20_000, Status::Timeout, None),
    ];
    for (target, ms, status, usage) in cases {
        let model = Arc::new(Slow(AtomicU32::new(0), Duration::from_millis(ms)));
        let context = context().with_ask(Arc::clone(&model) as Arc<dyn AskModel>, 10_000);
        let parameters = json!({ "target": target });
        let seen = registry
            .dispatch(
                "fetch_x",
                &parameters,
                context,
                &Credentials::none(),
                12_000,
                4_000,
            )
            .await;
        assert_eq!(
            (seen.status, seen.sub_call),
            (
                status,
                Some(SubCallUse {
                    answered: false,
                    usage
                })
            ),
            "{target}"
        );
        assert_eq!(model.0.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn the_cap_is_the_callers() {
    // S0-123, S0-d13
    let registry = one(|_, _, _| async { ToolResult::ok("fetch_x", "s", "👍".repeat(10), json!([1])) });
    let parameters = json!({ "target": "A" });
    let seen = registry
        .dispatch("fetch_x", &parameters, context(), &Credentials::none(), 12_000, 3)
        .await;
    assert_eq!(&*seen.markdown, "👍👍👍… [cut: 3 of 10 characters]");
}
