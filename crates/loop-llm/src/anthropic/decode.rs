//! Decodes the events of a stream, or a whole message.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::block::{Block, Blocks, Kind};
use super::usage::{Counts, Report};
use loop_core::types::ToolCall;

use crate::call::ReplyEnd;
use crate::codec::{Assembly, End, Number, Object, Protocol, RawMembers, Target, Text, again, parsed, whole};
use crate::error::LlmError;
use crate::request::ModelRequest;

/// The decoder's state.
#[derive(Debug)]
struct Messages {
    begun: StartedCalls,
    blocks: Blocks,
    counts: Counts,
    /// The stop reason, which takes effect with `message_stop`.
    stop: Option<(String, ReplyEnd)>,
    long_writes: bool,
    may_be_unsigned: bool,
}

pub(crate) fn protocol(request: &ModelRequest, target: &Target<'_>) -> Box<dyn Protocol> {
    Box::new(Messages {
        begun: StartedCalls::default(),
        blocks: Blocks::default(),
        counts: Counts::default(),
        stop: None,
        long_writes: request.cache.long,
        may_be_unsigned: !target.profile.known_models,
    })
}

/// Maps blocks to tool calls, also blocks that are not kept: no call may run without its arguments.
#[derive(Debug, Default)]
struct StartedCalls {
    /// The call of each block index.
    by_index: BTreeMap<u64, usize>,
    /// The call of the latest block, if it is a tool call.
    latest: Option<usize>,
    /// The input of a call that `content_block_start` contained.
    inputs: BTreeMap<usize, String>,
    /// The calls whose block has ended.
    ended: BTreeSet<usize>,
}

impl StartedCalls {
    /// A block that begins. `call` is its tool call, if it is one.
    fn add(&mut self, index: Option<u64>, call: Option<usize>) {
        self.latest = call;
        match (index, call) {
            (Some(index), Some(call)) => {
                self.by_index.insert(index, call);
            }
            (Some(index), None) => {
                self.by_index.remove(&index);
            }
            (None, _) => {}
        }
    }

    /// The call of the block with this index, or of the latest block without an index.
    fn at(&self, index: Option<u64>) -> Option<usize> {
        index.map_or(self.latest, |index| self.by_index.get(&index).copied())
    }

    /// The call that a fragment with this index is for. Some servers name an earlier block, which has ended, in place of the
    /// one that is open.
    fn fed(&self, index: Option<u64>) -> Option<usize> {
        let call = self.at(index)?;
        let open = self.latest.filter(|latest| self.ended.contains(&call) && !self.ended.contains(latest));
        Some(open.unwrap_or(call))
    }

    /// A complete call. Its input is that of the start event if no fragments followed.
    fn close(&mut self, call: usize, reply: &mut Assembly) -> Result<(), LlmError> {
        let Some(input) = self.inputs.remove(&call) else { return Ok(()) };
        let has_arguments = reply.calls().open().get(call).is_some_and(|call| !call.arguments.is_empty());
        if has_arguments { Ok(()) } else { reply.set_arguments(call, &input) }
    }
}

/// An event. Unknown members are dropped.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    index: Number,
    message: Object<Message<'a>>,
    content_block: Option<&'a RawValue>,
    delta: Object<Delta<'a>>,
    usage: Object<Report<'a>>,
    error: Option<&'a RawValue>,
}

/// A message, or the beginning of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    id: Text<'a>,
    model: Text<'a>,
    content: Option<&'a RawValue>,
    stop_reason: Text<'a>,
    stop_sequence: Text<'a>,
    stop_details: Object<Details<'a>>,
    usage: Object<Report<'a>>,
    error: Option<&'a RawValue>,
}

/// A delta of a block, or of the message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    text: Text<'a>,
    thinking: Text<'a>,
    partial_json: Text<'a>,
    signature: Text<'a>,
    citation: Option<&'a RawValue>,
    stop_reason: Text<'a>,
    stop_sequence: Text<'a>,
    stop_details: Object<Details<'a>>,
}

/// Details of a refusal.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details<'a> {
    #[serde(borrow)]
    category: Text<'a>,
    explanation: Text<'a>,
}

