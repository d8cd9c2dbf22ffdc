//! A cache of the journal's runs for the pages: read once, then only the changes. Totals are updated with the runs, so
//! that rendering a list costs as much as one page of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loop_core::types::RunId;
use loop_inspect::listed::{ListedRun, ListedState};
use loop_runtime::journal::list::{ListChanges, ListPosition, RunSummary};
use loop_runtime::journal::{Journal as _, JournalError, RunLine, StoredJournal, replay};
use tokio::sync::Mutex;

use crate::engine::{Engine, RunPhase, tags_of};
use crate::pages::runs::{KeptRuns, RunOrder, RunTally};

/// The most runs in the cache, newest first. The page of runs says if there are more.
const MAX_KNOWN: usize = 20_000;

/// The cached runs of a journal.
#[derive(Debug, Default)]
pub(super) struct KnownRuns {
    /// How often a read of the journal was started.
    reads: AtomicU64,
    state: Mutex<RunSnapshot>,
}

#[derive(Debug, Default)]
struct RunSnapshot {
    position: Option<ListPosition>,
    /// Runs that have ended, oldest first. Pages that are being rendered share them.
    ended: Arc<BTreeMap<RunOrder, Arc<ListedRun>>>,
    tally: Arc<RunTally>,
    open: BTreeMap<RunId, OpenRun>,
    is_cut: bool,
    /// The result of the last read, and its number.
    last: Option<(u64, Arc<KeptRuns>)>,
}

/// A run that has not ended, with the number of entries when it was read.
#[derive(Clone, Debug)]
struct OpenRun {
    line: RunLine,
    summary: RunSummary,
    /// Who submitted it to a server.
    caller: Option<String>,
    /// Whether it waits for a person. `None`: it was not read.
    waits: Option<bool>,
}

impl KnownRuns {
    /// The current runs. Concurrent requests share a read of the journal that began after them.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(super) async fn now(
        &self,
        journal: &StoredJournal,
        engine: Option<&Engine>,
    ) -> Result<Arc<KeptRuns>, JournalError> {
        let before = self.reads.load(Ordering::SeqCst);
        let mut known = self.state.lock().await;
        match known.last.take() {
            Some((number, kept)) if number > before => {
                known.last = Some((number, Arc::clone(&kept)));
                return Ok(kept);
            }
            // An older one is given up, so that what it shares can be changed in place.
            _ => {}
        }
        let number = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        let open: Vec<RunId> = known.open.keys().cloned().collect();
        if let Some(changes) = journal.list_changes(known.position.clone(), open, MAX_KNOWN).await? {
            let unread = known.unread(&changes);
            let summaries = journal.summaries(&unread).await?;
            let callers = journal.callers_of(unread).await?;
            // A list that is read for the first time is long. What is not put back is read anew.
            let mut state = std::mem::take(&mut *known);
            let taken = tokio::task::spawn_blocking(move || {
                state.take(changes, summaries, callers);
                state
            });
            *known = taken.await.unwrap_or_default();
        }
        let open = known.opened(journal, engine).await?;
        let kept = Arc::new(KeptRuns {
            ended: Arc::clone(&known.ended),
            tally: Arc::clone(&known.tally),
            open,
            is_cut: known.is_cut,
        });
        known.last = Some((number, Arc::clone(&kept)));
        Ok(kept)
    }
}

impl RunSnapshot {
    /// The runs of these lines whose entries have changed.
    fn unread(&self, changes: &ListChanges) -> Vec<RunId> {
        let is_other =
            |line: &RunLine| self.open.get(&line.run).is_none_or(|open| open.line.entries != line.entries);
        let lines = changes.lines.iter().filter(|line| changes.is_whole || is_other(line));
        lines.map(|line| line.run.clone()).collect()
    }

    fn take(
        &mut self,
        changes: ListChanges,
        mut summaries: BTreeMap<RunId, RunSummary>,
        mut callers: BTreeMap<RunId, String>,
    ) {
        let ListChanges { position, lines, is_whole } = changes;
        if is_whole {
            *self = Self { is_cut: lines.len() >= MAX_KNOWN, ..Self::default() };
        }
        let (ended, tally) = (Arc::make_mut(&mut self.ended), Arc::make_mut(&mut self.tally));
        for line in lines {
            let before = self.open.remove(&line.run);
            let summary = summaries.remove(&line.run);
            let caller = callers.remove(&line.run).or_else(|| before.as_ref()?.caller.clone());
            if line.stop.is_some() || line.trouble.is_some() {
                let summary = summary.or(before.map(|open| open.summary)).unwrap_or_default();
                let run = Arc::new(ListedRun { caller, ..listed(&line, summary, false) });
                tally.add(&run);
                if let Some(before) = ended.insert(RunOrder::of(&run), run) {
                    tally.remove(&before);
                }
            } else {
                let is_same = |open: &OpenRun| open.line.entries == line.entries;
                let open = match before.filter(is_same) {
                    Some(before) => OpenRun { line, ..before },
                    None => OpenRun { line, summary: summary.unwrap_or_default(), caller, waits: None },
                };
                self.open.insert(open.line.run.clone(), open);
            }
        }
        while ended.len() + self.open.len() > MAX_KNOWN
            && let Some((_, oldest)) = ended.pop_first()
        {
            tally.remove(&oldest);
            self.is_cut = true;
        }
        self.position = Some(position);
    }

    /// The runs that have not ended, newest first. Runs that the engine knows, and runs without new entries, are not
    /// read again.
    async fn opened(
        &mut self,
        journal: &StoredJournal,
        engine: Option<&Engine>,
    ) -> Result<Vec<ListedRun>, JournalError> {
        if self.open.is_empty() {
            return Ok(Vec::new());
        }
        let free = journal.free_runs(self.open.keys().cloned().collect()).await?;
        let free: BTreeSet<RunId> = free.into_keys().collect();
        let mut runs = Vec::with_capacity(self.open.len());
        for (id, open) in &mut self.open {
            let live = engine.and_then(|engine| engine.live(id));
            let is_free = free.contains(id);
            let waits = match (live, open.waits) {
                (Some(live), _) => matches!(live.phase(), RunPhase::Waiting { .. }),
                (None, _) if !is_free => false,
                (None, Some(waits)) => waits,
                (None, None) => {
                    let waits = waits(journal, id).await;
                    open.waits = Some(waits);
                    waits
                }
            };
            let line = RunLine { is_written: !is_free && !waits, ..open.line.clone() };
            let caller = open.caller.clone();
            runs.push(ListedRun { caller, ..listed(&line, open.summary.clone(), waits) });
        }
        runs.sort_unstable_by_key(|run| Reverse(RunOrder::of(run)));
        Ok(runs)
    }
}

fn listed(line: &RunLine, summary: RunSummary, waits: bool) -> ListedRun {
    ListedRun::new(line, summary, waits, tags_of(line.origin.as_deref()))
}

async fn waits(journal: &StoredJournal, run: &RunId) -> bool {
    let Ok(recorded) = journal.read(run).await else { return false };
    let run = run.clone();
    let state = tokio::task::spawn_blocking(move || replay(&run, &recorded).ok());
    state.await.ok().flatten().is_some_and(|state| !state.requested().is_empty())
}

/// The runs that wait for a person, newest first.
pub(super) fn waiting(runs: &KeptRuns) -> impl Iterator<Item = &ListedRun> {
    runs.open.iter().filter(|run| run.state == ListedState::Waiting)
}
