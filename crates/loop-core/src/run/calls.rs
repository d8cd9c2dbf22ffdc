//! Tool calls: the requested actions with their verdicts and results.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{JudgedAction, Trouble};
use crate::repeats::Ledger;
use crate::run::phase::Work;
use crate::spec::{RunSpec, ToolSpec};
use crate::types::{CommandKey, Effect};

/// Every call that a model asked for, and what the run remembers of those that ran.
///
/// Actions are in the order of their keys, and none is ever taken away.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Calls {
    pub(super) actions: Vec<JudgedAction>,
    pub(super) ledger: Ledger,
    /// What went wrong in a row.
    pub(super) trouble: Trouble,
    /// The effects that were started and whose outcome is unknown: the tool by the key under which it ran.
    pub(super) doubts: BTreeMap<CommandKey, Arc<str>>,
}

impl Calls {
    /// No calls yet; the ledger holds what may have happened before the run.
    pub(super) fn start(ledger: Ledger) -> Self {
        Self { actions: Vec::new(), ledger, trouble: Trouble::default(), doubts: BTreeMap::new() }
    }

    /// The action of this key.
    pub(super) fn action(&self, key: &CommandKey) -> Option<&JudgedAction> {
        self.at(key).and_then(|at| self.actions.get(at))
    }

    /// The place of the action of this key.
    pub(super) fn at(&self, key: &CommandKey) -> Option<usize> {
        self.actions.binary_search_by_key(key, |action| action.key).ok()
    }

    /// The action that a piece of work does.
    pub(super) fn of(&self, work: &Work) -> Option<&JudgedAction> {
        self.actions.get(work.action as usize)
    }

    /// The tool that a piece of work runs.
    pub(super) fn tool<'s>(&self, work: &Work, spec: &'s RunSpec) -> Option<&'s ToolSpec> {
        self.of(work).and_then(|action| spec.tool(action.tool_name()))
    }

    /// The name of the tool that a piece of work runs.
    pub(super) fn tool_name(&self, work: &Work) -> Arc<str> {
        self.of(work).map_or_else(|| "".into(), |action| action.tool_name().into())
    }

    /// What a piece of work does to the world: the worst, where its tool is not known.
    pub(super) fn effect(&self, work: &Work, spec: &RunSpec) -> Effect {
        self.tool(work, spec).map_or(Effect::WriteIrreversible, |tool| tool.effect)
    }

    /// Whether a piece of work only reads.
    pub(super) fn is_read(&self, work: &Work, spec: &RunSpec) -> bool {
        self.effect(work, spec).is_read()
    }

    /// The effects whose outcome is unknown: each as the key and the tool of its action.
    pub(super) fn in_doubt(&self) -> Vec<Arc<str>> {
        self.doubts.iter().map(|(key, tool)| format!("{key} {tool}").into()).collect()
    }
}
