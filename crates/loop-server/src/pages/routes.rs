//! The routes of the pages. To a caller, what they may not see does not exist.

mod act;
mod begin;
mod decide;
mod domains;
mod evals;
mod known;
mod labels;
mod link;
mod listing;
mod pending;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use futures::{StreamExt as _, stream};
use loop_core::EventKind;
use loop_core::run::Started;
use loop_core::types::RunId;
use loop_inspect::diff::RunDiff;
use loop_runtime::journal::{Journal as _, JournalError, Recorded, StoredJournal};
use loop_runtime::spec::Prompts;
use serde::Deserialize;

use known::KnownRuns;

use super::run::title_of;
use super::{ComparePage, Notice, OneRunPage, OneRunView, PagePlace, SCRIPT, STYLE, compare, shell};
use crate::caller::{Caller, Role};
use crate::clock::unix_ms;
use crate::doors::{Audit, Identity};
use crate::engine::{Engine, RunPhase};
use crate::problem::HttpProblem;

/// Finds the prompt templates of a recorded run, if they are not the built-in ones.
pub type FindPrompts = Arc<dyn Fn(&RunId, &Recorded) -> Option<Arc<Prompts>> + Send + Sync>;

/// The data sources of the pages.
#[derive(Clone)]
pub struct PageSource {
    /// The journal with the runs.
    pub journal: Arc<StoredJournal>,
    /// The engine, which carries out decisions. `None`: the pages are read-only.
    pub engine: Option<Engine>,
    /// Finds prompt templates that are not built in.
    pub prompts: FindPrompts,
    /// The audit log for decisions.
    pub audit: Audit,
}

impl fmt::Debug for PageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageSource").field("engine", &self.engine).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct Pages {
    source: PageSource,
    known: Arc<KnownRuns>,
    pending: Arc<tokio::sync::Mutex<pending::PendingRows>>,
}

/// The routes of the pages, for use behind a door: see [`Caller`].
pub fn router(source: PageSource) -> Router {
    let pages = Pages { source, known: Arc::default(), pending: Arc::default() };
    Router::new()
        .route("/", get(listing::list))
        .route("/pending", get(pending::list))
        .route("/links/{token}", get(link::open))
        .route("/runs/{run}", get(one))
        .route("/runs/{run}/approve", get(decide::page).post(decide::decided))
        .route("/runs/{run}/{what}", get(act::file).post(act::done))
        .route("/runs/{run}/label", post(labels::set))
        .route("/runs/{run}/case", get(labels::case))
        .route("/evals", get(evals::list))
        .route("/evals/{id}", get(evals::one))
        .route("/compare", get(two))
        .route("/new", get(begin::form).post(begin::begun))
        .route("/domains", get(domains::list))
        .route("/domains/{domain}", get(domains::one))
        .route(
            "/assets/style.css",
            get(|headers: HeaderMap| async move { asset("text/css; charset=utf-8", STYLE, &headers) }),
        )
        .route(
            "/assets/page.js",
            get(
                |headers: HeaderMap| async move { asset("text/javascript; charset=utf-8", SCRIPT, &headers) },
            ),
        )
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .layer(middleware::from_fn_with_state(pages.clone(), pending::counted))
        .with_state(pages)
}

fn asset(kind: &'static str, text: &'static str, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", loop_core::types::Digest::of("asset", text.as_bytes()).short());
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if is_known { StatusCode::NOT_MODIFIED.into_response() } else { text.into_response() };
    let own = response.headers_mut();
    own.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    own.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        own.insert(header::ETAG, tag);
    }
    response
}

/// A response with a page, which must not be cached.
fn shown(status: StatusCode, html: String) -> Response {
    no_store(status, Html(html))
}

fn no_store(status: StatusCode, body: impl IntoResponse) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], body).into_response()
}

/// Redirects a browser to another page.
fn see(to: &str) -> Result<Response, HttpProblem> {
    let to = HeaderValue::from_str(to).map_err(|_| failed())?;
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response())
}

/// The first event of a recorded run. `None`: it has no entry.
fn started_of(recorded: &Recorded) -> Option<&Started> {
    match recorded.entries.first().map(|first| &first.event.kind) {
        Some(EventKind::Started(started)) => Some(started),
        _ => None,
    }
}

fn unknown() -> HttpProblem {
    let detail = "there is no such run; / lists the runs";
    HttpProblem::new(StatusCode::NOT_FOUND, "unknown-run", "Unknown run", detail)
}

fn failed() -> HttpProblem {
    let detail = "the run cannot be read; the operator finds out more with `loopgate verify`";
    HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "unreadable", "Not readable", detail)
}

