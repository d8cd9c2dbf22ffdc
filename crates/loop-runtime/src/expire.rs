//! Silence of people, journaled without a driver.

use std::sync::Arc;

use loop_core::{Event, EventKind, Phase, Run, RunId};

use crate::journal::{Durability, Entry, Journal, Recorded};
use crate::parts::StartError;
use crate::versions::{not_on_engine, replay};

/// Journals that what a run asks people about has expired, where it has: from then on no answer counts, whatever a clock
/// is set to. True where it was journaled now. A run that ends by this is left to the driver that resumes it.
///
/// # Errors
/// When the run cannot be read or written, another process writes it, or a durable engine drives it.
pub async fn expire(journal: &dyn Journal, run: &RunId) -> Result<bool, StartError> {
    let is_over = |state: &Run, recorded: &Recorded| {
        let waits = matches!(state.phase(), Phase::WaitingForPerson { .. });
        waits && state.deadline().is_some_and(|deadline| deadline <= recorded.now())
    };
    let recorded = journal.read(run).await?;
    if !is_over(&replay(run, &recorded)?, &recorded) {
        return Ok(false);
    }
    not_on_engine(run, &recorded)?;
    let (recorded, mut writer) = journal.resume(run).await?;
    let mut state = replay(run, &recorded)?;
    if !is_over(&state, &recorded) {
        return Ok(false);
    }
    let event = Event { at: recorded.now().max(state.now()), kind: EventKind::DeadlineReached };
    let seq = recorded.entries.len() as u64;
    let broken = |rejected| StartError::Broken { run: run.clone(), seq, rejected };
    let notes = state.apply(&event).map_err(broken)?;
    if state.is_done() {
        // Its hooks are told of the end, and only a loop has them: a driver that resumes it journals it.
        return Ok(false);
    }
    writer.append(&Arc::new(Entry { seq, event, notes }), Durability::Synced).await?;
    Ok(true)
}
