//! Routes by which people stop, instruct, approve, deny, answer and label runs, and the list of pending actions.

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use loop_core::run::StopMode;
use loop_core::types::RunId;
use loop_runtime::journal::audit::AuditAction;
use loop_runtime::journal::label::RunLabel;
use serde::Deserialize;

use super::access::{Access, Checked, Known, Of};
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

/// The parts of a request that acts on a run.
type Said = (State<Api>, Known, Checked, Path<String>, Body);

/// Finds a run, checks the caller's right, acts on the run, records that, and returns the run's new state. Everything
/// but the response is finished even if the client disconnects.
async fn done<D>(
    api: Api,
    (known, checked): (Known, Checked),
    (of, access): (Of, Access),
    id: String,
    action: impl FnOnce(Api, RunId) -> D + Send + 'static,
) -> Result<Response, HttpProblem>
where
    D: Future<Output = Result<(), EngineError>> + Send,
{
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
pub(super) async fn stop(
    (State(api), known, checked, Path(id), body): Said,
) -> Result<Response, HttpProblem> {
    let of = Of::run(AuditAction::Stop, &id);
    let StopRequest { mode } = checked.body(&api, &of, body).await?;
    let how = match mode {
        StopWhen::Gate => StopMode::AtGate,
        StopWhen::Now => StopMode::Now,
    };
    let of = (of, Access::Steer);
    done(api, (known, checked), of, id, move |api, run| async move { api.engine.stop(&run, how).await }).await
}

/// `POST /v1/runs/{run}/resume`.
pub(super) async fn resume(
    State(api): State<Api>,
    known: Known,
    checked: Checked,
    Path(id): Path<String>,
) -> Result<Response, HttpProblem> {
    let of = (Of::run(AuditAction::Resume, &id), Access::Steer);
    done(api, (known, checked), of, id, |api, run| async move { api.engine.resume(&run).await }).await
}

/// `POST /v1/runs/{run}/instructions`.
pub(super) async fn instruct(
    (State(api), known, checked, Path(id), body): Said,
) -> Result<Response, HttpProblem> {
    let of = Of::run(AuditAction::Instruct, &id);
    let InstructRequest { text } = checked.body(&api, &of, body).await?;
    let of = (of, Access::Steer);
    let action = move |api: Api, run| async move { api.engine.instruct(&run, text.trim().into()).await };
    done(api, (known, checked), of, id, action).await
}

/// Decides an action of a run. The request has the binding of what was shown.
async fn decide(
    api: Api,
    callers: (Known, Checked),
    (of, id): (Of, String),
    (key, binding): (String, String),
    decision: PersonDecision,
) -> Result<Response, HttpProblem> {
    let of = (of.shown(&key, &binding), Access::Decide);
    let action = move |api: Api, run| async move { api.engine.decide(&run, &key, &binding, decision).await };
    done(api, callers, of, id, action).await
}

/// `POST /v1/runs/{run}/approve`.
pub(super) async fn approve(
    (State(api), known, checked, Path(id), body): Said,
) -> Result<Response, HttpProblem> {
    let of = Of::run(AuditAction::Approve, &id);
    let ApproveRequest { key, binding } = checked.body(&api, &of, body).await?;
    // The door has checked the token, so two tokens are two people.
    let approval = PersonDecision::Approve { by: checked.approver(&known) };
    decide(api, (known, checked), (of, id), (key, binding), approval).await
}

/// `POST /v1/runs/{run}/deny`.
pub(super) async fn deny(
    (State(api), known, checked, Path(id), body): Said,
) -> Result<Response, HttpProblem> {
    let of = Of::run(AuditAction::Deny, &id);
    let DenyRequest { key, binding, why } = checked.body(&api, &of, body).await?;
    let why = match why.as_deref().map(str::trim) {
        None => "a person refused it",
        Some("") => {
            let blank = invalid("why: it is blank; say why, or leave it out");
            return checked.refuse(&api, of.shown(&key, &binding), blank).await;
        }
        Some(why) => why,
    };
    let denial = PersonDecision::Deny { why: why.into() };
    decide(api, (known, checked), (of, id), (key, binding), denial).await
}

/// `POST /v1/runs/{run}/answer`.
pub(super) async fn answer(
    (State(api), known, checked, Path(id), body): Said,
) -> Result<Response, HttpProblem> {
    let of = Of::run(AuditAction::Answer, &id);
    let AnswerRequest { key, binding, text } = checked.body(&api, &of, body).await?;
    if text.trim().is_empty() {
        let blank = invalid("text: it is blank; give the answer, or deny the action");
        return checked.refuse(&api, of.shown(&key, &binding), blank).await;
    }
    let answer = PersonDecision::Answer { text: text.trim().into() };
    decide(api, (known, checked), (of, id), (key, binding), answer).await
}

/// `PUT /v1/runs/{run}/label`.
pub(super) async fn label(
    (State(api), known, checked, Path(id), body): Said,
) -> Result<Response, HttpProblem> {
    let of = Of::run(AuditAction::Label, &id);
    let LabelRequest { label, note } = checked.body(&api, &of, body).await?;
    let by = checked.approver(&known).to_string();
    match RunLabel::new(label, &note, &by) {
        Ok(label) => labelled(api, (known, checked), (of, id), Some(label)).await,
        Err(detail) => checked.refuse(&api, of, invalid(&detail)).await,
    }
}

/// `DELETE /v1/runs/{run}/label`.
pub(super) async fn unlabel(
    State(api): State<Api>,
    known: Known,
    checked: Checked,
    Path(id): Path<String>,
) -> Result<Response, HttpProblem> {
    labelled(api, (known, checked), (Of::run(AuditAction::Unlabel, &id), id), None).await
}

async fn labelled(
    api: Api,
    (known, checked): (Known, Checked),
    (of, id): (Of, String),
    label: Option<RunLabel>,
) -> Result<Response, HttpProblem> {
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
