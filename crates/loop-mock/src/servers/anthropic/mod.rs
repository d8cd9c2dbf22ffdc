//! The Messages API of Anthropic, on the server side.
//!
//! Thinking is sent with a signature over its text, and the client must return it unchanged or not at all. With a
//! thinking budget, a turn that calls tools must contain it.

mod blocks;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::AnthropicWriter;

use loop_core::types::FailureKind;
use serde_json::{Value, json};

use super::protocol::{ErrorWords, ReportedFailure, is_of_the_request, set};

/// Anthropic's wording of an error.
pub(super) fn words(kind: FailureKind) -> ErrorWords {
    let (status, kind, code) = match kind {
        FailureKind::ScriptExhausted => (400, BAD_REQUEST, Some("script_exhausted")),
        FailureKind::Auth => (401, "authentication_error", None),
        FailureKind::Billing => (402, "billing_error", None),
        FailureKind::Permission => (403, "permission_error", None),
        FailureKind::ModelNotFound => (404, "not_found_error", None),
        FailureKind::StateLost => (404, "not_found_error", Some("thread_not_found")),
        FailureKind::RequestTooLarge => (413, "request_too_large", None),
        FailureKind::QuotaExhausted => (429, "rate_limit_error", Some("enforced_spend_limit_reached")),
        FailureKind::RateLimited => (429, "rate_limit_error", None),
        FailureKind::Timeout => (504, "timeout_error", None),
        FailureKind::Overloaded => (529, "overloaded_error", None),
        kind if is_of_the_request(kind) => (400, BAD_REQUEST, None),
        _ => (500, "api_error", None),
    };
    ErrorWords { status, kind, code }
}

pub(super) fn error_object(reported: &ReportedFailure<'_>) -> Value {
    let mut error = json!({"type": reported.words.kind, "message": reported.message});
    if let Some(code) = reported.words.code {
        set(&mut error, "details", json!({"error_code": code}));
    }
    json!({"type": "error", "error": error, "request_id": reported.request})
}

const BAD_REQUEST: &str = "invalid_request_error";

/// The purpose of the signatures.
const SIGNATURE: &str = "signature";
