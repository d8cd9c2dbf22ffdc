//! An event as an entry stores it. The text of a result is stored once: the data holds it, and the Markdown says how much of
//! the data it begins with.

use std::sync::Arc;

use loop_core::types::{
    ChildUse, CommandKey, Data, Digest, FailureText, Millis, Observation, ResultPicture, Status, SubCallUse,
};
use loop_core::{Event, EventKind};
use serde::{Deserialize, Serialize};

/// An event in its stored form. Every event but the end of a tool call is stored as it is.
#[derive(Serialize)]
pub(super) struct StoredEvent<'e> {
    at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'e EventKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<StoredResult<&'e str>>,
}

/// An event that was read from its stored form.
#[derive(Deserialize, PartialEq)]
#[serde(try_from = "StoredFields")]
pub(super) struct ReadEvent(pub(super) Event);

/// The stored form of an event: one of the two.
#[derive(Deserialize)]
struct StoredFields {
    at: Millis,
    kind: Option<EventKind>,
    result: Option<StoredResult<Arc<str>>>,
}

/// The end of a tool call: [`EventKind::ToolFinished`]. `T` is how a text is held.
#[derive(Serialize, Deserialize)]
struct StoredResult<T> {
    key: CommandKey,
    attempt: u32,
    status: Status,
    summary: T,
    markdown: StoredMarkdown<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<FailureText>,
    data: StoredData<T>,
    digest: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sub_call: Option<Box<SubCallUse>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    child: Option<Box<ChildUse>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pictures: Vec<ResultPicture>,
}

/// The data of a result, in full.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredData<T> {
    /// A JSON text.
    Json(T),
    /// A JSON string, by its text.
    Text(T),
}

/// What the model reads of a result.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredMarkdown<T> {
    /// A text of its own.
    Text(T),
    /// The first bytes of the data's text, and what follows them.
    Data { bytes: u64, then: T },
}

impl<'e> StoredEvent<'e> {
    pub(super) fn of(event: &'e Event) -> Self {
        let Event { at, kind } = event;
        match kind {
            EventKind::ToolFinished { key, attempt, observation } => {
                let result = StoredResult::of(*key, *attempt, observation);
                Self { at: *at, kind: None, result: Some(result) }
            }
            kind => Self { at: *at, kind: Some(kind), result: None },
        }
    }
}

impl<'e> StoredResult<&'e str> {
    fn of(key: CommandKey, attempt: u32, observation: &'e Observation) -> Self {
        // Each field is named, so that a new one cannot be left out.
        let Observation {
            status,
            summary,
            markdown,
            failure,
            data,
            digest,
            sub_call,
            child,
            retry_after_ms,
            warnings,
            pictures,
        } = observation;
        let (text, data) = match data.as_text() {
            Some(text) => (&**text, StoredData::Text(&**text)),
            None => (&**data, StoredData::Json(&**data)),
        };
        Self {
            key,
            attempt,
            status: *status,
            summary,
            markdown: StoredMarkdown::of(markdown, text),
            failure: failure.clone(),
            data,
            digest: *digest,
            sub_call: sub_call.clone(),
            child: child.clone(),
            retry_after_ms: *retry_after_ms,
            warnings: warnings.clone(),
            pictures: pictures.clone(),
        }
    }
}

impl<'e> StoredMarkdown<&'e str> {
    /// The shorter form of a Markdown next to the text of its data.
    fn of(markdown: &'e str, data: &str) -> Self {
        let bytes = if std::ptr::eq(markdown, data) { markdown.len() } else { shared(markdown, data) };
        match markdown.get(bytes..) {
            Some(then) if bytes >= MIN_SHARED => Self::Data { bytes: bytes as u64, then },
            _ => Self::Text(markdown),
        }
    }
}

/// How many bytes two texts have in common at their beginning, in whole characters.
fn shared(one: &str, other: &str) -> usize {
    let (a, b) = (one.as_bytes(), other.as_bytes());
    let chunks = a.as_chunks::<CHUNK>().0.iter().zip(b.as_chunks::<CHUNK>().0);
    let whole = chunks.take_while(|(a, b)| a == b).count() * CHUNK;
    let (a, b) = (a.get(whole..).unwrap_or_default(), b.get(whole..).unwrap_or_default());
    let bytes = whole + a.iter().zip(b).take_while(|(a, b)| a == b).count();
    one.floor_char_boundary(bytes)
}

impl TryFrom<StoredFields> for ReadEvent {
    type Error = &'static str;

    fn try_from(stored: StoredFields) -> Result<Self, Self::Error> {
        let StoredFields { at, kind, result } = stored;
        let kind = match (kind, result) {
            (Some(kind), None) => kind,
            (None, Some(result)) => result.read()?,
            (None, None) | (Some(_), Some(_)) => return Err("an event has either `kind` or `result`"),
        };
        Ok(Self(Event { at, kind }))
    }
}

impl StoredResult<Arc<str>> {
    fn read(self) -> Result<EventKind, &'static str> {
        let Self {
            key,
            attempt,
            status,
            summary,
            markdown,
            failure,
            data,
            digest,
            sub_call,
            child,
            retry_after_ms,
            warnings,
            pictures,
        } = self;
        let (StoredData::Json(text) | StoredData::Text(text)) = &data;
        let markdown = markdown.read(text)?;
        let data = match data {
            StoredData::Json(json) => Data::from(json),
            StoredData::Text(text) => Data::text(text),
        };
        let observation = Observation {
            status,
            summary,
            markdown,
            failure,
            data,
            digest,
            sub_call,
            child,
            retry_after_ms,
            warnings,
            pictures,
        };
        Ok(EventKind::ToolFinished { key, attempt, observation: Arc::new(observation) })
    }
}

impl StoredMarkdown<Arc<str>> {
    fn read(self, data: &Arc<str>) -> Result<Arc<str>, &'static str> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Data { bytes, then } => {
                let start = usize::try_from(bytes).ok().and_then(|bytes| data.get(..bytes));
                let start = start.ok_or("the data of a result does not have the start of its Markdown")?;
                let is_whole = start.len() == data.len() && then.is_empty();
                Ok(if is_whole { Arc::clone(data) } else { [start, &then].concat().into() })
            }
        }
    }
}

/// The fewest bytes that are not stored twice: naming them takes about half as many.
const MIN_SHARED: usize = 64;
/// How many bytes are compared at a time.
const CHUNK: usize = 16;

#[cfg(test)]
#[path = "event_tests.rs"]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
