//! Token counts in disjoint buckets.

use serde::Deserialize;

use crate::codec::{Count, Maybe, Number, UsageReport};
use crate::openai::Counts;

/// The usage that a server reports.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Report {
    input_tokens: Count,
    output_tokens: Count,
    total_tokens: Count,
    input_tokens_details: Maybe<InputDetails>,
    output_tokens_details: Maybe<OutputDetails>,
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
    /// The counts; see [`Counts::usage`].
    pub(super) fn usage(&self) -> UsageReport {
        let mut is_odd = false;
        let input = self.input_tokens_details.get();
        let output = self.output_tokens_details.get();
        let counts = Counts {
            prompt: self.input_tokens.get(&mut is_odd),
            completion: self.output_tokens.get(&mut is_odd),
            total: self.total_tokens.get(&mut is_odd),
            cached: input.and_then(|details| details.cached_tokens.get(&mut is_odd)),
            written: input.and_then(|details| details.cache_write_tokens.get(&mut is_odd)),
            reasoning: output.and_then(|details| details.reasoning_tokens.get(&mut is_odd)),
            is_silent: self.input_tokens == Count::Missing && self.output_tokens == Count::Missing,
            // Last, as the counts above set it.
            is_odd,
        };
        counts.usage(/*beside*/ false)
    }

    /// The cost in dollars that the server reports.
    pub(super) fn dollars(&self) -> Option<f64> {
        self.cost_in_usd_ticks.0.map(|ticks| ticks * DOLLARS_A_TICK)
    }
}

const DOLLARS_A_TICK: f64 = 1e-10;
