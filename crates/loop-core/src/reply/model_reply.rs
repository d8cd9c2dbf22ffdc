//! A model's complete reply, as far as the core reads it.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::types::{PicoUsd, Receipt, ToolCall, Usage, is_default};

/// A model's complete reply, as far as the core reads it. The driver makes it from the provider's reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reply {
    /// The visible text. Empty if there is none.
    pub text: Arc<str>,
    /// The native tool calls, in the reply's order. Empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// How many more native calls it has: calls beyond [`MAX_REQUESTED_CALLS`](crate::spec::MAX_REQUESTED_CALLS) are
    /// counted and not read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unread_calls: u32,
    /// The visible reasoning. Kept only where the provider requires it back; `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Arc<str>>,
    /// Why the model ended its reply.
    pub finish: FinishReason,
    /// The words of a refusal, where the provider gives them apart from the text. `None`: the text has them, or nothing was
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Arc<str>>,
    /// Tokens as reported. `None`: not reported, so they are estimated from [`received`](Self::received).
    pub usage: Option<Usage>,
    /// What was received. A call without reported usage is estimated from it.
    #[serde(default = "Receipt::ended", skip_serializing_if = "Receipt::is_ended")]
    pub received: Receipt,
    /// The cost that the provider itself reports, in pico-dollars. `None`: it is computed from the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<PicoUsd>,
    /// The provider's whole turn as JSON, where it must go back unchanged. `None`: the turn is made from text and
    /// calls. Opaque to the core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Arc<str>>,
    /// The model that served, as the provider reports it. `None`: not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
    /// Lines for people: what was left out of the request or changed in it, and what was irregular in the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Arc<str>>,
}

impl Reply {
    /// A reply with this text that ended its turn. All other fields are unset.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            calls: Vec::new(),
            unread_calls: 0,
            reasoning: None,
            finish: FinishReason::EndTurn,
            refusal: None,
            usage: None,
            received: Receipt::ended(),
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its turn.
    #[default]
    EndTurn,
    /// The model requests tool calls.
    ToolUse,
    /// The provider cut the reply at the output limit.
    MaxTokens,
    /// The client cut the reply, because the provider continued far beyond the output limit.
    Capped,
    /// The model refused.
    Refusal,
    /// A content filter of the provider stopped the reply.
    Filtered,
    /// The provider gives another reason, or none.
    Other,
}

impl FinishReason {
    /// Whether the reply was cut at a limit, so that its end is missing.
    pub fn is_cut(self) -> bool {
        match self {
            Self::MaxTokens | Self::Capped => true,
            Self::EndTurn | Self::ToolUse | Self::Refusal | Self::Filtered | Self::Other => false,
        }
    }
}

/// Whether a reply of so many tokens that was cut got no further than its beginning.
pub(crate) fn is_cut_at_once(tokens: u64, granted: u64) -> bool {
    tokens < FIRST_TOKENS && tokens < granted / 2
}

/// Fewer tokens are the beginning of a reply, or of its reasoning, and no whole one.
const FIRST_TOKENS: u64 = 32;
