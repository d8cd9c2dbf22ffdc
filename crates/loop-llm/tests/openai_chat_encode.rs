//! What requests look like on Chat Completions, and which are never sent.

use crate::common;

use std::fs;
use std::path::Path;

use common::{Wire, foreign};
use loop_core::types::FailureKind;
use loop_llm::codec::Api;
use loop_llm::options::{Effort, OutputFormat, Strictness, Unsupported};
use loop_llm::request::{AssistantTurn, Image, Raw};
use loop_llm::{Message, ModelEvent, Profile, ToolChoice, ToolDefinition, ToolOutput};
use loop_testkit::{call, llm::result};
use serde_json::{Value, json};

/// OpenAI, and a model that does not reason.
fn openai() -> Wire {
    Wire::new("openai-chat", "gpt-4o")
}

fn compatible() -> Wire {
    Wire::new("compatible", "m")
}

fn two_calls() -> Message {
    foreign("", vec![call("a", "look", "{\"b\": 1.0,\"a\":2}"), call("b", "look", "")])
}

fn results(results: Vec<ToolOutput>) -> Message {
    Message::Tool { results }
}

fn tool(name: &str, parameters: Value, strict: Strictness) -> ToolDefinition {
    ToolDefinition { name: name.into(), description: "Looks.".into(), parameters, strict }
}

fn with_tools(wire: &Wire, names: &[&str]) -> Wire {
    let tools: Vec<_> =
        names.iter().map(|name| tool(name, json!({"type": "object"}), Strictness::Off)).collect();
    wire.with(|request| request.tools = tools.into())
}

fn rejecting(wire: &Wire) -> Wire {
    wire.with(|request| request.unsupported = Unsupported::Reject)
}

#[test]
fn a_plain_request_has_these_bytes() {
    let encoded = openai().codec.encode(&openai().request).unwrap();
    let body =
        r#"{"model":"gpt-4o","messages":[{"role":"developer","content":"Rules."},{"role":"user","content":"Hi"}],"#
            .to_owned()
            + r#""max_completion_tokens":4096,"stream":true,"stream_options":{"include_usage":true}}"#;
    assert_eq!(std::str::from_utf8(&encoded.body.to_bytes()).unwrap(), body);
    let body = compatible().sent();
    assert_eq!((&body["messages"][0]["role"], &body["max_tokens"]), (&json!("system"), &json!(4096)));
    let whole = openai().with(|request| request.no_stream = true).sent();
    assert_eq!((whole.get("stream"), whole.get("stream_options")), (None, None));
}

// wire WC30
#[test]
fn results_follow_their_calls_in_order() {
    let reported = results(vec![result("b", true, "station offline"), result("a", false, "3")]);
    let turns = [Message::user("?"), two_calls(), reported];
    let function = |arguments: &str| json!({"name": "look", "arguments": arguments});
    let calls = json!([
        {"id": "a", "type": "function", "function": function("{\"b\": 1.0,\"a\":2}")},
        {"id": "b", "type": "function", "function": function("{}")},
    ]);
    let wanted = json!([
        {"role": "developer", "content": "Rules."},
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": null, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "3"},
        {"role": "tool", "tool_call_id": "b", "content": "ERROR: station offline"},
    ]);
    assert_eq!(openai().turns(&turns).sent()["messages"], wanted);
    assert_eq!(compatible().turns(&turns).sent()["messages"][2]["content"], json!(""));
    // T11: what says itself that it is an error is not said twice.
    for said in ["Error: gone", "error executing look: gone", "ERROR"] {
        let reported = results(vec![result("a", true, said), result("b", false, "Error: 3")]);
        let turns = [Message::user("?"), two_calls(), reported];
        let sent = openai().turns(&turns).sent();
        assert_eq!(
            (&sent["messages"][3]["content"], &sent["messages"][4]["content"]),
            (&json!(said), &json!("Error: 3"))
        );
    }
}

