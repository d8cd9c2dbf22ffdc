//! What requests look like on Responses, and what they leave out.

use crate::common;

use common::{Wire, foreign};
use loop_core::types::FailureKind;
use loop_llm::codec::Codec;
use loop_llm::options::{Effort, OutputFormat, Strictness, Unsupported};
use loop_llm::request::Image;
use loop_llm::{Message, Profile, ToolChoice, ToolDefinition, ToolOutput};
use loop_testkit::{call, llm::result};
use serde_json::{Value, json};

fn responses() -> Wire {
    Wire::new("openai-responses", "gpt-6-sol")
}

fn tool(name: &str, parameters: Value, strict: Strictness) -> ToolDefinition {
    ToolDefinition { name: name.into(), description: "Looks.".into(), parameters, strict }
}

fn with_tools(wire: &Wire, names: &[&str]) -> Wire {
    let tools = names.iter().map(|name| tool(name, json!({"type": "object"}), Strictness::Off));
    wire.with(|request| request.tools = tools.collect())
}

fn results(results: &[ToolOutput]) -> Message {
    Message::Tool { results: results.to_vec() }
}

fn picture() -> Image {
    Image { media_type: "image/png".into(), base64: "QUJD".into() }
}

/// A reply of the model's own, as a turn.
fn own(wire: &Wire, output: &str) -> Message {
    wire.end(format!("{{\"status\":\"completed\",\"output\":[{output}]}}")).unwrap().turn()
}

#[test]
fn a_plain_request_has_these_bytes() {
    let wire = responses();
    let encoded = wire.codec.encode(&wire.request).unwrap();
    let body = r#"{"model":"gpt-6-sol","instructions":"Rules.","input":[{"role":"user","content":"Hi"}],"store":false,"#
        .to_owned()
        + r#""include":["reasoning.encrypted_content"],"max_output_tokens":4096,"stream":true}"#;
    assert_eq!(String::from_utf8(encoded.body.to_bytes().to_vec()).unwrap(), body);
    let messages = &encoded.body.to_bytes()[encoded.messages];
    assert_eq!(messages, br#"[{"role":"user","content":"Hi"}"#);
    assert!(encoded.warnings.is_empty());
}

// wire WR04 WX02
#[test]
fn an_own_turn_goes_back_as_it_came() {
    let wire = with_tools(&responses(), &["find"]);
    let output = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA+/=","n":1.50}, "#
        .to_owned()
        + r#"{"id":"fc_1","type":"function_call","call_id":"call.a","name":"find","arguments":"{\"q\": 1.0}"}"#;
    let turn = own(&wire, &output);
    let answers = results(&[result("call.a", false, "3")]);
    let wire = wire.turns(&[Message::user("?"), turn, answers]);
    let encoded = wire.codec.encode(&wire.request).unwrap();
    let body = String::from_utf8(encoded.body.to_bytes().to_vec()).unwrap();
    let wanted = format!(
        r#""input":[{{"role":"user","content":"?"}},{},{{"type":"function_call_output","call_id":"call.a","output":"3"}}],"store":false,"include":["reasoning.encrypted_content"],"#,
        output.replacen("}, {", "},{", 1)
    );
    assert!(body.contains(&wanted), "{body}");
}

// wire WR16 WX03
#[test]
fn a_turn_of_another_model_goes_in_our_own_words() {
    let calls =
        vec![call("toolu_01", "find", "{\"b\": 1.0,\"a\":2}"), call("functions.look:0", "web.look", "")];
    let answers = results(&[result("functions.look:0", true, "off"), result("toolu_01", false, "3")]);
    let turns = [
        Message::user("?"),
        foreign("I look.", calls),
        answers,
        Message::assistant("Done."),
        Message::user("Go on"),
    ];
    let wire = responses().turns(&turns);
    let body = wire.sent();
    let id = body["input"][3]["call_id"].as_str().unwrap();
    assert!(id.starts_with("call") && id.len() == 20, "{id}");
    let name = body["input"][3]["name"].as_str().unwrap();
    let wanted = json!([
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "toolu_01", "name": "find", "arguments": "{\"b\": 1.0,\"a\":2}"},
        {"type": "function_call", "call_id": id, "name": name, "arguments": "{}"},
        {"type": "function_call_output", "call_id": "toolu_01", "output": "3"},
        {"type": "function_call_output", "call_id": id, "output": "ERROR: off"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Go on"},
    ]);
    assert_eq!(body["input"], wanted);
    // What belongs to one model does not go to another, and comes back to the first.
    let output = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"g"},{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"So"}]}"#;
    let turns = [Message::user("?"), own(&responses(), output), Message::user("!")];
    let input = |wire: Wire| wire.turns(&turns).sent()["input"][1].clone();
    assert_eq!(input(responses())["encrypted_content"], json!("g"));
    let stated = json!({"role": "assistant", "content": "So"});
    assert_eq!(input(Wire::new("openai-responses", "gpt-6-luna")), stated);
    assert_eq!(input(Wire::new("azure-responses", "gpt-6-sol")), stated);
    assert_eq!(input(Wire::new("xai", "gpt-6-sol")), stated);
    // A turn without a word is none.
    let nothing = [Message::user("?"), Message::assistant(""), Message::user("!")];
    assert_eq!(responses().turns(&nothing).sent()["input"].as_array().unwrap().len(), 2);
}

