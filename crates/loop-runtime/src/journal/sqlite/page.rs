//! A page of the list of runs, in the order of their ids: no run but those of the page is read.
//!
//! An id begins with the time at which it was given out, so the order of the ids is the order of time.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::RunId;

use super::SqliteJournal;
use super::rows::{self, parse};
use super::sql::{Cell, Connection, Optional as _, params};
use crate::journal::{Entry, JournalError, RunLine};

/// Which runs a page has. A run has to fit all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Only these domains, by name. `None`: all.
    pub domains: Option<Vec<Arc<str>>>,
    /// Only runs that have ended, or only those that have not. `None`: both.
    pub ended: Option<bool>,
    /// Only runs with this stop reason, by name.
    pub reason: Option<Arc<str>>,
    /// Only runs that began at this time or later, in milliseconds since 1970 (UTC).
    pub since_unix_ms: Option<u64>,
    /// Only runs that began before this time.
    pub until_unix_ms: Option<u64>,
    /// Only runs with this tag in their origin.
    pub tag: Option<Arc<str>>,
    /// Only runs whose item's id or title has this text. Small and capital letters of ASCII count as the same.
    pub text: Option<Arc<str>>,
    /// Only runs before this one in the list, which are the older ones.
    pub before: Option<RunId>,
}

impl SqliteJournal {
    /// Runs that fit, newest first by their ids, at most `limit`.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn page(&self, query: &RunQuery, limit: usize) -> Result<Vec<RunLine>, JournalError> {
        let query = query.clone();
        self.reading(move |files, connection| {
            let (wanted, values) = query.conditions(connection);
            let sql = format!("WHERE {wanted} ORDER BY run DESC LIMIT {limit}");
            let mut lines = rows::lines_where(connection, &sql, values, files.key.as_ref())?;
            for line in lines.iter_mut().filter(|line| line.stop.is_none()) {
                line.is_written = files.locks.is_held(&line.run);
            }
            Ok(lines)
        })
        .await
    }

    /// The line of a run. `None`: there is no such run.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn line(&self, run: &RunId) -> Result<Option<RunLine>, JournalError> {
        let run = run.clone();
        self.reading(move |files, connection| {
            let values = vec![Cell::Text(run.to_string())];
            let mut lines = rows::lines_where(connection, "WHERE run = ?1", values, files.key.as_ref())?;
            let mut line = lines.pop();
            if let Some(line) = line.as_mut().filter(|line| line.stop.is_none()) {
                line.is_written = files.locks.is_held(&line.run);
            }
            Ok(line)
        })
        .await
    }

    /// How many entries these runs have, without those that a process writes.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn free_runs(&self, runs: Vec<RunId>) -> Result<BTreeMap<RunId, u64>, JournalError> {
        self.reading(move |files, connection| {
            let mut free = BTreeMap::new();
            let mut find = connection.prepare_cached("SELECT entries FROM runs WHERE run = ?1")?;
            for run in runs {
                if files.locks.is_held(&run) {
                    continue;
                }
                let entries: Option<i64> = find.query_row([run.as_str()], |row| row.get(0)).optional()?;
                if let Some(entries) = entries {
                    free.insert(run, u64::try_from(entries).unwrap_or_default());
                }
            }
            Ok(free)
        })
        .await
    }

    /// The entries of a run from a number on, at most `limit`. They are as they are stored: their chain is not checked.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub async fn entries_from(
        &self,
        run: &RunId,
        seq: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, JournalError> {
        let run = run.clone();
        self.reading(move |_, connection| {
            let list =
                "SELECT seq, event, notes FROM entries WHERE run = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3";
            let mut list = connection.prepare_cached(list)?;
            let first = i64::try_from(seq).unwrap_or(i64::MAX);
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut rows = list.query(params![run.as_str(), first, limit])?;
            let mut entries = Vec::new();
            while let Some(row) = rows.next()? {
                let (seq, event, notes): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let seq = u64::try_from(seq).unwrap_or_default();
                let (event, notes) = (parse(&event, "event", &run, seq)?, parse(&notes, "notes", &run, seq)?);
                entries.push(Entry { seq, event, notes });
            }
            Ok(entries)
        })
        .await
    }
}

impl RunQuery {
    fn conditions(&self, connection: &Connection) -> (String, Vec<Cell>) {
        let (mut wanted, mut values) = (vec!["1 = 1".to_owned()], Vec::new());
        let (is_file, text) = (connection.is_file(), |text: &str| Cell::Text(text.to_owned()));
        let mut add = |condition: &str, value: Cell| {
            values.push(value);
            wanted.push(condition.replace('?', &format!("?{}", values.len())));
        };
        let time = |unix_ms: u64| Cell::Integer(i64::try_from(unix_ms).unwrap_or(i64::MAX));
        if let Some(domains) = &self.domains {
            let names = serde_json::to_string(domains).unwrap_or_default();
            let one_of = match is_file {
                true => "domain IN (SELECT value FROM json_each(?))",
                false => "domain IN (SELECT jsonb_array_elements_text(CAST(CAST(? AS TEXT) AS JSONB)))",
            };
            add(one_of, Cell::Text(names));
        }
        if let Some(ended) = self.ended {
            add("(CASE WHEN stop IS NULL THEN 0 ELSE 1 END) = ?", Cell::Integer(ended.into()));
        }
        if let Some(reason) = &self.reason {
            add("stop = ?", text(reason));
        }
        if let Some(since) = self.since_unix_ms {
            add("unix_ms >= ?", time(since));
        }
        if let Some(until) = self.until_unix_ms {
            add("unix_ms < ?", time(until));
        }
        if let Some(tag) = &self.tag {
            let condition = match is_file {
                true => {
                    "json_valid(origin) AND EXISTS (SELECT 1 FROM json_each(origin, '$.tags') WHERE value = ?)"
                }
                false => "has_tag(origin, ?)",
            };
            add(condition, text(tag));
        }
        if let Some(part) = &self.text {
            let condition = match is_file {
                true => "(instr(lower(item), ?) > 0 OR instr(lower(title), ?) > 0)",
                false => "(strpos(lower(item), ?) > 0 OR strpos(lower(title), ?) > 0)",
            };
            add(condition, Cell::Text(part.to_ascii_lowercase()));
        }
        if let Some(before) = &self.before {
            add("run < ?", Cell::Text(before.to_string()));
        }
        (wanted.join(" AND "), values)
    }
}
