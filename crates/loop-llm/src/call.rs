//! Reasons for the end of a reply, and arguments of calls.

use std::sync::Arc;

use loop_core::reply::FinishReason;
use loop_core::types::Arguments;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments as a JSON object: unchanged if they are one, otherwise an object that contains them. For providers that
/// accept only objects.
pub(crate) fn object_text(arguments: &Arguments) -> Arc<str> {
    if arguments.trim().is_empty() {
        return "{}".into();
    }
    match arguments.object() {
        Ok(_) => Arc::clone(arguments.text()),
        Err(_) => serde_json::json!({"unreadable_arguments": &**arguments}).to_string().into(),
    }
}

/// The arguments as the model wrote them. Some servers parse those of earlier calls, and an empty text is not valid JSON.
pub(crate) fn written_arguments(arguments: &Arguments) -> &str {
    if arguments.trim().is_empty() { "{}" } else { arguments }
}

/// Why a reply ended, more finely than [`FinishReason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyEnd {
    /// The model ended its turn.
    EndTurn,
    /// The model calls tools.
    ToolUse,
    /// The reply was cut at the output limit.
    MaxTokens,
    /// The reply was cut at the end of the model's context window.
    ContextWindow,
    /// This client cut the reply, because it went far beyond the output limit: see
    /// [`OutputCap`](crate::cap::OutputCap).
    Capped,
    /// The reply reached a stop sequence of the request.
    StopSequence,
    /// The model refused the work.
    Refusal,
    /// A content filter of the provider stopped the reply.
    ContentFilter,
    /// The provider paused while it ran its own tools. To continue, send the same turns with this one appended.
    PauseTurn,
    /// The provider compacted the earlier turns.
    Compaction,
    /// The reply announces tool calls, and none of them can be parsed.
    MalformedToolCall,
    /// The reply ended normally with neither text nor calls. It never counts as a success.
    Empty,
    /// The provider gives a reason that this crate does not know.
    Other,
}

impl ReplyEnd {
    /// The reason as the loop's [`FinishReason`].
    pub fn finish(self) -> FinishReason {
        match self {
            Self::EndTurn | Self::StopSequence => FinishReason::EndTurn,
            Self::ToolUse => FinishReason::ToolUse,
            Self::MaxTokens | Self::ContextWindow => FinishReason::MaxTokens,
            Self::Capped => FinishReason::Capped,
            Self::Refusal => FinishReason::Refusal,
            Self::ContentFilter => FinishReason::Filtered,
            Self::PauseTurn | Self::Compaction | Self::MalformedToolCall | Self::Empty | Self::Other => {
                FinishReason::Other
            }
        }
    }
}

impl From<FinishReason> for ReplyEnd {
    fn from(finish: FinishReason) -> Self {
        match finish {
            FinishReason::EndTurn => Self::EndTurn,
            FinishReason::ToolUse => Self::ToolUse,
            FinishReason::MaxTokens => Self::MaxTokens,
            FinishReason::Capped => Self::Capped,
            FinishReason::Refusal => Self::Refusal,
            FinishReason::Filtered => Self::ContentFilter,
            FinishReason::Other => Self::Other,
        }
    }
}

/// Which part of a call a content filter stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Filtered {
    /// The request.
    Input,
    /// The reply.
    Output,
}
