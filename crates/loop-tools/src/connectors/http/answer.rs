//! From an answer to what the model reads: what is selected of it, as a table, as lines or as it is.

use crate::ToolResult;
use crate::result::heading;
use crate::table::push_lines;
use loop_core::types::{Effect, Scope};
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

use crate::connectors::charset;
use crate::connectors::error::short_line;
use crate::connectors::http::client::Answer;
use crate::connectors::http::template::{Template, text_of};

/// The most characters of a server's own message.
const MESSAGE_CHARS: usize = 200;
/// Where servers put their message, most telling first.
const MESSAGES: [&str; 10] = [
    "/error/message",
    "/errors/0/message",
    "/errors/0/detail",
    "/message",
    "/detail",
    "/error_description",
    "/error",
    "/title",
    "/errors/0",
    "/msg",
];

/// The content of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Nothing,
    Json(Value),
    Text(String),
}

/// How results are shown.
#[derive(Clone, Debug)]
pub(crate) struct ResultFormat {
    /// The pointer to the result.
    pub(crate) select: Option<String>,
    /// The line of each item.
    pub(crate) line: Option<Template>,
}

/// The content of an answer.
///
/// # Errors
/// It is of a kind that no model can read, or says that it is JSON and is not.
pub(crate) fn content(answer: &Answer) -> Result<Content, String> {
    if answer.status == StatusCode::NO_CONTENT || answer.body.trim_ascii().is_empty() {
        return Ok(Content::Nothing);
    }
    let kind = answer.headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or("unreadable"));
    let named = kind.and_then(charset_of);
    let text = || charset::text(&answer.body, named).map_err(|why| format!("the answer is {why}"));
    let essence = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    let json = |text: &str| serde_json::from_str::<Value>(text).map(Content::Json);
    match essence.as_deref() {
        // What does not say what it is may be JSON and nothing else.
        None => {
            let read = text().ok().and_then(|text| json(&text).ok());
            read.ok_or_else(|| "the answer does not say what it is, and is not JSON".to_owned())
        }
        Some(kind) if is_json(kind) => {
            json(&text()?).map_err(|error| format!("the answer is not the JSON that it says it is: {error}"))
        }
        Some(kind) if is_text(kind) => Ok(Content::Text(text()?.into_owned())),
        Some(kind) => {
            let kind: String = kind.chars().filter(|c| c.is_ascii_graphic()).take(60).collect();
            Err(format!("the answer is of type `{kind}`; this tool reads JSON and text"))
        }
    }
}

impl ResultFormat {
    /// What of a content is the result.
    ///
    /// # Errors
    /// Something is to be selected, and there is nothing to select from.
    pub(crate) fn select(&self, content: Content) -> Result<Value, String> {
        match (content, &self.select) {
            (Content::Nothing, _) => Ok(Value::Null),
            (Content::Json(value), None) => Ok(value),
            (Content::Json(mut value), Some(pointer)) => {
                Ok(value.pointer_mut(pointer).map(Value::take).unwrap_or_default())
            }
            (Content::Text(text), None) => Ok(Value::String(text)),
            (Content::Text(_), Some(_)) => {
                Err("the answer is text, and the tool selects a part of JSON".to_owned())
            }
        }
    }

    /// The result of a call that ended well.
    pub(crate) fn result(
        &self,
        name: &str,
        title: &str,
        scope: &Scope,
        effect: Option<Effect>,
        value: Value,
        note: Option<&str>,
    ) -> ToolResult {
        let is_read = effect.is_none_or(Effect::is_read);
        let result = if is_nothing(&value) {
            if is_read {
                return ToolResult::empty(name, title);
            }
            done_with_nothing(name, value)
        } else {
            let (rows, is_list) = match value {
                Value::Array(items) => (items, true),
                Value::Object(_) => (vec![value], false),
                _ => return note_below(ToolResult::value(name, value), note),
            };
            let mut result = match &self.line {
                None => ToolResult::found(name, title, scope, rows),
                Some(line) => {
                    let mut markdown = heading(title, scope) + "\n";
                    push_lines(&mut markdown, &rows, |text, row| {
                        text.push_str(&line.fill(|at| cell(row, at)))
                    });
                    ToolResult::ok(name, format!("Found {} items", rows.len()), markdown, rows)
                }
            };
            if !is_list && let Some(one) = result.data.get_mut(0) {
                result.data = one.take();
            }
            if !is_read {
                result.summary = "Done".to_owned();
            }
            result
        };
        note_below(result, note)
    }
}

/// Whether a server returned nothing that can be shown.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.trim().is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The result of a write that returned nothing: it has been done all the same.
pub(crate) fn done_with_nothing(name: &str, value: Value) -> ToolResult {
    ToolResult::ok(name, "Done", "Done: the server accepted it and returned nothing.", value)
}

/// What a server says of a failure, on one line and short. Empty: nothing that can be shown.
pub(crate) fn message(content: &Content) -> String {
    let text = match content {
        Content::Nothing => String::new(),
        Content::Text(text) => text.clone(),
        Content::Json(Value::String(text)) => text.clone(),
        Content::Json(value) => {
            let texts = MESSAGES.iter().filter_map(|pointer| value.pointer(pointer).and_then(Value::as_str));
            texts.map(str::to_owned).next().unwrap_or_default()
        }
    };
    short_line(&text, MESSAGE_CHARS)
}

/// A value of a row in a line of its own: it cannot end the line.
fn cell(row: &Value, pointer: &str) -> String {
    let text = row.pointer(pointer).map(text_of).unwrap_or_default();
    text.split(|c: char| c.is_control())
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Below the heading rather than at the end, which may be cut.
fn note_below(mut result: ToolResult, note: Option<&str>) -> ToolResult {
    if let Some(note) = note {
        result.markdown = result.markdown.replacen("\n\n", &format!("\n\n_{note}_\n\n"), 1);
        result.summary = format!("{} ({note})", result.summary);
    }
    result
}

/// Whether what is of this media type is shown as it is.
pub(crate) fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
        || matches!(kind, "application/xml" | "application/xml-dtd")
        || kind.ends_with("+xml")
}

/// Whether what is of this media type is JSON.
pub(crate) fn is_json(kind: &str) -> bool {
    matches!(kind, "application/json" | "text/json")
        || kind.starts_with("application/") && kind.ends_with("+json")
}

/// The charset that a media type names.
pub(crate) fn charset_of(kind: &str) -> Option<&str> {
    let mut parameters = kind.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, name) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(name.trim().trim_matches(['"', '\'']).trim()).filter(|name| !name.is_empty())
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
