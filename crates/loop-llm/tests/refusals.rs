//! What no codec sends, and what none takes for a reply.

use crate::common;

use common::{Wire, cut, foreign};
use loop_core::types::FailureKind;
use loop_llm::codec::Api;
use loop_llm::options::{OutputFormat, Strictness, Unsupported};
use loop_llm::profile::LateInstructions;
use loop_llm::request::{AssistantTurn, Image, Raw};
use loop_llm::{ErrorPhase, Message, ModelRequest, Profile, ToolChoice, ToolDefinition};
use loop_testkit::{call, llm::result};
use serde_json::{Value, json};

const PROFILES: [(&str, &str); 4] = [
    ("openai-chat", "gpt-4.1"),
    ("openai-responses", "gpt-4.1"),
    ("anthropic", "claude-haiku-4-5"),
    ("gemini", "gemini-2.0-flash"),
];

fn wires() -> [Wire; 4] {
    PROFILES.map(|(profile, model)| Wire::new(profile, model))
}

/// That the request is no request for any of the protocols.
#[track_caller]
fn refused(change: impl Fn(&mut ModelRequest)) {
    for wire in wires().map(|wire| wire.with(&change)) {
        let name = &wire.codec.profile().name;
        let error = wire.codec.encode(&wire.request).unwrap_err();
        assert_eq!((error.kind, error.phase), (FailureKind::InvalidRequest, ErrorPhase::Encode), "{name}");
        assert!(error.is_free() && !error.is_retryable(), "{name}");
    }
}

#[track_caller]
fn taken(change: impl Fn(&mut ModelRequest)) {
    for wire in wires().map(|wire| wire.with(&change)) {
        wire.sent();
    }
}

#[test]
fn numbers_out_of_their_range_are_not_sent() {
    refused(|request| request.max_output_tokens = Some(0));
    for temperature in [9.0, -0.1, f64::NAN, f64::INFINITY] {
        refused(|request| request.temperature = Some(temperature));
    }
    for share in [-1.0, 1.5] {
        refused(|request| request.top_p = Some(share));
    }
    for (temperature, share) in [(0.0, 0.0), (2.0, 1.0)] {
        taken(|request| (request.temperature, request.top_p) = (Some(temperature), Some(share)));
    }
}

#[test]
fn a_choice_is_among_the_tools() {
    let tool = ToolDefinition {
        name: "look".into(),
        description: "".into(),
        parameters: json!({"type": "object"}),
        strict: Strictness::Off,
    };
    let named = |name: &str| ToolChoice::Named(name.into());
    for choice in [ToolChoice::Required, named("look"), ToolChoice::AnyOf(vec!["look".into()])] {
        refused(|request| request.tool_choice = choice.clone());
    }
    for choice in
        [named("nope"), ToolChoice::AnyOf(vec!["look".into(), "nope".into()]), ToolChoice::AnyOf(vec![])]
    {
        refused(|request| (request.tools, request.tool_choice) = ([tool.clone()].into(), choice.clone()));
    }
    for choice in [ToolChoice::Auto, ToolChoice::None] {
        taken(|request| request.tool_choice = choice.clone());
    }
    taken(|request| (request.tools, request.tool_choice) = ([tool.clone()].into(), named("look")));
}

#[test]
fn a_picture_is_one() {
    let shown = |media_type: &str, base64: &str| {
        let images = vec![Image { media_type: media_type.into(), base64: base64.into() }];
        let answered = loop_llm::ToolOutput { images: images.clone(), ..result("a", false, "1") };
        [
            vec![Message::User { text: "?".into(), images, author: Default::default() }],
            vec![
                Message::user("?"),
                foreign("", vec![call("a", "look", "{}")]),
                Message::Tool { results: vec![answered] },
            ],
        ]
    };
    for (media_type, base64) in [
        ("application/pdf", "AAAA"),
        ("image/", "AAAA"),
        ("image/png;x=\",", "AAAA"),
        ("image/png", "!!notbase64"),
        ("image/png", ""),
        ("image/png", "="),
        ("image/png", "AA===="),
        ("image/png", "AA=A"),
    ] {
        for messages in shown(media_type, base64) {
            refused(|request| request.messages = messages.clone());
        }
    }
    for (media_type, base64) in [("image/svg+xml", "A+/9"), ("image/png", "AA=="), ("image/jpeg", "AAA")] {
        for messages in shown(media_type, base64) {
            taken(|request| request.messages = messages.clone());
        }
    }
}

