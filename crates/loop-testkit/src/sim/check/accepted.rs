//! Checks which events may be accepted: time, attempts, people, stops. It reads the state before the event.

use loop_core::invariants::{Past, Transition};
use loop_core::run::{PersonAnswer, Phase, PromptSize, Refusal, SaveResult, StopMode};
use loop_core::types::{CommandKey, Millis};
use loop_core::{EventKind, Run, Verdict};

use crate::sim::check::{Checked, GhostState, call, check, is_working, must, work};

/// Whether the accepted event may follow the state before it.
pub(crate) fn may_follow(step: &Transition<'_>, ghost: &GhostState) -> Checked {
    let Transition { before, event, after, .. } = step;
    must(event.at >= before.now() && after.now() == event.at, "time goes forward", || {
        format!("{} at {} ms, after {} ms", event.kind.name(), event.at.0, before.now().0)
    })?;
    let starts = |key: &CommandKey| {
        must(ghost.stop.is_none(), "U5 nothing starts after a stop was requested", || key.to_string())
    };
    let is_open = match &event.kind {
        EventKind::DeadlineReached => before.deadline().is_some_and(|due| due <= event.at),
        EventKind::CallStarted { key, attempt, .. } | EventKind::CallRefused { key, attempt, .. } => {
            let waits = ghost.retry_at.filter(|(of, at)| of == key && *at > event.at);
            must(waits.is_none(), "L1 a retry waits as long as the provider said", || {
                format!("{key} at {} ms, and {waits:?}", event.at.0)
            })?;
            starts(key)?;
            is_not_covered(before, &event.kind)?;
            call(before)
                .is_some_and(|call| (call.key, call.attempt) == (*key, *attempt) && call.started.is_none())
        }
        EventKind::ModelReplied { key, attempt, .. } | EventKind::ModelFailed { key, attempt, .. } => {
            let is_it = |call: &loop_core::run::Call| {
                (call.key, call.attempt) == (*key, *attempt) && call.started.is_some()
            };
            call(before).is_some_and(is_it)
        }
        EventKind::ToolStarted { key, attempt } => {
            starts(key)?;
            is_due(before, *key, *attempt, event.at)
        }
        EventKind::ToolFinished { key, attempt, .. } => is_in_flight(before, *key, *attempt),
        EventKind::PersonAnswered { key, answer: PersonAnswer::Approved, .. } => {
            return must(before.spec().gate.approvals < 2, "I-26 two people approve", || {
                format!("{key} was approved without an account")
            });
        }
        EventKind::CheckStarted { key, attempt } => {
            starts(key)?;
            matches!(before.phase(), Phase::Validating(it) if (it.key, it.attempt, it.announced) == (*key, *attempt, false))
        }
        EventKind::Checked { key, attempt, .. } => {
            check(before).is_some_and(|it| (it.key, it.attempt, it.announced) == (*key, *attempt, true))
        }
        EventKind::SaveFinished { attempt, .. } => {
            let not_yet = |at: &Option<Millis>| at.is_some_and(|at| at > event.at);
            let is_it = matches!(before.phase(), Phase::Saving { attempt: of, not_before, .. } if of == attempt && !not_yet(not_before));
            is_it && ghost.saved == 0
        }
        _ => true,
    };
    must(is_open, "I-6 a settlement is of an open try", || {
        format!("{:?} was accepted while {:?}", event.kind, before.phase().name())
    })
}

fn is_due(run: &Run, key: CommandKey, attempt: u32, at: Millis) -> bool {
    work(run).iter().any(|work| {
        let waits = work.poll.as_ref().is_some_and(|poll| poll.not_before > at);
        (work.key, work.attempt) == (key, attempt) && !work.announced && work.observation.is_none() && !waits
    })
}

fn is_in_flight(run: &Run, key: CommandKey, attempt: u32) -> bool {
    let works = work(run).iter().any(|work| {
        (work.key, work.attempt) == (key, attempt) && work.announced && work.observation.is_none()
    });
    let mut reads = run.eager_reads().iter();
    works || reads.any(|read| (read.key, read.attempt) == (key, attempt) && read.observation.is_none())
}

/// I-1: a shared budget refuses a call exactly if it does not cover the call and the final pass after it.
fn is_not_covered(before: &Run, kind: &EventKind) -> Checked {
    let EventKind::CallRefused { key, prompt_bytes, shared_bytes, refusal, .. } = kind else { return Ok(()) };
    let Refusal::SharedBudget { left } = refusal else { return Ok(()) };
    let prompt = PromptSize { bytes: *prompt_bytes, shared_bytes: *shared_bytes };
    let Ok(quote) = before.quote(key, prompt) else { return Ok(()) };
    let needs = quote.reserve.cost.map(|cost| cost.plus(before.final_pass_reserve(key, &quote)));
    must(
        needs.is_none_or(|needs| *left < needs),
        "I-1 a shared budget refuses what it does not cover",
        || format!("{key} needs {needs:?}, and {left} are left"),
    )
}

/// I-15, I-26: a request to stop takes effect, enough approvals count, and accepted events are not forgotten.
pub(crate) fn follows_requests(step: &Transition<'_>, past: &Past, ghost: &GhostState) -> Checked {
    let Transition { event, after, .. } = step;
    match &event.kind {
        EventKind::StopRequested { how: StopMode::Now } => {
            must(!is_working(after), "I-15 an immediate stop fixes the reason at once", || {
                format!("the run is still {}", after.phase().name())
            })
        }
        EventKind::ApprovedBy { key, .. } => {
            let verdict =
                after.actions().iter().find(|action| action.key == *key).map(|action| &action.verdict);
            let people = past.approvers.get(key).map_or(0, std::collections::BTreeSet::len) + 1;
            let is_enough = people >= after.spec().gate.approvals as usize;
            must(
                (verdict == Some(&Verdict::Run)) == is_enough,
                "I-26 an action runs once enough people approve",
                || format!("{people} people have approved {key}, and it is {verdict:?}"),
            )
        }
        EventKind::Instruction { .. } => {
            let kept = after.instructions().len() == ghost.instructions + 1;
            must(kept, "S4 an accepted instruction is kept", || "an instruction is gone".to_owned())
        }
        EventKind::SaveFinished { result: SaveResult::Saved { .. }, .. } => {
            must(after.is_done(), "U7 an outcome is saved once", || format!("it is {}", after.phase().name()))
        }
        _ => Ok(()),
    }
}
