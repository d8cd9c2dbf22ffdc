//! The `generateContent` API of Gemini, on the server side.
//!
//! The first call of a reply has a signature, and so does the text of a reply with reasoning. The client must return it
//! on the same part. In the current turn, no first call may lack it.

mod contents;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::GeminiWriter;

use loop_core::types::FailureKind;
use serde_json::{Map, Value, json};

use super::protocol::{ErrorWords, ReportedFailure, is_of_the_request};

/// Google's wording of an error.
pub(super) fn words(kind: FailureKind) -> ErrorWords {
    let (status, kind, code) = match kind {
        FailureKind::ScriptExhausted => (400, BAD_REQUEST, Some("SCRIPT_EXHAUSTED")),
        FailureKind::Auth => (400, BAD_REQUEST, Some("API_KEY_INVALID")),
        FailureKind::Billing => (402, "FAILED_PRECONDITION", None),
        FailureKind::Permission => (403, "PERMISSION_DENIED", None),
        FailureKind::ModelNotFound => (404, "NOT_FOUND", None),
        FailureKind::QuotaExhausted => (429, EXHAUSTED, Some("GenerateRequestsPerDayPerProjectPerModel")),
        FailureKind::RateLimited => (429, EXHAUSTED, Some("GenerateRequestsPerMinutePerProjectPerModel")),
        FailureKind::Overloaded => (503, "UNAVAILABLE", None),
        FailureKind::Timeout => (504, "DEADLINE_EXCEEDED", None),
        kind if is_of_the_request(kind) => (400, BAD_REQUEST, None),
        _ => (500, "INTERNAL", None),
    };
    ErrorWords { status, kind, code }
}

/// The error object with Google's details.
pub(super) fn error_object(reported: &ReportedFailure<'_>) -> Value {
    let ErrorWords { status, kind, code } = reported.words;
    let mut details = Vec::new();
    match code {
        Some(quota) if kind == EXHAUSTED => details.push(json!({
            "@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}],
        })),
        Some(reason) => details.push(json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com",
        })),
        None => {}
    }
    if let Some(wait) = reported.wait {
        let delay = format!("{}.{:03}s", wait.as_secs(), wait.subsec_millis());
        details.push(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}));
    }
    json!({"error": {"code": status, "message": reported.message, "status": kind, "details": details}})
}

/// The content that a call's signature is bound to.
fn bound(name: &str, args: &Map<String, Value>) -> String {
    let args = Value::Object(args.clone());
    format!("{name}\n{args}")
}

const BAD_REQUEST: &str = "INVALID_ARGUMENT";
const EXHAUSTED: &str = "RESOURCE_EXHAUSTED";

/// The purpose of the seals.
const SIGNATURE: &str = "thoughtSignature";
