//! JSON schemas for OpenAI's strict mode.

use serde_json::{Map, Value, json};

/// The schema in the form that strict mode requires, or `None` where it cannot be expressed.
///
/// Every property becomes required, an optional one admits `null`, and no other properties are allowed.
pub(super) fn strict(schema: &Value) -> Option<Value> {
    let root = schema.as_object()?;
    if root.get("type").and_then(Value::as_str) != Some("object") || root.contains_key("anyOf") {
        return None;
    }
    convert(schema)
}

fn convert(schema: &Value) -> Option<Value> {
    let schema = schema.as_object()?;
    let mut strict = Map::new();
    for (key, value) in schema {
        let value = match key.as_str() {
            key if FORBIDDEN.contains(&key) => return None,
            // Keeps their position; the value is set below.
            "properties" | "required" | "additionalProperties" => Value::Null,
            "items" => convert(value)?,
            "anyOf" => value.as_array()?.iter().map(convert).collect::<Option<Vec<_>>>()?.into(),
            "$defs" | "definitions" => {
                let defs = value.as_object()?.iter().map(|(name, def)| Some((name.clone(), convert(def)?)));
                Value::Object(defs.collect::<Option<_>>()?)
            }
            _ => value.clone(),
        };
        strict.insert(key.clone(), value);
    }
    let is_object = schema.get("type").is_some_and(|kind| {
        kind == "object" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"))
    });
    if !is_object && !schema.contains_key("properties") {
        for key in ["required", "additionalProperties"] {
            strict.shift_remove(key);
        }
        return Some(Value::Object(strict));
    }
    // An object with free keys has no strict form.
    if schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false)) {
        return None;
    }
    let nothing = Map::new();
    let properties = match schema.get("properties") {
        Some(properties) => properties.as_object()?,
        None => &nothing,
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
    let mut converted = Map::new();
    for (name, property) in properties {
        let property = convert(property)?;
        let property = if is_required(name) { property } else { nullable(property) };
        converted.insert(name.clone(), property);
    }
    strict.insert("properties".into(), Value::Object(converted));
    strict.insert("required".into(), properties.keys().cloned().collect());
    strict.insert("additionalProperties".into(), false.into());
    Some(Value::Object(strict))
}

fn nullable(mut schema: Value) -> Value {
    let is_plain = schema.get("enum").is_none() && schema.get("const").is_none();
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) if is_plain => {
            if !kinds.iter().any(|kind| kind == "null") {
                kinds.push("null".into());
            }
            schema
        }
        Some(kind) if is_plain && kind.is_string() => {
            *kind = json!([kind.take(), "null"]);
            schema
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

/// Keywords that strict mode refuses.
const FORBIDDEN: [&str; 11] = [
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "default",
];
