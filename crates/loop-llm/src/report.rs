//! The result of a call, reply or error, as one serializable object for people and other programs.

use std::sync::Arc;

use loop_core::types::{FailureKind, ToolCall, Usage};
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::{Filtered, ReplyEnd};
use crate::error::{ErrorPhase, LlmError, RequestChange, RetryAdvice};
use crate::model::ModelReply;
use crate::request::Message;

/// The result of a call: the reply, or the error with what was received before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModelReport {
    /// The visible text. For a failed call, what was received of it.
    pub text: Arc<str>,
    /// The reasoning, as far as the provider shows it. For a failed call, what was received of it.
    pub reasoning: Arc<str>,
    /// The text of a refusal. Empty if there is none.
    pub refusal: Arc<str>,
    /// The complete tool calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The number of further tool calls: those after the first 128 are counted and not read.
    pub unread_calls: u32,
    /// Why the reply ended. `null` for a failed call.
    pub stop: Option<ReplyEnd>,
    /// Details of `stop`: the category of a refusal or a filter, the stop sequence, the error in a tool call.
    pub stop_detail: Option<Arc<str>>,
    /// Which part of the call a content filter stopped. `null` if none did.
    pub filtered: Option<Filtered>,
    /// The provider's own stop reason.
    pub raw_stop: Option<Arc<str>>,
    /// Tokens; each counts in one field. `null` if the provider does not report them.
    pub usage: Option<Usage>,
    /// The cost of the call in pico-dollars (10⁻¹² USD), as the provider reports it or by a known price. `null`, never
    /// 0, if it is not known.
    pub cost_pico_usd: Option<u64>,
    /// The model that actually served the call.
    pub served_model: Option<Arc<str>>,
    /// The service tier that actually served the call.
    pub served_tier: Option<Arc<str>>,
    /// The provider's id of the reply.
    pub reply: Option<Arc<str>>,
    /// The provider's request id, for its support.
    pub request: Option<Arc<str>>,
    /// The reply as a turn for the `messages` of the next request. `null` for a failed call.
    pub turn: Option<Message>,
    /// What was left out of the request or changed in it, and what was irregular in the reply.
    pub warnings: Vec<Arc<str>>,
    /// The error. `null` for a reply.
    pub error: Option<ReportedError>,
}

/// The error of a failed call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportedError {
    /// The kind of error.
    pub kind: FailureKind,
    /// Whether a retry may succeed: later with the same request, or at once with the named `change`.
    pub retryable: bool,
    /// One line, secrets masked.
    pub message: Arc<str>,
    /// How far the call had come.
    pub phase: ErrorPhase,
    /// The delay before a retry that the provider requests, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The change that the request needs before a retry.
    pub change: Option<RequestChange>,
    /// The HTTP status of the response.
    pub status: Option<u16>,
    /// The tokens of a request that exceeds the context window.
    pub used_tokens: Option<u64>,
    /// The context window that the request exceeds, in tokens.
    pub max_tokens: Option<u64>,
    /// The provider's name of the content filter that refused the request.
    pub category: Option<Arc<str>>,
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
