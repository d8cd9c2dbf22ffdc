//! Policy: what a call may do, decided by rules alone before it runs.
//!
//! ```text
//!  forbidden, or not allowed ─▶ denied          what the run has read ──┐
//!  a question to a person ────▶ person          whom an effect reaches ─┼─▶ runs · person · denied
//!  only reads ────────────────▶ runs            who approved it ────────┘
//! ```
//!
//! [`ruling`] decides that a call runs, needs an approver or is denied, and why. It decides from the spec, the call,
//! the taint of the run and the sources of the call's values. The spec's `gate.people` says whether there is an
//! approver. Without one, a call that could leak data or reach an unauthorised recipient is denied, and a call that
//! merely lacks an approval is left undone.
//!
//! A call that fits a slot of the run's [`EffectPlan`] passes the first of the three rules.
//!
//! Policy does not read earlier calls (see `repeats`), limits, or the text of a reply.

mod authority;
mod echo;
mod forms;
mod free_text;
mod glob;
mod origin;
mod plan;
mod pointer;
mod problems;
mod resolve;
mod scalar;
mod scripts;
mod shown;
mod sought;
mod sources;
mod table;
mod taint;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::spec::{PlanSlot, RunSpec, TaintRule, ToolSpec};
use crate::types::Effect;

pub use crate::types::Taint;

pub use authority::UntrustedOrigin;
pub use glob::matches as fits;
pub use origin::ResultOrigin;
pub use plan::{EffectPlan, PlannedEffect, is_plan, offers_plan, plan_problems};
pub(crate) use plan::{PlannedCall, SlotClaim, accepted};
pub use problems::{forbids_nothing, is_filled_by_outsiders, problems};
pub use resolve::{NameMatch, end_call, offered_ends, resolve, similar};
pub use shown::{ShownArgs, shown};
pub use sought::SoughtValue;
pub use sources::{RunSources, Sources, ValueSource};
pub use table::{Choice, PolicyRow, TableCell, reachable, table};

/// A call that policy decides about.
#[derive(Clone, Copy)]
pub struct PolicyAsk<'a> {
    /// The run's spec with the rules.
    pub spec: &'a RunSpec,
    /// The tool that [`resolve`] found.
    pub tool: &'a ToolSpec,
    /// Its parameters, rebuilt from the fields that the tool declares.
    pub parameters: &'a Value,
    /// What the run has read so far.
    pub taint: Taint,
    /// The authorised sources of values. Read only if the tool has authority-bearing parameters.
    pub sources: &'a dyn Sources,
    /// The free slot of the run's [`EffectPlan`] that the call fits. `None`: none.
    pub planned: Option<&'a PlanSlot>,
}

/// What policy decides about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The call may run without an approver.
    Runs,
    /// The call may run if an approver allows it. The reasons other than its effect; empty if the effect alone
    /// decides.
    NeedsPerson(Vec<Reason>),
    /// The call may not run, for these reasons.
    Denied(Vec<Reason>),
}

/// Why policy does not let a call run without an approver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `gate.forbid` names the tool.
    Forbidden,
    /// `gate.allow` does not name the tool.
    NotAllowed,
    /// The call is a question to a person.
    Question,
    /// The run has read untrusted text.
    Untrusted,
    /// The run has read untrusted text and private data, and the call could send the data out.
    CouldLeak,
    /// A parameter that names a recipient or a target has a value that no authorised source gave.
    UntrustedOrigin(UntrustedOrigin),
}

/// The rule of policy that gives a [`Reason`], without the values that the reason names. Programs decide and count by
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyRule {
    /// `gate.forbid`.
    Forbid,
    /// `gate.allow`.
    Allow,
    /// A tool that asks a person.
    Question,
    /// `gate.taint`: untrusted text, private data that could be sent out, or both.
    Taint,
    /// A tool's `authority`: a value that no authorised source gave.
    Authority,
}

impl Reason {
    /// The rule that gives this reason.
    pub fn rule(&self) -> PolicyRule {
        match self {
            Self::Forbidden => PolicyRule::Forbid,
            Self::NotAllowed => PolicyRule::Allow,
            Self::Question => PolicyRule::Question,
            Self::Untrusted | Self::CouldLeak => PolicyRule::Taint,
            Self::UntrustedOrigin(_) => PolicyRule::Authority,
        }
    }
}

