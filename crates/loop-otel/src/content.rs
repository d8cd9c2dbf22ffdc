//! Messages of models and results of tools as JSON of the GenAI conventions. Only on request, and with limits.

use loop_core::reply::{FinishReason, Reply};
use loop_llm::{Message, ModelRequest};
use serde_json::{Value, json};

use crate::data::{MAX_CONTENT, cut};

/// The last messages of a request, as many as fit.
pub(crate) fn input(request: &ModelRequest) -> String {
    let mut messages = Vec::new();
    let mut bytes = 2;
    for message in request.messages.iter().rev() {
        let Some(text) = fitting(|max| of_message(message, max)) else { continue };
        bytes += text.len() + 1;
        if bytes > ROOM && !messages.is_empty() {
            break;
        }
        messages.push(text);
    }
    messages.reverse();
    format!("[{}]", messages.join(","))
}

/// The system instructions of a request.
pub(crate) fn system(request: &ModelRequest) -> Option<String> {
    let system = &request.system;
    if system.is_empty() { None } else { fitting(|max| json!([text(system, max)])) }
}

/// The message of a reply.
pub(crate) fn output(reply: &Reply) -> String {
    fitting(|max| json!([of_reply(reply, max)])).unwrap_or_else(|| "[]".to_owned())
}

/// The first form that fits. `form` gets the most characters of a part, which becomes smaller each time. `None`: none
/// fits.
fn fitting(form: impl Fn(usize) -> Value) -> Option<String> {
    let forms = [MAX_PART, MAX_PART / 8, MAX_PART / 64].into_iter().map(|max| form(max).to_string());
    forms.into_iter().find(|text| text.len() <= ROOM)
}

fn of_reply(reply: &Reply, max: usize) -> Value {
    let mut parts = Vec::new();
    if let Some(reasoning) = &reply.reasoning {
        parts.push(json!({"type": "reasoning", "content": cut(reasoning, max)}));
    }
    if !reply.text.is_empty() {
        parts.push(text(&reply.text, max));
    }
    let calls = reply.calls.iter().take(MAX_PARTS);
    parts.extend(calls.map(|call| tool_call(&call.id, &call.name, call.arguments.text(), max)));
    json!({"role": "assistant", "parts": parts, "finish_reason": finish_reason(reply.finish)})
}

/// The finish reason by the name of the conventions.
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

fn of_message(message: &Message, max: usize) -> Value {
    let (role, parts) = match message {
        Message::User { .. } => ("user", vec![text(message.text(), max)]),
        Message::Operator { .. } => ("system", vec![text(message.text(), max)]),
        Message::Assistant(turn) => {
            let mut parts = Vec::new();
            if !turn.text.is_empty() {
                parts.push(text(&turn.text, max));
            }
            let calls = turn.calls.iter().take(MAX_PARTS);
            parts.extend(calls.map(|call| tool_call(&call.id, &call.name, call.arguments.text(), max)));
            ("assistant", parts)
        }
        Message::Tool { results } => {
            let part = |result: &loop_llm::ToolOutput| json!({"type": "tool_call_response", "id": &*result.call, "response": cut(&result.text, max)});
            ("tool", results.iter().take(MAX_PARTS).map(part).collect())
        }
    };
    json!({"role": role, "parts": parts})
}

fn text(text: &str, max: usize) -> Value {
    json!({"type": "text", "content": cut(text, max)})
}

fn tool_call(id: &str, name: &str, arguments: &str, max: usize) -> Value {
    // What is not JSON, or was cut, is a text.
    let whole = (arguments.len() <= max).then(|| serde_json::from_str::<Value>(arguments).ok()).flatten();
    let arguments = whole.unwrap_or_else(|| Value::from(cut(arguments, max)));
    json!({"type": "tool_call", "id": cut(id, 200), "name": cut(name, 200), "arguments": arguments})
}

/// The most bytes of all messages together. A longer attribute would be cut, and not be JSON.
const ROOM: usize = MAX_CONTENT - 64;
/// The most characters of one part of a message.
const MAX_PART: usize = 8 << 10;
/// The most parts of one kind in a message.
const MAX_PARTS: usize = 32;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use loop_llm::ToolOutput;

    use super::*;

    #[test]
    fn what_is_too_large_is_cut_and_stays_json() {
        // I-23
        let result = |nth: u32| ToolOutput {
            call: nth.to_string().into(),
            is_error: false,
            text: "\u{1}\u{7}é\"\\".repeat(50_000).into(),
            images: Vec::new(),
            status: None,
            origin: None,
        };
        let results = Message::Tool { results: (0..200).map(result).collect() };
        let long = Message::user("x\n".repeat(100_000));
        let messages = vec![long.clone(), results.clone(), long, results];
        let request =
            ModelRequest { messages, system: "s".repeat(100_000).into(), ..ModelRequest::default() };
        for text in [input(&request), system(&request).unwrap()] {
            assert!(text.len() <= MAX_CONTENT, "{}", text.len());
            assert!(!serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().is_empty());
        }
        // A result is under the name that the schema of the conventions requires.
        let messages: Value = serde_json::from_str(&input(&request)).unwrap();
        let has = |name: &str| messages.pointer(&format!("/0/parts/0/{name}")).is_some_and(Value::is_string);
        assert!(has("response") || has("content"), "{messages}");
        assert!(messages.pointer("/0/parts/0/result").is_none(), "{messages}");
        let reply = Reply { reasoning: Some("r".repeat(1 << 20).into()), ..Reply::text("t".repeat(1 << 20)) };
        let text = output(&reply);
        assert!(text.len() <= MAX_CONTENT && text.contains("finish_reason"), "{}", text.len());
    }
}
