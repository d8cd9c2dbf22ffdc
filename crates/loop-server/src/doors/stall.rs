//! The connection of a client. A write without progress for too long is an error, since the client does not read. An
//! ambiguous head is replaced by bytes that no parser accepts.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::strict::HeadCheck;

/// A stream with a limit on stalled writes, and with strict heads.
pub(super) struct StallLimited<S> {
    inner: S,
    limit: Duration,
    timer: Pin<Box<Sleep>>,
    is_stalled: bool,
    heads: HeadCheck,
}

impl<S> StallLimited<S> {
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self { inner, limit, timer: Box::pin(sleep(limit)), is_stalled: false, heads: HeadCheck::default() }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_stalled = false;
            return written;
        }
        if !self.is_stalled {
            self.is_stalled = true;
            self.timer.as_mut().reset(Instant::now() + self.limit);
        }
        match self.timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallLimited<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(context, buffer);
        let refused = buffer.filled().get(before..).and_then(|read| this.heads.feed(read));
        if let Some(at) = refused.map(|at| before + at) {
            // No head has a null byte: the reader refuses it, and closes the connection.
            if let Some(byte) = buffer.filled_mut().get_mut(at) {
                *byte = 0;
            }
            buffer.set_filled(at + 1);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallLimited<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(context, bytes);
        this.watch(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(context, bytes);
        this.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(context);
        // A socket has nothing to flush: a write that stalls is not forgiven for that.
        if flushed.is_ready() { flushed } else { this.watch(context, flushed) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.inner).poll_shutdown(context);
        this.watch(context, shut)
    }
}
