//! What is sent to a provider is taken by a server that refuses what the provider refuses.

use std::sync::Arc;

use loop_llm::codec::{Api, Codec};
use loop_llm::options::Strictness;
use loop_llm::{ModelReply, ModelRequest, Profile, ToolDefinition};
use serde_json::{Map, Value, json};

use loop_mock::offline::Offline;
use loop_mock::{LoopbackServer, Service};

use crate::raw::api::{ALL, Api as Door, full_in_pieces, replying, serve};
use crate::raw::{Reply, exchange, get, request};

fn profile(door: Door) -> Arc<Profile> {
    Profile::named(match door {
        Door::Chat => "openai-chat",
        Door::Responses => "openai",
        Door::Anthropic => "anthropic",
        Door::Gemini => "gemini",
    })
    .unwrap()
}

/// Schemas of parameters as tools of others have them.
fn odd() -> Vec<Value> {
    let long = "x".repeat(65);
    vec![
        json!({}),
        json!({"type": "object"}),
        json!({"type": "object", "anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}}),
        json!({"type": "object", "oneOf": [{"properties": {"a": {}}}], "not": {"required": ["a"]}}),
        json!({"type": "object", "properties": {"filter[status]": {}, "$top": {}, "größe": {}, long: {}, "9a": {}}}),
        json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b c": {"type": "array"}}}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/definitions/A", "description": "d"}}, "definitions": {"A": {"type": "string"}}}),
        json!({"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}}),
        json!({"type": "object", "properties": {"a": {"type": "any"}}, "required": ["a", "b"]}),
        json!({"type": "object", "properties": {"a": {"minimum": 1, "exclusiveMinimum": true, "required": true}}}),
    ]
}

/// The status and the error of a request with these tools, with or without their fitting.
async fn answer(door: Door, schemas: &[Value], is_fitted: bool) -> (u16, String) {
    let server = replying(ModelReply::text("Fine.", None));
    let tools = schemas.iter().enumerate().map(|(n, schema)| ToolDefinition {
        name: format!("t{n}").into(),
        description: "Looks.".into(),
        parameters: schema.clone(),
        strict: Strictness::Off,
    });
    let tools: Vec<ToolDefinition> = tools.collect();
    let mut asked = ModelRequest::new("m", "Rules.", "Hi");
    (asked.tools, asked.no_stream) = (tools.into(), true);
    let encoded = Codec::new(profile(door)).encode(&asked).unwrap();
    let mut body: Value = serde_json::from_slice(&encoded.body.to_bytes()).unwrap();
    if !is_fitted {
        let place = match profile(door).api {
            Api::OpenaiChat => "/tools/0/function/parameters",
            Api::OpenaiResponses => "/tools/0/parameters",
            Api::Anthropic => "/tools/0/input_schema",
            Api::Gemini => "/tools/0/functionDeclarations/0/parametersJsonSchema",
        };
        let Some(sent) = body.pointer_mut(place) else { return (400, String::new()) };
        *sent = schemas[0].clone();
    }
    let reply = door.post(&server, false, &body).await;
    (reply.status, reply.text())
}

#[tokio::test]
async fn each_provider_is_sent_what_it_takes_of_odd_schemas() {
    for door in ALL {
        for schema in odd() {
            let (status, text) = answer(door, std::slice::from_ref(&schema), true).await;
            assert_eq!(status, 200, "{door:?} {schema}: {text}");
        }
    }
    // The strict server does refuse them as they are, where the provider does.
    for (nth, of) in [
        (0, [1, 1, 1, 1]),
        (1, [1, 1, 0, 1]),
        (2, [1, 1, 1, 1]),
        (4, [0, 0, 1, 1]),
        (5, [1, 1, 1, 1]),
        (6, [1, 1, 0, 1]),
        (7, [1, 1, 1, 1]),
        (8, [1, 1, 1, 1]),
    ] {
        for (door, is_refused) in ALL.into_iter().zip(of) {
            let (status, text) = answer(door, &[odd()[nth].clone()], false).await;
            assert_eq!(status == 400, is_refused == 1, "{door:?} {}: {text}", odd()[nth]);
        }
    }
}

#[tokio::test]
async fn each_provider_is_sent_what_it_takes_of_any_schema() {
    for seed in 0..20 {
        let mut dice = Dice(seed * 7_919 + 1);
        let schemas: Vec<Value> = (0..60).map(|_| root(&mut dice)).collect();
        for door in ALL {
            let (status, text) = answer(door, &schemas, true).await;
            assert_eq!(status, 200, "{door:?}, seed {seed}: {text}");
        }
    }
}

