//! Problem documents for failed requests (RFC 9457), with one line that says what is wrong, where, and how to fix it.

use std::borrow::Cow;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// A problem document. It has no path of this machine, no secret and no stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct HttpProblem {
    /// Which kind of problem it is: a URI reference under `/problems/`. Programs decide by it.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The kind in words.
    pub title: Cow<'static, str>,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong with this request, and how to fix it, in one line.
    pub detail: String,
    /// The seconds after which the request can be sent again. Absent: sending it again does not help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

impl HttpProblem {
    /// A problem of the kind `/problems/NAME`.
    pub fn new(
        status: StatusCode,
        name: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind: Cow::Owned(format!("/problems/{name}")),
            title: Cow::Borrowed(title),
            status: status.as_u16(),
            detail: detail.into(),
            retry_after: None,
        }
    }

    /// The detail as a sentence, for people.
    pub(crate) fn sentence(&self) -> String {
        let mut chars = self.detail.chars();
        let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
        format!("{first}{}.", chars.as_str())
    }

    /// The problem with a `Retry-After`, in seconds.
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }
}

impl IntoResponse for HttpProblem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after;
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        // The door makes a page of it where a browser asks.
        response.extensions_mut().insert(self);
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
