//! Decodes the chunks of a stream, or a whole reply.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::turn::ReplyParts;
use super::usage::{Counts, Report};
use loop_core::types::{FailureKind, ToolCall};

use crate::call::{Filtered, ReplyEnd};
use crate::codec::{
    self, Assembly, End, List, Number, Object, Protocol, RawList, RawMembers, Target, Text, UsageReport,
    again, parsed,
};
use crate::error::LlmError;
use crate::openai;
use crate::request::ModelRequest;

/// The decoder's state.
#[derive(Debug, Default)]
struct Gemini {
    kept: ReplyParts,
    counts: Counts,
}

pub(crate) fn protocol(_: &ModelRequest, _: &Target<'_>) -> Box<dyn Protocol> {
    Box::new(Gemini::default())
}

/// A chunk or a whole reply. Unknown members are dropped.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    response_id: Text<'a>,
    model_version: Text<'a>,
    candidates: List<Candidate<'a>>,
    prompt_feedback: Object<Feedback<'a>>,
    usage_metadata: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate<'a> {
    index: Number,
    #[serde(borrow)]
    content: Object<Content<'a>>,
    finish_reason: Text<'a>,
    finish_message: Text<'a>,
    usage_metadata: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content<'a> {
    #[serde(borrow)]
    parts: RawList<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow)]
    block_reason: Text<'a>,
}

impl Protocol for Gemini {
    fn event(&mut self, name: Option<&str>, data: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        if data.starts_with('[') {
            return self.list(data, reply);
        }
        let chunk: Chunk<'_> = parsed(data)?;
        if chunk.is_error() || name == Some("error") {
            return Err(reply.failure(data));
        }
        self.chunk(&chunk, reply)
    }

    fn whole(&mut self, body: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        if body.starts_with('[') {
            // The chunks of a stream as one list. The last one has the finish reason.
            return self.list(body, reply);
        }
        let chunk: Chunk<'_> = codec::whole(body)?;
        if chunk.is_error() {
            return Err(reply.failure(body));
        }
        if chunk.is_foreign() {
            return Err(no_reply());
        }
        self.chunk(&chunk, reply)?;
        if chunk.candidates.is_empty() && !reply.is_ending() {
            reply.stop("", ReplyEnd::Empty);
        }
        // A whole body is complete even without a finish reason.
        if !reply.is_ending() {
            reply.warn("no_finish_reason");
            reply.stop("", ReplyEnd::EndTurn);
        }
        Ok(())
    }

    fn raw(&mut self, end: &End, _: &[ToolCall]) -> Option<String> {
        self.kept.raw(end)
    }
}

impl Chunk<'_> {
    fn is_error(&self) -> bool {
        self.error.is_some_and(|error| error.get() != "null")
    }

    /// Whether it has no member of a reply.
    fn is_foreign(&self) -> bool {
        self.candidates.is_empty()
            && self.prompt_feedback.get().is_none()
            && self.usage_metadata.is_none()
            && self.model_version.some().is_none()
            && self.response_id.some().is_none()
    }
}

impl Gemini {
    /// A list of chunks, which servers send where no event stream was requested.
    fn list(&mut self, body: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        let chunks: RawList<'_> = serde_json::from_str(body).map_err(|_| no_reply())?;
        if chunks.0.iter().all(|chunk| !chunk.get().starts_with('{')) {
            return Err(no_reply());
        }
        chunks.0.iter().filter(|chunk| chunk.get().starts_with('{')).try_for_each(|chunk| {
            self.event(/*name*/ None, chunk.get(), reply)
        })
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, reply: &mut Assembly) -> Result<(), LlmError> {
        reply.begin(chunk.response_id.some(), chunk.model_version.some());
        // Requests ask for one candidate, with index 0.
        let candidate = chunk.candidates.iter().find(|candidate| candidate.index.index().unwrap_or(0) == 0);
        let places = [
            chunk.usage_metadata,
            chunk.usage,
            candidate.and_then(|candidate| candidate.usage_metadata),
            candidate.and_then(|candidate| candidate.usage),
        ];
        if let Some(report) = places.into_iter().flatten().find(|report| report.get().starts_with('{')) {
            self.count(report, reply);
        }
        if let Some(reason) = chunk.prompt_feedback.get().and_then(|feedback| feedback.block_reason.some()) {
            reply.set_stop_detail(reason);
            reply.set_filtered(Filtered::Input);
            reply.stop(reason, ReplyEnd::ContentFilter);
            return Ok(());
        }
        let Some(candidate) = candidate else { return Ok(()) };
        for part in candidate.content.get().iter().flat_map(|content| &content.parts.0) {
            self.part(part, reply)?;
        }
        match candidate.finish_reason.some() {
            Some(word) => self.end(word, candidate.finish_message.some(), reply),
            None => Ok(()),
        }
    }

