//! Encoded turns: each is written once, and new turns are only appended.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;

use super::Target;
use super::body::Body;
use super::checks;
use super::json::Json;
use super::memory::EncodedTurns;
use super::values;
use loop_core::types::{FailureKind, ToolCall};

use crate::error::LlmError;
use crate::raw::Raw;
use crate::request::{Author, Image, Message, ModelRequest, ToolOutput};

/// One encoded turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Consecutive turns with the same joint become one message.
    pub(crate) joint: Wrapper,
    /// The range of its values in the bytes of all turns, with commas between them; empty for a turn without content.
    pub(crate) place: Range<usize>,
    pub(crate) values: usize,
    /// Features of the turn that the model supports only in part.
    pub(crate) changed: Vec<&'static str>,
}

/// The text around the values of a turn, the same for all turns of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wrapper {
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
}

impl Wrapper {
    /// Values without text around them.
    pub(crate) const NONE: Self = Self { open: "", close: "" };
}

/// Writes one turn for a codec.
pub(crate) trait TurnWriter {
    /// Writes the turn `message`, which comes after `before`, into `json`. Features that the model supports only in part
    /// are added to `changed`.
    ///
    /// The bytes may depend on nothing else, since turns are cached.
    fn write(
        &self,
        message: &Message,
        before: Option<&Message>,
        json: &mut Json,
        changed: &mut Vec<&'static str>,
    ) -> Result<WrittenTurn, LlmError>;
}

/// A written turn.
#[derive(Debug)]
pub(crate) struct WrittenTurn {
    pub(crate) joint: Wrapper,
    pub(crate) values: usize,
}

impl WrittenTurn {
    /// The provider's own form of a turn.
    ///
    /// # Errors
    /// It is not a list of objects separated by commas.
    pub(crate) fn own(joint: Wrapper, raw: &Raw, json: &mut Json) -> Result<Self, LlmError> {
        let values = values::count(raw.json()).ok_or_else(|| {
            invalid(format!("the raw turn of {} is not JSON that can go back", raw.origin()))
        })?;
        json.raw(raw.json());
        Ok(Self { joint, values })
    }
}

/// The turns of a request, which return to its memory on drop.
#[derive(Debug)]
pub(crate) struct Turns<'a> {
    request: &'a ModelRequest,
    kept: EncodedTurns,
}

impl Deref for Turns<'_> {
    type Target = [Turn];

    fn deref(&self) -> &[Turn] {
        self.kept.turns.get(..self.request.messages.len()).unwrap_or(&self.kept.turns)
    }
}

impl Drop for Turns<'_> {
    fn drop(&mut self) {
        self.request.memory.put(std::mem::take(&mut self.kept));
    }
}

/// The turns of a request for `target`. Those that are cached are not encoded again. Texts that a cached turn shares are
/// not compared.
///
/// # Errors
/// [`FailureKind::InvalidRequest`] in phase [`ErrorPhase::Encode`](crate::ErrorPhase::Encode): no turns, a call without
/// its result, or a result without its call.
pub(crate) fn turns<'a>(
    request: &'a ModelRequest,
    target: &Target<'_>,
    writer: &impl TurnWriter,
) -> Result<Turns<'a>, LlmError> {
    if request.messages.is_empty() {
        return Err(invalid("a request without a turn"));
    }
    let key = target.kept_under();
    let kept = request.memory.take(&key).unwrap_or(EncodedTurns { key, ..EncodedTurns::default() });
    let mut turns = Turns { request, kept };
    let known = turns.kept.messages.iter().zip(&request.messages);
    let same = known.take_while(|(turn, message)| turn.is_same(message)).count();
    // Turns that differ belong to another conversation. A longer cache of the same conversation is kept.
    let is_longer = turns.kept.turns.len() > request.messages.len() && same == request.messages.len();
    if is_longer {
        return Ok(turns);
    }
    turns.kept.messages.truncate(same);
    turns.kept.turns.truncate(same);
    add_turns(request, writer, target.takes_pictures(), same, &mut turns.kept)?;
    Ok(turns)
}

