//! The file of tokens: TOML, readable by its owner only. It contains hashes, so the file itself opens no door.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use loop_core::types::PicoUsd;
use loop_runtime::tools::files;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};

use super::secret::{NoRandomBytes, Secret, SecretHash};
use crate::caller::{Caller, Role};

/// The prefix of each token, by which secret scanners recognise it.
pub const TOKEN_PREFIX: &str = "lgt_";

/// A token: its holder's name, roles, domains and daily budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Its name in audit entries and approvals: 1 to 64 letters, digits, `.`, `_` and `-`.
    pub name: Arc<str>,
    /// The hash of the secret.
    #[serde(serialize_with = "written", deserialize_with = "hash")]
    pub hash: SecretHash,
    /// The roles of its holder.
    pub roles: BTreeSet<Role>,
    /// The domains that its holder may see. `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domains: Option<BTreeSet<Arc<str>>>,
    /// The daily budget of its holder's runs, in pico-dollars. `None`: no budget of its own.
    #[serde(rename = "day_usd", default, skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "usd", deserialize_with = "limit")]
    pub day_limit: Option<PicoUsd>,
    /// When it was created.
    #[serde(serialize_with = "written", deserialize_with = "instant")]
    pub created: Timestamp,
    /// When it expires. `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "written_instant", deserialize_with = "optional_instant")]
    pub expires: Option<Timestamp>,
}

impl Token {
    /// Whether it has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Its holder as a caller.
    pub fn caller(&self) -> Caller {
        Caller { name: Arc::clone(&self.name), roles: self.roles.clone(), domains: self.domains.clone() }
    }
}

/// The settings of a new token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewToken {
    /// See [`Token::name`].
    pub name: Arc<str>,
    /// See [`Token::roles`]. At least one.
    pub roles: BTreeSet<Role>,
    /// See [`Token::domains`].
    pub domains: Option<BTreeSet<Arc<str>>>,
    /// See [`Token::day_limit`].
    pub day_limit: Option<PicoUsd>,
    /// See [`Token::expires`].
    pub expires: Option<Timestamp>,
}

/// Why the file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It cannot be read or written.
    #[error("{}: {error}; name the file of tokens, or make one with `loopgate serve tokens add`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Other users of the machine can read it.
    #[error("{}: other users can read or change it (mode {mode:o}); `chmod 600` it", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is not a list of tokens.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, and how to fix it.
        problem: String,
    },
    /// A token has this name already.
    #[error("{}: there is a token `{name}` already; choose another name, or remove that one first", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
        /// The name.
        name: Arc<str>,
    },
    /// The system has no random bytes.
    #[error(transparent)]
    Random(#[from] NoRandomBytes),
}