#[test]
fn a_raw_turn_that_is_no_json_is_not_sent() {
    for wire in wires() {
        let profile = wire.codec.profile();
        let origin = format!("{}/{}/{}", profile.api.name(), profile.name, wire.request.model);
        let with = |json: &str| {
            let raw = Some(Raw::from_text(format!("{origin}\n{json}")));
            let turn = AssistantTurn { text: "Hi".into(), raw, ..AssistantTurn::default() };
            wire.turns(&[Message::user("?"), Message::Assistant(turn), Message::user("!")])
        };
        for json in [
            "not json",
            "{\"type\":\"thinking\"}],\"x\":[",
            "{\"a\":1},",
            ",{\"a\":1}",
            "{\"a\":1}{}",
            "1",
            "[{}]",
        ] {
            let error = with(json).codec.encode(&with(json).request).unwrap_err();
            assert_eq!(
                (error.kind, error.phase),
                (FailureKind::InvalidRequest, ErrorPhase::Encode),
                "{json}"
            );
        }
        let own = "{\"type\": \"text\", \"text\":\"a\"} ,{\"b\":[1.0]}";
        let sent = with(own).codec.encode(&with(own).request).unwrap().body.to_bytes();
        assert!(String::from_utf8_lossy(&sent).contains(own), "as it came: {origin}");
        assert!(serde_json::from_slice::<Value>(&sent).is_ok());
    }
}

#[test]
fn a_late_instruction_that_travels_as_a_users_text_is_marked_and_told() {
    for (profile, model, pointer) in [
        ("anthropic", "claude-haiku-4-5", "/messages/0/content/1/text"),
        ("gemini", "gemini-2.0-flash", "/contents/0/parts/1/text"),
    ] {
        let wire = Wire::new(profile, model)
            .turns(&[Message::user("Hi"), Message::Operator { text: "Be brief.".into() }]);
        assert_eq!(wire.sent().pointer(pointer), Some(&json!("[operator]\nBe brief.")), "{profile}");
        assert_eq!(wire.warnings(), ["param_changed(operator)"]);
        let strict = wire.with(|request| request.unsupported = Unsupported::Reject);
        assert_eq!(strict.codec.encode(&strict.request).unwrap_err().kind, FailureKind::Unsupported);
        // What is kept of a turn tells it again.
        let (encoded, again) = (wire.codec.encode(&wire.request), wire.codec.encode(&wire.request));
        assert_eq!(encoded.unwrap().warnings, again.unwrap().warnings);
        let blank = wire.turns(&[Message::user("Hi"), Message::Operator { text: "".into() }]);
        assert_eq!(blank.warnings(), Vec::<String>::new());
    }
    for (profile, model) in
        [("openai-chat", "m"), ("openai-responses", "m"), ("anthropic", "claude-opus-5-5")]
    {
        let wire = Wire::new(profile, model)
            .turns(&[Message::user("Hi"), Message::Operator { text: "Be brief.".into() }]);
        assert_eq!(wire.warnings(), Vec::<String>::new(), "{profile}");
    }
}

#[test]
fn a_late_instruction_has_the_role_that_a_server_takes() {
    // T17
    let late = |profile: Profile| {
        let wire = Wire::of(profile, "m")
            .turns(&[Message::user("Hi"), Message::Operator { text: "Be brief.".into() }]);
        (wire.sent()["messages"].as_array().unwrap().last().unwrap().clone(), wire.warnings())
    };
    let users = json!({"role": "user", "content": "[operator]\nBe brief."});
    for profile in Profile::all().iter().filter(|it| it.api == Api::OpenaiChat && !it.known_models) {
        assert_eq!(late((**profile).clone()), (users.clone(), vec![]), "{}", profile.name);
    }
    for (role, name) in [(LateInstructions::System, "system"), (LateInstructions::Developer, "developer")] {
        let profile = Profile { late_instructions: role, ..Profile::default() };
        assert_eq!(late(profile).0, json!({"role": name, "content": "Be brief."}));
    }
}

