//! The server on loopback reads as strictly as its providers, and knows its own reasoning again.

use crate::raw;

use std::sync::Arc;

use loop_llm::{Message, ModelReply, ToolChoice};
use loop_mock::offline::Offline;
use loop_mock::{LoopbackServer, Service};
use loop_testkit::llm::full_reply;
use raw::api::{ALL, Api, full_in_pieces, replying, serve};
use raw::{Reply, exchange, soon};
use serde_json::{Value, json};

#[tokio::test]
async fn the_same_history_is_the_same_neutral_request_in_all_protocols() {
    // wire WX01, from the server's side.
    let mut received = Vec::new();
    for api in ALL {
        let server = replying(ModelReply::text("Fine.", None));
        let reply = api.post(&server, false, &history(api)).await;
        assert_eq!(reply.status, 200, "{api:?}: {}", reply.text());
        received.push(soon(server.ended(1)).await[0].request().unwrap());
    }
    let chat = &received[0];
    assert_eq!((&*chat.system, chat.max_output_tokens, chat.messages.len()), ("Be brief.", Some(99), 5));
    assert_eq!((&*chat.tools[0].name, &chat.tool_choice), ("weather", &ToolChoice::Required));
    assert!(chat.one_call_at_a_time);
    let Message::Tool { results } = &chat.messages[2] else { panic!("{chat:?}") };
    assert_eq!((&*results[0].call, &*results[1].text), ("call_a", "station offline"));
    for (api, request) in ALL.into_iter().zip(&received).skip(1) {
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
    let server = LoopbackServer::start(Service::of(Arc::new(Offline::new()))).unwrap();
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
        (Anthropic, "/top_p", json!(-1), "top_p"),
        (Anthropic, "/top_k", json!("many"), "top_k"),
        (Chat, "/temperature", json!(9), "Invalid 'temperature'"),
        (Chat, "/temperature", json!("x"), "Invalid 'temperature'"),
        (Chat, "/top_p", json!(1.1), "Invalid 'top_p'"),
        (Responses, "/temperature", json!(9), "Invalid 'temperature'"),
        (Responses, "/top_p", json!([]), "Invalid 'top_p'"),
        (Gemini, "/generationConfig/temperature", json!(9), "generation_config.temperature"),
        (Gemini, "/generationConfig/temperature", json!("x"), "generation_config.temperature"),
        (Gemini, "/generationConfig/topP", json!(2), "generation_config.top_p"),
        (Gemini, "/generationConfig/seed", json!(0.5), "generation_config.seed"),
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
            user,
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

#[tokio::test]
async fn reasoning_has_to_come_back_as_it_went() {
    // wire WR04, WR18, WA04, WG02, WE12 and WE18, from the server's side.
    let server = replying(full_reply());
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
    let mut unrequested = Api::Responses.question(false);
    unrequested["include"] = Value::Null;
    let reply = Api::Responses.post(&server, false, &unrequested).await.json();
    assert_eq!(
        reply["output"][0].get("encrypted_content"),
        None,
        "it is sealed only where that is asked for"
    );
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
                {"role": "assistant", "content": "Cold in Oslo.", "prefix": false},
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
