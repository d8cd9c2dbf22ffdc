//! Forks, retries and salvaged runs: how a run begins with what the journal holds of another one.

use std::sync::Arc;

use loop_core::run::{NotTakenOver, Parent};
use loop_core::types::RunId;
use loop_core::{EventKind, Run};
use loop_journal::versions::replay_seeing;
use loop_journal::{Entry, Header, JournalError, Recorded, replay};
use loop_llm::Message;

use crate::drive::driver::Opening;
use crate::drive::hooks::StatusBefore;
use crate::drive::parts::read_history;
use crate::drive::runner::Runner;
use crate::drive::start_error::StartError;

/// The run that a new one begins from, and how.
#[derive(Debug)]
pub(crate) enum TakeoverSource {
    Fork { run: RunId, entry: Option<u64> },
    Retry { run: RunId },
    Salvage { run: RunId, prefix: Box<Recorded>, lost: bool },
}

/// The entries of a run after which a fork can begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forkable {
    /// The sequence numbers of the entries, in ascending order.
    pub entries: Vec<u64>,
    /// Those of them where nothing is in flight and no call is admitted.
    pub between_calls: Vec<u64>,
    /// The entries after which a fork with other limits, gate settings or tools can begin: those where nothing is in
    /// flight, and those where a limit leaves the final pass alone.
    pub under_other_limits: Vec<u64>,
}

impl Forkable {
    /// The entries of a recorded run after which a fork can begin.
    ///
    /// # Errors
    /// If an entry does not follow from the ones before it.
    pub fn of(run: &RunId, recorded: &Recorded) -> Result<Self, StartError> {
        let mut forkable = Self::default();
        replay_seeing(run, recorded, |seq, state| {
            if state.may_fork_under_other_limits() {
                forkable.under_other_limits.push(seq);
            }
            if state.may_fork() {
                forkable.entries.push(seq);
                if state.is_between_calls() {
                    forkable.between_calls.push(seq);
                }
            }
        })?;
        Ok(forkable)
    }
}

/// A new run that begins with what another run had, before it is journaled.
struct PreparedRun {
    run: Run,
    header: Header,
    opened: Arc<Entry>,
    history: Arc<[Message]>,
}

impl Runner {
    /// A new run that begins with what another run had, ready to be driven. `id`: its id. `None`: it gets one.
    pub(crate) async fn open_from(
        &self,
        from: &TakeoverSource,
        key: Option<Arc<str>>,
        id: Option<RunId>,
    ) -> Result<Opening, StartError> {
        let PreparedRun { run, header, opened, history } = self.prepared(from, key, id).await?;
        // Also where the run that it begins from waited already: this one is another.
        let messages = self.parts().new_messages(StatusBefore::default(), &run);
        let writer = self.journal().create_announcing(&header, &opened, messages).await?;
        Ok(Opening::of_new(run, writer, opened, history))
    }

    /// How many entries of the other run a new one would take over, where it can begin. Nothing is journaled.
    pub(crate) async fn entries_from(&self, from: &TakeoverSource) -> Result<u64, StartError> {
        let PreparedRun { run, .. } = self.prepared(from, None, None).await?;
        Ok(run.started().parent.as_ref().map_or(0, |parent| parent.entries))
    }

    async fn prepared(
        &self,
        from: &TakeoverSource,
        key: Option<Arc<str>>,
        id: Option<RunId>,
    ) -> Result<PreparedRun, StartError> {
        let id = id.unwrap_or_else(Self::new_id);
        match from {
            TakeoverSource::Fork { run, entry } => {
                let recorded = self.verified(run).await?;
                let entry = match *entry {
                    Some(entry) => Some(entry),
                    None => self.last_forkable(run, &recorded)?,
                };
                let (before, parent) = forked(run, &recorded, entry)?;
                let of = parent.entries;
                let last = |why: &NotTakenOver| {
                    let forkable = Forkable::of(run, &recorded).unwrap_or_default();
                    let is_fixed = *why == NotTakenOver::Fixed;
                    let all = if is_fixed { forkable.entries } else { forkable.under_other_limits };
                    all.into_iter().rev().find(|seq| *seq + 1 < of)
                };
                let refused = |why: NotTakenOver| {
                    let (run, entry, last) = (run.clone(), of.saturating_sub(1), last(&why));
                    StartError::NotForked { run, entry, why, last }
                };
                self.begin_from(id, &before, parent, key, refused)
            }
            TakeoverSource::Retry { run } => {
                let recorded = self.verified(run).await?;
                let before = replay(run, &recorded)?;
                let refused = |why| StartError::NotTakenOver { run: run.clone(), why };
                let parent = before.retry(recorded.entries.len() as u64).map_err(refused)?;
                self.begin_from(id, &before, parent, key, refused)
            }
            TakeoverSource::Salvage { run, prefix, lost } => {
                let (before, entries) = readable(run, prefix)?;
                let lost = *lost || entries < prefix.entries.len() as u64;
                let refused = |why| StartError::NotTakenOver { run: run.clone(), why };
                let parent = before.salvage(entries, lost).map_err(refused)?;
                self.begin_from(id, &before, parent, key, refused)
            }
        }
    }

