//! Conversations and typed outputs: the gate a second time, from the words of its documentation, and what holds at
//! every step where calls are native.

use std::sync::Arc;

use loop_core::gate::JudgedAction;
use loop_core::reply::{FinishReason, Reply};
use loop_core::run::{AttemptState, CheckSubject, Checking, Decision, Phase, Purpose, Refusal};
use loop_core::types::{CommandKey, Slot, Status};
use loop_core::{EventKind, Note, Run, StopReason, Verdict};
use serde_json::Value;

use crate::edge::{self, Edge};
use crate::oracle::{self, Expected};

type Result = std::result::Result<(), String>;

fn must(holds: bool, what: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(what()) }
}

/// What must follow a reply.
pub fn expected(edge: &Edge<'_>, decision: &Decision) -> Expected {
    let EventKind::ModelReplied { reply, .. } = &edge.event.kind else { return Expected::Stop(Vec::new()) };
    let (run, spec) = (edge.after, edge.after.spec());
    let (limits, gate, totals) = (&spec.limits, &spec.gate, run.totals());
    let cause = match edge.before.phase() {
        Phase::Calling { purpose: Purpose::Final { cause }, .. } => Some(cause.reason),
        _ => None,
    };
    let requested = oracle::requested(edge, decision);
    let asks = if gate.people { requested.person } else { 0 };
    let is_open = requested.run + asks > 0;
    // 1: a stop that was asked for; then what a final pass was entered for.
    let requested_for = edge.before.is_stop_requested().then_some(StopReason::ManualStop);
    let mut reasons: Vec<StopReason> = requested_for.into_iter().chain(cause).collect();
    let ends = spec
        .protocol
        .output()
        .is_some_and(|output| calls(reply, output.submit.as_deref().unwrap_or(&output.tool)));
    let has_output = run.attempts().last().is_some_and(|attempt| attempt.output.is_some());
    let says = edge.was.trouble.says(edge);
    let lacks = lacks_before_output(edge);
    // T5: a refusal or an escalation precedes an output, and what else the reply asks for precedes both.
    let refuses =
        matches!(reply.finish, FinishReason::Refusal | FinishReason::Filtered) || calls(reply, "refuse");
    let escalates = calls(reply, "escalate");
    if reasons.is_empty() && ends && has_output && !says.denial && !lacks && !refuses && !escalates {
        return Expected::Check { runs: requested.run };
    }
    let mut add = |reason: StopReason, holds: bool| {
        if holds && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    };
    // 2: the limits, that of the attempt first.
    add(StopReason::MaxPasses, attempt_is_over(run));
    let answers = spec.protocol.output().is_none();
    let finishes = answers && gate.final_pass;
    // Without a final pass those of passes and model calls are asked about before the next call.
    let acts_last = answers && !gate.final_pass;
    let next = oracle::forbids_the_next(run);
    let held_ms = if cause.is_some() || !finishes { 0 } else { (limits.wall_ms / 4).min(30_000) };
    add(StopReason::MaxPasses, !acts_last && next.contains(&StopReason::MaxPasses));
    add(StopReason::BudgetExceeded, limits.cost.is_some_and(|limit| totals.cost.known >= limit));
    add(StopReason::TokenLimit, limits.tokens.is_some_and(|limit| totals.usage.total() >= limit));
    add(StopReason::MaxModelCalls, !acts_last && next.contains(&StopReason::MaxModelCalls));
    add(StopReason::Timeout, run.elapsed_ms() >= limits.wall_ms - held_ms);
    // A denial that ends the run.
    add(StopReason::Refused, says.denial);
    let is_free = reasons.is_empty();
    let mut add = |reason: StopReason, holds: bool| {
        if holds && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    };
    // 4: what the reply ends.
    add(StopReason::Refused, refuses && !is_open);
    add(StopReason::NeedsHuman, escalates && !is_open);
    if reply.calls.is_empty() && !refuses {
        let is_cut = matches!(reply.finish, FinishReason::MaxTokens | FinishReason::Capped);
        let lacks = oracle::missing(run) > 0;
        // A blank answer is asked for again, unless it ends the run.
        let is_blank = reply.text.trim().is_empty();
        let is_answer = answers && !is_cut && !is_blank;
        add(StopReason::InvalidResponse, !answers);
        add(StopReason::OutputLimit, answers && is_cut);
        add(StopReason::Refused, answers && !is_cut && is_blank);
        add(StopReason::EvidenceMissing, is_answer && lacks);
        add(StopReason::Completed, is_answer && !lacks && cause.is_none());
    }
    add(StopReason::EvidenceMissing, ends && has_output && lacks);
    add(StopReason::SubmitBeforeOutput, ends && !has_output);
    if !is_open && requested.kept == 0 {
        add(StopReason::NeedsHuman, says.opened);
        if let Some(reason) = says.broken {
            add(reason, idle(edge) > 1);
        }
    }
    add(StopReason::NeedsHuman, requested.person > 0 && !is_open);
    add(StopReason::MaxToolCalls, requested.over > 0 && !is_open);
    // 6: passes in a row in which nothing could run.
    let nothing_runs = requested.all > 0 && requested.kept == 0 && !is_open;
    if nothing_runs && gate.no_progress > 0 && idle(edge) >= gate.no_progress {
        add(StopReason::PolicyBlocked, requested.denied == requested.all);
        add(StopReason::NoProgress, true);
    }
    let may_revise = (edge.was.repaired.len() as u32) < gate.revision_passes;
    let is_free = is_free && (!acts_last || next.is_empty());
    if is_free && may_revise && reasons.first() == Some(&StopReason::EvidenceMissing) {
        return Expected::Revise;
    }
    let Some(first) = reasons.first().copied() else {
        return Expected::Act { runs: requested.run, asks, escalates: false };
    };
    if acts_last {
        reasons.extend(next);
    }
    if edge.was.after(edge).cut && !reasons.contains(&StopReason::OutputLimit) {
        reasons.push(StopReason::OutputLimit);
    }
    let leaves_one = match first {
        StopReason::Timeout => run.elapsed_ms() < limits.wall_ms,
        StopReason::MaxToolCalls | StopReason::NoProgress => true,
        _ => false,
    };
    let speaks = reply.calls.is_empty() && !refuses;
    let fits = limits.messages.is_none_or(|limit| run.messages() <= limit);
    // An answer that was to be repaired is there already.
    let has_answer = !edge.was.repaired.is_empty();
    if edge.was.past.is_elsewhere {
        reasons.push(StopReason::TierChanged);
    }
    let finishes = finishes && leaves_one && cause.is_none() && !speaks && fits && !has_answer;
    if finishes { Expected::FinalPass } else { Expected::Stop(reasons) }
}

