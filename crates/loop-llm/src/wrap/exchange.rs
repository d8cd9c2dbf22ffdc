//! The file format of recordings, version 1: a line with the version, and one line for each exchange.

use std::sync::Arc;

use loop_core::secrets::Secrets;
use loop_core::types::{FailureKind, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::masking;
use crate::error::{ErrorPhase, LlmError};
use crate::model::{ModelEvent, ModelReply};
use crate::request::ModelRequest;
use crate::scripted::nonce_of;

/// The version of the recording format that this crate reads and writes.
pub const RECORDING_VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) recording: u32,
}

/// Every other line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exchange {
    /// From 1, in the order in which the exchanges ended.
    pub(super) seq: u64,
    /// The name that the recording caller gave to the model.
    pub(super) tier: Arc<str>,
    pub(super) model: Arc<str>,
    /// The call's key within the run, and its attempt. Only for people.
    pub(super) key: Arc<str>,
    pub(super) attempt: u32,
    /// The digest of what the model sees of `request`.
    pub(super) content: Arc<str>,
    /// Replaces the run's nonce, where the request contains one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nonce: Option<Arc<str>>,
    pub(super) request: Value,
    pub(super) events: Vec<ModelEvent>,
    pub(super) end: End,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum End {
    /// A whole reply.
    Reply { reply: Box<ModelReply> },
    /// An error in the middle of the reply.
    Failed { error: LlmError },
    /// An error before the reply began.
    Refused { error: LlmError },
    /// The caller dropped the stream, because its timeout was over or for another reason.
    Dropped { is_late: bool },
    /// The stream ended without a last item.
    BrokeOff,
}

impl End {
    /// The end of an exchange that failed in the middle of its reply. The error of a replayed dropped exchange is
    /// recorded as a dropped exchange again.
    pub(super) fn failed(error: &LlmError) -> Self {
        let is_left = |is_late: &bool| {
            let (kind, message) = left(*is_late);
            (error.kind, error.phase, &*error.message) == (kind, ErrorPhase::Stream, message)
        };
        match [true, false].into_iter().find(is_left) {
            Some(is_late) => Self::Dropped { is_late },
            None => Self::Failed { error: error.clone() },
        }
    }
}

/// The error that replaces a dropped exchange on replay.
pub(super) fn left(is_late: bool) -> (FailureKind, &'static str) {
    match is_late {
        true => (FailureKind::Timeout, "no whole reply in the caller's time when this was recorded"),
        false => (FailureKind::Cancelled, "the recording ends here: the caller went away"),
    }
}

/// A complete exchange before it is written.
#[derive(Debug)]
pub(super) struct CompleteExchange {
    pub(super) tier: Arc<str>,
    pub(super) request: ModelRequest,
    pub(super) events: Vec<ModelEvent>,
    pub(super) end: End,
}

impl CompleteExchange {
    /// The line with this number, without secrets and without what differs from run to run.
    ///
    /// # Errors
    /// Masking made the exchange invalid: a secret is a word of the file format.
    pub(super) fn written(self, seq: u64, secrets: &Secrets) -> Result<Exchange, serde_json::Error> {
        let Self { tier, request, mut events, mut end } = self;
        let nonce = nonce_of_run(&request).map(str::to_owned);
        let meta = &request.meta;
        let key =
            meta.key.strip_prefix(&*meta.run).and_then(|key| key.strip_prefix('/')).unwrap_or(&meta.key);
        let model = model(&request, secrets);
        let key = secrets.mask(key).into();
        let tier = secrets.mask(&tier).into();
        let mut requested = form(&request, secrets)?;
        let content = content(&seen(&requested, nonce.as_deref()));

        for mut pieces in masking::texts(&mut events) {
            masking::pieces(secrets, &mut pieces);
        }
        let mask = |form: &mut Value| masking::tree(secrets, form);
        for event in events.iter_mut().filter(|event| !is_piece(event)) {
            change(event, mask)?;
        }
        if let End::Failed { error } | End::Refused { error } = &mut end {
            // In error messages short secrets are masked as well.
            error.message = secrets.mask_message(&error.message).into();
        }
        change(&mut end, mask)?;
        let word = match &nonce {
            Some(nonce) => {
                let word = word(&requested, &events, &end)?;
                put(&mut requested, nonce, &word);
                stated(&mut events, &mut end, nonce, &word)?;
                Some(word)
            }
            None => None,
        };
        let attempt = request.meta.attempt;
        Ok(Exchange { seq, tier, model, key, attempt, content, nonce: word, request: requested, events, end })
    }
}

impl Exchange {
    /// Whether the digest matches the request.
    pub(super) fn is_sound(&self) -> bool {
        content(&self.seen()) == self.content
    }

    /// What the model saw.
    pub(super) fn seen(&self) -> Value {
        seen(&self.request, self.nonce.as_deref())
    }

