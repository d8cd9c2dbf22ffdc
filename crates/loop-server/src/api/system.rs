//! Routes for domains, the outbox, the audit log, health checks and metrics.

use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use loop_runtime::journal::Journal as _;
use loop_runtime::journal::audit::AuditAction;

use super::Api;
use super::access::{ApiCaller, AuditSubject, DoorIdentity};
use super::refuse::problem;
use super::types::{DomainList, DomainView, HealthView, OutboxList, OutboxMessage};
use crate::caller::Role;
use crate::doors::AuditQuery;
use crate::problem::HttpProblem;

/// `GET /v1/domains`.
pub(super) async fn domains(State(api): State<Api>, known: ApiCaller) -> Response {
    let load = api.engine.load();
    let seen = api.engine.domains().filter(|domain| known.0.sees(domain.name()));
    let view = |domain: &crate::engine::ServedDomain| {
        let of = load.domains.get(domain.name()).copied().unwrap_or_default();
        DomainView {
            name: domain.name().to_string(),
            goal: domain.domain.spec.goal.to_string(),
            kind: domain.domain.item_kind().to_owned(),
            caller_may_set: domain.domain.caller_may_set(),
            queued: of.queued,
            running: of.running,
            waiting: of.waiting,
            interrupted: of.interrupted,
            other_version: of.other_version,
        }
    };
    axum::Json(DomainList { domains: seen.map(view).collect() }).into_response()
}

/// `GET /v1/outbox`.
pub(super) async fn outbox(State(api): State<Api>, known: ApiCaller) -> Result<Response, HttpProblem> {
    known.expect(Role::Admin)?;
    let queued = api.engine.journal().outbox().await.map_err(|error| problem(error.into()))?;
    let mut messages = Vec::new();
    for queued in queued {
        if !sees(&api, &known, &queued.message.run).await? {
            continue;
        }
        messages.push(OutboxMessage {
            id: queued.message.id.to_string(),
            run: queued.message.run.to_string(),
            hook: queued.message.hook.to_string(),
            event: queued.message.event.name().to_owned(),
            unix_ms: queued.message.unix_ms,
            failures: queued.failures,
            next_unix_ms: queued.next_unix_ms,
        });
    }
    Ok(axum::Json(OutboxList { messages }).into_response())
}

/// `DELETE /v1/outbox/{message}`.
pub(super) async fn drop_message(
    State(api): State<Api>,
    known: ApiCaller,
    checked: DoorIdentity,
    Path(id): Path<String>,
) -> Result<Response, HttpProblem> {
    known.expect(Role::Admin)?;
    let journal = api.engine.journal();
    let queued = journal.outbox().await.map_err(|error| problem(error.into()))?;
    let found = queued.into_iter().find(|queued| *queued.message.id == *id);
    let unknown = || {
        let detail = "no message has this id; GET /v1/outbox lists the messages that are left";
        HttpProblem::new(StatusCode::NOT_FOUND, "unknown-message", "Unknown message", detail)
    };
    let found = found.ok_or_else(unknown)?;
    if !sees(&api, &known, &found.message.run).await? {
        return Err(unknown());
    }
    let run = Some(found.message.run.as_str().to_owned());
    let of = AuditSubject { action: AuditAction::DropMessage, run, key: Some(id.clone()), binding: None };
    let shared = api.clone();
    let action = async move {
        match shared.engine.journal().drop_message(&id).await.map_err(|error| problem(error.into())) {
            Ok(true) => Ok(()),
            Ok(false) => Err(unknown()),
            Err(problem) => Err(problem),
        }
    };
    checked.done(&api.audit, of, action).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /v1/audit`.
pub(super) async fn audit(
    State(api): State<Api>,
    known: ApiCaller,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpProblem> {
    let query: AuditQuery = super::body::query(query.as_deref())?;
    Ok(axum::Json(api.audit.page(&known.0, query).await?).into_response())
}

/// Whether the caller may see the domain of a run.
async fn sees(api: &Api, known: &ApiCaller, run: &loop_core::types::RunId) -> Result<bool, HttpProblem> {
    let owner = api.engine.owner(run).await.map_err(problem)?;
    Ok(owner.is_some_and(|(domain, _)| known.0.sees(&domain)))
}

/// `GET /healthz`: liveness.
pub(super) async fn health() -> Response {
    axum::Json(HealthView { status: "ok".to_owned() }).into_response()
}

/// `GET /readyz`: whether the server accepts work.
pub(super) async fn ready(State(api): State<Api>) -> Response {
    if api.engine.is_draining() {
        let view = HealthView { status: "ending".to_owned() };
        return (StatusCode::SERVICE_UNAVAILABLE, axum::Json(view)).into_response();
    }
    axum::Json(HealthView { status: "ok".to_owned() }).into_response()
}

/// `GET /metrics`.
pub(super) async fn metrics(State(api): State<Api>, known: ApiCaller) -> Result<Response, HttpProblem> {
    known.expect(Role::Read)?;
    let budgets = api.engine.all_budgets().await;
    let text = api.metrics.text(&api.engine, &api.audit, &budgets, &known.0);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// `GET /openapi.json`.
pub(super) async fn openapi(State(api): State<Api>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], api.document.to_string()).into_response()
}
