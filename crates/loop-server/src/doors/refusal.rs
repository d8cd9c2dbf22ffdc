//! The refusal of a request: its problem, and whether the connection is closed.

use axum::http::StatusCode;

use super::body::Cut;
use crate::problem::HttpProblem;

/// A refused request.
pub(super) struct Refused {
    pub(super) problem: HttpProblem,
    /// Whether the connection must be closed, since what follows may not be a request.
    pub(super) is_closed: bool,
    pub(super) asks_token: bool,
}

impl Refused {
    /// The same refusal, after which the connection is closed.
    pub(super) fn closing(self) -> Self {
        Self { is_closed: true, ..self }
    }

    /// The problem for the caller.
    pub(super) fn problem(&self) -> &HttpProblem {
        &self.problem
    }
}

impl From<HttpProblem> for Refused {
    fn from(problem: HttpProblem) -> Self {
        Self { problem, is_closed: false, asks_token: false }
    }
}

/// The refusal of a malformed request. What follows it on the connection cannot be trusted, so the connection is
/// closed.
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

pub(super) fn unauthorized(detail: &'static str) -> Refused {
    let problem = HttpProblem::new(StatusCode::UNAUTHORIZED, "unauthorized", "Not logged in", detail);
    Refused { problem, is_closed: false, asks_token: true }
}

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

pub(super) fn too_slow_route() -> HttpProblem {
    let detail = "the server did not answer in time; what was asked may be done all the same, so look before you repeat it";
    HttpProblem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", "No answer in time", detail)
}
