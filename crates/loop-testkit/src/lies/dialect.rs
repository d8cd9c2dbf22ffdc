//! Where a [`Twist`](super::twist::Twist) applies in the events of each protocol, as JSON pointers.
//!
//! A pointer that does not exist in an event changes nothing, so one list serves all events of a protocol.

use loop_llm::codec::Api;
use serde_json::{Value, json};

/// The reported end of a reply. Each protocol has its own words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndWord {
    /// The member is left out.
    Missing,
    /// The member is an empty text.
    Empty,
    /// An undocumented word.
    Unknown,
    /// The word for an answer.
    Answer,
    /// The word for tool calls.
    Calls,
    /// The word for the output limit.
    Limit,
    /// The word for a content filter.
    Filter,
}

/// The members with the end of a reply.
pub(super) fn ends(api: Api) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/choices/0/finish_reason"],
        Api::OpenaiResponses => &["/response/status"],
        Api::Anthropic => &["/delta/stop_reason"],
        Api::Gemini => &["/candidates/0/finishReason"],
    }
}

/// Whether an event has the end of a reply.
pub(super) fn is_end(api: Api, event: &Value) -> bool {
    match api {
        Api::OpenaiResponses => {
            matches!(kind(event), "response.completed" | "response.incomplete" | "response.failed")
        }
        Api::OpenaiChat | Api::Anthropic | Api::Gemini => {
            ends(api).iter().any(|pointer| event.pointer(pointer).is_some_and(|word| word.as_str().is_some()))
        }
    }
}

/// Whether an event is a protocol's marker for the end of the stream.
pub(super) fn is_mark(api: Api, frame: &[u8], event: Option<&Value>) -> bool {
    match api {
        Api::OpenaiChat => frame.starts_with(b"data: [DONE]"),
        Api::Anthropic => event.is_some_and(|event| kind(event) == "message_stop"),
        // The event that holds the end is the last one.
        Api::OpenaiResponses | Api::Gemini => event.is_some_and(|event| is_end(api, event)),
    }
}

/// Replaces the end in an event.
pub(super) fn say_end(api: Api, event: &mut Value, word: EndWord) {
    let words = match (api, word) {
        (_, EndWord::Missing) => None,
        (_, EndWord::Empty) => Some(""),
        (_, EndWord::Unknown) => Some("gone_fishing"),
        (Api::OpenaiChat, EndWord::Answer) => Some("stop"),
        (Api::OpenaiChat, EndWord::Calls) => Some("tool_calls"),
        (Api::OpenaiChat, EndWord::Limit) => Some("length"),
        (Api::OpenaiChat, EndWord::Filter) => Some("content_filter"),
        (Api::OpenaiResponses, EndWord::Answer | EndWord::Calls) => Some("completed"),
        (Api::OpenaiResponses, EndWord::Limit | EndWord::Filter) => Some("incomplete"),
        (Api::Anthropic, EndWord::Answer) => Some("end_turn"),
        (Api::Anthropic, EndWord::Calls) => Some("tool_use"),
        (Api::Anthropic, EndWord::Limit) => Some("max_tokens"),
        (Api::Anthropic, EndWord::Filter) => Some("refusal"),
        (Api::Gemini, EndWord::Answer | EndWord::Calls) => Some("STOP"),
        (Api::Gemini, EndWord::Limit) => Some("MAX_TOKENS"),
        (Api::Gemini, EndWord::Filter) => Some("SAFETY"),
    };
    set(event, ends(api), words.map_or(Value::Null, Value::from));
    if api == Api::OpenaiResponses {
        let reason = match word {
            EndWord::Limit => "max_output_tokens",
            EndWord::Filter => "content_filter",
            _ => return,
        };
        set(event, &["/type"], "response.incomplete".into());
        set(event, &["/response/incomplete_details"], json!({"reason": reason}));
    }
}

/// The objects that hold tokens.
pub(super) fn usages(api: Api) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/usage"],
        Api::OpenaiResponses => &["/response/usage"],
        Api::Anthropic => &["/usage", "/message/usage"],
        Api::Gemini => &["/usageMetadata"],
    }
}

