//! Versions in flight: which program continues a run that another one began.
//!
//! A run records the program that drives it, with the revision of its decisions. A program of a lower revision leaves the run
//! alone. Any other replays the recorded events and compares each recorded decision. If all are equal it takes the run over,
//! and its name is in the entry with which it does. If one is not, it leaves the run as it is.

use std::sync::Arc;

use loop_core::{DECISIONS, Event, EventKind, Note, Program, Rejected, Run, RunId};

use crate::journal::{Entry, JournalError, Recorded};
use crate::parts::{Runner, StartError};

/// This program.
pub(crate) fn own() -> Program {
    Program { name: NAME.into(), decisions: DECISIONS }
}

/// The state that a recorded run leads to, if `own` may continue it, and what its first entry names as the new driver.
/// `None`: `own` drove it last.
pub(crate) fn taken_over(
    run: &RunId,
    recorded: &Recorded,
    own: &Program,
) -> Result<(Run, Option<Box<Program>>), StartError> {
    not_on_engine(run, recorded)?;
    let last = not_newer(run, recorded, own)?;
    let state = replay_as(run, recorded, own, |_, _| {})?;
    Ok((state, (last != *own).then(|| own.clone().into())))
}

/// The program that drove a run last, if it is not newer than `own`.
fn not_newer(run: &RunId, recorded: &Recorded, own: &Program) -> Result<Program, StartError> {
    newer(run, last_of(&recorded.entries), own)
}

fn newer(run: &RunId, last: Program, own: &Program) -> Result<Program, StartError> {
    if last.decisions > own.decisions {
        let (by, own) = (last.into(), own.clone().into());
        return Err(StartError::NewerProgram { run: run.clone(), by, own });
    }
    Ok(last)
}

/// Checks that no durable engine drives a run: an entry that is written without it is one that the engine does not know.
///
/// # Errors
/// If one does.
pub fn not_on_engine(run: &RunId, recorded: &Recorded) -> Result<(), StartError> {
    match recorded.entries.first().map(|entry| &entry.event.kind) {
        Some(EventKind::Started(started)) if !started.provenance.engine.is_empty() => {
            let engine = Arc::clone(&started.provenance.engine);
            Err(StartError::OnEngine { run: run.clone(), engine })
        }
        _ => Ok(()),
    }
}

/// Checks that a run that begins with this event was not begun by a newer program than `own`.
pub(crate) fn begun_by_newer(run: &RunId, first: &Event, own: &Program) -> Result<(), StartError> {
    newer(run, Program::last_of([first]), own).map(drop)
}

/// Checks that no newer program than this one has driven a run.
///
/// # Errors
/// If one has.
pub fn check_version(run: &RunId, recorded: &Recorded) -> Result<(), StartError> {
    not_newer(run, recorded, &own()).map(drop)
}

impl Runner {
    /// Checks that no newer program has driven a run. [`resume`](Self::resume) checks that as well.
    ///
    /// # Errors
    /// If a newer one has.
    pub fn check_version(&self, run: &RunId, recorded: &Recorded) -> Result<(), StartError> {
        not_newer(run, recorded, &self.parts().program).map(drop)
    }
}

/// The state that a recorded run leads to.
///
/// # Errors
/// When an entry does not follow from the ones before it, or something else is decided now than was then.
pub fn replay(run: &RunId, recorded: &Recorded) -> Result<Run, StartError> {
    replay_seeing(run, recorded, |_, _| {})
}

/// As [`replay`], showing the state after each entry with the entry's sequence number.
pub(crate) fn replay_seeing(
    run: &RunId,
    recorded: &Recorded,
    see: impl FnMut(u64, &Run),
) -> Result<Run, StartError> {
    replay_as(run, recorded, &own(), see)
}

fn replay_as(
    run: &RunId,
    recorded: &Recorded,
    own: &Program,
    mut see: impl FnMut(u64, &Run),
) -> Result<Run, StartError> {
    let decided = |seq: u64| {
        let written = recorded.entries.iter().filter(|entry| entry.seq <= seq).map(|entry| &entry.event);
        let (by, own) = (Program::last_of(written).into(), own.clone().into());
        StartError::Decided { run: run.clone(), seq, by, own }
    };
    let broken = |seq, rejected| match decided(seq) {
        // It was accepted then, by a program with other decisions.
        decided @ StartError::Decided { .. } if is_of_another(&decided) => decided,
        _ => StartError::Broken { run: run.clone(), seq, rejected },
    };
    let mut entries = recorded.entries.iter();
    let Some(first) = entries.next() else {
        return Err(broken(0, Rejected::NotTheStart("nothing")));
    };
    // An entry that follows from those before it may have the number of another one: one may be missing between them.
    let same = |entry: &Entry, at, notes: Vec<Note>| match (notes == entry.notes, entry.seq == at) {
        (true, true) => Ok(()),
        (false, _) => Err(decided(entry.seq)),
        (true, false) => Err(StartError::Sequence { run: run.clone(), expected: at, found: entry.seq }),
    };
    let (mut state, notes) =
        Run::open(&first.event, Arc::clone(&recorded.spec)).map_err(|rejected| broken(0, rejected))?;
    same(first, 0, notes)?;
    see(first.seq, &state);
    for (entry, at) in entries.zip(1..) {
        let notes = state.apply(&entry.event).map_err(|rejected| broken(entry.seq, rejected))?;
        same(entry, at, notes)?;
        see(entry.seq, &state);
    }
    Ok(state)
}

/// Whether the program that wrote an entry states another revision of decisions than this one.
fn is_of_another(error: &StartError) -> bool {
    matches!(error, StartError::Decided { by, own, .. } if by.decisions != 0 && by.decisions != own.decisions)
}

impl StartError {
    /// Whether the run is left to another version of the program: a newer one has driven it, an entry was decided otherwise,
    /// or an entry is of a kind that this version does not know.
    pub fn is_of_another_version(&self) -> bool {
        match self {
            Self::Decided { .. } | Self::NewerProgram { .. } => true,
            Self::Journal(error) => matches!(error, JournalError::UnknownEntry { .. }),
            _ => false,
        }
    }
}

fn last_of(entries: &[Entry]) -> Program {
    Program::last_of(entries.iter().map(|entry| -> &Event { &entry.event }))
}

/// The name and version of this program.
const NAME: &str = concat!("loopgate ", env!("CARGO_PKG_VERSION"));
