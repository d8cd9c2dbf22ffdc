//! The JSON Schema of `loopgate.toml`, for editors.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::config::Config;

/// The prefix of definitions of which a profile may set a part.
const PART: &str = "PartOf";

const DEFINITIONS: &str = "#/definitions/";

/// The JSON Schema of `loopgate.toml`.
pub fn schema() -> Value {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Config>().to_value();
    let Some(root) = schema.as_object_mut() else { return schema };
    root.insert("title".to_owned(), json!("loopgate.toml"));
    // Their defaults are those of the protocol, which the descriptions say.
    for table in ["Limits", "GateSettings"] {
        let properties = root.get_mut("definitions").and_then(|it| it.get_mut(table)?.get_mut("properties"));
        for property in properties.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            property.as_object_mut().map(|members| members.shift_remove("default"));
        }
    }
    let definitions = root.get("definitions").and_then(Value::as_object).cloned().unwrap_or_default();
    let needing = needing(&definitions);
    let part = |schema: &Value| part_of(schema, &needing);
    let part_named = |name: &&str| Some((format!("{PART}{name}"), part(definitions.get(*name)?)));
    let mut parts: Vec<(String, Value)> = needing.iter().filter_map(part_named).collect();
    let whole = part(&Value::Object(root.clone()));
    // What is in lists alone is never given in part.
    let written = format!("{whole}{}", json!(parts));
    parts.retain(|(name, _)| written.contains(&format!("\"{DEFINITIONS}{name}\"")));
    if let Some(Value::Object(definitions)) = root.get_mut("definitions") {
        definitions.extend(parts);
        definitions.insert("Profile".to_owned(), profile(&whole));
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

/// The keys of the file for a profile. None is required.
fn profile(root: &Value) -> Value {
    let mut properties = root.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties.shift_remove("version");
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// The definitions that require a member, in themselves or in what they refer to.
fn needing(definitions: &Map<String, Value>) -> Vec<&str> {
    let mut needing: Vec<&str> = Vec::new();
    loop {
        let is_new = |(name, definition): &(&String, &Value)| {
            !needing.contains(&name.as_str()) && needs(definition, &needing)
        };
        let Some((name, _)) = definitions.iter().find(is_new) else { return needing };
        needing.push(name);
    }
}

/// Whether the schema requires a member, if these definitions do.
fn needs(schema: &Value, needing: &[&str]) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(key, value)| match (key.as_str(), value) {
            ("oneOf", Value::Array(choices)) if choices.iter().all(is_choice) => false,
            ("required", Value::Array(_)) => true,
            // A list is given as a whole.
            ("items", _) => false,
            ("$ref", Value::String(target)) => {
                target.strip_prefix(DEFINITIONS).is_some_and(|name| needing.contains(&name))
            }
            (_, value) => needs(value, needing),
        }),
        Value::Array(elements) => elements.iter().any(|element| needs(element, needing)),
        _ => false,
    }
}

/// Whether a value is one of a few names, or such a name with a value.
fn is_choice(schema: &Value) -> bool {
    let members = schema.get("properties").and_then(Value::as_object);
    schema.get("const").is_some() || members.is_some_and(|members| members.len() == 1)
}

/// The schema with every member optional, at every depth. `needing` are the definitions of which a profile may set a
/// part.
fn part_of(schema: &Value, needing: &[&str]) -> Value {
    match schema {
        Value::Object(members) => {
            let kept = members.iter().filter(|(key, value)| !(*key == "required" && value.is_array()));
            let kept = kept.map(|(key, value)| {
                let name = value.as_str().and_then(|target| target.strip_prefix(DEFINITIONS));
                let value = match name.filter(|name| key == "$ref" && needing.contains(name)) {
                    Some(name) => json!(format!("{DEFINITIONS}{PART}{name}")),
                    None if key == "items" => value.clone(),
                    None => part_of(value, needing),
                };
                (key.clone(), value)
            });
            Value::Object(kept.collect::<Map<String, Value>>())
        }
        Value::Array(elements) => elements.iter().map(|element| part_of(element, needing)).collect(),
        other => other.clone(),
    }
}
