//! The route of the list of pending requests, and their number in the header of each page.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use loop_core::types::RunId;
use loop_inspect::listed::ListedRun;
use loop_runtime::journal::{Journal as _, replay};

use super::known::waiting;
use super::{Pages, made, shown};
use crate::caller::{Caller, Role};
use crate::clock::unix_ms;
use crate::pages::pending::{PendingRow, pending};
use crate::pages::runs::KeptRuns;
use crate::pages::shell::WaitingCount;
use crate::problem::HttpProblem;

/// The pending requests of runs, cached with the number of entries. A run is read again only when it has more.
pub(super) type PendingRows = BTreeMap<RunId, (u64, Arc<Vec<PendingRow>>)>;

/// The most runs that are read, newest first.
const MAX_RUNS: usize = 200;

/// `GET /pending`.
pub(super) async fn list(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, HttpProblem> {
    if !caller.is(Role::Read) && !caller.is(Role::Approve) {
        let detail = "what waits is for the roles `read` and `approve`; ask the operator for one of them";
        return Err(HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail));
    }
    let kept = pages.kept().await?;
    let seen: Vec<&ListedRun> = seen(&kept, &caller).collect();
    let left_out = seen.len().saturating_sub(MAX_RUNS);
    let mut rows = Vec::new();
    for run in seen.into_iter().take(MAX_RUNS) {
        rows.extend(pages.pending_of(run).await.iter().cloned());
    }
    let may_decide = pages.source.engine.is_some();
    let html = made(move || {
        let may = |domain: &str| may_decide && caller.may(Role::Approve, domain);
        pending(rows, left_out, unix_ms(), &may)
    });
    let mut response = shown(StatusCode::OK, html.await?);
    response.extensions_mut().insert(kept);
    Ok(response)
}

/// The waiting runs that the caller may read or decide in.
fn seen<'a>(kept: &'a KeptRuns, caller: &'a Caller) -> impl Iterator<Item = &'a ListedRun> {
    let may = |domain: &str| caller.may(Role::Read, domain) || caller.may(Role::Approve, domain);
    waiting(kept).filter(move |run| may(&run.domain))
}

impl Pages {
    /// The pending requests of a run. A run that cannot be read has none.
    async fn pending_of(&self, run: &ListedRun) -> Arc<Vec<PendingRow>> {
        let id = RunId::new(run.run.as_str());
        let mut known = self.pending.lock().await;
        if let Some((entries, rows)) = known.get(&id)
            && *entries == run.entries
        {
            return Arc::clone(rows);
        }
        if known.len() >= 2 * MAX_RUNS {
            known.clear();
        }
        let Ok(recorded) = self.source.journal.read(&id).await else { return Arc::default() };
        let (of, entries) = (id.clone(), recorded.entries.len() as u64);
        let rows = made(move || {
            let state = replay(&of, &recorded).ok();
            state.map_or_else(Vec::new, |state| PendingRow::all(&state, &recorded))
        });
        let rows = Arc::new(rows.await.unwrap_or_default());
        known.insert(id, (entries, Arc::clone(&rows)));
        rows
    }
}

/// Adds the number of pending requests to the header of a page.
pub(super) async fn counted(State(pages): State<Pages>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().cloned();
    let mut response = next.run(request).await;
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_page = kind.is_some_and(|kind| kind.starts_with(b"text/html"));
    // A problem may become a page.
    let is_shown = is_page || response.extensions().get::<HttpProblem>().is_some();
    let Some(caller) = caller.filter(|_| is_shown) else { return response };
    // A route that has read the runs gives them on.
    let kept = match response.extensions_mut().remove::<Arc<KeptRuns>>() {
        Some(kept) => Some(kept),
        None => pages.kept().await.ok(),
    };
    if let Some(kept) = kept {
        response.extensions_mut().insert(WaitingCount(seen(&kept, &caller).count()));
    }
    response
}
