//! Turns as bytes: each is written once, and more of them only append.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::body::Body;
use super::json::Json;
use super::memory::Kept;
use crate::call::ToolCall;
use crate::error::{LlmError, LlmErrorKind};
use crate::raw::Raw;
use crate::request::{Message, ModelRequest, ToolResult};

/// One turn as its codec wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Turns that follow each other with the same joint become one.
    pub(crate) joint: Joint,
    /// The values inside of the joint, with commas between them; empty where the turn has nothing to say.
    pub(crate) json: Bytes,
    /// How many values there are.
    pub(crate) values: usize,
    /// What was left out or changed.
    pub(crate) warnings: Vec<Arc<str>>,
}

/// What stands around the values of a turn: two texts that are the same for all turns of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joint {
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
}

impl Joint {
    /// The values stand for themselves.
    pub(crate) const NONE: Self = Self { open: "", close: "" };
}

/// Writes one turn as a codec wants it.
pub(crate) trait TurnWriter {
    /// Who encodes for whom, `api/profile/model`: only a [`Raw`](crate::Raw) of the same origin goes back unchanged.
    fn origin(&self) -> Arc<str>;

    /// Writes the turn `message`, which comes after `before`, into `json`; warnings go to `warnings`.
    ///
    /// It may depend on nothing else, or a turn could not be kept.
    fn write(
        &self,
        message: &Message,
        before: Option<&Message>,
        json: &mut Json,
        warnings: &mut Vec<Arc<str>>,
    ) -> Result<Written, LlmError>;
}

/// What a codec wrote of a turn.
#[derive(Debug)]
pub(crate) struct Written {
    /// What stands around it.
    pub(crate) joint: Joint,
    /// How many values were written.
    pub(crate) values: usize,
    /// Bytes that are there already, in place of what was written.
    pub(crate) instead: Option<Bytes>,
}

impl Written {
    /// So many values.
    pub(crate) fn values(joint: Joint, values: usize) -> Self {
        Self { joint, values, instead: None }
    }

    /// The provider's own turn, which is not copied. `values` only tells whether there are any.
    pub(crate) fn own(joint: Joint, raw: &Raw, values: usize) -> Self {
        let bytes = raw.bytes();
        Self { joint, values: if bytes.is_empty() { 0 } else { values.max(1) }, instead: Some(bytes) }
    }
}

/// The turns of a request, those that are kept from earlier ones as they were.
///
/// # Errors
/// [`LlmErrorKind::InvalidRequest`] in phase [`ErrorPhase::Encode`](crate::ErrorPhase::Encode): no turns, a call
/// without its result, or a result without its call.
pub(crate) fn turns(request: &ModelRequest, writer: &impl TurnWriter) -> Result<Vec<Turn>, LlmError> {
    if request.messages.is_empty() {
        return Err(invalid("a request without a turn"));
    }
    let origin = writer.origin();
    let mut kept = request.memory.take(&origin).unwrap_or(Kept { origin, turns: Vec::new() });
    let known = kept.turns.iter().zip(&request.messages);
    let same = known.take_while(|((turn, _), message)| turn.is_same(message)).count();
    // What goes on in another way is another conversation; one that has gone on further is kept as it is.
    let is_longer = kept.turns.len() > request.messages.len() && same == request.messages.len();
    if !is_longer {
        kept.turns.truncate(same);
    }
    let result = add_turns(request, writer, same, &mut kept);
    let turns = kept.turns.iter().take(request.messages.len()).map(|(_, turn)| turn.clone()).collect();
    request.memory.put(kept);
    result.map(|()| turns)
}

fn add_turns(
    request: &ModelRequest,
    writer: &impl TurnWriter,
    same: usize,
    kept: &mut Kept,
) -> Result<(), LlmError> {
    let mut before = same.checked_sub(1).and_then(|last| request.messages.get(last));
    for message in request.messages.iter().skip(same) {
        check(before.map_or(&[], Message::calls), message)?;
        let mut json = Json::with_capacity(message.bytes() + message.bytes() / 8 + 64);
        let mut warnings = Vec::new();
        let Written { joint, values, instead } = writer.write(message, before, &mut json, &mut warnings)?;
        let json = instead.unwrap_or_else(|| json.take().into());
        kept.turns.push((message.clone(), Turn { joint, json, values, warnings }));
        before = Some(message);
    }
    match before.map_or(&[][..], Message::calls) {
        [] => Ok(()),
        open => Err(unanswered(open)),
    }
}

/// Each call is answered once, right after its turn, and nothing else is answered.
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
    results: &'a [ToolResult],
) -> impl Iterator<Item = (&'a ToolCall, &'a ToolResult)> {
    calls.iter().filter_map(|call| Some((call, results.iter().find(|result| result.call == call.id)?)))
}

impl Turn {
    /// Puts turns into a body, after `[` and without what closes the last of them; returns where they stand and what
    /// closes it.
    pub(crate) fn join(
        turns: &[Self],
        body: &mut Body,
        mut values: impl FnMut(usize, &Self, &mut Body),
    ) -> (Range<usize>, &'static str) {
        let start = body.len();
        let mut last: Option<Joint> = None;
        for (nth, turn) in turns.iter().enumerate().filter(|(_, turn)| turn.values > 0) {
            match last {
                Some(joint) if joint == turn.joint => body.push(&b","[..]),
                Some(joint) => {
                    body.push(joint.close.as_bytes());
                    body.push(&b","[..]);
                    body.push(turn.joint.open.as_bytes());
                }
                None => body.push(turn.joint.open.as_bytes()),
            }
            values(nth, turn, body);
            last = Some(turn.joint);
        }
        (start..body.len(), last.map_or("", |joint| joint.close))
    }
}

fn unanswered(open: &[ToolCall]) -> LlmError {
    let first = open.first().map_or("", |call| &call.id);
    invalid(format!("the call {first} has no result right after its turn"))
}

fn invalid(message: impl Into<Arc<str>>) -> LlmError {
    LlmError::unsendable(LlmErrorKind::InvalidRequest, message)
}
