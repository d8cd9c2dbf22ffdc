//! Runs as callers see them, from the memory of this process or from the journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loop_core::Run;
use loop_core::types::{RunId, StopClass};
use loop_inspect::listed::ListedCost;
use loop_runtime::budget::{BudgetUse, SharedBudget, SharedBudgets, SharedLedger};
use loop_runtime::journal::label::RunLabel;
use loop_runtime::journal::list::{RunQuery, RunSummary};
use loop_runtime::journal::queue::Submission;
use loop_runtime::journal::versions::not_on_engine;
use loop_runtime::journal::{Journal as _, Recorded, RunLine};
use loop_runtime::people::waits;
use loop_runtime::report::PersonRequestReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell::{RunCell, SubmittedRun};
use super::submit::JobBody;
use super::work::{ELSEWHERE, NEVER, until};
use super::{Engine, EngineError, RunPhase, ServedDomain};

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunView {
    /// Its id.
    pub run: String,
    /// The domain's name.
    pub domain: String,
    /// The work item's id.
    pub item: String,
    /// The work item's title.
    pub title: String,
    /// What it does.
    pub state: RunState,
    /// When it was accepted, in milliseconds since 1970 (UTC); when it began, if it was not submitted to a server.
    pub accepted_unix_ms: u64,
    /// Who submitted it. Null: it was not submitted to this server.
    pub caller: Option<String>,
    /// Its priority in the queue. Null as for `caller`.
    pub priority: Option<i32>,
    /// The tags that it was begun with. Empty if there are none.
    pub tags: Vec<String>,
    /// How many entries its journal has.
    pub entries: u64,
    /// The name of the reason for which it stopped. Null if it has not ended.
    pub reason: Option<String>,
    /// The class of its stop: `answered`, `partial`, `refused`, `needs_human`, `failed`, `in_doubt` or `cancelled`. Null if
    /// it has not ended.
    pub class: Option<String>,
    /// What its own calls cost so far.
    pub cost: ListedCost,
    /// When the time to answer ends, in milliseconds since 1970 (UTC), while it waits for a person. No answer by then is a
    /// denial. Null otherwise.
    pub until_unix_ms: Option<u64>,
    /// What a person said it was worth, after it had ended. Null: it is not labelled.
    pub label: Option<RunLabel>,
    /// Why it does not continue. Null: nothing is wrong with it.
    pub trouble: Option<String>,
}

/// Which runs are listed. A run must match every part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// The query for the journal.
    pub query: RunQuery,
    /// Only runs in this state, by its name.
    pub state: Option<RunState>,
    /// Only runs whose stop has this class.
    pub class: Option<StopClass>,
}

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It has not begun.
    Queued,
    /// A process drives it.
    Running,
    /// It waits for a person.
    Waiting,
    /// It has not ended, and no process drives it.
    Interrupted,
    /// It has not ended, and is left to a server of another version.
    OtherVersion,
    /// It has ended.
    Ended,
    /// Its entries cannot be read.
    Damaged,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunPage {
    /// The runs, newest first.
    pub runs: Vec<RunView>,
    /// The `cursor` of the next page. Null: there are no more.
    pub next: Option<String>,
    /// How many runs that have ended are not in the index of words yet, where `words` is asked for: ask again to have more of
    /// them. For a caller who does not see all domains it is at most 1.
    pub not_searched: u64,
}

/// An action that waits for a person.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PendingAction {
    /// The run.
    pub run: String,
    /// The domain's name.
    pub domain: String,
    /// The work item's id.
    pub item: String,
    /// The work item's title.
    pub title: String,
    /// What is asked. `action` and `binding` go into the decision.
    #[serde(flatten)]
    pub request: PersonRequestReport,
    /// How many people have to approve it.
    pub approvals: u32,
    /// The accounts that have approved it so far.
    pub approved_by: Vec<String>,
}

