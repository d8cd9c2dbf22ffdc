//! The messages about values that do not fit.

#![allow(clippy::unwrap_used)]

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::{LISTED, QUOTED_CHARS};
use crate::schema::SchemaCheck;
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
    said(&schema_of::<Args>(), value, expected);
}

#[track_caller]
fn said(schema: &Value, value: &Value, expected: &str) {
    let reported = SchemaCheck::new(schema).unwrap().violations(value);
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

#[test]
fn each_keyword_is_told_in_words_of_its_own() {
    let told = [
        (json!({ "type": "integer" }), json!("x"), "\"x\" is not of type \"integer\""),
        (
            json!({ "type": ["integer", "null"] }),
            json!([1, 2]),
            "a list of 2 items is not of types \"null\", \"integer\"",
        ),
        (json!({ "type": "string" }), json!({ "a": 1 }), "an object of 1 member is not of type \"string\""),
        (json!({ "const": "a" }), json!("b"), "\"b\" is not \"a\""),
        (json!({ "enum": ["a", 1, null] }), json!("b"), "\"b\" is none of \"a\", 1, null"),
        (json!({ "minimum": 2 }), json!(1), "1 is less than the minimum of 2"),
        (json!({ "maximum": 2 }), json!(2.5), "2.5 is greater than the maximum of 2"),
        (json!({ "exclusiveMinimum": 2 }), json!(2), "2 is not greater than 2"),
        (json!({ "exclusiveMaximum": 2 }), json!(2), "2 is not less than 2"),
        (json!({ "multipleOf": 0.01 }), json!(0.015), "0.015 is not a multiple of 0.01"),
        (json!({ "minLength": 2 }), json!("é"), "has 1 character, the minimum is 2"),
        (json!({ "maxLength": 2 }), json!("abc"), "has 3 characters, the maximum is 2"),
        (json!({ "minItems": 2 }), json!([1]), "has 1 item, the minimum is 2"),
        (json!({ "maxItems": 1 }), json!([1, 2]), "has 2 items, the maximum is 1"),
        (json!({ "minProperties": 1 }), json!({}), "has 0 members, the minimum is 1"),
        (json!({ "maxProperties": 1 }), json!({ "a": 1, "b": 2 }), "has 2 members, the maximum is 1"),
        (json!({ "uniqueItems": true }), json!([1, 1]), "has equal items, and all must differ"),
        (
            json!({ "contains": { "type": "null" } }),
            json!([1]),
            "does not have the number of matching items that `contains` requires",
        ),
        (json!({ "pattern": "^a" }), json!("b"), "\"b\" does not match \"^a\""),
        (json!({ "not": { "type": "null" } }), json!(null), "null fits the schema that `not` forbids"),
        (
            json!({ "oneOf": [true, { "type": "null" }] }),
            json!(null),
            "null fits several alternatives of `oneOf`, and only one is allowed",
        ),
        (json!({ "properties": { "a": false } }), json!({ "a": 1 }), "/a: is not allowed"),
        (json!({ "additionalProperties": false }), json!({ "a": 1 }), "no members are allowed"),
        (json!({ "propertyNames": false }), json!({ "a": 1 }), "no members are allowed"),
        (
            json!({ "properties": { "a": true }, "additionalProperties": false }),
            json!({ "a": 1, "b/c": 1, "d": 1 }),
            "/b~1c: is not allowed; /d: is not allowed",
        ),
        (
            json!({ "properties": { "a": true }, "unevaluatedProperties": false }),
            json!({ "b": 1 }),
            "/b: is not allowed",
        ),
        (
            json!({ "prefixItems": [true], "unevaluatedItems": false }),
            json!([1, 2, 3]),
            "has 3 items, and 2 of them are not allowed",
        ),
        (
            json!({ "propertyNames": { "maxLength": 2 } }),
            json!({ "abc": 1 }),
            "/abc: the name is not allowed: has 3 characters, the maximum is 2",
        ),
        (json!({ "dependentRequired": { "a": ["b"] } }), json!({ "a": 1 }), "/b: is required"),
        (
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "format": "date" }),
            json!("x"),
            "\"x\" is not a \"date\"",
        ),
        (
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "items": [true], "additionalItems": false }),
            json!([1, 2]),
            "has 2 items, the maximum is 1",
        ),
    ];
    for (schema, value, expected) in told {
        said(&schema, &value, expected);
    }
}

#[test]
fn a_message_is_short_and_one_line_whatever_the_value_is() {
    let long = "x".repeat(5_000);
    let schema = json!({ "type": "integer" });
    said(&schema, &json!(long), &format!("\"{}…\" is not of type \"integer\"", "x".repeat(QUOTED_CHARS)));
    said(&schema, &json!("a\nb\u{202e}"), r#""a\nb" is not of type "integer""#);
    said(&schema, &json!([long, long]), "a list of 2 items is not of type \"integer\"");
    let many: Vec<usize> = (0..LISTED + 5).collect();
    let reported = SchemaCheck::new(&json!({ "enum": many })).unwrap().violations(&json!(long)).unwrap();
    assert!(reported.ends_with(", 18, 19 and 5 more") && reported.len() < 200, "{reported}");
    let closed = json!({ "properties": { "a": true }, "additionalProperties": false, "required": [&long] });
    let closed = SchemaCheck::new(&closed).unwrap();
    let reported = closed.violations(&json!({ "a\nb": 1, (long.replace('x', "/")): 1, "c": 1 })).unwrap();
    assert!(!reported.contains('\n') && reported.contains("/a b: is not allowed"), "{reported}");
    assert!(reported.len() < 1_000, "{}", reported.len());
    let reported =
        SchemaCheck::new(&json!({ "items": { "type": "null" } })).unwrap().violations(&json!([1, 2, 3, 4]));
    assert_eq!(reported.unwrap().matches("; ").count(), 2, "three at most");
}
