//! Sends a request, follows its redirects, and reads no more of the answer than it may.

use std::error::Error as _;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use loop_core::types::Proxy;
use reqwest::header::{CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Method, Request, Response, StatusCode};
use rustls::ClientConfig;
use url::Url;

use crate::connectors::http::guard::{
    AddressScope, Guard, GuardedResolver, NameSource, RefusedAddress, SystemNames, host_of, proxies, proxy_of,
};
use crate::connectors::http::rate;
use crate::connectors::http::request::{Payload, Unsigned, set_parameter};
use crate::connectors::http::unpack::{UnpackError, unpacked};
use crate::connectors::tls::client_config;

/// How long a connection may take to be made, with the name's addresses and TLS.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection that is not used is kept.
const IDLE: Duration = Duration::from_secs(30);
/// The most header lines of an answer.
const MAX_HEADERS: usize = 100;
/// The most bytes of an answer's headers over HTTP/2.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// What sends the requests of one tool.
pub(crate) struct Client {
    guard: Guard,
    redirects: u32,
    per_minute: Option<u32>,
    /// Whether a connection is used again. One that the server has just closed would lose what is sent by it.
    reuses: bool,
    /// The settings of TLS of a tool that trusts more than the system does. `None`: those of the system.
    tls: Option<ClientConfig>,
    names: Arc<dyn NameSource>,
    public: OnceLock<Result<reqwest::Client, String>>,
    /// For the places of [`AddressScope::Private`]. It has connections of its own, so that no other place gets one of them.
    private: OnceLock<Result<reqwest::Client, String>>,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Where it came from, after redirects.
    pub(crate) url: Url,
    pub(crate) body: Vec<u8>,
}

/// What shows who sends a request, and how it may be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signature {
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) query: Option<(String, String)>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// It may not be sent, or cannot be.
    Refused(String),
    /// It may be sent only after this time.
    Limited(String, Duration),
    /// No connection was made, so that nothing was sent.
    Unreachable(String),
    /// It was sent, and the answer did not come.
    Lost(String),
    /// An answer with this status began, and cannot be read: not this time where `passes`.
    Unreadable { status: StatusCode, message: String, passes: bool },
}

/// Whether a request may have left: what a call that is cut off has to know.
#[derive(Debug, Default)]
pub(crate) struct SentFlag(AtomicBool);

