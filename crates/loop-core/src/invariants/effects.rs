//! Effects: policy before each, approvals, taint, and no second dispatch of what cannot be made twice.

use std::collections::BTreeSet;

use serde_json::Value;

use super::view::{open_work, work};
use super::{Checked, Past, Transition, must};
use crate::gate::{JudgedAction, Measure, StopReason, Verdict};
use crate::policy::{self, PlannedEffect};
use crate::run::{Command, EventKind, PersonAnswer, Phase, Run, RunTool};
use crate::spec::{PlanCount, TaintRule};
use crate::types::{CommandKey, Evidence, Status, StopClass, Taint};

/// The tools that are commanded, each with the action for which it runs. A read that starts before its reply is complete
/// has no action yet.
fn commanded(run: &Run) -> Vec<(RunTool, &JudgedAction)> {
    let action = |tool: &RunTool| {
        let open = work(run).iter().find(|work| work.key == tool.key && work.attempt == tool.attempt)?;
        run.actions().get(open.action as usize).map(AsRef::as_ref)
    };
    let commands = run.commands().into_iter().filter_map(|command| match command {
        Command::RunTool(tool) => Some(tool),
        _ => None,
    });
    commands.filter_map(|tool| action(&tool).map(|action| (tool, action))).collect()
}

/// The action for which the open work under a key runs.
fn action_of<'a>(run: &'a Run, key: &CommandKey) -> Option<&'a JudgedAction> {
    let open = open_work(run, key)?;
    run.actions().get(open.action as usize).map(AsRef::as_ref)
}

/// What runs was judged, was permitted, is exactly what was judged, and if it changes something, the domain or a person
/// approved it.
pub(super) fn policy_comes_first(run: &Run, past: &Past) -> Checked {
    for (tool, action) in commanded(run) {
        may_run(run, past, tool.key, action)?;
        let same = *tool.tool == *action.tool_name() && tool.parameters == action.parameters;
        must(same, || format!("{} runs {} for {}", tool.key, tool.tool, action.key))?;
    }
    Ok(())
}

fn may_run(run: &Run, past: &Past, key: CommandKey, action: &JudgedAction) -> Checked {
    must(action.verdict == Verdict::Run, || format!("{key} runs, and it is `{}`", action.verdict.name()))?;
    let Some(spec) = run.spec().tool(action.tool_name()) else {
        return Err(format!("{key} runs {}, which is not a tool of the spec", action.tool_name()));
    };
    must(!policy::is_forbidden(run.spec(), spec), || {
        format!("{key} runs {}, which is forbidden", spec.name)
    })?;
    let approved = spec.effect.is_read()
        || policy::approves(run.spec(), &spec.name)
        || past.approved.contains(&action.key);
    must(approved, || format!("{key} changes something, and neither the domain nor a person approved it"))
}

/// An effect that begins has a verdict that lets it run, from an event before.
pub(super) fn a_verdict_comes_first(step: &Transition<'_>, past: &Past) -> Checked {
    let EventKind::ToolStarted { key, .. } = &step.event.kind else { return Ok(()) };
    match action_of(step.before, key) {
        Some(action) => may_run(step.before, past, *key, action),
        None => Err(format!("{key} begins without a verdict")),
    }
}

/// What a pass has read: the work item, the messages before the run, and the results of tools that ran before it, also
/// where they failed.
fn read_before(run: &Run, pass: u32) -> Taint {
    let history = run.started().history.as_ref().map_or(Taint::default(), |history| history.taint);
    let start = Taint { untrusted: run.spec().gate.item_untrusted, private: false };
    let by = run.started().provenance.called_by.as_deref();
    let history = by.map_or(history, |by| history.and(by.taint));
    let is_read = |evidence: &&Evidence| !evidence.observation.status.is_unrun() && evidence.pass < pass;
    let read = run.evidence().iter().filter(is_read).filter_map(|evidence| {
        let policy = &run.spec().tool(&evidence.tool)?.policy;
        let below = evidence.observation.child.as_ref().map_or(Taint::default(), |child| child.taint);
        Some(below.and(Taint { untrusted: policy.returns_untrusted, private: policy.reads_private }))
    });
    let start = Taint { untrusted: start.untrusted || history.untrusted, private: history.private };
    read.fold(start, Taint::and)
}

