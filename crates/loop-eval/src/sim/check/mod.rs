//! The invariants that a simulation checks after each event, and at the end of a run.
//!
//! They are stated from the documentation, over what the core shows, and never ask the core whether it was right.
//! [`Ghost`] is what they remember of the way to a state.

mod accepted;
mod end;
mod ghost;
mod money;
mod results;
mod state;
mod truth;

use loop_core::{Batch, Event, EventKind, Note, Phase, Rejected, Run, Stopping, Work};

use crate::sim::Fault;

pub(crate) use end::{at_the_end, bound, endless, is_within_plan, replay};
pub(crate) use ghost::Ghost;

/// One run in so many is replayed from its journal, and continued from one of its prefixes.
pub(crate) const REPLAYED: u64 = 16;

/// An event that was accepted, with everything before and after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub(crate) before: &'a Run,
    pub(crate) event: &'a Event,
    pub(crate) notes: &'a [Note],
    pub(crate) after: &'a Run,
}

pub(crate) type Checked = Result<(), Fault>;

/// What must hold, or a fault that names the check.
pub(crate) fn must(holds: bool, check: &'static str, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Fault { check, what: what() }) }
}

/// Checks the state that a run begins with.
pub(crate) fn of_start(run: &Run) -> Checked {
    state::leads_on(run)?;
    state::is_within_limits(run)
}

/// Checks one step, and moves the ghost to the state after it.
pub(crate) fn step(step: &Step<'_>, ghost: &mut Ghost) -> Checked {
    accepted::may_follow(step, ghost)?;
    let was = ghost.after(step);
    money::is_charged(step)?;
    money::stays_within_limits(step)?;
    money::stays_within_shared(step, ghost)?;
    money::reserves_what_is_in_flight(step.after)?;
    results::none_is_lost(step)?;
    results::merge_names_its_changes(step)?;
    results::partial_replies_decide_nothing(step)?;
    truth::conditions_hold(step, ghost)?;
    state::leads_on(step.after)?;
    state::is_within_limits(step.after)?;
    state::is_silent_after_the_reason(step.after, ghost)?;
    state::numbers_evidence(step.after)?;
    state::commands_what_was_allowed(step.after, ghost)?;
    state::repeats_nothing_that_is_done(step.after, ghost)?;
    state::keeps_time(step.after, ghost)?;
    accepted::follows_requests(step, &was)
}

/// A rejected event leaves the run as it was.
pub(crate) fn rejected(before: &Run, after: &Run, event: &Event, why: &Rejected) -> Checked {
    must(before == after, "a rejected event changes nothing", || {
        format!("{} was rejected ({why}), and the run changed", event.kind.name())
    })
}

/// A driver that only does what is commanded is not rejected.
pub(crate) fn refused_a_driver(event: &Event, why: &Rejected) -> Fault {
    let what = format!("{} is commanded, and was rejected: {why}", event.kind.name());
    Fault { check: "what is commanded is accepted", what }
}

/// The batch that the phase has open.
pub(crate) fn batch(run: &Run) -> Option<&Batch> {
    match run.phase() {
        Phase::Running { batch, .. } | Phase::Stopping(Stopping { batch: Some(batch), .. }) => Some(batch),
        _ => None,
    }
}

/// The work that the phase has open or settled.
pub(crate) fn work(run: &Run) -> &[Work] {
    batch(run).map_or(&[], |batch| &batch.work)
}

/// The call that the phase commands or has in flight.
pub(crate) fn call(run: &Run) -> Option<&loop_core::Call> {
    match run.phase() {
        Phase::Calling { call, .. } => Some(call),
        Phase::Stopping(stopping) => stopping.call.as_ref(),
        _ => None,
    }
}

/// Whether the stop reason is still open.
pub(crate) fn is_working(run: &Run) -> bool {
    !matches!(run.phase(), Phase::Stopping(_) | Phase::Saving { .. } | Phase::Done { .. })
}

/// Whether an event is the answer of a model to a call.
pub(crate) fn is_reply(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ModelReplied { .. } | EventKind::ModelFailed { .. })
}
