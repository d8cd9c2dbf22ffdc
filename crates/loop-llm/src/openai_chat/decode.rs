//! What the chunks of a stream, or a whole reply, say.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::calls::Placer;
use super::think::{Part, Tags};
use super::turn::Kept;
use super::usage::Report;
use crate::call::{Stop, ToolCall};
use crate::codec::{
    self, Assembly, End, Fields, List, Maybe, Number, Protocol, Target, Text, UsageTold, again, unreadable,
    within,
};
use crate::error::{ErrorPhase, LlmError, LlmErrorKind};
use crate::request::ModelRequest;

/// Chunks, or one reply.
#[derive(Debug)]
struct Chat {
    calls: Placer,
    tags: Option<Tags>,
    kept: Kept,
    reasoning_beside: bool,
    /// Of fewer tokens of input it is to be feared that the rest was cut off.
    least_input: u64,
}

pub(crate) fn protocol(request: &ModelRequest, target: &Target<'_>) -> Box<dyn Protocol> {
    let profile = target.profile;
    Box::new(Chat {
        calls: Placer::new(profile.whole_arguments_each_chunk),
        tags: profile.think_tags.then(Tags::default),
        kept: Kept::new(profile.reasoning_back),
        reasoning_beside: profile.reasoning_beside_completion,
        // Twice as many bytes a token as texts usually have.
        least_input: if profile.cuts_silently { request.bytes() as u64 / 8 } else { 0 },
    })
}

/// A chunk, or a whole reply. Of what is not named here nothing is kept.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    object: Text<'a>,
    #[serde(borrow)]
    service_tier: Text<'a>,
    #[serde(borrow)]
    choices: List<Choice<'a>>,
    usage: Maybe<Report>,
    x_groq: Maybe<Groq>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice<'a> {
    index: Number,
    #[serde(borrow)]
    delta: Fields<'a>,
    #[serde(borrow)]
    message: Fields<'a>,
    #[serde(borrow)]
    finish_reason: Text<'a>,
    content_filter_result: Maybe<Filter>,
    content_filter_results: Maybe<Filter>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Filter {
    /// What kept the filter from looking.
    error: Maybe<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Groq {
    usage: Maybe<Report>,
}

impl Protocol for Chat {
    fn event(&mut self, name: Option<&str>, data: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| unreadable(&error))?;
        if reply.is_damaged() {
            self.kept.lose();
        }
        if is_error(&chunk) || name == Some("error") {
            return Err(failure(data, reply));
        }
        self.chunk(&chunk, /*is_whole*/ false, reply)
    }

    fn whole(&mut self, body: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        let chunk = match serde_json::from_str::<Maybe<Chunk<'_>>>(body) {
            Ok(Maybe(Some(chunk))) => chunk,
            Ok(Maybe(None)) | Err(_) => {
                return Err(again("a body that is no JSON object in place of a reply"));
            }
        };
        if is_error(&chunk) {
            return Err(failure(body, reply));
        }
        // What it says of tokens counts, whatever else it lacks.
        self.chunk(&chunk, /*is_whole*/ true, reply)?;
        if chunk.choices.is_empty() {
            return Err(again("a body without a choice in place of a reply"));
        }
        Ok(())
    }

    fn raw(&mut self, end: &End, calls: &[ToolCall]) -> Option<String> {
        self.kept.raw(end, calls)
    }
}

impl Chat {
    /// A chunk, or a reply that came as a whole.
    fn chunk(&mut self, chunk: &Chunk<'_>, is_whole: bool, reply: &mut Assembly) -> Result<(), LlmError> {
        reply.begin(chunk.id.some(), chunk.model.some());
        if let Some(tier) = chunk.service_tier.some() {
            reply.set_tier(tier);
        }
        // The choice of index 0: we ask for one.
        let choice = chunk.choices.iter().find(|choice| choice.index.index().unwrap_or(0) == 0);
        if let Some(choice) = choice {
            self.message(&choice.delta, /*is_whole*/ false, reply)?;
            self.message(&choice.message, is_whole, reply)?;
            let filters = [&choice.content_filter_result, &choice.content_filter_results];
            if filters.iter().any(|filter| filter.get().is_some_and(|it| it.error.get().is_some())) {
                reply.warn("text_not_filtered");
            }
        }
        let vendor = chunk.x_groq.get().and_then(|groq| groq.usage.get());
        if let Some(report) = chunk.usage.get().or(vendor) {
            let told = report.usage(self.reasoning_beside);
            if let UsageTold::Counts { usage, .. } = told
                && (1..self.least_input).contains(&usage.total_input())
            {
                reply.warn("context_truncated_suspected");
            }
            reply.set_usage(told);
            if let Some(dollars) = report.cost.0 {
                reply.set_cost(dollars);
            }
        }
        choice.and_then(|choice| choice.finish_reason.some()).map_or(Ok(()), |word| self.end(word, reply))
    }

