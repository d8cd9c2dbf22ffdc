//! The result of an action.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::data::Data;
use crate::types::defaults::is_default;
use crate::types::ids::Digest;
use crate::types::lease::ChildUse;
use crate::types::usage::{Receipt, Usage};

/// How an action ended. The tool, the registry, the driver or the gate sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The tool returned a result.
    Ok,
    /// The tool found nothing. It may be cited as evidence of absence.
    Empty,
    /// The tool failed in a retryable way. The core may retry the call.
    RetryableError,
    /// The tool failed permanently. The same call is not retried.
    PermanentError,
    /// The tool, or the full check of its schema, refused the arguments.
    InvalidInput,
    /// The tool returned something that is not a result of the agreed form.
    MalformedResult,
    /// Policy or an approver denied the call.
    Denied,
    /// The same call had been run before. Its earlier result is named.
    Duplicate,
    /// The call was not run because its priority is `nice_to_have`.
    Skipped,
    /// The tool exceeded its time limit.
    Timeout,
    /// The run stopped before the tool ended.
    Cancelled,
    /// The result is not ready. The call may be repeated later.
    Pending,
    /// The effect was begun, and whether it happened is unknown.
    InDoubt,
}

impl Status {
    /// Whether a section may cite an observation of this status.
    pub fn is_citable(self) -> bool {
        matches!(self, Self::Ok | Self::Empty)
    }

    /// Whether the same call may be retried.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RetryableError | Self::Timeout | Self::Cancelled | Self::Pending)
    }

    /// Whether the call was not run, so that its text is the loop's and not the tool's.
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

    /// The status's name in JSON, for example `permanent_error`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the status is a permanent failure: a retry would fail as well.
    pub(crate) fn is_permanent(self) -> bool {
        matches!(self, Self::PermanentError | Self::MalformedResult)
    }

    /// Whether the status is a failure of the tool. A denied, cancelled or pending call is not, nor is one with invalid
    /// arguments.
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

/// A failure in plain text. The code that shows it to a model or a person renders it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailureText {
    /// What failed, in words for people: the tool's title, or its name where it has no title.
    pub title: Arc<str>,
    /// What is wrong, so that the model can correct its call. It may have several lines, and it may be a tool's own
    /// words.
    pub message: Arc<str>,
}

/// What an action returned: a status, a line for people, Markdown for the model, data, a digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observation {
    /// How the action ended.
    pub status: Status,
    /// One line for people and for the list of executed tools.
    pub summary: Arc<str>,
    /// What the model reads, already cut to `limits.markdown_chars`. Empty where `failure` holds the text.
    pub markdown: Arc<str>,
    /// The failure in plain text. `None`: the action succeeded, or the tool's own text in `markdown` says what
    /// failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureText>,
    /// The whole raw result as JSON text, opaque to the core. It is not cut.
    pub data: Data,
    /// The digest of the canonical data. Equal results have equal digests.
    pub digest: Digest,
    /// What a smart tool's sub-call used. `None`: it made no sub-call. Boxed because few calls have one, and a run keeps
    /// every observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_call: Option<Box<SubCallUse>>,
    /// What the run used that was called as a tool. `None`: the tool is not a run, or it did not begin or settle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Box<ChildUse>>,
    /// For a pending result: milliseconds after which the tool asks to be called again. `None`: it names no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Lines for people about things that change nothing, such as what was cut. Empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Arc<str>>,
    /// What of the result only a model that takes pictures can read. Each is named in `markdown`. Empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<ResultPicture>,
}

/// A picture, opaque to the core.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResultPicture {
    /// For example `image/png`.
    pub media_type: Arc<str>,
    /// Its bytes in Base64.
    pub base64: Arc<str>,
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
            child: None,
            retry_after_ms: None,
            warnings: Vec::new(),
            pictures: Vec::new(),
        }
    }

    /// The text without a rendering: the tool's text for the model, or the failure's message.
    pub fn text(&self) -> &Arc<str> {
        self.failure.as_ref().map_or(&self.markdown, |failure| &failure.message)
    }

    /// The digest of the Markdown, if the Markdown is the data itself. `None`: it is another text.
    pub fn markdown_digest(&self) -> Option<Digest> {
        let text = self.data.as_text()?;
        let is_same = Arc::ptr_eq(text, &self.markdown) || *text == self.markdown;
        is_same.then_some(self.digest)
    }

    /// A failed observation: no data, and a message that the model can act on.
    pub fn failed(status: Status, tool: &str, message: &str) -> Self {
        let failure = FailureText { title: tool.into(), message: message.into() };
        Self { failure: Some(failure), ..Self::new(status, message, "", "null") }
    }
}

/// What a smart tool's call to a model used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubCallUse {
    /// Whether the call returned an answer that the tool used. False: the tool used its code fallback.
    pub answered: bool,
    /// Tokens as reported. `None`: not reported, so they are estimated from [`received`](Self::received).
    pub usage: Option<Usage>,
    /// What was received of the reply.
    #[serde(default, skip_serializing_if = "is_default")]
    pub received: Receipt,
    /// The model that served, as the provider reports it. `None`: not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
}

impl SubCallUse {
    /// A sub-call with this usage and no other data.
    pub fn new(answered: bool, usage: Option<Usage>) -> Self {
        Self { answered, usage, received: Receipt::default(), served_model: None }
    }
}
