//! The server on loopback speaks four protocols as their providers do, held against answers written by hand.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod raw;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::{FinishReason, Usage};
use loop_llm::testing::{Behaviour, Chunks, Ending, Server, Service};
use loop_llm::{
    Arguments, ChatModel, ErrorPhase, EventStream, LlmError, LlmErrorKind, Message, ModelEvent, ModelReply,
    ModelRequest, Offline, RetryAdvice, Scripted, Stop, ToolCall, ToolChoice,
};
use raw::{Reply, exchange, soon};
use serde_json::{Value, json};

/// The protocols: where a question goes, and the headers that it needs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Api {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

const ALL: [Api; 4] = [Api::Chat, Api::Responses, Api::Anthropic, Api::Gemini];

impl Api {
    fn path(self, streams: bool) -> &'static str {
        match (self, streams) {
            (Self::Chat, _) => "/v1/chat/completions",
            (Self::Responses, _) => "/v1/responses",
            (Self::Anthropic, _) => "/v1/messages",
            (Self::Gemini, true) => "/v1beta/models/m:streamGenerateContent?alt=sse",
            (Self::Gemini, false) => "/v1beta/models/m:generateContent",
        }
    }

    /// A question of one text, as small as it may be.
    fn question(self, streams: bool) -> Value {
        match self {
            Self::Chat => json!({
                "model": "m", "stream": streams, "messages": [{"role": "user", "content": "hi"}],
            }),
            Self::Responses => json!({
                "model": "m", "stream": streams, "store": false, "include": ["reasoning.encrypted_content"],
                "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
            }),
            Self::Anthropic => json!({
                "model": "m", "stream": streams, "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}],
            }),
            Self::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
        }
    }

    async fn ask(self, server: &Server, streams: bool) -> Reply {
        self.post(server, streams, &self.question(streams)).await
    }

    async fn post(self, server: &Server, streams: bool, body: &Value) -> Reply {
        Reply::read(&self.bytes(server, streams, body).await)
    }

    async fn bytes(self, server: &Server, streams: bool, body: &Value) -> Vec<u8> {
        let version = [("anthropic-version", "2023-06-01")];
        let headers = if self == Self::Anthropic { version.as_slice() } else { &[] };
        exchange(server, &raw::request(self.path(streams), headers, body)).await
    }

    /// The message of an error in its own form.
    fn message(self, reply: &Reply) -> String {
        let body = reply.json();
        let is_right = match self {
            Self::Chat | Self::Responses => body["error"]["type"].is_string(),
            Self::Anthropic => body["type"] == "error" && body["error"]["type"].is_string(),
            Self::Gemini => body["error"]["code"] == reply.status && body["error"]["status"].is_string(),
        };
        assert!(is_right, "{self:?}: {body}");
        body["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// A reply that has everything: reasoning, text, two calls and all kinds of tokens.
fn full() -> ModelReply {
    let usage = Usage {
        input: 50,
        cache_read: 1_800,
        cache_write_short: 150,
        cache_write_long: 50,
        output: 180,
        reasoning: 120,
        estimated: false,
    };
    let mut reply = ModelReply::text("I will check.", Some(usage));
    reply.reasoning = "Two cities.".into();
    reply.finish = FinishReason::ToolUse;
    reply.tool_calls = vec![
        call("call_a", "weather", "{\"city\":\"Oslo\"}"),
        call("call_b", "weather", "{\"city\":\"Rome\"}"),
    ];
    reply
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: Arguments::read(arguments) }
}

/// The same reply in pieces.
fn full_in_pieces() -> Vec<Result<ModelEvent, LlmError>> {
    let text = |text: &str| Ok(ModelEvent::TextDelta { text: text.into() });
    vec![
        Ok(ModelEvent::Started { reply: None, model: Some("m-2".into()) }),
        Ok(ModelEvent::ReasoningDelta { text: "Two ".into() }),
        Ok(ModelEvent::ReasoningDelta { text: "cities.".into() }),
        text("I will "),
        text("check."),
        Ok(ModelEvent::Finished(Box::new(full()))),
    ]
}

fn serve(events: Vec<Result<ModelEvent, LlmError>>) -> Server {
    Server::start(Service::of(Arc::new(Saying(events)))).unwrap()
}

fn finished(reply: ModelReply) -> Vec<Result<ModelEvent, LlmError>> {
    vec![Ok(ModelEvent::Finished(Box::new(reply)))]
}

/// Events with their names, which have to be those of their types.
fn named(text: &str) -> Vec<Value> {
    let event = |event: &str| {
        let (name, data) = event.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str(), "{event}");
        data
    };
    text.split_terminator("\n\n").map(event).collect()
}

#[tokio::test]
async fn a_stream_of_messages_has_blocks_that_begin_grow_and_end() {
    // wire WA01, WA02 and WU03, from the server's side.
    let reply = Api::Anthropic.ask(&serve(full_in_pieces()), true).await;
    assert_eq!(
        (reply.header("content-type"), reply.header("request-id")),
        (Some("text/event-stream"), Some("req_1"))
    );
    let events = named(&reply.text());
    let signature = events[5]["delta"]["signature"].as_str().unwrap().to_owned();
    assert!(signature.len() > 20);
    let start = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let mut expected = vec![
        json!({"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m-2", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
        }}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "Two "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "cities."})),
        delta(0, json!({"type": "signature_delta", "signature": signature})),
        stop(0),
        start(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "I will "})),
        delta(1, json!({"type": "text_delta", "text": "check."})),
        stop(1),
    ];
    for (index, id, first, second) in
        [(2, "call_a", "{\"city\"", ":\"Oslo\"}"), (3, "call_b", "{\"city\"", ":\"Rome\"}")]
    {
        expected.push(start(index, json!({"type": "tool_use", "id": id, "name": "weather", "input": {}})));
        for piece in ["", first, second] {
            expected.push(delta(index, json!({"type": "input_json_delta", "partial_json": piece})));
        }
        expected.push(stop(index));
    }
    expected.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": null, "stop_details": null},
        "usage": {
            "input_tokens": 50, "cache_read_input_tokens": 1_800, "cache_creation_input_tokens": 200,
            "cache_creation": {"ephemeral_5m_input_tokens": 150, "ephemeral_1h_input_tokens": 50},
            "output_tokens": 300, "output_tokens_details": {"thinking_tokens": 120}, "service_tier": "standard",
        },
    }));
    expected.push(json!({"type": "message_stop"}));
    assert_eq!(events, expected);
}