/// The members that hold a piece of visible text.
pub(super) fn texts(api: Api, event: &Value) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/choices/0/delta/content"],
        Api::OpenaiResponses if kind(event) == "response.output_text.delta" => &["/delta"],
        Api::OpenaiResponses => &[],
        Api::Anthropic => &["/delta/text"],
        Api::Gemini => &["/candidates/0/content/parts/0/text"],
    }
}

/// The members that hold a call's arguments, or a piece of them.
pub(super) fn arguments(api: Api, event: &Value) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/choices/0/delta/tool_calls/0/function/arguments"],
        Api::OpenaiResponses if kind(event) == "response.function_call_arguments.delta" => &["/delta"],
        Api::OpenaiResponses => &["/arguments", "/item/arguments", "/response/output/0/arguments"],
        Api::Anthropic => &["/delta/partial_json"],
        Api::Gemini => &["/candidates/0/content/parts/0/functionCall/args"],
    }
}

/// The members that hold a call's name.
pub(super) fn names(api: Api) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/choices/0/delta/tool_calls/0/function/name"],
        Api::OpenaiResponses => &["/item/name", "/response/output/0/name", "/name"],
        Api::Anthropic => &["/content_block/name"],
        Api::Gemini => &["/candidates/0/content/parts/0/functionCall/name"],
    }
}

/// The members that hold a call's id.
pub(super) fn call_ids(api: Api) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/choices/0/delta/tool_calls/0/id"],
        Api::OpenaiResponses => &["/item/call_id", "/response/output/0/call_id"],
        Api::Anthropic => &["/content_block/id"],
        Api::Gemini => &["/candidates/0/content/parts/0/functionCall/id"],
    }
}

/// The members that number a call or a block among others.
pub(super) fn indexes(api: Api) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/choices/0/delta/tool_calls/0/index"],
        Api::OpenaiResponses => &["/output_index"],
        Api::Anthropic => &["/index"],
        Api::Gemini => &["/candidates/0/index"],
    }
}

/// The members that name the model that serves.
pub(super) fn models(api: Api) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/model"],
        Api::OpenaiResponses => &["/response/model"],
        Api::Anthropic => &["/message/model"],
        Api::Gemini => &["/modelVersion"],
    }
}

/// The members that name the reply.
pub(super) fn reply_ids(api: Api) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/id"],
        Api::OpenaiResponses => &["/response/id"],
        Api::Anthropic => &["/message/id"],
        Api::Gemini => &["/responseId"],
    }
}

/// The members that say who speaks.
pub(super) fn roles(api: Api) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/choices/0/delta/role"],
        Api::OpenaiResponses => &["/item/role"],
        Api::Anthropic => &["/message/role"],
        Api::Gemini => &["/candidates/0/content/role"],
    }
}

/// The member that holds the candidates or the pieces of a reply, where a protocol has one in its events.
pub(super) fn bodies(api: Api) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["/choices"],
        Api::OpenaiResponses | Api::Anthropic => &["/delta"],
        Api::Gemini => &["/candidates"],
    }
}

/// Puts a value at each of these pointers that an event has.
pub(super) fn set(event: &mut Value, pointers: &[&str], value: Value) {
    for pointer in pointers {
        if let Some(found) = event.pointer_mut(pointer) {
            *found = value.clone();
        }
    }
}

/// Whether an event has one of these pointers.
pub(super) fn has(event: &Value, pointers: &[&str]) -> bool {
    pointers.iter().any(|pointer| event.pointer(pointer).is_some_and(|found| !found.is_null()))
}

/// Whether an event has a text at one of these pointers that is not empty, or another value.
pub(super) fn says(event: &Value, pointers: &[&str]) -> bool {
    let says = |found: &Value| !found.is_null() && found.as_str() != Some("");
    pointers.iter().any(|pointer| event.pointer(pointer).is_some_and(says))
}

fn kind(event: &Value) -> &str {
    event.get("type").and_then(Value::as_str).unwrap_or_default()
}
