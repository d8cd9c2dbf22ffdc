//! The circuit breaker: each of its states, and the ways between them.

use crate::wrap_common;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use loop_core::types::FailureKind;
use loop_llm::error::RetryAdvice;
use loop_llm::wrap::{BreakerHandle, BreakerPolicy, BreakerState, CircuitBreaker};
use loop_llm::{ChatModel, ErrorPhase, LlmError, ModelReply, ModelRequest, complete};
use wrap_common::{Fake, Step, broken, error, patient, request};

const REST: Duration = Duration::from_secs(30);

struct Rig {
    fake: Arc<Fake>,
    breaker: BreakerHandle,
    model: CircuitBreaker<Fake>,
}

/// A breaker that opens after three failures.
fn rig(steps: impl IntoIterator<Item = Step>) -> Rig {
    let fake = Fake::new(steps);
    let breaker = BreakerHandle::new(BreakerPolicy { failures: NonZeroU32::new(3).unwrap(), rest: REST });
    let model = CircuitBreaker::new(Arc::clone(&fake), breaker.clone());
    Rig { fake, breaker, model }
}

impl Rig {
    async fn call(&self) -> Result<ModelReply, LlmError> {
        complete(&self.model, &request()).await
    }

    /// Fails until it opens.
    async fn open(&self) {
        let steps = (0..3).map(|_| Step::Refuse(error(FailureKind::ServerError)));
        let rest: Vec<Step> = self.fake.steps.lock().unwrap().drain(..).collect();
        self.fake.steps.lock().unwrap().extend(steps.chain(rest));
        for _ in 0..3 {
            assert!(self.call().await.is_err());
        }
        assert_eq!(self.breaker.state(), BreakerState::Open);
    }

    /// Open, and its rest is over.
    async fn half_open(&self) {
        self.open().await;
        tokio::time::advance(REST).await;
        assert_eq!(self.breaker.state(), BreakerState::HalfOpen);
    }
}

const PROVIDERS: [FailureKind; 5] = [
    FailureKind::Overloaded,
    FailureKind::ServerError,
    FailureKind::Timeout,
    FailureKind::Connection,
    FailureKind::StreamInterrupted,
];

#[tokio::test(start_paused = true)]
async fn failures_of_the_providers_making_open_it_wherever_they_come() {
    for kind in PROVIDERS {
        for step in [Step::Refuse(error(kind)), broken(kind)] {
            let rig = rig(vec![step; 4]);
            for _ in 0..3 {
                assert_eq!(rig.breaker.state(), BreakerState::Closed);
                assert_eq!(rig.call().await.unwrap_err().kind, kind);
            }
            assert_eq!(rig.breaker.state(), BreakerState::Open, "{kind}");
            rig.call().await.unwrap_err();
            assert_eq!(rig.fake.count(), 3, "an open breaker sends nothing");
        }
    }
    let silent = rig(vec![Step::Give(Vec::new(), Duration::ZERO); 3]);
    for _ in 0..3 {
        silent.call().await.unwrap_err();
    }
    assert_eq!(
        silent.breaker.state(),
        BreakerState::Open,
        "a stream without an end is one that was interrupted"
    );
}

