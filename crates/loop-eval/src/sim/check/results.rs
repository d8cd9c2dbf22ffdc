//! Results, sections and passes: nothing that was acknowledged is lost, and partial replies decide nothing.

use loop_core::{EventKind, Note, PREAMBLE, Slot, Verdict};

use crate::sim::check::{Checked, Step, must, work};
use crate::sim::world::CUT;

/// I-13: results, passes and actions that were there stay, and a result that was accepted is there.
pub(crate) fn none_is_lost(step: &Step<'_>) -> Checked {
    let check = "I-13 nothing that was recorded is lost";
    let (before, after) = (step.before, step.after);
    for (n, known) in before.evidence().iter().enumerate() {
        let kept = after.evidence().get(n).is_some_and(|now| {
            now.id == known.id && now.key == known.key && now.observation == known.observation
        });
        must(kept, check, || format!("{} is gone", known.id))?;
    }
    let mut reported: Vec<_> = work(before)
        .iter()
        .filter_map(|work| work.observation.as_ref().map(|observation| (work.evidence, observation.digest)))
        .collect();
    if let EventKind::ToolFinished { key, attempt, observation } = &step.event.kind {
        let of = work(before).iter().find(|work| (work.key, work.attempt) == (*key, *attempt));
        reported.extend(of.map(|work| (work.evidence, observation.digest)));
    }
    for (id, digest) in reported {
        let in_batch = work(after).iter().any(|work| {
            let polled = work.poll.as_ref().is_some_and(|poll| poll.last.digest == digest);
            let settled = work.observation.as_ref().is_some_and(|it| it.digest == digest);
            work.evidence == id && (polled || settled)
        });
        let kept = after.evidence().iter().any(|now| now.id == id && now.observation.digest == digest);
        must(in_batch || kept, check, || format!("the result {id} is gone"))?;
    }
    let passes = before.passes();
    let same = after.passes().get(..passes.len()).is_some_and(|now| {
        now.iter().zip(passes).all(|(now, known)| now.reply == known.reply && now.pass == known.pass)
    });
    must(same, check, || "a pass is gone".to_owned())?;
    let actions = after
        .actions()
        .get(..before.actions().len())
        .is_some_and(|now| now.iter().zip(before.actions()).all(|(now, known)| now.key == known.key));
    must(actions, check, || "an action is gone".to_owned())?;
    let Some(outcome) = after.outcome() else { return Ok(()) };
    let whole = outcome.document == *after.document()
        && outcome.evidence == after.evidence()
        && outcome.actions.iter().eq(after.actions().iter().map(|action| &**action))
        && outcome.totals == *after.totals();
    must(whole, check, || "the outcome is not what the run has".to_owned())
}

/// I-18: a section that a reply does not name is as it was.
pub(crate) fn merge_names_its_changes(step: &Step<'_>) -> Checked {
    let merges = || {
        step.notes
            .iter()
            .filter_map(|note| if let Note::Merged { merge, .. } = note { Some(merge) } else { None })
    };
    let is_named = |id: &str| {
        id == PREAMBLE
            || merges().any(|merge| {
                merge.changed.iter().any(|change| &*change.section == id)
                    || merge.identical.iter().any(|same| &**same == id)
            })
    };
    for section in &step.before.document().sections {
        let now = step.after.document().get(&section.id);
        let stays = is_named(&section.id) || now == Some(section);
        must(stays, "I-18 a section that is not named stays", || format!("{} changed", section.id))?;
    }
    Ok(())
}

/// I-19: a reply that broke off runs nothing, makes no pass, and leaves no half section.
pub(crate) fn partial_replies_decide_nothing(step: &Step<'_>) -> Checked {
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
