//! Chat Completions from the server's side: requests become neutral ones, a model's events become chunks, and its
//! errors become what a client reads the same kind from.

use std::fmt::Display;
use std::sync::Arc;

use futures::StreamExt;
use loop_core::{FinishReason, Usage};
use serde::Serialize;
use serde_json::{Value, json};

use super::http::{Answer, EVENT_STREAM, KEEP_ALIVE};
use super::server::Ending;
use crate::error::{LlmError, LlmErrorKind, RetryAdvice};
use crate::model::{ChatModel, EventStream, ModelEvent, ModelReply};
use crate::request::{Message, ModelRequest};

/// A request that can be passed on to a model.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: ModelRequest,
    /// Whether the reply is wanted as a stream.
    streams: bool,
    /// Whether a stream tells its tokens.
    tells_usage: bool,
}

/// What is wrong with a request.
#[derive(Debug)]
pub(super) struct Unfit {
    param: &'static str,
    message: String,
}

impl Unfit {
    fn new(param: &'static str, message: impl Into<String>) -> Self {
        Self { param, message: message.into() }
    }

    /// The body of the answer with status 400.
    pub(super) fn body(&self) -> Vec<u8> {
        error_body(&self.message, "invalid_request_error", Some(self.param), None)
    }
}

impl Asked {
    /// Reads a body. Texts arrive unchanged; several leading system texts are joined by an empty line.
    pub(super) fn read(body: &Value) -> Result<Self, Unfit> {
        if !body.is_object() {
            return Err(Unfit::new("body", "the body is no JSON object"));
        }
        let Some(model) = body.get("model").and_then(Value::as_str) else {
            return Err(Unfit::new("model", "`model` has to be a text"));
        };
        if present(body, "tools").is_some_and(|tools| tools.as_array().is_none_or(|tools| !tools.is_empty()))
        {
            return Err(Unfit::new("tools", "the models here take no tools"));
        }
        if present(body, "n").is_some_and(|n| n.as_u64() != Some(1)) {
            return Err(Unfit::new("n", "one choice is all there is"));
        }
        let mut request = ModelRequest::new(model, "", "");
        (request.system, request.messages) = turns(body)?;
        for param in ["max_tokens", "max_completion_tokens"] {
            if let Some(most) = present(body, param) {
                let most = most.as_u64().filter(|most| *most > 0);
                request.max_output_tokens =
                    most.ok_or_else(|| Unfit::new(param, format!("`{param}` has to be a number above 0")))?;
            }
        }
        let is_true = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or(false);
        let options = body.get("stream_options").and_then(|options| options.get("include_usage"));
        Ok(Self { request, streams: is_true(body.get("stream")), tells_usage: is_true(options) })
    }
}

/// The system text and the turns.
fn turns(body: &Value) -> Result<(Arc<str>, Vec<Message>), Unfit> {
    let unfit = |message: String| Unfit::new("messages", message);
    let listed = body.get("messages").and_then(Value::as_array).filter(|listed| !listed.is_empty());
    let Some(listed) = listed else {
        return Err(unfit("`messages` has to be a list of at least one message".to_owned()));
    };
    let mut system: Vec<String> = Vec::new();
    let mut messages = Vec::new();
    for (n, message) in listed.iter().enumerate() {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let text = text(message.get("content"))
            .ok_or_else(|| unfit(format!("message {n} has content that is not text alone")))?;
        match role {
            "system" | "developer" if messages.is_empty() => system.push(text),
            "system" | "developer" => {
                return Err(unfit(format!("message {n} is a system text behind other turns")));
            }
            "user" => messages.push(Message::User { text: text.into() }),
            "assistant" if present(message, "tool_calls").is_none() => {
                messages.push(Message::Assistant { text: text.into(), raw: None });
            }
            _ => return Err(unfit(format!("message {n} is from neither system, user nor assistant alone"))),
        }
    }
    Ok((system.join("\n\n").into(), messages))
}

