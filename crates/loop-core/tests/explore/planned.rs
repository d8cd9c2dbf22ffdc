//! The alphabets of plans, and what a plan permits, worked out from what was asked for and what came back.

use loop_core::StopReason::{Completed, MaxPasses};
use loop_core::gate::JudgedAction;
use loop_core::policy::Taint;
use loop_core::spec::{Breakers, PlanCount, PlanSlot};
use loop_core::types::{CommandKey, Effect, Observation, Slot, Status};
use loop_core::{Run, Verdict};
use loop_testkit::{DraftReply, Setup, calls, conversation, found, observed, target, text};
use serde_json::{Value, json};

use crate::alphabet::Alphabet;
use crate::alphabets::{always, base};
use crate::permits::read_before;

/// Every alphabet of plans that is walked whole in a test run.
pub fn all() -> Vec<Alphabet> {
    vec![planned(false), planned_by_the_domain(false)]
}

fn desk(wide: bool) -> Setup {
    conversation().approving(&["restart", "wipe"]).with(|spec| {
        spec.tools[0].policy.returns_untrusted = true;
        spec.tools[1].policy.reads_private = true;
        spec.tools[2].effect = Effect::Egress;
        spec.tools[3].effect = Effect::WriteIdempotent;
        spec.tools[3].policy.authority = vec!["/target".into()];
        spec.gate.authorities = vec!["a".into(), "b".into()];
        spec.gate.breakers = Breakers { tool_failures: 0, denied: 0, bad_arguments: 0 };
        spec.limits.passes = if wide { 5 } else { 4 };
        (spec.limits.tool_calls, spec.limits.model_calls) = (6, 7);
        spec.limits.wall_ms = 60_000;
    })
}

/// One restart of `a`, and a wipe of each target.
fn slots() -> Value {
    json!([{"tool": "restart", "fixed": {"target": "a"}}, {"tool": "wipe", "count": "each"}])
}

fn replies() -> Vec<DraftReply> {
    vec![
        calls(&[("fetch_device", target("a"))]),
        calls(&[("fetch_docs", target("a"))]),
        // Planned once, used twice; unplanned.
        calls(&[("restart", target("a")), ("restart", target("a")), ("restart", target("b"))]),
        calls(&[("wipe", target("a")), ("wipe", target("b")), ("wipe", target("a"))]),
        text("It is done."),
    ]
}

/// The first call of the second pass may be refused by its tool.
fn refused_at_first(key: CommandKey) -> Vec<Observation> {
    let is_first = key == CommandKey::new(2, Slot::Action(0));
    let refused = is_first.then(|| observed(Status::InvalidInput));
    std::iter::once(found("it")).chain(refused).collect()
}

/// A plan before anything is read, beside what taints, and after it; planned calls, unplanned ones, calls that come twice.
pub fn planned(wide: bool) -> Alphabet {
    let plan = || json!({ "slots": slots() });
    let mut all = replies();
    all.push(calls(&[("plan", plan())]));
    if wide {
        all.push(calls(&[("plan", plan()), ("fetch_device", target("b"))]));
        all.push(calls(&[("plan", json!({"slots": [{"tool": "restart"}, {"tool": "nope"}]}))]));
    }
    Alphabet {
        replies: always(all),
        observations: refused_at_first,
        reaches: &[Completed, MaxPasses],
        ..base("planned", desk(wide))
    }
}

/// The same where the domain plans and anybody may have written the work item.
pub fn planned_by_the_domain(wide: bool) -> Alphabet {
    let setup = desk(wide).with(|spec| {
        spec.gate.item_untrusted = true;
        spec.plan = serde_json::from_value(slots()).unwrap();
    });
    let mut all = replies();
    all.push(calls(&[("plan", json!({"slots": [{"tool": "restart"}]}))]));
    Alphabet {
        replies: always(all),
        observations: refused_at_first,
        reaches: &[Completed, MaxPasses],
        ..base("planned by the domain", setup)
    }
}

