//! What is tried again, how often, and how soon.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::types::FailureKind;
use loop_llm::error::RetryAdvice;
use loop_llm::wrap::{RetryPolicy, Retrying};
use loop_llm::{ChatModel, ErrorPhase, EventStream, LlmError, ModelRequest, Scripted, complete};
use tokio::time::Instant;

/// Fails a number of times, then replies.
#[derive(Debug)]
struct Failing {
    error: LlmError,
    times: Mutex<u32>,
    calls: Mutex<Vec<Instant>>,
    in_stream: bool,
}

#[async_trait]
impl ChatModel for Failing {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        self.calls.lock().unwrap().push(Instant::now());
        let fails = {
            let mut times = self.times.lock().unwrap();
            let fails = *times > 0;
            *times = times.saturating_sub(1);
            fails
        };
        match (fails, self.in_stream) {
            (true, true) => Ok(futures::stream::iter([Err(self.error.clone())]).boxed()),
            (true, false) => Err(self.error.clone()),
            (false, _) => Scripted::replies(["Hi"]).stream(request).await,
        }
    }
}

fn failing(kind: FailureKind, retry: Option<RetryAdvice>, times: u32) -> Arc<Failing> {
    // None of them reached the server.
    let mut error = LlmError::new(kind, ErrorPhase::Connect, "no");
    error.retry = retry.unwrap_or(error.retry);
    Arc::new(Failing { error, times: Mutex::new(times), calls: Mutex::default(), in_stream: false })
}

