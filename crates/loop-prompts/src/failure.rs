//! A failure as Markdown: the one place that renders it.

use std::borrow::Cow;

use loop_core::types::{FailureText, Observation};

/// The result of an action as Markdown, for a document's prompt: the tool's own text, or a failure as a quotation.
pub fn markdown_of(observation: &Observation) -> Cow<'_, str> {
    match &observation.failure {
        Some(FailureText { title, message }) => quote(title, message).into(),
        None => Cow::Borrowed(&observation.markdown),
    }
}

/// A failure as a quotation. Each line of the message stays inside it.
pub(crate) fn quote(title: &str, message: &str) -> String {
    format!("> **{title}:** {}", message.replace('\n', "\n> "))
}
