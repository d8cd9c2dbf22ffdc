//! Makes the prompts and the save target of a domain from its typed file.

use std::fs;
use std::path::PathBuf;

use loop_prompts::Prompts;
use loop_runtime::save::{DetailedTarget, HttpTarget, SaveTarget};
use loop_tools::files;

use crate::error::DomainError;
use crate::file::File;

/// The prompt templates: those of the domain in place of the built-in ones.
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
            let text =
                files::text(&place, files::MAX_BYTES).map_err(|error| refused(&place.display(), error))?;
            overrides.push((name, text));
        }
    }
    // The order of a folder is the disk's; which error comes first should not be.
    overrides.sort();
    Prompts::with_overrides(overrides, config.layout).map_err(|error| file.error(&path, one_line(error)))
}

/// The save target. If its token is missing in the environment, `unset` gets the error, since only a run that saves
/// needs it.
pub(crate) fn save(file: &File, unset: &mut Vec<DomainError>) -> Result<Option<DetailedTarget>, DomainError> {
    let Some(config) = &file.config.save else { return Ok(None) };
    if config.limit_ms == Some(0) {
        return Err(file.error(&["save", "limit_ms"], "nothing is saved in no time; write at least 1"));
    }
    let target = match (&config.file, &config.url) {
        (Some(_), Some(_)) => Err(file.error(&["save", "url"], "`file` is there as well; keep one of them")),
        (None, None) => {
            Err(file.error(&["save"], "neither `file` nor `url` is there; add one, or take `[save]` out"))
        }
        (Some(_), None) if config.bearer_env.is_some() => {
            Err(file.error(&["save", "bearer_env"], "a token is for a `url`; take it out"))
        }
        (Some(template), None) => Ok(SaveTarget::File(save_file(file, template)?)),
        (None, Some(url)) => Ok(SaveTarget::Http(save_url(file, url, config.bearer_env.as_deref(), unset)?)),
    };
    target.map(|target| Some(DetailedTarget { target, evidence: config.evidence, spec: None }))
}

/// The path of the saved file. `{item}` and `{run}` in it are replaced when an outcome is saved.
fn save_file(file: &File, template: &str) -> Result<PathBuf, DomainError> {
    let path = ["save", "file"];
    if template.trim().is_empty() || template.ends_with('/') {
        return Err(file.error(&path, "no file is named; write, for example, `out/{item}.json`"));
    }
    let unknown =
        template.split('{').skip(1).any(|after| !after.starts_with("item}") && !after.starts_with("run}"));
    if unknown {
        let message = format!("`{template}` has a `{{` that begins neither {{item}} nor {{run}}; correct it");
        return Err(file.error(&path, message));
    }
    Ok(file.resolve(&path, template))
}

fn save_url(
    file: &File,
    url: &str,
    bearer_env: Option<&str>,
    unset: &mut Vec<DomainError>,
) -> Result<HttpTarget, DomainError> {
    let target =
        HttpTarget::new(url).map_err(|error| file.error(&["save", "url"], format!("the address {error}")))?;
    let Some(name) = bearer_env else { return Ok(target) };
    let path = ["save", "bearer_env"];
    let token = match file.secret(&path, name) {
        Ok(Some(token)) => token,
        Ok(None) => return Ok(target),
        Err(missing) => {
            unset.push(missing);
            return Ok(target);
        }
    };
    target.with_bearer(&token).map_err(|error| file.error(&path, format!("`{name}`: {error}")))
}

pub(crate) fn one_line(message: impl std::fmt::Display) -> String {
    message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
