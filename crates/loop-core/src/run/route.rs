//! The route: which tier's model is called, and why.

use serde::{Deserialize, Serialize};

use crate::gate::{TierCause, TierChange};
use crate::spec::RunSpec;
use crate::types::Tier;

/// The tier of main calls, with the changes that led there.
///
/// Each kind of change (from, to, why) is kept once, with the pass in which it came first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Route {
    /// The tier of the next main call.
    pub(super) tier: Tier,
    changes: Vec<TierChange>,
    /// Bytes and input tokens of the last main call, by which the next one is estimated; nothing once the next prompt, or
    /// the model, is another one.
    pub(super) last_main: Option<MainCall>,
}

/// The last main call's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct MainCall {
    pub(super) tier: Tier,
    /// Bytes of its prompt.
    pub(super) bytes: u64,
    /// Input tokens as reported, or as reserved where none were.
    pub(super) input_tokens: u64,
}

impl Route {
    /// The route of a run that begins.
    pub(super) fn start() -> Self {
        Self { tier: Tier::Base, changes: Vec::new(), last_main: None }
    }

    /// The main calls that another tier's model took.
    pub(super) fn changes(&self) -> &[TierChange] {
        &self.changes
    }

    /// Keeps a change of a main call's tier.
    pub(super) fn keep(&mut self, change: TierChange) {
        let is_same =
            |known: &TierChange| (known.from, known.to, known.why) == (change.from, change.to, change.why);
        if !self.changes.iter().any(is_same) {
            self.changes.push(change);
        }
    }

    /// The pass that the escalated model took over with.
    pub(super) fn escalated(&self) -> Option<u32> {
        self.changes.iter().find(|change| change.why == TierCause::LowConfidence).map(|change| change.pass)
    }

    /// Whether another route was taken, since the base model could not be had.
    fn left_base(&self) -> bool {
        let is_it = |it: &TierChange| it.why == TierCause::Unavailable && it.from == Tier::Base;
        self.changes.iter().any(is_it)
    }

    /// The tier of small calls: repairs, and those that smart tools make.
    pub(super) fn auxiliary_tier(&self, spec: &RunSpec) -> Tier {
        // Without a model of its own the selector is the base model, which cannot be had.
        if self.left_base() && spec.models.selector.is_none() { Tier::Fallback } else { Tier::Selector }
    }
}
