//! Whether the conditions of a stop are true: each is checked against the state in which the run ended.

use super::{Checked, Past, Transition, must};
use crate::gate::{Condition, Measure, StopReason};
use crate::run::{CheckResult, CheckSubject, Checking, EventKind, Note, Phase, Purpose, Run};
use crate::types::Confidence;

/// Every condition that a certificate lists holds in the state that it was made for.
pub(super) fn is_true(step: &Transition<'_>, past: &Past) -> Checked {
    for note in step.notes {
        let Note::Stopped { certificate } = note else { continue };
        for condition in std::iter::once(&certificate.primary).chain(&certificate.also) {
            // A final pass reports the condition for which it was entered; that was judged then.
            let is_cause = step.before.phase().final_cause() == Some(condition);
            // So were those that the gate found before the document was checked.
            let was_found = condition.reason != StopReason::Confident
                && matches!(step.before.phase(), Phase::Validating(Checking { about: CheckSubject::Document { found, .. }, .. })
                    if found.contains(condition));
            must(is_cause || was_found || holds(step, past, condition), || {
                format!(
                    "the run reports `{}` with {}, and that does not hold",
                    condition.reason.name(),
                    condition.value
                )
            })?;
            must(would_help(condition), || {
                format!("the run reports `{}`, and its change changes nothing", condition.reason.name())
            })?;
        }
    }
    Ok(())
}

fn holds(step: &Transition<'_>, past: &Past, condition: &Condition) -> bool {
    let run = step.after;
    let (limits, totals) = (&run.spec().limits, run.totals());
    let event = &step.event.kind;
    // A final pass that returned no reply leaves its own pass and call unused.
    let final_pass = u32::from(step.before.phase().final_cause().is_some());
    let is_high = || run.passes().last().is_some_and(|pass| pass.counted() == Confidence::High);
    let decides = || step.notes.iter().any(|note| matches!(note, Note::GateDecided { .. }));
    match condition.reason {
        StopReason::ManualStop => {
            step.before.is_stop_requested() || matches!(event, EventKind::StopRequested { .. })
        }
        StopReason::MaxPasses => {
            totals.passes.saturating_add(final_pass) >= limits.passes || attempt_is_over(run)
        }
        StopReason::MaxModelCalls => totals.model_calls.saturating_add(final_pass) >= limits.model_calls,
        StopReason::BudgetExceeded | StopReason::TokenLimit => is_spent(run, condition),
        StopReason::SharedBudgetExceeded => {
            let limit = run.shared_limit().map(Measure::PicoUsd);
            limit.is_some() && condition.threshold == limit && is_spent(run, condition)
        }
        StopReason::Timeout => run.elapsed_ms().saturating_add(limits.final_pass_ms()) >= limits.wall_ms,
        StopReason::Confident => is_high() && run.missing().is_empty() && is_checked(run),
        StopReason::EvidenceMissing => !run.missing().is_empty(),
        StopReason::TierChanged => past.after(step).is_elsewhere,
        StopReason::MaxMessages => limits.messages.is_some_and(|limit| match step.before.phase() {
            // Its cause was that after it no other could be made.
            Phase::Calling { purpose: Purpose::Final { .. }, .. } => {
                step.before.messages().saturating_add(2) > limit
            }
            _ => run.messages() > limit,
        }),
        StopReason::MaxAttempts => {
            let max = run.spec().protocol.output().map(|output| output.attempts as usize);
            max == Some(run.attempts().len()) && matches!(event, EventKind::Checked { .. })
        }
        StopReason::Completed => match event {
            EventKind::ModelReplied { reply, .. } => reply.calls.is_empty(),
            EventKind::Checked { result, .. } => *result == CheckResult::Passed,
            _ => false,
        },
        StopReason::ModelFailure => matches!(
            event,
            EventKind::ModelFailed { .. }
                | EventKind::ModelReplied { .. }
                | EventKind::CallRefused { .. }
                | EventKind::Resumed { .. }
                | EventKind::DeadlineReached
        ),
        // What the reply led to, which the gate decided.
        StopReason::PolicyBlocked
        | StopReason::MaxToolCalls
        | StopReason::NoNewActions
        | StopReason::StaleConfidence
        | StopReason::NoProgress
        | StopReason::InvalidResponse => decides(),
        // What the reply led to, or what has settled.
        StopReason::Refused
        | StopReason::NeedsHuman
        | StopReason::ToolFailure
        | StopReason::Domain(_)
        | StopReason::SubmitBeforeOutput => decides() || settles(event),
        // What is known from the replies before, or from the outcome alone.
        StopReason::OutputLimit
        | StopReason::StorageFailed
        | StopReason::InDoubt
        | StopReason::EffectNotDone
        | StopReason::EffectBlocked => true,
    }
}

/// Whether the document of the last pass passed the check that it has to pass.
fn is_checked(run: &Run) -> bool {
    let last = run.checks().last().filter(|it| it.pass as usize == run.passes().len());
    !run.demands_check() || last.is_some_and(|it| it.result == CheckResult::Passed)
}

/// Whether a tool, a person or a check settles with the event.
fn settles(event: &EventKind) -> bool {
    matches!(
        event,
        EventKind::ToolFinished { .. }
            | EventKind::PersonAnswered { .. }
            | EventKind::ApprovedBy { .. }
            | EventKind::Checked { .. }
            | EventKind::DeadlineReached
            | EventKind::Resumed { .. }
    )
}

/// Whether the attempt has had all the passes that it may take.
fn attempt_is_over(run: &Run) -> bool {
    run.spec().protocol.output().zip(run.attempts().last()).is_some_and(|(output, attempt)| {
        let begun = (attempt.from_pass as usize).saturating_sub(1);
        run.passes().len().saturating_sub(begun) >= output.passes_per_attempt as usize
    })
}

/// A change of a limit goes beyond the limit.
fn would_help(condition: &Condition) -> bool {
    let Some(change) = &condition.change else { return true };
    match (&condition.threshold, &change.to) {
        (Some(Measure::Count(limit)), Measure::Count(to)) => to > limit,
        (Some(Measure::PicoUsd(limit)), Measure::PicoUsd(to)) => to > limit,
        (Some(Measure::Millis(limit)), Measure::Millis(to)) => to > limit,
        _ => true,
    }
}

fn is_spent(run: &Run, condition: &Condition) -> bool {
    let (limits, totals) = (&run.spec().limits, run.totals());
    match (&condition.value, &condition.threshold) {
        (Measure::NextCost { spent, needs, held }, Some(Measure::PicoUsd(limit))) => {
            spent.plus(*needs).plus(*held) > *limit
        }
        (Measure::NextTokens { used, needs, held }, Some(Measure::Count(limit))) => {
            used.saturating_add(*needs).saturating_add(*held) > *limit
        }
        (Measure::PicoUsd(spent), _) => {
            *spent <= totals.cost.known && limits.cost.is_some_and(|limit| *spent >= limit)
        }
        (Measure::Count(used), _) => {
            *used <= totals.usage.total() && limits.tokens.is_some_and(|limit| *used >= limit)
        }
        // A prompt that fits into no context, or a price that is not known.
        (Measure::Text(_), None) => true,
        _ => false,
    }
}