// wire WC31
#[test]
fn a_model_that_reasons_gets_no_temperature() {
    let requested = |model: &str, effort: Option<Effort>| {
        Wire::new("openai-chat", model).with(|request| {
            request.temperature = Some(0.2);
            request.effort = effort;
        })
    };
    let wire = requested("gpt-5.5", Some(Effort::High));
    let body = wire.sent();
    assert_eq!((body.get("temperature"), &body["reasoning_effort"]), (None, &json!("high")));
    assert_eq!(
        (&body["max_completion_tokens"], wire.warnings()),
        (&json!(4096), vec!["param_dropped(temperature)".into()])
    );
    assert_eq!(requested("gpt-5.5", Some(Effort::None)).sent()["temperature"], json!(0.2));
    assert_eq!(requested("gpt-4o", None).sent()["temperature"], json!(0.2));
    assert_eq!(rejecting(&requested("gpt-5.5", None)).refused(), FailureKind::Unsupported);
    let changed = requested("o3", Some(Effort::Max));
    assert_eq!(changed.sent()["reasoning_effort"], json!("high"));
    assert_eq!(changed.warnings(), ["param_changed(reasoning_effort)", "param_dropped(temperature)"]);
}

// wire WC32
#[test]
fn tools_are_not_sent_where_they_are_refused() {
    let requested = |model: &str, effort: Option<Effort>| {
        with_tools(&Wire::new("openai-chat", model), &["look"]).with(|request| request.effort = effort)
    };
    assert_eq!(requested("gpt-5.5", None).refused(), FailureKind::Unsupported);
    assert!(requested("gpt-5.5", Some(Effort::None)).sent().get("tools").is_some());
    assert_eq!(requested("gpt-6.1-sol", Some(Effort::None)).refused(), FailureKind::Unsupported);
    assert!(requested("gpt-4.1", None).sent().get("tools").is_some());
}

