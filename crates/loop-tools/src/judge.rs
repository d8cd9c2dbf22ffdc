//! From a tool's result to an observation: what it is worth, and what a model gets to read of it.

use std::sync::Arc;

use loop_core::{Data, Effect, Observation, Status};
use serde_json::Value;

use crate::declaration::ToolDeclaration;
use crate::result::{Failure, NO_DATA_FOUND, ToolResult, quote};
use crate::text::{clean, cut, is_blank, one_line};

/// A result that has been weighed but not yet cleaned and cut.
#[derive(Debug)]
pub(crate) struct Judged {
    status: Status,
    summary: String,
    /// `None` is the template of a failure.
    markdown: Option<String>,
    data: Value,
    /// Of what is not ready.
    retry_after_ms: Option<u64>,
    warnings: Vec<String>,
}

impl Judged {
    /// A failure with a message, by S0's template (S0-67).
    pub(crate) fn failed(status: Status, message: impl Into<String>) -> Self {
        Self {
            status,
            summary: message.into(),
            markdown: None,
            data: Value::Null,
            retry_after_ms: None,
            warnings: Vec::new(),
        }
    }

    /// Nobody has this name (S0-88). It always carries a text (S0-d4).
    pub(crate) fn unknown_tool(name: &str, near: &[Arc<str>]) -> Self {
        let name = one_line(name);
        let asked = if name.is_empty() {
            "the name is empty".to_owned()
        } else {
            format!("no tool is called `{name}`")
        };
        let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        let near = if near.is_empty() { String::new() } else { format!("; near names: {}", near.join(", ")) };
        Self {
            markdown: Some(quote("Unknown tool", &format!("{asked}{near}"))),
            ..Self::failed(Status::PermanentError, format!("Unknown tool: {asked}{near}"))
        }
    }
}

/// What a result of `tool` is worth.
pub(crate) fn judge(tool: &ToolDeclaration, result: ToolResult) -> Judged {
    if result.tool_name != *tool.name {
        let message = format!("the result says that it is of `{}`", one_line(&result.tool_name));
        return Judged { data: result.data, ..Judged::failed(Status::MalformedResult, message) };
    }
    if result.success { success(tool, result) } else { failure(result) }
}

fn success(tool: &ToolDeclaration, result: ToolResult) -> Judged {
    // What looks for something and brings nothing has found nothing. A write that brings nothing has still
    // been done, and a model that reads "not found" would do it again.
    if tool.effect == Some(Effect::Read) && is_nothing(&result.data) {
        return Judged { data: result.data, ..Judged::failed(Status::Empty, NO_DATA_FOUND) };
    }
    if is_blank(&result.markdown) {
        let judged = Judged::failed(Status::MalformedResult, "the result is a success without any Markdown");
        return Judged { data: result.data, ..judged };
    }
    let has_summary = !result.summary.trim().is_empty();
    Judged {
        status: Status::Ok,
        summary: if has_summary { result.summary } else { tool.title.to_string() },
        markdown: Some(result.markdown),
        data: result.data,
        retry_after_ms: None,
        warnings: result.error.into_iter().map(|error| format!("succeeded with an error: {error}")).collect(),
    }
}

fn failure(result: ToolResult) -> Judged {
    let message = result.message();
    let status = match result.kind {
        Some(Failure::Empty) => Status::Empty,
        Some(Failure::Retryable) => Status::RetryableError,
        Some(Failure::Permanent) => Status::PermanentError,
        Some(Failure::InvalidInput) => Status::InvalidInput,
        Some(Failure::Pending) => Status::Pending,
        // A program that knows S0's shape only says it in words.
        None if message == NO_DATA_FOUND => Status::Empty,
        None => Status::PermanentError,
    };
    // The template in its place, because a failure that shows nothing teaches nothing (S0-d4).
    let markdown = Some(result.markdown).filter(|markdown| !is_blank(markdown));
    let retry_after_ms = result.retry_after_ms.filter(|_| status == Status::Pending);
    Judged { status, summary: message, markdown, data: result.data, retry_after_ms, warnings: Vec::new() }
}

/// Null, `[]` or an empty text: what S0's template takes for no data (S0-68).
fn is_nothing(data: &Value) -> bool {
    match data {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// The observation: text cleaned (I-24), Markdown cut to `cap` characters (S0-123), data whole.
pub(crate) fn observation(title: &str, judged: Judged, cap: usize) -> Observation {
    let Judged { status, summary, markdown, data, retry_after_ms, warnings } = judged;
    let markdown = markdown.unwrap_or_else(|| quote(title, &summary));
    let (cleaned, dropped) = clean(&markdown);
    let short = cut(&cleaned, cap);
    let mut warnings: Vec<Arc<str>> = warnings.iter().map(|warning| one_line(warning).into()).collect();
    if dropped > 0 {
        warnings
            .push(format!("{dropped} control or invisible characters were dropped from the markdown").into());
    }
    if short.is_some() {
        let all = cleaned.chars().count();
        warnings.push(format!("the markdown was cut to {cap} of {all} characters").into());
    }
    let markdown: Arc<str> = short.map_or_else(|| Arc::from(&*cleaned), Arc::from);
    let data = match data {
        // What is read is what was brought: one text for both.
        Value::String(text) if *text == *markdown => Data::text(Arc::clone(&markdown)),
        other => other.into(),
    };
    let mut observation = Observation::new(status, one_line(&summary), markdown, data);
    observation.retry_after_ms = retry_after_ms;
    observation.warnings = warnings;
    observation
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
