//! OpenAI's Responses from the server's side.
//!
//! Nothing is stored: what a client wants known it sends again. Reasoning goes out sealed where the request includes
//! `reasoning.encrypted_content`, and has to come back as it went, with the items that followed it.

mod read;
mod write;

use serde_json::Value;

use super::chat::{openai_error, openai_words};
use super::protocol::{
    ErrorAnswer, ErrorWords, Head, ModelCall, Protocol, Reported, Target, Trouble, Unfit, Writer,
};

/// OpenAI's Responses.
#[derive(Debug)]
pub(super) struct Responses;

impl Protocol for Responses {
    fn read(&self, _: &Target<'_>, body: &Value) -> Result<ModelCall, Unfit> {
        read::read(body)
    }

    fn writer(&self, head: Head) -> Box<dyn Writer> {
        Box::new(write::ResponsesWriter::new(head))
    }

    fn words(&self, trouble: Trouble) -> ErrorWords {
        openai_words(trouble)
    }

    fn error(&self, reported: &Reported<'_>) -> ErrorAnswer {
        openai_error(reported)
    }

    fn line(&self) -> &'static str {
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\""
    }

    fn api(&self) -> loop_llm::codec::Api {
        loop_llm::codec::Api::OpenaiResponses
    }

    fn request_header(&self) -> &'static str {
        "x-request-id"
    }
}

/// What sealed reasoning is bound to: its item and its summary.
fn bound(id: &str, summary: &str) -> String {
    format!("{id}\n{summary}")
}

/// The purpose of its seals.
const SEAL: &str = "encrypted_content";

/// How the id of an item ends that belongs behind reasoning.
const REASONED: &str = "_r";
