//! A failure as Markdown: the one place that renders it.

use std::borrow::Cow;

use loop_core::types::{FailureText, Observation, Status};

/// The result of an action as Markdown, for a document's prompt: the tool's own text, or a failure as a quotation.
pub fn markdown_of(observation: &Observation) -> Cow<'_, str> {
    match &observation.failure {
        Some(FailureText { title, message }) if observation.status == Status::InDoubt => {
            quote(title, &doubted(message)).into()
        }
        Some(FailureText { title, message }) => quote(title, message).into(),
        None => Cow::Borrowed(&observation.markdown),
    }
}

/// The message of an effect whose outcome is unknown. Its status alone decides that it says so.
pub(crate) fn doubted(message: &str) -> String {
    format!("{message}; it may or may not have happened")
}

/// A failure as a quotation. Each line of the message stays inside it.
pub(crate) fn quote(title: &str, message: &str) -> String {
    format!("> **{title}:** {}", message.replace('\n', "\n> "))
}
