//! The content blocks of a reply, sent back in later requests where text and calls are not enough.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::turn::legal_id;
use loop_core::types::ToolCall;

use crate::call::{ReplyEnd, object_text};
use crate::codec::{End, Json, RawMembers, text};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Thinking,
    Redacted,
    /// A call of the caller's tools: its number, in the order in which they began.
    Call(usize),
    /// A server tool or an unknown type of block.
    Other,
}

#[derive(Debug)]
pub(super) struct Block {
    index: Option<u64>,
    pub(super) kind: Kind,
    form: BlockForm,
    /// Whether text and calls contain everything of it.
    is_plain: bool,
    /// Whether it is complete.
    is_closed: bool,
    /// Whether it has more members than are kept.
    is_full: bool,
    has_text: bool,
    has_signature: bool,
    /// Whether its input is streamed as fragments.
    is_fed: bool,
    /// The id of a server tool call that has no result yet.
    waits: Option<String>,
    /// The id of the server tool call that it is the result of.
    answers: Option<String>,
}

/// How the JSON of a block is kept.
#[derive(Debug)]
enum BlockForm {
    /// Unchanged.
    Whole(String),
    /// Member by member.
    Members(Vec<(String, Member)>),
}

#[derive(Debug)]
enum Member {
    Json(String),
    Text(String),
    /// The values of a list, without the brackets.
    List(String),
}

