//! How a call to a model failed: the kind decides whether it is tried again, and where.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::defaults::is_default;
use crate::types::ids::Millis;
use crate::types::usage::{CallExtent, Received, Usage};

/// How a call to a model failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelFailure {
    /// What kind of failure: the core decides on it.
    pub kind: FailureKind,
    /// One line for people; never a secret.
    pub message: Arc<str>,
    /// Whether the provider, or the client that spoke to it, holds that the same call may succeed later. The core
    /// tries again only where the [kind](FailureKind::may_pass) permits it too.
    pub retryable: bool,
    /// Not before this instant, where the provider named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Millis>,
    /// The visible text that came before the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Arc<str>>,
    /// The model that served until then, where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
    /// Tokens as reported; zero where nothing was sent. `None`: they are estimated from what was received.
    pub usage: Option<Usage>,
    /// What was received, by which a call without reported usage is estimated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub received: Received,
}

impl ModelFailure {
    /// Bytes of the reply that are known to have been received.
    pub fn known_bytes(&self) -> u64 {
        let partial = self.partial.as_ref().map_or(0, |partial| partial.len());
        self.received.bytes.max(partial as u64)
    }

    /// Kind and message in a line, for example `overloaded: try later`.
    pub fn line(&self) -> Arc<str> {
        format!("{}: {}", self.kind, self.message).into()
    }

    /// Whether the connection was lost after the request was sent, or the reply broke off after it had begun. A client tries
    /// again what costs nothing; such a call may be billed, and is left to the core.
    pub(crate) fn was_lost(&self) -> bool {
        match self.kind {
            FailureKind::StreamInterrupted => true,
            FailureKind::Connection => self.received.extent == CallExtent::Open && self.usage.is_none(),
            _ => false,
        }
    }

    /// Whether the same call may be made again.
    pub(crate) fn may_pass(&self) -> bool {
        self.retryable && self.kind.may_pass()
    }
}

/// What kind of failure ended a call to a model, `snake_case` on the wire.
///
/// The first group says something about the request, the second about the provider or the way to it, the third about
/// the reply; the last one is of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The request is not one that can be answered.
    InvalidRequest,
    /// The model does not offer what was asked for.
    Unsupported,
    /// The request is larger than the provider takes at once.
    RequestTooLarge,
    /// The request does not fit into the model.
    ContextTooLong,
    /// Reasoning of an earlier turn is not accepted any more.
    StaleReasoning,
    /// The provider has forgotten what the request builds on.
    StateLost,
    /// A filter refused the request.
    ContentFilter,

    /// The credential is missing or wrong.
    Auth,
    /// The credential is right, and not enough.
    Permission,
    /// The provider has no such model.
    ModelNotFound,
    /// The account cannot pay.
    Billing,
    /// The quota is used up: waiting for a moment does not help.
    QuotaExhausted,
    /// Too many calls.
    RateLimited,
    /// The provider is busy.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// The call took too long.
    Timeout,
    /// No connection was made.
    Connection,
    /// The connection broke, or the reply ended before its end.
    StreamInterrupted,
    /// The reply cannot be decoded.
    BadResponse,
    /// A script or a recording has no reply left.
    ScriptExhausted,

    /// The model wrote a tool call that cannot be read.
    MalformedToolCall,
    /// The reply calls a tool natively, and says nothing else, where the protocol offers no native calls.
    UnexpectedToolCall,
    /// The reply says nothing, and nothing says why.
    EmptyResponse,
    /// The reply was cut at its output limit before any of it was visible: reasoning used all of it.
    OutputLimit,

    /// The caller ended the call.
    Cancelled,
    /// The program ended while the call ran, each time.
    Lost,
}

impl FailureKind {
    /// Every kind, in the order in which they are declared here.
    pub const ALL: [Self; 26] = [
        Self::InvalidRequest,
        Self::Unsupported,
        Self::RequestTooLarge,
        Self::ContextTooLong,
        Self::StaleReasoning,
        Self::StateLost,
        Self::ContentFilter,
        Self::Auth,
        Self::Permission,
        Self::ModelNotFound,
        Self::Billing,
        Self::QuotaExhausted,
        Self::RateLimited,
        Self::Overloaded,
        Self::ServerError,
        Self::Timeout,
        Self::Connection,
        Self::StreamInterrupted,
        Self::BadResponse,
        Self::ScriptExhausted,
        Self::MalformedToolCall,
        Self::UnexpectedToolCall,
        Self::EmptyResponse,
        Self::OutputLimit,
        Self::Cancelled,
        Self::Lost,
    ];

    /// Whether the failure says something about the provider or the way to it, and nothing about what it was asked: then
    /// the same call may succeed on another route.
    pub fn blames_route(self) -> bool {
        match self {
            Self::RequestTooLarge
            | Self::Auth
            | Self::Permission
            | Self::ModelNotFound
            | Self::Billing
            | Self::QuotaExhausted
            | Self::RateLimited
            | Self::Overloaded
            | Self::ServerError
            | Self::Timeout
            | Self::Connection
            | Self::StreamInterrupted
            | Self::BadResponse
            | Self::ScriptExhausted => true,
            Self::InvalidRequest
            | Self::Unsupported
            | Self::ContextTooLong
            | Self::StaleReasoning
            | Self::StateLost
            | Self::ContentFilter
            | Self::MalformedToolCall
            | Self::UnexpectedToolCall
            | Self::EmptyResponse
            | Self::OutputLimit
            | Self::Cancelled
            | Self::Lost => false,
        }
    }

    /// Whether the same call may succeed later. Where not, it is not repeated, whatever the provider says.
    pub fn may_pass(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Overloaded
            | Self::ServerError
            | Self::Timeout
            | Self::Connection
            | Self::StreamInterrupted
            | Self::BadResponse
            | Self::MalformedToolCall
            | Self::EmptyResponse => true,
            Self::InvalidRequest
            | Self::Unsupported
            | Self::RequestTooLarge
            | Self::ContextTooLong
            | Self::StaleReasoning
            | Self::StateLost
            | Self::ContentFilter
            | Self::Auth
            | Self::Permission
            | Self::ModelNotFound
            | Self::Billing
            | Self::QuotaExhausted
            | Self::ScriptExhausted
            | Self::UnexpectedToolCall
            | Self::OutputLimit
            | Self::Cancelled
            | Self::Lost => false,
        }
    }

    /// The kind as it is written, for example `rate_limited`.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::Unsupported => "unsupported",
            Self::RequestTooLarge => "request_too_large",
            Self::ContextTooLong => "context_too_long",
            Self::StaleReasoning => "stale_reasoning",
            Self::StateLost => "state_lost",
            Self::ContentFilter => "content_filter",
            Self::Auth => "auth",
            Self::Permission => "permission",
            Self::ModelNotFound => "model_not_found",
            Self::Billing => "billing",
            Self::QuotaExhausted => "quota_exhausted",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::StreamInterrupted => "stream_interrupted",
            Self::BadResponse => "bad_response",
            Self::ScriptExhausted => "script_exhausted",
            Self::MalformedToolCall => "malformed_tool_call",
            Self::UnexpectedToolCall => "unexpected_tool_call",
            Self::EmptyResponse => "empty_response",
            Self::OutputLimit => "output_limit",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_as_they_are_named() {
        for kind in FailureKind::ALL {
            let written = serde_json::to_string(&kind).unwrap_or_default();
            assert_eq!(written, format!("\"{}\"", kind.name()));
        }
    }
}
