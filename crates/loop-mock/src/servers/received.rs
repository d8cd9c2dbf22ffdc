//! Helpers to parse requests, for all protocols.

use std::sync::Arc;

use loop_core::types::ToolCall;
use loop_llm::options::{OutputFormat, Strictness};
use loop_llm::request::{AssistantTurn, Author, Image};
use loop_llm::{Message, ModelRequest, ToolDefinition, ToolOutput};
use serde_json::Value;

/// An empty request for this model.
pub(super) fn request(model: &str) -> ModelRequest {
    ModelRequest { messages: Vec::new(), ..ModelRequest::new(model, "", "") }
}

/// Appends to the system text, after an empty line.
pub(super) fn add_system(request: &mut ModelRequest, text: &str) {
    let parts = [&*request.system, text];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    request.system = parts.join("\n\n").into();
}

/// Appends a result to the results before it.
pub(super) fn add_result(messages: &mut Vec<Message>, result: ToolOutput) {
    match messages.last_mut() {
        Some(Message::Tool { results }) => results.push(result),
        _ => messages.push(Message::Tool { results: vec![result] }),
    }
}

/// A user's turn.
pub(super) fn user(Content { text, images }: Content) -> Message {
    Message::User { text: text.into(), images, author: Author::User }
}

/// A turn of the model's.
pub(super) fn assistant(text: String, calls: Vec<ToolCall>) -> Message {
    Message::Assistant(AssistantTurn { text: text.into(), calls, ..AssistantTurn::default() })
}

/// Text and images.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) images: Vec<Image>,
}

/// A member. `null` counts as absent.
pub(super) fn present<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|value| !value.is_null())
}

/// A text member. `None`: it is missing or not a text.
pub(super) fn text_of<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

/// The first unknown member. `known` are the permitted names, separated by blanks.
pub(super) fn unknown<'a>(value: &'a Value, known: &str) -> Option<&'a str> {
    let members = value.as_object()?;
    members.keys().map(String::as_str).find(|name| !known.split(' ').any(|known| known == *name))
}

/// Whether this is a valid tool name: letters, digits, `_` and the characters in `more`, at most `max`.
pub(super) fn is_name(name: &str, max: usize, more: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || more.as_bytes().contains(&byte);
    !name.is_empty() && name.len() <= max && name.bytes().all(fits)
}

/// A tool.
pub(super) fn tool(name: &str, description: Option<&str>, parameters: Option<&Value>) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        description: description.unwrap_or_default().into(),
        parameters: parameters.cloned().unwrap_or_else(|| serde_json::json!({"type": "object"})),
        strict: Strictness::Off,
    }
}

/// The requested output format: any JSON, or JSON of a schema.
pub(super) fn output(is_json: bool, schema: Option<&Value>) -> OutputFormat {
    match schema {
        Some(schema) => OutputFormat::JsonSchema {
            name: "reply".into(),
            description: "".into(),
            schema: schema.clone(),
            strict: Strictness::Off,
        },
        None if is_json => OutputFormat::JsonObject,
        None => OutputFormat::Text,
    }
}

/// Whether a value is given that is not a number from 0 to `max`.
pub(super) fn is_outside(given: Option<&Value>, max: f64) -> bool {
    given.is_some_and(|given| !given.as_f64().is_some_and(|number| (0.0..=max).contains(&number)))
}

/// A result.
pub(super) fn result(call: &str, is_error: bool, words: Content) -> ToolOutput {
    ToolOutput {
        call: Arc::from(call),
        is_error,
        text: words.text.into(),
        images: words.images,
        ..ToolOutput::default()
    }
}

/// An image in a `data:` URL.
pub(super) fn data_url(url: &str) -> Option<Image> {
    let (media_type, base64) = url.strip_prefix("data:")?.split_once(";base64,")?;
    image(media_type, base64)
}

/// An image, if it has a media type and bytes.
pub(super) fn image(media_type: &str, base64: &str) -> Option<Image> {
    let has_all = media_type.starts_with("image/") && !base64.is_empty();
    has_all.then(|| Image { media_type: media_type.into(), base64: base64.into() })
}
