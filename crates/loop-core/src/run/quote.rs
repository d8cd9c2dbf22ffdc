//! Quotes: may a call be made, with how many output tokens, against which reserve?

use crate::event::{Refusal, Reserve};
use crate::ids::{CommandKey, Slot};
use crate::money::Usage;
use crate::run::{Call, Run};
use crate::spec::Tier;

/// A call for fewer output tokens than this is not worth making.
const LEAST_OUTPUT_TOKENS: u64 = 256;

/// How large a rendered prompt is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PromptSize {
    /// All of it.
    pub bytes: u64,
    /// The part that it shares with the main call before it on the same tier.
    pub shared_bytes: u64,
}

/// What a call is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quote {
    /// The tier.
    pub tier: Tier,
    /// The most output tokens that it may write.
    pub max_output_tokens: u64,
    /// What it is held to cost until it settles.
    pub reserve: Reserve,
}

impl Run {
    /// May the wished call `key` be made with a prompt of this size? Pure.
    ///
    /// The input is bounded by the tokens that were reported for the shared prefix plus one token a byte of what
    /// was appended; by half the bytes for a first call. Output tokens are cut to what the model, the limit and
    /// the context leave.
    ///
    /// # Errors
    /// Why it may not. Picker and repair calls leave one model call for the document.
    pub fn quote(&self, key: &CommandKey, prompt: PromptSize) -> Result<Quote, Refusal> {
        match self.state.phase.call() {
            Some(call) if call.key == *key && self.may_start(call) => self.quote_call(call, prompt),
            Some(_) | None => Err(Refusal::NotWished),
        }
    }

    pub(super) fn quote_call(&self, call: &Call, prompt: PromptSize) -> Result<Quote, Refusal> {
        let wanted = match call.key.slot {
            Slot::Pick | Slot::Repair => 2,
            Slot::Main | Slot::Landing | Slot::Action(_) | Slot::Save => 1,
        };
        if self.state.totals.model_calls.saturating_add(wanted) > self.spec.limits.model_calls {
            return Err(Refusal::ModelCalls);
        }
        let model = self.spec.model(call.tier);
        let input_tokens = self.input_bound(call, prompt);
        let left = model.context_tokens.saturating_sub(input_tokens);
        if left < LEAST_OUTPUT_TOKENS {
            return Err(Refusal::Context);
        }
        let max_output_tokens = left.min(self.spec.limits.output_tokens).min(model.max_output_tokens);
        let usage = Usage { input: input_tokens, output: max_output_tokens, ..Usage::default() };
        let cost = model.price.map(|price| price.of(&usage));
        let reserve = Reserve { input_tokens, output_tokens: max_output_tokens, cost };
        Ok(Quote { tier: call.tier, max_output_tokens, reserve })
    }

    fn input_bound(&self, call: &Call, prompt: PromptSize) -> u64 {
        match self.state.last_main {
            Some(last) if last.tier == call.tier && prompt.shared_bytes >= last.bytes && last.bytes > 0 => {
                last.input_tokens.saturating_add(prompt.bytes.saturating_sub(last.bytes))
            }
            Some(_) | None => prompt.bytes.div_ceil(2),
        }
    }
}
