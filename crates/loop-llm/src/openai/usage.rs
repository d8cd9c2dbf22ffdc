//! Token counts in OpenAI's terms, converted to disjoint buckets.

use loop_core::types::Usage;
use serde::Deserialize;

use crate::codec::{Count, Number, Object, UsageReport};

/// The usage that a server reports, with the member names of both protocols and of several providers. Cached tokens are
/// part of the prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    prompt_tokens: Count,
    input_tokens: Count,
    completion_tokens: Count,
    output_tokens: Count,
    total_tokens: Count,
    prompt_cache_hit_tokens: Count,
    num_cached_tokens: Count,
    prompt_tokens_details: Object<InputDetails>,
    prompt_token_details: Object<InputDetails>,
    input_tokens_details: Object<InputDetails>,
    completion_tokens_details: Object<OutputDetails>,
    output_tokens_details: Object<OutputDetails>,
    cost: Number,
    /// The cost that xAI reports.
    cost_in_usd_ticks: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

impl Report {
    /// The counts in disjoint buckets. With `beside`, reasoning is counted in addition to the completion. Cache writes
    /// count as short-lived ones, as no others are requested.
    pub(crate) fn usage(&self, beside: bool) -> UsageReport {
        let mut is_odd = false;
        let mut get = |count: Count| count.get(&mut is_odd);
        let (prompt, completion) =
            (self.prompt_tokens.or(self.input_tokens), self.completion_tokens.or(self.output_tokens));
        let details = self.prompt_tokens_details.get().or(self.prompt_token_details.get());
        let details = details.or(self.input_tokens_details.get());
        let cached = details
            .and_then(|details| get(details.cached_tokens))
            .or_else(|| get(self.prompt_cache_hit_tokens))
            .or_else(|| get(self.num_cached_tokens))
            .unwrap_or(0);
        let written = details.and_then(|details| get(details.cache_write_tokens)).unwrap_or(0);
        let details = self.completion_tokens_details.get().or(self.output_tokens_details.get());
        let reasoning = details.and_then(|details| get(details.reasoning_tokens)).unwrap_or(0);
        let total = get(self.total_tokens);
        let is_silent = prompt == Count::Missing && completion == Count::Missing;
        let (Some(prompt), Some(completion)) = (get(prompt), get(completion)) else {
            return if is_silent { UsageReport::Nothing } else { UsageReport::Unusable };
        };
        // Some servers count reasoning in addition to the completion, which the total shows.
        let is_beside = reasoning > 0
            && match total {
                Some(total) => total == prompt + completion + reasoning && total != prompt + completion,
                None => beside,
            };
        is_odd |=
            cached.saturating_add(written) > prompt || (reasoning > completion && !(is_beside && beside));
        let cache_read = cached.min(prompt);
        let written = written.min(prompt - cache_read);
        let reasoning = if is_beside { reasoning } else { reasoning.min(completion) };
        let usage = Usage {
            input: prompt - cache_read - written,
            cache_read,
            cache_write_short: written,
            output: if is_beside { completion } else { completion - reasoning },
            reasoning,
            ..Usage::default()
        };
        UsageReport::Counts { usage, is_odd }
    }

    /// The cost in dollars that the server reports.
    pub(crate) fn dollars(&self) -> Option<f64> {
        self.cost.0.or(self.cost_in_usd_ticks.0.map(|ticks| ticks * DOLLARS_A_TICK))
    }
}

const DOLLARS_A_TICK: f64 = 1e-10;
