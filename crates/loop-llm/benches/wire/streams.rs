//! Streams as the providers send them, made here: nothing in them was recorded.

use loop_llm::codec::Api;
use serde_json::{Value, json};

/// What a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Reasoning,
    Arguments,
    /// Some of each, as a turn in the middle of a run has it.
    Turn,
}

impl Kind {
    pub(crate) const SINGLE: [Self; 3] = [Self::Text, Self::Reasoning, Self::Arguments];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Reasoning => "reasoning",
            Self::Arguments => "arguments",
            Self::Turn => "turn",
        }
    }

    /// Pieces of reasoning, of text and of arguments out of so many.
    fn shares(self, pieces: usize) -> [usize; 3] {
        match self {
            Self::Text => [0, pieces, 0],
            Self::Reasoning => [pieces, 1, 0],
            Self::Arguments => [0, 0, pieces],
            Self::Turn => [pieces / 3, pieces / 3, pieces - pieces / 3 * 2],
        }
    }
}

/// The bytes of a stream with so many pieces, and how many events it has.
pub(crate) fn stream(api: Api, kind: Kind, pieces: usize) -> (Vec<u8>, usize) {
    let [reasoning, text, arguments] = kind.shares(pieces);
    let mut events = Vec::new();
    let words = |count: usize| (0..count).map(|nth| WORDS[nth % WORDS.len()]);
    // Gemini sends a call in one piece.
    let whole: String = std::iter::once("{\"note\":\"").chain(words(arguments)).chain(["\"}"]).collect();
    let fragments = std::iter::once("{\"note\":\"").chain(words(arguments)).chain(["\"}"]);
    let call = (arguments > 0).then_some((whole.as_str(), fragments));
    match api {
        Api::OpenaiChat => chat(&mut events, words(reasoning), words(text), call),
        Api::OpenaiResponses => responses(&mut events, words(reasoning), words(text), call),
        Api::Anthropic => anthropic(&mut events, words(reasoning), words(text), call),
        Api::Gemini => gemini(&mut events, words(reasoning), words(text), call),
    }
    let mut bytes = String::new();
    for event in &events {
        if matches!(api, Api::OpenaiResponses | Api::Anthropic) {
            bytes += &format!("event: {}\n", event["type"].as_str().unwrap());
        }
        bytes += &format!("data: {event}\n\n");
    }
    if api == Api::OpenaiChat {
        bytes += "data: [DONE]\n\n";
    }
    (bytes.into_bytes(), events.len())
}

type Call<'a, T> = Option<(&'a str, T)>;

fn chat<'a>(
    events: &mut Vec<Value>,
    reasoning: impl Iterator<Item = &'a str>,
    text: impl Iterator<Item = &'a str>,
    call: Call<'_, impl Iterator<Item = &'a str>>,
) {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4.1",
            "system_fingerprint": "fp_1", "usage": null,
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]})
    };
    let null = Value::Null;
    events.push(chunk(json!({"role": "assistant", "content": ""}), null.clone()));
    events.extend(reasoning.map(|piece| chunk(json!({"reasoning_content": piece}), null.clone())));
    events.extend(text.map(|piece| chunk(json!({"content": piece}), null.clone())));
    let has_call = call.is_some();
    if let Some((_, fragments)) = call {
        let first = json!({"index": 0, "id": "call_7", "type": "function",
            "function": {"name": "note", "arguments": ""}});
        events.push(chunk(json!({"tool_calls": [first]}), null.clone()));
        events.extend(fragments.map(|piece| {
            chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}), null.clone())
        }));
    }
    events.push(chunk(json!({}), if has_call { "tool_calls".into() } else { "stop".into() }));
    events.push(
        json!({"id": "chatcmpl-7", "object": "chat.completion.chunk", "model": "gpt-4.1", "choices": [],
        "usage": {"prompt_tokens": 90, "completion_tokens": 800, "total_tokens": 890}}),
    );
}

