//! Tool calls: the requested actions with their verdicts and results.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{FailureCounts, JudgedAction, Verdict};
use crate::repeats::{Ledger, RepeatNote};
use crate::run::command::SubCallBudget;
use crate::run::eager_read::DroppedRead;
use crate::spec::{RunSpec, ToolSpec};
use crate::types::{
    ChildUse, CommandKey, Digest, Effect, EvidenceId, Lease, Millis, Observation, SubCallUse,
};

/// The requested actions, and the ledger of the calls that ran.
///
/// Actions are in the order of their keys, and none is ever removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Calls {
    /// Shared with the notes of their verdicts.
    pub(super) actions: Vec<Arc<JudgedAction>>,
    pub(super) ledger: Ledger,
    /// Consecutive failures, for the circuit breakers.
    pub(super) trouble: FailureCounts,
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
            trouble: FailureCounts::default(),
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

    /// Whether a piece of work is a run of its own.
    pub(super) fn is_run(&self, work: &Work, spec: &RunSpec) -> bool {
        self.tool(work, spec).is_some_and(|tool| tool.policy.lease.is_some())
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

/// One admitted action.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Work {
    /// Its idempotency key: the key of the first time that the same call was requested.
    pub key: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
    /// Its index in the run's list of actions.
    pub action: u32,
    /// The number that its result gets.
    pub evidence: EvidenceId,
    /// Its fingerprint in the ledger.
    pub signature: Digest,
    /// Whether it may be started: reads always, writes once they are announced.
    pub announced: bool,
    /// What its sub-call may spend. `None`: it makes none.
    pub sub_call: Option<SubCallBudget>,
    /// What it may use, if it is a run of its own, until it settles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Box<Lease>>,
    /// Since when that run waits for people and has no driver. `None`: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Box<ChildWait>>,
    /// Its result. `None`: it has not settled.
    pub observation: Option<Arc<Observation>>,
    /// The next poll of its tool. `None`: its tool has not answered `pending`.
    pub poll: Option<Box<Poll>>,
    /// How many tries ended with the program. They do not count as failures.
    pub lost: u32,
}

/// A tool that answered `pending` and is polled again, without a model call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Poll {
    /// The number of polls, the next one included.
    pub times: u32,
    /// The earliest instant of the next poll, since the start of the run.
    pub not_before: Millis,
    /// Its last answer.
    pub last: Observation,
}

/// A run that was called as a tool, waits for people and was left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChildWait {
    /// Since when, counted from the start of the caller.
    pub since: Millis,
    /// What it has used so far.
    pub used: ChildUse,
}

impl Work {
    /// Whether it runs: started, or free to start at any moment, and not settled.
    pub(super) fn is_in_flight(&self) -> bool {
        self.announced && self.observation.is_none() && self.waiting.is_none()
    }

    /// Whether it waits for the next poll of its tool.
    pub(super) fn waits(&self, now: Millis) -> bool {
        self.poll.as_ref().is_some_and(|poll| poll.not_before > now)
    }

    /// The assumed usage of a sub-call whose driver is gone. `None`: no sub-call was granted or started.
    pub(super) fn lost_sub_call(&self) -> Option<Box<SubCallUse>> {
        let granted = self.sub_call.filter(|_| self.announced);
        granted.map(|_| Box::new(SubCallUse::new(false, None)))
    }
}