/// Whether a required tool was not observed, and the reply that ends with an output does not run it either.
fn lacks_before_output(edge: &Edge<'_>) -> bool {
    let run = edge.after;
    let runs = |name: &str| {
        edge.notes.iter().any(|note| {
            matches!(note, Note::ActionJudged(judged) if judged.verdict == Verdict::Run && judged.tool_name() == name)
        })
    };
    let observed =
        |name: &str| run.evidence().iter().any(|it| &*it.tool == name && it.observation.status.is_citable());
    run.spec().gate.required_tools.iter().any(|name| !observed(name) && !runs(name))
}

/// Whether the attempt has had all the passes that it may take.
pub fn attempt_is_over(run: &Run) -> bool {
    run.spec().protocol.output().zip(run.attempts().last()).is_some_and(|(output, attempt)| {
        run.passes().len() as u32 - (attempt.from_pass - 1) >= output.passes_per_attempt
    })
}

/// The passes of the attempt, up to this one, in a row in which nothing could run.
fn idle(edge: &Edge<'_>) -> u32 {
    let began = edge.before.attempts().last().map_or(1, |attempt| attempt.from_pass);
    let moved = |pass: u32| {
        let actions = edge.before.actions();
        actions.iter().enumerate().any(|(at, action)| {
            let moves = match action.verdict {
                Verdict::Run | Verdict::Kept | Verdict::NeedsPerson { .. } => true,
                // The first refusal of a call is no repeat.
                Verdict::Denied { .. } => !was_denied(&actions[..at], action),
                _ => false,
            };
            action.key.pass == pass && moves
        })
    };
    let earlier = (began..edge.before.passes().len() as u32 + 1).rev();
    1 + earlier.take_while(|pass| !moved(*pass)).count() as u32
}

