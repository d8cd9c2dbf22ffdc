//! The list of runs.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use loop_core::RunId;
use loop_runtime::journal::{Journal as _, RunLine, RunSummary, replay};
use loop_runtime::report::ListedRun;
use serde::Deserialize;

use super::{Pages, failed, made, shown};
use crate::caller::{Caller, Role};
use crate::engine::{RunPhase, tags_of};
use crate::pages::{RunsFilter, RunsPage, runs};
use crate::problem::HttpProblem;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    domain: String,
    outcome: String,
    tag: String,
    text: String,
    since: String,
    before: Option<String>,
}

/// `GET /`.
pub(super) async fn list(
    State(pages): State<Pages>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<ListQuery>,
) -> Result<Response, HttpProblem> {
    let all = pages.listed(&caller).await?;
    let ListQuery { domain, outcome, tag, text, since, before } = query;
    let filter = RunsFilter { domain, outcome, tag, text, since };
    let html = made(move || runs(&RunsPage::of(&all, filter, before.as_deref()))).await?;
    Ok(shown(StatusCode::OK, html))
}

impl Pages {
    /// The runs that a caller sees, newest first.
    pub(super) async fn listed(&self, caller: &Caller) -> Result<Vec<ListedRun>, HttpProblem> {
        let journal = &self.source.journal;
        let lines = journal.runs().await.map_err(|_| failed())?;
        let lines: Vec<RunLine> =
            lines.into_iter().filter(|line| caller.may(Role::Read, &line.domain)).collect();
        let summaries = self.summaries(&lines).await?;
        let mut listed = Vec::with_capacity(lines.len());
        for line in &lines {
            let summary = summaries.get(&line.run).copied().unwrap_or_default();
            let waits = line.stop.is_none() && line.trouble.is_none() && self.waits(line).await;
            let line = RunLine { is_written: line.is_written && !waits, ..line.clone() };
            listed.push(ListedRun::new(&line, summary, waits, tags_of(line.origin.as_deref())));
        }
        Ok(listed)
    }

    /// The summaries of these runs. That of a run that has ended is read once.
    async fn summaries(&self, lines: &[RunLine]) -> Result<BTreeMap<RunId, RunSummary>, HttpProblem> {
        let mut found: BTreeMap<RunId, RunSummary> = BTreeMap::new();
        if let Ok(known) = self.ended.lock() {
            let ended = lines.iter().filter(|line| line.stop.is_some());
            found.extend(ended.filter_map(|line| Some((line.run.clone(), *known.get(&line.run)?))));
        }
        let is_new = |line: &&RunLine| !found.contains_key(&line.run);
        let ids: Vec<RunId> = lines.iter().filter(is_new).map(|line| line.run.clone()).collect();
        let read = self.source.journal.summaries(&ids).await.map_err(|_| failed())?;
        if let Ok(mut known) = self.ended.lock() {
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            let ended = lines.iter().filter(|line| line.stop.is_some());
            known.extend(ended.filter_map(|line| Some((line.run.clone(), *read.get(&line.run)?))));
        }
        found.extend(read);
        Ok(found)
    }

    /// Whether a run that has not ended waits for a person. What the engine knows is not read again, and neither is a run
    /// that has had no entry since.
    async fn waits(&self, line: &RunLine) -> bool {
        if let Some(live) = self.source.engine.as_ref().and_then(|engine| engine.live(&line.run)) {
            return matches!(live.phase(), RunPhase::Waiting { .. });
        }
        let known = self.waits.lock().ok().and_then(|known| known.get(&line.run).copied());
        if let Some((entries, waits)) = known
            && entries == line.entries
        {
            return waits;
        }
        let recorded = self.source.journal.read(&line.run).await.ok();
        let state = recorded.and_then(|recorded| replay(&line.run, &recorded).ok());
        let waits = state.is_some_and(|state| !state.requested().is_empty());
        if let Ok(mut known) = self.waits.lock() {
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            known.insert(line.run.clone(), (line.entries, waits));
        }
        waits
    }
}

/// Of how many runs it is remembered whether they wait, or what they cost.
const MAX_KNOWN: usize = 10_000;
