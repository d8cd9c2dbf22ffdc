//! The interface between the server and a protocol: parsed requests, and writers of replies and errors.

use std::time::Duration;

use loop_core::reply::FinishReason;
use loop_core::types::{FailureKind, ToolCall, Usage};
use loop_llm::codec::Api;
use loop_llm::model::ReplyEnd;
use loop_llm::{LlmError, ModelReply, ModelRequest};
use serde::Serialize;
use serde_json::{Value, json};

use super::{anthropic, chat, gemini, responses};

/// Parses a request as strictly as the provider of this protocol does.
pub(super) fn read(api: Api, target: &Target<'_>, body: &Value) -> Result<ModelCall, Fault> {
    match api {
        Api::OpenaiChat => chat::read(body),
        Api::OpenaiResponses => responses::read(body),
        Api::Anthropic => anthropic::read(target, body),
        Api::Gemini => gemini::read(target, body),
    }
}

/// The writer of one reply.
pub(super) fn writer(api: Api, head: Head) -> Box<dyn Writer> {
    match api {
        Api::OpenaiChat => Box::new(chat::ChatWriter::new(head)),
        Api::OpenaiResponses => Box::new(responses::ResponsesWriter::new(head)),
        Api::Anthropic => Box::new(anthropic::AnthropicWriter::new(head)),
        Api::Gemini => Box::new(gemini::GeminiWriter::new(head)),
    }
}

/// The provider's wording of an error.
pub(super) fn words(api: Api, kind: FailureKind) -> ErrorWords {
    match api {
        Api::OpenaiChat | Api::OpenaiResponses => chat::words(kind),
        Api::Anthropic => anthropic::words(kind),
        Api::Gemini => gemini::words(kind),
    }
}

/// An error response of the provider: a header, and the body.
pub(super) fn error(api: Api, reported: &ReportedFailure<'_>) -> (Option<(&'static str, String)>, Value) {
    let wait = reported.wait.map(|wait| wait.as_millis());
    match api {
        Api::OpenaiChat | Api::OpenaiResponses => {
            (wait.map(|wait| ("retry-after-ms", wait.to_string())), chat::error_object(reported))
        }
        // It counts in whole seconds.
        Api::Anthropic => {
            let wait = wait.map(|wait| ("retry-after", wait.div_ceil(1_000).to_string()));
            (wait, anthropic::error_object(reported))
        }
        Api::Gemini => (None, gemini::error_object(reported)),
    }
}

/// The beginning of a stream line with visible text.
pub(super) fn line(api: Api) -> &'static str {
    match api {
        Api::OpenaiChat => "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"",
        Api::OpenaiResponses => {
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\""
        }
        Api::Anthropic => {
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
             {\"type\":\"text_delta\",\"text\":\""
        }
        Api::Gemini => "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"",
    }
}

/// The header with the request id.
pub(super) fn request_header(api: Api) -> &'static str {
    match api {
        Api::OpenaiChat | Api::OpenaiResponses => "x-request-id",
        Api::Anthropic => "request-id",
        Api::Gemini => "x-goog-request-id",
    }
}

/// Writes one reply, chunk by chunk as frames of a stream, or as one value.
pub(super) trait Writer: Send {
    /// Writes what comes before the first chunk.
    fn begin(&mut self, out: &mut Frames);

    /// Writes a chunk of visible text.
    fn text(&mut self, text: &str, out: &mut Frames);

    /// Writes a chunk of reasoning.
    fn reasoning(&mut self, text: &str, out: &mut Frames);

    /// Writes a refusal.
    fn refusal(&mut self, text: &str, out: &mut Frames);

    /// Writes a tool call.
    fn call(&mut self, call: &ToolCall, out: &mut Frames);

    /// Writes a keep-alive.
    fn keep_alive(&mut self, out: &mut Frames);

    /// Sets the usage so far.
    fn usage(&mut self, usage: Usage);

    /// Writes the end of a stream.
    fn end(&mut self, reply: &ModelReply, out: &mut Frames);

