//! The HTTP API below `/v1`, as an axum router.
//!
//! One table, `table::routes`, makes both the router and the OpenAPI document. Only `access` decides what a
//! caller may do. The door adds the [`Caller`](crate::caller::Caller) to the extensions of each request. A request
//! without one is refused.

pub(crate) mod access;
mod body;
mod events;
mod filters;
pub(crate) mod look;
mod openapi;
mod people;
mod readers;
pub(crate) mod refuse;
pub(crate) mod runs;
mod system;
mod table;
mod types;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use crate::doors::Audit;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::problem::HttpProblem;

pub use openapi::document;
pub(crate) use refuse::problem;
pub use types::*;

/// The state that the handlers share.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    engine: Engine,
    metrics: Arc<Metrics>,
    audit: Audit,
    /// The most bytes of a body.
    max_body: usize,
    /// Requests that wait for a run.
    waiting: Arc<Semaphore>,
    /// Requests that read the events of a run.
    readers: Arc<readers::Readers>,
    document: Arc<str>,
}

/// The routes of the API for this engine. Changes are recorded in `audit`. A door must be in front of the router: see
/// [`Doors::guard`](crate::doors::Doors::guard).
pub fn router(engine: Engine, audit: Audit) -> Router {
    let max_body = max_body(&engine);
    let metrics = Arc::new(Metrics::new());
    let api = Api {
        engine,
        metrics: Arc::clone(&metrics),
        audit,
        max_body,
        waiting: Arc::new(Semaphore::new(MAX_WAITING)),
        readers: Arc::default(),
        document: serde_json::to_string_pretty(&document()).unwrap_or_default().into(),
    };
    let mut router = Router::new();
    for route in table::routes() {
        router = router.route(route.path, (route.handler)());
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(move |request: Request, next: Next| {
            let metrics = Arc::clone(&metrics);
            async move { metrics.timed(request, next).await }
        }))
        .with_state(api)
}

/// The most bytes of a request body.
pub fn max_body(engine: &Engine) -> usize {
    let largest = engine.domains().map(|domain| domain.domain.item_bytes_max()).max().unwrap_or_default();
    // In JSON a byte may take six.
    usize::try_from(largest).unwrap_or(usize::MAX).saturating_mul(6).saturating_add(BODY_BYTES)
}

async fn not_found() -> Response {
    let detail = "there is nothing at this path; GET /openapi.json lists the paths";
    HttpProblem::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail).into_response()
}

async fn wrong_method() -> Response {
    let detail = "the path does not take this method; GET /openapi.json lists the methods";
    HttpProblem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "Method not allowed", detail).into_response()
}

/// Bytes of a body besides the work item.
const BODY_BYTES: usize = 64 << 10;
/// Requests that wait for runs at a time. Further ones are answered at once.
const MAX_WAITING: usize = 128;