// wire WC33 WC34 WC35
#[test]
fn schemas_are_made_binding_where_they_can_be() {
    let loose = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "integer", "minimum": 1}, "c": {"enum": ["x"]},
        "d": {"type": "array", "items": {"type": "object", "properties": {"e": {"type": ["string", "null"]}}}},
    }, "required": ["a"]});
    let of = |wire: Wire, parameters: &Value, strict| {
        wire.with(|request| request.tools = [tool("look", parameters.clone(), strict)].into())
    };
    let wire = of(openai(), &loose, Strictness::Prefer);
    let inner = json!({"type": "object", "properties": {"e": {"type": ["string", "null"]}}, "required": ["e"], "additionalProperties": false});
    let wanted = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": ["integer", "null"], "minimum": 1},
        "c": {"anyOf": [{"enum": ["x"]}, {"type": "null"}]},
        "d": {"type": ["array", "null"], "items": inner},
    }, "required": ["a", "b", "c", "d"], "additionalProperties": false});
    let function = &wire.sent()["tools"][0]["function"];
    assert_eq!((&function["parameters"], &function["strict"]), (&wanted, &json!(true)));
    assert!(wire.warnings().is_empty());

    let all_of = json!({"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}});
    let wire = of(openai(), &all_of, Strictness::Prefer);
    let function = &wire.sent()["tools"][0]["function"];
    assert_eq!((&function["parameters"], &function["strict"]), (&all_of, &json!(false)));
    assert_eq!(wire.warnings(), ["schema_not_strict(look)"]);
    assert_eq!(of(openai(), &all_of, Strictness::Require).refused(), FailureKind::Unsupported);
    // Where nobody can be bound, the word is not said.
    let wire = of(compatible(), &loose, Strictness::Prefer);
    assert_eq!(wire.sent()["tools"][0]["function"].get("strict"), None);
    assert_eq!(wire.warnings(), ["schema_not_strict(look)"]);
}

// Issue 43, P2
#[test]
fn a_schema_over_the_limits_of_strict_mode_is_sent_without_it() {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let nested = |levels: usize| {
        (1..levels).fold(object(json!({"a": {"type": "string"}})), |inner, n| match n % 2 {
            0 => object(json!({ "a": inner })),
            _ => object(json!({"a": {"type": "array", "items": inner}})),
        })
    };
    let many = |count: usize| {
        let text = json!({"type": "string"});
        let halves = [count / 2, count - count / 2 - 2];
        let half = |n: usize| object((0..n).map(|n| (format!("p{n}"), text.clone())).collect());
        object(json!({"a": half(halves[0]), "b": half(halves[1])}))
    };
    let listed = |lists: usize, values: usize, length: usize| {
        let values: Vec<String> = (0..values).map(|n| format!("{n:0length$}")).collect();
        object((0..lists).map(|n| (format!("p{n}"), json!({"type": "string", "enum": values}))).collect())
    };
    let named = |characters: usize| object(json!({"é".repeat(characters): {"type": "string"}}));
    for (schema, is_strict) in [
        (nested(10), true),
        (nested(11), false),
        (many(5_000), true),
        (many(5_001), false),
        (listed(4, 250, 20), true),
        (listed(4, 251, 20), false),
        (listed(1, 251, 59), true),
        (listed(1, 251, 60), false),
        (named(120_000), true),
        (named(120_001), false),
        (object(json!({"a": {"const": "x".repeat(120_000)}})), false),
    ] {
        let expected = if is_strict { vec![] } else { vec!["schema_not_strict(look)".to_owned()] };
        for profile in ["openai-chat", "openai-responses"] {
            let plain = Wire::new(profile, "gpt-4.1");
            let shown = &schema.to_string()[..40];
            let wire = plain.with(|request| {
                request.tools = [tool("look", schema.clone(), Strictness::Prefer)].into();
            });
            assert_eq!(wire.warnings(), expected, "{profile} {shown}");
            let wire = plain.with(|request| {
                request.output = OutputFormat::JsonSchema {
                    name: "look".into(),
                    description: "".into(),
                    schema: schema.clone(),
                    strict: Strictness::Prefer,
                };
            });
            assert_eq!(wire.warnings(), expected, "{profile} {shown}");
            let body = wire.sent().to_string();
            assert_eq!(body.contains("\"strict\":true"), is_strict, "{profile} {shown}");
        }
    }
}

// wire WC36
#[test]
fn pictures_of_results_come_after_all_results() {
    let mut first = result("a", false, "a chart");
    first.images.push(Image { media_type: "image/png".into(), base64: "QUJD".into() });
    let reported =
        [Message::user("?"), two_calls(), results(vec![first, result("b", false, "")]), Message::user("So?")];
    let roles = |wire: Wire| {
        let body = wire.turns(&reported).sent();
        let turns = body["messages"].as_array().unwrap();
        (turns.iter().map(|turn| turn["role"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), body.clone())
    };
    let (all, body) = roles(openai());
    assert_eq!(all, ["developer", "user", "assistant", "tool", "tool", "user", "user"]);
    assert_eq!(body["messages"][3]["content"], json!("a chart\n[picture below]"));
    assert_eq!(body["messages"][5]["content"][1]["image_url"]["url"], json!("data:image/png;base64,QUJD"));
    // Where a user may not follow results, something stands between them.
    let strict = Profile {
        no_user_after_tool: true,
        result_pictures: true,
        ..(*Profile::named("mistral").unwrap()).clone()
    };
    let (all, _) = roles(Wire::of(strict, "mistral-large"));
    assert_eq!(
        all,
        ["system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant", "user"]
    );
}

#[test]
fn where_a_model_takes_no_pictures_of_results_a_line_says_so() {
    let mut first = result("a", false, "a chart");
    first.images.push(Image { media_type: "image/png".into(), base64: "QUJD".into() });
    let shown = |author| Message::User { text: "evidence".into(), images: first.images.clone(), author };
    let (evidence, asked) = (shown(loop_llm::request::Author::Runner), shown(Default::default()));
    let reported = [evidence, two_calls(), results(vec![first, result("b", false, "")]), asked];
    let says = "[pictures that this model does not take: 1]";
    for wire in [compatible(), Wire::of((*Profile::named("openai-chat").unwrap()).clone(), "gpt-3.5-turbo")] {
        let body = wire.turns(&reported).sent();
        let turns = body["messages"].as_array().unwrap();
        let at = |role: &str| turns.iter().position(|turn| turn["role"] == role).unwrap();
        assert_eq!(turns[at("user")]["content"], json!(format!("evidence\n\n{says}")));
        assert_eq!(turns[at("tool")]["content"], json!(format!("a chart\n\n{says}")));
        assert_eq!(body.to_string().matches("QUJD").count(), 1, "what the user shows is sent: {body}");
    }
}

// wire WC37
#[test]
fn names_that_are_not_allowed_travel_under_an_alias() {
    let long = format!("web.{}", "x".repeat(80));
    let wire = with_tools(&openai(), &[&long, "plain"]);
    let encoded = wire.codec.encode(&wire.request).unwrap();
    let body = wire.sent();
    let alias = body["tools"][0]["function"]["name"].as_str().unwrap();
    assert!(alias.len() <= 64 && alias.starts_with("webxxx"), "{alias}");
    assert_eq!((&*encoded.aliases.name(alias), &*encoded.aliases.name("plain")), (&*long, "plain"));
    let call = json!({"index": 0, "id": "a", "function": {"name": alias, "arguments": "{}"}});
    let chunk = json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let wire = Wire { aliases: encoded.aliases, ..wire };
    let items = wire.items(common::sse(&[chunk]).as_bytes());
    let Some(Ok(ModelEvent::Finished(reply))) = items.last() else { panic!("{items:?}") };
    assert_eq!(*reply.tool_calls[0].name, *long);
    let turns = [Message::user("?"), reply.turn(), results(vec![result("a", false, "1")])];
    assert_eq!(wire.turns(&turns).sent()["messages"][2]["tool_calls"][0]["function"]["name"], json!(alias));
}

// wire WC38 WX04
#[test]
fn a_history_that_would_be_refused_is_not_sent() {
    let (a, b) = (result("a", false, "1"), result("b", false, "2"));
    let user = || Message::user("?");
    for turns in [
        vec![],
        vec![two_calls()],
        vec![two_calls(), user()],
        vec![two_calls(), user(), results(vec![a.clone(), b.clone()])],
        vec![two_calls(), results(vec![a.clone()])],
        vec![two_calls(), results(vec![a.clone(), b.clone(), b.clone()])],
        vec![two_calls(), results(vec![a.clone(), b, result("c", false, "3")])],
        vec![user(), results(vec![a])],
        vec![user(), results(vec![])],
        vec![user(), foreign("", vec![call("a", "f", ""), call("a", "g", "")])],
    ] {
        assert_eq!(openai().turns(&turns).refused(), FailureKind::InvalidRequest, "{turns:?}");
    }
}

// wire WC40
#[test]
fn a_choice_leaves_the_list_of_tools_whole() {
    let choose = |wire: &Wire, choice: ToolChoice| {
        with_tools(wire, &["a", "b", "c"]).with(|request| {
            request.tool_choice = choice;
            request.one_call_at_a_time = true;
        })
    };
    let some = || ToolChoice::AnyOf(vec!["a".into(), "b".into()]);
    let body = choose(&openai(), some()).sent();
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let allowed = json!({"mode": "auto", "tools": [function("a"), function("b")]});
    assert_eq!(body["tool_choice"], json!({"type": "allowed_tools", "allowed_tools": allowed}));
    assert_eq!((body["tools"].as_array().unwrap().len(), &body["parallel_tool_calls"]), (3, &json!(false)));
    let choice = |wire: &Wire, choice| choose(wire, choice).sent().get("tool_choice").cloned();
    assert_eq!(choice(&openai(), ToolChoice::Auto), None);
    assert_eq!(choice(&openai(), ToolChoice::None), Some(json!("none")));
    assert_eq!(choice(&openai(), ToolChoice::Required), Some(json!("required")));
    assert_eq!(choice(&openai(), ToolChoice::Named("c".into())), Some(function("c")));
    let (mistral, ollama) = (Wire::new("mistral", "m"), Wire::new("ollama", "m"));
    assert_eq!(choice(&mistral, ToolChoice::Required), Some(json!("any")));
    assert_eq!((choice(&ollama, ToolChoice::Required), choice(&mistral, some())), (None, None));
    let warnings = choose(&ollama, ToolChoice::Required).warnings();
    assert_eq!(warnings, ["param_dropped(tool_choice)", "param_dropped(parallel_tool_calls)"]);
}

// wire WC41
#[test]
fn stop_texts_beyond_four() {
    let wire =
        openai().with(|request| request.stop = ["1", "2", "3", "4", "5", "6"].map(Into::into).to_vec());
    assert_eq!(wire.sent()["stop"], json!(["1", "2", "3", "4"]));
    assert_eq!(wire.warnings(), ["param_changed(stop)"]);
    assert_eq!(rejecting(&wire).refused(), FailureKind::Unsupported);
    let never = Wire::new("openai-chat", "o3").with(|request| request.stop = vec!["1".into()]);
    assert_eq!((never.sent().get("stop"), never.warnings()), (None, vec!["param_dropped(stop)".to_owned()]));
}

// wire WQ04
#[test]
fn a_deployment_has_the_abilities_of_its_model() {
    let azure = Wire::new("azure", "prod-a").with(|request| request.temperature = Some(0.2));
    assert_eq!(azure.sent()["temperature"], json!(0.2));
    let known = Wire { codec: azure.codec.clone().with_base_model("gpt-5.5"), ..azure };
    let body = known.sent();
    assert_eq!((&body["model"], body.get("temperature")), (&json!("prod-a"), None));
}

// wire WQ10
#[test]
fn ids_of_others_have_nine_letters_and_digits_for_mistral() {
    let calls = vec![call("toolu_01ABC", "f", "{}"), call("abcDEF123", "g", "{}")];
    let answers = results(vec![result("abcDEF123", false, "2"), result("toolu_01ABC", false, "1")]);
    let body = Wire::new("mistral", "m").turns(&[Message::user("?"), foreign("", calls), answers]).sent();
    let turns = body["messages"].as_array().unwrap();
    let [first, second] = [0, 1].map(|nth| turns[2]["tool_calls"][nth]["id"].as_str().unwrap());
    assert!(first.len() == 9 && first.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{first}");
    assert_eq!(second, "abcDEF123");
    assert_eq!((&turns[3]["tool_call_id"], &turns[4]["tool_call_id"]), (&json!(first), &json!(second)));
}

// wire WQ13
#[test]
fn mistral_gets_no_field_that_it_does_not_know() {
    let everything = |wire: Wire| {
        with_tools(&wire, &["a"]).with(|request| {
            request.seed = Some(7);
            request.top_k = Some(40);
            request.top_p = Some(0.5);
            request.temperature = Some(0.5);
            request.effort = Some(Effort::High);
            request.reasoning_tokens = Some(100);
            request.show_reasoning = true;
            request.one_call_at_a_time = true;
            request.cache.key = Some("run".into());
            request.stop = vec!["x".into()];
            request.output = OutputFormat::JsonObject;
        })
    };
    let mistral = everything(Wire::new("mistral", "magistral-small"));
    let body = mistral.sent();
    let mut fields: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    let known = [
        "max_tokens",
        "messages",
        "model",
        "parallel_tool_calls",
        "prompt_cache_key",
        "random_seed",
        "reasoning_effort",
        "response_format",
        "stop",
        "stream",
        "temperature",
        "tools",
        "top_p",
    ];
    assert_eq!((fields, &body["random_seed"]), (known.to_vec(), &json!(7)));
    assert_eq!(mistral.warnings(), ["param_dropped(reasoning_tokens)", "param_dropped(top_k)"]);
    let vllm = everything(Wire::new("vllm", "m")).sent();
    assert_eq!((&vllm["seed"], &vllm["top_k"], vllm.get("prompt_cache_key")), (&json!(7), &json!(40), None));
    assert_eq!(everything(openai()).sent()["prompt_cache_key"], json!("run"));
}

// wire WQ31
#[test]
fn a_call_without_an_id_gets_one_that_its_result_has() {
    let chunk = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "", "function": {"name": "f", "arguments": ""}}]},
        "finish_reason": "tool_calls"}]});
    let studio = Wire::new("lm-studio", "m");
    let reply = studio.stream(&[chunk]).unwrap();
    let id = &*reply.tool_calls[0].id;
    let body =
        studio.turns(&[Message::user("?"), reply.turn(), results(vec![result(id, false, "1")])]).sent();
    let (called, answered) =
        (&body["messages"][2]["tool_calls"][0]["id"], &body["messages"][3]["tool_call_id"]);
    assert_eq!((called, answered), (&json!("call_1"), &json!("call_1")));
}

