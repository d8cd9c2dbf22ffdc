//! From the name of a secret to the secret: `[secrets]` says where it is, else it is a variable of the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use loop_llm::http::holds_url_secret;
use loop_tools::files;

use crate::config::SecretConfig;
use crate::error::DomainError;
use crate::file::File;
use crate::server::{NO_VARIABLE, is_variable};

/// Bytes of the longest secret.
const BYTES_MAX: u64 = 65_536;
/// How long a program may take to print one.
const PRINTS_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether the program has ended.
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// What is wrong with a secret: the key of its table, and what to do about it.
type KeyError = (&'static str, String);

/// The secrets that were found so far, by name: each is looked for once.
#[derive(Default)]
pub(crate) struct FoundSecrets {
    found: Mutex<BTreeMap<String, Result<String, KeyError>>>,
    /// Whether programs are not run that print secrets.
    pub(crate) programs_rest: bool,
}

impl FoundSecrets {
    fn get_or_find(
        &self,
        name: &str,
        find: impl FnOnce() -> Result<String, KeyError>,
    ) -> Result<String, KeyError> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.entry(name.to_owned()).or_insert_with(find).clone()
    }
}

impl fmt::Debug for FoundSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.found.lock().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("FoundSecrets").field("names", &names).finish_non_exhaustive()
    }
}

impl File {
    /// Whether the key at `path` names a secret that there can be.
    ///
    /// # Errors
    /// `[secrets]` does not know the name, and no variable of the environment can have it.
    pub(crate) fn names_secret(&self, path: &[&str], name: &str) -> Result<(), DomainError> {
        let is_known = self.config.secrets.get(name).is_some() || is_variable(name);
        if is_known { Ok(()) } else { Err(self.error(path, NO_VARIABLE)) }
    }

    /// The secret that the key at `path` names: what `[secrets.NAME]` leads to, or else the variable of the environment with
    /// this name. White space at its ends is left out. `None`: a program would print it, and programs rest while a domain is
    /// checked.
    ///
    /// # Errors
    /// It is not there, with the place that says where it should be. No message holds a part of it.
    pub(crate) fn secret(&self, path: &[&str], name: &str) -> Result<Option<String>, DomainError> {
        let Some(config) = self.config.secrets.get(name) else {
            self.names_secret(path, name)?;
            return of_environment(name).map(Some).map_err(|message| self.error(path, message));
        };
        if self.secrets.programs_rest && config.command.is_some() {
            return Ok(None);
        }
        let resolved = |key: &str, text: &str| self.resolve(&["secrets", name, key], text);
        let found = self.secrets.get_or_find(name, || find(config, &self.folder, resolved));
        found.map(Some).map_err(|(key, message)| {
            let place = ["secrets", name, key];
            self.error(if key.is_empty() { &place[..2] } else { &place }, message)
        })
    }
}

/// What a variable holds.
pub(crate) fn of_environment(variable: &str) -> Result<String, String> {
    let value = std::env::var(variable).ok().map(|value| value.trim().to_owned());
    value.filter(|value| !value.is_empty()).ok_or_else(|| unset(variable, "the secret"))
}

/// What is said of a variable that is not set. One that is not written as variables are may be the secret itself, put in the
/// place of its name, and is not shown.
pub(crate) fn unset(variable: &str, to: &str) -> String {
    if is_plain(variable) {
        return format!("the environment variable `{variable}` is not set; set it to {to}");
    }
    format!(
        "the environment variable that is named here is not set; set it to {to}, and write its name here, not what it holds"
    )
}

fn is_plain(variable: &str) -> bool {
    variable.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Whether a setting, as `--set` takes it (`KEY=VALUE`), may hold a secret and not the name of one: its value is then neither
/// shown nor journaled.
pub fn may_hold_secret(setting: &str) -> bool {
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    let last = key.rsplit('.').next().unwrap_or_default();
    let is_named = sounds_secret(last) || last.trim().to_ascii_lowercase().ends_with("_env");
    holds_url_secret(setting)
        || sounds_secret(value)
        || is_named && !is_plain(value.trim().trim_matches(['"', '\'']))
}

/// A setting as messages name it.
pub(crate) fn shown_setting(key: &str, value: &str) -> String {
    let setting = format!("{key}={value}");
    format!("--set {}", if may_hold_secret(&setting) { format!("{key}=…") } else { setting })
}

/// Whether a name is that of a place for a secret.
pub(crate) fn sounds_secret(name: &str) -> bool {
    let name = name.to_uppercase().replace(['_', '-'], "").replace("TOKENS", "");
    let words = [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "CREDENTIAL",
        "APIKEY",
        "ACCESSKEY",
        "PRIVATEKEY",
        "AUTHORIZATION",
    ];
    words.iter().any(|word| name.contains(word))
}

fn find(
    config: &SecretConfig,
    folder: &Path,
    resolved: impl Fn(&str, &str) -> PathBuf,
) -> Result<String, KeyError> {
    let (key, secret) = match (&config.file, &config.command, &config.env) {
        (Some(file), None, None) => ("file", of_file(&resolved("file", file))),
        (None, Some(command), None) => ("command", of_program(command, folder)),
        (None, None, Some(variable)) if !is_variable(variable) => ("env", Err(NO_VARIABLE.to_owned())),
        (None, None, Some(variable)) => ("env", of_environment(variable)),
        (None, None, None) => {
            ("", Err("it does not say where the secret is; add `file`, `command` or `env`".to_owned()))
        }
        _ => ("", Err("it names several places; keep one of `file`, `command` and `env`".to_owned())),
    };
    secret.map_err(|message| (key, message))
}

fn of_file(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let unreadable =
        |error: io::Error| format!("{shown}: cannot be read: {error}; correct the path or make the file");
    let file = files::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(format!("{shown}: it is not a file; name one"));
    }
    secret_of(&read(file).map_err(unreadable)?).map_err(|wrong| format!("{shown}: {wrong}"))
}

fn of_program(command: &[String], folder: &Path) -> Result<String, String> {
    let [program, arguments @ ..] = command else {
        return Err("it names no program; write the program and its arguments".to_owned());
    };
    let failed = |error: io::Error| format!("`{program}` cannot be run: {error}; correct the command");
    // What it writes to its error output may be about the secret, or the secret.
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let (sender, printed) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || sender.send(read(output)));
    }
    let until = Instant::now() + PRINTS_WITHIN;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if Instant::now() < until => thread::sleep(LOOKS_EVERY),
            None => {
                // It may just have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!(
                    "`{program}` took over 10 s; see why it waits, or give the secret in a file"
                ));
            }
        }
    };
    // A program that it left behind may hold the pipe.
    let left = until.saturating_duration_since(Instant::now()).max(LOOKS_EVERY);
    let printed = match printed.recv_timeout(left) {
        Ok(printed) => printed.map_err(failed)?,
        Err(_) => return Err(format!("`{program}` ended and did not close its output; see what it started")),
    };
    // What prints more than is read fails for that.
    if !status.success() && printed.len() as u64 <= BYTES_MAX {
        return Err(format!("`{program}` failed ({status}); run it by hand to see why"));
    }
    secret_of(&printed).map_err(|wrong| format!("what `{program}` prints: {wrong}"))
}

/// At most a byte more than a secret may have.
fn read(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn secret_of(bytes: &[u8]) -> Result<String, &'static str> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err("it is over 65,536 bytes; give the secret alone");
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8; give the secret alone")?.trim();
    if text.is_empty() {
        return Err("it is empty; write the secret into it");
    }
    Ok(text.to_owned())
}
