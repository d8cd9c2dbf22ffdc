//! The shape of a state: what decides what can come next, without bodies, texts, instants and totals of money.
//!
//! Two states of one shape differ in what a limit of money or an equal text may bring about later, so a walk by shape
//! sees one of each kind rather than all: it is for scopes that are too large to be walked whole.

use std::hash::{DefaultHasher, Hash, Hasher};

use loop_core::Run;
use loop_core::run::{Phase, Purpose, Stage};

use crate::edge::{Ghost, call, work};

/// A number for the whole state and the way to it; two that are equal by chance are as likely as a broken machine.
pub fn whole(run: &Run, ghost: &Ghost) -> u64 {
    let mut hasher = DefaultHasher::new();
    (run.state(), ghost).hash(&mut hasher);
    hasher.finish()
}

/// A number for the shape of the state.
pub fn shape(run: &Run, ghost: &Ghost) -> u64 {
    let mut hasher = DefaultHasher::new();
    let h = &mut hasher;
    run.phase().name().hash(h);
    if let Some(call) = call(run) {
        let waits = call.not_before.is_some_and(|at| at > run.now());
        (call.key, call.attempt, call.lost, call.tier, call.started.is_some(), waits).hash(h);
    }
    for work in work(run) {
        let status = work.observation.as_ref().map(|observation| observation.status);
        let polls = work.poll.as_ref().map(|poll| (poll.times, poll.not_before > run.now()));
        (work.key, work.attempt, work.lost, work.announced, work.sub_call.is_some(), status, polls).hash(h);
    }
    match run.phase() {
        Phase::WaitingForPerson { asks, .. } => asks.iter().for_each(|ask| ask.answered.hash(h)),
        Phase::Running { batch, stage: Stage::Act } => batch.asks.len().hash(h),
        Phase::Stopping(stopping) => stopping.certificate.reason().hash(h),
        Phase::Calling { purpose: Purpose::Final { cause }, .. } => cause.reason.hash(h),
        Phase::Validating(it) => (it.key, it.attempt, it.announced, it.sub_call.is_some()).hash(h),
        Phase::Saving { outcome, attempt, .. } => (outcome.stop.reason(), attempt).hash(h),
        Phase::Done { outcome } => outcome.stop.reason().hash(h),
        _ => {}
    }
    (run.is_stop_requested(), run.tier(), ghost.escalated, &ghost.repaired, ghost.past.stops).hash(h);
    (ghost.cut, &ghost.kept).hash(h);
    for pass in run.passes() {
        (pass.confidence, pass.fresh, pass.changed.is_empty(), pass.final_pass, pass.tier).hash(h);
    }
    run.missing().len().hash(h);
    for evidence in run.evidence() {
        (evidence.key, evidence.observation.status, evidence.shortened).hash(h);
    }
    for action in run.actions() {
        (action.key, action.verdict.name()).hash(h);
    }
    for attempt in run.attempts() {
        (attempt.from_pass, attempt.output.is_some(), std::mem::discriminant(&attempt.state)).hash(h);
    }
    (run.compacted_through(), run.is_history_compacted()).hash(h);
    let totals = run.totals();
    (totals.model_calls, totals.tool_calls, totals.sub_calls).hash(h);
    hasher.finish()
}
