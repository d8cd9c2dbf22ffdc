//! From a tool's result to an observation: what it is worth, and what a model gets to read of it.

use std::sync::Arc;

use loop_core::types::{Data, Effect, FailureText, Observation, Status};
use serde_json::Value;

use crate::declaration::ToolDeclaration;
use crate::result::{Failure, NOTHING_FOUND, ToolResult, quote};
use crate::text::{clean, cut, in_one_line, is_blank, one_line};

/// A result that has been weighed but not yet cleaned and cut.
#[derive(Debug)]
pub(crate) struct Judged {
    status: Status,
    summary: String,
    body: Body,
    data: Value,
    /// Of what is not ready.
    retry_after_ms: Option<u64>,
    warnings: Vec<String>,
}

/// What a model gets to read of a result.
#[derive(Debug)]
enum Body {
    /// The tool's own text.
    Markdown(String),
    /// What went wrong, under a title of its own or the tool's.
    Failure { title: Option<String>, message: String },
}

impl Judged {
    /// A failure with a message.
    pub(crate) fn failed(status: Status, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            status,
            summary: message.clone(),
            body: Body::Failure { title: None, message },
            data: Value::Null,
            retry_after_ms: None,
            warnings: Vec::new(),
        }
    }

    /// No tool has this name (S0-88). It always carries a text (S0-d4).
    pub(crate) fn unknown_tool(name: &str, similar: &[Arc<str>]) -> Self {
        let name = one_line(name);
        let requested = if name.is_empty() {
            "the name is empty".to_owned()
        } else {
            format!("no tool is called `{name}`")
        };
        let similar: Vec<String> = similar.iter().map(|name| format!("`{name}`")).collect();
        let similar = if similar.is_empty() {
            String::new()
        } else {
            format!("; similar names: {}", similar.join(", "))
        };
        let (title, message) = (Some("Unknown tool".to_owned()), format!("{requested}{similar}"));
        Self {
            body: Body::Failure { title, message },
            ..Self::failed(Status::PermanentError, format!("Unknown tool: {requested}{similar}"))
        }
    }
}

/// What a result of `tool` is worth.
pub(crate) fn judge(tool: &ToolDeclaration, result: ToolResult) -> Judged {
    if result.tool_name != *tool.name {
        let message = format!("the result says that it is of `{}`", one_line(&result.tool_name));
        return Judged { data: result.data, ..Judged::failed(Status::MalformedResult, message) };
    }
    if result.success { success(tool, result) } else { failure(tool, result) }
}

fn success(tool: &ToolDeclaration, result: ToolResult) -> Judged {
    // What looks for something and returns nothing has found nothing. A write that returns nothing has still
    // been done, and a model that reads "not found" would do it again.
    if tool.effect == Some(Effect::Read) && is_nothing(&result.data) {
        return Judged { data: result.data, ..Judged::failed(Status::Empty, NOTHING_FOUND) };
    }
    if is_blank(&result.markdown) {
        let judged = Judged::failed(Status::MalformedResult, "the result is a success without any Markdown");
        return Judged { data: result.data, ..judged };
    }
    let has_summary = !result.summary.trim().is_empty();
    Judged {
        status: Status::Ok,
        summary: if has_summary { result.summary } else { tool.title.to_string() },
        body: Body::Markdown(result.markdown),
        data: result.data,
        retry_after_ms: None,
        warnings: result.error.into_iter().map(|error| format!("succeeded with an error: {error}")).collect(),
    }
}

fn failure(tool: &ToolDeclaration, result: ToolResult) -> Judged {
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
    // S0's template is not a text of the tool's own, and a failure that shows nothing teaches nothing (S0-d4).
    let is_template = markdown == quote(title.as_deref().unwrap_or(&tool.title), &message);
    let body = match is_template || is_blank(&markdown) {
        true => Body::Failure { title, message: message.clone() },
        false => Body::Markdown(markdown),
    };
    let retry_after_ms = retry_after_ms.filter(|_| status == Status::Pending);
    Judged { status, summary: message, body, data, retry_after_ms, warnings: Vec::new() }
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

/// The observation: text cleaned (I-24) and cut to `cap` characters (S0-123), data whole.
pub(crate) fn observation(title: &str, judged: Judged, cap: usize) -> Observation {
    let Judged { status, summary, body, data, retry_after_ms, warnings } = judged;
    let mut warnings: Vec<Arc<str>> = warnings.iter().map(|warning| one_line(warning).into()).collect();
    let mut shown = |text: &str, what: &str| -> Arc<str> {
        let (cleaned, dropped) = clean(text);
        if dropped > 0 {
            let says = format!("{dropped} control or invisible characters were dropped from the {what}");
            warnings.push(says.into());
        }
        let Some(short) = cut(&cleaned, cap) else { return Arc::from(&*cleaned) };
        let all = cleaned.chars().count();
        warnings.push(format!("the {what} was cut to {cap} of {all} characters").into());
        short.into()
    };
    let (markdown, failure) = match &body {
        Body::Markdown(markdown) => (shown(markdown, "markdown"), None),
        Body::Failure { title: own, message } => {
            let title = one_line(own.as_deref().unwrap_or(title)).into();
            (Arc::default(), Some(FailureText { title, message: shown(message, "message") }))
        }
    };
    let data = match data {
        // What is read is what was returned: one text for both.
        Value::String(text) if *text == *markdown => Data::text(Arc::clone(&markdown)),
        other => other.into(),
    };
    let mut observation = Observation::new(status, in_one_line(summary), markdown, data);
    observation.failure = failure;
    observation.retry_after_ms = retry_after_ms;
    observation.warnings = warnings;
    observation
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
