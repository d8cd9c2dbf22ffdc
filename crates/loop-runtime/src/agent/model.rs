//! Which model an agent uses: one of its own, or one by name with its profile, key, price and window.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use loop_core::spec::ModelSpec;
use loop_core::types::{Price, edits};
use loop_llm::{ChatModel, HttpModel, Profile, Scripted};
#[cfg(feature = "offline")]
use loop_mock::offline::Offline;
use secrecy::SecretString;

use crate::agent::builder::BuildError;
use crate::drive::priced::Priced;

/// A model with its price and its context window.
///
/// It is made from a name ([`NamedModel`], or a text such as `"anthropic/claude-haiku-4-5"`), from a client of your own
/// ([`AgentModel::new`]), or from a model without a network ([`Offline`], [`Scripted`]), which costs nothing.
#[derive(Clone, Debug)]
pub struct AgentModel(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Own { client: Arc<dyn ChatModel>, spec: ModelSpec },
    Named(NamedModel),
}

/// A model by the names of the provider and the model, for example `anthropic/claude-haiku-4-5`.
///
/// The provider's [`Profile`] has the protocol and the URL. The environment has the key, in the variable that the
/// profile names, for example `ANTHROPIC_API_KEY`. The built-in price table has the price and the context window.
/// [`AgentBuilder::build`](crate::agent::AgentBuilder::build) looks all of them up and returns an error if one is
/// missing.
#[derive(Clone, Debug)]
pub struct NamedModel {
    name: Arc<str>,
    base_url: Option<Arc<str>>,
    price: Option<Price>,
}

impl NamedModel {
    /// The model `PROVIDER/MODEL`.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), base_url: None, price: None }
    }

    /// The same model behind another server, for example a gateway. A model of the price table keeps its price. Any
    /// other model costs nothing on this machine. Elsewhere it needs [`with_price`](Self::with_price), or an agent
    /// without a cost limit. The provider's key is sent to that server if the environment has one, but only over
    /// `https://` or to this machine.
    #[must_use]
    pub fn with_base_url(self, base_url: impl Into<Arc<str>>) -> Self {
        Self { base_url: Some(base_url.into()), ..self }
    }

    /// The same model at this price, in place of that of the table.
    #[must_use]
    pub fn with_price(self, price: Price) -> Self {
        Self { price: Some(price), ..self }
    }

    /// The client and the spec; `variable` reads the environment.
    fn resolve(
        self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(Arc<dyn ChatModel>, ModelSpec), BuildError> {
        let (provider, model) = match self.name.split_once('/') {
            Some((provider, model)) if !provider.trim().is_empty() && !model.trim().is_empty() => {
                (provider.trim(), model.trim())
            }
            _ => return Err(BuildError::ModelName { name: self.name }),
        };
        let own_server = self.base_url.as_deref();
        // A third party's server speaks the common form of Chat Completions.
        let spoken = if provider == "openai-chat" && own_server.is_some() { "compatible" } else { provider };
        let profile = Profile::named(spoken).ok_or_else(|| unknown_provider(provider))?;
        let refused =
            |message: &str| BuildError::Model { name: Arc::clone(&self.name), message: message.into() };
        if own_server.is_none() && profile.base_url.is_none() {
            return Err(refused(
                "its provider has no server that is the same for everybody; give one with NamedModel::with_base_url",
            ));
        }
        let mut client =
            HttpModel::new(Arc::clone(&profile), own_server).map_err(|error| refused(&error.message))?;
        if let Some(name) = &profile.api_key_env {
            match variable(name).filter(|key| !key.trim().is_empty()) {
                Some(key) => {
                    let key = SecretString::from(key.trim());
                    client = client
                        .with_key(key)
                        .map_err(|error| refused(&format!("{name}: {}", error.message)))?;
                }
                None if own_server.is_none() => {
                    let (variable, provider) = (Arc::clone(name), provider.into());
                    return Err(BuildError::NoKey { variable, provider });
                }
                None => {}
            }
        }
        if client.exposes_secrets() {
            return Err(refused(
                "its key would go over the network unencrypted; write https:// in its base URL",
            ));
        }
        let mut spec = ModelSpec::new(provider, model);
        let mut client: Arc<dyn ChatModel> = Arc::new(client);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if let Some(known) = loop_llm::prices::known(provider, model) {
            spec.context_tokens = known.context_tokens.unwrap_or(spec.context_tokens);
            spec.max_output_tokens =
                known.max_output_tokens.map_or(spec.max_output_tokens, |max| max.min(spec.max_output_tokens));
        }
        let url = own_server.or(profile.base_url.as_deref());
        if self.price.is_none()
            && let Some((row, _)) = loop_llm::prices::at_server(provider, model, url, at)
        {
            spec.price = Some(row.dearest);
            if row.model.varies(at) {
                client = Arc::new(Priced::new(client, row.model));
            }
        }
        spec.price = self.price.or(spec.price);
        Ok((client, spec))
    }
}

/// What is said of a provider that there is not: the one that was probably meant, and all of them.
fn unknown_provider(name: &str) -> BuildError {
    let names = Profile::all().iter().map(|profile| &*profile.name);
    let known = names.clone().collect::<Vec<_>>().join(", ");
    let wanted: String = name.chars().take(LONGEST).flat_map(char::to_lowercase).collect();
    let max = (wanted.chars().count() / 3).max(1);
    let similar = names.map(|known| (edits(&wanted, known), known)).min_by_key(|(distance, _)| *distance);
    let suggestion = similar.filter(|(distance, _)| *distance <= max);
    BuildError::UnknownProvider {
        name: name.chars().take(LONGEST).collect::<String>().into(),
        suggestion: suggestion.map_or_else(String::new, |(_, name)| format!("did you mean `{name}`? ")),
        known,
    }
}

