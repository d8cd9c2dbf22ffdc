//! The items of an output during streaming.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::stop::StopCutter;
use crate::codec::{Assembly, List, Text, exact, parsed, text};
use crate::error::LlmError;

/// The items received so far.
#[derive(Debug, Default)]
pub(super) struct Items {
    list: Vec<Item>,
    cut: StopCutter,
    /// Bytes of the completed items.
    bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Item {
    /// Its `output_index`.
    pub(super) index: Option<u64>,
    id: String,
    /// The index of its tool call in the reply, and the call's id.
    call: Option<usize>,
    call_id: String,
    /// Whether it is a tool call above the maximum, which is only counted.
    is_unread: bool,
    /// The text reported so far, by part.
    parts: Vec<PartText>,
    /// The JSON of the completed item.
    pub(super) done: Option<Box<str>>,
}

/// The text reported so far of a part.
#[derive(Debug)]
struct PartText {
    part: PartRef,
    text: String,
    /// Whether the whole text was received: a bit for each [`TextFrom`].
    came: u8,
}

impl PartText {
    fn new(part: PartRef) -> Self {
        Self { part, text: String::new(), came: 0 }
    }

    fn has_come(&self, by: TextFrom) -> bool {
        self.came & by as u8 != 0
    }
}

/// Which event contains the whole text of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextFrom {
    /// The `.done` event of the part.
    ByEvent = 1,
    /// The completed item.
    OfItem = 2,
}

/// The item of an event: looked up by id, then by index.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemRef<'a> {
    pub(super) id: &'a str,
    pub(super) index: Option<u64>,
}

/// A part of an item: its kind, and its index among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartRef {
    pub(super) kind: Part,
    pub(super) index: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text,
    Refusal,
    Summary,
    Thought,
}

/// The JSON of an item.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenItem<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    id: Text<'a>,
    call_id: Text<'a>,
    name: Text<'a>,
    arguments: Option<&'a RawValue>,
    input: Text<'a>,
    content: Option<&'a RawValue>,
    summary: List<WrittenPart<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WrittenPart<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    text: Text<'a>,
    refusal: Text<'a>,
}

/// Parses an item.
///
/// # Errors
/// A text contains half of a surrogate pair.
fn written(raw: &RawValue) -> Result<WrittenItem<'_>, LlmError> {
    parsed(raw.get())
}

impl Items {
    /// No items. `cut` ends the visible text at a stop sequence.
    pub(super) fn new(cut: StopCutter) -> Self {
        Self { cut, ..Self::default() }
    }

    /// The items by index.
    pub(super) fn in_order(&self) -> Vec<&Item> {
        let mut items: Vec<&Item> = self.list.iter().collect();
        items.sort_by_key(|item| item.index.unwrap_or(u64::MAX));
        items
    }

    /// The stop sequence at which the visible text was cut.
    pub(super) fn cut_at(&self) -> Option<&str> {
        self.cut.found()
    }

    /// Whether the items exceed the size that is kept.
    pub(super) fn is_too_large(&self) -> bool {
        self.bytes > MAX_KEPT
    }

    /// Whether at least `count` items are completed.
    pub(super) fn has_all(&self, count: usize) -> bool {
        self.list.iter().filter(|item| item.done.is_some()).count() >= count
    }

    /// Adds an item that begins.
    pub(super) fn begin(
        &mut self,
        raw: &RawValue,
        index: Option<u64>,
        reply: &mut Assembly,
    ) -> Result<(), LlmError> {
        let written = written(raw)?;
        let id = written.id.or_empty();
        let known = self.list.iter().rposition(|item| match item.id.is_empty() {
            true => index.is_some() && item.index == index,
            false => item.id == id && item.may_be(index),
        });
        // Some servers begin a call again with each of its pieces, under another id.
        let open = self.list.iter().rposition(|item| index.is_some() && item.index == index);
        let goes_on = |nth: &usize| {
            let call = self.list.get(*nth).filter(|item| item.done.is_none()).and_then(|item| item.call);
            is_call(written.kind.or_empty())
                && call.is_some_and(|call| reply.goes_on_with(call, written.name.or_empty()))
        };
        let known = known.or_else(|| open.filter(goes_on));
        let Some(nth) = known.or_else(|| self.add(ItemRef { id, index })) else {
            leave(&written, ItemRef { id, index }, reply);
            return Ok(());
        };
        if is_call(written.kind.or_empty())
            && let Some(call) = self.call(nth, reply)
        {
            reply.name_call(call, "", written.name.or_empty());
        }
        if let Some(item) = self.list.get_mut(nth) {
            id.clone_into(&mut item.id);
            written.call_id.or_empty().clone_into(&mut item.call_id);
        }
        Ok(())
    }