fn responses<'a>(
    events: &mut Vec<Value>,
    reasoning: impl Iterator<Item = &'a str>,
    text: impl Iterator<Item = &'a str>,
    call: Call<'_, impl Iterator<Item = &'a str>>,
) {
    let mut number = 0;
    let mut push = |mut event: Value| {
        event["sequence_number"] = number.into();
        number += 1;
        events.push(event);
    };
    let mut output = Vec::new();
    push(
        json!({"type": "response.created", "response": {"id": "resp_7", "model": "gpt-5.2", "status": "in_progress"}}),
    );
    let (mut thought, mut stated) = (String::new(), String::new());
    for piece in reasoning {
        if thought.is_empty() {
            push(json!({"type": "response.output_item.added", "output_index": 0,
                "item": {"type": "reasoning", "id": "rs_7", "summary": []}}));
            push(
                json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_7", "output_index": 0,
                "summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
            );
        }
        thought += piece;
        push(json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_7", "output_index": 0,
            "summary_index": 0, "delta": piece}));
    }
    if !thought.is_empty() {
        let item = json!({"type": "reasoning", "id": "rs_7", "encrypted_content": "gAAAA".repeat(200),
            "summary": [{"type": "summary_text", "text": thought}]});
        push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
        output.push(item);
    }
    let place = output.len();
    for piece in text {
        if stated.is_empty() {
            push(json!({"type": "response.output_item.added", "output_index": place,
                "item": {"type": "message", "id": "msg_7", "role": "assistant", "content": []}}));
            push(json!({"type": "response.content_part.added", "item_id": "msg_7", "output_index": place,
                "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}}));
        }
        stated += piece;
        push(json!({"type": "response.output_text.delta", "item_id": "msg_7", "output_index": place,
            "content_index": 0, "delta": piece, "logprobs": []}));
    }
    if !stated.is_empty() {
        let item = json!({"type": "message", "id": "msg_7", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": stated, "annotations": []}]});
        push(json!({"type": "response.output_item.done", "output_index": place, "item": item}));
        output.push(item);
    }
    let place = output.len();
    if let Some((whole, fragments)) = call {
        let item = |arguments: &str| {
            json!({"type": "function_call", "id": "fc_7", "call_id": "call_7", "name": "note",
                "arguments": arguments})
        };
        push(json!({"type": "response.output_item.added", "output_index": place, "item": item("")}));
        for piece in fragments {
            push(
                json!({"type": "response.function_call_arguments.delta", "item_id": "fc_7", "output_index": place,
                "delta": piece}),
            );
        }
        push(json!({"type": "response.output_item.done", "output_index": place, "item": item(whole)}));
        output.push(item(whole));
    }
    push(
        json!({"type": "response.completed", "response": {"id": "resp_7", "model": "gpt-5.2", "status": "completed",
        "output": output, "usage": {"input_tokens": 90, "output_tokens": 800, "total_tokens": 890}}}),
    );
}

fn anthropic<'a>(
    events: &mut Vec<Value>,
    reasoning: impl Iterator<Item = &'a str>,
    text: impl Iterator<Item = &'a str>,
    call: Call<'_, impl Iterator<Item = &'a str>>,
) {
    let has_call = call.is_some();
    let mut index = 0;
    let mut block = |events: &mut Vec<Value>, start: Value, deltas: Vec<Value>| {
        if deltas.is_empty() {
            return;
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.extend(
            deltas
                .into_iter()
                .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    };
    events.push(
        json!({"type": "message_start", "message": {"id": "msg_7", "type": "message", "role": "assistant",
        "model": "claude-sonnet-5", "content": [], "usage": {"input_tokens": 90, "output_tokens": 1}}}),
    );
    let mut deltas: Vec<Value> =
        reasoning.map(|piece| json!({"type": "thinking_delta", "thinking": piece})).collect();
    if !deltas.is_empty() {
        deltas.push(json!({"type": "signature_delta", "signature": "EqQB".repeat(100)}));
    }
    block(events, json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
    let deltas = text.map(|piece| json!({"type": "text_delta", "text": piece})).collect();
    block(events, json!({"type": "text", "text": ""}), deltas);
    if let Some((_, fragments)) = call {
        let start = json!({"type": "tool_use", "id": "toolu_7", "name": "note", "input": {}});
        let deltas =
            fragments.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect();
        block(events, start, deltas);
    }
    let stop = if has_call { "tool_use" } else { "end_turn" };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": 800}}));
    events.push(json!({"type": "message_stop"}));
}

fn gemini<'a>(
    events: &mut Vec<Value>,
    reasoning: impl Iterator<Item = &'a str>,
    text: impl Iterator<Item = &'a str>,
    call: Call<'_, impl Iterator<Item = &'a str>>,
) {
    let usage = json!({"promptTokenCount": 90, "candidatesTokenCount": 700, "thoughtsTokenCount": 100,
        "totalTokenCount": 890});
    let chunk = |part: Value| {
        json!({"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}],
            "usageMetadata": usage, "modelVersion": "gemini-3.8-flash", "responseId": "r7"})
    };
    events.extend(reasoning.map(|piece| chunk(json!({"text": piece, "thought": true}))));
    events.extend(text.map(|piece| chunk(json!({"text": piece}))));
    if let Some((whole, _)) = call {
        let args: Value = serde_json::from_str(whole).unwrap();
        let part =
            json!({"functionCall": {"name": "note", "args": args}, "thoughtSignature": "CpQB".repeat(100)});
        events.push(chunk(part));
    }
    let mut last = chunk(json!({"text": ""}));
    last["candidates"][0]["finishReason"] = "STOP".into();
    events.push(last);
}

/// Pieces as they come: a word or two.
const WORDS: [&str; 8] = [
    "The disk ",
    "of the ",
    "server is ",
    "full; it has ",
    "been so ",
    "since Monday, ",
    "says the ",
    "backup log. ",
];
