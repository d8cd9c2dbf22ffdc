//! Writes a reply of `generateContent`: a stream of responses with new parts, or one response.

use loop_core::types::{ToolCall, Usage};
use loop_llm::ModelReply;
use loop_llm::model::ReplyEnd;
use serde_json::{Value, json};

use super::{SIGNATURE, bound, error_object};
use crate::servers::http::KEEP_ALIVE;
use crate::servers::protocol::{Frames, Head, ReportedFailure, Writer, bytes_of, set, stop};
use crate::servers::seal::seal;

/// Writes one reply.
pub(crate) struct GeminiWriter {
    head: Head,
    /// The token usage, once it is known.
    usage: Option<Usage>,
    /// How many chunks were written.
    chunks: u64,
    has_calls: bool,
    reasoned: bool,
    /// Why a call cannot be written in this format.
    malformed: Option<String>,
    /// The parts of a reply without streaming.
    parts: Vec<Value>,
}

impl GeminiWriter {
    pub(crate) fn new(head: Head) -> Self {
        let (malformed, parts) = (None, Vec::new());
        Self { head, usage: None, chunks: 0, has_calls: false, reasoned: false, malformed, parts }
    }

    fn part(&mut self, part: Value, out: &mut Frames) {
        if self.head.ways.streams {
            self.chunk(vec![part], None, self.so_far(), out);
        } else {
            self.parts.push(part);
        }
    }

    /// Writes text or reasoning. Without streaming, consecutive text of the same kind is one part.
    fn text_part(&mut self, text: &str, thought: bool, out: &mut Frames) {
        let is_thought = |part: &Value| part.get("thought").is_some();
        if let Some(last) = self.parts.last_mut().filter(|last| is_thought(last) == thought)
            && let Some(Value::String(before)) = last.get_mut("text")
        {
            before.push_str(text);
            return;
        }
        let part = if thought { json!({"text": text, "thought": true}) } else { json!({"text": text}) };
        self.part(part, out);
    }

    fn chunk(
        &mut self,
        parts: Vec<Value>,
        ended: Option<&ModelReply>,
        usage: Option<Value>,
        out: &mut Frames,
    ) {
        let model = self.head.model.clone();
        let response = self.response(parts, ended, usage, &model);
        self.frame(&response, out);
    }

    fn frame(&mut self, value: &Value, out: &mut Frames) {
        let json = bytes_of(value);
        let before: &[u8] = match (self.head.ways.is_array, self.chunks) {
            (false, _) => b"data: ",
            (true, 0) => b"[",
            (true, _) => b",\r\n",
        };
        let after: &[u8] = if self.head.ways.is_array { b"" } else { b"\r\n\r\n" };
        self.chunks += 1;
        out.push([before, &json, after].concat());
    }

    fn response(
        &self,
        parts: Vec<Value>,
        ended: Option<&ModelReply>,
        usage: Option<Value>,
        model: &str,
    ) -> Value {
        let mut candidate = json!({"index": 0});
        if !parts.is_empty() {
            set(&mut candidate, "content", json!({"role": "model", "parts": parts}));
        }
        if let Some(reply) = ended {
            let reason = if self.malformed.is_some() { MALFORMED } else { finish_reason(reply) };
            set(&mut candidate, "finishReason", reason);
            if reason == MALFORMED {
                let message = self.malformed.as_deref().or(reply.stop_detail.as_deref());
                set(&mut candidate, "finishMessage", message.unwrap_or("Malformed function call"));
            }
        }
        let mut response = json!({
            "candidates": [candidate],
            "modelVersion": model,
            "responseId": self.head.id.clone().unwrap_or_else(|| format!("response-{}", self.head.number)),
        });
        if let Some(usage) = usage {
            set(&mut response, "usageMetadata", usage);
        }
        response
    }

    /// The usage during a reply, as far as known or estimated.
    fn so_far(&self) -> Option<Value> {
        let guess = self.head.input_guess;
        let guessed = || json!({"promptTokenCount": guess, "totalTokenCount": guess});
        Some(self.usage.as_ref().map_or_else(guessed, usage))
    }
}

