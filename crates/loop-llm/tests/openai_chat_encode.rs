//! What requests look like on Chat Completions, and which are never sent.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use loop_llm::openai_chat::{Encoded, Profile, ToolSupport, encode};
use loop_llm::{
    Arguments, CallOptions, CallResult, Effort, ErrorCause, ErrorPhase, Image, LlmErrorKind, Message,
    ModelRequest, Strictness, ToolCall, ToolChoice, ToolSpec, Unsupported,
};
use serde_json::{Value, json};

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: Arguments::read(arguments) }
}

fn result(call: &str, is_error: bool, text: &str) -> CallResult {
    CallResult { call: call.into(), is_error, text: text.into(), images: Vec::new() }
}

fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

fn two_calls() -> Message {
    Message::AssistantCalls {
        text: "".into(),
        calls: vec![call("a", "look", "{\"b\": 1.0,\"a\":2}"), call("b", "look", "")],
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages, ..ModelRequest::new("m", "Rules.", "") }
}

fn tool(name: &str, parameters: Value, strict: Strictness) -> ToolSpec {
    ToolSpec { name: name.into(), description: "Looks.".into(), parameters, strict }
}

fn with_tools(names: &[&str]) -> CallOptions {
    let tools = names.iter().map(|name| tool(name, json!({"type": "object"}), Strictness::Off)).collect();
    CallOptions { tools, ..CallOptions::default() }
}

fn sent(request: &ModelRequest, options: &CallOptions, profile: &Profile) -> (Value, Encoded) {
    let encoded = encode(request, options, profile).unwrap();
    (serde_json::from_slice(&encoded.body).unwrap(), encoded)
}

fn hello() -> ModelRequest {
    request(vec![user("Hi")])
}

#[test]
fn a_plain_request_has_these_bytes() {
    let encoded = encode(&hello(), &CallOptions::default(), &Profile::OPENAI).unwrap();
    let body =
        r#"{"model":"m","messages":[{"role":"developer","content":"Rules."},{"role":"user","content":"Hi"}],"#
            .to_owned()
            + r#""max_completion_tokens":4096,"stream":true,"stream_options":{"include_usage":true}}"#;
    assert_eq!(std::str::from_utf8(&encoded.body).unwrap(), body);
    let (body, _) = sent(&hello(), &CallOptions::default(), &Profile::COMPATIBLE);
    assert_eq!((&body["messages"][0]["role"], &body["max_tokens"]), (&json!("system"), &json!(4096)));
}

// WC30
#[test]
fn results_follow_their_calls_in_order() {
    let results = vec![result("b", true, "station offline"), result("a", false, "3")];
    let request = request(vec![user("?"), two_calls(), Message::ToolResults { results }]);
    let (body, _) = sent(&request, &CallOptions::default(), &Profile::OPENAI);
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
    assert_eq!(body["messages"], wanted);
    let (body, _) = sent(&request, &CallOptions::default(), &Profile::COMPATIBLE);
    assert_eq!(body["messages"][2]["content"], json!(""));
}

// WC31
#[test]
fn a_model_that_reasons_gets_no_temperature() {
    let mut options =
        CallOptions { temperature: Some(0.2), effort: Some(Effort::High), ..CallOptions::default() };
    let (body, encoded) = sent(&hello(), &options, &Profile::OPENAI_REASONING);
    assert_eq!((body.get("temperature"), &body["reasoning_effort"]), (None, &json!("high")));
    assert_eq!(
        (&body["max_completion_tokens"], &*encoded.warnings),
        (&json!(4096), &["param_dropped(temperature)".into()][..])
    );
    options.effort = Some(Effort::None);
    assert_eq!(sent(&hello(), &options, &Profile::OPENAI_REASONING).0["temperature"], json!(0.2));
    options.effort = None;
    options.unsupported = Unsupported::Reject;
    let error = encode(&hello(), &options, &Profile::OPENAI_REASONING).unwrap_err();
    assert_eq!((error.cause(), error.phase), (Some(ErrorCause::Unsupported), ErrorPhase::Encode));
}

