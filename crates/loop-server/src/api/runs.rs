//! Routes for runs: submit, fork, retry, list and read.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use loop_core::types::{Digest, RunId};
use loop_runtime::journal::audit::AuditAction;
use serde_json::Value;

use super::access::{Access, ApiCaller, AuditSubject, DoorIdentity, RunTarget, run_for, unauthorized};
use super::filters::ListQuery;
use super::refuse::problem;
use super::types::{ForkRequest, RetryRequest, SubmitRequest};
use super::{Api, body};
use crate::caller::{Caller, Role};
use crate::doors::{Admission, Audit};
use crate::engine::{Engine, INDEXES, NewRun, RunFrom, RunPage, RunView, Submitted};
use crate::problem::HttpProblem;

/// `POST /v1/runs`.
pub(super) async fn submit(
    State(api): State<Api>,
    known: ApiCaller,
    checked: DoorIdentity,
    admission: Option<Extension<Admission>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpProblem> {
    let (shared, sent) = (api.clone(), headers.clone());
    // In a task of its own, so that it is recorded also where the client closes the connection meanwhile.
    let task = tokio::spawn(async move {
        let submitted = accept(&shared, &known, &checked, &sent, body).await;
        let of = AuditSubject::submission(submitted.as_ref().ok().map(|submitted| &submitted.run));
        checked.record_submitted(&shared.audit, of, None, &submitted).await;
        submitted
    });
    let submitted = super::access::of_task(task.await)?;
    shown(&api, submitted, &headers, admission).await
}

/// The submitted run, after the caller has waited for it as long as they prefer.
async fn shown(
    api: &Api,
    Submitted { run, is_new }: Submitted,
    headers: &HeaderMap,
    admission: Option<Extension<Admission>>,
) -> Result<Response, HttpProblem> {
    let waited = waited(api, &run, headers, admission).await?;
    let view = api.engine.view(&run).await.map_err(problem)?;
    let status = if is_new { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut response = (status, axum::Json(view)).into_response();
    if let Ok(at) = HeaderValue::from_str(&format!("/v1/runs/{run}")) {
        response.headers_mut().insert(header::LOCATION, at);
    }
    if waited {
        response.headers_mut().insert("preference-applied", HeaderValue::from_static("wait"));
    }
    Ok(response)
}

/// `POST /v1/runs/{run}/fork`.
pub(super) async fn fork(
    request: RunTarget,
    admission: Option<Extension<Admission>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpProblem> {
    let of = AuditSubject::run(AuditAction::Fork, &request.id);
    let ForkRequest { entry, settings } = request.checked.body(&request.api, &of, body).await?;
    let from = RunFrom::Fork { run: RunId::new(&*request.id), entry };
    let RunTarget { api, known, checked, .. } = request;
    let (settings, key) = (texts(settings), key_of(&headers));
    let submitted = begin_from(&api.engine, &api.audit, &known.0, checked, from, settings, key).await?;
    shown(&api, submitted, &headers, admission).await
}

/// `POST /v1/runs/{run}/retry`.
pub(super) async fn retry(
    request: RunTarget,
    admission: Option<Extension<Admission>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpProblem> {
    let of = AuditSubject::run(AuditAction::Retry, &request.id);
    let RetryRequest { settings } = request.checked.body(&request.api, &of, body).await?;
    let from = RunFrom::Retry { run: RunId::new(&*request.id) };
    let RunTarget { api, known, checked, .. } = request;
    let (settings, key) = (texts(settings), key_of(&headers));
    let submitted = begin_from(&api.engine, &api.audit, &known.0, checked, from, settings, key).await?;
    shown(&api, submitted, &headers, admission).await
}

/// Begins a run from another run. The caller needs the right to steer that one. The start is recorded.
pub(crate) async fn begin_from(
    engine: &Engine,
    audit: &Audit,
    caller: &Caller,
    checked: DoorIdentity,
    from: RunFrom,
    settings: Vec<(String, String)>,
    key: Result<Option<String>, HttpProblem>,
) -> Result<Submitted, HttpProblem> {
    let (action, run) = match &from {
        RunFrom::Fork { run, .. } => (AuditAction::Fork, run.clone()),
        RunFrom::Retry { run } => (AuditAction::Retry, run.clone()),
    };
    let (engine, audit, caller) = (engine.clone(), audit.clone(), caller.clone());
    // In a task of its own, so that it is recorded also where the client closes the connection meanwhile.
    let task = tokio::spawn(async move {
        let beginning = async {
            run_for(&engine, &caller, run.as_str(), Access::Steer).await?;
            let budget = checked.0.as_ref().and_then(|identity| identity.budget.clone());
            let caller = Arc::clone(&caller.name);
            let new = NewRun { from: Some(from), caller, key: key?, settings, budget, ..NewRun::default() };
            engine.submit(new).await.map_err(problem)
        };
        let submitted = beginning.await;
        let of = AuditSubject::run(action, run.as_str());
        let words = submitted.as_ref().ok().map(|submitted| format!("it is run {}", submitted.run));
        checked.record_submitted(&audit, of, words.as_deref(), &submitted).await;
        submitted
    });
    super::access::of_task(task.await)
}

/// The idempotency key of a request.
fn key_of(headers: &HeaderMap) -> Result<Option<String>, HttpProblem> {
    let key = body::single(headers, "idempotency-key")?;
    let text = key.map(|key| {
        key.to_str().map(str::to_owned).map_err(|_| invalid("Idempotency-Key: it is not ASCII; use another"))
    });
    text.transpose()
}

/// Settings in the form of a command line, in which texts have no quotes.
fn texts(settings: BTreeMap<String, Value>) -> Vec<(String, String)> {
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    settings.into_iter().map(|(key, value)| (key, text(value))).collect()
}

/// Parses a submission, checks the caller's rights, and accepts it.
async fn accept(
    api: &Api,
    known: &ApiCaller,
    checked: &DoorIdentity,
    headers: &HeaderMap,
    body: Body,
) -> Result<Submitted, HttpProblem> {
    known.expect(Role::Submit)?;
    let key = key_of(headers)?;
    // One that is not a traceparent is ignored, as the W3C demands.
    let traceparent = body::single(headers, "traceparent").ok().flatten();
    let traceparent = traceparent.and_then(|value| value.to_str().ok()?.parse().ok());
    let request: SubmitRequest = body::json(api, body).await?;
    let domain = match &request.domain {
        Some(domain) => Some(domain.clone()),
        // Of several domains, the only one that the caller sees.
        None => {
            let mut seen = api.engine.domains().map(|domain| domain.name()).filter(|name| known.0.sees(name));
            match (seen.next(), seen.next()) {
                (Some(only), None) => Some(only.to_string()),
                _ => None,
            }
        }
    };
    if let Some(domain) = &domain {
        known.expect_in(Role::Submit, domain)?;
    }
    if !(-100..=100).contains(&request.priority) {
        return Err(invalid("priority: it is not from -100 to 100; correct it"));
    }
    let new = NewRun {
        domain,
        traceparent,
        item: request.item,
        from: None,
        file: String::new(),
        caller: Arc::clone(&known.0.name),
        key,
        priority: request.priority,
        settings: texts(request.settings),
        tags: request.tags,
        budget: checked.0.as_ref().and_then(|identity| identity.budget.clone()),
    };
    api.engine.submit(new).await.map_err(problem)
}

/// Waits for a run as the caller prefers. Returns whether it waited.
///
/// # Errors
/// The caller's token or session became invalid meanwhile.
async fn waited(
    api: &Api,
    run: &RunId,
    headers: &HeaderMap,
    admission: Option<Extension<Admission>>,
) -> Result<bool, HttpProblem> {
    let Some(limit) = body::wait_of(headers) else { return Ok(false) };
    let Ok(_place) = api.waiting.try_acquire() else { return Ok(false) };
    let lost = async {
        match &admission {
            Some(Extension(admission)) => admission.lost().await,
            // No door is in front of the router.
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = api.engine.wait(run, limit) => Ok(true),
        () = lost => Err(unauthorized()),
    }
}

/// `GET /v1/runs/{run}`.
pub(super) async fn one(
    request: RunTarget,
    admission: Option<Extension<Admission>>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let (api, run) = request.run(Access::Read).await?;
    waited(&api, &run, &headers, admission).await?;
    let view = api.engine.view(&run).await.map_err(problem)?;
    Ok(tagged(&headers, &view))
}

/// A run with its ETag, or 304 if the caller has this version.
fn tagged(headers: &HeaderMap, view: &RunView) -> Response {
    let text = serde_json::to_vec(view).unwrap_or_default();
    let tag = format!("\"{}\"", Digest::of("view", &text).short());
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .any(|known| known.to_str().is_ok_and(|known| known.split(',').any(|known| known.trim() == tag)));
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// `GET /v1/runs`.
pub(super) async fn list(
    State(api): State<Api>,
    known: ApiCaller,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpProblem> {
    known.expect(Role::Read)?;
    let query: ListQuery = body::query(query.as_deref())?;
    let limit = query.limit.unwrap_or(50);
    if !(1..=200).contains(&limit) {
        return Err(invalid("limit: it is not from 1 to 200; correct it"));
    }
    let filter = query.filter(&api, &known).await?;
    let not_searched = match &filter.query.words {
        Some(_) => api.engine.journal().index_words(INDEXES).await.map_err(|error| problem(error.into()))?,
        None => 0,
    };
    let page = api.engine.list(&filter, limit).await.map_err(problem)?;
    // How many runs other domains have is not for those who do not see them.
    let not_searched = if known.0.domains.is_none() { not_searched } else { not_searched.min(1) };
    let page = RunPage { not_searched, ..page };
    Ok(axum::Json(page).into_response())
}

pub(super) fn invalid(detail: &str) -> HttpProblem {
    HttpProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "Invalid request", detail)
}
