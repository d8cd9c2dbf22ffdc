//! Which runs of a journal may be pruned, and which it keeps.

use std::collections::BTreeMap;

use loop_core::run::Saved;
use loop_core::types::RunId;
use loop_core::{EventKind, Run, StopReason};

use crate::prune::Keeps;
use crate::{Journal as _, JournalError, Recorded, RunLine, StoredJournal, replay};

/// The runs of a journal that ended before an instant, by whether they may be pruned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The runs that may be pruned, in the order in which they were given.
    pub prune: Vec<RunLine>,
    /// The runs that are kept, and why.
    pub kept: Vec<(RunLine, Keeps)>,
}

impl Retention {
    /// Sorts `lines`, some runs of a journal, by whether they may be pruned. `all` are all runs of that journal. A run
    /// that began or ended after `before`, in milliseconds since 1970 (UTC), is left out.
    ///
    /// # Errors
    /// If the journal cannot be read at all.
    pub async fn of(
        journal: &StoredJournal,
        lines: Vec<RunLine>,
        all: &[RunLine],
        before: u64,
    ) -> Result<Self, JournalError> {
        let mut continued = BTreeMap::new();
        for line in all.iter().filter(|line| line.stop.is_none() && !line.is_imported) {
            let mut next = Some(line.run.clone());
            while let Some(parent) = next.take().map(|run| parent_of(journal, run)) {
                next = parent.await;
                if let Some(parent) = &next
                    && continued.insert(parent.clone(), line.run.clone()).is_some()
                {
                    break;
                }
            }
        }
        let mut messages: BTreeMap<RunId, u64> = BTreeMap::new();
        for queued in journal.outbox().await? {
            *messages.entry(queued.message.run).or_default() += 1;
        }
        let mut retention = Self::default();
        for line in lines.into_iter().filter(|line| line.unix_ms < before) {
            let why = match journal.read(&line.run).await {
                Ok(recorded) => keeps(&line, &recorded, &continued, before),
                Err(JournalError::Storage { place, message }) => {
                    return Err(JournalError::Storage { place, message });
                }
                // Another process has pruned it.
                Err(JournalError::Unknown { .. } | JournalError::Pruned { .. }) => continue,
                Err(_) => Found::Kept(Keeps::Damaged),
            };
            match (why, messages.get(&line.run)) {
                (Found::Over, Some(left)) => retention.kept.push((line, Keeps::Messages(*left))),
                (Found::Young, _) => {}
                (Found::Kept(why), _) => retention.kept.push((line, why)),
                (Found::Over, None) => retention.prune.push(line),
            }
        }
        Ok(retention)
    }
}

/// What is to be done about a run.
enum Found {
    /// It ended too late.
    Young,
    Kept(Keeps),
    Over,
}

fn keeps(line: &RunLine, recorded: &Recorded, continued: &BTreeMap<RunId, RunId>, before: u64) -> Found {
    let Ok(run) = replay(&line.run, recorded) else { return Found::Kept(Keeps::Damaged) };
    let last = recorded.entries.last().map_or(0, |last| run.started().unix_ms_at(last.event.at));
    if last >= before {
        return Found::Young;
    }
    if let Some(child) = continued.get(&line.run) {
        return Found::Kept(Keeps::Parent(child.clone()));
    }
    if line.is_imported {
        // It goes nowhere here.
        return Found::Over;
    }
    if recorded.unverified.is_some() || line.trouble.is_some() {
        return Found::Kept(Keeps::Damaged);
    }
    if line.is_written {
        return Found::Kept(Keeps::Written);
    }
    if !run.is_done() {
        return Found::Kept(Keeps::NotEnded);
    }
    if is_in_doubt(&run) {
        return Found::Kept(Keeps::InDoubt);
    }
    let is_unsaved =
        matches!(run.outcome().and_then(|outcome| outcome.saved.as_ref()), Some(Saved::Not { .. }));
    if is_unsaved { Found::Kept(Keeps::Unsaved) } else { Found::Over }
}

fn is_in_doubt(run: &Run) -> bool {
    let stop = run.outcome().map(|outcome| &outcome.stop);
    let conditions = stop.map(|stop| std::iter::once(&stop.primary).chain(&stop.also));
    conditions.into_iter().flatten().any(|condition| condition.reason == StopReason::InDoubt)
}

/// The run that this one continues, where it can be read.
async fn parent_of(journal: &StoredJournal, run: RunId) -> Option<RunId> {
    let recorded = journal.read(&run).await.ok()?;
    match &recorded.entries.first()?.event.kind {
        EventKind::Started(started) => started.parent.as_ref().map(|parent| parent.run.clone()),
        _ => None,
    }
}
