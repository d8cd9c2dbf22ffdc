//! What models and tools read and wrote, as JSON of the conventions. It is made only where it is asked for, and bounded.

use loop_core::{FinishReason, Reply};
use loop_llm::{Message, ModelRequest};
use serde_json::{Value, json};

use crate::data::{MAX_CONTENT, cut};

/// The messages of a request: the last ones, as many as there is room for.
pub(crate) fn input(request: &ModelRequest) -> String {
    let mut messages = Vec::new();
    let mut bytes = 2;
    for message in request.messages.iter().rev() {
        let text = of_message(message).to_string();
        bytes += text.len() + 1;
        if bytes > MAX_CONTENT && !messages.is_empty() {
            break;
        }
        messages.push(text);
    }
    messages.reverse();
    format!("[{}]", messages.join(","))
}

/// The rules of a request.
pub(crate) fn system(request: &ModelRequest) -> Option<String> {
    let system = &request.system;
    (!system.is_empty()).then(|| json!([text(system)]).to_string())
}

/// The message of a reply.
pub(crate) fn output(reply: &Reply) -> String {
    let mut parts = Vec::new();
    if let Some(reasoning) = &reply.reasoning {
        parts.push(json!({"type": "reasoning", "content": cut(reasoning, MAX_PART)}));
    }
    if !reply.text.is_empty() {
        parts.push(text(&reply.text));
    }
    let calls = reply.calls.iter().take(MAX_PARTS);
    parts.extend(calls.map(|call| tool_call(&call.id, &call.name, call.arguments.text())));
    let message = json!({"role": "assistant", "parts": parts, "finish_reason": finish_reason(reply.finish)});
    json!([message]).to_string()
}

/// The word of the conventions for the end of a reply.
pub(crate) fn finish_reason(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::EndTurn | FinishReason::Other => "stop",
        FinishReason::ToolUse => "tool_call",
        FinishReason::MaxTokens | FinishReason::Capped => "length",
        FinishReason::Refusal | FinishReason::Filtered => "content_filter",
    }
}

/// A text of a tool, cut.
pub(crate) fn of_tool(text: &str) -> &str {
    cut(text, MAX_PART)
}

fn of_message(message: &Message) -> Value {
    let (role, parts) = match message {
        Message::User { .. } => ("user", vec![text(message.text())]),
        Message::Operator { .. } => ("system", vec![text(message.text())]),
        Message::Assistant(turn) => {
            let mut parts = Vec::new();
            if !turn.text.is_empty() {
                parts.push(text(&turn.text));
            }
            let calls = turn.calls.iter().take(MAX_PARTS);
            parts.extend(calls.map(|call| tool_call(&call.id, &call.name, call.arguments.text())));
            ("assistant", parts)
        }
        Message::Tool { results } => {
            let part = |result: &loop_llm::ToolOutput| json!({"type": "tool_call_response", "id": &*result.call, "result": cut(&result.text, MAX_PART)});
            ("tool", results.iter().take(MAX_PARTS).map(part).collect())
        }
    };
    json!({"role": role, "parts": parts})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "content": cut(text, MAX_PART)})
}

fn tool_call(id: &str, name: &str, arguments: &str) -> Value {
    // What is not JSON, or was cut, is a text.
    let whole =
        (arguments.len() <= MAX_PART).then(|| serde_json::from_str::<Value>(arguments).ok()).flatten();
    let arguments = whole.unwrap_or_else(|| Value::from(cut(arguments, MAX_PART)));
    json!({"type": "tool_call", "id": cut(id, 200), "name": cut(name, 200), "arguments": arguments})
}

/// The most characters of one part of a message.
const MAX_PART: usize = 8 << 10;
/// The most parts of one kind in a message.
const MAX_PARTS: usize = 32;
