//! Connections: a bounded number, with limits of time for the headers of a request and for a client that takes nothing.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

/// How connections are limited.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at a time. Further ones wait to be accepted.
    pub max_connections: usize,
    /// How long a client may take for the headers of a request.
    pub headers: Duration,
    /// How long a client may take nothing of an answer before it is cut.
    pub write: Duration,
    /// Bytes of the headers of a request.
    pub header_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: 1_024,
            headers: Duration::from_secs(10),
            write: Duration::from_secs(30),
            header_bytes: 64 << 10,
        }
    }
}

/// A server that is bound to its address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    limits: ServerLimits,
    connections: TaskTracker,
    ending: CancellationToken,
}

impl Server {
    /// Binds the address.
    ///
    /// # Errors
    /// If it cannot be bound.
    pub async fn bind(at: SocketAddr, limits: ServerLimits) -> io::Result<Self> {
        let listener = TcpListener::bind(at).await?;
        Ok(Self { listener, limits, connections: TaskTracker::new(), ending: CancellationToken::new() })
    }

    /// The address.
    ///
    /// # Errors
    /// If the system does not tell it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A way to end the server: it accepts no more connections, and each one ends after the answer that it has begun.
    pub fn ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    /// Serves the router until [`ending`](Self::ending) is cancelled and the connections have ended, at most for `limit`
    /// from then on. The address of the client is in the extensions of each request, as
    /// [`ConnectInfo`](axum::extract::ConnectInfo).
    pub async fn serve(self, router: Router, limit: Duration) {
        let places = Arc::new(Semaphore::new(self.limits.max_connections));
        loop {
            let accepted = tokio::select! {
                () = self.ending.cancelled() => break,
                accepted = self.accept(&places) => accepted,
            };
            let Some((stream, from, place)) = accepted else { continue };
            let (router, ending, limits) = (router.clone(), self.ending.clone(), self.limits);
            self.connections.spawn(async move {
                connection(stream, from, router, ending, limits).await;
                drop(place);
            });
        }
        self.connections.close();
        // What has not ended by then is cut with the process.
        _ = tokio::time::timeout(limit, self.connections.wait()).await;
    }

    async fn accept(
        &self,
        places: &Arc<Semaphore>,
    ) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
        let place = Arc::clone(places).acquire_owned().await.ok()?;
        match self.listener.accept().await {
            Ok((stream, from)) => Some((stream, from, place)),
            Err(_) => {
                // For example too many open files.
                tokio::time::sleep(Duration::from_millis(100)).await;
                None
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    ending: CancellationToken,
    limits: ServerLimits,
) {
    // A piece of an answer is not held back for the next one.
    _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(from));
        let router = router.clone();
        async move { Ok::<_, Infallible>(answered(router, request.map(Body::new)).await) }
    });
    let io = TokioIo::new(WriteLimit { stream, limit: limits.write, stuck: None });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_buf_size(limits.header_bytes.max(8 << 10))
        .serve_connection(io, service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = ending.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    _ = connection.await;
}

async fn answered(router: Router, request: hyper::Request<Body>) -> axum::response::Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// A connection that ends when its client takes nothing for some time.
struct WriteLimit {
    stream: TcpStream,
    limit: Duration,
    /// Since a write could not continue.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl WriteLimit {
    /// What a write came to; an error once the client has taken nothing for too long.
    fn limited<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stuck = None;
            return polled;
        }
        let limit = self.limit;
        let stuck =
            self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl AsyncRead for WriteLimit {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WriteLimit {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.limited(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.limited(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limited(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.limited(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
