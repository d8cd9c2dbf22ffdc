//! What lists say of a run beyond its row: its class and what its calls cost. Read from the notes once, and kept for runs
//! that have stopped.

use std::collections::BTreeMap;

use super::page::{list_of, named};
use super::sql::{Cell, Connection, Purpose};
use loop_core::Note;
use loop_core::types::{Cost, PicoUsd, RunId, StopClass};

use super::StoredJournal;
use super::fault::Fault;
use super::seal::Key;
use crate::{Durability, JournalError};

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

impl StoredJournal {
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
            let (known, unread): (Vec<_>, Vec<_>) =
                listed(&transaction, &runs, kept)?.into_iter().partition(|listed| listed.kept.is_some());
            summaries.extend(known.into_iter().filter_map(|Listed { run, kept, .. }| Some((run, kept?))));
            for part in unread.chunks(READ_TOGETHER) {
                let mut read = read_notes(&transaction, part)?;
                for Listed { run, head, has_stopped, .. } in part {
                    let Some(summary) = read.remove(run) else { continue };
                    summaries.insert(run.clone(), summary);
                    if *has_stopped && key.is_some() {
                        fresh.push(Fresh { run: run.clone(), head: head.clone(), summary });
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
        for part in fresh.chunks(KEPT_TOGETHER) {
            self.keep_together(part.to_vec()).await?;
        }
        Ok(())
    }

    async fn keep_together(&self, fresh: Vec<Fresh>) -> Result<(), JournalError> {
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
                let rows = fresh.iter().map(|Fresh { run, head, summary }| {
                    let [class, cost, unpriced] = columns(summary);
                    let seal = key.seal(TAG, &[run.as_str(), head, &class, &cost, &unpriced]);
                    let unpriced = Cell::Integer(summary.cost.unknown_calls.into());
                    let [run, head, class, cost, seal] =
                        [run.to_string(), head.clone(), class, cost, seal].map(Cell::Text);
                    [run, head, class, cost, unpriced, seal]
                });
                keep.execute_all(rows)?;
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
    let runs = list_of(connection, runs.iter().map(RunId::as_str));
    Ok(connection.list(&list, [runs], |row| {
        let (run, head, stop): (String, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let kept = match (key, row.text(3), row.text(4), row.text(6)) {
            (Some(key), Some(class), Some(cost), Some(seal)) => {
                sealed(&run, &head, (class, cost, row.get(5)?, seal), key)
            }
            _ => None,
        };
        Ok(Listed { run: RunId::new(run), head, has_stopped: stop.is_some(), kept })
    })?)
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

/// The summaries of these runs by their notes. A run has none of which one note cannot be read.
fn read_notes(connection: &Connection, runs: &[Listed]) -> Result<BTreeMap<RunId, RunSummary>, Fault> {
    let mut summaries: BTreeMap<RunId, RunSummary> =
        runs.iter().map(|listed| (listed.run.clone(), RunSummary::default())).collect();
    // Most entries have neither, and are not read.
    let list = format!(
        "SELECT run, notes FROM entries {} AND (notes LIKE '%call_charged%' OR notes LIKE '%\"stopped\"%'
                                     OR notes LIKE '%\"stop_settled\"%')
         ORDER BY run, seq",
        named(connection)
    );
    let mut list = connection.prepare_cached(&list)?;
    let mut rows = list.query([list_of(connection, runs.iter().map(|listed| listed.run.as_str()))])?;
    while let Some(row) = rows.next()? {
        let run = RunId::new(row.lossy(0));
        let Some(summary) = summaries.get_mut(&run) else { continue };
        let notes = row.text(1).and_then(|text| serde_json::from_str::<Vec<Note>>(text).ok());
        let Some(notes) = notes else {
            summaries.remove(&run);
            continue;
        };
        for note in notes {
            if let Note::CallCharged { cost, .. } = note {
                summary.cost.add(cost);
            }
            summary.class = note.certificate().map(|certificate| certificate.class).or(summary.class);
        }
    }
    Ok(summaries)
}

/// The notes of how many runs are read with one question.
const READ_TOGETHER: usize = 20;
/// How many summaries are written in one transaction: what a run appends waits for it.
const KEPT_TOGETHER: usize = 200;
const TAG: &str = "summary";
