//! Retries calls that failed before the first byte of a reply and cost nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use loop_core::secrets::Secrets;
use loop_core::types::{CallExtent, FailureKind};

use super::{CallerTimeout, Item, Watch, watched};
use crate::codec::Memory;
use crate::error::{ErrorPhase, LlmError, RequestChange, RetryAdvice};
use crate::model::{ChatModel, EventStream, ModelEvent};
use crate::progress::CallProgress;
use crate::request::{AssistantTurn, Message, ModelRequest};
use crate::scripted::RequestPurpose;

/// The limits and the seed of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The longest delay that a server may request and that is waited for. An error with a longer one is returned.
    pub max_server_delay: Duration,
    /// The seed of the jitter: the same seed gives the same waits.
    pub seed: u64,
}

impl Default for RetryPolicy {
    /// One minute, and seed 0.
    fn default() -> Self {
        Self { max_server_delay: Duration::from_secs(60), seed: 0 }
    }
}

/// A model whose calls are retried if they failed before the first byte of a reply and cost nothing.
///
/// These are calls that were never sent, because there was no connection or another wrapper refused them, and calls that
/// the server answered with an error status. With [`strict_cost`](crate::request::RequestMeta::strict_cost) the status has to show
/// that no model saw the call ([`LlmError::is_free`]: 3xx, 4xx, 503 and 529). Any other failure may be billed, such as a
/// connection lost after the request was sent, or a timeout before the first byte: the error is returned with the advice
/// of its kind, and the caller retries with a budget reserve of its own.
///
/// | kind | first wait, doubling | longest | retries |
/// |---|---|---|---|
/// | `rate_limited` | 1 s | 60 s | 5 |
/// | `overloaded` | 2 s | 60 s | 5 |
/// | `server_error`, `timeout`, `connection` | 0.5 s | 8 s | 3 |
/// | any other, if its error advises it | 0.5 s | 8 s | 1 |
///
/// A request whose reasoning is refused ([`RequestChange::StripReasoning`]) is sent once more at once, without the
/// reasoning and the provider's own form of earlier turns. Its reply has the warning `reasoning_stripped`. Any other
/// change is up to the caller, and the error is returned unchanged.
///
/// A connection that is refused, or a host without an address, is not retried before the server has answered this process for
/// the first time: it is probably off or misspelt.
///
/// A wait is a random part of the value in the table (full jitter). A delay requested by the server is kept, plus up to a
/// tenth. The error after the last attempt advises [`RetryAdvice::Never`], so that callers do not multiply the retries.
/// An error is returned at once with [`RetryAdvice::After`] if its server requests more than `max_server_delay`, or if
/// the wait does not fit into the request's `timeout_ms`. So is the refusal of an inner wrapper with a delay: an open
/// breaker is not waited for, so that a caller with another route may take it. Dropping the call ends the wait.
///
/// If one of the attempts was not [free](LlmError::is_free), the returned error is not free either: it is the last error
/// that may be billed, with the advice of the newest.
#[derive(Debug)]
pub struct Retrying<M: ?Sized> {
    policy: RetryPolicy,
    state: AtomicU64,
    inner: Arc<M>,
}

impl<M: ChatModel + ?Sized> Retrying<M> {
    /// Wraps `inner` with this policy.
    pub fn new(inner: Arc<M>, policy: RetryPolicy) -> Self {
        Self { policy, state: AtomicU64::new(policy.seed), inner }
    }

