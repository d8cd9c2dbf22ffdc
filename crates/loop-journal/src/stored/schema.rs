//! The file: where it comes from, how it is recognised, what is in it.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::fault::{Fault, not_own, storage};
use super::lock::FileLocks;
use crate::JournalError;
use crate::files::{create_folder, private};

/// The format that this program writes and reads: that of the tables, and of the events and specs in them. 1 had no checks.
const FORMAT: u32 = 2;

/// `LpGt`: what tells a journal from another program's database.
const APPLICATION: u32 = 0x4c70_4774;

/// How long it waits for another process before the journal counts as in use.
const BUSY: Duration = Duration::from_secs(5);

/// The tables of the format. Entries lie in the order in which they were appended, whatever run they are of: then a commit
/// writes the end of the table alone.
const TABLES: &str = "
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
        origin       TEXT,
        request_key  TEXT UNIQUE,
        stop         TEXT,
        epoch        INTEGER NOT NULL,
        writer_pid   INTEGER NOT NULL,
        writer_token TEXT NOT NULL,
        entries      INTEGER NOT NULL,
        head         TEXT NOT NULL,
        seal         TEXT NOT NULL
    ) STRICT;
    CREATE TABLE entries (
        run       TEXT NOT NULL REFERENCES runs (run),
        seq       INTEGER NOT NULL,
        epoch     INTEGER NOT NULL,
        prev_hash TEXT NOT NULL,
        event     TEXT NOT NULL,
        notes     TEXT NOT NULL,
        UNIQUE (run, seq)
    ) STRICT;";

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

/// Opens the file, and lays its tables if it is empty.
pub(super) fn connect(path: &Path, locks: &FileLocks) -> Result<Connection, JournalError> {
    let opened = open(path, OpenMode::Write).and_then(|mut connection| {
        let format = format_of(&mut connection, path)?;
        Ok((connection, format))
    });
    let (mut connection, format) = match opened {
        Ok(opened) => opened,
        Err(fault) if fault.is_about_rights() => read_only(path, fault)?,
        Err(fault) => return Err(fault.at(path)),
    };
    if format == 0 {
        lay(&mut connection, path, locks).map_err(|fault| fault.at(path))?;
    }
    check_own(&connection).map_err(|fault| fault.at(path))?;
    Ok(connection)
}

/// How the file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenMode {
    Write,
    /// It lies where nothing can be written, and nothing is written there: without a log, without locks.
    Still,
}

fn open(path: &Path, mode: OpenMode) -> Result<Connection, Fault> {
    let connection = match mode {
        OpenMode::Write => {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            Connection::open_with_flags(path, flags)?
        }
        OpenMode::Still => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(format!("file:{}?immutable=1", as_uri(path)), flags)?
        }
    };
    connection.busy_timeout(BUSY)?;
    // What is in the file is input: its tables must not call functions of their own.
    connection.execute_batch("PRAGMA fullfsync = ON; PRAGMA trusted_schema = OFF;")?;
    // Each commit writes the same few pages again: the more of them the log holds before they are moved into the file, the
    // fewer are moved. It is 16 MiB then.
    connection.pragma_update(None, "wal_autocheckpoint", 4_096)?;
    sync_commits(&connection, false)?;
    Ok(connection)
}

/// Whether the next commits are synced to the disk, together with all before them. With a write-ahead log a commit that is
/// not survives the end of the process; only `FULL` keeps it when the power fails (`fullfsync` says the same to macOS).
pub(super) fn sync_commits(connection: &Connection, synced: bool) -> rusqlite::Result<()> {
    connection.execute_batch(if synced { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" })
}

/// A path as it is in a URI.
fn as_uri(path: &Path) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let escaped =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.as_os_str().as_encoded_bytes().iter().map(|byte| escaped(*byte)).collect()
}

/// Opens a journal that cannot be written, nor the files beside it; `why` it could not be opened as others are.
fn read_only(path: &Path, why: Fault) -> Result<(Connection, u32), JournalError> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let message = "its newest entries are in its `-wal` file, which cannot be read where nothing can be written; copy \
                       both to another folder, and name the copy with --journal";
        return Err(storage(path, message));
    }
    if fs::File::open(path).is_err() {
        return Err(why.at(path));
    }
    let opened = open(path, OpenMode::Still).and_then(|mut connection| {
        let format = format_of(&mut connection, path)?;
        Ok((connection, format))
    });
    match opened {
        Ok((connection, format)) if format > 0 => Ok((connection, format)),
        Ok(_) => Err(why.at(path)),
        Err(fault) => Err(fault.at(path)),
    }
}

fn lay(connection: &mut Connection, path: &Path, locks: &FileLocks) -> Result<(), Fault> {
    let _alone = locks.alone()?;
    if format_of(connection, path)? == 0 {
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
        transaction.execute_batch(TABLES)?;
        transaction.commit()?;
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
        (APPLICATION, Ok(found)) if found < FORMAT => {
            Err(JournalError::Older { path: path.to_owned(), found, known: FORMAT }.into())
        }
        (APPLICATION, Ok(FORMAT)) => Ok(FORMAT),
        _ => {
            let message =
                "not a loopgate journal but another program's database; use another file with --journal";
            Err(storage(path, message).into())
        }
    }
}

/// Fails where the file has a trigger or a view that is not of this program.
pub(super) fn check_own(connection: &Connection) -> Result<(), Fault> {
    let list = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type IN ('trigger', 'view')";
    let mut list = connection.prepare_cached(list)?;
    let mut found = list.query([])?;
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let own = words(super::audit::TABLE).replace("IF NOT EXISTS ", "");
    while let Some(row) = found.next()? {
        let [kind, name, table, sql]: [String; 4] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
        if !own.contains(&words(&sql)) {
            return Err(Fault::Stated(not_own(&kind, &name, &table)));
        }
    }
    Ok(())
}

const IS_A_FOLDER: &str = "a folder; name a file in it with --journal";