#[test]
fn the_form_of_the_text() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let format = |wire: Wire, strict| {
        let output = OutputFormat::JsonSchema {
            name: "n".into(),
            description: "".into(),
            schema: schema.clone(),
            strict,
        };
        let wire = wire.with(|request| request.output = output);
        (wire.sent()["response_format"].clone(), wire.warnings())
    };
    let mut bound = schema.clone();
    bound["additionalProperties"] = json!(false);
    let of = |schema: &Value, strict: bool| json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": strict}});
    assert_eq!(format(openai(), Strictness::Prefer), (of(&bound, true), vec![]));
    assert_eq!(format(openai(), Strictness::Off), (of(&schema, false), vec![]));
    let changed = vec!["param_changed(response_format)".to_owned()];
    let deepseek = format(Wire::new("deepseek", "m"), Strictness::Prefer);
    assert_eq!(deepseek, (json!({"type": "json_object"}), changed));
}

#[test]
fn members_of_ones_own_win() {
    let wire = openai().with(|request| {
        let extra = json!({"stream_options": {"include_obfuscation": false}, "max_completion_tokens": 9, "store": true});
        request.extra = extra.as_object().unwrap().clone();
        request.service_tier = Some("flex".into());
    });
    let body = wire.sent();
    assert_eq!(body["stream_options"], json!({"include_usage": true, "include_obfuscation": false}));
    assert_eq!((&body["max_completion_tokens"], &body["store"]), (&json!(9), &json!(true)));
    assert_eq!(body["service_tier"], json!("flex"));
}

