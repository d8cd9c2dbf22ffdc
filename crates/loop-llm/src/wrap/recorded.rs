//! A model that replays recordings.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use serde_json::Value;

use super::exchange::{self, End, Exchange, Header, RECORDING_VERSION};
use crate::error::{LlmError, Partial};
use crate::mask;
use crate::model::{ChatModel, EventStream, ModelEvent};
use crate::request::ModelRequest;

/// A file that is not a recording, or is damaged: one line with file, line number and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct RecordedError {
    place: String,
    message: String,
}

/// A model that replays a recording: the same deltas, the same end, errors included, and without delays.
///
/// An exchange is found by the model's name and by what the model sees of the request. Equal ones are replayed in the
/// order in which they were recorded, each once. A request that is not found, or not once more, fails with
/// [`FailureKind::ScriptExhausted`] and a message that shows where it first differs from the nearest one. The nonce of
/// the recorded run is replaced by that of the request.
///
/// An exchange whose caller dropped the stream ends with an error: [`FailureKind::Timeout`] if the caller's timeout was
/// over, otherwise [`FailureKind::Cancelled`].
///
/// Clones share which exchanges were replayed.
#[derive(Clone, Debug)]
pub struct RecordedModel {
    shelf: Arc<Exchanges>,
    secrets: Secrets,
}

struct Exchanges {
    name: String,
    /// Each with its line number.
    exchanges: Vec<(usize, Exchange)>,
    /// The exchanges of each model and content, in order.
    found: HashMap<Key, Vec<usize>>,
    /// How many of them were replayed.
    given: Mutex<HashMap<Key, usize>>,
}

impl fmt::Debug for Exchanges {
    /// Shows file name and number of exchanges, without their content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchanges")
            .field("name", &self.name)
            .field("exchanges", &self.exchanges.len())
            .finish_non_exhaustive()
    }
}

/// The key by which an exchange is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    model: Arc<str>,
    content: Arc<str>,
}

