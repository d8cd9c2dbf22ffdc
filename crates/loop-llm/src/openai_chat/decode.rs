//! The general parser for the chunks of a stream, and for a whole reply.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::calls::CallFinder;
use super::ordinary::{self, ChunkPattern, Delta, PieceOf, UsualChunk};
use super::think::{Part, Tags};
use super::turn::{MessageMembers, is_nothing};
use loop_core::types::{FailureKind, ToolCall};

use crate::call::ReplyEnd;
use crate::codec::{
    self, Assembly, End, List, Number, Object, Protocol, RawMembers, Target, Text, again, parsed,
};
use crate::error::LlmError;
use crate::openai::Report;
use crate::request::ModelRequest;

/// The decoder's state.
#[derive(Debug)]
struct Chat {
    calls: CallFinder,
    tags: Option<Tags>,
    kept: MessageMembers,
    reasoning_beside: bool,
    /// The service tier reported last.
    tier: String,
    /// The last usual chunk: the next may differ from it only in its delta.
    pattern: ChunkPattern,
    /// Unescaped texts of the current chunk.
    scratch: String,
    /// Whether a delta had content: a whole message in addition to deltas repeats it.
    has_piece: bool,
    /// Whether there is text, a refusal or a tool call.
    says: bool,
}

pub(crate) fn protocol(_: &ModelRequest, target: &Target<'_>) -> Box<dyn Protocol> {
    let profile = target.profile;
    Box::new(Chat {
        calls: CallFinder::new(profile.whole_arguments_each_chunk),
        tags: profile.think_tags.then(Tags::default),
        kept: MessageMembers::new(profile),
        reasoning_beside: profile.reasoning_beside_completion,
        tier: String::new(),
        pattern: ChunkPattern::default(),
        scratch: String::new(),
        has_piece: false,
        says: false,
    })
}

/// A chunk or a whole reply. Unknown members are dropped.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    model: Text<'a>,
    object: Text<'a>,
    service_tier: Text<'a>,
    choices: List<Choice<'a>>,
    usage: Object<Report>,
    x_groq: Object<Groq>,
    error: Option<&'a RawValue>,
    base_resp: Object<BaseResp>,
}

/// What MiniMax says besides a reply, or in place of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BaseResp {
    status_code: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice<'a> {
    index: Number,
    #[serde(borrow)]
    delta: RawMembers<'a>,
    message: RawMembers<'a>,
    finish_reason: Text<'a>,
    usage: Object<Report>,
    content_filter_result: Object<Filter>,
    content_filter_results: Object<Filter>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Filter {
    /// Why the content filter did not run.
    error: Object<IgnoredAny>,
}

