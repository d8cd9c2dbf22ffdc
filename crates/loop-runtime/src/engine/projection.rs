//! Writes the entries of a run that an engine drives, each once, however often the run is replayed.

use std::fmt;
use std::sync::Arc;

use super::observers::Observers;
use super::{EngineRun, EngineRunError};
use crate::drive::hooks::HookMessage;
use crate::drive::parts::RunParts;
use crate::drive::runner::Runner;
use loop_journal::{Durability, Entry, JournalError, RunWriter};

/// The journal of a run that an engine drives. While the run is in flight, the engine's record is authoritative and the
/// journal follows it: entries that the journal has already are compared, and others are appended.
pub struct Projection {
    parts: Arc<RunParts>,
    /// The entries that the journal had.
    recorded: Vec<Entry>,
    /// `None`: the journal has no such run yet.
    writer: Option<Box<dyn RunWriter>>,
    observers: Observers,
}

impl fmt::Debug for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Projection").field("recorded", &self.recorded.len()).finish_non_exhaustive()
    }
}

impl Projection {
    /// The run in the journal of `runner`, for writing.
    ///
    /// # Errors
    /// If another process writes it, or the journal cannot verify what it has of it.
    pub async fn open(runner: &Runner, run: &EngineRun) -> Result<Self, EngineRunError> {
        let (recorded, writer) = match runner.journal().resume(run.id()).await {
            Ok((recorded, writer)) => (recorded.entries, Some(writer)),
            Err(JournalError::Unknown { .. }) => (Vec::new(), None),
            Err(error) => return Err(error.into()),
        };
        let parts = Arc::clone(runner.parts());
        Ok(Self { observers: Observers::new(&parts, run.id()), parts, recorded, writer })
    }

    /// Writes what the run decided since the last time.
    ///
    /// # Errors
    /// If the journal has another entry under the same number, or refuses.
    pub async fn write(&mut self, run: &mut EngineRun) -> Result<(), EngineRunError> {
        let messages = std::mem::take(&mut run.messages);
        let mut new = Vec::with_capacity(run.unwritten.len());
        for entry in std::mem::take(&mut run.unwritten) {
            let at = usize::try_from(entry.seq).unwrap_or(usize::MAX);
            match self.recorded.get_mut(at) {
                Some(recorded) if *recorded == *entry => self.observers.pass_over(run, &entry),
                Some(_) => {
                    return Err(EngineRunError::Diverged { run: run.header().run.clone(), seq: entry.seq });
                }
                None => new.push(entry),
            }
        }
        let Some(first) = new.first().map(Arc::clone) else { return Ok(()) };
        // Those of entries that the journal had were announced with them.
        let new_messages = messages.into_iter().filter(|(seq, _)| *seq >= first.seq);
        let mut messages: Vec<HookMessage> = new_messages.map(|(_, message)| message).collect();
        let (writer, rest) = match &mut self.writer {
            Some(writer) => (writer, new.as_slice()),
            None => {
                let rest = new.get(1..).unwrap_or_default();
                let announced = if rest.is_empty() { std::mem::take(&mut messages) } else { Vec::new() };
                let writer = self.parts.journal.create_announcing(run.header(), &first, announced).await?;
                (self.writer.insert(writer), rest)
            }
        };
        if !rest.is_empty() {
            if !messages.is_empty() {
                writer.announce(messages);
            }
            writer.append_all(rest, Durability::Committed).await.map_err(|(_, error)| error)?;
        }
        if !self.parts.watchers.is_empty() {
            self.observers.hear(run, &self.recorded, &new);
        }
        if !self.parts.hooks.is_empty() {
            // What fails here is delivered later: the message is in the journal.
            _ = self.parts.hooks.deliver_of(&*self.parts.journal, &run.header().run).await;
        }
        Ok(())
    }
}