impl Pages {
    /// The run with this id, if the caller has this role for it.
    async fn read(&self, caller: &Caller, id: &str, role: Role) -> Result<(RunId, Recorded), HttpProblem> {
        let id = RunId::new(id);
        // A run that cannot be read is one that does not exist for those who may not see it.
        let line = self.source.journal.line(&id).await.map_err(|_| failed())?.ok_or_else(unknown)?;
        let is_seen = match &line.trouble {
            None => caller.may(role, &line.domain),
            // Its domain cannot be read either.
            Some(_) => caller.domains.is_none(),
        };
        if !is_seen {
            return Err(unknown());
        }
        let recorded = match self.source.journal.read(&id).await {
            Ok(recorded) => recorded,
            Err(JournalError::Unknown { .. } | JournalError::Pruned { .. }) => return Err(unknown()),
            Err(_) => return Err(failed()),
        };
        if caller.may(role, &recorded.spec.domain) { Ok((id, recorded)) } else { Err(unknown()) }
    }

    /// Waits a moment until a submitted run has its first entry. Returns whether it has.
    async fn has_begun(&self, run: &RunId) -> Result<bool, HttpProblem> {
        for _ in 0..BEGIN_TRIES {
            if self.source.journal.line(run).await.map_err(|_| failed())?.is_some() {
                return Ok(true);
            }
            tokio::time::sleep(BEGIN_PAUSE).await;
        }
        Ok(false)
    }

    fn prompts(&self, id: &RunId, recorded: &Recorded) -> Option<Arc<Prompts>> {
        let wanted = started_of(recorded)?.prompts;
        let builtin = Arc::new(Prompts::builtin());
        if builtin.hash() == wanted {
            return Some(builtin);
        }
        let of_engine = self.source.engine.as_ref().and_then(|engine| engine.domain(&recorded.spec.domain));
        let of_engine = of_engine.map(|served| Arc::clone(&served.domain.prompts));
        let found = of_engine.filter(|prompts| prompts.hash() == wanted);
        found.or_else(|| (self.source.prompts)(id, recorded)).filter(|prompts| prompts.hash() == wanted)
    }
}

/// Renders a page on a blocking thread.
async fn made<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, HttpProblem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| failed())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OneQuery {
    at: Option<u64>,
    /// The form that led here, by its name.
    did: String,
}

/// `GET /runs/{run}`.
async fn one(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    identity: Option<Extension<Identity>>,
    Path(id): Path<String>,
    Query(OneQuery { at, did }): Query<OneQuery>,
) -> Result<Response, HttpProblem> {
    let identity = identity.map(|Extension(identity)| identity);
    pages.shown_run(&caller, identity.as_ref(), &id, at, StatusCode::OK, act::notice_of(&did)).await
}

impl Pages {
    /// The page of a run at an event, with the result of the form that led here.
    async fn shown_run(
        &self,
        caller: &Caller,
        identity: Option<&Identity>,
        id: &str,
        at: Option<u64>,
        status: StatusCode,
        notice: Option<Notice>,
    ) -> Result<Response, HttpProblem> {
        let (id, recorded) = match self.read(caller, id, Role::Read).await {
            Err(problem) if problem.status == StatusCode::NOT_FOUND.as_u16() => {
                return self.queued(caller, identity, id, status, notice).await;
            }
            read => read?,
        };
        let live = self.source.engine.as_ref().and_then(|engine| engine.live(&id));
        let now = live.filter(|live| live.phase() == RunPhase::Running).map(|_| unix_ms());
        let mut acts = self.acts(caller, identity, &id, &recorded, at).await;
        let title = started_of(&recorded).map(|started| title_of(&started.item));
        let label = self.label_part(caller, identity, &id, &recorded).await?;
        let domain = &recorded.spec.domain;
        let served = self.source.engine.as_ref().and_then(|engine| engine.domain(domain));
        let begins_again = served.is_some() && caller.may(Role::Submit, domain);
        let (begin, end) = shell::around(PagePlace::Server, &title.unwrap_or_default());
        let pages = self.clone();
        let content = made(move || {
            let prompts = pages.prompts(&id, &recorded);
            let rest = format!("GET /v1/runs/{id}/events has all of it");
            let stream = format!("/v1/runs/{}/events", super::encoded(id.as_str()));
            let events = if pages.source.engine.is_some() { stream.as_str() } else { "" };
            let view = OneRunView {
                begins_again,
                events,
                now,
                at,
                place: PagePlace::Server,
                prompts: prompts.as_deref(),
                rest: &rest,
                label: Some(&label),
            };
            OneRunPage::of(&id, &recorded, view).map(|page| {
                (acts.waits, acts.has_ended) = (acts.waits || page.waits(), page.has_ended());
                let parts = [act::noticed(notice.as_ref()), acts.waits(), acts.html(), page.content()];
                parts.map(|part| part.into_string()).concat()
            })
        });
        // The browser fetches style and script while the rest is made.
        let rest = async move {
            let content = content.await.ok().and_then(Result::ok).unwrap_or_else(|| UNREADABLE.to_owned());
            Ok::<_, Infallible>(content + &end)
        };
        let body = stream::once(async { Ok(begin) }).chain(stream::once(rest));
        Ok(no_store(status, Html(Body::from_stream(body))))
    }
}

