//! A SQLite file that is only ever read; made from a script where one is given.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loop_core::digest_text;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use crate::error::{ConnectorError, one_line};

/// How long a call waits for a lock before it is a failure that may pass.
const BUSY: Duration = Duration::from_millis(500);

/// A SQLite file that is opened for reading and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    path: PathBuf,
}

impl Database {
    /// The database at `path`.
    ///
    /// # Errors
    /// It is not there, or it is no database.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, ConnectorError> {
        let path = path.into();
        if !path.is_file() {
            return Err(ConnectorError::Missing { what: "file", path: path.display().to_string() });
        }
        let database = Self { path };
        // SQLite reads nothing until it is asked something, so a wrong file would only be noticed in a run.
        let seen = database.connect().and_then(|connection| {
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        });
        seen.map_err(|error| ConnectorError::NotADatabase {
            path: database.path.display().to_string(),
            message: one_line(error),
        })?;
        Ok(database)
    }

    /// The database that the script `sql_file` makes; it is made in `cache_dir` when it is first asked for.
    ///
    /// Its name holds a digest of the script, so that a changed script gives another database. It appears whole or not at
    /// all, and two processes may make it at once. Where `cache_dir` cannot be written, a private folder below the system's
    /// temporary one is used.
    ///
    /// # Errors
    /// The script cannot be read or does not run, or the database has no place.
    pub fn made_from(sql_file: &Path, cache_dir: &Path) -> Result<Self, ConnectorError> {
        let shown = sql_file.display().to_string();
        if !sql_file.is_file() {
            return Err(ConnectorError::Missing { what: "file", path: shown });
        }
        let script = fs::read_to_string(sql_file)
            .map_err(|error| ConnectorError::Unreadable { path: shown.clone(), message: one_line(error) })?;
        let stem = sql_file.file_stem().unwrap_or_default().to_string_lossy();
        let digest: String = digest_text("sql", &script).short();
        let name = format!("{stem}-{digest}.db");
        let place = cache_dir.join(&name);
        if place.is_file() {
            return Self::open(place);
        }
        let made = make(&script, &shown, cache_dir, &name);
        let place = match made {
            Err(ConnectorError::Cache { .. }) => make(&script, &shown, &private_temp_dir()?, &name)?,
            other => other?,
        };
        Self::open(place)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A connection that cannot write.
    pub(crate) fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY)?;
        Ok(connection)
    }
}

/// Runs the script into a file beside the final one, and moves it there.
fn make(script: &str, shown: &str, folder: &Path, name: &str) -> Result<PathBuf, ConnectorError> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let place = folder.join(name);
    let no_place = |error: &dyn std::fmt::Display| ConnectorError::Cache {
        path: place.display().to_string(),
        message: one_line(error),
    };
    if !folder.is_dir() {
        fs::create_dir_all(folder).map_err(|error| no_place(&error))?;
        // What is made from a committed script should not be committed beside it. Without it nothing else is lost.
        _ = fs::write(folder.join(".gitignore"), "*\n");
    }
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let unfinished = Unfinished(folder.join(format!("{name}.{}-{number}.tmp", std::process::id())));
    let connection = Connection::open(&unfinished.0).map_err(|error| no_place(&error))?;
    // A script makes its own database and nothing else: neither ATTACH nor VACUUM INTO may open another file.
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0).map_err(|error| no_place(&error))?;
    // A folder that cannot be written is noticed here rather than as an error of the script.
    connection.execute_batch("PRAGMA user_version = 1").map_err(|error| no_place(&error))?;
    connection.execute_batch(script).map_err(|error| script_error(shown, script, &error))?;
    if !connection.is_autocommit() {
        let message = "a transaction is begun and not committed".to_owned();
        return Err(ConnectorError::Script { place: shown.to_owned(), message });
    }
    connection.close().map_err(|(_, error)| no_place(&error))?;
    fs::rename(&unfinished.0, &place).map_err(|error| no_place(&error))?;
    Ok(place)
}

/// A file that is removed when it is left behind.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Moved away already when all went well.
        _ = fs::remove_file(&self.0);
    }
}

fn script_error(shown: &str, script: &str, error: &rusqlite::Error) -> ConnectorError {
    // What SQLite hands back is the rest of the script, and sometimes a place in it.
    let (place, message) = match error {
        rusqlite::Error::SqlInputError { sql, offset, msg, .. } => {
            let blank = sql.len() - sql.trim_start().len();
            let at = script.len().saturating_sub(sql.len()) + usize::try_from(*offset).unwrap_or(blank);
            let line = script.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            (format!("{shown}:{line}"), one_line(msg))
        }
        other => (shown.to_owned(), one_line(other)),
    };
    ConnectorError::Script { place, message }
}

/// A folder below the system's temporary one that nobody else may write.
fn private_temp_dir() -> Result<PathBuf, ConnectorError> {
    let folder = std::env::temp_dir().join("loopgate");
    let refused = |message: String| ConnectorError::Cache { path: folder.display().to_string(), message };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
        builder.mode(0o700);
        builder.create(&folder).map_err(|error| refused(one_line(error)))?;
        // Whoever owns the folder could put another database into it, so it must be ours: compared with a file that we make.
        let probe = Unfinished(folder.join(format!("{}.probe", std::process::id())));
        fs::write(&probe.0, "").map_err(|error| refused(one_line(error)))?;
        let (ours, found) = (fs::metadata(&probe.0), fs::symlink_metadata(&folder));
        let private = match (ours, found) {
            (Ok(ours), Ok(found)) => {
                found.is_dir() && found.uid() == ours.uid() && found.permissions().mode() & 0o022 == 0
            }
            _ => false,
        };
        if !private {
            return Err(refused("it belongs to somebody else".to_owned()));
        }
    }
    #[cfg(not(unix))]
    builder.create(&folder).map_err(|error| refused(one_line(error)))?;
    Ok(folder)
}

#[cfg(test)]
#[path = "database_tests.rs"]
mod tests;
