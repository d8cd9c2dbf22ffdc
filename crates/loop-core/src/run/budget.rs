//! The budget: what was used, and what is reserved for calls that have not settled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::run::outcome::ServedCall;
use crate::spec::RunSpec;
use crate::types::{CommandKey, Lease, PicoUsd, Slot, Tier, Totals, is_default};

/// What a run has used so far, call by call and in total.
///
/// Totals only grow, except that a call is taken back if its announcement could not be journaled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Budget {
    pub(super) totals: Totals,
    /// The number of sub-calls that are granted to smart tools and have not settled.
    pub(super) granted_sub_calls: u32,
    /// Whether a sub-call is granted to a check and has not settled.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) granted_check: bool,
    /// What is leased to runs that are called as tools and have not settled, all together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) leased: Lease,
    /// The amount that the run's total cost may reach, because the budget that it shares with other runs leaves no more.
    /// `None`: that budget has refused no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shared: Option<PicoUsd>,
    /// The model calls that settled, in order of settling.
    settled: Vec<CallRecord>,
}

/// A model call that settled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct CallRecord {
    key: CommandKey,
    attempt: u32,
    tier: Tier,
    /// The model that served, as the provider reports it. `None`: not reported.
    served: Option<Arc<str>>,
}

impl Budget {
    /// Lowers what the run may use of the shared budget to `left` from now on.
    pub(super) fn shared_leaves(&mut self, left: PicoUsd) {
        self.shared = Some(self.totals.cost.known.plus(left));
    }

    /// Records a settled call. [`served_by`](Self::served_by) adds the model that served it.
    pub(super) fn keep(&mut self, key: CommandKey, attempt: u32, tier: Tier) {
        self.settled.push(CallRecord { key, attempt, tier, served: None });
    }

    /// Records the model that served the last settled call.
    pub(super) fn served_by(&mut self, model: Option<&Arc<str>>) {
        if let Some(call) = self.settled.last_mut() {
            call.served = model.map(Arc::clone);
        }
    }

    /// The settled calls, each with the requested model and the one that served.
    pub(super) fn served_calls(&self, spec: &RunSpec) -> Vec<ServedCall> {
        let served = |call: &CallRecord| {
            let requested = spec.model(call.tier);
            ServedCall {
                key: call.key,
                attempt: call.attempt,
                tier: call.tier,
                provider: Arc::clone(&requested.provider),
                model: Arc::clone(&requested.model),
                base_model: requested.base_model.clone(),
                served_model: call.served.clone(),
            }
        };
        self.settled.iter().map(served).collect()
    }

    /// Releases the reserve of a settled sub-call.
    pub(super) fn release_sub_call(&mut self, of: Slot) {
        match of {
            Slot::Check => self.granted_check = false,
            _ => self.granted_sub_calls = self.granted_sub_calls.saturating_sub(1),
        }
    }
}

/// What a call reserves until its real usage is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reserve {
    /// Input tokens, estimated from the prompt's bytes.
    pub input_tokens: u64,
    /// Maximum output tokens.
    pub output_tokens: u64,
    /// The worst-case cost in pico-dollars. `None`: the price is not known.
    pub cost: Option<PicoUsd>,
}
