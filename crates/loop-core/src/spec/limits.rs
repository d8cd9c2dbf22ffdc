//! Limits: the budget of a run, how strictly it is enforced, and the reserve for the final pass.

use serde::{Deserialize, Serialize};

use crate::spec::cost_limit::{CostLimit, usd_or_none};
use crate::types::{Lease, PicoUsd, is_default};

/// Output tokens reserved for the final pass.
pub(crate) const FINAL_PASS_OUTPUT_TOKENS: u64 = 1_500;
/// Maximum characters of a tool result in protocols with native calls, where each result is shown once.
const NATIVE_RESULT_CHARS: u32 = 16_000;
/// Maximum milliseconds reserved for the final pass.
pub(crate) const FINAL_PASS_MS: u64 = 30_000;

/// Default of [`Limits::requested_calls`].
const REQUESTED_CALLS: u32 = 64;
/// Maximum calls of one reply that are read, whatever [`Limits::requested_calls`] says.
pub const MAX_REQUESTED_CALLS: u32 = 128;

/// Default of [`Limits::depth`].
const DEPTH: u32 = 3;

fn is_three(depth: &u32) -> bool {
    *depth == DEPTH
}

fn is_sixty_four(calls: &u32) -> bool {
    *calls == REQUESTED_CALLS
}

/// What a run never exceeds. Each limit is independent. The first that is reached, in the gate's order, is the reason for
/// stopping.
// The keys of `[limits]` in a domain file: editors and the reference show these comments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Main model calls, with a gate after each. With 0 the run ends before its first call. Default: 5 for documents, 10 for
    /// conversations, and for outputs as many as their attempts may take.
    pub passes: u32,
    /// Dollars for all model calls, or `"none"` for no limit. With 0 the run ends before its first call. A limit needs the
    /// price of each model. Default: 0.10, and none if a price is unknown.
    #[serde(rename = "cost_usd", with = "usd_or_none")]
    #[cfg_attr(feature = "schema", schemars(with = "CostLimit"))]
    pub cost: Option<PicoUsd>,
    /// How the limits of cost and tokens are enforced. Default: `estimated`.
    #[serde(skip_serializing_if = "is_default")]
    pub cost_mode: CostMode,
    /// Input and output tokens of all model calls together. Default: no limit.
    pub tokens: Option<u64>,
    /// Tool calls of the run, including those before the first pass. With 0, a run that has tools ends before its first
    /// call. Default: 25 for documents, 50 for conversations, and five times the passes for outputs.
    pub tool_calls: u32,
    /// Tool calls that one reply may request, in its order; at most 128. Further calls are counted and not read. Default: 64.
    #[serde(skip_serializing_if = "is_sixty_four")]
    pub requested_calls: u32,
    /// Model calls of every kind: selection, passes, repairs, sub-calls, failed tries. Default: 12 for documents, 20 for
    /// conversations, and twice the passes for outputs.
    pub model_calls: u32,
    /// Levels of runs that a run may call as tools: its own, those of these runs, and so on. With 0 it calls none. Default: 3.
    #[serde(skip_serializing_if = "is_three")]
    pub depth: u32,
    /// For conversations and outputs: messages in one request, with each tool result counted. Default: 100 for
    /// conversations, no limit for outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// Milliseconds that a run may take, except for the time that people take. Default: 300,000.
    pub wall_ms: u64,
    /// Milliseconds that a person has to answer. Silence is then a denial; 0 leaves no time. Default: no deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person_ms: Option<u64>,
    /// For documents: tools that run before the first pass. With 0 none is selected. Default: 5.
    pub selected: u32,
    /// For documents: milliseconds for the model call that selects tools. After it the default tools run. Default: 8,000.
    pub selector_ms: u64,
    /// Output tokens of one model call, reasoning included. The model's own maximum applies as well. Default: 4,096.
    pub output_tokens: u64,
    /// Characters of one tool result that the model reads. The rest is cut, and the cut is marked. Default: 4,000 for
    /// documents, else 16,000.
    pub markdown_chars: u32,
    /// Milliseconds for a smart tool's question to a model. Default: 10,000.
    pub sub_call_ms: u64,
    /// Output tokens of such a question. Default: 512.
    pub sub_call_tokens: u64,
    /// Bytes of input of such a question. Default: 24,000.
    pub sub_call_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            passes: 5,
            cost: Some(CostLimit::DEFAULT),
            cost_mode: CostMode::default(),
            tokens: None,
            tool_calls: 25,
            requested_calls: REQUESTED_CALLS,
            model_calls: 12,
            wall_ms: 300_000,
            selected: 5,
            selector_ms: 8_000,
            output_tokens: 4_096,
            markdown_chars: 4_000,
            sub_call_ms: 10_000,
            sub_call_tokens: 512,
            sub_call_bytes: 24_000,
            person_ms: None,
            messages: None,
            depth: DEPTH,
        }
    }
}

impl Limits {
    /// The number of calls of one reply that are read: `requested_calls`, at most [`MAX_REQUESTED_CALLS`].
    pub fn read_calls(&self) -> u32 {
        self.requested_calls.min(MAX_REQUESTED_CALLS)
    }

