//! Writes a reply of the Responses API: numbered events that end with the whole response, or that response alone.

use loop_core::types::{ToolCall, Usage};
use loop_llm::ModelReply;
use loop_llm::model::ReplyEnd;
use serde_json::{Value, json};

use super::{REASONED, SEAL, bound};
use crate::servers::http::KEEP_ALIVE;
use crate::servers::protocol::{Frames, Head, ReportedFailure, Writer, halves, named_event, set, stop};
use crate::servers::seal::seal;

/// Writes one reply.
pub(crate) struct ResponsesWriter {
    head: Head,
    /// How many events were written.
    sequence: u64,
    /// The items that are complete.
    output: Vec<Value>,
    open: Option<OpenItem>,
    reasoned: bool,
}

/// The item in progress.
struct OpenItem {
    kind: Kind,
    id: String,
    text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Reasoning,
    Text,
    Refusal,
}

impl ResponsesWriter {
    pub(crate) fn new(head: Head) -> Self {
        Self { head, sequence: 0, output: Vec::new(), open: None, reasoned: false }
    }

    /// Writes an event with its own and the common members.
    fn event(&mut self, kind: &str, mut members: Value, out: &mut Frames) {
        set(&mut members, "type", kind);
        set(&mut members, "sequence_number", self.sequence);
        self.sequence += 1;
        out.push(named_event(kind, &members));
    }

    /// Writes an event about the open item.
    fn within(&mut self, kind: &str, id: &str, index: &str, mut members: Value, out: &mut Frames) {
        set(&mut members, "item_id", id);
        set(&mut members, "output_index", self.output.len());
        set(&mut members, index, 0);
        self.event(&format!("response.{kind}"), members, out);
    }

    fn item_id(&self, prefix: &str) -> String {
        let reasoned = if self.reasoned && prefix != "rs" { REASONED } else { "" };
        format!("{prefix}_{}_{}{reasoned}", self.head.number, self.output.len())
    }

    /// Writes a chunk to an item of this kind, which is opened if necessary.
    fn piece(&mut self, kind: Kind, text: &str, out: &mut Frames) {
        let [prefix, part, event, index, _] = kind.words();
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close("completed", out);
            self.reasoned |= kind == Kind::Reasoning;
            let id = self.item_id(prefix);
            self.open = Some(OpenItem { kind, id: id.clone(), text: String::new() });
            let item = kind.item(&id, None, "in_progress");
            let begun = json!({"output_index": self.output.len(), "item": item});
            self.event("response.output_item.added", begun, out);
            self.within(&format!("{part}.added"), &id, index, json!({"part": kind.part("")}), out);
        }
        let Some(mut open) = self.open.take() else { return };
        // A flood is passed on without being held as a whole.
        if open.text.len() < MAX_HELD {
            open.text.push_str(text);
        }
        let mut delta = json!({"delta": text});
        if kind == Kind::Text {
            delta = json!({"delta": text, "logprobs": []});
        }
        self.within(&format!("{event}.delta"), &open.id, index, delta, out);
        self.open = Some(open);
    }

    /// Ends the open item.
    fn close(&mut self, status: &str, out: &mut Frames) {
        let Some(OpenItem { kind, id, text }) = self.open.take() else { return };
        let [_, part, event, index, member] = kind.words();
        self.within(&format!("{event}.done"), &id, index, json!({member: text}), out);
        self.within(&format!("{part}.done"), &id, index, json!({"part": kind.part(&text)}), out);
        let mut item = kind.item(&id, Some(&text), status);
        if kind == Kind::Reasoning && self.head.ways.seals {
            set(&mut item, "encrypted_content", seal(SEAL, &bound(&id, &text)));
        }
        self.done(item, out);
    }

    fn done(&mut self, item: Value, out: &mut Frames) {
        let index = self.output.len();
        self.event("response.output_item.done", json!({"output_index": index, "item": item}), out);
        self.output.push(item);
    }

    fn response(&self, status: &str, model: &str) -> Value {
        json!({
            "id": self.head.id.clone().unwrap_or_else(|| format!("resp_{}", self.head.number)),
            "object": "response",
            "created_at": 0,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "model": model,
            "output": self.output,
            "previous_response_id": null,
            "service_tier": "default",
            "store": false,
            "truncation": "disabled",
            "usage": null,
            "metadata": {},
        })
    }

    /// The response at its end.
    fn ended(&self, reply: &ModelReply) -> (&'static str, Value) {
        let (status, reason) = match stop(reply) {
            ReplyEnd::EndTurn
            | ReplyEnd::ToolUse
            | ReplyEnd::StopSequence
            | ReplyEnd::Refusal
            | ReplyEnd::Empty => ("completed", None),
            ReplyEnd::MaxTokens | ReplyEnd::ContextWindow | ReplyEnd::Capped => {
                ("incomplete", Some("max_output_tokens"))
            }
            ReplyEnd::ContentFilter => ("incomplete", Some("content_filter")),
            ReplyEnd::MalformedToolCall => ("incomplete", Some("malformed_tool_call")),
            ReplyEnd::PauseTurn | ReplyEnd::Compaction | ReplyEnd::Other => ("incomplete", Some("other")),
        };
        let model = reply.served_model.as_deref().unwrap_or(&self.head.model);
        let mut response = self.response(status, model);
        set(&mut response, "usage", reply.usage.as_ref().map_or(Value::Null, usage));
        if let Some(reason) = reason {
            set(&mut response, "incomplete_details", json!({"reason": reason}));
        }
        (status, response)
    }
}

