//! From a tool's result to an observation: its status, and what a model reads of it.

use std::sync::Arc;

use loop_core::types::{Data, Effect, FailureText, Observation, Status};
use serde_json::Value;

use crate::declaration::ToolDeclaration;
use crate::result::{Failure, NOTHING_FOUND, ToolResult};
use crate::text::{clean, cut, in_one_line, is_blank, one_line};

/// How a model reads what came back: what a failure is called, and how much of a text there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) title: &'a str,
    /// Maximum characters.
    pub(crate) cap: usize,
}

impl Reading<'_> {
    /// A failure with a message.
    pub(crate) fn failed(self, status: Status, message: &str) -> Observation {
        self.failure(status, message, message, Value::Null)
    }

    fn failure(self, status: Status, summary: &str, message: &str, data: Value) -> Observation {
        let mut observation =
            Observation::new(status, in_one_line(summary.to_owned()), "", data_of(data, &Arc::default()));
        let message = self.shown(message, "message", &mut observation.warnings);
        observation.failure = Some(FailureText { title: one_line(self.title).into(), message });
        observation
    }

    /// The tool's own text.
    fn text(self, status: Status, summary: String, markdown: &str, data: Value) -> Observation {
        let mut warnings = Vec::new();
        let markdown = self.shown(markdown, "markdown", &mut warnings);
        let data = data_of(data, &markdown);
        Observation { warnings, ..Observation::new(status, in_one_line(summary), markdown, data) }
    }

    /// A text cleaned and cut, with a warning for either.
    fn shown(self, text: &str, what: &str, warnings: &mut Vec<Arc<str>>) -> Arc<str> {
        let (cleaned, dropped) = clean(text);
        if dropped > 0 {
            let says = format!("{dropped} control or invisible characters were dropped from the {what}");
            warnings.push(says.into());
        }
        let Some(short) = cut(&cleaned, self.cap) else { return Arc::from(&*cleaned) };
        let all = cleaned.chars().count();
        warnings.push(format!("the {what} was cut to {} of {all} characters", self.cap).into());
        short.into()
    }
}

/// The data whole. What is read is what was returned: one text for both.
fn data_of(data: Value, markdown: &Arc<str>) -> Data {
    match data {
        Value::String(text) if *text == **markdown => Data::text(Arc::clone(markdown)),
        other => other.into(),
    }
}

/// No tool has this name. It always carries a text.
pub(crate) fn unknown_tool(name: &str, similar: &[Arc<str>], cap: usize) -> Observation {
    let name = one_line(name);
    let requested =
        if name.is_empty() { "the name is empty".to_owned() } else { format!("no tool is called `{name}`") };
    let similar: Vec<String> = similar.iter().map(|name| format!("`{name}`")).collect();
    let similar =
        if similar.is_empty() { String::new() } else { format!("; similar names: {}", similar.join(", ")) };
    let message = format!("{requested}{similar}");
    let summary = format!("Unknown tool: {message}");
    Reading { title: "Unknown tool", cap }.failure(Status::PermanentError, &summary, &message, Value::Null)
}

/// What a result of `tool` is worth, and what a model gets to read of it.
pub(crate) fn judge(tool: &ToolDeclaration, result: ToolResult, cap: usize) -> Observation {
    let reading = Reading { title: &tool.title, cap };
    // A result without a name is of the tool that was called, see [`ToolResult::text`].
    if !result.tool_name.is_empty() && result.tool_name != *tool.name {
        let named = one_line(&result.tool_name);
        let message = format!("the result says that it is of `{named}`");
        return reading.failure(Status::MalformedResult, &message, &message, result.data);
    }
    if result.success { success(tool, result, reading) } else { failure(tool, result, reading) }
}

fn success(tool: &ToolDeclaration, result: ToolResult, reading: Reading<'_>) -> Observation {
    // What looks for something and returns nothing has found nothing. A write that returns nothing has still
    // been done, and a model that reads "not found" would do it again.
    if tool.effect == Some(Effect::Read) && is_nothing(&result.data) {
        return reading.failure(Status::Empty, NOTHING_FOUND, NOTHING_FOUND, result.data);
    }
    if is_blank(&result.markdown) {
        let message = "the result is a success without any Markdown";
        return reading.failure(Status::MalformedResult, message, message, result.data);
    }
    let has_summary = !result.summary.trim().is_empty();
    let summary = if has_summary { result.summary } else { tool.title.to_string() };
    let mut observation = reading.text(Status::Ok, summary, &result.markdown, result.data);
    observation.pictures = result.pictures;
    if let Some(error) = result.error {
        observation.warnings.insert(0, one_line(&format!("succeeded with an error: {error}")).into());
    }
    observation
}

fn failure(tool: &ToolDeclaration, result: ToolResult, reading: Reading<'_>) -> Observation {
    let message = result.message();
    let status = match result.kind {
        Some(Failure::Empty) => Status::Empty,
        Some(Failure::Retryable) => Status::RetryableError,
        Some(Failure::Permanent) | None => Status::PermanentError,
        Some(Failure::InvalidInput) => Status::InvalidInput,
        Some(Failure::Pending) => Status::Pending,
        // What may run twice has no doubt that a second try does not settle.
        Some(Failure::InDoubt) if tool.effect.is_some_and(Effect::is_repeatable) => Status::RetryableError,
        Some(Failure::InDoubt) => Status::InDoubt,
    };
    let ToolResult { markdown, title, retry_after_ms, data, .. } = result;
    let observation = match title.as_deref() {
        Some(title) => Reading { title, ..reading }.failure(status, &message, &message, data),
        // A failure that shows nothing teaches nothing (S0-d4).
        None if is_blank(&markdown) => reading.failure(status, &message, &message, data),
        None => reading.text(status, message, &markdown, data),
    };
    Observation { retry_after_ms: retry_after_ms.filter(|_| status == Status::Pending), ..observation }
}

/// Null, `[]` or an empty text: what the template counts as no data.
fn is_nothing(data: &Value) -> bool {
    match data {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
