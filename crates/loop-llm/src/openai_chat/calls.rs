//! Assembles tool calls from fragments, as different kinds of servers send them.

use serde_json::value::RawValue;

use crate::codec::{Assembly, Number, RawMembers};
use crate::error::LlmError;

/// Finds the call of a fragment.
#[derive(Debug)]
pub(super) struct CallFinder {
    pub(super) last: Option<usize>,
    /// Whether each fragment repeats all arguments so far.
    has_whole_arguments: bool,
}

impl CallFinder {
    pub(super) fn new(has_whole_arguments: bool) -> Self {
        Self { last: None, has_whole_arguments }
    }

    /// Adds one fragment and returns its call. `place` is the position of a whole call in its list.
    pub(super) fn push(
        &mut self,
        fragment: &RawMembers<'_>,
        place: Option<u64>,
        reply: &mut Assembly,
    ) -> Result<Option<usize>, LlmError> {
        let function = fragment.get("function").map(RawMembers::of).transpose()?.unwrap_or_default();
        let (id, name) = (fragment.text("id"), function.text("name"));
        let index =
            fragment.get("index").and_then(|index| serde_json::from_str::<Number>(index.get()).ok()?.index());
        let says_nothing = || {
            let arguments = function.get("arguments").is_none_or(|arguments| arguments.get() == "\"\"");
            arguments && id.some().is_none() && name.some().is_none()
        };
        if place.is_some() && says_nothing() {
            return Ok(None);
        }
        let Some(at) = self.begin(id.or_empty(), name.or_empty(), index, place, reply) else {
            reply.pass_over(function.get("arguments").map_or(0, |arguments| arguments.get().len()));
            return Ok(None);
        };
        match function.get("arguments") {
            None => {}
            Some(piece) if piece.get().starts_with('"') => {
                let piece = crate::codec::exact(piece)?;
                self.add(at, piece.or_empty(), reply)?;
            }
            Some(whole) => self.add(at, whole.get(), reply)?,
        }
        Ok(Some(at))
    }

    /// The call of a fragment with this id, name and index. A new call is reported.
    pub(super) fn begin(
        &mut self,
        id: &str,
        name: &str,
        index: Option<u64>,
        place: Option<u64>,
        reply: &mut Assembly,
    ) -> Option<usize> {
        let at = match place {
            Some(_) => reply.add_call(id, place),
            None => self.place(id, name, index, reply),
        };
        if let Some(last) = self.last.filter(|last| at != Some(*last)) {
            reply.end_call(last);
        }
        self.last = at;
        // A name may come late, or be repeated in each fragment.
        reply.name_call(at?, id, name);
        at
    }

    /// A fragment of a call's arguments, or all arguments so far.
    pub(super) fn add(&self, at: usize, piece: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        let before = reply.calls().open().get(at).map_or("", |call| &call.arguments);
        let is_whole = || serde_json::from_str::<&RawValue>(before).is_ok();
        if self.has_whole_arguments && !before.is_empty() && piece.starts_with(before) && is_whole() {
            return reply.set_arguments(at, piece);
        }
        reply.add_arguments(at, piece)
    }

    /// The call of a fragment, or a new one. `None` for a call above the maximum.
    fn place(&mut self, id: &str, name: &str, index: Option<u64>, reply: &mut Assembly) -> Option<usize> {
        let open = reply.calls().open();
        let by_index = || index.and_then(|_| open.iter().rposition(|call| call.index == index));
        if !id.is_empty() {
            let here =
                open.iter().rposition(|call| call.id == id && (index.is_none() || call.index == index));
            if here.is_some() {
                return here;
            }
            let elsewhere = open.iter().rposition(|call| call.id == id);
            if elsewhere.is_some() && name.is_empty() {
                return elsewhere;
            }
            // A call whose id comes after its first fragment.
            let unnamed = by_index().filter(|at| open.get(*at).is_some_and(|call| call.id.is_empty()));
            if unnamed.is_some() {
                return unnamed;
            }
            // Some servers make a new id for each fragment of a call. What repeats the name without an index is a call.
            let is_piece = index.is_none() && name.is_empty();
            let begun = by_index().or_else(|| self.last.filter(|_| is_piece));
            if let Some(at) = begun.filter(|at| reply.goes_on_with(*at, name)) {
                return Some(at);
            }
            if elsewhere.is_some() {
                reply.warn("duplicate_wire_id");
            }
            return reply.add_call(id, index);
        }
        if index.is_some() {
            return by_index().or_else(|| reply.add_call(id, index));
        }
        match self.last {
            Some(at) => Some(at),
            None if !name.is_empty() => reply.add_call(id, index),
            None => None,
        }
    }
}
