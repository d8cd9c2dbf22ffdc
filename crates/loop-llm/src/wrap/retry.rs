//! Trying again what failed before the first byte of a reply and costs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use loop_core::CallExtent;

use super::{Item, Patience, Watch, watched};
use crate::codec::Memory;
use crate::error::{ErrorPhase, LlmError, LlmErrorKind, RequestChange, RetryAdvice};
use crate::model::{ChatModel, EventStream, ModelEvent};
use crate::progress::CallProgress;
use crate::request::{AssistantTurn, Message, ModelRequest};
use crate::secrets::Secrets;

/// How often, and how soon, a failed call is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The longest wait that a server may ask for and still be waited for; a longer one is left to the caller.
    pub max_server_delay: Duration,
    /// Where the chance in the waits begins: the same seed gives the same waits.
    pub seed: u64,
}

impl Default for RetryPolicy {
    /// A minute, and seed 0.
    fn default() -> Self {
        Self { max_server_delay: Duration::from_secs(60), seed: 0 }
    }
}

/// A model whose calls are tried again where they failed before the first byte of a reply and cost nothing.
///
/// That is a call that was never sent, since there was no connection or another wrapper refused it, and one that the server
/// answered with an error status. With [`strict_cost`](crate::RequestMeta::strict_cost) the status has to say that no model
/// saw the call ([`LlmError::is_free`]: 3xx, 4xx, 503 and 529). Any other failure may be billed, such as a connection lost
/// after the request was sent, or no first byte in time: it comes back with the advice of its kind, and the caller
/// tries again with a reserve of its own.
///
/// | kind | first wait, doubling | longest | tries again |
/// |---|---|---|---|
/// | `rate_limited` | 1 s | 60 s | 5 |
/// | `overloaded` | 2 s | 60 s | 5 |
/// | `server_error`, `timeout`, `connection` | 0.5 s | 8 s | 3 |
/// | any other, where its error advises it | 0.5 s | 8 s | 1 |
///
/// A request whose reasoning is refused ([`RequestChange::StripReasoning`]) is sent once more at once, without the
/// reasoning and the provider's own form of earlier turns; a reply to it warns `reasoning_stripped`. Any other
/// change is the caller's to make, and such an error comes back as it is.
///
/// A wait is drawn evenly from nothing up to the value of the table; one that the server asked for is kept, and up to
/// a tenth is added. An error that comes back after the last try advises [`RetryAdvice::Never`], so that nobody
/// multiplies the tries; one whose server asks for more than `max_server_delay`, or whose wait does not fit into the
/// request's `timeout_ms`, comes back at once with [`RetryAdvice::After`], and so does the refusal of a wrapper below
/// that names a wait: an open breaker is not waited for, so that a caller with another route may take it. Dropping the
/// call ends the waiting.
///
/// Where one of the tries was not [free](LlmError::is_free), what comes back is not free either: the last error that
/// may be billed, with the advice of the newest.
#[derive(Debug)]
pub struct Retrying<M: ?Sized> {
    policy: RetryPolicy,
    state: AtomicU64,
    inner: Arc<M>,
}

impl<M: ChatModel + ?Sized> Retrying<M> {
    /// The same model, tried again by `policy`.
    pub fn new(inner: Arc<M>, policy: RetryPolicy) -> Self {
        Self { policy, state: AtomicU64::new(policy.seed), inner }
    }

    /// The wait before the try after `failures` failed ones; `None` where there is none.
    fn wait(&self, error: &LlmError, failures: u32) -> Option<Duration> {
        let row = row(error.kind);
        if failures > row.tries {
            return None;
        }
        match error.retry {
            RetryAdvice::Never | RetryAdvice::AfterChange(_) => None,
            RetryAdvice::After(delay) => Some(delay + self.up_to(delay / 10)),
            RetryAdvice::Backoff => {
                let doubled = row.first.saturating_mul(1 << failures.saturating_sub(1).min(16));
                Some(self.up_to(doubled.min(row.longest)))
            }
        }
    }

    /// An even draw from nothing up to `max`, to the microsecond.
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

    /// All tries; the last of those that failed and may be billed is left in `billed`.
    async fn tries(
        &self,
        request: &ModelRequest,
        billed: &mut Option<LlmError>,
    ) -> Result<EventStream, LlmError> {
        let mut failures = 0;
        let patience = Patience::of(request);
        let mut stripped: Option<ModelRequest> = None;
        loop {
            let requested = stripped.as_ref().unwrap_or(request);
            let mut error = match self.inner.stream(&patience.rest(requested)).await {
                Ok(events) if stripped.is_some() => return Ok(watched(events, Stripped)),
                Ok(events) => return Ok(events),
                Err(error) => error,
            };
            if !error.is_free() {
                // Of several the one counts that came farthest.
                let begun = billed.as_ref().map_or(CallExtent::NoReply, LlmError::extent);
                let is_farther = begun != CallExtent::NoReply && error.extent() == CallExtent::NoReply;
                *billed =
                    Some(if is_farther { error.clone().after_a_billed_one(begun) } else { error.clone() });
            }
            if !error.repeats_within_reserve(request.meta.strict_cost) {
                return Err(error);
            }
            match error.retry {
                // Nothing was sent: another wrapper refused it, and says when it will not.
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
                // The caller would be gone by then: it decides whether to wait as long by itself.
                error.retry = RetryAdvice::After(wait);
                return Err(error);
            }
            request.progress.tell(&CallProgress::Retrying {
                next_try: failures + 1,
                wait,
                kind: error.kind,
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

    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let mut billed = None;
        self.tries(request, &mut billed).await.map_err(|error| match billed {
            // Whoever refused to ask at all says nothing of why.
            Some(billed) if error.is_free() && error.phase == ErrorPhase::Encode => {
                LlmError { retry: error.retry, ..billed }
            }
            Some(billed) => error.after_a_billed_one(billed.extent()),
            None => error,
        })
    }
}

/// Says of a reply that its request was changed.
struct Stripped;

impl Watch for Stripped {
    fn see(&mut self, item: &mut Item) {
        if let Ok(ModelEvent::Finished(reply)) = item {
            reply.warnings.push("reasoning_stripped".into());
        }
    }
}

/// The request without what earlier turns reasoned; `None` where there is nothing of it.
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
    // A turn of nothing but reasoning is no turn.
    without.messages.retain(
        |message| !matches!(message, Message::Assistant(turn) if turn.text.is_empty() && turn.calls.is_empty()),
    );
    // What is kept of the whole turns serves the requests that come later.
    without.memory = Memory::default();
    Some(without)
}

struct Row {
    first: Duration,
    longest: Duration,
    tries: u32,
}

fn row(kind: LlmErrorKind) -> Row {
    let row = |first, longest, tries| Row {
        first: Duration::from_millis(first),
        longest: Duration::from_secs(longest),
        tries,
    };
    match kind {
        LlmErrorKind::RateLimited => row(1_000, 60, 5),
        LlmErrorKind::Overloaded => row(2_000, 60, 5),
        LlmErrorKind::ServerError | LlmErrorKind::Timeout | LlmErrorKind::Connection => row(500, 8, 3),
        _ => row(500, 8, 1),
    }
}
