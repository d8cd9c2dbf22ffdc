//! The plan of a run: the effects that it intends, accepted before it has read anything that others may have written.
//!
//! ```text
//!  a model's plan, while nothing untrusted or private was read ─┐
//!  `[[plan]]` of the domain, from the start ───────────────────┴─▶ slots ─▶ a call that fits a free one
//!                                                                            is not asked for taint
//! ```
//!
//! A plan lifts the rule of taint alone. Authority, `gate.forbid`, repeats and `gate.approved` apply to a planned call
//! as to any other. A value that a slot fixes counts as given by the user if it is anywhere in the user's words: the
//! model had read nothing else when it made the plan. For a call that sends data out, this applies only if the slot
//! also fixes what is sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::policy::forms::is_planned;
use crate::policy::pointer::find;
use crate::policy::{approves, can_send, forbidden, forbids, resolve};
use crate::spec::{ArgSpec, PLAN, PlanCount, PlanSlot, RunSpec, TaintRule, ToolSpec};
use crate::types::{CommandKey, Digest, EvidenceId, Taint, digest, is_default};

/// The maximum number of slots.
const MAX_SLOTS: usize = 64;

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EffectPlan {
    /// The intended effects, in the order in which they were given.
    pub slots: Vec<PlannedEffect>,
    /// The key of the call that made the plan, or of the main call whose contract block has it. In pass 0 it is a call
    /// of the selection. `None`: the domain declares the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<CommandKey>,
    /// The digest of the policy under which it was accepted. Under another one it is void.
    pub policy: Digest,
}

/// A slot of a run's plan, with the calls that used it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlannedEffect {
    /// The slot as it was given, its tool by its own name.
    pub slot: PlanSlot,
    /// The calls that used the slot, each with the digest of its addressees.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used: BTreeMap<CommandKey, Digest>,
    /// The result after which the slot lets no data out: private data outside of the plan, read after untrusted text.
    /// `None`: there is no such result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub void: Option<EvidenceId>,
}

/// A call that looks for a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedCall<'a> {
    pub(crate) tool: &'a ToolSpec,
    /// Its parameters as they run.
    pub(crate) parameters: &'a Value,
    /// The key under which it runs. A retry keeps its slot.
    pub(crate) key: CommandKey,
}

impl EffectPlan {
    /// The plan at the start of a run: the domain's, else that of the run whose work it continues, if its policy is the
    /// same. Slots that the earlier run used stay used.
    pub(crate) fn at_start(spec: &RunSpec, policy: Digest, earlier: Option<Self>) -> Option<Self> {
        if spec.plan.is_empty() {
            return earlier.filter(|plan| plan.policy == policy);
        }
        let has_same = |plan: &Self| plan.slots.iter().map(|it| &it.slot).eq(&spec.plan);
        match earlier.filter(has_same) {
            Some(plan) => Some(Self { policy, ..plan }),
            None => Some(Self::new(spec.plan.clone(), None, policy)),
        }
    }

    /// The same plan, with the keys of the calls that took slots in another run.
    pub(crate) fn with_keys(mut self, mut name: impl FnMut(CommandKey) -> CommandKey) -> Self {
        for slot in &mut self.slots {
            slot.used = std::mem::take(&mut slot.used).into_iter().map(|(key, to)| (name(key), to)).collect();
        }
        self
    }

    /// A plan with these slots.
    pub(crate) fn new(slots: Vec<PlanSlot>, by: Option<CommandKey>, policy: Digest) -> Self {
        let free = |slot| PlannedEffect { slot, used: BTreeMap::new(), void: None };
        Self { slots: slots.into_iter().map(free).collect(), by, policy }
    }

    /// The slot that a call takes, unless it is void.
    pub(crate) fn permits(&self, taken: SlotClaim) -> Option<&PlanSlot> {
        self.slots.get(taken.slot as usize).filter(|slot| slot.void.is_none()).map(|slot| &slot.slot)
    }