/// After something untrusted was read, an effect runs only if a person allowed it or it took a slot of the plan.
pub(super) fn taint_asks_a_person(run: &Run, past: &Past) -> Checked {
    if run.spec().gate.taint == TaintRule::Off {
        return Ok(());
    }
    for (tool, action) in commanded(run) {
        let needs = !tool.effect.is_read() && read_before(run, action.key.pass).untrusted;
        must(!needs || past.approved.contains(&action.key) || is_planned(run, tool.key, action), || {
            format!("{} {} runs after untrusted text was read", tool.key, tool.tool)
        })?;
    }
    Ok(())
}

/// Whether a call that runs under a key took a slot of the plan that it fits.
fn is_planned(run: &Run, key: CommandKey, action: &JudgedAction) -> bool {
    let slots = run.plan().map_or(&[][..], |plan| &plan.slots);
    let slot = action.slot.and_then(|slot| slots.get(slot as usize));
    let tool = run.spec().tool(action.tool_name());
    slot.zip(tool).is_some_and(|(slot, tool)| {
        let parameters = action.parameters.value().unwrap_or(&Value::Null);
        slot.used.contains_key(&key) && slot.slot.fits(tool, parameters)
    })
}

/// A model's plan is of before anything was read, and each of its slots is taken as often as it says.
pub(super) fn plans_come_first(run: &Run, _: &Past) -> Checked {
    let Some(plan) = run.plan() else { return Ok(()) };
    must(plan.policy == run.started().policy, || "the plan is of another policy".to_owned())?;
    if let Some(CommandKey { pass, .. }) = plan.by {
        must(run.spec().plan.is_empty(), || "the plan of a model holds in place of the domain's".to_owned())?;
        // A run that continues another has the plan of that run, whose passes it does not count.
        let read = read_before(run, pass.min(run.passes().len() as u32));
        let is_own = run.started().parent.is_none();
        must(!is_own || read == Taint::default(), || {
            format!("a plan was accepted in pass {pass} after {read:?}")
        })?;
    }
    for PlannedEffect { slot, used, .. } in &plan.slots {
        let fits = match slot.count {
            PlanCount::Times(times) => used.len() <= times as usize,
            PlanCount::Each => used.values().collect::<BTreeSet<_>>().len() == used.len(),
        };
        must(fits, || format!("{slot} is taken {} times", used.len()))?;
    }
    Ok(())
}

/// An effect that cannot be made twice begins again under its key only after a result that may be retried, or by a
/// person's consent.
pub(super) fn no_second_dispatch(step: &Transition<'_>, past: &Past) -> Checked {
    let EventKind::ToolStarted { key, .. } = &step.event.kind else { return Ok(()) };
    let (Some(begun), Some(action)) = (past.effects.get(key), action_of(step.before, key)) else {
        return Ok(());
    };
    must(!begun.runs, || format!("{key} begins while it runs"))?;
    let tool = step.before.spec().tool(action.tool_name());
    if tool.is_none_or(|tool| tool.effect.is_repeatable()) {
        return Ok(());
    }
    let allowed = past.approved.contains(&action.key) && !past.used.contains(&action.key);
    must(allowed || !begun.unknown, || format!("{key} begins again, and it may have happened already"))?;
    let status = past.settled.get(key).and_then(|(_, status)| *status);
    let again = status.is_none_or(Status::is_retryable) || allowed;
    must(again, || format!("{key} begins again after {status:?}"))
}

