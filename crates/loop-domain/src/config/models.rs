//! `[models]`: which model is used for what, and what it costs.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::money::Usd;

/// The providers that this version knows.
pub(crate) const PROVIDERS: [&str; 3] = ["offline", "scripted", OPENAI_CHAT];

/// Any server that speaks OpenAI Chat Completions.
pub(crate) const OPENAI_CHAT: &str = "openai-chat";

/// Which model is used for what.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ModelsConfig {
    /// A cheap model that chooses tools and filters results. Default: the base model.
    pub(crate) picker: Option<ModelConfig>,
    /// The model that analyses and refines. Default: the offline stand-in.
    pub(crate) base: ModelConfig,
    /// A more capable model for runs whose confidence stays low. Default: there is none.
    pub(crate) escalated: Option<ModelConfig>,
}

/// One model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ModelConfig {
    /// Who answers: `offline` is a stand-in without AI, `scripted` gives replies from a file, `openai-chat` is any server
    /// that speaks OpenAI Chat Completions. Default: `offline`.
    #[schemars(extend("enum" = ["offline", "scripted", "openai-chat"]))]
    pub(crate) provider: String,
    /// The model's name at the provider; `openai-chat` needs it. Default: the provider's name and `-1`.
    pub(crate) model: Option<String>,
    /// For `scripted`: the file with the replies.
    pub(crate) script: Option<String>,
    /// For `openai-chat`: where the server is, for example `http://127.0.0.1:11434/v1`. Default:
    /// `https://api.openai.com/v1`.
    pub(crate) base_url: Option<String>,
    /// For `openai-chat`: the environment variable that holds the key. Default: `OPENAI_API_KEY` for OpenAI's own server,
    /// and no key for others.
    pub(crate) api_key_env: Option<String>,
    /// What its tokens cost. Default: nothing for `offline` and `scripted`, unknown for others.
    pub(crate) price: Option<PriceConfig>,
    /// Tokens that fit into one call, input and output together. Default: 128,000.
    pub(crate) context_tokens: u64,
    /// Output tokens that it can write in one call. Default: 8,192.
    pub(crate) max_output_tokens: u64,
    /// Milliseconds until a call is cut off. Default: 120,000.
    pub(crate) timeout_ms: u64,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            provider: "offline".to_owned(),
            model: None,
            script: None,
            base_url: None,
            api_key_env: None,
            price: None,
            context_tokens: 128_000,
            max_output_tokens: 8_192,
            timeout_ms: 120_000,
        }
    }
}

/// What tokens cost, in dollars for a million of them; at most six digits behind the point.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceConfig {
    /// A million fresh input tokens.
    pub(crate) input_usd_per_million: Usd,
    /// A million output tokens, reasoning included.
    pub(crate) output_usd_per_million: Usd,
    /// A million input tokens that the provider had in its cache. Default: as fresh ones.
    #[serde(default)]
    pub(crate) cache_read_usd_per_million: Option<Usd>,
    /// A million input tokens that the provider put into its cache. Default: as fresh ones.
    #[serde(default)]
    pub(crate) cache_write_usd_per_million: Option<Usd>,
}
