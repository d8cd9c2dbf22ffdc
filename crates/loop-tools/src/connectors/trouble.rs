//! Why a call returned nothing, and what that means for another try.

use std::time::Duration;

use crate::{Failure, ToolResult};

/// Why a call returned nothing. No message holds a URL, and what a server wrote is masked before it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The arguments cannot be sent.
    Input(String),
    /// It would fail again.
    Permanent(String),
    /// It may pass; after this time, where the server names one.
    Retryable(String, Option<Duration>),
    /// The request was sent, it may not be sent twice, and its outcome is unknown.
    InDoubt(String),
    /// There is no such thing.
    Empty,
}

impl Trouble {
    /// The result that says so.
    pub(crate) fn result(&self, name: &str, title: &str) -> ToolResult {
        match self {
            Self::Input(message) => ToolResult::invalid_input(name, title, message),
            Self::Permanent(message) => ToolResult::failed(name, title, message),
            Self::InDoubt(message) => ToolResult::in_doubt(name, title, message),
            Self::Empty => ToolResult::empty(name, title),
            Self::Retryable(message, None) => ToolResult::retryable(name, title, message),
            Self::Retryable(message, Some(after)) => {
                let says = format!("{message}; try again after {} s", after.as_secs().max(1));
                let retry_after_ms = u64::try_from(after.as_millis()).ok();
                ToolResult { retry_after_ms, ..ToolResult::failure(name, title, says, Failure::Retryable) }
            }
        }
    }
}
