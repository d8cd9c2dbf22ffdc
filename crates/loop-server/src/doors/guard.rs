//! The checks of every request, in their order. What a check refuses reaches no route, and no later check.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use loop_core::Approver;
use loop_runtime::budget::{SharedBudget, Span};
use loop_runtime::journal::{AuditAction, AuditEntry, AuditResult};
use tower_http::catch_panic::CatchPanicLayer;

use super::admission::{Admission, By};
use super::attempts::Attempts;
use super::audit::Audit;
use super::body::{Cut, limited};
use super::foreign::as_problem;
use super::form;
use super::headers;
use super::hosts::{Hosts, Name};
use super::identity::{Identity, unknown};
use super::listen::{DoorLimits, Peer};
use super::login;
use super::secret::{NoRandomBytes, Secret};
use super::sessions::{Holder, Sessions, csrf_of, is_csrf_of};
use super::shape::check_form;
use super::site::{check_origin, check_site};
use super::tokens::Token;
use super::watched::{Match, WatchedTokens};
use crate::caller::{Caller, Role};
use crate::problem::HttpProblem;

/// What a door is made of.
#[derive(Debug)]
pub struct DoorsConfig {
    /// The address at which the server listens.
    pub listen: SocketAddr,
    /// The names of the server.
    pub hosts: Hosts,
    /// The tokens. `None`: only the person at this machine gets in.
    pub tokens: Option<WatchedTokens>,
    /// The person at this machine, as an approval names them. They may do everything.
    pub local: Approver,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub proxies: Vec<IpAddr>,
    /// The limits of requests.
    pub limits: DoorLimits,
    /// Where logins, and what callers do, are recorded.
    pub audit: Audit,
}

/// Why a server cannot be reached in this way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotADoor {
    /// Other machines reach the address, and there are no tokens.
    #[error(
        "--listen {0}: other machines reach this address, so tokens are required; give --tokens FILE, or use a loopback \
         address such as 127.0.0.1:8787"
    )]
    WithoutTokens(SocketAddr),
}

/// The door of a server. Clones are the same door.
#[derive(Clone, Debug)]
pub struct Doors {
    pub(super) inside: Arc<Inside>,
}

pub(super) struct Inside {
    pub(super) config: DoorsConfig,
    pub(super) sessions: Sessions,
    pub(super) attempts: Attempts,
    /// With the port: browsers send cookies of one host to all its ports.
    pub(super) cookie: [String; 2],
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Doors {
    /// A door.
    ///
    /// # Errors
    /// If other machines reach the address and there are no tokens.
    pub fn new(config: DoorsConfig) -> Result<Self, NotADoor> {
        if !config.listen.ip().is_loopback() && config.tokens.is_none() {
            return Err(NotADoor::WithoutTokens(config.listen));
        }
        let port = config.listen.port();
        let cookie = [format!("loopgate_{port}"), format!("__Host-loopgate_{port}")];
        let (sessions, attempts) = (Sessions::default(), Attempts::default());
        Ok(Self { inside: Arc::new(Inside { config, sessions, attempts, cookie }) })
    }

    /// A code for the person at this machine, for `/login?code=…`. `None`: other machines reach the server, so that a
    /// token is needed.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn invite(&self) -> Result<Option<Secret>, NoRandomBytes> {
        if !self.inside.config.listen.ip().is_loopback() {
            return Ok(None);
        }
        self.inside.sessions.invite().map(Some)
    }

    /// The routes behind this door, which also has `/login` and `/logout`. Each route then has a [`Caller`] and an
    /// [`Identity`] in its request's extensions, except for those that are open to all: `/healthz`, `/readyz`,
    /// `/favicon.ico` and `/assets/…`.
    pub fn guard(&self, router: Router) -> Router {
        router
            .merge(login::routes(self))
            .layer(CatchPanicLayer::custom(|_| {
                let detail = "the server failed on this request; the operator finds the reason in its output";
                HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error", detail)
                    .into_response()
            }))
            .layer(from_fn_with_state(self.clone(), answer))
    }
}