#[test]
fn strictness_is_a_word_or_a_yes() {
    let read = |strict: Value| {
        let schema = json!({"json_schema": {"name": "x", "schema": {"type": "object"}, "strict": strict}});
        let tool = json!({"name": "a", "strict": strict});
        let request = json!({"messages": [], "output": schema, "tools": [tool]}).to_string();
        let request: ModelRequest = serde_json::from_str(&request).ok()?;
        let OutputFormat::JsonSchema { strict, .. } = request.output else { return None };
        assert_eq!(request.tools[0].strict, strict);
        Some(strict)
    };
    assert_eq!(read(json!("off")), Some(Strictness::Off));
    assert_eq!(read(json!("prefer")), Some(Strictness::Prefer));
    assert_eq!(read(json!("require")), Some(Strictness::Require));
    assert_eq!(read(json!(false)), Some(Strictness::Off));
    assert_eq!(read(json!(true)), Some(Strictness::Require));
    assert_eq!(read(json!("always")), None);
    assert_eq!(read(json!(1)), None);
    assert_eq!(serde_json::to_value(Strictness::Require).unwrap(), json!("require"));
    let schema = loop_tools::schema::SchemaCheck::new(&loop_llm::report::request_schema()).unwrap();
    let request = |strict: Value| json!({"messages": [], "tools": [{"name": "a", "strict": strict}]});
    assert!(schema.accepts(&request(json!(true))) && schema.accepts(&request(json!("prefer"))));
    assert!(!schema.accepts(&request(json!("always"))));
}

#[test]
fn a_body_of_another_protocol_is_no_reply() {
    let bodies = [
        json!({"id": "c", "object": "chat.completion", "model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 1},
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}),
        json!({"id": "r", "object": "response", "model": "m", "status": "completed", "usage": {},
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}]}),
        json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Hi"}], "usage": {"input_tokens": 1, "output_tokens": 1}}),
        json!({"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}], "modelVersion": "m",
            "responseId": "g", "usageMetadata": {"promptTokenCount": 1}}),
    ];
    for (nth, wire) in wires().iter().enumerate() {
        for (other, body) in bodies.iter().enumerate() {
            let name = &wire.codec.profile().name;
            match wire.end(body.to_string()) {
                Ok(reply) => assert_eq!((nth, &*reply.text), (other, "Hi"), "{name} read {body}"),
                Err(error) => {
                    assert_ne!(nth, other, "{name}: {error:?}");
                    assert_eq!(error.kind, FailureKind::BadResponse, "{name} read {body}: {error:?}");
                }
            }
        }
        assert_eq!(wire.end("{\"hello\":1}").unwrap_err().kind, FailureKind::BadResponse);
    }
}

#[test]
fn bytes_that_are_no_event_stream_are_no_reply() {
    let noise: Vec<u8> = cut(&[0; 4_000], 7).iter().map(|piece| (piece.len() * 37 % 256) as u8).collect();
    let bodies: [&[u8]; 4] = [
        &noise,
        b"upstream connect error\r\n\r\nreset reason: overflow",
        b"database: down\n",
        b"ide\nretried\n",
    ];
    for wire in wires() {
        for body in bodies {
            let error = wire.end(body).unwrap_err();
            assert_eq!(error.kind, FailureKind::BadResponse, "{}: {error:?}", wire.codec.profile().name);
        }
        // What may be the beginning of one was cut off.
        for body in ["da", "event", "event: x\n", "id: 7\n\n", ": hello\n", "retry:1\n"] {
            let error = wire.end(body).unwrap_err();
            assert_eq!(error.kind, FailureKind::StreamInterrupted, "{body:?}: {error:?}");
        }
    }
}