    /// Events and end with the caller's `nonce`.
    ///
    /// # Errors
    /// The replacement made the exchange invalid.
    pub(super) fn reported(&self, nonce: Option<&str>) -> Result<(Vec<ModelEvent>, End), serde_json::Error> {
        let (mut events, mut end) = (self.events.clone(), self.end.clone());
        if let (Some(word), Some(nonce)) = (&self.nonce, nonce) {
            stated(&mut events, &mut end, word, nonce)?;
        }
        Ok((events, end))
    }
}

/// The recorded form of a request: without secrets, without its model, which is a member of its own, and without what
/// belongs to one run.
pub(super) fn form(request: &ModelRequest, secrets: &Secrets) -> Result<Value, serde_json::Error> {
    let mut form = serde_json::to_value(request)?;
    if let Some(members) = form.as_object_mut() {
        members.shift_remove("meta");
        members.shift_remove("model");
        members.get_mut("cache").and_then(Value::as_object_mut).and_then(|cache| cache.shift_remove("key"));
    }
    masking::tree(secrets, &mut form);
    Ok(form)
}

/// What a model sees of a recorded request, with a fixed word in place of every nonce.
pub(super) fn seen(form: &Value, nonce: Option<&str>) -> Value {
    let mut seen: Map<String, Value> = form.as_object().cloned().unwrap_or_default();
    for invisible in ["cache", "no_stream", "service_tier", "unsupported"] {
        seen.shift_remove(invisible);
    }
    for result in
        seen.get_mut("messages").into_iter().filter_map(Value::as_array_mut).flatten().flat_map(results)
    {
        for invisible in ["status", "origin"] {
            result.shift_remove(invisible);
        }
    }
    let mut seen = Value::Object(seen);
    if let Some(nonce) = nonce {
        put(&mut seen, nonce, WORD);
    }
    seen
}

/// The results in a message of the role `tool`.
fn results(message: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let results = message.get_mut("results").and_then(Value::as_array_mut);
    results.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The digest of what a model sees.
pub(super) fn content(seen: &Value) -> Arc<str> {
    digest("recording/content", seen).to_string().into()
}

/// The recorded name of the request's model.
pub(super) fn model(request: &ModelRequest, secrets: &Secrets) -> Arc<str> {
    secrets.mask(&request.model).into()
}

/// The nonce of a run's prompts: in the delimiters around the last untrusted text of the first turn, or in the text of
/// the prompt.
pub(super) fn nonce_of_run(request: &ModelRequest) -> Option<&str> {
    let first = request.messages.first().map_or("", |message| message.text());
    let marked = first.rsplit_once("\n<<<end ").and_then(|(before, after)| {
        let (label, nonce) = after.split(">>>").next()?.rsplit_once(' ')?;
        before.contains(&format!("<<<{label} {nonce}>>>\n")).then_some(nonce)
    });
    // A shorter one could match unrelated text.
    marked.or_else(|| nonce_of(request)).filter(|nonce| nonce.len() >= LEAST)
}

/// A replacement for the nonce that occurs nowhere in the exchange.
fn word(requested: &Value, events: &[ModelEvent], end: &End) -> Result<Arc<str>, serde_json::Error> {
    let mut all = requested.to_string();
    all.push_str(&serde_json::to_string(events)?);
    all.push_str(&serde_json::to_string(end)?);
    let words = (2..).map(|n| format!("{{{{nonce_{n}}}}}"));
    let word = [WORD.to_owned()].into_iter().chain(words).find(|word| !all.contains(word));
    Ok(word.unwrap_or_default().into())
}

fn put(form: &mut Value, from: &str, to: &str) {
    masking::strings(form, &|string| {
        if string.contains(from) {
            *string = string.replace(from, to);
        }
    });
}

/// Replaces `from` by `to` in all events and in the end.
fn stated(events: &mut [ModelEvent], end: &mut End, from: &str, to: &str) -> Result<(), serde_json::Error> {
    for mut pieces in masking::texts(events) {
        masking::replace(&mut pieces, from, to);
    }
    for event in events.iter_mut().filter(|event| !is_piece(event)) {
        change(event, |form| put(form, from, to))?;
    }
    change(end, |form| put(form, from, to))
}

/// Changes a value by way of its JSON.
fn change<T: Serialize + for<'de> Deserialize<'de>>(
    value: &mut T,
    by: impl Fn(&mut Value),
) -> Result<(), serde_json::Error> {
    let mut form = serde_json::to_value(&*value)?;
    by(&mut form);
    *value = serde_json::from_value(form)?;
    Ok(())
}

fn is_piece(event: &ModelEvent) -> bool {
    matches!(
        event,
        ModelEvent::TextDelta { .. }
            | ModelEvent::ReasoningDelta { .. }
            | ModelEvent::ToolArgumentsDelta { .. }
    )
}

/// Replaces a nonce.
const WORD: &str = "{{nonce}}";
/// Minimum bytes of a nonce.
const LEAST: usize = 8;
