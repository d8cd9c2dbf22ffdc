//! From what a server answers to what the model reads. What can be read is read, and the rest is named in its place.

use crate::text::clean;
use crate::{ToolDeclaration, ToolResult};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loop_core::secrets::Secrets;
use loop_core::spec::is_same_value;
use loop_core::types::{Digest, ResultPicture, Scope};
use serde_json::{Map, Value, json};

use crate::connectors::charset;
use crate::connectors::error::short_line;
use crate::connectors::http::answer::{charset_of, done_with_nothing, is_json, is_nothing, is_text};

/// The result of a call, in whatever form the server wrote it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallContent {
    /// Its content, a text each.
    texts: Vec<String>,
    /// What of it a model reads as a picture. The texts name each.
    pictures: Vec<ResultPicture>,
    pub(crate) structured: Option<Value>,
    pub(crate) is_error: bool,
}

/// How much of the name of an unknown kind is shown.
const KIND_CHARS: usize = 40;

impl CallContent {
    /// What can be read of a result. `None`: it has no part of one.
    pub(crate) fn read(written: Value) -> Option<Self> {
        // Some hand back what a tool returned as it is.
        let member = match &written {
            Value::Array(blocks) if blocks.iter().all(is_block) => "content",
            Value::Array(_) => "structuredContent",
            Value::String(_) | Value::Number(_) | Value::Bool(_) => "content",
            Value::Object(_) | Value::Null => return Self::of_members(written),
        };
        Self::of_members(json!({ member: written }))
    }

    fn of_members(mut written: Value) -> Option<Self> {
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
        let mut pictures = Vec::new();
        let texts = blocks.into_iter().map(|block| block_text(block, &mut pictures));
        let texts = texts.filter(|text| !text.trim().is_empty()).collect();
        let is_error = match error {
            Some(Value::Bool(is_error)) => is_error,
            Some(Value::String(word)) => word.eq_ignore_ascii_case("true"),
            Some(Value::Number(number)) => number.as_f64() != Some(0.0),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => false,
        };
        Some(Self { texts, pictures, structured: structured.filter(|value| !value.is_null()), is_error })
    }

    /// Takes out the texts that only repeat the structured content.
    fn without_repeats(mut self) -> Self {
        let Some(structured) = &self.structured else { return self };
        let inner = inner(structured);
        let items: &[Value] = inner.as_array().map_or(&[], Vec::as_slice);
        let mut nth = 0;
        self.texts.retain(|text| {
            let read = serde_json::from_str::<Value>(text).ok();
            let is_same = |value: &Value| {
                read.as_ref().is_some_and(|read| is_same_value(read, value))
                    || value.as_str().is_some_and(|said| said.trim() == text.trim())
            };
            // And some write a text for each item.
            let is_item = items.get(nth).is_some_and(is_same);
            nth += 1;
            !(is_item || is_same(structured) || is_same(inner))
        });
        self
    }
}

/// What is alone in an object: some libraries wrap what is not an object.
fn inner(value: &Value) -> &Value {
    match value {
        Value::Object(members) if members.len() == 1 => members.values().next().unwrap_or(value),
        other => other,
    }
}

/// The result of a call that the server answered.
pub(crate) fn of_call(
    declaration: &ToolDeclaration,
    scope: &Scope,
    answer: CallContent,
    mask: &Secrets,
) -> ToolResult {
    if answer.is_error {
        let mut says = answer.texts.clone();
        let CallContent { texts, structured, .. } = answer.without_repeats();
        if texts.len() == says.len() {
            says.extend(structured.filter(|value| !is_nothing(value)).map(|value| match inner(&value) {
                Value::String(reason) => reason.clone(),
                _ => plain(&value),
            }));
        }
        let says = match says.join("\n") {
            text if text.is_empty() => "the server says that it failed, and not why".to_owned(),
            text => mask.mask_message(&text),
        };
        return ToolResult::failed(&*declaration.name, &declaration.title, says);
    }
    let CallContent { texts, structured, pictures, .. } = answer.without_repeats();
    let Some(structured) = structured else {
        let result = shown(declaration, scope, mask.mask_value(value_of(texts)));
        return ToolResult { pictures, ..result };
    };
    let result = shown(declaration, scope, mask.mask_value(structured));
    let with = shown(declaration, scope, mask.mask_value(value_of(texts)));
    match (with.success && !is_nothing(&with.data), result.success) {
        // The data is that of the structured content, of which a program reads its rows.
        (true, true) => {
            let markdown = format!("{}\n\n{}", with.markdown, result.markdown);
            ToolResult { markdown, pictures, ..result }
        }
        (true, false) => ToolResult { pictures, ..with },
        (false, _) => result,
    }
}