/// Whether the same call was denied before.
pub fn was_denied(before: &[Arc<JudgedAction>], action: &JudgedAction) -> bool {
    let same = |it: &JudgedAction| it.tool == action.tool && it.parameters == action.parameters;
    before.iter().any(|it| same(it) && matches!(it.verdict, Verdict::Denied { .. }))
}

fn calls(reply: &Reply, name: &str) -> bool {
    reply.calls.iter().any(|call| &*call.name == name)
}

/// I-5, S1-25: every call of a reply is judged once, in its place; and no verdict changes but a person's.
pub fn every_call_is_judged_once(edge: &Edge<'_>) -> Result {
    if !edge.after.spec().protocol.properties().native_calls {
        return Ok(());
    }
    let (before, after) = (edge.before.actions(), edge.after.actions());
    for (was, is) in before.iter().zip(after) {
        let same = (was.key, &was.action, &was.tool) == (is.key, &is.action, &is.tool);
        let may_change = matches!(was.verdict, Verdict::NeedsPerson { .. })
            || was.evidence.is_none() && was.verdict == Verdict::Run;
        must(same && (was.verdict == is.verdict || may_change), || format!("{was:?} became {is:?}"))?;
    }
    let new = after.get(before.len()..).ok_or("an action is lost")?;
    let read = edge.after.passes().len() > edge.before.passes().len();
    let requested = match &edge.event.kind {
        // In its order as many as a reply may ask for.
        EventKind::ModelReplied { reply, .. } if read => {
            let limit = edge.after.spec().limits.requested_calls as usize;
            reply.calls.get(..limit).unwrap_or(&reply.calls)
        }
        _ => &[],
    };
    must(new.len() == requested.len(), || format!("{} calls, {} verdicts", requested.len(), new.len()))?;
    let pass = edge.after.passes().len() as u32;
    for (n, (call, judged)) in (0..).zip(requested.iter().zip(new)) {
        let same = (&call.id, &call.name, &call.arguments)
            == (&judged.action.id, &judged.action.tool, &judged.action.parameters);
        must(same && judged.key == loop_core::types::CommandKey::new(pass, Slot::Action(n)), || {
            format!("{call:?} was judged as {judged:?}")
        })?;
        let is_it = |note: &&Note| matches!(note, Note::ActionJudged(reported) if reported.key == judged.key);
        let reported = edge.notes.iter().filter(is_it).count();
        must(reported == 1, || format!("{} was told {reported} times", judged.key))?;
    }
    Ok(())
}

/// S2-14, S2-17, S2-71, S2-75: an attempt ends once, by a validation, and with the last output that was read.
pub fn an_attempt_ends_once(edge: &Edge<'_>) -> Result {
    let (before, after) = (edge.before.attempts(), edge.after.attempts());
    for (n, (was, is)) in before.iter().zip(after).enumerate() {
        let validated = matches!(edge.event.kind, EventKind::Checked { .. });
        let fits = match (&was.state, &is.state) {
            (AttemptState::Open, AttemptState::Open | AttemptState::Ends) => true,
            (AttemptState::Ends, AttemptState::Ends) => {
                let is_same = was.output == is.output || is.output == sound_output(edge);
                is_same && !validated || edge.after.outcome().is_some()
            }
            (AttemptState::Ends, AttemptState::Rejected(_) | AttemptState::Valid) => {
                was.output == is.output && validated
            }
            _ => was == is,
        };
        must(fits && was.from_pass == is.from_pass, || format!("attempt {}: {was:?} became {is:?}", n + 1))?;
    }
    let began = edge.notes.iter().filter(|note| matches!(note, Note::AttemptBegan { .. })).count();
    must(after.len() == before.len() + began && began <= 1, || format!("{began} attempts began"))?;
    if let (EventKind::ModelReplied { reply, .. }, Some(was), Some(is)) =
        (&edge.event.kind, before.last(), after.last())
    {
        let new = edge.after.actions().get(edge.before.actions().len()..).unwrap_or_default();
        let last = last_output(edge.after, reply, new).or_else(|| was.output.as_deref().map(str::to_owned));
        must(is.output.as_deref() == last.as_deref(), || format!("{last:?} was said last, {is:?} is kept"))?;
    }
    if let (EventKind::ToolFinished { .. }, Some(is)) = (&edge.event.kind, after.last())
        && edge.after.spec().protocol.output().is_some_and(|output| output.submit.is_some())
        && edge.after.evidence().len() > edge.before.evidence().len()
    {
        let sound = sound_output(edge);
        must(is.output == sound, || format!("{sound:?} was read last, {is:?} is kept"))?;
    }
    if let Phase::Validating(Checking { about: CheckSubject::Output { text: output }, .. }) =
        edge.after.phase()
    {
        let of = after.last().and_then(|attempt| attempt.output.as_ref());
        must(of == Some(output), || format!("{output} is validated, {of:?} is the last output"))?;
    }
    Ok(())
}

