//! The server's own form of a turn, sent back in later requests where text and calls are not enough.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use loop_core::types::ToolCall;

use crate::codec::{End, RawMembers, wire_name};
use crate::profile::{Profile, ReasoningBack};

/// The members of a message, as the server named them.
#[derive(Debug)]
pub(super) struct MessageMembers {
    reasoning_back: ReasoningBack,
    refusal_back: bool,
    /// Members that the server accepts in later requests.
    members_back: Arc<[Arc<str>]>,
    text: String,
    refusal: String,
    /// The parts of a content that is a list.
    parts: Vec<Value>,
    /// Members of each tool call besides id, name and arguments, in the order in which the calls began, each with its
    /// index.
    calls: Vec<(u64, Map<String, Value>)>,
    others: Map<String, Value>,
    bytes: usize,
    /// Whether something was dropped, so that the turn cannot be sent back.
    is_lost: bool,
}

impl MessageMembers {
    pub(super) fn new(profile: &Profile) -> Self {
        Self {
            reasoning_back: profile.reasoning_back,
            refusal_back: profile.refusal_back,
            members_back: Arc::clone(&profile.members_back),
            text: String::new(),
            refusal: String::new(),
            parts: Vec::new(),
            calls: Vec::new(),
            others: Map::new(),
            bytes: 0,
            is_lost: false,
        }
    }

    /// The event contained invalid UTF-8: the turn cannot be sent back.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    pub(super) fn text(&mut self, piece: &str) {
        if self.parts.is_empty() {
            if self.text.is_empty() && !piece.is_empty() {
                self.text.reserve(TEXT_BYTES);
            }
            self.text.push_str(piece);
        } else if !piece.is_empty() {
            add_part(&mut self.parts, text_part(piece));
        }
    }

    /// A refusal delta.
    pub(super) fn refusal(&mut self, piece: &str) {
        if self.has_room(piece.len()) {
            self.refusal.push_str(piece);
        }
    }

    /// A content that is a list, or a delta of one. Deltas of the same kind are joined.
    pub(super) fn content(&mut self, list: &RawValue) {
        let Some(Value::Array(parts)) = self.value(list) else { return };
        if !self.text.is_empty() {
            self.parts.push(text_part(&std::mem::take(&mut self.text)));
        }
        if self.parts.is_empty() {
            self.parts = parts;
            return;
        }
        for part in parts {
            add_part(&mut self.parts, part);
        }
    }

    /// A fragment of call number `at`; `index` is its index, if known. Of its other members those are kept that the
    /// server accepts back.
    pub(super) fn call(&mut self, at: usize, index: Option<u64>, fragment: &RawMembers<'_>) {
        self.begin_call(at, index);
        for (key, value) in &fragment.0 {
            if !self.takes_back(key) || is_nothing(value) {
                continue;
            }
            if let (Some(value), Some((_, call))) = (self.value(value), self.calls.get_mut(at)) {
                call.insert(key.as_ref().to_owned(), value);
            }
        }
    }

    /// A fragment of a call that has only id, name and arguments.
    pub(super) fn begin_call(&mut self, at: usize, index: Option<u64>) {
        if self.calls.len() <= at {
            self.calls.resize_with(at + 1, || (index.unwrap_or(u64::MAX), Map::new()));
        }
    }

    /// A reasoning delta whose JSON has `bytes` bytes.
    pub(super) fn reasoning(&mut self, key: &str, piece: &str, bytes: usize) {
        if self.reasoning_back == ReasoningBack::Never || piece.is_empty() || !self.has_room(bytes) {
            return;
        }
        match self.others.get_mut(key) {
            Some(Value::String(text)) => text.push_str(piece),
            _ => {
                self.others.insert(key.to_owned(), piece.into());
            }
        }
    }

    /// Any other member of the message.
    pub(super) fn other(&mut self, key: &str, value: &RawValue) {
        let is_reasoning_back = self.reasoning_back != ReasoningBack::Never && is_reasoning(key);
        if !(is_reasoning_back || self.takes_back(key)) || is_nothing(value) {
            return;
        }
        let Some(value) = self.value(value) else { return };
        match (self.others.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(piece)) if is_reasoning(key) => text.push_str(&piece),
            (Some(Value::Array(parts)), Value::Array(more)) => {
                more.into_iter().for_each(|part| add_part(parts, part));
            }
            (_, value) => {
                self.others.insert(key.to_owned(), value);
            }
        }
    }

    /// The message with `calls`. `None` where text and calls are enough.
    pub(super) fn raw(&mut self, end: &End, calls: &[ToolCall]) -> Option<String> {
        let mut others = std::mem::take(&mut self.others);
        if self.reasoning_back == ReasoningBack::WithToolCalls && calls.is_empty() {
            others.retain(|key, _| !is_reasoning(key));
        }
        let has_more_of_calls = end.keeps_calls && self.calls.iter().any(|(_, call)| !call.is_empty());
        let refusal = std::mem::take(&mut self.refusal);
        if !refusal.is_empty() && !self.refusal_back {
            self.text(&refusal);
        }
        let is_plain = others.is_empty() && self.parts.is_empty() && !has_more_of_calls && refusal.is_empty();
        if is_plain || self.is_lost || end.has_new_ids || end.has_nameless || self.bytes > MAX_KEPT {
            return None;
        }
        let has_refusal = !refusal.is_empty() && self.refusal_back;
        let content = if !self.parts.is_empty() {
            Value::Array(std::mem::take(&mut self.parts))
        } else if self.text.is_empty() && (!calls.is_empty() || has_refusal) {
            Value::Null
        } else {
            Value::String(std::mem::take(&mut self.text))
        };
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        message.insert("content".to_owned(), content);
        if has_refusal {
            message.insert("refusal".to_owned(), refusal.into());
        }
        if !calls.is_empty() {
            // The calls are written in the order of their indexes.
            self.calls.sort_by_key(|(index, _)| *index);
            let mut extras = std::mem::take(&mut self.calls).into_iter();
            let calls = calls.iter().map(|written| {
                let mut call = extras.next().map(|(_, call)| call).unwrap_or_default();
                call.insert("id".to_owned(), (*written.id).into());
                call.insert("type".to_owned(), "function".into());
                let name = wire_name(&written.name);
                let function = serde_json::json!({"name": *name, "arguments": **written.arguments.text()});
                call.insert("function".to_owned(), function);
                Value::Object(call)
            });
            message.insert("tool_calls".to_owned(), calls.collect());
        }
        message.extend(others);
        Some(Value::Object(message).to_string())
    }

    fn takes_back(&self, key: &str) -> bool {
        self.members_back.iter().any(|member| **member == *key)
    }

    fn value(&mut self, value: &RawValue) -> Option<Value> {
        if self.has_room(value.get().len()) { serde_json::from_str(value.get()).ok() } else { None }
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.bytes <= MAX_KEPT
    }
}