/// The text of a message: a text, a list of text parts, or nothing.
fn text(content: Option<&Value>) -> Option<String> {
    match content {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(parts)) => parts
            .iter()
            .map(|part| {
                let is_text = part.get("type").and_then(Value::as_str) == Some("text");
                part.get("text").and_then(Value::as_str).filter(|_| is_text)
            })
            .collect(),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
    }
}

/// A member that is given; `null` counts as not given.
fn present<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|value| !value.is_null())
}

/// Lets a model answer.
pub(super) async fn answer(
    model: &dyn ChatModel,
    asked: &Asked,
    number: u64,
    answer: &mut Answer<'_>,
) -> Result<(), Ending> {
    let started = answer.wait(model.stream(&asked.request)).await?;
    let mut events = match started {
        Ok(events) => events,
        Err(error) => return refuse(&error, asked.streams, answer).await,
    };
    let names = Names { id: format!("chatcmpl-{number}"), model: Arc::clone(&asked.request.model) };
    if asked.streams {
        stream(events, asked, names, answer).await
    } else {
        loop {
            match answer.wait(events.next()).await? {
                Some(Ok(ModelEvent::Finished(reply))) => return whole(&reply, &names, answer).await,
                Some(Ok(_)) => {}
                Some(Err(error)) => return refuse(&error, asked.streams, answer).await,
                None => return refuse(&without_end(), asked.streams, answer).await,
            }
        }
    }
}

/// A flood of visible text, as a stream.
pub(super) async fn flood(mut bytes: u64, number: u64, answer: &mut Answer<'_>) -> Result<(), Ending> {
    let names = Names { id: format!("chatcmpl-{number}"), model: "flood".into() };
    let line = format!("{}\n", "x".repeat(1_023));
    answer.events().await?;
    answer.write(&names.chunk(Delta::role(), None, None)).await?;
    while bytes > 0 {
        let length = bytes.min(line.len() as u64);
        let text = line.get(line.len() - length as usize..).unwrap_or_default();
        answer.write(&names.chunk(Delta::content(text), None, None)).await?;
        bytes -= length;
    }
    answer.write(&names.chunk(Delta::default(), Some("stop"), None)).await?;
    answer.write(DONE).await?;
    answer.finish().await
}

/// An event stream with one line of this length.
pub(super) async fn endless_line(bytes: u64, answer: &mut Answer<'_>) -> Result<(), Ending> {
    const BEGIN: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
    let block = [b'x'; 8 * 1_024];
    answer.events().await?;
    answer.write(BEGIN).await?;
    let mut left = bytes.saturating_sub(BEGIN.len() as u64);
    while left > 0 {
        let length = left.min(block.len() as u64);
        answer.write(block.get(..length as usize).unwrap_or_default()).await?;
        left -= length;
    }
    answer.write(b"\n\n").await?;
    answer.finish().await
}

async fn stream(
    mut events: EventStream,
    asked: &Asked,
    mut names: Names,
    answer: &mut Answer<'_>,
) -> Result<(), Ending> {
    // What fails before there is anything to show still gets a status.
    let mut next = match answer.wait(events.next()).await? {
        Some(Err(error)) => return refuse(&error, asked.streams, answer).await,
        Some(Ok(event)) => Some(Ok(event)),
        None => None,
    };
    answer.events().await?;
    if let Some(Ok(ModelEvent::Started { reply, model })) = &next {
        names.id = reply.as_ref().map_or(names.id, ToString::to_string);
        names.model = model.as_ref().map_or(names.model, Arc::clone);
    }
    // With usage asked for, every other chunk says that it has none.
    let no_usage = asked.tells_usage.then_some(Value::Null);
    answer.write(&names.chunk(Delta::role(), None, no_usage.clone())).await?;
    let mut told = 0;
    loop {
        let delta = match next {
            Some(Ok(ModelEvent::TextDelta { text })) => {
                told += text.len();
                Some(names.chunk(Delta::content(&text), None, no_usage.clone()))
            }
            Some(Ok(ModelEvent::ReasoningDelta { text })) => {
                Some(names.chunk(Delta::reasoning(&text), None, no_usage.clone()))
            }
            Some(Ok(ModelEvent::KeepAlive)) => Some(KEEP_ALIVE.to_vec()),
            Some(Ok(ModelEvent::Started { .. } | ModelEvent::Usage(_))) => None,
            Some(Ok(ModelEvent::Finished(reply))) => {
                return finish(&reply, told, asked, &names, answer).await;
            }
            Some(Err(error)) => return break_off(&error, answer).await,
            None => return break_off(&without_end(), answer).await,
        };
        if let Some(delta) = delta {
            answer.write(&delta).await?;
        }
        next = answer.wait(events.next()).await?;
    }
}

