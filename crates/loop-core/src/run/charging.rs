//! Charges model calls to the budget: by their reported usage, or by an estimate from the received bytes and the
//! reserve.

use std::sync::Arc;

use crate::reply::Reply;
use crate::run::budget::Reserve;
use crate::run::note::Note;
use crate::run::phase::{Call, StartedCall};
use crate::run::rest::RunParts;
use crate::run::warning::RunWarning;
use crate::spec::CostMode;
use crate::types::{CallExtent, CommandKey, ModelFailure, PicoUsd, Receipt, SubCallUse, Tier, Usage};

/// Bytes of a reply for each estimated token. English has more, and most other languages, code and JSON have fewer.
const ESTIMATED_BYTES_A_TOKEN: u64 = 3;
/// The maximum average of bytes for each token of a reply.
const MAX_BYTES_A_TOKEN: u64 = 8;

/// The data by which a call is charged.
#[derive(Clone, Copy, Debug)]
struct CallCharge {
    key: CommandKey,
    attempt: u32,
    tier: Tier,
    /// The reported usage. `None`: it is estimated from what was received.
    usage: Option<Usage>,
    received: Receipt,
    /// The cost that the provider reports. `None`: it follows from the price.
    reported: Option<PicoUsd>,
    reserve: Reserve,
}

impl RunParts<'_> {
    /// Charges a call whose reply is complete.
    pub(super) fn charge_reply(
        &mut self,
        key: CommandKey,
        attempt: u32,
        granted: StartedCall,
        reply: &Reply,
    ) {
        let received = Receipt { bytes: reply.known_bytes(), ..reply.received };
        let (usage, reported) = (reply.usage, reply.cost);
        let StartedCall { tier, reserve, .. } = granted;
        self.charge(CallCharge { key, attempt, tier, usage, received, reported, reserve });
        self.budget.served_by(reply.served_model.as_ref());
        let called = self.spec.model(tier);
        for what in &reply.warnings {
            let (provider, model) = (Arc::clone(&called.provider), Arc::clone(&called.model));
            self.knowledge.warn(RunWarning::Call { provider, model, what: Arc::clone(what) });
        }
    }

    /// Charges a call that failed.
    pub(super) fn charge_failure(
        &mut self,
        key: CommandKey,
        attempt: u32,
        granted: StartedCall,
        failure: &ModelFailure,
    ) {
        let received = Receipt { bytes: failure.known_bytes(), ..failure.received };
        let usage = failure.usage.map(|usage| proven(usage, received.bytes));
        let StartedCall { tier, reserve, .. } = granted;
        self.charge(CallCharge { key, attempt, tier, usage, received, reported: None, reserve });
        self.budget.served_by(failure.served_model.as_ref());
    }

    /// Charges the whole reserve of a call in flight whose driver is gone, or that did not settle in time.
    pub(super) fn charge_lost(&mut self, call: &Call) {
        let Some(StartedCall { tier, reserve, .. }) = call.started else { return };
        let (key, attempt, received) = (call.key, call.attempt, Receipt::default());
        self.notes.push(Note::Lost { key, attempt });
        self.charge(CallCharge { key, attempt, tier, usage: None, received, reported: None, reserve });
    }

    /// Charges the sub-call of a smart tool or a check, and releases its reserve.
    pub(super) fn settle_sub_call(&mut self, key: CommandKey, attempt: u32, used: Option<Box<SubCallUse>>) {
        self.budget.release_sub_call(key.slot);
        let Some(SubCallUse { usage, received, served_model, .. }) = used.map(|used| *used) else { return };
        self.budget.totals.model_calls += 1;
        self.budget.totals.sub_calls += 1;
        let tier = self.quoting().sub_call_tier(key.slot);
        let reserve = self.quoting().sub_call_reserve(tier);
        self.charge(CallCharge { key, attempt, tier, usage, received, reported: None, reserve });
        self.budget.served_by(served_model.as_ref());
    }

    /// Adds a call's usage and cost to the totals.
    fn charge(&mut self, charge: CallCharge) {
        let CallCharge { key, attempt, tier, .. } = charge;
        self.budget.keep(key, attempt, tier);
        let usage = charge.usage.unwrap_or_else(|| self.estimated(&charge));
        let price = self.spec.model(tier).price.as_ref();
        // Estimated usage is priced like its reserve, which may be at a higher rate.
        let own = price.map(|price| match charge.usage {
            Some(_) => price.of(&usage),
            None => self.quoting().price(price, usage.total_input(), usage.total_output()),
        });
        let cost = charge.reported.or(own);
        self.budget.totals.usage = self.budget.totals.usage.plus(&usage);
        self.budget.totals.cost.add(cost);
        self.notes.push(Note::CallCharged { key, attempt, tier, usage, cost });
    }

    /// The estimated usage of a call without a report, from the received bytes and bounded by the reserve.
    fn estimated(&self, charge: &CallCharge) -> Usage {
        let Reserve { input_tokens, output_tokens, .. } = charge.reserve;
        let received = charge.received.bytes.div_ceil(ESTIMATED_BYTES_A_TOKEN);
        let (extent, received) = match self.spec.limits.cost_mode {
            // In `strict` mode only a report releases a reserve, and a reply is cut where its reserve ends.
            CostMode::Strict => (CallExtent::Open, received.min(output_tokens)),
            CostMode::Estimated | CostMode::After => (charge.received.extent, received),
        };
        let (input, output) = match extent {
            CallExtent::NoReply if received == 0 => (0, 0),
            CallExtent::NoReply | CallExtent::Ended => (input_tokens, received),
            CallExtent::Open => (input_tokens, received.max(output_tokens)),
        };
        let reported = charge.received.reported;
        let output = output.max(reported.total_output()) - reported.reasoning;
        // A reported input replaces the reserved one, except in `strict` mode.
        let keeps = self.spec.limits.cost_mode == CostMode::Strict || reported.total_input() == 0;
        if keeps && input >= reported.total_input() {
            let reasoning = reported.reasoning;
            return Usage { input, output, reasoning, estimated: true, ..Usage::default() };
        }
        Usage { output, estimated: true, ..reported }
    }
}

/// The reported usage of a reply that broke off, raised to the minimum that the received bytes prove. The report may be
/// a count from the beginning of the reply.
fn proven(usage: Usage, bytes: u64) -> Usage {
    let received = bytes / MAX_BYTES_A_TOKEN;
    let lacks = received.saturating_sub(usage.total_output());
    Usage { output: usage.output.saturating_add(lacks), estimated: usage.estimated || lacks > 0, ..usage }
}
