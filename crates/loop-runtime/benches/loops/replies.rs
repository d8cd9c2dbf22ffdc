//! The replies of a loop, ready to be sent: made here, nothing in them was recorded.

use serde_json::{Value, json};

/// What the loops look like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Model calls of a loop; the last one ends it.
    pub passes: u32,
    /// Calls of `lookup` in each pass but the last.
    pub calls: u32,
    /// Pieces of text in each reply; five times as many in the last one.
    pub pieces: u32,
    pub protocol: Protocol,
}

/// How the client is told what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Native calls; a text ends it.
    Conversation,
    /// Native calls; one of `save_finding` ends it.
    Output,
    /// Sections and a contract.
    Document,
}

impl Protocol {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "conversation" => Some(Self::Conversation),
            "output" => Some(Self::Output),
            "document" => Some(Self::Document),
            _ => None,
        }
    }
}

/// The HTTP responses of a loop, one a pass, each in the pieces in which a server has them: head, events, end. Each event
/// is a chunk of its own.
pub fn responses(shape: Shape) -> Vec<Vec<Vec<u8>>> {
    (1..=shape.passes).map(|pass| response(&events(shape, pass))).collect()
}

fn response(events: &[Value]) -> Vec<Vec<u8>> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
    let lines =
        events.iter().map(|event| format!("data: {event}\n\n")).chain(["data: [DONE]\n\n".to_owned()]);
    let chunks = lines.map(|line| format!("{:x}\r\n{line}\r\n", line.len()));
    let pieces = [head.to_owned()].into_iter().chain(chunks).chain(["0\r\n\r\n".to_owned()]);
    pieces.map(String::into_bytes).collect()
}

/// The events of the reply in this pass.
fn events(shape: Shape, pass: u32) -> Vec<Value> {
    let is_last = pass == shape.passes;
    let text = match shape.protocol {
        Protocol::Document => document(shape, pass),
        // What ends a loop is longer than what is said on the way.
        Protocol::Conversation | Protocol::Output if is_last => prose(5 * shape.pieces),
        Protocol::Conversation | Protocol::Output => prose(shape.pieces),
    };
    let calls = match (shape.protocol, is_last) {
        (Protocol::Document, _) | (Protocol::Conversation, true) => Vec::new(),
        (Protocol::Output, true) => {
            vec![(format!("call_{pass}_1"), "save_finding", json!({"finding": "The pump was found."}))]
        }
        (Protocol::Conversation | Protocol::Output, false) => (1..=shape.calls)
            .map(|nth| (format!("call_{pass}_{nth}"), "lookup", json!({"id": format!("item-{pass}-{nth}")})))
            .collect(),
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    events.extend(text.into_iter().map(|piece| chunk(json!({"content": piece}), Value::Null)));
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": ""});
        let first = json!({"index": index, "id": id, "type": "function", "function": function});
        events.push(chunk(json!({"tool_calls": [first]}), Value::Null));
        for piece in split(&arguments.to_string(), 8) {
            let next = json!({"index": index, "function": {"arguments": piece}});
            events.push(chunk(json!({"tool_calls": [next]}), Value::Null));
        }
    }
    events.push(chunk(json!({}), if calls.is_empty() { "stop".into() } else { "tool_calls".into() }));
    let written = shape.pieces + 10 * shape.calls;
    let mut usage = chunk(json!({}), Value::Null);
    if let Some(usage) = usage.as_object_mut() {
        usage.insert("choices".to_owned(), json!([]));
        let (read, all) = (1_000 * pass, 1_000 * pass + written);
        usage.insert(
            "usage".to_owned(),
            json!({"prompt_tokens": read, "completion_tokens": written, "total_tokens": all}),
        );
    }
    events.push(usage);
    events
}

fn chunk(delta: Value, finish: Value) -> Value {
    json!({"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "bench-1",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]})
}

/// So many pieces of text.
fn prose(pieces: u32) -> Vec<String> {
    let words = ["I", " look", " at", " the", " next", " entries", " of", " the", " list", "."];
    words.iter().cycle().take(pieces as usize).map(|word| (*word).to_owned()).collect()
}

/// A reply of the document protocol: its section grows from pass to pass, and every pass but the last wants more.
fn document(shape: Shape, pass: u32) -> Vec<String> {
    let is_last = pass == shape.passes;
    let actions: Vec<Value> = (1..=if is_last { 0 } else { shape.calls })
        .map(|nth| {
            json!({"action_id": format!("a{pass}-{nth}"), "action_type": "lookup", "reason": "It is the next one.",
                "priority": "required", "parameters": {"id": format!("item-{pass}-{nth}")}})
        })
        .collect();
    let cited = if pass == 1 { "" } else { " [E1]" };
    let contract = json!({"analysis_confidence": if is_last { "high" } else { "medium" },
        "confidence_reason": "That is how far it got.", "ai_actions": actions});
    let text = format!(
        "## Findings\n{} ({pass}){cited}\n\n```json\n{contract}\n```\n",
        prose(shape.pieces).concat()
    );
    split(&text, 24)
}

/// A text in pieces of so many characters.
fn split(text: &str, max: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(max).map(|piece| piece.iter().collect()).collect()
}
