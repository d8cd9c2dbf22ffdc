//! The end of a run: it came within its bound, tells what is in doubt, and its journal gives the same run again.

use std::sync::Arc;

use loop_core::{Event, EventKind, Measure, Millis, Run, RunSpec, StopReason, WorstCase};

use crate::sim::check::{Checked, Ghost, must};
use crate::sim::{Choices, Fault, SimWorld, Simulated};

/// How often a save is tried, and how often the program may end while a tool runs.
const TRIES: u64 = 3;
/// One in so many of the replayed runs goes through JSON text.
const AS_TEXT: u64 = 8;

/// I-8: how many events a run can take, without requests to stop, their withdrawal, instructions, resumes, and refusals
/// by a shared budget.
pub(crate) fn bound(run: &Run) -> u64 {
    bound_of(run.spec())
}

fn bound_of(spec: &RunSpec) -> u64 {
    let limits = &spec.limits;
    let (passes, tool_calls) = (u64::from(limits.passes), u64::from(limits.tool_calls));
    let polls = spec.tools.iter().map(|tool| tool.policy.repeats.polls).max().map_or(0, u64::from);
    let approvals = u64::from(spec.gate.approvals);
    let early = if spec.starts_reads_early() { 2 * tool_calls } else { 0 };
    1 + 3 * u64::from(limits.model_calls)
        + u64::from(spec.selection.enabled)
        + (TRIES + 2 + 3 * polls) * tool_calls
        + early
        + passes * (3 + (1 + approvals) * tool_calls)
        + 6
        + 2 * TRIES
}

pub(crate) fn endless(bound: u64, run: &Run) -> Fault {
    let what = format!("more than {bound} events, and the run is {}", run.phase().name());
    Fault { check: "I-8 a run ends within its bound of events", what }
}

/// What holds of a run that is done. `calm_since` is when faults ended, `now` when the run did.
pub(crate) fn at_the_end(run: &Run, ghost: &Ghost, calm_since: Option<u64>, now: u64) -> Checked {
    let Some(outcome) = run.outcome() else {
        return must(false, "I-8 a run that is done has an outcome", || run.phase().name().to_owned());
    };
    let unknown = ghost.effects.iter().filter(|(_, begun)| begun.runs || begun.unknown);
    let unknown: Vec<String> = unknown.map(|(key, _)| key.to_string()).collect();
    let reported = outcome.stop.also.iter().find(|condition| condition.reason == StopReason::InDoubt);
    let reported: Vec<String> = match reported.map(|condition| &condition.value) {
        Some(Measure::Names(names)) => {
            names.iter().map(|name| name.split(' ').next().unwrap_or_default().to_owned()).collect()
        }
        _ => Vec::new(),
    };
    must(reported == unknown, "H1 an outcome names what is in doubt", || {
        format!("{unknown:?} are in doubt, the outcome names {reported:?}")
    })?;
    let sub_calls = run.totals().sub_calls;
    must(sub_calls == ghost.sub_calls, "I-21 each sub-call is counted", || {
        format!("{} were reported, {sub_calls} are counted", ghost.sub_calls)
    })?;
    let limits = &run.spec().limits;
    let people = u64::from(limits.passes + 1) * limits.person_ms.unwrap_or_default();
    let most = limits.wall_ms + people + 60_000;
    let took = calm_since.map_or(0, |since| now.saturating_sub(since));
    must(took <= most, "I-8 a run ends in time once faults have ended", || format!("{took} ms of {most} ms"))
}

/// S4-62: a run stays within what `loopgate plan` says of its spec. What a provider reports of tokens may exceed it.
pub(crate) fn is_within_plan(run: &Run, spec: &Arc<RunSpec>) -> Checked {
    let (worst, totals) = (WorstCase::of(spec), run.totals());
    let fits = totals.passes <= worst.passes
        && totals.model_calls <= worst.model_calls
        && totals.tool_calls <= worst.tool_calls;
    must(fits, "S4-62 a run stays within its plan", || format!("{totals:?} of {worst:?}"))
}

/// I-11, I-12: the journal gives the same notes and the same state, and each prefix can be resumed and driven to an end.
pub(crate) fn replay(world: &SimWorld, simulated: &Simulated, seed: u64) -> Checked {
    let check = "I-11 a replay gives the same run";
    let as_text = seed.is_multiple_of(super::REPLAYED * AS_TEXT);
    let mut journal = simulated.journal.iter();
    let Some((first, noted)) = journal.next() else { return Ok(()) };
    let failed = |error: &dyn std::fmt::Display| Fault { check, what: error.to_string() };
    let (mut run, notes) =
        Run::open(&stored(first, as_text)?, Arc::clone(&world.spec)).map_err(|error| failed(&error))?;
    must(notes == *noted, check, || "the first notes differ".to_owned())?;
    let cut = 1 + (seed / super::REPLAYED) as usize % simulated.journal.len();
    let mut prefix = (cut == 1).then(|| run.clone());
    for (n, (event, noted)) in journal.enumerate() {
        let notes = run.apply(&stored(event, as_text)?).map_err(|error| failed(&error))?;
        must(notes == *noted, check, || format!("the notes of event {} differ", n + 2))?;
        if n + 2 == cut {
            prefix = Some(run.clone());
        }
    }
    must(run == simulated.run, check, || "the states differ at the end".to_owned())?;
    if as_text {
        let text = serde_json::to_string(run.state()).map_err(|error| failed(&error))?;
        let state = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        let restored = Run::restore(state, Arc::clone(&world.spec)).map_err(|error| failed(&error))?;
        must(restored == run, check, || "the state reads back differently".to_owned())?;
    }
    prefix.map_or(Ok(()), resumes)
}

fn stored(event: &Event, as_text: bool) -> Result<Event, Fault> {
    if !as_text {
        return Ok(event.clone());
    }
    let read = serde_json::to_string(event).and_then(|text| serde_json::from_str(&text));
    read.map_err(|error| Fault { check: "I-11 an event reads back", what: error.to_string() })
}

/// I-12: a prefix is resumed, and ends by itself.
fn resumes(mut run: Run) -> Checked {
    let check = "I-12 a prefix of a journal can be resumed";
    let mut choices = Choices::of_list(Vec::new());
    choices.calm();
    let mut now = run.now().0;
    if !run.is_done() {
        let resumed = Event { at: Millis(now), kind: EventKind::Resumed { away_ms: 0, by: None } };
        let applied = run.apply(&resumed);
        must(applied.is_ok(), check, || format!("{applied:?}"))?;
    }
    for _ in 0..bound(&run) {
        if run.is_done() {
            return Ok(());
        }
        let event = crate::sim::events::next(&mut choices, &run, &[], &mut now);
        let applied = run.apply(&event);
        must(applied.is_ok(), check, || format!("{}: {applied:?}", event.kind.name()))?;
    }
    must(run.is_done(), check, || format!("it is still {}", run.phase().name()))
}
