//! What people say to runs, and what waits for them.

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use loop_core::{RunId, StopMode};
use loop_runtime::journal::AuditAction;
use serde::Deserialize;

use super::access::{Access, Checked, Known, Of};
use super::refuse::problem;
use super::runs::invalid;
use super::types::{
    AnswerRequest, ApproveRequest, DenyRequest, InstructRequest, PendingList, StopRequest, StopWhen,
};
use super::{Api, body};
use crate::caller::Role;
use crate::engine::PersonDecision;
use crate::problem::HttpProblem;

/// `POST /v1/runs/{run}/stop`.
pub(super) async fn stop(
    State(api): State<Api>,
    known: Known,
    checked: Checked,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, HttpProblem> {
    let of = Of::run(AuditAction::Stop, &id);
    let shared = api.clone();
    let action = async move {
        let api = shared;
        let run = known.run(&api, &id, Access::Steer).await?;
        let StopRequest { mode } = body::json(&api, body).await?;
        let how = match mode {
            StopWhen::Gate => StopMode::AtGate,
            StopWhen::Now => StopMode::Now,
        };
        api.engine.stop(&run, how).await.map_err(problem)?;
        Ok(run)
    };
    let run = checked.done(&api, of, action).await?;
    accepted(&api, &run).await
}

/// `POST /v1/runs/{run}/resume`.
pub(super) async fn resume(
    State(api): State<Api>,
    known: Known,
    checked: Checked,
    Path(id): Path<String>,
) -> Result<Response, HttpProblem> {
    let of = Of::run(AuditAction::Resume, &id);
    let shared = api.clone();
    let action = async move {
        let api = shared;
        let run = known.run(&api, &id, Access::Steer).await?;
        api.engine.resume(&run).await.map_err(problem)?;
        Ok(run)
    };
    let run = checked.done(&api, of, action).await?;
    accepted(&api, &run).await
}

/// `POST /v1/runs/{run}/instructions`.
pub(super) async fn instruct(
    State(api): State<Api>,
    known: Known,
    checked: Checked,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, HttpProblem> {
    let of = Of::run(AuditAction::Instruct, &id);
    let shared = api.clone();
    let action = async move {
        let api = shared;
        let run = known.run(&api, &id, Access::Steer).await?;
        let InstructRequest { text } = body::json(&api, body).await?;
        api.engine.instruct(&run, text.trim().into()).await.map_err(problem)?;
        Ok(run)
    };
    let run = checked.done(&api, of, action).await?;
    accepted(&api, &run).await
}

/// `POST /v1/runs/{run}/approve`.
pub(super) async fn approve(
    State(api): State<Api>,
    known: Known,
    checked: Checked,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, HttpProblem> {
    let ApproveRequest { key, binding } = body::json(&api, body).await?;
    // The door has checked the token, so two tokens are two people.
    let approval = PersonDecision::Approve { by: checked.approver(&known) };
    let of = Of::run(AuditAction::Approve, &id).shown(&key, &binding);
    let shared = api.clone();
    let action = async move {
        let api = shared;
        let run = known.run(&api, &id, Access::Decide).await?;
        api.engine.decide(&run, &key, &binding, approval).await.map_err(problem)?;
        Ok(run)
    };
    let run = checked.done(&api, of, action).await?;
    accepted(&api, &run).await
}

/// `POST /v1/runs/{run}/deny`.
pub(super) async fn deny(
    State(api): State<Api>,
    known: Known,
    checked: Checked,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, HttpProblem> {
    let DenyRequest { key, binding, why } = body::json(&api, body).await?;
    let why = match why.as_deref().map(str::trim) {
        None => "a person refused it".to_owned(),
        Some("") => return Err(invalid("why: it is blank; say why, or leave it out")),
        Some(why) => why.to_owned(),
    };
    let of = Of::run(AuditAction::Deny, &id).shown(&key, &binding);
    let shared = api.clone();
    let action = async move {
        let api = shared;
        let run = known.run(&api, &id, Access::Decide).await?;
        let denial = PersonDecision::Deny { why: why.as_str().into() };
        api.engine.decide(&run, &key, &binding, denial).await.map_err(problem)?;
        Ok(run)
    };
    let run = checked.done(&api, of, action).await?;
    accepted(&api, &run).await
}

/// `POST /v1/runs/{run}/answer`.
pub(super) async fn answer(
    State(api): State<Api>,
    known: Known,
    checked: Checked,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, HttpProblem> {
    let AnswerRequest { key, binding, text } = body::json(&api, body).await?;
    if text.trim().is_empty() {
        return Err(invalid("text: it is blank; give the answer, or deny the action"));
    }
    let of = Of::run(AuditAction::Answer, &id).shown(&key, &binding);
    let shared = api.clone();
    let action = async move {
        let api = shared;
        let run = known.run(&api, &id, Access::Decide).await?;
        let answer = PersonDecision::Answer { text: text.trim().into() };
        api.engine.decide(&run, &key, &binding, answer).await.map_err(problem)?;
        Ok(run)
    };
    let run = checked.done(&api, of, action).await?;
    accepted(&api, &run).await
}

async fn accepted(api: &Api, run: &RunId) -> Result<Response, HttpProblem> {
    let view = api.engine.view(run).await.map_err(problem)?;
    Ok((StatusCode::ACCEPTED, axum::Json(view)).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PendingQuery {
    run: Option<String>,
    domain: Option<String>,
}

/// `GET /v1/pending`.
pub(super) async fn pending(
    State(api): State<Api>,
    known: Known,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpProblem> {
    if !known.0.is(Role::Approve) {
        known.expect(Role::Read)?;
    }
    let query: PendingQuery = body::query(query.as_deref())?;
    let pending = match query.run {
        Some(id) => {
            let action = if known.0.is(Role::Approve) { Access::Decide } else { Access::Read };
            let run = known.run(&api, &id, action).await?;
            match api.engine.pending_of(&run).await {
                Ok(pending) => pending,
                // It has not begun.
                Err(_) if api.engine.live(&run).is_some() => Vec::new(),
                Err(error) => return Err(problem(error)),
            }
        }
        None => {
            let is_asked = |name: &str| query.domain.as_deref().is_none_or(|domain| domain == name);
            let pending = api.engine.pending(|name| known.0.sees(name) && is_asked(name)).await;
            pending.map_err(problem)?
        }
    };
    Ok(axum::Json(PendingList { pending }).into_response())
}
