//! Checks at the end of a run: it ended in time and within its plan, and its journal gives the same run.

use std::sync::Arc;

use loop_core::invariants::bound;
use loop_core::run::WorstCase;
use loop_core::types::Millis;
use loop_core::{Event, EventKind, Run, RunSpec};

use crate::sim::check::{Checked, GhostState, must};
use crate::sim::{Choices, HostileWorld, SimFault, Simulated};

/// One in this many replayed runs is serialised to JSON text.
const AS_TEXT: u64 = 8;

pub(crate) fn endless(bound: u64, run: &Run) -> SimFault {
    let what = format!("more than {bound} events, and the run is {}", run.phase().name());
    SimFault { check: "I-8 a run ends within its bound of events", what }
}

/// Checks a run that is done. `calm_since` is when faults ended, and `now` when the run did.
pub(crate) fn at_the_end(run: &Run, ghost: &GhostState, calm_since: Option<u64>, now: u64) -> Checked {
    must(run.outcome().is_some(), "I-8 a run that is done has an outcome", || run.phase().name().to_owned())?;
    let sub_calls = run.totals().sub_calls;
    must(sub_calls == ghost.sub_calls, "I-21 each sub-call is counted", || {
        format!("{} were charged, {sub_calls} are counted", ghost.sub_calls)
    })?;
    let limits = &run.spec().limits;
    let people = u64::from(limits.passes + 1) * limits.person_ms.unwrap_or_default();
    let most = limits.wall_ms + people + 60_000;
    let took = calm_since.map_or(0, |since| now.saturating_sub(since));
    must(took <= most, "I-8 a run ends in time once faults have ended", || format!("{took} ms of {most} ms"))
}

/// S4-62: a run stays within the plan of its spec. Only usage that a provider reports may exceed it.
pub(crate) fn is_within_plan(run: &Run, spec: &Arc<RunSpec>) -> Checked {
    let (worst, totals) = (WorstCase::of(spec), run.totals());
    let fits = totals.passes <= worst.passes
        && totals.model_calls <= worst.model_calls
        && totals.tool_calls <= worst.tool_calls;
    must(fits, "S4-62 a run stays within its plan", || format!("{totals:?} of {worst:?}"))
}

/// I-11, I-12: the journal gives the same notes and the same state, and each prefix can be resumed and driven to an
/// end.
pub(crate) fn replay(world: &HostileWorld, simulated: &Simulated, seed: u64) -> Checked {
    let check = "I-11 a replay gives the same run";
    let as_text = seed.is_multiple_of(super::REPLAYED * AS_TEXT);
    let mut journal = simulated.journal.iter();
    let Some((first, noted)) = journal.next() else { return Ok(()) };
    let failed = |error: &dyn std::fmt::Display| SimFault { check, what: error.to_string() };
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

fn stored(event: &Event, as_text: bool) -> Result<Event, SimFault> {
    if !as_text {
        return Ok(event.clone());
    }
    let read = serde_json::to_string(event).and_then(|text| serde_json::from_str(&text));
    read.map_err(|error| SimFault { check: "I-11 an event reads back", what: error.to_string() })
}

/// I-12: a prefix can be resumed, and then ends.
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
    for _ in 0..bound(run.spec()) {
        if run.is_done() {
            return Ok(());
        }
        let event = crate::sim::events::next(&mut choices, &run, &[], &mut now);
        let applied = run.apply(&event);
        must(applied.is_ok(), check, || format!("{}: {applied:?}", event.kind.name()))?;
    }
    must(run.is_done(), check, || format!("it is still {}", run.phase().name()))
}
