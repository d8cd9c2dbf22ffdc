//! Actions and their tries: limits, results, idempotency keys, repeats.

use std::collections::BTreeMap;

use super::past::TryCounts;
use super::view::{by_runs, check, is_action, work};
use super::{Checked, Past, must};
use crate::gate::Verdict;
use crate::policy;
use crate::run::{Command, Phase, Run, RunTool};
use crate::spec::{RepeatScope, Repeats};
use crate::types::{Digest, Evidence, Lease, Status};

/// How often a model call is tried on one route.
const TRIES: u32 = 3;
/// How often the program may end while a tool runs before the tool is given up.
const KILLS: u32 = 3;

/// Passes, model calls, tool calls and selected tools are within their limits.
pub(super) fn limits_hold(run: &Run, _: &Past) -> Checked {
    let (limits, totals) = (&run.spec().limits, run.totals());
    let within = |what: &str, used: u32, limit: u32| {
        must(used <= limit, || format!("{used} {what}, and the limit is {limit}"))
    };
    let leased = |amount: fn(&Lease) -> u32| -> u32 {
        work(run).iter().filter_map(|work| work.lease.as_deref()).map(amount).sum()
    };
    within("passes", totals.passes, limits.passes)?;
    within("model calls", totals.model_calls + leased(|it| it.model_calls), limits.model_calls)?;
    within("tool calls", totals.tool_calls + leased(|it| it.tool_calls), limits.tool_calls)?;
    must(totals.passes as usize == run.passes().len(), || {
        format!("{} passes are counted, {} were read", totals.passes, run.passes().len())
    })?;
    let ran = run.actions().iter().filter(|it| it.key.pass == 0 && it.verdict == Verdict::Run).count();
    must(ran <= limits.selected as usize, || format!("{ran} tools were selected of {}", limits.selected))?;
    // A sub-call is granted only while a call is left for the document.
    let granted = work(run).iter().filter(|work| work.sub_call.is_some()).count();
    must(granted == 0 || totals.model_calls as usize + granted < limits.model_calls as usize, || {
        format!("{granted} sub-calls are granted, after {} calls", totals.model_calls)
    })?;
    let asks = check(run).is_some_and(|check| check.sub_call.is_some());
    must(!asks || totals.model_calls < limits.model_calls, || {
        format!("a check may ask a model, after {} calls", totals.model_calls)
    })
}

/// An action that was admitted has one result or is open, and one that was not has none. What ran was counted.
pub(super) fn every_action_has_its_result(run: &Run, _: &Past) -> Checked {
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
        must(fits, || {
            format!("{} is `{}`, and its result is {:?}", action.key, action.verdict.name(), action.evidence)
        })?;
    }
    let admitted = run.actions().iter().filter(|action| action.evidence.is_some()).count();
    let observed = run.evidence().len() + work(run).len();
    must(admitted == observed, || format!("{admitted} admitted, {observed} observed or open"))?;
    let denied = run.evidence().iter().filter(|evidence| evidence.observation.status == Status::Denied);
    let open_denials = work(run).iter().filter(|work| {
        work.observation.as_ref().is_some_and(|observation| observation.status == Status::Denied)
    });
    // A person's answer is not a tool call.
    let answered = run.actions().iter().filter(|action| {
        let tool = run.spec().tool(action.tool_name());
        let is_question = tool.is_some_and(|tool| tool.policy.asks_person);
        is_question && action.evidence.is_some() && action.verdict == Verdict::Run
    });
    // A tool may itself report that a call was denied.
    let unrun = denied.count() + open_denials.count() + answered.count();
    let by_runs = by_runs(run, |used| used.tool_calls);
    let counted = run.totals().tool_calls.saturating_sub(by_runs) as usize;
    must((observed.saturating_sub(unrun)..=observed).contains(&counted), || {
        format!("{observed} results, {unrun} of them not run, {counted} tool calls counted")
    })
}

