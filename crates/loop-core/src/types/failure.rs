//! Model failures: the kind decides whether the call is retried, and on which route.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::types::defaults::is_default;
use crate::types::ids::Millis;
use crate::types::usage::{CallExtent, Receipt, Usage};

/// How a call to a model failed. The driver reports it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelFailure {
    /// The kind of failure. The core decides on it alone.
    pub kind: FailureKind,
    /// One line for people, without secrets. Never read for a decision.
    pub message: Arc<str>,
    /// Whether the provider or the client says that the same call may succeed later. The core tries again only where
    /// the [kind](FailureKind::may_pass) permits it as well.
    pub retryable: bool,
    /// The earliest instant of another try, where the provider named one. `None`: the core's own delay applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Millis>,
    /// The visible text received before the failure. `None`: nothing visible was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Arc<str>>,
    /// The model that served until the failure, as the provider reports it. `None`: not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
    /// Tokens as reported; zero where nothing was sent. `None`: they are estimated from [`received`](Self::received).
    pub usage: Option<Usage>,
    /// What was received of the reply. A call without reported usage is estimated from it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub received: Receipt,
    /// The part of the request that the provider refuses, where the call can be made without it: the part that it names,
    /// or, where it names none, one that no answered request of the run had. `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RequestPart>,
}

/// A part of a request that some providers refuse and that a run can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestPart {
    /// The choice among the tools. Without it the model chooses.
    ToolChoice,
    /// The limit of one call at a time.
    OneCall,
    /// The role and the place of an instruction behind the first message. Without them it is a user's message after a
    /// turn of the model.
    LateInstruction,
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

    /// Whether the connection was lost after the request was sent, or the reply broke off. Such a call may be charged,
    /// so the client does not retry it and the core decides.
    pub(crate) fn was_lost(&self) -> bool {
        match self.kind {
            FailureKind::StreamInterrupted => true,
            FailureKind::Connection => self.received.extent == CallExtent::Open && self.usage.is_none(),
            _ => false,
        }
    }

    /// Whether the same call may be retried.
    pub(crate) fn may_pass(&self) -> bool {
        self.retryable && self.kind.may_pass()
    }
}

/// The kind of a model failure, `snake_case` in JSON.
///
/// The first group is about the request, the second about the provider or the connection to it, the third about the
/// reply. The last group is set by the driver or the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum FailureKind {
    /// The request is malformed, or asks for something that no model accepts.
    InvalidRequest,
    /// The model lacks a capability that the request needs, for example tools.
    Unsupported,
    /// The request has more bytes than the provider accepts in one request.
    RequestTooLarge,
    /// The request has more tokens than the model's context.
    ContextTooLong,
    /// The provider no longer accepts the reasoning of an earlier turn that the request sends back.
    StaleReasoning,
    /// The provider no longer has stored state that the request refers to.
    StateLost,
    /// A content filter of the provider refused the request.
    ContentFilter,

    /// The credential is missing or invalid.
    Auth,
    /// The credential is valid and lacks a permission.
    Permission,
    /// The provider does not offer the model.
    ModelNotFound,
    /// The provider reports a billing problem of the account.
    Billing,
    /// The account's quota is used up. Another try within the run does not help.
    QuotaExhausted,
    /// The provider limits the rate of calls. A later try may succeed.
    RateLimited,
    /// The provider is overloaded. A later try may succeed.
    Overloaded,
    /// The provider reports an error of its own.
    ServerError,
    /// The call exceeded its time limit.
    Timeout,
    /// No connection to the provider was established.
    Connection,
    /// The connection broke, or the stream ended without its last event.
    StreamInterrupted,
    /// The response does not follow the provider's protocol.
    BadResponse,
    /// A scripted or recorded model has no reply left.
    ScriptExhausted,

    /// The provider reports that the model wrote a tool call that cannot be read.
    MalformedToolCall,
    /// The reply has a native tool call and nothing else, in a protocol without native calls.
    UnexpectedToolCall,
    /// The reply has neither text nor calls, and no reason for that.
    EmptyResponse,
    /// The reply was cut at its output limit before any of it was visible, because reasoning used all of it.
    OutputLimit,

    /// The caller cancelled the call.
    Cancelled,
    /// The program ended while the call ran, on each try. Set by the core.
    Lost,
}

impl FailureKind {
    /// Every kind, in order of declaration.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Whether the failure is the provider's or the connection's and not the request's. The same call may then succeed
    /// on another route.
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

    /// Whether a retry may succeed. If not, the call is not retried, whatever the provider says.
    pub fn may_pass(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::Overloaded
                | Self::ServerError
                | Self::Timeout
                | Self::Connection
                | Self::StreamInterrupted
                | Self::BadResponse
                | Self::MalformedToolCall
                | Self::EmptyResponse
        )
    }

    /// The kind's name in JSON, for example `rate_limited`.
    pub fn name(self) -> &'static str {
        self.into()
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
