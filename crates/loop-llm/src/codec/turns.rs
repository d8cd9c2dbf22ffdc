//! Turns as bytes: each is written once, and more of them only append.

use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;

use super::body::Body;
use super::checks;
use super::json::Json;
use super::memory::Kept;
use super::values;
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
    /// What of it the model takes in a lesser way only.
    pub(crate) changed: Vec<&'static str>,
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
    /// What its turns are kept under: all that their bytes depend on beside the turns.
    fn kept_under(&self) -> Arc<str>;

    /// Writes the turn `message`, which comes after `before`, into `json`; what the model takes in a lesser way only is
    /// named in `changed`.
    ///
    /// It may depend on nothing else, or a turn could not be kept.
    fn write(
        &self,
        message: &Message,
        before: Option<&Message>,
        json: &mut Json,
        changed: &mut Vec<&'static str>,
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

    /// The provider's own turn, which is not copied.
    ///
    /// # Errors
    /// It is something else than objects with commas between them, which would change what stands around it.
    pub(crate) fn own(joint: Joint, raw: &Raw) -> Result<Self, LlmError> {
        let values = values::count(raw.json()).ok_or_else(|| {
            invalid(format!("the raw turn of {} is not JSON that can go back", raw.origin()))
        })?;
        Ok(Self { joint, values, instead: Some(raw.bytes()) })
    }
}

/// Turns that were put together: what stands between the opening of the first and the closing of the last.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// How many turns.
    turns: usize,
    first: Joint,
    last: Joint,
    /// Empty where none of them says anything.
    json: Bytes,
}

/// The turns of a request, which go back into its memory when they are done with.
#[derive(Debug)]
pub(crate) struct Turns<'a> {
    request: &'a ModelRequest,
    kept: Kept,
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

/// The turns of a request, those that are kept from earlier ones as they were.
///
/// # Errors
/// [`LlmErrorKind::InvalidRequest`] in phase [`ErrorPhase::Encode`](crate::ErrorPhase::Encode): no turns, a call
/// without its result, or a result without its call.
pub(crate) fn turns<'a>(request: &'a ModelRequest, writer: &impl TurnWriter) -> Result<Turns<'a>, LlmError> {
    if request.messages.is_empty() {
        return Err(invalid("a request without a turn"));
    }
    let key = writer.kept_under();
    let kept = request.memory.take(&key).unwrap_or(Kept { key, ..Kept::default() });
    let mut turns = Turns { request, kept };
    let known = turns.kept.messages.iter().zip(&request.messages);
    let mut same = known.take_while(|(turn, message)| turn.is_same(message)).count();
    // What goes on in another way is another conversation; one that has gone on further is kept as it is.
    let is_longer = turns.kept.turns.len() > request.messages.len() && same == request.messages.len();
    if !is_longer || turns.kept.covered() > same {
        same = turns.kept.cut(same);
    }
    add_turns(request, writer, same, &mut turns.kept)?;
    Ok(turns)
}

impl Kept {
    /// How many turns are put together.
    fn covered(&self) -> usize {
        self.runs.iter().map(|run| run.turns).sum()
    }

    /// Forgets turns from this one on, and those that were put together with them; returns how many are left.
    fn cut(&mut self, from: usize) -> usize {
        let mut left = from;
        while self.covered() > from {
            self.runs.pop();
            left = self.covered();
        }
        self.messages.truncate(left);
        self.turns.truncate(left);
        left
    }

    /// Puts all but the last turns together. What was put together before is copied again only with as much that is new,
    /// so that a byte is copied a few times in all.
    fn put_together(&mut self) {
        let covered = self.covered();
        let end = self.turns.len().saturating_sub(APART);
        if end < covered + APART {
            return;
        }
        let Some(new) = self.turns.get_mut(covered..end) else { return };
        let mut run = Run::of(new);
        for turn in new {
            turn.json = Bytes::new();
        }
        while let Some(before) = self.runs.pop_if(|before| before.json.len() <= 2 * run.json.len()) {
            run = before.and(&run);
        }
        self.runs.push(run);
    }
}

impl Run {
    fn of(turns: &[Turn]) -> Self {
        let mut said = turns.iter().filter(|turn| turn.values > 0);
        let Some(first) = said.next() else {
            return Self { turns: turns.len(), first: Joint::NONE, last: Joint::NONE, json: Bytes::new() };
        };
        let mut json = Vec::with_capacity(turns.iter().map(|turn| turn.json.len() + 64).sum());
        json.extend_from_slice(&first.json);
        let mut last = first.joint;
        for turn in said {
            between(last, turn.joint, |piece| json.extend_from_slice(piece.as_bytes()));
            json.extend_from_slice(&turn.json);
            last = turn.joint;
        }
        Self { turns: turns.len(), first: first.joint, last, json: json.into() }
    }

