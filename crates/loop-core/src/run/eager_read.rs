//! Reads that start before their reply is complete, and why they do not start or are not used.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::{Arguments, CommandKey, Observation};

/// A read that was started before its reply was complete.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EagerRead {
    /// The key of its action, under which it runs.
    pub key: CommandKey,
    /// The try of the action, from 1.
    pub attempt: u32,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The parameters that it runs with, as the gate rebuilds them.
    pub parameters: Arguments,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// The arguments as the model wrote them.
    pub arguments: Arguments,
    /// Its result. `None`: it has not settled.
    pub observation: Option<Arc<Observation>>,
}

/// An eager read whose result was not used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DroppedRead {
    /// The key under which it ran. An action of a later reply may have the same key.
    pub key: CommandKey,
    /// The try under which it ran, from 1.
    pub attempt: u32,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The parameters that it ran with.
    pub parameters: Arguments,
    /// Whether the tool had returned. Otherwise it was cancelled.
    pub finished: bool,
    /// The reason.
    pub why: DropReason,
}

/// Why the result of an eager read is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The model call failed, or its reply cannot be used.
    CallFailed,
    /// The complete reply has another call in its place, or none.
    CallChanged,
    /// The gate did not admit the action.
    NotAdmitted,
    /// The run stopped before the reply was complete.
    Stopped,
    /// The driver ended before the reply was complete.
    Lost,
}

impl DropReason {
    /// The reason in one line, for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::CallFailed => "the model call failed",
            Self::CallChanged => "the complete reply does not have this call there",
            Self::NotAdmitted => "the gate did not admit the action",
            Self::Stopped => "the run stopped before the reply was complete",
            Self::Lost => "the program ended before the reply was complete",
        }
    }
}

/// Why a call does not start before its reply is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEager {
    /// `gate.eager` is off, the cost mode is `strict`, or the protocol has no native calls.
    #[error("eager reads are off")]
    Off,
    /// The reply of no such call is being received, or the call is not a main call.
    #[error("no reply of such a main call is being received")]
    NoReply,
    /// The tool is unknown, does more than read, may ask a model, or does not declare itself cheap.
    #[error("its tool is not a read that declares itself cheap")]
    Tool,
    /// The reads that were dropped so far use up the limit of tool calls.
    #[error("no tool call is left for it (limits.tool_calls)")]
    Limit,
    /// The gate would not run it now.
    #[error("the gate would not run it now")]
    Refused,
    /// A call before it has to settle first. The call may be asked about again after that.
    #[error("a call before it has to settle first")]
    Waits,
}
