//! What requests look like on Anthropic's Messages, and which are never sent.

use crate::common;

use common::{Wire, foreign};
use loop_core::types::FailureKind;
use loop_llm::options::{Effort, OutputFormat, Strictness, Unsupported};
use loop_llm::profile::CacheMarks;
use loop_llm::request::{AssistantTurn, Image, Raw};
use loop_llm::{Message, Profile, ToolChoice, ToolDefinition};
use loop_testkit::{call, llm::result};
use serde_json::{Value, json};

const OLDER: &str = "claude-sonnet-4-5";
const NEWER: &str = "claude-opus-5-5";

fn wire(model: &str) -> Wire {
    Wire::new("anthropic", model)
}

fn marked(marks: CacheMarks, model: &str) -> Wire {
    let anthropic = Profile::named("anthropic").unwrap();
    Wire::of(Profile { cache_marks: marks, ..(*anthropic).clone() }, model)
}

fn operator(text: &str) -> Message {
    Message::Operator { text: text.into() }
}

fn results(ids: &[&str]) -> Message {
    Message::Tool { results: ids.iter().map(|id| result(id, false, "fine")).collect() }
}

fn tool(name: &str, parameters: Value, strict: Strictness) -> ToolDefinition {
    ToolDefinition { name: name.into(), description: "Looks.".into(), parameters, strict }
}

