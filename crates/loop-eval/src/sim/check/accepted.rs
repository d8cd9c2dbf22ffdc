//! Which events may be accepted: time, tries, people, stops. Read from the state before the event.

use loop_core::{
    Approver, CommandKey, Decision, EventKind, Millis, Note, PersonAnswer, Phase, PromptSize, Refusal, Run,
    SaveResult, StopMode, Verdict,
};

use crate::sim::check::{Checked, Ghost, Step, call, is_working, must, work};

/// What was accepted may follow the state before it.
pub(crate) fn may_follow(step: &Step<'_>, ghost: &Ghost) -> Checked {
    let Step { before, event, after, .. } = step;
    must(event.at >= before.now() && after.now() == event.at, "time goes forward", || {
        format!("{} at {} ms, after {} ms", event.kind.name(), event.at.0, before.now().0)
    })?;
    must(is_working(before) || !is_for_work(&event.kind), "I-9 nothing begins after the reason", || {
        format!("{} while {}", event.kind.name(), before.phase().name())
    })?;
    let is_open = match &event.kind {
        EventKind::DeadlineReached => before.deadline().is_some_and(|due| due <= event.at),
        EventKind::CallStarted { key, attempt, .. } | EventKind::CallRefused { key, attempt, .. } => {
            let waits = ghost.retry_at.filter(|(of, at)| of == key && *at > event.at);
            must(waits.is_none(), "L1 a retry waits as long as the provider said", || {
                format!("{key} at {} ms, and {waits:?}", event.at.0)
            })?;
            must(ghost.stop.is_none(), "U5 nothing starts after a stop was requested", || key.to_string())?;
            is_not_covered(before, &event.kind)?;
            call(before)
                .is_some_and(|call| (call.key, call.attempt) == (*key, *attempt) && call.started.is_none())
        }
        EventKind::ModelReplied { key, attempt, .. } | EventKind::ModelFailed { key, attempt, .. } => {
            let is_it = |call: &loop_core::Call| {
                (call.key, call.attempt) == (*key, *attempt) && call.started.is_some()
            };
            call(before).is_some_and(is_it)
        }
        EventKind::ToolStarted { key, attempt } => {
            must(ghost.stop.is_none(), "U5 nothing starts after a stop was requested", || key.to_string())?;
            is_due(before, *key, *attempt, event.at)
        }
        EventKind::ToolFinished { key, attempt, .. } => is_in_flight(before, *key, *attempt),
        EventKind::PersonAnswered { key, answer, binding } => {
            let people = before.spec().gate.approvals;
            must(*answer != PersonAnswer::Approved || people < 2, "I-26 two people approve", || {
                format!("{key} was approved without an account")
            })?;
            return may_count(before, ghost, event.at, *key, answer, binding.as_ref());
        }
        EventKind::ApprovedBy { key, by, binding } => {
            may_count(before, ghost, event.at, *key, &PersonAnswer::Approved, binding.as_ref())?;
            return is_another_person(before, ghost, *key, by);
        }
        EventKind::Validated { key, attempt, .. } => {
            matches!(before.phase(), Phase::Validating { key: of, attempt: tried, .. } if (of, tried) == (key, attempt))
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

/// Whether an event begins work, or decides about work.
fn is_for_work(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::CallStarted { .. }
            | EventKind::CallRefused { .. }
            | EventKind::EagerStarted { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::PersonAnswered { .. }
            | EventKind::ApprovedBy { .. }
            | EventKind::Instruction { .. }
            | EventKind::StopRequested { .. }
            | EventKind::StopWithdrawn
            | EventKind::Validated { .. }
    )
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
    let reads = run.eager_reads().iter();
    works
        || reads
            .into_iter()
            .any(|read| (read.key, read.attempt) == (key, attempt) && read.observation.is_none())
}

/// I-26: an answer counts once, in time, for the action as it is.
fn may_count(
    before: &Run,
    ghost: &Ghost,
    at: Millis,
    key: CommandKey,
    answer: &PersonAnswer,
    binding: Option<&loop_core::Digest>,
) -> Checked {
    let check = "I-26 an answer counts once, in time, for what it was given for";
    let Phase::WaitingForPerson { asks, .. } = before.phase() else {
        return must(false, check, || format!("{answer:?} for {key} while {}", before.phase().name()));
    };
    let at_action = |index: u32| before.actions().get(index as usize);
    let ask = asks.iter().find(|ask| at_action(ask.action).is_some_and(|action| action.key == key));
    let is_open = ask.is_some_and(|ask| !ask.answered && ask.deadline.is_none_or(|deadline| at < deadline));
    must(is_open && !ghost.answered.contains(&key), check, || {
        format!("{answer:?} for {key} at {} ms", at.0)
    })?;
    let is_bound = binding.is_none_or(|binding| before.binding(&key) == Some(*binding));
    must(is_bound, check, || format!("{answer:?} for {key} has another binding"))
}

/// I-26: where several people have to approve, each is an account of its own that the driver has checked.
fn is_another_person(before: &Run, ghost: &Ghost, key: CommandKey, by: &Approver) -> Checked {
    if before.spec().gate.approvals < 2 {
        return Ok(());
    }
    let again = ghost.approvers.get(&key).is_some_and(|accounts| accounts.contains(&by.account));
    must(!again && !by.account.is_empty(), "I-26 two people approve", || {
        format!("`{}` counts for {key}, and {:?} have approved it", by.account, ghost.approvers.get(&key))
    })
}

/// I-1: a shared budget refuses what it does not cover, together with the final pass after it, and nothing else.
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

/// I-15, U5: a request to stop is followed, and what was accepted is not forgotten. `was` is the ghost before the step.
pub(crate) fn follows_requests(step: &Step<'_>, was: &Ghost) -> Checked {
    let Step { before, event, notes, after } = step;
    if let EventKind::StopRequested { how: StopMode::Now } = event.kind {
        must(!is_working(after), "I-15 an immediate stop fixes the reason at once", || {
            format!("the run is still {}", after.phase().name())
        })?;
    }
    if let EventKind::ApprovedBy { key, .. } = event.kind {
        let verdict = after.actions().iter().find(|action| action.key == key).map(|action| &action.verdict);
        let people = was.approvers.get(&key).map_or(0, std::collections::BTreeSet::len) + 1;
        let is_enough = people >= after.spec().gate.approvals as usize;
        must(
            (verdict == Some(&Verdict::Run)) == is_enough,
            "I-26 an action runs once enough people approve",
            || format!("{people} people have approved {key}, and it is {verdict:?}"),
        )?;
    }
    if let EventKind::Instruction { .. } = event.kind {
        let kept = after.instructions().len() == was.instructions + 1;
        must(kept, "S4 an accepted instruction is kept", || "an instruction is gone".to_owned())?;
    }
    if let EventKind::SaveFinished { result: SaveResult::Saved { .. }, .. } = event.kind {
        must(after.is_done(), "U7 an outcome is saved once", || format!("it is {}", after.phase().name()))?;
    }
    if !is_working(before) {
        let acts = notes.iter().any(|note| {
            matches!(note, Note::ActionJudged(action) if action.verdict == Verdict::Run)
                || matches!(note, Note::GateDecided { decision: Decision::Act { .. }, .. })
        });
        must(!acts, "I-9 nothing runs after the reason", || format!("{notes:?}"))?;
    }
    Ok(())
}
