//! The invariants, one function each: of a state, and of a step from one state to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::Purpose;
use loop_core::{
    Command, Event, EventKind, Measure, Note, Phase, Repeats, Run, RunTool, Slot, State, Status, StopClass,
    StopReason, Tier, Verdict,
};

use crate::edge::{Edge, Ghost, Tries, finishes, is_action, work};
use crate::{approvals, early, money, native, oracle, permits, rank, trouble, truth, whole};
use loop_testkit::{found, is_sound, reread};

type Result = std::result::Result<(), String>;
type OfAState = fn(&Run, &Ghost) -> Result;
type OfAStep = fn(&Edge<'_>) -> Result;

/// What holds in every state, by name.
pub const OF_A_STATE: [(&str, OfAState); 19] = [
    ("commands are read, not taken", commands_are_read),
    ("a live state owes work", a_live_state_owes_work),
    ("I-1 the reserve", |run, _| money::is_what_is_in_flight(run)),
    ("I-4 limits", limits_hold),
    ("I-5, I-32 every action is told", every_action_is_reported),
    ("I-5, S2-14 calls and attempts", |run, _| is_sound(run)),
    ("I-6 idempotency keys", every_try_settles_once),
    ("I-7 no repeat of what is done", no_repeat_of_what_is_done),
    ("I-7, I-32 repeats are refused", permits::repeats_are_refused),
    ("I-25 policy comes first", permits::policy_comes_first),
    ("I-26, K8 approvals are bound", approvals::are_bound),
    ("I-27 taint", permits::taint_asks_a_person),
    ("I-9 silence after the reason", silence_after_the_reason),
    ("W5 effects in doubt are told", effects_in_doubt_are_told),
    ("I-20 evidence order", evidence_in_request_order),
    ("I-28 the base tier at the end", base_tier_at_the_end),
    ("P1 a cheaper tier", whole::a_cheaper_tier_never_speaks_for_the_base_model),
    ("P5 calls of a reply", whole::replies_ask_for_so_many_calls),
    ("eager reads are in place", early::reads_are_in_place),
];

/// What holds at every step, by name.
pub const OF_A_STEP: [(&str, OfAStep); 27] = [
    ("I-8 the rank falls", rank::falls),
    ("I-8 one reason", one_reason),
    ("I-5 every call is judged", native::every_call_is_judged_once),
    ("S2-14 an attempt ends once", native::an_attempt_ends_once),
    ("I-9 nothing after the reason", native::nothing_after_the_reason),
    ("compaction goes on", native::compaction_goes_on),
    ("I-10 the gate", oracle::decides_as_documented),
    ("I-10 true conditions", truth::is_reported),
    ("I-10 all true conditions", whole::every_true_condition_is_told),
    ("P1 tiers as they were", whole::tiers_are_told_as_they_were),
    ("P4 estimated charges", whole::what_is_not_reported_is_estimated),
    ("S4-67 a broken tool is not run", trouble::a_broken_tool_is_not_run),
    ("I-26 an approval counts once", approvals::are_used_once),
    ("I-27, K2 what was read is judged", permits::what_was_read_is_judged),
    ("K3 whom an effect reaches", permits::an_effect_reaches_whom_was_named),
    ("L13, K5 an echo decides nothing", permits::an_echo_decides_nothing),
    ("I-10 what ends a run ends it", trouble::what_ends_the_run_ends_it),
    ("I-12, I-13 nothing is lost", nothing_is_lost),
    ("I-18 merge", what_is_not_named_stays),
    ("I-19 partial replies", a_partial_reply_runs_nothing),
    ("I-19 what broke off is kept", what_broke_off_is_kept),
    ("I-21 the cost", money::is_what_was_charged),
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

fn a_live_state_owes_work(run: &Run, _: &Ghost) -> Result {
    must(run.is_done() || !run.commands().is_empty() || run.deadline().is_some(), || {
        format!("nothing leads on from {:?}", run.phase())
    })
}

fn limits_hold(run: &Run, _: &Ghost) -> Result {
    let (limits, totals) = (&run.spec().limits, run.totals());
    must(totals.passes <= limits.passes, || format!("passes: {totals:?}"))?;
    must(totals.passes as usize == run.passes().len(), || format!("passes: {totals:?}"))?;
    must(totals.model_calls <= limits.model_calls, || format!("model calls: {totals:?}"))?;
    must(totals.tool_calls <= limits.tool_calls, || format!("tool calls: {totals:?}"))?;
    let ran = |action: &&Arc<loop_core::JudgedAction>| action.key.pass == 0 && action.verdict == Verdict::Run;
    must(run.actions().iter().filter(ran).count() <= limits.selected as usize, || {
        "selected tools".to_owned()
    })?;
    // A sub-call is granted only while a call is left for the document.
    let granted = work(run).iter().filter(|work| work.sub_call.is_some()).count() as u32;
    must(granted == 0 || totals.model_calls + granted < limits.model_calls, || {
        format!("{granted} sub-calls are granted, after {} calls", totals.model_calls)
    })?;
    if run.spec().repeats() != Repeats::NeverRerun {
        return Ok(());
    }
    // What was denied did not run, and a person who settles a doubt allows one more.
    let mut runs: BTreeMap<(&str, &str), (u32, u32)> = BTreeMap::new();
    for evidence in run.evidence().iter().filter(|it| it.observation.status != Status::Denied) {
        let (count, doubts) = runs.entry((&evidence.tool, &evidence.parameters)).or_default();
        *count += 1;
        *doubts += u32::from(evidence.observation.status == Status::InDoubt);
    }
    for ((tool, parameters), (count, doubts)) in runs {
        let max = run.spec().tool(tool).map_or(0, |tool| tool.attempts) + doubts;
        must(count <= max, || format!("{tool} {parameters} ran {count} times"))?;
    }
    Ok(())
}

fn every_action_is_reported(run: &Run, _: &Ghost) -> Result {
    for action in run.actions() {
        let ran = action.evidence.is_some();
        let open = matches!(run.phase(), Phase::WaitingForPerson { .. });
        let fits = match &action.verdict {
            Verdict::Run => ran || open,
            // Denied by a person: that was observed. Denied by policy: it was not.
            Verdict::Denied { .. } => true,
            Verdict::InvalidArguments { message, .. } => !ran && !message.is_empty(),
            Verdict::Kept
            | Verdict::UnknownTool { .. }
            | Verdict::Duplicate { .. }
            | Verdict::Skipped
            | Verdict::NeedsPerson { .. }
            | Verdict::OverLimit { .. }
            | Verdict::BreakerOpen { .. }
            | Verdict::OneAtATime
            | Verdict::Ended { .. } => !ran,
        };
        must(fits, || format!("{action:?}"))?;
    }
    let admitted = run.actions().iter().filter(|action| action.evidence.is_some()).count();
    let observed = run.evidence().len() + work(run).len();
    must(admitted == observed, || format!("{admitted} admitted, {observed} observed or open"))?;
    let denied = run.evidence().iter().filter(|evidence| evidence.observation.status == Status::Denied);
    let open_denials = work(run).iter().filter(|work| {
        work.observation.as_ref().is_some_and(|observation| observation.status == Status::Denied)
    });
    // What a person answered was no tool.
    let answered = run.actions().iter().filter(|action| {
        let tool = run.spec().tool(action.tool_name());
        let is_question = tool.is_some_and(|tool| tool.policy.asks_person);
        is_question && action.evidence.is_some() && action.verdict == Verdict::Run
    });
    let ran = observed - denied.count() - open_denials.count() - answered.count();
    must(ran == run.totals().tool_calls as usize, || {
        format!("{ran} tools ran, {} were counted", run.totals().tool_calls)
    })
}

fn every_try_settles_once(run: &Run, ghost: &Ghost) -> Result {
    let mut keys = Vec::new();
    for command in run.commands() {
        let (key, attempt, runs) = match &command {
            Command::CallModel(call) => (call.key, call.attempt, false),
            Command::RunTool(tool) => (tool.key, tool.attempt, true),
            Command::Abort { key, attempt } => (*key, *attempt, false),
            Command::Validate(command) => (command.key, command.attempt, false),
            Command::AskPerson { .. } | Command::Save { .. } => continue,
        };
        must(!keys.contains(&key), || format!("{key} is commanded twice"))?;
        keys.push(key);
        if let Command::RunTool(tool) = &command {
            tries_are_few(run, tool, ghost)?;
        }
        // A call has its tries on each route.
        let max = ghost.kills_of(key) + if ghost.rerouted > 0 { 2 * TRIES } else { TRIES };
        must(is_action(key) || attempt <= max, || format!("{key} is tried {attempt} times"))?;
        let Some((settled, status)) = ghost.settled.get(&key) else { continue };
        must(attempt == settled + 1, || format!("{key} attempt {attempt} after attempt {settled} settled"))?;
        let again = status.is_none_or(Status::is_retryable);
        must(again || !runs, || format!("{key} runs again after {status:?}"))?;
    }
    Ok(())
}

/// A tool is tried under one key as often as it says, and each time it may be lost three times. To be asked again because
/// it was not ready is no try, nor is one that ended with the program, and a person who allows it allows all of them anew.
fn tries_are_few(run: &Run, tool: &RunTool, ghost: &Ghost) -> Result {
    let Tries { failed, lost } = ghost.tries.get(&tool.key).copied().unwrap_or_default();
    let max = run.spec().tool(&tool.tool).map_or(0, |tool| tool.attempts).max(1);
    must(failed < max, || format!("{} failed {failed} times of {max} and is tried again", tool.key))?;
    must(lost < KILLS * max, || format!("{} was lost {lost} times and is tried {max} times", tool.key))
}

/// How often a call is tried in all.
const TRIES: u32 = 3;
/// How often the program may end while a tool runs before the tool is given up.
const KILLS: u32 = 3;

fn no_repeat_of_what_is_done(run: &Run, ghost: &Ghost) -> Result {
    if run.spec().repeats() != Repeats::NeverRerun {
        return Ok(());
    }
    let (mut done, mut doubtful): (Vec<(&str, &str)>, Vec<_>) = (Vec::new(), Vec::new());
    for evidence in run.evidence() {
        let (call, status) = ((&*evidence.tool, &*evidence.parameters), evidence.observation.status);
        must(!done.contains(&call), || format!("{call:?} ran again after it was done"))?;
        // What may have happened is made again by a person's consent alone.
        let action = run.actions().iter().find(|action| action.evidence == Some(evidence.id));
        let allowed = action.is_some_and(|action| ghost.approved.contains(&action.key));
        must(!doubtful.contains(&call) || allowed || status == Status::Denied, || {
            format!("{call:?} ran again while it was in doubt")
        })?;
        match status {
            Status::InDoubt => doubtful.push(call),
            status if status.is_retryable() => {}
            _ => done.push(call),
        }
    }
    Ok(())
}

fn silence_after_the_reason(run: &Run, ghost: &Ghost) -> Result {
    let commands = run.commands();
    let fits = |fit: fn(&Command) -> bool| commands.iter().all(fit);
    let quiet = match run.phase() {
        Phase::Stopping { .. } => {
            !commands.is_empty() && fits(|command| matches!(command, Command::Abort { .. }))
        }
        Phase::Saving { .. } => fits(|command| matches!(command, Command::Save { .. })),
        Phase::Done { .. } => commands.is_empty() && run.deadline().is_none(),
        _ => return must(ghost.stops == 0, || "work after the reason was fixed".to_owned()),
    };
    must(quiet && ghost.stops == 1, || format!("{commands:?} after {} reasons", ghost.stops))
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

/// The certificate of an outcome names each effect that was begun and of which nobody knows what came of it.
fn effects_in_doubt_are_told(run: &Run, ghost: &Ghost) -> Result {
    let Some(outcome) = run.outcome() else { return Ok(()) };
    let unknown = ghost.effects.iter().filter(|(_, begun)| begun.runs || begun.unknown);
    let unknown: Vec<String> = unknown.map(|(key, _)| key.to_string()).collect();
    let reported = outcome.stop.also.iter().find(|condition| condition.reason == StopReason::InDoubt);
    let reported: Vec<String> = match reported.map(|condition| &condition.value) {
        Some(Measure::Names(names)) => {
            names.iter().map(|name| name.split(' ').next().unwrap_or_default().to_owned()).collect()
        }
        Some(other) => return Err(format!("{other:?} are no effects")),
        None => Vec::new(),
    };
    must(reported == unknown, || format!("{unknown:?} are in doubt, told are {reported:?}"))?;
    let is_by_hand = outcome.stop.reason() == StopReason::ManualStop;
    must(unknown.is_empty() || is_by_hand || outcome.stop.class == StopClass::InDoubt, || {
        format!("an effect is in doubt and the class is {:?}", outcome.stop.class)
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
    let finish = |run: &Run, work: &loop_core::Work, what: &str| {
        let mut run = run.clone();
        let kind =
            EventKind::ToolFinished { key: work.key, attempt: work.attempt, observation: found(what).into() };
        run.apply(&Event { at: run.now(), kind }).map(|_| run).map_err(|error| error.to_string())
    };
    let there = finish(&finish(run, first, "first")?, second, "second")?;
    let back = finish(&finish(run, second, "second")?, first, "first")?;
    must(there == back, || format!("{} and {} do not commute", first.key, second.key))
}

fn base_tier_at_the_end(run: &Run, ghost: &Ghost) -> Result {
    must(ghost.stops == 0 || run.tier() == Tier::Base, || format!("{:?} at the end", run.tier()))
}

fn one_reason(edge: &Edge<'_>) -> Result {
    let reasons = edge.notes.iter().filter(|note| matches!(note, Note::Stopped { .. })).count() as u32;
    must(edge.was.stops + reasons <= 1, || "a second reason".to_owned())
}

fn nothing_is_lost(edge: &Edge<'_>) -> Result {
    let (before, after) = (edge.before.evidence(), edge.after.evidence());
    for (n, evidence) in before.iter().enumerate() {
        let kept = after.get(n).is_some_and(|after| {
            after.id == evidence.id && after.key == evidence.key && after.observation == evidence.observation
        });
        must(kept, || format!("{} is lost", evidence.id))?;
    }
    let mut reported: Vec<_> = work(edge.before)
        .iter()
        .filter_map(|work| work.observation.as_ref().map(|observation| (work.evidence, observation.digest)))
        .collect();
    if let EventKind::ToolFinished { key, attempt, observation } = &edge.event.kind {
        let of = work(edge.before).iter().find(|work| work.key == *key && work.attempt == *attempt);
        reported.extend(of.map(|work| (work.evidence, observation.digest)));
    }
    for (id, digest) in reported {
        let in_batch = work(edge.after).iter().any(|work| {
            let polled = work.poll.as_ref().map(|poll| &poll.last);
            let mut held = work.observation.as_deref().into_iter().chain(polled);
            work.evidence == id && held.any(|it| it.digest == digest)
        });
        let kept = after.iter().any(|evidence| evidence.id == id && evidence.observation.digest == digest);
        must(in_batch || kept, || format!("the result {id} is lost"))?;
    }
    let passes = edge.before.passes();
    let same = edge.after.passes().get(..passes.len()).is_some_and(|after| {
        after
            .iter()
            .zip(passes)
            .all(|(after, before)| after.reply == before.reply && after.pass == before.pass)
    });
    must(same, || "a pass is lost".to_owned())?;
    if let Some(outcome) = edge.after.outcome() {
        let whole = outcome.document == *edge.after.document()
            && outcome.evidence == edge.after.evidence()
            && outcome.actions.iter().eq(edge.after.actions().iter().map(|action| &**action))
            && outcome.totals == *edge.after.totals();
        must(whole, || "the outcome is not what the run has".to_owned())?;
    }
    Ok(())
}

fn what_is_not_named_stays(edge: &Edge<'_>) -> Result {
    let merges = edge.notes.iter().filter_map(|note| match note {
        Note::Merged { merge, .. } => Some(merge),
        _ => None,
    });
    let changed: Vec<&str> =
        merges.clone().flat_map(|merge| &merge.changed).map(|change| &*change.section).collect();
    let identical: Vec<&str> = merges.flat_map(|merge| &merge.identical).map(AsRef::as_ref).collect();
    for section in &edge.before.document().sections {
        if changed.contains(&&*section.id) || &*section.id == loop_core::PREAMBLE {
            continue;
        }
        let Some(after) = edge.after.document().get(&section.id) else {
            return Err(format!("section {} is gone without being named", section.id));
        };
        // What came back as it was may cite what has come since.
        let mut expected = section.clone();
        if identical.contains(&&*section.id) && section.evidence.iter().all(|id| after.evidence.contains(id))
        {
            expected.evidence.clone_from(&after.evidence);
        }
        must(*after == expected, || format!("section {} changed without being named", section.id))?;
    }
    for section in &edge.after.document().sections {
        let before = edge.before.document().get(&section.id);
        must(before.is_none_or(|before| before.pass <= section.pass), || {
            format!("section {} went back to pass {}", section.id, section.pass)
        })?;
        let is_reported = changed.contains(&&*section.id) || &*section.id == loop_core::PREAMBLE;
        must(before.is_some() || is_reported, || format!("section {} came from nowhere", section.id))?;
    }
    Ok(())
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
    must(next.raised <= 1, || "the tier was raised twice".to_owned())?;
    must(next.repaired.len() as u32 <= edge.after.spec().gate.revision_passes, || {
        "repaired too often".to_owned()
    })?;
    must(next.rerouted <= 1, || "another route was taken twice".to_owned())?;
    must(next.rerouted == 0 || edge.was.rerouted == 0 || next.raised == edge.was.raised, || {
        "the tier was raised on another route".to_owned()
    })?;
    let tier = match (next.rerouted, next.raised) {
        _ if next.stops > 0 => Tier::Base,
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
                | Phase::Stopping { .. }
                | Phase::Saving { .. }
                | Phase::Done { .. }
        );
        must(!admits && over, || format!("a final pass was followed by {}", edge.after.phase().name()))?;
    }
    Ok(())
}