#[tokio::test]
async fn a_stream_of_responses_is_numbered_and_ends_with_the_whole() {
    // wire WR01 to WR03 and WU02, from the server's side.
    let events = named(&Api::Responses.ask(&serve(full_in_pieces()), true).await.text());
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap().strip_prefix("response.").unwrap())
        .collect();
    let call = [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ];
    let expected: Vec<&str> = [
        &["created", "in_progress"][..],
        &["output_item.added", "reasoning_summary_part.added"],
        &["reasoning_summary_text.delta", "reasoning_summary_text.delta"],
        &["reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"],
        &["output_item.added", "content_part.added", "output_text.delta", "output_text.delta"],
        &["output_text.done", "content_part.done", "output_item.done"],
        &call,
        &call,
        &["completed"],
    ]
    .concat();
    assert_eq!(kinds, expected);
    let at = |kind: &str| &events[kinds.iter().position(|known| *known == kind).unwrap()];
    assert_eq!(
        *at("output_text.delta"),
        json!({
            "type": "response.output_text.delta", "sequence_number": 11, "item_id": "msg_1_1_r", "output_index": 1,
            "content_index": 0, "delta": "I will ", "logprobs": [],
        })
    );
    assert_eq!(
        *at("reasoning_summary_part.done"),
        json!({
            "type": "response.reasoning_summary_part.done", "sequence_number": 7, "item_id": "rs_1_0",
            "output_index": 0, "summary_index": 0, "part": {"type": "summary_text", "text": "Two cities."},
        })
    );
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    let sealed = done[0]["encrypted_content"].as_str().unwrap();
    let function = |id: &str, call: &str, arguments: &str| {
        json!({
            "type": "function_call", "id": id, "call_id": call, "name": "weather", "arguments": arguments,
            "status": "completed",
        })
    };
    let items = json!([
        {
            "type": "reasoning", "id": "rs_1_0", "summary": [{"type": "summary_text", "text": "Two cities."}],
            "encrypted_content": sealed,
        },
        {
            "type": "message", "id": "msg_1_1_r", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "I will check.", "annotations": [], "logprobs": []}],
        },
        function("fc_1_2_r", "call_a", "{\"city\":\"Oslo\"}"),
        function("fc_1_3_r", "call_b", "{\"city\":\"Rome\"}"),
    ]);
    assert_eq!(json!(done), items);
    let whole = &events.last().unwrap()["response"];
    assert_eq!(
        (&whole["output"], &whole["status"], &whole["id"]),
        (&items, &json!("completed"), &json!("resp_1"))
    );
    assert_eq!(
        whole["usage"],
        json!({
            "input_tokens": 2_050, "input_tokens_details": {"cached_tokens": 1_800, "cache_write_tokens": 200},
            "output_tokens": 300, "output_tokens_details": {"reasoning_tokens": 120}, "total_tokens": 2_350,
        })
    );
}

#[tokio::test]
async fn a_stream_of_gemini_is_chunks_that_are_each_a_response() {
    // wire WG02 to WG04 and WU05, from the server's side.
    let server = serve(full_in_pieces());
    let text = Api::Gemini.ask(&server, true).await.text();
    let chunks: Vec<Value> = text
        .split_terminator("\r\n\r\n")
        .map(|chunk| serde_json::from_str(chunk.strip_prefix("data: ").unwrap()).unwrap())
        .collect();
    let signature = &chunks[4]["candidates"][0]["content"]["parts"][0]["thoughtSignature"];
    assert!(signature.as_str().unwrap().len() > 20);
    let guessed = json!({"promptTokenCount": 1, "totalTokenCount": 1});
    let chunk = |part: Value| {
        json!({
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}],
            "usageMetadata": guessed, "modelVersion": "m-2", "responseId": "response-1",
        })
    };
    let function = |id: &str, city: &str| json!({"id": id, "name": "weather", "args": {"city": city}});
    let mut last = chunk(json!({"text": ""}));
    last["candidates"][0]["finishReason"] = "STOP".into();
    last["usageMetadata"] = json!({
        "promptTokenCount": 2_050, "cachedContentTokenCount": 1_800, "candidatesTokenCount": 180,
        "thoughtsTokenCount": 120, "totalTokenCount": 2_350,
    });
    let expected = vec![
        chunk(json!({"text": "Two ", "thought": true})),
        chunk(json!({"text": "cities.", "thought": true})),
        chunk(json!({"text": "I will "})),
        chunk(json!({"text": "check."})),
        chunk(json!({"functionCall": function("call_a", "Oslo"), "thoughtSignature": signature})),
        chunk(json!({"functionCall": function("call_b", "Rome")})),
        last,
    ];
    assert_eq!(chunks, expected);

    let path = "/models/m:streamGenerateContent";
    let body = Api::Gemini.question(true);
    let reply = Reply::read(&exchange(&server, &raw::request(path, &[], &body)).await);
    assert_eq!(reply.header("content-type"), Some("application/json"), "without alt=sse it is one array");
    assert_eq!(reply.json().as_array().unwrap().len(), 7);
    assert_eq!(
        reply.json()[5]["candidates"][0]["content"]["parts"][0],
        expected[5]["candidates"][0]["content"]["parts"][0]
    );
}

