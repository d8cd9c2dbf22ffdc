//! What the walk checks besides the invariants of `loop_core::invariants`, one function each.

use std::sync::Arc;

use loop_core::run::{Phase, Purpose, State};
use loop_core::types::{Slot, Tier};
use loop_core::{Event, EventKind, Note, Run, Verdict};

use crate::edge::{Edge, Ghost, finishes, is_action, work};
use crate::{approvals, early, money, native, oracle, owed, permits, trouble, truth, whole};
use loop_testkit::{found, is_sound, reread};

type Result = std::result::Result<(), String>;
type OfAState = fn(&Run, &Ghost) -> Result;
type OfAStep = fn(&Edge<'_>) -> Result;

/// What holds in every state, by name.
pub const OF_A_STATE: [(&str, OfAState); 8] = [
    ("commands are read, not taken", commands_are_read),
    ("I-1 the reserve", |run, _| money::is_what_is_in_flight(run)),
    ("I-5, S2-14 calls and attempts", |run, _| is_sound(run)),
    ("I-26, K8 approvals are bound", approvals::are_bound),
    ("I-20 evidence order", evidence_in_request_order),
    ("P1 a cheaper tier", whole::a_cheaper_tier_never_speaks_for_the_base_model),
    ("P5 calls of a reply", whole::replies_ask_for_so_many_calls),
    ("eager reads are in place", early::reads_are_in_place),
];

/// What holds at every step, by name.
pub const OF_A_STEP: [(&str, OfAStep); 23] = [
    ("I-5 every call is judged", native::every_call_is_judged_once),
    ("S2-14 an attempt ends once", native::an_attempt_ends_once),
    ("compaction goes on", native::compaction_goes_on),
    ("I-10 the gate", oracle::decides_as_documented),
    ("I-10 what follows a check", oracle::a_check_is_followed),
    ("I-10 true conditions", truth::is_reported),
    ("I-10 all true conditions", whole::every_true_condition_is_told),
    ("P1 tiers as they were", whole::tiers_are_told_as_they_were),
    ("P4 estimated charges", whole::what_is_not_reported_is_estimated),
    ("S4-67 a broken tool is not run", trouble::a_broken_tool_is_not_run),
    ("I-27, K2 what was read is judged", permits::what_was_read_is_judged),
    ("K3 whom an effect reaches", permits::an_effect_reaches_whom_was_named),
    ("L13, K5 an echo decides nothing", permits::an_echo_decides_nothing),
    ("I-10 what ends a run ends it", trouble::what_ends_the_run_ends_it),
    ("T2 what is owed is told", owed::is_told),
    ("T4 nothing happens twice", owed::nothing_happens_twice),
    ("I-19 partial replies", a_partial_reply_runs_nothing),
    ("I-19 what broke off is kept", what_broke_off_is_kept),
    ("I-28 escalation once", escalates_once),
    ("the final pass takes all that is left", money::leaves_all_to_the_final_pass),
    ("the last call is the final pass", the_last_call_is_the_final_pass),
    ("eager reads are used or dropped", early::reads_are_used_or_dropped),
    ("eager reads change nothing", early::reads_change_nothing),
];

fn must(holds: bool, what: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(what()) }
}

fn commands_are_read(run: &Run, _: &Ghost) -> Result {
    must(run.commands() == run.commands(), || "two readings differ".to_owned())
}

/// I-11: a state that is stored and read back is the same, and commands the same.
pub fn survives_a_checkpoint(run: &Run) -> Result {
    let back: State = reread(run.state());
    must(back == *run.state(), || "the state reads back otherwise".to_owned())?;
    let restored = Run::restore(back, Arc::clone(run.spec())).map_err(|error| error.to_string())?;
    must(restored.commands() == run.commands() && restored.deadline() == run.deadline(), || {
        "a restored run commands something else".to_owned()
    })
}

fn evidence_in_request_order(run: &Run, _: &Ghost) -> Result {
    let numbers = run.evidence().iter().map(|evidence| evidence.id.0);
    let open = work(run).iter().map(|work| work.evidence.0);
    must(numbers.chain(open).eq(1..=(run.evidence().len() + work(run).len()) as u32), || {
        "evidence is not numbered one by one".to_owned()
    })?;
    for evidence in run.evidence() {
        let requested = run.actions().iter().filter(|action| action.evidence == Some(evidence.id));
        must(requested.clone().count() == 1, || format!("{} has no action of its own", evidence.id))?;
        let of = requested.map(|action| (action.tool_name(), &*action.parameters)).next();
        must(of == Some((&*evidence.tool, &*evidence.parameters)), || {
            format!("{} is of another action", evidence.id)
        })?;
    }
    commute(run)
}

