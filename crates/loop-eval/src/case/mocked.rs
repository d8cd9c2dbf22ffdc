//! What the calls of a mocked tool bring.

use loop_core::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a call of a mocked tool ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MockStatus {
    /// It brings something.
    #[default]
    Ok,
    /// It finds nothing.
    Empty,
    /// It fails, and the same call may succeed another time (S4-58).
    RetryableError,
    /// It fails for good.
    #[serde(alias = "error", alias = "failed")]
    PermanentError,
    /// It refuses its arguments.
    InvalidInput,
    /// It answers with something that is no result (S4-51).
    MalformedResult,
    /// It takes too long.
    Timeout,
    /// It is not ready; the loop asks again after `retry_after_ms`.
    Pending,
    /// The tool's program breaks down.
    Panic,
}

/// What one call of a mocked tool brings. Calls take their outcomes in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MockedOutcome {
    /// How it ends. Default: `ok`.
    pub status: MockStatus,
    /// Of a failure: why, for the model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Of a success: the result for programs. Without `markdown` the model reads it as it is, a list of objects as a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// What the model reads. Default: made from `data`, or from `reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    /// One line for people. Default: made from the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Milliseconds before it ends. Default: 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// Of `pending`: milliseconds after which to ask again. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The parameters of the calls that it is for. Default: it is for any call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Map<String, Value>>,
    /// Whether it serves every further call. Default: false, it serves one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeats: bool,
}

impl MockStatus {
    /// The status that a recorded observation had, as far as a tool brings it about itself.
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
