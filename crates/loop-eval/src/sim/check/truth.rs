//! I-10: each condition that a certificate names is true.

use loop_core::{
    Condition, Confidence, EventKind, Measure, Note, Phase, Purpose, Run, StopReason, Validation,
};

use crate::sim::check::{Checked, Ghost, Step, is_reply, must};

/// Each condition of a certificate is true in the state in which the run ended.
pub(crate) fn conditions_hold(step: &Step<'_>, ghost: &Ghost) -> Checked {
    for note in step.notes {
        let Note::Stopped { certificate } = note else { continue };
        for condition in std::iter::once(&certificate.primary).chain(&certificate.also) {
            // What led to a final pass was true when it was decided.
            let is_cause = step.before.phase().final_cause() == Some(condition);
            must(is_cause || holds(step, ghost, condition), "I-10 a reported condition is true", || {
                format!("{condition:?}")
            })?;
        }
    }
    Ok(())
}

fn holds(step: &Step<'_>, ghost: &Ghost, condition: &Condition) -> bool {
    let (run, kind) = (step.after, &step.event.kind);
    let (limits, totals) = (&run.spec().limits, run.totals());
    let is_final = matches!(step.before.phase(), Phase::Calling { purpose: Purpose::Final { .. }, .. });
    // A final pass without a reply leaves room for the one that was its own.
    let own = u32::from(is_final);
    let high = run.passes().last().is_some_and(|pass| pass.counted() == Confidence::High);
    match condition.reason {
        StopReason::ManualStop => ghost.stop.is_some() || step.before.is_stop_requested(),
        StopReason::MaxPasses => {
            totals.passes + own >= limits.passes || run.spec().protocol.output().is_some()
        }
        StopReason::MaxModelCalls => totals.model_calls + own >= limits.model_calls,
        StopReason::Timeout => run.elapsed_ms() + limits.final_pass_ms() >= limits.wall_ms,
        StopReason::Confident => high && run.missing().is_empty(),
        StopReason::EvidenceMissing => !run.missing().is_empty(),
        StopReason::ModelFailure => {
            is_reply(kind)
                || matches!(
                    kind,
                    EventKind::CallRefused { .. } | EventKind::Resumed { .. } | EventKind::DeadlineReached
                )
        }
        StopReason::Completed => match kind {
            EventKind::ModelReplied { reply, .. } => reply.calls.is_empty(),
            EventKind::Validated { result, .. } => *result == Validation::Valid,
            _ => false,
        },
        StopReason::TierChanged => ghost.is_elsewhere || step.before.tier() != loop_core::Tier::Base,
        StopReason::BudgetExceeded | StopReason::TokenLimit => is_spent(run, condition),
        StopReason::SharedBudgetExceeded => {
            let limit = ghost.shared.map(Measure::PicoUsd);
            limit.is_some() && condition.threshold == limit && is_spent(run, condition)
        }
        StopReason::MaxMessages => limits.messages.is_some_and(|limit| run.messages() + 2 * own >= limit),
        StopReason::OutputLimit => matches!(condition.value, Measure::Output(_)),
        StopReason::MaxAttempts => run.spec().protocol.output().is_some_and(|output| {
            output.attempts as usize == run.attempts().len() && matches!(kind, EventKind::Validated { .. })
        }),
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