    fn and(&self, next: &Self) -> Self {
        let turns = self.turns + next.turns;
        match (self.json.is_empty(), next.json.is_empty()) {
            (_, true) => Self { turns, ..self.clone() },
            (true, false) => Self { turns, ..next.clone() },
            (false, false) => {
                let mut json = Vec::with_capacity(self.json.len() + next.json.len() + 64);
                json.extend_from_slice(&self.json);
                between(self.last, next.first, |piece| json.extend_from_slice(piece.as_bytes()));
                json.extend_from_slice(&next.json);
                Self { turns, first: self.first, last: next.last, json: json.into() }
            }
        }
    }
}

/// What stands between the values of one turn and those of the next.
fn between(last: Joint, next: Joint, mut push: impl FnMut(&'static str)) {
    if last == next {
        return push(",");
    }
    push(last.close);
    push(",");
    push(next.open);
}

/// What stands before a late instruction where it can only travel as a text of the user's.
pub(crate) const OPERATOR: &str = "[operator]\n";
/// How many turns at the end are not put together with others: what goes on in another way mostly does so there.
const APART: usize = 8;

fn add_turns(
    request: &ModelRequest,
    writer: &impl TurnWriter,
    same: usize,
    kept: &mut Kept,
) -> Result<(), LlmError> {
    let mut before = same.checked_sub(1).and_then(|last| request.messages.get(last));
    for message in request.messages.iter().skip(same) {
        check(before.map_or(&[], Message::calls), message)?;
        checks::pictures(message)?;
        let mut json = Json::with_capacity(message.bytes() + message.bytes() / 8 + 64);
        let mut changed = Vec::new();
        let Written { joint, values, instead } = writer.write(message, before, &mut json, &mut changed)?;
        let json = instead.unwrap_or_else(|| json.take().into());
        kept.messages.push(message.clone());
        kept.turns.push(Turn { joint, json, values, changed });
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

impl Turns<'_> {
    /// Puts the turns into a body, after `[` and without what closes the last of them; returns where they stand and what
    /// closes it.
    pub(crate) fn join(&mut self, body: &mut Body) -> (Range<usize>, &'static str) {
        if self.kept.turns.len() == self.request.messages.len() {
            self.kept.put_together();
        }
        let mut joining = Joining { body, last: None };
        let start = joining.body.len();
        for run in self.kept.runs.iter().filter(|run| !run.json.is_empty()) {
            joining.begin(run.first);
            joining.body.push(run.json.clone());
            joining.last = Some(run.last);
        }
        for turn in self.iter().skip(self.kept.covered()).filter(|turn| turn.values > 0) {
            joining.begin(turn.joint);
            joining.body.push(turn.json.clone());
        }
        joining.end(start)
    }

    /// The same, where a codec has something to put into the values of a turn: each turn stays apart.
    pub(crate) fn join_with(
        &self,
        body: &mut Body,
        mut values: impl FnMut(usize, &Turn, &mut Body),
    ) -> (Range<usize>, &'static str) {
        let mut joining = Joining { body, last: None };
        let start = joining.body.len();
        for (nth, turn) in self.iter().enumerate().filter(|(_, turn)| turn.values > 0) {
            joining.begin(turn.joint);
            values(nth, turn, joining.body);
        }
        joining.end(start)
    }
}

/// Turns on their way into a body.
struct Joining<'a> {
    body: &'a mut Body,
    last: Option<Joint>,
}

impl Joining<'_> {
    fn begin(&mut self, joint: Joint) {
        match self.last.replace(joint) {
            Some(last) => between(last, joint, |piece| self.body.push(piece.as_bytes())),
            None => self.body.push(joint.open.as_bytes()),
        }
    }

    fn end(self, start: usize) -> (Range<usize>, &'static str) {
        (start..self.body.len(), self.last.map_or("", |joint| joint.close))
    }
}

fn unanswered(open: &[ToolCall]) -> LlmError {
    let first = open.first().map_or("", |call| &call.id);
    invalid(format!("the call {first} has no result right after its turn"))
}

pub(super) fn invalid(message: impl Into<Arc<str>>) -> LlmError {
    LlmError::unsendable(LlmErrorKind::InvalidRequest, message)
}