/// How it ended, and the waits between the tries.
async fn run(model: &Arc<Failing>, seed: u64) -> (Result<(), LlmError>, Vec<Duration>) {
    let inner: Arc<dyn ChatModel> = Arc::clone(model) as _;
    let retrying = Retrying::new(inner, RetryPolicy { seed, ..RetryPolicy::default() });
    let end = complete(&retrying, &ModelRequest::new("m", "s", "u")).await.map(|_| ());
    let calls = model.calls.lock().unwrap();
    (end, calls.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

// L2, L5
#[tokio::test(start_paused = true)]
async fn tries_are_counted_by_kind_and_then_nobody_tries() {
    let table = [
        (FailureKind::RateLimited, 5, 1_000, 60_000),
        (FailureKind::Overloaded, 5, 2_000, 60_000),
        (FailureKind::ServerError, 3, 500, 8_000),
        (FailureKind::Timeout, 3, 500, 8_000),
        (FailureKind::Connection, 3, 500, 8_000),
    ];
    for (kind, tries, first, longest) in table {
        let (end, waits) = run(&failing(kind, None, 99), 1).await;
        assert_eq!((end.unwrap_err().retry, waits.len()), (RetryAdvice::Never, tries), "{kind}");
        for (nth, wait) in waits.iter().enumerate() {
            let max = Duration::from_millis((first << nth).min(longest) + 1);
            assert!(*wait <= max, "{kind} {nth} {wait:?}");
        }
        let (end, waits) = run(&failing(kind, None, tries as u32), 1).await;
        assert_eq!((end, waits.len()), (Ok(()), tries));
    }
}

#[tokio::test(start_paused = true)]
async fn waits_are_drawn_from_the_seed() {
    let waits = async |seed| run(&failing(FailureKind::Overloaded, None, 99), seed).await.1;
    assert_eq!(waits(5).await, waits(5).await);
    assert_ne!(waits(5).await, waits(6).await);
}

// L4
#[tokio::test(start_paused = true)]
async fn what_fails_again_is_not_tried_again() {
    for kind in [
        FailureKind::Auth,
        FailureKind::InvalidRequest,
        FailureKind::ContextTooLong,
        FailureKind::ModelNotFound,
    ] {
        assert_eq!(run(&failing(kind, None, 1), 1).await.1.len(), 0);
    }
    let (end, waits) = run(&failing(FailureKind::ServerError, Some(RetryAdvice::Never), 1), 1).await;
    assert_eq!((end.unwrap_err().retry, waits.len()), (RetryAdvice::Never, 0));
    assert_eq!(run(&failing(FailureKind::InvalidRequest, Some(RetryAdvice::Backoff), 1), 1).await.0, Ok(()));
}

// wire WE23
#[tokio::test(start_paused = true)]
async fn a_servers_delay_is_kept_or_left_to_the_caller() {
    let requested = |seconds| Some(RetryAdvice::After(Duration::from_secs(seconds)));
    let (end, waits) = run(&failing(FailureKind::RateLimited, requested(30), 1), 1).await;
    assert_eq!(end, Ok(()));
    assert!((Duration::from_secs(30)..=Duration::from_millis(33_001)).contains(&waits[0]), "{waits:?}");
    let (end, waits) = run(&failing(FailureKind::RateLimited, requested(61), 1), 1).await;
    assert_eq!((end.unwrap_err().retry, waits.len()), (requested(61).unwrap(), 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tried_again_after_the_first_byte() {
    let mut model = failing(FailureKind::Overloaded, None, 1);
    Arc::get_mut(&mut model).unwrap().in_stream = true;
    let (end, waits) = run(&model, 1).await;
    assert_eq!((end.unwrap_err().retry, waits.len()), (RetryAdvice::Backoff, 0));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_into_the_callers_time_is_the_callers_to_decide() {
    // L1
    let hurried = |kind, advice| async move {
        let model = failing(kind, advice, 99);
        let inner: Arc<dyn ChatModel> = Arc::clone(&model) as _;
        let retrying = Retrying::new(inner, RetryPolicy::default());
        let mut request = ModelRequest::new("m", "s", "u");
        request.meta.timeout_ms = Some(4_000);
        let began = Instant::now();
        let error = complete(&retrying, &request).await.unwrap_err();
        let calls = model.calls.lock().unwrap().len();
        (error.retry, calls, began.elapsed())
    };
    let requested = Some(RetryAdvice::After(Duration::from_secs(50)));
    let (retry, calls, took) = hurried(FailureKind::RateLimited, requested).await;
    assert!(matches!(retry, RetryAdvice::After(wait) if wait >= Duration::from_secs(50)), "{retry:?}");
    assert_eq!((calls, took), (1, Duration::ZERO), "nobody sleeps into the caller's time limit");
    let (_, calls, took) = hurried(FailureKind::ServerError, None).await;
    assert!(calls > 1 && took < Duration::from_secs(4), "{calls} {took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_may_be_billed_is_left_to_the_caller() {
    // P3, P4: one reserve pays for one call.
    let with = |kind, phase, status, strict| async move {
        let mut model = failing(kind, None, 1);
        let own = &mut Arc::get_mut(&mut model).unwrap().error;
        own.phase = phase;
        own.detail.get_or_insert_default().status = status;
        let inner: Arc<dyn ChatModel> = Arc::clone(&model) as _;
        let mut request = ModelRequest::new("m", "s", "u");
        request.meta.strict_cost = strict;
        let end = complete(&Retrying::new(inner, RetryPolicy::default()), &request).await;
        let calls = model.calls.lock().unwrap().len();
        (calls, end.map_or_else(|error| error.retry, |_| RetryAdvice::Never))
    };
    let (once, twice) = ((1, RetryAdvice::Backoff), (2, RetryAdvice::Never));
    for strict in [false, true] {
        for kind in [FailureKind::Timeout, FailureKind::Connection] {
            assert_eq!(with(kind, ErrorPhase::Headers, None, strict).await, once, "{kind} {strict}");
            assert_eq!(with(kind, ErrorPhase::Connect, None, strict).await, twice, "{kind} {strict}");
        }
        for status in [429, 503, 529] {
            let busy = with(FailureKind::Overloaded, ErrorPhase::Headers, Some(status), strict).await;
            assert_eq!(busy, twice, "{status} {strict}");
        }
    }
    for status in [500, 502, 504] {
        let failed = |strict| with(FailureKind::ServerError, ErrorPhase::Headers, Some(status), strict);
        assert_eq!((failed(false).await, failed(true).await), (twice, once), "{status}");
    }
}

#[test]
fn a_call_that_no_model_saw_is_free() {
    // L3: a server that failed may have generated something, one that refused has not.
    let with = |phase, status| {
        let mut error = LlmError::new(FailureKind::ServerError, phase, "no");
        error.detail.get_or_insert_default().status = status;
        error.is_free()
    };
    for status in [301, 307, 400, 401, 403, 404, 413, 429, 503, 529] {
        assert!(with(ErrorPhase::Headers, Some(status)), "{status}");
    }
    for status in [500, 502, 504] {
        assert!(!with(ErrorPhase::Headers, Some(status)), "{status}");
    }
    assert!(with(ErrorPhase::Encode, None) && with(ErrorPhase::Connect, None));
    assert!(!with(ErrorPhase::Stream, None) && !with(ErrorPhase::Headers, None));
}