#[test]
fn pictures_and_late_rules() {
    let mut chart = result("a", true, "a chart");
    chart.images.push(picture());
    let mut plain = result("b", false, "");
    plain.images.push(picture());
    let calls = vec![call("a", "look", "{}"), call("b", "look", "{}")];
    let turns = [
        Message::User { text: "See".into(), images: vec![picture()], author: Default::default() },
        foreign("", calls),
        results(&[chart, plain]),
        Message::Operator { text: "Be brief.".into() },
    ];
    let body = responses().turns(&turns).sent();
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,QUJD"});
    assert_eq!(body["input"][0]["content"], json!([{"type": "input_text", "text": "See"}, image]));
    assert_eq!(body["input"][3]["output"], json!([{"type": "input_text", "text": "ERROR: a chart"}, image]));
    assert_eq!(body["input"][4]["output"], json!([image]));
    assert_eq!(body["input"][5], json!({"role": "developer", "content": "Be brief."}));
    let body = Wire::new("xai", "grok-4.3").turns(&turns).sent();
    assert_eq!(body["input"][5], json!({"role": "user", "content": "[operator]\nBe brief."}));
}

// wire WR21
#[test]
fn tools_are_flat_and_say_whether_they_bind() {
    let (body, alias) = {
        let body = with_tools(&responses(), &["find", "web.look"]).sent();
        let alias = body["tools"][1]["name"].clone();
        (body, alias)
    };
    let spec = |name: &Value| json!({"type": "function", "name": name, "description": "Looks.", "parameters": {"type": "object", "properties": {}}, "strict": false});
    assert_eq!(body["tools"], json!([spec(&json!("find")), spec(&alias)]));
    let wire = with_tools(&responses(), &["web.look"]);
    let aliases = wire.codec.encode(&wire.request).unwrap().aliases;
    assert_eq!(&*aliases.name(alias.as_str().unwrap()), "web.look");
    let loose = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let of = |wire: &Wire, schema: &Value, strict| {
        wire.with(|request| request.tools = [tool("find", schema.clone(), strict)].into())
    };
    let wire = of(&responses(), &loose, Strictness::Prefer);
    let bound = json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"], "additionalProperties": false});
    assert_eq!(
        (&wire.sent()["tools"][0]["parameters"], &wire.sent()["tools"][0]["strict"]),
        (&bound, &json!(true))
    );
    let all_of = json!({"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}});
    let wire = of(&responses(), &all_of, Strictness::Prefer);
    assert_eq!(
        (&wire.sent()["tools"][0]["parameters"], &wire.sent()["tools"][0]["strict"]),
        (&all_of, &json!(false))
    );
    assert_eq!(wire.warnings(), ["schema_not_strict(find)"]);
    assert_eq!(of(&responses(), &all_of, Strictness::Require).refused(), FailureKind::Unsupported);
    let xai = of(&Wire::new("xai", "grok-4.3"), &loose, Strictness::Prefer);
    assert_eq!(
        (&xai.sent()["tools"][0]["strict"], &*xai.warnings()),
        (&json!(false), &["schema_not_strict(find)".to_owned()][..])
    );
}

#[test]
fn a_choice_leaves_the_list_of_tools_whole() {
    let choose = |profile: &str, choice: ToolChoice| {
        let wire = with_tools(&Wire::new(profile, "gpt-6-sol"), &["a", "b", "c"]);
        wire.with(|request| (request.tool_choice, request.one_call_at_a_time) = (choice, true))
    };
    let any = ToolChoice::AnyOf(vec!["a".into(), "b".into()]);
    let body = choose("openai-responses", any.clone()).sent();
    let function = |name: &str| json!({"type": "function", "name": name});
    let allowed = json!({"type": "allowed_tools", "mode": "auto", "tools": [function("a"), function("b")]});
    assert_eq!(body["tool_choice"], allowed);
    assert_eq!((body["tools"].as_array().unwrap().len(), &body["parallel_tool_calls"]), (3, &json!(false)));
    let choice = |choice| choose("openai-responses", choice).sent().get("tool_choice").cloned();
    assert_eq!(choice(ToolChoice::Auto), None);
    assert_eq!(choice(ToolChoice::None), Some(json!("none")));
    assert_eq!(choice(ToolChoice::Required), Some(json!("required")));
    assert_eq!(choice(ToolChoice::Named("c".into())), Some(function("c")));
    assert_eq!(choose("xai", any).warnings(), ["param_dropped(tool_choice)"]);
}

#[test]
fn how_long_it_reasons_and_what_that_leaves_out() {
    let reason = |model: &str, effort, show, temperature| {
        Wire::new("openai-responses", model).with(|request| {
            (request.effort, request.show_reasoning, request.temperature) = (effort, show, temperature);
        })
    };
    let wire = reason("gpt-6-sol", Some(Effort::High), true, Some(0.2));
    let body = wire.sent();
    assert_eq!(body["reasoning"], json!({"effort": "high", "summary": "auto"}));
    assert_eq!(
        (body.get("temperature"), &*wire.warnings()),
        (None, &["param_dropped(temperature)".to_owned()][..])
    );
    let body = reason("gpt-6-sol", Some(Effort::None), false, Some(0.2)).sent();
    assert_eq!((&body["reasoning"], &body["temperature"]), (&json!({"effort": "none"}), &json!(0.2)));
    let wire = reason("gpt-6-astra", Some(Effort::None), false, None);
    assert_eq!(
        (&wire.sent()["reasoning"]["effort"], &*wire.warnings()),
        (&json!("low"), &["param_changed(reasoning_effort)".to_owned()][..])
    );
    // One that does not reason is asked for no reasoning.
    let wire = reason("gpt-4o", Some(Effort::High), true, Some(0.2));
    let body = wire.sent();
    assert_eq!((body.get("reasoning"), body.get("include"), &body["temperature"]), (None, None, &json!(0.2)));
    assert_eq!(wire.warnings(), ["param_dropped(reasoning_effort)", "param_dropped(show_reasoning)"]);
    let strict = wire.with(|request| request.unsupported = Unsupported::Reject);
    assert_eq!(strict.refused(), FailureKind::Unsupported);
    // An endpoint's own name for it: its abilities are those of the base.
    let mut deployed = Wire::new("azure-responses", "prod-a");
    assert!(deployed.sent().get("include").is_some());
    deployed.codec = Codec::new(Profile::named("azure-responses").unwrap()).with_base_model("gpt-4o-mini");
    let body = deployed.with(|request| request.effort = Some(Effort::Low)).sent();
    assert_eq!((&body["model"], body.get("include"), body.get("reasoning")), (&json!("prod-a"), None, None));
}

#[test]
fn forms_of_the_text() {
    let form = |output| responses().with(|request| request.output = output);
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let of = |strict| {
        form(OutputFormat::JsonSchema {
            name: "answer".into(),
            description: "".into(),
            schema: schema.clone(),
            strict,
        })
    };
    let mut bound = schema.clone();
    bound["additionalProperties"] = false.into();
    let wanted = |schema: &Value, strict: bool| json!({"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}});
    assert_eq!(of(Strictness::Prefer).sent()["text"], wanted(&bound, true));
    assert_eq!(of(Strictness::Off).sent()["text"], wanted(&schema, false));
    assert_eq!(form(OutputFormat::JsonObject).sent()["text"], json!({"format": {"type": "json_object"}}));
    assert_eq!(form(OutputFormat::Text).sent().get("text"), None);
}

// wire WR17
#[test]
fn what_the_protocol_does_not_have() {
    let wire = responses().with(|request| {
        request.stop = vec!["END".into()];
        (request.seed, request.top_k, request.reasoning_tokens) = (Some(7), Some(4), Some(100));
        request.max_output_tokens = Some(9);
    });
    let body = wire.sent();
    for key in ["stop", "stop_sequences", "seed", "top_k", "thinking"] {
        assert_eq!(body.get(key), None, "{key}");
    }
    assert_eq!(body["max_output_tokens"], json!(16));
    // The decoder looks for stop texts: nothing is left out.
    let wanted = [
        "param_changed(max_output_tokens)",
        "param_dropped(reasoning_tokens)",
        "param_dropped(top_k)",
        "param_dropped(seed)",
    ];
    assert_eq!(wire.warnings(), wanted);
    let stop = responses().with(|request| {
        (request.stop, request.unsupported) = (vec!["END".into()], Unsupported::Reject);
    });
    assert!(stop.warnings().is_empty());
}

#[test]
fn caches_tiers_and_members_of_the_callers_own() {
    let wire = responses().with(|request| {
        request.cache.key = Some("run-1".into());
        request.service_tier = Some("flex".into());
        request.no_stream = true;
        let extra = json!({"store": true, "instructions": "Theirs.", "reasoning": {"context": "all_turns"}, "metadata": {"a": "b"}});
        request.extra = extra.as_object().unwrap().clone();
        request.effort = Some(Effort::Low);
    });
    let body = wire.sent();
    assert_eq!((&body["prompt_cache_key"], &body["service_tier"]), (&json!("run-1"), &json!("flex")));
    assert_eq!((&body["store"], body.get("stream")), (&json!(true), None));
    assert_eq!(body["reasoning"], json!({"effort": "low", "context": "all_turns"}));
    assert_eq!((&body["metadata"], &body["instructions"]), (&json!({"a": "b"}), &json!("Theirs.")));
    let text = format!("{:?}", wire.codec.encode(&wire.request).unwrap().body);
    assert_eq!(text.matches("\"instructions\"").count(), 1, "{text}");
    let off = wire.with(|request| request.cache.off = true);
    assert_eq!(off.sent().get("prompt_cache_key"), None);
}

#[test]
fn a_result_of_a_tool_that_takes_any_text() {
    let output =
        r#"{"type":"custom_tool_call","id":"ctc_1","call_id":"call_c","name":"patch","input":"*** Begin"}"#;
    let turn = own(&responses(), output);
    let turns = [Message::user("?"), turn, results(&[result("call_c", false, "done")])];
    let body = responses().turns(&turns).sent();
    assert_eq!(body["input"][1]["input"], json!("*** Begin"));
    let wanted = json!({"type": "custom_tool_call_output", "call_id": "call_c", "output": "done"});
    assert_eq!(body["input"][2], wanted);
    // Another model knows no such tool.
    let body = Wire::new("openai-responses", "gpt-6-luna").turns(&turns).sent();
    assert_eq!(
        (&body["input"][1]["type"], &body["input"][2]["type"]),
        (&json!("function_call"), &json!("function_call_output"))
    );
}

// wire WC39 WX06
#[test]
fn more_turns_only_append_and_are_written_once() {
    let output = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"g"},{"type":"function_call","id":"fc_1","call_id":"a","name":"find","arguments":"{}"}"#;
    let all = [
        Message::user("1"),
        own(&responses(), output),
        results(&[result("a", false, "1")]),
        Message::assistant("["),
        Message::Operator { text: "Rules.".into() },
        Message::user("5"),
    ];
    let mut wire = with_tools(&responses(), &["find"]);
    let mut before: Option<(Vec<u8>, loop_llm::codec::Body)> = None;
    for count in [1, 3, 4, 5, 6] {
        // One memory for all of them.
        wire.request.messages = all[..count].to_vec();
        let encoded = wire.codec.encode(&wire.request).unwrap();
        let fresh = wire.with(|_| {});
        assert_eq!(
            fresh.codec.encode(&fresh.request).unwrap().body.to_bytes(),
            encoded.body.to_bytes(),
            "{count}"
        );
        let bytes = encoded.body.to_bytes();
        let prefix = bytes[..encoded.messages.end].to_vec();
        if let Some((earlier, body)) = &before {
            assert!(prefix.starts_with(earlier) && prefix.len() > earlier.len(), "{count}");
            // A body that is still there is as it was.
            assert!(body.to_bytes().starts_with(earlier), "{count}");
        }
        before = Some((prefix, encoded.body));
    }
}

// wire WC38
#[test]
fn a_history_that_would_be_refused_is_not_sent() {
    let open = foreign("", vec![call("a", "find", "{}")]);
    for turns in [
        vec![],
        vec![open.clone()],
        vec![open.clone(), Message::user("?")],
        vec![open, results(&[result("b", false, "")])],
        vec![Message::user("?"), results(&[result("a", false, "")])],
    ] {
        assert_eq!(responses().turns(&turns).refused(), FailureKind::InvalidRequest);
    }
}
