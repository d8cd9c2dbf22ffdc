//! Writes a reply of the Messages API: blocks as events of a stream, or one message.

use loop_core::types::{ToolCall, Usage};
use loop_llm::ModelReply;
use loop_llm::model::ReplyEnd;
use serde_json::{Value, json};

use super::{SIGNATURE, error_object};
use crate::servers::protocol::{Frames, Head, ReportedFailure, Writer, halves, named_event, set, stop};
use crate::servers::received::is_name;
use crate::servers::seal::seal;

/// Writes one reply.
pub(crate) struct AnthropicWriter {
    head: Head,
    /// The token usage, once it is known.
    usage: Option<Usage>,
    /// The index of the next block.
    index: u64,
    open: Option<OpenBlock>,
    /// The blocks of a reply without streaming.
    content: Vec<Value>,
}

/// The block in progress.
struct OpenBlock {
    thinks: bool,
    /// Its text, as far as a later event needs it.
    text: String,
}

impl AnthropicWriter {
    pub(crate) fn new(head: Head) -> Self {
        Self { head, usage: None, index: 0, open: None, content: Vec::new() }
    }

    fn start(&mut self, block: Value, out: &mut Frames) {
        let event = json!({"type": "content_block_start", "index": self.index, "content_block": block});
        out.push(named_event("content_block_start", &event));
        if self.index == 0 {
            self.ping(out);
        }
    }

    fn delta(&self, delta: Value, out: &mut Frames) {
        let event = json!({"type": "content_block_delta", "index": self.index, "delta": delta});
        out.push(named_event("content_block_delta", &event));
    }

    fn stop(&mut self, out: &mut Frames) {
        let event = json!({"type": "content_block_stop", "index": self.index});
        out.push(named_event("content_block_stop", &event));
        self.index += 1;
    }

    fn ping(&self, out: &mut Frames) {
        out.push(named_event("ping", &json!({"type": "ping"})));
    }

    fn piece(&mut self, thinks: bool, text: &str, out: &mut Frames) {
        if self.open.as_ref().is_none_or(|open| open.thinks != thinks) {
            self.close(out);
            let block = match thinks {
                true => json!({"type": "thinking", "thinking": "", "signature": ""}),
                false => json!({"type": "text", "text": ""}),
            };
            self.start(block, out);
            self.open = Some(OpenBlock { thinks, text: String::new() });
        }
        if thinks && self.head.ways.hides_reasoning {
            return;
        }
        if let Some(open) = self.open.as_mut().filter(|_| thinks || !self.head.ways.streams) {
            open.text.push_str(text);
        }
        let delta = match thinks {
            true => json!({"type": "thinking_delta", "thinking": text}),
            false => json!({"type": "text_delta", "text": text}),
        };
        self.delta(delta, out);
    }

    /// Ends the open block.
    fn close(&mut self, out: &mut Frames) {
        let Some(OpenBlock { thinks, text }) = self.open.take() else { return };
        if thinks {
            let signature = seal(SIGNATURE, &text);
            self.delta(json!({"type": "signature_delta", "signature": signature}), out);
            self.content.push(json!({"type": "thinking", "thinking": text, "signature": signature}));
        } else {
            self.content.push(json!({"type": "text", "text": text}));
        }
        self.stop(out);
    }

    fn message(&self, model: &str) -> Value {
        json!({
            "id": self.head.id.clone().unwrap_or_else(|| format!("msg_{}", self.head.number)),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
        })
    }
}

impl Writer for AnthropicWriter {
    fn begin(&mut self, out: &mut Frames) {
        let mut message = self.message(&self.head.model);
        let tokens = match &self.usage {
            Some(known) => json!({
                "input_tokens": known.input,
                "cache_read_input_tokens": known.cache_read,
                "cache_creation_input_tokens": written(known),
                "output_tokens": 1,
            }),
            None => json!({"input_tokens": self.head.input_guess, "output_tokens": 1}),
        };
        set(&mut message, "usage", tokens);
        out.push(named_event("message_start", &json!({"type": "message_start", "message": message})));
    }

