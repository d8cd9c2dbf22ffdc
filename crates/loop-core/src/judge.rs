//! Verdicts: what software says to each action that a model asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::action::{Action, JudgedAction, Priority, Verdict};
use crate::canonical::canonical;
use crate::ids::{CommandKey, Digest, Slot};
use crate::ledger::{Ledger, Standing};
use crate::near::near_names;
use crate::policy_spec::Repeats;
use crate::protocol;
use crate::protocol_spec::Execution;
use crate::spec::{RunSpec, ToolSpec};

/// What actions are judged against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) ledger: &'a Ledger,
    /// The pass that asks; 0 for picking.
    pub(crate) pass: u32,
    /// How many calls may be admitted, and the setting that says so.
    pub(crate) room: Room,
}

/// How many calls may be admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) left: u32,
    pub(crate) setting: &'static str,
}

/// An action, its verdict, and what it takes to run it.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) judged: JudgedAction,
    /// Its signature, where its tool and arguments are sound.
    pub(crate) signature: Option<Digest>,
    /// The key and the try under which it runs.
    pub(crate) run_as: (CommandKey, u32),
}

/// The sound calls of a reply so far.
#[derive(Debug, Default)]
struct Seen {
    /// By signature: the last one, and how many before it change something.
    calls: BTreeMap<Digest, (CommandKey, u32)>,
    /// How many change something.
    changes: u32,
}

/// Verdicts for `actions`, in their order. Over the limit, required actions are admitted first.
pub(crate) fn judge(actions: &[Action], bench: Bench<'_>) -> Vec<Judged> {
    let mut seen = Seen::default();
    let mut judged: Vec<Judged> = (0..)
        .zip(actions)
        .map(|(n, action)| one(action, CommandKey::new(bench.pass, Slot::Action(n)), bench, &mut seen))
        .collect();
    if bench.spec.protocol.execution() == Execution::Single {
        keep_first(&mut judged);
    }
    let mut left = bench.room.left;
    for wanted in [Priority::Required, Priority::Recommended] {
        for entry in judged.iter_mut().filter(|entry| entry.judged.action.priority == wanted) {
            let may_run = match entry.judged.verdict {
                Verdict::Run => true,
                // An approval must not pass the limit either.
                Verdict::NeedsPerson { .. } => bench.spec.gate.people,
                Verdict::Kept
                | Verdict::UnknownTool { .. }
                | Verdict::InvalidArguments { .. }
                | Verdict::Denied { .. }
                | Verdict::Duplicate { .. }
                | Verdict::Skipped
                | Verdict::OverLimit { .. } => false,
            };
            if !may_run {
                continue;
            }
            match left.checked_sub(1) {
                Some(rest) => left = rest,
                None => {
                    entry.judged.verdict = Verdict::OverLimit { setting: bench.room.setting.into() };
                }
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
        entry.judged.verdict = Verdict::OverLimit { setting: "protocol.execution".into() };
    }
}

fn one(action: &Action, key: CommandKey, bench: Bench<'_>, seen: &mut Seen) -> Judged {
    let mut judged = Judged {
        judged: JudgedAction {
            key,
            action: action.clone(),
            tool: None,
            parameters: Arc::clone(&action.parameters),
            verdict: Verdict::Skipped,
            evidence: None,
        },
        signature: None,
        run_as: (key, 1),
    };
    let tool = bench.spec.tool(&action.tool);
    judged.judged.tool = tool.map(|tool| Arc::clone(&tool.name));
    if action.priority == Priority::NiceToHave {
        return judged;
    }
    judged.judged.verdict = match tool {
        None => Verdict::UnknownTool { near: near_names(&action.tool, &bench.spec.tools) },
        Some(tool) => sound(tool, &mut judged, bench, seen),
    };
    judged
}

/// The verdict on an action whose tool is known.
fn sound(tool: &ToolSpec, judged: &mut Judged, bench: Bench<'_>, seen: &mut Seen) -> Verdict {
    if bench.spec.gate.forbid.contains(&tool.name) {
        return Verdict::Denied { why: "forbidden by gate.forbid".into() };
    }
    if protocol::keeps(bench.spec, &tool.name) {
        return Verdict::Kept;
    }
    let written = &judged.judged.action.parameters;
    let asked = match serde_json::from_str(written) {
        Ok(asked) => asked,
        Err(_) if !bench.spec.protocol.is_native() => Value::Null,
        // Nothing means no arguments (S1-d2).
        Err(_) if written.trim().is_empty() => Value::Object(serde_json::Map::new()),
        Err(error) => {
            let message = format!("the arguments are not JSON: {error}").into();
            return Verdict::InvalidArguments { pointer: "".into(), message };
        }
    };
    let parameters = match tool.args.rebuild(&asked) {
        Ok(parameters) => parameters,
        Err(misfit) => {
            return Verdict::InvalidArguments {
                pointer: misfit.pointer.into(),
                message: misfit.message.into(),
            };
        }
    };
    judged.judged.parameters = canonical(&parameters).into();
    let signature = Ledger::signature(&tool.name, &parameters);
    judged.signature = Some(signature);
    let repeats = bench.spec.repeats();
    match bench.ledger.standing(&signature, tool.attempts) {
        Standing::Done { key, evidence, settled, brought, in_doubt } => match repeats {
            Repeats::NeverRerun => {
                return Verdict::Duplicate { of: key, evidence: settled.then_some(evidence), rule: None };
            }
            Repeats::Reuse if brought && tool.effect.is_read() && seen.changes == 0 => {
                return Verdict::Duplicate { of: key, evidence: Some(evidence), rule: None };
            }
            // What may have happened already is not done again without anybody knowing.
            Repeats::Reuse | Repeats::Off | Repeats::Progress | Repeats::ThreeTier if in_doubt => {
                return Verdict::NeedsPerson { effect: tool.effect };
            }
            Repeats::Reuse | Repeats::Off | Repeats::Progress | Repeats::ThreeTier => {}
        },
        Standing::Again { key, attempt } => judged.run_as = (key, attempt),
        Standing::New => {}
    }
    match (seen.calls.get(&signature), repeats) {
        (Some((earlier, _)), Repeats::NeverRerun) => {
            return Verdict::Duplicate { of: *earlier, evidence: None, rule: None };
        }
        (Some((earlier, changes)), Repeats::Reuse) if tool.effect.is_read() && *changes == seen.changes => {
            return Verdict::Duplicate { of: *earlier, evidence: None, rule: None };
        }
        // A second one beside the first is no retry of it.
        (Some(_), _) => judged.run_as = (judged.judged.key, 1),
        (None, _) => {}
    }
    seen.calls.insert(signature, (judged.judged.key, seen.changes));
    seen.changes += u32::from(!tool.effect.is_read());
    if tool.effect.is_read() || bench.spec.gate.approved.contains(&tool.name) {
        Verdict::Run
    } else {
        Verdict::NeedsPerson { effect: tool.effect }
    }
}