    /// The whole reply, without streaming.
    fn whole(&mut self, reply: &ModelReply) -> Value;

    /// Writes a failure in the middle of a stream.
    fn fail(&mut self, reported: &ReportedFailure<'_>, out: &mut Frames);

    /// Writes an event that cannot be parsed.
    fn nonsense(&mut self, out: &mut Frames) {
        out.push(b"data: {\n\n".to_vec());
    }
}

/// Events of a stream, each as its bytes.
pub(super) use super::behaviour::Frames;

/// The target of a request, as far as a protocol needs it.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// The model that the path names.
    pub(super) model: Option<&'a str>,
    /// Whether the path asks for a stream.
    pub(super) streams: bool,
    pub(super) query: &'a str,
    pub(super) headers: &'a [(String, String)],
}

/// The protocol of a path, and the target in it.
pub(super) fn find<'a>(
    path: &'a str,
    query: &'a str,
    headers: &'a [(String, String)],
) -> Option<(Api, Target<'a>)> {
    let rest = without_version(path);
    let target = Target { model: None, streams: false, query, headers };
    match rest {
        "/chat/completions" => return Some((Api::OpenaiChat, target)),
        "/responses" => return Some((Api::OpenaiResponses, target)),
        "/messages" => return Some((Api::Anthropic, target)),
        _ => {}
    }
    let (model, verb) = rest.strip_prefix("/models/")?.split_once(':')?;
    let streams = match verb {
        "generateContent" => false,
        "streamGenerateContent" => true,
        _ => return None,
    };
    Some((Api::Gemini, Target { model: Some(model), streams, ..target }))
}

/// Whether a path is that of the model list.
pub(super) fn is_list(path: &str) -> bool {
    without_version(path) == "/models"
}

/// The model name in a path for one model.
pub(super) fn named_model(path: &str) -> Option<&str> {
    without_version(path).strip_prefix("/models/").filter(|name| !name.is_empty() && !name.contains(':'))
}

/// The token count in the format of the protocol, if the path asks for one. `bytes` is the size of the request.
pub(super) fn token_count(path: &str, bytes: u64) -> Option<Value> {
    // Four bytes count as one, as in the replies of the offline stub.
    let tokens = (bytes / 4).max(1);
    match without_version(path) {
        "/messages/count_tokens" => Some(json!({"input_tokens": tokens})),
        "/responses/input_tokens" => Some(json!({"object": "response.input_tokens", "input_tokens": tokens})),
        rest => {
            let counts = rest.strip_prefix("/models/").is_some_and(|model| model.ends_with(":countTokens"));
            counts.then(|| json!({"totalTokens": tokens}))
        }
    }
}

fn without_version(path: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(path)
}

/// Path prefixes, which are optional.
const PREFIXES: [&str; 3] = ["/v1beta", "/v1", "/openai/v1"];

/// A parsed request for a model.
#[derive(Debug)]
pub(super) struct ModelCall {
    pub(super) request: ModelRequest,
    pub(super) ways: Format,
}

impl ModelCall {
    pub(super) fn new(mut request: ModelRequest, ways: Format) -> Self {
        request.meta.purpose = Some(crate::purpose::of_prompt(&request));
        Self { request, ways }
    }
}

/// How the client wants the reply.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Format {
    /// As a stream.
    pub(super) streams: bool,
    /// As a stream that is one JSON array, not events.
    pub(super) is_array: bool,
    /// With the usage at the end of a stream.
    pub(super) tells_usage: bool,
    /// With sealed reasoning that can be sent back.
    pub(super) seals: bool,
    /// Without the text of reasoning.
    pub(super) hides_reasoning: bool,
}

/// Ids and numbers for a reply.
#[derive(Debug)]
pub(super) struct Head {
    /// The number of the request, from which ids are made.
    pub(super) number: u64,
    /// The id that the model itself gave.
    pub(super) id: Option<String>,
    pub(super) model: String,
    /// An estimate of the input tokens, for events before the usage is known.
    pub(super) input_guess: u64,
    pub(super) ways: Format,
}

