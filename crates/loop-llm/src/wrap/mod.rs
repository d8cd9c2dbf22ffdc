//! Wrappers over any model. They compose in any order, and none of them knows a provider.
//!
//! ```text
//! Retrying ─▶ CircuitBreaker ─▶ RateLimited ─▶ RecordingModel ─▶ a model
//!  waits       stops asking      takes turns    writes down
//! ```
//!
//! This order is the usual one: what is tried again asks for its turn again, an open breaker costs no turn, and a
//! recording holds each try.

mod breaker;
#[cfg(feature = "recordings")]
mod exchange;
#[cfg(feature = "recordings")]
mod masking;
mod rate;
#[cfg(feature = "recordings")]
mod record;
#[cfg(feature = "recordings")]
mod recorded;
mod retry;

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::time::Instant;

pub use breaker::{BreakerHandle, BreakerPolicy, BreakerState, CircuitBreaker};
#[cfg(feature = "recordings")]
pub use exchange::RECORDING_VERSION;
pub use rate::{RateGate, RateLimited, RateLimits};
#[cfg(feature = "recordings")]
pub use record::{Recorder, RecordingError, RecordingModel};
#[cfg(feature = "recordings")]
pub use recorded::{RecordedError, RecordedModel};
pub use retry::{RetryPolicy, Retrying};

use crate::error::LlmError;
use crate::model::{EventStream, ModelEvent};
use crate::request::ModelRequest;

/// One thing that a stream gives.
type Item = Result<ModelEvent, LlmError>;

/// How long the caller of one request waits.
#[derive(Clone, Copy, Debug)]
struct Patience {
    began: Instant,
    limit: Option<Duration>,
}

impl Patience {
    fn of(request: &ModelRequest) -> Self {
        Self { began: Instant::now(), limit: request.meta.timeout_ms.map(Duration::from_millis) }
    }

    /// Whether a wait ends while the caller is there.
    fn covers(&self, wait: Duration) -> bool {
        self.end().is_none_or(|end| later(Instant::now(), wait) < end)
    }

    /// When the caller is gone, where that is known. Its clock began a little before ours, so the last sixteenth of
    /// its time counts as over: whoever gives up by then is heard.
    fn end(&self) -> Option<Instant> {
        self.limit.map(|limit| later(self.began, limit - limit / 16))
    }

    /// Whether a caller that goes away goes because its time is over.
    fn is_over(&self) -> bool {
        !self.covers(Duration::ZERO)
    }

    /// The request with the time that is left.
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

/// The instant after a wait, however long that is.
fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 3_600))
}

/// What looks on while a reply comes.
///
/// It is dropped when the reply is over: after the last item, or when the stream is dropped before that.
trait Watch: Unpin + Send + 'static {
    /// One item, before the caller gets it; it may be changed.
    fn see(&mut self, item: &mut Item);

    /// The stream ended without a last item.
    fn broke_off(&mut self) {}
}

/// The same stream with somebody who looks on. After its last item it gives nothing more.
fn watched<W: Watch>(events: EventStream, watch: W) -> EventStream {
    Box::pin(Watched { under_way: Some((events, watch)) })
}

struct Watched<W> {
    under_way: Option<(EventStream, W)>,
}

impl<W: Watch> Stream for Watched<W> {
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
