//! The same conversation for each protocol: what it becomes is written out here, byte for byte.

use serde_json::json;

use loop_llm::codec::Codec;
use loop_llm::request::AssistantTurn;
use loop_llm::{Message, ModelRequest, Profile, ToolDefinition};
use loop_testkit::llm::{result, weather};

/// A text, two calls, a result and an error, a text.
fn conversation() -> ModelRequest {
    let tool = ToolDefinition {
        name: "weather".into(),
        description: "The weather of a city".into(),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
        strict: loop_llm::options::Strictness::Off,
    };
    let calls = AssistantTurn {
        text: "I will check both.".into(),
        calls: vec![weather("call_a", "Oslo"), weather("call_b", "Rome")],
        ..AssistantTurn::default()
    };
    let results = vec![result("call_b", true, "station offline"), result("call_a", false, "{\"c\":3}")];
    ModelRequest {
        messages: vec![
            Message::user("Oslo and Rome?"),
            Message::Assistant(calls),
            Message::Tool { results },
            Message::user("And now?"),
        ],
        tools: [tool].into(),
        max_output_tokens: Some(500),
        ..ModelRequest::new("m", "You are terse.", "")
    }
}

fn body(profile: &str) -> String {
    let encoded = Codec::new(Profile::named(profile).unwrap()).encode(&conversation()).unwrap();
    String::from_utf8(encoded.body.to_bytes().to_vec()).unwrap()
}

#[test]
fn one_conversation_becomes_four_bodies() {
    // wire WX01
    for (profile, wanted) in BODIES {
        assert_eq!(body(profile), wanted.lines().map(str::trim).collect::<String>(), "{profile}");
    }
}

/// Line breaks and the blanks at the beginning of a line are not part of them.
const BODIES: [(&str, &str); 5] = [
    (
        "openai-chat",
        r#"
        {"model":"m","messages":[{"role":"developer","content":"You are terse."},{"role":"user",
        "content":"Oslo and Rome?"},{"role":"assistant","content":"I will check both.",
        "tool_calls":[{"id":"call_a","type":"function","function":{"name":"weather",
        "arguments":"{\"city\":\"Oslo\"}"}},{"id":"call_b","type":"function","function":{"name":"weather",
        "arguments":"{\"city\":\"Rome\"}"}}]},{"role":"tool","tool_call_id":"call_a","content":"{\"c\":3}"},
        {"role":"tool","tool_call_id":"call_b","content":"ERROR: station offline"},{"role":"user",
        "content":"And now?"}],"tools":[{"type":"function","function":{"name":"weather",
        "description":"The weather of a city","parameters":{"type":"object",
        "properties":{"city":{"type":"string"}},"required":["city"]},"strict":false}}],"max_completion_tokens":500,"stream":true,
        "stream_options":{"include_usage":true}}
        "#,
    ),
    (
        "openai-responses",
        r#"
        {"model":"m","instructions":"You are terse.","input":[{"role":"user","content":"Oslo and Rome?"},
        {"role":"assistant","content":"I will check both."},{"type":"function_call","call_id":"call_a",
        "name":"weather","arguments":"{\"city\":\"Oslo\"}"},{"type":"function_call","call_id":"call_b",
        "name":"weather","arguments":"{\"city\":\"Rome\"}"},{"type":"function_call_output",
        "call_id":"call_a","output":"{\"c\":3}"},{"type":"function_call_output","call_id":"call_b",
        "output":"ERROR: station offline"},{"role":"user","content":"And now?"}],"store":false,
        "include":["reasoning.encrypted_content"],"tools":[{"type":"function","name":"weather",
        "description":"The weather of a city","parameters":{"type":"object",
        "properties":{"city":{"type":"string"}},"required":["city"]},"strict":false}],"max_output_tokens":500,"stream":true}
        "#,
    ),
    (
        "anthropic",
        r#"
        {"model":"m","system":[{"type":"text","text":"You are terse.",
        "cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text",
        "text":"Oslo and Rome?"}]},{"role":"assistant","content":[{"type":"text",
        "text":"I will check both."},{"type":"tool_use","id":"call_a","name":"weather",
        "input":{"city":"Oslo"}},{"type":"tool_use","id":"call_b","name":"weather",
        "input":{"city":"Rome"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_a",
        "content":"{\"c\":3}"},{"type":"tool_result","tool_use_id":"call_b","is_error":true,
        "content":"station offline"},{"type":"text","text":"And now?"}]}],"max_tokens":500,
        "tools":[{"name":"weather","description":"The weather of a city",
        "input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}],
        "cache_control":{"type":"ephemeral"},"stream":true}
        "#,
    ),
    (
        "gemini",
        r#"
        {"systemInstruction":{"parts":[{"text":"You are terse."}]},"contents":[{"role":"user",
        "parts":[{"text":"Oslo and Rome?"}]},{"role":"model","parts":[{"text":"I will check both."},
        {"functionCall":{"id":"call_a","name":"weather","args":{"city":"Oslo"}},
        "thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"call_b",
        "name":"weather","args":{"city":"Rome"}}}]},{"role":"user",
        "parts":[{"functionResponse":{"id":"call_a","name":"weather","response":{"output":{"c":3}}}},
        {"functionResponse":{"id":"call_b","name":"weather","response":{"error":"station offline"}}},
        {"text":"And now?"}]}],"tools":[{"functionDeclarations":[{"name":"weather",
        "description":"The weather of a city",
        "parametersJsonSchema":{"type":"object","properties":{"city":{"type":"string"}},
        "required":["city"]}}]}],"generationConfig":{"maxOutputTokens":500}}
        "#,
    ),
    (
        "mistral",
        r#"
        {"model":"m","messages":[{"role":"system","content":"You are terse."},{"role":"user",
        "content":"Oslo and Rome?"},{"role":"assistant","content":"I will check both.",
        "tool_calls":[{"id":"cael686og","type":"function","function":{"name":"weather",
        "arguments":"{\"city\":\"Oslo\"}"}},{"id":"bdlble5zv","type":"function",
        "function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},{"role":"tool",
        "tool_call_id":"cael686og","content":"{\"c\":3}"},{"role":"tool","tool_call_id":"bdlble5zv",
        "content":"ERROR: station offline"},{"role":"user",
        "content":"And now?"}],"tools":[{"type":"function","function":{"name":"weather",
        "description":"The weather of a city","parameters":{"type":"object",
        "properties":{"city":{"type":"string"}},"required":["city"]}}}],"max_tokens":500,"stream":true}
        "#,
    ),
];
