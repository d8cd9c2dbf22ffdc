//! The checks of every request, in order. A request that fails a check reaches no later check and no route.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use tower_http::catch_panic::CatchPanicLayer;

use super::admission::Admission;
use super::attempted::AttemptedChange;
use super::attempts::Attempts;
use super::audit::Audit;
use super::body::limited;
use super::csrf::{FORM_TIME, check_csrf};
use super::foreign::as_problem;
use super::headers;
use super::hosts::{Hosts, Name};
use super::identity::Identity;
use super::listen::DoorLimits;
use super::login;
use super::page_request::PageRequest;
use super::refusal::{Refusal, cut_body, malformed, refused, too_slow_route};
use super::secret::{NoRandomBytes, Secret};
use super::sessions::Sessions;
use super::shape::{check_form, needless_body};
use super::site::{check_origin, check_site};
use super::watched::WatchedTokens;
use super::who::Sender;
use crate::problem::HttpProblem;

/// The configuration of a door.
#[derive(Debug)]
pub struct DoorsConfig {
    /// The address at which the server listens.
    pub listen: SocketAddr,
    /// The names of the server.
    pub hosts: Hosts,
    /// The tokens. `None`: only the person at this machine gets in, with all rights.
    pub tokens: Option<WatchedTokens>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub proxies: Vec<IpAddr>,
    /// The limits of requests.
    pub limits: DoorLimits,
    /// The audit log for logins and for what callers do.
    pub audit: Audit,
}

/// Why a server cannot listen in this way.
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

/// The door of a server: it authenticates and checks every request. Clones are the same door.
#[derive(Clone, Debug)]
pub struct Doors {
    pub(super) inside: Arc<DoorState>,
}

pub(super) struct DoorState {
    pub(super) config: DoorsConfig,
    pub(super) sessions: Sessions,
    pub(super) attempts: Attempts,
    /// Refused changes of unknown callers.
    pub(super) changes: Attempts,
    /// The names of the cookies. They contain the port, since browsers send the cookies of a host to all its ports.
    pub(super) cookie: [String; 2],
}

impl fmt::Debug for DoorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorState").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Doors {
    /// Makes a door.
    ///
    /// # Errors
    /// If other machines reach the address and there are no tokens.
    pub fn new(config: DoorsConfig) -> Result<Self, NotADoor> {
        if !config.listen.ip().is_loopback() && config.tokens.is_none() {
            return Err(NotADoor::WithoutTokens(config.listen));
        }
        let port = config.listen.port();
        let cookie = [format!("loopgate_{port}"), format!("__Host-loopgate_{port}")];
        let (sessions, attempts, changes) = (Sessions::default(), Attempts::default(), Attempts::default());
        Ok(Self { inside: Arc::new(DoorState { config, sessions, attempts, changes, cookie }) })
    }

    /// A one-time code for the person at this machine, for `/login?code=…`. `None`: other machines can reach the
    /// server, so a token is needed.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn invite(&self) -> Result<Option<Secret>, NoRandomBytes> {
        if !self.inside.config.listen.ip().is_loopback() {
            return Ok(None);
        }
        self.inside.sessions.invite().map(Some)
    }

    /// Puts the door in front of a router, and adds `/login` and `/logout`. Each request that reaches a route has a
    /// [`Caller`](crate::caller::Caller) and an [`Identity`] in its extensions. These paths are open to all and have neither: `/healthz`,
    /// `/readyz`, `/openapi.json`, `/favicon.ico` and `/assets/…`.
    pub fn guard(&self, router: Router) -> Router {
        // Around the routes as a whole: a layer of theirs would be around each alone, where it is known already which it is.
        Router::new()
            .fallback_service(router.merge(login::routes(self)))
            .layer(CatchPanicLayer::custom(|_| {
                let detail = "the server failed on this request; the operator finds the reason in its output";
                HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error", detail)
                    .into_response()
            }))
            .layer(from_fn_with_state(self.clone(), answer))
    }
}

