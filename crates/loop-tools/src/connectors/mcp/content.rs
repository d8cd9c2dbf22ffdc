//! From what a server answers to what the model reads.

use crate::text::clean;
use crate::{ToolDeclaration, ToolResult};
use loop_core::secrets::Secrets;
use loop_core::types::Scope;
use rmcp::model::{CallToolResult, ContentBlock, ReadResourceResult, ResourceContents};
use serde_json::{Map, Value, json};

use crate::connectors::error::short_line;
use crate::connectors::http::answer::{done_with_nothing, is_nothing};

/// The result of a call that the server answered.
pub(crate) fn of_call(
    declaration: &ToolDeclaration,
    scope: &Scope,
    answer: CallToolResult,
    mask: &Secrets,
) -> ToolResult {
    let texts: Vec<String> =
        answer.content.iter().map(text_of).filter(|text| !text.trim().is_empty()).collect();
    if answer.is_error == Some(true) {
        let says = match texts.join("\n") {
            text if text.is_empty() => "the server says that it failed, and not why".to_owned(),
            text => mask.mask_message(&text),
        };
        return ToolResult::failed(&*declaration.name, &declaration.title, says);
    }
    let value = match answer.structured_content.filter(|value| !value.is_null()) {
        // Its text says the same once more.
        Some(value) => value,
        None => value_of(texts),
    };
    shown(declaration, scope, mask.mask_value(value))
}

/// A result that does not follow the protocol in all its parts: what can be read of it, with the rest named. `None`: it
/// has no part of a result.
pub(crate) fn readable(mut written: Value) -> Option<CallToolResult> {
    let members = written.as_object_mut()?;
    let mut take = |name: &str| members.remove(name);
    let (content, structured, error) = (take("content"), take("structuredContent"), take("isError"));
    if content.is_none() && structured.is_none() && error.is_none() {
        return None;
    }
    let blocks = match content {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks,
        Some(one) => vec![one],
    };
    let mut result = CallToolResult::success(blocks.into_iter().map(readable_block).collect());
    result.structured_content = structured;
    result.is_error = Some(match error {
        Some(Value::Bool(is_error)) => is_error,
        Some(Value::String(word)) => word.eq_ignore_ascii_case("true"),
        Some(Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_)) | None => false,
    });
    Some(result)
}

/// A part of an answer. One of an unknown kind or form is named with its kind.
fn readable_block(mut block: Value) -> ContentBlock {
    if let Some(members) = block.as_object_mut() {
        // They are for a client that shows an answer to several readers.
        members.remove("annotations");
    }
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let kind = text(block.get("type"));
    if let Some(said) = text(Some(&block)).or_else(|| text(block.get("text")).filter(|_| kind.is_none())) {
        return ContentBlock::text(said);
    }
    serde_json::from_value(block).unwrap_or_else(|_| {
        let kind = short_line(&clean(kind.as_deref().unwrap_or("without a name")).0, KIND_CHARS);
        ContentBlock::text(format!("[content of the kind {kind}, not read]"))
    })
}

/// How much of the name of an unknown kind is shown.
const KIND_CHARS: usize = 40;

/// The result of a resource that was read.
pub(crate) fn of_resource(
    declaration: &ToolDeclaration,
    scope: &Scope,
    answer: ReadResourceResult,
    mask: &Secrets,
) -> ToolResult {
    let texts: Vec<String> = answer.contents.iter().map(resource_text).collect();
    shown(declaration, scope, mask.mask_value(value_of(texts)))
}

/// Texts as one value: JSON where there is one text of JSON, for a server may write its rows so.
fn value_of(texts: Vec<String>) -> Value {
    match texts.as_slice() {
        [] => Value::Null,
        [one] => match serde_json::from_str::<Value>(one) {
            Ok(value @ (Value::Array(_) | Value::Object(_))) => value,
            _ => Value::String(one.clone()),
        },
        _ => Value::String(texts.join("\n\n")),
    }
}

fn shown(declaration: &ToolDeclaration, scope: &Scope, value: Value) -> ToolResult {
    let (name, title) = (&*declaration.name, &*declaration.title);
    let is_read = declaration.effect.is_none_or(loop_core::types::Effect::is_read);
    if is_nothing(&value) {
        return if is_read { ToolResult::empty(name, title) } else { done_with_nothing(name, value) };
    }
    // The rows, so that one who chooses among them has them.
    let rows = match value {
        Value::Array(items) => items,
        Value::Object(members) => rows_in(members),
        _ => return ToolResult::value(name, value),
    };
    if rows.is_empty() {
        return ToolResult::empty(name, title);
    }
    let mut result = ToolResult::found(name, title, scope, rows);
    if !is_read {
        result.summary = "Done".to_owned();
    }
    result
}

/// The list that is alone in an object, as many servers wrap one, or the object.
fn rows_in(mut members: Map<String, Value>) -> Vec<Value> {
    let is_alone = members.len() == 1;
    match members.values_mut().next() {
        Some(Value::Array(items)) if is_alone => std::mem::take(items),
        _ => vec![Value::Object(members)],
    }
}

/// A part of an answer as text. What no model reads here is named with its kind and its size.
fn text_of(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => unread("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => unread("sound", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => resource_text(&embedded.resource),
        ContentBlock::ResourceLink(link) => {
            let name = link.title.as_deref().unwrap_or(&link.name);
            match &link.description {
                Some(about) => format!("{name}: {} ({about})", link.uri),
                None => format!("{name}: {}", link.uri),
            }
        }
        // A kind of a later version of the protocol.
        other => serde_json::to_value(other).unwrap_or_else(|_| json!(null)).to_string(),
    }
}

fn resource_text(contents: &ResourceContents) -> String {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => text.clone(),
        ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
            unread("data", mime_type.as_deref().unwrap_or("of no kind that is named"), blob)
        }
        other => serde_json::to_value(other).unwrap_or_else(|_| json!(null)).to_string(),
    }
}

/// What is there and is not read: three bytes for each four letters of base64.
fn unread(what: &str, kind: &str, base64: &str) -> String {
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    format!("[{what}, {kind}, {bytes} bytes, not read]")
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