#[test]
fn an_effort_goes_to_the_models_that_take_it() {
    let sent = |profile: &str, model: &str, effort: Effort| {
        let wire = Wire::new(profile, model).with(|request| request.effort = Some(effort));
        let body = wire.sent();
        let reported = body["reasoning_effort"].as_str().unwrap_or(if body.get("thinking").is_some() {
            "off"
        } else {
            ""
        });
        (reported.to_owned(), wire.warnings().join(" "))
    };
    let is = |reported: &str, warning: &str| (reported.to_owned(), warning.to_owned());
    let (changed, dropped) = ("param_changed(reasoning_effort)", "param_dropped(reasoning_effort)");
    assert_eq!(sent("groq", "openai/gpt-oss-120b", Effort::High), is("high", ""));
    assert_eq!(sent("groq", "openai/gpt-oss-120b", Effort::Max), is("high", changed));
    assert_eq!(sent("groq", "llama-3.3-70b-versatile", Effort::High), is("", dropped));
    assert_eq!(sent("groq", "llama-3.3-70b-versatile", Effort::None), is("", ""));
    assert_eq!(sent("groq", "qwen/qwen3-32b", Effort::None), is("none", ""));
    // Who wants it to reason does not tell it not to.
    assert_eq!(sent("groq", "qwen/qwen3-32b", Effort::Low), is("", dropped));
    assert_eq!(sent("mistral", "magistral-medium", Effort::Minimal), is("high", changed));
    // X8: the hybrid models take an effort, the earlier ones of their names do not.
    assert_eq!(sent("mistral", "mistral-small-latest", Effort::High), is("high", ""));
    assert_eq!(sent("mistral", "mistral-medium-3-5", Effort::None), is("none", ""));
    assert_eq!(sent("mistral", "mistral-medium-2508", Effort::High), is("", dropped));
    assert_eq!(sent("mistral", "mistral-large-latest", Effort::High), is("", dropped));
    assert_eq!(sent("deepseek", "deepseek-chat", Effort::Medium), is("low", changed));
    assert_eq!(sent("deepseek", "deepseek-chat", Effort::None), is("off", ""));
    assert_eq!(sent("vllm", "m", Effort::Medium), is("medium", ""));
    let strict =
        Wire::new("groq", "llama-3.3-70b-versatile").with(|request| request.effort = Some(Effort::Low));
    assert_eq!(rejecting(&strict).refused(), FailureKind::Unsupported);
}