#[tokio::test]
async fn the_offline_stub_replies_in_the_form_that_is_asked_for() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer"}}, "required": ["city", "n"], "additionalProperties": false});
    let server = LoopbackServer::start(Service::of(Arc::new(Offline::new()))).unwrap();
    for door in ALL {
        let mut body = door.question(false);
        let (format, text) = match door {
            Door::Chat => (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}),
                "/choices/0/message/content",
            ),
            Door::Responses => (
                json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}}),
                "/output/0/content/0/text",
            ),
            Door::Anthropic => (
                json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
                "/content/0/text",
            ),
            Door::Gemini => (
                json!({"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}}),
                "/candidates/0/content/parts/0/text",
            ),
        };
        body.as_object_mut().unwrap().extend(format.as_object().unwrap().clone());
        let reply = door.post(&server, false, &body).await.json();
        let text = reply.pointer(text).and_then(Value::as_str).unwrap_or_else(|| panic!("{door:?}: {reply}"));
        let value: Value = serde_json::from_str(text).unwrap();
        assert!(value["city"].is_string() && value["n"].is_i64(), "{door:?}: {text}");
    }
}

#[tokio::test]
async fn a_model_and_a_count_of_tokens_can_be_asked_for() {
    let server = LoopbackServer::start(Service::of(Arc::new(Offline::new())).with_names(["m"])).unwrap();
    for (path, member) in [("/v1/models/m", "id"), ("/v1beta/models/m", "name")] {
        let reply = get(&server, path).await;
        assert_eq!((reply.status, reply.json()[member].is_string()), (200, true), "{path}");
    }
    assert_eq!(get(&server, "/v1/models/other").await.status, 404);
    // Issue 43, P9: each SDK has a list of its own.
    let listed = get(&server, "/v1beta/models").await.json();
    assert_eq!((&listed["data"][0]["id"], &listed["models"][0]["name"]), (&json!("m"), &json!("models/m")));
    assert_eq!((&listed["data"][0]["type"], &listed["has_more"]), (&json!("model"), &json!(false)));
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "how many tokens are these"}]});
    for (path, member) in [
        ("/v1/messages/count_tokens", "input_tokens"),
        ("/v1/responses/input_tokens", "input_tokens"),
        ("/v1beta/models/m:countTokens", "totalTokens"),
    ] {
        let reply = Reply::read(&exchange(&server, &request(path, &[], &body)).await);
        assert!(reply.status == 200 && reply.json()[member].as_u64() > Some(9), "{path}: {}", reply.text());
    }
}

// Issue 43, P9: Anthropic's SDK begins a thread for tools, and LiteLLM has the schema of an output where a beta had it.
#[tokio::test]
async fn what_a_beta_of_anthropic_opens_is_taken_with_its_header_alone() {
    let server = LoopbackServer::start(Service::of(Arc::new(Offline::new()))).unwrap();
    let asked = async |beta: &str, member: &str, value: Value| {
        let mut body = Door::Anthropic.question(false);
        body[member] = value;
        let headers = [("anthropic-version", "2023-06-01"), ("anthropic-beta", beta)];
        let path = Door::Anthropic.path(false);
        Reply::read(&exchange(&server, &request(path, &headers, &body)).await)
    };
    let (threads, outputs) = ("other, message-threads-2026-08-12", "structured-outputs-2025-11-13");
    let format = json!({"type": "json_schema", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    for (beta, member, value) in
        [(threads, "thread", json!({"type": "create"})), (outputs, "output_format", format)]
    {
        assert_eq!(asked(beta, member, value.clone()).await.status, 200, "{member}");
        let without = asked("other", member, value).await;
        assert_eq!(without.status, 400, "{member}");
        assert!(without.text().contains("Extra inputs are not permitted"), "{}", without.text());
    }
    let reply =
        asked(outputs, "output_format", json!({"type": "json_schema", "schema": {"type": "integer"}})).await;
    assert!(reply.json()["content"][0]["text"].as_str().unwrap().parse::<i64>().is_ok(), "{}", reply.text());
    // Nothing is kept: the client learns it in the word by which it sends the whole again.
    let lost = asked(threads, "thread", json!({"type": "continue", "previous_message_id": "msg_1"})).await;
    assert_eq!(
        (lost.status, &lost.json()["error"]["details"]["error_code"]),
        (404, &json!("thread_not_found"))
    );
    assert_eq!(asked(threads, "thread", json!({"type": "other"})).await.status, 400);
}

// Issue 43, P9: the SDKs keep each piece of a streamed reply as a content of its own, and the last piece is empty.
#[tokio::test]
async fn a_chat_that_was_streamed_in_pieces_is_one_turn_of_the_model() {
    let server = replying(ModelReply::text("Fine.", None));
    let user = |part: Value| json!({"role": "user", "parts": [part]});
    let model = |part: Value| json!({"role": "model", "parts": [part]});
    let call = json!({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "skip_thought_signature_validator"});
    let result = user(json!({"functionResponse": {"name": "f", "response": {"result": "3"}}}));
    let (hello, end) = (user(json!({"text": "hi"})), model(json!({"text": ""})));
    for (contents, turns) in [
        (json!([hello, model(json!({"text": "Good "})), model(json!({"text": "day"})), end, hello]), 3),
        (json!([hello, model(call), end, result]), 3),
    ] {
        let asked = Door::Gemini.post(&server, false, &json!({ "contents": contents })).await;
        assert_eq!(asked.status, 200, "{contents}: {}", asked.text());
        let received = server.requests().pop().unwrap().request().unwrap();
        assert_eq!(received.messages.len(), turns, "{received:?}");
    }
    let alone = Door::Gemini.post(&server, false, &json!({ "contents": [hello, end, hello] })).await;
    assert_eq!(alone.status, 400, "{}", alone.text());
}

#[tokio::test]
async fn a_signature_is_base64_that_a_client_can_decode_and_send_back() {
    let sealed = Door::Gemini.ask(&serve(full_in_pieces()), false).await.json().to_string();
    let (_, rest) = sealed.split_once("\"thoughtSignature\":\"").unwrap();
    let signature = rest.split('"').next().unwrap();
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE, signature).unwrap();
    assert_eq!(base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE, decoded), signature);
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len() as u64) as usize]
    }
}

