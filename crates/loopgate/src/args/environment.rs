//! The user's defaults for commands that name no model, journal or domain: environment variables and `config.toml`.

use std::path::PathBuf;
use std::sync::OnceLock;

use loop_domain::{UserModel, UserSettings};
use loop_llm::http::base_url_of;
use serde::Serialize;

use crate::args::tiered;
use crate::output::Failure;

/// The variable with the model.
const MODEL: &str = "LOOPGATE_MODEL";

/// A default of the user, and where it is set.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) origin: String,
}

/// The user's defaults. A variable takes precedence over the file.
///
/// # Errors
/// The first error, with its place.
pub(crate) fn settings() -> Result<&'static [Setting], Failure> {
    static SETTINGS: OnceLock<Result<Vec<Setting>, Failure>> = OnceLock::new();
    let settings = SETTINGS.get_or_init(read).as_ref();
    settings.map(Vec::as_slice).map_err(|failure| Failure::new(failure.line()))
}

fn read() -> Result<Vec<Setting>, Failure> {
    let file = file();
    let UserSettings { model, base_url, journal, domain } =
        file.as_deref().map(UserSettings::read).transpose()?.unwrap_or_default();
    let at = file.unwrap_or_default().display().to_string();
    let mut settings = Vec::new();
    for (key, variable, written) in [
        ("model", MODEL, model),
        ("journal", "LOOPGATE_JOURNAL", journal.map(placed)),
        ("domain", "LOOPGATE_DOMAIN", domain.map(placed)),
    ] {
        let set = std::env::var(variable).ok().filter(|value| !value.is_empty());
        let set = set.map(|value| (value, variable.to_owned()));
        let Some((value, origin)) = set.or_else(|| Some((written?, at.clone()))) else { continue };
        if key == "model" {
            tiered::model_in(&origin, &value)?;
        }
        settings.push(Setting { key, value, origin });
    }
    if let Some(value) = base_url {
        let wrong = |why: String| Failure::new(format!("{at}: `base_url`: {why}"));
        base_url_of(&value).map_err(&wrong)?;
        let model = settings.iter().find(|setting| setting.key == "model");
        let model = model.ok_or_else(|| wrong("it is for `model`; name the model as well".to_owned()))?;
        // A variable names another model.
        if model.origin == at {
            settings.push(Setting { key: "base_url", value, origin: at });
        }
    }
    Ok(settings)
}

/// The path of the user's `config.toml`. `None`: there is no home folder.
pub(crate) fn file() -> Option<PathBuf> {
    // A relative path counts as none, as the XDG specification says.
    let given = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    Some(given.or_else(|| Some(std::env::home_dir()?.join(".config")))?.join("loopgate/config.toml"))
}

/// A path in the user's file. `~/` is the home folder.
fn placed(path: String) -> String {
    let home = path.strip_prefix("~/").zip(std::env::home_dir());
    home.map_or(path.clone(), |(rest, home)| home.join(rest).display().to_string())
}

pub(crate) fn setting(key: &str) -> Option<&'static Setting> {
    settings().ok()?.iter().find(|setting| setting.key == key)
}

/// The default model for new runs. `None`: the user has none.
pub(crate) fn model() -> Option<UserModel> {
    let Setting { value, origin, .. } = setting("model")?;
    let (tier, model) = tiered::model_in(origin, value).ok()?;
    let base_url = setting("base_url").map(|setting| setting.value.clone());
    let is_general = origin != MODEL;
    Some(UserModel { place: format!("{origin}: {value}"), tier, model, base_url, is_general })
}

/// The default `journal` or `domain`. `None`: the user has none.
pub(crate) fn path(key: &str) -> Option<PathBuf> {
    Some(PathBuf::from(&setting(key)?.value))
}
