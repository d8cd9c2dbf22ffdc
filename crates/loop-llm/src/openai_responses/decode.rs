//! Decodes the events of a stream, or a whole response.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::items::{ItemRef, Items, Part, PartRef};
use super::kept;
use super::stop::StopCutter;
use loop_core::types::{FailureKind, ToolCall};

use crate::call::{Filtered, ReplyEnd};
use crate::codec::{
    Assembly, End, Number, Object, Protocol, RawList, Target, Text, again, exact, filtered, parsed, whole,
};
use crate::error::LlmError;
use crate::openai::Report;
use crate::request::ModelRequest;

/// The decoder's state.
#[derive(Debug)]
struct Responses {
    items: Items,
    /// Whether the provider stores the response, so that its items can be referred to by id.
    is_stored: bool,
    /// Whether an event contained invalid UTF-8.
    is_damaged: bool,
    has_ended: bool,
}

pub(crate) fn protocol(request: &ModelRequest, _: &Target<'_>) -> Box<dyn Protocol> {
    Box::new(Responses {
        items: Items::new(StopCutter::new(&request.stop)),
        is_stored: request.extra.get("store") == Some(&Value::Bool(true)),
        is_damaged: false,
        has_ended: false,
    })
}

/// An event. Unknown members are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    item_id: Text<'a>,
    output_index: Number,
    content_index: Number,
    summary_index: Number,
    delta: Text<'a>,
    text: Text<'a>,
    refusal: Text<'a>,
    arguments: Option<&'a RawValue>,
    input: Text<'a>,
    item: Option<&'a RawValue>,
    response: Object<Response<'a>>,
    error: Option<&'a RawValue>,
}

/// A response, or a part of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    model: Text<'a>,
    status: Text<'a>,
    service_tier: Text<'a>,
    output: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    incomplete_details: Object<Details<'a>>,
    usage: Object<Report>,
    /// The results of Azure's content filters.
    content_filters: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details<'a> {
    #[serde(borrow)]
    reason: Text<'a>,
}