    /// The slot that a call fits and takes, void or not. `taken` are calls of the same reply that take slots before it.
    pub(crate) fn slot_for(&self, call: PlannedCall<'_>, taken: &[SlotClaim]) -> Option<SlotClaim> {
        let to = call.addressees();
        let before = self.slots.iter().enumerate();
        let before = before.flat_map(|(at, slot)| slot.used.iter().map(move |(key, to)| (at, *key, *to)));
        let taken = taken.iter().map(|it| (it.slot as usize, it.key, it.to));
        let used: Vec<_> = before.chain(taken).filter(|(_, key, _)| *key != call.key).collect();
        // The same slot for each addressee may be given twice.
        let is_each = |at: &usize| {
            let slot = self.slots.get(*at).map(|it| &it.slot);
            slot.is_some_and(|it| it.count == PlanCount::Each && *it.tool == *call.tool.name)
        };
        let is_free = |(at, slot): &(usize, &PlannedEffect)| {
            slot.slot.fits(call.tool, call.parameters)
                && match slot.slot.count {
                    PlanCount::Times(times) => {
                        used.iter().filter(|(other, ..)| other == at).count() < times as usize
                    }
                    PlanCount::Each => {
                        !used.iter().any(|(other, _, reached)| is_each(other) && *reached == to)
                    }
                }
        };
        let (at, _) = self.slots.iter().enumerate().find(is_free)?;
        Some(SlotClaim { slot: u32::try_from(at).ok()?, key: call.key, to })
    }

    /// Records that a call takes its slot.
    pub(crate) fn take(&mut self, slot: u32, call: PlannedCall<'_>) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.used.insert(call.key, call.addressees());
        }
    }

    /// Frees the slot of a call that was not made.
    pub(crate) fn free(&mut self, key: &CommandKey) {
        self.slots.iter_mut().for_each(|slot| _ = slot.used.remove(key));
    }

    /// Records that private data was read which the plan does not name, after untrusted text: no slot lets data out any more.
    pub(crate) fn leaked_into(
        &mut self,
        spec: &RunSpec,
        tool: &ToolSpec,
        parameters: &Value,
        by: EvidenceId,
    ) {
        if self.slots.iter().any(|slot| slot.slot.fits(tool, parameters)) {
            return;
        }
        let sends = |slot: &&mut PlannedEffect| {
            slot.void.is_none() && spec.tool(&slot.slot.tool).is_some_and(|tool| can_send(tool.effect))
        };
        self.slots.iter_mut().filter(sends).for_each(|slot| slot.void = Some(by));
    }
}

/// A slot that a call of the same reply takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotClaim {
    pub(crate) slot: u32,
    key: CommandKey,
    /// Those whom the call reaches, as a digest.
    to: Digest,
}

impl PlannedCall<'_> {
    /// The values that say whom the call reaches, as a digest.
    fn addressees(&self) -> Digest {
        let pointers = self.tool.policy.authority.iter();
        let reached = pointers.flat_map(|pointer| find(self.parameters, pointer));
        digest("addressees", &reached.map(|(_, value)| value.clone()).collect())
    }
}

impl PlanSlot {
    /// Whether it fixes every parameter that a call gives.
    pub(crate) fn fixes_all(&self, tool: &ToolSpec, parameters: &Value) -> bool {
        let mut given = parameters.as_object().into_iter().flatten();
        given.all(|(name, value)| self.fixed.contains_key(name.as_str()) || is_left_out(tool, name, value))
    }

    /// Whether a call fits: the tool, each fixed value, and no parameter beyond the open ones.
    pub(crate) fn fits(&self, tool: &ToolSpec, parameters: &Value) -> bool {
        let none = Map::new();
        let given = parameters.as_object().unwrap_or(&none);
        let is_fixed = |(name, planned): (&Arc<str>, &Value)| {
            is_planned(planned, given.get(&**name).unwrap_or(&Value::Null))
        };
        let is_open = |(name, value): (&String, &Value)| {
            let is_named = |open: &Vec<Arc<str>>| open.iter().any(|open| **open == **name);
            is_left_out(tool, name, value)
                || self.fixed.contains_key(name.as_str())
                || self.open.as_ref().is_none_or(is_named)
        };
        *self.tool == *tool.name && self.fixed.iter().all(is_fixed) && given.iter().all(is_open)
    }
}

