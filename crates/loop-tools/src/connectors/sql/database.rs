//! A SQLite file, read-only unless it is asked for to be written as well; made from a script where one is given.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{CancellationToken, files};
use loop_core::types::digest_text;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::connectors::error::{ConnectorError, one_line};

/// The most bytes of a value that SQLite may read or make for a tool; a larger one is an error, before it takes memory.
pub(crate) const VALUE_BYTES_MAX: i32 = 64 << 20;

/// How long a lock of another program is waited for, unless another time is named.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long SQLite itself waits. Between two such waits it is seen whether the work is still wanted.
const STEP: Duration = Duration::from_millis(250);
/// What is left of a tool's time when a lock is no longer waited for, so that the lock is what is said.
pub(crate) const LEFT: Duration = Duration::from_millis(300);

/// A SQLite file. A reader gets a connection that cannot write, and only a writable database can be written at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    path: PathBuf,
    writable: bool,
    busy: Duration,
}

impl Database {
    /// The database at `path`, for reading and nothing else.
    ///
    /// # Errors
    /// It does not exist, or is not a database.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, ConnectorError> {
        Self::open_with(path, /*writable*/ false, BUSY_TIMEOUT)
    }

    /// The database at `path`. A lock of another program is waited for as long as `busy`, also here.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`open_writable`](Self::open_writable).
    pub fn open_with(
        path: impl Into<PathBuf>,
        writable: bool,
        busy: Duration,
    ) -> Result<Self, ConnectorError> {
        let database = Self { path: path.into(), writable, busy };
        let Some(writer) = database.writer() else {
            database.check(Self::connect)?;
            return Ok(database);
        };
        // What a program left half written when it died is taken back here: a reader could not, and would fail.
        let connection = database.check(|_| writer.connect())?;
        let is_readonly = connection.is_readonly("main").map_err(|error| database.protected(&error))?;
        // SQLite opens a protected file for reading instead, without a word.
        if is_readonly { Err(database.protected(&"it is write-protected")) } else { Ok(database) }
    }

    /// The same with another time for which a lock of another program is waited for, [`BUSY_TIMEOUT`] without this.
    #[must_use]
    pub fn with_busy_timeout(mut self, busy: Duration) -> Self {
        self.busy = busy;
        self
    }

    /// The database at `path`, for reading and for tools that change it.
    ///
    /// # Errors
    /// It does not exist, is not a database, or cannot be written.
    pub fn open_writable(path: impl Into<PathBuf>) -> Result<Self, ConnectorError> {
        Self::open_with(path, /*writable*/ true, BUSY_TIMEOUT)
    }

    /// The database that the script `sql_file` makes. It is made in `cache_dir` on first use.
    ///
    /// Its name holds a digest of the script, so that a changed script gives another database. It appears whole or not at
    /// all, and two processes may make it at once. Where `cache_dir` cannot be written, a private folder below the system's
    /// temporary one is used.
    ///
    /// # Errors
    /// The script cannot be read or does not run, or the database has no place.
    pub fn made_from(sql_file: &Path, cache_dir: &Path) -> Result<Self, ConnectorError> {
        let script = Script::read(sql_file)?;
        let name = script.name_of("");
        let place = cache_dir.join(&name);
        if place.is_file() {
            return Self::open(place);
        }
        let place = match script.make(cache_dir, &name, rename) {
            Err(ConnectorError::Cache { .. }) => script.make(&private_temp_dir()?, &name, rename)?,
            other => other?,
        };
        Self::open(place)
    }

    /// A copy of what the script `sql_file` makes, for reading and for tools that change it.
    ///
    /// It is made in `cache_dir` on first use and keeps what is written to it. Its name holds a digest of the script,
    /// so that a changed script begins another copy. Two processes that make it at once get the same one.
    ///
    /// # Errors
    /// The script cannot be read or does not run, or `cache_dir` cannot be written: what is written must not get lost in a
    /// temporary folder.
    pub fn working_copy(sql_file: &Path, cache_dir: &Path) -> Result<Self, ConnectorError> {
        let script = Script::read(sql_file)?;
        let name = script.name_of("-working");
        let place = cache_dir.join(&name);
        if place.is_file() {
            return Self::open_writable(place);
        }
        Self::open_writable(script.make(cache_dir, &name, link_once)?)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// SQLite reads nothing until it is asked something, so a wrong file would only be noticed in a run.
    fn check(
        &self,
        connect: impl Fn(&Self) -> rusqlite::Result<Connection>,
    ) -> Result<Connection, ConnectorError> {
        let path = self.path.display().to_string();
        if !self.path.is_file() {
            return Err(ConnectorError::Missing { what: "file", path });
        }
        let seen = self.patience(&CancellationToken::new()).step(|| {
            let connection = connect(self)?;
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(connection)
        });
        seen.map_err(|error| match is_busy(&error) {
            true => ConnectorError::Locked { path },
            false => ConnectorError::NotADatabase { path, message: one_line(error) },
        })
    }

    fn protected(&self, message: &dyn std::fmt::Display) -> ConnectorError {
        ConnectorError::WriteProtected { path: self.path.display().to_string(), message: one_line(message) }
    }

    /// What opens it for writing, where that was asked for.
    pub(crate) fn writer(&self) -> Option<Writer> {
        self.writable.then(|| Writer { path: self.path.clone(), busy: self.busy })
    }

    /// Waits for locks of this database.
    pub(crate) fn patience<'a>(&self, cancel: &'a CancellationToken) -> LockWait<'a> {
        LockWait::new(self.busy, cancel)
    }

    /// A connection that cannot write.
    pub(crate) fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(STEP.min(self.busy))?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
        Ok(connection)
    }
}

