//! Routes of the forms on a run's page, and the files of a run.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, Response};
use loop_core::run::StopMode;
use loop_core::types::{Digest, RunId};
use loop_runtime::Runner;
use loop_runtime::journal::audit::AuditAction;
use loop_runtime::journal::{Recorded, replay};

use super::{Pages, failed, made, no_store, see, started_of, unknown};
use crate::api::access::{Access, AuditSubject, DoorIdentity, may_steer, run_for};
use crate::api::look::{markdown, outcome_of};
use crate::api::refuse::problem;
use crate::api::runs::begin_from;
use crate::caller::{Caller, Role};
use crate::doors::{Identity, field};
use crate::engine::{Engine, RunFrom, RunState, RunView};
use crate::pages::act::{RunActs, Stage, file_name};
use crate::pages::shell::{self, PagePlace};
use crate::pages::text::{t, time};
use crate::pages::{Notice, OneRunPage, OneRunView, encoded, run};
use crate::problem::HttpProblem;

/// An instruction or stop of a run.
enum PersonOrder {
    Stop(StopMode),
    Tell(String),
    Resume,
}

/// `POST /runs/{run}/{act}`, from a form of the run's page. The door has checked the CSRF token.
pub(super) async fn done(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    identity: Option<Extension<Identity>>,
    Path((id, act)): Path<(String, String)>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let (Some(engine), Some(Extension(identity))) = (&pages.source.engine, identity) else {
        return Err(only_read());
    };
    let form = std::str::from_utf8(&body).map_err(|_| not_a_form())?;
    let done = match act.as_str() {
        "fork" | "retry" => pages.begun(engine, &caller, &identity, &id, &act, form).await,
        act => {
            let (action, order) = order(act, form)?;
            let (at, caller, of) = (engine.clone(), caller.clone(), AuditSubject::run(action, &id));
            let id = id.clone();
            let doing = async move {
                let run = run_for(&at, &caller, &id, Access::Steer).await?;
                let done = match order {
                    PersonOrder::Stop(how) => at.stop(&run, how).await,
                    PersonOrder::Tell(text) => at.instruct(&run, text.as_str().into()).await,
                    PersonOrder::Resume => at.resume(&run).await,
                };
                done.map_err(problem)?;
                Ok(run)
            };
            DoorIdentity(Some(identity.clone())).done(&pages.source.audit, of, doing).await
        }
    };
    match done {
        Ok(run) => {
            let to = match engine.view(&run).await {
                Ok(_) => format!("/runs/{}?did={act}", encoded(run.as_str())),
                // It was stopped before it could begin.
                Err(_) => "/".to_owned(),
            };
            see(&to)
        }
        Err(problem) => {
            let notice = Notice { text: format!("It was not done: {}", problem.detail), is_good: false };
            let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::CONFLICT);
            let shown = pages.shown_run(&caller, Some(&identity), &id, None, status, Some(notice)).await;
            shown.map_err(|_| problem)
        }
    }
}

fn order(act: &str, form: &str) -> Result<(AuditAction, PersonOrder), HttpProblem> {
    Ok(match act {
        "stop" => match field(form, "mode").as_deref() {
            Some("gate") => (AuditAction::Stop, PersonOrder::Stop(StopMode::AtGate)),
            Some("now") => (AuditAction::Stop, PersonOrder::Stop(StopMode::Now)),
            _ => return Err(not_a_form()),
        },
        "instructions" => {
            let text = field(form, "text").ok_or_else(not_a_form)?;
            (AuditAction::Instruct, PersonOrder::Tell(text.replace("\r\n", "\n").trim().to_owned()))
        }
        "resume" => (AuditAction::Resume, PersonOrder::Resume),
        _ => return Err(unknown()),
    })
}

/// The notice for a form, by its name in the URL.
pub(super) fn notice_of(did: &str) -> Option<Notice> {
    let text = match did {
        "approve" => "Your approval is recorded.",
        "deny" => "Your denial is recorded.",
        "answer" => "Your answer is recorded.",
        "stop" => "The stop is requested.",
        "instructions" => "Your instruction is recorded. The next pass reads it.",
        "resume" => "The run continues.",
        "fork" => "This is the fork: a new run, which continues the one that it names.",
        "retry" => "This is the retry: a new run, which does the work of the one that it names again.",
        _ => return None,
    };
    Some(Notice { text: text.to_owned(), is_good: true })
}

