//! Routes of the form that begins a run.

use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use loop_core::WorkItem;
use loop_core::types::RunId;
use loop_inspect::Plan;
use loop_runtime::journal::audit::AuditResult;
use serde::Deserialize;

use super::{Pages, failed, made, see, shown, started_of};
use crate::api::access::{AuditSubject, DoorIdentity};
use crate::api::{max_body, problem};
use crate::caller::{Caller, Role};
use crate::doors::{Audit, Identity, Secret, boundary, parts};
use crate::engine::{Engine, EngineError, NewRun, ServedDomain, Submitted};
use crate::pages::begin::{self, BeginPage, CostBound};
use crate::pages::{Notice, encoded};
use crate::problem::HttpProblem;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct BeginQuery {
    /// The domain. Empty: the only one in which the caller may begin runs, or the page to select one.
    domain: String,
    /// The run whose item fills the form. Empty: none.
    from: String,
    /// The run that this form began. Empty: none.
    begun: String,
}

/// `GET /new`.
pub(super) async fn form(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    Extension(identity): Extension<Identity>,
    Query(query): Query<BeginQuery>,
) -> Result<Response, HttpProblem> {
    let engine = pages.engine_for(&caller)?;
    let recorded = match query.from.as_str() {
        "" => None,
        run => Some(pages.recorded(&caller, run).await?),
    };
    let domain = recorded.as_ref().map_or(query.domain.clone(), |(domain, _)| domain.to_string());
    let open: Vec<&ServedDomain> =
        engine.domains().filter(|it| caller.may(Role::Submit, it.name())).collect();
    let served = match (open.as_slice(), domain.as_str()) {
        ([only], "") => *only,
        (all, "") => {
            let all = all.iter().map(|it| (it.name().to_string(), it.domain.spec.goal.to_string()));
            return Ok(shown(StatusCode::OK, begin::choose(&all.collect::<Vec<_>>())));
        }
        (_, name) => may_begin(&engine, &caller, name)?,
    };
    let mut form = BeginPage::new(served);
    if let Some((_, item)) = &recorded {
        form.fill(&served.domain, item);
    }
    if let Some(run) = own_run(&engine, &caller, served, &query.begun).await {
        let text = format!("Run {run} is accepted. It begins as soon as there is a place for it.");
        form.notices.push(Notice { text, is_good: true });
        let has_page = caller.may(Role::Read, served.name())
            && pages.source.journal.line(&run).await.is_ok_and(|line| line.is_some());
        form.begun = has_page.then(|| run.to_string());
    }
    pages.begin_page(&engine, &identity, served, form, StatusCode::OK).await
}

