//! What is told of values that fit none of several alternatives.

#![allow(clippy::unwrap_used)]

use schemars::JsonSchema;
use serde_json::json;

use super::*;
use crate::tool::schema_of;

/// A value in a value.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "its schema is what is looked at")]
struct Nested {
    a: u8,
    b: String,
}

#[derive(JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(dead_code, reason = "its schema is what is looked at")]
enum Shape {
    Circle { radius: u32 },
    Square { side: u32, name: Option<Nested> },
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "its schema is what is looked at")]
enum Way {
    Walk,
    Ride { bike: String },
    Fly { plane: u32 },
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "its schema is what is looked at")]
struct Args {
    nested: Option<Nested>,
    shape: Option<Shape>,
    way: Option<Way>,
}

#[track_caller]
fn check(value: &Value, expected: &str) {
    let validator = jsonschema::validator_for(&schema_of::<Args>()).unwrap();
    let reported = schema_violations(&validator, value);
    assert_eq!(reported.as_deref().unwrap_or("it fits"), expected, "{value}");
}

#[test]
fn what_was_meant_is_what_is_told() {
    // S0-129
    check(&json!({"nested": null, "shape": null}), "it fits");
    check(&json!({"nested": {"a": 1}}), "/nested/b: is required");
    check(&json!({"nested": {"a": "x", "b": "y"}}), "/nested/a: \"x\" is not of type \"integer\"");
    check(&json!({"nested": {}}), "/nested/a: is required; /nested/b: is required");
    check(&json!({"shape": {"kind": "circle"}}), "/shape/radius: is required");
    check(&json!({"shape": {"kind": "square", "side": -1}}), "/shape/side: -1 is less than the minimum of 0");
    check(&json!({"shape": {"kind": "square", "side": 1, "name": {"a": 1}}}), "/shape/name/b: is required");
    check(&json!({"shape": {"kind": "oval", "side": 1}}), "/shape/kind: is none of \"circle\", \"square\"");
    check(&json!({"way": {"Ride": {}}}), "/way/Ride/bike: is required");
    check(&json!({"way": {"Fly": {"plane": "x"}}}), "/way/Fly/plane: \"x\" is not of type \"integer\"");
}