impl Protocol for Responses {
    fn event(&mut self, name: Option<&str>, data: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        let event: Event<'_> = parsed(data)?;
        self.is_damaged |= reply.is_damaged;
        let kind = event.kind.some().or(name).unwrap_or_default();
        let kind = kind.strip_prefix("response.").unwrap_or(kind);
        if self.has_ended {
            if matches!(kind, "completed" | "incomplete" | "failed" | "cancelled" | "done" | "error") {
                reply.warn("second_end");
            }
            return Ok(());
        }
        let at = ItemRef { id: event.item_id.or_empty(), index: event.output_index.index() };
        let part = |kind: Part| {
            let index = if kind == Part::Summary { &event.summary_index } else { &event.content_index };
            PartRef { kind, index: index.index().unwrap_or(0) }
        };
        let items = &mut self.items;
        let text_part = match kind {
            "output_text.delta" => Some((Part::Text, false, &event.delta)),
            "refusal.delta" => Some((Part::Refusal, false, &event.delta)),
            "reasoning_summary_text.delta" => Some((Part::Summary, false, &event.delta)),
            "reasoning_text.delta" => Some((Part::Thought, false, &event.delta)),
            "output_text.done" => Some((Part::Text, true, &event.text)),
            "refusal.done" => Some((Part::Refusal, true, &event.refusal)),
            "reasoning_summary_text.done" => Some((Part::Summary, true, &event.text)),
            "reasoning_text.done" => Some((Part::Thought, true, &event.text)),
            _ => None,
        };
        if let Some((kind, is_whole, text)) = text_part {
            match is_whole {
                true => items.whole(at, part(kind), text.or_empty(), reply),
                false => items.piece(at, part(kind), text.or_empty(), reply),
            }
            return Ok(());
        }
        match kind {
            "function_call_arguments.delta" | "custom_tool_call_input.delta" => {
                items.arguments(at, event.delta.or_empty(), reply)
            }
            "function_call_arguments.done" => match event.arguments {
                Some(whole) if whole.get().starts_with('"') => {
                    items.whole_arguments(at, exact(whole)?.or_empty(), reply)
                }
                Some(whole) => items.whole_arguments(at, whole.get(), reply),
                None => Ok(()),
            },
            "custom_tool_call_input.done" => items.whole_arguments(at, event.input.or_empty(), reply),
            "output_item.added" => {
                event.item.map_or(Ok(()), |item| items.begin(item, event.output_index.index(), reply))
            }
            "output_item.done" => event.item.map_or(Ok(()), |item| items.done(item, at, reply)),
            "created" | "queued" | "in_progress" => {
                let response = event.response.get();
                reply.begin(
                    response.and_then(|response| response.id.some()),
                    response.and_then(|response| response.model.some()),
                );
                Ok(())
            }
            "completed" | "incomplete" | "failed" | "cancelled" | "done" => {
                let nothing = Response::default();
                let response = event.response.get().unwrap_or(&nothing);
                let status = if kind == "done" { "completed" } else { kind };
                self.end(response.status.some().unwrap_or(status), response, reply)
            }
            "error" => Err(reply.failure(data)),
            "keepalive" | "ping" => {
                reply.keep_alive();
                Ok(())
            }
            _ if event.error.is_some_and(is_something) => Err(reply.failure(data)),
            // A tool that the provider runs is in progress.
            _ if kind.contains("_call") => {
                reply.did_other();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn whole(&mut self, body: &str, reply: &mut Assembly) -> Result<(), LlmError> {
        let response: Response<'_> = whole(body)?;
        let is_error = response.error.is_some_and(is_something);
        match response.status.some() {
            Some(status) => self.end(status, &response, reply),
            None if is_error => Err(reply.failure(body)),
            None if response.output.is_some() => {
                reply.warn("no_finish_reason");
                self.end("completed", &response, reply)
            }
            None => Err(again("a body without an output in place of a reply")),
        }
    }

    fn raw(&mut self, end: &End, calls: &[ToolCall]) -> Option<String> {
        if self.is_damaged { None } else { kept::raw(&self.items, end, calls, self.is_stored) }
    }
}

impl Responses {
    /// The final event, which contains the whole response.
    fn end(&mut self, status: &str, response: &Response<'_>, reply: &mut Assembly) -> Result<(), LlmError> {
        reply.begin(response.id.some(), response.model.some());
        reply.closes();
        if let Some(report) = response.usage.get() {
            reply.set_usage(report.usage(/*beside*/ false));
            if let Some(dollars) = report.dollars() {
                reply.set_cost(dollars);
            }
        }
        let failed = |kind, message| Err(LlmError::in_stream(kind, message));
        match status {
            _ if response.error.is_some_and(is_something) => {
                let error = response.error.map_or("null", RawValue::get);
                return Err(reply.failure(&format!("{{\"error\":{error}}}")));
            }
            "failed" => return failed(FailureKind::ServerError, "the provider failed and does not say why"),
            "cancelled" => {
                return failed(FailureKind::Cancelled, "the reply was cancelled with the provider");
            }
            "queued" | "in_progress" => {
                return failed(FailureKind::BadResponse, "the reply is still being made with the provider");
            }
            _ => {}
        }
        if let Some(output) = response.output {
            let output: RawList<'_> = parsed(output.get())?;
            if !self.items.has_all(output.0.len()) {
                self.items.output(&output.0, reply)?;
            }
        }
        self.items.finish(reply);
        if let Some(tier) = response.service_tier.some() {
            reply.set_tier(tier);
        }
        let reason = response.incomplete_details.get().and_then(|details| details.reason.some());
        let (word, stop) = match (status, reason) {
            ("completed", _) => (status, ReplyEnd::EndTurn),
            ("incomplete", Some("content_filter")) => ("content_filter", ReplyEnd::ContentFilter),
            // It was cut, for any other reason.
            ("incomplete", reason) => (reason.unwrap_or(status), ReplyEnd::MaxTokens),
            _ => (status, ReplyEnd::Other),
        };
        if stop == ReplyEnd::ContentFilter {
            tell_filters(response, reply);
        }
        match self.items.cut_at() {
            Some(text) if matches!(stop, ReplyEnd::EndTurn | ReplyEnd::MaxTokens) => {
                reply.stop(word, ReplyEnd::StopSequence);
                reply.set_stop_detail(text);
            }
            _ => reply.stop(word, stop),
        }
        self.has_ended = true;
        Ok(())
    }
}

/// Reports whether a content filter stopped the input or the output.
fn tell_filters(response: &Response<'_>, reply: &mut Assembly) {
    let filters = response.content_filters.and_then(|filters| serde_json::from_str(filters.get()).ok());
    let Some(Value::Array(filters)) = filters else { return };
    let blocks = |filter: &&Value| filter.get("blocked") == Some(&Value::Bool(true));
    let is_prompt = |filter: &Value| filter.get("source_type").is_some_and(|source| source == "prompt");
    if filters.iter().filter(blocks).any(is_prompt) {
        reply.set_filtered(Filtered::Input);
    }
    let results = filters.iter().filter_map(|filter| filter.get("content_filter_results"));
    let found: Vec<&str> = results.flat_map(filtered).map(String::as_str).collect();
    if !found.is_empty() {
        reply.set_stop_detail(&found.join(", "));
    }
}

fn is_something(value: &RawValue) -> bool {
    value.get() != "null"
}