/// Each key is commanded once, each try follows the one before it, and a tool runs again only after a result that may be
/// retried.
pub(super) fn every_try_settles_once(run: &Run, past: &Past) -> Checked {
    let mut keys = Vec::new();
    for command in run.commands() {
        let (key, attempt, runs) = match &command {
            Command::CallModel(call) => (call.key, call.attempt, false),
            Command::RunTool(tool) => (tool.key, tool.attempt, true),
            Command::Abort { key, attempt } => (*key, *attempt, false),
            Command::Check(check) => (check.key, check.attempt, false),
            Command::AskPerson { .. } | Command::Save { .. } => continue,
        };
        must(!keys.contains(&key), || format!("{key} is commanded twice"))?;
        keys.push(key);
        if let Command::RunTool(tool) = &command {
            tries_are_few(run, tool, past)?;
        }
        // A call has its tries on each route, and one more after the conversation was compacted for it.
        let is_compacted =
            matches!(run.phase(), Phase::Calling { call, .. } if call.key == key && call.shortened);
        let routes = if past.rerouted > 0 { 2 * TRIES } else { TRIES };
        let max = past.kills_of(key).saturating_add(routes).saturating_add(u32::from(is_compacted));
        must(is_action(key) || attempt <= max, || format!("{key} is tried {attempt} times"))?;
        let Some((settled, status)) = past.settled.get(&key) else { continue };
        // What a person denies takes the number of a try with it.
        let follows = attempt == settled + 1 || run.spec().gate.people && attempt > *settled;
        must(follows, || format!("{key} attempt {attempt} after attempt {settled} settled"))?;
        let again = status.is_none_or(Status::is_retryable);
        must(again || !runs, || format!("{key} runs again after {status:?}"))?;
    }
    Ok(())
}

/// A tool is tried under one key as often as it declares, and each try may be lost three times. A poll is not a try, nor
/// is one that ended with the program. A person who allows it allows all tries anew. A write that may be under way has no
/// such limit, except under `never_rerun`: each further try would be another write if it did not have its key.
fn tries_are_few(run: &Run, tool: &RunTool, past: &Past) -> Checked {
    let TryCounts { failed, lost } = past.tries.get(&tool.key).copied().unwrap_or_default();
    let max = run.spec().tool(&tool.tool).map_or(0, |tool| tool.attempts).max(1);
    let was_polled = tool.attempt.saturating_sub(1) > failed.saturating_add(lost);
    let is_unknown = was_polled || past.effects.get(&tool.key).is_some_and(|begun| begun.unknown);
    if !tool.effect.is_read() && is_unknown && run.spec().repeats() != Repeats::NeverRerun {
        return Ok(());
    }
    must(failed < max, || format!("{} failed {failed} times of {max} and is tried again", tool.key))?;
    must(lost < KILLS.saturating_mul(max), || {
        format!("{} was lost {lost} times and is tried {max} times", tool.key)
    })
}

/// A tool's name, and the parameters of a call.
type ToolAndArgs<'a> = (&'a str, &'a str);

/// Which repeats count together: all of a run, of an attempt, or of a pass.
fn scope_of(run: &Run, pass: u32) -> usize {
    match run.spec().gate.scope {
        RepeatScope::Run => 0,
        RepeatScope::Attempt => run.attempts().iter().filter(|attempt| attempt.from_pass <= pass).count(),
        RepeatScope::Step => pass as usize,
    }
}

/// The results of tools whose repeats are judged, each with its scope and its call.
fn judged(run: &Run) -> impl Iterator<Item = (usize, ToolAndArgs<'_>, &Evidence)> {
    let judged = run.evidence().iter().filter(|it| policy::judges_repeats(run.spec(), &it.tool));
    judged.map(|it| (scope_of(run, it.pass), (&*it.tool, &*it.parameters), it))
}