impl Protocol for Messages {
    fn event(&mut self, name: Option<&str>, data: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        let event: Event<'_> = parsed(data)?;
        if reply.is_damaged {
            self.blocks.lose();
        }
        let kind = event.kind.some().or(name).unwrap_or_default();
        if kind == "error" || event.error.is_some() {
            return Err(reply.failure(data));
        }
        match kind {
            "ping" => {
                reply.keep_alive();
                return Ok(());
            }
            "message_start" => {
                let message = event.message.get();
                reply.begin(message.and_then(|it| it.id.some()), message.and_then(|it| it.model.some()));
                // `message_start` has the input tokens. Reported here, they would count as the whole usage of an
                // interrupted reply.
                if let Some(report) = message.and_then(|it| it.usage.get()) {
                    self.counts.begin(report);
                    self.tier(report, reply);
                }
                return Ok(());
            }
            _ => reply.begin(None, None),
        }
        match kind {
            "content_block_start" => {
                if let Some(raw) = event.content_block {
                    self.begin(event.index.index(), raw, /*is_whole*/ false, reply)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta.get() {
                    self.delta(event.index.index(), delta, data, reply)?;
                }
            }
            "content_block_stop" => {
                let index = event.index.index();
                if let Some(block) = self.blocks.at(index) {
                    block.close();
                }
                if let Some(call) = self.begun.at(index) {
                    self.begun.close(call, reply)?;
                    self.begun.ended.insert(call);
                    reply.end_call(call);
                }
            }
            "message_delta" => {
                self.count(event.usage.get(), reply);
                if let Some(delta) = event.delta.get() {
                    self.ends(&delta.stop_reason, &delta.stop_sequence, &delta.stop_details, reply);
                }
            }
            "message_stop" => self.end(reply)?,
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, body: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        let message: Message<'_> = whole(body)?;
        if message.kind.some() == Some("error") || message.error.is_some() {
            return Err(reply.failure(body));
        }
        let is_message = message.kind.some() == Some("message");
        if !is_message && message.content.is_none() && message.stop_reason.some().is_none() {
            return Err(again("a body without a message in place of a reply"));
        }
        reply.begin(message.id.some(), message.model.some());
        let content = message.content.filter(|content| content.get().starts_with('['));
        let content: Vec<&RawValue> = parsed(content.map_or("[]", RawValue::get))?;
        for (nth, raw) in content.into_iter().enumerate() {
            self.begin(u64::try_from(nth).ok(), raw, /*is_whole*/ true, reply)?;
        }
        self.count(message.usage.get(), reply);
        self.ends(&message.stop_reason, &message.stop_sequence, &message.stop_details, reply);
        // A whole message is complete even without a stop reason.
        self.end(reply)
    }

    fn raw(&mut self, end: &End, calls: &[ToolCall]) -> Option<String> {
        self.blocks.raw(end, calls, self.may_be_unsigned)
    }
}

impl Messages {
    /// A block that begins, or a whole one.
    fn begin(
        &mut self,
        index: Option<u64>,
        raw: &RawValue,
        is_whole: bool,
        reply: &mut Assembly,
    ) -> Result<(), LlmError> {
        if !raw.get().starts_with('{') {
            return Ok(());
        }
        let fields = RawMembers::of(raw)?;
        let kind = match fields.text("type").or_empty() {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking,
            "redacted_thinking" => Kind::Redacted,
            // Some servers begin a call again with each of its pieces.
            "tool_use" if !is_whole && self.goes_on(index, fields.text("name").or_empty(), reply) => {
                return Ok(());
            }
            "tool_use" => {
                let Some(at) = reply.add_call(fields.text("id").or_empty(), index) else {
                    // The turn is not sent back, so nothing of the block is kept.
                    self.begun.add(index, /*call*/ None);
                    reply.pass_over(fields.get("input").map_or(0, |input| input.get().len()));
                    return Ok(());
                };
                reply.name_call(at, fields.text("id").or_empty(), fields.text("name").or_empty());
                Kind::Call(at)
            }
            _ => Kind::Other,
        };
        match kind {
            Kind::Text => say(fields.text("text").or_empty(), reply),
            Kind::Thinking => reason(fields.text("thinking").or_empty(), reply),
            Kind::Other => reply.did_other(),
            Kind::Call(_) | Kind::Redacted => {}
        }
        let call = if let Kind::Call(at) = kind { Some(at) } else { None };
        self.begun.add(index, call);
        let input = fields.get("input").map(RawValue::get).filter(|input| is_whole || *input != "{}");
        match (call, input) {
            (Some(_), Some(_)) if reply.is_damaged => {
                return Err(LlmError::unreadable("a tool call that is not UTF-8"));
            }
            (Some(at), Some(input)) if is_whole => reply.set_arguments(at, input)?,
            (Some(at), Some(input)) => {
                self.begun.inputs.insert(at, input.to_owned());
            }
            (_, None) | (None, _) => {}
        }
        self.blocks.push(Block::new(index, kind, raw, &fields, is_whole), raw.get().len());
        Ok(())
    }

    /// Whether a call that begins at this index is the one that is open there.
    fn goes_on(&self, index: Option<u64>, name: &str, reply: &mut Assembly) -> bool {
        let open = index.and_then(|index| self.begun.at(Some(index)));
        open.is_some_and(|at| {
            let may_be = !self.begun.ended.contains(&at) && !self.begun.inputs.contains_key(&at);
            may_be && reply.goes_on_with(at, name)
        })
    }

    fn delta(
        &mut self,
        index: Option<u64>,
        delta: &Delta<'_>,
        data: &str,
        reply: &mut Assembly,
    ) -> Result<(), LlmError> {
        let kind = delta.kind.or_empty();
        if self.blocks.grow(data.len()) && self.blocks.at(index).is_none() {
            // Some servers send no `content_block_start` before the first text delta.
            let block = match kind {
                "text_delta" => "{\"type\":\"text\",\"text\":\"\"}",
                "thinking_delta" => "{\"type\":\"thinking\",\"thinking\":\"\"}",
                "input_json_delta" => {
                    let piece = delta.partial_json.or_empty();
                    // Input of a block that never began: the reply tells whose it is once it is whole.
                    let call = self.begun.at(index).or_else(|| reply.add_call("", index));
                    let Some(call) = call else {
                        reply.pass_over(piece.len());
                        return Ok(());
                    };
                    self.begun.add(index, Some(call));
                    return reply.add_arguments(call, piece);
                }
                _ => return Ok(()),
            };
            self.begin(
                index,
                serde_json::from_str(block).unwrap_or(RawValue::NULL),
                /*is_whole*/ false,
                reply,
            )?;
        }
        match (kind, self.begun.fed(index), self.blocks.at(index)) {
            ("text_delta", _, block) => {
                let piece = delta.text.or_empty();
                say(piece, reply);
                if let Some(block) = block {
                    block.add_text("text", piece);
                }
            }
            ("thinking_delta", _, block) => {
                let piece = delta.thinking.or_empty();
                reason(piece, reply);
                if let Some(block) = block {
                    block.add_text("thinking", piece);
                }
            }
            ("input_json_delta", Some(call), _) => {
                reply.add_arguments(call, delta.partial_json.or_empty())?
            }
            (_, _, None) => {}
            ("input_json_delta", None, Some(block)) => block.feed(delta.partial_json.or_empty()),
            ("signature_delta", _, Some(block)) => block.sign(delta.signature.or_empty()),
            ("citations_delta", _, Some(block)) => {
                if let Some(citation) = delta.citation {
                    block.add_value("citations", citation);
                }
            }
            (_, _, Some(block)) => {
                let all: Unknown<'_> = parsed(data)?;
                block.add_unknown(&all.delta);
            }
        }
        Ok(())
    }

    fn count(&mut self, report: Option<&Report<'_>>, reply: &mut Assembly) {
        if let Some(report) = report {
            self.take(report, reply);
            reply.set_usage(self.counts.reported(/*is_over*/ false, self.long_writes));
        }
    }

    fn take(&mut self, report: &Report<'_>, reply: &mut Assembly) {
        self.counts.take(report);
        self.tier(report, reply);
    }

    fn tier(&mut self, report: &Report<'_>, reply: &mut Assembly) {
        if let Some(tier) = report.service_tier.some() {
            reply.set_tier(tier);
        }
    }

    /// Sets the stop reason and its details.
    fn ends(
        &mut self,
        word: &Text<'_>,
        sequence: &Text<'_>,
        details: &Object<Details<'_>>,
        reply: &mut Assembly,
    ) {
        let Some(word) = word.some() else { return };
        if let Some((first, _)) = &self.stop {
            if first != word {
                reply.warn("second_finish_reason");
            }
            return;
        }
        reply.closes();
        let stop = match word {
            "end_turn" => ReplyEnd::EndTurn,
            "stop_sequence" => ReplyEnd::StopSequence,
            "max_tokens" => ReplyEnd::MaxTokens,
            "tool_use" => ReplyEnd::ToolUse,
            "pause_turn" => ReplyEnd::PauseTurn,
            "refusal" => ReplyEnd::Refusal,
            "model_context_window_exceeded" => ReplyEnd::ContextWindow,
            "compaction" => ReplyEnd::Compaction,
            _ => ReplyEnd::Other,
        };
        match (stop, sequence.some(), details.get()) {
            (ReplyEnd::StopSequence, Some(sequence), _) => reply.set_stop_detail(sequence),
            (ReplyEnd::Refusal, _, Some(details)) => {
                if let Some(category) = details.category.some() {
                    reply.set_stop_detail(category);
                }
                reply.refuse(details.explanation.or_empty());
            }
            _ => {}
        }
        self.stop = Some((word.to_owned(), stop));
    }

    /// The end of the message.
    fn end(&mut self, reply: &mut Assembly) -> Result<(), LlmError> {
        let (word, stop) = self.stop.take().unwrap_or_else(|| {
            reply.warn("no_finish_reason");
            (String::new(), ReplyEnd::EndTurn)
        });
        // The last block of a cut reply is incomplete; otherwise only its `content_block_stop` may be missing.
        if !matches!(stop, ReplyEnd::MaxTokens | ReplyEnd::ContextWindow | ReplyEnd::Capped) {
            self.blocks.iter_mut().for_each(Block::close);
            for call in 0..reply.calls().open().len() {
                self.begun.close(call, reply)?;
            }
        }
        reply.set_usage(self.counts.reported(/*is_over*/ true, self.long_writes));
        reply.stop(&word, stop);
        reply.over();
        Ok(())
    }
}

/// A delta of an unknown type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Unknown<'a> {
    #[serde(borrow)]
    delta: RawMembers<'a>,
}

fn say(piece: &str, reply: &mut Assembly) {
    if !piece.is_empty() {
        reply.say(piece);
    }
}

fn reason(piece: &str, reply: &mut Assembly) {
    if !piece.is_empty() {
        reply.reason(piece);
    }
}
