//! The models of a route: which, what they cost, what fits into them.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::types::Price;

/// The model of each tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// The base model where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picker: Option<ModelSpec>,
    /// Required.
    pub base: ModelSpec,
    /// No escalation where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated: Option<ModelSpec>,
    /// No other route where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<ModelSpec>,
}

/// A model: whose it is, what it costs, what fits into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Which kind of client calls it, for example `offline`.
    pub provider: Arc<str>,
    /// Its id at the provider.
    pub model: Arc<str>,
    /// The model that it is, where the provider has another name for it, for example a deployment: a reply that this
    /// model served is no surprise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<Arc<str>>,
    /// Pico-dollars a token; unknown where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Tokens that fit into one call, input and output together.
    pub context_tokens: u64,
    /// Output tokens that it can write in one call.
    pub max_output_tokens: u64,
    /// Milliseconds until a call is cut off.
    pub timeout_ms: u64,
}

impl ModelSpec {
    /// A model with room for 128,000 tokens, 8,192 of output, two minutes a call, and an unknown price.
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
