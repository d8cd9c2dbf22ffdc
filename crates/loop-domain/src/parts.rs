//! From the typed file to prompts, models and the place where the outcome is saved.

use std::fs;
use std::sync::Arc;

use loop_llm::{ChatModel, Offline, Scripted};
use loop_prompts::Prompts;
use loop_runtime::{Models, SaveTarget};

use crate::config::ModelConfig;
use crate::error::DomainError;
use crate::file::File;

/// The templates, with those of the domain in place of the built-in ones.
pub(crate) fn prompts(file: &File) -> Result<Prompts, DomainError> {
    let config = &file.config.prompts;
    let Some(folder) = &config.folder else {
        return Prompts::with_overrides(std::iter::empty(), config.layout)
            .map_err(|error| file.error(&["prompts"], one_line(error)));
    };
    let path = ["prompts", "folder"];
    let folder = file.resolve(&path, folder);
    let shown = folder.display();
    if !folder.is_dir() {
        return Err(file
            .error(&path, format!("{shown}: there is no such folder; correct the path or make the folder")));
    }
    let refused = |shown: &dyn std::fmt::Display, error: std::io::Error| {
        file.error(&path, format!("{shown}: cannot be read: {error}; check it"))
    };
    let unreadable = |error| refused(&shown, error);
    let mut overrides = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") && !name.starts_with('.') {
            let place = entry.path();
            let text = fs::read_to_string(&place).map_err(|error| refused(&place.display(), error))?;
            overrides.push((name, text));
        }
    }
    // The order of a folder is the disk's; which error comes first should not be.
    overrides.sort();
    Prompts::with_overrides(overrides, config.layout).map_err(|error| file.error(&path, one_line(error)))
}

/// The model of each tier.
pub(crate) fn models(file: &File) -> Result<Models, DomainError> {
    let config = &file.config.models;
    let base = model(file, "base", &config.base)?;
    let or_base = |tier: &str, config: &Option<ModelConfig>| match config {
        Some(config) => model(file, tier, config),
        None => Ok(Arc::clone(&base)),
    };
    Ok(Models {
        picker: or_base("picker", &config.picker)?,
        escalated: or_base("escalated", &config.escalated)?,
        base,
    })
}

fn model(file: &File, tier: &str, config: &ModelConfig) -> Result<Arc<dyn ChatModel>, DomainError> {
    let path = ["models", tier, "script"];
    match (config.provider.as_str(), &config.script) {
        ("scripted", Some(script)) => {
            let script = file.resolve(&path, script);
            let shown = script.display();
            let text = fs::read_to_string(&script).map_err(|error| {
                file.error(
                    &path,
                    format!("{shown}: cannot be read: {error}; correct the path or make the file"),
                )
            })?;
            let scripted = Scripted::from_json(&text).map_err(|error| {
                file.error(&path, format!("{shown}: is no script: {}; correct it there", one_line(error)))
            })?;
            Ok(Arc::new(scripted))
        }
        ("scripted", None) => {
            let message = "a scripted model needs its replies; add `script = \"FILE.json\"`";
            Err(file.error(&["models", tier, "provider"], message))
        }
        (_, Some(_)) => Err(file.error(&path, "`script` is for the provider `scripted`; take it out")),
        // Other providers were refused when the spec was made.
        (_, None) => Ok(Arc::new(Offline::new())),
    }
}

/// Where outcomes are saved; `{item}` and `{run}` in it are filled in when one is.
pub(crate) fn save(file: &File) -> Result<Option<SaveTarget>, DomainError> {
    let path = ["save", "file"];
    let Some(template) = &file.config.save.file else {
        return Ok(None);
    };
    if template.trim().is_empty() || template.ends_with('/') {
        return Err(file.error(&path, "no file is named; write, for example, `out/{item}.json`"));
    }
    let unknown =
        template.split('{').skip(1).any(|after| !after.starts_with("item}") && !after.starts_with("run}"));
    if unknown {
        let message = format!("`{template}` has a `{{` that begins neither {{item}} nor {{run}}; correct it");
        return Err(file.error(&path, message));
    }
    Ok(Some(SaveTarget::File(file.resolve(&path, template))))
}

fn one_line(message: impl std::fmt::Display) -> String {
    message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
