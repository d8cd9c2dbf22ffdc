//! Whether the conditions of a stop are true: each reason is held against the state in which the run ended (I-10).

use loop_core::gate::{Condition, Measure};
use loop_core::reply::FinishReason;
use loop_core::run::{CheckResult, CheckSubject, Checking, Phase, Purpose};
use loop_core::types::{Confidence, Slot};
use loop_core::{EventKind, Note, Run, StopReason};

use crate::edge::{Edge, call};
use crate::{native, oracle, trouble};

/// I-10: every condition that a certificate lists holds.
pub fn is_reported(edge: &Edge<'_>) -> Result<(), String> {
    for note in edge.notes {
        let Note::Stopped { certificate } = note else { continue };
        let conditions = || std::iter::once(&certificate.primary).chain(&certificate.also);
        if edge.was.after(edge).cut && conditions().all(|it| it.reason != StopReason::OutputLimit) {
            return Err("the last reply was cut, and the run does not say so".to_owned());
        }
        for condition in conditions() {
            let is_cause = matches!(edge.before.phase(), Phase::Calling { purpose: Purpose::Final { cause }, .. } if cause == condition);
            // A final pass for want of tools says what it was entered for; that was judged then.
            let was_judged =
                matches!(condition.reason, StopReason::MaxToolCalls | StopReason::NoProgress) && is_cause;
            // So were those that the gate found before the document was checked, but for a confident end.
            let was_found = matches!(edge.before.phase(), Phase::Validating(Checking { about: CheckSubject::Document { found, cause }, .. })
                if found.contains(condition) && condition.reason != StopReason::Confident || cause.as_ref() == Some(condition));
            if !was_judged && !was_found && !holds(edge, condition) {
                return Err(format!("the run says {condition:?}, and that is not so"));
            }
            if !would_help(condition) {
                return Err(format!("the run says {condition:?}, and that change is none"));
            }
        }
    }
    Ok(())
}

fn holds(edge: &Edge<'_>, condition: &Condition) -> bool {
    let run = edge.after;
    let (limits, totals) = (&run.spec().limits, run.totals());
    // A final pass that returned no reply leaves room for the one that was its own.
    let final_pass =
        u32::from(matches!(edge.before.phase(), Phase::Calling { purpose: Purpose::Final { .. }, .. }));
    let high = || run.passes().last().is_some_and(|pass| oracle::worth(run.spec(), pass) == Confidence::High);
    match condition.reason {
        StopReason::ManualStop => {
            edge.before.is_stop_requested() || matches!(edge.event.kind, EventKind::StopRequested { .. })
        }
        StopReason::MaxPasses => totals.passes + final_pass >= limits.passes || native::attempt_is_over(run),
        StopReason::MaxModelCalls => totals.model_calls + final_pass >= limits.model_calls,
        StopReason::BudgetExceeded | StopReason::TokenLimit => spent(run, condition),
        StopReason::OutputLimit => is_cut(edge, condition),
        StopReason::Timeout => run.elapsed_ms() + limits.final_pass_ms() >= limits.wall_ms,
        StopReason::Confident => high() && run.missing().is_empty() && oracle::is_checked(run),
        StopReason::EvidenceMissing => {
            (high() || run.spec().protocol.properties().native_calls) && !run.missing().is_empty()
        }
        StopReason::ModelFailure => {
            matches!(
                edge.event.kind,
                EventKind::ModelFailed { .. }
                    | EventKind::ModelReplied { .. }
                    | EventKind::CallRefused { .. }
                    | EventKind::Resumed { .. }
                    | EventKind::DeadlineReached
            )
        }
        StopReason::Completed => match &edge.event.kind {
            EventKind::ModelReplied { reply, .. } => reply.calls.is_empty(),
            EventKind::Checked { result, .. } => *result == CheckResult::Passed,
            _ => false,
        },
        // What is still in flight may turn out to be done: the outcome's own list is checked by itself.
        StopReason::EffectNotDone | StopReason::EffectBlocked => {
            matches!(&condition.value, Measure::NotDone(effects) if !effects.is_empty())
        }
        StopReason::InDoubt => matches!(&condition.value, Measure::Names(effects) if !effects.is_empty()),
        StopReason::TierChanged => edge.was.after(edge).past.is_elsewhere,
        StopReason::MaxMessages => limits.messages.is_some_and(|limit| match edge.before.phase() {
            // Its cause was that after it no other could be made.
            Phase::Calling { purpose: Purpose::Final { .. }, .. } => edge.before.messages() + 2 > limit,
            _ => run.messages() > limit,
        }),
        StopReason::MaxAttempts => {
            let max = run.spec().protocol.output().map(|output| output.attempts);
            max == Some(run.attempts().len() as u32) && matches!(edge.event.kind, EventKind::Checked { .. })
        }
        StopReason::ToolFailure | StopReason::NeedsHuman | StopReason::Refused | StopReason::Domain(_)
            if ends_by_trouble(edge).contains(&condition.reason) =>
        {
            true
        }
        // A tool that is not run any more.
        StopReason::ToolFailure if edge.decision().is_some() => true,
        StopReason::ToolFailure => match &edge.event.kind {
            EventKind::Checked { result, .. } => matches!(result, CheckResult::Broken { .. }),
            EventKind::Resumed { .. } => {
                matches!(edge.before.phase(), Phase::Validating(checking) if checking.attempt == 3)
            }
            _ => false,
        },
        StopReason::InvalidResponse => edge.decision().is_some(),
        // By the gate, or once every output beside the submission was taken back.
        StopReason::SubmitBeforeOutput => {
            let is_none = run.attempts().last().is_some_and(|attempt| attempt.output.is_none());
            let settles =
                matches!(edge.event.kind, EventKind::ToolFinished { .. } | EventKind::Resumed { .. });
            edge.decision().is_some() || is_none && settles
        }
        // What the reply itself brought about: the gate's second reading judges these.
        StopReason::Refused
        | StopReason::NeedsHuman
        | StopReason::PolicyBlocked
        | StopReason::MaxToolCalls
        | StopReason::NoNewActions
        | StopReason::StaleConfidence
        | StopReason::NoProgress => edge.decision().is_some(),
        _ => false,
    }
}

