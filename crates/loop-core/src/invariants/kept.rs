//! A run never loses results, replies or sections.

use super::view::work;
use super::{Checked, Past, Transition, must};
use crate::reply::PREAMBLE;
use crate::run::{EventKind, Note, Run};

/// Results are numbered one by one, and each belongs to one action.
pub(super) fn evidence_is_in_request_order(run: &Run, _: &Past) -> Checked {
    let settled = run.evidence().iter().map(|evidence| evidence.id.0);
    let open = work(run).iter().map(|work| work.evidence.0);
    must(settled.chain(open).zip(1..).all(|(number, expected)| number == expected), || {
        "results are not numbered one by one".to_owned()
    })?;
    for evidence in run.evidence() {
        let mut actions = run.actions().iter().filter(|action| action.evidence == Some(evidence.id));
        let (Some(action), None) = (actions.next(), actions.next()) else {
            return Err(format!("{} does not belong to one action", evidence.id));
        };
        let same = (action.tool_name(), &*action.parameters) == (&*evidence.tool, &*evidence.parameters);
        must(same, || format!("{} is of another action", evidence.id))?;
    }
    Ok(())
}

/// Results and passes stay as they are, and the outcome is what the run has.
pub(super) fn nothing_is_lost(step: &Transition<'_>, _: &Past) -> Checked {
    let (before, after) = (step.before.evidence(), step.after.evidence());
    for (n, evidence) in before.iter().enumerate() {
        let kept = after.get(n).is_some_and(|after| {
            after.id == evidence.id && after.key == evidence.key && after.observation == evidence.observation
        });
        must(kept, || format!("{} is lost", evidence.id))?;
    }
    let mut reported: Vec<_> = work(step.before)
        .iter()
        .filter_map(|work| work.observation.as_ref().map(|observation| (work.evidence, observation.digest)))
        .collect();
    if let EventKind::ToolFinished { key, attempt, observation } = &step.event.kind {
        let of = work(step.before).iter().find(|work| work.key == *key && work.attempt == *attempt);
        reported.extend(of.map(|work| (work.evidence, observation.digest)));
    }
    for (id, digest) in reported {
        let in_batch = work(step.after).iter().any(|work| {
            let polled = work.poll.as_ref().map(|poll| &poll.last);
            let mut held = work.observation.as_deref().into_iter().chain(polled);
            work.evidence == id && held.any(|it| it.digest == digest)
        });
        let kept = after.iter().any(|evidence| evidence.id == id && evidence.observation.digest == digest);
        must(in_batch || kept, || format!("the result {id} is lost"))?;
    }
    let passes = step.before.passes();
    let same = step.after.passes().get(..passes.len()).is_some_and(|after| {
        let mut pairs = after.iter().zip(passes);
        pairs.all(|(after, before)| after.reply == before.reply && after.pass == before.pass)
    });
    must(same, || "a pass is lost".to_owned())?;
    let Some(outcome) = step.after.outcome() else { return Ok(()) };
    let whole = outcome.document == *step.after.document()
        && outcome.evidence == step.after.evidence()
        && outcome.actions.iter().eq(step.after.actions().iter().map(|action| &**action))
        && outcome.totals == *step.after.totals();
    must(whole, || "the outcome is not what the run has".to_owned())
}

/// A section that no merge names stays as it is, and the pass of a section never falls.
pub(super) fn unnamed_sections_stay(step: &Transition<'_>, _: &Past) -> Checked {
    let merges = step.notes.iter().filter_map(|note| match note {
        Note::Merged { merge, .. } => Some(merge),
        _ => None,
    });
    let changed: Vec<&str> =
        merges.clone().flat_map(|merge| &merge.changed).map(|change| &*change.section).collect();
    let identical: Vec<&str> = merges.flat_map(|merge| &merge.identical).map(AsRef::as_ref).collect();
    for section in &step.before.document().sections {
        if changed.contains(&&*section.id) || &*section.id == PREAMBLE {
            continue;
        }
        let Some(after) = step.after.document().get(&section.id) else {
            return Err(format!("section {} is gone without being named", section.id));
        };
        // A section that was sent back unchanged may cite results that have come since.
        let mut expected = section.clone();
        if identical.contains(&&*section.id) && section.evidence.iter().all(|id| after.evidence.contains(id))
        {
            expected.evidence.clone_from(&after.evidence);
            expected.bad_citations.clone_from(&after.bad_citations);
        }
        must(*after == expected, || format!("section {} changed without being named", section.id))?;
    }
    for section in &step.after.document().sections {
        let before = step.before.document().get(&section.id);
        must(before.is_none_or(|before| before.pass <= section.pass), || {
            format!("section {} went back to pass {}", section.id, section.pass)
        })?;
        let is_reported = changed.contains(&&*section.id) || &*section.id == PREAMBLE;
        must(before.is_some() || is_reported, || format!("section {} is in no merge", section.id))?;
    }
    Ok(())
}
