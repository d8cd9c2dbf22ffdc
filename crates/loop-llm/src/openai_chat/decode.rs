//! Events out of the bytes of a reply, a stream or one JSON object, in any pieces.

use std::sync::Arc;

use loop_core::{PicoUsd, Usage};
use serde_json::Value;

use super::calls::{Calls, TooMuch};
use super::encode::Aliases;
use super::{errors, lean, usage};
use crate::call::Stop;
use crate::error::{ErrorPhase, LlmError, LlmErrorKind, Partial, RetryAdvice};
use crate::model::{ModelEvent, ModelReply};
use crate::secrets::{Masker, Secrets};
use crate::sse::{Frame, Framer, TooLong};

/// Decodes one reply.
///
/// After any number of [`Decoder::push`], [`Decoder::finish`] or [`Decoder::interrupt`] says that the bytes are over.
/// Exactly one [`ModelEvent::Finished`] or error comes out, as the last item, and nothing after it. How the bytes are
/// cut makes no difference to what comes out.
///
/// A line or a JSON object may have 8 MiB, the arguments of a call 1 MiB, a reply 128 calls: beyond that it is an
/// error. A stream is cut at 64 MiB and ends as [`Stop::MaxTokens`]; one without any visible text by then is an error.
///
/// In text, reasoning and refusals `[masked]` stands in place of a secret; as much of a piece as may be the beginning of
/// one is held back until the next piece.
#[derive(Debug)]
pub struct Decoder {
    body: Body,
    frames: Vec<Frame>,
    reply: Assembly,
    received: usize,
    is_done: bool,
    aliases: Aliases,
    secrets: Secrets,
}

/// What kind of body it is: that shows in its first byte that is no space.
#[derive(Debug)]
enum Body {
    /// `seen` bytes of it are a byte order mark and blanks.
    Unknown {
        head: Vec<u8>,
        seen: usize,
    },
    Json(Vec<u8>),
    Stream(Framer),
}

impl Body {
    fn unknown() -> Self {
        Self::Unknown { head: Vec::new(), seen: 0 }
    }
}

/// The reply so far.
#[derive(Debug)]
struct Assembly {
    has_begun: bool,
    /// Bytes that say something: of text, reasoning, refusals and calls.
    heard: usize,
    text_masker: Masker,
    reasoning_masker: Masker,
    id: Option<Arc<str>>,
    model: Option<Arc<str>>,
    text: String,
    reasoning: String,
    refusal: String,
    calls: Calls,
    raw_stop: Option<Arc<str>>,
    usage: Option<Usage>,
    cost: Option<PicoUsd>,
    warnings: Vec<Arc<str>>,
}

type Items = Vec<Result<ModelEvent, LlmError>>;

impl Decoder {
    /// A decoder of the reply to one request: its aliases are undone, and secrets are masked wherever they stand.
    pub fn new(aliases: Aliases, secrets: Secrets) -> Self {
        Self {
            body: Body::unknown(),
            frames: Vec::new(),
            reply: Assembly::new(&secrets),
            received: 0,
            is_done: false,
            aliases,
            secrets,
        }
    }

    /// Whether the last item has come.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether the word for the end has come: only usage and the mark of the end may still follow.
    pub(crate) fn is_ending(&self) -> bool {
        self.reply.raw_stop.is_some()
    }

    /// A number that grows with everything that the reply says, be it shown yet or not.
    pub(crate) fn heard(&self) -> usize {
        self.reply.heard + self.reply.calls.heard
    }

