//! A model's complete reply, as far as the core reads it.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::types::{PicoUsd, Received, ToolCall, Usage, is_default};

/// A model's complete reply, as far as the core reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reply {
    /// The visible text.
    pub text: Arc<str>,
    /// The tools that it calls natively, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// How many tools more it calls: calls beyond [`MAX_REQUESTED_CALLS`](crate::MAX_REQUESTED_CALLS) are counted and not read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unread_calls: u32,
    /// What it reasoned, where a provider wants that back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Arc<str>>,
    /// Why the model ended.
    pub finish: FinishReason,
    /// Tokens as reported, or `None`: then they are estimated from what was received.
    pub usage: Option<Usage>,
    /// What was received, by which a call without reported usage is estimated.
    #[serde(default = "Received::ended", skip_serializing_if = "Received::is_ended")]
    pub received: Received,
    /// The cost where the provider itself reports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<PicoUsd>,
    /// The provider's whole turn where it must go back unchanged; opaque.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Arc<str>>,
    /// The model that really served, where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
    /// What was left out of the request or changed in it, and what was not as it should be in the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Arc<str>>,
}

impl Reply {
    /// A text that ended by itself, of which nothing else is told.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            calls: Vec::new(),
            unread_calls: 0,
            reasoning: None,
            finish: FinishReason::EndTurn,
            usage: None,
            received: Received::ended(),
            cost: None,
            raw: None,
            served_model: None,
            warnings: Vec::new(),
        }
    }

    /// Bytes of text, reasoning and arguments that are known to have been received.
    pub fn known_bytes(&self) -> u64 {
        let calls = self.calls.iter().map(|call| call.name.len() + call.arguments.len());
        let reasoning = self.reasoning.as_ref().map_or(0, |reasoning| reasoning.len());
        let here = self.text.len() + reasoning + calls.sum::<usize>();
        self.received.bytes.max(here as u64)
    }
}

/// Why a model ended its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    EndTurn,
    /// It wants tools run.
    ToolUse,
    /// It was cut at the output limit.
    MaxTokens,
    /// Our own cap cut it, since the provider wrote on far beyond the output limit.
    Capped,
    /// It refused.
    Refusal,
    /// A content filter of the provider stopped it.
    Filtered,
    /// Anything else.
    Other,
}

impl FinishReason {
    /// Whether the end of the reply is missing, because of a limit.
    pub fn is_cut(self) -> bool {
        match self {
            Self::MaxTokens | Self::Capped => true,
            Self::EndTurn | Self::ToolUse | Self::Refusal | Self::Filtered | Self::Other => false,
        }
    }
}
