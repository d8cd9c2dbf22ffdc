//! MCP over standard input and output: one JSON object a line. Nothing else is written to standard output.
//!
//! Memory is bounded whatever a client sends or does not read. A line has a maximum length, and no further request is
//! read while too many wait for their response.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ClientNotification, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::output::stream;

/// The most requests without a written response. Then no further line is read.
const MAX_OPEN: usize = 128;

/// The connection to a client by two pipes.
pub(crate) struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    max_line: usize,
    is_dropping: bool,
    written: mpsc::Sender<QueuedLine>,
    /// The response to an invalid line, until the writer has room for it.
    refusal: Option<Vec<u8>>,
    open: Arc<OpenRequests>,
    left: CancellationToken,
}

/// A line to write, and a signal for when it is written.
struct QueuedLine {
    bytes: Vec<u8>,
    done: Option<oneshot::Sender<io::Result<()>>>,
}

/// Writes whole lines one after another, so that a message is not cut if its sender is dropped.
async fn write_lines(mut to: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<QueuedLine>) {
    while let Some(QueuedLine { bytes, done }) = lines.recv().await {
        let written = async {
            to.write_all(&bytes).await?;
            to.flush().await
        };
        let written = written.await;
        if let Some(done) = done {
            let _ = done.send(written);
        }
    }
}

#[derive(Default)]
struct OpenRequests {
    ids: Mutex<BTreeSet<String>>,
    closed: Notify,
}

impl OpenRequests {
    fn change<T>(&self, change: impl FnOnce(&mut BTreeSet<String>) -> T) -> T {
        change(&mut self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn close(&self, id: &RequestId) {
        self.change(|ids| ids.remove(&key(id)));
        self.closed.notify_waiters();
    }

    async fn has_room(&self) {
        loop {
            let closed = self.closed.notified();
            if self.change(|ids| ids.len() < MAX_OPEN) {
                return;
            }
            closed.await;
        }
    }
}

/// The key of a request id. The number 1 and the text `1` are different ids.
fn key(id: &RequestId) -> String {
    serde_json::to_string(id).unwrap_or_default()
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines have at most `max_line` bytes. `left` is cancelled when the client closes its end.
    pub(crate) fn new(
        read: R,
        write: impl AsyncWrite + Send + Unpin + 'static,
        max_line: usize,
        left: CancellationToken,
    ) -> Self {
        let (written, lines) = mpsc::channel(1);
        tokio::spawn(write_lines(write, lines));
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            max_line,
            is_dropping: false,
            written,
            refusal: None,
            open: Arc::default(),
            left,
        }
    }

    /// Reads until a line is complete. False at the end. If it is cancelled, the next call continues.
    async fn next_line(&mut self) -> io::Result<bool> {
        loop {
            let bytes = self.read.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            let fits = !self.is_dropping && self.line.len() + taken <= self.max_line;
            if fits {
                self.line.extend_from_slice(bytes.get(..taken).unwrap_or_default());
            } else if !self.is_dropping {
                (self.line, self.is_dropping) = (Vec::new(), true);
                stream::note(format!("loopgate: a line of more than {} bytes is not read", self.max_line));
            }
            self.read.consume(taken);
            if end.is_some() && !std::mem::take(&mut self.is_dropping) {
                return Ok(true);
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (written, open) = (self.written.clone(), Arc::clone(&self.open));
        async move {
            let (done, is_done) = oneshot::channel();
            let sent = written.send(QueuedLine { bytes: line_of(&message)?, done: Some(done) }).await;
            let written = match sent {
                Ok(()) => is_done.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into())),
                Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
            };
            match &message {
                JsonRpcMessage::Response(response) => open.close(&response.id),
                JsonRpcMessage::Error(error) => error.id.iter().for_each(|id| open.close(id)),
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if self.refusal.is_some() {
                // A client that sends rubbish and reads nothing is not read either.
                let Ok(place) = self.written.reserve().await else { return None };
                place.send(QueuedLine { bytes: self.refusal.take().unwrap_or_default(), done: None });
            }
            self.open.has_room().await;
            if !self.next_line().await.unwrap_or(false) {
                self.left.cancel();
                return None;
            }
            let line = std::mem::take(&mut self.line);
            let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line).trim_ascii();
            if text.is_empty() {
                continue;
            }
            match serde_json::from_slice::<RxJsonRpcMessage<RoleServer>>(text) {
                Ok(message) => {
                    match &message {
                        JsonRpcMessage::Request(request) => {
                            let id = key(&request.id);
                            if !self.open.change(|ids| ids.insert(id)) {
                                stream::note(
                                    "loopgate: a request with the id of an open request is not read",
                                );
                                continue;
                            }
                        }
                        // A cancelled request gets no response.
                        JsonRpcMessage::Notification(notification) => {
                            if let ClientNotification::CancelledNotification(it) = &notification.notification
                            {
                                it.params.request_id.iter().for_each(|id| self.open.close(id));
                            }
                        }
                        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
                    }
                    return Some(message);
                }
                Err(_) => self.refusal = refused(text).and_then(|refusal| line_of(&refusal).ok()),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn line_of(message: &TxJsonRpcMessage<RoleServer>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The response to an invalid line. `None` for an unknown notification.
fn refused(text: &[u8]) -> Option<TxJsonRpcMessage<RoleServer>> {
    let Ok(value) = serde_json::from_slice::<Value>(text) else {
        return Some(JsonRpcMessage::error(ErrorData::parse_error("the line is not JSON", None), None));
    };
    let id = value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    if id.is_none() && value.get("method").is_some() {
        return None;
    }
    Some(JsonRpcMessage::error(ErrorData::invalid_request("the line is not a JSON-RPC message", None), id))
}