/// The reasons that what has just settled gives, where that ends the run.
fn ends_by_trouble(edge: &Edge<'_>) -> Vec<StopReason> {
    trouble::ends(edge, &edge.was.trouble.after(edge))
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

/// Whether a reply was cut as the condition says: by what it wrote and what it was granted, where it has just come.
fn is_cut(edge: &Edge<'_>, condition: &Condition) -> bool {
    let (Measure::Output(written), Some(Measure::Count(granted))) = (&condition.value, &condition.threshold)
    else {
        return false;
    };
    let limit = edge.after.spec().limits.output_tokens;
    let names_the_setting = condition.change.is_none() || (*granted >= limit && !written.capped);
    let EventKind::ModelReplied { key, reply, .. } = &edge.event.kind else {
        return edge.was.cut && names_the_setting;
    };
    if !matches!(reply.finish, FinishReason::MaxTokens | FinishReason::Capped) || key.slot == Slot::Repair {
        return edge.was.after(edge).cut && names_the_setting;
    }
    let of_call = call(edge.before).and_then(|call| call.started).map(|started| started.max_output_tokens);
    names_the_setting
        && of_call == Some(*granted)
        && written.tokens == reply.usage.map(|usage| usage.output + usage.reasoning)
        && written.capped == (reply.finish == FinishReason::Capped)
        && written.visible == (!reply.calls.is_empty() || !reply.text.trim().is_empty())
}

fn spent(run: &Run, condition: &Condition) -> bool {
    let (limits, totals) = (&run.spec().limits, run.totals());
    match (&condition.value, &condition.threshold) {
        (Measure::NextCost { spent, needs, held }, Some(Measure::PicoUsd(limit))) => {
            spent.0 + needs.0 + held.0 > limit.0
        }
        (Measure::NextTokens { used, needs, held }, Some(Measure::Count(limit))) => {
            used + needs + held > *limit
        }
        (Measure::PicoUsd(spent), _) => {
            *spent <= totals.cost.known && limits.cost.is_some_and(|limit| *spent >= limit)
        }
        (Measure::Count(used), _) => {
            *used <= totals.usage.total() && limits.tokens.is_some_and(|limit| *used >= limit)
        }
        // A prompt that fits into no context, or a price that nobody knows.
        (Measure::Text(_), None) => true,
        _ => false,
    }
}
