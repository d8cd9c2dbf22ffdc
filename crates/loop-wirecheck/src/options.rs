//! Options that several protocols write alike.

use loop_llm::{Effort, Image, ModelRequest, OutputFormat, Strictness, ToolChoice, ToolDefinition};
use serde_json::{Map, Value, json};

use super::canon::{base64, list, text};

/// An effort by its word.
pub(crate) fn effort(word: &str) -> Option<Effort> {
    Effort::ALL.into_iter().find(|effort| effort.name() == word)
}

/// Members that the neutral form has no name for, as members of one's own.
pub(crate) fn extra(body: &Value, known: &[&str], request: &mut ModelRequest) {
    let Some(members) = body.as_object() else { return };
    for (key, value) in
        members.iter().filter(|(key, value)| !known.contains(&key.as_str()) && !value.is_null())
    {
        request.extra.insert(key.clone(), value.clone());
    }
}

/// Members below one of the body, as members of one's own; they are merged.
pub(crate) fn extra_within(body: &Value, key: &str, known: &[&str], request: &mut ModelRequest) {
    let Some(members) = body.get(key).and_then(Value::as_object) else { return };
    let left: Map<String, Value> = members
        .iter()
        .filter(|(key, value)| !known.contains(&key.as_str()) && !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !left.is_empty() {
        request.extra.insert(key.to_owned(), Value::Object(left));
    }
}

/// Temperature, nucleus, seed and the like, by the names that they have.
pub(crate) fn sampling(body: &Value, names: [&str; 4], request: &mut ModelRequest) {
    let [temperature, top_p, top_k, seed] = names;
    request.temperature = body.get(temperature).and_then(Value::as_f64);
    request.top_p = body.get(top_p).and_then(Value::as_f64);
    request.top_k = body.get(top_k).and_then(Value::as_u64);
    request.seed = body.get(seed).and_then(Value::as_i64);
}

/// A function with these members.
pub(crate) fn tool(value: &Value, parameters: &str) -> ToolDefinition {
    let strict = value.get("strict").and_then(Value::as_bool).unwrap_or_default();
    ToolDefinition {
        name: text(value, "name").into(),
        description: text(value, "description").into(),
        parameters: value
            .get(parameters)
            .filter(|it| !it.is_null())
            .cloned()
            .unwrap_or_else(|| json!({"type": "object", "properties": {}})),
        strict: if strict { Strictness::Prefer } else { Strictness::Off },
    }
}

/// A choice as OpenAI writes it, nested or flat; `None` where it is none that we know.
pub(crate) fn choice(value: Option<&Value>) -> Option<ToolChoice> {
    let name = |value: &Value| {
        let nested = value.get("function").map_or("", |function| text(function, "name"));
        let flat = text(value, "name");
        (if nested.is_empty() { flat } else { nested }).into()
    };
    match value {
        None | Some(Value::Null) => Some(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Some(ToolChoice::Auto),
            "none" => Some(ToolChoice::None),
            "required" | "any" => Some(ToolChoice::Required),
            _ => None,
        },
        Some(value) => match text(value, "type") {
            "function" => Some(ToolChoice::Named(name(value))),
            "allowed_tools" => {
                let inner = value.get("allowed_tools").unwrap_or(value);
                (text(inner, "mode") == "auto")
                    .then(|| ToolChoice::AnyOf(list(inner, "tools").iter().map(name).collect()))
            }
            _ => None,
        },
    }
}

/// The form of the text as OpenAI writes it; `None` where it is none that we know.
pub(crate) fn output(format: Option<&Value>, is_nested: bool) -> Option<OutputFormat> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Some(OutputFormat::Text) };
    match text(format, "type") {
        "text" => Some(OutputFormat::Text),
        "json_object" => Some(OutputFormat::JsonObject),
        "json_schema" => {
            let inner = if is_nested { format.get("json_schema")? } else { format };
            let strict = inner.get("strict").and_then(Value::as_bool).unwrap_or_default();
            Some(OutputFormat::JsonSchema {
                name: text(inner, "name").into(),
                description: text(inner, "description").into(),
                schema: inner.get("schema").cloned().unwrap_or_default(),
                strict: if strict { Strictness::Prefer } else { Strictness::Off },
            })
        }
        _ => None,
    }
}

/// A picture out of an address of the kind `data:`; of another text, which a recording may have put in its place, that.
pub(crate) fn image(url: &str) -> Image {
    let (head, payload) = url.split_once(";base64,").unwrap_or(("data:image/png", url));
    Image { media_type: head.trim_start_matches("data:").into(), base64: base64(payload) }
}

/// Whether an address has to be fetched by the provider.
pub(crate) fn is_address(url: &str) -> bool {
    ["http:", "https:", "gs:", "file:"].iter().any(|scheme| url.starts_with(scheme))
}
