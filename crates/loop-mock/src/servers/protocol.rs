//! Between the server and a protocol: requests read into neutral ones, replies and failures written.

use std::time::Duration;

use loop_core::reply::FinishReason;
use loop_core::types::{FailureKind, ToolCall, Usage};
use loop_llm::codec::Api;
use loop_llm::model::ReplyEnd;
use loop_llm::{LlmError, ModelReply, ModelRequest};
use serde::Serialize;
use serde_json::{Value, json};

use super::{anthropic, chat, gemini, responses};

/// Reads a request as strictly as the provider of this protocol does.
pub(super) fn read(api: Api, target: &Target<'_>, body: &Value) -> Result<ModelCall, Fault> {
    match api {
        Api::OpenaiChat => chat::read(body),
        Api::OpenaiResponses => responses::read(body),
        Api::Anthropic => anthropic::read(target, body),
        Api::Gemini => gemini::read(target, body),
    }
}

/// What writes one reply.
pub(super) fn writer(api: Api, head: Head) -> Box<dyn Writer> {
    match api {
        Api::OpenaiChat => Box::new(chat::ChatWriter::new(head)),
        Api::OpenaiResponses => Box::new(responses::ResponsesWriter::new(head)),
        Api::Anthropic => Box::new(anthropic::AnthropicWriter::new(head)),
        Api::Gemini => Box::new(gemini::GeminiWriter::new(head)),
    }
}

/// The provider's words for what went wrong.
pub(super) fn words(api: Api, kind: FailureKind) -> ErrorWords {
    match api {
        Api::OpenaiChat | Api::OpenaiResponses => chat::words(kind),
        Api::Anthropic => anthropic::words(kind),
        Api::Gemini => gemini::words(kind),
    }
}

/// An error as the provider answers with it: a header, and the body.
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

/// The beginning of a line of a stream that holds visible text.
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

/// The header that names a request.
pub(super) fn request_header(api: Api) -> &'static str {
    match api {
        Api::OpenaiChat | Api::OpenaiResponses => "x-request-id",
        Api::Anthropic => "request-id",
        Api::Gemini => "x-goog-request-id",
    }
}

/// Writes one reply: piece by piece into frames, each an event of a stream, or as one value.
pub(super) trait Writer: Send {
    /// What comes before the first piece.
    fn begin(&mut self, out: &mut Frames);

    /// A piece of visible text.
    fn text(&mut self, text: &str, out: &mut Frames);

    /// A piece of reasoning.
    fn reasoning(&mut self, text: &str, out: &mut Frames);

    /// A refusal.
    fn refusal(&mut self, text: &str, out: &mut Frames);

    /// A call.
    fn call(&mut self, call: &ToolCall, out: &mut Frames);

    /// A sign of life.
    fn keep_alive(&mut self, out: &mut Frames);

    /// Tokens so far.
    fn usage(&mut self, usage: Usage);

    /// The end of a stream.
    fn end(&mut self, reply: &ModelReply, out: &mut Frames);

    /// The whole reply, in place of a stream.
    fn whole(&mut self, reply: &ModelReply) -> Value;

    /// A failure in the middle of a stream.
    fn fail(&mut self, reported: &ReportedFailure<'_>, out: &mut Frames);

    /// An event that cannot be read.
    fn nonsense(&mut self, out: &mut Frames) {
        out.push(b"data: {\n\n".to_vec());
    }
}

/// Events of a stream, each as its bytes.
pub(super) use super::behaviour::Frames;

/// Where a request was sent, as far as it matters to a protocol.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// The model that the path names.
    pub(super) model: Option<&'a str>,
    /// Whether the path asks for a stream.
    pub(super) streams: bool,
    pub(super) query: &'a str,
    pub(super) headers: &'a [(String, String)],
}

/// The protocol of a path, and what the path says.
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

/// Whether a path is that of the models' names.
pub(super) fn is_list(path: &str) -> bool {
    without_version(path) == "/models"
}

/// The name of a model, where a path asks for one.
pub(super) fn named_model(path: &str) -> Option<&str> {
    without_version(path).strip_prefix("/models/").filter(|name| !name.is_empty() && !name.contains(':'))
}

/// The count of tokens, in the words of the protocol, where a path asks for that of a request with so many bytes.
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

/// What paths begin with, or not.
const PREFIXES: [&str; 3] = ["/v1beta", "/v1", "/openai/v1"];

/// A request that can be passed on to a model.
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

/// How the reply is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Format {
    /// As a stream.
    pub(super) streams: bool,
    /// A stream that is one JSON array, and not made of events.
    pub(super) is_array: bool,
    /// With tokens at the end of a stream.
    pub(super) tells_usage: bool,
    /// With reasoning in a form that can be sent back.
    pub(super) seals: bool,
    /// Without the text of reasoning.
    pub(super) hides_reasoning: bool,
}

/// What a reply names.
#[derive(Debug)]
pub(super) struct Head {
    /// The number of the request, which ids are made of.
    pub(super) number: u64,
    /// The id that the model itself gave.
    pub(super) id: Option<String>,
    pub(super) model: String,
    /// A guess at the input tokens, for what is reported before they are known.
    pub(super) input_guess: u64,
    pub(super) ways: Format,
}

/// What is wrong with a request.
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

    /// The same for another reason.
    pub(super) fn because(self, kind: FailureKind) -> Self {
        Self { kind, ..self }
    }
}

/// A provider's words for a failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorWords {
    pub(super) status: u16,
    /// The word that every error has.
    pub(super) kind: &'static str,
    /// A finer one.
    pub(super) code: Option<&'static str>,
}

/// Whether the request itself is wrong.
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

/// A failure as it is to be reported.
#[derive(Debug)]
pub(super) struct ReportedFailure<'a> {
    pub(super) words: ErrorWords,
    pub(super) message: &'a str,
    pub(super) param: Option<&'a str>,
    /// After which time to ask again.
    pub(super) wait: Option<Duration>,
    /// The id of the request.
    pub(super) request: &'a str,
}

/// How a model's error is passed on to a client that is to read the same kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum ErrorDelivery {
    /// By a status before the reply, by words within it.
    ErrorWords,
    /// By a connection that is closed without an answer.
    NoAnswer,
    /// By a reply that breaks off.
    BrokenOff,
    /// By a reply that cannot be read.
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

/// Why a reply ended, as finely as it says.
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

/// Cuts a text into two, in the middle of a character never.
pub(super) fn halves(text: &str) -> [&str; 2] {
    let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (first, second) = text.split_at(middle);
    [first, second]
}