impl RecordedModel {
    /// Reads a recording into memory.
    ///
    /// # Errors
    /// The file cannot be read, is not a recording, is of another version, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RecordedError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        // A pipe would be waited for, and a device has no end.
        let is_file = std::fs::metadata(path).map(|found| found.is_file() || found.is_dir());
        let read = is_file.and_then(|is_file| match is_file {
            true => std::fs::read_to_string(path),
            false => Err(std::io::Error::other("it is a pipe or a device")),
        });
        let text = read.map_err(|error| RecordedError {
            place: name.clone(),
            message: format!("cannot read the recording: {error}; name a file that was recorded"),
        })?;
        Self::read(&name, &text)
    }

    /// Parses the text of a recording. Error messages call it `name`.
    ///
    /// # Errors
    /// Like [`RecordedModel::open`].
    pub fn read(name: &str, text: &str) -> Result<Self, RecordedError> {
        let mut lines = text.split_inclusive('\n').enumerate().map(|(at, line)| (at + 1, line));
        let first = lines.next().map_or("", |(_, line)| line);
        header(first).map_err(|message| RecordedError { place: format!("{name}:1"), message })?;
        let mut exchanges = Vec::new();
        let mut found: HashMap<Key, Vec<usize>> = HashMap::new();
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let read = exchange(line)
                .map_err(|message| RecordedError { place: format!("{name}:{number}"), message })?;
            let key = Key { model: Arc::clone(&read.model), content: Arc::clone(&read.content) };
            found.entry(key).or_default().push(exchanges.len());
            exchanges.push((number, read));
        }
        let shelf = Exchanges { name: name.to_owned(), exchanges, found, given: Mutex::default() };
        Ok(Self { shelf: Arc::new(shelf), secrets: Secrets::default() })
    }

    /// The same model for requests with secrets that were masked in the recording.
    pub fn with_secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// The names of the recorded models.
    pub fn models(&self) -> Vec<Arc<str>> {
        let mut models: Vec<_> =
            self.shelf.exchanges.iter().map(|(_, exchange)| Arc::clone(&exchange.model)).collect();
        models.sort();
        models.dedup();
        models
    }

    /// The name of the model that was recorded under the name `tier`, if there is one.
    pub fn model_of(&self, tier: &str) -> Option<Arc<str>> {
        let mut exchanges = self.shelf.exchanges.iter().map(|(_, exchange)| exchange);
        exchanges.find(|exchange| &*exchange.tier == tier).map(|exchange| Arc::clone(&exchange.model))
    }

    /// The next exchange of this request.
    fn take(&self, requested: &RequestForm) -> Result<&Exchange, LlmError> {
        let all = self.shelf.found.get(&requested.key).map_or(&[][..], Vec::as_slice);
        let nth = {
            let mut given = self.shelf.given.lock().unwrap_or_else(PoisonError::into_inner);
            let given = given.entry(requested.key.clone()).or_default();
            let nth = *given;
            *given += usize::from(nth < all.len());
            nth
        };
        let exchange = all.get(nth).and_then(|at| self.shelf.exchanges.get(*at));
        exchange.map(|(_, exchange)| exchange).ok_or_else(|| {
            let message = if all.is_empty() { self.absent(requested) } else { self.used_up(requested, all) };
            let message = mask::line(&format!("{}: {message}", self.shelf.name), &self.secrets);
            LlmError::unsendable(FailureKind::ScriptExhausted, message)
        })
    }

    fn used_up(&self, requested: &RequestForm, all: &[usize]) -> String {
        let lines =
            all.iter().filter_map(|at| self.shelf.exchanges.get(*at)).map(|(line, _)| line.to_string());
        let lines: Vec<String> = lines.collect();
        let (times, lines) = (all.len(), lines.join(", "));
        format!(
            "{} was asked of {} more than the {times} times that were recorded (line {lines}); record the run again",
            requested.name, requested.key.model
        )
    }

    fn absent(&self, requested: &RequestForm) -> String {
        let of_model =
            self.shelf.exchanges.iter().filter(|(_, exchange)| exchange.model == requested.key.model);
        let nearest = of_model
            .map(|(line, exchange)| (difference(&exchange.seen(), &requested.seen), line, exchange))
            .reduce(|best, other| if other.0.same_bytes > best.0.same_bytes { other } else { best });
        match nearest {
            Some((difference, line, exchange)) => format!(
                "{} of {} was not recorded; the nearest is line {line} ({}), which differs first in {}: {}",
                requested.name, requested.key.model, exchange.key, difference.place, difference.words
            ),
            None => {
                let models: Vec<String> = self.models().iter().map(|model| format!("`{model}`")).collect();
                let models = if models.is_empty() { "nothing".to_owned() } else { models.join(", ") };
                format!("no call of the model `{}` was recorded; recorded is {models}", requested.key.model)
            }
        }
    }
}

#[async_trait]
impl ChatModel for RecordedModel {
    fn secrets(&self) -> Secrets {
        self.secrets.clone()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let requested = RequestForm::of(request, &self.secrets).map_err(|error| unplayable(&error))?;
        let exchange = self.take(&requested)?;
        let (events, end) =
            exchange.reported(requested.nonce.as_deref()).map_err(|error| unplayable(&error))?;
        let last = match end {
            End::Refused { error } => return Err(error),
            End::Reply { reply } => Some(Ok(ModelEvent::Finished(reply))),
            End::Failed { error } => Some(Err(error)),
            End::Dropped { is_late } => Some(Err(left(&events, is_late))),
            End::BrokeOff => None,
        };
        Ok(futures::stream::iter(events.into_iter().map(Ok).chain(last)).boxed())
    }
}

/// A request as it would have been recorded.
struct RequestForm {
    key: Key,
    /// The name of the request in error messages.
    name: String,
    seen: Value,
    nonce: Option<String>,
}

impl RequestForm {
    fn of(request: &ModelRequest, secrets: &Secrets) -> Result<Self, serde_json::Error> {
        let form = exchange::form(request, secrets)?;
        let nonce = exchange::nonce_of_run(request).map(str::to_owned);
        let seen = exchange::seen(&form, nonce.as_deref());
        let key = Key { model: exchange::model(request, secrets), content: exchange::content(&seen) };
        let name = match &*request.meta.key {
            "" => "this call".to_owned(),
            key => format!("the call {key}"),
        };
        Ok(Self { key, name, seen, nonce })
    }
}

fn unplayable(error: &serde_json::Error) -> LlmError {
    LlmError::unsendable(FailureKind::BadResponse, format!("the recorded exchange cannot be played: {error}"))
}

