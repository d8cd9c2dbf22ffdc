//! Tool calls: the requested actions with their verdicts and results.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{JudgedAction, Trouble, Verdict};
use crate::repeats::{Ledger, RepeatNote};
use crate::run::eager::DroppedRead;
use crate::run::phase::Work;
use crate::spec::{RunSpec, ToolSpec};
use crate::types::{CommandKey, Effect, EvidenceId};

/// The requested actions, and the ledger of the calls that ran.
///
/// Actions are in the order of their keys, and none is ever removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Calls {
    /// Shared with the notes of their verdicts.
    pub(super) actions: Vec<Arc<JudgedAction>>,
    pub(super) ledger: Ledger,
    /// Consecutive failures, for the circuit breakers.
    pub(super) trouble: Trouble,
    /// Writes in doubt: started, with an unknown outcome. The tool by the key under which it ran.
    pub(super) doubts: BTreeMap<CommandKey, Arc<str>>,
    /// The notes that results carry, by the number of the result.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) notes: BTreeMap<EvidenceId, RepeatNote>,
    /// Eager reads whose results were not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) dropped: Vec<DroppedRead>,
    /// Idempotency keys of calls that another run made first, by the key under which this one knows them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) foreign: BTreeMap<CommandKey, Arc<str>>,
}

impl Calls {
    /// No calls yet. The ledger holds the writes in doubt from before the run.
    pub(super) fn start(ledger: Ledger) -> Self {
        Self {
            actions: Vec::new(),
            ledger,
            trouble: Trouble::default(),
            doubts: BTreeMap::new(),
            notes: BTreeMap::new(),
            dropped: Vec::new(),
            foreign: BTreeMap::new(),
        }
    }

    /// The action with this key.
    pub(super) fn action(&self, key: &CommandKey) -> Option<&JudgedAction> {
        self.at(key).and_then(|at| self.actions.get(at)).map(|action| &**action)
    }

    /// The index of the action with this key.
    pub(super) fn at(&self, key: &CommandKey) -> Option<usize> {
        self.actions.binary_search_by_key(key, |action| action.key).ok()
    }

    /// The action of a piece of work.
    pub(super) fn of(&self, work: &Work) -> Option<&JudgedAction> {
        self.actions.get(work.action as usize).map(|action| &**action)
    }

    /// The tool of a piece of work.
    pub(super) fn tool<'s>(&self, work: &Work, spec: &'s RunSpec) -> Option<&'s ToolSpec> {
        self.of(work).and_then(|action| spec.tool(action.tool_name()))
    }

    /// The tool name of a piece of work. Empty if unknown.
    pub(super) fn tool_name(&self, work: &Work) -> Arc<str> {
        self.of(work).map_or_else(|| "".into(), |action| action.tool_name().into())
    }

    /// The effect of a piece of work; for an unknown tool the worst.
    pub(super) fn effect(&self, work: &Work, spec: &RunSpec) -> Effect {
        self.tool(work, spec).map_or(Effect::WriteIrreversible, |tool| tool.effect)
    }

    /// Whether a piece of work is a read.
    pub(super) fn is_read(&self, work: &Work, spec: &RunSpec) -> bool {
        self.effect(work, spec).is_read()
    }

    /// Whether a call with the same tool and arguments as `action` was denied before the action at this index.
    pub(super) fn was_denied(&self, at: usize, action: &JudgedAction) -> bool {
        let is_same = |before: &JudgedAction| {
            before.tool == action.tool
                && before.parameters == action.parameters
                && matches!(before.verdict, Verdict::Denied { .. })
        };
        self.actions.iter().take(at).any(|before| is_same(before))
    }

    /// The writes in doubt, each as the key and the tool of its action.
    pub(super) fn in_doubt(&self) -> Vec<Arc<str>> {
        self.doubts.iter().map(|(key, tool)| format!("{key} {tool}").into()).collect()
    }
}
