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
    convert(schema).filter(|strict| SchemaSize::default().takes(strict, 0))
}

/// What strict mode limits, so far.
#[derive(Debug, Default)]
struct SchemaSize {
    properties: usize,
    values: usize,
    /// Of the names of properties and definitions, and of listed values.
    characters: usize,
}

impl SchemaSize {
    /// Whether a strict schema, in so many objects, is within the limits with all before it.
    fn takes(&mut self, schema: &Value, depth: usize) -> bool {
        let Some(members) = schema.as_object() else { return true };
        let depth = depth + usize::from(members.contains_key("properties"));
        let values = members.get("enum").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let length = |value: &Value| value.as_str().map_or(0, |text| text.chars().count());
        let listed: usize = values.iter().map(length).sum();
        self.values += values.len();
        self.characters += listed + members.get("const").map_or(0, length);
        let is_within = depth <= MAX_DEPTH
            && self.values <= MAX_VALUES
            && (values.len() <= FEW_VALUES || listed <= MAX_OF_MANY)
            && members.iter().all(|(key, value)| match (key.as_str(), value) {
                ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                    named.iter().all(|(name, one)| {
                        self.properties += usize::from(key == "properties");
                        self.characters += name.chars().count();
                        self.takes(one, if key == "properties" { depth } else { 0 })
                    })
                }
                ("items", one) => self.takes(one, depth),
                ("anyOf", Value::Array(all)) => all.iter().all(|one| self.takes(one, depth)),
                _ => true,
            });
        is_within && self.properties <= MAX_PROPERTIES && self.characters <= MAX_CHARACTERS
    }
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

/// Limits of strict mode: objects within each other, properties, listed values, and the characters of all their names.
const MAX_DEPTH: usize = 10;
const MAX_PROPERTIES: usize = 5_000;
const MAX_VALUES: usize = 1_000;
const MAX_CHARACTERS: usize = 120_000;
/// A list with more values than these has a limit of its own for their characters.
const FEW_VALUES: usize = 250;
const MAX_OF_MANY: usize = 15_000;
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