#[test]
fn what_another_model_reasoned_is_not_told_as_ones_own() {
    let turn = |raw: Option<&str>| AssistantTurn {
        calls: vec![call("a", "look", "{}")],
        reasoning: "Thoughts.".into(),
        raw: raw.map(|raw| Raw::from_text(format!("{raw}\n{{\"type\":\"text\"}}"))),
        ..AssistantTurn::default()
    };
    let sent = |raw| {
        let turns =
            [Message::user("?"), Message::Assistant(turn(raw)), results(vec![result("a", false, "1")])];
        Wire::new("deepseek", "deepseek-chat").turns(&turns).sent()["messages"][2].clone()
    };
    assert_eq!(sent(None)["reasoning_content"], json!("Thoughts."));
    assert_eq!(sent(Some("anthropic/anthropic/claude"))["reasoning_content"], json!(""));
    assert_eq!(sent(Some("openai-chat/deepseek/deepseek-chat")), json!({"type": "text"}));
}

#[test]
fn results_of_a_turn_that_goes_back_as_it_came_have_its_ids() {
    let id = "chatcmpl-tool-1";
    let own = json!({"role": "assistant", "content": [], "tool_calls": [{"id": id}]});
    let raw = Some(Raw::from_text(format!("openai-chat/mistral/m\n{own}")));
    let sent = |raw| {
        let turn = AssistantTurn { calls: vec![call(id, "look", "{}")], raw, ..AssistantTurn::default() };
        let turns = [Message::user("?"), Message::Assistant(turn), results(vec![result(id, false, "1")])];
        let body = Wire::new("mistral", "m").turns(&turns).sent();
        let turns = body["messages"].as_array().unwrap().clone();
        (turns[2]["tool_calls"][0]["id"].clone(), turns[3]["tool_call_id"].clone())
    };
    assert_eq!(sent(raw), (json!(id), json!(id)));
    let (first, second) = sent(None);
    assert!(first == second && first != json!(id), "{first} {second}");
}

