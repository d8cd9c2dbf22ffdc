//! A circuit breaker: stops calling a provider that keeps failing.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use tokio::time::Instant;

use super::{CallerTimeout, Item, Watch, later, watched};
use crate::error::{ErrorPhase, LlmError, RetryAdvice};
use crate::model::{ChatModel, EventStream, ModelEvent};
use crate::request::ModelRequest;
use crate::scripted::RequestPurpose;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Consecutive failures of the provider after which it opens.
    pub failures: NonZeroU32,
    /// How long it stays open before one probe is let through.
    pub rest: Duration,
}

impl Default for BreakerPolicy {
    /// Five failures, 30 seconds.
    fn default() -> Self {
        Self { failures: NonZeroU32::MIN.saturating_add(4), rest: Duration::from_secs(30) }
    }
}

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Calls are let through.
    Closed,
    /// Calls are refused.
    Open,
    /// One call is let through as a probe. Others are refused until it has ended.
    HalfOpen,
}

/// The breaker of a provider: one for all models of a profile, a clone with each of them.
///
/// ```text
///           n failures in a row                 its rest is over
///  Closed ──────────────────────▶ Open ──────────────────────────────▶ HalfOpen
///    ▲                             ▲                                    │   │  ▲ │
///    │                             └──────── the probe fails ───────────┘   │  └─┘ it is dropped:
///    └─────────────────────────── the probe is answered ────────────────────┘      the next one is the probe
/// ```
///
/// Failures are [`Overloaded`](FailureKind::Overloaded), [`ServerError`](FailureKind::ServerError),
/// [`Timeout`](FailureKind::Timeout), [`Connection`](FailureKind::Connection) and
/// [`StreamInterrupted`](FailureKind::StreamInterrupted), in the middle of a reply as well, and a call that its caller
/// left because its `timeout_ms` was over. A complete reply resets the count. Errors that the request caused, and calls
/// that did not reach the provider, do not change it. Calls that end after the breaker has opened are not counted.
#[derive(Clone, Debug)]
pub struct BreakerHandle {
    policy: BreakerPolicy,
    state: Arc<Mutex<BreakerInner>>,
}

#[derive(Debug)]
struct BreakerInner {
    phase: Phase,
    /// Incremented with each change of phase: the results of earlier calls are ignored.
    age: u64,
    /// The message of the last failure.
    last: Arc<str>,
}

#[derive(Debug)]
enum Phase {
    Closed { failures: u32 },
    Open { until: Instant },
    Probing,
}

impl BreakerInner {
    fn turn(&mut self, phase: Phase) {
        self.phase = phase;
        self.age += 1;
    }
}

/// What one call shows about its provider.
#[derive(Clone, Debug)]
enum Judgement {
    /// A complete reply.
    Replied,
    /// An answer that the request is invalid.
    Answered,
    /// A failure, with its message.
    Failed(Arc<str>),
    Nothing,
}

impl BreakerHandle {
    /// A closed breaker.
    pub fn new(policy: BreakerPolicy) -> Self {
        let state = BreakerInner { phase: Phase::Closed { failures: 0 }, age: 0, last: Arc::default() };
        Self { policy, state: Arc::new(Mutex::new(state)) }
    }