#[tokio::test(start_paused = true)]
async fn the_requests_fault_counts_neither_way() {
    let faults = [
        FailureKind::InvalidRequest,
        FailureKind::Unsupported,
        FailureKind::Auth,
        FailureKind::Permission,
        FailureKind::ModelNotFound,
        FailureKind::Billing,
        FailureKind::QuotaExhausted,
        FailureKind::RequestTooLarge,
        FailureKind::ContextTooLong,
        FailureKind::StaleReasoning,
        FailureKind::StateLost,
        FailureKind::ContentFilter,
        FailureKind::MalformedToolCall,
        FailureKind::RateLimited,
        FailureKind::BadResponse,
        FailureKind::Cancelled,
        FailureKind::ScriptExhausted,
    ];
    for kind in faults {
        let many = rig(vec![Step::Refuse(error(kind)); 9]);
        for _ in 0..9 {
            many.call().await.unwrap_err();
        }
        assert_eq!(many.breaker.state(), BreakerState::Closed, "{kind}");
        let failed = || Step::Refuse(error(FailureKind::Timeout));
        let between = rig([failed(), failed(), Step::Refuse(error(kind)), failed()]);
        for _ in 0..4 {
            between.call().await.unwrap_err();
        }
        assert_eq!(between.breaker.state(), BreakerState::Open, "{kind} does not begin the count anew");
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_reply_begins_the_count_anew() {
    let failed = || Step::Refuse(error(FailureKind::Timeout));
    let stated = || Step::Give(wrap_common::stated("hi"), Duration::ZERO);
    let rig = rig([failed(), failed(), stated(), failed(), failed()]);
    for _ in 0..5 {
        drop(rig.call().await);
    }
    assert_eq!(rig.breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_refuses_at_once_and_for_nothing() {
    let rig = rig([]);
    rig.open().await;
    tokio::time::advance(Duration::from_secs(10)).await;
    let error = rig.call().now_or_never().expect("nobody waits").unwrap_err();
    assert_eq!((error.kind, error.phase), (FailureKind::Overloaded, ErrorPhase::Encode));
    assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(20)));
    assert!(error.is_free());
    assert_eq!(
        &*error.message,
        "the provider has failed too often to be asked again at once, the last time with \"server_error: no\"; \
         the next call may go out in 20.0 s"
    );
    assert_eq!(rig.fake.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_answered_closes_it() {
    let replied = Step::Give(wrap_common::stated("hi"), Duration::ZERO);
    for step in [replied, Step::Refuse(error(FailureKind::InvalidRequest))] {
        let rig = rig([step]);
        rig.half_open().await;
        drop(rig.call().await);
        assert_eq!(rig.breaker.state(), BreakerState::Closed);
        assert!(rig.call().await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_opens_it_for_another_rest() {
    for step in [Step::Refuse(error(FailureKind::Connection)), broken(FailureKind::StreamInterrupted)] {
        let rig = rig([step]);
        rig.half_open().await;
        rig.call().await.unwrap_err();
        let refused = rig.call().await.unwrap_err();
        assert_eq!(refused.retry, RetryAdvice::After(REST));
        tokio::time::advance(REST).await;
        assert!(rig.call().await.is_ok());
        assert_eq!(rig.breaker.state(), BreakerState::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn only_one_probe_goes_out() {
    let rig = rig([Step::HangAfterWord]);
    rig.half_open().await;
    let mut probe = rig.model.stream(&request()).await.unwrap();
    assert!(probe.next().await.unwrap().is_ok());
    for _ in 0..5 {
        let refused = rig.call().await.unwrap_err();
        assert_eq!((refused.phase, refused.retry), (ErrorPhase::Encode, RetryAdvice::After(REST)));
    }
    assert_eq!(rig.fake.count(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_left_does_not_leave_it_stuck() {
    // Left before it was answered, and in the middle of a reply; and one that could not be sent.
    let left = rig([
        Step::Hang,
        Step::HangAfterWord,
        Step::Refuse(LlmError::new(FailureKind::InvalidRequest, ErrorPhase::Encode, "cannot be sent")),
    ]);
    left.half_open().await;
    assert!(left.model.stream(&request()).now_or_never().is_none());
    assert_eq!(left.breaker.state(), BreakerState::HalfOpen);
    let mut stream = left.model.stream(&request()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    assert_eq!(left.breaker.state(), BreakerState::HalfOpen);
    assert_eq!(left.call().await.unwrap_err().phase, ErrorPhase::Encode);
    assert_eq!(left.breaker.state(), BreakerState::HalfOpen, "what was never sent says nothing");
    assert!(left.call().await.is_ok());
    assert_eq!(left.breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_ends_after_it_opened_is_not_counted() {
    let old = Step::Give(wrap_common::stated("late"), Duration::from_secs(1));
    let rig = rig([old, broken(FailureKind::Timeout)]);
    let mut replied = rig.model.stream(&request()).await.unwrap();
    let mut failed = rig.model.stream(&request()).await.unwrap();
    rig.open().await;
    while replied.next().await.is_some() {}
    assert_eq!(rig.breaker.state(), BreakerState::Open, "an old reply does not close it");
    tokio::time::advance(Duration::from_secs(27)).await;
    while failed.next().await.is_some() {}
    let rest = rig.call().await.unwrap_err().retry;
    assert_eq!(rest, RetryAdvice::After(Duration::from_secs(1)), "an old failure does not make it longer");
}

#[tokio::test(start_paused = true)]
async fn what_began_before_it_opened_says_nothing_about_the_probe() {
    let rig = rig([
        Step::Give(wrap_common::stated("late"), Duration::ZERO),
        broken(FailureKind::Timeout),
        Step::HangAfterWord,
    ]);
    let mut replied = rig.model.stream(&request()).await.unwrap();
    let mut failed = rig.model.stream(&request()).await.unwrap();
    let steps: Vec<Step> = rig.fake.steps.lock().unwrap().drain(..).collect();
    rig.half_open().await;
    rig.fake.steps.lock().unwrap().extend(steps);
    let probe = rig.model.stream(&request()).await.unwrap();
    while replied.next().await.is_some() {}
    assert_eq!(rig.call().await.unwrap_err().phase, ErrorPhase::Encode, "an old reply does not close it");
    while failed.next().await.is_some() {}
    drop(probe);
    assert_eq!(rig.breaker.state(), BreakerState::HalfOpen, "an old failure does not open it");
    assert!(rig.call().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_caller_left_counts_where_its_time_was_over() {
    let call = async |rig: &Rig, request: &ModelRequest, seconds| {
        let time = Duration::from_secs(seconds);
        assert!(tokio::time::timeout(time, complete(&rig.model, request)).await.is_err());
    };
    let late = rig([Step::Hang, Step::HangAfterWord, Step::Hang]);
    for _ in 0..3 {
        call(&late, &patient(20), 20).await;
    }
    assert_eq!(late.breaker.state(), BreakerState::Open);
    let early = rig(vec![Step::HangAfterWord; 6]);
    for request in [patient(20), request()] {
        for _ in 0..3 {
            call(&early, &request, 10).await;
        }
    }
    assert_eq!(early.breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn models_of_one_profile_share_it() {
    let rig = rig([]);
    rig.open().await;
    let other = Fake::new([]);
    let other_call = CircuitBreaker::new(Arc::clone(&other), rig.breaker.clone());
    assert!(complete(&other_call, &request()).await.is_err());
    assert_eq!(other.count(), 0);
}
