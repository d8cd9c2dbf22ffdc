//! The server on loopback speaks four protocols as their providers do, held against answers written by hand.

use crate::raw;

use std::sync::Arc;
use std::time::Duration;

use loop_core::reply::FinishReason;
use loop_core::types::FailureKind;
use loop_llm::error::RetryAdvice;
use loop_llm::model::ReplyEnd;
use loop_llm::{ErrorPhase, LlmError, ModelEvent, ModelReply, Scripted};
use loop_mock::offline::Offline;
use loop_mock::{Behaviour, Chunks, ConnectionEnd, LoopbackServer, Service};
use loop_testkit::llm::{EventModel, full_reply};
use raw::api::{ALL, Api, full_in_pieces, replying, serve};
use raw::{Reply, exchange, soon};
use serde_json::{Value, json};

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
    let server = replying(full_reply());
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
    let mut plain = full_reply();
    plain.tool_calls.clear();
    plain.finish = FinishReason::EndTurn;
    let server = replying(plain);
    let gemini = Api::Gemini.ask(&server, false).await.json();
    assert!(gemini["candidates"][0]["content"]["parts"][1]["thoughtSignature"].is_string());
    let streamed = Api::Gemini.ask(&server, true).await.text();
    assert!(streamed.contains("\"parts\":[{\"text\":\"\",\"thoughtSignature\":"), "{streamed}");
}

#[tokio::test]
async fn every_end_of_a_reply_has_its_word_in_every_protocol() {
    // wire WA11, WA12, WR05, WR06, WG07 and WG08, from the server's side.
    let ends = [
        (ReplyEnd::EndTurn, ["stop", "completed", "end_turn", "STOP"]),
        (ReplyEnd::Empty, ["stop", "completed", "end_turn", "STOP"]),
        (ReplyEnd::MaxTokens, ["length", "max_output_tokens", "max_tokens", "MAX_TOKENS"]),
        (
            ReplyEnd::ContextWindow,
            ["model_length", "max_output_tokens", "model_context_window_exceeded", "MAX_TOKENS"],
        ),
        (ReplyEnd::StopSequence, ["stop", "completed", "stop_sequence", "STOP"]),
        (ReplyEnd::ContentFilter, ["content_filter", "content_filter", "refusal", "SAFETY"]),
        (ReplyEnd::Refusal, ["stop", "completed", "refusal", "SAFETY"]),
        (
            ReplyEnd::MalformedToolCall,
            ["tool_calls", "malformed_tool_call", "malformed_tool_call", "MALFORMED_FUNCTION_CALL"],
        ),
        (ReplyEnd::Other, ["other", "other", "other", "OTHER"]),
    ];
    for (stop, words) in ends {
        let mut reply = ModelReply::text(if stop == ReplyEnd::Empty { "" } else { "x" }, None);
        (reply.stop, reply.finish) = (Some(stop), stop.finish());
        let server = replying(reply);
        for (api, word) in ALL.into_iter().zip(words) {
            let text = api.ask(&server, true).await.text();
            assert!(text.contains(&format!("\"{word}\"")), "{stop:?} {api:?}: {text}");
            let body = api.ask(&server, false).await.json();
            let words = match api {
                Api::Chat => &body["choices"][0]["finish_reason"],
                Api::Responses if body["status"] == "completed" => &body["status"],
                Api::Responses => &body["incomplete_details"]["reason"],
                Api::Anthropic => &body["stop_reason"],
                Api::Gemini => &body["candidates"][0]["finishReason"],
            };
            assert_eq!(words, word, "{stop:?} {api:?}");
        }
    }
}

