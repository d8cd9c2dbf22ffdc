//! Stored evals: a line for lists, and the report of each.

use loop_core::types::Digest;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::StoredJournal;
use super::fault::{Fault, storage};
use super::seal::Key;
use super::sql::{self, NONE, Purpose, Row, params};
use crate::{Durability, JournalError};

/// An eval in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeptEval {
    /// Its id. Empty until it is stored. A later one is greater.
    #[serde(skip)]
    pub id: String,
    /// Its name, from the person who stored it.
    pub name: String,
    /// When it was stored, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
    /// The domains of its cases. An empty name: the domain of a case is not known, since it could not be run.
    pub domains: Vec<String>,
    /// Its configurations: the models.
    pub configurations: Vec<String>,
    /// Runs that met all their expectations.
    pub passed: u32,
    /// Runs.
    pub runs: u32,
    /// Cost in pico-dollars of the runs with a known price.
    pub cost_pico_usd: u64,
    /// Runs whose cost is unknown.
    pub unknown_costs: u32,
}

/// Journals in which no eval was kept have no such table.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS evals (
        id      TEXT NOT NULL PRIMARY KEY,
        unix_ms INTEGER NOT NULL,
        head    TEXT NOT NULL,
        digest  TEXT NOT NULL,
        body    TEXT NOT NULL,
        seal    TEXT NOT NULL
    ) STRICT;";

/// How many evals are listed, the newest ones.
const MAX_LISTED: u32 = 500;
/// Bytes of a report.
const MAX_BYTES: usize = 64 << 20;
const TAG: &str = "eval";

impl StoredJournal {
    /// Stores an eval with its report, which the journal does not read. Returns its id.
    ///
    /// # Errors
    /// If the report is too large, or the journal cannot be written.
    pub async fn keep_eval(&self, eval: &KeptEval, report: String) -> Result<String, JournalError> {
        if report.len() > MAX_BYTES {
            let (bytes, most) = (report.len(), MAX_BYTES);
            let message = format!(
                "the eval has {bytes} bytes, and the journal keeps {most}; run fewer cases or repeats"
            );
            return Err(storage(self.path(), message));
        }
        let head = serde_json::to_string(eval).map_err(|error| storage(self.path(), error.to_string()))?;
        let (id, unix_ms) = (Uuid::now_v7().to_string(), eval.unix_ms);
        let kept = self.changing(Purpose::Rows, Durability::Synced, TABLE, move |files, connection| {
            let key = files.key.as_ref().ok_or_else(|| Fault::Stated(files.no_key()))?;
            let digest = Digest::of(TAG, report.as_bytes()).to_string();
            let seal = key.seal(TAG, &[&id, &unix_ms.to_string(), &head, &digest]);
            // Where the connection broke after the first try was committed, it is there.
            let put = "INSERT INTO evals (id, unix_ms, head, digest, body, seal)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
            connection.execute(put, params![id, unix_ms, head, digest, report, seal])?;
            Ok(id)
        });
        kept.await
    }

    /// The newest evals, newest first. One for which the journal's key does not vouch is left out.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn evals(&self) -> Result<Vec<KeptEval>, JournalError> {
        let read = self.reading_table("evals", |files, connection| {
            let list = format!(
                "SELECT id, unix_ms, head, digest, seal FROM evals ORDER BY id DESC LIMIT {MAX_LISTED}"
            );
            let found: Vec<_> = connection.list(&list, NONE, |row| sealed(row, files.key.as_ref()))?;
            Ok(found.into_iter().flatten().map(|(eval, _)| eval).collect())
        });
        read.await
    }

    /// An eval, and its report. `None`: there is none with this id, or the journal's key does not vouch for it.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn eval(&self, id: &str) -> Result<Option<(KeptEval, String)>, JournalError> {
        let id = id.to_owned();
        let read = self.reading_table("evals", move |files, connection| {
            let find = "SELECT id, unix_ms, head, digest, seal, body FROM evals WHERE id = ?1";
            let found = connection
                .find(find, [&id], |row| Ok((sealed(row, files.key.as_ref())?, row.get::<String>(5)?)))?;
            Ok(found.and_then(|(eval, report)| {
                let (eval, digest) = eval?;
                (Digest::of(TAG, report.as_bytes()).to_string() == digest).then_some((eval, report))
            }))
        });
        read.await
    }

    /// Deletes the evals that were stored before an instant, in milliseconds since 1970 (UTC). Returns how many there
    /// were. With `only_counts` nothing is deleted.
    ///
    /// # Errors
    /// If the journal cannot be read or written.
    pub async fn prune_evals(&self, before: u64, only_counts: bool) -> Result<u64, JournalError> {
        let count = self.reading_table("evals", move |_, connection| {
            let count = "SELECT count(*) FROM evals WHERE unix_ms < ?1";
            Ok(connection.query_row(count, [before], |row| row.count(0))?)
        });
        let count = count.await?;
        if count == 0 || only_counts {
            return Ok(count);
        }
        let pruned = self.changing(Purpose::Alone, Durability::Synced, TABLE, move |_, connection| {
            Ok(connection.execute("DELETE FROM evals WHERE unix_ms < ?1", [before])? as u64)
        });
        pruned.await
    }
}

/// An eval with the digest of its report, if the key made its seal.
fn sealed(row: &Row<'_>, key: Option<&Key>) -> sql::Result<Option<(KeptEval, String)>> {
    let (id, unix_ms, head): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let (digest, seal): (String, String) = (row.get(3)?, row.get(4)?);
    let fields = [id.as_str(), &unix_ms.to_string(), &head, &digest];
    let is_own = key.is_some_and(|key| key.check(&seal, TAG, &fields).is_none());
    let eval = serde_json::from_str(&head).ok().filter(|_| is_own);
    Ok(eval.map(|eval| (KeptEval { id, ..eval }, digest)))
}