impl Engine {
    /// The current view of a run.
    ///
    /// # Errors
    /// There is no such run, or the journal cannot be read.
    pub async fn view(&self, run: &RunId) -> Result<RunView, EngineError> {
        match self.view_now(run).await {
            // Another server may have begun it between the two looks.
            Err(EngineError::UnknownRun) if self.inner.journal.shares_queue() => self.view_now(run).await,
            seen => seen,
        }
    }

    async fn view_now(&self, run: &RunId) -> Result<RunView, EngineError> {
        let cell = self.inner.cell(run);
        let line = self.inner.journal.line(run).await?;
        let mut view = match (&cell, line) {
            (_, Some(line)) => {
                let summaries = self.inner.journal.summaries(std::slice::from_ref(run)).await?;
                self.seen(&line, cell.as_deref(), summaries.get(run).cloned().unwrap_or_default()).await
            }
            (Some(cell), None) => queued(cell),
            (None, None) => return self.not_served(run).await,
        };
        self.add_submissions(std::slice::from_mut(&mut view)).await?;
        self.add_labels(std::slice::from_mut(&mut view)).await?;
        Ok(view)
    }

    /// Completes views of runs that this process does not have, from the rows of the queue.
    async fn add_submissions(&self, views: &mut [RunView]) -> Result<(), EngineError> {
        let is_missing = |view: &&mut RunView| view.caller.is_none();
        let missing: Vec<RunId> =
            views.iter_mut().filter(is_missing).map(|view| RunId::new(view.run.as_str())).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let submitted = self.inner.journal.submissions_of(missing).await?;
        for view in views.iter_mut().filter(is_missing) {
            if let Some(queued) = submitted.get(&RunId::new(view.run.as_str())) {
                view.caller = Some(queued.submission.caller.to_string());
                view.priority = Some(queued.submission.priority);
                view.accepted_unix_ms = queued.submission.unix_ms;
            }
        }
        Ok(())
    }

    async fn add_labels(&self, views: &mut [RunView]) -> Result<(), EngineError> {
        let ended = views.iter().filter(|view| view.reason.is_some());
        let runs: Vec<RunId> = ended.map(|view| RunId::new(view.run.as_str())).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let mut labels = self.inner.journal.labels(Some(&runs)).await?;
        views.iter_mut().for_each(|view| view.label = labels.remove(&RunId::new(view.run.as_str())));
        Ok(())
    }

    /// The view of a submission that this process does not have: its domain is not served now, or no process has begun
    /// it.
    async fn not_served(&self, run: &RunId) -> Result<RunView, EngineError> {
        let queued = self.inner.journal.submission(run).await?.ok_or(EngineError::UnknownRun)?;
        if queued.submission.body.is_empty() {
            // Its run was pruned.
            return Err(EngineError::UnknownRun);
        }
        Ok(self.view_of(&queued.submission))
    }

    /// The matching submissions in the queue, of every server, newest first, at most `limit`.
    async fn queued_views(&self, query: &RunQuery, limit: usize) -> Result<Vec<RunView>, EngineError> {
        let (mut views, mut before) = (Vec::new(), query.before.clone());
        loop {
            let queued = self.inner.journal.queued_submissions(before.as_ref(), limit).await?;
            let is_last = queued.len() < limit;
            before = queued.last().map(|queued| queued.submission.run.clone());
            views.extend(queued.iter().map(|queued| self.view_of(&queued.submission)).filter(|view| {
                let named = [view.domain.as_str(), &view.item, &view.title];
                fits(query, named, view.accepted_unix_ms, &view.tags)
            }));
            if is_last || views.len() >= limit {
                views.truncate(limit);
                return Ok(views);
            }
        }
    }

