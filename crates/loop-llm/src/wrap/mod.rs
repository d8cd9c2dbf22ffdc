//! Wrappers around any model. They can be combined in any order and know no provider.
//!
//! ```text
//! Retrying ─▶ CircuitBreaker ─▶ RateLimited ─▶ RecordingModel ─▶ a model
//! retries      stops calling     waits          records
//! ```
//!
//! This order is the usual one: each retry waits for the rate limit again, an open breaker uses none of the limit, and a
//! recording contains each attempt.

mod breaker;
mod exchange;
mod masking;
mod rate;
mod record;
mod recorded;
mod retry;

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::time::Instant;

pub use breaker::{BreakerHandle, BreakerPolicy, BreakerState, CircuitBreaker};
pub use exchange::RECORDING_VERSION;
pub use rate::{RateGate, RateLimited, RateLimits};
pub use record::{Recorder, RecordingError, RecordingModel};
pub use recorded::{RecordedError, RecordedModel};
pub use retry::{RetryPolicy, Retrying};

use crate::error::LlmError;
use crate::model::{EventStream, ModelEvent};
use crate::request::ModelRequest;

type Item = Result<ModelEvent, LlmError>;

/// How long the caller of a request waits.
#[derive(Clone, Copy, Debug)]
struct CallerTimeout {
    began: Instant,
    limit: Option<Duration>,
}

impl CallerTimeout {
    fn of(request: &ModelRequest) -> Self {
        Self { began: Instant::now(), limit: request.meta.timeout_ms.map(Duration::from_millis) }
    }

    /// Whether a wait ends before the caller's timeout.
    fn covers(&self, wait: Duration) -> bool {
        self.end().is_none_or(|end| later(Instant::now(), wait) < end)
    }

    /// When the caller's timeout ends, if known. Its clock started a little earlier, so the last sixteenth of the time is
    /// not used: an error by then still reaches the caller.
    fn end(&self) -> Option<Instant> {
        self.limit.map(|limit| later(self.began, limit - limit / 16))
    }

    /// Whether a stream that is dropped now is dropped because of the timeout.
    fn is_over(&self) -> bool {
        !self.covers(Duration::ZERO)
    }

    /// The request with the time that is left as its timeout.
    fn rest<'a>(&self, request: &'a ModelRequest) -> Cow<'a, ModelRequest> {
        let spent = self.began.elapsed();
        match self.limit {
            Some(limit) if spent >= Duration::from_millis(1) => {
                let mut rest = request.clone();
                let left = limit.saturating_sub(spent).as_millis();
                rest.meta.timeout_ms = Some(u64::try_from(left).unwrap_or(u64::MAX));
                Cow::Owned(rest)
            }
            _ => Cow::Borrowed(request),
        }
    }
}

/// The instant after a wait, without overflow.
fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 3_600))
}

/// Observes a streamed reply.
///
/// It is dropped at the end of the reply: after the last item, or when the stream is dropped earlier.
trait Watch: Unpin + Send + 'static {
    /// Observes one item before the caller gets it, and may change it.
    fn see(&mut self, item: &mut Item);

    /// The stream ended without a last item.
    fn broke_off(&mut self) {}
}

/// The stream with an observer. It returns nothing after the last item.
fn watched<W: Watch>(events: EventStream, watch: W) -> EventStream {
    Box::pin(WatchedStream { under_way: Some((events, watch)) })
}

struct WatchedStream<W> {
    under_way: Option<(EventStream, W)>,
}

impl<W: Watch> Stream for WatchedStream<W> {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let Some((events, watch)) = &mut self.under_way else { return Poll::Ready(None) };
        let Poll::Ready(mut item) = events.as_mut().poll_next(cx) else { return Poll::Pending };
        match &mut item {
            Some(item) => watch.see(item),
            None => watch.broke_off(),
        }
        if !matches!(&item, Some(Ok(event)) if !matches!(event, ModelEvent::Finished(_))) {
            self.under_way = None;
        }
        Poll::Ready(item)
    }
}
