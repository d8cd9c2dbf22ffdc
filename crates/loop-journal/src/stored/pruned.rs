//! Pruning: a run is deleted, and a sealed record of it stays, so that it can be distinguished from a run that
//! vanished.

use std::fmt;

use super::sql::{self, Connection, NONE, params};
use loop_core::types::RunId;

use super::StoredJournal;
use super::fault::Fault;
use super::outbox;
use super::rows::{CHANGED, OTHER_KEY, RunRow, corrupt};
use super::seal::{Key, SealFault};
use super::search;
use crate::{Durability, JournalError, unix_ms};

/// Why a run is not pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// It has not ended, or its outcome is not saved yet.
    NotEnded,
    /// A process writes it.
    Written,
    /// The outcome of one of its effects is unknown.
    InDoubt,
    /// This run continues it, and has not ended.
    Parent(RunId),
    /// This many messages of its hooks are not delivered.
    Messages(u64),
    /// Its outcome could not be saved, so the journal is the only place that has it.
    Unsaved,
    /// It is damaged, or the journal does not vouch for it.
    Damaged,
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEnded => f.write_str("it has not ended"),
            Self::Written => f.write_str("a process writes it"),
            Self::InDoubt => f.write_str("the outcome of one of its effects is unknown"),
            Self::Parent(run) => write!(f, "run {run} continues it, and has not ended"),
            Self::Messages(1) => f.write_str("a message of its hooks is not delivered"),
            Self::Messages(count) => write!(f, "{count} messages of its hooks are not delivered"),
            Self::Unsaved => f.write_str("its outcome could not be saved, so only the journal has it"),
            Self::Damaged => f.write_str("it is damaged, or the journal does not vouch for it"),
        }
    }
}

/// What stays of a pruned run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrunedRun {
    /// When it was pruned, in milliseconds since 1970 (UTC).
    pub(super) unix_ms: u64,
    pub(super) entries: u64,
    pub(super) head: String,
}

/// Journals that were never pruned have no such table.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS pruned (
        run         TEXT NOT NULL PRIMARY KEY,
        unix_ms     INTEGER NOT NULL,
        entries     INTEGER NOT NULL,
        head        TEXT NOT NULL,
        request_key TEXT UNIQUE,
        seal        TEXT NOT NULL
    ) STRICT;";

/// The pruned run that had this request key.
pub(super) fn run_of_key(connection: &Connection, key: &str) -> Result<Option<RunId>, Fault> {
    if !connection.has_table("pruned")? {
        return Ok(None);
    }
    let run: Option<String> =
        connection.find("SELECT run FROM pruned WHERE request_key = ?1", [key], |row| row.get(0))?;
    Ok(run.map(RunId::new))
}

type Record = (String, i64, i64, String, Option<String>, String);

fn record(row: &sql::Row<'_>) -> sql::Result<Record> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
}

/// The record, if the key made its seal.
fn sealed(record: Record, key: &Key) -> Option<(RunId, PrunedRun)> {
    let (run, at, entries, head, request_key, seal) = record;
    let fields = fields(&run, [at, entries], &head, request_key.as_deref());
    if key.check(&seal, TAG, &fields.each_ref().map(String::as_str)).is_some() {
        return None;
    }
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    Some((RunId::new(run), PrunedRun { unix_ms: count(at), entries: count(entries), head }))
}

fn fields(run: &str, numbers: [i64; 2], head: &str, request_key: Option<&str>) -> [String; 5] {
    let [at, entries] = numbers.map(|number| number.to_string());
    let request_key = request_key.map_or_else(|| "-".to_owned(), |key| format!("+{key}"));
    [run.to_owned(), at, entries, head.to_owned(), request_key]
}

/// The record of a pruned run. One without the key's seal counts for nothing.
pub(super) fn find(connection: &Connection, run: &RunId, key: &Key) -> Result<Option<PrunedRun>, Fault> {
    if !connection.has_table("pruned")? {
        return Ok(None);
    }
    let find = "SELECT run, unix_ms, entries, head, request_key, seal FROM pruned WHERE run = ?1";
    let found = connection.find(find, [run.as_str()], record)?;
    Ok(found.and_then(|found| sealed(found, key)).map(|(_, pruned)| pruned))
}

/// The runs that were pruned.
pub(super) fn runs(connection: &Connection, key: &Key) -> Result<Vec<RunId>, Fault> {
    if !connection.has_table("pruned")? {
        return Ok(Vec::new());
    }
    let list = "SELECT run, unix_ms, entries, head, request_key, seal FROM pruned";
    let found: Vec<Record> = connection.list(list, NONE, record)?;
    Ok(found.into_iter().filter_map(|found| sealed(found, key)).map(|(run, _)| run).collect())
}

