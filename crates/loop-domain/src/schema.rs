//! The JSON Schema of `loopgate.toml`, for editors.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::config::Config;

/// The prefix of definitions of which a profile may give a part.
const PART: &str = "PartOf";

/// The JSON Schema of `loopgate.toml`.
pub fn schema() -> Value {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Config>().to_value();
    let part = part_of(&schema);
    let Some(root) = schema.as_object_mut() else {
        return schema;
    };
    root.insert("title".to_owned(), json!("loopgate.toml"));
    let parts: Vec<(String, Value)> = root
        .get("definitions")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, definition)| (format!("{PART}{name}"), part_of(definition)))
        .collect();
    if let Some(Value::Object(definitions)) = root.get_mut("definitions") {
        definitions.extend(parts);
        definitions.insert("Profile".to_owned(), profile(&part));
    }
    if let Some(Value::Object(properties)) = root.get_mut("properties") {
        properties.insert(
            "profiles".to_owned(),
            json!({
                "description": "Parts of this file again, by the name of a profile. The chosen one is laid over the rest: \
                                tables key by key, everything else in place of what was there.",
                "type": "object",
                "additionalProperties": { "$ref": "#/definitions/Profile" },
            }),
        );
    }
    schema
}

/// The file's own keys, none of which a profile must give.
fn profile(root: &Value) -> Value {
    let mut properties = root.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties.shift_remove("version");
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// The schema without what must be there, at every depth.
fn part_of(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let kept = members.iter().filter(|(key, value)| !(*key == "required" && value.is_array()));
            let kept = kept.map(|(key, value)| {
                let value = match (key.as_str(), value.as_str()) {
                    ("$ref", Some(target)) => {
                        json!(target.replace("#/definitions/", &format!("#/definitions/{PART}")))
                    }
                    _ => part_of(value),
                };
                (key.clone(), value)
            });
            Value::Object(kept.collect::<Map<String, Value>>())
        }
        Value::Array(elements) => Value::Array(elements.iter().map(part_of).collect()),
        other => other.clone(),
    }
}
