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
    /// It was done.
    EndTurn,
    /// It wants tools run.
    ToolUse,
    /// It was cut at the output limit.
    MaxTokens,
    /// It was cut where the model's window ends.
    ContextWindow,
    /// Our own cap cut it: it had gone on far beyond the output limit. See [`OutputCap`](crate::cap::OutputCap).
    Capped,
    /// It came to one of the texts at which it was to end.
    StopSequence,
    /// The model refused.
    Refusal,
    /// A filter stopped it.
    ContentFilter,
    /// The provider paused in the middle of its own tools: the same turns with this one go on with it.
    PauseTurn,
    /// The provider has made the history shorter.
    Compaction,
    /// It says that it calls tools, and names none that can be read.
    MalformedToolCall,
    /// It ended by itself without saying anything: never a success.
    Empty,
    /// For a reason that is not known here.
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

/// Which side of a call a filter stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Filtered {
    /// What was sent.
    Input,
    /// What was being replied.
    Output,
}