fn looks(names: &[&str]) -> std::sync::Arc<[ToolDefinition]> {
    let schema = json!({"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]});
    names.iter().map(|name| tool(name, schema.clone(), Strictness::Off)).collect()
}

/// A turn of this model's own: thinking, text and a call.
fn own(model: &str, id: &str) -> Message {
    let raw = format!(
        "anthropic/anthropic/{model}\n{{\"type\":\"thinking\",\"thinking\":\"Hm, [{id}]\",\"signature\":\"s\"}},\
         {{\"type\":\"text\",\"text\":\"I look.\"}},{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"look\",\"input\":{{}}}}"
    );
    Message::Assistant(AssistantTurn {
        text: "I look.".into(),
        calls: vec![call(id, "look", "{}")],
        reasoning: format!("Hm, [{id}]").into(),
        raw: Some(Raw::from_text(raw)),
    })
}

/// A user's turn, and so many turns with a call and its result.
fn history(model: &str, turns: usize) -> Vec<Message> {
    let mut all = vec![Message::user("Hi")];
    for nth in 0..turns {
        let id = format!("c{nth}");
        all.extend([own(model, &id), results(&[&id])]);
    }
    all
}

/// The rules of the interface that break most often.
#[track_caller]
fn check(body: &Value) {
    let turns = body["messages"].as_array().unwrap();
    assert_eq!(turns[0]["role"], "user");
    assert!(body["max_tokens"].as_u64().unwrap() > 0);
    let mut open: Vec<&Value> = Vec::new();
    let mut before = &Value::Null;
    for turn in turns {
        let blocks = turn["content"].as_array().unwrap();
        assert_ne!(&turn["role"], before, "turns of one role are one: {body}");
        assert!(!blocks.is_empty());
        before = &turn["role"];
        let first_other =
            blocks.iter().position(|block| block["type"] != "tool_result").unwrap_or(blocks.len());
        let answered: Vec<&Value> = blocks[..first_other].iter().map(|block| &block["tool_use_id"]).collect();
        assert_eq!(answered, open, "results come first, one for each call, in order: {body}");
        open = blocks.iter().filter(|block| block["type"] == "tool_use").map(|block| &block["id"]).collect();
        for block in blocks {
            assert_ne!(block["text"].as_str().map(str::trim), Some(""), "no empty text: {body}");
            if block["type"] == "tool_use" {
                let id = block["id"].as_str().unwrap();
                assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')), "{id}");
                assert!(block["input"].is_object());
            }
        }
    }
    assert!(open.is_empty());
}

fn marks(value: &Value) -> usize {
    match value {
        Value::Object(members) => {
            members.values().map(marks).sum::<usize>() + usize::from(members.contains_key("cache_control"))
        }
        Value::Array(values) => values.iter().map(marks).sum(),
        _ => 0,
    }
}

fn body(wire: &Wire) -> String {
    String::from_utf8(wire.codec.encode(&wire.request).unwrap().body.to_bytes().to_vec()).unwrap()
}

#[test]
fn a_plain_request_has_these_bytes() {
    let wanted = r#"{"model":"claude-sonnet-4-5","system":[{"type":"text","text":"Rules.","cache_control":{"type":"ephemeral"}}],"#
        .to_owned()
        + r#""messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"#
        + r#""max_tokens":4096,"cache_control":{"type":"ephemeral"},"stream":true}"#;
    assert_eq!(body(&wire(OLDER)), wanted);
}

// wire WX01
#[test]
fn the_history_of_all_four_protocols() {
    let calls = vec![call("a", "look", "{\"b\": 1.0,\"a\":2}"), call("b", "look", "")];
    let failed = result("b", true, "station offline");
    let turns = [
        Message::user("?"),
        foreign("I look.", calls),
        Message::Tool { results: vec![failed, result("a", false, "3")] },
        foreign("So.", vec![]),
        Message::user("And?"),
    ];
    let wire = wire(OLDER).turns(&turns).with(|request| request.cache.off = true);
    let wanted = r#""messages":[{"role":"user","content":[{"type":"text","text":"?"}]},"#.to_owned()
        + r#"{"role":"assistant","content":[{"type":"text","text":"I look."},"#
        + r#"{"type":"tool_use","id":"a","name":"look","input":{"b": 1.0,"a":2}},{"type":"tool_use","id":"b","name":"look","input":{}}]},"#
        + r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"3"},"#
        + r#"{"type":"tool_result","tool_use_id":"b","is_error":true,"content":"station offline"}]},"#
        + r#"{"role":"assistant","content":[{"type":"text","text":"So."}]},{"role":"user","content":[{"type":"text","text":"And?"}]}],"#;
    assert!(body(&wire).contains(&wanted), "{}", body(&wire));
    check(&wire.sent());
}

// wire WA06 WA07 WA08
#[test]
fn results_come_first_and_notes_after_them() {
    let calls = ["a", "b", "c"].map(|id| call(id, "look", "{}")).to_vec();
    let picture = Image { media_type: "image/png".into(), base64: "QUJD".into() };
    let mut chart = result("a", false, "a chart");
    chart.images.push(picture.clone());
    let given = vec![result("c", false, ""), result("b", true, " "), chart];
    let turns = [
        Message::User { text: "See".into(), images: vec![picture], author: Default::default() },
        foreign("", calls),
        Message::Tool { results: given },
        operator("Two calls are left."),
        Message::user("Go on."),
    ];
    let source = json!({"type": "base64", "media_type": "image/png", "data": "QUJD"});
    let image = json!({"type": "image", "source": source});
    let off = |model: &str| wire(model).with(|request| request.cache.off = true);
    let body = off(OLDER).turns(&turns).sent();
    check(&body);
    assert_eq!(body["messages"][0]["content"], json!([{"type": "text", "text": "See"}, image]));
    let wanted = json!([
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "a chart"}, image]},
        {"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": "error"},
        {"type": "tool_result", "tool_use_id": "c"},
        {"type": "text", "text": "[operator]\nTwo calls are left."},
        {"type": "text", "text": "Go on."},
    ]);
    assert_eq!(body["messages"][2]["content"], wanted);
    // Models that take late rules as such are given them so, where they may stand.
    let body = off(NEWER).turns(&turns).sent();
    let roles: Vec<_> =
        body["messages"].as_array().unwrap().iter().map(|turn| turn["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "system", "user"]);
    assert_eq!(body["messages"][3]["content"][0]["text"], "Two calls are left.");
    let first = [operator("Be brief."), operator("Be kind."), Message::user("Hi")];
    let body = off(NEWER).turns(&first).sent();
    let roles: Vec<_> =
        body["messages"].as_array().unwrap().iter().map(|turn| turn["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "system", "user"], "the first turn is the user's");
    let after = [Message::user("Hi"), foreign("Ho", vec![]), operator("Be brief."), Message::user("So?")];
    let body = off(NEWER).turns(&after).sent();
    assert_eq!(
        body["messages"][2]["content"].as_array().unwrap().len(),
        2,
        "it follows no turn of the user's"
    );
}

// wire WA18
#[test]
fn sampling_goes_where_it_is_taken() {
    let sampled = |model: &str, effort| {
        wire(model).with(|request| {
            (request.temperature, request.top_p, request.top_k) = (Some(0.5), Some(0.9), Some(40));
            (request.seed, request.effort) = (Some(7), effort);
        })
    };
    let old = sampled("claude-3-5-haiku-latest", None);
    assert_eq!(
        (&old.sent()["temperature"], &old.sent()["top_p"], &old.sent()["top_k"]),
        (&json!(0.5), &json!(0.9), &json!(40))
    );
    assert_eq!(old.warnings(), ["param_dropped(seed)"]);
    let older = sampled(OLDER, None);
    assert_eq!(
        (older.sent().get("top_p"), older.warnings()),
        (None, vec!["param_dropped(top_p)".into(), "param_dropped(seed)".into()])
    );
    let newer = sampled(NEWER, None);
    assert!(["temperature", "top_p", "top_k"].iter().all(|name| newer.sent().get(*name).is_none()));
    assert!(newer.warnings().contains(&"param_dropped(temperature)".to_owned()));
    assert_eq!(
        newer.with(|request| request.unsupported = Unsupported::Reject).refused(),
        FailureKind::Unsupported
    );
    assert_eq!(
        sampled(OLDER, Some(Effort::Low)).sent().get("temperature"),
        None,
        "a model that thinks takes none"
    );
    let hot = wire(OLDER).with(|request| request.temperature = Some(1.5));
    assert_eq!(
        (&hot.sent()["temperature"], hot.warnings()),
        (&json!(1.0), vec!["param_changed(temperature)".into()])
    );
}

// wire WA19
#[test]
fn a_choice_that_cannot_be_forced() {
    let choose = |model: &str, choice| {
        wire(model).with(|request| (request.tools, request.tool_choice) = (looks(&["look", "see"]), choice))
    };
    let older = choose(OLDER, ToolChoice::Required);
    assert_eq!((&older.sent()["tool_choice"], older.warnings().len()), (&json!({"type": "any"}), 0));
    let newer = choose(NEWER, ToolChoice::Named("see".into()));
    let body = newer.sent();
    assert_eq!(
        (&body["tool_choice"], newer.warnings()),
        (&json!({"type": "auto"}), vec!["tool_choice_degraded".into()])
    );
    assert_eq!((body["tools"][0].get("strict"), &body["tools"][1]["strict"]), (None, &json!(true)));
    let stated = |text: &str| json!([{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": text}]);
    assert_eq!(body["messages"][0]["content"], stated("Call the tool see in this turn."));
    assert_eq!(body.get("cache_control"), None, "what the next request does not have is not kept");
    let required = choose(NEWER, ToolChoice::Required).sent();
    assert_eq!(required["messages"][0]["content"], stated("Call at least one tool in this turn."));
    let reject = newer.with(|request| request.unsupported = Unsupported::Reject);
    assert_eq!(reject.refused(), FailureKind::Unsupported);
    // Where the model thinks, older ones cannot be forced either.
    let thinks = older.with(|request| request.effort = Some(Effort::High));
    assert_eq!(
        (&thinks.sent()["tool_choice"], thinks.warnings()),
        (&json!({"type": "auto"}), vec!["tool_choice_degraded".into()])
    );
    // The turns themselves stay what they were.
    let longer = newer.with(|request| {
        request.messages = history(NEWER, 1);
        request.tool_choice = ToolChoice::Auto;
        request.memory = newer.request.memory.clone();
    });
    assert!(longer.sent()["messages"][0]["content"].as_array().unwrap().len() == 1);
}

// wire WA20
#[test]
fn there_is_always_a_limit() {
    let max = |model: &str| {
        wire(model).with(|request| request.max_output_tokens = None).sent()["max_tokens"].clone()
    };
    assert_eq!(
        (max(NEWER), max(OLDER), max("claude-3-haiku-20240307")),
        (json!(128_000), json!(64_000), json!(4_096))
    );
    assert_eq!(max("some-model"), json!(4_096));
    let given = wire(NEWER).with(|request| request.max_output_tokens = Some(77));
    assert_eq!(given.sent()["max_tokens"], json!(77));
}

// wire WA21 WA22
#[test]
fn turns_of_others_fit() {
    let turns = [
        Message::user("?"),
        foreign(" \n", vec![call("call.a/1", "web.search", "no json")]),
        Message::Tool { results: vec![result("call.a/1", false, "3")] },
        foreign("", vec![]),
        Message::user(" "),
        Message::user("And?"),
    ];
    let body = wire(OLDER).turns(&turns).sent();
    check(&body);
    let uses = &body["messages"][1]["content"][0];
    assert_eq!(
        (uses["type"].as_str(), &uses["input"]),
        (Some("tool_use"), &json!({"unreadable_arguments": "no json"}))
    );
    assert_eq!(uses["id"], body["messages"][2]["content"][0]["tool_use_id"]);
    assert_eq!(body["messages"].as_array().unwrap().len(), 3, "turns that say nothing are not there");
}

// wire WA23
#[test]
fn marks_are_few_and_where_they_serve() {
    let turns = history(NEWER, 10);
    let last = |body: &Value| body["messages"].as_array().unwrap().last().unwrap()["content"][0].clone();
    for kind in [CacheMarks::Automatic, CacheMarks::Blocks] {
        let wire = marked(kind, NEWER).turns(&turns);
        let body = wire.sent();
        check(&body);
        assert!((2..=4).contains(&marks(&body)), "{kind:?}");
        assert_eq!(body["system"][0]["cache_control"], json!({"type": "ephemeral"}));
        assert!(!wire.codec.encode(&wire.request).unwrap().warnings.iter().any(|_| true));
        for block in
            body["messages"].as_array().unwrap().iter().flat_map(|turn| turn["content"].as_array().unwrap())
        {
            assert!(block["type"] != "thinking" || block.get("cache_control").is_none());
        }
        let off = wire.with(|request| request.cache.off = true).sent();
        assert_eq!(marks(&off), 0);
        let long = wire.with(|request| request.cache.long = true);
        let text = self::body(&long);
        assert_eq!(
            text.matches("\"cache_control\"").count(),
            text.matches("{\"type\":\"ephemeral\",\"ttl\":\"1h\"}").count()
        );
        // Without rules the tools are the first that can be kept.
        let tools = wire
            .with(|request| (request.system, request.tools) = ("".into(), looks(&["look", "see"])))
            .sent();
        assert_eq!((tools["tools"][0].get("cache_control"), marks(&tools["tools"])), (None, 1));
    }
    let automatic = marked(CacheMarks::Automatic, NEWER).turns(&turns).sent();
    assert_eq!(
        (marks(&automatic["messages"]), &automatic["cache_control"]),
        (0, &json!({"type": "ephemeral"}))
    );
    let blocks = marked(CacheMarks::Blocks, NEWER).turns(&turns).sent();
    assert_eq!((marks(&blocks["messages"]), blocks.get("cache_control")), (2, None));
    assert_eq!(last(&blocks)["cache_control"], json!({"type": "ephemeral"}), "the newest user's turn");
    let before = &blocks["messages"].as_array().unwrap()[18];
    assert_eq!((before["role"].as_str(), marks(before)), (Some("user"), 1));
    assert_eq!(marks(&marked(CacheMarks::None, NEWER).turns(&turns).sent()), 0);
}

// wire WA23: the server looks back over twenty blocks.
#[test]
fn a_long_turn_gets_a_mark_at_its_beginning() {
    for (calls, wanted) in [(9, 0), (10, 1)] {
        let ids: Vec<String> = (0..calls).map(|nth| format!("c{nth}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let turn = foreign("", ids.iter().map(|id| call(id, "look", "{}")).collect());
        let body = wire(NEWER).turns(&[Message::user("Hi"), turn, results(&ids)]).sent();
        assert_eq!(marks(&body["messages"]), wanted, "{calls} calls and as many results");
        assert_eq!(marks(&body["messages"][0]), wanted);
    }
    let mut json = vec!["{\"type\":\"future\",\"a\":[{},{}]}"; 18].join(",");
    json.insert_str(0, "anthropic/anthropic/claude-opus-5-5\n");
    let turn = Message::Assistant(AssistantTurn { raw: Some(Raw::from_text(json)), ..Default::default() });
    let body = wire(NEWER).turns(&[Message::user("Hi"), turn.clone(), Message::user("So?")]).sent();
    assert_eq!(marks(&body["messages"][0]), 1, "the blocks of a turn of its own are counted");
    // It goes on with its own turn, and the user's before it is what is kept already.
    let body = wire(NEWER).turns(&[Message::user("Hi"), turn.clone(), turn]).sent();
    assert_eq!((marks(&body["messages"][0]), marks(&body["messages"])), (1, 1));
}

// wire WA24 WX03
#[test]
fn thinking_stays_with_its_model() {
    let turns = history(OLDER, 2);
    let there = wire(OLDER).turns(&turns).sent();
    assert_eq!(there["messages"][1]["content"][0]["type"], "thinking");
    let elsewhere = wire(NEWER).turns(&turns);
    let body = elsewhere.sent();
    check(&body);
    assert!(!self::body(&elsewhere).contains("thinking"));
    assert_eq!(body["messages"][1]["content"].as_array().unwrap().len(), 2, "text and call are there");
    let mut mixed = turns;
    mixed.extend([own(NEWER, "n"), results(&["n"])]);
    for model in [OLDER, NEWER] {
        let wire = wire(model).turns(&mixed);
        check(&wire.sent());
        assert_eq!(self::body(&wire).matches("\"signature\"").count(), if model == OLDER { 2 } else { 1 });
    }
}

// wire WA26
#[test]
fn one_call_at_a_time() {
    let choose = |choice| {
        let wire = wire(OLDER).with(|request| {
            (request.tools, request.tool_choice, request.one_call_at_a_time) =
                (looks(&["look", "web.search"]), choice, true);
        });
        (wire.sent()["tool_choice"].clone(), wire.warnings())
    };
    assert_eq!(choose(ToolChoice::Auto).0, json!({"type": "auto", "disable_parallel_tool_use": true}));
    assert_eq!(choose(ToolChoice::Required).0, json!({"type": "any", "disable_parallel_tool_use": true}));
    assert_eq!(choose(ToolChoice::None).0, json!({"type": "none"}));
    let (named, _) = choose(ToolChoice::Named("web.search".into()));
    assert!(named["name"].as_str().unwrap().starts_with("websearch_"), "{named}");
    // A list of tools that changes would change the beginning that the cache knows.
    let (any, warnings) = choose(ToolChoice::AnyOf(vec!["look".into()]));
    assert_eq!((any["type"].as_str(), warnings), (Some("auto"), vec!["param_changed(tool_choice)".into()]));
    let free = wire(OLDER).with(|request| request.tools = looks(&["look"]));
    assert_eq!(free.sent().get("tool_choice"), None);
}

#[test]
fn thinking_by_model() {
    let think = |model: &str, effort, tokens| {
        wire(model).with(|request| {
            (request.effort, request.reasoning_tokens, request.max_output_tokens) =
                (effort, tokens, Some(16_000));
        })
    };
    let reported = |wire: &Wire| {
        let body = wire.sent();
        (body.get("thinking").cloned(), body["output_config"].get("effort").cloned(), wire.warnings())
    };
    let budget = |tokens: u64| Some(json!({"type": "enabled", "budget_tokens": tokens}));
    let adaptive = Some(json!({"type": "adaptive"}));
    assert_eq!(reported(&think(OLDER, Some(Effort::Medium), None)), (budget(8_192), None, vec![]));
    assert_eq!(
        reported(&think(OLDER, Some(Effort::Max), None)).0,
        budget(12_000),
        "something is left for the reply"
    );
    assert_eq!(reported(&think(OLDER, None, Some(2_000))).0, budget(2_000));
    let changed = (budget(15_999), None, vec!["param_changed(reasoning_tokens)".to_owned()]);
    assert_eq!(reported(&think(OLDER, None, Some(20_000))), changed);
    assert_eq!(reported(&think(OLDER, None, Some(5))).0, budget(1_024));
    let short = think(OLDER, Some(Effort::Low), None).with(|request| request.max_output_tokens = Some(1_000));
    assert_eq!(reported(&short), (None, None, vec!["param_dropped(reasoning_effort)".into()]));
    assert_eq!(reported(&think(OLDER, Some(Effort::None), None)), (None, None, vec![]));
    assert_eq!(
        reported(&think(NEWER, Some(Effort::XHigh), None)),
        (adaptive.clone(), Some(json!("xhigh")), vec![])
    );
    assert_eq!(
        reported(&think(NEWER, None, Some(2_000))),
        (None, None, vec!["param_dropped(reasoning_tokens)".into()])
    );
    let least = (adaptive.clone(), Some(json!("low")), vec!["param_changed(reasoning_effort)".to_owned()]);
    assert_eq!(reported(&think(NEWER, Some(Effort::None), None)), least, "it cannot be told not to think");
    let off = |model: &str| reported(&think(model, Some(Effort::None), None)).0;
    assert_eq!(off("claude-sonnet-5-5"), Some(json!({"type": "between_tools"})));
    assert_eq!(off("claude-haiku-5-5"), Some(json!({"type": "disabled"})));
    assert_eq!((off("claude-opus-4-8"), off("claude-3-5-haiku-latest")), (None, None));
    assert_eq!(
        reported(&think("claude-opus-4-6", Some(Effort::Low), None)),
        (adaptive, Some(json!("low")), vec![])
    );
    assert_eq!(reported(&think("claude-opus-4-6", None, Some(2_000))).0, budget(2_000));
    assert_eq!(
        reported(&think("claude-3-5-haiku-latest", Some(Effort::Low), None)).2,
        ["param_dropped(reasoning_effort)"]
    );
    let shown = think(NEWER, None, None).with(|request| request.show_reasoning = true);
    assert_eq!(reported(&shown).0, Some(json!({"type": "adaptive", "display": "summarized"})));
    // A turn whose results are given has to begin with thinking where thinking has a budget.
    let with = |turns: &[Message]| reported(&think(OLDER, Some(Effort::Low), None).turns(turns)).0;
    assert_eq!(with(&history(OLDER, 1)), budget(2_048));
    let foreign = [Message::user("Hi"), foreign("", vec![call("a", "look", "{}")]), results(&["a"])];
    assert_eq!((with(&foreign), with(&history(NEWER, 1))), (None, None));
    let more = [&foreign[..], &[self::foreign("So.", vec![]), Message::user("And?")]].concat();
    assert_eq!(with(&more), budget(2_048));
}

#[test]
fn schemas_are_made_binding_where_they_can_be() {
    let loose = json!({"type": "object", "properties": {
        "a": {"type": "string", "minLength": 2, "description": "A place."},
        "b": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "object", "properties": {}}},
        "c": {"$ref": "#/$defs/c"},
    }, "required": ["a"], "$defs": {"c": {"enum": ["x"]}}});
    let bound = json!({"type": "object", "properties": {
        "a": {"type": "string", "description": "A place. (minLength: 2)"},
        "b": {"type": "array", "minItems": 1, "description": "(maxItems: 3)",
            "items": {"type": "object", "properties": {}, "additionalProperties": false}},
        "c": {"$ref": "#/$defs/c"},
    }, "required": ["a"], "$defs": {"c": {"enum": ["x"]}}, "additionalProperties": false});
    let with = |model: &str, schema: &Value, strict| {
        let tools = [tool("look", schema.clone(), strict)];
        wire(model).with(|request| request.tools = tools.into())
    };
    let sent = with(OLDER, &loose, Strictness::Prefer).sent()["tools"][0].clone();
    assert_eq!(sent, json!({"name": "look", "description": "Looks.", "input_schema": bound, "strict": true}));
    let sent = with(OLDER, &loose, Strictness::Off).sent()["tools"][0].clone();
    assert_eq!(sent, json!({"name": "look", "description": "Looks.", "input_schema": loose}));
    let old = with("claude-sonnet-4-0", &loose, Strictness::Prefer);
    assert_eq!(
        (old.sent()["tools"][0].get("strict"), old.warnings()),
        (None, vec!["schema_not_strict(look)".into()])
    );
    let node = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}});
    for unbound in [
        json!({"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}]}}}),
        json!({"type": "object", "additionalProperties": {"type": "string"}, "properties": {}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}),
        json!({"type": "object", "properties": (0..25).map(|n| (format!("p{n}"), json!({}))).collect::<serde_json::Map<_, _>>()}),
    ] {
        let wire = with(OLDER, &unbound, Strictness::Prefer);
        assert_eq!(
            (&wire.sent()["tools"][0]["input_schema"], wire.warnings()),
            (&unbound, vec!["schema_not_strict(look)".into()])
        );
        assert_eq!(with(OLDER, &unbound, Strictness::Require).refused(), FailureKind::Unsupported);
    }
    assert_eq!(
        with(OLDER, &json!({}), Strictness::Off).sent()["tools"][0]["input_schema"],
        json!({"type": "object", "properties": {}})
    );
    // There is room for twenty.
    let many =
        (0..21).map(|n| tool(&format!("t{n}"), json!({"type": "object"}), Strictness::Prefer)).collect();
    let many = wire(OLDER).with(|request| request.tools = many);
    assert_eq!(many.warnings(), ["schema_not_strict(t20)"]);
}

#[test]
fn the_form_of_the_text() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]});
    let shaped = |model: &str, strict| {
        wire(model).with(|request| {
            request.output = OutputFormat::JsonSchema {
                name: "form".into(),
                description: "".into(),
                schema: schema.clone(),
                strict,
            };
            request.effort = Some(Effort::Low);
        })
    };
    let bound = json!({"type": "object", "properties": {"a": {"type": "integer", "description": "(minimum: 1)"}}, "required": ["a"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "schema": bound});
    assert_eq!(
        shaped(NEWER, Strictness::Prefer).sent()["output_config"],
        json!({"effort": "low", "format": format})
    );
    assert_eq!(shaped(OLDER, Strictness::Off).sent()["output_config"], json!({"format": format}));
    assert_eq!(shaped("claude-sonnet-4-0", Strictness::Require).refused(), FailureKind::Unsupported);
    let old = shaped("claude-sonnet-4-0", Strictness::Off);
    assert_eq!(
        (old.sent().get("output_config"), old.warnings()),
        (None, vec!["param_changed(response_format)".into()])
    );
    let stated = old.sent()["messages"][0]["content"][1]["text"].as_str().unwrap().to_owned();
    assert!(stated.starts_with("Reply with one JSON object") && stated.contains("\"minimum\":1"), "{stated}");
    let any = wire(NEWER).with(|request| request.output = OutputFormat::JsonObject);
    assert_eq!(
        any.sent()["messages"][0]["content"][1]["text"],
        "Reply with one JSON object and nothing else."
    );
    assert_eq!(
        any.with(|request| request.unsupported = Unsupported::Reject).refused(),
        FailureKind::Unsupported
    );
}

#[test]
fn other_members() {
    let wire = wire(OLDER).with(|request| {
        request.stop = vec!["END".into(), "\n".into()];
        request.service_tier = Some("standard_only".into());
        request.no_stream = true;
        request.extra = serde_json::from_value(
            json!({"metadata": {"user_id": "u"}, "max_tokens": 9, "system": "Theirs."}),
        )
        .unwrap();
    });
    let body = wire.sent();
    assert_eq!(
        (&body["stop_sequences"], wire.warnings()),
        (&json!(["END"]), vec!["param_changed(stop)".into()])
    );
    assert_eq!((&body["service_tier"], body.get("stream")), (&json!("standard_only"), None));
    assert_eq!((&body["metadata"]["user_id"], &body["max_tokens"]), (&json!("u"), &json!(9)));
    assert_eq!((&body["system"], self::body(&wire).matches("\"system\"").count()), (&json!("Theirs."), 1));
}

#[test]
fn a_history_that_would_be_refused_is_not_sent() {
    let a = call("a", "look", "{}");
    for turns in [
        vec![],
        vec![Message::user("  ")],
        vec![Message::user("?"), foreign("", vec![a.clone()]), Message::user("?")],
        vec![Message::user("?"), results(&["a"])],
        vec![Message::user("?"), foreign("", vec![a.clone(), a]), results(&["a"])],
    ] {
        assert_eq!(wire(NEWER).turns(&turns).refused(), FailureKind::InvalidRequest, "{turns:?}");
    }
}

// X9: the server takes it.
#[test]
fn a_history_may_begin_with_the_model() {
    for turns in [
        vec![foreign("Hello", vec![]), Message::user("Hi")],
        vec![Message::user(""), foreign("Hello", vec![]), Message::user("Hi")],
    ] {
        let wire = wire(NEWER).turns(&turns);
        let roles: Vec<_> =
            wire.sent()["messages"].as_array().unwrap().iter().map(|it| it["role"].clone()).collect();
        assert_eq!((roles, wire.warnings().len()), (vec![json!("assistant"), json!("user")], 0));
    }
}

// X9
#[test]
fn a_model_that_thinks_as_long_as_it_likes_can_be_made_to_call() {
    for (choice, sent) in [
        (ToolChoice::Required, json!({"type": "any"})),
        (ToolChoice::Named("see".into()), json!({"type": "tool", "name": "see"})),
    ] {
        let wire = wire("claude-opus-4-6").with(|request| {
            (request.tools, request.tool_choice) = (looks(&["look", "see"]), choice);
            request.effort = Some(Effort::High);
        });
        let body = wire.sent();
        assert_eq!((&body["thinking"]["type"], &body["tool_choice"]), (&json!("adaptive"), &sent));
        assert!(wire.warnings().is_empty(), "{:?}", wire.warnings());
        // With a number of tokens it is refused.
        let budget = wire.with(|request| (request.effort, request.reasoning_tokens) = (None, Some(2_000)));
        let body = budget.sent();
        assert_eq!(
            (&body["thinking"]["type"], &body["tool_choice"]["type"]),
            (&json!("enabled"), &json!("auto"))
        );
        assert_eq!(budget.warnings(), ["tool_choice_degraded"]);
    }
}

// X9
#[test]
fn what_the_form_is_for_and_the_key_of_a_cache_are_sent_or_told() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let form = |schema: &Value| {
        wire(NEWER).with(|request| {
            let (name, description, strict) = ("form".into(), "What was found".into(), Strictness::Prefer);
            request.output = OutputFormat::JsonSchema { name, description, schema: schema.clone(), strict };
        })
    };
    let sent = form(&schema);
    assert_eq!(sent.sent()["output_config"]["format"]["schema"]["description"], json!("What was found"));
    assert!(sent.warnings().is_empty());
    let mut own = schema;
    own["description"] = "Its own".into();
    assert_eq!(form(&own).warnings(), ["param_dropped(response_format.description)"]);
    let keyed =
        |cache: loop_llm::options::Caching| wire(NEWER).with(|request| request.cache = cache).warnings();
    assert_eq!(
        keyed(loop_llm::options::Caching { key: Some("run".into()), ..Default::default() }),
        ["param_dropped(prompt_cache_key)"]
    );
    assert!(keyed(loop_llm::options::Caching::hint("run")).is_empty());
}
