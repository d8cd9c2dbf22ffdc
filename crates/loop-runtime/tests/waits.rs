//! What a call waits for before its reply: it is told at once, and a stop does not wait with it (W6).

use crate::common;

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::world::{Log, Stage, answer, drained, refuses, says, tools, unselected};
use loop_core::run::StopMode;
use loop_core::secrets::Secrets;
use loop_core::types::{FailureKind, Usage};
use loop_llm::wrap::{RateGate, RateLimited, RateLimits, RetryPolicy, Retrying};
use loop_llm::{ChatModel, ModelRequest, complete};
use loop_runtime::{
    Runner, StopReason,
    models::Models,
    observe::{CallNews, RunEvent},
    run::RunId,
};

fn runner(log: &Log, model: impl ChatModel + 'static) -> Runner {
    Runner::new(unselected(), tools(log), Models::one(Arc::new(model)))
}

fn retrying(stage: Stage) -> Retrying<Stage> {
    Retrying::new(Arc::new(stage), RetryPolicy::default())
}

fn news(events: &[RunEvent]) -> Vec<CallNews> {
    let news = events.iter().filter_map(|event| match event {
        RunEvent::Call { news, .. } => Some(news.clone()),
        RunEvent::Recorded(_) | RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Lost { .. } => None,
    });
    news.collect()
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_the_client_is_told_while_it_waits() {
    // W6
    let log = Log::new();
    let plays = [refuses(FailureKind::RateLimited), says(answer("high", &[]))];
    let received = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&received);
    let runner = runner(&log, retrying(Stage::new(&log).on("main", plays))).with_observer(Arc::new(
        move |_: &RunId, event: &RunEvent| {
            hearing.lock().unwrap().push(event.clone());
        },
    ));
    let mut handle = runner.run(common::item()).start().await.unwrap();
    let events = handle.events().unwrap();
    let (outcome, events) = tokio::join!(handle.wait(), drained(events));
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let reported = news(&events);
    let [CallNews::Retrying { next_try: 2, kind, message, .. }, CallNews::Sent] = &reported[..] else {
        panic!("{reported:?}")
    };
    assert_eq!((*kind, &**message), (FailureKind::RateLimited, "not today"));
    // Before anything of the reply: while it waits and not afterwards.
    let is_reply = |event: &RunEvent| matches!(event, RunEvent::Text { .. });
    let is_news = |event: &RunEvent| matches!(event, RunEvent::Call { .. });
    assert!(events.iter().position(is_news) < events.iter().position(is_reply));
    runner.observers_caught_up().await;
    assert_eq!(news(&received.lock().unwrap()), reported);
}

#[tokio::test(start_paused = true)]
async fn what_a_call_waits_for_is_told_without_the_secrets_of_the_run() {
    // B13: what a provider says of a failed try may hold a secret that its client does not know.
    let log = Log::new();
    let mut refused = refuses(FailureKind::RateLimited);
    refused.refuses.as_mut().unwrap().message = "not today, hunter2-of-the-crm".into();
    let plays = [refused, says(answer("high", &[]))];
    let runner = runner(&log, retrying(Stage::new(&log).on("main", plays)))
        .with_secrets(&Secrets::of(["hunter2-of-the-crm"]));
    let mut handle = runner.run(common::item()).start().await.unwrap();
    let events = handle.events().unwrap();
    let (outcome, events) = tokio::join!(handle.wait(), drained(events));
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let reported = news(&events);
    let [CallNews::Retrying { message, .. }, CallNews::Sent] = &reported[..] else { panic!("{reported:?}") };
    assert_eq!(&**message, "not today, [masked]");
}

fn one_a_minute() -> RateGate {
    RateGate::new(RateLimits { requests_per_minute: NonZeroU32::new(1), ..RateLimits::default() })
}

/// A model whose next call has to wait for a minute.
async fn crowded(log: &Log, stage: Stage) -> RateLimited<Stage> {
    let model = RateLimited::new(Arc::new(stage), one_a_minute());
    let mut first = ModelRequest::new("m", "", "hello");
    first.meta.key = "r/1/first".into();
    complete(&model, &first).await.unwrap();
    assert_eq!(log.count("model first"), 1);
    model
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_turn_says_for_how_long() {
    // W6
    let log = Log::new();
    let stage = Stage::new(&log).on("first", [says("")]).on("main", [says(answer("high", &[]))]);
    let mut spec = unselected();
    spec.models.base.timeout_ms = 120_000;
    let model = Models::one(Arc::new(crowded(&log, stage).await));
    let mut handle = Runner::new(spec, tools(&log), model).run(common::item()).start().await.unwrap();
    let events = handle.events().unwrap();
    let (outcome, events) = tokio::join!(handle.wait(), drained(events));
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let reported = news(&events);
    assert!(
        matches!(reported[..], [CallNews::Queued { wait_ms: Some(59_000..=60_000) }, CallNews::Sent]),
        "{reported:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_at_the_gate_does_not_wait_for_a_turn_behind_a_rate_limit() {
    // W6: the call was never sent, so it costs nothing.
    let log = Log::new();
    let stage = Stage::new(&log).on("first", [says("")]).on("main", [says(answer("high", &[]))]);
    let runner = runner(&log, crowded(&log, stage).await);
    let handle = runner.run(common::item()).start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.stop(StopMode::AtGate);
    let outcome = handle.wait().await;
    assert_eq!(outcome.stop.reason(), StopReason::ManualStop);
    assert_eq!((outcome.totals.wall_ms, outcome.totals.usage), (1_000, Usage::default()));
    assert_eq!(log.count("model main"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_at_the_gate_ends_a_wait_that_begins_after_it() {
    // W6: a try is under way when the stop is asked for, fails, and would be made again in a while.
    let log = Log::new();
    let plays = [refuses(FailureKind::Overloaded).after(5_000), says(answer("high", &[]))];
    let runner = runner(&log, retrying(Stage::new(&log).on("main", plays)));
    let handle = runner.run(common::item()).start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.stop(StopMode::AtGate);
    let outcome = handle.wait().await;
    assert_eq!((outcome.stop.reason(), outcome.totals.wall_ms), (StopReason::ManualStop, 5_000));
    assert_eq!(log.count("model main"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_is_taken_back_leaves_the_wait_as_it_is() {
    // S0-47: a call whose try is under way goes on as if nothing had been asked for.
    let log = Log::new();
    let plays = [refuses(FailureKind::Overloaded).after(5_000), says(answer("high", &[]))];
    let runner = runner(&log, retrying(Stage::new(&log).on("main", plays)));
    let handle = runner.run(common::item()).start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.stop(StopMode::AtGate);
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.remote().withdraw_stop();
    assert_eq!(handle.wait().await.stop.reason(), StopReason::Confident);
    assert_eq!(log.count("model main"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_sends_nothing_is_told_about() {
    // W6
    let log = Log::new();
    let slow = says(answer("high", &[])).after(22_000);
    let runner = runner(&log, Stage::new(&log).on("main", [slow]));
    let mut handle = runner.run(common::item()).start().await.unwrap();
    let events = handle.events().unwrap();
    let (_, events) = tokio::join!(handle.wait(), drained(events));
    let silent: Vec<u64> = news(&events)
        .iter()
        .map(|news| match news {
            CallNews::Silent { for_ms } => *for_ms,
            other => panic!("{other:?}"),
        })
        .collect();
    // The first within a second.
    assert_eq!(silent, [800, 5_000, 20_000]);
}
