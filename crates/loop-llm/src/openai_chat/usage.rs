//! Token counts in disjoint buckets.

use serde::Deserialize;

use crate::codec::{Count, Maybe, Number, UsageReport};
use crate::openai::Counts;

/// The usage that a server reports, with the member names of several providers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Report {
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    prompt_cache_hit_tokens: Count,
    num_cached_tokens: Count,
    prompt_tokens_details: Maybe<InputDetails>,
    prompt_token_details: Maybe<InputDetails>,
    completion_tokens_details: Maybe<OutputDetails>,
    pub(super) cost: Number,
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
    pub(super) fn usage(&self, beside: bool) -> UsageReport {
        let mut is_odd = false;
        let details = self.prompt_tokens_details.get().or(self.prompt_token_details.get());
        let counts = Counts {
            prompt: self.prompt_tokens.get(&mut is_odd),
            completion: self.completion_tokens.get(&mut is_odd),
            total: self.total_tokens.get(&mut is_odd),
            cached: details
                .and_then(|details| details.cached_tokens.get(&mut is_odd))
                .or_else(|| self.prompt_cache_hit_tokens.get(&mut is_odd))
                .or_else(|| self.num_cached_tokens.get(&mut is_odd)),
            written: details.and_then(|details| details.cache_write_tokens.get(&mut is_odd)),
            reasoning: self
                .completion_tokens_details
                .get()
                .and_then(|details| details.reasoning_tokens.get(&mut is_odd)),
            is_silent: self.prompt_tokens == Count::Missing && self.completion_tokens == Count::Missing,
            // Last, as the counts above set it.
            is_odd,
        };
        counts.usage(beside)
    }
}
