//! Requests to runs that another process drives: what a person asks there is a row, which the driver finds.
//!
//! | who | does |
//! |---|---|
//! | the process that is asked by a person | writes the row, and waits until it is answered |
//! | the process that has the run's lock | takes the row, and answers it in the commit of the entry that carries it out |
//! | a process that finds that the run has ended | answers that it has |
//!
//! A journal in a file gets the table with its first request. So a request is carried out once, whichever of the processes is killed: an entry and its answer are there together or not
//! at all, and what a process writes whose lock was taken over is refused by the run's epoch. A request that no driver has
//! taken can be withdrawn.

use std::sync::Arc;

use loop_core::EventKind;
use loop_core::types::RunId;
use uuid::Uuid;

use super::StoredJournal;
use super::fault::Fault;
use super::opened::Files;
use super::seal::Key;
use super::sql::{Connection, Purpose, Row, params};
use crate::{Durability, JournalError, unix_ms};

/// A request of a person to a run that another process drives.
#[derive(Clone, Debug)]
pub struct RemoteRequest {
    /// Its id.
    pub id: Arc<str>,
    /// The run.
    pub run: RunId,
    /// The request: a stop, an instruction, an approval or an answer. `None`: the row was changed by another program,
    /// is of another key, or is older than an hour.
    pub kind: Option<EventKind>,
    /// Whether the process that waits for the answer still exists.
    pub is_awaited: bool,
    /// Whether that is this process.
    pub is_own: bool,
}

/// The answer to a request to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RemoteAnswer {
    /// It is journaled.
    Done,
    /// The run did not accept it.
    Refused,
    /// The run had ended.
    Ended,
}

impl RemoteAnswer {
    fn name(self) -> &'static str {
        self.into()
    }
}

impl StoredJournal {
    /// Makes a request to a run that another process drives. A server that drives it is notified or polls, and a
    /// command polls. Returns the request's id. Nothing in `kind` may be secret.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn request(&self, run: &RunId, kind: &EventKind) -> Result<Arc<str>, JournalError> {
        let id = Uuid::now_v7().to_string();
        let body = serde_json::to_string(kind)
            .map_err(|error| super::fault::storage(self.path(), error.to_string()))?;
        let (run, asked) = (run.clone(), id.clone());
        self.requesting(Purpose::Requests, move |own, key, connection| {
            let at = now();
            let seal = key.seal(TAG, &[&asked, run.as_str(), &at.to_string(), &body]);
            // Answers that no process waits for any more.
            let old = "DELETE FROM remote_requests WHERE unix_ms < ?1";
            connection.execute(old, [at - 24 * MAX_AGE_MS])?;
            let put = "INSERT INTO remote_requests (id, run, body, unix_ms, seal, asked_by)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO NOTHING";
            let values = params![asked, run.as_str(), body, at, seal, own];
            connection.execute(put, values)?;
            Ok(())
        })
        .await?;
        Ok(id.into())
    }

    /// The requests that are not answered, the oldest first, at most `limit`.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn open_requests(&self, limit: usize) -> Result<Vec<RemoteRequest>, JournalError> {
        self.reading_table("remote_requests", move |files, connection| {
            let own = process(files)?;
            // A file has no leases of processes: a request in it counts as awaited until it is too old.
            let is_alive = if files.is_shared() { "is_alive(asked_by)" } else { "TRUE" };
            let list = format!(
                "SELECT id, run, body, unix_ms, seal, {is_alive}, asked_by = ?2
                 FROM remote_requests WHERE answer IS NULL ORDER BY nth LIMIT ?1"
            );
            Ok(connection.list(&list, params![limit, own], |row| read(row, files.key.as_ref()))?)
        })
        .await
    }

    /// The answer to a request, which is then deleted. `None`: it is not answered yet.
    ///
    /// # Errors
    /// If the journal cannot be read or written.
    pub async fn request_answer(&self, id: &Arc<str>) -> Result<Option<RemoteAnswer>, JournalError> {
        let wanted = Arc::clone(id);
        let found = self.reading(move |_, connection| {
            let find = "SELECT coalesce(answer, '') FROM remote_requests WHERE id = ?1";
            Ok(connection.find(find, [&*wanted], |row| row.get::<String>(0))?)
        });
        let found = found.await?;
        let answer = found.and_then(|found| found.parse().ok());
        if answer.is_some() {
            let id = Arc::clone(id);
            let forget = self.requesting(Purpose::Rows, move |_, _, connection| {
                connection.execute("DELETE FROM remote_requests WHERE id = ?1", [&*id])?;
                Ok(())
            });
            // One that is left is deleted with the old ones.
            _ = forget.await;
        }
        Ok(answer)
    }

    /// Withdraws a request. False: a driver has taken it, or it is answered.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn withdraw_request(&self, id: &Arc<str>) -> Result<bool, JournalError> {
        let id = Arc::clone(id);
        self.requesting(Purpose::Rows, move |_, _, connection| {
            let withdraw =
                "DELETE FROM remote_requests WHERE id = ?1 AND answer IS NULL AND taken_by IS NULL";
            Ok(connection.execute(withdraw, [&*id])? > 0)
        })
        .await
    }

    /// Takes a request for the process that has its run's lock. False: it is answered, or was withdrawn.
    pub(super) async fn take_request(&self, id: &Arc<str>) -> Result<bool, JournalError> {
        let id = Arc::clone(id);
        self.requesting(Purpose::Rows, move |own, _, connection| {
            let take = "UPDATE remote_requests SET taken_by = ?2 WHERE id = ?1 AND answer IS NULL";
            Ok(connection.execute(take, params![&*id, own])? > 0)
        })
        .await
    }

    /// Answers a request that is not carried out. One that is answered stays as it is.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn refuse_request(&self, id: &Arc<str>, why: RemoteAnswer) -> Result<(), JournalError> {
        let id = Arc::clone(id);
        self.requesting(Purpose::Requests, move |_, _, connection| answer(connection, &id, why)).await
    }

    async fn requesting<T: Send + 'static>(
        &self,
        purpose: Purpose<'static>,
        work: impl FnOnce(&str, &Key, &Connection) -> Result<T, Fault> + Clone + Send + 'static,
    ) -> Result<T, JournalError> {
        let work = |files: &Files, connection: &Connection| {
            work(&process(files)?, files.key(&RunId::new("requests"))?, connection)
        };
        self.changing(purpose, Durability::Committed, TABLE, work).await
    }
}

