//! Sends a request and receives its reply on a task of its own.
//!
//! The connection hands over one chunk at a time, and waits until it was taken. If the caller is not a task (the root
//! future of a multi-thread runtime), each chunk would wake one thread and then the other. A task beside the connection
//! takes turns with it on one thread, and wakes the caller once for all that has arrived.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, Request, Response};
use tokio::task::{AbortHandle, yield_now};

use crate::http::http_error;

/// An exchange under way. Dropping it closes the connection.
pub(crate) struct Exchange {
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// The head of a response.
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
}

/// Why an exchange ended early.
#[derive(Debug)]
pub(crate) enum Interrupted {
    Http(reqwest::Error),
    /// The task ended, because its runtime was shut down.
    Shutdown,
}

impl Interrupted {
    /// What happened, with its causes and without the URL.
    pub(crate) fn message(self) -> String {
        match self {
            Self::Http(error) => http_error(error),
            Self::Shutdown => "the runtime was shut down".to_owned(),
        }
    }
}

impl Exchange {
    /// Begins to send a request.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn begin(client: &Client, request: Request) -> Self {
        let shared = Arc::new(Shared::default());
        let sender = Sender(Arc::clone(&shared));
        let task = tokio::spawn(run(client.execute(request), sender)).abort_handle();
        Self { shared, task }
    }

    /// The head of the response, once.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Interrupted>> {
        let mut state = self.shared.lock();
        match state.head.take() {
            Some(head) => Poll::Ready(Ok(head)),
            None => state.poll_end(cx).map(|end| Err(end.err().unwrap_or(Interrupted::Shutdown))),
        }
    }

    /// Everything of the body that has arrived, appended to `pieces`, at least one piece. False at the end of the body.
    pub(crate) fn poll_pieces(
        &mut self,
        pieces: &mut Vec<Bytes>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, Interrupted>> {
        let mut state = self.shared.lock();
        if state.pieces.is_empty() {
            return state.poll_end(cx).map(|end| end.map(|()| false));
        }
        hand_over(&mut state.pieces, pieces);
        state.bytes = 0;
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        Poll::Ready(Ok(true))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What both sides see. The lock is never held over an await.
#[derive(Default)]
struct Shared(Mutex<ExchangeState>);

#[derive(Default)]
struct ExchangeState {
    head: Option<Head>,
    pieces: Vec<Bytes>,
    /// Bytes in `pieces`.
    bytes: usize,
    end: Option<Result<(), Interrupted>>,
    /// Wakes the caller.
    caller: Option<Waker>,
    /// Wakes the task, which waits for room.
    task: Option<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ExchangeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExchangeState {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Interrupted>> {
        if let Some(end) = self.end.take() {
            return Poll::Ready(end);
        }
        wait(&mut self.caller, cx);
        Poll::Pending
    }
}

/// Moves pieces on. Where none wait, the lists change places, so that they grow once in a call.
fn hand_over(from: &mut Vec<Bytes>, to: &mut Vec<Bytes>) {
    if to.is_empty() {
        std::mem::swap(from, to);
    } else {
        to.append(from);
    }
}

fn wait(slot: &mut Option<Waker>, cx: &mut Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}

/// The task's side. If it is dropped before the end, the caller learns that the task is gone.
struct Sender(Arc<Shared>);

impl Sender {
    fn put(&self, change: impl FnOnce(&mut ExchangeState)) {
        let mut state = self.0.lock();
        change(&mut state);
        let caller = state.caller.take();
        drop(state);
        if let Some(caller) = caller {
            caller.wake();
        }
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.bytes < MAX_WAITING {
            return Poll::Ready(());
        }
        wait(&mut state.task, cx);
        Poll::Pending
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.put(|state| _ = state.end.get_or_insert(Err(Interrupted::Shutdown)));
    }
}

/// Sends a request, and passes the response on.
async fn run(sent: impl Future<Output = Result<Response, reqwest::Error>>, sender: Sender) {
    let mut response = match sent.await {
        Ok(response) => response,
        Err(error) => return sender.put(|state| state.end = Some(Err(Interrupted::Http(error)))),
    };
    let headers = std::mem::take(response.headers_mut());
    let mut head = Some(Head { status: response.status().as_u16(), headers });
    let mut body = Body { response, pieces: Vec::new(), bytes: 0, has_yielded: false };
    loop {
        let end = poll_fn(|cx| body.poll_batch(head.is_some(), cx)).await;
        let is_over = end.is_some();
        sender.put(|state| {
            state.head = head.take().or_else(|| state.head.take());
            hand_over(&mut body.pieces, &mut state.pieces);
            state.bytes += std::mem::take(&mut body.bytes);
            state.end = end;
        });
        if is_over {
            return;
        }
        poll_fn(|cx| sender.poll_room(cx)).await;
    }
}

/// The body of a response.
struct Body {
    response: Response,
    /// What has arrived and was not passed on.
    pieces: Vec<Bytes>,
    bytes: usize,
    has_yielded: bool,
}

impl Body {
    /// All that has arrived, and how the body ended if it did. Waits for the first piece unless there `is_news` without it.
    fn poll_batch(&mut self, is_news: bool, cx: &mut Context<'_>) -> Poll<Option<Result<(), Interrupted>>> {
        while self.bytes < MAX_WAITING {
            // Dropping the pending future loses no bytes.
            match pin!(self.response.chunk()).poll(cx) {
                Poll::Ready(Ok(Some(piece))) => {
                    self.has_yielded = false;
                    self.bytes += piece.len();
                    if self.pieces.len() == self.pieces.capacity() && self.pieces.len() >= FEW {
                        self.pieces.reserve(MANY);
                    }
                    self.pieces.push(piece);
                }
                Poll::Ready(end) => return Poll::Ready(Some(end.map(drop).map_err(Interrupted::Http))),
                Poll::Pending if self.pieces.is_empty() && !is_news => return Poll::Pending,
                // The connection reads on meanwhile: the next poll is after every other task of this thread.
                Poll::Pending if !std::mem::replace(&mut self.has_yielded, true) => {
                    return pin!(yield_now()).poll(cx).map(|()| None);
                }
                Poll::Pending => break,
            }
        }
        Poll::Ready(None)
    }
}

/// From so many pieces on, room is made for many more.
const FEW: usize = 4;
const MANY: usize = 28;
/// How many bytes may wait for the caller before the connection is held back.
const MAX_WAITING: usize = 64 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use reqwest::{Method, Url};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::http::http_client_for;

    /// A server on loopback that answers one request with `chunks` chunks of `bytes` bytes, and counts what it could write.
    async fn server(chunks: usize, bytes: usize) -> (Url, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let written = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&written);
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            let chunk = format!("{bytes:x}\r\n{}\r\n", "x".repeat(bytes));
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
            let mut reply = head + &chunk.repeat(chunks.min(200));
            for _ in 0..chunks.div_ceil(200) {
                stream.write_all(reply.as_bytes()).await.unwrap();
                counted.fetch_add(reply.len(), Ordering::Relaxed);
                reply = chunk.repeat(200);
            }
            stream.write_all(b"0\r\n\r\n").await.unwrap();
        });
        (url, written)
    }

    fn begin(url: Url) -> Exchange {
        Exchange::begin(&http_client_for(&url).unwrap(), Request::new(Method::GET, url))
    }

    /// The number of pieces, and of times that they were waited for.
    async fn drained(exchange: &mut Exchange) -> (usize, usize) {
        let (mut pieces, mut waits) = (Vec::new(), 0);
        loop {
            let next = poll_fn(|cx| {
                let polled = exchange.poll_pieces(&mut pieces, cx);
                waits += usize::from(polled.is_pending());
                polled
            });
            if !next.await.unwrap() {
                return (pieces.len(), waits);
            }
        }
    }

    #[tokio::test]
    async fn the_caller_is_woken_once_for_all_chunks_that_arrived_together() {
        let (url, _) = server(200, 20).await;
        let mut exchange = begin(url);
        let head = poll_fn(|cx| exchange.poll_head(cx)).await.unwrap();
        assert_eq!((head.status, head.headers.len()), (200, 1));
        let (pieces, waits) = tokio::spawn(async move { drained(&mut exchange).await }).await.unwrap();
        assert_eq!(pieces, 200);
        // The system may deliver them in a few parts.
        assert!(waits < 10, "waited {waits} times");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_caller_that_takes_nothing_holds_the_connection_back_and_gets_all_of_it_later() {
        let (url, written) = server(40_000, 2_000).await;
        let mut exchange = begin(url);
        poll_fn(|cx| exchange.poll_head(cx)).await.unwrap();
        // Until nothing more is written: what is under way lies in the buffers of the system.
        let mut before = usize::MAX;
        while before != written.load(Ordering::Relaxed) {
            before = written.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert!(before < 40_000_000, "{before} bytes were taken");
        assert!(exchange.shared.lock().bytes < 2 * MAX_WAITING);
        let (pieces, _) = drained(&mut exchange).await;
        assert!(pieces >= 40_000);
    }

    #[tokio::test]
    async fn the_end_of_its_runtime_is_told() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let mut exchange = runtime.spawn(async move { begin(url) }).await.unwrap();
        runtime.shutdown_background();
        let end = poll_fn(|cx| exchange.poll_head(cx)).await;
        assert!(matches!(end, Err(Interrupted::Shutdown)));
    }
}
