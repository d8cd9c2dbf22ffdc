//! Writes a reply of the Chat Completions API: chunks that end with `[DONE]`, or one object.

use loop_core::types::{ToolCall, Usage};
use loop_llm::ModelReply;
use loop_llm::model::ReplyEnd;
use serde::Serialize;
use serde_json::{Value, json};

use super::error_object;
use crate::servers::http::KEEP_ALIVE;
use crate::servers::protocol::{Frames, Head, ReportedFailure, Writer, bytes_of, halves, set, stop};

/// Writes one reply.
pub(crate) struct ChatWriter {
    head: Head,
    calls: Vec<Value>,
    message: Message,
}

/// The message of a reply without streaming.
#[derive(Default)]
struct Message {
    text: String,
    reasoning: String,
    refusal: Option<String>,
}

impl ChatWriter {
    pub(crate) fn new(head: Head) -> Self {
        Self { head, calls: Vec::new(), message: Message::default() }
    }

    fn chunk(&self, delta: Delta<'_>, finish_reason: Option<&str>) -> Vec<u8> {
        // With usage asked for, every other chunk says that it has none.
        let no_usage = self.head.ways.tells_usage.then_some(Value::Null);
        self.event(&[Choice { index: 0, delta, finish_reason }], no_usage)
    }

    fn event(&self, choices: &[Choice<'_>], usage: Option<Value>) -> Vec<u8> {
        let (id, model) = (&self.id(), &self.head.model);
        data(&Chunk { id, object: "chat.completion.chunk", created: 0, model, choices, usage })
    }

    fn id(&self) -> String {
        self.head.id.clone().unwrap_or_else(|| format!("chatcmpl-{}", self.head.number))
    }

    fn fragment(&self, fragment: Value, out: &mut Frames) {
        let delta = Delta { tool_calls: Some(json!([fragment])), ..Delta::default() };
        out.push(self.chunk(delta, None));
    }
}

impl Writer for ChatWriter {
    fn begin(&mut self, out: &mut Frames) {
        let delta = Delta { role: Some("assistant"), content: Some(""), ..Delta::default() };
        out.push(self.chunk(delta, None));
    }

    fn text(&mut self, text: &str, out: &mut Frames) {
        if self.head.ways.streams {
            out.push(self.chunk(Delta { content: Some(text), ..Delta::default() }, None));
        } else {
            self.message.text.push_str(text);
        }
    }

    fn reasoning(&mut self, text: &str, out: &mut Frames) {
        if self.head.ways.streams {
            out.push(self.chunk(Delta { reasoning_content: Some(text), ..Delta::default() }, None));
        } else {
            self.message.reasoning.push_str(text);
        }
    }

    fn refusal(&mut self, text: &str, out: &mut Frames) {
        if self.head.ways.streams {
            out.push(self.chunk(Delta { refusal: Some(text), ..Delta::default() }, None));
        } else {
            self.message.refusal = Some(text.to_owned());
        }
    }

    fn call(&mut self, call: &ToolCall, out: &mut Frames) {
        let (index, arguments) = (self.calls.len(), call.arguments.text());
        let whole = json!({
            "id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments},
        });
        self.calls.push(whole);
        if !self.head.ways.streams {
            return;
        }
        let begun = json!({
            "index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""},
        });
        self.fragment(begun, out);
        for half in halves(arguments) {
            self.fragment(json!({"index": index, "function": {"arguments": half}}), out);
        }
    }

    fn keep_alive(&mut self, out: &mut Frames) {
        out.push(KEEP_ALIVE.to_vec());
    }

    fn usage(&mut self, _: Usage) {
        // Only the end of a stream tells tokens.
    }

    fn end(&mut self, reply: &ModelReply, out: &mut Frames) {
        out.push(self.chunk(Delta::default(), Some(finish_reason(reply))));
        if let (true, Some(tokens)) = (self.head.ways.tells_usage, &reply.usage) {
            out.push(self.event(&[], Some(usage(tokens))));
        }
        out.push(b"data: [DONE]\n\n".to_vec());
    }

    fn whole(&mut self, reply: &ModelReply) -> Value {
        let content = &self.message.text;
        let has_content = !content.is_empty() || (self.calls.is_empty() && self.message.refusal.is_none());
        let mut message = json!({
            "role": "assistant",
            "content": has_content.then_some(content),
            "refusal": self.message.refusal,
        });
        if !self.calls.is_empty() {
            set(&mut message, "tool_calls", Value::Array(self.calls.clone()));
        }
        if !self.message.reasoning.is_empty() {
            set(&mut message, "reasoning_content", self.message.reasoning.clone());
        }
        json!({
            "id": self.id(),
            "object": "chat.completion",
            "created": 0,
            "model": reply.served_model.as_deref().unwrap_or(&self.head.model),
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
            "usage": reply.usage.as_ref().map(usage),
        })
    }

    fn fail(&mut self, reported: &ReportedFailure<'_>, out: &mut Frames) {
        out.push(data(&error_object(reported)));
    }
}

fn finish_reason(reply: &ModelReply) -> &'static str {
    match stop(reply) {
        // A refusal says what it is beside its end.
        ReplyEnd::EndTurn | ReplyEnd::StopSequence | ReplyEnd::Empty | ReplyEnd::Refusal => "stop",
        ReplyEnd::ToolUse | ReplyEnd::MalformedToolCall => "tool_calls",
        ReplyEnd::MaxTokens | ReplyEnd::Capped => "length",
        ReplyEnd::ContextWindow => "model_length",
        ReplyEnd::ContentFilter => "content_filter",
        ReplyEnd::PauseTurn | ReplyEnd::Compaction | ReplyEnd::Other => "other",
    }
}

/// Usage in the terms of this API, where sums include their parts.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Value>,
}

/// A value as an event.
fn data(value: &impl Serialize) -> Vec<u8> {
    [b"data: ", bytes_of(value).as_slice(), b"\n\n"].concat()
}
