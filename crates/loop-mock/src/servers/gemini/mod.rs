//! Gemini's `generateContent` from the server's side.
//!
//! A signature is on the first call of a reply, and behind the text of one that reasoned. It has to come back on
//! the same part; in the turn that is going on no first call may lack it.

mod contents;
mod read;
mod write;

use serde_json::{Map, Value, json};

use super::protocol::{
    ErrorAnswer, ErrorWords, Head, ModelCall, Protocol, Reported, Target, Trouble, Unfit, Writer,
};

/// Gemini's `generateContent` and `streamGenerateContent`.
#[derive(Debug)]
pub(super) struct Gemini;

impl Protocol for Gemini {
    fn read(&self, target: &Target<'_>, body: &Value) -> Result<ModelCall, Unfit> {
        read::read(target, body)
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(write::GeminiWriter::new(head))
    }

    fn words(&self, trouble: Trouble) -> ErrorWords {
        match trouble {
            Trouble::InvalidRequest
            | Trouble::Unsupported
            | Trouble::ContextTooLong
            | Trouble::StaleReasoning
            | Trouble::StateLost
            | Trouble::ContentFilter
            | Trouble::MalformedToolCall
            | Trouble::RequestTooLarge => ErrorWords::new(400, BAD_REQUEST, None),
            Trouble::ScriptExhausted => ErrorWords::new(400, BAD_REQUEST, Some("SCRIPT_EXHAUSTED")),
            Trouble::Auth => ErrorWords::new(400, BAD_REQUEST, Some("API_KEY_INVALID")),
            Trouble::Billing => ErrorWords::new(402, "FAILED_PRECONDITION", None),
            Trouble::Permission => ErrorWords::new(403, "PERMISSION_DENIED", None),
            Trouble::ModelNotFound => ErrorWords::new(404, "NOT_FOUND", None),
            Trouble::QuotaExhausted => {
                ErrorWords::new(429, EXHAUSTED, Some("GenerateRequestsPerDayPerProjectPerModel"))
            }
            Trouble::RateLimited => {
                ErrorWords::new(429, EXHAUSTED, Some("GenerateRequestsPerMinutePerProjectPerModel"))
            }
            Trouble::ServerError => ErrorWords::new(500, "INTERNAL", None),
            Trouble::Overloaded => ErrorWords::new(503, "UNAVAILABLE", None),
            Trouble::Timeout => ErrorWords::new(504, "DEADLINE_EXCEEDED", None),
        }
    }

    fn error(&self, reported: &Reported<'_>) -> ErrorAnswer {
        ErrorAnswer { status: reported.words.status, headers: Vec::new(), body: error_object(reported) }
    }

    fn line(&self) -> &'static str {
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\""
    }

    fn api(&self) -> loop_llm::codec::Api {
        loop_llm::codec::Api::Gemini
    }

    fn request_header(&self) -> &'static str {
        "x-goog-request-id"
    }
}

/// What went wrong, with the details that only it has.
fn error_object(reported: &Reported<'_>) -> Value {
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

/// What the signature of a call is bound to.
fn bound(name: &str, args: &Map<String, Value>) -> String {
    let args = Value::Object(args.clone());
    format!("{name}\n{args}")
}

const BAD_REQUEST: &str = "INVALID_ARGUMENT";
const EXHAUSTED: &str = "RESOURCE_EXHAUSTED";

/// The purpose of the seals.
const SIGNATURE: &str = "thoughtSignature";
