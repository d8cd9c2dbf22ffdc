//! Which runs of a journal may be pruned, and which it keeps.

use std::collections::BTreeMap;

use loop_core::run::SaveState;
use loop_core::types::RunId;
use loop_core::{EventKind, Run, StopReason};

use crate::prune::KeepReason;
use crate::{Journal as _, JournalError, Recorded, RunLine, StoredJournal, replay};

/// The runs of a journal that ended before an instant, by whether they may be pruned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The runs that may be pruned, in the order in which they were given.
    pub prune: Vec<RunLine>,
    /// The runs that are kept, and why.
    pub kept: Vec<(RunLine, KeepReason)>,
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
                Err(_) => PruneCheck::Kept(KeepReason::Damaged),
            };
            match (why, messages.get(&line.run)) {
                (PruneCheck::Over, Some(left)) => retention.kept.push((line, KeepReason::Messages(*left))),
                (PruneCheck::Young, _) => {}
                (PruneCheck::Kept(why), _) => retention.kept.push((line, why)),
                (PruneCheck::Over, None) => retention.prune.push(line),
            }
        }
        Ok(retention)
    }
}

/// What is to be done about a run.
enum PruneCheck {
    /// It ended too late.
    Young,
    Kept(KeepReason),
    Over,
}

fn keeps(line: &RunLine, recorded: &Recorded, continued: &BTreeMap<RunId, RunId>, before: u64) -> PruneCheck {
    let Ok(run) = replay(&line.run, recorded) else { return PruneCheck::Kept(KeepReason::Damaged) };
    let last = recorded.entries.last().map_or(0, |last| run.started().unix_ms_at(last.event.at));
    if last >= before {
        return PruneCheck::Young;
    }
    if let Some(child) = continued.get(&line.run) {
        return PruneCheck::Kept(KeepReason::Parent(child.clone()));
    }
    if line.is_imported {
        // It goes nowhere here.
        return PruneCheck::Over;
    }
    if recorded.unverified.is_some() || line.trouble.is_some() {
        return PruneCheck::Kept(KeepReason::Damaged);
    }
    if line.is_written {
        return PruneCheck::Kept(KeepReason::Written);
    }
    if !run.is_done() {
        return PruneCheck::Kept(KeepReason::NotEnded);
    }
    if is_in_doubt(&run) {
        return PruneCheck::Kept(KeepReason::InDoubt);
    }
    let is_unsaved =
        matches!(run.outcome().and_then(|outcome| outcome.saved.as_ref()), Some(SaveState::Not { .. }));
    if is_unsaved { PruneCheck::Kept(KeepReason::Unsaved) } else { PruneCheck::Over }
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
