//! Versions in flight: which program continues a run that another one began.
//!
//! A run records the program that drives it, with the revision of its decisions. A program of a lower revision leaves the run
//! alone. Any other replays the recorded events and compares each recorded decision. If all are equal it takes the run over,
//! and its name is in the entry with which it does. If one is not, it leaves the run as it is.

use std::sync::Arc;

use loop_core::run::{DECISIONS, Program};
use loop_core::types::RunId;
use loop_core::{Event, EventKind, Note, Rejected, Run};

use crate::{Entry, Recorded};

/// Why this program cannot continue a recorded run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A stored entry does not follow from the ones before it.
    #[error("entry {seq} of run {run} does not follow from the ones before it: {rejected}")]
    Broken {
        /// The run.
        run: RunId,
        /// The entry's sequence number.
        seq: u64,
        /// What is wrong.
        rejected: Rejected,
    },
    /// An entry is missing, or one is there twice.
    #[error(
        "run {run} has entry {found} where entry {expected} belongs; restore the journal from a copy, or keep what is whole with `loopgate verify {run} --salvage`"
    )]
    Sequence {
        /// The run.
        run: RunId,
        /// The sequence number that follows from the entries before it.
        expected: u64,
        /// The sequence number of the entry that is there.
        found: u64,
    },
    /// This program decides otherwise than the entry records.
    #[error(
        "entry {seq} of run {run} was decided otherwise by the program that wrote it, {by}; this is {own}; use that version of loopgate"
    )]
    Decided {
        /// The run.
        run: RunId,
        /// The entry's sequence number.
        seq: u64,
        /// The program that wrote it.
        by: Box<Program>,
        /// This program.
        own: Box<Program>,
    },
    /// A newer program has driven the run.
    #[error(
        "run {run} was driven by {by}, which is newer than this {own}; resume it with that version of loopgate"
    )]
    NewerProgram {
        /// The run.
        run: RunId,
        /// The program that drove it last.
        by: Box<Program>,
        /// This program.
        own: Box<Program>,
    },
    /// A durable engine drives the run, and the journal follows it.
    #[error(
        "run {run} is driven by {engine}, and its workers continue it; use --ingress URL with `loopgate engine status`, `engine stop`, `approve`, `deny`, `answer` and `tell`"
    )]
    OnEngine {
        /// The run.
        run: RunId,
        /// The engine.
        engine: Arc<str>,
    },
}

/// This program: its name, its version, and the revision of its decisions.
pub fn own() -> Program {
    Program { name: NAME.into(), decisions: DECISIONS }
}

/// The state of a recorded run after its last entry, if `own` may continue it, and the new driver that the next entry
/// has to name. `None`: `own` drove it last.
pub fn taken_over(
    run: &RunId,
    recorded: &Recorded,
    own: &Program,
) -> Result<(Run, Option<Box<Program>>), ReplayError> {
    not_on_engine(run, recorded)?;
    let last = not_newer(run, recorded, own)?;
    let state = replay_as(run, recorded, own, |_, _| {})?;
    Ok((state, (last != *own).then(|| own.clone().into())))
}

/// The program that drove a run last, if it is not newer than `own`.
pub fn not_newer(run: &RunId, recorded: &Recorded, own: &Program) -> Result<Program, ReplayError> {
    newer(run, last_of(&recorded.entries), own)
}

fn newer(run: &RunId, last: Program, own: &Program) -> Result<Program, ReplayError> {
    if last.decisions > own.decisions {
        let (by, own) = (last.into(), own.clone().into());
        return Err(ReplayError::NewerProgram { run: run.clone(), by, own });
    }
    Ok(last)
}

/// Checks that no durable engine drives a run: an entry that is written without it is one that the engine does not know.
///
/// # Errors
/// If one does.
pub fn not_on_engine(run: &RunId, recorded: &Recorded) -> Result<(), ReplayError> {
    match recorded.entries.first().map(|entry| &entry.event.kind) {
        Some(EventKind::Started(started)) if !started.provenance.engine.is_empty() => {
            let engine = Arc::clone(&started.provenance.engine);
            Err(ReplayError::OnEngine { run: run.clone(), engine })
        }
        _ => Ok(()),
    }
}

/// Checks that a run that begins with this event was not begun by a newer program than `own`.
pub fn begun_by_newer(run: &RunId, first: &Event, own: &Program) -> Result<(), ReplayError> {
    newer(run, Program::last_of([first]), own).map(drop)
}

/// Checks that no newer program than this one has driven a run.
///
/// # Errors
/// If one has.
pub fn check_version(run: &RunId, recorded: &Recorded) -> Result<(), ReplayError> {
    not_newer(run, recorded, &own()).map(drop)
}

/// Replays a recorded run: its state after the last entry.
///
/// # Errors
/// When an entry does not follow from the ones before it, or this program decides otherwise than an entry records.
pub fn replay(run: &RunId, recorded: &Recorded) -> Result<Run, ReplayError> {
    replay_seeing(run, recorded, |_, _| {})
}

/// As [`replay`]. Calls `see` with the sequence number of each entry and the state after it.
pub fn replay_seeing(
    run: &RunId,
    recorded: &Recorded,
    see: impl FnMut(u64, &Run),
) -> Result<Run, ReplayError> {
    replay_as(run, recorded, &own(), see)
}

fn replay_as(
    run: &RunId,
    recorded: &Recorded,
    own: &Program,
    mut see: impl FnMut(u64, &Run),
) -> Result<Run, ReplayError> {
    let decided = |seq: u64| {
        let written = recorded.entries.iter().filter(|entry| entry.seq <= seq).map(|entry| &entry.event);
        let (by, own) = (Program::last_of(written).into(), own.clone().into());
        ReplayError::Decided { run: run.clone(), seq, by, own }
    };
    let broken = |seq, rejected| match decided(seq) {
        // It was accepted then, by a program with other decisions.
        decided @ ReplayError::Decided { .. } if is_of_another(&decided) => decided,
        _ => ReplayError::Broken { run: run.clone(), seq, rejected },
    };
    let mut entries = recorded.entries.iter();
    let Some(first) = entries.next() else { return Err(broken(0, Rejected::NotTheStart("nothing"))) };
    // An entry that follows from those before it may have the number of another one: one may be missing between them.
    let same = |entry: &Entry, at, notes: Vec<Note>| match (notes == entry.notes, entry.seq == at) {
        (true, true) => Ok(()),
        (false, _) => Err(decided(entry.seq)),
        (true, false) => Err(ReplayError::Sequence { run: run.clone(), expected: at, found: entry.seq }),
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
fn is_of_another(error: &ReplayError) -> bool {
    matches!(error, ReplayError::Decided { by, own, .. } if by.decisions != 0 && by.decisions != own.decisions)
}

impl ReplayError {
    /// Whether the run is left to another version of the program: a newer one has driven it, or an entry was decided otherwise.
    pub fn is_of_another_version(&self) -> bool {
        matches!(self, Self::Decided { .. } | Self::NewerProgram { .. })
    }
}

fn last_of(entries: &[Entry]) -> Program {
    Program::last_of(entries.iter().map(|entry| -> &Event { &entry.event }))
}

/// The name and version of this program.
const NAME: &str = concat!("loopgate ", env!("CARGO_PKG_VERSION"));
