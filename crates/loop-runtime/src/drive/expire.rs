//! Journals answers, instructions and expired requests of a run without a driver.

use std::sync::Arc;

use loop_core::run::Phase;
use loop_core::types::RunId;
use loop_core::{Event, EventKind, Run};
use loop_journal::versions::{not_on_engine, own, taken_over};
use loop_journal::{Durability, Entry, Journal, Recorded, ReplayError, replay};

use crate::drive::start_error::StartError;

/// Journals that the requests of a run to people have expired, if they have. From then on no answer counts, even if a
/// clock is set back. Returns whether it was journaled now. If the run ends by this, that is left to the driver that
/// resumes it.
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
    let broken = |rejected| ReplayError::Broken { run: run.clone(), seq, rejected };
    let notes = state.apply(&event).map_err(broken)?;
    if state.is_done() {
        // Its hooks are notified of the end, and only a runner has them: a driver that resumes it journals it.
        return Ok(false);
    }
    writer.append(&Arc::new(Entry { seq, event, notes }), Durability::Synced).await?;
    Ok(true)
}

/// Journals answers and instructions of people for a run, without driving it. It needs the journal alone, and no
/// runner. `None`: the run would end by them, and nothing is journaled. A runner must then do it, because its hooks are
/// notified of the end.
///
/// # Errors
/// When the run cannot be read or written, another process writes it, a durable engine drives it, or it refuses one of
/// them.
pub async fn note_alone(
    journal: &dyn Journal,
    run: &RunId,
    stated: Vec<EventKind>,
) -> Result<Option<Run>, StartError> {
    let (recorded, mut writer) = journal.resume(run).await?;
    let (mut state, by) = taken_over(run, &recorded, &own())?;
    let now = recorded.now().max(state.now());
    let resumed = EventKind::Resumed { away_ms: now.since(state.now()), by };
    let (mut entries, mut seq) = (Vec::new(), recorded.entries.len() as u64);
    for kind in std::iter::once(resumed).chain(stated) {
        let event = Event { at: now.max(state.now()), kind };
        match state.apply(&event) {
            Ok(notes) => entries.push(Arc::new(Entry { seq, event, notes })),
            // Nothing is to be taken up.
            Err(_) if matches!(event.kind, EventKind::Resumed { .. }) => continue,
            Err(rejected) => return Err(StartError::Refused { run: run.clone(), rejected }),
        }
        seq += 1;
    }
    if state.is_done() {
        return Ok(None);
    }
    writer.append_all(&entries, Durability::Synced).await.map_err(|(_, error)| error)?;
    Ok(Some(state))
}