async fn answer(State(doors): State<Doors>, request: Request, next: Next) -> Response {
    let page = PageRequest::of(&request);
    let mut reader = None;
    let mut response = match doors.inside.admit(request).await {
        Ok(AdmittedRequest { mut request, fate }) => {
            reader = request.extensions().get::<Identity>().cloned();
            let needless = needless_body(&request);
            if needless.is_some() {
                // No route has this method, so none runs, and the path says which it takes.
                *request.method_mut() = Method::OPTIONS;
            }
            let limit = doors.inside.config.limits.answer_time;
            let answered = match tokio::time::timeout(limit, next.run(request)).await {
                Ok(response) => response,
                Err(_) => too_slow_route().into_response(),
            };
            match (needless, fate.cut()) {
                (Some((method, problem)), _) if takes(&answered, &method) => close(problem.into_response()),
                (_, Some(cut)) => close(cut_body(cut).into_response()),
                (_, None) => as_problem(answered),
            }
        }
        Err(Refusal { problem, is_closed, asks_token }) => {
            let has_tokens = doors.inside.config.tokens.is_some();
            let mut response = match page.wants_page && asks_token {
                true => login::page_of(&problem, has_tokens, page.again.as_deref(), page.is_linked),
                false => problem.into_response(),
            };
            if asks_token {
                let bearer = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
            }
            if is_closed { close(response) } else { response }
        }
    };
    response = page.shown(response, reader.as_ref());
    headers::set(response.headers_mut());
    response
}

struct AdmittedRequest {
    request: Request,
    fate: super::body::BodyFate,
}

impl DoorState {
    /// Checks a request. A change from a page of another site, or with a forged token, is recorded.
    async fn admit(self: &Arc<Self>, request: Request) -> Result<AdmittedRequest, Refusal> {
        check_form(&request, &self.config.limits)?;
        let name = self.host(request.headers())?;
        let from = self.from(&request);
        let attempted = AttemptedChange::of(&request);
        let refused = match self.identified(request, name, from).await {
            Ok(admitted) => return Ok(admitted),
            Err(refused) => refused,
        };
        if let Some(attempted) = attempted
            && refused.problem().status == StatusCode::FORBIDDEN
        {
            self.record(attempted, &refused, from).await;
        }
        Err(refused)
    }

    /// Checks the origin of a request, and authenticates its sender.
    async fn identified(
        self: &Arc<Self>,
        mut request: Request,
        name: &Name,
        from: IpAddr,
    ) -> Result<AdmittedRequest, Refusal> {
        let limits = &self.config.limits;
        let is_change = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        check_origin(request.headers(), name)?;
        let is_login = request.uri().path() == login::LOGIN;
        let is_open = is_login || is_open_to_all(request.uri().path());
        request.extensions_mut().insert(ClientAddress(from));
        if !is_open || request.uri().path() == login::LOGOUT {
            let known = self.identify(request.headers(), from).await?;
            if let Sender { identity: Identity { csrf: Some(_), .. }, session: Some(session), .. } = &known {
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
        Ok(AdmittedRequest { request: Request::from_parts(parts, body), fate })
    }

    /// The name of the server in the request.
    fn host(&self, headers: &HeaderMap) -> Result<&Name, Refusal> {
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
}

/// The id of the session of a request, for the route that ends it.
#[derive(Clone)]
pub(super) struct Session(pub(super) Arc<str>);

/// The address of the client of a request.
#[derive(Clone, Copy)]
pub(super) struct ClientAddress(pub(super) IpAddr);

/// Whether browsers reach the server by TLS under the name in this request.
#[derive(Clone, Copy)]
pub(super) struct IsHttps(pub(super) bool);

/// Whether the path of a 405 response accepts this method.
fn takes(answer: &Response, method: &Method) -> bool {
    let allowed = answer.headers().get(header::ALLOW).and_then(|allowed| allowed.to_str().ok());
    allowed.is_some_and(|allowed| allowed.split(',').any(|allowed| allowed == method.as_str()))
}

fn is_open_to_all(path: &str) -> bool {
    // The document says nothing of what is served.
    matches!(path, "/healthz" | "/readyz" | "/openapi.json" | "/favicon.ico") || path.starts_with("/assets/")
}

fn close(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