/// The slots that hold in a run, with the pass from which on: the domain's, else those of the first call of `plan` that came
/// before anything was read.
fn plan_of(run: &Run) -> (u32, Vec<PlanSlot>) {
    if !run.spec().plan.is_empty() {
        return (0, run.spec().plan.clone());
    }
    let is_clean = |action: &&&JudgedAction| read_before(run, action.key.pass) == Taint::default();
    let calls = run.actions().iter().map(AsRef::as_ref);
    let calls: Vec<&JudgedAction> = calls.filter(|action| &*action.action.tool == "plan").collect();
    calls
        .iter()
        .filter(is_clean)
        .find_map(|action| {
            let plan: Value = serde_json::from_str(&action.action.parameters).unwrap();
            let slots: Vec<PlanSlot> = serde_json::from_value(plan["slots"].clone()).unwrap();
            let are_known = slots.iter().all(|slot| run.spec().tool(&slot.tool).is_some());
            are_known.then_some((action.key.pass, slots))
        })
        .unwrap_or_default()
}

/// Whether a run has a plan, whoever gave it.
pub fn has_plan(run: &Run) -> bool {
    !plan_of(run).1.is_empty()
}

/// Whether a plan lets this call of an effect run although untrusted text was read: it fits one slot of the alphabets above,
/// no call before it took that, and no private data was read since that nobody planned.
pub fn is_planned(run: &Run, action: &JudgedAction) -> bool {
    let (from_pass, slots) = plan_of(run);
    let Some(slot) = free_slot(run, from_pass, &slots, action) else { return false };
    let sends = run.spec().tool(&slot.tool).is_some_and(|tool| tool.effect == Effect::Egress);
    let is_void = run.evidence().iter().any(|it| {
        let is_private = run.spec().tool(&it.tool).is_some_and(|tool| tool.policy.reads_private);
        is_private
            && !matches!(it.observation.status, Status::InvalidInput)
            && it.pass < action.key.pass
            && read_before(run, it.pass).untrusted
            && !slots.iter().any(|slot| slot.tool == it.tool)
    });
    !(sends && is_void)
}

/// Whether a call is one of those that the plan intends.
pub fn is_intended(run: &Run, action: &JudgedAction) -> bool {
    let (from_pass, slots) = plan_of(run);
    free_slot(run, from_pass, &slots, action).is_some()
}

/// The slot that a call fits, if no call before it took it.
fn free_slot<'s>(
    run: &Run,
    from_pass: u32,
    slots: &'s [PlanSlot],
    action: &JudgedAction,
) -> Option<&'s PlanSlot> {
    let value = |action: &JudgedAction| action.parameters.value().unwrap().get("target").cloned();
    let fits = |slot: &PlanSlot, action: &JudgedAction| {
        *slot.tool == *action.tool_name()
            && slot.fixed.get("target").is_none_or(|it| Some(it) == value(action).as_ref())
    };
    let slot = slots.iter().find(|slot| fits(slot, action))?;
    let status = |it: &JudgedAction| {
        run.evidence()
            .iter()
            .find(|evidence| Some(evidence.id) == it.evidence)
            .map(|it| it.observation.status)
    };
    // It might have run, and the end of the run or a limit came before it.
    let is_ended =
        |it: &JudgedAction| matches!(it.verdict, Verdict::Ended { .. } | Verdict::OverLimit { .. });
    let ran =
        |it: &JudgedAction| it.verdict == Verdict::Run || it.key.pass == action.key.pass && is_ended(it);
    // A call that its tool refused gives its slot back to those of later replies.
    let holds = |it: &JudgedAction, other: &JudgedAction| {
        let is_back = status(it) == Some(Status::InvalidInput) && it.key.pass < other.key.pass;
        !is_back && (slot.count == PlanCount::Times(1) || value(it) == value(other))
    };
    let mut holders: Vec<&JudgedAction> = Vec::new();
    let before = run.actions().iter().map(AsRef::as_ref);
    for it in before.filter(|it: &&JudgedAction| it.key < action.key && it.key.pass >= from_pass) {
        if ran(it) && fits(slot, it) && !holders.iter().any(|holder| holds(holder, it)) {
            holders.push(it);
        }
    }
    (!holders.iter().any(|holder| holds(holder, action))).then_some(slot)
}
