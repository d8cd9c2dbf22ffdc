//! Writes JSON piece by piece, with members in a fixed order.

use std::ops::Range;

use serde::Serialize;
use serde_json::{Map, Value};

use super::escape;

/// JSON text under construction.
#[derive(Debug, Default)]
pub(crate) struct Json(Vec<u8>);

impl From<Vec<u8>> for Json {
    /// Continues JSON text.
    fn from(json: Vec<u8>) -> Self {
        Self(json)
    }
}

impl Json {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Text that is valid JSON.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// A value, serialized.
    pub(crate) fn value(&mut self, value: &(impl Serialize + ?Sized)) -> &mut Self {
        // Serializing strings, numbers and JSON values into memory cannot fail.
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.raw("null");
        }
        self
    }

    /// A string.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.text_after("", text)
    }

    /// Two texts as one string.
    pub(crate) fn text_after(&mut self, first: &str, second: &str) -> &mut Self {
        self.0.push(b'"');
        escape::write(&mut self.0, first);
        escape::write(&mut self.0, second);
        self.0.push(b'"');
        self
    }

    /// Replaces a range with another text.
    pub(super) fn replace(&mut self, place: Range<usize>, text: &str) {
        self.0.splice(place, text.bytes());
    }

    /// Keeps the first so many bytes.
    pub(super) fn truncate(&mut self, bytes: usize) {
        self.0.truncate(bytes);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// The members of a request body besides the turns, merged with the members that the caller gives, which win.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    extra: &'a Map<String, Value>,
    used: Vec<&'a str>,
    json: Json,
}

impl<'a> Members<'a> {
    pub(crate) fn new(extra: &'a Map<String, Value>) -> Self {
        Self::after("", extra)
    }

    /// The members after the text that closes the turns.
    pub(crate) fn after(close: &str, extra: &'a Map<String, Value>) -> Self {
        let mut json = Json::with_capacity(MEMBERS);
        json.raw(close);
        Self { extra, used: Vec::new(), json }
    }

    /// Adds `,"key":value`.
    pub(crate) fn add(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        match self.extra.get_key_value(key) {
            None => {
                self.json.raw(",").text(key).raw(":").value(value);
            }
            Some((key, theirs)) => {
                self.used.push(key);
                let ours = serde_json::to_value(value).unwrap_or_default();
                self.json.raw(",").text(key).raw(":").value(&merged(ours, theirs));
            }
        }
    }

    /// Adds `,"key":json` for a value that is serialized already.
    pub(crate) fn add_json(&mut self, key: &str, json: impl AsRef<[u8]>) {
        let json = json.as_ref();
        if self.extra.contains_key(key) {
            self.add(key, &serde_json::from_slice::<Value>(json).unwrap_or_default());
        } else {
            self.json.raw(",").text(key).raw(":");
            self.json.0.extend_from_slice(json);
        }
    }

    /// All members, and the text that closes the body. Those that only the caller gave come last.
    pub(crate) fn finish(mut self, close: &str) -> Vec<u8> {
        for (key, value) in self.extra {
            if !self.used.contains(&key.as_str()) {
                self.json.raw(",").text(key).raw(":").value(value);
            }
        }
        self.json.raw(close);
        self.json.take()
    }
}

fn merged(ours: Value, theirs: &Value) -> Value {
    match (ours, theirs) {
        (Value::Object(mut ours), Value::Object(theirs)) => {
            for (key, value) in theirs {
                // Replaced in place, as the order of members matters in a schema.
                let place = ours.entry(key.as_str()).or_insert(Value::Null);
                *place = merged(place.take(), value);
            }
            Value::Object(ours)
        }
        (_, theirs) => theirs.clone(),
    }
}

/// Usual upper bound of the bytes of these members.
const MEMBERS: usize = 512;