#[tokio::test]
async fn without_a_stream_each_protocol_has_one_object() {
    // wire WC17, from the server's side.
    let server = serve(finished(full()));
    let chat = Api::Chat.ask(&server, false).await.json();
    assert_eq!(
        chat["choices"][0],
        json!({"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "I will check.", "refusal": null, "reasoning_content": "Two cities.",
            "tool_calls": [
                {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}},
                {"id": "call_b", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}},
            ],
        }})
    );
    let responses = Api::Responses.ask(&server, false).await.json();
    let kinds: Vec<&Value> =
        responses["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(json!(kinds), json!(["reasoning", "message", "function_call", "function_call"]));
    assert_eq!((&responses["status"], &responses["object"]), (&json!("completed"), &json!("response")));
    let anthropic = Api::Anthropic.ask(&server, false).await.json();
    let signature = &anthropic["content"][0]["signature"];
    assert_eq!(
        anthropic["content"],
        json!([
            {"type": "thinking", "thinking": "Two cities.", "signature": signature},
            {"type": "text", "text": "I will check."},
            {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "call_b", "name": "weather", "input": {"city": "Rome"}},
        ])
    );
    assert_eq!(
        (&anthropic["stop_reason"], &anthropic["usage"]["input_tokens"]),
        (&json!("tool_use"), &json!(50))
    );
    let gemini = Api::Gemini.ask(&server, false).await.json();
    let parts = gemini["candidates"][0]["content"]["parts"].as_array().unwrap();
    assert_eq!((parts.len(), &parts[0]), (4, &json!({"text": "Two cities.", "thought": true})));
    assert!(parts[2]["thoughtSignature"].is_string() && parts[3].get("thoughtSignature").is_none());
    assert_eq!(gemini["usageMetadata"]["totalTokenCount"], 2_350);

    // What reasoned and calls nothing is signed behind its text.
    let mut plain = full();
    plain.tool_calls.clear();
    plain.finish = FinishReason::EndTurn;
    let server = serve(finished(plain));
    let gemini = Api::Gemini.ask(&server, false).await.json();
    assert!(gemini["candidates"][0]["content"]["parts"][1]["thoughtSignature"].is_string());
    let streamed = Api::Gemini.ask(&server, true).await.text();
    assert!(streamed.contains("\"parts\":[{\"text\":\"\",\"thoughtSignature\":"), "{streamed}");
}

#[tokio::test]
async fn every_end_of_a_reply_has_its_word_in_every_protocol() {
    // wire WA11, WA12, WR05, WR06, WG07 and WG08, from the server's side.
    let ends = [
        (Stop::EndTurn, ["stop", "completed", "end_turn", "STOP"]),
        (Stop::Empty, ["stop", "completed", "end_turn", "STOP"]),
        (Stop::MaxTokens, ["length", "max_output_tokens", "max_tokens", "MAX_TOKENS"]),
        (
            Stop::ContextWindow,
            ["model_length", "max_output_tokens", "model_context_window_exceeded", "MAX_TOKENS"],
        ),
        (Stop::StopSequence, ["stop", "completed", "stop_sequence", "STOP"]),
        (Stop::ContentFilter, ["content_filter", "content_filter", "refusal", "SAFETY"]),
        (Stop::Refusal, ["stop", "completed", "refusal", "SAFETY"]),
        (
            Stop::MalformedToolCall,
            ["tool_calls", "malformed_tool_call", "malformed_tool_call", "MALFORMED_FUNCTION_CALL"],
        ),
        (Stop::Other, ["other", "other", "other", "OTHER"]),
    ];
    for (stop, words) in ends {
        let mut reply = ModelReply::text(if stop == Stop::Empty { "" } else { "x" }, None);
        (reply.stop, reply.finish) = (Some(stop), stop.finish());
        let server = serve(finished(reply));
        for (api, word) in ALL.into_iter().zip(words) {
            let text = api.ask(&server, true).await.text();
            assert!(text.contains(&format!("\"{word}\"")), "{stop:?} {api:?}: {text}");
            let body = api.ask(&server, false).await.json();
            let said = match api {
                Api::Chat => &body["choices"][0]["finish_reason"],
                Api::Responses if body["status"] == "completed" => &body["status"],
                Api::Responses => &body["incomplete_details"]["reason"],
                Api::Anthropic => &body["stop_reason"],
                Api::Gemini => &body["candidates"][0]["finishReason"],
            };
            assert_eq!(said, word, "{stop:?} {api:?}");
        }
    }
}

#[tokio::test]
async fn a_refusal_stands_where_the_protocol_has_a_place_for_it() {
    // wire WC11 and WR14, from the server's side.
    let mut reply = ModelReply::text("", None);
    (reply.refusal, reply.stop, reply.finish) =
        (Some("No.".into()), Some(Stop::Refusal), FinishReason::Refusal);
    let server = serve(finished(reply));
    let chat = Api::Chat.ask(&server, false).await.json();
    assert_eq!(
        chat["choices"][0]["message"],
        json!({"role": "assistant", "content": null, "refusal": "No."})
    );
    assert!(Api::Chat.ask(&server, true).await.text().contains("\"delta\":{\"refusal\":\"No.\"}"));
    let responses = Api::Responses.ask(&server, false).await.json();
    assert_eq!(responses["output"][0]["content"], json!([{"type": "refusal", "refusal": "No."}]));
    assert!(Api::Responses.ask(&server, true).await.text().contains("event: response.refusal.delta"));
    let anthropic = Api::Anthropic.ask(&server, false).await.json();
    assert_eq!(anthropic["stop_details"]["explanation"], "No.");
}

