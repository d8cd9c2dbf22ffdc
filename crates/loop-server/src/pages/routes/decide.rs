//! Routes of pending requests and their decisions.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use loop_core::Run;
use loop_core::types::RunId;
use loop_runtime::journal::audit::{AuditAction, AuditEntry, AuditResult};
use loop_runtime::journal::{Recorded, replay};
use serde::Deserialize;

use super::act::{not_a_form, notice_of};
use super::known::waiting;
use super::{Pages, failed, made, see, shown};
use crate::caller::{Caller, Role};
use crate::doors::{Audit, Identity, field, short};
use crate::engine::{Engine, EngineError, PersonDecision};
use crate::pages::{ApproveForm, ApprovePage, Notice, approve};
use crate::problem::HttpProblem;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PageQuery {
    /// The decision that led here, by its name in the form.
    did: String,
}

/// `GET /runs/{run}/approve`.
pub(super) async fn page(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    identity: Option<Extension<Identity>>,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Response, HttpProblem> {
    let identity = identity.map(|Extension(identity)| identity);
    let (id, recorded) = pages.asked(&caller, &id).await?;
    let notice = notice_of(&query.did);
    pages.asking(&caller, identity.as_ref(), id, recorded, StatusCode::OK, notice).await
}

/// `POST /runs/{run}/approve`, from the form of that page. The door has checked the CSRF token.
pub(super) async fn decided(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    identity: Option<Extension<Identity>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let identity = identity.map(|Extension(identity)| identity);
    let (id, recorded) = pages.asked(&caller, &id).await?;
    let (Some(engine), Some(identity)) = (&pages.source.engine, &identity) else { return Err(only_read()) };
    if !caller.may(Role::Approve, &recorded.spec.domain) {
        return Err(only_read());
    }
    let form = std::str::from_utf8(&body).map_err(|_| not_a_form())?;
    let given = |name: &str| field(form, name).ok_or_else(not_a_form);
    let (key, binding, decision) = (given("action")?, given("binding")?, given("decision")?);
    let text = field(form, "text").unwrap_or_default();
    let (decision, name, action) = match decision.as_str() {
        "approve" => (PersonDecision::Approve { by: identity.approver() }, "approve", AuditAction::Approve),
        "deny" => {
            let why = if text.trim().is_empty() { "a person refused it" } else { text.trim() };
            (PersonDecision::Deny { why: why.into() }, "deny", AuditAction::Deny)
        }
        "answer" => (PersonDecision::Answer { text: text.trim().into() }, "answer", AuditAction::Answer),
        _ => return Err(not_a_form()),
    };
    let decided = DecisionScope { engine: engine.clone(), audit: pages.source.audit.clone(), id: id.clone() };
    let entry = identity.entry(action, AuditResult::Done);
    // In a task of its own, so that it is recorded also where the browser closes the connection meanwhile.
    let task = tokio::spawn(decided.record(key.clone(), binding, decision, entry));
    let (result, is_noted) = task.await.map_err(|_| failed())?;
    match result {
        Ok(()) if is_noted => {
            let run = format!("/runs/{}", crate::pages::encoded(id.as_str()));
            // Where nothing else is to be decided, the person sees the run continue.
            let is_last = settled(engine, &id, &key).await && caller.may(Role::Read, &recorded.spec.domain);
            see(&if is_last { format!("{run}?did={name}") } else { format!("{run}/approve?did={name}") })
        }
        Ok(()) => {
            let text = "Your decision is recorded in the run. The audit log could not be written: tell the operator.";
            let notice = Some(Notice { text: text.to_owned(), is_good: false });
            pages.asking(&caller, Some(identity), id, recorded, StatusCode::OK, notice).await
        }
        Err(error) => {
            let notice = Some(Notice { text: format!("It does not count: {error}"), is_good: false });
            let (id, recorded) = pages.asked(&caller, id.as_str()).await?;
            pages.asking(&caller, Some(identity), id, recorded, StatusCode::CONFLICT, notice).await
        }
    }
}

/// The subject of a decision, and where it is recorded.
struct DecisionScope {
    engine: Engine,
    audit: Audit,
    id: RunId,
}

impl DecisionScope {
    /// Decides and records it. Returns the result, and whether the audit log has it. The run's journal has the decision
    /// and its author as well.
    async fn record(
        self,
        key: String,
        binding: String,
        decision: PersonDecision,
        entry: AuditEntry,
    ) -> (Result<(), EngineError>, bool) {
        let result = self.engine.decide(&self.id, &key, &binding, decision).await;
        let entry = AuditEntry {
            run: Some(self.id),
            key: Some(short(&key)),
            binding: Some(short(&binding)),
            detail: result.as_ref().err().map(|error| short(&error.to_string())),
            result: if result.is_ok() { AuditResult::Done } else { AuditResult::Refused },
            ..entry
        };
        let is_noted = self.audit.note(entry).await.is_ok();
        (result, is_noted)
    }
}

/// Waits a moment until the notified driver has journaled the decision, so that the next page has it. Returns whether
/// nothing in the run waits any more.
async fn settled(engine: &Engine, id: &RunId, key: &str) -> bool {
    let mut waits = true;
    for _ in 0..SETTLE_TRIES {
        let Ok((_, state)) = engine.read(id).await else { return false };
        let requested = state.requested();
        waits = !requested.is_empty();
        if !requested.iter().any(|asks| asks.key.to_string() == key && asks.approvers.is_empty()) {
            break;
        }
        tokio::time::sleep(SETTLE_PAUSE).await;
    }
    !waits
}

const SETTLE_TRIES: usize = 20;
const SETTLE_PAUSE: std::time::Duration = std::time::Duration::from_millis(25);

impl Pages {
    /// The run with a pending request, if the caller may read it or decide in it.
    pub(super) async fn asked(&self, caller: &Caller, id: &str) -> Result<(RunId, Recorded), HttpProblem> {
        match self.read(caller, id, Role::Approve).await {
            Ok(read) => Ok(read),
            Err(_) => self.read(caller, id, Role::Read).await,
        }
    }

    async fn asking(
        &self,
        caller: &Caller,
        identity: Option<&Identity>,
        id: RunId,
        recorded: Recorded,
        status: StatusCode,
        notice: Option<Notice>,
    ) -> Result<Response, HttpProblem> {
        let may = self.source.engine.is_some() && caller.may(Role::Approve, &recorded.spec.domain);
        let csrf = identity.filter(|_| may).and_then(|identity| identity.csrf.clone());
        let kept = self.kept().await?;
        let others = waiting(&kept).filter(|run| caller.may(Role::Read, &run.domain));
        let others = others.filter(|run| run.run != id.as_str()).take(MAX_OTHERS);
        let others = others.map(|run| (run.run.clone(), format!("{}: {}", run.item, run.title)));
        let form = ApproveForm {
            csrf: csrf.as_deref().unwrap_or_default().to_owned(),
            is_for_reading: self.source.engine.is_none(),
            account: identity.map_or_else(String::new, |identity| identity.approver().account.to_string()),
            notice,
            others: others.collect(),
        };
        let html = made(move || {
            let state: Run = replay(&id, &recorded).map_err(|_| failed())?;
            let now = recorded.now().max(state.now());
            Ok(approve(&ApprovePage::of(&state, &recorded.manifest, now, form)))
        });
        Ok(shown(status, html.await??))
    }
}

fn only_read() -> HttpProblem {
    let detail =
        "you may read what waits and not decide it; ask for the role `approve`, or use `loopgate approve`";
    HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail)
}

/// The most other waiting runs that are named.
const MAX_OTHERS: usize = 20;
