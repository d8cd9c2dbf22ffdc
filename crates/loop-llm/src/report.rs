//! The result of a call, reply or error, as one serializable object for people and other programs.

use std::sync::Arc;

use loop_core::types::{FailureKind, ToolCall, Usage};
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::{Filtered, ReplyEnd};
use crate::error::{ErrorPhase, LlmError, RequestChange, RetryAdvice};
use crate::model::ModelReply;
use crate::request::{Message, ToolCallForm};

/// A reply, or what had come of one and why there is no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModelReport {
    /// The visible text; of a call that failed, what had come of it.
    pub text: Arc<str>,
    /// What it reasoned, as far as the provider shows it; of a call that failed, what had come of it.
    pub reasoning: Arc<str>,
    /// The words of a refusal; empty where there is none.
    pub refusal: Arc<str>,
    /// The tools that it wants run, in order; complete ones alone.
    #[schemars(with = "Vec<ToolCallForm>")]
    pub tool_calls: Vec<ToolCall>,
    /// How many tools more it wants run: what comes after the first 128 is counted and not read.
    pub unread_calls: u32,
    /// Why it ended; `null` for a call that failed.
    pub stop: Option<ReplyEnd>,
    /// More on why: the category of a refusal or a filter, the text at which it ended, what is wrong with a call.
    pub stop_detail: Option<Arc<str>>,
    /// Where a filter stopped it: which side of the call.
    pub filtered: Option<Filtered>,
    /// The provider's own word for why it ended.
    pub raw_stop: Option<Arc<str>>,
    /// Tokens in disjoint buckets; `null` where the provider does not say.
    #[schemars(with = "Option<Buckets>")]
    pub usage: Option<Usage>,
    /// What the call cost, in millionths of a millionth of a dollar, where the provider or a known price says; `null`, and
    /// never 0, for what is not known.
    pub cost_pico_usd: Option<u64>,
    /// The model that really served.
    pub served_model: Option<Arc<str>>,
    /// The class of service that really served.
    pub served_tier: Option<Arc<str>>,
    /// The provider's id of the reply.
    pub reply: Option<Arc<str>>,
    /// The provider's id of the exchange, for its support.
    pub request: Option<Arc<str>>,
    /// The reply as it goes back among the `messages` of the next request; `null` for a call that failed.
    pub turn: Option<Message>,
    /// What was left out of the request or changed in it, and what was not as it should be in the reply.
    pub warnings: Vec<Arc<str>>,
    /// What failed; `null` for a reply.
    pub error: Option<ReportedError>,
}

/// A failure, for who looks from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportedError {
    /// What failed.
    #[schemars(schema_with = "kinds")]
    pub kind: FailureKind,
    /// Whether it may succeed when it is tried again: later as it is, or at once with the `change` that is named.
    pub retryable: bool,
    /// One line, secrets masked.
    pub message: Arc<str>,
    /// How far the call had come.
    pub phase: ErrorPhase,
    /// Milliseconds that the provider asks to wait.
    pub retry_after_ms: Option<u64>,
    /// How the request has to change before it is tried again.
    pub change: Option<RequestChange>,
    /// The status of the response.
    pub status: Option<u16>,
    /// Of a request that does not fit: how many tokens it has.
    pub used_tokens: Option<u64>,
    /// Of a request that does not fit: how many tokens there may be.
    pub max_tokens: Option<u64>,
    /// Of a request that was filtered: why, in the provider's word.
    pub category: Option<Arc<str>>,
}

/// Tokens; no token is in two of them.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "the form of loop_core::types::Usage, for its schema alone")]
struct Buckets {
    /// Fresh input.
    input: u64,
    /// Input that was read from a cache.
    cache_read: u64,
    /// Input that was written to a cache for minutes.
    cache_write_short: u64,
    /// Input that was written to a cache for long.
    cache_write_long: u64,
    /// Visible output.
    output: u64,
    /// Reasoning.
    reasoning: u64,
    /// Whether it is an estimate.
    estimated: bool,
}

fn kinds(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "enum": FailureKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>()})
}

impl ModelReport {
    /// The report of a call's result.
    pub fn of(result: Result<ModelReply, LlmError>) -> Self {
        match result {
            Ok(reply) => Self::of_reply(reply),
            Err(error) => Self::of_error(error),
        }
    }

    fn of_reply(reply: ModelReply) -> Self {
        Self {
            turn: Some(reply.turn()),
            text: reply.text,
            reasoning: reply.reasoning,
            refusal: reply.refusal.unwrap_or_default(),
            tool_calls: reply.tool_calls,
            unread_calls: reply.unread_calls,
            stop: Some(reply.stop.unwrap_or_else(|| reply.finish.into())),
            stop_detail: reply.stop_detail,
            filtered: reply.filtered,
            raw_stop: reply.raw_stop,
            usage: reply.usage,
            cost_pico_usd: reply.cost.map(|cost| cost.0),
            served_model: reply.served_model,
            served_tier: reply.served_tier,
            reply: reply.reply,
            request: reply.request,
            warnings: reply.warnings,
            error: None,
        }
    }

    fn of_error(error: LlmError) -> Self {
        let retryable = error.is_retryable();
        let partial = error.partial.unwrap_or_default();
        let detail = error.detail.map(|detail| *detail).unwrap_or_default();
        let (retry_after_ms, change) = match error.retry {
            RetryAdvice::Never | RetryAdvice::Backoff => (None, None),
            RetryAdvice::After(delay) => (u64::try_from(delay.as_millis()).ok(), None),
            RetryAdvice::AfterChange(change) => (None, Some(change)),
        };
        let reply = ModelReply {
            reasoning: partial.reasoning,
            served_model: partial.served_model,
            request: detail.request,
            ..ModelReply::text(partial.text, partial.usage)
        };
        Self {
            stop: None,
            turn: None,
            error: Some(ReportedError {
                kind: error.kind,
                retryable,
                message: error.message,
                phase: error.phase,
                retry_after_ms,
                change,
                status: detail.status,
                used_tokens: detail.used_tokens,
                max_tokens: detail.max_tokens,
                category: detail.category,
            }),
            ..Self::of_reply(reply)
        }
    }
}

/// The JSON Schema of a neutral request, as `loopgate model call --request` reads it.
pub fn request_schema() -> serde_json::Value {
    schemars::generate::SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<crate::ModelRequest>()
        .to_value()
}

/// The JSON Schema of a neutral reply, as `loopgate model` prints it.
pub fn report_schema() -> serde_json::Value {
    schemars::generate::SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<ModelReport>()
        .to_value()
}
