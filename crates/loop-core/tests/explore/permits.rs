//! What may run, and what was run again: policy before effects, approvals, taint, and the rules of repeats.

use std::collections::BTreeMap;

use loop_core::{
    Command, Digest, Effect, Evidence, JudgedAction, Repeats, Run, Status, Taint, Verdict, policy,
};

use crate::edge::{Ghost, work};

type Result = std::result::Result<(), String>;

fn must(holds: bool, what: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(what()) }
}

/// The tools that are wished, each with the action that it is run for.
fn wished(run: &Run) -> Vec<(loop_core::RunTool, &JudgedAction)> {
    let wishes = run.commands().into_iter().filter_map(|wish| match wish {
        Command::RunTool(tool) => Some(tool),
        _ => None,
    });
    let action = |tool: &loop_core::RunTool| {
        let work =
            work(run).iter().find(|work| work.key == tool.key && work.attempt == tool.attempt).unwrap();
        &run.actions()[work.action as usize]
    };
    wishes.map(|tool| (tool.clone(), action(&tool))).collect()
}

/// I-25, S4-9, S4-63: what is run was judged, was let run, and is exactly what was judged.
pub fn policy_comes_first(run: &Run, ghost: &Ghost) -> Result {
    for (tool, action) in wished(run) {
        let same = *tool.tool == *action.tool_name() && tool.parameters == action.parameters;
        must(same && action.verdict == Verdict::Run, || format!("{tool:?} runs for {action:?}"))?;
        let spec = run.spec().tool(&tool.tool).unwrap();
        must(!policy::is_barred(run.spec(), spec), || format!("{} never runs", tool.tool))?;
        let consented = spec.effect.is_read()
            || policy::approves(run.spec(), &tool.tool)
            || ghost.approved.contains(&action.key);
        must(consented, || format!("{} changes something, and nobody agreed", tool.key))?;
    }
    Ok(())
}

/// I-27, K2: after something untrusted was read no effect comes unless a person allowed it.
pub fn taint_asks_a_person(run: &Run, ghost: &Ghost) -> Result {
    if run.spec().gate.taint == Taint::Off {
        return Ok(());
    }
    let untrusted = |evidence: &&Evidence| {
        let tool = run.spec().tool(&evidence.tool);
        tool.is_some_and(|tool| tool.policy.returns_untrusted)
            && !matches!(evidence.observation.status, Status::Denied | Status::Duplicate | Status::Skipped)
    };
    let first = run.evidence().iter().filter(untrusted).map(|evidence| evidence.pass).min();
    for (tool, action) in wished(run) {
        let read_before = first.is_some_and(|first| first < action.key.pass);
        let is_asked = tool.effect != Effect::Read && read_before;
        must(!is_asked || ghost.approved.contains(&action.key), || {
            format!("{} {} runs after pass {first:?} was read", tool.key, tool.tool)
        })?;
    }
    Ok(())
}

/// I-7, I-32: by the rules of repeats in force nothing ran too often, and what was refused says why.
pub fn repeats_are_refused(run: &Run, _: &Ghost) -> Result {
    let repeats = run.spec().repeats();
    for action in run.actions() {
        let Verdict::Duplicate { rule, .. } = &action.verdict else { continue };
        let owes = matches!(repeats, Repeats::Progress | Repeats::ThreeTier);
        must(!owes || rule.is_some(), || format!("{action:?} says no rule"))?;
    }
    match repeats {
        Repeats::Progress => no_third_time_the_same(run),
        Repeats::ThreeTier => no_tool_beyond_its_limit(run),
        Repeats::NeverRerun | Repeats::Reuse | Repeats::Off => Ok(()),
    }
}

/// The same call did not bring the same a third time with nothing changed since the first.
fn no_third_time_the_same(run: &Run) -> Result {
    let mut told: BTreeMap<(&str, &str), (Digest, u32)> = BTreeMap::new();
    for Evidence { tool, parameters, observation, .. } in run.evidence() {
        let is_read = run.spec().tool(tool).is_some_and(|tool| tool.effect.is_read());
        // A change that failed may have changed something all the same.
        if !is_read {
            told.clear();
        }
        if !is_read || !observation.status.is_citable() {
            continue;
        }
        let call = told.entry((tool, parameters)).or_insert((observation.digest, 0));
        *call = if call.0 == observation.digest { (call.0, call.1 + 1) } else { (observation.digest, 1) };
        must(call.1 <= 2, || format!("{tool} {parameters} brought the same {} times", call.1))?;
    }
    Ok(())
}

/// S3-14 to S3-18, I-4: no tool ran more often than its limit.
fn no_tool_beyond_its_limit(run: &Run) -> Result {
    let rules = &run.spec().gate.three_tier;
    let mut ran: BTreeMap<&str, u32> = BTreeMap::new();
    for evidence in run.evidence() {
        *ran.entry(&evidence.tool).or_default() += 1;
    }
    for (tool, times) in ran {
        let limit = rules.limits.iter().find(|(name, _)| **name == *tool).map_or(rules.other, |(_, n)| *n);
        must(times <= limit, || format!("{tool} ran {times} times of {limit}"))?;
    }
    Ok(())
}