/// Two tools in flight may end in either order.
fn commute(run: &Run) -> Result {
    let mut open = work(run).iter().filter(|work| work.announced && work.observation.is_none());
    let (Some(first), Some(second)) = (open.next(), open.next()) else { return Ok(()) };
    let finish = |run: &Run, work: &loop_core::run::Work, what: &str| {
        let mut run = run.clone();
        let kind =
            EventKind::ToolFinished { key: work.key, attempt: work.attempt, observation: found(what).into() };
        run.apply(&Event { at: run.now(), kind }).map(|_| run).map_err(|error| error.to_string())
    };
    let there = finish(&finish(run, first, "first")?, second, "second")?;
    let back = finish(&finish(run, second, "second")?, first, "first")?;
    must(there == back, || format!("{} and {} do not commute", first.key, second.key))
}

/// The mark of a text that was cut off.
pub const CUT: &str = "CUT-HERE";

fn a_partial_reply_runs_nothing(edge: &Edge<'_>) -> Result {
    must(edge.after.document().sections.iter().all(|section| !section.body.contains(CUT)), || {
        "half a section was kept".to_owned()
    })?;
    if !matches!(&edge.event.kind, EventKind::ModelFailed { key, .. } if key.slot == Slot::Main || key.slot == Slot::Final)
    {
        return Ok(());
    }
    let runs = edge
        .notes
        .iter()
        .any(|note| matches!(note, Note::ActionJudged(judged) if judged.verdict == Verdict::Run));
    let passed = edge.after.passes().len() > edge.before.passes().len();
    must(!runs && !passed, || "a reply that failed midway was acted on".to_owned())
}

/// The complete sections of a try that broke off are in the document, and count as changes of the pass that another try
/// makes of it.
fn what_broke_off_is_kept(edge: &Edge<'_>) -> Result {
    if let EventKind::ModelFailed { key, failure, .. } = &edge.event.kind
        && matches!(key.slot, Slot::Main | Slot::Final)
        && !edge.after.spec().protocol.properties().native_calls
        && failure.partial.as_ref().is_some_and(|partial| partial.contains("\nKept.\n## "))
    {
        let kept = edge.after.document().sections.iter().any(|section| &*section.body == "Kept.");
        must(kept, || "a complete section of a reply that broke off is lost".to_owned())?;
    }
    let passes = edge.after.passes();
    if passes.len() > edge.before.passes().len()
        && let Some(pass) = passes.last()
    {
        let counted = edge.was.kept.iter().all(|id| pass.changed.iter().any(|changed| **changed == **id));
        must(counted, || format!("{:?} were kept, and pass {} does not say so", edge.was.kept, pass.pass))?;
    }
    Ok(())
}

fn escalates_once(edge: &Edge<'_>) -> Result {
    let next = edge.was.after(edge);
    must(next.past.raised <= 1, || "the tier was raised twice".to_owned())?;
    must(next.repaired.len() as u32 <= edge.after.spec().gate.revision_passes, || {
        "repaired too often".to_owned()
    })?;
    must(next.past.rerouted <= 1, || "another route was taken twice".to_owned())?;
    must(
        next.past.rerouted == 0 || edge.was.past.rerouted == 0 || next.past.raised == edge.was.past.raised,
        || "the tier was raised on another route".to_owned(),
    )?;
    let tier = match (next.past.rerouted, next.past.raised) {
        _ if next.past.stops > 0 => Tier::Base,
        (1.., _) => Tier::Fallback,
        (0, 1..) => Tier::Escalated,
        (0, 0) => Tier::Base,
    };
    must(edge.after.tier() == tier, || format!("the tier is {:?}", edge.after.tier()))
}

fn the_last_call_is_the_final_pass(edge: &Edge<'_>) -> Result {
    let (limits, totals) = (&edge.after.spec().limits, edge.after.totals());
    if let Phase::Calling { call, purpose: Purpose::Main } = edge.after.phase()
        && call.started.is_none()
        && finishes(edge.after)
    {
        let last = totals.passes + 1 >= limits.passes || totals.model_calls + 1 >= limits.model_calls;
        must(!last, || "the last permitted call is no final pass".to_owned())?;
    }
    if matches!(edge.before.phase(), Phase::Calling { purpose: Purpose::Final { .. }, .. }) {
        let admits = edge.notes.iter().any(|note| {
            matches!(note, Note::ActionJudged(judged) if judged.verdict == Verdict::Run && is_action(judged.key))
        });
        let over = matches!(
            edge.after.phase(),
            Phase::Calling { purpose: Purpose::Final { .. }, .. }
                | Phase::Validating(_)
                | Phase::Stopping { .. }
                | Phase::Saving { .. }
                | Phase::Done { .. }
        );
        must(!admits && over, || format!("a final pass was followed by {}", edge.after.phase().name()))?;
    }
    Ok(())
}