/// A history of everything, in each protocol's own form.
fn history(api: Api) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    match api {
        Api::Chat => json!({
            "model": "m", "max_completion_tokens": 99, "parallel_tool_calls": false, "tool_choice": "required",
            "tools": [{"type": "function", "function": {"name": "weather", "description": "Looks.", "parameters": schema}}],
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": "Oslo and Rome?"},
                {"role": "assistant", "content": "I will check.", "tool_calls": [
                    {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}},
                    {"id": "call_b", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "call_a", "content": "3 degrees"},
                {"role": "tool", "tool_call_id": "call_b", "content": "station offline"},
                {"role": "assistant", "content": "Cold in Oslo."},
                {"role": "user", "content": [
                    {"type": "text", "text": "And this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ]},
            ],
        }),
        Api::Responses => json!({
            "model": "m", "max_output_tokens": 99, "parallel_tool_calls": false, "tool_choice": "required",
            "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "weather", "description": "Looks.", "parameters": schema, "strict": false}],
            "input": [
                {"role": "user", "content": "Oslo and Rome?"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I will check."}]},
                {"type": "function_call", "call_id": "call_a", "name": "weather", "arguments": "{\"city\":\"Oslo\"}"},
                {"type": "function_call", "call_id": "call_b", "name": "weather", "arguments": "{\"city\":\"Rome\"}"},
                {"type": "function_call_output", "call_id": "call_a", "output": "3 degrees"},
                {"type": "function_call_output", "call_id": "call_b", "output": [{"type": "input_text", "text": "station offline"}]},
                {"role": "assistant", "content": "Cold in Oslo."},
                {"role": "user", "content": [
                    {"type": "input_text", "text": "And this?"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
                ]},
            ],
        }),
        Api::Anthropic => json!({
            "model": "m", "max_tokens": 99, "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "weather", "description": "Looks.", "input_schema": schema}],
            "messages": [
                {"role": "user", "content": "Oslo and Rome?"},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "I will check."},
                    {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "Oslo"}},
                    {"type": "tool_use", "id": "call_b", "name": "weather", "input": {"city": "Rome"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "call_a", "content": "3 degrees"},
                    {"type": "tool_result", "tool_use_id": "call_b", "is_error": true,
                     "content": [{"type": "text", "text": "station offline"}]},
                ]},
                {"role": "assistant", "content": "Cold in Oslo."},
                {"role": "user", "content": [
                    {"type": "text", "text": "And this?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                ]},
            ],
        }),
        Api::Gemini => json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": {"maxOutputTokens": 99},
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
            "tools": [{"functionDeclarations": [
                {"name": "weather", "description": "Looks.", "parametersJsonSchema": schema},
            ]}],
            "contents": [
                {"role": "user", "parts": [{"text": "Oslo and Rome?"}]},
                {"role": "model", "parts": [
                    {"text": "I will check."},
                    {"functionCall": {"id": "call_a", "name": "weather", "args": {"city": "Oslo"}}},
                    {"functionCall": {"id": "call_b", "name": "weather", "args": {"city": "Rome"}}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "call_a", "name": "weather", "response": {"output": "3 degrees"}}},
                    {"functionResponse": {"id": "call_b", "name": "weather", "response": {"error": "station offline"}}},
                ]},
                {"role": "model", "parts": [{"text": "Cold in Oslo."}]},
                {"role": "user", "parts": [
                    {"text": "And this?"},
                    {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                ]},
            ],
        }),
    }
}

#[tokio::test]
async fn the_same_history_is_the_same_neutral_request_in_all_protocols() {
    // wire WX01, from the server's side.
    let mut heard = Vec::new();
    for api in ALL {
        let server = serve(finished(ModelReply::text("Fine.", None)));
        let reply = api.post(&server, false, &history(api)).await;
        assert_eq!(reply.status, 200, "{api:?}: {}", reply.text());
        heard.push(soon(server.ended(1)).await[0].request().unwrap());
    }
    let chat = &heard[0];
    assert_eq!((&*chat.system, chat.max_output_tokens, chat.messages.len()), ("Be brief.", Some(99), 5));
    assert_eq!((&*chat.tools[0].name, &chat.tool_choice), ("weather", &ToolChoice::Required));
    assert!(chat.one_call_at_a_time);
    let Message::Tool { results } = &chat.messages[2] else { panic!("{chat:?}") };
    assert_eq!((&*results[0].call, &*results[1].text), ("call_a", "station offline"));
    for (api, request) in ALL.into_iter().zip(&heard).skip(1) {
        let mut plain = request.clone();
        // Two protocols mark errors, and one has no word for one call at a time.
        let marks = matches!(api, Api::Anthropic | Api::Gemini);
        let Message::Tool { results } = &mut plain.messages[2] else { panic!("{request:?}") };
        assert_eq!((results[0].is_error, results[1].is_error), (false, marks), "{api:?}");
        results.iter_mut().for_each(|result| result.is_error = false);
        plain.one_call_at_a_time |= api == Api::Gemini;
        assert_eq!(&plain, chat, "{api:?}");
    }
}

#[tokio::test]
async fn each_protocol_refuses_what_its_provider_refuses() {
    let server = Server::start(Service::of(Arc::new(Offline::new()))).unwrap();
    for (api, pointer, value, words) in unfit() {
        let mut body = history(api);
        match body.pointer_mut(pointer) {
            Some(place) => *place = value.clone(),
            None => {
                let (parent, name) = pointer.rsplit_once('/').unwrap();
                let parent = body.pointer_mut(parent).unwrap();
                match parent {
                    Value::Array(items) => items.insert(name.parse().unwrap_or(items.len()), value.clone()),
                    _ => parent[name] = value.clone(),
                }
            }
        }
        let reply = api.post(&server, false, &body).await;
        assert_eq!(reply.status, 400, "{api:?} {pointer} {value}: {}", reply.text());
        let message = api.message(&reply);
        assert!(message.contains(words), "{api:?} {pointer} {value}: {message}");
    }
    let body = Api::Anthropic.question(false);
    let reply = Reply::read(&exchange(&server, &raw::request("/messages", &[], &body)).await);
    assert_eq!(Api::Anthropic.message(&reply), "anthropic-version: header is required");
}

/// What is put where into a history, and words of what is said about it.
fn unfit() -> Vec<(Api, &'static str, Value, &'static str)> {
    use Api::{Anthropic, Chat, Gemini, Responses};
    let user = json!({"role": "user", "content": "x"});
    let long = json!({"type": "ephemeral", "ttl": "1h"});
    vec![
        (Chat, "/future", json!(1), "Unrecognized request argument supplied: future"),
        (Chat, "/messages/3", user.clone(), "must be followed by tool messages"),
        (Chat, "/messages/4/tool_call_id", json!("call_x"), "answers no call"),
        (Chat, "/messages/4/tool_call_id", json!("call_a"), "answers no call"),
        (
            Chat,
            "/messages/5",
            json!({"role": "tool", "tool_call_id": "call_a", "content": ""}),
            "answers no call",
        ),
        (Chat, "/messages/2/tool_calls/0/function/arguments", json!({}), "has calls that are none"),
        (Chat, "/messages/2/tool_calls/1/id", json!("call_a"), "has calls that are none"),
        (Chat, "/messages/5", json!({"role": "assistant", "content": null}), "neither content nor calls"),
        (
            Chat,
            "/messages/4/content",
            json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]),
            "only users",
        ),
        (Chat, "/tools/0/function/name", json!("a.b"), "name that is not allowed"),
        (
            Chat,
            "/tool_choice",
            json!({"type": "function", "function": {"name": "other"}}),
            "no tool that there is",
        ),
        (Chat, "/stop", json!(["a", "b", "c", "d", "e"]), "at most 4"),
        (Responses, "/stop", json!(["a"]), "Unknown parameter: 'stop'."),
        (Responses, "/reasoning", json!({"efforts": "low"}), "Unknown parameter: 'reasoning.efforts'."),
        (Responses, "/max_output_tokens", json!(15), "at least 16"),
        (
            Responses,
            "/previous_response_id",
            json!("resp_9"),
            "Previous response with id 'resp_9' not found.",
        ),
        (Responses, "/input", json!([]), "Missing required parameter: 'input'."),
        (
            Responses,
            "/input/4",
            json!({"role": "user", "content": "x"}),
            "No tool output found for function call call_a.",
        ),
        (
            Responses,
            "/input/5/call_id",
            json!("call_a"),
            "No tool call found for function call output with call_id call_a.",
        ),
        (Responses, "/input/3/call_id", json!("call_a"), "Duplicate"),
        (
            Responses,
            "/input/0",
            json!({"role": "user", "content": [{"type": "text", "text": "x"}]}),
            "'input[0].content'",
        ),
        (Responses, "/input/2/arguments", json!({}), "'input[2].arguments'"),
        (Responses, "/input/0/type", json!("future"), "Invalid value: 'future'"),
        (Responses, "/input/0/extra", json!(1), "Unknown parameter: 'input[0].extra'."),
        (Responses, "/tools/0/function", json!({}), "Unknown parameter: 'tools[0].function'."),
        (
            Responses,
            "/tool_choice",
            json!({"type": "function", "function": {"name": "weather"}}),
            "'tool_choice' names",
        ),
        (Responses, "/input/2/id", json!("fc_1_2_r"), "without its required 'reasoning' item"),
        (Anthropic, "/stop", json!([]), "stop: Extra inputs are not permitted"),
        (Anthropic, "/max_tokens", Value::Null, "max_tokens: Field required"),
        (Anthropic, "/temperature", json!(1.5), "temperature"),
        (Anthropic, "/stop_sequences", json!([" \n"]), "non-whitespace"),
        (Anthropic, "/system/0/text", json!(""), "text content blocks must be non-empty"),
        (Anthropic, "/messages/0/role", json!("assistant"), "first message must use the \"user\" role"),
        (Anthropic, "/messages/0/content", json!(""), "non-empty content"),
        (Anthropic, "/messages/3/content", json!([]), "non-empty content"),
        (
            Anthropic,
            "/messages/1/content/0/text",
            json!(""),
            "messages.1.content.0: text content blocks must be non-empty",
        ),
        (
            Anthropic,
            "/messages/2",
            user.clone(),
            "`tool_use` ids were found without `tool_result` blocks immediately after: call_a, call_b",
        ),
        (Anthropic, "/messages/2/content/1/tool_use_id", json!("call_a"), "unexpected `tool_use_id`"),
        (Anthropic, "/messages/2/content/0", json!({"type": "text", "text": "x"}), "before all others"),
        (
            Anthropic,
            "/messages/3",
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_a"}]}),
            "unexpected `tool_use_id`",
        ),
        (Anthropic, "/messages/1/content/1/id", json!("call.a/1"), "String should match pattern"),
        (Anthropic, "/messages/1/content/2/id", json!("call_a"), "ids must be unique"),
        (Anthropic, "/messages/1/content/1/input", json!("{}"), "messages.1.content.1.input"),
        (Anthropic, "/messages/1/content/0/future", json!(1), "messages.1.content.0.future: Extra inputs"),
        (Anthropic, "/messages/5", json!({"role": "assistant", "content": "x"}), "prefill"),
        (Anthropic, "/tools/0/input_schema/type", json!("array"), "Input should be 'object'"),
        (Anthropic, "/tools/0/name", json!("a.b"), "should match pattern"),
        (Anthropic, "/tool_choice", json!({"type": "tool", "name": "other"}), "no tool has this name"),
        (Anthropic, "/thinking", json!({"type": "adaptive"}), "when tool_choice forces tool use"),
        (
            Anthropic,
            "/thinking",
            json!({"type": "enabled", "budget_tokens": 1_024}),
            "must be greater than `thinking.budget_tokens`",
        ),
        (Anthropic, "/tools/0/cache_control", json!({"type": "ephemeral", "ttl": "2h"}), "ttl of 5m or 1h"),
        (Anthropic, "/messages/4/content/0/cache_control", long, "must not come after"),
        (Gemini, "/stop", json!([]), "Unknown name \"stop\": Cannot find field."),
        (
            Gemini,
            "/generationConfig/maxTokens",
            json!(1),
            "Unknown name \"maxTokens\" at 'generation_config'",
        ),
        (
            Gemini,
            "/generationConfig/thinkingConfig",
            json!({"thinkingLevel": "low", "thinkingBudget": 1}),
            "only one of",
        ),
        (Gemini, "/contents", json!([]), "contents is not specified"),
        (Gemini, "/contents/0/role", json!("assistant"), "valid role: user, model"),
        (Gemini, "/contents/0/parts", json!([]), "parts must not be empty"),
        (Gemini, "/contents/0/parts/0/text", json!(""), "must have a text parameter"),
        (Gemini, "/contents/3/parts/0/text", json!(""), "must have a text parameter"),
        (Gemini, "/contents/2/parts/1", json!({"text": "x"}), "number of function response parts is equal"),
        (Gemini, "/contents/2/parts/1/functionResponse/name", json!("other"), "of this position is weather"),
        (Gemini, "/contents/2/parts/1/functionResponse/response", json!("text"), "Invalid value at"),
        (
            Gemini,
            "/contents/3",
            json!({"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {}}}]}),
            "comes immediately after a function call turn",
        ),
        (Gemini, "/contents/5", json!({"role": "model", "parts": [{"text": "x"}]}), "the last content"),
        (
            Gemini,
            "/contents/0",
            json!({"role": "model", "parts": [{"functionCall": {"name": "weather"}}]}),
            "comes immediately after a user turn",
        ),
        (
            Gemini,
            "/toolConfig/functionCallingConfig",
            json!({"mode": "AUTO", "allowedFunctionNames": ["weather"]}),
            "mode is ANY or VALIDATED",
        ),
        (Gemini, "/tools/0/functionDeclarations/0/name", json!("1a"), "Invalid function name"),
        (
            Gemini,
            "/tools/0/functionDeclarations/0",
            json!({"name": "a", "parameters": {"type": "object", "additionalProperties": false}}),
            "\"additionalProperties\"",
        ),
        (Gemini, "/cachedContent", json!("cachedContents/a"), "CachedContent not found"),
    ]
}

/// A question that goes on behind a reply of the server's: the reply as it was, and a result for each call.
fn next(api: Api, reply: &Value) -> Value {
    let mut body = api.question(false);
    let (turns, added) = match api {
        Api::Chat => {
            let message = reply["choices"][0]["message"].clone();
            let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "3"});
            ("messages", vec![message, result("call_a"), result("call_b")])
        }
        Api::Responses => {
            let result = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "3"});
            let mut items = reply["output"].as_array().unwrap().clone();
            items.extend([result("call_a"), result("call_b")]);
            ("input", items)
        }
        Api::Anthropic => {
            let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "3"});
            (
                "messages",
                vec![
                    json!({"role": "assistant", "content": reply["content"]}),
                    json!({"role": "user", "content": [result("call_a"), result("call_b")]}),
                ],
            )
        }
        Api::Gemini => {
            let result = |id: &str| json!({"functionResponse": {"id": id, "name": "weather", "response": {"output": 3}}});
            (
                "contents",
                vec![
                    reply["candidates"][0]["content"].clone(),
                    json!({"role": "user", "parts": [result("call_a"), result("call_b")]}),
                ],
            )
        }
    };
    body[turns].as_array_mut().unwrap().extend(added);
    body
}

