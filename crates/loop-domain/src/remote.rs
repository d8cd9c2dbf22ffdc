//! Models behind a server: which profile it has, where it is, which key it takes, and what stands between it and a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use loop_llm::{
    Breaker, BreakerPolicy, ChatModel, CircuitBreaker, Defaults, HttpModel, Profile, RateGate, RateLimited,
    RateLimits, RetryPolicy, Retrying, Secrets,
};
use secrecy::SecretString;

use crate::LoadOptions;
use crate::config::{ModelConfig, ProviderConfig};
use crate::error::DomainError;
use crate::file::File;
use crate::near::hint;

/// Providers that are no servers.
pub(crate) const LOCAL: [&str; 3] = ["offline", "scripted", "recorded"];

/// The names that `provider` may have: what needs no server, what is known, what the file adds.
pub(crate) fn names<'a>(own: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = LOCAL.to_vec();
    names.extend(Profile::all().iter().map(|profile| &*profile.name));
    for name in own {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What a provider is like, with what the file says of it; `None` where there is none of this name.
pub(crate) fn profile(file: &File, name: &str) -> Result<Option<Arc<Profile>>, DomainError> {
    match file.config.providers.get(name) {
        Some(config) => own_profile(file, name, config).map(Some),
        None => Ok(Profile::named(name)),
    }
}

/// What the provider `name` is like: one of the `[providers]` of the domain in `folder`, or a known one; `None` where there
/// is none of this name.
///
/// # Errors
/// The domain's file cannot be read, or what it says of the provider does not fit.
pub fn provider(folder: Option<&Path>, name: &str) -> Result<Option<Arc<Profile>>, DomainError> {
    match folder {
        Some(folder) => profile(&File::read(folder, &LoadOptions::default())?, name),
        None => Ok(Profile::named(name)),
    }
}

/// Every `[providers.NAME]`, be it used or not.
pub(crate) fn check(file: &File) -> Result<(), DomainError> {
    file.config.providers.iter().try_for_each(|(name, config)| own_profile(file, name, config).map(|_| ()))
}

fn own_profile(file: &File, name: &str, config: &ProviderConfig) -> Result<Arc<Profile>, DomainError> {
    let place = ["providers", name];
    let all = || Profile::all().iter().map(|profile| &*profile.name);
    if LOCAL.contains(&name) {
        return Err(file.error(&place, format!("`{name}` is no server; give it another name")));
    }
    if name.trim().is_empty() || name.contains('/') {
        return Err(file.error(&place, "a provider's name is not empty and has no `/`; give it another name"));
    }
    let like = config.like.as_deref().unwrap_or(name);
    let Some(base) = Profile::named(like) else {
        let names: Vec<&str> = all().collect();
        return Err(match &config.like {
            Some(like) => {
                let hint = hint(like, names, "it can be like");
                file.error(&["providers", name, "like"], format!("unknown provider `{like}`; {hint}"))
            }
            None => {
                let message =
                    "say which provider it is like: add `like`, for example `like = \"compatible\"`";
                file.error(&place, message)
            }
        });
    };
    for (key, is_zero) in [
        ("requests_per_minute", config.requests_per_minute == Some(0)),
        ("tokens_per_minute", config.tokens_per_minute == Some(0)),
        ("calls_at_once", config.calls_at_once == Some(0)),
    ] {
        if is_zero {
            let message = "with 0 no call would ever begin; write 1 or more";
            return Err(file.error(&["providers", name, key], message));
        }
    }
    Ok(Arc::new(config.over(&base, name)))
}

/// The servers of a domain. All models of one provider share its limits.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    shared: BTreeMap<String, (RateGate, Breaker)>,
}

/// A model behind a server, bare, and the credentials that it uses.
pub(crate) fn model(
    file: &File,
    tier: &str,
    config: &ModelConfig,
    unset: &mut Vec<DomainError>,
) -> Result<(Arc<dyn ChatModel>, Secrets), DomainError> {
    let provider = config.provider.as_str();
    let is_elsewhere = config.base_url.is_some();
    // With a server of somebody else, Chat Completions are those that everybody speaks.
    let known = if provider == "openai-chat" && is_elsewhere { "compatible" } else { provider };
    let Some(profile) = profile(file, known)? else {
        let message = format!("unknown provider `{provider}`");
        return Err(file.error(&["models", tier, "provider"], message));
    };
    let place = ["models", tier, if is_elsewhere { "base_url" } else { "provider" }];
    let mut model = HttpModel::new(Arc::clone(&profile), config.base_url.as_deref()).map_err(|error| {
        let message = if is_elsewhere || profile.base_url.is_some() {
            error.message.to_string()
        } else {
            format!("`{provider}` has no server that is the same for everybody; add `base_url`")
        };
        file.error(&place, message)
    })?;
    let own_place = ["models", tier, "api_key_env"];
    let (variable, place, is_needed) = match (&config.api_key_env, &profile.api_key_env) {
        (Some(variable), _) => (Some(variable.as_str()), own_place, true),
        (None, Some(variable)) => (Some(&**variable), place, !is_elsewhere),
        (None, None) => (None, place, false),
    };
    if let Some(variable) = variable {
        match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => {
                model = model
                    .with_key(SecretString::from(key.trim()))
                    .map_err(|error| file.error(&place, format!("`{variable}`: {}", error.message)))?;
            }
            _ if is_needed => {
                let message =
                    format!("the environment variable `{variable}` is not set; set it to the model's key");
                unset.push(file.error(&place, message));
            }
            _ => {}
        }
    }
    if let Some(base_model) = &config.base_model {
        model = model.with_base_model(base_model.as_str());
    }
    let model = model.with_defaults(Defaults {
        effort: config.effort,
        temperature: config.temperature,
        top_p: config.top_p,
        seed: config.seed,
        ..Defaults::default()
    });
    let secrets = model.secrets();
    Ok((file.prices.priced(Arc::new(model), file.prices.row(config)), secrets))
}

impl Servers {
    /// The same model behind the limits of its provider, tried again where that may help.
    pub(crate) fn guarded(
        &mut self,
        file: &File,
        config: &ModelConfig,
        model: Arc<dyn ChatModel>,
    ) -> Arc<dyn ChatModel> {
        let place = format!("{} {}", config.provider, config.base_url.as_deref().unwrap_or_default());
        let (gate, breaker) = self.shared.entry(place).or_insert_with(|| {
            let own = file.config.providers.get(&config.provider);
            let limits = RateLimits {
                requests_per_minute: own.and_then(|own| own.requests_per_minute?.try_into().ok()),
                tokens_per_minute: own.and_then(|own| own.tokens_per_minute?.try_into().ok()),
                calls_at_once: own.and_then(|own| own.calls_at_once?.try_into().ok()),
                ..RateLimits::default()
            };
            (RateGate::new(limits), Breaker::new(BreakerPolicy::default()))
        });
        let limited: Arc<dyn ChatModel> = Arc::new(RateLimited::new(model, gate.clone()));
        let broken: Arc<dyn ChatModel> = Arc::new(CircuitBreaker::new(limited, breaker.clone()));
        // Two processes that were refused together must not come back together.
        let seed = u64::from(std::process::id());
        let policy = RetryPolicy { seed, ..RetryPolicy::default() };
        Arc::new(Retrying::new(broken, policy))
    }
}
