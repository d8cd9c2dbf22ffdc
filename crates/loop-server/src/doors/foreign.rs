//! Converts errors of axum and of its extractors to problem documents.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use crate::problem::HttpProblem;

/// A response of the library with an error status and no content, such as for an unknown path, as a problem.
pub(super) fn as_problem(response: Response) -> Response {
    let status = response.status();
    let is_ours = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.as_bytes();
        kind.starts_with(b"application/") || kind.starts_with(b"text/html")
    });
    if is_ours || !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (name, title, detail) = match status {
        StatusCode::NOT_FOUND => {
            ("not-found", "Not found", "there is nothing at this path; see /openapi.json")
        }
        StatusCode::METHOD_NOT_ALLOWED => (
            "method",
            "Not a method of this path",
            "the header Allow names the methods of this path; use one of them",
        ),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (
            "media-type",
            "Not a type of this path",
            "send the body as /openapi.json says, with its Content-Type",
        ),
        StatusCode::PAYLOAD_TOO_LARGE => {
            ("too-large", "Too large", "the body is larger than the server takes; send less")
        }
        _ if status.is_client_error() => {
            ("bad-request", "Not a valid request", "the request is not as /openapi.json says; correct it")
        }
        _ => (
            "internal",
            "Internal error",
            "the server failed on this request; the operator finds the reason in its output",
        ),
    };
    let (parts, _) = response.into_parts();
    let mut problem = HttpProblem::new(status, name, title, detail).into_response();
    for kept in [header::ALLOW, header::RETRY_AFTER, header::CONNECTION] {
        if let Some(value) = parts.headers.get(&kept) {
            problem.headers_mut().insert(kept, value.clone());
        }
    }
    problem
}