    /// The view of a submission in the queue.
    fn view_of(&self, submission: &Submission) -> RunView {
        let is_served = self.inner.domains.contains_key(&submission.domain);
        let body: Option<JobBody> = serde_json::from_str(&submission.body).ok().filter(|_| is_served);
        let none: Arc<str> = "".into();
        let item = body.as_ref().map_or([&none, &none], |body| [&body.item.id, &body.item.title]);
        let tags = body.as_ref().map(|body| body.tags.clone()).unwrap_or_default();
        let trouble = (!is_served).then(|| "its domain is not served now".to_owned());
        without_entries(&SubmittedRun::of(submission, 0, item, tags), RunState::Queued, trouble)
    }

    /// The domain and the submitter of a run, for access checks. `None`: there is no such run.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn owner(&self, run: &RunId) -> Result<Option<(Arc<str>, Option<Arc<str>>)>, EngineError> {
        if let Some(cell) = self.inner.cell(run).filter(|cell| !cell.caller.is_empty()) {
            return Ok(Some((Arc::clone(&cell.domain), Some(Arc::clone(&cell.caller)))));
        }
        if let Some(queued) = self.inner.journal.submission(run).await? {
            let submission = queued.submission;
            return Ok(Some((submission.domain, Some(submission.caller))));
        }
        Ok(self.inner.journal.line(run).await?.map(|line| (line.domain, None)))
    }

    /// The budgets that a run of a domain counts against, with their current use: those of the domain, and that of the
    /// caller if there is one.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    pub async fn budgets(
        &self,
        domain: &ServedDomain,
        of_caller: Option<SharedBudget>,
    ) -> Result<Vec<(SharedBudget, BudgetUse)>, EngineError> {
        let none = || SharedBudgets::new(Arc::clone(&self.inner.journal) as Arc<dyn SharedLedger>, []);
        let shared = domain.runner.shared_budgets().cloned().unwrap_or_else(none);
        let shared = of_caller.into_iter().fold(shared, SharedBudgets::and);
        // Looking at none settles nothing.
        if shared.is_empty() { Ok(Vec::new()) } else { Ok(shared.taken().await?) }
    }

    /// A run from the journal: its entries and its state.
    ///
    /// # Errors
    /// There is no such run, or it cannot be read.
    pub async fn read(&self, run: &RunId) -> Result<(Recorded, Run), EngineError> {
        self.open_run(run).await
    }

    /// Masks the secrets of a domain in a text.
    pub fn masked(&self, domain: &str, text: &str) -> String {
        let domain = self.inner.domains.get(domain);
        domain.map_or_else(|| text.to_owned(), |domain| domain.runner.secrets().mask(text).into_owned())
    }

    /// Masks the secrets of a domain in a JSON text.
    pub fn masked_json(&self, domain: &str, json: &str) -> String {
        let domain = self.inner.domains.get(domain);
        domain.map_or_else(|| json.to_owned(), |domain| domain.runner.secrets().mask_json(json).into_owned())
    }

    /// A page of the list of runs, newest first.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn list(&self, filter: &RunFilter, limit: usize) -> Result<RunPage, EngineError> {
        let mut query = filter.query.clone();
        let mut views = Vec::new();
        // Only a run that has ended has a class.
        query.ended = query.ended.or(filter.class.map(|_| true));
        let is_for = |state: RunState| filter.state.is_none_or(|wanted| wanted == state);
        if query.reason.is_none() && query.words.is_none() && query.ended != Some(true) {
            if is_for(RunState::Queued) && self.inner.journal.shares_queue() {
                views.extend(self.queued_views(&query, limit + 1).await?);
            } else if is_for(RunState::Queued) {
                views.extend(self.views_in(|cell| cell.phase() == RunPhase::Queued, &query));
                // A worker has taken it from the queue, and nothing of it is written yet.
                let begins = |cell: &RunCell| cell.phase() == RunPhase::Running && cell.entries() == 0;
                views.extend(self.without_line(self.views_in(begins, &query)).await?);
            }
            if is_for(RunState::Interrupted) {
                let interrupted = self.views_in(|cell| cell.phase() == RunPhase::Interrupted, &query);
                views.extend(self.without_line(interrupted).await?);
            }
        }
        if filter.state != Some(RunState::Queued) {
            query.ended = query.ended.or(match filter.state {
                Some(RunState::Ended) => Some(true),
                Some(
                    RunState::Running | RunState::Waiting | RunState::Interrupted | RunState::OtherVersion,
                ) => Some(false),
                _ => None,
            });
            // A state that the journal does not know is looked for page by page.
            let mut seen = 0;
            loop {
                let lines = self.inner.journal.page(&query, limit + 1).await?;
                let is_last = lines.len() <= limit;
                query.before = lines.last().map(|line| line.run.clone()).or(query.before);
                for view in self.seen_all(lines).await? {
                    let fits_class = |class: StopClass| view.class.as_deref() == Some(class.name());
                    if is_for(view.state) && filter.class.is_none_or(fits_class) {
                        seen += 1;
                        views.push(view);
                    }
                }
                if is_last || seen > limit {
                    break;
                }
            }
        }
        views.sort_unstable_by(|a, b| b.run.cmp(&a.run));
        // A run may begin between the two looks.
        views.dedup_by(|a, b| a.run == b.run);
        let has_more = views.len() > limit;
        views.truncate(limit);
        let next = views.last().filter(|_| has_more).map(|view| view.run.clone());
        self.add_labels(&mut views).await?;
        Ok(RunPage { runs: views, next, not_searched: 0 })
    }

    /// The actions that wait for people in the domains that `sees` accepts. Those of the run that has waited longest
    /// come first.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn pending(&self, sees: impl Fn(&str) -> bool) -> Result<Vec<PendingAction>, EngineError> {
        let waiting: Vec<Arc<RunCell>> = {
            let state = self.inner.state();
            let waits =
                |cell: &&Arc<RunCell>| matches!(cell.phase(), RunPhase::Waiting { .. } | RunPhase::Running);
            state.cells.values().filter(waits).filter(|cell| sees(&cell.domain)).cloned().collect()
        };
        let mut runs: Vec<RunId> = waiting.iter().map(|cell| cell.run.clone()).collect();
        // Those of the command, which were not submitted here.
        let mut query = RunQuery { ended: Some(false), ..RunQuery::default() };
        let mut others: Vec<RunId> = Vec::new();
        loop {
            let lines = self.inner.journal.page(&query, MAX_OTHERS).await?;
            let is_last = lines.len() < MAX_OTHERS;
            query.before = lines.last().map(|line| line.run.clone());
            // Those that are left out take no place of those that wait.
            let may_wait = |line: &RunLine| {
                !line.is_written
                    && !line.is_imported
                    && line.trouble.is_none()
                    && sees(&line.domain)
                    && self.inner.cell(&line.run).is_none()
            };
            others.extend(lines.into_iter().filter(may_wait).map(|line| line.run));
            if is_last || others.len() >= MAX_OTHERS {
                break;
            }
        }
        others.truncate(MAX_OTHERS);
        runs.extend(others);
        runs.sort_unstable();
        let mut pending = Vec::new();
        for run in runs {
            // One that cannot be read hides no other.
            if let Ok(actions) = self.pending_of(&run).await {
                pending.extend(actions);
            }
            if pending.len() >= MAX_PENDING {
                break;
            }
        }
        Ok(pending)
    }

    /// The actions of a run that wait for people.
    ///
    /// # Errors
    /// The run cannot be read.
    pub async fn pending_of(&self, run: &RunId) -> Result<Vec<PendingAction>, EngineError> {
        let (recorded, state) = self.open_run(run).await?;
        let (started, now) = (state.started(), recorded.now());
        let actions = state.requested().into_iter().filter(|requested| !requested.is_over(now));
        let of = |requested: loop_core::run::PersonRequest| PendingAction {
            run: run.to_string(),
            domain: state.spec().domain.to_string(),
            item: started.item.id.to_string(),
            title: started.item.title.to_string(),
            approvals: requested.approvals,
            approved_by: requested.approvers.iter().map(|by| by.account.to_string()).collect(),
            request: PersonRequestReport::new(&state, &recorded.manifest, &requested),
        };
        Ok(actions.map(of).collect())
    }

    /// The views of runs whose cells match `is_in`, such as by phase, and that match the query.
    fn views_in(&self, is_in: impl Fn(&RunCell) -> bool, query: &RunQuery) -> Vec<RunView> {
        let is_wanted = |cell: &&Arc<RunCell>| {
            is_in(cell)
                && fits(query, [&cell.domain, &cell.item, &cell.title], cell.unix_ms, &cell.tags)
                && query.before.as_ref().is_none_or(|before| cell.run < *before)
        };
        self.inner.state().cells.values().filter(is_wanted).map(|cell| queued(cell)).collect()
    }

    /// The views of runs without a line in the journal. A list has the others from there.
    async fn without_line(&self, views: Vec<RunView>) -> Result<Vec<RunView>, EngineError> {
        let mut without = Vec::new();
        for view in views {
            if self.inner.journal.line(&RunId::new(view.run.as_str())).await?.is_none() {
                without.push(view);
            }
        }
        Ok(without)
    }

    async fn seen_all(&self, lines: Vec<RunLine>) -> Result<Vec<RunView>, EngineError> {
        let ids: Vec<RunId> = lines.iter().map(|line| line.run.clone()).collect();
        let summaries: BTreeMap<RunId, RunSummary> = self.inner.journal.summaries(&ids).await?;
        let mut views = Vec::with_capacity(lines.len());
        for line in lines {
            let (cell, summary) = (self.inner.cell(&line.run), summaries.get(&line.run).cloned());
            views.push(self.seen(&line, cell.as_deref(), summary.unwrap_or_default()).await);
        }
        self.add_submissions(&mut views).await?;
        Ok(views)
    }

    async fn seen(&self, line: &RunLine, cell: Option<&RunCell>, summary: RunSummary) -> RunView {
        let (mut until, mut trouble) = (None, cell.and_then(RunCell::trouble).map(|why| why.to_string()));
        let state = match (line, cell.map(RunCell::phase)) {
            (RunLine { trouble: Some(_), .. }, _) => {
                trouble = Some(
                    "its entries cannot be read; the operator finds the reason with `loopgate verify`".into(),
                );
                RunState::Damaged
            }
            // Another process has ended it.
            (RunLine { stop: Some(_), .. }, Some(RunPhase::Waiting { .. } | RunPhase::OtherVersion)) => {
                RunState::Ended
            }
            (_, Some(RunPhase::Waiting { until_unix_ms: ELSEWHERE })) => RunState::Running,
            (_, Some(RunPhase::Waiting { until_unix_ms })) => {
                until = Some(until_unix_ms);
                RunState::Waiting
            }
            // A run that has its stop may still be saved.
            (_, Some(RunPhase::Running | RunPhase::Queued)) => RunState::Running,
            (_, Some(RunPhase::Interrupted)) => RunState::Interrupted,
            (_, Some(RunPhase::OtherVersion)) => RunState::OtherVersion,
            (RunLine { stop: Some(_), .. }, _) | (_, Some(RunPhase::Ended)) => RunState::Ended,
            (RunLine { is_written: true, .. }, None) => RunState::Running,
            (_, None) => match self.waits_until(&line.run).await {
                Ok(Some(unix_ms)) => {
                    until = Some(unix_ms);
                    RunState::Waiting
                }
                Err(error @ EngineError::OtherVersion(_)) => {
                    trouble = Some(error.to_string());
                    RunState::OtherVersion
                }
                Err(EngineError::OnEngine(_)) => RunState::Running,
                Ok(None) | Err(_) => RunState::Interrupted,
            },
        };
        if state == RunState::Interrupted && !self.inner.domains.contains_key(&line.domain) {
            trouble = trouble.or_else(|| Some("its domain is not served now".to_owned()));
        }
        RunView {
            run: line.run.to_string(),
            domain: line.domain.to_string(),
            item: line.item.to_string(),
            title: line.title.to_string(),
            state,
            accepted_unix_ms: cell.map_or(line.unix_ms, |cell| cell.unix_ms),
            caller: cell.map(|cell| cell.caller.to_string()).filter(|caller| !caller.is_empty()),
            priority: cell.filter(|cell| !cell.caller.is_empty()).map(|cell| cell.priority),
            tags: tags_of(line.origin.as_deref()),
            entries: line.entries,
            reason: line.stop.as_ref().map(|stop| stop.name().to_owned()),
            class: line.stop.as_ref().and(summary.class).map(|class| class.name().to_owned()),
            cost: summary.cost.into(),
            until_unix_ms: until.filter(|until| *until != NEVER),
            label: None,
            trouble,
        }
    }

    /// The deadline of the answer that a run of another process waits for. `None`: it does not wait.
    async fn waits_until(&self, run: &RunId) -> Result<Option<u64>, EngineError> {
        let (recorded, state) = self.open_run(run).await?;
        let is_open = waits(&state, recorded.now());
        if !is_open {
            not_on_engine(run, &recorded)?;
            self.check_version(run, &recorded)?;
        }
        Ok(is_open.then(|| until(state.started(), state.deadline())))
    }
}