fn root(dice: &mut Dice) -> Value {
    let mut schema = any(dice, 0);
    if let (Some(members), false) = (schema.as_object_mut(), dice.roll(4) == 0) {
        members.insert("type".to_owned(), "object".into());
        members.insert("$defs".to_owned(), json!({"A": any(dice, 2), "B b": any(dice, 2)}));
    }
    schema
}

fn any(dice: &mut Dice, depth: usize) -> Value {
    if depth > 4 || dice.roll(12) == 0 {
        return [
            json!({}),
            json!(true),
            json!({"type": "string"}),
            json!({"$ref": "#/$defs/A"}),
            Value::Null,
        ][dice.roll(5) as usize]
            .clone();
    }
    let mut members = Map::new();
    for _ in 0..dice.roll(4) + 1 {
        let key = dice.pick(&[
            "type",
            "properties",
            "required",
            "items",
            "anyOf",
            "oneOf",
            "allOf",
            "$ref",
            "enum",
            "const",
            "not",
            "description",
            "exclusiveMaximum",
            "maximum",
            "additionalProperties",
            "prefixItems",
            "dependentRequired",
            "if",
        ]);
        let value = match key {
            "type" => match dice.roll(4) {
                0 => json!(["object", "null"]),
                1 => json!(["array", "string", "string"]),
                _ => dice.pick(&["object", "array", "string", "any", "INTEGER", "date"]).into(),
            },
            "properties" => {
                let names = ["a", "b c", "$top", "größe", "", "filter[x]", "a_b", "9", "b_c"];
                (0..dice.roll(4))
                    .map(|_| (dice.pick(&names).to_owned(), any(dice, depth + 1)))
                    .collect::<Map<_, _>>()
                    .into()
            }
            "required" => {
                [json!(["a", "zz", "$top"]), json!(true), Value::Null][dice.roll(3) as usize].clone()
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                (0..dice.roll(4)).map(|_| any(dice, depth + 1)).collect()
            }
            "$ref" => dice
                .pick(&["#/$defs/A", "#/$defs/B%20b", "#", "#/properties/a", "#/$defs/none", "https://e.org"])
                .into(),
            "enum" => [json!([]), json!(["a", 1, null]), Value::Null, json!([{"b c": 1}])]
                [dice.roll(4) as usize]
                .clone(),
            "description" => [json!("d"), json!(1), Value::Null][dice.roll(3) as usize].clone(),
            "exclusiveMaximum" => [json!(true), json!(false), json!(3)][dice.roll(3) as usize].clone(),
            "maximum" => json!(3),
            "dependentRequired" => json!({"b c": ["$top"]}),
            "items" if dice.roll(3) == 0 => json!([any(dice, depth + 1)]),
            _ => any(dice, depth + 1),
        };
        members.insert(key.to_owned(), value);
    }
    members.into()
}
