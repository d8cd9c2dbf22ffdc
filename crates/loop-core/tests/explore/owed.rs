//! Effects that were asked for, a second time, from the words of the design: what is owed until it ran, and what never
//! happens twice without a person.

use loop_core::gate::{DeniedBy, JudgedAction, Measure, NotDone, WhyNotDone};
use loop_core::types::{Effect, Priority, Status, StopClass};
use loop_core::{Evidence, Note, Run, StopReason, Verdict};

use crate::edge::Edge;
use crate::planned;

/// The effects that are owed and did not happen, with the reason of each, in the order in which they were asked for.
pub fn owed(run: &Run) -> Vec<(&JudgedAction, WhyNotDone)> {
    let spec = run.spec();
    let is_document = spec.protocol.properties().states_confidence;
    let is_effect = |action: &JudgedAction| {
        let tool = action.tool.as_deref().and_then(|name| spec.tool(name));
        tool.is_some_and(|tool| !tool.effect.is_read() && !tool.policy.asks_person)
    };
    let all: Vec<&JudgedAction> =
        run.actions().iter().map(AsRef::as_ref).filter(|it| is_effect(it)).collect();
    let same = |a: &JudgedAction, b: &JudgedAction| a.tool == b.tool && a.parameters == b.parameters;
    let ran = |action: &JudgedAction| {
        action.verdict == Verdict::Run && action.evidence.is_some_and(|id| made(run, id))
    };
    let mut owed: Vec<(&JudgedAction, WhyNotDone)> = Vec::new();
    for action in &all {
        let counts = match action.action.priority {
            Priority::Required => true,
            Priority::Recommended => !is_document,
            Priority::NiceToHave => false,
        };
        let answered = match &action.verdict {
            Verdict::Duplicate { evidence: Some(id), .. } => made(run, *id),
            Verdict::Duplicate { of, .. } => all.iter().any(|it| it.key == *of && ran(it)),
            _ => false,
        };
        let done = all
            .iter()
            .any(|it| ran(it) && (same(it, action) || it.tool == action.tool && it.key > action.key));
        if !counts || answered || done || owed.iter().any(|(it, _)| same(it, action)) {
            continue;
        }
        let verdict = match &action.verdict {
            Verdict::Duplicate { of, .. } => {
                all.iter().find(|it| it.key == *of).map_or(&action.verdict, |it| &it.verdict)
            }
            verdict => verdict,
        };
        let why = match verdict {
            Verdict::Denied { by: DeniedBy::Silence, .. } => WhyNotDone::Expired,
            Verdict::Denied { by: DeniedBy::Policy | DeniedBy::Person, .. } => WhyNotDone::Denied,
            Verdict::UnknownTool { .. }
            | Verdict::InvalidArguments { .. }
            | Verdict::Kept
            | Verdict::Skipped => continue,
            _ => WhyNotDone::NotAdmitted,
        };
        owed.push((action, why));
    }
    owed
}

/// Whether the call with this number was made.
fn made(run: &Run, id: loop_core::types::EvidenceId) -> bool {
    use Status::{Cancelled, Denied, Duplicate, Skipped};
    let found = run.evidence().iter().find(|it| it.id == id);
    found.is_some_and(|it| !matches!(it.observation.status, Cancelled | Denied | Duplicate | Skipped))
}

/// T2: an outcome names each owed effect that did not happen, and is not `answered` beside one. Where the run has a plan, a
/// denied effect that it does not intend is named by itself and changes nothing.
pub fn is_told(edge: &Edge<'_>) -> Result<(), String> {
    let run = edge.after;
    let Some(outcome) = run.outcome() else { return Ok(()) };
    let is_blocked = |it: &&JudgedAction, why: WhyNotDone| {
        why == WhyNotDone::Denied && planned::has_plan(run) && !planned::is_intended(run, it)
    };
    let (blocked, owed): (Vec<_>, Vec<_>) = owed(run).into_iter().partition(|(it, why)| is_blocked(it, *why));
    for (reason, expected) in [(StopReason::EffectNotDone, &owed), (StopReason::EffectBlocked, &blocked)] {
        let also = outcome.stop.also.iter().find(|it| it.reason == reason);
        let told: Vec<_> = match also.map(|it| &it.value) {
            Some(Measure::NotDone(effects)) => {
                effects.iter().map(|NotDone { key, why, .. }| (*key, *why)).collect()
            }
            Some(other) => return Err(format!("{other:?} are no effects")),
            None => Vec::new(),
        };
        let expected: Vec<_> = expected.iter().map(|(it, why)| (it.key, *why)).collect();
        if told != expected {
            return Err(format!("{reason}: {expected:?}, and the outcome says {told:?}"));
        }
    }
    match outcome.stop.class {
        StopClass::Answered if !owed.is_empty() => Err(format!("answered, and {owed:?} are not done")),
        _ => Ok(()),
    }
}

/// T4: a keyed or irreversible write that ran does not run again without a person. A retry under its key is no repeat.
pub fn nothing_happens_twice(edge: &Edge<'_>) -> Result<(), String> {
    if edge.decision().is_none() {
        return Ok(());
    }
    let mut before: Vec<&JudgedAction> = Vec::new();
    for note in edge.notes.iter().take_while(|note| !matches!(note, Note::GateDecided { .. })) {
        let Note::ActionJudged(action) = note else { continue };
        let tool = action.tool.as_deref().and_then(|name| edge.after.spec().tool(name));
        let matters = tool.is_some_and(|tool| {
            matches!(tool.effect, Effect::WriteKeyed | Effect::WriteIrreversible)
                && !tool.policy.repeats.allowed
        });
        if !matters || !matches!(action.verdict, Verdict::Run | Verdict::NeedsPerson { .. }) {
            continue;
        }
        let is_it =
            |it: &&Evidence| Some(&it.tool) == action.tool.as_ref() && it.parameters == action.parameters;
        let last = edge.before.evidence().iter().rev().find(is_it).map(|it| it.observation.status);
        let ran = matches!(last, Some(Status::Ok | Status::Empty | Status::MalformedResult));
        let again =
            ran || before.iter().any(|it| it.tool == action.tool && it.parameters == action.parameters);
        if again && action.verdict == Verdict::Run {
            return Err(format!("{action:?} runs a second time"));
        }
        before.push(action);
    }
    Ok(())
}
