//! The Chat Completions API of OpenAI, on the server side.

mod read;
mod write;

pub(super) use read::{choice, functions, read, sampling};
pub(super) use write::ChatWriter;

use std::sync::Arc;

use loop_core::types::FailureKind;
use serde_json::{Value, json};

use super::protocol::{ErrorWords, ReportedFailure, bytes_of};

/// OpenAI's wording of an error, for both of its APIs.
pub(super) fn words(kind: FailureKind) -> ErrorWords {
    let (status, kind, code) = match kind {
        FailureKind::InvalidRequest => (400, BAD_REQUEST, None),
        FailureKind::Unsupported => (400, BAD_REQUEST, Some("unsupported_parameter")),
        FailureKind::Auth => (401, BAD_REQUEST, Some("invalid_api_key")),
        FailureKind::Permission => (403, BAD_REQUEST, Some("permission_denied")),
        // A word of compatible servers; OpenAI itself knows quotas only.
        FailureKind::Billing => (402, BAD_REQUEST, Some("insufficient_credits")),
        FailureKind::ModelNotFound => (404, BAD_REQUEST, Some("model_not_found")),
        FailureKind::QuotaExhausted => (429, "insufficient_quota", Some("insufficient_quota")),
        FailureKind::RequestTooLarge => (413, BAD_REQUEST, Some("request_too_large")),
        FailureKind::ContextTooLong => (400, BAD_REQUEST, Some("context_length_exceeded")),
        FailureKind::StaleReasoning => (400, BAD_REQUEST, Some("invalid_encrypted_content")),
        FailureKind::StateLost => (400, BAD_REQUEST, Some("previous_response_not_found")),
        FailureKind::ContentFilter => (400, BAD_REQUEST, Some("content_policy_violation")),
        FailureKind::MalformedToolCall => (400, BAD_REQUEST, Some("tool_use_failed")),
        FailureKind::RateLimited => (429, "requests", Some("rate_limit_exceeded")),
        FailureKind::Overloaded => (503, "server_error", Some("server_is_overloaded")),
        FailureKind::Timeout => (408, "timeout", Some("timeout")),
        // No server knows this kind: to its client it is a request that cannot be answered.
        FailureKind::ScriptExhausted => (400, BAD_REQUEST, Some("script_exhausted")),
        _ => (500, "server_error", Some("server_error")),
    };
    ErrorWords { status, kind, code }
}

/// The error object.
pub(super) fn error_object(reported: &ReportedFailure<'_>) -> Value {
    json!({"error": {
        "message": reported.message, "type": reported.words.kind, "param": reported.param, "code": reported.words.code,
    }})
}

/// An error of a request that is not a model call.
pub(super) fn plain_error(message: &str, code: Option<&'static str>) -> Vec<u8> {
    let words = ErrorWords { status: 400, kind: BAD_REQUEST, code };
    bytes_of(&error_object(&ReportedFailure { words, message, param: None, wait: None, request: "" }))
}

/// A model, with the members of all protocols.
pub(super) fn model(name: &str) -> Value {
    json!({
        "id": name, "object": "model", "created": 0, "owned_by": "loopgate",
        "type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z",
        "name": format!("models/{name}"), "displayName": name, "supportedGenerationMethods": ["generateContent"],
    })
}

/// The list of models, with the members of each vendor.
pub(super) fn models(names: &[Arc<str>]) -> Vec<u8> {
    let listed: Vec<Value> = names.iter().map(|name| model(name)).collect();
    let (first, last) = (names.first(), names.last());
    bytes_of(&json!({
        "object": "list", "data": listed, "models": listed,
        "has_more": false, "first_id": first, "last_id": last,
    }))
}

const BAD_REQUEST: &str = "invalid_request_error";
