//! What requests look like on generateContent, and which are never sent.

use crate::common;

use common::{Wire, foreign};
use loop_core::types::FailureKind;
use loop_llm::codec::Api;
use loop_llm::options::{Effort, OutputFormat, Strictness, Unsupported};
use loop_llm::request::Image;
use loop_llm::{Message, ModelReply, Profile, ToolChoice, ToolDefinition};
use loop_testkit::{call, llm::result};
use serde_json::{Value, json};

fn gemini() -> Wire {
    Wire::new("gemini", "gemini-3-flash-preview")
}

fn old() -> Wire {
    Wire::new("gemini", "gemini-2.0-flash")
}

fn tool(name: &str, parameters: Value, strict: Strictness) -> ToolDefinition {
    ToolDefinition { name: name.into(), description: "Looks.".into(), parameters, strict }
}

fn loose() -> Value {
    json!({"type": "object", "properties": {"q": {"type": "string"}}})
}

fn with_tools(wire: &Wire, strict: Strictness) -> Wire {
    wire.with(|request| request.tools = ["a", "b"].map(|name| tool(name, loose(), strict)).into())
}

/// Decodes a whole reply with these parts.
#[track_caller]
fn replied(wire: &Wire, parts: &Value) -> ModelReply {
    let body =
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]});
    wire.end(body.to_string()).unwrap()
}

#[test]
fn a_plain_request_has_these_bytes() {
    let wire = with_tools(&gemini(), Strictness::Off).with(|request| {
        request.tools = request.tools[..1].to_vec().into();
        request.temperature = Some(0.5);
    });
    let body = r#"{"systemInstruction":{"parts":[{"text":"Rules."}]},"contents":[{"role":"user","parts":[{"text":"Hi"}]}]"#
        .to_owned()
        + r#","tools":[{"functionDeclarations":[{"name":"a","description":"Looks.","parametersJsonSchema":{"type":"object","properties":{"q":{"type":"string"}}}}]}]"#
        + r#","generationConfig":{"maxOutputTokens":4096,"temperature":0.5}}"#;
    let encoded = wire.codec.encode(&wire.request).unwrap();
    assert_eq!(std::str::from_utf8(&encoded.body.to_bytes()).unwrap(), body);
    assert!(encoded.warnings.is_empty());
    // Whether it streams is said by the path.
    assert_eq!(wire.with(|request| request.no_stream = true).sent(), wire.sent());
}

// wire WG03
#[test]
fn results_follow_their_calls_in_one_content() {
    let signed = json!({"functionCall": {"name": "a", "args": {"n": 1}}, "thoughtSignature": "S"});
    let plain = json!({"functionCall": {"name": "b", "args": {}}});
    let reply = replied(&gemini(), &json!([signed, plain]));
    let results = vec![result("call_2", true, "offline"), result("call_1", false, "{\"c\":3}")];
    let turns = [Message::user("?"), reply.turn(), Message::Tool { results }, Message::user("And?")];
    let wanted = json!([
        {"role": "user", "parts": [{"text": "?"}]},
        {"role": "model", "parts": [signed, plain]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "a", "response": {"output": {"c": 3}}}},
            {"functionResponse": {"name": "b", "response": {"error": "offline"}}},
            {"text": "And?"},
        ]},
    ]);
    assert_eq!(gemini().turns(&turns).sent()["contents"], wanted);
}