/// `POST /new`, from the form of that page. The door has checked the CSRF token.
pub(super) async fn begun(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, HttpProblem> {
    let sent = sent(&pages, &caller, &identity, &headers, body).await;
    if let Err(problem) = &sent {
        let (of, detail) = (AuditSubject::submission(None), Some(&*problem.detail));
        DoorIdentity(Some(identity)).record(&pages.source.audit, of, AuditResult::Refused, detail).await;
    }
    sent
}

async fn sent(
    pages: &Pages,
    caller: &Caller,
    identity: &Identity,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, HttpProblem> {
    let engine = pages.engine_for(caller)?;
    let boundary = boundary(headers).ok_or_else(not_a_form)?;
    let body = to_bytes(body, max_body(&engine)).await.map_err(|_| not_a_form())?;
    let sent = parts(&body, &boundary).ok_or_else(not_a_form)?;
    let text = |name: &str| {
        let part = sent.iter().find(|part| part.name == name && part.file.is_none())?;
        String::from_utf8(part.bytes.to_vec()).ok()
    };
    let served = may_begin(&engine, caller, &text("domain").ok_or_else(not_a_form)?)?;
    let mut form = BeginPage::new(served);
    form.key = text("key").filter(|key| !key.is_empty()).ok_or_else(not_a_form)?;
    form.id = text("id").unwrap_or_default();
    begin::take(&mut form.fields, text);
    let file = sent.iter().find(|part| part.name == "file");
    let file =
        file.and_then(|part| Some((part.file.as_deref().filter(|name| !name.is_empty())?, part.bytes)));
    let Some((item, file)) = form.item(&served.domain, file) else {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return pages.begin_page(&engine, identity, served, form, status).await;
    };
    let is_file = !file.is_empty();
    let new = NewRun {
        domain: Some(served.name().to_string()),
        item,
        file: if is_file || form.id.is_empty() { file } else { format!("{}.md", form.id) },
        caller: Arc::clone(&caller.name),
        key: Some(format!("form {}", form.key)),
        budget: identity.budget.clone(),
        ..NewRun::default()
    };
    // In a task of its own, so that it is recorded also where the browser closes the connection meanwhile.
    let task = tokio::spawn(submitted(engine.clone(), pages.source.audit.clone(), identity.clone(), new));
    let error = match task.await.map_err(|_| failed())? {
        Ok(Submitted { run, .. }) => return sent_to(pages, caller, served, &run).await,
        Err(error) => error,
    };
    let is_of_file = is_file && matches!(error, EngineError::Item(_));
    let text = match &error {
        EngineError::OtherRequest { run } => {
            // The form on the next page is a request of its own.
            form.key = new_key()?;
            format!(
                "This form was sent before with something else in it, which is run {run}. Send it again to begin another run."
            )
        }
        error => error.to_string(),
    };
    let status = StatusCode::from_u16(problem(error).status).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY);
    match is_of_file {
        true => form.file_error = Some(text),
        false => form.notices.push(Notice { text, is_good: false }),
    }
    pages.begin_page(&engine, identity, served, form, status).await
}

/// Submits a run and records it in the audit log, as the API does.
async fn submitted(
    engine: Engine,
    audit: Audit,
    identity: Identity,
    new: NewRun,
) -> Result<Submitted, EngineError> {
    let submitted = engine.submit(new).await;
    let (result, run, detail) = match &submitted {
        // What can be sent again later is not a refusal, and there may be much of it.
        Err(EngineError::Full { .. } | EngineError::Draining | EngineError::Journal(_)) => return submitted,
        Ok(Submitted { run, is_new }) => {
            (if *is_new { AuditResult::Done } else { AuditResult::Again }, Some(run), None)
        }
        Err(error) => (AuditResult::Refused, None, Some(error.to_string())),
    };
    let of = AuditSubject::submission(run);
    DoorIdentity(Some(identity)).record(&audit, of, result, detail.as_deref()).await;
    submitted
}

/// Redirects to the run's page once it exists, or else back to the form, which names the run.
async fn sent_to(
    pages: &Pages,
    caller: &Caller,
    served: &ServedDomain,
    run: &RunId,
) -> Result<Response, HttpProblem> {
    let mut to = format!("/new?domain={}&begun={}", encoded(served.name()), encoded(run.as_str()));
    if caller.may(Role::Read, served.name()) && pages.has_begun(run).await? {
        to = format!("/runs/{}", encoded(run.as_str()));
    }
    see(&to)
}

impl Pages {
    /// The engine, for a caller who may begin runs.
    pub(super) fn engine_for(&self, caller: &Caller) -> Result<Engine, HttpProblem> {
        let engine = self.engine()?;
        if caller.is(Role::Submit) {
            return Ok(engine);
        }
        let detail = "your account does not have the role `submit`; ask the operator for one that has it";
        Err(HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail))
    }

    /// The engine, where domains are served.
    pub(super) fn engine(&self) -> Result<Engine, HttpProblem> {
        self.source.engine.clone().ok_or_else(|| {
            let detail =
                "no domain is served here: these pages are for reading; `loopgate serve` serves domains";
            HttpProblem::new(StatusCode::NOT_FOUND, "not-served", "Not served", detail)
        })
    }

    /// The domain of a recorded run, and its item.
    async fn recorded(&self, caller: &Caller, run: &str) -> Result<(Arc<str>, WorkItem), HttpProblem> {
        let (_, recorded) = self.read(caller, run, Role::Read).await?;
        let started = started_of(&recorded).ok_or_else(failed)?;
        Ok((Arc::clone(&recorded.spec.domain), started.item.clone()))
    }

    /// The most that a run of a domain may cost this caller.
    pub(super) async fn bound(
        &self,
        engine: &Engine,
        served: &ServedDomain,
        identity: &Identity,
    ) -> Result<CostBound, HttpProblem> {
        let budgets = engine.budgets(served, identity.budget.clone());
        let budgets = budgets.await.map_err(problem)?;
        let (spec, prompts) = (Arc::clone(served.runner.spec()), Arc::clone(&served.domain.prompts));
        let plan = made(move || Plan::new(&spec, &prompts, None)).await?;
        Ok(CostBound { plan, budgets })
    }

    async fn begin_page(
        &self,
        engine: &Engine,
        identity: &Identity,
        served: &ServedDomain,
        mut page: BeginPage,
        status: StatusCode,
    ) -> Result<Response, HttpProblem> {
        page.csrf = identity.csrf.as_deref().unwrap_or_default().to_owned();
        if page.key.is_empty() {
            page.key = new_key()?;
        }
        let bound = self.bound(engine, served, identity).await?;
        Ok(shown(status, made(move || begin::begin(&page, &bound)).await?))
    }
}

/// The served domain of this name, if the caller may begin runs in it. One that the caller may not see is reported as
/// unknown.
fn may_begin<'e>(engine: &'e Engine, caller: &Caller, name: &str) -> Result<&'e ServedDomain, HttpProblem> {
    let served = engine.domain(name).filter(|served| caller.may(Role::Submit, served.name()));
    served.ok_or_else(unknown_domain)
}

pub(super) fn unknown_domain() -> HttpProblem {
    let detail = "there is no such domain here; /domains lists the domains";
    HttpProblem::new(StatusCode::NOT_FOUND, "unknown-domain", "Unknown domain", detail)
}

/// A run of this domain that the caller submitted.
async fn own_run(engine: &Engine, caller: &Caller, served: &ServedDomain, run: &str) -> Option<RunId> {
    let run = Some(run).filter(|run| !run.is_empty()).map(RunId::new)?;
    let (domain, owner) = engine.owner(&run).await.ok()??;
    (domain == *served.name() && owner.is_some_and(|owner| owner == caller.name)).then_some(run)
}

fn new_key() -> Result<String, HttpProblem> {
    Secret::random("").map(|key| key.reveal().to_owned()).map_err(|_| failed())
}

fn not_a_form() -> HttpProblem {
    let detail = "the body is not the form of this page; open the page and begin the run there";
    HttpProblem::new(StatusCode::BAD_REQUEST, "body", "Body not understood", detail)
}