impl Block {
    /// A block that begins, or a whole one.
    pub(super) fn new(
        index: Option<u64>,
        kind: Kind,
        raw: &RawValue,
        fields: &RawMembers<'_>,
        is_whole: bool,
    ) -> Self {
        let as_it_came = is_whole && !matches!(kind, Kind::Call(_));
        let members = || {
            fields
                .0
                .iter()
                .take(MAX_MEMBERS)
                .map(|(key, value)| (key.as_ref().to_owned(), Member::Json(value.get().to_owned())))
        };
        let is_plain = fields.0.iter().all(|(key, value)| match kind {
            Kind::Text => matches!(key.as_ref(), "type" | "text") || is_nothing(value),
            Kind::Call(_) => {
                let is_direct =
                    || RawMembers::of(value).unwrap_or_default().text("type").some() == Some("direct");
                matches!(key.as_ref(), "type" | "id" | "name" | "input")
                    || is_nothing(value)
                    || (key == "caller" && is_direct())
            }
            Kind::Thinking | Kind::Redacted | Kind::Other => false,
        });
        let is_use =
            kind == Kind::Other && fields.text("type").some().is_some_and(|kind| kind.ends_with("tool_use"));
        Self {
            index,
            kind,
            form: if as_it_came {
                BlockForm::Whole(raw.get().to_owned())
            } else {
                BlockForm::Members(members().collect())
            },
            is_plain,
            is_closed: is_whole,
            is_full: !as_it_came && fields.0.len() > MAX_MEMBERS,
            has_text: !fields.text("text").or_empty().trim().is_empty(),
            has_signature: fields.text("signature").some().is_some(),
            is_fed: false,
            waits: fields.text("id").some().filter(|_| is_use).map(str::to_owned),
            answers: fields.text("tool_use_id").some().map(str::to_owned),
        }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// A text delta of a member.
    pub(super) fn add_text(&mut self, key: &str, piece: &str) {
        self.has_text |= key == "text" && !piece.trim().is_empty();
        self.is_plain &= key == "text";
        let Some(member) = self.member(key) else { return };
        match member {
            Member::Text(text) => text.push_str(piece),
            Member::Json(json) => {
                let before = serde_json::from_str::<String>(json).unwrap_or_default();
                *member = Member::Text(before + piece);
            }
            Member::List(_) => *member = Member::Text(piece.to_owned()),
        }
    }

    /// Sets the signature.
    pub(super) fn sign(&mut self, signature: &str) {
        self.has_signature |= !signature.is_empty();
        if let Some(member) = self.member("signature") {
            *member = Member::Text(signature.to_owned());
        }
    }

    /// A fragment of a server tool's input.
    pub(super) fn feed(&mut self, piece: &str) {
        let is_first = !std::mem::replace(&mut self.is_fed, true);
        match self.member("input") {
            Some(Member::Json(json)) if !is_first => json.push_str(piece),
            Some(member) => *member = Member::Json(piece.to_owned()),
            None => {}
        }
    }

    /// Adds a value to a member that is a list.
    pub(super) fn add_value(&mut self, key: &str, value: &RawValue) {
        self.is_plain = false;
        let Some(member) = self.member(key) else { return };
        let before = match member {
            Member::List(list) => {
                list.push(',');
                list.push_str(value.get());
                return;
            }
            Member::Json(json) => json.strip_prefix('[').and_then(|list| list.strip_suffix(']')),
            Member::Text(_) => None,
        };
        let before = before.map(str::trim).filter(|before| !before.is_empty());
        *member = Member::List(match before {
            Some(before) => format!("{before},{}", value.get()),
            None => value.get().to_owned(),
        });
    }

    /// A delta of an unknown type: strings are appended, other values replace those before.
    pub(super) fn add_unknown(&mut self, delta: &RawMembers<'_>) {
        self.is_plain = false;
        for (key, value) in delta.0.iter().filter(|(key, _)| key != "type") {
            let piece = text(value);
            if piece.is_text() {
                self.add_text(key, piece.or_empty());
            } else if value.get() != "null"
                && let Some(member) = self.member(key)
            {
                *member = Member::Json(value.get().to_owned());
            }
        }
    }

    /// The member of this name, which is added if there is none yet. `None` above the maximum number of members.
    fn member(&mut self, key: &str) -> Option<&mut Member> {
        let BlockForm::Members(members) = &mut self.form else { return None };
        let at = members.iter().position(|(name, _)| name == key).unwrap_or(members.len());
        if at == members.len() {
            if at >= MAX_MEMBERS {
                self.is_full = true;
                return None;
            }
            members.push((key.to_owned(), Member::Json("null".to_owned())));
        }
        members.get_mut(at).map(|(_, member)| member)
    }

    fn write(&self, call: Option<&ToolCall>, json: &mut Json) {
        let members = match &self.form {
            BlockForm::Whole(whole) => {
                json.raw(whole);
                return;
            }
            BlockForm::Members(members) => members,
        };
        let (mut has_id, mut has_input) = (false, false);
        for (nth, (key, member)) in members.iter().enumerate() {
            json.raw(if nth == 0 { "{" } else { "," }).value(key).raw(":");
            match (key.as_str(), member, call) {
                ("id", _, Some(call)) => {
                    has_id = true;
                    json.value(&legal_id(&call.id))
                }
                ("input", _, Some(call)) => {
                    has_input = true;
                    json.raw(&object_text(&call.arguments))
                }
                ("input", Member::Json(fed), None) if self.is_fed => {
                    let is_object =
                        serde_json::from_str::<&RawValue>(fed).is_ok_and(|it| it.get().starts_with('{'));
                    json.raw(if is_object { fed } else { "{}" })
                }
                (_, Member::Json(written), _) => json.raw(written),
                (_, Member::Text(text), _) => json.value(text),
                (_, Member::List(list), _) => json.raw("[").raw(list).raw("]"),
            };
        }
        if let Some(call) = call {
            if !has_id {
                json.raw(",\"id\":").value(&legal_id(&call.id));
            }
            if !has_input {
                json.raw(",\"input\":").raw(&object_text(&call.arguments));
            }
        }
        json.raw("}");
    }
}

/// The blocks of a reply, in order.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    list: Vec<Block>,
    /// The position in the list of the latest block of an index.
    by_index: BTreeMap<u64, usize>,
    bytes: usize,
    /// Whether something was dropped, so that the blocks cannot be sent back.
    is_lost: bool,
}

impl Blocks {
    pub(super) fn push(&mut self, block: Block, bytes: usize) {
        if !self.grow(bytes) {
            return;
        }
        if self.list.len() == MAX_BLOCKS {
            self.lose();
            return;
        }
        if let Some(index) = block.index {
            self.by_index.insert(index, self.list.len());
        }
        self.list.push(block);
    }