    /// The state that a call would meet now.
    pub fn state(&self) -> BreakerState {
        match self.lock().phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { until } if Instant::now() < until => BreakerState::Open,
            Phase::Open { .. } | Phase::Probing => BreakerState::HalfOpen,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BreakerInner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call through, or refuses it.
    fn enter(&self, patience: CallerTimeout) -> Result<Call, LlmError> {
        let mut state = self.lock();
        let now = Instant::now();
        match state.phase {
            Phase::Closed { .. } => {}
            Phase::Open { until } if now < until => return Err(refusal(&state.last, until - now)),
            // It is unknown when the probe will end.
            Phase::Probing => return Err(refusal(&state.last, self.policy.rest)),
            Phase::Open { .. } => state.turn(Phase::Probing),
        }
        Ok(Call { breaker: self.clone(), age: state.age, patience, judgement: None })
    }

    fn judge(&self, age: u64, judgement: Judgement) {
        let mut state = self.lock();
        if state.age != age {
            return;
        }
        let until = later(Instant::now(), self.policy.rest);
        match (&mut state.phase, judgement) {
            (Phase::Closed { failures }, Judgement::Replied) => *failures = 0,
            (Phase::Closed { failures }, Judgement::Failed(last)) => {
                *failures += 1;
                let is_enough = *failures >= self.policy.failures.get();
                state.last = last;
                if is_enough {
                    state.turn(Phase::Open { until });
                }
            }
            (Phase::Probing, Judgement::Replied | Judgement::Answered) => {
                state.turn(Phase::Closed { failures: 0 });
            }
            (Phase::Probing, Judgement::Failed(last)) => {
                state.last = last;
                state.turn(Phase::Open { until });
            }
            // The open time is over: the next call is the probe.
            (Phase::Probing, Judgement::Nothing) => state.turn(Phase::Open { until: Instant::now() }),
            (Phase::Closed { .. }, Judgement::Answered | Judgement::Nothing) | (Phase::Open { .. }, _) => {}
        }
    }
}

fn refusal(last: &str, rest: Duration) -> LlmError {
    let message = format!(
        "the provider has failed too often to be asked again at once, the last time with \"{last}\"; \
         the next call may go out in {:.1} s",
        rest.as_secs_f64()
    );
    let mut error = LlmError::unsendable(FailureKind::Overloaded, message);
    error.retry = RetryAdvice::After(rest);
    error
}

fn judged(error: &LlmError) -> Judgement {
    // Nothing was sent: another wrapper, or the encoder, refused it. A server that never answered is not worth waiting for.
    if error.phase == ErrorPhase::Encode
        || error.phase == ErrorPhase::Connect && error.retry == RetryAdvice::Never
    {
        return Judgement::Nothing;
    }
    match error.kind {
        FailureKind::Overloaded
        | FailureKind::ServerError
        | FailureKind::Timeout
        | FailureKind::Connection
        | FailureKind::StreamInterrupted => Judgement::Failed(error.to_string().into()),
        // It is unknown whether the provider or a proxy wrote it.
        FailureKind::BadResponse | FailureKind::Cancelled | FailureKind::ScriptExhausted => {
            Judgement::Nothing
        }
        _ => Judgement::Answered,
    }
}

/// A call that was let through.
#[derive(Debug)]
struct Call {
    breaker: BreakerHandle,
    age: u64,
    patience: CallerTimeout,
    judgement: Option<Judgement>,
}

impl Watch for Call {
    fn see(&mut self, item: &mut Item) {
        match item {
            Ok(ModelEvent::Finished(_)) => self.judgement = Some(Judgement::Replied),
            Ok(_) => {}
            Err(error) => self.judgement = Some(judged(error)),
        }
    }

    fn broke_off(&mut self) {
        self.judgement = Some(Judgement::Failed("the reply ended without its end".into()));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let left = || match self.patience.is_over() {
            true => Judgement::Failed("no whole reply in the caller's time".into()),
            false => Judgement::Nothing,
        };
        let judgement = self.judgement.take().unwrap_or_else(left);
        self.breaker.judge(self.age, judgement);
    }
}

/// A model that is not called while its [`BreakerHandle`] is open.
///
/// A refused call fails at once and costs nothing: [`FailureKind::Overloaded`] in [`ErrorPhase::Encode`], with the rest
/// of the open time as [`RetryAdvice::After`].
#[derive(Debug)]
pub struct CircuitBreaker<M: ?Sized> {
    breaker: BreakerHandle,
    inner: Arc<M>,
}

impl<M: ChatModel + ?Sized> CircuitBreaker<M> {
    /// Wraps `inner` with the breaker `breaker`.
    pub fn new(inner: Arc<M>, breaker: BreakerHandle) -> Self {
        Self { breaker, inner }
    }
}

#[async_trait]
impl<M: ChatModel + ?Sized> ChatModel for CircuitBreaker<M> {
    fn secrets(&self) -> Secrets {
        self.inner.secrets()
    }

    fn masks(&self) -> bool {
        self.inner.masks()
    }

    fn resumes(&self, run: &str, answered: &[RequestPurpose]) {
        self.inner.resumes(run, answered);
    }

    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let mut call = self.breaker.enter(CallerTimeout::of(request))?;
        match self.inner.stream(request).await {
            Ok(events) => Ok(watched(events, call)),
            Err(error) => {
                call.judgement = Some(judged(&error));
                Err(error)
            }
        }
    }
}
