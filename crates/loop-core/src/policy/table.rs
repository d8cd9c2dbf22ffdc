//! What policy decides about each tool of a spec, before and after a run has read untrusted or private text.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::policy::{PolicyAsk, Reason, Ruling, rendered, ruling};
use crate::spec::{RunSpec, TaintRule, ToolSpec};
use crate::types::{Effect, Taint};

/// What policy decides about one tool, for `loopgate policy check`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyRow {
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The tool's effect.
    pub effect: Effect,
    /// Whether its results are private.
    pub reads_private: bool,
    /// Whether an untrusted party may have written its results.
    pub returns_untrusted: bool,
    /// JSON pointers to the parameters that name a recipient or a target. Empty if there are none.
    pub authority: Vec<Arc<str>>,
    /// The decision at the start of the run, with the taint of the work item alone.
    pub at_start: TableCell,
    /// The decision after untrusted text was read.
    pub untrusted: TableCell,
    /// The decision after untrusted text and private data were read.
    pub untrusted_and_private: TableCell,
    /// The decision where a value at one of `authority` comes from no authorised source. `None`: the tool has no such
    /// parameter.
    pub untrusted_origin: Option<Choice>,
}

/// A decision of policy and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableCell {
    /// The decision.
    pub may: Choice,
    /// The reason, for people.
    pub why: Arc<str>,
}

/// What policy decides about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The call runs.
    Runs,
    /// The approver is asked.
    Asks,
    /// The call needs an approver and there is none. It is left undone and reported.
    LeftUndone,
    /// The call is denied, and the model reads why.
    Denied,
}

impl Choice {
    /// The decision as a word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Asks => "asks",
            Self::LeftUndone => "left undone",
            Self::Denied => "denied",
        }
    }
}

/// The decisions about each tool, in the order of the spec.
pub fn table(spec: &RunSpec) -> Vec<PolicyRow> {
    let row = |tool: &ToolSpec| {
        let cell = |taint| cell(spec, tool, taint);
        let at_start = cell(Taint::at_start(spec));
        let reaches =
            !tool.effect.is_read() && !tool.policy.authority.is_empty() && at_start.may != Choice::Denied;
        PolicyRow {
            tool: Arc::clone(&tool.name),
            effect: tool.effect,
            reads_private: tool.policy.reads_private,
            returns_untrusted: tool.policy.returns_untrusted,
            authority: tool.policy.authority.clone(),
            at_start,
            untrusted: cell(Taint { untrusted: true, private: false }),
            untrusted_and_private: cell(Taint { untrusted: true, private: true }),
            untrusted_origin: reaches.then_some(if spec.gate.people { Choice::Asks } else { Choice::Denied }),
        }
    };
    spec.tools.iter().map(row).collect()
}

/// The taint that a run of this spec can reach, through its work item and the tools that may run. Empty if `gate.taint`
/// is off.
pub fn reachable(spec: &RunSpec) -> Taint {
    if spec.gate.taint == TaintRule::Off {
        return Taint::default();
    }
    let offered = || spec.tools.iter().filter(|tool| !crate::policy::is_forbidden(spec, tool));
    Taint {
        untrusted: spec.gate.item_untrusted || offered().any(|tool| tool.policy.returns_untrusted),
        private: offered().any(|tool| tool.policy.reads_private),
    }
}

fn cell(spec: &RunSpec, tool: &ToolSpec, taint: Taint) -> TableCell {
    let ask = PolicyAsk { spec, tool, parameters: &Value::Null, taint, sources: &(), planned: None };
    let people = spec.gate.people;
    let asks = if people { Choice::Asks } else { Choice::LeftUndone };
    match ruling(&ask) {
        Ruling::Runs => {
            let why = match (spec.protocol.handles(&tool.name), tool.effect.is_read()) {
                (true, _) => "what the run ends with",
                (false, true) => "only reads",
                (false, false) => "gate.approved names it",
            };
            TableCell { may: Choice::Runs, why: why.into() }
        }
        Ruling::NeedsPerson(reasons) => {
            let why = rendered(&reasons).unwrap_or_else(|| "gate.approved does not name it".into());
            TableCell { may: asks, why: alone(why, people) }
        }
        Ruling::Denied(reasons) => {
            let by_rule =
                reasons.iter().any(|reason| matches!(reason, Reason::Forbidden | Reason::NotAllowed));
            let why = rendered(&reasons).unwrap_or_default();
            TableCell { may: Choice::Denied, why: if by_rule { why } else { alone(why, people) } }
        }
    }
}

fn alone(why: Arc<str>, people: bool) -> Arc<str> {
    if people { why } else { format!("{why}; no person can be asked").into() }
}