/// How a call was answered, or the one that it repeats.
fn answered(run: &Run, action: &JudgedAction) -> Option<Status> {
    let of = |key: &CommandKey| run.evidence().iter().find(|it| it.key == *key).map(|it| it.id);
    let id = match &action.verdict {
        Verdict::Duplicate { of: key, evidence, .. } => evidence.or(of(key)),
        _ => action.evidence,
    };
    run.evidence().iter().find(|it| Some(it.id) == id).map(|it| it.observation.status)
}

/// The last output of the attempt that no tool has said to be none, by what has settled.
fn sound_output(edge: &Edge<'_>) -> Option<Arc<str>> {
    let run = edge.after;
    let (output, attempt) = (run.spec().protocol.output()?, run.attempts().last()?);
    let is_sound = |action: &&Arc<JudgedAction>| {
        let counts = matches!(action.verdict, Verdict::Run | Verdict::Duplicate { .. });
        let is_of = action.tool_name() == &*output.tool && action.key.pass >= attempt.from_pass;
        counts && is_of && answered(run, action) != Some(Status::InvalidInput)
    };
    let last = run.actions().iter().rev().find(is_sound);
    last.map(|action| Arc::clone(action.action.parameters.text()))
}

/// The arguments of the last output in a reply; with a reflection only if they can be read and no limit was reached.
fn last_output(run: &Run, reply: &Reply, judged: &[Arc<JudgedAction>]) -> Option<String> {
    let output = run.spec().protocol.output()?;
    let counts = |(call, judged): &(&loop_core::types::ToolCall, &Arc<JudgedAction>)| {
        let value: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let is_over = matches!(judged.verdict, Verdict::OverLimit { .. });
        let fits = value["target"].is_string() && answered(run, judged) != Some(Status::InvalidInput);
        call.name == output.tool && (output.submit.is_none() || fits && !is_over)
    };
    let last = reply.calls.iter().zip(judged).rev().find(counts);
    last.map(|(call, _)| call.arguments.to_string())
}

/// A conversation gives way from its beginning on: first what stands before the run, then half of what is whole.
pub fn compaction_goes_on(edge: &Edge<'_>) -> Result {
    let shown = |run: &Run| (run.compacted_through(), run.is_history_compacted());
    let ((was, reported_before), now) = (shown(edge.before), shown(edge.after));
    let spec = edge.after.spec();
    let refused = matches!(
        &edge.event.kind,
        EventKind::CallRefused { key, refusal: Refusal::Context, .. } if matches!(key.slot, Slot::Main | Slot::Final)
    );
    let passes = edge.before.passes().len() as u32;
    // L4: what its provider finds too long, once a call.
    let found_too_long = match &edge.event.kind {
        EventKind::ModelFailed { failure, .. }
            if failure.kind == loop_core::types::FailureKind::ContextTooLong =>
        {
            edge::call(edge.before).is_some_and(|call| !call.shortened) && !edge.before.is_stop_requested()
        }
        _ => false,
    };
    let refused = refused || found_too_long;
    let next = if !refused || !spec.protocol.properties().native_calls {
        (was, reported_before)
    } else if edge.after.started().history.is_some() && !reported_before {
        (was, true)
    } else {
        (was + (passes - was).div_ceil(2), reported_before)
    };
    must(now == next, || format!("{now:?} is shown in short, not {next:?}"))?;
    let gave_up = refused && now == (was, reported_before);
    must(
        !gave_up
            || spec.protocol.output().is_none() && !spec.protocol.properties().native_calls
            || edge.after.outcome().is_some(),
        || "nothing is left to shorten, and the run goes on".to_owned(),
    )?;
    let odd = edge.after.evidence().iter().find(|evidence| evidence.shortened != (evidence.pass <= now.0));
    must(!spec.protocol.properties().native_calls || odd.is_none(), || {
        format!("{odd:?} while {now:?} is shown in short")
    })
}