/// Adds a part to a list. Consecutive texts of the same kind and index are joined; of other members the last value is
/// kept.
fn add_part(parts: &mut Vec<Value>, part: Value) {
    let Value::Object(new) = part else { return parts.push(part) };
    let last = parts.last_mut().and_then(Value::as_object_mut);
    let Some(last) = last.filter(|last| goes_on(last, &new)) else { return parts.push(Value::Object(new)) };
    for (key, value) in new {
        match (last.get_mut(&key), value) {
            (Some(Value::String(text)), Value::String(piece)) if JOINED.contains(&key.as_str()) => {
                text.push_str(&piece);
            }
            (Some(Value::Array(inner)), Value::Array(more)) => {
                more.into_iter().for_each(|part| add_part(inner, part));
            }
            (_, Value::Null) => {}
            (_, value) => {
                last.insert(key, value);
            }
        }
    }
}

/// Whether a part continues the last one.
fn goes_on(last: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let same = |key: &str| last.get(key) == new.get(key);
    let is_text = JOINED.iter().any(|key| new.get(*key).is_some_and(Value::is_string));
    let is_thought = new.get("thinking").is_some_and(Value::is_array);
    let is_signature = new.contains_key("signature") && new.get("text").is_none_or(Value::is_null);
    let is_sealed = new.contains_key("data");
    same("type") && same("index") && !is_sealed && (is_text || is_thought || is_signature)
}

fn text_part(text: &str) -> Value {
    serde_json::json!({"type": "text", "text": text})
}

fn is_reasoning(key: &str) -> bool {
    key.starts_with("reasoning")
}

pub(super) fn is_nothing(value: &RawValue) -> bool {
    matches!(value.get(), "null" | "\"\"" | "[]" | "{}")
}

/// Members of a part that are streamed as deltas.
const JOINED: [&str; 2] = ["text", "summary"];
/// Room for a text, from its first piece on.
const TEXT_BYTES: usize = 256;
/// Maximum bytes that are kept.
const MAX_KEPT: usize = 4 << 20;
