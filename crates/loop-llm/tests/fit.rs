//! Tools are sent as their provider takes them, and their calls come back with their own names.

use loop_llm::codec::{Api, Codec, changed_tools};
use loop_llm::model::ModelEvent;
use loop_llm::options::{Strictness, Unsupported};
use loop_llm::request::AssistantTurn;
use loop_llm::{Message, Profile, ToolChoice, ToolDefinition};
use serde_json::{Value, json};

use loop_testkit::{call, llm::result};

use crate::common::Wire;

const EACH: [&str; 4] = ["openai-chat", "openai", "anthropic", "gemini"];

fn wire(profile: &str, schemas: &[Value]) -> Wire {
    let tools = schemas.iter().enumerate().map(|(n, schema)| ToolDefinition {
        name: format!("t{n}").into(),
        description: "Looks.".into(),
        parameters: schema.clone(),
        strict: Strictness::Off,
    });
    let tools: Vec<ToolDefinition> = tools.collect();
    Wire::new(profile, "m").with(|request| request.tools = tools.into())
}

/// The parameters of the tools, as they are sent.
fn sent(wire: &Wire) -> Vec<Value> {
    let body = wire.sent();
    let tools = match wire.codec.profile().api {
        Api::Gemini => &body["tools"][0]["functionDeclarations"],
        Api::OpenaiChat | Api::OpenaiResponses | Api::Anthropic => &body["tools"],
    };
    let places = ["/function/parameters", "/parameters", "/input_schema", "/parametersJsonSchema"];
    let of = |tool: &Value| places.iter().find_map(|place| tool.pointer(place)).cloned().unwrap_or_default();
    tools.as_array().into_iter().flatten().map(of).collect()
}

#[test]
fn alternatives_at_the_root_are_folded_into_one_object() {
    let text = || json!({"type": "string"});
    let either = json!({"type": "object", "properties": {"id": text(), "url": text()},
        "anyOf": [{"required": ["id"]}, {"required": ["url"]}]});
    let arms = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "x": text()}, "required": ["kind", "x"]},
        {"$ref": "#/$defs/B"},
    ], "$defs": {"B": {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}}});
    let all = json!({"allOf": [{"properties": {"a": text()}, "required": ["a"]}, {"properties": {"b": text()}, "required": ["b"]}]});
    let reference = json!({"$ref": "#/definitions/Args", "definitions": {"Args": {"type": "object", "properties": {"a": text()}, "required": ["a"]}}});
    for profile in EACH {
        let wire = wire(profile, &[either.clone(), arms.clone(), all.clone(), reference.clone()]);
        assert_eq!(
            sent(&wire),
            [
                json!({"type": "object", "description": "Give what one of these needs: id or url.", "properties": {"id": text(), "url": text()}}),
                json!({"type": "object", "description": "Give what exactly one of these needs: kind = \"a\", x or kind = \"b\".",
                    "properties": {"kind": {"enum": ["a", "b"]}, "x": text()}, "required": ["kind"]}),
                json!({"type": "object", "properties": {"a": text(), "b": text()}, "required": ["a", "b"]}),
                json!({"type": "object", "properties": {"a": text()}, "required": ["a"]}),
            ],
            "{profile}"
        );
        assert!(
            wire.warnings()[0].starts_with("schema_changed(t0: the alternatives at the root"),
            "{:?}",
            wire.warnings()
        );
    }
}

// Issue 43, P2
#[test]
fn alternatives_that_need_nothing_are_named_by_what_they_take() {
    let text = || json!({"type": "string"});
    let arm = |name: &str| json!({"type": "object", "properties": {name: text()}});
    for (arms, says) in [
        (json!([arm("a"), arm("b")]), Some("Give what one of these needs: a (optional) or b (optional).")),
        (
            json!([{"type": "object", "properties": {"a": text(), "c": text()}, "required": ["a"]}, {"type": "object"}]),
            Some("Give what one of these needs: a or no more."),
        ),
        // What says the same of each says nothing.
        (json!([{"type": "object"}, {"type": "object"}]), None),
        (json!([arm("a"), arm("a")]), None),
    ] {
        let wire = wire(EACH[0], &[json!({"anyOf": arms})]);
        assert_eq!(sent(&wire)[0].get("description").and_then(Value::as_str), says, "{arms}");
    }
}

