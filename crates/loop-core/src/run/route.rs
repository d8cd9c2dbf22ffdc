//! The route: the tier whose model is called, and why.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::gate::{TierCause, TierChange};
use crate::spec::RunSpec;
use crate::types::{RequestPart, Tier};

/// The tier of main calls, with the changes that led to it.
///
/// Each kind of change (from, to, why) is stored once, with its first pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Route {
    /// The tier of the next main call.
    pub(super) tier: Tier,
    changes: Vec<TierChange>,
    /// Bytes and input tokens of the last main call, for the estimate of the next one. `None` once the prefix or the
    /// model has changed.
    pub(super) last_main: Option<MainCall>,
    /// The parts that a provider refused, which later requests leave out.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) left_out: BTreeSet<RequestPart>,
}

/// The last main call's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct MainCall {
    pub(super) tier: Tier,
    /// Bytes of its prompt.
    pub(super) bytes: u64,
    /// Input tokens as reported, or as reserved if not reported.
    pub(super) input_tokens: u64,
}

impl Route {
    /// The route at the start of a run.
    pub(super) fn start() -> Self {
        Self { tier: Tier::Base, changes: Vec::new(), last_main: None, left_out: BTreeSet::new() }
    }

    /// The changes of tier, in order.
    pub(super) fn changes(&self) -> &[TierChange] {
        &self.changes
    }

    /// Records a change of tier, once for each kind.
    pub(super) fn keep(&mut self, change: TierChange) {
        let is_same =
            |known: &TierChange| (known.from, known.to, known.why) == (change.from, change.to, change.why);
        if !self.changes.iter().any(is_same) {
            self.changes.push(change);
        }
    }

    /// The first pass of the escalated model. `None`: the run was not escalated.
    pub(super) fn escalated(&self) -> Option<u32> {
        self.changes.iter().find(|change| change.why == TierCause::LowConfidence).map(|change| change.pass)
    }

    /// Whether the base model was left because it was unavailable.
    fn left_base(&self) -> bool {
        let is_it = |it: &TierChange| it.why == TierCause::Unavailable && it.from == Tier::Base;
        self.changes.iter().any(is_it)
    }

    /// The tier of auxiliary calls: repairs, and the sub-calls of smart tools.
    pub(super) fn auxiliary_tier(&self, spec: &RunSpec) -> Tier {
        // Without a model of its own the selector tier uses the base model, which is unavailable.
        if self.left_base() && spec.models.selector.is_none() { Tier::Fallback } else { Tier::Selector }
    }
}