#[test]
fn a_turn_that_says_nothing_is_not_sent() {
    let turns = [Message::user("?"), Message::assistant(""), Message::user("!")];
    let turn = |text: &str| json!({"role": "user", "content": text});
    assert_eq!(openai().turns(&turns).sent()["messages"].as_array().unwrap()[1..], [turn("?"), turn("!")]);
}

#[test]
fn what_is_not_asked_for_is_told() {
    let long = |profile: &str, model: &str| {
        Wire::new(profile, model).with(|request| request.cache.long = true).warnings()
    };
    let models = [("openai-chat", "gpt-4o"), ("openai-responses", "gpt-4o"), ("gemini", "gemini-2.0-flash")];
    for (profile, model) in models {
        assert_eq!(long(profile, model), ["param_dropped(cache.long)"], "{profile}");
    }
    let shown = |wire: Wire| wire.with(|request| request.show_reasoning = true).warnings();
    assert_eq!(shown(openai()), ["param_dropped(show_reasoning)"]);
    // It tells by itself what it reasons.
    assert_eq!(shown(Wire::new("deepseek", "deepseek-chat")), Vec::<String>::new());
}

/// What a request with many settings becomes at each server that speaks Chat Completions; `UPDATE_SAMPLES=1` writes it
/// anew.
#[test]
fn each_profile_has_its_own_body() {
    let profiles = Profile::all().iter().filter(|profile| profile.api == Api::OpenaiChat);
    let reported: String = profiles.map(|profile| full(&Wire::new(&profile.name, "m"))).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/profiles.txt");
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        fs::write(&path, &reported).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    for (reported, committed) in reported.split("\n\n").zip(committed.split("\n\n")) {
        assert_eq!(reported, committed, "{} is stale; run this test with UPDATE_SAMPLES=1", path.display());
    }
    assert_eq!(reported.len(), committed.len(), "run this test with UPDATE_SAMPLES=1");
}