    /// A delta, or a whole message.
    fn message(
        &mut self,
        message: &Fields<'_>,
        is_whole: bool,
        reply: &mut Assembly,
    ) -> Result<(), LlmError> {
        let reasoning = [message.text("reasoning_content"), message.text("reasoning")];
        if let Some(piece) = reasoning.iter().find_map(Text::some) {
            reply.reason(piece);
        } else if let Some(details) = message.get("reasoning_details") {
            let details: List<Fields<'_>> =
                serde_json::from_str(details.get()).map_err(|it| unreadable(&it))?;
            for detail in details.iter() {
                let told = [detail.text("text"), detail.text("summary")];
                reply.reason(told.iter().find_map(Text::some).unwrap_or_default());
            }
        }
        for (key, value) in &message.0 {
            match key.as_ref() {
                "content" if value.get().starts_with('[') => {
                    let parts: List<Fields<'_>> =
                        serde_json::from_str(value.get()).map_err(|it| unreadable(&it))?;
                    for part in parts.iter() {
                        self.part(part, reply);
                    }
                    self.kept.content(value);
                }
                "content" => {
                    let piece = codec::text(value);
                    self.kept.text(piece.or_empty());
                    self.say(piece.or_empty(), reply);
                }
                "refusal" => reply.refuse(codec::text(value).or_empty()),
                "tool_calls" => {
                    let calls: List<Fields<'_>> =
                        serde_json::from_str(value.get()).map_err(|it| unreadable(&it))?;
                    for (nth, fragment) in (0..).zip(calls.iter()) {
                        // In a message that is whole each is a call, and its place is its index.
                        let place = is_whole.then_some(nth);
                        if let Some(at) = self.calls.push(fragment, place, reply)? {
                            let index = reply.calls().open().get(at).and_then(|call| call.index);
                            self.kept.call(at, index, fragment);
                        }
                    }
                }
                // The way in which one call was told before there could be several.
                "function_call" if value.get().starts_with('{') => {
                    let fragment = Fields(vec![("index".into(), zero()), ("function".into(), *value)]);
                    self.calls.push(&fragment, /*place*/ None, reply)?;
                }
                "role" | "function_call" => {}
                key => self.kept.other(key, value),
            }
        }
        Ok(())
    }

    /// A part of a content that is a list.
    fn part(&mut self, part: &Fields<'_>, reply: &mut Assembly) {
        if let Some(piece) = part.text("text").some() {
            self.say(piece, reply);
        }
        let thoughts =
            part.get("thinking").and_then(|it| serde_json::from_str::<List<Fields<'_>>>(it.get()).ok());
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

    fn end(&mut self, word: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        for part in self.tags.iter_mut().flat_map(Tags::finish) {
            tell(part, reply);
        }
        let failed = |kind, message| Err(LlmError::new(kind, ErrorPhase::Stream, message));
        let stop = match word {
            "error" => {
                return failed(LlmErrorKind::ServerError, "the provider ended the reply with an error");
            }
            "insufficient_system_resource" => {
                return failed(
                    LlmErrorKind::Overloaded,
                    "the provider has no capacity for the rest of the reply",
                );
            }
            "stop" => Stop::EndTurn,
            "tool_calls" | "function_call" => Stop::ToolUse,
            "length" => Stop::MaxTokens,
            "model_length" => Stop::ContextWindow,
            "content_filter" => Stop::ContentFilter,
            "refusal" => Stop::Refusal,
            _ => Stop::Other,
        };
        reply.stop(word, stop);
        Ok(())
    }
}

fn tell(part: Part, reply: &mut Assembly) {
    match part {
        Part::Reasoning(text) => reply.reason(&text),
        Part::Text(text) => reply.say(&text),
    }
}

fn is_error(chunk: &Chunk<'_>) -> bool {
    chunk.error.is_some_and(|error| error.get() != "null") || chunk.object.some() == Some("error")
}

fn failure(data: &str, reply: &Assembly) -> LlmError {
    within(&serde_json::from_str::<Value>(data).unwrap_or_default(), reply.secrets())
}

fn zero() -> &'static RawValue {
    serde_json::from_str("0").unwrap_or(RawValue::NULL)
}
