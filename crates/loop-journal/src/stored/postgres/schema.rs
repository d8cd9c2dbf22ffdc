//! The tables of a journal in a database, and how an older journal gets those of this program.

use std::path::Path;

use uuid::Uuid;

use super::fault::SessionError;
use super::session::Session;
use crate::JournalError;
use crate::files;
use crate::stored::fault::Fault;
use crate::stored::seal::Key;
use crate::stored::sql::{Cell, Purpose};

/// What each format adds to the one before it; a format is never changed. The first is that of the file, with the tables
/// that a file gets when they are needed. Texts are compared by their bytes, as in the file.
const MIGRATIONS: [&str; 3] =
    [include_str!("format_1.sql"), include_str!("format_2.sql"), include_str!("format_3.sql")];

/// The least version of the server: it can end a session and wait for its end.
const LEAST_VERSION: i64 = 140_000;

/// What a journal says of itself.
pub(super) struct Identity {
    /// Names the journal: a copy of its database has the same one.
    pub(super) id: String,
    /// The name of its key.
    pub(super) key: String,
}

/// Looks for the journal of a database. With `lays`, makes one where there is none, and migrates an older one.
pub(super) fn prepare(session: &Session, place: &Path, lays: bool, folder: &Path) -> Result<Identity, Fault> {
    let version =
        session.one("SELECT CAST(current_setting('server_version_num') AS BIGINT)", &[""; 0]).map_err(of)?;
    if !matches!(version.first(), Some(Cell::Integer(version)) if *version >= LEAST_VERSION) {
        return Err(Fault::Stated("the server is older than PostgreSQL 14; update it".to_owned()));
    }
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found = about(session)?;
    if let Some((_, format)) = &found
        && *format > known
    {
        let known = u32::try_from(known).unwrap_or(u32::MAX);
        let found = u32::try_from(*format).unwrap_or(u32::MAX);
        return Err(JournalError::Newer { path: place.to_owned(), found, known }.into());
    }
    match found {
        Some((about, format)) if format == known => Ok(about),
        _ if lays => {
            session.lock_alone().map_err(of)?;
            let done = migrate_alone(session, folder);
            // A session that ends gives it up too.
            _ = session.unlock_alone();
            done
        }
        Some(_) => Err(Fault::Stated(
            "the journal is of an older loopgate; a command that writes it, such as `loopgate run`, migrates it".into(),
        )),
        None => Err(Fault::Stated(
            "no journal here; `loopgate run` makes one, or name another database with --journal".to_owned(),
        )),
    }
}

/// The same transaction as any that writes alone, but it begins when the lock is there: a transaction that waited for the lock
/// would not know of tables that another process made meanwhile.
fn migrate_alone(session: &Session, folder: &Path) -> Result<Identity, Fault> {
    session.begin_writing(Purpose::Alone).map_err(of)?;
    match migrate(session, folder) {
        Ok(about) => session.commit(Purpose::Alone).map(|()| about).map_err(of),
        Err(fault) => {
            // The fault says more than that this failed too.
            _ = session.roll_back();
            Err(fault)
        }
    }
}

fn of(error: SessionError) -> Fault {
    Fault::Sql(error.into())
}

/// What the journal says of itself, and its format. `None`: the database has no journal.
fn about(session: &Session) -> Result<Option<(Identity, i64)>, Fault> {
    let is_there = session.one("SELECT to_regclass('loopgate.journal') IS NOT NULL", &[""; 0]).map_err(of)?;
    if is_there != [Cell::Integer(1)] {
        return Ok(None);
    }
    match session.one("SELECT id, key_name, format FROM loopgate.journal", &[""; 0]).map_err(of)?.as_slice() {
        [Cell::Text(id), Cell::Text(key), Cell::Integer(format)] if id.parse::<Uuid>().is_ok() => {
            Ok(Some((Identity { id: id.clone(), key: key.clone() }, *format)))
        }
        _ => Err(Fault::Stated(
            "the table loopgate.journal is not that of a journal; name another database".into(),
        )),
    }
}

/// Migrates the journal to this program's format, in a transaction of the caller, who is alone.
fn migrate(session: &Session, folder: &Path) -> Result<Identity, Fault> {
    // Another process may have been first.
    let (about, format) = match about(session)? {
        Some((about, format)) => (about, usize::try_from(format).unwrap_or(usize::MAX)),
        None => {
            session.batch("CREATE SCHEMA IF NOT EXISTS loopgate").map_err(of)?;
            let id = Uuid::new_v4().to_string();
            files::create_folder(folder)?;
            // On the disk before the journal names it.
            let key = Key::make(&folder.join(&id))?.name().to_owned();
            (Identity { id, key }, 0)
        }
    };
    for migration in MIGRATIONS.iter().skip(format) {
        session.batch(migration).map_err(of)?;
    }
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let put = "INSERT INTO journal (one, id, key_name, format) VALUES (1, ?1, ?2, ?3)
               ON CONFLICT (one) DO UPDATE SET format = excluded.format";
    let values = vec![Cell::Text(about.id.clone()), Cell::Text(about.key.clone()), Cell::Integer(known)];
    session.execute(put, &values).map_err(of)?;
    Ok(about)
}
