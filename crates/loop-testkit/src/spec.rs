//! Fixtures for specs: tools and models.

use loop_core::spec::{ArgSpec, ModelSpec, ToolPolicy, ToolSpec};
use loop_core::types::{Effect, Price};
use serde_json::{Value, json};

/// A tool that reads: it takes a `target`, and a `limit` that has a default.
pub fn read(name: &str) -> ToolSpec {
    tool(name, Effect::Read)
}

/// The same with another effect.
pub fn tool(name: &str, effect: Effect) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        aliases: Vec::new(),
        description: "".into(),
        when: "".into(),
        args: takes(json!({"target": {"type": "string"}, "limit": {"type": "integer", "default": 3}})),
        effect,
        timeout_ms: 12_000,
        attempts: 2,
        smart: false,
        policy: ToolPolicy::default(),
    }
}

/// A model of a fictional provider, with a context window of 100,000 tokens.
pub fn model(price: Option<Price>) -> ModelSpec {
    ModelSpec { context_tokens: 100_000, timeout_ms: 60_000, price, ..ModelSpec::new("offline", "m") }
}

/// Arguments with these properties, of which `target` is required.
pub fn takes(properties: Value) -> ArgSpec {
    ArgSpec::from_schema(&json!({"type": "object", "properties": properties, "required": ["target"]}))
}