    /// What these bytes tell.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Result<ModelEvent, LlmError>> {
        let mut items = Vec::new();
        // What is beyond the guard is not looked at, wherever the pieces were cut.
        let room = MOST_REPLY - self.received;
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.received += taken.len();
        self.take(taken, &mut items);
        if taken.len() < bytes.len() {
            self.cut(&mut items);
        }
        items
    }

    /// What is left when the body has ended as it should.
    pub fn finish(&mut self) -> Vec<Result<ModelEvent, LlmError>> {
        let mut items = Vec::new();
        if self.is_done {
            return items;
        }
        match std::mem::replace(&mut self.body, Body::unknown()) {
            Body::Unknown { .. } => {
                let mut error = self.error(LlmErrorKind::BadResponse, "an empty body in place of a reply");
                error.retry = RetryAdvice::Backoff;
                self.fail(error, &mut items);
            }
            Body::Json(body) => self.whole(&body, &mut items),
            Body::Stream(mut framer) => {
                let result = framer.finish(&mut self.frames);
                self.take_frames(result, &mut items);
            }
        }
        self.end(LlmErrorKind::StreamInterrupted, "the reply ended without its end", &mut items);
        items
    }

    /// What is left when the body broke off: an error of this kind, unless the reply was complete by then.
    pub fn interrupt(&mut self, kind: LlmErrorKind, message: &str) -> Vec<Result<ModelEvent, LlmError>> {
        let mut items = Vec::new();
        if self.reply.raw_stop.is_some() {
            self.reply.warn("broken_off_after_its_end");
        }
        self.end(kind, message, &mut items);
        items
    }

    fn take(&mut self, bytes: &[u8], items: &mut Items) {
        if self.is_done {
            return;
        }
        if let Body::Unknown { head, seen } = &mut self.body {
            head.extend_from_slice(bytes);
            if *seen == 0 && head.starts_with(MARK) {
                *seen = MARK.len();
            }
            if *seen == 0 && MARK.starts_with(head) {
                return;
            }
            let blank = |head: &[u8], seen: usize| head.get(seen).is_some_and(u8::is_ascii_whitespace);
            while blank(head, *seen) {
                *seen += 1;
            }
            if *seen > MOST_JSON {
                return self.fail(self.error(LlmErrorKind::BadResponse, TOO_LARGE), items);
            }
            let Some(first) = head.get(*seen).copied() else { return };
            let head = std::mem::take(head);
            if matches!(first, b'{' | b'[' | b'<' | b'n' | b'"') {
                self.body = Body::Json(Vec::new());
                return self.take(&head, items);
            }
            self.body = Body::Stream(Framer::new(MOST_LINE));
            return self.take(&head, items);
        }
        match &mut self.body {
            Body::Unknown { .. } => {}
            Body::Json(body) if body.len() + bytes.len() > MOST_JSON => {
                self.fail(self.error(LlmErrorKind::BadResponse, TOO_LARGE), items);
            }
            Body::Json(body) => body.extend_from_slice(bytes),
            Body::Stream(framer) => {
                let result = framer.push(bytes, &mut self.frames);
                self.take_frames(result, items);
            }
        }
    }

    fn take_frames(&mut self, result: Result<(), TooLong>, items: &mut Items) {
        for frame in std::mem::take(&mut self.frames) {
            if self.is_done {
                return;
            }
            match frame {
                Frame::Comment => items.push(Ok(ModelEvent::KeepAlive)),
                Frame::Data { event, data, is_damaged } => {
                    self.data(event.as_deref(), &data, is_damaged, items)
                }
            }
        }
        if result == Err(TooLong) && !self.is_done {
            self.fail(
                self.error(LlmErrorKind::BadResponse, "a line of the reply is longer than 8 MiB"),
                items,
            );
        }
    }

    fn data(&mut self, event: Option<&str>, data: &str, is_damaged: bool, items: &mut Items) {
        let data = data.trim();
        if data == "[DONE]" {
            return self.end(LlmErrorKind::StreamInterrupted, "the reply ended without a reason", items);
        }
        if data.is_empty() {
            return;
        }
        let chunk = match lean::read(data) {
            Ok(chunk) => chunk,
            Err(error) => {
                let message = format!("a part of the reply cannot be read as JSON: {error}");
                return self.fail(self.error(LlmErrorKind::BadResponse, &message), items);
            }
        };
        if is_error(&chunk) || event == Some("error") {
            return self.fail(errors::within(&chunk, &self.secrets), items);
        }
        self.begin(&chunk, items);
        let choice = first_choice(&chunk);
        if let Some(delta) = choice.and_then(|choice| choice.get("delta")) {
            let has_calls = delta.get("tool_calls").is_some_and(|calls| !calls.is_null());
            if is_damaged && has_calls {
                return self
                    .fail(self.error(LlmErrorKind::BadResponse, "a tool call that is not UTF-8"), items);
            }
            if is_damaged {
                self.reply.warn("invalid_utf8");
            }
            if self.reply.take_message(delta, items) == Err(TooMuch) {
                return self.fail(self.error(LlmErrorKind::BadResponse, TOO_MUCH), items);
            }
        }
        self.take_end(&chunk, choice, items);
    }

    /// A reply that came as one JSON object.
    fn whole(&mut self, body: &[u8], items: &mut Items) {
        let body = body.strip_prefix(MARK).unwrap_or(body).trim_ascii();
        let reply = std::str::from_utf8(body).ok().and_then(|text| lean::read(text).ok());
        let reply = match reply.filter(Value::is_object) {
            Some(reply) => reply,
            None => {
                let is_page = body.first() == Some(&b'<');
                let what = if is_page { "an HTML page" } else { "a body that is no JSON object" };
                let mut error = self.error(LlmErrorKind::BadResponse, &format!("{what} in place of a reply"));
                error.retry = RetryAdvice::Backoff;
                return self.fail(error, items);
            }
        };
        if is_error(&reply) {
            return self.fail(errors::within(&reply, &self.secrets), items);
        }
        self.begin(&reply, items);
        let choice = first_choice(&reply);
        if let Some(message) = choice.and_then(|choice| choice.get("message"))
            && self.reply.take_message(message, items) == Err(TooMuch)
        {
            return self.fail(self.error(LlmErrorKind::BadResponse, TOO_MUCH), items);
        }
        self.take_end(&reply, choice, items);
    }

    fn begin(&mut self, chunk: &Value, items: &mut Items) {
        let text = |key: &str| chunk.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let secrets = &self.secrets;
        let reply = &mut self.reply;
        if reply.id.is_none() {
            reply.id = text("id").map(|id| secrets.reply(id).into());
        }
        if reply.model.is_none() {
            reply.model = text("model").map(|model| secrets.reply(model).into());
        }
        if !std::mem::replace(&mut reply.has_begun, true) {
            items.push(Ok(ModelEvent::Started { reply: reply.id.clone(), model: reply.model.clone() }));
        }
    }

    fn take_end(&mut self, chunk: &Value, choice: Option<&Value>, items: &mut Items) {
        let vendor = chunk.get("x_groq").and_then(|vendor| vendor.get("usage"));
        if let Some(told) = chunk.get("usage").filter(|usage| !usage.is_null()).or(vendor) {
            self.reply.take_usage(told, items);
        }
        let reason = choice.and_then(|choice| choice.get("finish_reason")).and_then(Value::as_str);
        match reason {
            None | Some("") => {}
            Some("error") => {
                let error =
                    self.error(LlmErrorKind::ServerError, "the provider ended the reply with an error");
                self.fail(error, items);
            }
            Some("insufficient_system_resource") => {
                let error = self.error(
                    LlmErrorKind::Overloaded,
                    "the provider has no capacity for the rest of the reply",
                );
                self.fail(error, items);
            }
            Some(reason) => match &self.reply.raw_stop {
                None => self.reply.raw_stop = Some(self.secrets.reply(reason).into()),
                Some(first) if **first != *self.secrets.reply(reason) => {
                    self.reply.warn("second_finish_reason");
                }
                Some(_) => {}
            },
        }
    }

    /// The end of the reply, if it was said that there is one.
    fn end(&mut self, kind: LlmErrorKind, message: &str, items: &mut Items) {
        if self.is_done {
            return;
        }
        if self.reply.raw_stop.is_none() {
            return self.fail(self.error(kind, message), items);
        }
        self.is_done = true;
        let reply = self.taken(items).finish(&self.aliases, &self.secrets);
        items.push(Ok(ModelEvent::Finished(Box::new(reply))));
    }

    fn cut(&mut self, items: &mut Items) {
        if self.is_done {
            return;
        }
        if !matches!(self.body, Body::Stream(_)) {
            return self.fail(self.error(LlmErrorKind::BadResponse, TOO_LARGE), items);
        }
        if self.reply.raw_stop.is_none() && self.reply.is_mute() {
            let message = "64 MiB of a reply came without any text";
            return self.fail(self.error(LlmErrorKind::BadResponse, message), items);
        }
        self.reply.warn("reply_cut");
        self.reply.raw_stop.get_or_insert_with(|| "length".into());
        self.end(LlmErrorKind::BadResponse, "", items);
    }

    fn error(&self, kind: LlmErrorKind, message: &str) -> LlmError {
        LlmError::new(kind, ErrorPhase::Stream, message)
    }

    fn fail(&mut self, mut error: LlmError, items: &mut Items) {
        self.is_done = true;
        let reply = self.taken(items);
        error.partial = Some(Partial { text: reply.text.into(), usage: reply.usage });
        items.push(Err(error));
    }

    /// The reply as far as it came, after what was held back of it is told.
    fn taken(&mut self, items: &mut Items) -> Assembly {
        let mut reply = std::mem::replace(&mut self.reply, Assembly::new(&self.secrets));
        let (text, reasoning) = (reply.text_masker.finish(), reply.reasoning_masker.finish());
        reply.add_reasoning(reasoning, items);
        reply.add_text(text, items);
        reply.drop_empty_usage();
        reply
    }
}

