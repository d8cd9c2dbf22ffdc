//! What holds in every state: limits, silence after the reason, the order of evidence, and what is commanded.

use std::collections::BTreeMap;

use loop_core::policy::{self, Taint};
use loop_core::{
    Command, Effect, Phase, RepeatScope, Repeats, Run, RunTool, Status, TaintRule, Tier, ToolSpec, Verdict,
};

use crate::sim::check::{Checked, Ghost, is_working, must, work};

/// How often a call to a model is tried on one route, without the tries that ended with the program.
const TRIES: u32 = 3;

/// I-8: a run that is not done has work to do, or an instant to wait for.
pub(crate) fn leads_on(run: &Run) -> Checked {
    let leads = run.is_done() || !run.commands().is_empty() || run.deadline().is_some();
    must(leads, "I-8 a run that is not done has something to do", || run.phase().name().to_owned())
}

/// I-4: no limit of a count is exceeded.
pub(crate) fn is_within_limits(run: &Run) -> Checked {
    let (limits, totals) = (&run.spec().limits, run.totals());
    let check = "I-4 no limit is exceeded";
    let fits = totals.passes <= limits.passes
        && totals.model_calls <= limits.model_calls
        && totals.tool_calls <= limits.tool_calls
        && totals.passes as usize == run.passes().len();
    must(fits, check, || format!("{totals:?}"))?;
    let is_selected = |action: &&std::sync::Arc<loop_core::JudgedAction>| {
        action.key.pass == 0 && action.verdict == Verdict::Run
    };
    let selected = run.actions().iter().filter(is_selected).count();
    must(selected <= limits.selected as usize, check, || format!("{selected} tools were selected"))
}

/// I-9, I-28: after the reason only aborts, then a save; and the run is on its base tier again.
pub(crate) fn is_silent_after_the_reason(run: &Run, ghost: &Ghost) -> Checked {
    must(ghost.stops <= 1, "I-8 one reason", || format!("{} reasons were fixed", ghost.stops))?;
    if is_working(run) {
        return must(ghost.stops == 0, "I-9 no work after the reason", || run.phase().name().to_owned());
    }
    let commands = run.commands();
    let quiet = match run.phase() {
        Phase::Stopping(_) => {
            !commands.is_empty() && commands.iter().all(|command| matches!(command, Command::Abort { .. }))
        }
        Phase::Saving { .. } => commands.iter().all(|command| matches!(command, Command::Save { .. })),
        _ => commands.is_empty() && run.deadline().is_none(),
    };
    must(quiet && ghost.stops == 1, "I-9 only aborts and a save after the reason", || {
        format!("{commands:?}")
    })?;
    must(run.tier() == Tier::Base, "I-28 the base tier at the end", || format!("{:?}", run.tier()))
}

/// I-5, I-20: evidence is numbered in the order of its requests, and each result is that of its action.
pub(crate) fn numbers_evidence(run: &Run) -> Checked {
    let check = "I-20 evidence is in the order of its requests";
    let settled = run.evidence().iter().map(|evidence| evidence.id.0);
    let open = work(run).iter().map(|work| work.evidence.0);
    let count = run.evidence().len() + work(run).len();
    must(settled.chain(open).eq(1..=count as u32), check, || "the numbers are not in order".to_owned())?;
    let admitted = run.actions().iter().filter(|action| action.evidence.is_some());
    must(admitted.clone().count() == count, "I-5 each admitted action has one result", || {
        format!("{} were admitted, {count} are settled or open", admitted.clone().count())
    })?;
    for action in admitted {
        let Some(evidence) = run.evidence().iter().find(|evidence| Some(evidence.id) == action.evidence)
        else {
            continue;
        };
        let same = *evidence.tool == *action.tool_name() && evidence.parameters == action.parameters;
        must(same, "I-5 each result is that of its action", || {
            format!("{} and {}", evidence.id, action.key)
        })?;
    }
    Ok(())
}