async fn answer(State(doors): State<Doors>, request: Request, next: Next) -> Response {
    let is_page = wants_page(&request);
    let mut response = match doors.inside.admit(request).await {
        Ok(Admitted { request, fate }) => {
            let limit = doors.inside.config.limits.answer_time;
            let answered = match tokio::time::timeout(limit, next.run(request)).await {
                Ok(response) => response,
                Err(_) => too_slow_route().into_response(),
            };
            match fate.cut() {
                Some(cut) => close(cut_body(cut).into_response()),
                None => as_problem(answered),
            }
        }
        Err(Refused { problem, is_closed, asks_token }) => {
            let mut response = match is_page && login::has_page(problem.status) {
                true => login::page_of(&problem, doors.inside.config.tokens.is_some()),
                false => problem.into_response(),
            };
            if asks_token {
                let bearer = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
            }
            if is_closed { close(response) } else { response }
        }
    };
    headers::set(response.headers_mut());
    response
}

struct Admitted {
    request: Request,
    fate: super::body::Fate,
}

/// Why a request goes no further.
pub(super) struct Refused {
    problem: HttpProblem,
    /// Whether what follows on the connection may not be a request.
    is_closed: bool,
    asks_token: bool,
}

impl Refused {
    /// The same, after which the connection is closed.
    pub(super) fn closing(self) -> Self {
        Self { is_closed: true, ..self }
    }

    /// What the caller gets.
    pub(super) fn problem(&self) -> &HttpProblem {
        &self.problem
    }
}

impl From<HttpProblem> for Refused {
    fn from(problem: HttpProblem) -> Self {
        Self { problem, is_closed: false, asks_token: false }
    }
}

/// A request with a form that cannot be trusted: what follows it on the connection cannot be either.
pub(super) fn malformed(status: StatusCode, detail: &'static str) -> Refused {
    let problem = HttpProblem::new(status, "bad-request", "Not a valid request", detail);
    Refused { problem, is_closed: true, asks_token: false }
}

pub(super) fn refused(
    status: StatusCode,
    name: &'static str,
    title: &'static str,
    detail: &'static str,
) -> Refused {
    HttpProblem::new(status, name, title, detail).into()
}

