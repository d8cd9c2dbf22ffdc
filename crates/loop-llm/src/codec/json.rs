//! JSON that is written piece by piece, in an order of our own.

use std::ops::Range;

use serde::Serialize;
use serde_json::{Map, Value};

use super::escape;

/// JSON text in the making.
#[derive(Debug, Default)]
pub(crate) struct Json(Vec<u8>);

impl From<Vec<u8>> for Json {
    /// More of what is written already.
    fn from(json: Vec<u8>) -> Self {
        Self(json)
    }
}

impl Json {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Text that is JSON already.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Any value.
    pub(crate) fn value(&mut self, value: &(impl Serialize + ?Sized)) -> &mut Self {
        // Texts, numbers and values of JSON can always be written into memory.
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.raw("null");
        }
        self
    }

    /// A text.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.text_after("", text)
    }

    /// Two texts as one.
    pub(crate) fn text_after(&mut self, first: &str, second: &str) -> &mut Self {
        self.0.push(b'"');
        escape::write(&mut self.0, first);
        escape::write(&mut self.0, second);
        self.0.push(b'"');
        self
    }

    /// Puts a text in place of another.
    pub(super) fn replace(&mut self, place: Range<usize>, text: &str) {
        self.0.splice(place, text.bytes());
    }

    /// Forgets what comes after so many bytes.
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

/// The members of a request's body that are no turns, into which those that the caller gives are merged: theirs win.
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

    /// The same behind what closes the turns.
    pub(crate) fn after(close: &str, extra: &'a Map<String, Value>) -> Self {
        let mut json = Json::with_capacity(MEMBERS);
        json.raw(close);
        Self { extra, used: Vec::new(), json }
    }

    /// `,"key":value`.
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

    /// `,"key":json`, where the JSON is written already.
    pub(crate) fn add_json(&mut self, key: &str, json: impl AsRef<[u8]>) {
        let json = json.as_ref();
        if self.extra.contains_key(key) {
            self.add(key, &serde_json::from_slice::<Value>(json).unwrap_or_default());
        } else {
            self.json.raw(",").text(key).raw(":");
            self.json.0.extend_from_slice(json);
        }
    }

    /// All of them, those that only the caller gave at the end.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.finish_with("")
    }

    /// The same with what closes the body.
    pub(crate) fn finish_with(mut self, close: &str) -> Vec<u8> {
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
                // In its place: the order of members says something in a schema.
                let place = ours.entry(key.as_str()).or_insert(Value::Null);
                *place = merged(place.take(), value);
            }
            Value::Object(ours)
        }
        (_, theirs) => theirs.clone(),
    }
}

/// Bytes that the members of a request with few tools mostly have less than.
const MEMBERS: usize = 512;
