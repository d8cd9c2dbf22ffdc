//! What came back from an action.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::data::Data;
use crate::types::defaults::is_default;
use crate::types::ids::Digest;
use crate::types::usage::{Received, Usage};

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It returned something.
    Ok,
    /// It found nothing; may be cited as evidence of absence.
    Empty,
    /// It failed and may succeed another time.
    RetryableError,
    /// It failed for good.
    PermanentError,
    /// The tool refused its arguments.
    InvalidInput,
    /// It answered with something that is no result.
    MalformedResult,
    /// Policy or a person refused it.
    Denied,
    /// It had been run before.
    Duplicate,
    /// It was not run because it was not important enough.
    Skipped,
    /// It took too long.
    Timeout,
    /// The run ended before it did.
    Cancelled,
    /// It is not ready; ask again later.
    Pending,
    /// It may or may not have happened.
    InDoubt,
}

impl Status {
    /// Whether a section may cite an observation of this status.
    pub fn is_citable(self) -> bool {
        matches!(self, Self::Ok | Self::Empty)
    }

    /// Whether the same call may be tried again.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RetryableError | Self::Timeout | Self::Cancelled | Self::Pending)
    }

    /// Whether it was not run at all: whatever is said of it is not the tool's.
    pub fn is_unrun(self) -> bool {
        match self {
            Self::Denied | Self::Duplicate | Self::Skipped => true,
            Self::Ok
            | Self::Empty
            | Self::RetryableError
            | Self::PermanentError
            | Self::InvalidInput
            | Self::MalformedResult
            | Self::Timeout
            | Self::Cancelled
            | Self::Pending
            | Self::InDoubt => false,
        }
    }

    /// The status as it is written, for example `permanent_error`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Empty => "empty",
            Self::RetryableError => "retryable_error",
            Self::PermanentError => "permanent_error",
            Self::InvalidInput => "invalid_input",
            Self::MalformedResult => "malformed_result",
            Self::Denied => "denied",
            Self::Duplicate => "duplicate",
            Self::Skipped => "skipped",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Pending => "pending",
            Self::InDoubt => "in_doubt",
        }
    }

    /// Whether a tool that ended like this failed, and another try would fail as well.
    pub(crate) fn is_permanent(self) -> bool {
        matches!(self, Self::PermanentError | Self::MalformedResult)
    }

    /// Whether a tool that ended like this has failed. What was refused, was cut off or is not ready has not, and neither
    /// has one whose arguments were wrong.
    pub(crate) fn is_failure(self) -> bool {
        match self {
            Self::RetryableError
            | Self::PermanentError
            | Self::MalformedResult
            | Self::Timeout
            | Self::InDoubt => true,
            Self::Ok
            | Self::Empty
            | Self::InvalidInput
            | Self::Denied
            | Self::Duplicate
            | Self::Skipped
            | Self::Cancelled
            | Self::Pending => false,
        }
    }
}

/// What went wrong, in no form: whoever shows it to a model or a person renders it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailureText {
    /// What failed, as people call it: the title of a tool, or its name.
    pub title: Arc<str>,
    /// A message that the model can act on (S0-67, S0-d4); it may have several lines, and may be a tool's own words.
    pub message: Arc<str>,
}

/// What came back from an action: a status, a line for people, Markdown for the model, data, a digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observation {
    /// How it ended.
    pub status: Status,
    /// One line for people and for the list of executed tools (S0-34).
    pub summary: Arc<str>,
    /// What the model reads, already cut to the domain's cap (S0-62, S0-123). Empty where `failure` says it all.
    pub markdown: Arc<str>,
    /// What went wrong, where no text of the tool's own stands in `markdown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureText>,
    /// The whole raw result as JSON text, opaque to the core.
    pub data: Data,
    /// Over the canonical data: equal results have equal digests.
    pub digest: Digest,
    /// What a smart tool's sub-call used, if it made one (S0-119).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_call: Option<SubCallUse>,
    /// Of a tool that is not ready: milliseconds after which to ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Things a person should know that change nothing, such as what was cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Arc<str>>,
}

impl Observation {
    /// An observation whose digest follows from `data`, a JSON text.
    pub fn new(
        status: Status,
        summary: impl Into<Arc<str>>,
        markdown: impl Into<Arc<str>>,
        data: impl Into<Data>,
    ) -> Self {
        let data = data.into();
        let digest = data.digest();
        Self {
            status,
            summary: summary.into(),
            markdown: markdown.into(),
            failure: None,
            data,
            digest,
            sub_call: None,
            retry_after_ms: None,
            warnings: Vec::new(),
        }
    }

    /// The text that came back, in no form: what a tool wrote for the model, or what went wrong.
    pub fn text(&self) -> &Arc<str> {
        self.failure.as_ref().map_or(&self.markdown, |failure| &failure.message)
    }

    /// What names the Markdown, where that is the data itself and [`digest`](Self::digest) names both.
    pub fn markdown_digest(&self) -> Option<Digest> {
        let text = self.data.as_text()?;
        let is_same = Arc::ptr_eq(text, &self.markdown) || *text == self.markdown;
        is_same.then_some(self.digest)
    }

    /// An observation of a failure: no data, and a text that the model can act on (S0-67, S0-d4).
    pub fn failed(status: Status, tool: &str, message: &str) -> Self {
        let failure = FailureText { title: tool.into(), message: message.into() };
        Self { failure: Some(failure), ..Self::new(status, message, "", "null") }
    }
}

/// What a smart tool's call to a model used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubCallUse {
    /// Whether the call returned an answer that was used; the code fallback was taken otherwise.
    pub answered: bool,
    /// Tokens, or `None` when the provider did not say: then they are estimated from what was received.
    pub usage: Option<Usage>,
    /// What was received.
    #[serde(default, skip_serializing_if = "is_default")]
    pub received: Received,
    /// The model that served, as the provider says; `None` where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
}

impl SubCallUse {
    /// A call of which nothing is known but what the provider reported.
    pub fn new(answered: bool, usage: Option<Usage>) -> Self {
        Self { answered, usage, received: Received::default(), served_model: None }
    }
}