/// The error that replaces an exchange whose caller dropped the stream.
fn left(events: &[ModelEvent], is_late: bool) -> LlmError {
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut partial = Partial::default();
    for event in events {
        match event {
            ModelEvent::Started { model, .. } => partial.served_model.clone_from(model),
            ModelEvent::TextDelta { text: piece } => text.push_str(piece),
            ModelEvent::ReasoningDelta { text: piece } => reasoning.push_str(piece),
            ModelEvent::Usage(reported) => partial.usage = Some(*reported),
            _ => {}
        }
    }
    (partial.text, partial.reasoning) = (text.into(), reasoning.into());
    let (kind, message) = exchange::left(is_late);
    let mut error = LlmError::in_stream(kind, message);
    error.partial = Some(partial.into());
    error
}

fn header(line: &str) -> Result<(), String> {
    match serde_json::from_str(line) {
        Ok(Header { recording: RECORDING_VERSION }) => Ok(()),
        Ok(Header { recording }) => Err(format!(
            "recording version {recording} cannot be read; this program reads version {RECORDING_VERSION}; record it again"
        )),
        Err(_) => Err(format!(
            "not a recording: the first line has to be {{\"recording\":{RECORDING_VERSION}}}; name a file that was recorded"
        )),
    }
}

fn exchange(line: &str) -> Result<Exchange, String> {
    let exchange: Exchange = serde_json::from_str(line).map_err(|error| match line.ends_with('\n') {
        true => format!("not an exchange: {error}; remove the line, or record the run again"),
        false => "the line was cut off while it was written; remove it".to_owned(),
    })?;
    match exchange.is_sound() {
        true => Ok(exchange),
        false => {
            Err("the request is not the one that `content` was made of; record the run again".to_owned())
        }
    }
}

/// Where two requests first differ.
struct Difference {
    same_bytes: usize,
    place: String,
    words: String,
}

fn difference(recorded: &Value, requested: &Value) -> Difference {
    let (mut one, mut two) = (Vec::new(), Vec::new());
    leaves(recorded, String::new(), &mut one);
    leaves(requested, String::new(), &mut two);
    let same = one.iter().zip(&two).take_while(|(one, two)| one == two).count();
    let mut same_bytes: usize = one.iter().take(same).map(|(_, text)| text.len()).sum();
    let (place, words) = match (one.get(same), two.get(same)) {
        // The digests differ but no leaf does: only an empty list or object can.
        (None, None) => ("its form".to_owned(), "an empty part is written in two ways".to_owned()),
        (Some((place, one)), Some((other, two))) if place == other => {
            let equal = one.chars().zip(two.chars()).take_while(|(one, two)| one == two);
            let equal: usize = equal.map(|(one, _)| one.len_utf8()).sum();
            same_bytes += equal;
            let from = |text: &str| -> String {
                text.get(equal..).unwrap_or_default().chars().take(EXCERPT).collect()
            };
            let words = format!("recorded is {:?}, asked is {:?}", from(one), from(two));
            (format!("{place} at byte {equal}"), words)
        }
        (one, two) => {
            let name = |leaf: Option<&(String, String)>| {
                leaf.map_or_else(|| "nothing more".to_owned(), |(place, _)| place.clone())
            };
            ("what it holds".to_owned(), format!("recorded is {}, asked is {}", name(one), name(two)))
        }
    };
    Difference { same_bytes, place, words }
}

/// Every string and number with its path, in the order in which a model reads.
fn leaves(value: &Value, place: String, into: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            let is_top = place.is_empty();
            let mut members: Vec<_> = members.iter().collect();
            let rank =
                |key: &str| FIRST.iter().position(|first| is_top && *first == key).unwrap_or(FIRST.len());
            members.sort_by_key(|(key, _)| (rank(key), key.as_str()));
            for (key, member) in members {
                let place = if is_top { key.clone() } else { format!("{place}.{key}") };
                leaves(member, place, into);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                leaves(item, format!("{place}[{at}]"), into);
            }
        }
        Value::String(text) => into.push((place, text.clone())),
        Value::Null | Value::Bool(_) | Value::Number(_) => into.push((place, value.to_string())),
    }
}

/// The members that a model reads first.
const FIRST: [&str; 3] = ["tools", "system", "messages"];
/// Characters of an excerpt.
const EXCERPT: usize = 40;
