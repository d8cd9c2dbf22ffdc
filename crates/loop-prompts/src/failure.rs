//! A failure as Markdown: the one place that renders it.

use std::borrow::Cow;

use loop_core::{FailureText, Observation};

/// What came back from an action as Markdown, as a document's prompt shows it: what a tool wrote, or S0's template of a
/// failure (S0-67).
pub fn markdown_of(observation: &Observation) -> Cow<'_, str> {
    match &observation.failure {
        Some(FailureText { title, message }) => quote(title, message).into(),
        None => Cow::Borrowed(&observation.markdown),
    }
}

/// S0's template; each line of the message stays inside the quotation.
pub(crate) fn quote(title: &str, message: &str) -> String {
    format!("> **{title}:** {}", message.replace('\n', "\n> "))
}
