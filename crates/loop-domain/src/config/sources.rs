//! `[sources]`: where data is.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::OrderedTable;

/// Where data is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "without the feature it is only recognised"))]
pub(crate) struct SourceConfig {
    /// What it is: `sqlite`, a file, or `postgres`, a database of a PostgreSQL server.
    pub(crate) kind: SourceKind,
    /// For `sqlite`: the file. Give this or `made_from`.
    pub(crate) file: Option<String>,
    /// For `sqlite`: a `.sql` script from which the file is made at first use, below `.loopgate` in the domain's folder.
    pub(crate) made_from: Option<String>,
    /// Whether tools whose effect is to write may change it; with `made_from` they change a working copy, which is kept until
    /// the script changes. Default: false, it is opened for reading only.
    #[serde(default)]
    pub(crate) writable: bool,
    /// For `sqlite`: milliseconds that a lock of another program on the file is waited for at most. Default: 5,000. The time
    /// limit of a tool shortens it.
    #[schemars(range(max = 86_400_000))]
    pub(crate) busy_timeout_ms: Option<u64>,
    /// For `postgres`: the server, as a name, an address, or a folder that begins with `/` and holds its Unix socket. Give this
    /// or `url_env`.
    pub(crate) host: Option<String>,
    /// For `postgres`: the port. Default: 5432.
    #[schemars(range(min = 1))]
    pub(crate) port: Option<u16>,
    /// For `postgres`: the database.
    pub(crate) database: Option<String>,
    /// For `postgres`: the role that tools log in as. It should have no more rights than they need.
    pub(crate) user: Option<String>,
    /// For `postgres`: the name of the secret with the role's password. Default: it logs in without one.
    pub(crate) password_env: Option<String>,
    /// For `postgres`: the name of the secret with `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, in place of the other keys
    /// of the login.
    pub(crate) url_env: Option<String>,
    /// For `postgres`: `verify`, which encrypts and verifies the server's certificate, or `off`. Default: `verify`, and `off`
    /// for a Unix socket.
    pub(crate) tls: Option<TlsKind>,
    /// For `postgres`: a PEM file with the authority of the server's certificate, which is trusted in addition to those of the
    /// operating system. Default: none.
    pub(crate) ca: Option<String>,
    /// For `postgres`: the most connections at once. Default: 4.
    #[schemars(range(min = 1, max = 64))]
    pub(crate) pool: Option<usize>,
    /// For `postgres`: milliseconds until a connection has to be made, or to be free. Default: 5,000.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(crate) connect_timeout_ms: Option<u64>,
    /// For `postgres`: milliseconds that the server works on a statement at most. Default: 10,000. The time limit of a tool
    /// shortens it.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(crate) statement_timeout_ms: Option<u64>,
    /// For `postgres`: milliseconds that a statement waits for a lock at most. Default: 2,000.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(crate) lock_timeout_ms: Option<u64>,
    /// For `postgres`: the schemas in which names without one are looked for. Default: those of the role.
    #[serde(default)]
    pub(crate) search_path: Vec<String>,
    /// For `postgres`: further settings of each transaction that hold a part of the scope, for example
    /// `{ "app.tenant" = "account" }`. Default: only `loopgate.account` and its like are set.
    #[serde(default)]
    pub(crate) scope: OrderedTable<String>,
}

/// Kinds of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SourceKind {
    /// A SQLite file.
    Sqlite,
    /// A database of a PostgreSQL server.
    Postgres,
}

impl SourceKind {
    /// The kind as it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// How a connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TlsKind {
    /// It is encrypted, and the server's certificate is verified.
    Verify,
    /// It is not encrypted.
    Off,
}