/// The notice of a run that can be read but not shown.
const UNREADABLE: &str = "<p class=\"notice bad\">The run cannot be shown; the operator finds out more with `loopgate verify`.</p>";

/// `GET /compare`: two runs as `a` and `b`, or the runs selected in the list, each as `run`.
async fn two(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, HttpProblem> {
    let named = query.iter().filter(|(name, _)| ["a", "b", "run"].contains(&name.as_str()));
    // One run alone is the first.
    let mut asked = named.map(|(_, id)| id.trim().to_owned()).filter(|id| !id.is_empty());
    let asked_for = [asked.next().unwrap_or_default(), asked.next().unwrap_or_default()];
    if asked.next().is_some() {
        let trouble = Some("More than two runs are selected; select two in the list of runs".to_owned());
        let page = ComparePage { asked: asked_for, diff: None, trouble, others: Vec::new() };
        return Ok(shown(StatusCode::BAD_REQUEST, compare(&page)));
    }
    let mut page = ComparePage { asked: asked_for, diff: None, trouble: None, others: Vec::new() };
    let mut read = Vec::new();
    for wanted in page.asked.iter().filter(|wanted| !wanted.is_empty()) {
        match pages.find(&caller, wanted).await {
            Ok(found) => read.push(found),
            Err(problem) => page.trouble = Some(format!("{wanted}: {}", problem.detail)),
        }
    }
    if let (None, [(id, first)]) = (&page.trouble, read.as_slice()) {
        page.others = pages.like(&caller, id, &first.spec.domain).await?;
    }
    let html = made(move || {
        if let (None, [a, b]) = (&page.trouble, read.as_slice()) {
            match RunDiff::of((&a.0, &a.1), (&b.0, &b.1)) {
                Ok(diff) => {
                    let [a_prompts, b_prompts] = [a, b].map(|(id, recorded)| pages.prompts(id, recorded));
                    page.diff = Some(match (a_prompts, b_prompts) {
                        (Some(of_a), Some(of_b)) => {
                            diff.with_prompts((&a.0, &a.1, &of_a), (&b.0, &b.1, &of_b))
                        }
                        _ => diff,
                    });
                }
                Err(error) => page.trouble = Some(error.to_string()),
            }
        }
        let status = if page.trouble.is_some() { StatusCode::NOT_FOUND } else { StatusCode::OK };
        (status, compare(&page))
    });
    let (status, html) = html.await?;
    Ok(shown(status, html))
}

impl Pages {
    /// The newest other runs of a domain: id, and item and title.
    async fn like(
        &self,
        caller: &Caller,
        than: &RunId,
        domain: &str,
    ) -> Result<Vec<(String, String)>, HttpProblem> {
        let kept = self.kept().await?;
        let all = kept.open.iter().chain(kept.ended.values().rev().map(|run| &**run));
        let like = all.filter(|run| run.domain == domain && run.run != than.as_str());
        let like = like.filter(|run| caller.may(Role::Read, &run.domain)).take(MAX_OTHERS);
        Ok(like.map(|run| (run.run.clone(), format!("{}: {}", run.item, run.title))).collect())
    }

    /// The run with this id, or the only run whose id begins with it.
    async fn find(&self, caller: &Caller, wanted: &str) -> Result<(RunId, Recorded), HttpProblem> {
        let whole = self.read(caller, wanted, Role::Read).await;
        if whole.is_ok() || wanted.len() < LEAST_ID {
            return whole;
        }
        let kept = self.kept().await?;
        let ended = kept.ended.values().map(|run| &**run);
        let seen = ended.chain(&kept.open).filter(|run| caller.sees(&run.domain));
        let mut fitting = seen.filter(|run| run.run.starts_with(wanted));
        match (fitting.next(), fitting.next()) {
            (Some(run), None) => self.read(caller, &run.run, Role::Read).await,
            _ => whole,
        }
    }
}

/// How often to check whether a run has begun, and the pause between checks.
const BEGIN_TRIES: usize = 20;
const BEGIN_PAUSE: Duration = Duration::from_millis(25);

/// The most runs that are offered for a comparison.
const MAX_OTHERS: usize = 20;

/// The fewest characters of an id that are searched for.
const LEAST_ID: usize = 6;
