//! Smart tools: one question to the cheap model, within what was granted, and a ranking by code when that fails.

use crate::common;

use async_trait::async_trait;
use common::world::{Log, Play, Stage, USAGE, answer, drained, notes, refuses, says, unselected};
use loop_core::Note;
use loop_core::types::{Effect, FailureKind, Price, Tier};
use loop_llm::wrap::{RetryPolicy, Retrying};
use loop_runtime::{
    Outcome, RunSpec, Runner,
    models::Models,
    observe::{CallNews, RunEvent},
    tools::{Registry, ToolContext, ToolDeclaration, ToolResult},
};
use loop_tools::smart::{Candidate, Source};
use loop_tools::{Credentials, Smart};
use serde_json::{Value, json};
use std::sync::Arc;

/// Forty documents, of which the ranking by code keeps the first three.
pub struct Documents(pub ToolDeclaration);

#[async_trait]
impl Source for Documents {
    fn declaration(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn fetch(&self, _: &Value, _: &ToolContext, _: &Credentials) -> Result<Vec<Candidate>, ToolResult> {
        let document = |n| Candidate {
            line: format!("document {n}"),
            markdown: format!("### Document {n}\n\nText {n}."),
            data: json!({"n": n}),
        };
        Ok((0..40).map(document).collect())
    }
}

fn spec(change: impl FnOnce(&mut RunSpec)) -> RunSpec {
    let mut spec = unselected();
    let selector = loop_core::spec::ModelSpec {
        model: "small".into(),
        price: Some(Price::flat(1, 1)),
        ..spec.models.base.clone()
    };
    spec.models.selector = Some(selector);
    change(&mut spec);
    spec
}

struct PersonRequest {
    outcome: Outcome,
    notes: Vec<Note>,
    /// What the selector model was asked.
    requested: Vec<loop_llm::ModelRequest>,
    log: Log,
}

async fn asking(spec: RunSpec, plays: Vec<Play>) -> PersonRequest {
    let log = Log::new();
    let declaration = ToolDeclaration::new("fetch_docs")
        .title("Docs")
        .effect(Effect::Read)
        .schema(json!({"type": "object", "properties": {"target": {"type": "string"}}}));
    let registry = Registry::builder().tool(Smart::new(Documents(declaration))).build().unwrap();
    let action = json!({"action_type": "fetch_docs", "parameters": {"target": "7"}, "priority": "required"});
    let main = Stage::new(&log).on("main", [says(answer("medium", &[action])), says(answer("high", &[]))]);
    let main = Arc::new(main.on("final", [says(answer("high", &[]))]));
    let selector = Arc::new(Stage::new(&log).on("action-0", plays));
    let models =
        Models { selector: selector.clone(), base: main.clone(), escalated: main.clone(), fallback: main };
    let runner = Runner::new(spec, registry, models);
    let outcome = runner.run(common::item()).await.unwrap();
    let notes = notes(&runner, &outcome.run).await;
    PersonRequest { outcome, notes, requested: selector.requests("action-0"), log }
}

#[tokio::test(start_paused = true)]
async fn what_the_question_of_a_smart_tool_waits_for_is_told() {
    // W6: within a second, under the key of the tool's call.
    let log = Log::new();
    let declaration = ToolDeclaration::new("fetch_docs").title("Docs").effect(Effect::Read);
    let registry = Registry::builder().tool(Smart::new(Documents(declaration))).build().unwrap();
    let action = json!({"action_type": "fetch_docs", "parameters": {}, "priority": "required"});
    let main = Stage::new(&log).on("main", [says(answer("medium", &[action])), says(answer("high", &[]))]);
    let main = Arc::new(main);
    let mut slow = says(r#"[{"index": 7}]"#).after(6_000);
    // What comes piece by piece is no silence.
    slow.pieces.insert(0, (0, " ".to_owned()));
    slow.pieces[1].0 = 2_000;
    let plays = [refuses(FailureKind::Overloaded), slow];
    let selector = Retrying::new(Arc::new(Stage::new(&log).on("action-0", plays)), RetryPolicy::default());
    let models =
        Models { selector: Arc::new(selector), base: main.clone(), escalated: main.clone(), fallback: main };
    let mut spec = spec(|_| {});
    spec.limits.sub_call_ms = 20_000;
    spec.tools.iter_mut().for_each(|tool| tool.timeout_ms = 30_000);
    let mut handle = Runner::new(spec, registry, models).run(common::item()).start().await.unwrap();
    let events = handle.events().unwrap();
    let (outcome, events) = tokio::join!(handle.wait(), drained(events));
    assert_eq!(&*outcome.evidence[0].observation.summary, "Found 40 items, kept 1, chosen by a model");
    let reported: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Call { key, news, .. } => Some(match news {
                CallNews::Retrying { next_try, .. } => format!("{key} retrying, try {next_try}"),
                CallNews::Silent { for_ms } => format!("{key} silent for {for_ms}"),
                other => format!("{key} {other:?}"),
            }),
            RunEvent::Recorded(_) | RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Lost { .. } => {
                None
            }
        })
        .collect();
    let expected = ["1/action-0 retrying, try 2", "1/action-0 Sent", "1/action-0 silent for 5000"];
    assert_eq!(reported, expected);
}