#[tokio::test]
async fn reasoning_has_to_come_back_as_it_went() {
    // wire WR04, WR18, WA04, WG02, WE12 and WE18, from the server's side.
    let server = serve(finished(full()));
    for api in ALL {
        let reply = api.ask(&server, false).await.json();
        let body = next(api, &reply);
        let again = api.post(&server, false, &body).await;
        assert_eq!(again.status, 200, "{api:?}: {}", again.text());
    }
    // Where it stands, what becomes of it, and what is said then.
    let changes = [
        (Api::Responses, "/input/1/encrypted_content", json!("gAAA"), "could not be verified"),
        (Api::Responses, "/input/1/summary/0/text", json!("Other."), "could not be verified"),
        (Api::Responses, "/input/1/id", json!("rs_2_0"), "could not be verified"),
        (Api::Responses, "/input/1/encrypted_content", Value::Null, "not found"),
        (
            Api::Responses,
            "/input/1",
            json!({"role": "user", "content": "x"}),
            "without its required 'reasoning' item",
        ),
        (
            Api::Responses,
            "/input/2",
            json!({"role": "user", "content": "x"}),
            "without its required following item",
        ),
        (
            Api::Anthropic,
            "/messages/1/content/0/signature",
            json!("EqQB"),
            "Invalid `signature` in `thinking` block",
        ),
        (Api::Anthropic, "/messages/1/content/0/thinking", json!("Other."), "cannot be modified"),
        (
            Api::Anthropic,
            "/messages/1/content/0",
            json!({"type": "redacted_thinking", "data": "x"}),
            "Invalid `data`",
        ),
        (
            Api::Gemini,
            "/contents/1/parts/2/thoughtSignature",
            json!("CpQ="),
            "Thought signature is not valid",
        ),
        (
            Api::Gemini,
            "/contents/1/parts/2/functionCall/args/city",
            json!("Paris"),
            "Thought signature is not valid",
        ),
        (Api::Gemini, "/contents/1/parts/2/thoughtSignature", Value::Null, "missing a thought_signature"),
    ];
    for (api, pointer, value, words) in changes {
        let mut body = next(api, &api.ask(&server, false).await.json());
        *body.pointer_mut(pointer).unwrap() = value;
        let refused = api.post(&server, false, &body).await;
        assert_eq!(refused.status, 400, "{api:?} {pointer}: {}", refused.text());
        let message = api.message(&refused);
        assert!(message.contains(words), "{api:?} {pointer}: {message}");
        let is_sealed = words.contains("verified");
        assert!(
            !is_sealed || refused.json()["error"]["code"] == "invalid_encrypted_content",
            "{}",
            refused.text()
        );
    }
    // Without any of it the history is as good as another provider's.
    let mut stripped = next(Api::Anthropic, &Api::Anthropic.ask(&server, false).await.json());
    stripped["messages"][1]["content"].as_array_mut().unwrap().remove(0);
    assert_eq!(Api::Anthropic.post(&server, false, &stripped).await.status, 200);
    stripped["max_tokens"] = 2_000.into();
    stripped["thinking"] = json!({"type": "enabled", "budget_tokens": 1_024});
    let refused = Api::Anthropic.post(&server, false, &stripped).await;
    assert!(Api::Anthropic.message(&refused).contains("must start with a thinking block"));
    let mut dummy = next(Api::Gemini, &Api::Gemini.ask(&server, false).await.json());
    dummy["contents"][1]["parts"][2]["thoughtSignature"] = "skip_thought_signature_validator".into();
    assert_eq!(Api::Gemini.post(&server, false, &dummy).await.status, 200);
}

