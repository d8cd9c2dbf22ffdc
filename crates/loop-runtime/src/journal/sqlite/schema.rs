//! The file: where it comes from, how it is recognised, what is in it.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, Migrations};

use super::fault::{Fault, storage};
use super::lock::Locks;
use crate::journal::JournalError;

/// The format that this program writes, and the last that it reads.
const FORMAT: u32 = 2;

/// `LpGt`: what tells a journal from another program's database.
const APPLICATION: u32 = 0x4c70_4774;

/// How long it waits for another process before the journal counts as in use.
const BUSY: Duration = Duration::from_secs(5);

/// One step a format. A step that was released is never changed again.
const STEPS: &[M<'static>] = &[
    M::up(
        "PRAGMA application_id = 0x4c704774;
     CREATE TABLE blobs (
         hash TEXT NOT NULL PRIMARY KEY,
         kind TEXT NOT NULL,
         body TEXT NOT NULL
     ) STRICT;
     CREATE TABLE runs (
         run          TEXT NOT NULL PRIMARY KEY,
         unix_ms      INTEGER NOT NULL,
         domain       TEXT NOT NULL,
         item         TEXT NOT NULL,
         title        TEXT NOT NULL,
         spec         TEXT NOT NULL REFERENCES blobs (hash),
         manifest     TEXT NOT NULL REFERENCES blobs (hash),
         stop         TEXT,
         epoch        INTEGER NOT NULL DEFAULT 1,
         writer_pid   INTEGER NOT NULL,
         writer_token TEXT NOT NULL,
         entries      INTEGER NOT NULL DEFAULT 0,
         head         TEXT NOT NULL
     ) STRICT;
     CREATE TABLE entries (
         run       TEXT NOT NULL REFERENCES runs (run),
         seq       INTEGER NOT NULL,
         epoch     INTEGER NOT NULL,
         prev_hash TEXT NOT NULL,
         event     TEXT NOT NULL,
         notes     TEXT NOT NULL,
         PRIMARY KEY (run, seq)
     ) STRICT, WITHOUT ROWID;",
    ),
    M::up(
        "CREATE TABLE origins (
         run    TEXT NOT NULL PRIMARY KEY REFERENCES runs (run),
         origin TEXT NOT NULL
     ) STRICT, WITHOUT ROWID;",
    ),
];

/// Makes the folders and an empty file, unless there is one.
pub(super) fn create(path: &Path) -> Result<(), JournalError> {
    if let Some(folder) = path.parent() {
        create_folder(folder).map_err(|error| {
            let message = format!("its folder cannot be made; use another file with --journal ({error})");
            storage(path, message)
        })?;
    }
    // Only a new file is opened here: closing a handle of an existing one would release SQLite's locks on it.
    match private(OpenOptions::new().write(true).create_new(true)).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Fault::from(error).at(path)),
    }
}

/// Says what is wrong with a path where no file is.
pub(super) fn expect_file(path: &Path) -> Result<(), JournalError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) if found.is_dir() => Err(storage(path, IS_A_FOLDER)),
        Ok(_) => Err(storage(path, "not a file; use another one with --journal")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = "no journal here; `loopgate run` makes one, or name another file with --journal";
            Err(storage(path, message))
        }
        Err(error) => Err(Fault::from(error).at(path)),
    }
}

/// Opens the file, and lays its tables if it is empty or of an older format.
pub(super) fn connect(path: &Path, locks: &Locks) -> Result<Connection, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(BUSY)?;
        // With a write-ahead log only `FULL` keeps the last commits when the power goes; `fullfsync` says the same to
        // macOS. What stands in the file is input: its tables must not call functions of their own.
        let settings = "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA trusted_schema = OFF;";
        connection.execute_batch(settings)?;
        Ok(connection)
    });
    let mut connection = opened.map_err(|error| Fault::from(error).at(path))?;
    let format = format_of(&mut connection, path).map_err(|fault| fault.at(path))?;
    let is_readonly = connection.is_readonly(rusqlite::MAIN_DB).unwrap_or_default();
    // What an older format lacks is taken for missing where the file may only be read.
    if format < FORMAT && (format == 0 || !is_readonly) {
        lay(&mut connection, path, locks).map_err(|fault| fault.at(path))?;
    }
    Ok(connection)
}

/// Makes a folder, and those above it, for its owner alone.
pub(super) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Lets nobody but the owner read a file that is made with these options.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn lay(connection: &mut Connection, path: &Path, locks: &Locks) -> Result<(), Fault> {
    let _alone = locks.alone()?;
    if format_of(connection, path)? < FORMAT {
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        Migrations::from_slice(STEPS).to_latest(connection)?;
    }
    Ok(())
}

/// The file's format; 0 for an empty one.
fn format_of(connection: &mut Connection, path: &Path) -> Result<u32, Fault> {
    // In one transaction, because another process may lay the tables at this moment.
    let transaction = connection.transaction()?;
    let application: u32 = transaction.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: u32 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, u32::try_from(version)) {
        (0, Ok(0)) if tables == 0 => Ok(0),
        (APPLICATION, Ok(found)) if found > FORMAT => {
            Err(JournalError::Newer { path: path.to_owned(), found, known: FORMAT }.into())
        }
        (APPLICATION, Ok(found)) if found > 0 => Ok(found),
        _ => {
            let message =
                "not a loopgate journal but another program's database; use another file with --journal";
            Err(storage(path, message).into())
        }
    }
}

const IS_A_FOLDER: &str = "a folder; name a file in it with --journal";