impl Filter {
    /// Whether the filter did not run.
    pub(super) fn is_failed(&self) -> bool {
        self.error.get().is_some()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Groq {
    pub(super) usage: Object<Report>,
}

impl Protocol for Chat {
    fn event(&mut self, name: Option<&str>, data: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        if name != Some("error") && !reply.is_damaged {
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.clear();
            let result = self.ordinary(data, &mut scratch, reply);
            self.scratch = scratch;
            if let Some(result) = result {
                return result;
            }
        }
        // The chunk may change the service tier, which the pattern leaves out.
        self.pattern.forget();
        let chunk: Chunk<'_> = parsed(data)?;
        if reply.is_damaged {
            self.kept.lose();
        }
        if is_error(&chunk) || name == Some("error") {
            return Err(reply.failure(data));
        }
        self.chunk(&chunk, /*is_whole*/ false, reply)
    }

    fn whole(&mut self, body: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        let chunk: Chunk<'_> = codec::whole(body)?;
        if is_error(&chunk) {
            return Err(reply.failure(body));
        }
        // Its usage counts even if the reply lacks a choice.
        self.chunk(&chunk, /*is_whole*/ true, reply)?;
        if chunk.choices.is_empty() {
            return Err(again("a body without a choice in place of a reply"));
        }
        if !reply.is_ending() {
            self.end_without_word(reply);
        }
        Ok(())
    }

    fn close(&mut self, reply: &mut Assembly) {
        let is_complete = |call: &codec::OpenCall| {
            call.arguments.trim().is_empty() || serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok()
        };
        if !reply.is_ending() && self.says && reply.calls().open().iter().all(is_complete) {
            self.end_without_word(reply);
        }
    }

    fn raw(&mut self, end: &End, calls: &[ToolCall]) -> Option<String> {
        self.kept.raw(end, calls)
    }
}

impl Chat {
    /// Parses a usual chunk on the fast path. `None` for any other chunk, which then has no effect.
    fn ordinary(
        &mut self,
        data: &str,
        scratch: &mut String,
        reply: &mut Assembly,
    ) -> Option<Result<(), LlmError>> {
        let mut delta = Delta::default();
        if self.pattern.read(data, scratch, &mut delta).is_some() {
            return Some(self.delta(&delta, scratch, reply));
        }
        scratch.clear();
        let chunk = ordinary::read(data, scratch)?;
        self.pattern.keep(data, &chunk);
        Some(self.whole_ordinary(&chunk, scratch, reply))
    }

    fn whole_ordinary(
        &mut self,
        chunk: &UsualChunk<'_>,
        scratch: &str,
        reply: &mut Assembly,
    ) -> Result<(), LlmError> {
        self.begin(chunk.id, chunk.model, chunk.tier, reply);
        self.delta(&chunk.delta, scratch, reply)?;
        if chunk.is_unfiltered {
            reply.warn(NOT_FILTERED);
        }
        if let Some(report) = &chunk.usage {
            self.usage(report, reply);
        }
        if chunk.finish.is_empty() { Ok(()) } else { self.end(chunk.finish, reply) }
    }

    /// The delta of a usual chunk, with the effects of [`Chat::message`].
    fn delta(&mut self, delta: &Delta<'_>, scratch: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        let reasoning = |wanted| {
            let found = delta.pieces().iter().find(|(stated, _)| *stated == wanted);
            found.map(|(_, token)| token.text(scratch)).filter(|piece| !piece.is_empty())
        };
        if delta.has_reasoning
            && let Some(piece) =
                reasoning(PieceOf::ReasoningContent).or_else(|| reasoning(PieceOf::Reasoning))
        {
            reply.reason(piece);
        }
        for (stated, token) in delta.pieces() {
            let piece = token.text(scratch);
            let is_call = matches!(stated, PieceOf::Arguments(_) | PieceOf::Call(_));
            self.has_piece |= is_call || !piece.is_empty();
            match *stated {
                PieceOf::Content => {
                    self.says |= !piece.is_empty();
                    self.kept.text(piece);
                    self.say(piece, reply);
                }
                PieceOf::Refusal => {
                    self.says |= !piece.is_empty();
                    self.kept.refusal(piece);
                    reply.refuse(piece);
                }
                PieceOf::ReasoningContent => {
                    self.kept.reasoning("reasoning_content", piece, token.raw.len() + 2);
                }
                PieceOf::Reasoning => self.kept.reasoning("reasoning", piece, token.raw.len() + 2),
                PieceOf::Arguments(index) | PieceOf::Call(index) => {
                    let Some(at) = self.calls.begin(delta.id, delta.name, index, /*place*/ None, reply)
                    else {
                        reply.pass_over(piece.len());
                        continue;
                    };
                    self.says = true;
                    if matches!(stated, PieceOf::Arguments(_)) {
                        self.calls.add(at, piece, reply)?;
                    }
                    let index = reply.calls().open().get(at).and_then(|call| call.index);
                    self.kept.begin_call(at, index);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, id: &str, model: &str, tier: &str, reply: &mut Assembly) {
        let some = |text| Some(text).filter(|text: &&str| !text.is_empty());
        reply.begin(some(id), some(model));
        if !tier.is_empty() && *tier != *self.tier {
            tier.clone_into(&mut self.tier);
            reply.set_tier(tier);
        }
    }

    fn usage(&self, report: &Report, reply: &mut Assembly) {
        reply.set_usage(report.usage(self.reasoning_beside));
        if let Some(dollars) = report.dollars() {
            reply.set_cost(dollars);
        }
    }

    /// Reports a chunk or a whole reply.
    fn chunk(&mut self, chunk: &Chunk<'_>, is_whole: bool, reply: &mut Assembly) -> Result<(), LlmError> {
        let Chunk { id, model, service_tier, .. } = chunk;
        self.begin(id.or_empty(), model.or_empty(), service_tier.or_empty(), reply);
        // Requests ask for one choice, with index 0.
        let choice = chunk.choices.iter().find(|choice| choice.index.index().unwrap_or(0) == 0);
        if let Some(choice) = choice {
            let says = |(key, value): &(_, &RawValue)| *key != "role" && !is_nothing(value);
            self.has_piece |= choice.delta.0.iter().any(says);
            self.message(&choice.delta, /*is_whole*/ false, reply)?;
            if self.has_piece {
                complete_calls(&choice.message, reply)?;
            } else {
                self.message(&choice.message, is_whole, reply)?;
            }
            let filters = [&choice.content_filter_result, &choice.content_filter_results];
            if filters.iter().any(|filter| filter.get().is_some_and(Filter::is_failed)) {
                reply.warn(NOT_FILTERED);
            }
        }
        let vendor = chunk.x_groq.get().and_then(|groq| groq.usage.get());
        let of_choice = choice.and_then(|choice| choice.usage.get());
        if let Some(report) = chunk.usage.get().or(vendor).or(of_choice) {
            self.usage(report, reply);
        }
        choice.and_then(|choice| choice.finish_reason.some()).map_or(Ok(()), |word| self.end(word, reply))
    }

    /// Reports a delta or a whole message.
    fn message(
        &mut self,
        message: &RawMembers<'_>,
        is_whole: bool,
        reply: &mut Assembly,
    ) -> Result<(), LlmError> {
        let reasoning = [message.text("reasoning_content"), message.text("reasoning")];
        if let Some(piece) = reasoning.iter().find_map(Text::some) {
            reply.reason(piece);
        } else if let Some(details) = message.get("reasoning_details") {
            let details: List<RawMembers<'_>> = parsed(details.get())?;
            for detail in details.iter() {
                let reported = [detail.text("text"), detail.text("summary")];
                reply.reason(reported.iter().find_map(Text::some).unwrap_or_default());
            }
        }
        for (key, value) in &message.0 {
            match key.as_ref() {
                "content" if value.get().starts_with('[') => {
                    let parts: List<RawMembers<'_>> = parsed(value.get())?;
                    for part in parts.iter() {
                        self.part(part, reply);
                    }
                    self.kept.content(value);
                }
                "content" => {
                    let piece = codec::text(value);
                    self.says |= piece.some().is_some();
                    self.kept.text(piece.or_empty());
                    self.say(piece.or_empty(), reply);
                }
                "refusal" => {
                    let piece = codec::text(value);
                    self.says |= piece.some().is_some();
                    self.kept.refusal(piece.or_empty());
                    reply.refuse(piece.or_empty());
                }
                "tool_calls" => {
                    let calls: List<RawMembers<'_>> = parsed(value.get())?;
                    for (nth, fragment) in (0..).zip(calls.iter()) {
                        // In a whole message calls have no index: their position is used.
                        let place = is_whole.then_some(nth);
                        if let Some(at) = self.calls.push(fragment, place, reply)? {
                            self.says = true;
                            let index = reply.calls().open().get(at).and_then(|call| call.index);
                            self.kept.call(at, index, fragment);
                        }
                    }
                }
                // The deprecated form of a single tool call.
                "function_call" if value.get().starts_with('{') => {
                    let fragment = RawMembers(vec![("index".into(), zero()), ("function".into(), *value)]);
                    self.says |= self.calls.push(&fragment, /*place*/ None, reply)?.is_some();
                }
                "role" | "function_call" => {}
                key => self.kept.other(key, value),
            }
        }
        Ok(())
    }

    /// A part of a content that is a list.
    fn part(&mut self, part: &RawMembers<'_>, reply: &mut Assembly) {
        if let Some(piece) = part.text("text").some() {
            self.says = true;
            self.say(piece, reply);
        }
        let thoughts =
            part.get("thinking").and_then(|it| serde_json::from_str::<List<RawMembers<'_>>>(it.get()).ok());
        for thought in thoughts.iter().flat_map(|thoughts| thoughts.iter()) {
            if let Some(piece) = thought.text("text").some() {
                reply.reason(piece);
            }
        }
    }

    fn say(&mut self, piece: &str, reply: &mut Assembly) {
        let Some(tags) = &mut self.tags else {
            if !piece.is_empty() {
                reply.say(piece);
            }
            return;
        };
        for part in tags.push(piece) {
            tell(part, reply);
        }
    }

    /// The end of a reply without a stop reason.
    fn end_without_word(&mut self, reply: &mut Assembly) {
        self.settle(reply);
        reply.warn("no_finish_reason");
        reply.stop("", ReplyEnd::EndTurn);
    }

    /// Reports the text that the tag parser held back.
    fn settle(&mut self, reply: &mut Assembly) {
        for part in self.tags.iter_mut().flat_map(Tags::finish) {
            tell(part, reply);
        }
    }

    fn end(&mut self, word: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        self.settle(reply);
        let failed = |kind, message| Err(LlmError::in_stream(kind, message));
        let lower = word.to_ascii_lowercase();
        let stop = match lower.as_str() {
            "error" => return failed(FailureKind::ServerError, "the provider ended the reply with an error"),
            "insufficient_system_resource" => {
                return failed(
                    FailureKind::Overloaded,
                    "the provider has no capacity for the rest of the reply",
                );
            }
            "stop" | "eos" | "eos_token" | "end_turn" => ReplyEnd::EndTurn,
            "tool_calls" | "function_call" | "tool_use" => ReplyEnd::ToolUse,
            "length" | "max_tokens" => ReplyEnd::MaxTokens,
            "model_length" => ReplyEnd::ContextWindow,
            "content_filter" => ReplyEnd::ContentFilter,
            "refusal" => ReplyEnd::Refusal,
            _ => ReplyEnd::Other,
        };
        if let Some(last) = self.calls.last.filter(|_| stop == ReplyEnd::ToolUse) {
            reply.end_call(last);
        }
        reply.stop(word, stop);
        Ok(())
    }
}

/// Completes arguments from a whole message that repeats the deltas.
fn complete_calls(message: &RawMembers<'_>, reply: &mut Assembly) -> Result<(), LlmError> {
    let Some(calls) = message.get("tool_calls") else { return Ok(()) };
    let calls: List<RawMembers<'_>> = parsed(calls.get())?;
    for call in calls.iter() {
        let function = call.get("function").map(RawMembers::of).transpose()?.unwrap_or_default();
        let whole = function.get("arguments").map(codec::exact).transpose()?.unwrap_or_default();
        let id = call.text("id");
        let at = reply.calls().open().iter().position(|open| {
            let is_more = whole.or_empty().starts_with(&open.arguments);
            id.some() == Some(open.id.as_str()) && is_more
        });
        if let Some(at) = at {
            reply.set_arguments(at, whole.or_empty())?;
        }
    }
    Ok(())
}

fn tell(part: Part, reply: &mut Assembly) {
    match part {
        Part::Reasoning(text) => reply.reason(&text),
        Part::Text(text) => reply.say(&text),
    }
}

fn is_error(chunk: &Chunk<'_>) -> bool {
    let code = chunk.base_resp.get().and_then(|base| base.status_code.0);
    chunk.error.is_some_and(|error| error.get() != "null")
        || chunk.object.some() == Some("error")
        || code.is_some_and(|code| code != 0.0)
}

fn zero() -> &'static RawValue {
    serde_json::from_str("0").unwrap_or(RawValue::NULL)
}

/// The warning that a content filter did not run.
const NOT_FILTERED: &str = "text_not_filtered";