impl Ruling {
    /// The rules that deny the call or require an approver, each once. Empty: it runs, or its effect alone needs an
    /// approver.
    pub fn rules(&self) -> Vec<PolicyRule> {
        let reasons = match self {
            Self::Runs => return Vec::new(),
            Self::NeedsPerson(reasons) | Self::Denied(reasons) => reasons,
        };
        let mut rules: Vec<PolicyRule> = reasons.iter().map(Reason::rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden => f.write_str("forbidden by gate.forbid"),
            Self::NotAllowed => f.write_str("not among what gate.allow names"),
            Self::Question => f.write_str("it is a question to a person"),
            Self::Untrusted => f.write_str("the run has read untrusted text"),
            Self::CouldLeak => f.write_str(
                "the run has read untrusted text and private data, and this call could send the data out",
            ),
            Self::UntrustedOrigin(untrusted_origin) => untrusted_origin.fmt(f),
        }
    }
}

/// The reasons in one line. `None`: there are none.
pub fn rendered(reasons: &[Reason]) -> Option<Arc<str>> {
    let parts: Vec<String> = reasons.iter().map(Reason::to_string).collect();
    (!parts.is_empty()).then(|| parts.join("; ").into())
}

/// Whether policy denies every call of a tool. Such a tool is not offered to a model.
pub fn is_forbidden(spec: &RunSpec, tool: &ToolSpec) -> bool {
    forbidden(spec, tool).is_some()
}

/// Whether a tool may run before the first pass: it is a read, and not a question to a person. Other tools are not
/// offered for selection.
pub fn is_selectable(tool: &ToolSpec) -> bool {
    unselectable(tool).is_none()
}

/// Why a tool may not run before the first pass. `None`: it may. Nothing has been read yet by which a model or an
/// approver could judge its effect.
pub(crate) fn unselectable(tool: &ToolSpec) -> Option<&'static str> {
    if tool.policy.asks_person {
        return Some("a person is asked nothing before the first pass");
    }
    (!tool.effect.is_read()).then_some("before the first pass only tools that read are run")
}

/// Whether `gate.forbid` matches this name, whether or not there is such a tool. A forbidden name is denied, not
/// corrected.
pub fn forbids(spec: &RunSpec, name: &str) -> bool {
    names(&spec.gate.forbid, name)
}

/// Why a call of an unknown tool name is denied: `gate.forbid` matches the name, or `gate.allow` is set and does not.
/// `None`: it is an unknown tool and not a denial.
pub(crate) fn bars_name(spec: &RunSpec, name: &str) -> Option<Reason> {
    let gate = &spec.gate;
    if forbids(spec, name) {
        return Some(Reason::Forbidden);
    }
    let listed = gate.allow.is_empty() || names(&gate.allow, name);
    (!listed).then_some(Reason::NotAllowed)
}

/// Whether `gate.repeats_for` covers this tool. Empty, it covers all tools.
pub(crate) fn judges_repeats(spec: &RunSpec, name: &str) -> bool {
    let gate = &spec.gate;
    gate.repeats_for.is_empty() || names(&gate.repeats_for, name)
}

/// Whether `gate.approved` matches this tool. The entry is the domain author's approval of its effect.
pub fn approves(spec: &RunSpec, name: &str) -> bool {
    names(&spec.gate.approved, name)
}

