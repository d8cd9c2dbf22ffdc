//! What is heard of a reply while it comes, and what is left of one that breaks.

use crate::common;

use common::world::{End, Log, Play, Stage, answer, drained, notes, runner, says, tools, unselected};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::gate::{Condition, Measure};
use loop_core::reply::FinishReason;
use loop_core::types::{FailureKind, Slot};
use loop_core::{EventKind, Note};
use loop_llm::error::RetryAdvice;
use loop_llm::model::ReplyEnd;
use loop_llm::{ChatModel, ErrorPhase, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest};
use loop_runtime::{
    Outcome, Runner, StopReason,
    models::Models,
    observe::{ReplyPart, RunEvent},
};

async fn ran(log: &Log, stage: Stage) -> Outcome {
    runner(unselected(), log, stage).run(common::item()).await.unwrap()
}

fn broken() -> LlmError {
    LlmError::new(FailureKind::StreamInterrupted, ErrorPhase::Stream, "connection reset")
}

/// A reply whose second section is not complete and that asks for something to run.
fn half(end: End) -> Play {
    let text = "## 🔍 Situation\n\nThe backup failed.\n\n## 📋 Findings\n\nIt is bec";
    Play { pieces: vec![(100, text[..20].to_owned()), (100, text[20..].to_owned())], usage: None, ..says("") }
        .ending(end)
}

#[tokio::test(start_paused = true)]
async fn pieces_of_a_reply_are_heard_before_the_reply_is_recorded() {
    // S0-18, S0-36
    let log = Log::new();
    let whole = answer("high", &[]);
    let pieces: Vec<(u64, String)> = whole.split_inclusive('\n').map(|line| (50, line.to_owned())).collect();
    let stage = Stage::new(&log).on("main", [Play { pieces, ..says("") }]);
    let mut handle = runner(unselected(), &log, stage).run(common::item()).start().await.unwrap();
    let mut events = handle.events().unwrap();
    let nonce = handle.started().nonce.to_string();
    let (mut received, mut first_at) = (String::new(), None);
    while let Some(event) = events.recv().await {
        match event {
            RunEvent::Text { key, text, .. } => {
                assert_eq!(key.slot, Slot::Main);
                first_at.get_or_insert(log.now());
                received.push_str(&text);
            }
            RunEvent::Recorded(entry) if matches!(entry.event.kind, EventKind::ModelReplied { .. }) => {
                assert_eq!(
                    received,
                    whole.replace("{{nonce}}", &nonce),
                    "all of it came before, without a gap"
                );
                assert!(log.now() > first_at.unwrap() + 500, "and it came while the reply was written");
            }
            RunEvent::Recorded(_) => {}
            RunEvent::Part { .. } | RunEvent::Call { .. } => {}
            RunEvent::Lost { .. } => panic!("it was read in time"),
        }
    }
    assert_eq!(handle.wait().await.stop.reason(), StopReason::Confident);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_breaks_off_keeps_its_complete_sections_and_runs_nothing() {
    // S0-130, I-19, L6, L8
    for end in [End::Fails(broken()), End::Stops] {
        let log = Log::new();
        let plays = [half(end.clone()), half(end.clone()), half(end)];
        let outcome = ran(&log, Stage::new(&log).on("main", plays)).await;
        assert_eq!(outcome.stop.reason(), StopReason::ModelFailure);
        assert_eq!(outcome.document.sections.len(), 1, "{:?}", outcome.document);
        assert_eq!(outcome.document.sections[0].body.trim(), "The backup failed.");
        // P2
        assert_eq!((log.count("model "), log.count("tool ")), (3, 0), "three tries in all");
        assert!(
            outcome.totals.usage.estimated && outcome.totals.cost.known.0 > 0,
            "what was heard is paid for"
        );
    }
}

/// A model that never ends, and asks nobody how much it may write.
#[derive(Debug)]
struct Endless(ModelEvent);

#[async_trait]
impl ChatModel for Endless {
    async fn stream(&self, _: &ModelRequest) -> Result<EventStream, LlmError> {
        let event = self.0.clone();
        Ok(futures::stream::repeat_with(move || Ok(event.clone())).boxed())
    }
}

/// A model that reasons and writes calls beside its answer, in pieces that cut a secret.
#[derive(Debug)]
struct Thinking;

#[async_trait]
impl ChatModel for Thinking {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let text = answer("high", &[])
            .replace("{{nonce}}", loop_llm::scripted::nonce_of(request).unwrap_or_default());
        let arguments = |nth, text: &str| ModelEvent::ToolArgumentsDelta { nth, text: text.into() };
        let events = [
            ModelEvent::ReasoningDelta { text: "The key is hunter2-of-".into() },
            ModelEvent::ReasoningDelta { text: "the-crm, I think.".into() },
            ModelEvent::ToolCallStarted { nth: 0, name: "look".into() },
            arguments(0, "{\"key\": \"hunter2-of"),
            ModelEvent::ToolCallStarted { nth: 1, name: "look-hunter2-of-the-crm".into() },
            arguments(1, "{}"),
            arguments(0, "-the-crm\"}"),
            // No reply is read so far.
            ModelEvent::ToolCallStarted { nth: 128, name: "far".into() },
            arguments(128, "{}"),
            ModelEvent::TextDelta { text: text.as_str().into() },
            ModelEvent::Finished(Box::new(ModelReply::text(text, None))),
        ];
        Ok(futures::stream::iter(events.map(Ok)).boxed())
    }
}

