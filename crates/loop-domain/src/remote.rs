//! Models behind a server: where it is, which key it takes, what is tried again.

use std::sync::Arc;

use loop_llm::openai_chat::{OpenAiChat, Profile};
use loop_llm::{ChatModel, RetryPolicy, Retrying};
use secrecy::SecretString;

use crate::config::ModelConfig;
use crate::error::DomainError;
use crate::file::File;

/// OpenAI's own server, and the variable that its users keep their key in.
const OPENAI: (&str, &str) = ("https://api.openai.com/v1", "OPENAI_API_KEY");

/// A model that speaks Chat Completions. What is not set in the environment goes to `unset`: it is missed only by
/// who calls the model.
pub(crate) fn openai_chat(
    file: &File,
    tier: &str,
    config: &ModelConfig,
    unset: &mut Vec<DomainError>,
) -> Result<Arc<dyn ChatModel>, DomainError> {
    let is_own = config.base_url.is_none();
    let base_url = config.base_url.as_deref().unwrap_or(OPENAI.0);
    let profile = if is_own { Profile::OPENAI } else { Profile::COMPATIBLE };
    let place = ["models", tier, if is_own { "provider" } else { "base_url" }];
    let mut model =
        OpenAiChat::new(base_url, profile).map_err(|error| file.error(&place, error.message.as_ref()))?;
    let variable = config.api_key_env.as_deref().or(is_own.then_some(OPENAI.1));
    if let Some(variable) = variable {
        let place = if config.api_key_env.is_some() { ["models", tier, "api_key_env"] } else { place };
        match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => {
                model = model
                    .with_key(SecretString::from(key.trim()))
                    .map_err(|error| file.error(&place, format!("`{variable}`: {}", error.message)))?;
            }
            _ => {
                let message =
                    format!("the environment variable `{variable}` is not set; set it to the model's key");
                unset.push(file.error(&place, message));
            }
        }
    }
    // Two processes that were refused together must not come back together.
    let seed = u64::from(std::process::id());
    let policy = RetryPolicy { seed, ..RetryPolicy::default() };
    Ok(Arc::new(Retrying::new(Arc::new(model), policy)))
}
