//! What may happen with each tool of a spec, before and after a run has read what marks it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::policy::{PolicyAsk, Reason, Ruling, rendered, ruling};
use crate::spec::{RunSpec, TaintRule, ToolSpec};
use crate::types::{Effect, Taint};

/// What may happen with a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyRow {
    /// The tool's own name.
    pub tool: Arc<str>,
    /// What it does to the world.
    pub effect: Effect,
    /// Whether what it brings is private.
    pub reads_private: bool,
    /// Whether what it brings was written by whoever liked to.
    pub returns_untrusted: bool,
    /// Pointers to the parameters that say whom or what it reaches.
    pub authority: Vec<Arc<str>>,
    /// At the start of a run.
    pub at_start: Cell,
    /// After something untrusted was read.
    pub untrusted: Cell,
    /// After something untrusted and something private was read.
    pub untrusted_and_private: Cell,
    /// Where a value at one of `authority` was given by nobody who may; nothing where that cannot be.
    pub untrusted_origin: Option<May>,
}

/// What may happen, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// What may happen.
    pub may: May,
    /// Why.
    pub why: Arc<str>,
}

/// What may happen with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum May {
    /// It runs.
    Runs,
    /// A person is asked.
    Asks,
    /// It needs a person, and nobody can be asked: it is left undone, and the run tells so.
    LeftUndone,
    /// It is denied, and the model is told.
    Denied,
}

impl May {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Asks => "asks",
            Self::LeftUndone => "left undone",
            Self::Denied => "denied",
        }
    }
}

/// What may happen with each tool, in the order of the spec.
pub fn table(spec: &RunSpec) -> Vec<PolicyRow> {
    let row = |tool: &ToolSpec| {
        let cell = |taint| cell(spec, tool, taint);
        let at_start = cell(Taint::at_start(spec));
        let reaches =
            !tool.effect.is_read() && !tool.policy.authority.is_empty() && at_start.may != May::Denied;
        PolicyRow {
            tool: Arc::clone(&tool.name),
            effect: tool.effect,
            reads_private: tool.policy.reads_private,
            returns_untrusted: tool.policy.returns_untrusted,
            authority: tool.policy.authority.clone(),
            at_start,
            untrusted: cell(Taint { untrusted: true, private: false }),
            untrusted_and_private: cell(Taint { untrusted: true, private: true }),
            untrusted_origin: reaches.then_some(if spec.gate.people { May::Asks } else { May::Denied }),
        }
    };
    spec.tools.iter().map(row).collect()
}

/// What a run of this spec can come to have read, if it matters: by its work item and by the tools that may run.
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

fn cell(spec: &RunSpec, tool: &ToolSpec, taint: Taint) -> Cell {
    let ask = PolicyAsk { spec, tool, parameters: &Value::Null, taint, sources: &() };
    let people = spec.gate.people;
    let asks = if people { May::Asks } else { May::LeftUndone };
    match ruling(&ask) {
        Ruling::Runs => {
            let why = match (spec.protocol.handles(&tool.name), tool.effect.is_read()) {
                (true, _) => "what the run ends with",
                (false, true) => "only looks",
                (false, false) => "gate.approved names it",
            };
            Cell { may: May::Runs, why: why.into() }
        }
        Ruling::NeedsPerson(reasons) => {
            let why = rendered(&reasons).unwrap_or_else(|| "gate.approved does not name it".into());
            Cell { may: asks, why: alone(why, people) }
        }
        Ruling::Denied(reasons) => {
            let by_rule =
                reasons.iter().any(|reason| matches!(reason, Reason::Forbidden | Reason::NotAllowed));
            let why = rendered(&reasons).unwrap_or_default();
            Cell { may: May::Denied, why: if by_rule { why } else { alone(why, people) } }
        }
    }
}

fn alone(why: Arc<str>, people: bool) -> Arc<str> {
    if people { why } else { format!("{why}; nobody can be asked").into() }
}
