//! The refusal of a request: its problem, and whether the connection is closed.

use axum::http::StatusCode;

use super::body::BodyCut;
use crate::problem::HttpProblem;

/// A refused request.
pub(super) struct Refusal {
    pub(super) problem: HttpProblem,
    /// Whether the connection must be closed, since what follows may not be a request.
    pub(super) is_closed: bool,
    pub(super) asks_token: bool,
}

impl Refusal {
    /// The same refusal, after which the connection is closed.
    pub(super) fn closing(self) -> Self {
        Self { is_closed: true, ..self }
    }

    /// The problem for the caller.
    pub(super) fn problem(&self) -> &HttpProblem {
        &self.problem
    }
}

impl From<HttpProblem> for Refusal {
    fn from(problem: HttpProblem) -> Self {
        Self { problem, is_closed: false, asks_token: false }
    }
}

/// The refusal of a malformed request. What follows it on the connection cannot be trusted, so the connection is
/// closed.
pub(super) fn malformed(status: StatusCode, detail: &'static str) -> Refusal {
    let problem = HttpProblem::new(status, "bad-request", "Not a valid request", detail);
    Refusal { problem, is_closed: true, asks_token: false }
}

pub(super) fn refused(
    status: StatusCode,
    name: &'static str,
    title: &'static str,
    detail: &'static str,
) -> Refusal {
    HttpProblem::new(status, name, title, detail).into()
}

pub(super) fn forbidden(detail: &'static str) -> Refusal {
    refused(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
}

pub(super) fn unauthorized(detail: &'static str) -> Refusal {
    let problem = HttpProblem::new(StatusCode::UNAUTHORIZED, "unauthorized", "Not logged in", detail);
    Refusal { problem, is_closed: false, asks_token: true }
}

pub(super) fn cut_body(cut: BodyCut) -> HttpProblem {
    match cut {
        BodyCut::TooLarge => {
            let detail = "the body is larger than the server takes; send a smaller one";
            HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Too large", detail)
        }
        BodyCut::TooSlow => {
            let detail = "the body took too long; send it again on a faster connection";
            HttpProblem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "Too slow", detail)
        }
    }
}

pub(super) fn too_slow_route() -> HttpProblem {
    let detail = "the server did not answer in time; what was asked may be done all the same, so look before you repeat it";
    HttpProblem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", "No answer in time", detail)
}