/// How many characters of a provider's name are read.
const LONGEST: usize = 40;

impl AgentModel {
    /// A model of your own. Its price is in its [`ModelSpec`].
    pub fn new(client: impl ChatModel + 'static, spec: ModelSpec) -> Self {
        (Arc::new(client) as Arc<dyn ChatModel>, spec).into()
    }

    /// The client and what is known of it.
    pub(super) fn resolve(self) -> Result<(Arc<dyn ChatModel>, ModelSpec), BuildError> {
        match self.0 {
            Kind::Own { client, spec } => Ok((client, spec)),
            Kind::Named(named) => named.resolve(|name| std::env::var(name).ok()),
        }
    }
}

impl From<(Arc<dyn ChatModel>, ModelSpec)> for AgentModel {
    fn from((client, spec): (Arc<dyn ChatModel>, ModelSpec)) -> Self {
        Self(Kind::Own { client, spec })
    }
}

impl From<NamedModel> for AgentModel {
    fn from(model: NamedModel) -> Self {
        Self(Kind::Named(model))
    }
}

impl From<&str> for AgentModel {
    fn from(name: &str) -> Self {
        NamedModel::new(name).into()
    }
}

impl From<String> for AgentModel {
    fn from(name: String) -> Self {
        NamedModel::new(name).into()
    }
}

#[cfg(feature = "offline")]
impl From<Offline> for AgentModel {
    fn from(model: Offline) -> Self {
        Self::new(model, ModelSpec::new("offline", "offline-1").with_price(Price::flat(0, 0)))
    }
}

impl From<Scripted> for AgentModel {
    fn from(model: Scripted) -> Self {
        Arc::new(model).into()
    }
}

/// A test that keeps a clone of the `Arc` can read afterwards which requests the model received.
impl From<Arc<Scripted>> for AgentModel {
    fn from(client: Arc<Scripted>) -> Self {
        let spec = ModelSpec::new("scripted", "script").with_price(Price::flat(0, 0));
        (client as Arc<dyn ChatModel>, spec).into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn resolve(model: NamedModel, key: Option<&str>) -> Result<ModelSpec, String> {
        let resolved = model.resolve(|_| key.map(str::to_owned));
        resolved.map(|(_, spec)| spec).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_refused(model: NamedModel, key: Option<&str>, expected: &str) {
        let message = resolve(model, key).unwrap_err();
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }

    #[test]
    fn a_name_brings_the_price_and_the_window() {
        let spec = resolve(NamedModel::new("anthropic/claude-haiku-4-5"), Some("key")).unwrap();
        assert_eq!((&*spec.provider, &*spec.model), ("anthropic", "claude-haiku-4-5"));
        // Pico-dollars a token: $1 and $5 for a million.
        let price = spec.price.unwrap();
        assert_eq!((price.input, price.output), (1_000_000, 5_000_000));
        assert_eq!((spec.context_tokens, spec.max_output_tokens), (200_000, 8_192));

        // The name of a model may hold a slash; a model that is not in the table has no price.
        let spec = resolve(NamedModel::new("openrouter/acme/own-1"), Some("key")).unwrap();
        assert_eq!((&*spec.model, spec.price, spec.context_tokens), ("acme/own-1", None, 128_000));
    }

    #[test]
    fn what_a_name_lacks_is_refused_in_a_line() {
        let named = NamedModel::new;
        check_refused(named("claude-haiku-4-5"), None, "write PROVIDER/MODEL, for example");
        check_refused(named("/x"), None, "write PROVIDER/MODEL");
        check_refused(named("antropic/x"), None, "unknown provider `antropic`; did you mean `anthropic`? ");
        check_refused(named("acme/x"), None, "unknown provider `acme`; this version knows ");
        for profile in Profile::all() {
            check_refused(named("acme/x"), None, &profile.name);
        }
        check_refused(named("anthropic/x"), None, "the environment variable `ANTHROPIC_API_KEY` is not set");
        check_refused(
            named("anthropic/x"),
            Some("  "),
            "the environment variable `ANTHROPIC_API_KEY` is not set",
        );
        check_refused(named("anthropic/x"), Some("a\nb"), "ANTHROPIC_API_KEY");
        check_refused(named("azure/x"), Some("key"), "with_base_url");
        check_refused(named("anthropic/x").with_base_url("no url"), Some("key"), "base URL");
        let far = named("anthropic/x").with_base_url("http://models.example/v1");
        check_refused(far, Some("sk-0123456789abcdef"), "unencrypted");
    }

    #[test]
    fn a_server_of_somebody_else_has_the_price_of_a_known_model_and_none_of_another() {
        let at = |name: &str, url: &str| resolve(NamedModel::new(name).with_base_url(url), None).unwrap();
        let spec = at("anthropic/claude-haiku-4-5", "https://gateway.corp/v1");
        assert_eq!((spec.price.map(|price| price.input), spec.context_tokens), (Some(1_000_000), 200_000));
        assert_eq!(at("openai-chat/own", "https://gateway.corp/v1").price, None);
        assert_eq!(at("openai-chat/own", "http://127.0.0.1:1/v1").price, Some(Price::flat(0, 0)));
        let local = || NamedModel::new("anthropic/claude-haiku-4-5").with_base_url("http://127.0.0.1:1/v1");
        let spec = resolve(local().with_price(Price::flat(1, 2)), None).unwrap();
        assert_eq!(spec.price, Some(Price::flat(1, 2)));
    }
}
