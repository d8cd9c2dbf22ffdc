//! Checks of a simulation after each event and at the end of a run, in addition to the core's invariants.
//!
//! The core's invariants only see states and steps. The checks here need more: which events may be accepted, what a
//! provider reported, and what the simulation itself knows. [`GhostState`] is their memory.

mod accepted;
mod end;
mod ghost;
mod money;
mod results;

use loop_core::invariants::{Past, Transition};
use loop_core::run::{Batch, Phase, Stopping, Work};
use loop_core::{Event, Rejected, Run};

use crate::sim::SimFault;

pub(crate) use end::{at_the_end, endless, is_within_plan, replay};
pub(crate) use ghost::GhostState;

/// One in this many runs is replayed from its journal, and continued from one of its prefixes.
pub(crate) const REPLAYED: u64 = 16;

pub(crate) type Checked = Result<(), SimFault>;

/// A fault that names the check, unless `holds`.
pub(crate) fn must(holds: bool, check: &'static str, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(SimFault { check, what: what() }) }
}

/// Checks one step, and updates the ghost state. `past` is the invariants' memory of the state before the step.
pub(crate) fn step(step: &Transition<'_>, past: &Past, ghost: &mut GhostState) -> Checked {
    accepted::may_follow(step, ghost)?;
    accepted::follows_requests(step, past, ghost)?;
    ghost.after(step);
    money::is_charged(step)?;
    money::a_strict_reserve_covers(step)?;
    money::shares_what_is_left(step.after, ghost)?;
    money::reserves_what_is_in_flight(step.after)?;
    results::partial_replies_decide_nothing(step)?;
    results::belong_to_their_actions(step.after)?;
    results::keeps_time(step.after, ghost)
}

/// Checks attempts in the state after a step. `past` is the invariants' memory of it.
pub(crate) fn tries(run: &Run, past: &Past, ghost: &GhostState) -> Checked {
    results::have_one_key(run, past, ghost)
}

/// Checks that a rejected event changed nothing.
pub(crate) fn rejected(before: &Run, after: &Run, event: &Event, why: &Rejected) -> Checked {
    must(before == after, "a rejected event changes nothing", || {
        format!("{} was rejected ({why}), and the run changed", event.kind.name())
    })
}

/// The fault of a rejected event that was commanded.
pub(crate) fn refused_a_driver(event: &Event, why: &Rejected) -> SimFault {
    let what = format!("{} is commanded, and was rejected: {why}", event.kind.name());
    SimFault { check: "what is commanded is accepted", what }
}

/// The open batch of the phase.
pub(crate) fn batch(run: &Run) -> Option<&Batch> {
    match run.phase() {
        Phase::Running { batch, .. } | Phase::Stopping(Stopping { batch: Some(batch), .. }) => Some(batch),
        _ => None,
    }
}

/// The open and settled work of the phase.
pub(crate) fn work(run: &Run) -> &[Work] {
    batch(run).map_or(&[], |batch| &batch.work)
}

/// The call that the phase commands or has in flight.
pub(crate) fn call(run: &Run) -> Option<&loop_core::run::Call> {
    match run.phase() {
        Phase::Calling { call, .. } => Some(call),
        Phase::Stopping(stopping) => stopping.call.as_ref(),
        _ => None,
    }
}

/// The check that the phase commands or has in flight.
pub(crate) fn check(run: &Run) -> Option<&loop_core::run::Checking> {
    match run.phase() {
        Phase::Validating(checking) => Some(checking),
        Phase::Stopping(stopping) => stopping.check.as_deref(),
        _ => None,
    }
}

/// Whether the stop reason is still open.
pub(crate) fn is_working(run: &Run) -> bool {
    !matches!(run.phase(), Phase::Stopping(_) | Phase::Saving { .. } | Phase::Done { .. })
}