/// A file of tokens.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file at this path. It need not exist before a token is added.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its tokens.
    ///
    /// # Errors
    /// The file cannot be read, other users can read or change it, or it is not a list of tokens.
    pub fn read(&self) -> Result<Vec<Token>, TokenError> {
        let mut file = files::open(&self.path).map_err(|error| self.failed(error))?;
        let found = file.metadata().map_err(|error| self.failed(error))?;
        if !found.is_file() {
            return Err(self.broken("not a file; name the file of tokens"));
        }
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o7777;
            // A group may read it: it has hashes alone, and clusters give a secret to the group of its process.
            if mode & 0o027 != 0 {
                return Err(TokenError::Open { path: self.path.clone(), mode });
            }
        }
        let mut text = String::new();
        let mut limited = (&mut file).take(MAX_FILE + 1);
        limited.read_to_string(&mut text).map_err(|error| self.failed(error))?;
        if text.len() as u64 > MAX_FILE {
            return Err(self.broken("longer than 4 MB; remove tokens that are not used"));
        }
        parse(&text).map_err(|problem| self.broken(problem))
    }

    /// Adds a token, and returns its secret, which is not stored. Creates the file if it is missing.
    ///
    /// # Errors
    /// As [`read`](Self::read), or the token is not valid, its name is taken, or the file cannot be written.
    pub fn add(&self, new: NewToken) -> Result<Secret, TokenError> {
        let secret = Secret::random(TOKEN_PREFIX)?;
        let NewToken { name, roles, domains, day_limit, expires } = new;
        let token = Token {
            name,
            hash: secret.hash(),
            roles,
            domains,
            day_limit,
            created: Timestamp::now(),
            expires,
        };
        check(&token).map_err(|problem| self.broken(problem))?;
        let _lock = self.lock()?;
        let mut tokens = self.read_or_none()?;
        if tokens.iter().any(|known| known.name == token.name) {
            return Err(TokenError::Taken { path: self.path.clone(), name: token.name });
        }
        tokens.push(token);
        self.write(&tokens)?;
        Ok(secret)
    }

    /// Removes a token. False: there is none of this name.
    ///
    /// # Errors
    /// As [`read`](Self::read), or the file cannot be written.
    pub fn remove(&self, name: &str) -> Result<bool, TokenError> {
        let _lock = self.lock()?;
        let mut tokens = self.read()?;
        let before = tokens.len();
        tokens.retain(|token| *token.name != *name);
        if tokens.len() < before {
            self.write(&tokens)?;
        }
        Ok(tokens.len() < before)
    }

    fn read_or_none(&self) -> Result<Vec<Token>, TokenError> {
        match self.read() {
            Err(TokenError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    /// Locks the file against other processes until the lock is dropped.
    fn lock(&self) -> Result<File, TokenError> {
        let lock = self.beside(".lock");
        let open = || {
            let file = private(OpenOptions::new().read(true).write(true).create(true)).open(lock)?;
            file.lock()?;
            Ok(file)
        };
        open().map_err(|error| self.failed(error))
    }

    /// Replaces the file in one atomic step.
    fn write(&self, tokens: &[Token]) -> Result<(), TokenError> {
        let written = TokenTable { token: tokens.to_vec() };
        let text = toml::to_string(&written).map_err(|error| self.broken(error.to_string()))?;
        let beside = self.beside(".new");
        let replace = || {
            let _ = fs::remove_file(&beside);
            let mut file = private(OpenOptions::new().write(true).create_new(true)).open(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        };
        replace().map_err(|error| self.failed(error))
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(ending);
        path.into()
    }

    fn failed(&self, error: io::Error) -> TokenError {
        TokenError::File { path: self.path.clone(), error }
    }

    fn broken(&self, problem: impl Into<String>) -> TokenError {
        TokenError::Content { path: self.path.clone(), problem: problem.into() }
    }
}

/// Makes a new file readable by its owner only.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenTable {
    #[serde(default)]
    token: Vec<Token>,
}

fn written<S: Serializer>(value: &impl fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn written_instant<S: Serializer>(value: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    value.map(|at| at.to_string()).serialize(to)
}

fn usd<S: Serializer>(value: &Option<PicoUsd>, to: S) -> Result<S::Ok, S::Error> {
    value.map(in_usd).serialize(to)
}

fn hash<'de, D: Deserializer<'de>>(from: D) -> Result<SecretHash, D::Error> {
    let hash = SecretHash::parse(&String::deserialize(from)?);
    let wrong = "a hash is not `sha256:` and 64 hexadecimal digits; add the token again";
    hash.ok_or_else(|| D::Error::custom(wrong))
}

fn limit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PicoUsd>, D::Error> {
    let amount = String::deserialize(from)?.parse();
    amount.map(Some).map_err(|error| D::Error::custom(format!("day_usd: {error}")))
}

fn instant<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    let at = String::deserialize(from)?.parse();
    at.map_err(|_| D::Error::custom("it is not an instant; write it as 2026-11-26T03:00:00Z"))
}

fn optional_instant<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    instant(from).map(Some)
}

fn parse(text: &str) -> Result<Vec<Token>, String> {
    // The file holds hashes: its text is not quoted.
    let TokenTable { token: tokens } = toml::from_str(text).map_err(|error| {
        let line =
            error.span().map_or(0, |span| text.get(..span.start).unwrap_or(text).lines().count().max(1));
        format!("line {line}: {}; correct it", error.message().lines().next().unwrap_or("not TOML"))
    })?;
    let mut names = BTreeSet::new();
    for token in &tokens {
        check(token)?;
        if !names.insert(&token.name) {
            return Err(format!("two tokens have the name `{}`; rename one", token.name));
        }
    }
    Ok(tokens)
}

/// The name of the person at this machine.
pub(super) const LOCAL: &str = "local";

fn check(token: &Token) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if token.name.is_empty() || token.name.len() > 64 || !token.name.chars().all(is_plain) {
        return Err(
            "a token has a name of 1 to 64 letters, digits, `.`, `_` and `-`; choose another".to_owned()
        );
    }
    // Whose runs would be theirs.
    if token.name.eq_ignore_ascii_case(LOCAL) {
        return Err(format!("`{LOCAL}` is the person at this machine; choose another name for the token"));
    }
    if token.roles.is_empty() {
        return Err(format!("token `{}` has no role; give it submit, read, approve or admin", token.name));
    }
    if token.domains.iter().flatten().any(|name| name.trim().is_empty()) {
        return Err(format!(
            "token `{}` has a domain without a name; give the name, or leave it out",
            token.name
        ));
    }
    if token.domains.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(format!(
            "token `{}` sees no domain; name one, or leave `domains` out for all",
            token.name
        ));
    }
    Ok(())
}

/// An amount in the notation that [`PicoUsd`] parses.
fn in_usd(PicoUsd(amount): PicoUsd) -> String {
    let (whole, part) = (amount / PicoUsd::PER_USD, amount % PicoUsd::PER_USD);
    let text = format!("{whole}.{part:012}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The most bytes of the file: enough for more than ten thousand tokens.
const MAX_FILE: u64 = 4 << 20;

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
