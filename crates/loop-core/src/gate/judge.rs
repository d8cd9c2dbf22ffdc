//! Verdicts: the decision on each action that a model requests.

use std::sync::Arc;

use serde_json::Value;

use crate::gate::breakers::FailureCounts;
use crate::gate::judged_action::JudgedAction;
use crate::gate::verdict::{Breaker, DeniedBy, Limit, Verdict, ruled};
use crate::policy::{self, EffectPlan, NameMatch, PlannedCall, PolicyAsk, RunSources, SlotClaim};
use crate::repeats::{CallFacts, CallStatus, Fingerprint, Ledger, OtherCalls, RepeatRule, Rules};
use crate::spec::{Execution, OnDuplicate, PlanSlot, Repeats, RunSpec, SchemaViolation, ToolSpec};
use crate::types::{Action, Arguments, CommandKey, Effect, Priority, RunId, Slot, Taint};

/// The context in which actions are judged.
#[derive(Clone, Copy)]
pub(crate) struct JudgeContext<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) ledger: &'a Ledger,
    /// The counts of the circuit breakers.
    pub(crate) trouble: &'a FailureCounts,
    /// The taint of the run.
    pub(crate) taint: Taint,
    /// The authorised sources of values.
    pub(crate) sources: RunSources<'a>,
    /// The run's plan. `None`: it has none.
    pub(crate) plan: Option<&'a EffectPlan>,
    /// The pass that requests the actions, from 1. 0: the selection.
    pub(crate) pass: u32,
    /// The remaining quota of calls, and the limit that sets it.
    pub(crate) quota: Quota,
    /// The run whose work this one continues. `None`: it began with its work item alone.
    pub(crate) parent: Option<ParentRun<'a>>,
}

/// The run whose work this one continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParentRun<'a> {
    pub(crate) run: &'a RunId,
    /// Whether it may have made, or may still make, writes that are not known.
    pub(crate) lost: bool,
}

/// A quota of calls that may be admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) left: u32,
    pub(crate) limit: Limit,
}

/// An action with its verdict, its fingerprint and its key.
#[derive(Clone, Debug)]
pub(crate) struct JudgedCall {
    pub(crate) judged: JudgedAction,
    /// The fingerprint. `None`: the tool is unknown or the arguments are invalid.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The key and the try under which it runs.
    pub(crate) run_as: (CommandKey, u32),
}

/// What calls of the same reply take before a call.
#[derive(Default)]
struct Claims {
    calls: OtherCalls,
    /// Slots of the plan.
    slots: Vec<SlotClaim>,
    /// The slot of the call that is judged, which it takes if it may run.
    slot: Option<SlotClaim>,
}

/// Judges `actions` in order. Over the limit, required actions are admitted first.
pub(crate) fn judge(actions: &[Action], context: JudgeContext<'_>) -> Vec<JudgedCall> {
    let mut seen = Claims::default();
    let mut judged: Vec<JudgedCall> = (0..)
        .zip(actions)
        .map(|(n, action)| one(action, CommandKey::new(context.pass, Slot::Action(n)), context, &mut seen))
        .collect();
    if context.spec.protocol.execution() == Execution::Single {
        keep_first(&mut judged);
    }
    let mut left = context.quota.left;
    for wanted in [Priority::Required, Priority::Recommended] {
        for entry in judged.iter_mut().filter(|entry| entry.judged.action.priority == wanted) {
            let may_run = match entry.judged.verdict {
                Verdict::Run => true,
                // An approved call must not exceed the limit either.
                Verdict::NeedsPerson { .. } => context.spec.gate.people,
                Verdict::Kept
                | Verdict::UnknownTool { .. }
                | Verdict::InvalidArguments { .. }
                | Verdict::Denied { .. }
                | Verdict::Duplicate { .. }
                | Verdict::Skipped
                | Verdict::OverLimit { .. }
                | Verdict::BreakerOpen { .. }
                | Verdict::OneAtATime
                | Verdict::Ended { .. } => false,
            };
            if !may_run {
                continue;
            }
            match left.checked_sub(1) {
                Some(rest) => left = rest,
                None => entry.judged.verdict = Verdict::OverLimit { limit: context.quota.limit },
            }
        }
    }
    judged
}

/// Admits the first call that may run or be approved, and no other.
fn keep_first(judged: &mut [JudgedCall]) {
    let may_run = |verdict: &Verdict| matches!(verdict, Verdict::Run | Verdict::NeedsPerson { .. });
    let runnable = judged.iter_mut().filter(|entry| may_run(&entry.judged.verdict));
    for entry in runnable.skip(1) {
        entry.judged.verdict = Verdict::OneAtATime;
    }
}

