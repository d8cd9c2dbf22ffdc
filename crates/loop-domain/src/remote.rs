//! Models on servers: their provider profiles, and the wrappers between a model and a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::RunSpec;
use loop_core::spec::ProtocolSpec;
use loop_core::types::Tier;
use loop_llm::codec::changed_tools as changes_of;
use loop_llm::options::{Defaults, Strictness};
use loop_llm::wrap::{
    BreakerHandle, BreakerPolicy, CircuitBreaker, RateGate, RateLimited, RateLimits, RetryPolicy, Retrying,
};
use loop_llm::{ChatModel, Profile, ToolDefinition};
use loop_tools::Registry;

use crate::config::{ModelConfig, ProviderConfig};
use crate::error::DomainError;
use crate::file::File;
use crate::models::ModelFindings;
use crate::server::{NO_VARIABLE, SchemaViolation, is_variable};
use crate::similar::hint;

/// Providers without a server.
pub(crate) const LOCAL: [&str; 3] = ["offline", "scripted", "recorded"];

/// The names that `provider` may have: those without a server, the known ones, and those of the file.
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

/// The profile of a provider with the file's settings. `None`: there is no provider of this name.
pub(crate) fn profile(file: &File, name: &str) -> Result<Option<Arc<Profile>>, DomainError> {
    match file.config.providers.get(name) {
        Some(config) => own_profile(file, name, config).map(Some),
        None => Ok(Profile::named(name)),
    }
}

/// Checks every `[providers.NAME]`, used or not.
pub(crate) fn check(file: &File) -> Result<(), DomainError> {
    file.config.providers.iter().try_for_each(|(name, config)| own_profile(file, name, config).map(|_| ()))
}

fn own_profile(file: &File, name: &str, config: &ProviderConfig) -> Result<Arc<Profile>, DomainError> {
    let place = ["providers", name];
    let all = || Profile::all().iter().map(|profile| &*profile.name);
    if LOCAL.contains(&name) {
        return Err(file.error(&place, format!("`{name}` is not a server; give it another name")));
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
    let profile = file.profile(name, &base)?;
    if profile.api_key_env.as_ref().is_some_and(|name| !is_variable(name)) {
        return Err(file.error(&["providers", name, "api_key_env"], NO_VARIABLE));
    }
    Ok(Arc::new(profile))
}

/// The servers of a domain. All models of one provider share its limits.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    shared: BTreeMap<String, (RateGate, BreakerHandle)>,
}

/// Makes a model on a server, without wrappers. What is found meanwhile is added to `found`.
pub(crate) fn model(
    file: &File,
    tier: &str,
    config: &ModelConfig,
    found: &mut ModelFindings,
) -> Result<Arc<dyn ChatModel>, DomainError> {
    let wanted = config.server_model();
    let Some(profile) = profile(file, wanted.spoken())? else {
        let message = format!("unknown provider `{}`", config.provider);
        return Err(file.error(&["models", tier, "provider"], message));
    };
    let place = |schema_violation: SchemaViolation| {
        file.error(&["models", tier, schema_violation.key], schema_violation.message)
    };
    let named = wanted.api_key_env.as_deref().or(profile.api_key_env.as_deref());
    // Without a table the environment is asked, where a known provider's own server may do without a key.
    let stated = named.filter(|name| file.config.secrets.get(name).is_some());
    let key = stated.map(|name| file.secret(&["models", tier, "api_key_env"], name));
    let is_stated = key.is_some();
    let key = match key.transpose() {
        Ok(key) => key.flatten(),
        Err(missing) => {
            found.unset.push(missing);
            None
        }
    };
    let bare = wanted.bare(&profile, key).map_err(place)?;
    found.unset.extend(bare.unset.filter(|_| !is_stated).map(place));
    let url = config.base_url.as_deref().or(profile.base_url.as_deref());
    found.urls.extend(url.map(|url| (tier.to_owned(), url.to_owned())));
    let model = bare.model.with_defaults(Defaults {
        effort: config.effort,
        temperature: config.temperature,
        top_p: config.top_p,
        seed: config.seed,
        ..Defaults::default()
    });
    found.secrets.extend(&model.secrets());
    Ok(file.prices.priced(Arc::new(model), file.price_row(config).map(|(row, _)| row)))
}

/// Warnings about limits of a provider that no call of the spec fits into.
pub(crate) fn warnings(file: &File, spec: &RunSpec) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, config) in file.config.providers.iter() {
        let models =
            [Tier::Selector, Tier::Base, Tier::Escalated, Tier::Fallback].map(|tier| spec.model(tier));
        let output = models
            .iter()
            .filter(|model| *model.provider == *name)
            .map(|model| model.max_output_tokens.min(spec.limits.output_tokens))
            .max();
        if let (Some(max), Some(output)) = (config.tokens_per_minute, output)
            && max < output
        {
            warnings.push(format!(
                "providers.{name}.tokens_per_minute is {max}, and a call may write {output} tokens: such a call never \
                 begins; raise it, or lower limits.output_tokens"
            ));
        }
    }
    warnings
}

/// The tools that a provider gets with changed parameters, or not at all.
pub(crate) fn changed_tools(
    file: &File,
    spec: &RunSpec,
    registry: &Registry,
) -> Result<Vec<String>, DomainError> {
    // The tools of a document are said in its prompt.
    match spec.protocol {
        ProtocolSpec::Document(_) => return Ok(Vec::new()),
        ProtocolSpec::Conversation(_) | ProtocolSpec::Output(_) => {}
    }
    let tools: Vec<ToolDefinition> = registry
        .declarations()
        .map(|tool| ToolDefinition {
            name: Arc::clone(&tool.name),
            description: Arc::clone(&tool.description),
            parameters: tool.schema.clone(),
            strict: Strictness::Off,
        })
        .collect();
    let models = &file.config.models;
    let mut lines: Vec<String> = Vec::new();
    for config in
        [Some(&models.base), models.escalated.as_ref(), models.fallback.as_ref()].into_iter().flatten()
    {
        if let Some(profile) = profile(file, config.server_model().spoken())? {
            lines.extend(changes_of(&profile, &tools));
        }
    }
    lines.sort();
    lines.dedup();
    Ok(lines)
}

impl Servers {
    /// The model behind the rate limits of its provider, with retries where they may help.
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
            (RateGate::new(limits), BreakerHandle::new(BreakerPolicy::default()))
        });
        let limited: Arc<dyn ChatModel> = Arc::new(RateLimited::new(model, gate.clone()));
        let broken: Arc<dyn ChatModel> = Arc::new(CircuitBreaker::new(limited, breaker.clone()));
        // Two processes that were refused together must not come back together.
        let seed = u64::from(std::process::id());
        let policy = RetryPolicy { seed, ..RetryPolicy::default() };
        Arc::new(Retrying::new(broken, policy))
    }
}