impl Writer for GeminiWriter {
    fn begin(&mut self, _: &mut Frames) {
        // Nothing comes before the first piece.
    }

    fn text(&mut self, text: &str, out: &mut Frames) {
        self.text_part(text, /*thought*/ false, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut Frames) {
        self.reasoned = true;
        self.text_part(text, /*thought*/ true, out);
    }

    fn refusal(&mut self, text: &str, out: &mut Frames) {
        self.text_part(text, /*thought*/ false, out);
    }

    fn call(&mut self, call: &ToolCall, out: &mut Frames) {
        let Ok(args) = call.arguments.object() else {
            self.malformed =
                Some(format!("Malformed function call: {}({})", call.name, call.arguments.text()));
            return;
        };
        let mut part = json!({"functionCall": {"id": call.id, "name": call.name, "args": args}});
        if !self.has_calls && self.head.ways.seals {
            set(&mut part, "thoughtSignature", seal(SIGNATURE, &bound(&call.name, args)));
        }
        self.has_calls = true;
        self.part(part, out);
    }

    fn keep_alive(&mut self, out: &mut Frames) {
        if !self.head.ways.is_array {
            out.push(KEEP_ALIVE.to_vec());
        }
    }

    fn usage(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    fn end(&mut self, reply: &ModelReply, out: &mut Frames) {
        let signs = self.reasoned && !self.has_calls && self.head.ways.seals;
        let last = match (signs, self.chunks) {
            (true, _) => vec![json!({"text": "", "thoughtSignature": seal(SIGNATURE, "")})],
            (false, 0) => Vec::new(),
            (false, _) => vec![json!({"text": ""})],
        };
        self.chunk(last, Some(reply), reply.usage.as_ref().map(usage), out);
        if self.head.ways.is_array {
            out.push(b"]".to_vec());
        }
    }

    fn whole(&mut self, reply: &ModelReply) -> Value {
        let mut parts = std::mem::take(&mut self.parts);
        if self.reasoned
            && !self.has_calls
            && self.head.ways.seals
            && let Some(last) = parts.last_mut()
        {
            let signature = seal(SIGNATURE, last.get("text").and_then(Value::as_str).unwrap_or_default());
            set(last, "thoughtSignature", signature);
        }
        let model = reply.served_model.as_deref().unwrap_or(&self.head.model);
        self.response(parts, Some(reply), reply.usage.as_ref().map(usage), model)
    }

    fn fail(&mut self, reported: &ReportedFailure<'_>, out: &mut Frames) {
        self.frame(&error_object(reported), out);
        if self.head.ways.is_array {
            out.push(b"]".to_vec());
        }
    }

    fn nonsense(&mut self, out: &mut Frames) {
        out.push(if self.head.ways.is_array { b"{".to_vec() } else { b"data: {\r\n\r\n".to_vec() });
    }
}

fn finish_reason(reply: &ModelReply) -> &'static str {
    match stop(reply) {
        ReplyEnd::EndTurn | ReplyEnd::ToolUse | ReplyEnd::StopSequence | ReplyEnd::Empty => "STOP",
        ReplyEnd::MaxTokens | ReplyEnd::ContextWindow | ReplyEnd::Capped => "MAX_TOKENS",
        ReplyEnd::Refusal | ReplyEnd::ContentFilter => "SAFETY",
        ReplyEnd::MalformedToolCall => MALFORMED,
        ReplyEnd::PauseTurn | ReplyEnd::Compaction | ReplyEnd::Other => "OTHER",
    }
}

/// Usage in the terms of this API: cached tokens are part of the prompt, and thoughts are not part of the reply.
fn usage(usage: &Usage) -> Value {
    json!({
        "promptTokenCount": usage.total_input(),
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.total(),
    })
}

const MALFORMED: &str = "MALFORMED_FUNCTION_CALL";
