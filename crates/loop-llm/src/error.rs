//! What can go wrong with a call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use loop_core::Usage;

/// A call that failed: what, when, and whether the same call may succeed later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct LlmError {
    /// What failed.
    pub kind: LlmErrorKind,
    /// How far the call had come.
    pub phase: ErrorPhase,
    /// Whether to try again, and when.
    pub retry: RetryAdvice,
    /// One line for people, secrets masked.
    pub message: Arc<str>,
    /// What had come until then.
    pub partial: Option<Partial>,
    /// What else was told.
    pub detail: Option<Box<ErrorDetail>>,
}

impl LlmError {
    /// An error with the advice that its kind gives.
    pub fn new(kind: LlmErrorKind, phase: ErrorPhase, message: impl Into<Arc<str>>) -> Self {
        let retry = if kind.is_transient() { RetryAdvice::Backoff } else { RetryAdvice::Never };
        Self { kind, phase, retry, message: message.into(), partial: None, detail: None }
    }

    /// The same error with a finer cause.
    pub fn with_cause(mut self, cause: ErrorCause) -> Self {
        self.detail.get_or_insert_default().cause = Some(cause);
        self
    }

    /// The finer cause, where it was told.
    pub fn cause(&self) -> Option<ErrorCause> {
        self.detail.as_ref()?.cause
    }

    /// Whether nothing was generated and nothing is billed: nothing was sent, or the server refused the call by its
    /// status before a model saw it.
    pub fn is_free(&self) -> bool {
        match (self.phase, self.detail.as_ref().and_then(|detail| detail.status)) {
            (ErrorPhase::Encode | ErrorPhase::Connect, _) => true,
            // 503 and 529 are what a server says that is too busy to begin.
            (ErrorPhase::Headers, Some(status)) => matches!(status, 300..500 | 503 | 529),
            // Without a status nobody knows how far the server had come.
            (ErrorPhase::Headers, None) => false,
            (ErrorPhase::Stream, _) => false,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.retry != RetryAdvice::Never
    }
}

/// What else a provider told of a failed call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorDetail {
    /// The finer cause.
    pub cause: Option<ErrorCause>,
    /// The status of the response.
    pub status: Option<u16>,
    /// The provider's id of the call, for its support.
    pub request: Option<Arc<str>>,
}

/// The finer cause of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCause {
    /// The quota or the money is used up: time alone does not help.
    QuotaExhausted,
    /// The credential is right, and not enough.
    Permission,
    /// The request is larger than the provider takes at once.
    RequestTooLarge,
    /// A filter refused the request.
    ContentFilter,
    /// The model wrote a tool call that the provider could not read.
    MalformedToolCall,
    /// The model does not offer what was asked for.
    Unsupported,
    /// The model takes tools only on the provider's other interface.
    OtherInterface,
    /// The request does not fit: tokens, as far as they were told.
    Context {
        /// How many it has.
        used: Option<u64>,
        /// How many there may be.
        max: Option<u64>,
    },
}

/// What had come before a call failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    /// Visible text.
    pub text: Arc<str>,
    /// Tokens, where the provider had said so.
    pub usage: Option<Usage>,
}

/// Kinds of failure, by who can act: caller, operator, time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LlmErrorKind {
    /// The request is not one that can be answered.
    InvalidRequest,
    /// The credential is missing or wrong.
    Auth,
    /// No such model.
    ModelNotFound,
    /// The request does not fit into the model.
    ContextTooLong,
    /// Too many calls.
    RateLimited,
    /// The provider is busy.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// It took too long.
    Timeout,
    /// No connection.
    Connection,
    /// The reply stopped midway.
    StreamInterrupted,
    /// The reply cannot be decoded.
    BadResponse,
    /// A script has no reply left.
    ScriptExhausted,
    /// The caller ended it.
    Cancelled,
}

impl LlmErrorKind {
    /// The kind as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::Auth => "auth",
            Self::ModelNotFound => "model_not_found",
            Self::ContextTooLong => "context_too_long",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::StreamInterrupted => "stream_interrupted",
            Self::BadResponse => "bad_response",
            Self::ScriptExhausted => "script_exhausted",
            Self::Cancelled => "cancelled",
        }
    }

    fn is_transient(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::Overloaded
                | Self::ServerError
                | Self::Timeout
                | Self::Connection
                | Self::StreamInterrupted
        )
    }
}

impl fmt::Display for LlmErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far a failed call had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorPhase {
    /// Nothing was sent.
    Encode,
    /// No connection was made.
    Connect,
    /// The status said no.
    Headers,
    /// The body broke off, or said no.
    Stream,
}

/// Whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// The same call fails again.
    Never,
    /// After as long as the provider said.
    After(Duration),
    /// After a while.
    Backoff,
}