    /// The limits of a conversation: 10 passes, 100 messages, 50 tool calls, 16,000 characters a result.
    pub fn agent() -> Self {
        Self {
            passes: 10,
            model_calls: 20,
            tool_calls: 50,
            messages: Some(100),
            markdown_chars: NATIVE_RESULT_CHARS,
            ..Self::default()
        }
    }

    /// The limits of a loop that ends with an output: the passes of all its attempts, and 5 tool calls for each.
    pub fn extract(attempts: u32, passes_per_attempt: u32) -> Self {
        let passes = attempts.saturating_mul(passes_per_attempt);
        Self {
            passes,
            model_calls: passes.saturating_mul(2),
            tool_calls: passes.saturating_mul(5),
            markdown_chars: NATIVE_RESULT_CHARS,
            ..Self::default()
        }
    }

    /// All that a run with these limits may use.
    pub fn lease(&self) -> Lease {
        let Self { cost, tokens, model_calls, tool_calls, wall_ms, depth, .. } = *self;
        Lease { cost, tokens, model_calls, tool_calls, wall_ms, depth }
    }

    /// The same limits, none of them above what a lease grants.
    pub fn under(self, lease: &Lease) -> Self {
        let Lease { cost, tokens, model_calls, tool_calls, wall_ms, depth } = self.lease().within(*lease);
        Self { cost, tokens, model_calls, tool_calls, wall_ms, depth, ..self }
    }

    /// Milliseconds of the wall clock reserved for the final pass: a quarter, at most 30 seconds.
    pub fn final_pass_ms(&self) -> u64 {
        (self.wall_ms / 4).min(FINAL_PASS_MS)
    }
}

/// The reserve of `limit` for a final pass that needs `final_pass`: at most a quarter of the limit.
pub(crate) fn held_back(limit: u64, final_pass: u64) -> u64 {
    (limit / 4).min(final_pass)
}

/// The smallest limit that leaves `needed` besides the reserve for a final pass of `final_pass`.
pub(crate) fn least_limit(needed: u64, final_pass: u64) -> u64 {
    let leaves = |limit: u64| limit.saturating_sub(held_back(limit, final_pass)) >= needed;
    let whole = needed.saturating_add(final_pass);
    let mut limit = whole.min(needed.saturating_add(needed.div_ceil(3)));
    while limit > 0 && leaves(limit - 1) {
        limit -= 1;
    }
    limit
}

/// How the cost and token limits are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostMode {
    /// A call is made if its estimate fits into the remaining budget. The estimate is the reported tokens for the part
    /// of the prompt that it shares with the call before, and half a token for each byte of a first prompt. A limit can
    /// be exceeded by what the calls in flight use beyond their estimates: one call, or the sub-calls of a batch.
    #[default]
    Estimated,
    /// A call is made only if its worst case fits into the remaining budget: a token for each byte of input, at the
    /// highest input price, and a token for each of the [`STRICT_BYTES_A_TOKEN`] bytes a granted token at which its reply
    /// is cut. A limit is exceeded only if a provider bills more than one token a byte. Small limits refuse more calls.
    Strict,
    /// A call is made as long as any budget is left. The last call may exceed the limit.
    After,
}

/// Bytes of a reply for each granted output token at which the mode `strict` cuts it.
pub const STRICT_BYTES_A_TOKEN: u64 = 6;

impl CostMode {
    /// The output tokens that are reserved for a call that is granted this many: with `strict`, one for each byte that may
    /// arrive.
    pub fn reserved_output(self, granted: u64) -> u64 {
        match self {
            Self::Strict => granted.saturating_mul(STRICT_BYTES_A_TOKEN),
            Self::Estimated | Self::After => granted,
        }
    }

    /// The mode's name in a domain file.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_founding_numbers() {
        // S0-43, S0-45, S0-123, S0-124, S0-125, S0-131, S0-132
        let limits = Limits::default();
        assert_eq!((limits.passes, limits.selected, limits.markdown_chars), (5, 5, 4_000));
        assert_eq!(limits.cost.unwrap().to_string(), "$0.100000");
        assert_eq!((limits.selector_ms, limits.sub_call_ms, limits.sub_call_tokens), (8_000, 10_000, 512));
    }

    #[test]
    fn the_smallest_limit_that_leaves_enough_is_the_smallest() {
        for needed in 0..60 {
            for final_pass in 0..30 {
                let limit = least_limit(needed, final_pass);
                assert!(limit - held_back(limit, final_pass) >= needed, "{needed} {final_pass} {limit}");
                assert!(
                    limit == 0 || limit - 1 - held_back(limit - 1, final_pass) < needed,
                    "{needed} {final_pass} {limit}"
                );
            }
        }
    }

    #[test]
    fn a_quarter_of_the_time_is_held_back_and_never_more_than_half_a_minute() {
        let held = |wall_ms| Limits { wall_ms, ..Limits::default() }.final_pass_ms();
        assert_eq!((held(300_000), held(40_000), held(3)), (30_000, 10_000, 0));
    }
}
