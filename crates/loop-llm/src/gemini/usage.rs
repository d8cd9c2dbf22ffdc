//! Token counts in disjoint buckets.

use loop_core::types::Usage;
use serde::Deserialize;

use crate::codec::{Count, Text, UsageReport};

/// The usage of one chunk.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Report<'a> {
    #[serde(alias = "prompt_token_count")]
    prompt_token_count: Count,
    #[serde(alias = "cached_content_token_count")]
    cached_content_token_count: Count,
    #[serde(alias = "candidates_token_count")]
    candidates_token_count: Count,
    #[serde(alias = "thoughts_token_count")]
    thoughts_token_count: Count,
    #[serde(alias = "tool_use_prompt_token_count")]
    tool_use_prompt_token_count: Count,
    #[serde(alias = "total_token_count")]
    total_token_count: Count,
    #[serde(borrow)]
    service_tier: Text<'a>,
    traffic_type: Text<'a>,
}

impl Report<'_> {
    /// The service tier that served the call.
    pub(super) fn tier(&self) -> Option<&str> {
        self.service_tier.some().or(self.traffic_type.some())
    }
}

/// The last value of each count.
#[derive(Debug, Default)]
pub(super) struct Counts {
    prompt: Count,
    cached: Count,
    candidates: Count,
    thoughts: Count,
    tools: Count,
    total: Count,
}

impl Counts {
    /// Adds the usage of a chunk.
    pub(super) fn add(&mut self, report: &Report<'_>) -> UsageReport {
        for (count, reported) in [
            (&mut self.prompt, report.prompt_token_count),
            (&mut self.cached, report.cached_content_token_count),
            (&mut self.candidates, report.candidates_token_count),
            (&mut self.thoughts, report.thoughts_token_count),
            (&mut self.tools, report.tool_use_prompt_token_count),
            (&mut self.total, report.total_token_count),
        ] {
            *count = count.then(reported);
        }
        self.usage()
    }

    fn usage(&self) -> UsageReport {
        let mut is_odd = false;
        let mut get = |count: Count| count.get(&mut is_odd);
        let (prompt, total) = (get(self.prompt), get(self.total));
        let (candidates, thoughts) = (get(self.candidates), get(self.thoughts));
        if is_odd {
            return UsageReport::Unusable;
        }
        let cached = self.cached.get(&mut is_odd).unwrap_or(0);
        let tools = self.tools.get(&mut is_odd).unwrap_or(0);
        let reported = candidates.unwrap_or(0) + thoughts.unwrap_or(0);
        let prompt = match (prompt, total) {
            (Some(prompt), _) => prompt,
            (None, Some(total)) if total > reported + tools => total - reported - tools,
            // Without a prompt nothing is known of what it cost.
            (None, _) => return UsageReport::Nothing,
        };
        // Tokens that no count contains are the rest of the total.
        let left = total.unwrap_or(0).saturating_sub(prompt + tools + reported);
        let (output, reasoning) = match (candidates, thoughts) {
            (Some(candidates), Some(thoughts)) => (candidates, thoughts),
            (Some(candidates), None) => (candidates, left),
            (None, thoughts) => (left, thoughts.unwrap_or(0)),
        };
        is_odd |= cached > prompt || total.is_some_and(|total| total < prompt);
        let cache_read = cached.min(prompt);
        let input = prompt - cache_read + tools;
        UsageReport::Counts {
            usage: Usage { input, cache_read, output, reasoning, ..Usage::default() },
            is_odd,
        }
    }
}
