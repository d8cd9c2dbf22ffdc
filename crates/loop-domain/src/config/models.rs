//! `[models]`: which model is used for what, and what it costs.

use loop_llm::options::Effort;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::PriceConfig;
use crate::server::ServerModel;

/// Which model is used for what.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ModelsConfig {
    /// A cheap model that chooses tools and filters results. Default: the base model.
    pub(crate) selector: Option<ModelConfig>,
    /// The model that analyses and refines. Default: the offline stub.
    pub(crate) base: ModelConfig,
    /// A more capable model for runs whose confidence stays low. Default: there is none.
    pub(crate) escalated: Option<ModelConfig>,
    /// Another model, best at another provider, for the rest of a run once its model cannot be had. Default: there is none.
    pub(crate) fallback: Option<ModelConfig>,
}

/// One model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ModelConfig {
    /// Who answers: `offline` is a stub without AI, `scripted` gives replies from a file, `recorded` plays a recording
    /// back; any other is a server: `openai`, `openai-chat`, `openai-responses`, `azure`, `azure-responses`, `anthropic`,
    /// `gemini`, `groq`, `mistral`, `deepseek`, `openrouter`, `xai`, `xai-chat`, `vllm`, `ollama`, `lm-studio`,
    /// `llama-cpp`, `compatible`, or one of `[providers]`. Default: `offline`.
    pub(crate) provider: String,
    /// The model's name at the provider; a server needs it. Default: the provider's name and `-1`.
    pub(crate) model: Option<String>,
    /// For `scripted`: the file with the replies.
    pub(crate) script: Option<String>,
    /// For `recorded`: the file with the exchanges, as `loopgate run --record` writes it.
    pub(crate) recording: Option<String>,
    /// Where the server is, with its scheme, for example `http://127.0.0.1:11434/v1`. Default: the provider's own.
    pub(crate) base_url: Option<String>,
    /// The environment variable that holds the key. Default: the provider's own, for example `OPENAI_API_KEY`, which with a
    /// `base_url` is sent where it is set and not missed where it is not; none for `openai-chat` with a `base_url`.
    pub(crate) api_key_env: Option<String>,
    /// The model that it is, where the server has a name of its own for it, for example a deployment at Azure: for its price
    /// and for what it takes.
    pub(crate) base_model: Option<String>,
    /// How long it should reason. Default: as the model does by itself.
    pub(crate) effort: Option<Effort>,
    /// From 0 to 2. Default: as the model does by itself.
    #[schemars(range(min = 0, max = 2))]
    pub(crate) temperature: Option<f64>,
    /// From 0 to 1. Default: as the model does by itself.
    #[schemars(range(min = 0, max = 1))]
    pub(crate) top_p: Option<f64>,
    /// For a best effort at the same reply again. Default: none.
    pub(crate) seed: Option<i64>,
    /// What its tokens cost. Default: nothing for `offline`, `scripted` and `recorded`, but for a recording that is played in
    /// place of another model by `--model` what that one costs; for others what the prices of one's own say, then the table
    /// that loopgate knows, also for a known model that a gateway passes on; else nothing for a server on this machine, and
    /// unknown elsewhere.
    pub(crate) price: Option<PriceConfig>,
    /// Tokens that fit into one call, input and output together. Default: 128,000.
    pub(crate) context_tokens: u64,
    /// Output tokens that it can write in one call. Default: 8,192.
    pub(crate) max_output_tokens: u64,
    /// Milliseconds until a call is cut off. Default: 120,000.
    pub(crate) timeout_ms: u64,
}

impl ModelsConfig {
    /// The model of a tier, by its name. `None`: it has none of its own.
    pub(crate) fn of(&self, tier: &str) -> Option<&ModelConfig> {
        match tier {
            "base" => Some(&self.base),
            "selector" => self.selector.as_ref(),
            "escalated" => self.escalated.as_ref(),
            _ => self.fallback.as_ref(),
        }
    }
}

impl ModelConfig {
    /// The part of it that says which model of which server it is.
    pub(crate) fn server_model(&self) -> ServerModel {
        ServerModel {
            provider: self.provider.clone(),
            model: self.model.clone().unwrap_or_default(),
            base_url: self.base_url.clone(),
            api_key_env: self.api_key_env.clone(),
            base_model: self.base_model.clone(),
        }
    }
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            provider: "offline".to_owned(),
            model: None,
            script: None,
            recording: None,
            base_url: None,
            api_key_env: None,
            base_model: None,
            effort: None,
            temperature: None,
            top_p: None,
            seed: None,
            price: None,
            context_tokens: 128_000,
            max_output_tokens: 8_192,
            timeout_ms: 120_000,
        }
    }
}