/// I-6, I-25, I-27: what is commanded was judged, may run, and is not a second try of what is settled.
pub(crate) fn commands_what_was_allowed(run: &Run, ghost: &Ghost) -> Checked {
    let mut keys = Vec::new();
    for command in run.commands() {
        let (key, attempt) = match &command {
            Command::CallModel(call) => (call.key, call.attempt),
            Command::RunTool(tool) => (tool.key, tool.attempt),
            Command::Abort { key, attempt } => (*key, *attempt),
            Command::Validate(validate) => (validate.key, validate.attempt),
            Command::AskPerson { .. } | Command::Save { .. } => continue,
        };
        must(!keys.contains(&key), "I-6 a key is commanded once", || key.to_string())?;
        keys.push(key);
        let check = "I-6 what has settled is not run again";
        if let Some((settled, status)) = ghost.settled.get(&key) {
            // A denial of a retry has the number of a try, and nothing ran.
            must(attempt > *settled, check, || format!("{key} try {attempt} after try {settled}"))?;
            let again = status.is_none_or(Status::is_retryable);
            let runs = matches!(command, Command::RunTool(_));
            must(again || !runs, check, || format!("{key} after {status:?}"))?;
        }
        match &command {
            Command::RunTool(tool) if run.eager_reads().is_empty() => may_run(run, ghost, tool)?,
            Command::CallModel(call) => {
                must(ghost.failures < TRIES, "L2 a call is tried three times on a route", || {
                    format!("{} failed {} times", call.key, ghost.failures)
                })?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn may_run(run: &Run, ghost: &Ghost, tool: &RunTool) -> Checked {
    let of = work(run).iter().find(|work| (work.key, work.attempt) == (tool.key, tool.attempt));
    let action = of.and_then(|work| run.actions().get(work.action as usize));
    let check = "I-25 only what was judged and allowed runs";
    let Some((work, action)) = of.zip(action) else {
        return must(false, check, || format!("{} belongs to no action", tool.key));
    };
    let same = *tool.tool == *action.tool_name() && tool.parameters == action.parameters;
    must(same && action.verdict == Verdict::Run, check, || format!("{tool:?} runs for {action:?}"))?;
    let Some(spec) = run.spec().tool(&tool.tool) else {
        return must(false, check, || format!("{} is unknown", tool.tool));
    };
    must(!forbids(run, &tool.tool), check, || format!("{} is forbidden", tool.tool))?;
    if spec.effect.is_read() {
        return Ok(());
    }
    let approved = ghost.approved.contains(&action.key);
    must(approved || policy::approves(run.spec(), &tool.tool), check, || {
        format!("{} changes something, and was not approved", tool.key)
    })?;
    let untrusted = run.spec().gate.taint == TaintRule::Ask && read_before(run, action.key.pass).untrusted;
    must(approved || !untrusted, "I-27 an effect after untrusted text needs an approval", || {
        format!("{} {}", tool.key, tool.tool)
    })?;
    let is_once = matches!(spec.effect, Effect::WriteIrreversible | Effect::Egress | Effect::Exec);
    let is_unknown = ghost.effects.get(&tool.key).is_some_and(|begun| begun.unknown && !begun.runs);
    // An approval of a later action runs the earlier one again, under its key.
    let again = approved && action.key != tool.key;
    must(
        !is_once || !is_unknown || work.announced || again,
        "H1 an effect in doubt is not run again",
        || format!("{} {}", tool.key, tool.tool),
    )?;
    // A write whose last try may be repeated runs again under its first key.
    let scoped = run.spec().gate.scope == RepeatScope::Run && run.spec().repeats() == Repeats::NeverRerun;
    let call = (tool.tool.to_string(), tool.parameters.to_string());
    let first = ghost.retryable.get(&call).filter(|_| scoped && spec.effect.is_repeatable());
    let has_tries = |first| ghost.settled.get(first).is_some_and(|(attempt, _)| *attempt < spec.attempts);
    let other = first.filter(|first| **first != tool.key && has_tries(first));
    must(other.is_none(), "I-6 every try of a call has the same key", || {
        format!("{} after {other:?}", tool.key)
    })
}

/// The patterns of the worlds are names, or begin a name.
fn forbids(run: &Run, tool: &str) -> bool {
    run.spec().gate.forbid.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => tool.starts_with(start),
        None => **pattern == *tool,
    })
}

/// What a pass has read: the item, and the results of tools that ran before it, also where they failed.
fn read_before(run: &Run, pass: u32) -> Taint {
    let ran = |status| !matches!(status, Status::Denied | Status::Duplicate | Status::Skipped);
    let read = || {
        let evidence = run.evidence().iter();
        let read = evidence.filter(move |evidence| evidence.pass < pass && ran(evidence.observation.status));
        read.filter_map(|evidence| run.spec().tool(&evidence.tool))
    };
    let has = |of: fn(&ToolSpec) -> bool| read().any(of);
    Taint {
        untrusted: run.spec().gate.item_untrusted || has(|tool| tool.policy.returns_untrusted),
        private: has(|tool| tool.policy.reads_private),
    }
}

/// I-7: where repeats never run, a call that succeeded does not run again, and one in doubt only by an approval.
pub(crate) fn repeats_nothing_that_is_done(run: &Run, ghost: &Ghost) -> Checked {
    let is_scoped = run.spec().repeats() == Repeats::NeverRerun && run.spec().gate.scope == RepeatScope::Run;
    if !is_scoped || run.evidence().len() < 2 {
        return Ok(());
    }
    let check = "I-7 a call that is done does not run again";
    let mut seen: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for evidence in run.evidence() {
        let (call, status) = ((&*evidence.tool, &**evidence.parameters.text()), evidence.observation.status);
        if status == Status::Denied || status == Status::Duplicate {
            continue;
        }
        let is_question = run.spec().tool(&evidence.tool).is_some_and(|tool| tool.policy.asks_person);
        let by = run.actions().iter().find(|action| action.evidence == Some(evidence.id));
        let approved = is_question || by.is_some_and(|action| ghost.approved.contains(&action.key));
        match seen.get(&call) {
            Some(true) => must(approved && is_question, check, || format!("{} {call:?}", evidence.id))?,
            Some(false) => must(approved, check, || format!("{} {call:?} was in doubt", evidence.id))?,
            None => {}
        }
        match status {
            Status::InDoubt => _ = seen.insert(call, false),
            status if status.is_retryable() => {}
            _ => _ = seen.insert(call, true),
        }
    }
    Ok(())
}

/// H7: time that people take and time without a driver does not count, and the run does not work beyond its wall clock.
pub(crate) fn keeps_time(run: &Run, ghost: &Ghost) -> Checked {
    let (elapsed, said) = (ghost.elapsed_ms(run), run.elapsed_ms());
    must(elapsed == said, "H7 the wall clock counts what it should", || {
        format!("{elapsed} ms count, the run says {said} ms")
    })
}
