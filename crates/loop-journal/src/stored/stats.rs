//! How large a journal is, and what is in it.

use std::fs;

use super::StoredJournal;
use super::pruned;
use super::sql::NONE;
use crate::JournalError;

/// The size of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// How many runs it has.
    pub runs: u64,
    /// How many entries all of them have.
    pub entries: u64,
    /// Bytes of its file and of its log.
    pub bytes: u64,
    /// Bytes of its file that are free for new entries.
    pub free_bytes: u64,
    /// How many runs were pruned.
    pub pruned: u64,
    /// How many runs are missing although the records under the key have them.
    pub missing: u64,
}

impl StoredJournal {
    /// How large the journal is, without reading its entries.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn stats(&self) -> Result<JournalStats, JournalError> {
        let missing = self.missing_runs().await?.len() as u64;
        let read = self.reading(move |files, connection| {
            let transaction = connection.transaction()?;
            let count = |sql: &str| transaction.query_row(sql, NONE, |row| row.get::<i64>(0));
            let size = |number: i64| u64::try_from(number).unwrap_or_default();
            let (bytes, free_bytes) = if transaction.is_file() {
                let free =
                    count("SELECT page_size * freelist_count FROM pragma_page_size, pragma_freelist_count")?;
                let mut log = files.path.as_os_str().to_owned();
                log.push("-wal");
                let bytes = |path: &std::path::Path| fs::metadata(path).map_or(0, |file| file.len());
                (bytes(&files.path) + bytes(log.as_ref()), size(free))
            } else {
                (size(count("SELECT CAST(journal_bytes() AS BIGINT)")?), 0)
            };
            let pruned = match &files.key {
                Some(key) => pruned::runs(&transaction, key)?.len() as u64,
                None => 0,
            };
            Ok(JournalStats {
                runs: size(count("SELECT count(*) FROM runs")?),
                entries: size(count("SELECT CAST(coalesce(sum(entries), 0) AS BIGINT) FROM runs")?),
                bytes,
                free_bytes,
                pruned,
                missing,
            })
        });
        read.await
    }
}