/// Why a request is invalid.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) param: String,
    pub(super) message: String,
    pub(super) kind: FailureKind,
}

impl Fault {
    pub(super) fn new(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: param.into(), message: message.into(), kind: FailureKind::InvalidRequest }
    }

    /// The same with another kind of failure.
    pub(super) fn because(self, kind: FailureKind) -> Self {
        Self { kind, ..self }
    }
}

/// A provider's wording of a failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorWords {
    pub(super) status: u16,
    /// The error type, which every error has.
    pub(super) kind: &'static str,
    /// A more specific code.
    pub(super) code: Option<&'static str>,
}

/// Whether the request itself is invalid.
pub(super) fn is_of_the_request(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::InvalidRequest
            | FailureKind::Unsupported
            | FailureKind::RequestTooLarge
            | FailureKind::ContextTooLong
            | FailureKind::StaleReasoning
            | FailureKind::StateLost
            | FailureKind::ContentFilter
            | FailureKind::MalformedToolCall
    )
}

/// A failure to report.
#[derive(Debug)]
pub(super) struct ReportedFailure<'a> {
    pub(super) words: ErrorWords,
    pub(super) message: &'a str,
    pub(super) param: Option<&'a str>,
    /// The `Retry-After`.
    pub(super) wait: Option<Duration>,
    /// The id of the request.
    pub(super) request: &'a str,
}

/// How an error of the model is passed on, so that the client sees the same kind of error.
#[derive(Clone, Copy, Debug)]
pub(super) enum ErrorDelivery {
    /// By an error status before the reply, or an error event within it.
    ErrorWords,
    /// By closing the connection without a response.
    NoAnswer,
    /// By cutting the reply.
    BrokenOff,
    /// By a reply that cannot be parsed.
    Nonsense,
}

/// How this error is passed on.
pub(super) fn wire(error: &LlmError) -> ErrorDelivery {
    match error.kind {
        FailureKind::Connection | FailureKind::Cancelled => ErrorDelivery::NoAnswer,
        FailureKind::StreamInterrupted => ErrorDelivery::BrokenOff,
        FailureKind::BadResponse => ErrorDelivery::Nonsense,
        _ => ErrorDelivery::ErrorWords,
    }
}

/// Why a reply ended, as specifically as it says.
pub(super) fn stop(reply: &ModelReply) -> ReplyEnd {
    let coarse = match reply.finish {
        FinishReason::EndTurn => ReplyEnd::EndTurn,
        FinishReason::ToolUse => ReplyEnd::ToolUse,
        FinishReason::MaxTokens | FinishReason::Capped => ReplyEnd::MaxTokens,
        FinishReason::Refusal if reply.refusal.is_some() => ReplyEnd::Refusal,
        // The text of such a refusal stays what it is, a reply's text.
        FinishReason::Refusal | FinishReason::Filtered => ReplyEnd::ContentFilter,
        FinishReason::Other => ReplyEnd::Other,
    };
    match reply.stop.unwrap_or(coarse) {
        ReplyEnd::EndTurn if !reply.tool_calls.is_empty() => ReplyEnd::ToolUse,
        stop => stop,
    }
}

/// An event of a stream that has a name.
pub(super) fn named_event(name: &str, value: &impl Serialize) -> Vec<u8> {
    [b"event: ", name.as_bytes(), b"\ndata: ", bytes_of(value).as_slice(), b"\n\n"].concat()
}

pub(super) fn bytes_of(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts, numbers and lists can always be written as JSON")
}

/// Sets a member of an object.
pub(super) fn set(object: &mut Value, name: &str, value: impl Into<Value>) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value.into());
    }
}

/// Splits a text into two halves at a character boundary.
pub(super) fn halves(text: &str) -> [&str; 2] {
    let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (first, second) = text.split_at(middle);
    [first, second]
}