    /// A text delta of a part.
    pub(super) fn piece(&mut self, at: ItemRef<'_>, part: PartRef, piece: &str, reply: &mut Assembly) {
        let Some(nth) = self.find_or_add(at) else { return reply.overflows() };
        if let Some(reported) = self.stated(nth, part) {
            reported.text.push_str(piece);
        }
        self.tell(part.kind, piece, reply);
    }

    /// The whole text of a part. Only what the deltas lacked is reported.
    pub(super) fn whole(&mut self, at: ItemRef<'_>, part: PartRef, text: &str, reply: &mut Assembly) {
        match self.find_or_add(at) {
            Some(nth) => self.complete(nth, part, TextFrom::ByEvent, text, reply),
            None => reply.overflows(),
        }
    }

    /// A fragment of a call's arguments.
    pub(super) fn arguments(
        &mut self,
        at: ItemRef<'_>,
        piece: &str,
        reply: &mut Assembly,
    ) -> Result<(), LlmError> {
        match self.call_at(at, piece.len(), reply) {
            Some(call) => reply.add_arguments(call, piece),
            None => Ok(()),
        }
    }

    /// A call's whole arguments.
    pub(super) fn whole_arguments(
        &mut self,
        at: ItemRef<'_>,
        whole: &str,
        reply: &mut Assembly,
    ) -> Result<(), LlmError> {
        match self.call_at(at, /*bytes*/ 0, reply) {
            Some(call) if !whole.is_empty() => reply.set_arguments(call, whole),
            _ => Ok(()),
        }
    }

    /// A completed item. Its content replaces the deltas.
    pub(super) fn done(
        &mut self,
        raw: &RawValue,
        at: ItemRef<'_>,
        reply: &mut Assembly,
    ) -> Result<(), LlmError> {
        let written = written(raw)?;
        let at = ItemRef { id: written.id.some().unwrap_or(at.id), ..at };
        let Some(nth) = self.find(at, /*open*/ true).or_else(|| self.add(at)) else {
            leave(&written, at, reply);
            return Ok(());
        };
        // The same completed item may be sent twice.
        if self.list.get(nth).is_none_or(|item| item.done.is_some()) {
            return Ok(());
        }
        self.read(nth, &written, reply)?;
        self.bytes += raw.get().len();
        let kept = if self.is_too_large() { "" } else { raw.get() };
        if let Some(item) = self.list.get_mut(nth) {
            item.done = Some(kept.into());
        }
        Ok(())
    }

    /// The output of the final event. Only items that were not completed before are used.
    pub(super) fn output(&mut self, output: &[&RawValue], reply: &mut Assembly) -> Result<(), LlmError> {
        for (index, raw) in (0..).zip(output).filter(|(_, raw)| raw.get().starts_with('{')) {
            let written = written(raw)?;
            let at = ItemRef { id: written.id.or_empty(), index: Some(index) };
            let is_known = self.find(at, /*open*/ false).and_then(|nth| self.list.get(nth));
            if is_known.is_none_or(|item| item.done.is_none()) {
                self.done(raw, at, reply)?;
            }
        }
        Ok(())
    }

    /// The end of the stream.
    pub(super) fn finish(&mut self, reply: &mut Assembly) {
        for item in &self.list {
            if let Some(call) = item.call {
                let id = if item.call_id.is_empty() { &item.id } else { &item.call_id };
                reply.name_call(call, id, "");
            }
        }
        let rest = self.cut.finish();
        if !rest.is_empty() {
            reply.say(&rest);
        }
    }