    /// The block of this index, or the latest without an index. `None` where nothing is kept any more.
    pub(super) fn at(&mut self, index: Option<u64>) -> Option<&mut Block> {
        match index {
            Some(index) => self.by_index.get(&index).and_then(|at| self.list.get_mut(*at)),
            None => self.list.last_mut(),
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        self.list.iter_mut()
    }

    /// Whether so many more bytes are kept. Above the maximum the blocks are not sent back.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        if self.bytes > MAX_KEPT {
            self.lose();
        }
        !self.is_lost
    }

    /// Something was dropped: the blocks cannot be sent back, and no more is kept.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        self.list = Vec::new();
        self.by_index = BTreeMap::new();
    }

    /// The blocks for later requests, separated by commas. `None` where text and calls are enough. Thinking without a
    /// signature is only included where it `may_be_unsigned`.
    pub(super) fn raw(&self, end: &End, calls: &[ToolCall], may_be_unsigned: bool) -> Option<String> {
        // A refused turn is not continued.
        if self.is_lost || end.stop == ReplyEnd::Refusal || self.list.iter().any(|block| block.is_full) {
            return None;
        }
        let goes_on = matches!(end.stop, ReplyEnd::PauseTurn | ReplyEnd::ToolUse);
        let mut kept: Vec<&Block> = self
            .list
            .iter()
            .filter(|block| match block.kind {
                Kind::Text => block.has_text,
                Kind::Thinking => block.is_closed && (block.has_signature || may_be_unsigned),
                Kind::Redacted => block.is_closed,
                Kind::Call(_) => end.keeps_calls,
                Kind::Other => block.is_closed && (goes_on || !self.is_waiting(block)),
            })
            .collect();
        // The API refuses a turn that ends with thinking.
        while end.stop != ReplyEnd::PauseTurn
            && kept.pop_if(|block| matches!(block.kind, Kind::Thinking | Kind::Redacted)).is_some()
        {}
        let is_call = |block: &&Block| matches!(block.kind, Kind::Call(_));
        // One text, with calls after it.
        let has_text = kept.first().is_some_and(|block| block.kind == Kind::Text);
        let is_plain =
            kept.iter().all(|block| block.is_plain) && kept.iter().skip(usize::from(has_text)).all(is_call);
        let mut places: Vec<_> =
            self.list.iter().filter(is_call).map(|block| (block.index, block.kind)).collect();
        places.sort_by_key(|(index, _)| index.unwrap_or(u64::MAX));
        if is_plain || (end.keeps_calls && places.len() != calls.len()) {
            return None;
        }
        let mut json = Json::with_capacity(self.bytes);
        for (nth, block) in kept.iter().enumerate() {
            let place = places.iter().position(|(_, kind)| *kind == block.kind);
            let call = place.filter(|_| is_call(block)).and_then(|place| calls.get(place));
            json.raw(if nth == 0 { "" } else { "," });
            block.write(call, &mut json);
        }
        String::from_utf8(json.take()).ok()
    }

    /// Whether a server tool call has no result yet.
    fn is_waiting(&self, block: &Block) -> bool {
        block.waits.is_some() && !self.list.iter().any(|other| other.answers == block.waits)
    }
}

fn is_nothing(value: &RawValue) -> bool {
    matches!(value.get(), "null" | "[]")
}

/// Maximum bytes that are kept of a reply.
const MAX_KEPT: usize = 16 << 20;
/// Maximum blocks that are kept of a reply.
const MAX_BLOCKS: usize = 4_096;
/// Maximum members of a block that is kept member by member.
const MAX_MEMBERS: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;

    fn block(json: &str) -> Block {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        Block::new(Some(0), Kind::Text, raw, &RawMembers::of(raw).unwrap(), /*is_whole*/ false)
    }

    fn written(block: &Block) -> serde_json::Value {
        let mut json = Json::default();
        block.write(/*call*/ None, &mut json);
        serde_json::from_slice(&json.take()).unwrap()
    }

    #[test]
    fn values_of_a_list_are_added_in_place() {
        let one: &RawValue = serde_json::from_str("{\"n\":1}").unwrap();
        for (before, others) in [("null", 0), ("[]", 0), ("[ ]", 0), ("[ 7, 8 ]", 2), ("\"x\"", 0)] {
            let mut block = block(&format!("{{\"type\":\"text\",\"citations\":{before}}}"));
            block.add_value("citations", one);
            block.add_value("citations", one);
            let list = written(&block)["citations"].as_array().unwrap().clone();
            assert_eq!((list.len(), list.last()), (others + 2, Some(&json!({"n": 1}))), "{before}");
        }
        // Takes hours if the list is copied for each value.
        let mut block = block("{\"type\":\"text\",\"text\":\"\"}");
        (0..1_000_000).for_each(|_| block.add_value("citations", one));
        assert_eq!(written(&block)["citations"].as_array().unwrap().len(), 1_000_000);
    }

    #[test]
    fn members_are_few() {
        let mut block = block("{\"type\":\"text\",\"text\":\"\"}");
        for n in 2..10_000 {
            assert_eq!(block.is_full, n > MAX_MEMBERS, "{n} members");
            let delta = format!("{{\"k{n}\":{n}}}");
            block.add_unknown(&RawMembers::of(serde_json::from_str(&delta).unwrap()).unwrap());
        }
        assert!(block.is_full);
        assert_eq!(written(&block).as_object().unwrap().len(), MAX_MEMBERS);
    }
}
