//! The list of runs in parts: a page in the order of the ids, some runs, and what changed since the last look. No run but
//! those that are asked for is read.
//!
//! An id begins with the time at which it was given out, so the order of the ids is the order of time.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::types::RunId;

use super::fault::Fault;
use super::opened::Files;
use super::rows::{self, parse};
use super::sql::{Cell, Connection, NONE, Row, params};
use super::{SearchTerms, StoredJournal, event};
use crate::{Entry, JournalError, RunLine};

/// A query for a page of runs. A run must match every condition.
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
    /// Only runs that have ended with these words in their documents or evidence, as far as they are in the index: see
    /// [`index_words`](StoredJournal::index_words).
    pub words: Option<SearchTerms>,
    /// Only runs before this one in the list, which are the older ones.
    pub before: Option<RunId>,
}

/// The position up to which a reader knows the list of runs. It is valid for one journal and one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPosition {
    /// Changes with every commit of another connection. On a server, how many times runs were taken out.
    version: i64,
    runs: i64,
    /// The row that was added last, and its run. On a server, the first transaction that may not be seen yet, and the snapshot.
    last: i64,
    newest: String,
}

/// What changed in the list of runs.
#[derive(Clone, Debug)]
pub struct ListChanges {
    /// The position after these changes.
    pub position: ListPosition,
    /// The lines of new runs, and of the requested runs.
    pub lines: Vec<RunLine>,
    /// Whether the lines are the whole list: the reader knew nothing of it, or runs were taken out.
    pub is_whole: bool,
}

impl StoredJournal {
    /// What changed in the list since this position: the runs that were added, and these, which had not ended then. `None`:
    /// nothing was written since. The whole list is its newest `limit` lines. `is_written` is false in every line.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn list_changes(
        &self,
        since: Option<ListPosition>,
        open: Vec<RunId>,
        limit: usize,
    ) -> Result<Option<ListChanges>, JournalError> {
        self.reading(move |files, connection| {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            if !connection.is_file() {
                return changes_on_server(files, connection, since, &open, limit);
            }
            // What is committed after this question is found by the next one.
            let version: i64 = connection.query_row("PRAGMA data_version", NONE, |row| row.get(0))?;
            if since.as_ref().is_some_and(|since| since.version == version) {
                return Ok(None);
            }
            let transaction = connection.transaction()?;
            let runs: i64 = transaction.query_row("SELECT count(*) FROM runs", NONE, |row| row.get(0))?;
            let run_at = |at: i64| {
                transaction.find("SELECT run FROM runs WHERE rowid = ?1", [at], |row| row.get::<String>(0))
            };
            let last: i64 =
                transaction.query_row("SELECT coalesce(max(rowid), 0) FROM runs", NONE, |row| row.get(0))?;
            let position = |newest: Option<String>| ListPosition {
                version,
                runs,
                last,
                newest: newest.unwrap_or_default(),
            };
            let lines = |wanted: &str, values: Vec<Cell>| {
                rows::lines_where(&transaction, wanted, values, files.key.as_ref())
            };
            if let Some(since) = since
                && run_at(since.last)?.unwrap_or_default() == since.newest
            {
                let mut added = lines("WHERE rowid > ?1", vec![Cell::Integer(since.last)])?;
                // A row that is gone, or that took the place of one, cannot be distinguished from the others.
                if i64::try_from(added.len()) == Ok(runs - since.runs) {
                    let open = serde_json::to_string(&open)?;
                    added.extend(lines(named(&transaction), vec![Cell::Text(open)])?);
                    let position = position(run_at(last)?);
                    return Ok(Some(ListChanges { position, lines: added, is_whole: false }));
                }
            }
            let whole = lines("ORDER BY rowid DESC LIMIT ?1", vec![Cell::Integer(limit)])?;
            let position = position(run_at(last)?);
            Ok(Some(ListChanges { position, lines: whole, is_whole: true }))
        })
        .await
    }

    /// The lines of these runs, in no particular order. A run that does not exist has none.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn lines(&self, runs: &[RunId]) -> Result<Vec<RunLine>, JournalError> {
        let runs = runs.to_vec();
        self.reading(move |files, connection| {
            let values = vec![Cell::Text(list_of(connection, runs.iter().map(RunId::as_str)))];
            let mut lines = rows::lines_where(connection, named(connection), values, files.key.as_ref())?;
            mark_written(files, &mut lines);
            Ok(lines)
        })
        .await
    }

    /// Runs that match, newest first by their ids, at most `limit`.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn page(&self, query: &RunQuery, limit: usize) -> Result<Vec<RunLine>, JournalError> {
        let query = query.clone();
        self.reading(move |files, connection| {
            let (wanted, values) = query.conditions(connection);
            let sql = format!("WHERE {wanted} ORDER BY run DESC LIMIT {limit}");
            let mut lines = rows::lines_where(connection, &sql, values, files.key.as_ref())?;
            mark_written(files, &mut lines);
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
            mark_written(files, &mut lines);
            Ok(lines.pop())
        })
        .await
    }

    /// How many entries each of these runs has. Runs that a process writes are left out.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn free_runs(&self, runs: Vec<RunId>) -> Result<BTreeMap<RunId, u64>, JournalError> {
        self.reading(move |files, connection| {
            let held = files.locks.held(&runs.iter().collect::<Vec<_>>());
            let free: Vec<&RunId> = runs.iter().filter(|run| !held.contains(*run)).collect();
            if free.is_empty() {
                return Ok(BTreeMap::new());
            }
            let list = format!("SELECT run, entries FROM runs {}", named(connection));
            let free = list_of(connection, free.iter().map(|run| run.as_str()));
            let read = |row: &Row<'_>| Ok((RunId::new(row.get::<String>(0)?), row.count(1)?));
            Ok(connection.list(&list, [free], read)?)
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
            let mut rows = list.query(params![run.as_str(), seq, limit])?;
            let mut entries = Vec::new();
            while let Some(row) = rows.next()? {
                let (seq, event, notes): (_, String, String) = (row.count(0)?, row.get(1)?, row.get(2)?);
                let event::ReadEvent(event) = parse(&event, "event", &run, seq)?;
                entries.push(Entry { seq, event, notes: parse(&notes, "notes", &run, seq)? });
            }
            Ok(entries)
        })
        .await
    }
}

