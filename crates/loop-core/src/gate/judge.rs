//! Verdicts: the decision on each action that a model requests.

use std::sync::Arc;

use serde_json::Value;

use crate::gate::breakers::Trouble;
use crate::gate::judged_action::JudgedAction;
use crate::gate::verdict::{Breaker, DeniedBy, Limit, Verdict, ruled};
use crate::policy::{self, PolicyAsk, Resolved, RunSources};
use crate::repeats::{CallFacts, CallStatus, Fingerprint, Ledger, OtherCalls, RepeatRule, Rules};
use crate::spec::{Execution, OnDuplicate, Repeats, RunSpec, ToolSpec};
use crate::types::{Action, Arguments, CommandKey, Priority, Slot, Taint};

/// What actions are judged against.
#[derive(Clone, Copy)]
pub(crate) struct JudgeContext<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) ledger: &'a Ledger,
    /// What went wrong in a row.
    pub(crate) trouble: &'a Trouble,
    /// What the run has read.
    pub(crate) taint: Taint,
    /// What it has been given.
    pub(crate) sources: RunSources<'a>,
    /// The pass that asks; 0 for selecting.
    pub(crate) pass: u32,
    /// How many calls may be admitted, and the limit that says so.
    pub(crate) quota: Quota,
}

/// How many calls may be admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) left: u32,
    pub(crate) limit: Limit,
}

/// An action, its verdict, and what it takes to run it.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) judged: JudgedAction,
    /// What it is known by, where its tool and arguments are sound.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The key and the try under which it runs.
    pub(crate) run_as: (CommandKey, u32),
}

/// Verdicts for `actions`, in their order. Over the limit, required actions are admitted first.
pub(crate) fn judge(actions: &[Action], context: JudgeContext<'_>) -> Vec<Judged> {
    let mut seen = OtherCalls::default();
    let mut judged: Vec<Judged> = (0..)
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
                // An approval must not pass the limit either.
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

/// Leaves the first call that may run, or that a person may allow, and none after it (C3).
fn keep_first(judged: &mut [Judged]) {
    let may_run = |verdict: &Verdict| matches!(verdict, Verdict::Run | Verdict::NeedsPerson { .. });
    let runnable = judged.iter_mut().filter(|entry| may_run(&entry.judged.verdict));
    for entry in runnable.skip(1) {
        entry.judged.verdict = Verdict::OneAtATime;
    }
}

fn one(action: &Action, key: CommandKey, context: JudgeContext<'_>, seen: &mut OtherCalls) -> Judged {
    let mut judged = Judged {
        judged: JudgedAction {
            key,
            action: action.clone(),
            tool: None,
            parameters: action.parameters.clone(),
            verdict: Verdict::Skipped,
            evidence: None,
            rules: Vec::new(),
            guessed: false,
        },
        fingerprint: None,
        run_as: (key, 1),
    };
    let found = policy::resolve(context.spec, &action.tool);
    judged.judged.guessed = found.is_some_and(|(_, how)| how == Resolved::Fuzzy);
    let tool = found.map(|(tool, _)| tool);
    judged.judged.tool = tool.map(|tool| Arc::clone(&tool.name));
    if action.priority == Priority::NiceToHave {
        return judged;
    }
    judged.judged.verdict = match tool {
        // To ask for what policy does not let run is no slip, be it there or not (S4-79, S4-83).
        None => match policy::bars_name(context.spec, &action.tool) {
            Some(reason) => denied(&mut judged.judged, &reason),
            None => Verdict::UnknownTool { similar: policy::similar(context.spec, &action.tool) },
        },
        Some(tool) => sound(tool, &mut judged, context, seen),
    };
    judged
}

/// What policy denies for one reason, whatever the arguments are.
fn denied(judged: &mut JudgedAction, reason: &policy::Reason) -> Verdict {
    judged.rules = vec![reason.rule()];
    Verdict::Denied { why: reason.to_string().into(), by: DeniedBy::Policy }
}

/// The verdict on an action whose tool is known: what may never run is denied whatever its arguments are (S4-79, S4-80),
/// what fits the tool is then judged by policy, as a repeat, by the tool's breaker, and at last by who has to consent.
fn sound(tool: &ToolSpec, judged: &mut Judged, context: JudgeContext<'_>, seen: &mut OtherCalls) -> Verdict {
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
        Err(error) => {
            return Verdict::InvalidArguments { pointer: "".into(), message: Arc::clone(error) };
        }
    };
    // Which of them would be meant? Of what changes something, nobody guesses.
    if !tool.effect.is_read()
        && let Some(pointer) = written.repeated().first()
    {
        let message = "is given more than once".into();
        return Verdict::InvalidArguments { pointer: pointer.as_str().into(), message };
    }
    let is_output = context.spec.protocol.output().is_some_and(|output| output.tool == tool.name);
    let rebuilt = match tool.args.rebuild(requested) {
        // What an output holds is judged by its own validation.
        Ok(parameters) if !is_output => tool.args.filled(&parameters).map(|()| parameters),
        rebuilt => rebuilt,
    };
    let parameters = match rebuilt {
        Ok(parameters) => parameters,
        Err(schema_violation) => {
            return Verdict::InvalidArguments {
                pointer: schema_violation.pointer.into(),
                message: schema_violation.message.into(),
            };
        }
    };
    let arguments = Arguments::of(parameters);
    judged.judged.parameters = arguments.clone();
    // What was made of a value has one.
    let parameters = arguments.value().unwrap_or(&Value::Null);
    let JudgeContext { spec, taint, sources, .. } = context;
    let ask = PolicyAsk { spec, tool, parameters, taint, sources: &sources };
    let ruling = policy::ruling(&ask);
    judged.judged.rules = ruling.rules();
    let by_policy = ruled(&ruling, tool.effect);
    if let Some(Verdict::Denied { why, by }) = by_policy {
        return Verdict::Denied { why, by };
    }
    let facts = CallFacts::of(tool, parameters);
    let mut rules = Rules::of_run(context.spec);
    if !policy::judges_repeats(context.spec, &tool.name) {
        rules.repeats = Repeats::Off;
    }
    let fingerprint =
        judged.fingerprint.insert(Fingerprint::of_canonical(&facts, &judged.judged.parameters, &rules));
    match context.ledger.call_status(fingerprint, &rules, seen) {
        // Not the same call: it is told of its limit, whatever is said to repeats.
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
        // What may have happened already is not done again without anybody knowing.
        CallStatus::InDoubt => {
            let doubt = "it may have happened already";
            let why = match by_policy {
                Some(Verdict::NeedsPerson { why: Some(why), .. }) => format!("{doubt}; {why}").into(),
                _ => doubt.into(),
            };
            return Verdict::NeedsPerson { effect: tool.effect, why: Some(why) };
        }
        CallStatus::Again { key, attempt } => judged.run_as = (key, attempt),
        CallStatus::New => {}
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
    seen.add(fingerprint, judged.judged.key);
    by_policy.unwrap_or(Verdict::Run)
}
