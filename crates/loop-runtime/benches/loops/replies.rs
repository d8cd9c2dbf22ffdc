//! The replies of a loop, ready to be sent: made here, nothing in them was recorded.

use serde_json::{Value, json};

/// Pieces of text in each reply; five times as many in the last one.
const PIECES: u32 = 8;

/// The HTTP responses of a loop, one a pass: each pass but the last calls `lookup` so often. Each event is a chunk of its own.
pub fn responses(passes: u32, calls: u32) -> Vec<Vec<u8>> {
    (1..=passes).map(|pass| response(&events(pass, if pass == passes { 0 } else { calls }))).collect()
}

fn response(events: &[Value]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
    let lines =
        events.iter().map(|event| format!("data: {event}\n\n")).chain(["data: [DONE]\n\n".to_owned()]);
    let chunks: String = lines.map(|line| format!("{:x}\r\n{line}\r\n", line.len())).collect();
    format!("{head}{chunks}0\r\n\r\n").into_bytes()
}

/// The events of the reply in this pass. What ends a loop calls nothing, and is longer than what is said on the way.
fn events(pass: u32, calls: u32) -> Vec<Value> {
    let pieces = if calls == 0 { 5 * PIECES } else { PIECES };
    let words = ["I", " look", " at", " the", " next", " entries", " of", " the", " list", "."];
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    let text = words.iter().cycle().take(pieces as usize);
    events.extend(text.map(|piece| chunk(json!({"content": piece}), Value::Null)));
    for nth in 1..=calls {
        let index = nth - 1;
        let function = json!({"name": "lookup", "arguments": ""});
        let id = format!("call_{pass}_{nth}");
        let first = json!({"index": index, "id": id, "type": "function", "function": function});
        events.push(chunk(json!({"tool_calls": [first]}), Value::Null));
        let arguments = json!({"id": format!("item-{pass}-{nth}")}).to_string();
        for piece in arguments.as_bytes().chunks(8) {
            let piece = String::from_utf8_lossy(piece);
            let next = json!({"index": index, "function": {"arguments": piece}});
            events.push(chunk(json!({"tool_calls": [next]}), Value::Null));
        }
    }
    events.push(chunk(json!({}), if calls == 0 { "stop".into() } else { "tool_calls".into() }));
    let (read, written) = (1_000 * pass, PIECES + 10 * calls);
    let mut usage = chunk(json!({}), Value::Null);
    usage["choices"] = json!([]);
    usage["usage"] =
        json!({"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written});
    events.push(usage);
    events
}

fn chunk(delta: Value, finish: Value) -> Value {
    json!({"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "bench-1",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]})
}