/// `GET /runs/{run}/{file}`.
pub(super) async fn file(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, HttpProblem> {
    let (kind, ending) = match name.as_str() {
        "document.md" => ("text/markdown; charset=utf-8", "md"),
        "page.html" => ("text/html; charset=utf-8", "html"),
        "outcome.json" => ("application/json", "json"),
        _ => return Err(unknown()),
    };
    let (id, recorded) = pages.read(&caller, &id, Role::Read).await?;
    let item = started_of(&recorded).map(|started| format!("{} {}", started.item.id, started.item.title));
    let named = file_name(&item.unwrap_or_default(), id.as_str(), ending);
    let making = move || -> Result<String, HttpProblem> {
        let state = || replay(&id, &recorded).map_err(|_| failed());
        let domain = &recorded.spec.domain;
        let text = match ending {
            "md" => markdown(&state()?),
            "json" => serde_json::to_string(&outcome_of(&recorded, &state()?)?).map_err(|_| failed())?,
            _ => {
                let prompts = pages.prompts(&id, &recorded);
                let view = OneRunView { prompts: prompts.as_deref(), ..OneRunView::default() };
                run(&OneRunPage::of(&id, &recorded, view).map_err(|_| failed())?)
            }
        };
        Ok(match &pages.source.engine {
            Some(engine) if ending == "json" => engine.masked_json(domain, &text),
            Some(engine) => engine.masked(domain, &text),
            None => text,
        })
    };
    let text = made(making).await??;
    let disposition = format!("attachment; filename=\"{named}\"");
    let headers = [(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    Ok(no_store(StatusCode::OK, (headers, text)))
}

impl Pages {
    /// Begins a run from another one, as a form says, and waits a moment until it exists.
    async fn begun(
        &self,
        engine: &Engine,
        caller: &Caller,
        identity: &Identity,
        id: &str,
        act: &str,
        form: &str,
    ) -> Result<RunId, HttpProblem> {
        let run = RunId::new(id);
        let entry = field(form, "entry").filter(|entry| !entry.trim().is_empty());
        let entry = entry.map(|entry| entry.trim().parse().map_err(|_| not_a_form())).transpose()?;
        let from = if act == "fork" {
            RunFrom::Fork { run: run.clone(), entry }
        } else {
            RunFrom::Retry { run: run.clone() }
        };
        let line = self.source.journal.line(&run).await.map_err(|_| failed())?;
        let domain = line.and_then(|line| engine.domain(&line.domain));
        let keys = domain.map(|domain| domain.domain.caller_may_set()).unwrap_or_default();
        let settings = keys.into_iter().filter_map(|key| {
            let value = field(form, &format!("set.{key}"))?;
            (!value.trim().is_empty()).then(|| (key, value.trim().to_owned()))
        });
        // The same form, sent twice, is one request.
        let key = format!("form {}", Digest::of("form", format!("{act} {id} {form}").as_bytes()));
        let checked = DoorIdentity(Some(identity.clone()));
        let (audit, settings, key) = (&self.source.audit, settings.collect(), Ok(Some(key)));
        let begun = begin_from(engine, audit, caller, checked, from, settings, key).await?;
        self.has_begun(&begun.run).await?;
        Ok(begun.run)
    }

    /// What the caller can do with a run.
    pub(super) async fn acts(
        &self,
        caller: &Caller,
        identity: Option<&Identity>,
        id: &RunId,
        recorded: &Recorded,
        at: Option<u64>,
    ) -> RunActs {
        let domain = &recorded.spec.domain;
        let last = recorded.entries.last().map_or(0, |entry| entry.seq);
        let plain = RunActs { run: id.to_string(), at, last, ..RunActs::default() };
        let Some(engine) = &self.source.engine else { return plain };
        let Ok(view) = engine.view(id).await else { return plain };
        let started = started_of(recorded);
        let provenance = started.map(|started| &started.provenance);
        let is_on_engine = provenance.is_some_and(|of| !of.engine.is_empty());
        let stage = match view.state {
            RunState::Ended | RunState::Damaged => Stage::Ended,
            _ if is_on_engine => Stage::OnEngine,
            RunState::Interrupted => Stage::Interrupted,
            RunState::Queued | RunState::Running | RunState::Waiting | RunState::OtherVersion => Stage::Open,
        };
        let served = engine.domain(domain);
        RunActs {
            csrf: csrf_of(caller, identity, &view),
            once: Runner::new_id().to_string(),
            waits: view.state == RunState::Waiting,
            may_decide: caller.may(Role::Approve, domain),
            stage,
            root: provenance.and_then(|of| of.called_by.as_ref()).map(|by| by.root.to_string()),
            can_fork: served.is_some(),
            can_retry: served.is_some() && !recorded.spec.protocol.properties().answers_every_call,
            settings: served.map(|served| served.domain.caller_may_set()).unwrap_or_default(),
            ..plain
        }
    }

    /// The page of a run without entries, since it is queued or could not begin.
    pub(super) async fn queued(
        &self,
        caller: &Caller,
        identity: Option<&Identity>,
        id: &str,
        status: StatusCode,
        notice: Option<Notice>,
    ) -> Result<Response, HttpProblem> {
        let engine = self.source.engine.as_ref().ok_or_else(unknown)?;
        let view = engine.view(&RunId::new(id)).await.map_err(|_| unknown())?;
        if !caller.may(Role::Read, &view.domain) {
            return Err(unknown());
        }
        let is_interrupted = view.state == RunState::Interrupted;
        let acts = RunActs {
            run: view.run.clone(),
            csrf: csrf_of(caller, identity, &view),
            stage: Stage::Queued,
            ..RunActs::default()
        };
        let title = format!("{}: {}", view.item, view.title);
        let content = maud::html! {
            (noticed(notice.as_ref()))
            h1 { (t(&title)) }
            p.lead {
                "run " code { (t(&view.run)) } " of " strong { (t(&view.domain)) } ", accepted " (time(view.accepted_unix_ms)) " UTC"
            }
            @match &view.trouble {
                Some(why) => { p.notice.bad { "It could not begin: " (t(why)) } }
                None => { p.notice { "It waits in the queue. This page is loaded again until it begins." } }
            }
            (acts.html())
        };
        let mut response = no_store(status, Html(shell::page(PagePlace::Server, &title, &content)));
        if !is_interrupted {
            let to = format!("{QUEUE_SECONDS}; url=/runs/{}", encoded(id));
            let to = HeaderValue::from_str(&to).map_err(|_| failed())?;
            response.headers_mut().insert(header::REFRESH, to);
        }
        Ok(response)
    }
}

/// The notice as HTML.
pub(super) fn noticed(notice: Option<&Notice>) -> maud::Markup {
    maud::html! {
        @if let Some(notice) = notice { p.notice.bad[!notice.is_good] role="status" { (t(&notice.text)) } }
    }
}

/// The CSRF token of a run's forms, for a caller who may steer the run.
fn csrf_of(caller: &Caller, identity: Option<&Identity>, view: &RunView) -> String {
    let is_own = view.caller.as_deref() == Some(&*caller.name);
    let csrf = identity.and_then(|identity| identity.csrf.as_deref());
    csrf.filter(|_| may_steer(caller, &view.domain, is_own)).unwrap_or_default().to_owned()
}

fn only_read() -> HttpProblem {
    let detail = "these pages are for reading; use the commands, or `loopgate serve`";
    HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail)
}

pub(super) fn not_a_form() -> HttpProblem {
    let detail = "the body is not a form of the run's page, or a field of it is not filled in as it says; open the page again";
    HttpProblem::new(StatusCode::BAD_REQUEST, "body", "Body not understood", detail)
}

/// The seconds after which the page of a queued run reloads.
const QUEUE_SECONDS: u64 = 2;