#[test]
fn what_is_no_schema_of_today_is_written_as_one() {
    let old = json!({"type": "object", "properties": {
        "n": {"type": "int", "minimum": 0, "exclusiveMinimum": true, "required": true},
        "pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": false},
        "any": {"type": "any", "description": null},
        "list": {"type": "array"},
        "none": {"enum": []},
        "map": {"type": "object", "additionalProperties": true},
    }, "required": null});
    let fitted = sent(&wire("openai-chat", &[old])).remove(0);
    assert_eq!(
        fitted,
        json!({"type": "object", "properties": {
            "n": {"type": "integer", "exclusiveMinimum": 0},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": {}},
            "any": {},
            "list": {"type": "array", "items": {}},
            "none": {},
            "map": {"type": "object", "additionalProperties": true, "properties": {}},
        }, "required": ["n"]})
    );
    // Without parameters, and with a schema that is not for an object.
    let bare = [
        json!({"type": "object"}),
        json!({}),
        json!({"type": ["object", "null"], "properties": null}),
        json!(true),
    ];
    for profile in ["openai-chat", "openai", "anthropic"] {
        let nothing = json!({"type": "object", "properties": {}});
        assert_eq!(
            sent(&wire(profile, &bare)),
            [nothing.clone(), nothing.clone(), nothing.clone(), nothing],
            "{profile}"
        );
    }
}

#[test]
fn a_reference_has_a_place_of_its_own() {
    let item = json!({"type": "object", "properties": {"of": {"$ref": "#/properties/a"}, "next": {"$ref": "#/definitions/Item"}}});
    let schema = json!({"type": "object", "definitions": {"Item": item}, "properties": {
        "a": {"type": "string"},
        "item": {"$ref": "#/definitions/Item", "description": "Which."},
        "gone": {"$ref": "https://example.org/x", "description": "Far."},
    }});
    let fitted = sent(&wire("gemini", &[schema])).remove(0);
    let expected = json!({"type": "object", "properties": {
        "a": {"type": "string"},
        "item": {"description": "Which.", "anyOf": [{"$ref": "#/$defs/Item"}]},
        "gone": {"description": "Far."},
    }, "$defs": {
        "Item": {"type": "object", "properties": {"of": {"$ref": "#/$defs/a"}, "next": {"$ref": "#/$defs/Item"}}},
        "a": {"type": "string"},
    }});
    assert_eq!(fitted, expected);
}

fn filters() -> Value {
    json!({"type": "object", "required": ["filter[status]"], "properties": {
        "filter[status]": {"type": "string", "description": "State."},
        "$top": {"type": "integer"},
        "inner": {"type": "array", "items": {"type": "object", "properties": {"größe": {"type": "number", "default": {"größe": 1}}}}},
        "x".repeat(70): {"type": "string"},
    }})
}