/// What a change needs to be made at all: only a writable database gives one.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    busy: Duration,
}

impl Writer {
    /// Waits for locks of this file.
    pub(crate) fn patience<'a>(&self, cancel: &'a CancellationToken) -> LockWait<'a> {
        LockWait::new(self.busy, cancel)
    }

    /// A connection that can write this file and open no other.
    pub(crate) fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(STEP.min(self.busy))?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
        Ok(connection)
    }
}

/// Waits for the locks of other programs, all in all no longer than a time, and no longer than the work is wanted.
#[derive(Debug)]
pub(crate) struct LockWait<'a> {
    until: Instant,
    cancel: &'a CancellationToken,
}

impl<'a> LockWait<'a> {
    pub(crate) fn new(busy: Duration, cancel: &'a CancellationToken) -> Self {
        Self { until: Instant::now() + busy, cancel }
    }

    /// No longer than this time.
    pub(crate) fn at_most(self, time: Option<Duration>) -> Self {
        let until = time.map_or(self.until, |time| self.until.min(Instant::now() + time));
        Self { until, ..self }
    }

    /// What a step comes to that may have to wait for a lock.
    pub(crate) fn step<T>(&self, mut step: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        loop {
            match step() {
                Err(error)
                    if is_busy(&error) && !self.cancel.is_cancelled() && Instant::now() < self.until =>
                {
                    // Some locks SQLite does not wait for.
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) if is_busy(&error) && self.cancel.is_cancelled() => {
                    let interrupted = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
                    return Err(rusqlite::Error::SqliteFailure(interrupted, None));
                }
                other => return other,
            }
        }
    }
}

/// Whether another program holds the file.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// A script that makes a database.
struct Script {
    /// Its path, for people.
    shown: String,
    stem: String,
    text: String,
}

impl Script {
    fn read(path: &Path) -> Result<Self, ConnectorError> {
        let shown = path.display().to_string();
        if !path.is_file() {
            return Err(ConnectorError::Missing { what: "file", path: shown });
        }
        let text = files::text(path, files::MAX_BYTES)
            .map_err(|error| ConnectorError::Unreadable { path: shown.clone(), message: one_line(error) })?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { shown, stem, text })
    }

    /// The name of the database that it makes: another script, another name.
    fn name_of(&self, mark: &str) -> String {
        let digest: String = digest_text("sql", &self.text).short();
        format!("{}{mark}-{digest}.db", self.stem)
    }

    /// Runs it into a file beside the final one, and `puts` that there.
    fn make(
        &self,
        folder: &Path,
        name: &str,
        puts: fn(&Path, &Path) -> io::Result<()>,
    ) -> Result<PathBuf, ConnectorError> {
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
        connection.execute_batch(&self.text).map_err(|error| self.error(&error))?;
        if !connection.is_autocommit() {
            let message = "a transaction is begun and not committed".to_owned();
            return Err(ConnectorError::Script { place: self.shown.clone(), message });
        }
        connection.close().map_err(|(_, error)| no_place(&error))?;
        puts(&unfinished.0, &place).map_err(|error| no_place(&error))?;
        Ok(place)
    }

    fn error(&self, error: &rusqlite::Error) -> ConnectorError {
        // What SQLite hands back is the rest of the script, and sometimes a place in it.
        let (place, message) = match error {
            rusqlite::Error::SqlInputError { sql, offset, msg, .. } => {
                let blank = sql.len() - sql.trim_start().len();
                let at =
                    self.text.len().saturating_sub(sql.len()) + usize::try_from(*offset).unwrap_or(blank);
                let line = self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
                (format!("{}:{line}", self.shown), one_line(msg))
            }
            other => (self.shown.clone(), one_line(other)),
        };
        ConnectorError::Script { place, message }
    }
}

/// Puts what was made in its place; one that is there already is the same.
fn rename(made: &Path, place: &Path) -> io::Result<()> {
    fs::rename(made, place)
}

/// Puts what was made in its place, unless there is one: that may have been written to meanwhile.
fn link_once(made: &Path, place: &Path) -> io::Result<()> {
    match fs::hard_link(made, place) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// A file that is removed when it is left behind.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Moved away already when all went well.
        _ = fs::remove_file(&self.0);
    }
}

/// A folder below the system's temporary one that only this user may write.
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
        // The owner of the folder could put another database into it, so it must be ours: compared with a file that we
        // make.
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
