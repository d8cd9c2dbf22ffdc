//! One model on a server, as a domain or a command line names it: its address, its key and its price.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use loop_core::types::Price;
use loop_llm::{ChatModel, HttpModel, Profile};
use loop_runtime::models::Priced;
use secrecy::SecretString;

use crate::LoadOptions;
use crate::error::DomainError;
use crate::file::File;
use crate::prices::PriceList;
use crate::remote;
use crate::secret::of_environment;
use crate::similar::hint;

/// A model on a server, as `[models.TIER]` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerModel {
    /// The provider's name.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// The server's address. `None`: the provider's own.
    pub base_url: Option<String>,
    /// The environment variable with the key. `None`: the provider's own variable.
    pub api_key_env: Option<String>,
    /// The model behind a name of the server's own, for the price table. `None`: `model` is in the table.
    pub base_model: Option<String>,
}

/// A model that is ready to be called.
#[derive(Clone)]
pub struct ConfiguredModel {
    /// The client. It does not retry, and its replies carry their cost where a price is known.
    pub model: Arc<dyn ChatModel>,
    /// The price at this moment, of the standard class of service. `None`: not known.
    pub price: Option<Price>,
}

impl ServerModel {
    /// Makes a client for the model. It uses the `[providers]` and the prices of the domain in `folder`. If that domain
    /// names no price file, it uses the file `prices`.
    ///
    /// # Errors
    /// There is no such provider, it needs a base URL, its key is not set, or a file cannot be read. The message names
    /// the option of the command line that is wrong, and shows neither a key nor a URL.
    pub fn connect(
        &self,
        folder: Option<&Path>,
        prices: Option<&Path>,
    ) -> Result<ConfiguredModel, DomainError> {
        let options = LoadOptions { prices: prices.map(Path::to_owned), ..LoadOptions::default() };
        let file = folder.map(|folder| File::read(folder, &options)).transpose()?;
        let profile = |name: &str| match &file {
            Some(file) => remote::profile(file, name),
            None => Ok(Profile::named(name)),
        };
        let Some(spoken) = profile(self.spoken())? else {
            let own = file.as_ref().map(|file| file.config.providers.names().collect::<Vec<_>>());
            let names = remote::names(own.unwrap_or_default());
            let known = names.into_iter().filter(|name| !matches!(*name, "scripted" | "recorded"));
            let known: Vec<&str> = known.collect();
            return Err(DomainError::Option {
                option: format!("--provider {}", self.provider),
                message: format!("unknown provider; {}", hint(&self.provider, known, "this version knows")),
            });
        };
        let reported = |schema_violation: SchemaViolation| {
            let option = match schema_violation.key {
                "provider" => format!("--provider {}", self.provider),
                key => format!("--{}", key.replace('_', "-")),
            };
            DomainError::Option { option, message: schema_violation.message }
        };
        let like = file.as_ref().map_or(self.provider.as_str(), |file| file.like(&self.provider)).to_owned();
        let bare = self.bare(&spoken, None).map_err(reported)?;
        if let Some(unset) = bare.unset {
            return Err(reported(unset));
        }
        let list = match (file, prices) {
            (Some(file), _) => file.prices,
            (None, Some(prices)) => PriceList::new(crate::prices::read_prices(prices)?),
            (None, None) => PriceList::new(Vec::new()),
        };
        let row = list.row(self, &like, Some(&spoken)).map(|(row, _)| row);
        let price = row.as_ref().map(|row| row.price.clone());
        let model: Arc<dyn ChatModel> = Arc::new(bare.model);
        let model = match row {
            Some(row) => Arc::new(Priced::new(model, row.model)),
            None => model,
        };
        Ok(ConfiguredModel { model, price })
    }

    /// The name of the provider profile for its requests. A server of another provider is called by the common form of
    /// Chat Completions.
    pub(crate) fn spoken(&self) -> &str {
        if self.provider == "openai-chat" && self.base_url.is_some() { "compatible" } else { &self.provider }
    }

    /// Makes the model without wrappers. Its key is `known`, or else from the environment.
    pub(crate) fn bare(
        &self,
        profile: &Arc<Profile>,
        known: Option<String>,
    ) -> Result<BareModel, SchemaViolation> {
        let wrong = |key, message: &str| Err(SchemaViolation { key, message: message.to_owned() });
        if self.base_model.as_ref().is_some_and(|name| name.trim().is_empty()) {
            return wrong("base_model", "the name is empty; write the model's, or take it out");
        }
        if self.api_key_env.as_ref().is_some_and(|name| !is_variable(name)) {
            return wrong("api_key_env", NO_VARIABLE);
        }
        let is_elsewhere = self.base_url.is_some();
        let place = if is_elsewhere { "base_url" } else { "provider" };
        let mut model = HttpModel::new(Arc::clone(profile), self.base_url.as_deref()).map_err(|error| {
            SchemaViolation {
                key: place,
                message: if is_elsewhere || profile.base_url.is_some() {
                    error.message.to_string()
                } else {
                    format!(
                        "`{}` has no server that is the same for everybody; add a base URL",
                        self.provider
                    )
                },
            }
        })?;
        let mut unset = None;
        let (variable, key, is_needed) = match (&self.api_key_env, &profile.api_key_env) {
            (Some(variable), _) => (Some(variable.as_str()), "api_key_env", true),
            (None, Some(variable)) => (Some(&**variable), place, !is_elsewhere),
            (None, None) => (None, place, false),
        };
        if let Some(variable) = variable {
            match known.or_else(|| of_environment(variable).ok()) {
                Some(value) => {
                    let schema_violation = |error: loop_llm::LlmError| SchemaViolation {
                        key,
                        message: format!("`{variable}`: {}", error.message),
                    };
                    model = model.with_key(SecretString::from(value)).map_err(schema_violation)?;
                }
                None if is_needed => {
                    let message = crate::secret::unset(variable, "the model's key");
                    unset = Some(SchemaViolation { key, message });
                }
                None => {}
            }
        }
        if let Some(base_model) = &self.base_model {
            model = model.with_base_model(base_model.as_str());
        }
        if model.exposes_secrets() {
            let message = format!(
                "the key of `{}` would go over the network unencrypted; write https:// in its base URL, or send none",
                self.provider
            );
            return Err(SchemaViolation { key: place, message });
        }
        Ok(BareModel { model, unset })
    }
}

impl fmt::Debug for ConfiguredModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("price", &self.price).finish_non_exhaustive()
    }
}

/// An error in the description of a model, with the key that has it.
#[derive(Debug)]
pub(crate) struct SchemaViolation {
    pub(crate) key: &'static str,
    pub(crate) message: String,
}

/// A model without wrappers.
pub(crate) struct BareModel {
    pub(crate) model: HttpModel,
    /// The key that is missing in the environment.
    pub(crate) unset: Option<SchemaViolation>,
}

/// Whether this is a valid name of an environment variable.
pub(crate) fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c == '=' || c.is_whitespace() || c.is_control())
}

/// The message for a name that is not a valid variable.
pub(crate) const NO_VARIABLE: &str =
    "this is not the name of an environment variable; write the name alone, for example MODEL_KEY";