    fn text(&mut self, text: &str, out: &mut Frames) {
        self.piece(/*thinks*/ false, text, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut Frames) {
        self.piece(/*thinks*/ true, text, out);
    }

    fn refusal(&mut self, text: &str, out: &mut Frames) {
        self.piece(/*thinks*/ false, text, out);
    }

    fn call(&mut self, call: &ToolCall, out: &mut Frames) {
        self.close(out);
        // Ids that came from elsewhere may not be legal here.
        let id = if is_name(&call.id, usize::MAX, "-") {
            call.id.to_string()
        } else {
            call.id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
        };
        self.start(json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}), out);
        for piece in std::iter::once("").chain(halves(call.arguments.text())) {
            self.delta(json!({"type": "input_json_delta", "partial_json": piece}), out);
        }
        self.stop(out);
        let input = call.arguments.object().map_or_else(|_| json!(&*call.arguments), |object| json!(object));
        self.content.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": input}));
    }

    fn keep_alive(&mut self, out: &mut Frames) {
        self.ping(out);
    }

    fn usage(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    fn end(&mut self, reply: &ModelReply, out: &mut Frames) {
        self.close(out);
        let delta = json!({
            "stop_reason": stop_reason(reply), "stop_sequence": stop_sequence(reply), "stop_details": stop_details(reply),
        });
        let usage = reply.usage.as_ref().map(usage);
        let event = json!({"type": "message_delta", "delta": delta, "usage": usage});
        out.push(named_event("message_delta", &event));
        out.push(named_event("message_stop", &json!({"type": "message_stop"})));
    }

    fn whole(&mut self, reply: &ModelReply) -> Value {
        self.close(&mut Frames::new());
        let mut message = self.message(reply.served_model.as_deref().unwrap_or(&self.head.model));
        set(&mut message, "content", Value::Array(std::mem::take(&mut self.content)));
        set(&mut message, "stop_reason", stop_reason(reply));
        set(&mut message, "stop_sequence", stop_sequence(reply));
        set(&mut message, "stop_details", stop_details(reply));
        set(&mut message, "usage", reply.usage.as_ref().map_or(Value::Null, usage));
        message
    }

    fn fail(&mut self, reported: &ReportedFailure<'_>, out: &mut Frames) {
        out.push(named_event("error", &error_object(reported)));
    }

    fn nonsense(&mut self, out: &mut Frames) {
        out.push(b"event: content_block_delta\ndata: {\n\n".to_vec());
    }
}

fn stop_reason(reply: &ModelReply) -> &'static str {
    match stop(reply) {
        ReplyEnd::EndTurn | ReplyEnd::Empty => "end_turn",
        ReplyEnd::ToolUse => "tool_use",
        ReplyEnd::MaxTokens | ReplyEnd::Capped => "max_tokens",
        ReplyEnd::ContextWindow => "model_context_window_exceeded",
        ReplyEnd::StopSequence => "stop_sequence",
        ReplyEnd::Refusal | ReplyEnd::ContentFilter => "refusal",
        ReplyEnd::PauseTurn => "pause_turn",
        ReplyEnd::Compaction => "compaction",
        ReplyEnd::MalformedToolCall => "malformed_tool_call",
        ReplyEnd::Other => "other",
    }
}

fn stop_sequence(reply: &ModelReply) -> Option<&str> {
    reply.stop_detail.as_deref().filter(|_| stop(reply) == ReplyEnd::StopSequence)
}

fn stop_details(reply: &ModelReply) -> Value {
    match stop(reply) {
        ReplyEnd::Refusal | ReplyEnd::ContentFilter => {
            json!({"type": "refusal", "category": reply.stop_detail, "explanation": reply.refusal})
        }
        _ => Value::Null,
    }
}

/// Usage in the terms of this API, where the input excludes cached tokens.
fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": written(usage),
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write_short,
            "ephemeral_1h_input_tokens": usage.cache_write_long,
        },
        "output_tokens": usage.total_output(),
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
        "service_tier": "standard",
    })
}

fn written(usage: &Usage) -> u64 {
    usage.cache_write_short.saturating_add(usage.cache_write_long)
}