    fn read(&mut self, nth: usize, written: &WrittenItem<'_>, reply: &mut Assembly) -> Result<(), LlmError> {
        match written.kind.or_empty() {
            "message" => match written.content {
                Some(content) if content.get().starts_with('"') => {
                    self.complete(
                        nth,
                        PartRef { kind: Part::Text, index: 0 },
                        TextFrom::OfItem,
                        text(content).or_empty(),
                        reply,
                    );
                }
                _ => self.parts(nth, written, Part::Text, reply),
            },
            "reasoning" => {
                for (index, part) in (0..).zip(written.summary.iter()) {
                    self.complete(
                        nth,
                        PartRef { kind: Part::Summary, index },
                        TextFrom::OfItem,
                        part.text.or_empty(),
                        reply,
                    );
                }
                self.parts(nth, written, Part::Thought, reply);
            }
            kind if is_call(kind) => {
                let Some(call) = self.call(nth, reply) else { return Ok(()) };
                let id = written.call_id.some().unwrap_or(written.id.or_empty());
                reply.name_call(call, id, written.name.or_empty());
                let arguments = match written.arguments {
                    Some(arguments) if arguments.get().starts_with('"') => exact(arguments)?,
                    Some(arguments) => {
                        reply.set_arguments(call, arguments.get())?;
                        Text::default()
                    }
                    None => Text::default(),
                };
                if let Some(whole) = arguments.some().or(written.input.some()) {
                    reply.set_arguments(call, whole)?;
                }
                reply.end_call(call);
            }
            kind if is_action(kind) => reply.did_other(),
            _ => {}
        }
        Ok(())
    }

    fn parts(&mut self, nth: usize, written: &WrittenItem<'_>, kind: Part, reply: &mut Assembly) {
        let content = written.content.map_or("[]", RawValue::get);
        let parts: List<WrittenPart<'_>> = serde_json::from_str(content).unwrap_or_default();
        for (index, part) in (0..).zip(parts.iter()) {
            let (kind, whole) = match part.kind.or_empty() {
                "refusal" => (Part::Refusal, &part.refusal),
                _ => (kind, &part.text),
            };
            self.complete(nth, PartRef { kind, index }, TextFrom::OfItem, whole.or_empty(), reply);
        }
    }

    /// The whole text of a part, from its own event or from the completed item.
    fn complete(&mut self, nth: usize, part: PartRef, by: TextFrom, whole: &str, reply: &mut Assembly) {
        if whole.is_empty() {
            return;
        }
        let Some(reported) = self.whole_of(nth, part, by, whole) else { return };
        reported.came |= by as u8;
        match whole.strip_prefix(reported.text.as_str()) {
            Some(rest) => {
                reported.text.push_str(rest);
                self.tell(part.kind, rest, reply);
            }
            // Deltas that were reported cannot be withdrawn.
            None => reply.warn("text_differs"),
        }
    }

    /// The part of a whole text: the one with its index, or else one of its kind whose deltas are a prefix of the text.
    /// Some servers number the parts of a completed item differently from those of the deltas.
    fn whole_of(&mut self, nth: usize, part: PartRef, by: TextFrom, whole: &str) -> Option<&mut PartText> {
        let parts = &self.list.get(nth)?.parts;
        let part = PartRef { index: part.index.min(MAX_PARTS), ..part };
        let is_open = |reported: &PartText| reported.part.kind == part.kind && !reported.has_come(by);
        let begins = |reported: &PartText| whole.starts_with(reported.text.as_str());
        let is_here = parts.iter().any(|it| it.part == part && is_open(it) && begins(it));
        let is_it = |reported: &PartText| is_open(reported) && !reported.text.is_empty() && begins(reported);
        if let Some(place) = parts.iter().position(is_it).filter(|_| !is_here) {
            return self.list.get_mut(nth)?.parts.get_mut(place);
        }
        if by == TextFrom::OfItem && parts.iter().any(|it| it.part == part && it.has_come(by)) {
            let parts = &mut self.list.get_mut(nth)?.parts;
            parts.push(PartText::new(part));
            return parts.last_mut();
        }
        self.stated(nth, part)
    }

    fn tell(&mut self, part: Part, piece: &str, reply: &mut Assembly) {
        match part {
            _ if piece.is_empty() => {}
            Part::Text if self.cut.is_idle() => reply.say(piece),
            Part::Text => {
                let reported = self.cut.push(piece);
                if !reported.is_empty() {
                    reply.say(&reported);
                }
            }
            Part::Refusal => reply.refuse(piece),
            // Reasoning after the stop sequence is dropped.
            Part::Summary | Part::Thought if self.cut.found().is_some() => {}
            Part::Summary | Part::Thought => reply.reason(piece),
        }
    }