/// Whether a submission without entries matches: its domain, item, title, time and tags.
fn fits(query: &RunQuery, [domain, item, title]: [&str; 3], accepted_unix_ms: u64, tags: &[String]) -> bool {
    let has = |text: &str| {
        let text = text.to_ascii_lowercase();
        item.to_ascii_lowercase().contains(&text) || title.to_ascii_lowercase().contains(&text)
    };
    query.domains.as_ref().is_none_or(|domains| domains.iter().any(|known| **known == *domain))
        && query.since_unix_ms.is_none_or(|since| accepted_unix_ms >= since)
        && query.until_unix_ms.is_none_or(|until| accepted_unix_ms < until)
        && query.tag.as_ref().is_none_or(|tag| tags.iter().any(|known| **known == **tag))
        && query.text.as_deref().is_none_or(has)
}

/// The view of a submission without entries.
fn queued(cell: &RunCell) -> RunView {
    let is_interrupted = cell.phase() == RunPhase::Interrupted;
    let state = if is_interrupted { RunState::Interrupted } else { RunState::Queued };
    without_entries(cell, state, cell.trouble().map(|why| why.to_string()))
}

fn without_entries(known: &SubmittedRun, state: RunState, trouble: Option<String>) -> RunView {
    RunView {
        run: known.run.to_string(),
        domain: known.domain.to_string(),
        item: known.item.to_string(),
        title: known.title.to_string(),
        state,
        accepted_unix_ms: known.unix_ms,
        caller: Some(known.caller.to_string()),
        priority: Some(known.priority),
        tags: known.tags.clone(),
        entries: 0,
        reason: None,
        class: None,
        cost: ListedCost::default(),
        until_unix_ms: None,
        label: None,
        trouble,
    }
}

/// The tags in a run's origin. Empty if the origin has none.
pub(crate) fn tags_of(origin: Option<&str>) -> Vec<String> {
    #[derive(Deserialize)]
    struct Tags {
        #[serde(default)]
        tags: Vec<String>,
    }
    origin
        .and_then(|origin| serde_json::from_str(origin).ok())
        .map_or_else(Vec::new, |found: Tags| found.tags)
}

/// How long a search may index runs that are not yet in the index.
pub(crate) const INDEXES: Duration = Duration::from_millis(700);
/// The most actions in a list.
const MAX_PENDING: usize = 500;
/// The most runs of the command line that are searched for them.
const MAX_OTHERS: usize = 200;
