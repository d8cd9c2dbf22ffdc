//! Errors of a call.

use std::sync::Arc;
use std::time::Duration;

use loop_core::types::{CallExtent, FailureKind, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A failed call: the kind, the phase, and whether the same call may succeed later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct LlmError {
    /// The kind of error.
    pub kind: FailureKind,
    /// How far the call had come.
    pub phase: ErrorPhase,
    /// Whether and when to retry.
    pub retry: RetryAdvice,
    /// One line for people, with secrets masked.
    pub message: Arc<str>,
    /// What was received of the reply. `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Box<Partial>>,
    /// Further details from the provider. `None`: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<ErrorDetail>>,
}

impl LlmError {
    /// An error with the retry advice of its kind.
    pub fn new(kind: FailureKind, phase: ErrorPhase, message: impl Into<Arc<str>>) -> Self {
        Self { kind, phase, retry: advice(kind), message: message.into(), partial: None, detail: None }
    }

    /// A request that is refused before it is sent.
    pub(crate) fn unsendable(kind: FailureKind, message: impl Into<Arc<str>>) -> Self {
        Self::new(kind, ErrorPhase::Encode, message)
    }

    /// A reply that ends with an error, or without its end.
    pub(crate) fn in_stream(kind: FailureKind, message: impl Into<Arc<str>>) -> Self {
        Self::new(kind, ErrorPhase::Stream, message)
    }

    /// A reply that cannot be parsed.
    pub(crate) fn unreadable(message: impl Into<Arc<str>>) -> Self {
        Self::in_stream(FailureKind::BadResponse, message)
    }

    /// The same error, for a call of which an earlier attempt may be billed. That attempt came as far as `extent`.
    pub(crate) fn after_a_billed_one(mut self, extent: CallExtent) -> Self {
        let detail = self.detail.get_or_insert_default();
        detail.may_be_billed = true;
        detail.may_have_begun |= extent != CallExtent::NoReply;
        self
    }

    /// Whether nothing was generated and nothing is billed: nothing was sent, or the server refused the call by its
    /// status before a model saw it.
    pub fn is_free(&self) -> bool {
        if self.detail.as_ref().is_some_and(|detail| detail.may_be_billed) {
            return false;
        }
        match (self.phase, self.detail.as_ref().and_then(|detail| detail.status)) {
            (ErrorPhase::Encode | ErrorPhase::Connect, _) => true,
            // 503 and 529 mean that the server was too busy to start.
            // A chat template refuses a request before a model sees it, and some servers say so with status 500.
            (ErrorPhase::Headers, Some(_)) if self.kind == FailureKind::InvalidRequest => true,
            (ErrorPhase::Headers, Some(status)) => matches!(status, 300..500 | 503 | 529),
            // Without a status it is unknown how far the server had come.
            (ErrorPhase::Headers, None) => false,
            (ErrorPhase::Stream, _) => false,
        }
    }

    /// Whether the same call may be repeated within its budget reserve, since the failed one is not charged. True for a
    /// [free](Self::is_free) call, and for an error status unless the cost mode is `strict`, where only reported usage
    /// releases a reserve.
    pub(crate) fn repeats_within_reserve(&self, strict: bool) -> bool {
        let has_status = self.phase == ErrorPhase::Headers && self.extent() == CallExtent::NoReply;
        self.is_free() || !strict && has_status
    }

    /// How far the call came, as far as the error shows: whether a model may have been at work.
    pub fn extent(&self) -> CallExtent {
        let detail = self.detail.as_deref();
        if detail.is_some_and(|detail| detail.may_have_begun) {
            return CallExtent::Open;
        }
        match (self.phase, self.kind) {
            (ErrorPhase::Encode | ErrorPhase::Connect, _) => CallExtent::NoReply,
            (ErrorPhase::Headers, _) if detail.is_some_and(|detail| detail.status.is_some()) => {
                CallExtent::NoReply
            }
            (
                _,
                FailureKind::Timeout
                | FailureKind::Connection
                | FailureKind::StreamInterrupted
                | FailureKind::Cancelled,
            )
            | (ErrorPhase::Headers, _) => CallExtent::Open,
            (ErrorPhase::Stream, FailureKind::BadResponse) if self.has_content() => CallExtent::Open,
            // An error that the provider sent in place of a reply.
            (ErrorPhase::Stream, _) if self.has_content() => CallExtent::Ended,
            (ErrorPhase::Stream, _) => CallExtent::NoReply,
        }
    }

    fn has_content(&self) -> bool {
        self.partial.as_ref().is_some_and(|it| !it.text.is_empty() || !it.reasoning.is_empty())
    }

    /// Whether the same call may succeed later, or a changed one at once.
    pub fn is_retryable(&self) -> bool {
        self.retry != RetryAdvice::Never
    }
}

/// Details of a failed call from the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorDetail {
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's request id, for its support.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<str>>,
    /// Whether an earlier attempt of the same call reached a model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_be_billed: bool,
    /// Whether a model may have been at work on an earlier attempt of the same call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_have_begun: bool,
    /// The tokens of a request that exceeds the context window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_tokens: Option<u64>,
    /// The context window that the request exceeds, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The provider's name of the content filter that refused the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Arc<str>>,
}

/// The partial reply of a failed call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// The visible text.
    pub text: Arc<str>,
    /// The reasoning, as far as the provider shows it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub reasoning: Arc<str>,
    /// The model that actually served the call, if the provider had reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
    /// Tokens of the whole reply, if the provider had reported them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Tokens that were reported before the end. They cover a part of the reply, so the provider bills at least these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_so_far: Option<Usage>,
}

impl Partial {
    /// Bytes of text and reasoning.
    pub fn bytes(&self) -> u64 {
        (self.text.len() + self.reasoning.len()) as u64
    }
}

/// How far a failed call had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorPhase {
    /// Nothing was sent.
    Encode,
    /// No connection was made.
    Connect,
    /// The response has an error status.
    Headers,
    /// The body broke off, or contains an error.
    Stream,
}

/// Whether and when to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAdvice {
    /// The same call would fail again.
    Never,
    /// After the delay that the provider requested.
    After(Duration),
    /// After a delay with backoff.
    Backoff,
    /// At once, with a changed request.
    AfterChange(RequestChange),
}

/// The change that a request needs before it is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestChange {
    /// Remove the reasoning of earlier turns.
    StripReasoning,
    /// Send the whole history, without provider-side state.
    RebuildState,
    /// Use the provider's other API.
    OtherApi,
    /// Add a message that tells the model what is wrong with its reply.
    Feedback,
    /// Leave the choice of tools to the model.
    LeaveToolChoice,
    /// Do not limit calls to one at a time.
    LeaveOneCall,
    /// Send late instructions as user messages, each after a turn of the model.
    InstructAsUser,
    /// Leave out every part that no answered request had, because the server does not name the part that it refuses.
    LeaveNew,
}

/// The default retry advice of a kind.
fn advice(kind: FailureKind) -> RetryAdvice {
    match kind {
        FailureKind::RateLimited
        | FailureKind::Overloaded
        | FailureKind::ServerError
        | FailureKind::Timeout
        | FailureKind::Connection
        | FailureKind::StreamInterrupted => RetryAdvice::Backoff,
        FailureKind::StaleReasoning => RetryAdvice::AfterChange(RequestChange::StripReasoning),
        FailureKind::StateLost => RetryAdvice::AfterChange(RequestChange::RebuildState),
        FailureKind::MalformedToolCall => RetryAdvice::AfterChange(RequestChange::Feedback),
        _ => RetryAdvice::Never,
    }
}