    /// The tool call of an item. `None` where the text was cut before it began, or where it is above the maximum.
    fn call(&mut self, nth: usize, reply: &mut Assembly) -> Option<usize> {
        let is_late = self.cut.found().is_some();
        let item = self.list.get_mut(nth)?;
        if item.call.is_none() && !is_late && !item.is_unread {
            item.call = reply.add_call(&item.id, item.index);
            item.is_unread = item.call.is_none();
        }
        item.call
    }

    /// The call of an arguments fragment of `bytes` bytes. `None` for a call above the maximum.
    fn call_at(&mut self, at: ItemRef<'_>, bytes: usize, reply: &mut Assembly) -> Option<usize> {
        let nth = self.find_or_add(at);
        let call = nth.and_then(|nth| self.call(nth, reply));
        let is_unread = nth.is_none_or(|nth| self.list.get(nth).is_some_and(|item| item.is_unread));
        if is_unread {
            reply.pass_over(bytes);
        }
        call
    }

    fn stated(&mut self, nth: usize, part: PartRef) -> Option<&mut PartText> {
        let part = PartRef { index: part.index.min(MAX_PARTS), ..part };
        let parts = &mut self.list.get_mut(nth)?.parts;
        let known = parts.iter().rposition(|reported| reported.part == part);
        let known = known.unwrap_or_else(|| {
            parts.push(PartText::new(part));
            parts.len() - 1
        });
        parts.get_mut(known)
    }

    /// The item with this id, or else with this index; without both, the last one. `open` leaves out completed items,
    /// unless the id matches. Some servers use one id for several items: their indexes tell them apart.
    fn find(&self, at: ItemRef<'_>, open: bool) -> Option<usize> {
        let with_id = |is_it: &dyn Fn(&Item) -> bool| {
            self.list.iter().rposition(|item| item.id == at.id && is_it(item))
        };
        let by_id =
            || with_id(&|item| item.index == at.index).or_else(|| with_id(&|item| item.may_be(at.index)));
        let is_open = |item: &Item| !open || item.done.is_none();
        let by_index = || {
            let is_it = |item: &Item| item.index == at.index && is_open(item);
            self.list.iter().rposition(is_it)
        };
        let last = || self.list.iter().rposition(|item| is_open(item) && item.index.is_none());
        let named = if at.id.is_empty() { None } else { by_id() };
        named
            .or_else(|| if at.index.is_some() { by_index() } else { None })
            .or_else(|| if at.id.is_empty() && at.index.is_none() { last() } else { None })
    }

    fn find_or_add(&mut self, at: ItemRef<'_>) -> Option<usize> {
        self.find(at, /*open*/ false).or_else(|| self.add(at))
    }

    /// A new item. `None` above the maximum.
    fn add(&mut self, ItemRef { id, index }: ItemRef<'_>) -> Option<usize> {
        if self.list.len() == MAX_ITEMS {
            return None;
        }
        self.list.push(Item { index, id: id.to_owned(), ..Item::default() });
        Some(self.list.len() - 1)
    }
}

impl Item {
    /// Whether an event with this index can refer to the item: a completed item matches only its own index.
    fn may_be(&self, index: Option<u64>) -> bool {
        self.done.is_none() || self.index.is_none() || index.is_none() || self.index == index
    }

    /// Whether deltas were reported that its completed item must contain.
    pub(super) fn is_reported(&self) -> bool {
        self.call.is_some() || self.parts.iter().any(|reported| !reported.text.is_empty())
    }
}

/// Drops an item above the maximum. A tool call is counted; for any other item the reply is cut.
fn leave(written: &WrittenItem<'_>, at: ItemRef<'_>, reply: &mut Assembly) {
    if is_call(written.kind.or_empty()) {
        reply.leave_call(at.id, at.index);
    } else {
        reply.overflows();
    }
}

/// Calls of the caller's tools: function tools and custom tools with free-form input.
pub(super) fn is_call(kind: &str) -> bool {
    matches!(kind, "function_call" | "custom_tool_call")
}

/// Whether the item is a tool run by the provider.
fn is_action(kind: &str) -> bool {
    !kind.is_empty() && !kind.contains("compaction") && !kind.contains("configuration")
}

/// The maximum number of items of an output.
const MAX_ITEMS: usize = 1_000;
/// The maximum number of parts of an item.
const MAX_PARTS: u64 = 100;
/// The maximum number of bytes of items that are kept for later requests.
const MAX_KEPT: usize = 16 << 20;