    /// The usage of a chunk. Some servers write it under the names of another protocol.
    fn count(&mut self, report: &RawValue, reply: &mut Assembly) {
        let own: Report<'_> = serde_json::from_str(report.get()).unwrap_or_default();
        let usage = match self.counts.add(&own) {
            UsageReport::Nothing => {
                let foreign: openai::Report = serde_json::from_str(report.get()).unwrap_or_default();
                foreign.usage(/*beside*/ false)
            }
            usage @ (UsageReport::Unusable | UsageReport::Counts { .. }) => usage,
        };
        reply.set_usage(usage);
        if let Some(tier) = own.tier() {
            reply.set_tier(tier);
        }
    }

    fn part(&mut self, part: &RawValue, reply: &mut Assembly) -> Result<(), LlmError> {
        let fields = RawMembers::of(part)?;
        if let Some(call) = fields.get("functionCall").filter(|call| call.get().starts_with('{')) {
            return self.call(part, &fields, &RawMembers::of(call)?, reply);
        }
        let is_signed = fields.get("thoughtSignature").is_some();
        let is_thought = fields.get("thought").is_some_and(|it| it.get() == "true");
        let has_more = fields.0.iter().any(|(key, value)| {
            !matches!(key.as_ref(), "text" | "thought" | "thoughtSignature") && value.get() != "null"
        });
        let goes_back = is_signed || (has_more && !is_thought);
        let written = fields.get("text").filter(|text| text.get().starts_with('"'));
        if let Some(written) = written {
            let text = codec::text(written);
            if !text.is_text() {
                return Err(LlmError::unreadable("a text of the reply cannot be read"));
            }
            // A thought summary is not sent back, unless it is signed.
            if is_thought {
                reply.reason(text.or_empty());
            } else {
                reply.say(text.or_empty());
                if !goes_back {
                    self.kept.text(written.get());
                }
            }
        } else if has_more && !is_thought {
            reply.did_other();
        }
        if goes_back {
            self.check(reply);
            self.kept.other(part.get());
        }
        Ok(())
    }

    fn call(
        &mut self,
        part: &RawValue,
        fields: &RawMembers<'_>,
        call: &RawMembers<'_>,
        reply: &mut Assembly,
    ) -> Result<(), LlmError> {
        self.check(reply);
        let (id, name) = (call.text("id"), call.text("name"));
        if call.get("willContinue").is_some_and(|it| it.get() == "true") || call.get("partialArgs").is_some()
        {
            return Err(LlmError::unreadable(VALUE_BY_VALUE));
        }
        let args = call.get("args").map(RawValue::get);
        match (reply.add_call(/*id*/ "", /*index*/ None), args) {
            (Some(at), args) => {
                reply.name_call(at, id.or_empty(), name.or_empty());
                if let Some(args) = args {
                    reply.add_arguments(at, args)?;
                }
                reply.end_call(at);
            }
            (None, args) => reply.pass_over(args.map_or(0, str::len)),
        }
        let is_known = |known: &[&str], fields: &RawMembers<'_>| {
            fields.0.iter().all(|(key, _)| known.contains(&key.as_ref()))
        };
        let is_plain = is_known(&["functionCall"], fields) && is_known(&["id", "name", "args"], call);
        self.kept.call(part.get(), is_plain);
        Ok(())
    }

    /// A damaged event may contain signed parts, so the turn is not sent back.
    fn check(&mut self, reply: &Assembly) {
        if reply.is_damaged {
            self.kept.lose();
        }
    }

    fn end(&mut self, word: &str, message: Option<&str>, reply: &mut Assembly) -> Result<(), LlmError> {
        let stop = match word {
            "STOP" => ReplyEnd::EndTurn,
            "MAX_TOKENS" => ReplyEnd::MaxTokens,
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => {
                ReplyEnd::MalformedToolCall
            }
            "MISSING_THOUGHT_SIGNATURE" => {
                let message = "the provider misses a signature of reasoning in the history";
                return Err(LlmError::in_stream(FailureKind::StaleReasoning, message));
            }
            word if FILTERS.contains(&word) || word.starts_with("IMAGE_") => ReplyEnd::ContentFilter,
            _ => ReplyEnd::Other,
        };
        let detail = if stop == ReplyEnd::ContentFilter { Some(word) } else { message };
        if let (Some(detail), false) = (detail, stop == ReplyEnd::EndTurn || reply.is_ending()) {
            reply.set_stop_detail(detail);
        }
        reply.stop(word, stop);
        Ok(())
    }
}

fn no_reply() -> LlmError {
    again("a body that is not a reply")
}

/// The error of a call in pieces, which a server sends only where the request's own members ask for it.
const VALUE_BY_VALUE: &str =
    "a tool call whose arguments come value by value; leave `streamFunctionCallArguments` out of the request";
/// Finish reasons of content filters.
const FILTERS: [&str; 7] =
    ["SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"];
