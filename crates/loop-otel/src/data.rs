//! Spans and log records, and how they are written.

use loop_core::{SpanId, TraceId};

use crate::proto::Message;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Texts(Vec<String>),
    Int(u64),
    Float(f64),
    Bool(bool),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Bool(is)
    }
}

/// Attributes, each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attributes(Vec<(&'static str, Value)>);

impl Attributes {
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name, value.into()));
    }

    /// The same with this attribute.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// The same with this attribute where there is a value.
    pub(crate) fn with_some<V: Into<Value>>(mut self, name: &'static str, value: Option<V>) -> Self {
        if let Some(value) = value {
            self.set(name, value);
        }
        self
    }

    fn write(&self, message: &mut Message, field: u32, longest: usize) {
        for (name, value) in &self.0 {
            let longest = if is_content(name) { longest.max(MAX_CONTENT) } else { longest };
            write_attribute(message, field, name, value, longest);
        }
    }
}

/// Whether an attribute is there only where content is asked for. It is bounded where it is made.
fn is_content(name: &str) -> bool {
    use crate::names::{INPUT_MESSAGES, OUTPUT_MESSAGES, SYSTEM_INSTRUCTIONS, TOOL_ARGUMENTS, TOOL_RESULT};
    [INPUT_MESSAGES, OUTPUT_MESSAGES, SYSTEM_INSTRUCTIONS, TOOL_ARGUMENTS, TOOL_RESULT].contains(&name)
}

/// The most bytes of one attribute that holds content.
pub(crate) const MAX_CONTENT: usize = 32 << 10;

/// What a program does where a span is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Internal = 1,
    Client = 3,
}

/// A span that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) trace: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    /// Milliseconds since 1970 (UTC), as in the journal.
    pub(crate) start_ms: u64,
    pub(crate) end_ms: u64,
    pub(crate) attributes: Attributes,
    pub(crate) events: Vec<SpanEvent>,
    /// A span that caused this one.
    pub(crate) link: Option<(TraceId, SpanId)>,
    /// What went wrong, in one line. `None`: nothing did.
    pub(crate) error: Option<String>,
}

/// Something at an instant of a span.
#[derive(Clone, Debug)]
pub(crate) struct SpanEvent {
    pub(crate) unix_ms: u64,
    pub(crate) name: &'static str,
    pub(crate) attributes: Attributes,
}

impl Span {
    /// The span as a message of the protocol, whose texts have at most `longest` characters.
    pub(crate) fn encoded(&self, longest: usize) -> Vec<u8> {
        let mut span = Message::default();
        span.bytes(1, self.trace.bytes());
        span.bytes(2, self.id.bytes());
        if let Some(parent) = &self.parent {
            span.bytes(4, parent.bytes());
        }
        span.text(5, cut(&self.name, MAX_NAME));
        span.int(6, self.kind as u64);
        span.fixed64(7, nanos(self.start_ms));
        span.fixed64(8, nanos(self.end_ms.max(self.start_ms)));
        self.attributes.write(&mut span, 9, longest);
        for event in self.events.iter().take(MAX_EVENTS) {
            span.message(11, |message| {
                message.fixed64(1, nanos(event.unix_ms));
                message.text(2, event.name);
                event.attributes.write(message, 3, longest);
            });
        }
        span.int(12, self.events.len().saturating_sub(MAX_EVENTS) as u64);
        if let Some((trace, id)) = &self.link {
            span.message(13, |link| {
                link.bytes(1, trace.bytes());
                link.bytes(2, id.bytes());
            });
        }
        if let Some(error) = &self.error {
            span.message(15, |status| {
                status.text(2, cut(error, longest));
                status.int(3, STATUS_ERROR);
            });
        }
        // Sampled, and the parent is in another process or not.
        span.fixed32(16, SAMPLED);
        span.into_bytes()
    }
}

/// A log record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) unix_ms: u64,
    pub(crate) is_warning: bool,
    pub(crate) name: &'static str,
    pub(crate) body: String,
    pub(crate) attributes: Attributes,
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) is_sampled: bool,
}

impl Record {
    /// The record as a message of the protocol, whose texts have at most `longest` characters.
    pub(crate) fn encoded(&self, longest: usize) -> Vec<u8> {
        let mut record = Message::default();
        record.fixed64(1, nanos(self.unix_ms));
        record.int(2, if self.is_warning { 13 } else { 9 });
        record.text(3, if self.is_warning { "WARN" } else { "INFO" });
        if !self.body.is_empty() {
            record.message(5, |value| value.text(1, cut(&self.body, longest)));
        }
        self.attributes.write(&mut record, 6, longest);
        record.fixed32(8, if self.is_sampled { SAMPLED } else { 0 });
        record.bytes(9, self.trace.bytes());
        record.bytes(10, self.span.bytes());
        record.fixed64(11, nanos(self.unix_ms));
        record.text(12, self.name);
        record.into_bytes()
    }
}

/// One attribute as a field of a message.
pub(crate) fn write_attribute(message: &mut Message, field: u32, name: &str, value: &Value, longest: usize) {
    message.message(field, |pair| {
        pair.text(1, name);
        pair.message(2, |any| match value {
            Value::Text(text) => any.whole(1, cut(text, longest).as_bytes()),
            Value::Bool(is) => any.chosen_int(2, (*is).into()),
            Value::Int(number) => any.chosen_int(3, i64::try_from(*number).unwrap_or(i64::MAX) as u64),
            Value::Float(number) => any.double(4, *number),
            Value::Texts(texts) => any.message(5, |array| {
                for text in texts {
                    array.message(1, |any| any.whole(1, cut(text, longest).as_bytes()));
                }
            }),
        });
    });
}

/// A request of a signal: its items, each encoded, with the resource and the scope around them.
pub(crate) fn request(resource: &[(String, String)], items: &[Vec<u8>]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |of_resource| {
        of_resource.message(1, |message| {
            for (name, value) in resource {
                write_attribute(message, 1, name, &Value::Text(value.clone()), usize::MAX);
            }
        });
        of_resource.message(2, |scope| {
            scope.message(1, |message| {
                message.text(1, SCOPE);
                message.text(2, env!("CARGO_PKG_VERSION"));
            });
            items.iter().for_each(|item| scope.whole(2, item));
        });
    });
    request.into_bytes()
}

/// The first characters of a text.
pub(crate) fn cut(text: &str, longest: usize) -> &str {
    match text.char_indices().nth(longest) {
        Some((at, _)) => text.get(..at).unwrap_or_default(),
        None => text,
    }
}

pub(crate) fn nanos(unix_ms: u64) -> u64 {
    unix_ms.saturating_mul(1_000_000)
}

/// Who makes the spans.
const SCOPE: &str = "loopgate";
const STATUS_ERROR: u64 = 2;
const SAMPLED: u32 = 1;
/// The most events of one span; the rest is counted.
const MAX_EVENTS: usize = 128;
/// The most characters of the name of a span.
const MAX_NAME: usize = 200;