/// The result of a resource that was read. `None`: the answer holds none.
pub(crate) fn of_resource(
    declaration: &ToolDeclaration,
    scope: &Scope,
    mut answer: Value,
    mask: &Secrets,
) -> Option<ToolResult> {
    if let Some(members) = answer.as_object_mut() {
        answer = members.remove("contents")?;
    }
    let contents = match answer {
        Value::Null => return None,
        Value::Array(contents) => contents,
        one => vec![one],
    };
    let mut pictures = Vec::new();
    let texts = contents.iter().map(|one| resource_text(one, &mut pictures)).collect();
    Some(ToolResult { pictures, ..shown(declaration, scope, mask.mask_value(value_of(texts))) })
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

/// The kinds of content that the protocol has.
const KINDS: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

/// Whether an entry of a list without a name is a part of the content of a result, and not a row.
fn is_block(entry: &Value) -> bool {
    let kind = entry.get("type").and_then(Value::as_str);
    entry.is_string() || kind.is_some_and(|kind| KINDS.contains(&kind))
}

/// A part of an answer as text. What is not text is named with its kind and its size.
fn block_text(block: Value, pictures: &mut Vec<ResultPicture>) -> String {
    if let Value::String(text) = block {
        return text;
    }
    if block.is_number() || block.is_boolean() {
        return block.to_string();
    }
    let word = |name: &str| block.get(name).and_then(Value::as_str);
    let read = match word("type") {
        Some("image") => word("data").map(|data| picture(word("mimeType"), data, pictures)),
        Some("audio") => word("data").map(|data| unread("sound", word("mimeType"), data)),
        Some("resource") => block.get("resource").map(|inner| resource_text(inner, pictures)),
        Some("resource_link") => word("uri").map(|uri| {
            let name = word("title").or_else(|| word("name")).map(|name| format!("{name}: "));
            let about = word("description").map(|about| format!(" ({about})"));
            format!("{}{uri}{}", name.unwrap_or_default(), about.unwrap_or_default())
        }),
        // A text, or a kind that has one.
        _ => None,
    };
    let text = match block.get("text") {
        None | Some(Value::Null) => None,
        Some(text) => Some(plain(text)),
    };
    read.or(text).unwrap_or_else(|| {
        let kind = short_line(&clean(word("type").unwrap_or("without a name")).0, KIND_CHARS);
        format!("[content of the kind {kind}, not read]")
    })
}

fn resource_text(contents: &Value, pictures: &mut Vec<ResultPicture>) -> String {
    if let Value::String(text) = contents {
        return text.clone();
    }
    let word = |name: &str| contents.get(name).and_then(Value::as_str);
    let kind = word("mimeType");
    match (contents.get("text"), word("blob")) {
        (Some(text), _) if !text.is_null() => plain(text),
        (_, Some(blob)) if kind.is_some_and(|kind| kind.starts_with("image/")) => {
            picture(kind, blob, pictures)
        }
        (_, Some(blob)) => text_in(kind, blob).unwrap_or_else(|| unread("data", kind, blob)),
        _ => format!("[a resource without content: {}]", word("uri").unwrap_or("it has no address")),
    }
}

/// The text that a server sent as bytes.
fn text_in(kind: Option<&str>, blob: &str) -> Option<String> {
    let kind = kind?;
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let bytes = STANDARD.decode(blob.trim()).ok().filter(|_| is_text(&essence) || is_json(&essence))?;
    Some(charset::text(&bytes, charset_of(kind)).ok()?.into_owned())
}

/// A text as it is, and anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A picture in words, and among those that a model may see, where it is of a kind and size that providers take.
fn picture(kind: Option<&str>, data: &str, pictures: &mut Vec<ResultPicture>) -> String {
    let data: String = data.split_ascii_whitespace().collect();
    let taken: usize = pictures.iter().map(|picture| picture.base64.len()).sum();
    let kind = kind.map(str::to_ascii_lowercase);
    let known = kind.as_deref().and_then(|kind| PICTURES.iter().find(|known| **known == kind));
    let fits = pictures.len() < PICTURES_MAX && taken + data.len() <= PICTURE_BYTES_MAX;
    match (known.filter(|_| fits), STANDARD.decode(&data)) {
        (Some(known), Ok(bytes)) => {
            // Two pictures are two results.
            let digest = Digest::of("picture", &bytes).to_string();
            let digest = digest.get(..8).unwrap_or_default();
            pictures.push(ResultPicture { media_type: (*known).into(), base64: data.into() });
            format!("[picture {}, {known}, {} bytes, {digest}]", pictures.len(), bytes.len())
        }
        _ => unread("image", kind.as_deref(), &data),
    }
}

/// The kinds of pictures that providers take.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// How many pictures of a result are passed on, and how many bytes of Base64 of all of them.
const PICTURES_MAX: usize = 4;
const PICTURE_BYTES_MAX: usize = 4 << 20;

/// What is there and is not read: three bytes for each four letters of base64.
fn unread(what: &str, kind: Option<&str>, base64: &str) -> String {
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    let kind = short_line(&clean(kind.unwrap_or("of no kind that is named")).0, KIND_CHARS);
    format!("[{what}, {kind}, {bytes} bytes, not read]")
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
