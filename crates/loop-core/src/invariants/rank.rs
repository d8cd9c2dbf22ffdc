//! The rank: how many more events a run can take. It falls at every step, so every run ends.
//!
//! Events that people or operators can repeat are not counted: a request to stop, its withdrawal, an instruction, a
//! resume, and the wait of a called run, of which there is one per driver. None of these raises the rank. A refusal by
//! a shared budget is not counted either: each one lowers what that budget leaves the run, at last to 0.

use super::view::{call, check, work};
use super::{Checked, Past, Transition};
use crate::run::{AttemptState, EventKind, Phase, Purpose, Run, Stage, Work};
use crate::spec::{GroundingRule, RunSpec, SectionSpec};

/// How often a save is tried in all, and how often the program may end while a tool runs.
const TRIES: u64 = 3;
/// A call that may be started: its start, its settlement, the wait for another try.
const CALL: u64 = 3;
/// A tool call that may be admitted: one start a try, its end, and the event at which its body gives way to its summary.
const TOOL: u64 = TRIES + 2;
/// A tool that is not ready: the wait, one more start, its end.
const POLL: u64 = 3;
/// A question to a person: the answer, and the event at which the body of a denial gives way to its summary.
const ASK: u64 = 2;
/// The check of an output with which an attempt ended.
const OUTPUT_CHECK: u64 = 1;
/// The check of a document: its announcement and its result.
const DOCUMENT_CHECK: u64 = 2;
/// The refusal by which a pass is shown by its summary.
const COMPACTION: u64 = 1;
/// The refusal that leads to the final pass, and the one that ends it.
const REFUSALS: u64 = 2;
/// A deadline that stops the run, and the grace after it.
const STOP: u64 = 2;
/// A read that starts before its reply is complete: its announcement and its end.
const EAGER: u64 = 2;

/// A request that is refused for a part, and made once more without it: its two events.
const LEFT_OUT: u64 = 2;
/// The parts that a request can do without.
const PARTS: u64 = 3;

/// The reads that may still start before their reply is complete, and those that run.
fn early(run: &Run) -> u64 {
    let (totals, reads) = (run.totals(), run.eager_reads());
    let begun = u64::from(totals.tool_calls) + u64::from(totals.eager_dropped) + reads.len() as u64;
    let open = reads.iter().filter(|read| read.observation.is_none()).count() as u64;
    early_of(run.spec(), begun).saturating_add(open)
}

fn early_of(spec: &RunSpec, begun: u64) -> u64 {
    let starts = spec.starts_reads_early() && spec.tools.iter().any(|tool| tool.policy.cheap);
    if starts { EAGER * u64::from(spec.limits.tool_calls).saturating_sub(begun) } else { 0 }
}

/// The most events that a run of this spec can take, its first one included, without those that are not counted.
pub fn bound(spec: &RunSpec) -> u64 {
    let limits = &spec.limits;
    let (passes, tool_calls) = (u64::from(limits.passes), u64::from(limits.tool_calls));
    let own = own(spec);
    // Each approval before the last one is an event of its own.
    let ask = ASK.saturating_add(u64::from(spec.gate.approvals.saturating_sub(1)));
    let a_pass = ask.saturating_mul(tool_calls).saturating_add(1 + own);
    let save = if spec.save { 2 * TRIES - 1 } else { 0 };
    let parts = [
        1,
        CALL * u64::from(limits.model_calls),
        u64::from(spec.selection.enabled),
        tool(spec).saturating_mul(tool_calls),
        early_of(spec, 0),
        passes.saturating_mul(a_pass),
        u64::from(spec.protocol.properties().native_calls),
        REFUSALS,
        LEFT_OUT * PARTS,
        STOP,
        save,
    ];
    parts.into_iter().fold(0, u64::saturating_add)
}

