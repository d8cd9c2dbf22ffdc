//! Limits the size and the time of request bodies.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;

/// Why a body was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyCut {
    /// It is larger than it may be.
    TooLarge,
    /// It took too long.
    TooSlow,
}

/// Whether a body was cut, for the code that writes the response.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyFate(Arc<AtomicU8>);

impl BodyFate {
    pub(super) fn cut(&self) -> Option<BodyCut> {
        match self.0.load(Ordering::Acquire) {
            1 => Some(BodyCut::TooLarge),
            2 => Some(BodyCut::TooSlow),
            _ => None,
        }
    }

    fn set(&self, cut: BodyCut) -> axum::Error {
        let (code, text) = match cut {
            BodyCut::TooLarge => (1, "the body is too large"),
            BodyCut::TooSlow => (2, "the body took too long"),
        };
        self.0.store(code, Ordering::Release);
        axum::Error::new(std::io::Error::other(text))
    }
}

/// A body with its limits.
struct Limited {
    inner: Body,
    left: u64,
    deadline: Pin<Box<Sleep>>,
    fate: BodyFate,
}

/// Limits a body, and returns a handle that tells later whether it was cut.
pub(super) fn limited(inner: Body, bytes: u64, time: Duration) -> (Body, BodyFate) {
    let fate = BodyFate::default();
    let deadline = Box::pin(tokio::time::sleep(time));
    let limited = Limited { inner, left: bytes, deadline, fate: fate.clone() };
    (Body::new(limited), fate)
}

impl HttpBody for Limited {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) {
            let Some(frame) = frame.transpose()? else { return Poll::Ready(None) };
            let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
            let Some(left) = this.left.checked_sub(bytes) else {
                return Poll::Ready(Some(Err(this.fate.set(BodyCut::TooLarge))));
            };
            this.left = left;
            return Poll::Ready(Some(Ok(frame)));
        }
        ready!(this.deadline.as_mut().poll(context));
        Poll::Ready(Some(Err(this.fate.set(BodyCut::TooSlow))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