    /// The wait after so many failed attempts; `None` for no retry.
    fn wait(&self, error: &LlmError, failures: u32) -> Option<Duration> {
        let (first, longest, retries) = row(error.kind);
        if failures > retries {
            return None;
        }
        match error.retry {
            RetryAdvice::Never | RetryAdvice::AfterChange(_) => None,
            RetryAdvice::After(delay) => Some(delay + self.up_to(delay / 10)),
            RetryAdvice::Backoff => {
                let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16));
                Some(self.up_to(doubled.min(longest)))
            }
        }
    }

    /// A uniform random duration up to `max`, in microseconds.
    fn up_to(&self, max: Duration) -> Duration {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        // SplitMix64: a counter and a mixer, so that parallel calls need no lock.
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let max = u64::try_from(max.as_micros()).unwrap_or(u64::MAX - 1);
        Duration::from_micros(((u128::from(z) * (u128::from(max) + 1)) >> 64) as u64)
    }

    /// All attempts. The last failed one that may be billed is left in `billed`.
    async fn tries(
        &self,
        request: &ModelRequest,
        billed: &mut Option<LlmError>,
    ) -> Result<EventStream, LlmError> {
        let mut failures = 0;
        let patience = CallerTimeout::of(request);
        let mut stripped: Option<ModelRequest> = None;
        loop {
            let requested = stripped.as_ref().unwrap_or(request);
            let mut error = match self.inner.stream(&patience.rest(requested)).await {
                Ok(events) if stripped.is_some() => return Ok(watched(events, StripWarning)),
                Ok(events) => return Ok(events),
                Err(error) => error,
            };
            if !error.is_free() {
                // Of several attempts the furthest counts.
                let begun = billed.as_ref().map_or(CallExtent::NoReply, LlmError::extent);
                let is_farther = begun != CallExtent::NoReply && error.extent() == CallExtent::NoReply;
                *billed =
                    Some(if is_farther { error.clone().after_a_billed_one(begun) } else { error.clone() });
            }
            if !error.repeats_within_reserve(request.meta.strict_cost) {
                return Err(error);
            }
            match error.retry {
                // Nothing was sent: another wrapper refused it, and requests a delay.
                RetryAdvice::After(_) if error.phase == ErrorPhase::Encode => return Err(error),
                RetryAdvice::AfterChange(RequestChange::StripReasoning) => {
                    let without = stripped.is_none().then(|| without_reasoning(request)).flatten();
                    if without.is_some() {
                        stripped = without;
                        continue;
                    }
                }
                RetryAdvice::AfterChange(_) => return Err(error),
                RetryAdvice::After(delay) if delay > self.policy.max_server_delay => return Err(error),
                RetryAdvice::Never | RetryAdvice::After(_) | RetryAdvice::Backoff => {}
            }
            failures += 1;
            let Some(wait) = self.wait(&error, failures) else {
                error.retry = RetryAdvice::Never;
                return Err(error);
            };
            if !patience.covers(wait) {
                // The caller's timeout would be over: it decides whether to wait that long.
                error.retry = RetryAdvice::After(wait);
                return Err(error);
            }
            request.progress.tell(&CallProgress::Retrying {
                next_try: failures + 1,
                wait,
                kind: error.kind,
                status: error.detail.as_ref().and_then(|detail| detail.status),
                message: Arc::clone(&error.message),
                is_free: error.is_free(),
            });
            tokio::time::sleep(wait).await;
            request.progress.tell(&CallProgress::Sent);
        }
    }
}

#[async_trait]
impl<M: ChatModel + ?Sized> ChatModel for Retrying<M> {
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
        let mut billed = None;
        self.tries(request, &mut billed).await.map_err(|error| match billed {
            // A wrapper's refusal says nothing about the cause.
            Some(billed) if error.is_free() && error.phase == ErrorPhase::Encode => {
                LlmError { retry: error.retry, ..billed }
            }
            Some(billed) => error.after_a_billed_one(billed.extent()),
            None => error,
        })
    }
}

/// Adds the warning that the request was changed.
struct StripWarning;

impl Watch for StripWarning {
    fn see(&mut self, item: &mut Item) {
        if let Ok(ModelEvent::Finished(reply)) = item {
            reply.warnings.push("reasoning_stripped".into());
        }
    }
}

/// The request without the reasoning of earlier turns; `None` if there is none.
fn without_reasoning(request: &ModelRequest) -> Option<ModelRequest> {
    let holds = |turn: &AssistantTurn| turn.raw.is_some() || !turn.reasoning.is_empty();
    let is_any =
        request.messages.iter().any(|message| matches!(message, Message::Assistant(turn) if holds(turn)));
    let mut without = is_any.then(|| request.clone())?;
    for message in &mut without.messages {
        if let Message::Assistant(turn) = message {
            turn.raw = None;
            turn.reasoning = Arc::default();
        }
    }
    // A turn with only reasoning becomes empty and is dropped.
    without.messages.retain(
        |message| !matches!(message, Message::Assistant(turn) if turn.text.is_empty() && turn.calls.is_empty()),
    );
    // The cache of the complete turns is left for later requests.
    without.memory = Memory::default();
    Some(without)
}

/// The first wait, which doubles, the longest, and the number of retries.
fn row(kind: FailureKind) -> (Duration, Duration, u32) {
    let (first, longest, retries) = match kind {
        FailureKind::RateLimited => (1_000, 60, 5),
        FailureKind::Overloaded => (2_000, 60, 5),
        FailureKind::ServerError | FailureKind::Timeout | FailureKind::Connection => (500, 8, 3),
        _ => (500, 8, 1),
    };
    (Duration::from_millis(first), Duration::from_secs(longest), retries)
}