/// The last turn with content.
fn last_reply(turns: &[Turn]) -> Option<&Turn> {
    turns.iter().rev().find(|turn| turn.values > 0)
}

impl EncodedTurns {
    /// The bytes of the cached turns, with capacity for so many more. They are copied while a body that shares them is
    /// still being sent.
    fn open(&mut self, room: usize) -> Json {
        let end = last_reply(&self.turns).map_or(0, |turn| turn.place.end);
        let room = if end + room > self.json.capacity() { room.max(end / 4) } else { room };
        let mut json = match Arc::get_mut(&mut self.json) {
            Some(json) => std::mem::take(json),
            None => {
                let mut json = Vec::with_capacity(end + room);
                json.extend_from_slice(self.json.get(..end).unwrap_or_default());
                json
            }
        };
        json.truncate(end);
        json.reserve_exact(room);
        Json::from(json)
    }
}

/// The text between the values of one turn and those of the next.
fn between(last: Wrapper, next: Wrapper, mut push: impl FnMut(&'static str)) {
    if last == next {
        return push(",");
    }
    push(last.close);
    push(",");
    push(next.open);
}

/// The prefix of a late instruction that can only be sent as text of the user.
pub(crate) const OPERATOR: &str = "[operator]\n";
fn add_turns(
    request: &ModelRequest,
    writer: &impl TurnWriter,
    takes_pictures: bool,
    same: usize,
    kept: &mut EncodedTurns,
) -> Result<(), LlmError> {
    let messages = request.messages.get(same..).unwrap_or_default();
    let before = same.checked_sub(1).and_then(|last| request.messages.get(last));
    let result = if messages.is_empty() {
        Ok(())
    } else {
        let mut json = kept.open(messages.iter().map(room).sum());
        let result = write_turns(messages, before, writer, takes_pictures, &mut json, kept);
        kept.json = Arc::new(json.take());
        result
    };
    result?;
    match request.messages.last().map_or(&[][..], Message::calls) {
        [] => Ok(()),
        open => Err(unanswered(open)),
    }
}

/// The turn as this model reads it: where it takes no pictures, a line says so in place of those that tools returned.
fn read(message: &Message, takes_pictures: bool) -> Cow<'_, Message> {
    let without = |text: &Arc<str>, images: &[Image]| -> Arc<str> {
        format!("{text}\n\n[pictures that this model does not take: {}]", images.len()).into()
    };
    match message {
        Message::Tool { results }
            if !takes_pictures && results.iter().any(|result| !result.images.is_empty()) =>
        {
            let results = results.iter().map(|result| match result.images.as_slice() {
                [] => result.clone(),
                images => {
                    ToolOutput { text: without(&result.text, images), images: Vec::new(), ..result.clone() }
                }
            });
            Cow::Owned(Message::Tool { results: results.collect() })
        }
        // What a user shows is sent in any case.
        Message::User { text, images, author: author @ Author::Runner }
            if !takes_pictures && !images.is_empty() =>
        {
            let text = without(text, images);
            Cow::Owned(Message::User { text, images: Vec::new(), author: *author })
        }
        Message::User { .. } | Message::Assistant(_) | Message::Tool { .. } | Message::Operator { .. } => {
            Cow::Borrowed(message)
        }
    }
}

fn write_turns<'a>(
    messages: &'a [Message],
    mut before: Option<&'a Message>,
    writer: &impl TurnWriter,
    takes_pictures: bool,
    json: &mut Json,
    kept: &mut EncodedTurns,
) -> Result<(), LlmError> {
    let mut last = last_reply(&kept.turns).map(|turn| turn.joint);
    for message in messages {
        check(before.map_or(&[], Message::calls), message)?;
        checks::pictures(message)?;
        let (end, mut changed) = (json.len(), Vec::new());
        // Usually the values continue those before.
        json.raw(if last.is_some() { "," } else { "" });
        let start = json.len();
        let WrittenTurn { joint, values } =
            writer.write(&read(message, takes_pictures), before, json, &mut changed)?;
        let place = if values == 0 {
            json.truncate(end);
            end..end
        } else {
            let mut between_them = String::new();
            match last.replace(joint) {
                Some(last) => between(last, joint, |piece| between_them.push_str(piece)),
                None => between_them.push_str(joint.open),
            }
            let written = json.len() - start;
            if between_them.len() != start - end {
                json.replace(end..start, &between_them);
            }
            json.len() - written..json.len()
        };
        kept.messages.push(message.clone());
        kept.turns.push(Turn { joint, place, values, changed });
        before = Some(message);
    }
    Ok(())
}

