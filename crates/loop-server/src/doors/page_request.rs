//! Responses to browsers: problems as pages with a way back, and pages with the name of their reader.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use futures::{StreamExt as _, stream};

use super::identity::Identity;
use super::site::SITE;
use crate::pages::shell::{READER, WaitingCount, reader, trouble};
use crate::problem::HttpProblem;

/// What a response depends on besides the route.
pub(super) struct PageRequest {
    /// Whether a browser requests a page. The API responds to a browser as to a program.
    pub(super) wants_page: bool,
    path: Arc<str>,
    /// Path and query of a page that can be requested again. `None`: it cannot.
    pub(super) again: Option<Arc<str>>,
    /// Whether a link on another site leads here.
    pub(super) is_linked: bool,
}

impl PageRequest {
    pub(super) fn of(request: &Request) -> Self {
        let (uri, accepts) = (request.uri(), request.headers().get(header::ACCEPT));
        let accepts = accepts.and_then(|accept| accept.to_str().ok());
        let wants_page =
            accepts.is_some_and(|accept| accept.contains("text/html")) && !uri.path().starts_with("/v1/");
        let again = uri.path_and_query().map(|target| target.as_str());
        let again = again.filter(|target| request.method() == Method::GET && is_page(target));
        let site = request.headers().get(SITE).map(HeaderValue::as_bytes);
        let is_linked = site.is_some_and(|site| site != b"same-origin" && site != b"none");
        Self { wants_page, path: uri.path().into(), again: again.map(Arc::from), is_linked }
    }

    /// The response in the form for this request.
    pub(super) fn shown(&self, mut response: Response, identity: Option<&Identity>) -> Response {
        if let Some(problem) = response.extensions_mut().remove::<HttpProblem>()
            && self.wants_page
        {
            // Its headers stay: what is allowed, when to try again, whether the connection ends.
            *response.body_mut() = Body::from(trouble(&problem, &self.path));
            let headers = response.headers_mut();
            headers.remove(header::CONTENT_LENGTH);
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        }
        let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        match identity {
            Some(identity) if kind.is_some_and(|kind| kind.starts_with(b"text/html")) => {
                named(response, identity)
            }
            _ => response,
        }
    }
}

/// Adds the name of the reader to a page. The header is in the first chunk.
fn named(response: Response, identity: &Identity) -> Response {
    let waiting = response.extensions().get::<WaitingCount>().copied();
    let account: Arc<str> =
        if identity.has_token { Arc::clone(&identity.caller.name) } else { identity.account() };
    let mut name = Some(reader(&account, &identity.caller, waiting));
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = body.into_data_stream().flat_map(move |part| {
        let place = part.as_ref().ok().and_then(|part| place_of(part));
        let parts = match (part, place) {
            (Ok(part), Some(at)) if let Some(name) = name.take() => {
                let rest = part.slice(at + READER.len()..);
                vec![Ok(part.slice(..at)), Ok(Bytes::from(name)), Ok(rest)]
            }
            (part, _) => vec![part],
        };
        stream::iter(parts)
    });
    Response::from_parts(parts, Body::from_stream(body))
}

/// The position for the name. Untrusted text has no markup, so the first match is in the header.
fn place_of(part: &[u8]) -> Option<usize> {
    let head = part.get(..part.len().min(MAX_HEAD))?;
    head.windows(READER.len()).position(|window| window == READER.as_bytes())
}

/// The most bytes before the end of the header.
const MAX_HEAD: usize = 16 << 10;

/// Whether this is the path of a page of this server, to which a login may lead back.
pub(super) fn is_page(target: &str) -> bool {
    let mut bytes = target.bytes();
    target.len() <= MAX_TARGET
        && bytes.next() == Some(b'/')
        && !matches!(bytes.next(), Some(b'/' | b'\\'))
        && target.bytes().all(|byte| byte.is_ascii_graphic())
        && !["/v1/", "/login", "/logout"].iter().any(|other| target.starts_with(other))
}

/// The most bytes of a path to which a login leads back.
const MAX_TARGET: usize = 2_048;