/// The decision of policy about a call. Repeats and limits are checked elsewhere.
///
/// It also works without a [`Run`](crate::Run). Of the spec it reads only the gate, the protocol and the tools. The
/// authorised sources are then the user's messages.
///
/// ```
/// use loop_core::policy::{PolicyAsk, Taint, Ruling, RunSources, ruling};
/// use loop_core::{RunSpec, WorkItem};
/// use loop_core::spec::{ArgSpec, ModelSpec, ToolPolicy, ToolSpec};
/// use loop_core::types::Effect;
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
/// let tool = ToolSpec {
///     name: "send_mail".into(),
///     aliases: vec![],
///     description: "".into(),
///     when: "".into(),
///     args: ArgSpec::from_schema(&schema),
///     effect: Effect::Egress,
///     timeout_ms: 12_000,
///     attempts: 1,
///     smart: false,
///     policy: ToolPolicy { authority: vec!["/to".into()], ..ToolPolicy::default() },
/// };
/// let mut spec = RunSpec::conversation("desk", ModelSpec::new("none", "none"));
/// spec.gate.approved = vec!["send_mail".into()];
/// spec.tools = vec![tool.clone()];
/// let message = WorkItem::message("M-1", "", "Write to ann@acme.example.");
///
/// let says = |parameters| {
///     let sources = RunSources { spec: &spec, item: &message, evidence: &[], instructions: &[], requested_before: &[], user_texts: &[] };
///     let (taint, parameters) = (Taint::default(), &parameters);
///     ruling(&PolicyAsk { spec: &spec, tool: &tool, parameters, taint, sources: &sources, planned: None })
/// };
/// assert_eq!(says(json!({"to": "ann@acme.example"})), Ruling::Runs);
/// assert!(matches!(says(json!({"to": "eve@evil.example"})), Ruling::Denied(_)));
/// ```
pub fn ruling(ask: &PolicyAsk<'_>) -> Ruling {
    let PolicyAsk { spec, tool, taint, .. } = *ask;
    if let Some(reason) = forbidden(spec, tool) {
        return Ruling::Denied(vec![reason]);
    }
    if spec.protocol.handles(&tool.name) {
        return Ruling::Runs;
    }
    if tool.policy.asks_person {
        return Ruling::NeedsPerson(vec![Reason::Question]);
    }
    if tool.effect.is_read() {
        return Ruling::Runs;
    }
    let people = spec.gate.people;
    let mut reasons = Vec::new();
    let mut is_denied = false;
    if spec.gate.taint == TaintRule::Ask && taint.untrusted && ask.planned.is_none() {
        let leaks = taint.private && can_send(tool.effect);
        is_denied |= leaks && !people;
        reasons.push(if leaks { Reason::CouldLeak } else { Reason::Untrusted });
    }
    for untrusted_origin in authority::untrusted_origin(ask) {
        is_denied |= !people;
        reasons.push(Reason::UntrustedOrigin(untrusted_origin));
    }
    let approved = approves(spec, &tool.name);
    match (is_denied, reasons.is_empty() && approved) {
        (true, _) => Ruling::Denied(reasons),
        (false, true) => Ruling::Runs,
        (false, false) => Ruling::NeedsPerson(reasons),
    }
}

/// Whether the spec has a tool that policy may let run.
pub(crate) fn has_tools(spec: &RunSpec) -> bool {
    spec.tools.iter().any(|tool| !spec.protocol.handles(&tool.name) && !is_forbidden(spec, tool))
}

/// Why policy denies every call of a tool. `None`: it does not.
pub(crate) fn forbidden(spec: &RunSpec, tool: &ToolSpec) -> Option<Reason> {
    let gate = &spec.gate;
    if forbids(spec, &tool.name) {
        return Some(Reason::Forbidden);
    }
    let listed = gate.allow.is_empty() || names(&gate.allow, &tool.name);
    // The tool that ends the run need not be on `gate.allow`.
    (!listed && !spec.protocol.handles(&tool.name)).then_some(Reason::NotAllowed)
}

/// Whether one of the patterns matches the tool's name.
fn names(patterns: &[Arc<str>], tool: &str) -> bool {
    patterns.iter().any(|pattern| glob::matches(pattern, tool))
}

/// Whether an effect can send data out of the run. A program that the call executes can.
fn can_send(effect: Effect) -> bool {
    match effect {
        Effect::Egress | Effect::Exec => true,
        Effect::Read | Effect::WriteIdempotent | Effect::WriteKeyed | Effect::WriteIrreversible => false,
    }
}

impl fmt::Debug for PolicyAsk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyAsk")
            .field("tool", &self.tool.name)
            .field("parameters", self.parameters)
            .field("taint", &self.taint)
            .finish_non_exhaustive()
    }
}