/// The most events that can still follow.
pub fn rank(run: &Run) -> u64 {
    let spec = run.spec();
    let (limits, totals) = (&spec.limits, run.totals());
    let left = |limit: u32, used: u32| u64::from(limit.saturating_sub(used));
    let shortened = run.evidence().iter().filter(|evidence| !evidence.shortened).count() as u64;
    let save = match run.phase() {
        Phase::Done { .. } => return 0,
        Phase::Saving { attempt, not_before, .. } => {
            let waits = not_before.is_some_and(|at| at > run.now());
            return 2 * TRIES.saturating_sub((*attempt).into()) + 1 + u64::from(waits);
        }
        _ if spec.save => 2 * TRIES - 1,
        _ => 0,
    };
    let call = call(run).map_or(0, |call| match call.started {
        Some(_) => CALL - 1,
        None => u64::from(call.not_before.is_some_and(|at| at > run.now())),
    });
    let in_flight = work(run).iter().map(|work| open_work(run, work)).fold(call, u64::saturating_add);
    if matches!(run.phase(), Phase::Stopping { .. }) {
        return in_flight.saturating_add(open_check(run)).saturating_add(1 + save);
    }
    let own = own(spec);
    // Each approval before the last one is an event of its own.
    let ask = ASK.saturating_add(u64::from(spec.gate.approvals.saturating_sub(1)));
    let a_pass = ask.saturating_mul(u64::from(limits.tool_calls)).saturating_add(1 + own);
    let asks = match run.phase() {
        Phase::WaitingForPerson { asks, .. } => {
            let left = |approved: usize| ask.saturating_sub(approved as u64);
            asks.iter().map(|it| if it.answered { 1 } else { left(it.approvers.len()) }).sum()
        }
        Phase::Running { batch, stage: Stage::Act } => ask.saturating_mul(batch.asks.len() as u64),
        // Its pass is counted, and its actions are still to be judged.
        Phase::Calling { purpose: Purpose::Repair { .. }, .. } => {
            ask.saturating_mul(u64::from(limits.tool_calls))
        }
        _ => 0,
    };
    let refusals = match run.phase() {
        Phase::Calling { purpose: Purpose::Select | Purpose::Repair { .. }, .. } => REFUSALS + 1,
        Phase::Calling { purpose: Purpose::Final { .. }, .. } => REFUSALS - 1,
        _ => REFUSALS,
    };
    let whole = if spec.protocol.properties().native_calls {
        left(totals.passes, run.compacted_through()) + u64::from(!run.is_history_compacted())
    } else {
        shortened
    };
    let validation = match run.attempts().last().map(|attempt| &attempt.state) {
        Some(AttemptState::Ends) => OUTPUT_CHECK,
        _ => open_check(run),
    };
    let parts = [
        CALL * left(limits.model_calls, totals.model_calls),
        in_flight,
        tool(spec).saturating_mul(left(limits.tool_calls, totals.tool_calls)),
        early(run),
        left(limits.passes, totals.passes).saturating_mul(a_pass),
        asks,
        refusals,
        LEFT_OUT * PARTS.saturating_sub(run.left_out().len() as u64),
        whole,
        validation,
        STOP,
        save,
    ];
    parts.into_iter().fold(0, u64::saturating_add)
}

/// What a pass of its own may add to its call, its tools and its questions.
fn own(spec: &RunSpec) -> u64 {
    let demands = |it: &SectionSpec| {
        spec.grounding_of(&it.id) == GroundingRule::Demand || it.verify && spec.gate.second_opinion.is_some()
    };
    match spec.protocol.properties().native_calls {
        true => OUTPUT_CHECK + COMPACTION,
        // A section that the spec does not name follows the rule of the gate.
        false if spec.gate.grounding == GroundingRule::Demand => DOCUMENT_CHECK,
        false if !spec.gate.validators.is_empty() || spec.sections().iter().any(demands) => DOCUMENT_CHECK,
        false => 0,
    }
}

/// The events of the check that is commanded or in flight.
fn open_check(run: &Run) -> u64 {
    check(run).map_or(0, |check| 1 + u64::from(!check.announced))
}

/// A tool call that may be admitted, polled as often as any tool may be.
fn tool(spec: &RunSpec) -> u64 {
    let polls = spec.tools.iter().map(|tool| tool.policy.repeats.polls).max();
    TOOL + POLL * u64::from(polls.unwrap_or_default())
}

fn open_work(run: &Run, work: &Work) -> u64 {
    if work.observation.is_some() {
        return 1;
    }
    let action = run.actions().get(work.action as usize);
    let tool = action.and_then(|action| run.spec().tool(action.tool_name()));
    let max = tool.map_or(0, |tool| tool.policy.repeats.polls);
    let (times, waits) =
        work.poll.as_ref().map_or((0, false), |poll| (poll.times, poll.not_before > run.now()));
    let tries = TRIES.saturating_sub(u64::from(work.lost) + 1);
    let polls = POLL * u64::from(max.saturating_sub(times));
    2 + u64::from(!work.announced) + tries + polls + u64::from(waits)
}

/// The rank falls at every event, and rises at none.
pub(super) fn falls(step: &Transition<'_>, _: &Past) -> Checked {
    let (before, after) = (rank(step.before), rank(step.after));
    let counts = !matches!(
        step.event.kind,
        EventKind::StopRequested { .. }
            | EventKind::StopWithdrawn
            | EventKind::Resumed { .. }
            | EventKind::RunWaits { .. }
            | EventKind::Instruction { .. }
    );
    let leaves_less = match (step.before.shared_limit(), step.after.shared_limit()) {
        (before, Some(after)) => before.is_none_or(|before| after < before),
        (_, None) => false,
    };
    let counts = counts && !leaves_less;
    if after < before || !counts && after == before {
        return Ok(());
    }
    Err(format!("at most {before} events could follow, and after this one {after}"))
}