    /// The sequence number of the last entry of a recorded run where nothing is in flight and a fork of this loop can
    /// begin. `None`: there is none.
    ///
    /// # Errors
    /// If an entry does not follow from the ones before it.
    pub fn last_forkable(&self, run: &RunId, recorded: &Recorded) -> Result<Option<u64>, StartError> {
        let forkable = Forkable::of(run, recorded)?;
        let first = recorded.entries.first().map(|first| &first.event.kind);
        let parts = self.parts();
        let mine = (parts.names().policy, parts.registry.manifest_hash());
        let is_same =
            matches!(first, Some(EventKind::Started(started)) if (started.policy, started.tools) == mine);
        let entries = if is_same { forkable.between_calls } else { forkable.under_other_limits };
        Ok(entries.last().copied())
    }

    /// A recorded run that its journal vouches for.
    async fn verified(&self, run: &RunId) -> Result<Recorded, StartError> {
        let recorded = self.journal().read(run).await?;
        match &recorded.unverified {
            None => Ok(recorded),
            Some(why) => Err(JournalError::Unverified { run: run.clone(), message: why.to_string() }.into()),
        }
    }

    fn begin_from(
        &self,
        id: RunId,
        before: &Run,
        parent: Parent,
        request_key: Option<Arc<str>>,
        refused: impl Fn(NotTakenOver) -> StartError,
    ) -> Result<PreparedRun, StartError> {
        let parts = self.parts();
        parts.check_price()?;
        let facts = parts.facts(None);
        let header = Header { request_key, ..parts.header(&id, &facts, &before.started().item) };
        let started = Run::start_from(id, Arc::clone(self.spec()), parts.names(), before, parent, facts);
        let (run, event, notes) = started.map_err(refused)?;
        let history = read_history(run.started())?;
        parts.check_first_pass(&run, Arc::clone(&history))?;
        let opened = Arc::new(Entry { seq: 0, event, notes });
        Ok(PreparedRun { run, header, opened, history })
    }
}

/// The state after the last entry that follows from those before it, and how many entries lead to it.
fn readable(run: &RunId, prefix: &Recorded) -> Result<(Run, u64), StartError> {
    let mut last = None;
    let replayed = replay_seeing(run, prefix, |seq, state| last = Some((state.clone(), seq + 1)));
    match (replayed, last) {
        (_, Some(last)) => Ok(last),
        (Err(error), None) => Err(error.into()),
        (Ok(state), None) => Ok((state, 0)),
    }
}

/// The state at which a fork begins, and what it takes over.
fn forked(run: &RunId, recorded: &Recorded, entry: Option<u64>) -> Result<(Run, Parent), StartError> {
    let forkable = Forkable::of(run, recorded)?;
    let end = recorded.entries.last().map_or(0, |last| last.seq);
    let named = entry.unwrap_or(end);
    if named > end {
        return Err(StartError::NoEntry { run: run.clone(), entry: named, last: end });
    }
    let mut before = None;
    replay_seeing(run, recorded, |seq, state| {
        if seq == named {
            before = Some(state.clone());
        }
    })?;
    let last = forkable.entries.iter().rev().find(|seq| **seq < named).copied();
    let refused = |why| StartError::NotForked { run: run.clone(), entry: named, why, last };
    let before = before.ok_or_else(|| refused(NotTakenOver::Fixed))?;
    let later = recorded.entries.iter().filter(|it| it.seq > named).map(|it| &it.event);
    let parent = before.fork(named + 1, later).map_err(refused)?;
    Ok((before, parent))
}