/// Whether a parameter is as if the call did not give it: null, or the tool's default.
fn is_left_out(tool: &ToolSpec, name: &str, value: &Value) -> bool {
    let own = tool.args.properties.get(name);
    value.is_null() || own.and_then(|own| own.default.as_ref()) == Some(value)
}

/// Whether the model is offered to plan, because a plan can make a difference: some effect runs without an approver
/// until untrusted text is read, and some tool reads such text.
pub fn offers_plan(spec: &RunSpec) -> bool {
    let may = |tool: &&ToolSpec| forbidden(spec, tool).is_none() && !spec.protocol.is_output(&tool.name);
    let tools = || spec.tools.iter().filter(may);
    is_plan(spec, PLAN)
        && spec.plan.is_empty()
        && spec.gate.taint == TaintRule::Ask
        && !spec.gate.item_untrusted
        && tools().any(|tool| tool.policy.returns_untrusted)
        && tools().any(|tool| !tool.effect.is_read() && approves(spec, &tool.name))
}

/// Whether a call of this name is the model's plan. A tool of the domain with that name or alias takes precedence, and
/// `gate.forbid` disables the plan.
pub fn is_plan(spec: &RunSpec, name: &str) -> bool {
    name == PLAN && spec.tool(name).is_none() && !forbids(spec, name)
}

/// The slots of a model's plan. A run has one plan, so that what an earlier message says of it stays true.
///
/// # Errors
/// Why it is not accepted, for the model.
pub(crate) fn accepted(
    spec: &RunSpec,
    taint: Taint,
    before: Option<&EffectPlan>,
    plan: &Value,
) -> Result<Vec<PlanSlot>, String> {
    match before {
        Some(EffectPlan { by: None, .. }) => return Err("the domain gives the plan".to_owned()),
        Some(EffectPlan { by: Some(by), .. }) => {
            return Err(format!("the plan of pass {} holds already", by.pass));
        }
        None if taint != Taint::default() => {
            return Err("a plan is made before anything untrusted or private was read".to_owned());
        }
        None => {}
    }
    let slots = plan.get("slots").unwrap_or(plan);
    let slots: Vec<PlanSlot> = Vec::deserialize(slots)
        .map_err(|error| format!("it is a list of slots {{tool, fixed, open, count}}: {error}"))?;
    if slots.len() > MAX_SLOTS {
        return Err(format!("it has {} slots, and {MAX_SLOTS} are the most", slots.len()));
    }
    slots.into_iter().map(|slot| checked(spec, slot)).collect()
}

/// The errors in the plan of a domain, each with the index of its slot.
pub fn plan_problems(spec: &RunSpec) -> Vec<(usize, String)> {
    let slots = spec.plan.iter().enumerate();
    slots.filter_map(|(at, slot)| Some((at, checked(spec, slot.clone()).err()?))).collect()
}

/// A slot whose tool and parameters exist, the tool by its own name.
fn checked(spec: &RunSpec, slot: PlanSlot) -> Result<PlanSlot, String> {
    let Some((tool, _)) = resolve(spec, &slot.tool) else {
        return Err(format!("there is no tool `{}`", slot.tool));
    };
    if forbidden(spec, tool).is_some() {
        return Err(format!("`{}` is forbidden", slot.tool));
    }
    if slot.count == PlanCount::Each && !tool.effect.is_read() && tool.policy.authority.is_empty() {
        return Err(format!(
            "`{}` does not say whom it reaches (`authority`); write a number as `count`",
            slot.tool
        ));
    }
    let ArgSpec { properties, .. } = &tool.args;
    let named = slot.fixed.keys().chain(slot.open.iter().flatten());
    match named.into_iter().find(|name| !properties.is_empty() && !properties.contains_key(&**name)) {
        Some(name) => Err(format!("`{}` has no parameter `{name}`", tool.name)),
        None => Ok(PlanSlot { tool: Arc::clone(&tool.name), ..slot }),
    }
}
