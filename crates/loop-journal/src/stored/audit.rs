//! The audit log: who did what from outside. Each entry is sealed together with the seal of the entry before it, so a
//! changed, removed or added one is noticed; a removal of the newest entries alone is not noticed.

use std::sync::{Arc, Mutex, PoisonError};

use loop_core::types::RunId;

use super::sql::{self, Connection, NONE, Purpose, Row, params};

use super::StoredJournal;
use super::fault::Fault;
use super::seal::Key;
use crate::audit::{AuditEntry, AuditFilter, AuditLine};
use crate::{Durability, JournalError};

/// Journals of which no server has been have no such table.
pub(super) const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS audit (
        seq  INTEGER NOT NULL PRIMARY KEY,
        run  TEXT,
        body TEXT NOT NULL,
        seal TEXT NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS audit_of_run ON audit (run, seq) WHERE run IS NOT NULL;
    CREATE TRIGGER IF NOT EXISTS audit_is_not_changed BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'entries of the audit log are not changed'); END;
    CREATE TRIGGER IF NOT EXISTS audit_is_not_deleted BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, 'entries of the audit log are not deleted'); END;";

const TAG: &str = "audit";

/// An entry with the seal of the one before it.
const LINES: &str = "SELECT audit.seq, audit.body, audit.seal, coalesce(previous.seal, ''), audit.run FROM audit \
                     LEFT JOIN audit AS previous ON previous.seq = audit.seq - 1";

impl StoredJournal {
    /// Appends an entry to the audit log, and returns its number. It is committed as safely as an effect.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn append_audit(&self, entry: &AuditEntry) -> Result<u64, JournalError> {
        let run = entry.run.as_ref().map(|run| run.as_str().to_owned());
        let body = serde_json::to_string(entry)
            .map_err(|error| super::fault::storage(self.path(), format!("an audit entry: {error}")))?;
        let durability = self.sync.of(Durability::Synced);
        // What the first try sealed: no other entry has this seal at this place.
        let tried = Arc::new(Mutex::new(None::<(i64, String)>));
        let appended = self.store.writer.alone_again(move |files, open| {
            files.place.holds(&files.path)?;
            let key = files.key.as_ref().ok_or_else(|| Fault::Stated(files.no_key()))?;
            open.commit_for(Purpose::Audits, files, durability, |connection| {
                if !connection.has_table(TAG)? {
                    connection.lay(TABLE)?;
                }
                let mut tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((seq, seal)) = &*tried {
                    let find = "SELECT seq FROM audit WHERE seq = ?1 AND seal = ?2";
                    let found: Option<i64> = connection.find(find, params![seq, seal], |row| row.get(0))?;
                    if let Some(seq) = found {
                        return Ok(u64::try_from(seq).unwrap_or_default());
                    }
                }
                let last = "SELECT seq, seal FROM audit ORDER BY seq DESC LIMIT 1";
                let last: Option<(i64, String)> =
                    connection.find(last, NONE, |row| Ok((row.get(0)?, row.get(1)?)))?;
                let (last, previous) = last.unwrap_or_default();
                let seq = last.saturating_add(1);
                let seal = key.seal(TAG, &[&previous, &seq.to_string(), &body]);
                let put = "INSERT INTO audit (seq, run, body, seal) VALUES (?1, ?2, ?3, ?4)";
                connection.execute_one(put, params![seq, run, body, seal])?;
                *tried = Some((seq, seal));
                Ok(u64::try_from(seq).unwrap_or_default())
            })
        });
        appended.await
    }

    /// Entries of the audit log, newest first.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn audit_lines(&self, filter: &AuditFilter) -> Result<Vec<AuditLine>, JournalError> {
        let AuditFilter { before, run, limit } = filter.clone();
        let read = self.reading_table(TAG, move |files, connection| {
            let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
            // By the column and by what is sealed, so that an entry whose column was changed is among them.
            let sealed = run.as_ref().map(serde_json::to_string).transpose()?;
            let (run, sealed) = (run.as_ref().map(RunId::as_str), sealed.map(|run| format!("\"run\":{run}")));
            let of_run = match (&run, connection.is_file()) {
                (None, _) => "CAST(?2 AS TEXT) IS NULL AND CAST(?4 AS TEXT) IS NULL",
                (Some(_), true) => "(audit.run = ?2 OR instr(audit.body, ?4) > 0)",
                (Some(_), false) => "(audit.run = ?2 OR strpos(audit.body, ?4) > 0)",
            };
            let list = format!("{LINES} WHERE audit.seq < ?1 AND {of_run} ORDER BY audit.seq DESC LIMIT ?3");
            Ok(connection
                .list(&list, params![before, run, limit, sealed], |row| line(row, files.key.as_ref()))?)
        });
        read.await
    }

    /// The first entry of the whole audit log whose seal the journal's key does not verify. `None`: there is none.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn broken_audit(&self) -> Result<Option<u64>, JournalError> {
        let read = self.reading_table(TAG, |files, connection| first_broken(connection, files.key.as_ref()));
        read.await
    }
}

fn first_broken(connection: &Connection, key: Option<&Key>) -> Result<Option<u64>, Fault> {
    let mut list = connection.prepare_cached(&format!("{LINES} ORDER BY audit.seq"))?;
    let mut lines = list.query(NONE)?;
    // One that is missing breaks the seal of the next.
    while let Some(row) = lines.next()? {
        let AuditLine { seq, sealed, entry } = line(&row, key)?;
        if !sealed || entry.is_none() {
            return Ok(Some(seq));
        }
    }
    Ok(None)
}

fn line(row: &Row<'_>, key: Option<&Key>) -> sql::Result<AuditLine> {
    let (seq, body, seal, previous): (i64, String, String, String) =
        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
    let (fields, run) = ([&*previous, &seq.to_string(), &*body], row.get::<Option<String>>(4)?);
    let entry: Option<AuditEntry> = serde_json::from_str(&body).ok();
    // The column, by which entries are chosen, is not under the seal.
    let is_own = |entry: &AuditEntry| entry.run.as_ref().map(RunId::as_str) == run.as_deref();
    let sealed =
        entry.as_ref().is_none_or(is_own) && key.is_some_and(|key| key.check(&seal, TAG, &fields).is_none());
    Ok(AuditLine { seq: u64::try_from(seq).unwrap_or_default(), sealed, entry })
}
