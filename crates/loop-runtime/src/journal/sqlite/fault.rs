//! What can go wrong with the file, and what to do about it, in one line.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::journal::JournalError;

pub(super) const NOT_WRITABLE: &str =
    "the journal cannot be written; change its permissions, or use another file with --journal";

/// A failure that does not know its place yet.
#[derive(Debug)]
pub(super) enum Fault {
    Sql(rusqlite::Error),
    Io(io::Error),
    /// A message that needs nothing but the place.
    Said(String),
    Journal(JournalError),
}

impl Fault {
    /// The error that says where and how to mend it.
    pub(super) fn at(self, path: &Path) -> JournalError {
        match self {
            Self::Sql(error) => storage(path, advice(&error)),
            Self::Io(error) => storage(path, format!("{NOT_WRITABLE} ({error})")),
            Self::Said(message) => storage(path, message),
            Self::Journal(error) => error,
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Said(error.to_string())
    }
}

impl From<JournalError> for Fault {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<rusqlite_migration::Error> for Fault {
    fn from(error: rusqlite_migration::Error) -> Self {
        match error {
            rusqlite_migration::Error::RusqliteError { err, .. } => Self::Sql(err),
            other => Self::Said(other.to_string()),
        }
    }
}

/// A storage error on one line.
pub(super) fn storage(path: &Path, message: impl AsRef<str>) -> JournalError {
    let message = message.as_ref().split_whitespace().collect::<Vec<_>>().join(" ");
    JournalError::Storage { place: path.display().to_string(), message }
}

fn advice(error: &rusqlite::Error) -> String {
    let said = match error {
        // SQLite's text of its last error repeats the path, or an SQL text that helps nobody here.
        rusqlite::Error::SqliteFailure(failure, _) => failure.to_string(),
        other => other.to_string(),
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "the journal is in use by another process; try again, or use another file with --journal"
                .to_owned()
        }
        Some(ErrorCode::NotADatabase) => {
            "not a SQLite database, so no loopgate journal; use another file with --journal".to_owned()
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            format!("{NOT_WRITABLE} ({said})")
        }
        Some(ErrorCode::DiskFull) => {
            "the disk is full; make room, or use another file with --journal".to_owned()
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            format!("the file is damaged; restore a copy of it, or use another file with --journal ({said})")
        }
        _ => said,
    }
}