/// Under `never_rerun` a call that has a final result does not run again, and one in doubt only by a person's consent.
pub(super) fn nothing_done_runs_again(run: &Run, past: &Past) -> Checked {
    if run.spec().repeats() != Repeats::NeverRerun {
        return Ok(());
    }
    let (mut done, mut doubtful) = (Vec::new(), Vec::new());
    // A person who settles a doubt allows one more.
    let mut runs: BTreeMap<_, (u32, u32)> = BTreeMap::new();
    for (scope, call, evidence) in judged(run) {
        let status = evidence.observation.status;
        // What a person denied did not run.
        if status == Status::Denied {
            continue;
        }
        must(!done.contains(&(scope, call)), || format!("{call:?} ran again after it was done"))?;
        let action = run.actions().iter().find(|action| action.evidence == Some(evidence.id));
        let allowed = action.is_some_and(|action| past.approved.contains(&action.key));
        must(!doubtful.contains(&call) || allowed, || format!("{call:?} ran again while it was in doubt"))?;
        // Once a person has allowed it, its new result says what is known of it.
        if allowed {
            doubtful.retain(|known| *known != call);
        }
        match status {
            Status::InDoubt => doubtful.push(call),
            status if status.is_retryable() => {}
            _ => done.push((scope, call)),
        }
        let (count, doubts) = runs.entry((scope, call)).or_default();
        *count += 1;
        *doubts += u32::from(status == Status::InDoubt);
    }
    for ((_, (tool, parameters)), (count, doubts)) in runs {
        let max = run.spec().tool(tool).map_or(0, |tool| tool.attempts).max(1) + doubts;
        must(count <= max, || format!("{tool} {parameters} ran {count} times"))?;
    }
    Ok(())
}

/// Under the other rules of repeats nothing ran too often, and each refusal names its rule.
pub(super) fn repeats_are_refused(run: &Run, _: &Past) -> Checked {
    let repeats = run.spec().repeats();
    for action in run.actions() {
        let Verdict::Duplicate { rule, .. } = &action.verdict else { continue };
        let owes = matches!(repeats, Repeats::Progress | Repeats::ThreeTier);
        must(!owes || rule.is_some(), || format!("{} is a repeat by no rule", action.key))?;
    }
    match repeats {
        Repeats::Progress => no_third_time_the_same(run),
        Repeats::ThreeTier => no_tool_beyond_its_limit(run),
        Repeats::NeverRerun | Repeats::Reuse | Repeats::Off => Ok(()),
    }
}

/// The same call did not return the same a third time with nothing changed since the first.
fn no_third_time_the_same(run: &Run) -> Checked {
    let mut results: BTreeMap<(usize, ToolAndArgs<'_>), (Digest, u32)> = BTreeMap::new();
    let mut changed_in = None;
    for evidence in run.evidence() {
        let Evidence { key, tool, parameters, observation, .. } = evidence;
        let is_read = run.spec().tool(tool).is_some_and(|tool| tool.effect.is_read());
        // A change that failed may have changed something all the same.
        if !is_read {
            results.clear();
            changed_in = Some(key.pass);
        }
        // Whether a read in the batch of a change saw it before or after is not known.
        let counts = is_read && changed_in != Some(key.pass) && observation.status.is_citable();
        if !counts || !policy::judges_repeats(run.spec(), tool) {
            continue;
        }
        let call = (scope_of(run, evidence.pass), (&**tool, &**parameters));
        let seen = results.entry(call).or_insert((observation.digest, 0));
        *seen = if seen.0 == observation.digest { (seen.0, seen.1 + 1) } else { (observation.digest, 1) };
        must(seen.1 <= 2, || format!("{tool} {parameters} returned the same {} times", seen.1))?;
    }
    Ok(())
}

/// No tool ran more often than its limit in the table of `three_tier`.
fn no_tool_beyond_its_limit(run: &Run) -> Checked {
    let rules = &run.spec().gate.three_tier;
    let mut ran: BTreeMap<(usize, &str), u32> = BTreeMap::new();
    for (scope, (tool, _), evidence) in judged(run) {
        *ran.entry((scope, tool)).or_default() += u32::from(!evidence.observation.status.is_unrun());
    }
    for ((_, tool), times) in ran {
        let limit = rules.limits.get(tool).copied().unwrap_or(rules.other);
        must(times <= limit, || format!("{tool} ran {times} times of {limit}"))?;
    }
    Ok(())
}