#[tokio::test(start_paused = true)]
async fn a_silent_model_behind_a_smart_tool_is_told_within_a_second() {
    // W6
    let log = Log::new();
    let declaration = ToolDeclaration::new("fetch_docs").title("Docs").effect(Effect::Read);
    let registry = Registry::builder().tool(Smart::new(Documents(declaration))).build().unwrap();
    let action = json!({"action_type": "fetch_docs", "parameters": {}, "priority": "required"});
    let main = Stage::new(&log).on("main", [says(answer("medium", &[action])), says(answer("high", &[]))]);
    let main = Arc::new(main);
    let selector = Arc::new(Stage::new(&log).on("action-0", [says(r#"[{"index": 7}]"#).after(1_000)]));
    let models = Models { selector, base: main.clone(), escalated: main.clone(), fallback: main };
    let mut handle = Runner::new(spec(|_| {}), registry, models).run(common::item()).start().await.unwrap();
    let events = handle.events().unwrap();
    let (_, events) = tokio::join!(handle.wait(), drained(events));
    let reported: Vec<&CallNews> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Call { news, .. } => Some(news),
            RunEvent::Recorded(_) | RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Lost { .. } => {
                None
            }
        })
        .collect();
    assert_eq!(reported, [&CallNews::Silent { for_ms: 800 }]);
}

fn summary(requested: &PersonRequest) -> &str {
    &requested.outcome.evidence[0].observation.summary
}

#[tokio::test(start_paused = true)]
async fn a_smart_tool_asks_the_cheap_model_within_its_budget_and_the_bill_shows_it() {
    // S0-39, S0-65, S0-74, S0-119, S0-131
    let requested = asking(spec(|_| {}), vec![says(r#"[{"index": 7}, {"index": 31}]"#)]).await;
    assert_eq!(summary(&requested), "Found 40 items, kept 2, chosen by a model");
    let [request] = &requested.requested[..] else { panic!("{:?}", requested.requested) };
    assert_eq!((&*request.model, request.max_output_tokens), ("small", Some(512)));
    assert!(request.messages[0].text().contains("document 39") && request.bytes() <= 24_000);
    assert_eq!(request.meta.key.rsplit_once('/').unwrap().1, "action-0");

    let totals = requested.outcome.totals;
    assert_eq!((totals.model_calls, totals.sub_calls, totals.tool_calls), (3, 1, 1));
    assert_eq!(totals.usage.total(), 3 * USAGE.total());
    let charged = requested.notes.iter().find_map(|note| match note {
        Note::CallCharged { tier: Tier::Selector, usage, cost, .. } => Some((*usage, cost.unwrap().0)),
        _ => None,
    });
    assert_eq!(charged, Some((USAGE, 1_100)), "at the price of the model that was asked");
}

#[tokio::test(start_paused = true)]
async fn a_small_budget_leaves_candidates_out_rather_than_asking_for_more() {
    // S0-65
    let requested =
        asking(spec(|spec| spec.limits.sub_call_bytes = 800), vec![says(r#"[{"index": 1}]"#)]).await;
    assert!(requested.requested[0].bytes() <= 800, "{}", requested.requested[0].bytes());
    assert!(!requested.requested[0].messages[0].text().contains("document 39"));
}

#[tokio::test(start_paused = true)]
async fn a_cheap_model_that_is_slow_is_cut_off_after_ten_seconds_and_still_paid_for() {
    // S0-131, S0-128, T13
    let requested = asking(spec(|_| {}), vec![says(r#"[{"index": 1}]"#).after(60_000)]).await;
    assert_eq!(summary(&requested), "Found 40 items, kept 3, chosen by code");
    assert_eq!(requested.log.at("dropped model action-0 1"), 10_000);
    assert!(requested.outcome.totals.usage.estimated, "nobody said what it used: its reserve is charged");
    assert_eq!(requested.outcome.totals.usage.total(), 2 * USAGE.total() + 24_000 / 2 + 512);
}

#[tokio::test(start_paused = true)]
async fn no_cheap_model_is_asked_when_model_calls_run_short() {
    // S0-65: the call that is left is for the document.
    let requested = asking(spec(|spec| spec.limits.model_calls = 2), vec![says(r#"[{"index": 7}]"#)]).await;
    assert_eq!(summary(&requested), "Found 40 items, kept 3, chosen by code");
    assert!(requested.requested.is_empty());
    assert_eq!((requested.outcome.totals.model_calls, requested.outcome.totals.sub_calls), (2, 0));
}
