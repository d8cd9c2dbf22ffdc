//! Makes the models of a domain's tiers from its typed file.

use std::path::Path;
use std::sync::Arc;

use loop_core::secrets::Secrets;
use loop_llm::wrap::{RecordedModel, Recorder, RecordingModel};
use loop_llm::{ChatModel, Profile, Scripted};
use loop_runtime::models::{Models, Offline};
use loop_tools::files;

use crate::config::ModelConfig;
use crate::error::DomainError;
use crate::file::File;
use crate::parts::one_line;
use crate::remote::{self, LOCAL, Servers};
use crate::secret;

/// The models of a domain.
pub(crate) struct BuiltModels {
    pub(crate) models: Models,
    /// What was found while they were made.
    pub(crate) found: ModelFindings,
    /// The recorder of their exchanges. `None`: nothing is recorded.
    pub(crate) recorder: Option<Recorder>,
}

/// What is found while models are made.
#[derive(Debug, Default)]
pub(crate) struct ModelFindings {
    /// The environment variables that their calls need and that are not set.
    pub(crate) unset: Vec<DomainError>,
    /// The credentials that they use.
    pub(crate) secrets: Secrets,
    /// Where they are: the name of the tier, and the base URL, which may hold a credential.
    pub(crate) urls: Vec<(String, String)>,
}

/// A model without wrappers.
struct BareModel<'a> {
    tier: &'static str,
    config: &'a ModelConfig,
    model: Arc<dyn ChatModel>,
}

/// Makes the model of each tier. With `record`, their exchanges are written to that file. Their credentials and `own`
/// are masked.
pub(crate) fn models(file: &File, record: Option<&Path>, own: &Secrets) -> Result<BuiltModels, DomainError> {
    let config = &file.config.models;
    let mut found = ModelFindings::default();
    let mut bare = |tier: &'static str, config| bare(file, tier, config, &mut found);
    let base = bare("base", &config.base)?;
    let selector = config.selector.as_ref().map(|config| bare("selector", config)).transpose()?;
    let escalated = config.escalated.as_ref().map(|config| bare("escalated", config)).transpose()?;
    let fallback = config.fallback.as_ref().map(|config| bare("fallback", config)).transpose()?;
    found.secrets.extend(&of_environment());
    found.secrets.extend(own);
    let recorder = match record {
        Some(path) => Some(Recorder::create(path, found.secrets.clone()).map_err(|error| {
            DomainError::Option { option: format!("--record {}", path.display()), message: error.to_string() }
        })?),
        None => None,
    };
    let mut servers = Servers::default();
    let mut wrap = |bare: BareModel<'_>| {
        let BareModel { tier, config, mut model } = bare;
        if let Some(recorder) = &recorder {
            model = Arc::new(RecordingModel::new(model, recorder.clone(), tier));
        }
        if LOCAL.contains(&config.provider.as_str()) { model } else { servers.guarded(file, config, model) }
    };
    let base = wrap(base);
    let mut or_base = |bare: Option<BareModel<'_>>| bare.map_or_else(|| Arc::clone(&base), &mut wrap);
    let (selector, escalated, fallback) = (or_base(selector), or_base(escalated), or_base(fallback));
    Ok(BuiltModels { models: Models { selector, base, escalated, fallback }, found, recorder })
}

/// The keys of known providers in the environment. They are masked too, since a tool or a model may read one that no
/// tier uses.
fn of_environment() -> Secrets {
    let variables = Profile::all().iter().filter_map(|profile| profile.api_key_env.as_deref());
    let keys: Vec<String> = variables.filter_map(|variable| secret::of_environment(variable).ok()).collect();
    // What is shorter is in place of a key, and may be a word.
    Secrets::of(keys.iter().map(String::as_str).filter(|key| key.len() >= LEAST_OF_KEY))
}

/// The fewest bytes of a key that is masked although no model uses it.
const LEAST_OF_KEY: usize = 16;

/// The name of the model that a recording has for a tier, or the base model's if it has none. Errors of the file are
/// reported when the model is made.
pub(crate) fn recorded_name(file: &File, tier: &str, config: &ModelConfig) -> Option<String> {
    let recording = config.recording.as_ref().filter(|_| config.provider == "recorded")?;
    let recorded = RecordedModel::open(file.resolve(&["models", tier, "recording"], recording)).ok()?;
    let name = recorded.model_of(tier).or_else(|| recorded.model_of("base"))?;
    Some(name.to_string())
}

fn bare<'a>(
    file: &File,
    tier: &'static str,
    config: &'a ModelConfig,
    found: &mut ModelFindings,
) -> Result<BareModel<'a>, DomainError> {
    check_keys(file, tier, config)?;
    let error = |key: &str, message: String| file.error(&["models", tier, key], message);
    let model: Arc<dyn ChatModel> = match (config.provider.as_str(), &config.script, &config.recording) {
        ("offline", _, _) => Arc::new(Offline::new()),
        ("scripted", Some(script), _) => {
            let script = file.resolve(&["models", tier, "script"], script);
            let shown = script.display();
            let text = files::text(&script, files::MAX_BYTES).map_err(|cause| {
                error(
                    "script",
                    format!("{shown}: cannot be read: {cause}; correct the path or make the file"),
                )
            })?;
            let scripted = Scripted::from_json(&text).map_err(|cause| {
                error("script", format!("{shown}: is not a script: {}; correct it there", one_line(cause)))
            })?;
            Arc::new(scripted)
        }
        ("recorded", _, Some(recording)) => {
            let path = file.resolve(&["models", tier, "recording"], recording);
            Arc::new(RecordedModel::open(&path).map_err(|cause| error("recording", one_line(cause)))?)
        }
        ("scripted", None, _) => {
            return Err(error(
                "provider",
                "a scripted model needs its replies; add `script = \"FILE.json\"`".to_owned(),
            ));
        }
        ("recorded", _, None) => {
            let message = "a recorded model needs its recording; add `recording = \"FILE.jsonl\"`";
            return Err(error("provider", message.to_owned()));
        }
        _ => remote::model(file, tier, config, found)?,
    };
    Ok(BareModel { tier, config, model })
}

/// Fails for keys that the provider does not use, and for numbers out of range.
fn check_keys(file: &File, tier: &str, config: &ModelConfig) -> Result<(), DomainError> {
    let provider = config.provider.as_str();
    let is_remote = !LOCAL.contains(&provider);
    let (server, scripted, recorded) =
        ("a provider with a server", "the provider `scripted`", "the provider `recorded`");
    for (key, is_given, fits, wants) in [
        ("base_url", config.base_url.is_some(), is_remote, server),
        ("api_key_env", config.api_key_env.is_some(), is_remote, server),
        ("base_model", config.base_model.is_some(), is_remote, server),
        ("effort", config.effort.is_some(), is_remote, server),
        ("temperature", config.temperature.is_some(), is_remote, server),
        ("top_p", config.top_p.is_some(), is_remote, server),
        ("seed", config.seed.is_some(), is_remote, server),
        ("script", config.script.is_some(), provider == "scripted", scripted),
        ("recording", config.recording.is_some(), provider == "recorded", recorded),
    ] {
        if is_given && !fits {
            return Err(file.error(&["models", tier, key], format!("`{key}` is for {wants}; take it out")));
        }
    }
    for (key, value, max) in [("temperature", config.temperature, 2.0), ("top_p", config.top_p, 1.0)] {
        if value.is_some_and(|value| !(0.0..=max).contains(&value)) {
            let message = format!("`{key}` is from 0 to {max}; correct it, or take it out");
            return Err(file.error(&["models", tier, key], message));
        }
    }
    Ok(())
}
