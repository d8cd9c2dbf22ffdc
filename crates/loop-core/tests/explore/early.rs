//! Eager reads: reads that start before their reply is complete change nothing but time.

use std::sync::Arc;

use loop_core::run::{Phase, Purpose, State};
use loop_core::spec::Execution;
use loop_core::types::Status;
use loop_core::{Event, EventKind, Note, Run, StopReason};
use serde_json::Value;

use crate::alphabet::Alphabet;
use crate::alphabets::{always, base};
use crate::edge::{Edge, Ghost};
use loop_testkit::{Setup, calls, conversation, failure, found, observed, target, text};

type Result = std::result::Result<(), String>;

fn must(holds: bool, what: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(what()) }
}

fn small(setup: Setup) -> Setup {
    let setup = setup.approving(&["restart"]).limits(|limits| {
        (limits.passes, limits.model_calls, limits.tool_calls) = (3, 2, 2);
        limits.wall_ms = 60_000;
    });
    setup.with(|spec| spec.tools[0].policy.cheap = true)
}

fn with(name: &'static str, setup: Setup, wide: bool) -> Alphabet {
    let look = |names: &[&str]| {
        let wanted: Vec<_> = names.iter().map(|name| ("fetch_device", target(name))).collect();
        calls(&wanted)
    };
    let mut all = vec![
        look(&["a", "b"]),
        look(&["a"]).calling("restart", r#"{"target":"a"}"#).calling("fetch_device", r#"{"target":"c"}"#),
        text("It is done."),
    ];
    if wide {
        all.push(look(&["a", "a", "b"]));
        all.push(look(&["a"]).ending(loop_core::reply::FinishReason::Refusal));
    }
    Alphabet {
        replies: always(all),
        observations: if wide {
            |_| vec![found("it"), observed(Status::RetryableError)]
        } else {
            |_| vec![found("it")]
        },
        failures: vec![failure(true)],
        resumes: vec![0],
        stops: true,
        reaches: &[StopReason::Completed, StopReason::ManualStop],
        ..base(name, setup)
    }
}

/// Reads that start early, one after another.
pub fn in_order(wide: bool) -> Alphabet {
    with("early in order", small(conversation()), wide)
}

/// Reads that start early, side by side.
pub fn side_by_side(wide: bool) -> Alphabet {
    with("early side by side", small(conversation()).parallel(), wide)
}

/// Reads run early only while the reply of a main call is received, and no more than the limit of tool calls allows.
pub fn reads_are_in_place(run: &Run, _: &Ghost) -> Result {
    let (reads, totals) = (run.eager_reads(), run.totals());
    let limit = run.spec().limits.tool_calls;
    must(totals.eager_dropped <= limit, || format!("{} reads were dropped", totals.eager_dropped))?;
    if reads.is_empty() {
        return Ok(());
    }
    let receives =
        matches!(run.phase(), Phase::Calling { call, purpose: Purpose::Main } if call.started.is_some());
    must(receives && run.spec().starts_reads_early(), || format!("reads run while {}", run.phase().name()))?;
    let all = totals.tool_calls + totals.eager_dropped + reads.len() as u32;
    must(all <= limit, || format!("{all} calls were begun"))?;
    for (n, read) in reads.iter().enumerate() {
        let tool = run.spec().tool(&read.tool);
        let is_cheap = tool.is_some_and(|tool| tool.policy.cheap && tool.effect.is_read() && !tool.smart);
        let is_free = tool.is_some_and(|tool| !loop_core::policy::is_forbidden(run.spec(), tool));
        must(is_cheap && is_free, || format!("{} runs early", read.tool))?;
        must(!reads[..n].iter().any(|other| other.key == read.key), || format!("{} runs twice", read.key))?;
    }
    let runs = reads.iter().filter(|read| read.observation.is_none()).count();
    let in_order = run.spec().protocol.execution() != Execution::Parallel;
    must(!in_order || runs <= 1, || format!("{runs} reads at once"))
}

/// Each read is used by one action or dropped, once, and told.
pub fn reads_are_used_or_dropped(edge: &Edge<'_>) -> Result {
    let (before, after) = (edge.before.eager_reads(), edge.after.eager_reads());
    let used = edge.notes.iter().filter(|note| matches!(note, Note::ReadUsed { .. })).count();
    let dropped = edge.notes.iter().filter(|note| matches!(note, Note::ReadDropped(_))).count();
    let begun = usize::from(matches!(edge.event.kind, EventKind::EagerStarted { .. }));
    must(before.len() + begun == after.len() + used + dropped, || {
        format!("of {} reads {used} were used and {dropped} dropped", before.len())
    })?;
    let counted = edge.after.totals().eager_dropped - edge.before.totals().eager_dropped;
    must(counted as usize == dropped, || format!("{counted} of {dropped} dropped reads are counted"))?;
    let is_reply = matches!(edge.event.kind, EventKind::ModelReplied { .. });
    must(used == 0 || is_reply, || format!("{used} reads were used at {}", edge.event.kind.name()))?;
    if let Some(outcome) = edge.after.outcome() {
        let told = outcome.dropped_reads.len() as u32;
        must(told == edge.after.totals().eager_dropped, || format!("{told} dropped reads are told"))?;
    }
    Ok(())
}

/// A run that started reads early comes, with their results, to the state of one that started them after the reply.
pub fn reads_change_nothing(edge: &Edge<'_>) -> Result {
    let reads = edge.before.eager_reads();
    if reads.is_empty() || !matches!(edge.event.kind, EventKind::ModelReplied { .. }) {
        return Ok(());
    }
    let mut state = serde_json::to_value(edge.before.state()).map_err(|error| error.to_string())?;
    strip(&mut state);
    let state: State = serde_json::from_value(state).map_err(|error| error.to_string())?;
    let mut late = Run::restore(state, Arc::clone(edge.before.spec())).map_err(|error| error.to_string())?;
    late.apply(edge.event).map_err(|error| format!("without the reads: {error}"))?;
    for note in edge.notes {
        let Note::ReadUsed { key, attempt, .. } = note else { continue };
        let read = reads.iter().find(|read| (read.key, read.attempt) == (*key, *attempt));
        if let Some(observation) = read.and_then(|read| read.observation.clone()) {
            let kind = EventKind::ToolFinished { key: *key, attempt: *attempt, observation };
            late.apply(&Event { at: edge.event.at, kind })
                .map_err(|error| format!("without the reads: {error}"))?;
        }
    }
    let timeless = |run: &Run| -> std::result::Result<Value, String> {
        let mut state = serde_json::to_value(run.state()).map_err(|error| error.to_string())?;
        strip(&mut state);
        Ok(state)
    };
    let (early, late) = (timeless(edge.after)?, timeless(&late)?);
    must(early == late, || format!("early reads lead to\n{early}\nin place of\n{late}"))
}

/// Takes out what only eager reads write.
fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members
                .retain(|name, _| !["eager", "dropped", "dropped_reads", "eager_dropped"].contains(&&**name));
            members.values_mut().for_each(strip);
        }
        Value::Array(elements) => elements.iter_mut().for_each(strip),
        _ => {}
    }
}
