//! Token counts. They are reported repeatedly, and the last value counts.

use loop_core::types::Usage;
use serde::Deserialize;

use crate::codec::{Count, Object, Text, UsageReport};

/// The usage of one event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Report<'a> {
    input_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation: Object<CacheCreation>,
    output_tokens: Count,
    prompt_tokens: Count,
    completion_tokens: Count,
    output_tokens_details: Object<Output>,
    #[serde(borrow)]
    pub(super) service_tier: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Count,
    ephemeral_1h_input_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Output {
    thinking_tokens: Count,
}

/// The last value of each count.
#[derive(Debug, Default)]
pub(super) struct Counts {
    input: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
    short: Option<u64>,
    long: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
    is_odd: bool,
}

impl Counts {
    /// The counts of the beginning. Its output is a placeholder.
    pub(super) fn begin(&mut self, report: &Report<'_>) {
        self.take(report);
        self.output = None;
    }

    /// Replaces the counts that are reported.
    pub(super) fn take(&mut self, report: &Report<'_>) {
        let is_odd = &mut self.is_odd;
        let mut put = |slot: &mut Option<u64>, count: Count| {
            *slot = slot.map_or(Count::Missing, Count::Is).then(count).get(is_odd).or(*slot);
        };
        put(&mut self.input, report.input_tokens.or(report.prompt_tokens));
        put(&mut self.read, report.cache_read_input_tokens);
        put(&mut self.written, report.cache_creation_input_tokens);
        put(&mut self.output, report.output_tokens.or(report.completion_tokens));
        if let Some(written) = report.cache_creation.get() {
            put(&mut self.short, written.ephemeral_5m_input_tokens);
            put(&mut self.long, written.ephemeral_1h_input_tokens);
        }
        if let Some(output) = report.output_tokens_details.get() {
            put(&mut self.thinking, output.thinking_tokens);
        }
    }

    /// The counts in disjoint buckets. Once the reply `is_over`, a missing count makes them unusable. Cache writes of
    /// unknown duration count as long-lived ones where `long_writes` were requested.
    pub(super) fn reported(&self, is_over: bool, long_writes: bool) -> UsageReport {
        let (Some(input), Some(all)) = (self.input, self.output) else {
            let is_silent = self.input.is_none() && self.output.is_none() && !self.is_odd;
            return if is_over && !is_silent { UsageReport::Unusable } else { UsageReport::Nothing };
        };
        let (short, long) = (self.short.unwrap_or(0), self.long.unwrap_or(0));
        let other = self.written.unwrap_or(0).saturating_sub(short.saturating_add(long));
        let (other_short, other_long) = if long_writes { (0, other) } else { (other, 0) };
        let reasoning = self.thinking.unwrap_or(0).min(all);
        let usage = Usage {
            input,
            cache_read: self.read.unwrap_or(0),
            cache_write_short: short.saturating_add(other_short),
            cache_write_long: long.saturating_add(other_long),
            output: all - reasoning,
            reasoning,
            estimated: false,
        };
        UsageReport::Counts { usage, is_odd: self.is_odd || self.thinking > self.output }
    }
}
