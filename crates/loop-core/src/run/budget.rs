//! The budget: what was used, and what is reserved for calls that have not settled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::run::outcome::ServedCall;
use crate::spec::RunSpec;
use crate::types::{CommandKey, Tier, Totals};

/// What a run has used so far, call by call and in sum.
///
/// Totals only grow, but for a call that is taken back since its announcement could not be journaled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Budget {
    pub(super) totals: Totals,
    /// Sub-calls that are granted to smart tools and not yet settled.
    pub(super) granted_sub_calls: u32,
    /// The calls to models that settled, in that order.
    settled: Vec<CallRecord>,
}

/// A call to a model that settled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct CallRecord {
    key: CommandKey,
    attempt: u32,
    tier: Tier,
    /// The model that served, where the provider says.
    served: Option<Arc<str>>,
}

impl Budget {
    /// Keeps a call that settled; which model served it is told by [`served_by`](Self::served_by).
    pub(super) fn keep(&mut self, key: CommandKey, attempt: u32, tier: Tier) {
        self.settled.push(CallRecord { key, attempt, tier, served: None });
    }

    /// Keeps the name of the model that served the call which settled last.
    pub(super) fn served_by(&mut self, model: Option<&Arc<str>>) {
        if let Some(call) = self.settled.last_mut() {
            call.served = model.map(Arc::clone);
        }
    }

    /// The calls that settled: which model each was for, and which served it.
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

    /// Gives back what was held for a sub-call, which has settled.
    pub(super) fn release_sub_call(&mut self) {
        self.granted_sub_calls = self.granted_sub_calls.saturating_sub(1);
    }
}
