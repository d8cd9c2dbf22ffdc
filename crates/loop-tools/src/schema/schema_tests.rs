//! What fits a schema: the keywords that tools and outputs use, in both drafts, and schemas that mean harm.
//!
//! The cases are our own. The official suite of JSON Schema is not in the repository; ADR 84 has its figures.

#![allow(clippy::unwrap_used)]

use serde_json::{Map, Value, json};

use super::*;

const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

/// Checks rows of schema, value, and whether the value fits.
#[track_caller]
fn check(draft: Option<&str>, cases: &[(&str, &str, bool)]) {
    for (schema, value, fits) in cases {
        let mut schema: Value = serde_json::from_str(schema).unwrap();
        if let (Some(draft), Some(members)) = (draft, schema.as_object_mut()) {
            members.insert("$schema".to_owned(), draft.into());
        }
        let value: Value = serde_json::from_str(value).unwrap();
        let compiled = SchemaCheck::new(&schema).unwrap();
        assert_eq!(compiled.accepts(&value), *fits, "{value} and {schema}");
        assert_eq!(compiled.violations(&value).is_none(), *fits, "{value} and {schema}");
    }
}

/// What means the same in draft 7 and in draft 2020-12.
const BOTH: [(&str, &str, bool); 78] = [
    (r#"{"type": "object"}"#, "{}", true),
    (r#"{"type": "object"}"#, "[]", false),
    (r#"{"type": ["string", "null"]}"#, "null", true),
    (r#"{"type": ["string", "null"]}"#, "1", false),
    (r#"{"type": "number"}"#, "1", true),
    (r#"{"type": "integer"}"#, "1.0", true),
    (r#"{"type": "integer"}"#, "1.5", false),
    (r#"{"type": "integer"}"#, "1e300", true),
    (r#"{"type": "integer"}"#, "18446744073709551615", true),
    (r#"{"type": "boolean"}"#, "0", false),
    (r#"{"properties": {"a": {"type": "string"}}}"#, r#"{"a": "x", "b": 1}"#, true),
    (r#"{"properties": {"a": {"type": "string"}}}"#, r#"{"a": 1}"#, false),
    (r#"{"properties": {"a": {"type": "string"}}}"#, "1", true),
    (r#"{"properties": {"a": false}}"#, r#"{"a": 1}"#, false),
    (r#"{"required": ["a"]}"#, r#"{"a": null}"#, true),
    (r#"{"required": ["a"]}"#, r#"{"b": 1}"#, false),
    (r#"{"properties": {"a": {}}, "additionalProperties": false}"#, r#"{"a": 1}"#, true),
    (r#"{"properties": {"a": {}}, "additionalProperties": false}"#, r#"{"b": 1}"#, false),
    (r#"{"additionalProperties": {"type": "integer"}}"#, r#"{"b": "x"}"#, false),
    (r#"{"patternProperties": {"^x-": {"type": "integer"}}}"#, r#"{"x-a": 1, "y": "z"}"#, true),
    (r#"{"patternProperties": {"^x-": {"type": "integer"}}}"#, r#"{"x-a": "z"}"#, false),
    (r#"{"patternProperties": {"^x-": {}}, "additionalProperties": false}"#, r#"{"x-a": 1}"#, true),
    (r#"{"propertyNames": {"pattern": "^[a-z]+$"}}"#, r#"{"ab": 1}"#, true),
    (r#"{"propertyNames": {"pattern": "^[a-z]+$"}}"#, r#"{"A": 1}"#, false),
    (r#"{"minProperties": 1}"#, "{}", false),
    (r#"{"maxProperties": 1}"#, r#"{"a": 1, "b": 2}"#, false),
    (r#"{"items": {"type": "integer"}}"#, "[1, 2]", true),
    (r#"{"items": {"type": "integer"}}"#, r#"[1, "x"]"#, false),
    (r#"{"items": {"type": "integer"}}"#, r#""x""#, true),
    (r#"{"minItems": 1}"#, "[]", false),
    (r#"{"maxItems": 1}"#, "[1, 2]", false),
    (r#"{"uniqueItems": true}"#, "[1, 2, true, null, 0, false]", true),
    (r#"{"uniqueItems": true}"#, "[1, 1.0]", false),
    (r#"{"uniqueItems": true}"#, r#"[{"a": 1, "b": 2}, {"b": 2, "a": 1}]"#, false),
    (r#"{"contains": {"const": 2}}"#, "[1, 2]", true),
    (r#"{"contains": {"const": 2}}"#, "[1]", false),
    (r#"{"enum": ["a", 1, null, [1], {"a": 1}]}"#, r#"{"a": 1}"#, true),
    (r#"{"enum": ["a", 1]}"#, r#""b""#, false),
    (r#"{"enum": [1]}"#, "1.0", true),
    (r#"{"enum": [false]}"#, "0", false),
    (r#"{"const": "a"}"#, r#""a""#, true),
    (r#"{"const": "a"}"#, r#""A""#, false),
    (r#"{"minimum": 1}"#, "1", true),
    (r#"{"minimum": 1}"#, "0.5", false),
    (r#"{"maximum": 1}"#, "1.5", false),
    (r#"{"exclusiveMinimum": 1}"#, "1", false),
    (r#"{"exclusiveMaximum": 1}"#, "1", false),
    // Beyond what a 64-bit float holds exactly.
    (r#"{"maximum": 9007199254740992}"#, "9007199254740993", false),
    (r#"{"exclusiveMinimum": 9007199254740992}"#, "9007199254740993", true),
    (r#"{"maximum": 9223372036854775807}"#, "9223372036854775808", false),
    (r#"{"const": 9007199254740993}"#, "9007199254740992", false),
    (r#"{"multipleOf": 2}"#, "9007199254740993", false),
    (r#"{"multipleOf": 5}"#, "15", true),
    (r#"{"multipleOf": 5}"#, "16", false),
    // Decimals that a float has no exact form of.
    (r#"{"multipleOf": 0.01}"#, "19.99", true),
    (r#"{"multipleOf": 0.1}"#, "0.3", true),
    (r#"{"multipleOf": 0.01}"#, "0.015", false),
    (r#"{"minLength": 2}"#, r#""é""#, false),
    (r#"{"maxLength": 2}"#, r#""👍👍""#, true),
    (r#"{"maxLength": 2}"#, r#""abc""#, false),
    (r#"{"pattern": "b+"}"#, r#""abbc""#, true),
    (r#"{"pattern": "^b+$"}"#, r#""abbc""#, false),
    (r#"{"pattern": "^\\d+$"}"#, r#""৪""#, false),
    (r#"{"pattern": "^(?=.*[0-9])(?!x).+$"}"#, r#""a1""#, true),
    (r#"{"pattern": "^(?=.*[0-9])(?!x).+$"}"#, r#""x1""#, false),
    (r#"{"anyOf": [{"type": "integer"}, {"minimum": 2}]}"#, "2.5", true),
    (r#"{"anyOf": [{"type": "integer"}, {"minimum": 2}]}"#, "1.5", false),
    (r#"{"oneOf": [{"type": "integer"}, {"minimum": 2}]}"#, "1", true),
    (r#"{"oneOf": [{"type": "integer"}, {"minimum": 2}]}"#, "3", false),
    (r#"{"allOf": [{"minimum": 1}, {"maximum": 2}]}"#, "2", true),
    (r#"{"allOf": [{"minimum": 1}, {"maximum": 2}]}"#, "3", false),
    (r#"{"not": {"type": "null"}}"#, "1", true),
    (r#"{"not": {"type": "null"}}"#, "null", false),
    (
        r#"{"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}"#,
        r#"{"a": 1}"#,
        false,
    ),
    (
        r#"{"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}"#,
        r#"{"c": 1}"#,
        true,
    ),
    (r##"{"$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}}"##, "1", false),
    (
        r##"{"properties": {"next": {"$ref": "#"}}, "required": ["n"]}"##,
        r#"{"n": 1, "next": {"n": 2}}"#,
        true,
    ),
    (r##"{"properties": {"next": {"$ref": "#"}}, "required": ["n"]}"##, r#"{"n": 1, "next": {}}"#, false),
];

#[test]
fn both_drafts_agree_on_what_most_keywords_mean() {
    check(None, &BOTH);
    check(Some(DRAFT_7), &BOTH);
}

#[test]
fn a_schema_without_a_draft_is_of_draft_2020_12() {
    check(
        None,
        &[
            (r#"{"prefixItems": [{"type": "string"}], "items": false}"#, r#"["x"]"#, true),
            (r#"{"prefixItems": [{"type": "string"}], "items": false}"#, r#"["x", 1]"#, false),
            (r#"{"prefixItems": [{"type": "string"}]}"#, "[1]", false),
            (r#"{"dependentRequired": {"a": ["b"]}}"#, r#"{"a": 1}"#, false),
            (r#"{"dependentRequired": {"a": ["b"]}}"#, r#"{"c": 1}"#, true),
            (r#"{"dependentSchemas": {"a": {"maxProperties": 1}}}"#, r#"{"a": 1, "b": 1}"#, false),
            (r#"{"contains": {"const": 1}, "minContains": 2}"#, "[1, 2]", false),
            (r#"{"contains": {"const": 1}, "maxContains": 1}"#, "[1, 1]", false),
            (r##"{"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}"##, r#""x""#, true),
            // What is next to a reference counts.
            (
                r##"{"$ref": "#/$defs/a", "maxLength": 1, "$defs": {"a": {"type": "string"}}}"##,
                r#""xy""#,
                false,
            ),
            (r##"{"$ref": "#a", "$defs": {"a": {"$anchor": "a", "type": "string"}}}"##, "1", false),
            (
                r#"{"allOf": [{"properties": {"a": {}}}], "properties": {"b": {}}, "unevaluatedProperties": false}"#,
                r#"{"a": 1, "b": 2}"#,
                true,
            ),
            (
                r#"{"allOf": [{"properties": {"a": {}}}], "properties": {"b": {}}, "unevaluatedProperties": false}"#,
                r#"{"c": 1}"#,
                false,
            ),
            (r#"{"prefixItems": [{}], "unevaluatedItems": false}"#, "[1, 2]", false),
            (r#"{"format": "date"}"#, r#""no date""#, true),
            (r#"{"format": "of-our-own"}"#, r#""x""#, true),
        ],
    );
}

#[test]
fn draft_7_keeps_its_own_meaning() {
    check(
        Some(DRAFT_7),
        &[
            (r#"{"items": [{"type": "string"}], "additionalItems": false}"#, r#"["x"]"#, true),
            (r#"{"items": [{"type": "string"}], "additionalItems": false}"#, r#"["x", 1]"#, false),
            (r#"{"dependencies": {"a": ["b"]}}"#, r#"{"a": 1}"#, false),
            (r#"{"dependencies": {"a": {"maxProperties": 1}}}"#, r#"{"a": 1, "b": 1}"#, false),
            // What is next to a reference does not count.
            (r##"{"$ref": "#/definitions/a", "maxLength": 1, "definitions": {"a": {}}}"##, r#""xy""#, true),
            (r#"{"dependentRequired": {"a": ["b"]}}"#, r#"{"a": 1}"#, true),
            (r#"{"format": "date"}"#, r#""2026-02-29""#, false),
            (r#"{"format": "date-time"}"#, r#""2026-02-28T10:00:00Z""#, true),
            (r#"{"format": "email"}"#, r#""no address""#, false),
            (r#"{"format": "ipv4"}"#, r#""127.0.0.256""#, false),
            (r#"{"format": "of-our-own"}"#, r#""x""#, true),
        ],
    );
}

#[track_caller]
fn refused(schema: &Value, expected: &str) {
    let message = SchemaCheck::new(schema).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
    assert!(!message.contains('\n') && message.len() < 600, "{message}");
}

#[test]
fn a_schema_that_does_not_compile_says_where() {
    refused(&json!({ "required": "a" }), "/required: \"a\" is not of type \"array\"");
    refused(
        &json!({ "properties": { "a": { "type": "strng" } } }),
        "/properties/a/type: \"strng\" is none of",
    );
    refused(
        &json!({ "properties": { "a": { "pattern": "(" } } }),
        "/properties/a/pattern: \"(\" is not a regular expression, or is too large",
    );
    refused(&json!({ "pattern": "\\p{Foo}" }), "/pattern: ");
    refused(&json!({ "pattern": "((a{100}){100}){100}" }), "/pattern: ");
    refused(&json!({ "$ref": "#/$defs/a" }), "/$defs/a");
}

#[test]
fn a_schema_reads_no_file_and_no_network() {
    for outside in [
        "file:///etc/passwd",
        "file:///etc/hosts#/a",
        "http://127.0.0.1:9/a",
        "https://localhost/a",
        "other.json",
    ] {
        refused(&json!({ "$ref": outside }), outside.trim_end_matches("#/a"));
        refused(&json!({ "anyOf": [{ "items": { "$ref": outside } }] }), outside.trim_end_matches("#/a"));
    }
    refused(&json!({ "$schema": "http://127.0.0.1:9/meta" }), "http://127.0.0.1:9/meta");
    refused(&json!({ "$schema": "file:///etc/passwd" }), "file:///etc/passwd");
    refused(&json!({ "$id": "file:///etc/", "$ref": "passwd" }), "file:///etc/passwd");
}

#[test]
fn a_reference_to_itself_ends() {
    let cycles = [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "anyOf": [{ "$ref": "#" }, { "type": "object" }] }),
        json!({ "not": { "$ref": "#" } }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
        json!({ "$dynamicAnchor": "a", "$dynamicRef": "#a" }),
    ];
    for schema in cycles {
        let Ok(compiled) = SchemaCheck::new(&schema) else { continue };
        for value in [json!({}), json!([[]]), json!(1)] {
            let reported = compiled.violations(&value);
            assert!(reported.is_none_or(|reported| reported.len() < 600), "{schema}");
        }
    }
}

fn nested(levels: usize, inner: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(inner, |value, _| wrap(value))
}

#[test]
fn what_nests_too_deep_is_refused_and_what_a_parser_reads_is_not() {
    let wrap = |value| json!({ "a": value });
    let list = SchemaCheck::new(&json!({ "properties": { "a": { "$ref": "#" } } })).unwrap();
    assert_eq!(list.violations(&nested(MAX_DEPTH, json!(1), wrap)), None);
    let reported = list.violations(&nested(MAX_DEPTH + 1, json!(1), wrap));
    assert_eq!(reported.as_deref(), Some("the value nests deeper than 128 levels"));
    assert!(!list.accepts(&nested(1_000, json!(1), wrap)));

    let deep = nested(MAX_DEPTH / 2 - 1, json!({}), |schema| json!({ "properties": { "a": schema } }));
    assert!(SchemaCheck::new(&deep).unwrap().accepts(&nested(100, json!(1), wrap)));
    let deep = nested(1_000, json!({}), |schema| json!({ "items": schema }));
    refused(&deep, "it nests deeper than 128 levels");
}

#[test]
fn many_references_values_or_members_are_no_trouble() {
    let chain = |length: usize| {
        let mut definitions: Map<String, Value> = (1..length)
            .map(|n| (format!("d{n}"), json!({ "$ref": format!("#/$defs/d{}", n + 1) })))
            .collect();
        definitions.insert(format!("d{length}"), json!({ "type": "object" }));
        json!({ "$ref": "#/$defs/d1", "$defs": definitions })
    };
    let longest = SchemaCheck::new(&chain(MAX_REFERENCES)).unwrap();
    assert!(longest.accepts(&json!({})) && !longest.accepts(&json!(1)));
    refused(&chain(MAX_REFERENCES + 1), "it has more than 1000 references");

    let options: Vec<String> = (0..50_000).map(|n| format!("v{n}")).collect();
    let many = SchemaCheck::new(&json!({ "enum": options })).unwrap();
    assert!(many.accepts(&json!("v49999")) && !many.accepts(&json!("v50000")));
    assert!(many.violations(&json!("x")).unwrap().len() < 400);

    let members: Map<String, Value> =
        (0..5_000).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
    let wide = SchemaCheck::new(&json!({ "properties": members })).unwrap();
    assert_eq!(wide.violations(&json!({ "p4999": 1 })).unwrap(), "/p4999: 1 is not of type \"string\"");
}

#[test]
fn a_pattern_that_backtracks_ends() {
    for pattern in ["^(a+)+$", "^(?=a)(a+)+$", "^(a|aa)+(?!b)$", "^(a+)+\\1$"] {
        let compiled = SchemaCheck::new(&json!({ "pattern": pattern })).unwrap();
        let reported = compiled.violations(&json!("a".repeat(5_000) + "!")).unwrap();
        assert!(reported.len() < 200, "{reported}");
    }
}
