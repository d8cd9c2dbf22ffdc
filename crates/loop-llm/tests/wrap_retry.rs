//! Trying again without what earlier turns reasoned.

use crate::wrap_common;

use std::sync::Arc;
use std::time::Duration;

use loop_core::types::FailureKind;
use loop_llm::error::{RequestChange, RetryAdvice};
use loop_llm::request::{AssistantTurn, Raw};
use loop_llm::wrap::{RetryPolicy, Retrying};
use loop_llm::{ErrorPhase, LlmError, Message, ModelRequest, complete};
use loop_testkit::llm::result;
use wrap_common::{Fake, Step, error, finished, patient, request};

/// A history in which the model reasoned twice, once without a word beside it.
fn reasoned() -> ModelRequest {
    let raw = |json: &str| Some(Raw::from_text(format!("anthropic/p/m\n{json}")));
    let mut request = request();
    request.messages.extend([
        Message::Assistant(AssistantTurn {
            reasoning: "hm".into(),
            raw: raw("[1]"),
            ..AssistantTurn::default()
        }),
        Message::Assistant(AssistantTurn {
            text: "Wait.".into(),
            calls: vec![loop_testkit::call("c1", "look", "{}")],
            reasoning: "so".into(),
            raw: raw("[2]"),
        }),
        Message::Tool { results: vec![result("c1", false, "42")] },
    ]);
    request
}

fn stale() -> Step {
    Step::Refuse(error(FailureKind::StaleReasoning))
}

async fn call(fake: &Arc<Fake>, request: &ModelRequest) -> Result<loop_llm::ModelReply, LlmError> {
    complete(&Retrying::new(Arc::clone(fake), RetryPolicy::default()), request).await
}

// wire WE12
#[tokio::test(start_paused = true)]
async fn refused_reasoning_is_left_out_once() {
    let fake = Fake::new([stale()]);
    let reply = call(&fake, &reasoned()).await.unwrap();
    assert_eq!(reply.warnings, ["reasoning_stripped".into()]);
    let calls = fake.calls.lock().unwrap();
    assert_eq!((calls.len(), calls[0].0), (2, calls[1].0), "at once");
    assert_eq!(calls[0].1, reasoned());
    let mut wanted = reasoned();
    wanted.messages.remove(1);
    if let Message::Assistant(turn) = &mut wanted.messages[1] {
        (turn.reasoning, turn.raw) = ("".into(), None);
    }
    assert_eq!(calls[1].1, wanted);
}

// wire WE12
#[tokio::test(start_paused = true)]
async fn there_is_never_a_third_try() {
    let fake = Fake::new([stale(), stale(), stale()]);
    let error = call(&fake, &reasoned()).await.unwrap_err();
    assert_eq!((error.kind, error.retry, fake.count()), (FailureKind::StaleReasoning, RetryAdvice::Never, 2));
}

#[tokio::test(start_paused = true)]
async fn where_nothing_was_reasoned_the_same_request_would_fail_again() {
    let fake = Fake::new([stale()]);
    let error = call(&fake, &request()).await.unwrap_err();
    assert_eq!((error.retry, fake.count()), (RetryAdvice::Never, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stripped_request_stays_stripped_and_is_tried_again_like_any_other() {
    let busy = || Step::Refuse(error(FailureKind::ServerError));
    let fake = Fake::new([busy(), stale(), busy(), busy(), busy()]);
    let error = call(&fake, &reasoned()).await.unwrap_err();
    assert_eq!((error.kind, error.retry, fake.count()), (FailureKind::ServerError, RetryAdvice::Never, 5));
    let turns: Vec<usize> =
        fake.calls.lock().unwrap().iter().map(|(_, request)| request.messages.len()).collect();
    assert_eq!(turns, [4, 4, 3, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn other_changes_are_the_callers() {
    for change in [RequestChange::RebuildState, RequestChange::OtherApi, RequestChange::Feedback] {
        let advice = RetryAdvice::AfterChange(change);
        let fake = Fake::new([Step::Refuse(LlmError { retry: advice, ..error(FailureKind::StateLost) })]);
        let error = call(&fake, &reasoned()).await.unwrap_err();
        assert_eq!((error.retry, fake.count()), (advice, 1));
    }
}

/// A refusal of a wrapper below, which sent nothing.
fn unsent(seconds: u64) -> LlmError {
    LlmError {
        phase: ErrorPhase::Encode,
        retry: RetryAdvice::After(Duration::from_secs(seconds)),
        ..error(FailureKind::Overloaded)
    }
}

#[tokio::test(start_paused = true)]
async fn the_refusal_of_a_wrapper_below_is_not_slept_away() {
    let fake = Fake::new([Step::Refuse(unsent(30))]);
    let began = tokio::time::Instant::now();
    let error = call(&fake, &patient(600)).await.unwrap_err();
    assert_eq!((error, fake.count(), began.elapsed()), (unsent(30), 1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn what_was_billed_stays_billed_when_the_last_try_was_free() {
    let failed = |message: &str| {
        let mut failed = LlmError { message: message.into(), ..error(FailureKind::ServerError) };
        failed.detail.get_or_insert_default().status = Some(500);
        failed
    };
    let mut busy = error(FailureKind::RateLimited);
    busy.detail.get_or_insert_default().status = Some(429);
    assert!(busy.is_free() && unsent(30).is_free() && !failed("").is_free());
    let fake = Fake::new([failed("one"), failed("two"), unsent(30)].map(Step::Refuse));
    let wanted = LlmError { retry: unsent(30).retry, ..failed("two") };
    assert_eq!(call(&fake, &patient(600)).await.unwrap_err(), wanted);
    // A server that is busy in the end has not taken back what it did before.
    let late = LlmError { retry: RetryAdvice::After(Duration::from_secs(500)), ..busy };
    let fake = Fake::new([failed("one"), late.clone()].map(Step::Refuse));
    let last = call(&fake, &request()).await.unwrap_err();
    assert_eq!((last.kind, last.retry, last.is_free()), (late.kind, late.retry, false));
    let fake = Fake::new([late.clone()].map(Step::Refuse));
    assert_eq!(call(&fake, &request()).await.unwrap_err(), late);
}

#[tokio::test(start_paused = true)]
async fn each_try_is_told_how_much_time_is_left() {
    let asks = Step::Refuse(wrap_common::asks(FailureKind::RateLimited, 20));
    let fake = Fake::new([asks, Step::Give(vec![Ok(finished("hi", 1))], Duration::ZERO)]);
    call(&fake, &patient(60)).await.unwrap();
    let calls = fake.calls.lock().unwrap();
    let waited = (calls[1].0 - calls[0].0).as_millis() as u64;
    assert!((20_000..=22_001).contains(&waited), "{waited}");
    let left: Vec<u64> = calls.iter().map(|(_, request)| request.meta.timeout_ms.unwrap()).collect();
    assert_eq!(left[0], 60_000);
    assert!(left[1].abs_diff(60_000 - waited) <= 1, "{left:?}");
}
