//! Attributes, spans and log records in the types of the OpenTelemetry SDK, with their limits.

use std::time::{Duration, SystemTime};

use loop_core::types::{SpanId, TraceId};
use opentelemetry::logs::AnyValue;
use opentelemetry::trace::{Event, SpanContext, Status, TraceFlags, TraceState};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;

/// Attributes, each name once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes(pub(crate) Vec<KeyValue>);

impl Attributes {
    /// The same with this attribute.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.push(KeyValue::new(name, value));
        self
    }

    /// The same with this attribute if there is a value.
    pub(crate) fn with_some<V: Into<Value>>(self, name: &'static str, value: Option<V>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The same with a number.
    pub(crate) fn count(self, name: &'static str, number: impl Into<u64>) -> Self {
        self.with(name, i64::try_from(number.into()).unwrap_or(i64::MAX))
    }

    /// The same with a number, unless it is 0.
    pub(crate) fn count_some(self, name: &'static str, number: impl Into<u64>) -> Self {
        match number.into() {
            0 => self,
            number => self.count(name, number),
        }
    }
}

/// A log record of a run.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) time: SystemTime,
    pub(crate) is_warning: bool,
    pub(crate) name: &'static str,
    pub(crate) body: String,
    pub(crate) attributes: Attributes,
    pub(crate) context: SpanContext,
}

/// The context of a span with the run's own ids.
pub(crate) fn context(trace: TraceId, span: SpanId, is_sampled: bool) -> SpanContext {
    let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let (trace, span) = (opentelemetry::TraceId::from_bytes(*trace.bytes()), sdk_id(span));
    SpanContext::new(trace, span, flags, /*is_remote*/ false, TraceState::NONE)
}

/// The SDK's type of a span id.
pub(crate) fn sdk_id(span: SpanId) -> opentelemetry::SpanId {
    opentelemetry::SpanId::from_bytes(*span.bytes())
}

/// The id of the parent span. All zeroes if there is none, as in the SDK.
pub(crate) fn parent_id(parent: Option<SpanId>) -> opentelemetry::SpanId {
    parent.map_or(opentelemetry::SpanId::from_bytes([0; 8]), sdk_id)
}

/// An instant in milliseconds since 1970 (UTC), as the journal has it.
pub(crate) fn time(unix_ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms)
}

/// Seconds between the start and the end of a span.
pub(crate) fn seconds(span: &SpanData) -> f64 {
    span.end_time.duration_since(span.start_time).unwrap_or_default().as_secs_f64()
}

/// An event of a span.
pub(crate) fn event(name: &'static str, unix_ms: u64, attributes: Attributes) -> Event {
    Event::new(name, time(unix_ms), attributes.0, 0)
}

/// Cuts the texts of a span to `longest` characters, and limits its events. Returns its approximate size in bytes.
pub(crate) fn limit_span(span: &mut SpanData, longest: usize) -> usize {
    span.name = cut(&span.name, MAX_NAME).to_owned().into();
    let dropped = span.events.events.len().saturating_sub(MAX_EVENTS);
    span.events.events.truncate(MAX_EVENTS);
    span.events.dropped_count = u32::try_from(dropped).unwrap_or(u32::MAX);
    if let Status::Error { description } = &mut span.status {
        *description = cut(description, longest).to_owned().into();
    }
    let of_events = span.events.events.iter_mut().map(|event| limit(&mut event.attributes, longest));
    let of_events: usize = of_events.sum();
    ITEM_BYTES + of_events + limit(&mut span.attributes, longest)
}

/// Cuts the texts of attributes to `longest` characters. Returns their approximate size in bytes.
pub(crate) fn limit(attributes: &mut [KeyValue], longest: usize) -> usize {
    let sizes = attributes.iter_mut().map(|attribute| {
        let longest = if is_content(attribute.key.as_str()) { MAX_CONTENT } else { longest };
        let Value::String(text) = &mut attribute.value else { return ATTRIBUTE_BYTES };
        let kept = cut(text.as_str(), longest);
        if kept.len() < text.as_str().len() {
            *text = StringValue::from(kept.to_owned());
        }
        ATTRIBUTE_BYTES + text.as_str().len()
    });
    sizes.sum()
}

/// Whether an attribute is content, which is only there on request and has limits of its own.
fn is_content(name: &str) -> bool {
    use crate::names::{INPUT_MESSAGES, OUTPUT_MESSAGES, SYSTEM_INSTRUCTIONS, TOOL_ARGUMENTS, TOOL_RESULT};
    [INPUT_MESSAGES, OUTPUT_MESSAGES, SYSTEM_INSTRUCTIONS, TOOL_ARGUMENTS, TOOL_RESULT].contains(&name)
}

/// The value of an attribute in the type of log records.
pub(crate) fn log_value(value: Value) -> AnyValue {
    match value {
        Value::Bool(is) => is.into(),
        Value::I64(number) => number.into(),
        Value::F64(number) => number.into(),
        Value::String(text) => text.into(),
        Value::Array(Array::String(texts)) => texts.into_iter().collect(),
        other => other.to_string().into(),
    }
}

/// The first characters of a text.
pub(crate) fn cut(text: &str, longest: usize) -> &str {
    match text.char_indices().nth(longest) {
        Some((at, _)) => text.get(..at).unwrap_or_default(),
        None => text,
    }
}

/// The most bytes of an attribute with content.
pub(crate) const MAX_CONTENT: usize = 32 << 10;
/// The most events of one span; the rest is counted.
const MAX_EVENTS: usize = 128;
/// The most characters of the name of a span.
const MAX_NAME: usize = 200;
/// The approximate bytes of an item besides its attributes, and of an attribute besides its text.
const ITEM_BYTES: usize = 200;
const ATTRIBUTE_BYTES: usize = 40;
