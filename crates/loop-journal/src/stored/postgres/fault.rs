//! What a server says, and what to do about it, in one line. Decided on codes and types.

use std::error::Error as _;
use std::fmt;

use tokio_postgres::error::SqlState;

/// What is said where nothing can be written.
pub(in super::super) const READ_ONLY: &str =
    "the database is read-only; name its primary server, or end the read-only mode";
/// What is said where a pooler is between.
pub(super) const POOLED: &str = "a connection pooler gives this program sessions of the server that others use as well, and \
                                 locks of the journal belong to sessions; name the server itself, or set the pooler's \
                                 pool_mode to session";

/// A failure of a session.
#[derive(Debug)]
pub(in super::super) enum SessionError {
    /// The server or the connection says it.
    Client(tokio_postgres::Error),
    /// The server does not answer in time.
    Silent,
    /// A new session does not answer at all.
    NoSession,
    /// A column holds something else than it must.
    Column(usize),
    /// A message that needs nothing but the place.
    Stated(String),
}

impl SessionError {
    fn code(&self) -> Option<&SqlState> {
        if let Self::Client(error) = self { error.code() } else { None }
    }

    /// Whether neither the server nor the connection says it.
    pub(super) fn is_of_client(&self) -> bool {
        matches!(self, Self::Client(error) if error.code().is_none())
            && !self.is_disconnected()
            && !self.is_about_certificate()
    }

    /// Whether the connection broke. What was asked last may have been done. A session that never began is none that broke.
    pub(in super::super) fn is_disconnected(&self) -> bool {
        let Self::Client(error) = self else { return matches!(self, Self::Silent) };
        match error.code() {
            None if self.is_about_certificate() => false,
            Some(code) => {
                *code == SqlState::ADMIN_SHUTDOWN
                    || *code == SqlState::CRASH_SHUTDOWN
                    || *code == SqlState::CANNOT_CONNECT_NOW
                    || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                    || code.code().starts_with("08")
            }
            None => error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()),
        }
    }

    /// Whether the server is there, and cannot show that it is the one that was named.
    fn is_about_certificate(&self) -> bool {
        let Self::Client(error) = self else { return false };
        let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        let inner = source.and_then(std::io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
    }

    /// What to do about it.
    pub(in super::super) fn advice(&self) -> String {
        let says = self.to_string();
        let Some(code) = self.code() else {
            return match self {
                _ if self.is_about_certificate() => format!(
                    "the server's certificate is not accepted; name the host that it is for, or its authority with \
                     sslrootcert ({says})"
                ),
                Self::NoSession => says,
                _ if self.is_disconnected() => {
                    format!(
                        "the server cannot be reached ({says}); start it, or name another journal with --journal"
                    )
                }
                _ => says,
            };
        };
        let advice = match *code {
            // Names of statements are a session's own.
            SqlState::DUPLICATE_PSTATEMENT | SqlState::INVALID_SQL_STATEMENT_NAME => POOLED,
            SqlState::DISK_FULL => "the server's disk is full; make room there",
            SqlState::READ_ONLY_SQL_TRANSACTION => READ_ONLY,
            SqlState::TOO_MANY_CONNECTIONS => "the server has no free connection; raise its max_connections",
            SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                "the server refuses the login; correct the user, or set PGPASSWORD or ~/.pgpass"
            }
            SqlState::INVALID_CATALOG_NAME => {
                "there is no such database; make it with createdb, or correct the URL"
            }
            SqlState::INSUFFICIENT_PRIVILEGE => {
                "the role may not do this; let it own the schema `loopgate`, or create schemas in the database"
            }
            SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
                "the journal's tables are not there; restore them, or name another database"
            }
            SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => {
                "another process holds the journal for too long; try again"
            }
            _ if self.is_disconnected() => "the server ended the connection; start it, or try again",
            _ => return says,
        };
        format!("{advice} ({says})")
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => match (error.as_db_error(), error.source()) {
                (Some(db), _) => write!(f, "{}", db.message()),
                (None, Some(source)) => write!(f, "{source}"),
                (None, None) => write!(f, "{error}"),
            },
            Self::Silent => f.write_str("it does not answer"),
            Self::NoSession => f.write_str(
                "the server takes the login and gives no session within 4 s; where a pooler is between, let its pool have \
                 the four sessions that each process needs, or name the server itself",
            ),
            Self::Column(column) => write!(f, "Invalid column type at index: {column}"),
            Self::Stated(message) => f.write_str(message),
        }
    }
}

impl From<tokio_postgres::Error> for SessionError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Client(error)
    }
}
