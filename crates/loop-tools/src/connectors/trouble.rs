//! Why a call returned nothing, and what that means for another try.

use std::time::Duration;

use loop_core::secrets::Secrets;

use crate::{Failure, ToolResult};

/// Why a call returned nothing. No message holds a URL, and what a server wrote is masked before it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each connector meets some of them, and not every build has every connector")]
pub(crate) enum Trouble {
    /// The arguments cannot be sent.
    Input(String),
    /// It would fail again.
    Permanent(String),
    /// It may pass.
    Retryable(String),
    /// It may pass after this time, which the server names.
    Later(String, Duration),
    /// The request was sent, it may not be sent twice, and its outcome is unknown.
    InDoubt(String),
    /// There is no such thing.
    Empty,
}

#[allow(dead_code, reason = "as above")]
impl Trouble {
    /// It may pass; after this time, where the server names one.
    pub(crate) fn passing(message: String, after: Option<Duration>) -> Self {
        match after {
            Some(after) => Self::Later(message, after),
            None => Self::Retryable(message),
        }
    }

    /// It was no longer wanted.
    pub(crate) fn stopped() -> Self {
        Self::Retryable("the query was stopped".to_owned())
    }

    /// The same with another message.
    fn map(self, of: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Input(message) => Self::Input(of(message)),
            Self::Permanent(message) => Self::Permanent(of(message)),
            Self::Retryable(message) => Self::Retryable(of(message)),
            Self::Later(message, after) => Self::Later(of(message), after),
            Self::InDoubt(message) => Self::InDoubt(of(message)),
            Self::Empty => Self::Empty,
        }
    }

    /// The same without secrets.
    pub(crate) fn masked(self, mask: &Secrets) -> Self {
        self.map(|message| mask.mask_message(&message))
    }

    /// It in words.
    pub(crate) fn message(self) -> String {
        match self {
            Self::Input(message)
            | Self::Permanent(message)
            | Self::Retryable(message)
            | Self::Later(message, _)
            | Self::InDoubt(message) => message,
            Self::Empty => "nothing is there".to_owned(),
        }
    }

    /// The result that says so.
    pub(crate) fn result(self, name: &str, title: &str) -> ToolResult {
        match self {
            Self::Input(message) => ToolResult::invalid_input(name, title, message),
            Self::Permanent(message) => ToolResult::failed(name, title, message),
            Self::Retryable(message) => ToolResult::retryable(name, title, message),
            Self::Later(message, after) => {
                let says = format!("{message}; try again after {} s", after.as_secs().max(1));
                let retry_after_ms = u64::try_from(after.as_millis()).ok();
                ToolResult { retry_after_ms, ..ToolResult::failure(name, title, says, Failure::Retryable) }
            }
            Self::InDoubt(message) => ToolResult::in_doubt(name, title, message),
            Self::Empty => ToolResult::empty(name, title),
        }
    }
}
