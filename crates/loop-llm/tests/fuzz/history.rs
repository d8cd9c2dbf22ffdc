//! The history of a conversation, as each provider requires it. I-5, I-16.

use loop_core::types::ToolCall;
use loop_llm::codec::Codec;
use loop_llm::request::AssistantTurn;
use loop_llm::{Message, ModelRequest, Profile, ToolDefinition, ToolOutput};
use loop_testkit::fuzz::Bytes;
use serde_json::{Value, json};

#[path = "validators.rs"]
mod validators;

/// The bytes choose the turns: what users, models and tools say, and which calls there are.
pub(crate) fn target(data: &[u8]) {
    let mut bytes = Bytes::of(data);
    let tool = |name: &str| ToolDefinition {
        name: name.into(),
        description: "Does one thing".into(),
        parameters: json!({"type": "object", "properties": {"target": {"type": "string"}}}),
        strict: loop_llm::options::Strictness::Off,
    };
    let mut messages = vec![Message::user(said(&mut bytes))];
    while !bytes.is_over() && messages.len() < 24 {
        turn(&mut bytes, &mut messages);
    }
    // A request ends with what the model has to answer.
    if matches!(messages.last(), Some(Message::Assistant(_))) {
        messages.push(Message::user("Continue."));
    }
    let request = ModelRequest {
        messages,
        tools: [tool("look"), tool("change")].into(),
        max_output_tokens: Some(500),
        ..ModelRequest::new("m", "You are terse.", "")
    };
    for (profile, check) in validators::ALL {
        // A request that cannot be said in a protocol is refused, which is right too.
        let Ok(encoded) = Codec::new(Profile::named(profile).unwrap()).encode(&request) else { continue };
        let body: Value = serde_json::from_slice(&encoded.body.to_bytes()).unwrap();
        if let Err(why) = check(&body) {
            panic!("I-16: {profile}: {why}: {body} of {:?}", request.messages);
        }
    }
}

/// A text that says something: a history of a run has no other.
fn said(bytes: &mut Bytes<'_>) -> String {
    let text = bytes.text();
    if loop_core::types::is_blank(&text) { "Well.".to_owned() } else { text }
}

fn turn(bytes: &mut Bytes<'_>, messages: &mut Vec<Message>) {
    let follows_user = !matches!(messages.last(), Some(Message::Assistant(_)));
    match bytes.take() % 6 {
        0 => messages.push(Message::user(said(bytes))),
        1 => messages.push(Message::Operator { text: said(bytes).into() }),
        2 if follows_user => messages.push(Message::assistant(said(bytes))),
        _ if follows_user => {
            let count = 1 + bytes.take() % 3;
            let is_unnamed = bytes.take().is_multiple_of(8);
            let calls: Vec<ToolCall> = (0..count)
                .map(|nth| ToolCall {
                    id: if is_unnamed {
                        "call".into()
                    } else {
                        format!("call_{}_{nth}", messages.len()).into()
                    },
                    name: (*bytes.one(&["look", "change", "no such tool", "look"])).into(),
                    arguments: arguments(bytes).as_str().into(),
                })
                .take(if is_unnamed { 1 } else { usize::MAX })
                .collect();
            let mut results: Vec<ToolOutput> = calls
                .iter()
                .map(|call| ToolOutput {
                    call: call.id.clone(),
                    is_error: bytes.take().is_multiple_of(3),
                    text: bytes.text().into(),
                    ..ToolOutput::default()
                })
                .collect();
            if bytes.take().is_multiple_of(2) {
                results.reverse();
            }
            let text = bytes.text();
            messages.push(Message::Assistant(AssistantTurn {
                text: text.into(),
                calls,
                ..AssistantTurn::default()
            }));
            messages.push(Message::Tool { results });
        }
        _ => messages.push(Message::user(said(bytes))),
    }
}

fn arguments(bytes: &mut Bytes<'_>) -> String {
    match bytes.take() % 4 {
        0 => String::new(),
        1 => bytes.text(),
        _ => json!({"target": bytes.text()}).to_string(),
    }
}
