//! What lists say of a run beyond its row: its class and what its calls cost. Read from the notes once, and kept for runs
//! that have stopped.

use std::collections::BTreeMap;

use super::page::{list_of, named};
use super::sql::{Connection, Purpose, params};
use loop_core::{Cost, Note, PicoUsd, RunId, StopClass};

use super::SqliteJournal;
use super::fault::Fault;
use super::seal::Key;
use crate::journal::{Durability, JournalError};

/// A run's class, and what its own calls cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// The class of its stop. `None`: it has not stopped.
    pub class: Option<StopClass>,
    /// The cost of the calls that it made itself. What a fork takes over from its parent counts for the parent.
    pub cost: Cost,
}

/// Journals of which no summary was kept have no such table. It can be dropped: everything in it follows from the entries.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS summaries (
        run      TEXT NOT NULL PRIMARY KEY,
        head     TEXT NOT NULL,
        class    TEXT NOT NULL,
        cost     TEXT NOT NULL,
        unpriced INTEGER NOT NULL,
        seal     TEXT NOT NULL
    ) STRICT;";

/// A summary, and the last entry that it knows of.
#[derive(Clone, Debug)]
struct Fresh {
    run: RunId,
    head: String,
    summary: RunSummary,
}

impl SqliteJournal {
    /// The summaries of these runs. Those that cannot be read are left out.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn summaries(&self, runs: &[RunId]) -> Result<BTreeMap<RunId, RunSummary>, JournalError> {
        let runs = runs.to_vec();
        let read = self.reading(move |files, connection| {
            let transaction = connection.transaction()?;
            let key = files.key.as_ref();
            let kept = key.filter(|_| transaction.has_table("summaries").unwrap_or_default());
            let (mut summaries, mut fresh) = (BTreeMap::new(), Vec::new());
            for Listed { run, head, has_stopped, kept } in listed(&transaction, &runs, kept)? {
                if let Some(summary) = kept {
                    summaries.insert(run, summary);
                } else if let Some(summary) = read_notes(&transaction, &run)? {
                    summaries.insert(run.clone(), summary);
                    if has_stopped && key.is_some() {
                        fresh.push(Fresh { run, head, summary });
                    }
                }
            }
            Ok((summaries, fresh))
        });
        let (summaries, fresh) = read.await?;
        if !fresh.is_empty() {
            // Where nothing can be written they are read again the next time.
            _ = self.keep(fresh).await;
        }
        Ok(summaries)
    }

    async fn keep(&self, mut fresh: Vec<Fresh>) -> Result<(), JournalError> {
        // In one order, so that processes which keep the same ones do not wait for each other.
        fresh.sort_unstable_by(|a, b| a.run.cmp(&b.run));
        let kept = self.store.writer.alone_again(move |files, open| {
            let Some(key) = &files.key else { return Ok(()) };
            if open.connection().is_read_only()? {
                return Ok(());
            }
            files.place.holds(&files.path)?;
            open.commit_for(Purpose::Rows, files, Durability::Committed, |connection| {
                connection.lay(TABLE)?;
                let keep = "INSERT INTO summaries (run, head, class, cost, unpriced, seal)
                            SELECT run, ?2, ?3, ?4, ?5, ?6 FROM runs WHERE run = ?1
                            ON CONFLICT (run) DO UPDATE SET head = excluded.head, class = excluded.class,
                                cost = excluded.cost, unpriced = excluded.unpriced, seal = excluded.seal";
                let mut keep = connection.prepare_cached(keep)?;
                for Fresh { run, head, summary } in &fresh {
                    let [class, cost, unpriced] = columns(summary);
                    let seal = key.seal(TAG, &[run.as_str(), head, &class, &cost, &unpriced]);
                    let unpriced = summary.cost.unknown_calls;
                    keep.execute(params![run.as_str(), head, class, cost, unpriced, seal])?;
                }
                Ok(())
            })
        });
        kept.await
    }
}

fn columns(summary: &RunSummary) -> [String; 3] {
    let RunSummary { class, cost } = summary;
    let class = class.map_or_else(|| "-".to_owned(), |class| class.name().to_owned());
    [class, cost.known.0.to_string(), cost.unknown_calls.to_string()]
}

/// A run as the list has it.
struct Listed {
    run: RunId,
    head: String,
    has_stopped: bool,
    /// The summary that was kept of the run as it is now, if the key made its seal.
    kept: Option<RunSummary>,
}

/// These runs, with the summaries that were kept where a `key` can vouch for them. It is one question, however many runs there
/// are.
fn listed(connection: &Connection, runs: &[RunId], key: Option<&Key>) -> Result<Vec<Listed>, Fault> {
    let list = match key {
        Some(_) => {
            "SELECT runs.run, runs.head, runs.stop, class, cost, unpriced, summaries.seal
             FROM runs LEFT JOIN summaries ON summaries.run = runs.run AND summaries.head = runs.head"
        }
        None => "SELECT run, head, stop, NULL, NULL, 0, NULL FROM runs",
    };
    let list = format!("{list} {}", named(connection).replace("WHERE run", "WHERE runs.run"));
    let mut list = connection.prepare_cached(&list)?;
    let rows = list.query_map([list_of(connection, runs.iter().map(RunId::as_str))], |row| {
        let (run, head, stop): (String, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let kept = match (key, row.text(3), row.text(4), row.text(6)) {
            (Some(key), Some(class), Some(cost), Some(seal)) => {
                sealed(&run, &head, (class, cost, row.get(5)?, seal), key)
            }
            _ => None,
        };
        Ok(Listed { run: RunId::new(run), head, has_stopped: stop.is_some(), kept })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn sealed(
    run: &str,
    head: &str,
    (class, cost, unpriced, seal): (&str, &str, u32, &str),
    key: &Key,
) -> Option<RunSummary> {
    if key.check(seal, TAG, &[run, head, class, cost, &unpriced.to_string()]).is_some() {
        return None;
    }
    let known = PicoUsd(cost.parse().unwrap_or_default());
    let class = serde_json::from_value(class.into()).ok();
    Some(RunSummary { class, cost: Cost { known, unknown_calls: unpriced } })
}

/// The summary by a run's notes. `None`: one of them cannot be read.
fn read_notes(connection: &Connection, run: &RunId) -> Result<Option<RunSummary>, Fault> {
    // Most entries have neither, and are not read.
    let list = "SELECT notes FROM entries
                WHERE run = ?1 AND (notes LIKE '%call_charged%' OR notes LIKE '%\"stopped\"%') ORDER BY seq";
    let mut list = connection.prepare_cached(list)?;
    let mut rows = list.query([run.as_str()])?;
    let mut summary = RunSummary::default();
    while let Some(row) = rows.next()? {
        let Some(text) = row.text(0) else { return Ok(None) };
        let Ok(notes) = serde_json::from_str::<Vec<Note>>(text) else { return Ok(None) };
        for note in notes {
            match note {
                Note::CallCharged { cost, .. } => summary.cost.add(cost),
                Note::Stopped { certificate } => {
                    summary.class.get_or_insert(certificate.class);
                }
                _ => {}
            }
        }
    }
    Ok(Some(summary))
}

const TAG: &str = "summary";
