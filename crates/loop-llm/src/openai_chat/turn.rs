//! A turn as it goes back to the server that wrote it, where text and calls do not say it all.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::call::ToolCall;
use crate::codec::{End, Fields, wire_name};
use crate::profile::ReasoningBack;

/// What came of a message, in the server's own terms.
#[derive(Debug)]
pub(super) struct Kept {
    reasoning_back: ReasoningBack,
    text: String,
    /// The content where it is a list.
    parts: Vec<Value>,
    calls: BTreeMap<usize, Map<String, Value>>,
    others: Map<String, Value>,
    bytes: usize,
}

impl Kept {
    pub(super) fn new(reasoning_back: ReasoningBack) -> Self {
        Self {
            reasoning_back,
            text: String::new(),
            parts: Vec::new(),
            calls: BTreeMap::new(),
            others: Map::new(),
            bytes: 0,
        }
    }

    pub(super) fn text(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// A content, or a piece of one, that is a list. Pieces of one kind become one.
    pub(super) fn content(&mut self, list: &RawValue) {
        if let Some(Value::Array(parts)) = self.value(list) {
            for part in parts {
                add_part(&mut self.parts, part);
            }
        }
    }

    /// A fragment of a call. What is not ours to know is kept as it came.
    pub(super) fn call(&mut self, at: usize, fragment: &Fields<'_>) {
        for (key, value) in &fragment.0 {
            if matches!(key.as_ref(), "index" | "id" | "type" | "function") || is_nothing(value) {
                continue;
            }
            if let Some(value) = self.value(value) {
                self.calls.entry(at).or_default().insert(key.as_ref().to_owned(), value);
            }
        }
    }

    /// A member of the message that is neither text nor call.
    pub(super) fn other(&mut self, key: &str, value: &RawValue) {
        let is_back = self.reasoning_back != ReasoningBack::Never || !key.starts_with("reasoning");
        if !is_back || NOT_BACK.contains(&key) || is_nothing(value) {
            return;
        }
        let Some(value) = self.value(value) else { return };
        match (self.others.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(piece)) => text.push_str(&piece),
            (Some(Value::Array(parts)), Value::Array(more)) => {
                more.into_iter().for_each(|part| add_part(parts, part));
            }
            (_, value) => {
                self.others.insert(key.to_owned(), value);
            }
        }
    }

    /// The message with `calls`, where text and calls do not say it all.
    pub(super) fn raw(&mut self, end: &End, calls: &[ToolCall]) -> Option<String> {
        let others = std::mem::take(&mut self.others);
        let is_plain = others.is_empty() && self.parts.is_empty() && self.calls.is_empty();
        if is_plain || end.has_new_ids || self.bytes > MOST_KEPT {
            return None;
        }
        let content = if !self.parts.is_empty() {
            Value::Array(std::mem::take(&mut self.parts))
        } else if self.text.is_empty() && !calls.is_empty() {
            Value::Null
        } else {
            Value::String(std::mem::take(&mut self.text))
        };
        let mut message = others;
        message.insert("role".to_owned(), "assistant".into());
        message.insert("content".to_owned(), content);
        if !calls.is_empty() {
            let calls = calls.iter().enumerate().map(|(at, written)| {
                let mut call = self.calls.remove(&at).unwrap_or_default();
                call.insert("id".to_owned(), (*written.id).into());
                call.insert("type".to_owned(), "function".into());
                let name = wire_name(&written.name);
                let function = serde_json::json!({"name": *name, "arguments": **written.arguments.text()});
                call.insert("function".to_owned(), function);
                Value::Object(call)
            });
            message.insert("tool_calls".to_owned(), calls.collect());
        }
        Some(Value::Object(message).to_string())
    }

    fn value(&mut self, value: &RawValue) -> Option<Value> {
        self.bytes += value.get().len();
        if self.bytes > MOST_KEPT {
            return None;
        }
        serde_json::from_str(value.get()).ok()
    }
}

/// Adds a part to a list. Texts of the same kind and place that follow each other become one; of what else they have
/// the last value stays.
fn add_part(parts: &mut Vec<Value>, part: Value) {
    let same = |one: &Value, two: &Value, key: &str| one.get(key) == two.get(key);
    if let (Some(Value::Object(last)), Value::Object(new)) = (parts.last_mut(), &part) {
        let one = Value::Object(last.clone());
        let is_text = ["text", "summary"].iter().any(|key| new.get(*key).is_some_and(Value::is_string));
        let is_thought = new.get("thinking").is_some_and(Value::is_array);
        let is_signature = new.contains_key("signature") && new.get("text").is_none_or(Value::is_null);
        let joins = same(&one, &part, "type") && same(&one, &part, "index") && new.get("data").is_none();
        if joins && (is_text || is_thought || is_signature) {
            for (key, value) in new {
                match (last.get_mut(key), value) {
                    (Some(Value::String(text)), Value::String(piece)) if JOINED.contains(&key.as_str()) => {
                        text.push_str(piece);
                    }
                    (Some(Value::Array(inner)), Value::Array(more)) => {
                        more.iter().for_each(|part| add_part(inner, part.clone()));
                    }
                    (_, Value::Null) => {}
                    (_, value) => {
                        last.insert(key.clone(), value.clone());
                    }
                }
            }
            return;
        }
    }
    parts.push(part);
}

fn is_nothing(value: &RawValue) -> bool {
    matches!(value.get(), "null" | "\"\"" | "[]" | "{}")
}

/// Members of a part that come in pieces.
const JOINED: [&str; 2] = ["text", "summary"];
/// Members of a reply that no request takes.
const NOT_BACK: [&str; 5] = ["annotations", "audio", "logprobs", "index", "tool_call_id"];
/// Bytes of what is kept.
const MOST_KEPT: usize = 4 << 20;
