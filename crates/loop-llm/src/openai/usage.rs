//! Token counts in OpenAI's terms, converted to disjoint buckets.

use loop_core::Usage;

use crate::codec::UsageReport;

/// The counts of a server in OpenAI's terms: cached tokens are part of the prompt.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) prompt: Option<u64>,
    pub(crate) completion: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) cached: Option<u64>,
    pub(crate) written: Option<u64>,
    pub(crate) reasoning: Option<u64>,
    /// Whether neither prompt nor completion tokens were reported.
    pub(crate) is_silent: bool,
    /// Whether a count was invalid.
    pub(crate) is_odd: bool,
}

impl Counts {
    /// The counts in disjoint buckets. With `beside`, reasoning is counted in addition to the completion. Cache writes
    /// count as short-lived ones, as no others are requested.
    pub(crate) fn usage(self, beside: bool) -> UsageReport {
        let (Some(prompt), Some(completion)) = (self.prompt, self.completion) else {
            return if self.is_silent { UsageReport::Nothing } else { UsageReport::Unusable };
        };
        let cached = self.cached.unwrap_or(0);
        let written = self.written.unwrap_or(0);
        let reasoning = self.reasoning.unwrap_or(0);
        // Some servers count reasoning in addition to the completion, which the total shows.
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
        UsageReport::Counts { usage, is_odd }
    }
}