fn one(action: &Action, key: CommandKey, context: JudgeContext<'_>, seen: &mut Claims) -> JudgedCall {
    let mut judged = JudgedCall {
        judged: JudgedAction {
            key,
            action: action.clone(),
            tool: None,
            parameters: action.parameters.clone(),
            verdict: Verdict::Skipped,
            evidence: None,
            rules: Vec::new(),
            slot: None,
            guessed: false,
        },
        fingerprint: None,
        run_as: (key, 1),
    };
    if policy::end_call(context.spec, &action.tool).is_some() {
        judged.judged.verdict = Verdict::Kept;
        return judged;
    }
    if policy::is_plan(context.spec, &action.tool) {
        let is_it = context.plan.is_some_and(|plan| plan.by == Some(key));
        judged.judged.verdict = match planned(&action.parameters, context) {
            Err(why) if !is_it => Verdict::Denied { why: why.into(), by: DeniedBy::Policy },
            Ok(_) | Err(_) => Verdict::Kept,
        };
        return judged;
    }
    let found = policy::resolve(context.spec, &action.tool);
    judged.judged.guessed = found.is_some_and(|(_, how)| how == NameMatch::Fuzzy);
    let tool = found.map(|(tool, _)| tool);
    judged.judged.tool = tool.map(|tool| Arc::clone(&tool.name));
    if action.priority == Priority::NiceToHave {
        return judged;
    }
    judged.judged.verdict = match tool {
        // A request that policy does not permit is denied, whether or not the tool exists.
        None => match policy::bars_name(context.spec, &action.tool) {
            Some(reason) => denied(&mut judged.judged, &reason),
            None => Verdict::UnknownTool { similar: policy::similar(context.spec, &action.tool) },
        },
        Some(tool) => sound(tool, &mut judged, context, seen),
    };
    let taken = seen.slot.take();
    if matches!(judged.judged.verdict, Verdict::Run | Verdict::NeedsPerson { .. }) {
        seen.slots.extend(taken);
    }
    judged
}

/// The slots of a model's plan, if it is accepted now.
///
/// # Errors
/// Why it is not, for the model.
pub(crate) fn planned(plan: &Arguments, context: JudgeContext<'_>) -> Result<Vec<PlanSlot>, String> {
    let plan = plan.value().map_err(ToString::to_string)?;
    policy::accepted(context.spec, context.taint, context.plan, plan)
}

/// Denies an action for one reason of policy, whatever its arguments are.
fn denied(judged: &mut JudgedAction, reason: &policy::Reason) -> Verdict {
    judged.rules = vec![reason.rule()];
    Verdict::Denied { why: reason.to_string().into(), by: DeniedBy::Policy }
}