/// Usual upper bound of the bytes of an encoded turn.
fn room(message: &Message) -> usize {
    let values = match message {
        Message::Assistant(turn) => {
            turn.calls.len() + turn.raw.as_ref().map_or(0, |raw| raw.json().len() / 128)
        }
        Message::Tool { results } => results.len(),
        Message::User { .. } | Message::Operator { .. } => 0,
    };
    message.bytes() + message.bytes() / 16 + 128 * (1 + values)
}

/// Checks that each call is answered once, right after its turn, and nothing else is answered.
fn check(open: &[ToolCall], message: &Message) -> Result<(), LlmError> {
    let calls = message.calls();
    for (nth, call) in calls.iter().enumerate() {
        if call.id.is_empty() || calls.iter().skip(nth + 1).any(|other| other.id == call.id) {
            return Err(invalid(format!("the id {:?} does not name one call", call.id)));
        }
    }
    let Message::Tool { results } = message else {
        return if open.is_empty() { Ok(()) } else { Err(unanswered(open)) };
    };
    if results.is_empty() {
        return Err(invalid("a turn of results without a result"));
    }
    for result in results {
        if !open.iter().any(|call| call.id == result.call) {
            return Err(invalid(format!("a result for {}, which nobody called", result.call)));
        }
    }
    for call in open {
        if results.iter().filter(|result| result.call == call.id).count() != 1 {
            return Err(invalid(format!("the call {} has not exactly one result", call.id)));
        }
    }
    Ok(())
}

/// The results of a turn in the order of its calls, each with its call.
pub(crate) fn results_in_order<'a>(
    calls: &'a [ToolCall],
    results: &'a [ToolOutput],
) -> impl Iterator<Item = (&'a ToolCall, &'a ToolOutput)> {
    calls.iter().filter_map(|call| Some((call, results.iter().find(|result| result.call == call.id)?)))
}

impl Turns<'_> {
    /// Puts the turns into a body, after `[` and without the text that closes the last of them. Returns their range and
    /// the closing text.
    pub(crate) fn join(&self, body: &mut Body) -> (Range<usize>, &'static str) {
        self.join_marked(body, [], "")
    }

    /// Like [`join`](Self::join), with `mark` before the last byte of some turns with content, given by their order.
    pub(crate) fn join_marked(
        &self,
        body: &mut Body,
        marked: impl IntoIterator<Item = usize>,
        mark: &'static str,
    ) -> (Range<usize>, &'static str) {
        let start = body.len();
        let Some(last) = last_reply(self) else { return (start..start, "") };
        let json = Bytes::from_owner(SharedBytes(Arc::clone(&self.kept.json)));
        let mut done = 0;
        for turn in marked.into_iter().filter_map(|nth| self.get(nth)) {
            let at = turn.place.end.saturating_sub(1);
            body.push(json.slice(done..at));
            body.push(mark.as_bytes());
            done = at;
        }
        body.push(json.slice(done..last.place.end));
        (start..body.len(), last.joint.close)
    }
}

/// Bytes that return to the memory once they are no longer shared.
struct SharedBytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn unanswered(open: &[ToolCall]) -> LlmError {
    let first = open.first().map_or("", |call| &call.id);
    invalid(format!("the call {first} has no result right after its turn"))
}

pub(super) fn invalid(message: impl Into<Arc<str>>) -> LlmError {
    LlmError::unsendable(FailureKind::InvalidRequest, message)
}
