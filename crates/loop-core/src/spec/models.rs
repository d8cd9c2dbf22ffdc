//! The models of a route: provider, name, price, context.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::types::Price;

/// The model of each tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpecs {
    /// For auxiliary calls: tool selection, sub-calls, repairs. `None` is the base model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<ModelSpec>,
    /// For main calls.
    pub base: ModelSpec,
    /// For runs whose confidence stays low. `None`: a run does not escalate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated: Option<ModelSpec>,
    /// For the rest of a run whose model is unavailable. `None`: the run ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<ModelSpec>,
}

/// A model: its provider, price, context and time limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// The provider's name, for example `anthropic` or `offline`. It decides which client is used.
    pub provider: Arc<str>,
    /// The model's name at the provider.
    pub model: Arc<str>,
    /// The model's official name, where the provider uses another one, for example a deployment. A reply served by this
    /// model causes no warning. `None`: `model` is the official name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<Arc<str>>,
    /// Price in pico-dollars per token. `None` is unknown, never 0; a cost limit needs a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Context window in tokens, input and output together.
    pub context_tokens: u64,
    /// Maximum output tokens of one call, as the provider states. With 0 no call is made.
    pub max_output_tokens: u64,
    /// Time limit of one call in milliseconds, after which the driver cuts it off.
    pub timeout_ms: u64,
}

impl ModelSpec {
    /// A model with a context of 128,000 tokens, 8,192 output tokens, two minutes for each call, and an unknown price.
    pub fn new(provider: impl Into<Arc<str>>, model: impl Into<Arc<str>>) -> Self {
        Self {
            provider: provider.into(),
            model: model.into(),
            base_model: None,
            price: None,
            context_tokens: 128_000,
            max_output_tokens: 8_192,
            timeout_ms: 120_000,
        }
    }

    /// The same model with this price.
    #[must_use]
    pub fn with_price(self, price: Price) -> Self {
        Self { price: Some(price), ..self }
    }
}
