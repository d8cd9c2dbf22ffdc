//! The settings of a PostgreSQL source.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::connectors::error::ConnectorError;
use crate::connectors::postgres::connection::Encryption;
use crate::connectors::postgres::login::{Origin, is_local, passwords_in};
use crate::connectors::postgres::pool::Pool;
use crate::connectors::tls::client_config;

/// The most connections that a source may have.
const POOL_MAX: usize = 64;

/// A server with a database, and how tools use it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresSettings {
    /// Where it is, and as whom tools log in.
    pub login: PostgresLogin,
    /// How the connection is protected. Default: encrypted, with a certificate that the operating system trusts.
    pub tls: PostgresTls,
    /// The most connections at once, from 1 to 64. Default: 4.
    pub pool: usize,
    /// How long a connection may take to be made, and a call may wait for one. Default: 5 s.
    pub connect_timeout: Duration,
    /// How long the server works on one statement. Default: 10 s. A call's own time limit shortens it.
    pub statement_timeout: Duration,
    /// How long a statement waits for a lock. Default: 2 s.
    pub lock_timeout: Duration,
    /// The schemas in which names without one are looked for. Empty, the default: what the role has.
    pub search_path: Vec<String>,
    /// Further settings of each transaction that hold a part of the scope, for row level security that reads other names than
    /// `loopgate.account` and its like: the setting and `account`, `account_name`, `asset`, `item` or `person`. Default: none.
    pub scope: Vec<(String, String)>,
    /// Whether tools whose effect is to write may change it. Default: false.
    pub writable: bool,
}

/// Where a server is, and as whom tools log in.
#[derive(Clone, Debug)]
pub enum PostgresLogin {
    /// Each part separately.
    Parts {
        /// A name, an address, or a folder that begins with `/` and holds the server's Unix socket.
        host: String,
        /// The port.
        port: u16,
        /// The database.
        database: String,
        /// The role.
        user: String,
        /// The name of the secret that holds the password. `None`: the server asks for none.
        password_env: Option<String>,
    },
    /// The name of the secret that holds all of it, as `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    Url {
        /// The name of the secret.
        url_env: String,
    },
}

/// How a connection is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostgresTls {
    /// Encrypted, and the server's certificate is verified for its name.
    Verified {
        /// A PEM file with authorities to trust in addition to those of the operating system.
        ca: Option<PathBuf>,
    },
    /// Not encrypted.
    Off,
}

impl PostgresSettings {
    /// What each session of the server is set to. Strings are as the scanner reads them.
    pub(crate) fn of_sessions(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("standard_conforming_strings", "on".to_owned()),
            ("lock_timeout", self.lock_timeout.as_millis().max(1).to_string()),
            ("idle_in_transaction_session_timeout", "30000".to_owned()),
        ];
        if !self.search_path.is_empty() {
            let quoted = self.search_path.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
            all.push(("search_path", quoted.collect::<Vec<_>>().join(",")));
        }
        all
    }

    /// The settings of a server with the defaults of the rest.
    pub fn new(login: PostgresLogin) -> Self {
        Self {
            login,
            tls: PostgresTls::Verified { ca: None },
            pool: 4,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(2),
            search_path: Vec::new(),
            scope: Vec::new(),
            writable: false,
        }
    }
}

/// A source: the connections to one server that tools share. No connection is made before the first call.
#[derive(Clone)]
pub struct Postgres {
    pub(crate) pool: Arc<Pool>,
    warnings: Vec<String>,
}

impl Postgres {
    /// The source `name`, as errors call it.
    ///
    /// # Errors
    /// A setting is wrong; the error names its key in `[sources.NAME]`.
    pub fn new(name: &str, settings: PostgresSettings) -> Result<Self, ConnectorError> {
        let wrong = |key: &'static str, message: String| Err(ConnectorError::Setting { key, message });
        let mut warnings = Vec::new();
        if let PostgresLogin::Parts { host, database, user, .. } = &settings.login {
            for (key, value) in [("host", host), ("database", database), ("user", user)] {
                if value.trim().is_empty() || value.contains('\0') {
                    return wrong(key, "it is empty; write it".to_owned());
                }
            }
            if settings.tls == PostgresTls::Off && !is_local(host) {
                warnings.push(format!(
                    "source `{name}` connects to {host} without encryption (`tls = \"off\"`): what it reads, and the login, can \
                     be read and changed on the way"
                ));
            }
        }
        if settings.pool == 0 || settings.pool > POOL_MAX {
            return wrong("pool", format!("it is from 1 to {POOL_MAX}; correct it"));
        }
        for (key, time) in [
            ("connect_timeout_ms", settings.connect_timeout),
            ("statement_timeout_ms", settings.statement_timeout),
            ("lock_timeout_ms", settings.lock_timeout),
        ] {
            if time.is_zero() || time > Duration::from_secs(86_400) {
                return wrong(key, "it is from 1 to 86400000; correct it".to_owned());
            }
        }
        if settings.search_path.iter().any(|schema| schema.trim().is_empty() || schema.contains('\0')) {
            return wrong("search_path", "it names a schema without a name; take it out".to_owned());
        }
        for (setting, part) in &settings.scope {
            if !is_setting(setting) {
                let message = format!(
                    "`{setting}` is not a name of a setting of your own; write two words with a full stop, such as `app.tenant`"
                );
                return wrong("scope", message);
            }
            if !SCOPE_PARTS.contains(&part.as_str()) {
                let message =
                    format!("`{part}` is not a part of the scope; use one of {}", SCOPE_PARTS.join(", "));
                return wrong("scope", message);
            }
        }
        let encryption = match &settings.tls {
            PostgresTls::Off => Encryption::Off,
            PostgresTls::Verified { ca: None } => Encryption::Platform,
            PostgresTls::Verified { ca: Some(path) } => match client_config(Some(path)) {
                Ok(config) => Encryption::Trusting(Arc::new(config)),
                Err(error) => return wrong("ca", error.to_string()),
            },
        };
        let place = Origin::of(&settings.login);
        Ok(Self { pool: Arc::new(Pool::new(name, settings, encryption, place)), warnings })
    }

    /// Warnings for the operator, one line each: a connection without encryption.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The password in the URL of a login, as it is written there and decoded. Empty: it holds none.
    pub fn passwords_in(url: &str) -> Vec<String> {
        passwords_in(url)
    }

    /// The name that errors call it by.
    pub fn name(&self) -> &str {
        &self.pool.name
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("name", &self.pool.name).finish_non_exhaustive()
    }
}

/// The parts of a scope, in the order in which transactions set them.
pub(crate) const SCOPE_PARTS: [&str; 5] = ["account", "account_name", "asset", "item", "person"];

/// Whether it is a name that PostgreSQL lets any role set, and not one of its own.
fn is_setting(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
            && word.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    };
    let mut words = name.split('.');
    words.clone().count() == 2 && words.all(is_word)
}