/// A conversation with calls and every setting, and what is warned of.
fn full(wire: &Wire) -> String {
    let mut own = two_calls();
    if let Message::Assistant(turn) = &mut own {
        turn.reasoning = "Hm.".into();
    }
    let answers = results(vec![result("b", true, "no"), result("a", false, "yes")]);
    let turns =
        [Message::user("?"), own, answers, Message::user("!"), Message::Operator { text: "Stop.".into() }];
    let wire = with_tools(&wire.turns(&turns), &["look", "find"]).with(|request| {
        request.tools = request
            .tools
            .iter()
            .map(|tool| ToolDefinition { strict: Strictness::Prefer, ..tool.clone() })
            .collect();
        request.tool_choice = ToolChoice::Required;
        request.one_call_at_a_time = true;
        request.effort = Some(Effort::Medium);
        (request.temperature, request.top_p, request.top_k) = (Some(0.5), Some(0.25), Some(40));
        request.seed = Some(7);
        request.stop = ["1", "2", "3", "4", "5"].map(Into::into).to_vec();
        request.cache.key = Some("run".into());
        request.output = OutputFormat::JsonSchema {
            name: "n".into(),
            description: "".into(),
            schema: json!({"type": "object"}),
            strict: Strictness::Off,
        };
    });
    let named = wire.with(|request| request.tool_choice = ToolChoice::Named("find".into())).sent();
    let encoded = wire.codec.encode(&wire.request).unwrap();
    let body = String::from_utf8(encoded.body.to_bytes().to_vec()).unwrap();
    let name = &wire.codec.profile().name;
    let (choice, warnings) = (&named["tool_choice"], encoded.warnings.join(" "));
    format!("{name}\n{body}\nnamed: {choice}\n{warnings}\n\n")
}

// A row of A5.12 each.
#[test]
fn profiles_are_as_their_servers() {
    let of = |name: &str| Profile::named(name).unwrap();
    let hello = |name: &str| Wire::new(name, "m").sent();
    for name in ["openai-chat", "azure", "groq", "xai-chat", "vllm"] {
        assert!(hello(name).get("max_completion_tokens").is_some(), "{name}");
    }
    for name in ["mistral", "ollama", "deepseek", "lm-studio", "llama-cpp", "openrouter", "compatible"] {
        assert!(hello(name).get("max_tokens").is_some(), "{name}");
        assert_eq!(hello(name)["messages"][0]["role"], json!("system"), "{name}");
    }
    assert_eq!(hello("mistral").get("stream_options"), None);
    assert!(of("xai-chat").reasoning_beside_completion && !of("openrouter").reasoning_beside_completion);
    let mut names: Vec<_> = Profile::all().iter().map(|profile| profile.name.clone()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "each name is there once");
}

// X8
#[test]
fn nothing_is_invented_between_results_and_the_user() {
    let history = [
        Message::user("?"),
        two_calls(),
        results(vec![result("a", false, "1"), result("b", false, "2")]),
        Message::user("!"),
    ];
    let roles = |wire: Wire| {
        let body = wire.turns(&history).sent();
        let roles =
            body["messages"].as_array().unwrap().iter().map(|it| it["role"].as_str().unwrap().to_owned());
        roles.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(roles(Wire::new("mistral", "mistral-small-latest")), "system user assistant tool tool user");
    // A server of one's own may need it.
    let strict = Profile { no_user_after_tool: true, ..(*Profile::named("mistral").unwrap()).clone() };
    assert_eq!(roles(Wire::of(strict, "m")), "system user assistant tool tool assistant user");
}

// X9
#[test]
fn what_the_form_is_for_and_the_key_of_a_cache_are_sent_or_told() {
    for (profile, place) in
        [("openai-chat", "/response_format/json_schema"), ("openai-responses", "/text/format")]
    {
        let wire = Wire::new(profile, "gpt-4o").with(|request| {
            let (name, description, strict) = ("n".into(), "What was found".into(), Strictness::Off);
            request.output =
                OutputFormat::JsonSchema { name, description, schema: json!({"type": "object"}), strict };
            request.cache.key = Some("run".into());
        });
        let body = wire.sent();
        assert_eq!(body.pointer(place).unwrap()["description"], json!("What was found"), "{profile}");
        assert_eq!((&body["prompt_cache_key"], wire.warnings().len()), (&json!("run"), 0));
    }
    let keyed = Wire::new("groq", "m").with(|request| request.cache.key = Some("run".into()));
    assert_eq!(
        (keyed.sent().get("prompt_cache_key"), keyed.warnings()),
        (None, vec!["param_dropped(prompt_cache_key)".to_owned()])
    );
    assert!(
        rejecting(&keyed).warnings().len() == 1,
        "which changes no reply, so that it is no reason to refuse"
    );
    let hint = keyed.with(|request| request.cache = loop_llm::options::Caching::hint("run"));
    assert!(hint.warnings().is_empty());
}
