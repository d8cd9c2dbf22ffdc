//! Refuses ambiguous requests, which two HTTP programs could read differently, and features that no route needs.

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::{Method, StatusCode, Version, header};

use super::body::BodyCut;
use super::listen::DoorLimits;
use super::refusal::{Refusal, cut_body, malformed, refused};
use super::tokens::TOKEN_PREFIX;
use crate::problem::HttpProblem;

/// Fails for an ambiguous request, and for features that no route needs.
pub(super) fn check_form(request: &Request, limits: &DoorLimits) -> Result<(), Refusal> {
    let (uri, headers) = (request.uri(), request.headers());
    if request.version() < Version::HTTP_10 || uri.authority().is_some() || !uri.path().starts_with('/') {
        let detail = "the target of the request is not a path; send it as `GET /path HTTP/1.1`";
        return Err(malformed(StatusCode::BAD_REQUEST, detail));
    }
    if uri.path_and_query().is_some_and(|target| target.as_str().len() > limits.target_bytes) {
        return Err(malformed(StatusCode::URI_TOO_LONG, "the path and query are too long; shorten them"));
    }
    if !is_plain_path(uri.path()) {
        let detail = "the path has a segment `.` or `..`, or an encoded `.`, `/`, `\\` or control character; send it plainly";
        return Err(malformed(StatusCode::BAD_REQUEST, detail));
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        let detail = "a body is sent with Content-Length and without Transfer-Encoding; send its length";
        return Err(malformed(StatusCode::LENGTH_REQUIRED, detail));
    }
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let length =
        lengths.next().map(|length| length.to_str().ok().and_then(|length| length.parse::<u64>().ok()));
    if length == Some(None) || lengths.next().is_some() {
        return Err(malformed(
            StatusCode::BAD_REQUEST,
            "the header Content-Length is not one number; send it once",
        ));
    }
    let length = length.flatten().unwrap_or_default();
    if length > limits.body_bytes {
        return Err(Refusal::from(cut_body(BodyCut::TooLarge)).closing());
    }
    if uri.query().is_some_and(|query| query.contains(TOKEN_PREFIX)) {
        let detail = "a token in the address ends up in logs; send it as `Authorization: Bearer TOKEN`, and replace this one";
        return Err(refused(StatusCode::BAD_REQUEST, "bad-request", "Not a valid request", detail));
    }
    Ok(())
}

/// The method of a request whose body is useless, and the problem to return if the path accepts the method.
pub(super) fn needless_body(request: &Request) -> Option<(Method, HttpProblem)> {
    let is_bodiless = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let detail = "a request with this method has no body; leave it out";
    (is_bodiless && !request.body().is_end_stream())
        .then(|| (request.method().clone(), malformed(StatusCode::BAD_REQUEST, detail).problem))
}

/// Whether every HTTP program reads the same segments in a path.
fn is_plain_path(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let control = |at: usize| {
        let high = lower.as_bytes().get(at + 1);
        matches!(high, Some(b'0' | b'1')) || lower.get(at + 1..at + 3) == Some("7f")
    };
    let is_encoded = ["%2e", "%2f", "%5c", "%25"].iter().any(|bad| lower.contains(bad))
        || lower.match_indices('%').any(|(at, _)| control(at));
    let is_dotted = path.split('/').any(|segment| segment == "." || segment == "..");
    !is_encoded && !is_dotted && !path.contains('\\') && !path.contains("//")
}
