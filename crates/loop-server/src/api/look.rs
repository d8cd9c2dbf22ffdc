//! The document and the outcome of a run.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use loop_core::{Outcome, Run};
use loop_runtime::journal::Recorded;
use loop_runtime::people::PeopleReport;
use loop_runtime::report::{EvidenceDetail, Report};
use loop_runtime::tools::ToolUses;
use serde::Serialize;

use super::access::{Access, RunTarget};
use super::refuse::problem;
use super::types::DocumentView;
use crate::engine::Engine;
use crate::problem::HttpProblem;

/// `GET /v1/runs/{run}/document`: Markdown, or JSON if the client prefers it.
pub(super) async fn document(request: RunTarget, headers: HeaderMap) -> Result<Response, HttpProblem> {
    let (api, run) = request.run(Access::Read).await?;
    let (recorded, state) = api.engine.read(&run).await.map_err(problem)?;
    let (engine, as_json) = (api.engine.clone(), accepts_json(&headers));
    let making = move || {
        let markdown = markdown(&state);
        let domain = &state.spec().domain;
        if !as_json {
            let text = engine.masked(domain, &markdown);
            return Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response());
        }
        let report = state.outcome().map(|outcome| report(&recorded, &state, outcome));
        let (document, totals) = report.map(|report| (report.document, report.totals)).unzip();
        let view = DocumentView { run: run.to_string(), ended: state.is_done(), markdown, document, totals };
        json(&engine, domain, &view)
    };
    api.engine.aside(making).await.map_err(problem)?
}

/// `GET /v1/runs/{run}/outcome`.
pub(super) async fn outcome(request: RunTarget) -> Result<Response, HttpProblem> {
    let (api, run) = request.run(Access::Read).await?;
    let (recorded, state) = api.engine.read(&run).await.map_err(problem)?;
    let engine = api.engine.clone();
    let making = move || json(&engine, &state.spec().domain, &outcome_of(&recorded, &state)?);
    api.engine.aside(making).await.map_err(problem)?
}

/// The document of a run so far, or the answer of a conversation.
pub(crate) fn markdown(state: &Run) -> String {
    match state.outcome().and_then(|outcome| outcome.answer.as_ref()) {
        Some(answer) => answer.to_string(),
        None => state.document().to_markdown(),
    }
}

/// The outcome of a run that has ended.
pub(crate) fn outcome_of(recorded: &Recorded, state: &Run) -> Result<Report, HttpProblem> {
    let outcome = state.outcome().ok_or_else(|| {
        let detail = "the run has not ended; GET it with `Prefer: wait=30` to wait for its end";
        HttpProblem::new(StatusCode::CONFLICT, "state", "Not in this state", detail)
    })?;
    Ok(report(recorded, state, outcome))
}

fn report(recorded: &Recorded, state: &Run, outcome: &Outcome) -> Report {
    let mut uses = ToolUses::default();
    recorded.entries.iter().for_each(|entry| uses.hear(entry, &recorded.spec));
    Report::new(state.started(), outcome)
        .with_evidence(outcome, EvidenceDetail::Full)
        .with_spec(state.spec(), state.started(), outcome)
        .with_tools(uses.all())
        .with_people(PeopleReport::of(recorded))
}

fn json(engine: &Engine, domain: &str, value: &impl Serialize) -> Result<Response, HttpProblem> {
    let text = serde_json::to_string(value).map_err(|_| {
        let detail = "the answer cannot be written; the operator finds the reason in the server's log";
        HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error", detail)
    })?;
    let text = engine.masked_json(domain, &text);
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Whether the client accepts JSON, and does not name Markdown before it.
fn accepts_json(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = values
        .flat_map(|value| value.split(','))
        .map(|kind| kind.split(';').next().unwrap_or_default().trim());
    kinds.find(|kind| matches!(*kind, "application/json" | "text/markdown" | "text/plain" | "text/*"))
        == Some("application/json")
}
