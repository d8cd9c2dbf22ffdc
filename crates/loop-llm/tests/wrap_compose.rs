//! The wrappers on top of one another, in the usual order and in all others.

use crate::{tape, wrap_common};

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use loop_llm::error::RetryAdvice;
use loop_llm::wrap::{
    BreakerHandle, BreakerPolicy, BreakerState, CircuitBreaker, RateGate, RateLimited, RateLimits,
    RecordedModel, RecordingModel, RetryPolicy, Retrying,
};
use loop_llm::{ChatModel, complete};
use tape::{Tape, hear};
use tokio::time::Instant;
use wrap_common::{Fake, Step, asks, broken, error, patient, request, stated};

/// One profile: what its models share.
struct Shared {
    breaker: BreakerHandle,
    gate: RateGate,
    tape: Tape,
}

impl Shared {
    fn new(failures: u32, at_once: u32) -> Self {
        let rest = Duration::from_secs(30);
        let at_once = NonZeroU32::new(at_once);
        Self {
            breaker: BreakerHandle::new(BreakerPolicy { failures: NonZeroU32::new(failures).unwrap(), rest }),
            gate: RateGate::new(RateLimits { calls_at_once: at_once, ..RateLimits::default() }),
            tape: Tape::new(Secrets::default()),
        }
    }

    /// One wrapper, by number.
    fn wrap(&self, which: usize, inner: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        match which {
            0 => Arc::new(RecordingModel::new(inner, self.tape.recorder.clone(), "base")),
            1 => Arc::new(RateLimited::new(inner, self.gate.clone())),
            2 => Arc::new(CircuitBreaker::new(inner, self.breaker.clone())),
            _ => Arc::new(Retrying::new(inner, RetryPolicy::default())),
        }
    }

    /// All of them, the first one innermost.
    fn stack(&self, order: [usize; 4], inner: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        order.into_iter().fold(inner, |inner, which| self.wrap(which, inner))
    }
}

const USUAL: [usize; 4] = [0, 1, 2, 3];

#[tokio::test(start_paused = true)]
async fn a_delay_is_waited_for_by_everybody_and_each_try_is_recorded() {
    let shared = Shared::new(5, 0);
    let fake = Fake::new([Step::Refuse(asks(FailureKind::RateLimited, 30))]);
    let (one, two) =
        (shared.stack(USUAL, Arc::clone(&fake) as _), shared.stack(USUAL, Arc::clone(&fake) as _));
    let began = Instant::now();
    let requested = request();
    let second = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        complete(&*two, &requested).await
    };
    let (first, second) = futures::join!(complete(&*one, &requested), second);
    assert!(first.is_ok() && second.is_ok());
    let at = fake.seconds(began);
    // The second waits for the first one's delay; the first adds up to a tenth.
    assert_eq!((at.len(), at[0], at[1]), (3, 0, 30));
    assert!((30..=33).contains(&at[2]), "{at:?}");
    let ends: Vec<String> =
        shared.tape.lines().iter().map(|line| line["end"]["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ends, ["refused", "reply", "reply"]);
}

#[tokio::test(start_paused = true)]
async fn tries_open_the_breaker_and_nobody_waits_for_it() {
    let shared = Shared::new(3, 1);
    let fake = Fake::new(vec![Step::Refuse(error(FailureKind::ServerError)); 3]);
    let model = shared.stack(USUAL, Arc::clone(&fake) as _);
    let began = Instant::now();
    let failed = complete(&*model, &patient(600)).await.unwrap_err();
    assert!(
        matches!(failed.retry, RetryAdvice::After(rest) if rest >= Duration::from_secs(29)),
        "{failed:?}"
    );
    // Three tries may be billed, whatever came after them.
    assert_eq!((failed.kind, failed.is_free()), (FailureKind::ServerError, false));
    assert_eq!((fake.count(), shared.breaker.state()), (3, BreakerState::Open));
    assert!(began.elapsed() < Duration::from_secs(4), "another route is free to be taken");
    let refused = complete(&*model, &patient(600)).await.unwrap_err();
    assert_eq!((refused.kind, refused.is_free(), fake.count()), (FailureKind::Overloaded, true, 3));
    tokio::time::sleep(Duration::from_secs(30)).await;
    complete(&*model, &patient(60)).await.unwrap();
    assert_eq!((fake.count(), shared.breaker.state()), (4, BreakerState::Closed));
    // What the breaker refused was never sent, so that no recording has it.
    assert_eq!(shared.tape.recorder.finish(), Ok(4));
}

#[tokio::test(start_paused = true)]
async fn whatever_the_order_a_call_ends_once_and_leaves_nothing_behind() {
    let orders = (0..256).map(|n| [n % 4, n / 4 % 4, n / 16 % 4, n / 64]);
    let orders: Vec<[usize; 4]> = orders.filter(|order| (0..4).all(|which| order.contains(&which))).collect();
    assert_eq!(orders.len(), 24);
    for order in orders {
        let shared = Shared::new(9, 1);
        let steps = [
            Step::Refuse(error(FailureKind::Overloaded)),
            Step::Give(stated("hi"), Duration::from_secs(1)),
            broken(FailureKind::StreamInterrupted),
            Step::HangAfterWord,
        ];
        let fake = Fake::new(steps);
        let model = shared.stack(order, Arc::clone(&fake) as _);
        let received = hear(&*model, &request()).await;
        assert_eq!((received.len(), received.iter().all(Result::is_ok)), (2, true), "{order:?}");
        let received = hear(&*model, &request()).await;
        assert_eq!(
            (received.len(), received[1].is_err()),
            (2, true),
            "nothing is tried again after the first byte"
        );
        let mut left = model.stream(&request()).await.unwrap();
        assert!(left.next().await.unwrap().is_ok());
        assert_eq!(fake.under_way.load(Ordering::SeqCst), 1);
        drop(left);
        assert_eq!(fake.under_way.load(Ordering::SeqCst), 0);
        // The one place at the gate is free again.
        assert!(complete(&*model, &patient(1)).await.is_ok(), "{order:?}");
        assert_eq!(shared.breaker.state(), BreakerState::Closed);
        // A recorder around the tries sees four calls, one below them five.
        let position = |which| order.iter().position(|wrapper| *wrapper == which).unwrap();
        let written = if position(0) < position(3) { 5 } else { 4 };
        assert_eq!(shared.tape.recorder.finish(), Ok(written), "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorded_run_with_its_tries_plays_back_through_the_same_wrappers() {
    let steps = [
        Step::Refuse(asks(FailureKind::RateLimited, 30)),
        Step::Refuse(error(FailureKind::ServerError)),
        Step::Give(stated("hi"), Duration::ZERO),
        broken(FailureKind::StreamInterrupted),
    ];
    let live = Shared::new(9, 1);
    let model = live.stack(USUAL, Fake::new(steps));
    let received = [hear(&*model, &request()).await, hear(&*model, &request()).await];
    let file = live.tape.text();
    let again = Shared::new(9, 1);
    let model = again.stack(USUAL, Arc::new(RecordedModel::read("x.jsonl", &file).unwrap()));
    assert_eq!([hear(&*model, &request()).await, hear(&*model, &request()).await], received);
    assert_eq!(again.tape.text(), file);
}
