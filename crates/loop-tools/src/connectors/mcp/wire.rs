//! What a server may send before it is cut off: one message of so many bytes, and so many requests that it takes no reply to.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, ReadBuf};

/// The most bytes of one message of a server.
pub const MCP_MESSAGE_BYTES_MAX: usize = 8 << 20;
/// The most requests of a server whose replies it has not taken.
const OWED_MAX: usize = 64;

/// What is known of a connection while it is open, and why we closed it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// How often the server said that its tools have changed.
    pub(crate) announced: AtomicU64,
    owed: AtomicUsize,
    reason: OnceLock<&'static str>,
}

/// Reads lines, and fails where one is too long.
pub(crate) struct Lines<R> {
    inner: R,
    /// Bytes since the last end of a line.
    run: usize,
    watch: Arc<Watch>,
}

/// A transport that ends where a server asks and takes no reply.
pub(crate) struct Paced<T> {
    inner: T,
    watch: Arc<Watch>,
}

impl Watch {
    /// Why we closed the connection. `None`: we did not.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        self.reason.get().copied()
    }

    /// Remembers that a message was too long.
    pub(crate) fn message_too_long(&self) {
        let _ = self.reason.set("it sent a message of more than 8 MiB");
    }
}

impl<R> Lines<R> {
    pub(crate) fn new(inner: R, watch: Arc<Watch>) -> Self {
        Self { inner, run: 0, watch }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let new = buffer.filled().get(before..).unwrap_or_default();
        self.run = match new.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => new.len() - at - 1,
            None => self.run + new.len(),
        };
        if self.run > MCP_MESSAGE_BYTES_MAX {
            self.watch.message_too_long();
            return Poll::Ready(Err(io::Error::other("a line is too long")));
        }
        Poll::Ready(Ok(()))
    }
}

impl<T> Paced<T> {
    pub(crate) fn new(inner: T, watch: Arc<Watch>) -> Self {
        Self { inner, watch }
    }
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for Paced<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_reply = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let (sent, watch) = (self.inner.send(item), Arc::clone(&self.watch));
        async move {
            let sent = sent.await;
            if is_reply {
                let paid = |owed: usize| Some(owed.saturating_sub(1));
                let _ = watch.owed.fetch_update(Ordering::AcqRel, Ordering::Acquire, paid);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.inner.receive().await?;
        if matches!(message, JsonRpcMessage::Request(_))
            && self.watch.owed.fetch_add(1, Ordering::AcqRel) >= OWED_MAX
        {
            let _ = self.watch.reason.set("it asked more and more and took no reply");
            return None;
        }
        Some(message)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