impl Assembly {
    fn new(secrets: &Secrets) -> Self {
        Self {
            has_begun: false,
            heard: 0,
            text_masker: Masker::new(secrets),
            reasoning_masker: Masker::new(secrets),
            id: None,
            model: None,
            text: String::new(),
            reasoning: String::new(),
            refusal: String::new(),
            calls: Calls::default(),
            raw_stop: None,
            usage: None,
            cost: None,
            warnings: Vec::new(),
        }
    }

    /// Whether nothing can be shown of it.
    fn is_mute(&self) -> bool {
        self.text.trim().is_empty() && self.refusal.is_empty()
    }

    fn warn(&mut self, warning: &str) {
        if !self.warnings.iter().any(|known| **known == *warning) {
            self.warnings.push(warning.into());
        }
    }

    /// A delta, or a whole message.
    fn take_message(&mut self, message: &Value, items: &mut Items) -> Result<(), TooMuch> {
        let text = |key: &str| message.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(piece) = text("reasoning_content").or_else(|| text("reasoning")) {
            self.reason(piece, items);
        }
        match message.get("content") {
            Some(Value::String(piece)) => self.say(piece, items),
            Some(Value::Array(parts)) => parts.iter().for_each(|part| self.take_part(part, items)),
            _ => {}
        }
        if let Some(piece) = text("refusal") {
            self.heard += piece.len();
            self.refusal.push_str(piece);
        }
        for fragment in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.calls.push(fragment)?;
        }
        Ok(())
    }

    /// A part of a content that is a list.
    fn take_part(&mut self, part: &Value, items: &mut Items) {
        if let Some(piece) = part.get("text").and_then(Value::as_str) {
            self.say(piece, items);
        }
        for thought in part.get("thinking").and_then(Value::as_array).into_iter().flatten() {
            if let Some(piece) = thought.get("text").and_then(Value::as_str) {
                self.reason(piece, items);
            }
        }
    }

    fn say(&mut self, piece: &str, items: &mut Items) {
        self.heard += piece.len();
        let told = self.text_masker.push(piece);
        self.add_text(told, items);
    }

    fn reason(&mut self, piece: &str, items: &mut Items) {
        self.heard += piece.len();
        let told = self.reasoning_masker.push(piece);
        self.add_reasoning(told, items);
    }

    fn add_text(&mut self, piece: String, items: &mut Items) {
        if !piece.is_empty() {
            self.text.push_str(&piece);
            items.push(Ok(ModelEvent::TextDelta { text: piece.into() }));
        }
    }

    fn add_reasoning(&mut self, piece: String, items: &mut Items) {
        if !piece.is_empty() {
            self.reasoning.push_str(&piece);
            items.push(Ok(ModelEvent::ReasoningDelta { text: piece.into() }));
        }
    }

    fn take_usage(&mut self, told: &Value, items: &mut Items) {
        self.cost = usage::cost(told).or(self.cost);
        match usage::read(told) {
            usage::Told::Nothing => {}
            usage::Told::Unusable => {
                self.usage = None;
                self.warn("usage_unusable");
            }
            usage::Told::Counts { usage, is_odd } => {
                if is_odd {
                    self.warn("usage_inconsistent");
                }
                // Whether no tokens at all can be true shows at the end.
                if self.usage.replace(usage) != Some(usage) && usage != Usage::default() {
                    items.push(Ok(ModelEvent::Usage(usage)));
                }
            }
        }
    }

    /// Whoever says something has used tokens.
    fn drop_empty_usage(&mut self) {
        let is_empty = self.usage.is_some_and(|usage| usage.total_output() == 0);
        if is_empty && (!self.is_mute() || !self.reasoning.is_empty() || !self.calls.is_empty()) {
            self.usage = None;
            self.warn("usage_empty");
        }
    }

    fn finish(mut self, aliases: &Aliases, secrets: &Secrets) -> ModelReply {
        let stop = self.stop();
        if self.calls.has_doubled_id {
            self.warn("duplicate_wire_id");
        }
        let mut tool_calls = self.calls.finish(aliases);
        if stop != Stop::ToolUse && !tool_calls.is_empty() {
            // What was cut off may be incomplete, and what was refused is not meant.
            tool_calls.clear();
            self.warn("dropped_partial_calls");
        }
        let refusal: Option<Arc<str>> =
            (!self.refusal.is_empty()).then(|| secrets.reply(&self.refusal).into());
        let text = match &refusal {
            Some(refusal) if self.text.is_empty() => Arc::clone(refusal),
            _ => self.text.into(),
        };
        ModelReply {
            finish: stop.finish(),
            cost: self.cost,
            served_model: self.model,
            warnings: self.warnings,
            tool_calls,
            refusal,
            reasoning: self.reasoning.into(),
            stop: Some(stop),
            raw_stop: self.raw_stop,
            reply: self.id,
            ..ModelReply::text(text, self.usage)
        }
    }

    fn stop(&self) -> Stop {
        let has_calls = !self.calls.is_empty();
        let raw = self.raw_stop.as_deref().unwrap_or_default();
        match raw {
            _ if !self.refusal.is_empty() => Stop::Refusal,
            "content_filter" => Stop::ContentFilter,
            "refusal" => Stop::Refusal,
            "length" => Stop::MaxTokens,
            "model_length" => Stop::ContextWindow,
            "tool_calls" | "function_call" if !has_calls => Stop::MalformedToolCall,
            _ if has_calls => Stop::ToolUse,
            "stop" if self.text.trim().is_empty() => Stop::Empty,
            "stop" => Stop::EndTurn,
            _ => Stop::Other,
        }
    }
}

fn is_error(chunk: &Value) -> bool {
    let is_told = chunk.get("error").is_some_and(|error| !error.is_null());
    is_told || chunk.get("object").is_some_and(|object| object == "error")
}

/// The choice of index 0: we ask for one.
fn first_choice(chunk: &Value) -> Option<&Value> {
    let choices = chunk.get("choices")?.as_array()?;
    choices.iter().find(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0)
}

/// The byte order mark.
const MARK: &[u8] = b"\xEF\xBB\xBF";
/// The most bytes of a line.
const MOST_LINE: usize = 8 << 20;
/// The most bytes of a reply that is one JSON object, and of the blanks before any reply.
const MOST_JSON: usize = 8 << 20;
/// The most bytes of a reply.
const MOST_REPLY: usize = 64 << 20;
const TOO_LARGE: &str = "a reply without a stream is larger than 8 MiB";
const TOO_MUCH: &str = "the reply calls more than 128 tools, or one with more than 1 MiB";
