//! The order of a schema's properties reaches the wire: providers write a reply in that order, so that `reasoning` before
//! `answer` is a reply that was reasoned.

use crate::common::Wire;
use loop_llm::ToolDefinition;
use loop_llm::options::{OutputFormat, Strictness};
use serde_json::{Value, json};

/// Neither the order of the alphabet nor its reverse, at two depths.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "answer": {"type": "object", "properties": {"verdict": {"type": "string"}, "because": {"type": "string"},
                "confidence": {"type": "string"}}, "required": ["verdict", "because", "confidence"],
                "additionalProperties": false},
            "next": {"type": "string"},
        },
        "required": ["reasoning", "answer", "next"],
        "additionalProperties": false,
    })
}

const ORDER: [&str; 6] = ["reasoning", "answer", "verdict", "because", "confidence", "next"];

/// The names of properties in the order in which the body has them, from where `head` stands.
fn order(body: &str, head: &str) -> Vec<String> {
    let at = body.find(head).unwrap_or_else(|| panic!("{head} is not in {body}"));
    let mut found: Vec<(usize, &str)> =
        ORDER.iter().map(|name| (body[at..].find(&format!("\"{name}\":{{")).unwrap(), *name)).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name.to_owned()).collect()
}

// X1
#[test]
fn properties_stand_on_the_wire_as_the_schema_has_them_on_all_four_protocols() {
    for (profile, model) in [
        ("openai-chat", "gpt-4o"),
        ("openai-responses", "gpt-5.2"),
        ("anthropic", "claude-sonnet-4-5"),
        ("gemini", "gemini-3-pro"),
        ("compatible", "m"),
    ] {
        for strict in [Strictness::Off, Strictness::Prefer] {
            let tool = ToolDefinition {
                name: "save".into(),
                description: "Saves.".into(),
                parameters: schema(),
                strict,
            };
            let wire = Wire::new(profile, model);
            let tools = wire.with(|request| request.tools = [tool].into());
            let output = wire.with(|request| {
                let (name, description) = ("form".into(), "What was found".into());
                request.output = OutputFormat::JsonSchema { name, description, schema: schema(), strict };
            });
            for (wire, head) in [(&tools, "\"save\""), (&output, "What was found")] {
                let body = wire.codec.encode(&wire.request).unwrap().body.to_bytes();
                let body = String::from_utf8(body.to_vec()).unwrap();
                assert_eq!(order(&body, head), ORDER, "{profile} {strict:?}: {body}");
            }
        }
    }
}

// X1: what the caller merges in changes no order either.
#[test]
fn members_of_ones_own_do_not_move_what_stands_there() {
    let wire = Wire::new("openai-chat", "gpt-4o").with(|request| {
        let (name, description) = ("form".into(), "What was found".into());
        let strict = Strictness::Off;
        request.output = OutputFormat::JsonSchema { name, description, schema: schema(), strict };
        let own = json!({"json_schema": {"schema": {"properties": {"reasoning": {"maxLength": 9}}}}});
        request.extra.insert("response_format".to_owned(), own);
    });
    let body = String::from_utf8(wire.codec.encode(&wire.request).unwrap().body.to_bytes().to_vec()).unwrap();
    assert_eq!(order(&body, "What was found"), ORDER, "{body}");
    assert!(body.contains("\"maxLength\":9"), "{body}");
}