/// The end of a stream; a model that told only a part of its text, or nothing, tells the rest here.
async fn finish(
    reply: &ModelReply,
    told: usize,
    asked: &Asked,
    names: &Names,
    answer: &mut Answer<'_>,
) -> Result<(), Ending> {
    let no_usage = asked.tells_usage.then_some(Value::Null);
    let rest = reply.text.get(told..).unwrap_or_default();
    if !rest.is_empty() {
        answer.write(&names.chunk(Delta::content(rest), None, no_usage.clone())).await?;
    }
    answer.write(&names.chunk(Delta::default(), Some(finish_reason(reply.finish)), no_usage)).await?;
    if let (true, Some(usage)) = (asked.tells_usage, &reply.usage) {
        answer.write(&names.usage_chunk(usage)).await?;
    }
    answer.write(DONE).await?;
    answer.finish().await
}

async fn whole(reply: &ModelReply, names: &Names, answer: &mut Answer<'_>) -> Result<(), Ending> {
    let body = json!({
        "id": names.id,
        "object": "chat.completion",
        "created": 0,
        "model": reply.served_model.as_ref().unwrap_or(&names.model),
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": reply.text, "refusal": null},
            "finish_reason": finish_reason(reply.finish),
        }],
        "usage": reply.usage.as_ref().map(usage),
    });
    answer.json(200, &[], &bytes_of(&body)).await
}

/// How a kind of error is told to a client that is to read the same kind.
enum Wire {
    /// By a status before the reply, by an object within it.
    Said { status: u16, kind: &'static str, code: Option<&'static str> },
    /// By a connection that is closed without an answer.
    NoAnswer,
    /// By a reply that breaks off.
    BrokenOff,
    /// By a reply that cannot be read.
    Nonsense,
}

fn wire(kind: LlmErrorKind) -> Wire {
    const INVALID: &str = "invalid_request_error";
    let said = |status, kind, code| Wire::Said { status, kind, code };
    match kind {
        LlmErrorKind::InvalidRequest => said(400, INVALID, None),
        LlmErrorKind::Auth => said(401, INVALID, Some("invalid_api_key")),
        LlmErrorKind::ModelNotFound => said(404, INVALID, Some("model_not_found")),
        LlmErrorKind::ContextTooLong => said(400, INVALID, Some("context_length_exceeded")),
        LlmErrorKind::RateLimited => said(429, "requests", Some("rate_limit_exceeded")),
        LlmErrorKind::Overloaded => said(503, "server_error", Some("server_is_overloaded")),
        LlmErrorKind::ServerError => said(500, "server_error", Some("server_error")),
        LlmErrorKind::Timeout => said(408, "timeout", Some("timeout")),
        // No server knows this kind: to its client it is a request that cannot be answered.
        LlmErrorKind::ScriptExhausted => said(400, INVALID, Some("script_exhausted")),
        LlmErrorKind::Connection | LlmErrorKind::Cancelled => Wire::NoAnswer,
        LlmErrorKind::StreamInterrupted => Wire::BrokenOff,
        LlmErrorKind::BadResponse => Wire::Nonsense,
    }
}

/// Answers with an error before anything of a reply was written.
async fn refuse(error: &LlmError, streams: bool, answer: &mut Answer<'_>) -> Result<(), Ending> {
    match wire(error.kind) {
        Wire::Said { status, kind, code } => {
            let mut headers = Vec::new();
            if let RetryAdvice::After(delay) = error.retry {
                headers.push(("retry-after-ms", delay.as_millis().to_string()));
            }
            answer.json(status, &headers, &error_body(&error.message, kind, None, code)).await
        }
        Wire::NoAnswer => Err(Ending::Cut),
        Wire::BrokenOff => {
            let content_type = if streams { EVENT_STREAM } else { "application/json" };
            answer.head(200, content_type, &[], None).await?;
            Err(Ending::Cut)
        }
        Wire::Nonsense => answer.json(200, &[], b"{").await,
    }
}

