//! The neutral request.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::call::ToolCall;

/// One call to a model, in no provider's terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The model's id as the provider knows it.
    pub model: Arc<str>,
    /// Rules; stable for a whole run.
    pub system: Arc<str>,
    /// The turns so far; append-only within a run, the last from the user.
    pub messages: Vec<Message>,
    /// The most output tokens that may be written.
    pub max_output_tokens: u64,
    /// What the call belongs to, for traces; it changes nothing that the model sees.
    #[serde(default)]
    pub meta: RequestMeta,
}

impl ModelRequest {
    /// A request of one user turn, with 4,096 output tokens.
    pub fn new(model: impl Into<Arc<str>>, system: impl Into<Arc<str>>, user: impl Into<Arc<str>>) -> Self {
        Self {
            model: model.into(),
            system: system.into(),
            messages: vec![Message::User { text: user.into() }],
            max_output_tokens: 4_096,
            meta: RequestMeta::default(),
        }
    }

    /// Bytes of the system prompt and all turns.
    pub fn bytes(&self) -> usize {
        self.system.len() + self.messages.iter().map(Message::bytes).sum::<usize>()
    }
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From us.
    User {
        /// Its text.
        text: Arc<str>,
    },
    /// From the model, earlier.
    Assistant {
        /// Its visible text.
        text: Arc<str>,
        /// The provider's own turn, which goes back unchanged to the same provider and model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Arc<str>>,
    },
    /// From the model, earlier: tools that it wanted run. Their results come next, one each.
    AssistantCalls {
        /// What it said beside them.
        text: Arc<str>,
        /// The calls.
        calls: Vec<ToolCall>,
    },
    /// What all calls of the turn before gave, in any order.
    ToolResults {
        /// One for each call.
        results: Vec<CallResult>,
    },
}

impl Message {
    /// The turn's text; of results, none.
    pub fn text(&self) -> &str {
        match self {
            Self::User { text } | Self::Assistant { text, .. } | Self::AssistantCalls { text, .. } => text,
            Self::ToolResults { .. } => "",
        }
    }

    /// Bytes of everything in it that a model reads.
    pub fn bytes(&self) -> usize {
        match self {
            Self::User { text } | Self::Assistant { text, .. } => text.len(),
            Self::AssistantCalls { text, calls } => {
                text.len()
                    + calls.iter().map(|call| call.name.len() + call.arguments.text().len()).sum::<usize>()
            }
            Self::ToolResults { results } => results.iter().map(|result| result.text.len()).sum(),
        }
    }
}

/// What a call gave, for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The id of the call.
    pub call: Arc<str>,
    /// Whether it is an error that the model should see as one.
    #[serde(default)]
    pub is_error: bool,
    /// Its text.
    pub text: Arc<str>,
    /// Its pictures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// For example `image/png`.
    pub media_type: Arc<str>,
    /// Its bytes in Base64.
    pub base64: Arc<str>,
}

/// What a call belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestMeta {
    /// The run.
    pub run: Arc<str>,
    /// The call's key within the run, for example `1/main`.
    pub key: Arc<str>,
    /// Which try, from 1.
    pub attempt: u32,
    /// Milliseconds that the caller waits for the whole reply, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}