#[tokio::test]
async fn reasoning_and_calls_are_heard_as_they_come_and_without_secrets() {
    // S0-18, B13
    let runner = Runner::new(unselected(), tools(&Log::new()), Models::one(Arc::new(Thinking)))
        .with_secrets(&loop_core::secrets::Secrets::of(["hunter2-of-the-crm"]));
    let mut handle = runner.run(common::item()).start().await.unwrap();
    let events = handle.events().unwrap();
    let (outcome, events) = tokio::join!(handle.wait(), drained(events));
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let (mut reasoning, mut calls, mut arguments) = (String::new(), Vec::new(), BTreeMap::new());
    for event in &events {
        let RunEvent::Part { key, part, .. } = event else { continue };
        assert_eq!(key.slot, Slot::Main);
        match part {
            ReplyPart::Reasoning { text } => reasoning.push_str(text),
            ReplyPart::ToolCall { nth, name } => calls.push((*nth, name.to_string())),
            ReplyPart::Arguments { nth, text } => {
                arguments.entry(*nth).or_insert_with(String::new).push_str(text);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(reasoning, "The key is [masked], I think.");
    assert_eq!(calls, [(0, "look".to_owned()), (1, "look-[masked]".to_owned())]);
    assert_eq!(arguments, BTreeMap::from([(0, "{\"key\": \"[masked]\"}".to_owned()), (1, "{}".to_owned())]));
}

#[tokio::test]
async fn a_model_that_never_ends_is_cut_at_a_multiple_of_what_it_was_granted() {
    // P3, P6, P8, L11, L23: text, reasoning and arguments alike.
    let piece: Arc<str> = "word ".repeat(20).into();
    let kinds = [
        ModelEvent::TextDelta { text: Arc::clone(&piece) },
        ModelEvent::ReasoningDelta { text: Arc::clone(&piece) },
        ModelEvent::ToolArgumentsDelta { nth: 0, text: piece },
    ];
    for event in kinds {
        let mut spec = unselected();
        spec.limits.output_tokens = 300;
        let max = loop_llm::codec::OutputCap::of(Some(300)).bytes;
        let runner = Runner::new(spec, tools(&Log::new()), Models::one(Arc::new(Endless(event.clone()))));
        let mut handle = runner.run(common::item()).start().await.unwrap();
        let events = handle.events().unwrap();
        let outcome = handle.wait().await;
        let reported = |condition: &Condition| matches!(condition.value, Measure::Output(written) if written.capped && written.tokens.is_none());
        let stop = &outcome.stop;
        assert!(std::iter::once(&stop.primary).chain(&stop.also).any(reported), "{event:?}: {stop:?}");
        let is_text = matches!(event, ModelEvent::TextDelta { .. });
        // Where nothing is visible there is nothing to repair, and no other try would bring more.
        let calls = if is_text { 2 } else { 1 };
        assert_eq!(outcome.totals.model_calls, calls, "{event:?}");
        assert_eq!(stop.reason() == StopReason::OutputLimit, !is_text, "{stop:?}");
        let received: usize = drained(events).await.iter().map(bytes_of_text).sum();
        assert!(received <= calls as usize * max, "{event:?}: {received} bytes were shown");
    }
}

fn bytes_of_text(event: &RunEvent) -> usize {
    match event {
        RunEvent::Text { text, .. } => text.len(),
        RunEvent::Part { part, .. } => part.text().len(),
        RunEvent::Recorded(_) | RunEvent::Call { .. } | RunEvent::Lost { .. } => 0,
    }
}

#[tokio::test]
async fn a_refusal_that_never_ends_is_a_line_in_the_journal_and_on_the_screen() {
    // P8, I-23
    let refusal = "I will not. ".repeat(1 << 16);
    let mut reply = ModelReply::text("", None);
    reply.refusal = Some(refusal.into());
    (reply.stop, reply.finish) = (Some(ReplyEnd::Refusal), FinishReason::Refusal);
    reply.served_model = Some("m".repeat(1 << 20).into());
    let model = Endless(ModelEvent::Finished(Box::new(reply)));
    let runner = Runner::new(unselected(), tools(&Log::new()), Models::one(Arc::new(model)));
    let outcome = runner.run(common::item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Refused);
    let line = loop_runtime::report::explain(&outcome.stop);
    assert!(line.len() < 1_000 && line.contains("… [cut]"), "{} bytes", line.len());
    let entries = runner.journal().read(&outcome.run).await.unwrap().entries;
    let written: usize = entries.iter().map(|entry| serde_json::to_string(&entry.event).unwrap().len()).sum();
    assert!(written < 200 << 10, "{written} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_as_long_as_the_provider_says_and_not_for_ever() {
    // L1
    let log = Log::new();
    let reported = LlmError {
        retry: RetryAdvice::After(Duration::from_secs(7)),
        ..LlmError::new(FailureKind::RateLimited, ErrorPhase::Headers, "slow down")
    };
    let busy = || Play { refuses: Some(reported.clone()), ..says("") };
    let outcome = ran(&log, Stage::new(&log).on("main", [busy(), busy(), busy()])).await;
    assert_eq!([1, 2, 3].map(|n| log.at(&format!("model main {n}"))), [0, 7_000, 14_000]);
    assert_eq!((log.count("model "), log.now()), (3, 14_000), "three tries, and no wait after the last");
    assert_eq!(outcome.stop.reason(), StopReason::ModelFailure);
    assert_eq!(outcome.stop.primary.value.to_string(), "rate_limited: slow down");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_says_nothing_more_is_cut_off_in_time_and_what_came_is_kept() {
    // L9, S0-130
    let log = Log::new();
    let plays = [half(End::Hangs), half(End::Hangs), half(End::Hangs)];
    let outcome = ran(&log, Stage::new(&log).on("main", plays)).await;
    assert_eq!(log.at("dropped model main 1"), 60_000);
    assert_eq!(outcome.stop.primary.value.to_string(), "timeout: no whole reply after 60000 ms");
    assert_eq!(outcome.document.sections.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_panics_is_a_failed_call() {
    // S0-130
    let log = Log::new();
    let outcome = ran(&log, Stage::new(&log).on("main", [half(End::Panics)])).await;
    assert_eq!(outcome.stop.primary.value.to_string(), "bad_response: the model's client panicked");
    assert_eq!(outcome.document.sections.len(), 1, "what it had said until then is kept");
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_usage_is_charged_for_what_came_and_says_so() {
    // L21, S0-119
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [Play { usage: None, ..says(answer("high", &[])) }]);
    let runner = runner(unselected(), &log, stage);
    let outcome = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    let reserve = recorded.entries.iter().find_map(|entry| match entry.event.kind {
        EventKind::CallStarted { reserve, .. } => Some(reserve),
        _ => None,
    });
    let reserve = reserve.unwrap();
    let usage = outcome.totals.usage;
    assert_eq!(usage.input, reserve.input_tokens);
    assert!(usage.estimated && (1..reserve.output_tokens).contains(&usage.output), "{usage:?}");
    assert!(outcome.totals.cost.total() < reserve.cost);
    let charged = notes(&runner, &outcome.run).await;
    assert!(charged.iter().any(|note| matches!(note, Note::CallCharged { usage, .. } if usage.estimated)));
}