#[tokio::test]
async fn a_refusal_stands_where_the_protocol_has_a_place_for_it() {
    // wire WC11 and WR14, from the server's side.
    let mut reply = ModelReply::text("", None);
    (reply.refusal, reply.stop, reply.finish) =
        (Some("No.".into()), Some(ReplyEnd::Refusal), FinishReason::Refusal);
    let server = replying(reply);
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

#[tokio::test]
async fn tokens_that_are_known_at_once_stand_at_the_beginning() {
    // wire WU03, from the server's side.
    let events = vec![
        Ok(ModelEvent::Usage(full_reply().usage.unwrap())),
        Ok(ModelEvent::TextDelta { text: "a".into() }),
        Ok(ModelEvent::Finished(Box::new(full_reply()))),
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
fn failures() -> Vec<(FailureKind, [(u16, &'static str); 4])> {
    use FailureKind as Kind;
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
    for (kind, words) in failures() {
        let mut error = LlmError::new(kind, ErrorPhase::Headers, "no luck");
        error.retry = RetryAdvice::After(Duration::from_millis(1_500));
        let server = serve(vec![Err(error)]);
        for (api, (status, word)) in ALL.into_iter().zip(words) {
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
    for kind in [FailureKind::Connection, FailureKind::Cancelled] {
        let server = serve(vec![Err(LlmError::new(kind, ErrorPhase::Headers, "no luck"))]);
        for api in ALL {
            assert!(api.bytes(&server, true, &api.question(true)).await.is_empty(), "{kind} {api:?}");
        }
    }
}

#[tokio::test]
async fn errors_in_a_stream_come_behind_what_was_said() {
    // L6 and L7; wire WA14, WR07 and WR08, from the server's side.
    for (kind, words) in failures() {
        let error = LlmError::new(kind, ErrorPhase::Stream, "no luck");
        let server = serve(vec![Ok(ModelEvent::TextDelta { text: "so far".into() }), Err(error)]);
        for (api, (_, word)) in ALL.into_iter().zip(words) {
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
    let broken = LlmError::new(FailureKind::StreamInterrupted, ErrorPhase::Stream, "no luck");
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
            let service = Service::of(Arc::new(EventModel(full_in_pieces()))).first([
                Behaviour::model().cuts_after(after_bytes),
                Behaviour::model().ends_after(after_bytes).in_chunks(Chunks::Random { seed: after_bytes }),
            ]);
            let server = LoopbackServer::start(service).unwrap();
            for is_complete in [false, true] {
                let reply = api.ask(&server, true).await;
                // Ids hold the number of the request, and all of them have one digit here.
                assert_eq!((reply.body.len(), reply.is_complete), (after, is_complete), "{api:?}");
            }
            assert!(
                soon(server.ended(2))
                    .await
                    .iter()
                    .all(|received| received.ending == Some(ConnectionEnd::Cut))
            );
        }
        let service = Service::of(Arc::new(Scripted::replies(["fine"]))).first([
            Behaviour::status(429, "{}").with_header("retry-after", "7"),
            Behaviour::garbage_head(),
            Behaviour::flood(100_000),
            Behaviour::endless_line(100_000),
            Behaviour::model().with_keep_alives(2),
        ]);
        let server = LoopbackServer::start(service).unwrap();
        let busy = api.ask(&server, true).await;
        assert_eq!((busy.status, busy.header("retry-after")), (429, Some("7")));
        let garbage = api.bytes(&server, true, &api.question(true)).await;
        assert!(garbage.starts_with(b"HTTP/1.1 200 OK\r\nthis is not a header"));
        let flood = api.ask(&server, true).await.text();
        assert!(flood.matches(&"x".repeat(1_000)).count() >= 97, "{api:?}");
        let line = api.ask(&server, true).await.text();
        assert!(line.len() >= 100_000 && line.lines().any(|line| line.len() > 99_000), "{api:?}");
        assert!(api.ask(&server, true).await.text().starts_with(": keep-alive\n\n: keep-alive\n\n"));
    }
}

#[tokio::test]
async fn every_path_is_known_with_and_without_its_version() {
    let server = LoopbackServer::start(Service::of(Arc::new(Offline::new()))).unwrap();
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
    for path in ["/v2/messages", "/models/m:embedContent", "/v1"] {
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
