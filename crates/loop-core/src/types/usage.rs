//! Tokens of calls, and how much of a reply was received. Missing token counts are estimated from it.

use crate::types::defaults::is_default;
use serde::Deserialize;
use serde::Serialize;

/// How much of a reply was received. The cost of a call without reported usage is estimated from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Receipt {
    /// Bytes of text, reasoning and arguments, dropped ones included; 0 if they were not counted.
    pub bytes: u64,
    /// How far the call came.
    pub extent: CallExtent,
    /// Tokens that the provider reported before the reply ended; zero if none. They do not cover the whole reply, and
    /// the estimate is never below them.
    #[serde(skip_serializing_if = "is_default")]
    pub reported: Usage,
}

impl Receipt {
    /// A reply that the provider ended, with no separate count of its bytes.
    pub fn ended() -> Self {
        Self { extent: CallExtent::Ended, ..Self::default() }
    }

    pub(crate) fn is_ended(&self) -> bool {
        *self == Self::ended()
    }
}

/// How far a call came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallExtent {
    /// No model replied: the response was an error status or not of the protocol.
    NoReply,
    /// The provider ended the reply, so it generated no more than was received.
    Ended,
    /// The provider may have generated more: a timeout, a lost connection, or a stream that was cut on this side.
    #[default]
    Open,
}

/// Token counts of one call or of many. Each token counts in exactly one field; a field is 0 where the provider
/// reports nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, expecting = "an object such as `{ \"input\": 100, \"output\": 20 }`")]
pub struct Usage {
    /// Input tokens that were not read from a cache and not written to one.
    pub input: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to a short-lived cache.
    pub cache_write_short: u64,
    /// Input tokens written to a long-lived cache.
    pub cache_write_long: u64,
    /// Output tokens of the visible reply.
    pub output: u64,
    /// Output tokens of reasoning. They have the price of output.
    pub reasoning: u64,
    /// Whether any of the counts was estimated here rather than reported by the provider.
    pub estimated: bool,
}

impl Usage {
    /// All input tokens, cached or not.
    pub fn total_input(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write_short)
            .saturating_add(self.cache_write_long)
    }

    /// All output tokens, visible or reasoning.
    pub fn total_output(&self) -> u64 {
        self.output.saturating_add(self.reasoning)
    }

    /// All tokens.
    pub fn total(&self) -> u64 {
        self.total_input().saturating_add(self.total_output())
    }

    /// The sum of each field. It is estimated if either is.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write_short: self.cache_write_short.saturating_add(other.cache_write_short),
            cache_write_long: self.cache_write_long.saturating_add(other.cache_write_long),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            estimated: self.estimated || other.estimated,
        }
    }
}
