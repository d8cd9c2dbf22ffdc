//! Routes by which people stop, instruct, approve, deny, answer and label runs, and the list of pending actions.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use loop_core::run::StopMode;
use loop_core::types::RunId;
use loop_runtime::journal::audit::AuditAction;
use loop_runtime::journal::label::RunLabel;
use serde::Deserialize;

use super::access::{Access, ApiCaller, AuditSubject, RunTarget};
use super::refuse::problem;
use super::runs::invalid;
use super::types::{
    AnswerRequest, ApproveRequest, DenyRequest, InstructRequest, LabelRequest, PendingList, StopRequest,
    StopWhen,
};
use super::{Api, body, filters};
use crate::caller::Role;
use crate::engine::{EngineError, PersonDecision};
use crate::problem::HttpProblem;

/// Finds a run, checks the caller's right, acts on the run, records that, and returns the run's new state. Everything
/// but the response is finished even if the client disconnects.
async fn done<D>(
    request: RunTarget,
    of: AuditSubject,
    access: Access,
    action: impl FnOnce(Api, RunId) -> D + Send + 'static,
) -> Result<Response, HttpProblem>
where
    D: Future<Output = Result<(), EngineError>> + Send,
{
    let RunTarget { api, known, checked, id } = request;
    let shared = api.clone();
    let found = async move {
        let run = known.run(&shared, &id, access).await?;
        action(shared, run.clone()).await.map_err(problem)?;
        Ok(run)
    };
    let run = checked.done(&api.audit, of, found).await?;
    let view = api.engine.view(&run).await.map_err(problem)?;
    Ok((StatusCode::ACCEPTED, axum::Json(view)).into_response())
}

/// `POST /v1/runs/{run}/stop`.
pub(super) async fn stop(request: RunTarget, body: Body) -> Result<Response, HttpProblem> {
    let of = AuditSubject::run(AuditAction::Stop, &request.id);
    let StopRequest { mode } = request.checked.body(&request.api, &of, body).await?;
    let how = match mode {
        StopWhen::Gate => StopMode::AtGate,
        StopWhen::Now => StopMode::Now,
    };
    done(request, of, Access::Steer, move |api, run| async move { api.engine.stop(&run, how).await }).await
}

/// `POST /v1/runs/{run}/resume`.
pub(super) async fn resume(request: RunTarget) -> Result<Response, HttpProblem> {
    let of = AuditSubject::run(AuditAction::Resume, &request.id);
    done(request, of, Access::Steer, |api, run| async move { api.engine.resume(&run).await }).await
}

/// `POST /v1/runs/{run}/instructions`.
pub(super) async fn instruct(request: RunTarget, body: Body) -> Result<Response, HttpProblem> {
    let of = AuditSubject::run(AuditAction::Instruct, &request.id);
    let InstructRequest { text } = request.checked.body(&request.api, &of, body).await?;
    let action = move |api: Api, run| async move { api.engine.instruct(&run, text.trim().into()).await };
    done(request, of, Access::Steer, action).await
}

/// Decides an action of a run. The request has the binding of what was shown.
async fn decide(
    request: RunTarget,
    of: AuditSubject,
    key: String,
    binding: String,
    decision: PersonDecision,
) -> Result<Response, HttpProblem> {
    let of = of.shown(&key, &binding);
    let action = move |api: Api, run| async move { api.engine.decide(&run, &key, &binding, decision).await };
    done(request, of, Access::Decide, action).await
}

/// `POST /v1/runs/{run}/approve`.
pub(super) async fn approve(request: RunTarget, body: Body) -> Result<Response, HttpProblem> {
    let of = AuditSubject::run(AuditAction::Approve, &request.id);
    let ApproveRequest { key, binding } = request.checked.body(&request.api, &of, body).await?;
    // The door has checked the token, so two tokens are two people.
    let approval = PersonDecision::Approve { by: request.checked.approver(&request.known) };
    decide(request, of, key, binding, approval).await
}

/// `POST /v1/runs/{run}/deny`.
pub(super) async fn deny(request: RunTarget, body: Body) -> Result<Response, HttpProblem> {
    let of = AuditSubject::run(AuditAction::Deny, &request.id);
    let DenyRequest { key, binding, why } = request.checked.body(&request.api, &of, body).await?;
    let why = match why.as_deref().map(str::trim) {
        None => "a person refused it",
        Some("") => {
            let blank = invalid("why: it is blank; say why, or leave it out");
            return request.checked.refuse(&request.api, of.shown(&key, &binding), blank).await;
        }
        Some(why) => why,
    };
    let denial = PersonDecision::Deny { why: why.into() };
    decide(request, of, key, binding, denial).await
}

/// `POST /v1/runs/{run}/answer`.
pub(super) async fn answer(request: RunTarget, body: Body) -> Result<Response, HttpProblem> {
    let of = AuditSubject::run(AuditAction::Answer, &request.id);
    let AnswerRequest { key, binding, text } = request.checked.body(&request.api, &of, body).await?;
    if text.trim().is_empty() {
        let blank = invalid("text: it is blank; give the answer, or deny the action");
        return request.checked.refuse(&request.api, of.shown(&key, &binding), blank).await;
    }
    let answer = PersonDecision::Answer { text: text.trim().into() };
    decide(request, of, key, binding, answer).await
}

/// `PUT /v1/runs/{run}/label`.
pub(super) async fn label(request: RunTarget, body: Body) -> Result<Response, HttpProblem> {
    let of = AuditSubject::run(AuditAction::Label, &request.id);
    let LabelRequest { label, note } = request.checked.body(&request.api, &of, body).await?;
    let by = request.checked.approver(&request.known).to_string();
    match RunLabel::new(label, &note, &by) {
        Ok(label) => labelled(request, of, Some(label)).await,
        Err(detail) => request.checked.refuse(&request.api, of, invalid(&detail)).await,
    }
}

/// `DELETE /v1/runs/{run}/label`.
pub(super) async fn unlabel(request: RunTarget) -> Result<Response, HttpProblem> {
    let of = AuditSubject::run(AuditAction::Unlabel, &request.id);
    labelled(request, of, None).await
}

async fn labelled(
    request: RunTarget,
    of: AuditSubject,
    label: Option<RunLabel>,
) -> Result<Response, HttpProblem> {
    let RunTarget { api, known, checked, id } = request;
    let (shared, words) = (api.clone(), label.as_ref().map(RunLabel::in_words));
    let found = async move {
        let run = known.run(&shared, &id, Access::Label).await?;
        shared.engine.label(&run, label).await.map_err(problem)?;
        Ok(run)
    };
    let run = checked.done_saying(&api.audit, of, words, found).await?;
    let view = api.engine.view(&run).await.map_err(problem)?;
    Ok(axum::Json(view).into_response())
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
    known: ApiCaller,
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
            if let Some(domain) = &query.domain {
                filters::expect_domain(&api, &known, domain).await?;
            }
            let is_asked = |name: &str| query.domain.as_deref().is_none_or(|domain| domain == name);
            let pending = api.engine.pending(|name| known.0.sees(name) && is_asked(name)).await;
            pending.map_err(problem)?
        }
    };
    Ok(axum::Json(PendingList { pending }).into_response())
}
