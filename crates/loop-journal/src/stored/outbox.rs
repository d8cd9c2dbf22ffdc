//! The outbox: messages of hooks, committed with the entries that caused them, until they are delivered.

use std::sync::Arc;

use super::sql::{self, Connection, NONE, Purpose, Row, params};
use loop_core::types::RunId;

use super::StoredJournal;
use super::fault::Fault;
use super::locks::NotTaken;
use super::seal::Key;
use crate::outbox::{ClaimedMessage, DeliveryResult, HookEvent, HookMessage, QueuedMessage};
use crate::{Durability, JournalError};

/// Journals without messages have no such table.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS outbox (
        id       TEXT NOT NULL PRIMARY KEY,
        run      TEXT NOT NULL,
        hook     TEXT NOT NULL,
        event    TEXT NOT NULL,
        body     TEXT NOT NULL,
        unix_ms  INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        next_ms  INTEGER,
        error    TEXT,
        seal     TEXT NOT NULL
    ) STRICT;";

const COLUMNS: &str = "id, run, hook, event, body, unix_ms, failures, next_ms, error, seal";

/// Puts messages into the outbox, in the transaction of the entry that caused them.
pub(super) fn put(connection: &Connection, messages: &[HookMessage], key: &Key) -> Result<(), Fault> {
    if messages.is_empty() {
        return Ok(());
    }
    if !connection.has_table("outbox")? {
        connection.lay(TABLE)?;
    }
    let put = format!("INSERT INTO outbox ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?6, NULL, ?7)");
    for message in messages {
        let HookMessage { id, run, hook, event, body, unix_ms } = message;
        let seal = key.seal(TAG, &[id, run.as_str(), hook, event.name(), body, &unix_ms.to_string()]);
        connection.execute_one(&put, params![id, run.as_str(), hook, event.name(), body, unix_ms, seal])?;
    }
    Ok(())
}

/// How many messages of a run are left. The end of a time to answer is no news of a run that has ended.
pub(super) fn count(connection: &Connection, run: &RunId) -> Result<u64, Fault> {
    if !connection.has_table("outbox")? {
        return Ok(0);
    }
    let count = "SELECT count(*) FROM outbox WHERE run = ?1 AND event <> 'expiring'";
    Ok(connection.query_row(count, [run.as_str()], |row| row.count(0))?)
}

/// A message. One whose event is not known is not sealed, and is in the list all the same.
fn read(row: &Row<'_>, key: Option<&Key>) -> sql::Result<QueuedMessage> {
    let [id, run, hook, event, body]: [String; 5] =
        [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
    let (at, failures, next): (i64, i64, Option<i64>) = (row.get(5)?, row.get(6)?, row.get(7)?);
    let (error, seal): (Option<Arc<str>>, String) = (row.get(8)?, row.get(9)?);
    let known = serde_json::from_value(event.as_str().into());
    let is_sealed = known.is_ok()
        && key.is_some_and(|key| {
            key.check(&seal, TAG, &[&id, &run, &hook, &event, &body, &at.to_string()]).is_none()
        });
    let unix_ms = u64::try_from(at).unwrap_or_default();
    let message = HookMessage {
        id: id.into(),
        run: RunId::new(run),
        hook: hook.into(),
        event: known.unwrap_or(HookEvent::Ended),
        body: body.into(),
        unix_ms,
    };
    Ok(QueuedMessage {
        message,
        failures: u32::try_from(failures).unwrap_or(u32::MAX),
        next_unix_ms: next.and_then(|next| u64::try_from(next).ok()),
        error,
        is_sealed,
    })
}

fn find(connection: &Connection, id: &str, key: Option<&Key>) -> Result<Option<QueuedMessage>, Fault> {
    if !connection.has_table("outbox")? {
        return Ok(None);
    }
    let find = format!("SELECT {COLUMNS} FROM outbox WHERE id = ?1");
    Ok(connection.find(&find, [id], |row| read(row, key))?)
}

impl StoredJournal {
    pub(super) async fn queued(&self) -> Result<Vec<QueuedMessage>, JournalError> {
        let read = self.reading_table("outbox", |files, connection| {
            let list = format!("SELECT {COLUMNS} FROM outbox ORDER BY unix_ms, id");
            Ok(connection.list(&list, NONE, |row| read(row, files.key.as_ref()))?)
        });
        read.await
    }

    pub(super) async fn claimed(&self, id: &str) -> Result<Option<ClaimedMessage>, JournalError> {
        let id = id.to_owned();
        let claimed = self.reading(move |files, connection| {
            // Its lock is one of a name that no run has.
            let lock = match files.locks.take(&RunId::new(format!("message {id}"))) {
                Ok(lock) => lock,
                Err(NotTaken::Held(_)) => return Ok(None),
                Err(NotTaken::Failed(fault)) => return Err(fault),
            };
            // Another process may have delivered it before it was locked.
            let queued = find(connection, &id, files.key.as_ref())?;
            Ok(queued.map(|queued| ClaimedMessage { queued, _lock: Box::new(lock) }))
        });
        claimed.await
    }

    pub(super) async fn settled(&self, id: &str, delivered: &DeliveryResult) -> Result<(), JournalError> {
        let (id, delivered) = (id.to_owned(), delivered.clone());
        let settled = self.store.writer.alone(move |files, open| {
            files.place.holds(&files.path)?;
            open.commit_for(Purpose::Rows, files, Durability::Committed, |connection| {
                match &delivered {
                    DeliveryResult::Yes => {
                        connection.execute("DELETE FROM outbox WHERE id = ?1", [&id])?;
                    }
                    DeliveryResult::No { error, next_unix_ms } => {
                        let later = "UPDATE outbox SET failures = failures + 1, error = ?2, next_ms = ?3 WHERE id = ?1";
                        connection.execute(later, params![id, error, next_unix_ms])?;
                    }
                }
                Ok(())
            })
        });
        settled.await
    }

    /// Takes a message out of the outbox without delivering it. False if there is none of this id.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn drop_message(&self, id: &str) -> Result<bool, JournalError> {
        let id = id.to_owned();
        let dropped = self.store.writer.alone(move |files, open| {
            files.place.holds(&files.path)?;
            open.commit(files, Durability::Committed, |connection| {
                if !connection.has_table("outbox")? {
                    return Ok(false);
                }
                Ok(connection.execute("DELETE FROM outbox WHERE id = ?1", [&id])? > 0)
            })
        });
        dropped.await
    }
}

const TAG: &str = "message";
