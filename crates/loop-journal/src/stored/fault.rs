//! What can go wrong with the file, and what to do about it, in one line.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::sql;
use crate::JournalError;
use crate::files;

pub(super) const NOT_WRITABLE: &str =
    "the journal cannot be written; change its permissions, or use another file with --journal";

const FULL: &str = "the disk is full; make room, or use another file with --journal";
const TOO_LARGE: &str = "the journal may not grow: this process's limit for the size of a file is reached; raise it \
                         (`ulimit -f`), or use another file with --journal";

const NOT_TAKEN: &str = "the database did not take what was written, so it counts as not written; restore a copy of the \
                         journal, or use another one with --journal";

/// What the journal's database has that no format of this program made.
pub(super) fn not_own(kind: &str, name: &str, table: &str) -> String {
    format!(
        "its table {table} has the {kind} {name}, which is not of loopgate and may change what is written; drop it, or restore a \
         copy of the journal"
    )
}

/// A failure that does not know its place yet.
#[derive(Debug)]
pub(super) enum Fault {
    Sql(sql::Error),
    Io(io::Error),
    /// A message that needs nothing but the place.
    Stated(String),
    Journal(JournalError),
}

impl Fault {
    /// The error that says where and how to fix it.
    pub(super) fn at(self, path: &Path) -> JournalError {
        match self {
            Self::Sql(sql::Error::Sqlite(error)) => storage(path, advice(&error, path)),
            #[cfg(feature = "postgres")]
            Self::Sql(sql::Error::Postgres(error)) => storage(path, error.advice()),
            Self::Io(error) => storage(path, of_the_system(&error)),
            Self::Stated(message) => storage(path, message),
            Self::Journal(error) => error,
        }
    }

    /// The same of a write that is not tried again: where the connection broke, it is not known whether it was done.
    pub(super) fn of_a_write(self, path: &Path) -> JournalError {
        let is_unknown = self.is_disconnected();
        match self.at(path) {
            JournalError::Storage { place, message } if is_unknown => JournalError::Storage {
                place,
                message: format!(
                    "{message}; whether this was done is not known, so look before you try again"
                ),
            },
            error => error,
        }
    }

    /// Whether the connection to the server broke, so that it is not known what was done last.
    pub(super) fn is_disconnected(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Sql(sql::Error::Postgres(error)) => error.is_disconnected(),
            _ => false,
        }
    }

    /// Whether the file could not be opened as one that is written, which says nothing of what is in it.
    pub(super) fn is_about_rights(&self) -> bool {
        let Self::Sql(sql::Error::Sqlite(error)) = self else { return false };
        matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly)
        )
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error.into())
    }
}

impl From<sql::Error> for Fault {
    fn from(error: sql::Error) -> Self {
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
        Self::Stated(error.to_string())
    }
}

impl From<JournalError> for Fault {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

/// A storage error on one line.
pub(super) fn storage(path: &Path, message: impl AsRef<str>) -> JournalError {
    let message = message.as_ref().split_whitespace().collect::<Vec<_>>().join(" ");
    JournalError::Storage { place: path.display().to_string(), message }
}

/// What to do about what the system says.
fn of_the_system(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => FULL.to_owned(),
        ErrorKind::FileTooLarge => TOO_LARGE.to_owned(),
        ErrorKind::ReadOnlyFilesystem => {
            format!("it lies where nothing can be written; use another file with --journal ({error})")
        }
        ErrorKind::PermissionDenied => format!("{NOT_WRITABLE} ({error})"),
        _ => format!("the journal cannot be written ({error}); use another file with --journal"),
    }
}

/// What the system says of writing beside the journal: SQLite tells that a file could not be opened or written, and not
/// why.
fn probed(path: &Path) -> Option<io::Error> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.probe", std::process::id()));
    let beside = PathBuf::from(beside);
    let mut options = OpenOptions::new();
    let written = files::private(options.write(true).create_new(true)).open(&beside).and_then(|mut file| {
        file.write_all(&[0; 64 << 10])?;
        file.sync_all()
    });
    _ = fs::remove_file(&beside);
    written.err().or_else(|| is_at_its_limit(path).then(|| ErrorKind::FileTooLarge.into()))
}

/// Whether the journal or its log is as large as this process may make a file.
fn is_at_its_limit(path: &Path) -> bool {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file size"));
    let Some(limit) = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()) else {
        return false;
    };
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    // A transaction writes some pages at once.
    size(path).max(size(Path::new(&log))).saturating_add(1 << 20) > limit
}

fn advice(error: &rusqlite::Error, path: &Path) -> String {
    let stated = match error {
        // SQLite's text of its last error repeats the path, or an SQL text that does not help the operator.
        rusqlite::Error::SqliteFailure(failure, _) => failure.to_string(),
        rusqlite::Error::StatementChangedRows(_) => NOT_TAKEN.to_owned(),
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
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure,
        ) => match probed(path) {
            Some(error) => of_the_system(&error),
            None => format!("{NOT_WRITABLE} ({stated})"),
        },
        Some(ErrorCode::DiskFull) if is_at_its_limit(path) => TOO_LARGE.to_owned(),
        Some(ErrorCode::DiskFull) => FULL.to_owned(),
        Some(ErrorCode::DatabaseCorrupt) => {
            format!(
                "the file is damaged; restore a copy of it, or use another file with --journal ({stated})"
            )
        }
        _ => stated,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rusqlite::ffi;

    use super::*;

    fn of_sqlite(code: i32) -> Fault {
        let says = Some("no such thing\nat all".to_owned());
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), says).into()
    }

    #[test]
    fn each_failure_says_what_is_wrong_and_what_to_do() {
        // B14: advice that helps, and no other.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let gone = folder.path().join("none/journal.db");
        let of_system = |kind: ErrorKind| Fault::Io(kind.into());
        let rights = "change its permissions";
        for (fault, path, says) in [
            (of_sqlite(ffi::SQLITE_FULL), &path, FULL),
            (of_system(ErrorKind::StorageFull), &path, FULL),
            (of_system(ErrorKind::QuotaExceeded), &path, FULL),
            (of_system(ErrorKind::FileTooLarge), &path, TOO_LARGE),
            (
                of_system(ErrorKind::ReadOnlyFilesystem),
                &path,
                "it lies where nothing can be written; use another file",
            ),
            (of_system(ErrorKind::PermissionDenied), &path, NOT_WRITABLE),
            // Beside it can be written, so it is the file that cannot.
            (of_sqlite(ffi::SQLITE_CANTOPEN), &path, NOT_WRITABLE),
            (of_sqlite(ffi::SQLITE_READONLY), &path, NOT_WRITABLE),
            // Beside it cannot be written either: the system says why.
            (of_sqlite(ffi::SQLITE_IOERR), &gone, "the journal cannot be written (No such file"),
            (of_sqlite(ffi::SQLITE_BUSY), &path, "in use by another process; try again"),
            (of_sqlite(ffi::SQLITE_CORRUPT), &path, "the file is damaged; restore a copy of it"),
            (of_sqlite(ffi::SQLITE_NOTADB), &path, "not a SQLite database"),
        ] {
            let has_rights = says == NOT_WRITABLE;
            let reported = fault.at(path).to_string();
            assert!(
                reported.starts_with(&path.display().to_string()) && reported.contains(says),
                "{says}: {reported}"
            );
            assert_eq!(reported.contains(rights), has_rights, "{reported}");
            assert_eq!(reported.lines().count(), 1, "{reported}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }
}
