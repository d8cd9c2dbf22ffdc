//! Parses the bodies, queries and headers of requests.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use serde::de::DeserializeOwned;

use super::Api;
use crate::problem::HttpProblem;

/// Reads a body of JSON. An empty one counts as an empty object.
pub(super) async fn json<T: DeserializeOwned>(api: &Api, body: Body) -> Result<T, HttpProblem> {
    let max = api.max_body;
    let bytes = axum::body::to_bytes(body, max).await.map_err(|_| {
        let detail = format!("the body is longer than {max} bytes, or not whole; send a shorter one");
        HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Body too large", detail)
    })?;
    let bytes = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
    serde_json::from_slice(bytes).map_err(|error| {
        let detail = format!("the body: {error}; GET /openapi.json says what it looks like");
        HttpProblem::new(StatusCode::BAD_REQUEST, "body", "Body not understood", detail)
    })
}

/// Parses a query. An error names the problem in one line.
pub(super) fn query<T: DeserializeOwned>(text: Option<&str>) -> Result<T, HttpProblem> {
    serde_urlencoded(text.unwrap_or_default())
        .map_err(|error| query_problem(format!("the query: {error}; GET /openapi.json lists the parameters")))
}

/// A query that cannot be answered, for this reason.
pub(super) fn query_problem(detail: impl Into<String>) -> HttpProblem {
    HttpProblem::new(StatusCode::BAD_REQUEST, "query", "Query not understood", detail)
}

/// The problem of a query for something that does not exist for the caller.
pub(super) fn nothing_there(detail: impl Into<String>) -> HttpProblem {
    HttpProblem::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
}

fn serde_urlencoded<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let uri: axum::http::Uri = format!("/?{text}").parse().map_err(|_| "not a query".to_owned())?;
    axum::extract::Query::try_from_uri(&uri).map(|axum::extract::Query(value)| value).map_err(|error| {
        error.body_text().trim_start_matches("Failed to deserialize query string: ").to_owned()
    })
}

/// The header of this name. `None`: there is none. Fails if there are several.
pub(super) fn single<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> Result<Option<&'h HeaderValue>, HttpProblem> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (only, None) => Ok(only),
        (_, Some(_)) => {
            let detail = format!("the request has several headers {name}; send one");
            Err(HttpProblem::new(StatusCode::BAD_REQUEST, "bad-request", "Not a valid request", detail))
        }
    }
}

/// How long a caller prefers to wait for the run (RFC 7240), at most [`MAX_WAIT`].
pub(super) fn wait_of(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split([',', ';']));
    let seconds = preferences
        .find_map(|preference| preference.trim().strip_prefix("wait=")?.trim().parse::<u64>().ok())?;
    Some(Duration::from_secs(seconds).min(MAX_WAIT))
}

/// The longest time that a request waits.
const MAX_WAIT: Duration = Duration::from_secs(60);