pub(super) fn forbidden(detail: &'static str) -> Refused {
    refused(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
}

impl Inside {
    async fn admit(self: &Arc<Self>, mut request: Request) -> Result<Admitted, Refused> {
        let limits = &self.config.limits;
        check_form(&request, limits)?;
        let name = self.host(request.headers())?;
        let is_change = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let from = self.from(&request);
        check_origin(request.headers(), name)?;
        let is_login = request.uri().path() == login::LOGIN;
        let is_open = is_login || !is_change && is_open_to_all(request.uri().path());
        request.extensions_mut().insert(Client(from));
        if !is_open || request.uri().path() == login::LOGOUT {
            let known = self.identify(request.headers(), from).await?;
            if let Known { identity: Identity { csrf: Some(_), .. }, session: Some(session), .. } = &known {
                check_site(request.headers(), name, is_change)?;
                if is_change {
                    request = check_csrf(request, session, limits.body_time.min(FORM_TIME)).await?;
                }
            }
            let caller = known.identity.caller.clone();
            request.extensions_mut().insert(Admission::new(self, caller, known.by));
            if let Some(session) = known.session {
                request.extensions_mut().insert(Session(session));
            }
            request.extensions_mut().insert(known.identity.caller.clone());
            request.extensions_mut().insert(known.identity);
        } else if is_login {
            check_site(request.headers(), name, is_change)?;
            request.extensions_mut().insert(IsHttps(name.is_https()));
        }
        let (parts, body) = request.into_parts();
        let (body, fate) = limited(body, limits.body_bytes, limits.body_time);
        Ok(Admitted { request: Request::from_parts(parts, body), fate })
    }

    /// The name of the server that a request is for.
    fn host(&self, headers: &HeaderMap) -> Result<&Name, Refused> {
        let mut given = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (given.next(), given.next()) else {
            return Err(malformed(
                StatusCode::BAD_REQUEST,
                "the request has no header Host, or several; send one",
            ));
        };
        let name = host.to_str().ok().and_then(|host| self.config.hosts.find(host));
        name.ok_or_else(|| {
            let detail = "the server does not have the name in Host; use the address that it printed, or start it with \
                          --public-host NAME";
            refused(StatusCode::MISDIRECTED_REQUEST, "misdirected", "Not a name of this server", detail)
        })
    }

    /// The client's address: the peer's, or what a proxy of the configuration says last.
    fn from(&self, request: &Request) -> IpAddr {
        let peer = request.extensions().get::<Peer>().map(|Peer(peer)| peer.ip().to_canonical());
        let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        if !self.config.proxies.contains(&peer) {
            return peer;
        }
        let named = request.headers().get_all("x-forwarded-for").iter().next_back();
        let named = named.and_then(|named| named.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
        named.unwrap_or(peer)
    }

    async fn identify(&self, headers: &HeaderMap, from: IpAddr) -> Result<Known, Refused> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        match (given.next(), given.next()) {
            (Some(given), None) => {
                let given = given.to_str().ok().and_then(|given| given.split_once(' '));
                let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                let (_, token) = given.ok_or_else(|| {
                    unauthorized("send the token as `Authorization: Bearer TOKEN`; no other scheme is known")
                })?;
                let token = self.token(token.trim(), from).await?;
                Ok(Known { identity: of_token(&token, from), by: By::Token(token.hash), session: None })
            }
            (Some(_), Some(_)) => Err(malformed(
                StatusCode::BAD_REQUEST,
                "the request has several headers Authorization; send one",
            )),
            (None, _) => self.of_session(headers, from),
        }
    }

    /// The token that was given, if it opens something.
    pub(super) async fn token(&self, given: &str, from: IpAddr) -> Result<Token, Refused> {
        let found = self.config.tokens.as_ref().map_or(Match::Unknown, |tokens| tokens.find(given));
        match found {
            Match::Valid(token) => Ok(*token),
            Match::Expired(name) => {
                let entry = AuditEntry {
                    who: Arc::clone(&name),
                    account: format!("token {name}").into(),
                    detail: Some("the token has expired".into()),
                    ..unknown(from, AuditAction::Login, AuditResult::Refused)
                };
                self.fail(entry, from).await?;
                Err(unauthorized("the token has expired; ask the operator for another one"))
            }
            Match::Unknown => {
                let entry = AuditEntry {
                    detail: Some("the token is not known".into()),
                    ..unknown(from, AuditAction::Login, AuditResult::Refused)
                };
                self.fail(entry, from).await?;
                Err(unauthorized(
                    "the token is not known: it is mistyped or was removed; ask the operator for one",
                ))
            }
        }
    }

    /// Records a refused login. Too many are not recorded, and are refused for that.
    pub(super) async fn fail(&self, entry: AuditEntry, from: IpAddr) -> Result<(), Refused> {
        self.attempts.fail(from).map_err(|seconds| {
            let detail = "too many logins were refused; wait, and send a valid token";
            HttpProblem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too-many-logins",
                "Too many refused logins",
                detail,
            )
            .retry_after(seconds)
        })?;
        self.note(entry).await
    }

    /// Writes an entry of the audit log, without which nothing is opened.
    pub(super) async fn note(&self, entry: AuditEntry) -> Result<(), Refused> {
        self.config.audit.note(entry).await.map_err(|_| {
            let detail = "the audit log cannot be written, so nothing is opened; the operator has to look at the journal";
            refused(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available", detail)
        })
    }

    fn of_session(&self, headers: &HeaderMap, from: IpAddr) -> Result<Known, Refused> {
        let [plain, secure] = &self.cookie;
        let session = form::cookie(headers, secure).or_else(|| form::cookie(headers, plain));
        let missing = || match self.config.tokens {
            Some(_) => unauthorized(
                "no token was sent; send it as `Authorization: Bearer TOKEN`, or log in at /login",
            ),
            None => unauthorized(
                "no session; start the program again (`loopgate view` or `loopgate serve`) and open the address that it prints",
            ),
        };
        let session = session.ok_or_else(missing)?;
        let identity = match self.sessions.find(session) {
            Some(Holder::Local) => self.local(from),
            Some(Holder::Token(hash)) => {
                match self.config.tokens.as_ref().map_or(Match::Unknown, |tokens| tokens.again(&hash)) {
                    Match::Valid(token) => of_token(&token, from),
                    Match::Expired(_) | Match::Unknown => {
                        self.sessions.end(session);
                        return Err(missing());
                    }
                }
            }
            None => return Err(missing()),
        };
        let identity = Identity { csrf: Some(csrf_of(session)), ..identity };
        let session: Arc<str> = session.into();
        Ok(Known { identity, by: By::Session(Arc::clone(&session)), session: Some(session) })
    }

    /// The person at this machine.
    pub(super) fn local(&self, from: IpAddr) -> Identity {
        let Approver { account, user, .. } = &self.config.local;
        let name = if user.is_empty() { "local".into() } else { Arc::clone(user) };
        let caller = Caller { name, roles: [Role::Admin].into(), domains: None };
        Identity { caller, account: Arc::clone(account), from, budget: None, csrf: None }
    }
}

pub(super) fn of_token(token: &Token, from: IpAddr) -> Identity {
    let of = || Arc::clone(&token.name);
    let budget = token.day_limit.map(|limit| SharedBudget { span: Span::TokenDay, of: of(), limit });
    let account = format!("token {}", token.name).into();
    Identity { caller: token.caller(), account, from, budget, csrf: None }
}

struct Known {
    identity: Identity,
    by: By,
    session: Option<Arc<str>>,
}

/// The id of the session of a request, for the route that ends it.
#[derive(Clone)]
pub(super) struct Session(pub(super) Arc<str>);

/// The address of the client of a request.
#[derive(Clone, Copy)]
pub(super) struct Client(pub(super) IpAddr);

/// Whether the server has a name with TLS for this request.
#[derive(Clone, Copy)]
pub(super) struct IsHttps(pub(super) bool);

fn unauthorized(detail: &'static str) -> Refused {
    let problem = HttpProblem::new(StatusCode::UNAUTHORIZED, "unauthorized", "Not logged in", detail);
    Refused { problem, is_closed: false, asks_token: true }
}

fn is_open_to_all(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/favicon.ico") || path.starts_with("/assets/")
}

/// A change with a cookie sends back what the page of the session was given.
async fn check_csrf(request: Request, session: &str, time: Duration) -> Result<Request, Refused> {
    let missing = || forbidden("the form has expired or is not of this session; load its page again");
    if let Some(given) = request.headers().get("x-csrf-token") {
        let is_own = given.to_str().is_ok_and(|given| is_csrf_of(session, given));
        return if is_own { Ok(request) } else { Err(missing()) };
    }
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(missing());
    }
    let (parts, body) = request.into_parts();
    let (body, fate) = limited(body, MAX_FORM, time);
    let bytes = to_bytes(body, usize::MAX).await.map_err(|_| match fate.cut() {
        Some(cut) => Refused::from(cut_body(cut)).closing(),
        None => malformed(StatusCode::BAD_REQUEST, "the body is not whole; send it again"),
    })?;
    let given = std::str::from_utf8(&bytes).ok().and_then(|form| form::field(form, "csrf"));
    if !given.is_some_and(|given| is_csrf_of(session, &given)) {
        return Err(missing());
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// Bytes of a form, which is read before its session is trusted.
const MAX_FORM: u64 = 256 << 10;
const FORM_TIME: Duration = Duration::from_secs(10);

pub(super) fn cut_body(cut: Cut) -> HttpProblem {
    match cut {
        Cut::TooLarge => {
            let detail = "the body is larger than the server takes; send a smaller one";
            HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Too large", detail)
        }
        Cut::TooSlow => {
            let detail = "the body took too long; send it again on a faster connection";
            HttpProblem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "Too slow", detail)
        }
    }
}

fn too_slow_route() -> HttpProblem {
    let detail = "the server did not answer in time; what was asked may be done all the same, so look before you repeat it";
    HttpProblem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", "No answer in time", detail)
}

fn close(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Whether a browser asks for a page.
fn wants_page(request: &Request) -> bool {
    let accepts = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accepts.is_some_and(|accept| accept.contains("text/html")) && !is_api(request.uri())
}

fn is_api(uri: &Uri) -> bool {
    uri.path().starts_with("/v1/")
}