impl SentFlag {
    pub(crate) fn has_left(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn leave(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Client {
    pub(crate) fn new(guard: Guard, redirects: u32, per_minute: Option<u32>) -> Self {
        Self {
            guard,
            redirects,
            per_minute,
            reuses: true,
            tls: None,
            names: Arc::new(SystemNames),
            public: OnceLock::new(),
            private: OnceLock::new(),
        }
    }

    /// The same with a connection of its own for each request: for what must not be lost.
    pub(crate) fn with_fresh_connections(mut self) -> Self {
        self.reuses = false;
        self
    }

    /// The same with other settings of TLS. `None`: those of the system.
    pub(crate) fn with_tls(mut self, tls: Option<&ClientConfig>) -> Self {
        self.tls = tls.cloned();
        self
    }

    /// The same with other addresses of names.
    #[cfg(test)]
    pub(crate) fn with_names(mut self, names: Arc<dyn NameSource>) -> Self {
        self.names = names;
        self
    }

    /// The answer to a request, of at most `limit` bytes. What shows who sends it goes to the request's own scheme, host and
    /// port alone. Only a GET follows redirects.
    pub(crate) async fn send(
        &self,
        prepared: &Unsigned,
        signed: &Signature,
        own: &Url,
        limit: usize,
        departure: &SentFlag,
    ) -> Result<Answer, SendError> {
        let mut url = prepared.url.clone();
        let mut hops = 0;
        loop {
            let request = self.request(prepared, &url, signed, own)?;
            let client = self.client_for(request.url())?;
            if let Some(limit) = self.per_minute {
                let place = format!("{}:{}", host_of(&url), url.port_or_known_default().unwrap_or_default());
                rate::take(&place, limit).map_err(|wait| {
                    SendError::Limited(format!("the limit of {limit} requests a minute is reached"), wait)
                })?;
            }
            departure.leave();
            let response = client.execute(request).await.map_err(|error| self.failed(error))?;
            if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
                && let Some(proxy) = self.proxy(&url)
            {
                return Err(SendError::Unreachable(format!("no connection could be made {}", proxy.hint())));
            }
            let Some(next) = self.next(&response, &url, prepared.method == Method::GET, hops)? else {
                return read(response, url, limit).await;
            };
            url = next;
            hops += 1;
        }
    }

    fn request(
        &self,
        prepared: &Unsigned,
        url: &Url,
        signed: &Signature,
        own: &Url,
    ) -> Result<Request, SendError> {
        let mut request = Request::new(prepared.method.clone(), url.clone());
        let is_own = url.origin() == own.origin();
        *request.headers_mut() = prepared.headers.clone();
        if is_own {
            request.headers_mut().extend(signed.headers.iter().cloned());
            if let Some((name, value)) = &signed.query {
                set_parameter(request.url_mut(), name, value);
            }
        } else {
            // What the headers say is for the server that the author named.
            request.headers_mut().clear();
            let accept = prepared.headers.get(reqwest::header::ACCEPT);
            request.headers_mut().extend(accept.map(|accept| (reqwest::header::ACCEPT, accept.clone())));
        }
        let body = match &prepared.body {
            None => None,
            Some(Payload::Json(value)) => Some(value.to_string().into()),
            Some(Payload::Form(form)) => Some(form.clone().into()),
        };
        *request.body_mut() = body;
        Ok(request)
    }

    /// The client that may make a request to this URL.
    pub(crate) fn client_for(&self, url: &Url) -> Result<&reqwest::Client, SendError> {
        let reach = self.guard.check(url).and_then(|reach| Guard::check_name(url, reach).map(|()| reach));
        let reach = reach.map_err(|refused| SendError::Refused(refused.to_string()))?;
        let slot = match reach {
            AddressScope::Public => &self.public,
            AddressScope::Private => &self.private,
        };
        proxy_of(url, reach).map_err(SendError::Refused)?;
        let made = slot.get_or_init(|| {
            let resolver = GuardedResolver { reach, names: Arc::clone(&self.names), proxies: proxies(reach) };
            build(resolver, self.reuses, self.tls.as_ref())
        });
        made.as_ref().map_err(|error| {
            SendError::Refused(format!("no HTTP client can be made on this machine: {error}"))
        })
    }

    /// The proxy by which a URL is reached.
    fn proxy(&self, url: &Url) -> Option<Proxy> {
        self.guard.check(url).ok().and_then(|reach| proxy_of(url, reach).ok().flatten())
    }

    /// Why a request has no answer, without its URL.
    pub(crate) fn failed(&self, error: reqwest::Error) -> SendError {
        if let Some(refused) = RefusedAddress::behind(&error) {
            return SendError::Refused(refused.to_string());
        }
        let is_connect = error.is_connect();
        let proxy = error.url().and_then(|url| self.proxy(url));
        let error = error.without_url();
        let mut source = error.source();
        let mut last = None;
        while let Some(cause) = source {
            last = Some(cause);
            source = cause.source();
        }
        let why = last.map_or_else(|| error.to_string(), ToString::to_string);
        match proxy {
            _ if error.is_builder() => SendError::Refused(format!("the request cannot be sent: {why}")),
            _ if !is_connect => SendError::Lost(format!("the server did not answer: {why}")),
            None => SendError::Unreachable(format!("no connection could be made: {why}")),
            Some(proxy) => {
                SendError::Unreachable(format!("no connection could be made: {why} ({})", proxy.hint()))
            }
        }
    }

    /// Where an answer redirects to; `None` where it is the answer.
    fn next(
        &self,
        response: &Response,
        url: &Url,
        is_get: bool,
        hops: u32,
    ) -> Result<Option<Url>, SendError> {
        let status = response.status();
        let redirects = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
        if !redirects || !is_get {
            return Ok(None);
        }
        let refused = |message: String| Err(SendError::Refused(message));
        if hops >= self.redirects {
            let host = host_of(url);
            return refused(match self.redirects {
                0 => format!("`{host}` redirects to another address, and this tool follows no redirects"),
                max => format!("`{host}` redirects further than {max} times"),
            });
        }
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let Some(mut next) = location.and_then(|location| url.join(location).ok()) else {
            return refused(format!("`{}` redirects to no address", host_of(url)));
        };
        next.set_fragment(None);
        match self.guard.check(&next) {
            Ok(_) => Ok(Some(next)),
            Err(error) => refused(format!("`{}` redirects where it may not: {error}", host_of(url))),
        }
    }

    /// Whether a further page may be read from this URL.
    pub(crate) fn check(&self, url: &Url) -> Result<(), String> {
        self.guard.check(url).map(|_| ()).map_err(|refused| refused.to_string())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl Answer {
    /// A success that says nothing.
    pub(crate) fn nothing(url: &Url) -> Self {
        let status = StatusCode::NO_CONTENT;
        Self { status, headers: HeaderMap::new(), url: url.clone(), body: Vec::new() }
    }

    /// How long the server asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        match text.parse() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            Err(_) => {
                let date = httpdate::parse_http_date(text).ok()?;
                Some(date.duration_since(SystemTime::now()).unwrap_or_default())
            }
        }
    }
}

/// The settings of TLS with the protocols that this client speaks: reqwest does not add them to settings that it is given.
fn with_protocols(tls: Option<&ClientConfig>) -> Result<ClientConfig, String> {
    let mut tls = match tls {
        Some(tls) => tls.clone(),
        None => client_config(None).map_err(|error| error.to_string())?,
    };
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

/// A client that connects to what its resolver lets through, and follows nothing by itself. What is public goes by the proxies of
/// the environment, as calls of models do.
fn build(
    resolver: GuardedResolver,
    reuses: bool,
    tls: Option<&ClientConfig>,
) -> Result<reqwest::Client, String> {
    let client = reqwest::Client::builder();
    let client = match resolver.reach {
        AddressScope::Public => client,
        AddressScope::Private => client.no_proxy(),
    };
    let client = client
        .tls_backend_preconfigured(with_protocols(tls)?)
        .dns_resolver(resolver)
        .redirect(Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(if reuses { usize::MAX } else { 0 })
        .user_agent(concat!("loopgate/", env!("CARGO_PKG_VERSION")))
        .http1_max_headers(MAX_HEADERS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .build();
    client.map_err(|error| error.to_string())
}

/// The answer with its body, where that is not longer than `limit`.
async fn read(mut response: Response, url: Url, limit: usize) -> Result<Answer, SendError> {
    let status = response.status();
    let unreadable = |message: String, passes| Err(SendError::Unreadable { status, message, passes });
    let too_long = || format!("the answer has more than {limit} bytes; ask for less, or raise `max_bytes`");
    let announced = response.content_length().unwrap_or_default();
    if usize::try_from(announced).map_or(true, |bytes| bytes > limit) {
        return unreadable(too_long(), false);
    }
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > limit => return unreadable(too_long(), false),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(_) => return unreadable("the connection broke in the middle of the answer".to_owned(), true),
        }
    }
    let headers = std::mem::take(response.headers_mut());
    let codings: Vec<&str> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .map(|value| value.to_str().unwrap_or("unreadable"))
        .collect();
    // Some servers pack without being asked.
    let body = match unpacked(body, &codings.join(","), limit) {
        Ok(body) => body,
        Err(UnpackError::TooLong) => return unreadable(too_long(), false),
        Err(UnpackError::Broken(message)) => return unreadable(message, false),
    };
    Ok(Answer { status, headers, url, body })
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
