//! Checks the schema of a tool as each provider does, with the provider's error.

use loop_llm::codec::Api;
use serde_json::{Map, Value};

/// The error in a tool's parameters. `None`: the provider of this protocol accepts them.
pub(super) fn refused(api: Api, parameters: &Value) -> Option<String> {
    let kind = parameters.get("type");
    if kind.is_none_or(|kind| kind != "object") {
        let kind = kind.map_or_else(|| "None".to_owned(), ToString::to_string);
        return Some(format!("schema must be a JSON Schema of 'type: \"object\"', got 'type: {kind}'"));
    }
    let at_root: &[&str] = match api {
        Api::OpenaiChat | Api::OpenaiResponses => &["oneOf", "anyOf", "allOf", "enum", "not"],
        Api::Anthropic | Api::Gemini => &["oneOf", "anyOf", "allOf", "$ref"],
    };
    if let Some(key) = at_root.iter().find(|key| parameters.get(**key).is_some()) {
        return Some(format!("the schema does not support {key} at the top level"));
    }
    below(api, parameters, parameters, 1)
}

fn below(api: Api, whole: &Value, schema: &Value, depth: usize) -> Option<String> {
    let Some(members) = schema.as_object() else {
        return (!schema.is_boolean()).then(|| format!("{schema} is not of type 'object', 'boolean'"));
    };
    if depth > MAX_DEPTH {
        return Some("the schema is nested too deeply".to_owned());
    }
    let own = invalid(members).or_else(|| demanded(api, members)).or_else(|| reference(api, whole, members));
    let one = ONE.iter().filter_map(|key| members.get(*key)).filter(|below| !below.is_boolean());
    let listed = LISTS.iter().filter_map(|key| members.get(*key)?.as_array()).flatten();
    let named = MAPS.iter().filter_map(|key| members.get(*key)?.as_object()).flat_map(Map::values);
    own.or_else(|| one.chain(listed).chain(named).find_map(|part| below(api, whole, part, depth + 1)))
}

/// What is not valid JSON Schema of draft 2020-12.
fn invalid(members: &Map<String, Value>) -> Option<String> {
    let is_kind = |kind: &Value| kind.as_str().is_some_and(|kind| KINDS.contains(&kind));
    let is_wrong = |(key, value): &(&String, &Value)| match key.as_str() {
        "type" => {
            !(is_kind(value)
                || value.as_array().is_some_and(|kinds| !kinds.is_empty() && kinds.iter().all(is_kind)))
        }
        "properties" | "$defs" | "definitions" => !value.is_object(),
        "required" => !value.as_array().is_some_and(|names| names.iter().all(Value::is_string)),
        "items" => !(value.is_object() || value.is_boolean()),
        "enum" | "anyOf" | "oneOf" | "allOf" | "prefixItems" => value.as_array().is_none_or(Vec::is_empty),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => !value.is_number(),
        "description" | "title" | "pattern" | "format" => !value.is_string(),
        _ => false,
    };
    let (key, value) = members.iter().find(is_wrong)?;
    Some(format!(
        "JSON schema is invalid. It must match JSON Schema draft 2020-12: {value} is not valid for {key}"
    ))
}

/// What the provider requires beyond JSON Schema.
fn demanded(api: Api, members: &Map<String, Value>) -> Option<String> {
    let is_kind = |wanted: &str| {
        members.get("type").is_some_and(|kind| {
            kind == wanted || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == wanted))
        })
    };
    let properties = || members.get("properties").and_then(Value::as_object).into_iter().flatten();
    let is_openai = matches!(api, Api::OpenaiChat | Api::OpenaiResponses);
    if is_openai && is_kind("object") && !members.contains_key("properties") {
        return Some("object schema missing properties".to_owned());
    }
    if api != Api::Anthropic && is_kind("array") && !members.contains_key("items") {
        return Some("array schema missing items".to_owned());
    }
    let is_word = |name: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        (1..=64).contains(&name.len()) && name.bytes().all(fits)
    };
    let begins =
        |name: &str| api != Api::Gemini || name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if let Some((name, _)) = properties().find(|(name, _)| !(is_openai || is_word(name) && begins(name))) {
        return Some(format!("Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$': {name:?}"));
    }
    let required = members.get("required").and_then(Value::as_array).into_iter().flatten();
    let is_unknown = |name: &&Value| !properties().any(|(known, _)| **name == *known);
    let unknown = required.filter(|_| api == Api::Gemini).find(is_unknown)?;
    Some(format!("required: property is not defined: {unknown}"))
}

/// A reference without a target, or with other keywords next to it.
fn reference(api: Api, whole: &Value, members: &Map<String, Value>) -> Option<String> {
    let reference = members.get("$ref")?;
    let found = reference.as_str().and_then(|to| whole.pointer(to.strip_prefix('#')?));
    if found.is_none() {
        return Some(format!("reference {reference} cannot be resolved"));
    }
    let beside = members.keys().find(|key| !key.starts_with('$'))?;
    (api != Api::Anthropic).then(|| format!("$ref cannot have keywords {{'{beside}'}}"))
}

/// Keywords with one schema, with a list of them, and with schemas by names.
const ONE: [&str; 7] = ["items", "additionalProperties", "not", "if", "then", "else", "contains"];
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const MAPS: [&str; 5] = ["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"];
const KINDS: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
const MAX_DEPTH: usize = 64;
