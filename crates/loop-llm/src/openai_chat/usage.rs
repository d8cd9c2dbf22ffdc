//! Token counts as a server reports them, in disjoint buckets.

use loop_core::Usage;
use serde::Deserialize;

use crate::codec::{Count, Maybe, Number, UsageTold};

/// What a server reports, in the words of many.
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

/// What a server counted, in OpenAI's terms: what was cached is part of the prompt.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) prompt: Option<u64>,
    pub(crate) completion: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) cached: Option<u64>,
    pub(crate) written: Option<u64>,
    pub(crate) reasoning: Option<u64>,
    /// Whether nothing at all was said of prompt and completion.
    pub(crate) is_silent: bool,
    /// Whether a count was none.
    pub(crate) is_odd: bool,
}

impl Counts {
    /// The counts in disjoint buckets; reasoning is counted beside the completion where the endpoint does so. Writes to
    /// the cache are short ones: no others are asked for.
    pub(crate) fn usage(self, beside: bool) -> UsageTold {
        let (Some(prompt), Some(completion)) = (self.prompt, self.completion) else {
            return if self.is_silent { UsageTold::Nothing } else { UsageTold::Unusable };
        };
        let cached = self.cached.unwrap_or(0);
        let written = self.written.unwrap_or(0);
        let reasoning = self.reasoning.unwrap_or(0);
        // Some servers count reasoning beside the completion, which shows in the total.
        let is_beside = reasoning > 0
            && match self.total {
                Some(total) => total == prompt + completion + reasoning && total != prompt + completion,
                None => beside,
            };
        let is_odd =
            self.is_odd || cached.saturating_add(written) > prompt || (reasoning > completion && !is_beside);
        let cache_read = cached.min(prompt);
        let written = written.min(prompt - cache_read);
        let reasoning = if is_beside { reasoning } else { reasoning.min(completion) };
        let usage = Usage {
            input: prompt - cache_read - written,
            cache_read,
            cache_write_short: written,
            cache_write_long: 0,
            output: if is_beside { completion } else { completion - reasoning },
            reasoning,
            estimated: false,
        };
        UsageTold::Counts { usage, is_odd }
    }
}

impl Report {
    /// The counts; see [`Counts::usage`].
    pub(super) fn usage(&self, beside: bool) -> UsageTold {
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
            // Last, since the counts above tell it.
            is_odd,
        };
        counts.usage(beside)
    }
}