// WC32
#[test]
fn tools_are_not_sent_where_they_are_refused() {
    let mut options = with_tools(&["look"]);
    let cause = |options: &CallOptions, profile| {
        encode(&hello(), options, &profile).err().and_then(|error| error.cause())
    };
    assert_eq!(cause(&options, Profile::OPENAI_REASONING), Some(ErrorCause::OtherInterface));
    options.effort = Some(Effort::None);
    assert_eq!(cause(&options, Profile::OPENAI_REASONING), None);
    let never = Profile { tools: ToolSupport::No, ..Profile::OPENAI_REASONING };
    assert_eq!(cause(&options, never), Some(ErrorCause::OtherInterface));
}

// WC33 WC34 WC35
#[test]
fn schemas_are_made_binding_where_they_can_be() {
    let loose = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "integer", "minimum": 1}, "c": {"enum": ["x"]},
        "d": {"type": "array", "items": {"type": "object", "properties": {"e": {"type": ["string", "null"]}}}},
    }, "required": ["a"]});
    let of = |parameters: &Value, strict| CallOptions {
        tools: vec![tool("look", parameters.clone(), strict)],
        ..CallOptions::default()
    };
    let (body, encoded) = sent(&hello(), &of(&loose, Strictness::Prefer), &Profile::OPENAI);
    let inner = json!({"type": "object", "properties": {"e": {"type": ["string", "null"]}}, "required": ["e"], "additionalProperties": false});
    let wanted = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": ["integer", "null"], "minimum": 1},
        "c": {"anyOf": [{"enum": ["x"]}, {"type": "null"}]},
        "d": {"type": ["array", "null"], "items": inner},
    }, "required": ["a", "b", "c", "d"], "additionalProperties": false});
    let function = &body["tools"][0]["function"];
    assert_eq!((&function["parameters"], &function["strict"]), (&wanted, &json!(true)));
    assert!(encoded.warnings.is_empty());

    let all_of = json!({"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}});
    let (body, encoded) = sent(&hello(), &of(&all_of, Strictness::Prefer), &Profile::OPENAI);
    let function = &body["tools"][0]["function"];
    assert_eq!((&function["parameters"], &function["strict"]), (&all_of, &json!(false)));
    assert_eq!(*encoded.warnings, ["schema_not_strict(look)".into()]);
    let error = encode(&hello(), &of(&all_of, Strictness::Require), &Profile::OPENAI).unwrap_err();
    assert_eq!((error.cause(), error.phase), (Some(ErrorCause::Unsupported), ErrorPhase::Encode));
}

// WC36
#[test]
fn pictures_of_results_come_after_all_results() {
    let mut first = result("a", false, "a chart");
    first.images.push(Image { media_type: "image/png".into(), base64: "QUJD".into() });
    let results = vec![first, result("b", false, "")];
    let (body, _) = sent(
        &request(vec![user("?"), two_calls(), Message::ToolResults { results }]),
        &CallOptions::default(),
        &Profile::OPENAI,
    );
    let turns = body["messages"].as_array().unwrap();
    let roles: Vec<_> = turns.iter().map(|turn| turn["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["developer", "user", "assistant", "tool", "tool", "user"]);
    assert_eq!(turns[3]["content"], json!("a chart\n[picture below]"));
    assert_eq!(turns[5]["content"][1]["image_url"]["url"], json!("data:image/png;base64,QUJD"));
}

// WC37
#[test]
fn names_that_are_not_allowed_travel_under_an_alias() {
    let long = format!("web.{}", "x".repeat(80));
    let options = with_tools(&[&long, "plain"]);
    let (body, encoded) = sent(&hello(), &options, &Profile::OPENAI);
    let alias = body["tools"][0]["function"]["name"].as_str().unwrap();
    assert!(alias.len() <= 64 && alias.starts_with("webxxx"), "{alias}");
    assert_eq!((&*encoded.aliases.name(alias), &*encoded.aliases.name("plain")), (&*long, "plain"));
    assert_eq!(sent(&hello(), &options, &Profile::OPENAI).1, encoded);
    let mut decoder = loop_llm::openai_chat::Decoder::new(encoded.aliases, loop_llm::Secrets::default());
    let call = json!({"index": 0, "id": "a", "function": {"name": alias, "arguments": "{}"}});
    let chunk = json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let mut items = decoder.push(format!("data: {chunk}\n\ndata: [DONE]\n\n").as_bytes());
    let Some(Ok(loop_llm::ModelEvent::Finished(reply))) = items.pop() else { panic!("{items:?}") };
    assert_eq!(*reply.tool_calls[0].name, *long);
}

// WC38
#[test]
fn a_history_that_would_be_refused_is_not_sent() {
    let check = |messages: Vec<Message>| {
        let error = encode(&request(messages), &CallOptions::default(), &Profile::OPENAI).unwrap_err();
        assert_eq!((error.kind, error.phase), (LlmErrorKind::InvalidRequest, ErrorPhase::Encode));
    };
    let results = |results: Vec<CallResult>| Message::ToolResults { results };
    let (a, b) = (result("a", false, "1"), result("b", false, "2"));
    check(vec![]);
    check(vec![two_calls()]);
    check(vec![two_calls(), user("?")]);
    check(vec![two_calls(), user("?"), results(vec![a.clone(), b.clone()])]);
    check(vec![two_calls(), results(vec![a.clone()])]);
    check(vec![two_calls(), results(vec![a.clone(), b.clone(), b.clone()])]);
    check(vec![two_calls(), results(vec![a.clone(), b, result("c", false, "3")])]);
    check(vec![user("?"), results(vec![a])]);
    check(vec![Message::AssistantCalls { text: "".into(), calls: vec![] }, user("?")]);
}

// WC39
#[test]
fn more_turns_only_append() {
    let results = vec![result("a", false, "1"), result("b", false, "2")];
    let all = [
        user("1"),
        two_calls(),
        Message::ToolResults { results },
        Message::Assistant { text: "[".into(), raw: None },
        user("5"),
    ];
    let options = with_tools(&["look"]);
    let mut before: Vec<u8> = Vec::new();
    for count in [1, 3, 4, 5] {
        let request = request(all[..count].to_vec());
        let (_, encoded) = sent(&request, &options, &Profile::OPENAI);
        assert_eq!(sent(&request, &options, &Profile::OPENAI).1, encoded);
        let messages = &encoded.body[encoded.messages.clone()];
        assert!(messages.starts_with(&before) && messages.len() > before.len(), "{count}");
        before = messages.to_vec();
    }
}

// WC40
#[test]
fn a_choice_leaves_the_list_of_tools_whole() {
    let choose =
        |tool_choice| CallOptions { tool_choice, one_call_at_a_time: true, ..with_tools(&["a", "b", "c"]) };
    let (body, _) =
        sent(&hello(), &choose(ToolChoice::AnyOf(vec!["a".into(), "b".into()])), &Profile::OPENAI);
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let allowed = json!({"mode": "auto", "tools": [function("a"), function("b")]});
    assert_eq!(body["tool_choice"], json!({"type": "allowed_tools", "allowed_tools": allowed}));
    assert_eq!((body["tools"].as_array().unwrap().len(), &body["parallel_tool_calls"]), (3, &json!(false)));
    let choice = |choice| sent(&hello(), &choose(choice), &Profile::OPENAI).0.get("tool_choice").cloned();
    assert_eq!(choice(ToolChoice::Auto), None);
    assert_eq!(choice(ToolChoice::None), Some(json!("none")));
    assert_eq!(choice(ToolChoice::Required), Some(json!("required")));
    assert_eq!(choice(ToolChoice::Named("c".into())), Some(function("c")));
}

// WC41
#[test]
fn stop_texts_beyond_four() {
    let stop = ["1", "2", "3", "4", "5", "6"].map(Into::into).to_vec();
    let mut options = CallOptions { stop, ..CallOptions::default() };
    let (body, encoded) = sent(&hello(), &options, &Profile::OPENAI);
    assert_eq!(
        (&body["stop"], &*encoded.warnings),
        (&json!(["1", "2", "3", "4"]), &["param_dropped(stop)".into()][..])
    );
    options.unsupported = Unsupported::Reject;
    assert_eq!(
        encode(&hello(), &options, &Profile::OPENAI).unwrap_err().cause(),
        Some(ErrorCause::Unsupported)
    );
}
