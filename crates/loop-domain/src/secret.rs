//! Looks up secrets by name: in the place that `[secrets]` names, or else in the environment variable of that name.

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

/// The most bytes of a secret.
const BYTES_MAX: u64 = 65_536;
/// How long a program may take to print a secret.
const PRINTS_WITHIN: Duration = Duration::from_secs(10);
/// How often the program is checked for its exit.
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// An error in a table of `[secrets]`: the key, and what is wrong and how to fix it.
type KeyError = (&'static str, String);

/// The secrets that were found so far, by name. Each is looked up once.
#[derive(Default)]
pub(crate) struct FoundSecrets {
    found: Mutex<BTreeMap<String, Result<String, KeyError>>>,
    /// Whether programs that print secrets are not run, as during a check.
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
    /// Checks that the key at `path` names a secret that can exist.
    ///
    /// # Errors
    /// `[secrets]` does not have the name, and it is not a valid name of an environment variable.
    pub(crate) fn names_secret(&self, path: &[&str], name: &str) -> Result<(), DomainError> {
        let is_known = self.config.secrets.get(name).is_some() || is_variable(name);
        if is_known { Ok(()) } else { Err(self.error(path, NO_VARIABLE)) }
    }

    /// The secret that the key at `path` names: from `[secrets.NAME]`, or else from the environment variable of that
    /// name. White space at its ends is removed. `None`: a program would print it, and programs are not run during a
    /// check.
    ///
    /// # Errors
    /// The secret is missing. The message says where it should be, and has no part of a secret.
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

/// The value of a variable.
pub(crate) fn of_environment(variable: &str) -> Result<String, String> {
    let value = std::env::var(variable).ok().map(|value| value.trim().to_owned());
    value.filter(|value| !value.is_empty()).ok_or_else(|| unset(variable, "the secret"))
}

/// The message for a variable that is not set. A name that is not a valid variable may be the secret itself, written in
/// place of its name, so it is not shown.
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

/// Whether the value of a setting in the form of `--set` (`KEY=VALUE`) may be a secret and not the name of one. Such a
/// value is not shown and not journaled.
pub fn may_hold_secret(setting: &str) -> bool {
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    let last = key.rsplit('.').next().unwrap_or_default();
    let is_named = sounds_secret(last) || last.trim().to_ascii_lowercase().ends_with("_env");
    holds_url_secret(setting)
        || sounds_secret(value)
        || is_named && !is_plain(value.trim().trim_matches(['"', '\'']))
}

/// A setting as messages show it.
pub(crate) fn shown_setting(key: &str, value: &str) -> String {
    let setting = format!("{key}={value}");
    format!("--set {}", if may_hold_secret(&setting) { format!("{key}=…") } else { setting })
}

/// Whether a name suggests a secret.
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

/// Reads at most one byte more than a secret may have.
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