impl Writer for ResponsesWriter {
    fn begin(&mut self, out: &mut Frames) {
        for kind in ["response.created", "response.in_progress"] {
            let response = self.response("in_progress", &self.head.model);
            self.event(kind, json!({"response": response}), out);
        }
    }

    fn text(&mut self, text: &str, out: &mut Frames) {
        self.piece(Kind::Text, text, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut Frames) {
        self.piece(Kind::Reasoning, text, out);
    }

    fn refusal(&mut self, text: &str, out: &mut Frames) {
        self.piece(Kind::Refusal, text, out);
    }

    fn call(&mut self, call: &ToolCall, out: &mut Frames) {
        self.close("completed", out);
        let (id, index) = (self.item_id("fc"), self.output.len());
        let item = |arguments: &str, status: &str| {
            json!({
                "type": "function_call", "id": id, "call_id": call.id, "name": call.name, "arguments": arguments,
                "status": status,
            })
        };
        let begun = json!({"output_index": index, "item": item("", "in_progress")});
        self.event("response.output_item.added", begun, out);
        let arguments = call.arguments.text();
        for half in halves(arguments) {
            let delta = json!({"item_id": id, "output_index": index, "delta": half});
            self.event("response.function_call_arguments.delta", delta, out);
        }
        let done = json!({"item_id": id, "output_index": index, "name": call.name, "arguments": arguments});
        self.event("response.function_call_arguments.done", done, out);
        self.done(item(arguments, "completed"), out);
    }

    fn keep_alive(&mut self, out: &mut Frames) {
        out.push(KEEP_ALIVE.to_vec());
    }

    fn usage(&mut self, _: Usage) {
        // Only the end of a stream tells tokens.
    }

    fn end(&mut self, reply: &ModelReply, out: &mut Frames) {
        let (status, _) = self.ended(reply);
        self.close(status, out);
        let (status, response) = self.ended(reply);
        self.event(&format!("response.{status}"), json!({"response": response}), out);
    }

    fn whole(&mut self, reply: &ModelReply) -> Value {
        let (status, _) = self.ended(reply);
        self.close(status, &mut Frames::new());
        self.ended(reply).1
    }

    fn fail(&mut self, reported: &ReportedFailure<'_>, out: &mut Frames) {
        let mut response = self.response("failed", &self.head.model);
        let code = reported.words.code.unwrap_or(reported.words.kind);
        set(&mut response, "error", json!({"code": code, "message": reported.message}));
        self.event("response.failed", json!({"response": response}), out);
    }
}

impl Kind {
    /// The prefix of its ids, its part type, the event of its text, its index, and the member with its text.
    fn words(self) -> [&'static str; 5] {
        match self {
            Self::Reasoning => {
                ["rs", "reasoning_summary_part", "reasoning_summary_text", "summary_index", "text"]
            }
            Self::Text => ["msg", "content_part", "output_text", "content_index", "text"],
            Self::Refusal => ["msg", "content_part", "refusal", "content_index", "refusal"],
        }
    }

    /// The item, with its text once it is complete.
    fn item(self, id: &str, text: Option<&str>, status: &str) -> Value {
        let parts: Vec<Value> = text.into_iter().map(|text| self.part(text)).collect();
        match self {
            Self::Reasoning => json!({"type": "reasoning", "id": id, "summary": parts}),
            Self::Text | Self::Refusal => {
                json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": parts})
            }
        }
    }

    fn part(self, text: &str) -> Value {
        match self {
            Self::Reasoning => json!({"type": "summary_text", "text": text}),
            Self::Text => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
            Self::Refusal => json!({"type": "refusal", "refusal": text}),
        }
    }
}

/// Usage in the terms of this API, where sums include their parts.
fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.total_input(),
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write_short.saturating_add(usage.cache_write_long),
        },
        "output_tokens": usage.total_output(),
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total(),
    })
}

/// The most bytes of an item that are buffered until its end.
const MAX_HELD: usize = 16 * 1_024 * 1_024;
