//! The TCP side of the server: limits on connections, headers, stalled writes, and a graceful shutdown.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use super::stall::StallLimited;
use crate::problem::HttpProblem;

/// Limits on connections and requests. They bound every buffer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorLimits {
    /// The most connections at a time. A further one is refused at once.
    pub connections: usize,
    /// The most connections of one address. It does not apply to trusted proxies.
    pub connections_of_one: usize,
    /// The most bytes of a request's line and headers, at least 8,192. It is also the size of a connection's read
    /// buffer.
    pub header_bytes: usize,
    /// The most headers of a request.
    pub headers: usize,
    /// The most bytes of a request's path and query.
    pub target_bytes: usize,
    /// How long a client may take for a request's headers, and how long a connection may be idle.
    pub header_time: Duration,
    /// The most bytes of a request's body.
    pub body_bytes: u64,
    /// How long a client may take for a request's body.
    pub body_time: Duration,
    /// How long a route may take until it begins to respond.
    pub answer_time: Duration,
    /// How long a client may read nothing while data is waiting for it.
    pub stall_time: Duration,
    /// How long requests in progress may take after the shutdown begins.
    pub drain_time: Duration,
}

impl Default for DoorLimits {
    fn default() -> Self {
        Self {
            connections: 1_024,
            connections_of_one: 512,
            header_bytes: 32 << 10,
            headers: 64,
            target_bytes: 8 << 10,
            header_time: Duration::from_secs(10),
            body_bytes: 2 << 20,
            body_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(90),
            stall_time: Duration::from_secs(20),
            drain_time: Duration::from_secs(10),
        }
    }
}

/// The address of the peer, in the extensions of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Serves until `shutdown` completes and requests in progress are answered or have timed out.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: DoorLimits,
    proxies: Vec<IpAddr>,
    shutdown: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(limits.header_bytes.max(8_192))
        .max_header_size(limits.header_bytes.max(8_192))
        .max_headers(limits.headers);
    let mut short = http.clone();
    short.keep_alive(false).header_read_timeout(limits.header_time.min(RESERVE_TIME));
    let places = |connections, of_one| {
        let proxies = proxies.clone();
        Arc::new(ConnectionSlots { connections, of_one, proxies, taken: Mutex::default() })
    };
    let reserve = places(RESERVE, RESERVE_OF_ONE);
    let places = places(limits.connections, limits.connections_of_one);
    let (leave, leaving) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            // For example too many open files.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        match ConnectionSlots::take(&places, peer.ip()) {
            Some(place) => {
                // A piece of an answer is not held back for the next one.
                let _ = stream.set_nodelay(true);
                let (http, router, leaving) = (http.clone(), router.clone(), leaving.clone());
                let stream = StallLimited::new(stream, limits.stall_time);
                connections.spawn(async move {
                    connection(http, stream, peer, router, leaving).await;
                    drop(place);
                });
            }
            None => match ConnectionSlots::take(&reserve, peer.ip()) {
                Some(place) => {
                    let (http, leaving) = (short.clone(), leaving.clone());
                    let router = router.clone().layer(from_fn(only_probes));
                    let stream = StallLimited::new(stream, limits.stall_time.min(RESERVE_TIME));
                    connections.spawn(async move {
                        let answered = connection(http, stream, peer, router, leaving);
                        // The deadline is for the whole connection, which has one request.
                        let _ = tokio::time::timeout(RESERVE_TIME, answered).await;
                        drop(place);
                    });
                }
                None => refuse(&stream),
            },
        }
    }
    drop(listener);
    let _ = leave.send(());
    let drained = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(limits.drain_time, drained).await;
    connections.shutdown().await;
}

async fn connection(
    http: http1::Builder,
    stream: StallLimited<TcpStream>,
    peer: SocketAddr,
    router: Router,
    mut leaving: watch::Receiver<()>,
) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let router = router.clone();
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {}))
        }
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    // A client that breaks the protocol, or off, has had its answer.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = leaving.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// In the reserve, only the probes `/healthz` and `/readyz` are answered.
async fn only_probes(request: Request<Body>, next: Next) -> Response {
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    let mut response = too_many().into_response();
    super::headers::set(response.headers_mut());
    response
}

/// Responds that there are too many connections, if the socket takes it at once.
fn refuse(stream: &TcpStream) {
    let body = serde_json::to_string(&too_many()).unwrap_or_default();
    let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json";
    let length = body.len();
    let text = format!(
        "{head}\r\ncontent-length: {length}\r\nretry-after: {RETRY}\r\nconnection: close\r\n\r\n{body}"
    );
    let _ = stream.try_write(text.as_bytes());
}

fn too_many() -> HttpProblem {
    let detail = "the server has as many connections as it takes, in all or of your address; close some, or try again later";
    HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "connections", "Too many connections", detail)
        .retry_after(RETRY)
}

/// The `Retry-After` of a refused connection, in seconds.
const RETRY: u64 = 5;
/// The most connections in the reserve, which is for health checks while the server is full.
const RESERVE: usize = 32;
/// The most connections of one address in the reserve. It does not apply to trusted proxies.
const RESERVE_OF_ONE: usize = 8;
/// How long a connection in the reserve lasts at most.
const RESERVE_TIME: Duration = Duration::from_secs(2);

struct ConnectionSlots {
    connections: usize,
    of_one: usize,
    proxies: Vec<IpAddr>,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// The permit of one connection.
struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    of: IpAddr,
}

impl ConnectionSlots {
    fn take(places: &Arc<Self>, of: IpAddr) -> Option<ConnectionSlot> {
        let of = of.to_canonical();
        let mut taken = places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&of).copied().unwrap_or_default();
        let is_limited = !places.proxies.contains(&of);
        let is_full = taken.values().sum::<usize>() >= places.connections;
        if is_full || is_limited && own >= places.of_one {
            return None;
        }
        taken.insert(of, own + 1);
        Some(ConnectionSlot { places: Arc::clone(places), of })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.of);
            }
        }
    }
}
