//! `[limits]`: what a run never passes.

use loop_core::spec::CostMode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::money::CostSetting;

/// What a run never passes. The first that binds ends the run, with what there is.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsConfig {
    /// Main model calls. With 0 the run stops before the first. Default: 5 for documents, 10 for conversations, and for
    /// outputs as many as their attempts may take.
    pub(crate) passes: Option<u32>,
    /// Dollars for all model calls, or `"none"`. Default: 0.10, and none where a model's price is unknown.
    pub(crate) cost_usd: Option<CostSetting>,
    /// How the limits of cost and tokens are enforced: `estimated`, `strict` or `after`. Default: `estimated`.
    #[schemars(extend("enum" = ["estimated", "strict", "after"]), with = "Option<String>")]
    pub(crate) cost_mode: Option<CostMode>,
    /// Tokens of all model calls. Default: no limit.
    pub(crate) tokens: Option<u64>,
    /// Tool calls, those before the first pass included. With 0 there are no tools. Default: 25 for documents, 50 for
    /// conversations, and five times the passes for outputs.
    pub(crate) tool_calls: Option<u32>,
    /// Calls that one reply may ask for, in its order; what is beyond them is counted and not read. Default: 64.
    pub(crate) requested_calls: Option<u32>,
    /// Model calls of every kind. Default: 12 for documents, 20 for conversations, and twice the passes for outputs.
    pub(crate) model_calls: Option<u32>,
    /// For conversations and outputs: messages that a call may be made with, results counted one by one. Default: 100 for
    /// conversations, no limit for outputs.
    pub(crate) messages: Option<u32>,
    /// Milliseconds that a run may take; waiting for a person does not count. Default: 300,000.
    pub(crate) wall_ms: Option<u64>,
    /// Milliseconds that a person has to answer; then it is a no. Default: no deadline.
    pub(crate) person_ms: Option<u64>,
    /// For documents: tools chosen before the first pass. Default: 5.
    pub(crate) selected: Option<u32>,
    /// For documents: milliseconds for choosing them. Default: 8,000.
    pub(crate) selector_ms: Option<u64>,
    /// Output tokens of one call. Default: 4,096.
    pub(crate) output_tokens: Option<u64>,
    /// Characters of a tool's result that the model reads. Default: 4,000.
    pub(crate) markdown_chars: Option<u32>,
    /// Milliseconds for a smart tool's question to a model. Default: 10,000.
    pub(crate) sub_call_ms: Option<u64>,
    /// Output tokens of such a question. Default: 512.
    pub(crate) sub_call_tokens: Option<u64>,
    /// Bytes of input of such a question. Default: 24,000.
    pub(crate) sub_call_bytes: Option<u64>,
}
