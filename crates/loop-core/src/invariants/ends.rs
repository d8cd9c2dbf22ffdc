//! The end of a run: one reason, and nothing after it.

use super::view::by_runs;
use super::{Checked, Past, Transition, must};
use crate::gate::Verdict;
use crate::run::{Command, Note, Phase, Run};
use crate::types::Tier;

/// A run that is not done commands something or has a deadline. One that is done has neither.
pub(super) fn a_live_run_is_owed_an_event(run: &Run, _: &Past) -> Checked {
    let is_owed = !run.commands().is_empty() || run.deadline().is_some() || run.waits_for_people();
    must(run.is_done() != is_owed, || match is_owed {
        true => "commands after the end".to_owned(),
        false => format!("nothing leads on from {}", run.phase().name()),
    })
}

/// Once the reason is fixed, what is in flight is aborted, then the outcome is saved, then nothing is commanded.
pub(super) fn silence_after_the_reason(run: &Run, past: &Past) -> Checked {
    let commands = run.commands();
    let fits = |fit: fn(&Command) -> bool| commands.iter().all(fit);
    let is_quiet = match run.phase() {
        Phase::Stopping { .. } => {
            !commands.is_empty() && fits(|command| matches!(command, Command::Abort { .. }))
        }
        Phase::Saving { .. } => fits(|command| matches!(command, Command::Save { .. })),
        Phase::Done { .. } => commands.is_empty() && run.deadline().is_none(),
        _ => return must(past.stops == 0, || "work after the reason was fixed".to_owned()),
    };
    must(is_quiet && past.stops == 1, || format!("{commands:?} after {} reasons", past.stops))
}

/// The reason is fixed once.
pub(super) fn one_reason(step: &Transition<'_>, past: &Past) -> Checked {
    let reasons = step.notes.iter().filter(|note| matches!(note, Note::Stopped { .. })).count();
    must(past.stops as usize + reasons <= 1, || "a second reason".to_owned())?;
    must(!step.before.is_done(), || "an event after the end".to_owned())
}

/// After the reason nothing is admitted, decided, begun or tried again.
pub(super) fn nothing_begins_after_the_reason(step: &Transition<'_>, past: &Past) -> Checked {
    if past.stops == 0 {
        return Ok(());
    }
    for note in step.notes {
        let continues = match note {
            Note::ActionJudged(judged) => !matches!(judged.verdict, Verdict::Ended { .. }),
            Note::GateDecided { .. }
            | Note::AttemptBegan { .. }
            | Note::OutputRejected { .. }
            | Note::CallRetried { .. }
            | Note::Compacted { .. }
            | Note::Stopped { .. }
            | Note::Selected { .. } => true,
            _ => false,
        };
        must(!continues, || format!("{note:?} after the reason was fixed"))?;
    }
    let others = |run: &Run| run.totals().sub_calls + by_runs(run, |used| used.model_calls);
    let begun = |run: &Run| run.totals().model_calls.saturating_sub(others(run));
    must(begun(step.after) <= begun(step.before), || "a call was made after the reason was fixed".to_owned())
}

/// The base tier is restored when the reason is fixed.
pub(super) fn the_base_tier_at_the_end(run: &Run, past: &Past) -> Checked {
    must(past.stops == 0 || run.tier() == Tier::Base, || format!("{:?} at the end", run.tier()))
}

/// The tier is raised once, and another route is taken once.
pub(super) fn escalates_once(step: &Transition<'_>, past: &Past) -> Checked {
    let count = |of: fn(&Note) -> bool| step.notes.iter().filter(|note| of(note)).count();
    let to_escalated = |note: &Note| matches!(note, Note::TierChanged { to: Tier::Escalated, .. });
    let to_fallback = |note: &Note| matches!(note, Note::TierChanged { to: Tier::Fallback, .. });
    let raised = past.raised as usize + count(to_escalated);
    let rerouted = past.rerouted as usize + count(to_fallback);
    let stops = past.stops as usize + count(|note| matches!(note, Note::Stopped { .. }));
    must(raised <= 1, || "the tier was raised twice".to_owned())?;
    must(rerouted <= 1, || "another route was taken twice".to_owned())?;
    must(past.rerouted == 0 || raised == past.raised as usize, || {
        "the tier was raised on another route".to_owned()
    })?;
    let tier = match (rerouted, raised) {
        _ if stops > 0 => Tier::Base,
        (1.., _) => Tier::Fallback,
        (0, 1..) => Tier::Escalated,
        (0, 0) => Tier::Base,
    };
    must(step.after.tier() == tier, || format!("the tier is {:?}, not {tier:?}", step.after.tier()))
}