/// Judges an action whose tool is known. A forbidden tool is denied whatever its arguments are. Valid arguments are
/// then checked by policy, as a repeat, by the tool's breaker, and last for an approval.
fn sound(tool: &ToolSpec, judged: &mut JudgedCall, context: JudgeContext<'_>, seen: &mut Claims) -> Verdict {
    if let Some(reason) = policy::forbidden(context.spec, tool) {
        return denied(&mut judged.judged, &reason);
    }
    if context.spec.protocol.handles(&tool.name) {
        return Verdict::Kept;
    }
    if context.pass == 0
        && let Some(why) = policy::unselectable(tool)
    {
        return Verdict::Denied { why: why.into(), by: DeniedBy::Policy };
    }
    let written = &judged.judged.action.parameters;
    let requested = match written.value() {
        Ok(requested) => requested,
        Err(error) => return Verdict::InvalidArguments { pointer: "".into(), message: Arc::clone(error) },
    };
    // Which of the repeated members is meant is unknown, so a write is rejected.
    if !tool.effect.is_read()
        && let Some(pointer) = written.repeated().first()
    {
        let message = "is given more than once".into();
        return Verdict::InvalidArguments { pointer: pointer.as_str().into(), message };
    }
    let is_output = context.spec.protocol.output().is_some_and(|output| output.tool == tool.name);
    let arguments = match rebuilt(tool, written, requested, is_output) {
        Ok(arguments) => arguments,
        Err(schema_violation) => {
            return Verdict::InvalidArguments {
                pointer: schema_violation.pointer.into(),
                message: schema_violation.message.into(),
            };
        }
    };
    judged.judged.parameters = arguments.clone();
    // Arguments that were made from a value have one.
    let parameters = arguments.value().unwrap_or(&Value::Null);
    let JudgeContext { spec, taint, sources, .. } = context;
    let facts = CallFacts::of(tool, parameters);
    let mut rules = Rules::of_run(spec);
    if !policy::judges_repeats(spec, &tool.name) {
        rules.repeats = Repeats::Off;
    }
    let fingerprint = Fingerprint::of_canonical(&facts, &judged.judged.parameters, &rules);
    let status = context.ledger.call_status(&fingerprint, &rules, &seen.calls);
    let key = match &status {
        CallStatus::Again { key, .. } => *key,
        CallStatus::New | CallStatus::InDoubt | CallStatus::Repeat { .. } => judged.judged.key,
    };
    let call = PlannedCall { tool, parameters, key };
    let plan = context.plan.filter(|_| !tool.effect.is_read());
    let taken = plan.and_then(|plan| plan.slot_for(call, &seen.slots));
    judged.judged.slot = taken.map(|taken| taken.slot);
    let planned = plan.zip(taken).and_then(|(plan, taken)| plan.permits(taken));
    let ask = PolicyAsk { spec, tool, parameters, taint, sources: &sources, planned };
    let ruling = policy::ruling(&ask);
    judged.judged.rules = ruling.rules();
    let by_policy = ruled(&ruling, tool.effect);
    if let Some(Verdict::Denied { why, by }) = by_policy {
        return Verdict::Denied { why, by };
    }
    seen.slot = taken;
    let seen = &mut seen.calls;
    let fingerprint = &*judged.fingerprint.insert(fingerprint);
    match status {
        // It is not a repeat of a call, so the verdict names the limit.
        CallStatus::Repeat { rule: Some(RepeatRule::Limit { limit: calls }), .. } => {
            return Verdict::OverLimit { limit: Limit::OfTool { calls } };
        }
        CallStatus::Repeat { rule, .. } if spec.gate.on_duplicate == OnDuplicate::Deny => {
            let why = rule.unwrap_or(RepeatRule::Exact).message(&tool.name);
            return Verdict::Denied { why: why.into(), by: DeniedBy::Repeat };
        }
        CallStatus::Repeat { of, evidence, rule } => {
            return Verdict::Duplicate { of: of.unwrap_or(judged.judged.key), evidence, rule };
        }
        // A call in doubt is not repeated without an approval.
        CallStatus::InDoubt => {
            let is_elsewhere = context.ledger.is_elsewhere(&fingerprint.signature());
            let doubt = match context.parent.filter(|_| is_elsewhere) {
                Some(parent) => format!("run {} has started it already", parent.run),
                None => "it may have happened already".to_owned(),
            };
            seen.add(fingerprint, judged.judged.key, /*waits*/ true);
            return doubtful(tool, &doubt, by_policy);
        }
        CallStatus::Again { key, attempt } => judged.run_as = (key, attempt),
        CallStatus::New => {
            if let Some(doubt) = done_already(tool, fingerprint, context.ledger, seen) {
                seen.add(fingerprint, judged.judged.key, /*waits*/ true);
                return doubtful(tool, &doubt, by_policy);
            }
        }
    }
    if let Some(parent) = context.parent.filter(|parent| parent.lost && !tool.effect.is_read() && !is_output)
    {
        let doubt = format!("run {} may have made it already, or may still make it", parent.run);
        seen.add(fingerprint, judged.judged.key, /*waits*/ true);
        return doubtful(tool, &doubt, by_policy);
    }
    if context.trouble.is_broken(&tool.name, &spec.gate.breakers) {
        return Verdict::BreakerOpen { breaker: Breaker::ToolFailures };
    }
    if context.pass == 0
        && let Some(Verdict::NeedsPerson { .. }) = by_policy
    {
        let why = "a person would have to decide, and nobody is asked before the first pass";
        return Verdict::Denied { why: why.into(), by: DeniedBy::Policy };
    }
    let verdict = by_policy.unwrap_or(Verdict::Run);
    seen.add(fingerprint, judged.judged.key, matches!(verdict, Verdict::NeedsPerson { .. }));
    verdict
}

/// The arguments as the tool gets them: declared members only, with defaults, and no text that the schema wants is blank.
fn rebuilt(
    tool: &ToolSpec,
    written: &Arguments,
    requested: &Value,
    is_output: bool,
) -> Result<Arguments, SchemaViolation> {
    // The content of an output is checked by its validation.
    let filled = |value: &Value| if is_output { Ok(()) } else { tool.args.filled(value) };
    // Most are that already.
    if tool.args.keeps(requested) && written.is_canonical() {
        return filled(requested).map(|()| written.clone());
    }
    let parameters = tool.args.rebuild(requested)?;
    filled(&parameters)?;
    Ok(written.rebuilt(parameters))
}

/// Why a keyed or irreversible write needs a person before it runs once more with the same arguments, which no policy of
/// repeats lifts. `None`: it has not run, or its tool allows repeats.
fn done_already(
    tool: &ToolSpec,
    fingerprint: &Fingerprint,
    ledger: &Ledger,
    seen: &OtherCalls,
) -> Option<String> {
    let happens_twice = match tool.effect {
        Effect::WriteKeyed | Effect::WriteIrreversible => !tool.policy.repeats.allowed,
        Effect::Read | Effect::WriteIdempotent | Effect::Egress | Effect::Exec => false,
    };
    if !happens_twice {
        return None;
    }
    match ledger.last_ran(&fingerprint.signature()) {
        Some(evidence) => Some(format!("the same call ran already, see {evidence}")),
        None => seen.same(fingerprint).map(|_| "the same call is in this reply already".to_owned()),
    }
}

/// A call that may have happened already needs an approval under every policy.
fn doubtful(tool: &ToolSpec, doubt: &str, by_policy: Option<Verdict>) -> Verdict {
    let why = match by_policy {
        Some(Verdict::NeedsPerson { why: Some(why), .. }) => format!("{doubt}; {why}").into(),
        _ => doubt.into(),
    };
    Verdict::NeedsPerson { effect: tool.effect, why: Some(why) }
}