/// The changes in the list of a journal on a server. A run's row has the number of the transaction that added it, and a
/// snapshot has the number of the oldest transaction that it may not see, so what is added later is found by that number; a run
/// may be found twice. The rows are not counted: the database counts how often some are taken out.
fn changes_on_server(
    files: &Files,
    connection: &mut Connection,
    since: Option<ListPosition>,
    open: &[RunId],
    limit: i64,
) -> Result<Option<ListChanges>, Fault> {
    let transaction = connection.transaction()?;
    let now = "SELECT CAST(pg_current_snapshot() AS TEXT),
                   CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT), removals FROM journal";
    let position = transaction.query_row(now, NONE, |row| {
        Ok(ListPosition { newest: row.get(0)?, last: row.get(1)?, version: row.get(2)?, runs: 0 })
    })?;
    let lines =
        |wanted: &str, values: Vec<Cell>| rows::lines_where(&transaction, wanted, values, files.key.as_ref());
    match since {
        Some(since) if since == position => Ok(None),
        // A number that went back is that of a database which was restored.
        Some(since) if since.version == position.version && since.last <= position.last => {
            let mut changed = lines("WHERE born >= ?1", vec![Cell::Integer(since.last)])?;
            let open = list_of(&transaction, open.iter().map(RunId::as_str));
            changed.extend(lines(named(&transaction), vec![Cell::Text(open)])?);
            Ok(Some(ListChanges { position, lines: changed, is_whole: false }))
        }
        _ => {
            let lines = lines("ORDER BY run DESC LIMIT ?1", vec![Cell::Integer(limit)])?;
            Ok(Some(ListChanges { position, lines, is_whole: true }))
        }
    }
}

/// Says of the lines whose runs have not ended whether a process writes them.
pub(super) fn mark_written(files: &Files, lines: &mut [RunLine]) {
    let open: Vec<&RunId> = lines.iter().filter(|line| line.stop.is_none()).map(|line| &line.run).collect();
    let held = files.locks.held(&open);
    for line in lines.iter_mut().filter(|line| line.stop.is_none()) {
        line.is_written = held.contains(&line.run);
    }
}

/// A list of names as one JSON text, for a condition on it.
pub(super) fn list_of<'a>(connection: &Connection, names: impl Iterator<Item = &'a str>) -> String {
    let quoted = |name: &str| serde_json::to_string(name).unwrap_or_default();
    let quoted = |name: &str| match connection.is_file() {
        true => quoted(name),
        // The session writes a NUL as the columns have it, and JSON would write it in a way that no column has.
        false => {
            let parts: Vec<String> = name.split('\0').map(quoted).collect();
            parts.join("\0").replace("\"\0\"", "\0")
        }
    };
    format!("[{}]", names.map(quoted).collect::<Vec<_>>().join(","))
}

/// The rows of the runs that one text lists as JSON.
pub(super) fn named(connection: &Connection) -> &'static str {
    match connection.is_file() {
        true => "WHERE run IN (SELECT value FROM json_each(?1))",
        false => "WHERE run IN (SELECT jsonb_array_elements_text(CAST(CAST(?1 AS TEXT) AS JSONB)))",
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
            let names = list_of(connection, domains.iter().map(|name| &**name));
            let one_of = match is_file {
                true => "domain IN (SELECT value FROM json_each(?))",
                false => "domain IN (SELECT jsonb_array_elements_text(CAST(CAST(? AS TEXT) AS JSONB)))",
            };
            add(one_of, Cell::Text(names));
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
        if let Some(ended) = self.ended {
            // As the index of the runs that have not ended says it.
            wanted.push(if ended { "stop IS NOT NULL" } else { "stop IS NULL" }.to_owned());
        }
        if let Some(words) = &self.words {
            wanted.push(words.condition(connection, &mut values));
        }
        (wanted.join(" AND "), values)
    }
}