/// What cannot be made twice is begun once for each approval. An answer counts once, in time, for what was shown.
pub(super) fn approvals_are_used_once(step: &Transition<'_>, past: &Past) -> Checked {
    let run = step.before;
    match &step.event.kind {
        EventKind::ToolStarted { key, .. } => {
            let Some(action) = action_of(run, key) else { return Ok(()) };
            let once = run.spec().tool(action.tool_name()).is_some_and(|tool| !tool.effect.is_repeatable());
            let again = once && past.used.contains(&action.key);
            must(!again, || format!("{} is begun again by one approval", action.key))
        }
        EventKind::PersonAnswered { key, answer, binding } => {
            let Phase::WaitingForPerson { asks, .. } = run.phase() else {
                return Err(format!("{key} is answered while {}", run.phase().name()));
            };
            let at = |action: u32| run.actions().get(action as usize).map(|action| action.key);
            let open = asks.iter().find(|ask| at(ask.action) == Some(*key));
            let Some(open) = open else { return Err(format!("{key} is answered and was not asked")) };
            must(!open.answered, || format!("{key} is answered twice"))?;
            must(!open.is_over(step.event.at), || format!("{key} is answered too late"))?;
            let same = binding.is_none_or(|binding| run.binding(key) == Some(binding));
            must(same, || format!("{key} is answered for other arguments than its own"))?;
            let asks = action_is_question(run, key);
            must(*answer != PersonAnswer::Approved || !asks, || {
                format!("{key} is a question and is approved")
            })
        }
        EventKind::ApprovedBy { key, by, binding } => {
            let Phase::WaitingForPerson { asks, .. } = run.phase() else {
                return Err(format!("{key} is approved while {}", run.phase().name()));
            };
            let at = |action: u32| run.actions().get(action as usize).map(|action| action.key);
            let open = asks.iter().find(|ask| at(ask.action) == Some(*key));
            let Some(open) = open else { return Err(format!("{key} is approved and was not asked")) };
            must(!open.answered, || format!("{key} is approved twice"))?;
            must(!open.is_over(step.event.at), || format!("{key} is approved too late"))?;
            let same = binding.is_none_or(|binding| run.binding(key) == Some(binding));
            must(same, || format!("{key} is approved for other arguments than its own"))?;
            must(!action_is_question(run, key), || format!("{key} is a question and is approved"))?;
            let is_named = !by.account.is_empty() || run.spec().gate.approvals < 2;
            must(is_named, || format!("{key} is approved by an account that was not checked"))?;
            let of_key = past.approvers.get(key);
            let again = of_key.is_some_and(|accounts| accounts.contains(&by.account));
            must(!again || run.spec().gate.approvals < 2, || format!("{} counts twice for {key}", by.account))
        }
        _ => Ok(()),
    }
}

fn action_is_question(run: &Run, key: &CommandKey) -> bool {
    let action = run.actions().iter().find(|action| action.key == *key);
    let tool = action.and_then(|action| run.spec().tool(action.tool_name()));
    tool.is_some_and(|tool| tool.policy.asks_person)
}

/// What a person is shown is what would run, under a binding that no other action has.
pub(super) fn approvals_are_bound(run: &Run, _: &Past) -> Checked {
    for ask in run.requested() {
        let Some(action) = run.actions().iter().find(|action| action.key == ask.key) else {
            return Err(format!("{} is asked about and is not an action", ask.key));
        };
        let same = *ask.tool == *action.tool_name() && ask.parameters == action.parameters;
        must(same, || format!("{} is shown with other arguments than its own", ask.key))?;
        let waits = matches!(action.verdict, Verdict::NeedsPerson { .. });
        must(waits, || format!("{} is asked about, and it is `{}`", ask.key, action.verdict.name()))?;
        must(run.binding(&ask.key) == Some(ask.binding), || format!("{} has another binding", ask.key))?;
        let mut others = run.actions().iter().filter(|other| other.key != ask.key);
        must(others.all(|other| run.binding(&other.key) != Some(ask.binding)), || {
            format!("{} has the binding of another action", ask.key)
        })?;
    }
    Ok(())
}

/// The certificate of an outcome names each effect that was begun and whose result is unknown.
pub(super) fn effects_in_doubt_are_reported(run: &Run, past: &Past) -> Checked {
    let Some(outcome) = run.outcome() else { return Ok(()) };
    let unknown = past.effects.iter().filter(|(_, begun)| begun.runs || begun.unknown);
    // A run that was called as a tool reports an effect of its own.
    let below = run.evidence().iter().filter(|it| it.observation.child.is_some());
    let below = below.filter(|it| it.observation.status == Status::InDoubt).map(|it| it.key);
    let unknown: BTreeSet<CommandKey> = unknown.map(|(key, _)| *key).chain(below).collect();
    let unknown: Vec<String> = unknown.iter().map(CommandKey::to_string).collect();
    let reported = outcome.stop.also.iter().find(|condition| condition.reason == StopReason::InDoubt);
    let reported: Vec<&str> = match reported.map(|condition| &condition.value) {
        Some(Measure::Names(names)) => {
            names.iter().map(|name| name.split(' ').next().unwrap_or_default()).collect()
        }
        Some(other) => return Err(format!("`{other}` are not effects")),
        None => Vec::new(),
    };
    must(reported == unknown, || format!("{unknown:?} are in doubt, {reported:?} are reported"))?;
    let is_by_hand = outcome.stop.reason() == StopReason::ManualStop;
    must(unknown.is_empty() || is_by_hand || outcome.stop.class == StopClass::InDoubt, || {
        format!("an effect is in doubt and the class is {:?}", outcome.stop.class)
    })
}