#[test]
fn ids_are_named_where_the_calls_came_with_one() {
    let parts = json!([
        {"functionCall": {"id": "x", "name": "a", "args": {}}, "thoughtSignature": "S"},
        {"functionCall": {"name": "b", "args": {}}},
        {"functionCall": {"id": "x", "name": "c", "args": {}}},
    ]);
    let reply = replied(&gemini(), &parts);
    let ids: Vec<_> = reply.tool_calls.iter().map(|call| call.id.to_string()).collect();
    assert_eq!(ids, ["x", "call_2", "x-2"]);
    let results = ids.iter().map(|id| result(id, false, "1")).collect();
    let body = gemini().turns(&[Message::user("?"), reply.turn(), Message::Tool { results }]).sent();
    assert_eq!(body["contents"][1]["parts"], parts);
    let ids = |content: &Value| {
        let parts = content["parts"].as_array().unwrap().iter();
        parts.map(|part| part["functionResponse"]["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&body["contents"][2]), [json!("x"), Value::Null, json!("x")]);
    // Another model gets the ids that a provider gave, and none of ours.
    let calls = vec![call("toolu_1", "a", "{}"), call("call_2", "b", "{}"), call("call_7abc", "c", "{}")];
    let results = calls.iter().map(|call| result(&call.id, false, "1")).collect();
    let body = gemini().turns(&[Message::user("?"), foreign("", calls), Message::Tool { results }]).sent();
    assert_eq!(ids(&body["contents"][2]), [json!("toolu_1"), Value::Null, json!("call_7abc")]);
    assert_eq!(body["contents"][1]["parts"][0]["functionCall"]["id"], json!("toolu_1"));
    assert_eq!(body["contents"][1]["parts"][1]["functionCall"].get("id"), None);
}

// wire WG04 WG05 WG21
#[test]
fn what_is_signed_goes_back_as_it_came() {
    let parts = json!([
        {"text": "Thinking", "thought": true}, {"text": "a"}, {"text": "b", "thoughtSignature": "S"},
        {"text": "", "thoughtSignature": "T"},
    ]);
    let turns = [Message::user("?"), replied(&gemini(), &parts).turn(), Message::user("!")];
    let mut kept = parts.as_array().unwrap().clone();
    kept.remove(0);
    let wire = gemini().turns(&turns);
    assert_eq!(wire.sent()["contents"][1], json!({"role": "model", "parts": kept}));
    let Message::Assistant(turn) = &turns[1] else { panic!("it is the model's") };
    let own = turn.raw.as_ref().unwrap().json();
    let body = wire.codec.encode(&wire.request).unwrap().body.to_bytes();
    assert!(String::from_utf8(body.to_vec()).unwrap().contains(own), "byte for byte");
    // wire WX03
    let other = Wire::new("gemini", "gemini-3.1-pro").turns(&turns).sent();
    assert_eq!(other["contents"][1]["parts"], json!([{"text": "ab"}]));
}

// wire WG13
#[test]
fn results_are_objects() {
    let response = |text: &str, is_error: bool| {
        let turns = [
            Message::user("?"),
            foreign("", vec![call("c", "a", "{}")]),
            Message::Tool { results: vec![result("c", is_error, text)] },
        ];
        gemini().turns(&turns).sent()["contents"][2]["parts"][0]["functionResponse"]["response"].clone()
    };
    assert_eq!(response("sunny", false), json!({"output": "sunny"}));
    assert_eq!(response("", false), json!({"output": ""}));
    assert_eq!(response("[1, 2]", false), json!({"output": [1, 2]}));
    assert_eq!(response("{\"c\": 3}", false), json!({"output": {"c": 3}}));
    assert_eq!(response("station offline", true), json!({"error": "station offline"}));
    // What the provider could not take as a structure goes as a text.
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    for text in ["{\"c\":", "[1] [2]", "[1e999]", "007", "12345678901234567890123", deep.as_str()] {
        assert_eq!(response(text, false), json!({"output": text}), "{text}");
    }
}

// wire WG14
#[test]
fn calls_of_others_are_marked_as_unsigned() {
    let step = |id: &str| {
        let calls = vec![call(id, "a", "{\"b\": 1.0}"), call(&format!("{id}-b"), "b", "")];
        let results = calls.iter().map(|call| result(&call.id, false, "1")).collect();
        [foreign("Look.", calls), Message::Tool { results }]
    };
    let [one, two] = step("x");
    let [three, four] = step("y");
    let turns = [Message::user("?"), one, two, three, four];
    let body = gemini().turns(&turns).sent();
    for at in [1, 3] {
        let parts = &body["contents"][at]["parts"];
        assert_eq!(parts[0], json!({"text": "Look."}));
        assert_eq!(parts[1]["thoughtSignature"], json!("skip_thought_signature_validator"));
        assert_eq!(
            (&parts[1]["functionCall"]["args"], &parts[2]["functionCall"]["args"]),
            (&json!({"b": 1.0}), &json!({}))
        );
        assert_eq!(parts[2].get("thoughtSignature"), None);
    }
    let body = Wire::new("gemini", "gemini-2.5-pro").turns(&turns).sent();
    assert_eq!(body["contents"][1]["parts"][1].get("thoughtSignature"), None);
}

#[test]
fn arguments_that_are_no_object_go_back_as_one() {
    let turns = [
        Message::user("?"),
        foreign("", vec![call("c", "a", "{\"q\":")]),
        Message::Tool { results: vec![result("c", true, "no JSON")] },
    ];
    let part = gemini().turns(&turns).sent()["contents"][1]["parts"][0].clone();
    assert_eq!(part["functionCall"]["args"], json!({"unreadable_arguments": "{\"q\":"}));
}

// wire WG15
#[test]
fn an_effort_is_a_level_or_tokens_and_never_both() {
    let thinking = |model: &str, effort: Option<Effort>, tokens: Option<u64>| {
        let wire = Wire::new("gemini", model).with(|request| {
            request.effort = effort;
            request.reasoning_tokens = tokens;
            request.max_output_tokens = None;
        });
        (wire.sent()["generationConfig"]["thinkingConfig"].clone(), wire.warnings().join(" "))
    };
    let none = || (Value::Null, String::new());
    let level = |level: &str, warning: &str| (json!({"thinkingLevel": level}), warning.to_owned());
    let budget = |tokens: u64, warning: &str| (json!({"thinkingBudget": tokens}), warning.to_owned());
    let changed = "param_changed(reasoning_effort)";
    assert_eq!(thinking("gemini-3-flash-preview", None, None), none());
    assert_eq!(thinking("gemini-3-flash-preview", Some(Effort::High), None), level("high", ""));
    assert_eq!(thinking("gemini-3-flash-preview", Some(Effort::Max), None), level("high", changed));
    assert_eq!(thinking("gemini-3-flash-preview", Some(Effort::None), None), level("minimal", changed));
    assert_eq!(thinking("gemini-3-pro-preview", Some(Effort::Medium), None), level("low", changed));
    assert_eq!(thinking("gemini-3.8-flash", Some(Effort::Minimal), None), level("low", changed));
    let both = thinking("gemini-3.1-pro", Some(Effort::Low), Some(2_000));
    assert_eq!(both, level("low", "param_dropped(reasoning_tokens)"));
    assert_eq!(thinking("gemini-2.5-flash", Some(Effort::High), None), budget(24_576, ""));
    assert_eq!(thinking("gemini-2.5-flash", Some(Effort::None), None), budget(0, ""));
    assert_eq!(thinking("gemini-2.5-pro", Some(Effort::Max), None), budget(32_768, ""));
    assert_eq!(thinking("gemini-2.5-pro", Some(Effort::None), None), budget(128, changed));
    assert_eq!(thinking("gemini-2.5-flash", Some(Effort::High), Some(2_000)), budget(2_000, ""));
    assert_eq!(thinking("gemini-2.5-pro", None, Some(1)), budget(128, "param_changed(reasoning_tokens)"));
    let dropped = "param_dropped(reasoning_effort)".to_owned();
    assert_eq!(thinking("gemini-2.0-flash", Some(Effort::Low), None), (Value::Null, dropped));
    let shown = gemini().with(|request| request.show_reasoning = true);
    assert_eq!(shown.sent()["generationConfig"]["thinkingConfig"], json!({"includeThoughts": true}));
}

#[test]
fn the_tokens_to_reason_with_leave_room_for_a_reply() {
    let sent = |model: &str, max: u64, effort: Option<Effort>, tokens: Option<u64>| {
        let wire = Wire::new("gemini", model).with(|request| {
            request.max_output_tokens = Some(max);
            request.effort = effort;
            request.reasoning_tokens = tokens;
        });
        let budget = wire.sent()["generationConfig"]["thinkingConfig"]["thinkingBudget"].as_u64();
        (budget, wire.warnings().join(" "))
    };
    let (flash, pro) = ("gemini-2.5-flash", "gemini-2.5-pro");
    assert_eq!(sent(flash, 1_000, Some(Effort::High), None), (Some(750), String::new()));
    assert_eq!(sent(flash, 1_000, Some(Effort::Minimal), None), (Some(512), String::new()));
    assert_eq!(sent(flash, 1_000, Some(Effort::None), None), (Some(0), String::new()));
    let changed = "param_changed(reasoning_tokens)".to_owned();
    assert_eq!(sent(flash, 1_000, None, Some(1_000)), (Some(999), changed));
    assert_eq!(sent(flash, 1_000, None, Some(999)), (Some(999), String::new()));
    let dropped = |name: &str| (None, format!("param_dropped({name})"));
    assert_eq!(sent(pro, 100, Some(Effort::Low), None), dropped("reasoning_effort"));
    assert_eq!(sent(pro, 128, None, Some(128)), dropped("reasoning_tokens"));
    let strict = Wire::new("gemini", pro).with(|request| {
        (request.max_output_tokens, request.effort) = (Some(100), Some(Effort::Low));
        request.unsupported = Unsupported::Reject;
    });
    assert_eq!(strict.refused(), FailureKind::Unsupported);
}

// wire WG16
#[test]
fn a_choice_is_a_mode() {
    let config = |choice: ToolChoice, strict: Strictness| {
        let wire = with_tools(&gemini(), strict).with(|request| request.tool_choice = choice);
        let body = wire.sent();
        assert_eq!(body["tools"][0]["functionDeclarations"].as_array().unwrap().len(), 2);
        body["toolConfig"]["functionCallingConfig"].clone()
    };
    let (off, prefer) = (Strictness::Off, Strictness::Prefer);
    let some = ToolChoice::AnyOf(vec!["a".into(), "b".into()]);
    assert_eq!(config(ToolChoice::Auto, off), Value::Null);
    assert_eq!(config(ToolChoice::Auto, prefer), json!({"mode": "VALIDATED"}));
    assert_eq!(config(ToolChoice::None, prefer), json!({"mode": "NONE"}));
    assert_eq!(config(ToolChoice::Required, off), json!({"mode": "ANY"}));
    assert_eq!(
        config(ToolChoice::Named("b".into()), off),
        json!({"mode": "ANY", "allowedFunctionNames": ["b"]})
    );
    assert_eq!(config(some.clone(), off), json!({"mode": "VALIDATED", "allowedFunctionNames": ["a", "b"]}));
    let wire = with_tools(&old(), prefer).with(|request| request.tool_choice = some);
    assert_eq!(wire.sent().get("toolConfig"), None);
    assert_eq!(
        wire.warnings(),
        ["schema_not_strict(a)", "schema_not_strict(b)", "param_dropped(tool_choice)"]
    );
    assert_eq!(with_tools(&old(), Strictness::Require).refused(), FailureKind::Unsupported);
}

// wire WG17
#[test]
fn a_tool_without_parameters_has_no_schema() {
    let tools = [json!({"type": "object", "properties": {}}), loose()]
        .map(|schema| tool("a", schema, Strictness::Off));
    for (spec, has) in tools.into_iter().zip([false, true]) {
        let body = gemini().with(|request| request.tools = [spec].into()).sent();
        let declared = &body["tools"][0]["functionDeclarations"][0];
        assert_eq!(declared.get("parametersJsonSchema").is_some(), has);
    }
}

// wire WG20
#[test]
fn calls_cannot_be_kept_to_one_at_a_time() {
    let wire = with_tools(&gemini(), Strictness::Off).with(|request| request.one_call_at_a_time = true);
    assert_eq!(wire.warnings(), ["param_dropped(parallel_tool_calls)"]);
    assert_eq!(
        wire.with(|request| request.unsupported = Unsupported::Reject).refused(),
        FailureKind::Unsupported
    );
}

#[test]
fn options_of_the_reply() {
    let wire = gemini().with(|request| {
        request.top_p = Some(0.25);
        request.top_k = Some(40);
        request.seed = Some(7);
        request.service_tier = Some("flex".into());
        request.stop = ["1", "2", "3", "4", "5", "6"].map(Into::into).to_vec();
        request.output = OutputFormat::JsonSchema {
            name: "n".into(),
            description: "".into(),
            schema: loose(),
            strict: Strictness::Prefer,
        };
    });
    let body = wire.sent();
    let wanted = json!({
        "maxOutputTokens": 4096, "topP": 0.25, "topK": 40, "seed": 7, "stopSequences": ["1", "2", "3", "4", "5"],
        "responseMimeType": "application/json", "responseJsonSchema": loose(),
    });
    assert_eq!((&body["generationConfig"], &body["serviceTier"]), (&wanted, &json!("flex")));
    assert_eq!(wire.warnings(), ["param_changed(stop)"]);
    let large = gemini().with(|request| request.seed = Some(1 << 40));
    assert_eq!(large.warnings(), ["param_dropped(seed)"]);
    let json = |wire: Wire| {
        with_tools(&wire, Strictness::Off).with(|request| request.output = OutputFormat::JsonObject)
    };
    assert_eq!(json(gemini()).sent()["generationConfig"]["responseMimeType"], json!("application/json"));
    let beside_tools = json(Wire::new("gemini", "gemini-2.5-flash"));
    assert_eq!(beside_tools.warnings(), ["param_dropped(response_format)"]);
    assert_eq!(beside_tools.sent()["generationConfig"].get("responseMimeType"), None);
}

#[test]
fn pictures_stand_in_results_or_beside_them() {
    let image = || Image { media_type: "image/png".into(), base64: "QUJD".into() };
    let data = json!({"inlineData": {"mimeType": "image/png", "data": "QUJD"}});
    let mut chart = result("x", false, "a chart");
    chart.images.push(image());
    let calls = vec![call("x", "a", "{}"), call("y", "b", "{}")];
    let turns = [
        Message::User { text: "".into(), images: vec![image()], author: Default::default() },
        foreign("", calls),
        Message::Tool { results: vec![chart, result("y", false, "1")] },
    ];
    let body = gemini().turns(&turns).sent();
    assert_eq!(body["contents"][0]["parts"], json!([data]));
    let response = &body["contents"][2]["parts"][0]["functionResponse"];
    assert_eq!((&response["response"], &response["parts"]), (&json!({"output": "a chart"}), &json!([data])));
    let body = old().turns(&turns).sent();
    let parts = body["contents"][2]["parts"].as_array().unwrap();
    assert_eq!(parts[0]["functionResponse"]["response"], json!({"output": "a chart\n[picture below]"}));
    assert!(parts[1].get("functionResponse").is_some());
    assert_eq!(parts[2..], [json!({"text": "Pictures of the result of a:"}), data]);
}

#[test]
fn neighbours_of_one_role_become_one_and_empty_ones_nothing() {
    let turns = [
        Message::user("1"),
        Message::Operator { text: "2".into() },
        Message::user(""),
        Message::assistant("3"),
        Message::assistant(""),
        Message::assistant("4"),
        Message::user("5"),
    ];
    let wanted = json!([
        {"role": "user", "parts": [{"text": "1"}, {"text": "[operator]\n2"}]},
        {"role": "model", "parts": [{"text": "3"}, {"text": "4"}]},
        {"role": "user", "parts": [{"text": "5"}]},
    ]);
    assert_eq!(gemini().turns(&turns).sent()["contents"], wanted);
}

#[test]
fn a_history_that_would_be_refused_is_not_sent() {
    let two = || foreign("", vec![call("a", "a", "{}"), call("b", "b", "{}")]);
    let one_result = Message::Tool { results: vec![result("a", false, "1")] };
    for turns in [
        vec![],
        vec![two(), Message::Tool { results: vec![result("a", false, "1"), result("b", false, "1")] }],
        vec![Message::user("?"), two()],
        vec![Message::user("?"), two(), one_result.clone()],
        vec![Message::user("?"), one_result],
    ] {
        assert_eq!(gemini().turns(&turns).refused(), FailureKind::InvalidRequest, "{turns:?}");
    }
}

#[test]
fn members_of_ones_own_win() {
    let wire = with_tools(&gemini(), Strictness::Off).with(|request| {
        request.temperature = Some(0.5);
        let extra =
            json!({"generationConfig": {"temperature": 1, "candidateCount": 1}, "safetySettings": []});
        request.extra = extra.as_object().unwrap().clone();
    });
    let body = wire.sent();
    let wanted = json!({"maxOutputTokens": 4096, "temperature": 1, "candidateCount": 1});
    assert_eq!((&body["generationConfig"], &body["safetySettings"]), (&wanted, &json!([])));
    // What is kept at the provider has rules and tools of its own, which may not be sent again.
    let kept = wire.with(|request| {
        request.extra.insert("cachedContent".to_owned(), "cachedContents/abc".into());
    });
    let body = kept.sent();
    for gone in ["systemInstruction", "tools", "toolConfig"] {
        assert_eq!(body.get(gone), None, "{gone}");
    }
    assert_eq!(body["cachedContent"], json!("cachedContents/abc"));
}

#[test]
fn names_that_are_not_allowed_travel_under_an_alias() {
    let long = format!("web.{}", "x".repeat(80));
    let mut wire = gemini().with(|request| request.tools = [tool(&long, loose(), Strictness::Off)].into());
    let alias = wire.sent()["tools"][0]["functionDeclarations"][0]["name"].as_str().unwrap().to_owned();
    wire.aliases = wire.codec.encode(&wire.request).unwrap().aliases;
    let part = json!({"functionCall": {"name": alias, "args": {}}, "thoughtSignature": "S"});
    let reply = replied(&wire, &json!([part]));
    assert_eq!(*reply.tool_calls[0].name, *long);
    let results = vec![result("call_1", false, "1")];
    let body = wire.turns(&[Message::user("?"), reply.turn(), Message::Tool { results }]).sent();
    assert_eq!(body["contents"][1]["parts"], json!([part]));
    assert_eq!(body["contents"][2]["parts"][0]["functionResponse"]["name"], json!(alias));
}

#[test]
fn a_server_that_is_only_compatible_is_taken_for_the_newest() {
    let profile =
        Profile { known_models: false, api: Api::Gemini, ..(*Profile::named("gemini").unwrap()).clone() };
    let wire = Wire::of(profile, "gemini-2.5-pro").with(|request| request.effort = Some(Effort::High));
    assert_eq!(wire.sent()["generationConfig"]["thinkingConfig"], json!({"thinkingLevel": "high"}));
    // wire WQ04
    let codec = gemini().codec.with_base_model("gemini-2.5-pro");
    let wire =
        Wire { codec, ..Wire::new("gemini", "my-own").with(|request| request.effort = Some(Effort::High)) };
    assert_eq!(wire.sent()["generationConfig"]["thinkingConfig"], json!({"thinkingBudget": 3_072}));
}

// X9: the server takes an empty prompt.
#[test]
fn an_empty_prompt_is_sent() {
    let empty = json!({"role": "user", "parts": [{"text": ""}]});
    assert_eq!(gemini().turns(&[Message::user("")]).sent()["contents"], json!([empty]));
    let longer = gemini().turns(&[Message::user(""), Message::assistant("Hi"), Message::user("?")]).sent();
    assert_eq!((&longer["contents"][0], longer["contents"].as_array().unwrap().len()), (&empty, 3));
}

// X9
#[test]
fn a_history_that_begins_with_the_model_is_sent_and_told() {
    let wire = gemini().turns(&[Message::assistant("Hi"), Message::user("?")]);
    let contents = json!([
        {"role": "model", "parts": [{"text": "Hi"}]}, {"role": "user", "parts": [{"text": "?"}]},
    ]);
    assert_eq!(wire.sent()["contents"], contents);
    assert_eq!(wire.warnings(), ["begins_with_model_turn"]);
    assert!(gemini().turns(&[Message::user("?")]).warnings().is_empty());
}

// X9
#[test]
fn what_the_form_is_for_and_the_key_of_a_cache_are_sent_or_told() {
    let wire = gemini().with(|request| {
        let (name, description, strict) = ("n".into(), "What was found".into(), Strictness::Off);
        request.output = OutputFormat::JsonSchema { name, description, schema: loose(), strict };
        request.cache.key = Some("run".into());
    });
    assert_eq!(wire.sent()["generationConfig"]["responseJsonSchema"]["description"], json!("What was found"));
    assert_eq!(wire.warnings(), ["param_dropped(prompt_cache_key)"]);
}