#[test]
fn refused_names_travel_under_aliases_both_ways() {
    let own = json!({"filter[status]": "open", "$top": 5, "inner": [{"größe": 1.0}], "x".repeat(70): "y"})
        .to_string();
    for profile in ["anthropic", "gemini"] {
        let wire = wire(profile, &[filters()]);
        let schema = sent(&wire).remove(0);
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(
            (names[0].as_str(), names[1].as_str(), names[3].len()),
            ("filter_status", "top", 57),
            "{names:?}"
        );
        assert_eq!(schema["required"], json!(["filter_status"]));
        assert_eq!(
            schema["properties"]["filter_status"]["description"],
            "State. (its own name: filter[status])"
        );
        assert!(
            names
                .iter()
                .all(|name| name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
        );
        let aliased =
            json!({"filter_status": "open", "top": 5, "inner": [{"gr__e": 1.0}], names[3].as_str(): "y"})
                .to_string();
        // An earlier call goes back as the model made it; a call of another tool as it is.
        let turn = AssistantTurn {
            calls: vec![call("a", "t0", &own), call("b", "t1", &own)],
            ..AssistantTurn::default()
        };
        let turns = [
            Message::user("Hi"),
            Message::Assistant(turn),
            Message::Tool { results: vec![result("a", false, "1"), result("b", false, "2")] },
        ];
        let body = wire.clone().turns(&turns).sent().to_string();
        assert!(body.contains(&aliased) && body.contains(&own), "{body}");
        // The reply to the request, in one piece and in many.
        let encoded = wire.codec.encode(&wire.request).unwrap();
        let wire = Wire { aliases: encoded.aliases, ..wire };
        let (first, rest) = aliased.split_at(11);
        let body = match profile {
            "anthropic" => events(&[
                json!({"type": "message_start", "message": {"id": "m", "model": "m", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "t0", "input": {}}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": first}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": rest}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
                json!({"type": "message_stop"}),
            ]),
            _ => events(&[
                json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "t0", "args": serde_json::from_str::<Value>(&aliased).unwrap()}}]}, "finishReason": "STOP"}]}),
            ]),
        };
        let items = wire.items(body.as_bytes());
        let streamed: String = items
            .iter()
            .filter_map(|item| match item {
                Ok(ModelEvent::ToolArgumentsDelta { text, .. }) => Some(&**text),
                _ => None,
            })
            .collect();
        let Some(Ok(ModelEvent::Finished(reply))) = items.last() else { panic!("{items:?}") };
        assert_eq!(
            (streamed.as_str(), &**reply.tool_calls[0].arguments.text()),
            (own.as_str(), own.as_str()),
            "{profile}"
        );
    }
    // OpenAI takes any name.
    for profile in ["openai-chat", "openai"] {
        assert_eq!(sent(&wire(profile, &[filters()])), [filters()], "{profile}");
    }
}

fn events(all: &[Value]) -> String {
    all.iter().map(|event| format!("data: {event}\n\n")).collect()
}

#[test]
fn a_tool_that_cannot_be_sent_is_left_out_and_the_others_are_not() {
    // Each reference is followed twice by the one before it.
    let mut doubling = serde_json::Map::new();
    for n in 0..20 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        doubling.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    doubling.insert("d20".to_owned(), json!({"type": "object", "properties": {"a": {}}}));
    let doubling = json!({"$ref": "#/$defs/d0", "$defs": doubling});
    let list = json!({"type": "array", "items": {"type": "string"}});
    let good = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for profile in EACH {
        let wire = wire(profile, &[list.clone(), good.clone(), doubling.clone()])
            .with(|request| request.tool_choice = ToolChoice::Named("t0".into()));
        assert_eq!(sent(&wire)[0], good, "{profile}");
        let warnings = wire.warnings();
        assert_eq!(warnings[0], "tool_left_out(t0: its parameters are not an object)", "{profile}");
        assert!(warnings.contains(&"tool_choice_degraded".to_owned()), "{warnings:?}");
        wire.with(|request| request.unsupported = Unsupported::Reject).refused();
        let lines =
            changed_tools(&Profile::named(profile).unwrap(), &wire_tools(&[list.clone(), good.clone()]));
        assert_eq!(
            lines,
            [format!("tool `t0` is left out of requests to {profile}: its parameters are not an object")]
        );
    }
    let many: Vec<Value> = (0..130).map(|_| good.clone()).collect();
    assert_eq!(sent(&wire("openai-chat", &many)).len(), 128);
    assert_eq!(sent(&wire("compatible", &many)).len(), 130);
}

fn wire_tools(schemas: &[Value]) -> Vec<ToolDefinition> {
    wire("openai", schemas).request.tools.to_vec()
}

#[test]
fn a_large_schema_costs_what_it_is_large() {
    let arms = |n: usize| {
        (0..n).map(|k| json!({"properties": {format!("p {k}"): {"type": "string"}}, "required": [format!("p {k}")]})).collect::<Vec<_>>()
    };
    for n in [100, 10_000] {
        let schema = json!({"type": "object", "anyOf": arms(n)});
        let begun = std::time::Instant::now();
        let wire = wire("anthropic", &[schema]);
        Codec::encode(&wire.codec, &wire.request).unwrap();
        assert!(begun.elapsed().as_millis() < 20 + n as u128, "{n} took {:?}", begun.elapsed());
    }
}
