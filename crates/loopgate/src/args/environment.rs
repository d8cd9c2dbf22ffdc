//! What the environment and a user's `config.toml` say for commands that name no model, journal or domain.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use loop_domain::{UserModel, UserSettings};
use serde::Serialize;

use crate::context::places;
use crate::output::Failure;

/// The variables of the environment that the program reads, and what each of them says.
pub(crate) const VARIABLES: [(&str, &str); 13] = [
    ("LOOPGATE_MODEL", "the base model of runs that begin: PROVIDER/NAME"),
    ("LOOPGATE_JOURNAL", "the journal: a file, or the URL of a PostgreSQL database"),
    ("LOOPGATE_DOMAIN", "the domain folder of commands that name none"),
    ("LOOPGATE_PRICES", "a file with prices of your own"),
    ("XDG_CONFIG_HOME", "the folder of loopgate/config.toml [default: ~/.config]"),
    ("XDG_STATE_HOME", "the folder of loopgate/journal.db [default: ~/.local/state]"),
    ("XDG_CACHE_HOME", "the folder of stored results of evals [default: ~/.cache]"),
    ("TRACEPARENT", "the span in which a run is requested"),
    ("PGPASSWORD, PGPASSFILE", "the password of a journal in PostgreSQL"),
    ("HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY", "the proxies of calls to models and servers"),
    ("NO_COLOR, CLICOLOR_FORCE, TERM", "whether lines have colours"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_*", "where traces and metrics are sent"),
    (
        "OPENAI_API_KEY, ANTHROPIC_API_KEY, …",
        "the key of a provider's models; `loopgate doctor DOMAIN` names one that is missing",
    ),
];

/// The variables, for the help of a command.
pub(crate) fn variables() -> String {
    let mut text = "Variables of the environment:\n".to_owned();
    for (name, says) in VARIABLES {
        let _ = write!(text, "\n  {name}\n      {says}");
    }
    text
}

/// A setting of the user, and where it was said.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) origin: String,
}

/// What holds where a command names nothing else. An option comes first, then a variable, then the file.
#[derive(Debug, Default)]
pub(crate) struct User {
    settings: Vec<Setting>,
    model: Option<UserModel>,
}

impl User {
    /// The value of a key.
    fn get(&self, key: &str) -> Option<PathBuf> {
        Some(PathBuf::from(&self.settings.iter().find(|setting| setting.key == key)?.value))
    }

    fn read() -> Result<Self, Failure> {
        let Some(file) = file() else { return Ok(Self::default()) };
        let UserSettings { model, base_url, journal, domain } = UserSettings::read(&file)?;
        let at = file.display().to_string();
        let below = |path: String| placed(&file, &path);
        let mut user = Self::default();
        for (key, variable, written) in [
            ("model", "LOOPGATE_MODEL", model),
            ("journal", "LOOPGATE_JOURNAL", journal.map(below)),
            ("domain", "LOOPGATE_DOMAIN", domain.map(below)),
        ] {
            let set = std::env::var_os(variable).filter(|value| !value.is_empty());
            let set = set.map(|value| (value.to_string_lossy().into_owned(), variable.to_owned()));
            let Some((value, origin)) = set.or_else(|| Some((written?, at.clone()))) else { continue };
            if key == "model" {
                let (tier, model) = places::model_in(&origin, &value)?;
                let base_url = base_url.clone().filter(|_| origin == at);
                let place = if origin == at { format!("{at}: model") } else { format!("{origin}={value}") };
                let url =
                    base_url.clone().map(|value| Setting { key: "base_url", value, origin: at.clone() });
                user.settings.extend(url);
                user.model = Some(UserModel { place, tier, model, base_url });
            }
            user.settings.push(Setting { key, value, origin });
        }
        Ok(user)
    }
}

/// The path of the user's file. `None`: there is no home folder.
pub(crate) fn file() -> Option<PathBuf> {
    // A relative path counts as none, as the XDG specification says.
    let given = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = given.or_else(|| Some(std::env::home_dir()?.join(".config")))?;
    Some(folder.join("loopgate/config.toml"))
}

/// A path that is written in the user's file: below the home folder after `~/`, else below the file's folder. A URL stays.
fn placed(file: &Path, path: &str) -> String {
    let home = path.strip_prefix("~/").and_then(|rest| Some(std::env::home_dir()?.join(rest)));
    let below = || file.parent().unwrap_or(Path::new("")).join(path);
    if path.contains("://") { path.to_owned() } else { home.unwrap_or_else(below).display().to_string() }
}

fn read() -> &'static Result<User, Failure> {
    static USER: OnceLock<Result<User, Failure>> = OnceLock::new();
    USER.get_or_init(User::read)
}

/// What the user said.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub(crate) fn settings() -> Result<&'static [Setting], Failure> {
    read().as_ref().map(|user| &*user.settings).map_err(|failure| Failure::new(failure.line()))
}

/// The model of runs that begin. `None`: the user names none.
pub(crate) fn model() -> Option<UserModel> {
    read().as_ref().ok()?.model.clone()
}

/// The journal of commands that name none. `None`: the usual one.
pub(crate) fn journal() -> Option<PathBuf> {
    read().as_ref().ok()?.get("journal")
}

/// The domain of commands that name none. `None`: each has to name one.
pub(crate) fn domain() -> Option<PathBuf> {
    read().as_ref().ok()?.get("domain")
}

/// The words of a command line with the user's domain behind the command, which is `words` long, where it names none.
pub(crate) fn with_domain(line: &[OsString], words: usize) -> Option<Vec<OsString>> {
    let mut line = line.to_vec();
    line.insert(words.min(line.len()), domain()?.into_os_string());
    Some(line)
}
