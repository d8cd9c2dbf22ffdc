//! Anthropic's Messages from the server's side.
//!
//! Thinking goes out with a signature over its text, and has to come back as it went or not at all; a turn that calls
//! tools has to bring it back where thinking has a budget.

mod blocks;
mod read;
mod write;

use serde_json::{Value, json};

use super::protocol::{
    ErrorAnswer, ErrorWords, Head, ModelCall, Protocol, Reported, Target, Trouble, Unfit, Writer,
};

/// Anthropic's Messages.
#[derive(Debug)]
pub(super) struct Anthropic;

impl Protocol for Anthropic {
    fn read(&self, target: &Target<'_>, body: &Value) -> Result<ModelCall, Unfit> {
        read::read(target, body)
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(write::AnthropicWriter::new(head))
    }

    fn words(&self, trouble: Trouble) -> ErrorWords {
        match trouble {
            Trouble::InvalidRequest
            | Trouble::Unsupported
            | Trouble::ContextTooLong
            | Trouble::StaleReasoning
            | Trouble::StateLost
            | Trouble::ContentFilter
            | Trouble::MalformedToolCall => ErrorWords::new(400, BAD_REQUEST, None),
            Trouble::ScriptExhausted => ErrorWords::new(400, BAD_REQUEST, Some("script_exhausted")),
            Trouble::Auth => ErrorWords::new(401, "authentication_error", None),
            Trouble::Billing => ErrorWords::new(402, "billing_error", None),
            Trouble::Permission => ErrorWords::new(403, "permission_error", None),
            Trouble::ModelNotFound => ErrorWords::new(404, "not_found_error", None),
            Trouble::RequestTooLarge => ErrorWords::new(413, "request_too_large", None),
            Trouble::QuotaExhausted => {
                ErrorWords::new(429, "rate_limit_error", Some("enforced_spend_limit_reached"))
            }
            Trouble::RateLimited => ErrorWords::new(429, "rate_limit_error", None),
            Trouble::ServerError => ErrorWords::new(500, "api_error", None),
            Trouble::Timeout => ErrorWords::new(504, "timeout_error", None),
            Trouble::Overloaded => ErrorWords::new(529, "overloaded_error", None),
        }
    }

    fn error(&self, reported: &Reported<'_>) -> ErrorAnswer {
        // It counts in whole seconds.
        let wait = reported.wait.map(|wait| ("retry-after", wait.as_millis().div_ceil(1_000).to_string()));
        let headers = wait.into_iter().collect();
        ErrorAnswer { status: reported.words.status, headers, body: error_object(reported) }
    }

    fn line(&self) -> &'static str {
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
         {\"type\":\"text_delta\",\"text\":\""
    }

    fn api(&self) -> loop_llm::codec::Api {
        loop_llm::codec::Api::Anthropic
    }

    fn request_header(&self) -> &'static str {
        "request-id"
    }
}

fn error_object(reported: &Reported<'_>) -> Value {
    let mut error = json!({"type": reported.words.kind, "message": reported.message});
    if let (Some(code), Some(error)) = (reported.words.code, error.as_object_mut()) {
        error.insert("details".to_owned(), json!({"error_code": code}));
    }
    json!({"type": "error", "error": error, "request_id": reported.request})
}

const BAD_REQUEST: &str = "invalid_request_error";

/// The purpose of the seals on thinking.
const SIGNATURE: &str = "signature";
