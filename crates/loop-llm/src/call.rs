//! What a reply asks for, and how it ended.

use std::sync::Arc;

use loop_core::FinishReason;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A tool that a model wants run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the reply; its result names it.
    pub id: Arc<str>,
    /// The tool's name as the request gave it.
    pub name: Arc<str>,
    /// What it is to be run with.
    pub arguments: Arguments,
}

/// The arguments of a call, checked for being an object and for nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON object.
    Object {
        /// The object.
        value: Map<String, Value>,
        /// The text as it was received; empty text stands for an empty object.
        text: Arc<str>,
    },
    /// No JSON, or no object: to be answered with an error result.
    Invalid {
        /// The text as it was received.
        text: Arc<str>,
        /// What is wrong, for the model.
        error: Arc<str>,
    },
}

impl Arguments {
    /// Reads what a model wrote. Blank text is an empty object.
    pub fn read(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        if text.trim().is_empty() {
            return Self::Object { value: Map::new(), text };
        }
        match serde_json::from_str(&text) {
            Ok(Value::Object(value)) => Self::Object { value, text },
            Ok(_) => Self::Invalid { text, error: "the arguments are no JSON object".into() },
            Err(error) => {
                Self::Invalid { text, error: format!("the arguments are not JSON: {error}").into() }
            }
        }
    }

    /// The text as it was received.
    pub fn text(&self) -> &Arc<str> {
        match self {
            Self::Object { text, .. } | Self::Invalid { text, .. } => text,
        }
    }
}

/// Why a reply ended, more finely than [`FinishReason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It was done.
    EndTurn,
    /// It wants tools run.
    ToolUse,
    /// It was cut at the output limit.
    MaxTokens,
    /// It was cut where the model's window ends.
    ContextWindow,
    /// The model refused.
    Refusal,
    /// A filter stopped it.
    ContentFilter,
    /// It says that it calls tools, and names none that can be read.
    MalformedToolCall,
    /// It ended by itself without saying anything: never a success.
    Empty,
    /// For a reason that is not known here.
    Other,
}

impl Stop {
    /// The reason in the loop's terms.
    pub fn finish(self) -> FinishReason {
        match self {
            Self::EndTurn => FinishReason::EndTurn,
            Self::ToolUse => FinishReason::ToolUse,
            Self::MaxTokens | Self::ContextWindow => FinishReason::MaxTokens,
            Self::Refusal | Self::ContentFilter => FinishReason::Refusal,
            Self::MalformedToolCall | Self::Empty | Self::Other => FinishReason::Other,
        }
    }
}