/// Ends a stream that had begun with an error.
async fn break_off(error: &LlmError, answer: &mut Answer<'_>) -> Result<(), Ending> {
    match wire(error.kind) {
        Wire::Said { kind, code, .. } => {
            answer.write(&data(&error_object(&error.message, kind, None, code))).await?;
            answer.finish().await
        }
        Wire::NoAnswer | Wire::BrokenOff => {
            answer.flush().await?;
            Err(Ending::Cut)
        }
        Wire::Nonsense => {
            answer.write(b"data: {\n\n").await?;
            answer.finish().await
        }
    }
}

fn without_end() -> LlmError {
    let message = "the model ended without its end";
    LlmError::new(LlmErrorKind::StreamInterrupted, crate::error::ErrorPhase::Stream, message)
}

/// An error object, as bytes.
pub(super) fn error_body(
    message: impl Display,
    kind: &str,
    param: Option<&str>,
    code: Option<&str>,
) -> Vec<u8> {
    bytes_of(&error_object(message, kind, param, code))
}

fn error_object(message: impl Display, kind: &str, param: Option<&str>, code: Option<&str>) -> Value {
    json!({"error": {"message": message.to_string(), "type": kind, "param": param, "code": code}})
}

/// The list of models.
pub(super) fn models(names: &[Arc<str>]) -> Vec<u8> {
    let listed: Vec<Value> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "created": 0, "owned_by": "loopgate"}))
        .collect();
    bytes_of(&json!({"object": "list", "data": listed}))
}

fn finish_reason(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::EndTurn => "stop",
        FinishReason::ToolUse => "tool_calls",
        FinishReason::MaxTokens => "length",
        // The text of a refusal stays what it is, a reply's text.
        FinishReason::Refusal => "content_filter",
        FinishReason::Other => "other",
    }
}

/// Tokens in this protocol's terms, where the sums include their parts.
fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.total_input(),
        "completion_tokens": usage.total_output(),
        "total_tokens": usage.total(),
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write_short.saturating_add(usage.cache_write_long),
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

/// What every chunk of a reply names.
struct Names {
    id: String,
    model: Arc<str>,
}

impl Names {
    fn chunk(&self, delta: Delta<'_>, finish_reason: Option<&str>, usage: Option<Value>) -> Vec<u8> {
        self.event(&[Choice { index: 0, delta, finish_reason }], usage)
    }

    fn usage_chunk(&self, tokens: &Usage) -> Vec<u8> {
        self.event(&[], Some(usage(tokens)))
    }

    fn event(&self, choices: &[Choice<'_>], usage: Option<Value>) -> Vec<u8> {
        let (id, model) = (&self.id, &self.model);
        data(&Chunk { id, object: "chat.completion.chunk", created: 0, model, choices, usage })
    }
}

// Structs rather than `json!`: the order of the members, and with it every count of bytes, is the one written here.
#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'a str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    delta: Delta<'a>,
    finish_reason: Option<&'a str>,
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
}

impl<'a> Delta<'a> {
    fn role() -> Self {
        Self { role: Some("assistant"), content: Some(""), reasoning_content: None }
    }

    fn content(text: &'a str) -> Self {
        Self { content: Some(text), ..Self::default() }
    }

    fn reasoning(text: &'a str) -> Self {
        Self { reasoning_content: Some(text), ..Self::default() }
    }
}

/// A value as an event.
fn data(value: &impl Serialize) -> Vec<u8> {
    [b"data: ", bytes_of(value).as_slice(), b"\n\n"].concat()
}

fn bytes_of(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts, numbers and lists can always be written as JSON")
}

const DONE: &[u8] = b"data: [DONE]\n\n";
