//! Checks of results and attempts: partial replies decide nothing, each result belongs to its action, and time is
//! counted once.

use loop_core::invariants::{Past, Transition};
use loop_core::spec::{RepeatScope, Repeats};
use loop_core::types::Slot;
use loop_core::{Command, EventKind, Note, Run, Verdict};

use crate::sim::check::{Checked, GhostState, must, work};
use crate::sim::world::CUT;

/// I-19: a broken-off reply runs nothing, completes no pass, and leaves no partial section.
pub(crate) fn partial_replies_decide_nothing(step: &Transition<'_>) -> Checked {
    let check = "I-19 a partial reply decides nothing";
    let half = step.after.document().sections.iter().any(|section| section.body.contains(CUT));
    must(!half, check, || "half a section was stored".to_owned())?;
    if !matches!(&step.event.kind, EventKind::ModelFailed { key, .. } if matches!(key.slot, Slot::Main | Slot::Final))
    {
        return Ok(());
    }
    let runs =
        step.notes.iter().any(|note| matches!(note, Note::ActionJudged(it) if it.verdict == Verdict::Run));
    let passes = step.after.passes().len() > step.before.passes().len();
    must(!runs && !passes, check, || "a call that failed was acted on".to_owned())
}

/// I-5: each result belongs to its action.
pub(crate) fn belong_to_their_actions(run: &Run) -> Checked {
    for action in run.actions().iter().filter(|action| action.evidence.is_some()) {
        let Some(evidence) = run.evidence().iter().find(|evidence| Some(evidence.id) == action.evidence)
        else {
            continue;
        };
        let same = *evidence.tool == *action.tool_name() && evidence.parameters == action.parameters;
        must(same, "I-5 each result is that of its action", || {
            format!("{} and {}", evidence.id, action.key)
        })?;
    }
    Ok(())
}

/// I-6: a write that may be retried runs again under its first key.
pub(crate) fn have_one_key(run: &Run, past: &Past, ghost: &GhostState) -> Checked {
    let is_scoped = run.spec().gate.scope == RepeatScope::Run && run.spec().repeats() == Repeats::NeverRerun;
    if !is_scoped || !run.eager_reads().is_empty() {
        return Ok(());
    }
    for command in run.commands() {
        let Command::RunTool(tool) = command else { continue };
        let Some(spec) = run.spec().tool(&tool.tool).filter(|_| !work(run).is_empty()) else { continue };
        let call = (tool.tool.to_string(), tool.parameters.to_string());
        let first = ghost.retryable.get(&call).filter(|_| spec.effect.is_repeatable());
        let has_tries = |first| past.settled.get(first).is_some_and(|(attempt, _)| *attempt < spec.attempts);
        let other = first.filter(|first| **first != tool.key && has_tries(first));
        must(other.is_none(), "I-6 every try of a call has the same key", || {
            format!("{} after {other:?}", tool.key)
        })?;
    }
    Ok(())
}

/// H7: time that people take and time without a driver do not count, and the run does not work beyond its time limit.
pub(crate) fn keeps_time(run: &Run, ghost: &GhostState) -> Checked {
    let (elapsed, said) = (ghost.elapsed_ms(run), run.elapsed_ms());
    must(elapsed == said, "H7 the wall clock counts what it should", || {
        format!("{elapsed} ms count, the run says {said} ms")
    })
}
