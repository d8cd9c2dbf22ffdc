//! MCP over streamable HTTP at `/mcp`. A token is always required, and web origins are refused unless they are allowed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::service::Service;

use crate::output::{Failure, stream};
use crate::serve::mcp_args::McpArgs;

/// The most connections. Further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 128;
/// The most sessions of clients with a protocol version before 2026-07-28.
const MAX_SESSIONS: usize = 64;
/// The time limit for a client's headers, and for its body.
const READ_LIMIT: Duration = Duration::from_secs(10);
/// How long a session may be idle. It is longer than the longest wait of a request.
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// The first protocol version without sessions.
const WITHOUT_SESSIONS: &str = "2026-07-28";

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A server bound to its address.
pub(crate) struct Server {
    listener: TcpListener,
    shared: Arc<HttpState>,
}

struct HttpState {
    token: String,
    max_body: usize,
    sessions: Arc<LocalSessionManager>,
    service: StreamableHttpService<Service, LocalSessionManager>,
}

impl Server {
    /// Binds the address, and prints it on standard error.
    pub(crate) async fn bind(
        at: SocketAddr,
        args: &McpArgs,
        service: Service,
        max_body: usize,
        leaving: &CancellationToken,
    ) -> Result<Self, Failure> {
        let (token, is_random) = token(at, &args.token_env)?;
        let listener = TcpListener::bind(at).await.map_err(|error| {
            Failure::new(format!("--http {at}: {error}; choose another port, or 0 for any free one"))
        })?;
        let at = listener.local_addr()?;
        let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned(), at.ip().to_string()];
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts.iter().chain(&args.hosts).cloned())
            .with_allowed_origins(args.origins.iter().cloned())
            .enforce_origin_validation()
            .with_max_request_body_bytes(max_body)
            .with_cancellation_token(leaving.child_token());
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_IDLE);
        sessions.session_config.init_timeout = Some(READ_LIMIT);
        let sessions = Arc::new(sessions);
        let service = StreamableHttpService::new(move || Ok(service.clone()), Arc::clone(&sessions), config);
        stream::note(format!("serving: http://{at}/mcp"));
        if is_random {
            stream::note(format!("token:   {token}"));
        }
        if !at.ip().is_loopback() {
            stream::note("warning: the token is sent in plain text; put a proxy with TLS in front");
        }
        Ok(Self { listener, shared: Arc::new(HttpState { token, max_body, sessions, service }) })
    }

    /// Serves until it is dropped.
    pub(crate) async fn serve(self) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(_) => {
                    // For example too many open files.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                let answer = service_fn(move |request| {
                    let shared = Arc::clone(&shared);
                    async move { Ok::<_, Infallible>(shared.answer(request).await) }
                });
                let _ = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(READ_LIMIT)
                    .max_buf_size(64 << 10)
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
                drop(place);
            });
        }
    }
}

impl HttpState {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if !is_authorised(request.headers(), &self.token) {
            let mut answer = plain(
                StatusCode::UNAUTHORIZED,
                "Unauthorized: send the token as `Authorization: Bearer TOKEN`",
            );
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return answer;
        }
        if request.uri().path() != "/mcp" {
            return plain(StatusCode::NOT_FOUND, "Not Found: the server is at /mcp");
        }
        if request.method() != Method::POST {
            return self.service.handle(request).await;
        }
        if begins_session(request.headers()) && self.sessions.sessions.read().await.len() >= MAX_SESSIONS {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable: too many sessions");
        }
        let (head, body) = request.into_parts();
        let body = tokio::time::timeout(READ_LIMIT, Limited::new(body, self.max_body).collect());
        match body.await {
            Ok(Ok(body)) => self.service.handle(Request::from_parts(head, Full::new(body.to_bytes()))).await,
            Ok(Err(_)) => plain(StatusCode::PAYLOAD_TOO_LARGE, "Payload Too Large, or not whole"),
            Err(_) => plain(StatusCode::REQUEST_TIMEOUT, "Request Timeout: the body took too long"),
        }
    }
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

/// Whether a request may begin a session: it has an older protocol version and no session.
fn begins_session(headers: &HeaderMap) -> bool {
    let version = headers.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
    !headers.contains_key("mcp-session-id") && version.is_none_or(|version| version < WITHOUT_SESSIONS)
}

fn is_authorised(headers: &HeaderMap, token: &str) -> bool {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else { return false };
    let Some((scheme, given)) = given.to_str().ok().and_then(|given| given.split_once(' ')) else {
        return false;
    };
    scheme.eq_ignore_ascii_case("bearer") && is_same(given.trim(), token)
}

/// Whether two texts are equal, in constant time.
fn is_same(given: &str, token: &str) -> bool {
    let differs = given.bytes().zip(token.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
    given.len() == token.len() && differs == 0
}

/// The token, and whether it was generated here.
fn token(at: SocketAddr, variable: &str) -> Result<(String, bool), Failure> {
    match std::env::var(variable) {
        Ok(token) if token.len() < MIN_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(Failure::new(format!(
                "{variable}: a token has at least {MIN_TOKEN} visible ASCII characters and no blanks; set a longer one, for \
                 example from `openssl rand -hex 32`"
            )))
        }
        Ok(token) => Ok((token, false)),
        Err(std::env::VarError::NotPresent) if at.ip().is_loopback() => {
            Ok((format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple()), true))
        }
        Err(_) => Err(Failure::new(format!(
            "--http {at}: other machines reach this address, so a token is required; set {variable} to at least {MIN_TOKEN} \
             characters, for example from `openssl rand -hex 32`"
        ))),
    }
}

const MIN_TOKEN: usize = 24;