#[tokio::test]
async fn thinking_that_is_not_shown_is_still_signed() {
    // wire WA04, from the server's side.
    let server = serve(full_in_pieces());
    let mut body = Api::Anthropic.question(false);
    body["thinking"] = json!({"type": "adaptive", "display": "omitted"});
    let reply = Api::Anthropic.post(&server, false, &body).await.json();
    assert_eq!(reply["content"][0]["thinking"], "");
    assert_eq!(Api::Anthropic.post(&server, false, &next(Api::Anthropic, &reply)).await.status, 200);
    let mut unasked = Api::Responses.question(false);
    unasked["include"] = Value::Null;
    let reply = Api::Responses.post(&server, false, &unasked).await.json();
    assert_eq!(
        reply["output"][0].get("encrypted_content"),
        None,
        "it is sealed only where that is asked for"
    );
}

#[tokio::test]
async fn tokens_that_are_known_at_once_stand_at_the_beginning() {
    // wire WU03, from the server's side.
    let events = vec![
        Ok(ModelEvent::Usage(full().usage.unwrap())),
        Ok(ModelEvent::TextDelta { text: "a".into() }),
        Ok(ModelEvent::Finished(Box::new(full()))),
    ];
    let server = serve(events);
    let start = named(&Api::Anthropic.ask(&server, true).await.text())[0]["message"]["usage"].clone();
    let known = json!({
        "input_tokens": 50, "cache_read_input_tokens": 1_800, "cache_creation_input_tokens": 200, "output_tokens": 1,
    });
    assert_eq!(start, known);
    let gemini = Api::Gemini.ask(&server, true).await.text();
    let first: Value =
        serde_json::from_str(gemini.split("\r\n").next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(first["usageMetadata"]["totalTokenCount"], 2_350);
}

/// Kinds of failure, and for each protocol the status and a word that stands in its answer.
fn failures() -> Vec<(LlmErrorKind, [(u16, &'static str); 4])> {
    use LlmErrorKind as Kind;
    let openai = |status, word| [(status, word), (status, word)];
    let row = |kind, [chat, responses]: [(u16, &'static str); 2], anthropic, gemini| {
        (kind, [chat, responses, anthropic, gemini])
    };
    let invalid = (400, "invalid_request_error");
    let argument = (400, "INVALID_ARGUMENT");
    vec![
        row(Kind::InvalidRequest, openai(400, "invalid_request_error"), invalid, argument),
        row(
            Kind::Auth,
            openai(401, "invalid_api_key"),
            (401, "authentication_error"),
            (400, "API_KEY_INVALID"),
        ),
        row(
            Kind::Permission,
            openai(403, "permission_denied"),
            (403, "permission_error"),
            (403, "PERMISSION_DENIED"),
        ),
        row(
            Kind::Billing,
            openai(402, "insufficient_credits"),
            (402, "billing_error"),
            (402, "FAILED_PRECONDITION"),
        ),
        row(
            Kind::ModelNotFound,
            openai(404, "model_not_found"),
            (404, "not_found_error"),
            (404, "NOT_FOUND"),
        ),
        row(Kind::ContextTooLong, openai(400, "context_length_exceeded"), invalid, argument),
        row(Kind::StaleReasoning, openai(400, "invalid_encrypted_content"), invalid, argument),
        row(Kind::RequestTooLarge, openai(413, "request_too_large"), (413, "request_too_large"), argument),
        row(
            Kind::QuotaExhausted,
            openai(429, "insufficient_quota"),
            (429, "enforced_spend_limit_reached"),
            (429, "PerDay"),
        ),
        row(
            Kind::RateLimited,
            openai(429, "rate_limit_exceeded"),
            (429, "rate_limit_error"),
            (429, "PerMinute"),
        ),
        row(
            Kind::Overloaded,
            openai(503, "server_is_overloaded"),
            (529, "overloaded_error"),
            (503, "UNAVAILABLE"),
        ),
        row(Kind::ServerError, openai(500, "server_error"), (500, "api_error"), (500, "INTERNAL")),
        row(Kind::Timeout, openai(408, "timeout"), (504, "timeout_error"), (504, "DEADLINE_EXCEEDED")),
    ]
}

#[tokio::test]
async fn errors_have_the_status_and_the_form_of_their_provider() {
    // wire WE01, WE02, WE05, WE08, WE10, WE11 and WE14 to WE16, from the server's side.
    for (kind, said) in failures() {
        let mut error = LlmError::new(kind, ErrorPhase::Headers, "no luck");
        error.retry = RetryAdvice::After(Duration::from_millis(1_500));
        let server = serve(vec![Err(error)]);
        for (api, (status, word)) in ALL.into_iter().zip(said) {
            for streams in [true, false] {
                let reply = api.ask(&server, streams).await;
                assert_eq!(reply.status, status, "{kind} {api:?}");
                assert_eq!(api.message(&reply), "no luck");
                assert!(reply.text().contains(word), "{kind} {api:?}: {}", reply.text());
                let wait = match api {
                    Api::Chat | Api::Responses => reply.header("retry-after-ms") == Some("1500"),
                    Api::Anthropic => reply.header("retry-after") == Some("2"),
                    Api::Gemini => reply.text().contains("\"retryDelay\":\"1.500s\""),
                };
                assert!(wait, "{kind} {api:?}: {:?} {}", reply.headers, reply.text());
            }
        }
    }
    for kind in [LlmErrorKind::Connection, LlmErrorKind::Cancelled] {
        let server = serve(vec![Err(LlmError::new(kind, ErrorPhase::Headers, "no luck"))]);
        for api in ALL {
            assert!(api.bytes(&server, true, &api.question(true)).await.is_empty(), "{kind} {api:?}");
        }
    }
}

#[tokio::test]
async fn errors_in_a_stream_come_behind_what_was_said() {
    // L6 and L7; wire WA14, WR07 and WR08, from the server's side.
    for (kind, said) in failures() {
        let error = LlmError::new(kind, ErrorPhase::Stream, "no luck");
        let server = serve(vec![Ok(ModelEvent::TextDelta { text: "so far".into() }), Err(error)]);
        for (api, (_, word)) in ALL.into_iter().zip(said) {
            let reply = api.ask(&server, true).await;
            assert_eq!((reply.status, reply.is_complete), (200, true));
            let events = reply.text().trim_end().replace('\r', "");
            let (before, last) = events.rsplit_once("\n\n").unwrap();
            assert!(before.contains("so far") && !before.contains("no luck"), "{kind} {api:?}: {before}");
            assert!(last.contains("no luck") && last.contains(word), "{kind} {api:?}: {last}");
            let name = match api {
                Api::Responses => "event: response.failed\n",
                Api::Anthropic => "event: error\n",
                Api::Chat | Api::Gemini => "data: {\"error\":",
            };
            assert!(last.starts_with(name), "{kind} {api:?}: {last}");
        }
    }
    let broken = LlmError::new(LlmErrorKind::StreamInterrupted, ErrorPhase::Stream, "no luck");
    let server = serve(vec![Ok(ModelEvent::TextDelta { text: "so far".into() }), Err(broken)]);
    for api in ALL {
        let reply = api.ask(&server, true).await;
        assert!(!reply.is_complete && reply.text().contains("so far"), "{api:?}: {}", reply.text());
    }
}

#[tokio::test]
async fn behaviours_work_in_every_protocol() {
    // L9, L11 and L23; wire WE26 and WE28, from the server's side.
    for api in ALL {
        let whole = {
            let server = serve(full_in_pieces());
            api.ask(&server, true).await.body
        };
        for after in (0..whole.len()).step_by(97) {
            let after_bytes = after as u64;
            let service = Service::of(Arc::new(Saying(full_in_pieces()))).first([
                Behaviour::model().cuts_after(after_bytes),
                Behaviour::model().ends_after(after_bytes).in_chunks(Chunks::Random { seed: after_bytes }),
            ]);
            let server = Server::start(service).unwrap();
            for is_complete in [false, true] {
                let reply = api.ask(&server, true).await;
                // Ids hold the number of the request, and all of them have one digit here.
                assert_eq!((reply.body.len(), reply.is_complete), (after, is_complete), "{api:?}");
            }
            assert!(soon(server.ended(2)).await.iter().all(|received| received.ending == Some(Ending::Cut)));
        }
        let service = Service::of(Arc::new(Scripted::replies(["fine"]))).first([
            Behaviour::status(429, "{}").with_header("retry-after", "7"),
            Behaviour::garbage_head(),
            Behaviour::flood(100_000),
            Behaviour::endless_line(100_000),
            Behaviour::model().with_keep_alives(2),
        ]);
        let server = Server::start(service).unwrap();
        let busy = api.ask(&server, true).await;
        assert_eq!((busy.status, busy.header("retry-after")), (429, Some("7")));
        let garbage = api.bytes(&server, true, &api.question(true)).await;
        assert!(garbage.starts_with(b"HTTP/1.1 200 OK\r\nthis is no header"));
        let flood = api.ask(&server, true).await.text();
        assert!(flood.matches(&"x".repeat(1_000)).count() >= 97, "{api:?}");
        let line = api.ask(&server, true).await.text();
        assert!(line.len() >= 100_000 && line.lines().any(|line| line.len() > 99_000), "{api:?}");
        assert!(api.ask(&server, true).await.text().starts_with(": keep-alive\n\n: keep-alive\n\n"));
    }
}

#[tokio::test]
async fn every_path_is_known_with_and_without_its_version() {
    let server = Server::start(Service::of(Arc::new(Offline::new()))).unwrap();
    assert_eq!(server.base_url(), format!("{}/v1", server.url()));
    let paths = [
        (Api::Chat, ["/chat/completions", "/v1/chat/completions"]),
        (Api::Responses, ["/responses", "/v1/responses"]),
        (Api::Anthropic, ["/messages", "/v1/messages"]),
        (Api::Gemini, ["/models/m:generateContent", "/v1/models/m:generateContent"]),
    ];
    for (api, paths) in paths {
        for path in paths {
            let headers = [("anthropic-version", "2023-06-01")];
            let bytes = raw::request(path, &headers, &api.question(false));
            assert_eq!(Reply::read(&exchange(&server, &bytes).await).status, 200, "{path}");
        }
    }
    for path in ["/v2/messages", "/models/m:countTokens", "/models/m", "/v1"] {
        let reply = Reply::read(&exchange(&server, &raw::request(path, &[], &json!({}))).await);
        assert_eq!(reply.status, 404, "{path}");
    }
    for api in ALL {
        let request = format!("GET {} HTTP/1.1\r\nconnection: close\r\n\r\n", api.path(true));
        assert_eq!(Reply::read(&exchange(&server, request.as_bytes()).await).status, 405);
    }
    let received = soon(server.ended(1)).await;
    assert_eq!((received[0].path.as_str(), received[0].query.as_str()), ("/chat/completions", ""));
    assert_eq!(received.last().unwrap().query, "alt=sse");
}

/// A model that says these events.
#[derive(Debug)]
struct Saying(Vec<Result<ModelEvent, LlmError>>);

#[async_trait]
impl ChatModel for Saying {
    async fn stream(&self, _: &ModelRequest) -> Result<EventStream, LlmError> {
        Ok(futures::stream::iter(self.0.clone()).boxed())
    }
}
