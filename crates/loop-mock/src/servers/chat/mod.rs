//! Chat Completions from the server's side.

mod read;
mod write;

pub(super) use read::{choice, functions, sampling};

use std::sync::Arc;

use serde_json::{Value, json};

use super::protocol::{
    ErrorAnswer, ErrorWords, Head, ModelCall, Protocol, Reported, Target, Trouble, Unfit, Writer, bytes_of,
};

/// OpenAI's Chat Completions, and with it the servers that are compatible.
#[derive(Debug)]
pub(super) struct Chat;

impl Protocol for Chat {
    fn read(&self, _: &Target<'_>, body: &Value) -> Result<ModelCall, Unfit> {
        read::read(body)
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(write::ChatWriter::new(head))
    }

    fn words(&self, trouble: Trouble) -> ErrorWords {
        openai_words(trouble)
    }

    fn error(&self, reported: &Reported<'_>) -> ErrorAnswer {
        openai_error(reported)
    }

    fn line(&self) -> &'static str {
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\""
    }

    fn api(&self) -> loop_llm::codec::Api {
        loop_llm::codec::Api::OpenaiChat
    }

    fn request_header(&self) -> &'static str {
        "x-request-id"
    }
}

/// The words of OpenAI, on both of its interfaces.
pub(super) fn openai_words(trouble: Trouble) -> ErrorWords {
    match trouble {
        Trouble::InvalidRequest => ErrorWords::new(400, BAD_REQUEST, None),
        Trouble::Unsupported => ErrorWords::new(400, BAD_REQUEST, Some("unsupported_parameter")),
        Trouble::Auth => ErrorWords::new(401, BAD_REQUEST, Some("invalid_api_key")),
        Trouble::Permission => ErrorWords::new(403, BAD_REQUEST, Some("permission_denied")),
        // A word of compatible servers; OpenAI itself knows quotas only.
        Trouble::Billing => ErrorWords::new(402, BAD_REQUEST, Some("insufficient_credits")),
        Trouble::ModelNotFound => ErrorWords::new(404, BAD_REQUEST, Some("model_not_found")),
        Trouble::QuotaExhausted => ErrorWords::new(429, "insufficient_quota", Some("insufficient_quota")),
        Trouble::RequestTooLarge => ErrorWords::new(413, BAD_REQUEST, Some("request_too_large")),
        Trouble::ContextTooLong => ErrorWords::new(400, BAD_REQUEST, Some("context_length_exceeded")),
        Trouble::StaleReasoning => ErrorWords::new(400, BAD_REQUEST, Some("invalid_encrypted_content")),
        Trouble::StateLost => ErrorWords::new(400, BAD_REQUEST, Some("previous_response_not_found")),
        Trouble::ContentFilter => ErrorWords::new(400, BAD_REQUEST, Some("content_policy_violation")),
        Trouble::MalformedToolCall => ErrorWords::new(400, BAD_REQUEST, Some("tool_use_failed")),
        Trouble::RateLimited => ErrorWords::new(429, "requests", Some("rate_limit_exceeded")),
        Trouble::Overloaded => ErrorWords::new(503, "server_error", Some("server_is_overloaded")),
        Trouble::ServerError => ErrorWords::new(500, "server_error", Some("server_error")),
        Trouble::Timeout => ErrorWords::new(408, "timeout", Some("timeout")),
        Trouble::ScriptExhausted => ErrorWords::new(400, BAD_REQUEST, Some("script_exhausted")),
    }
}

/// An error of OpenAI's.
pub(super) fn openai_error(reported: &Reported<'_>) -> ErrorAnswer {
    let wait = reported.wait.map(|wait| ("retry-after-ms", wait.as_millis().to_string()));
    ErrorAnswer {
        status: reported.words.status,
        headers: wait.into_iter().collect(),
        body: error_object(reported),
    }
}

/// The object that says what went wrong.
pub(super) fn error_object(reported: &Reported<'_>) -> Value {
    json!({"error": {
        "message": reported.message, "type": reported.words.kind, "param": reported.param, "code": reported.words.code,
    }})
}

/// An error that no question to a model has led to.
pub(super) fn plain_error(message: &str, code: Option<&'static str>) -> Vec<u8> {
    let words = ErrorWords::new(400, BAD_REQUEST, code);
    bytes_of(&error_object(&Reported { words, message, param: None, wait: None, request: "" }))
}

/// The list of models.
pub(super) fn models(names: &[Arc<str>]) -> Vec<u8> {
    let listed: Vec<Value> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "created": 0, "owned_by": "loopgate"}))
        .collect();
    bytes_of(&json!({"object": "list", "data": listed}))
}

const BAD_REQUEST: &str = "invalid_request_error";