/// Takes back that a run was pruned, because it is imported again.
pub(super) fn forget(connection: &Connection, run: &RunId) -> Result<(), Fault> {
    if connection.has_table("pruned")? {
        connection.execute("DELETE FROM pruned WHERE run = ?1", [run.as_str()])?;
    }
    Ok(())
}

impl StoredJournal {
    /// Deletes a run that has stopped, in one transaction, and leaves a sealed record of it. The caller decides whether
    /// the run may be deleted: see [`Retention`](crate::prune::Retention).
    ///
    /// # Errors
    /// If there is no such run, if a process writes it, if it has not stopped or the journal does not vouch for it, or if
    /// the journal cannot be written.
    pub async fn prune(&self, run: &RunId) -> Result<(), JournalError> {
        let run = run.clone();
        let pruned = self.store.writer.alone(move |files, open| {
            open.connection().check_writes()?;
            files.place.holds(&files.path)?;
            let key = files.key(&run)?;
            let _lock = files.lock(&run, None)?;
            let head = files.head(&run)?;
            open.commit(files, Durability::Synced, |connection| {
                let Some(mut row) = RunRow::find(connection, &run)? else {
                    return Err(files.gone(connection, &run)?.into());
                };
                match row.check(key) {
                    None | Some(SealFault::Imported) => {}
                    Some(SealFault::Changed) => {
                        return Err(corrupt(&run, row.count().saturating_sub(1), CHANGED));
                    }
                    Some(SealFault::OtherKey) => {
                        return Err(Fault::Stated(format!("run {run}: {OTHER_KEY}")));
                    }
                }
                // What was rolled back may have gone on.
                let is_behind =
                    head.as_ref().map_or(!files.is_shared(), |head| head.committed.entries > row.count());
                let is_imported = row.check(key) == Some(SealFault::Imported);
                let why =
                    match (row.stop.is_none() && !is_imported, is_behind, outbox::count(connection, &run)?) {
                        (true, _, _) => Some(KeepReason::NotEnded),
                        (false, true, _) => Some(KeepReason::Damaged),
                        (false, false, 0) => None,
                        (false, false, left) => Some(KeepReason::Messages(left)),
                    };
                if let Some(why) = why {
                    return Err(JournalError::Kept { run: run.clone(), why }.into());
                }
                if is_imported {
                    // A run of another journal made its key taken here, and gives it back.
                    row.request_key = None;
                }
                bury(connection, &row, key)?;
                search::forget(connection, &run)?;
                for table in ["summaries", "run_summaries", "outbox", "labels", "entries", "runs"] {
                    if connection.has_table(table)? {
                        let delete = format!("DELETE FROM {table} WHERE run = ?1");
                        connection.execute(&delete, [run.as_str()])?;
                    }
                }
                Ok(())
            })?;
            // The record says that it was pruned, so a head that is left is not missed.
            Ok(files.heads.remove(&run)?)
        });
        pruned.await
    }

    /// Deletes specs and manifests that no run has any more. With `compacts`, the file is rewritten without its free
    /// parts, which may have deleted data, and shrinks.
    ///
    /// # Errors
    /// If the journal cannot be written, or another process writes it at this time.
    pub async fn tidy_up(&self, compacts: bool) -> Result<(), JournalError> {
        let tidied = self.store.writer.alone(move |files, open| {
            files.place.holds(&files.path)?;
            open.commit(files, Durability::Synced, |connection| {
                let unused = "DELETE FROM blobs
                              WHERE hash NOT IN (SELECT spec FROM runs UNION SELECT manifest FROM runs)";
                Ok(connection.execute(unused, NONE)?)
            })?;
            if compacts {
                open.connection().execute_batch("VACUUM")?;
            }
            if open.connection().is_file() {
                // Where another process reads, a part stays in the log until the next commits.
                open.connection().query_row("PRAGMA wal_checkpoint(TRUNCATE)", NONE, |_| Ok(()))?;
            }
            Ok(())
        });
        tidied.await
    }
}

fn bury(connection: &Connection, row: &RunRow, key: &Key) -> Result<(), Fault> {
    connection.lay(TABLE)?;
    let at = i64::try_from(unix_ms(std::time::SystemTime::now())).unwrap_or(i64::MAX);
    let fields = fields(row.run.as_str(), [at, row.entries], &row.head, row.request_key.as_deref());
    let seal = key.seal(TAG, &fields.each_ref().map(String::as_str));
    let bury = "INSERT INTO pruned (run, unix_ms, entries, head, request_key, seal)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                ON CONFLICT (run) DO UPDATE SET unix_ms = excluded.unix_ms, entries = excluded.entries,
                    head = excluded.head, request_key = excluded.request_key, seal = excluded.seal";
    connection
        .execute_one(bury, params![row.run.as_str(), at, row.entries, row.head, row.request_key, seal])?;
    Ok(())
}

const TAG: &str = "pruned";
