//! The results of mocked tools in a case.

use loop_core::types::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a call of a mocked tool ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MockStatus {
    /// It returns a result.
    #[default]
    Ok,
    /// It finds nothing.
    Empty,
    /// It fails, and the same call may succeed another time.
    RetryableError,
    /// It fails permanently. `error` means the same, as S3's results are written.
    #[serde(alias = "error")]
    PermanentError,
    /// It rejects its arguments.
    InvalidInput,
    /// It returns something that is not a result of the agreed form.
    MalformedResult,
    /// It exceeds its time limit.
    Timeout,
    /// It is not ready. The loop asks again after `retry_after_ms`.
    Pending,
    /// Its code panics.
    Panic,
}

/// What one call of a mocked tool returns. Calls take their outcomes in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[serde(expecting = "an object such as `{ \"status\": \"ok\" }`")]
pub struct MockedOutcome {
    /// How the call ends. Default: `ok`.
    pub status: MockStatus,
    /// For a failure: the reason, for the model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For a success: the result for programs. Without `markdown` the model reads it as it is, a list of objects as a
    /// table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// What the model reads. Default: made from `data`, or from `reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    /// One line for people. Default: made from the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Milliseconds before the call ends. Default: 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// For `pending`: milliseconds after which to ask again. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The parameters of the calls that get this outcome. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Map<String, Value>>,
    /// Whether every further call gets it too. Default: false, only one call does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeats: bool,
}

impl MockStatus {
    /// The mock status of a recorded observation. `None`: a tool cannot cause it.
    pub(crate) fn of(status: Status) -> Option<Self> {
        match status {
            Status::Ok => Some(Self::Ok),
            Status::Empty => Some(Self::Empty),
            Status::RetryableError => Some(Self::RetryableError),
            Status::PermanentError => Some(Self::PermanentError),
            Status::InvalidInput => Some(Self::InvalidInput),
            Status::MalformedResult => Some(Self::MalformedResult),
            Status::Timeout => Some(Self::Timeout),
            Status::Pending => Some(Self::Pending),
            Status::Denied | Status::Duplicate | Status::Skipped | Status::Cancelled | Status::InDoubt => {
                None
            }
        }
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}