/// The name of this process for a journal.
fn process(files: &Files) -> Result<String, Fault> {
    Ok(files.process()?.map_or_else(|| std::process::id().to_string(), str::to_owned))
}

/// Answers the requests that the entries of the same transaction carry out.
pub(super) fn carried_out(connection: &Connection, requests: &[Arc<str>]) -> Result<(), Fault> {
    requests.iter().try_for_each(|id| answer(connection, id, RemoteAnswer::Done))
}

/// What was asked is in the journal now, or nowhere.
fn answer(connection: &Connection, id: &str, with: RemoteAnswer) -> Result<(), Fault> {
    let answer = "UPDATE remote_requests SET answer = ?2, body = '' WHERE id = ?1 AND answer IS NULL";
    connection.execute(answer, [id, with.name()])?;
    Ok(())
}

fn read(row: &Row<'_>, key: Option<&Key>) -> super::sql::Result<RemoteRequest> {
    let (id, run, body): (Arc<str>, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let (at, seal): (i64, String) = (row.get(3)?, row.get(4)?);
    let is_sealed =
        key.is_some_and(|key| key.check(&seal, TAG, &[&id, &run, &at.to_string(), &body]).is_none());
    let is_new = now().saturating_sub(at) < MAX_AGE_MS;
    let kind = if is_sealed && is_new { serde_json::from_str(&body).ok() } else { None };
    Ok(RemoteRequest { id, run: RunId::new(run), kind, is_awaited: row.get(5)?, is_own: row.get(6)? })
}

fn now() -> i64 {
    i64::try_from(unix_ms(std::time::SystemTime::now())).unwrap_or(i64::MAX)
}

const TAG: &str = "remote request";
/// What people ask of runs that another process drives, until it is answered.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS remote_requests (
        nth      INTEGER PRIMARY KEY,
        id       TEXT NOT NULL UNIQUE,
        run      TEXT NOT NULL,
        body     TEXT NOT NULL,
        unix_ms  INTEGER NOT NULL,
        seal     TEXT NOT NULL,
        asked_by TEXT NOT NULL,
        taken_by TEXT,
        answer   TEXT
    ) STRICT;";
/// How old a request may be that is carried out: the person who asked has looked again by then.
const MAX_AGE_MS: i64 = 60 * 60 * 1_000;
