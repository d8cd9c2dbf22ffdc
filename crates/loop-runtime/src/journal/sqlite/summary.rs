//! What lists say of a run beyond its row: its class and what its calls cost. Read from the notes once, and kept for runs
//! that have stopped.

use std::collections::BTreeMap;

use super::sql::{Connection, Optional as _, params};
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
            for run in runs {
                let mut find = transaction.prepare_cached("SELECT head, stop FROM runs WHERE run = ?1")?;
                let found: Option<(String, Option<String>)> =
                    find.query_row([run.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
                let Some((head, stop)) = found else { continue };
                let known = kept.map(|key| find_kept(&transaction, &run, &head, key)).transpose()?.flatten();
                if let Some(summary) = known {
                    summaries.insert(run, summary);
                } else if let Some(summary) = read_notes(&transaction, &run)? {
                    summaries.insert(run.clone(), summary);
                    if stop.is_some() && key.is_some() {
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

    async fn keep(&self, fresh: Vec<Fresh>) -> Result<(), JournalError> {
        let kept = self.store.writer.alone(move |files, open| {
            let Some(key) = &files.key else { return Ok(()) };
            if open.connection().is_read_only()? {
                return Ok(());
            }
            files.place.holds(&files.path)?;
            open.commit(files, Durability::Committed, |connection| {
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

/// A summary that was kept, if it is of the run as it is now and the key made its seal.
fn find_kept(
    connection: &Connection,
    run: &RunId,
    head: &str,
    key: &Key,
) -> Result<Option<RunSummary>, Fault> {
    let find = "SELECT class, cost, unpriced, seal FROM summaries WHERE run = ?1 AND head = ?2";
    let mut find = connection.prepare_cached(find)?;
    let found: Option<(String, String, u32, String)> = find
        .query_row([run.as_str(), head], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((class, cost, unpriced, seal)) = found else { return Ok(None) };
    if key.check(&seal, TAG, &[run.as_str(), head, &class, &cost, &unpriced.to_string()]).is_some() {
        return Ok(None);
    }
    let known = PicoUsd(cost.parse().unwrap_or_default());
    let class = serde_json::from_value(class.into()).ok();
    Ok(Some(RunSummary { class, cost: Cost { known, unknown_calls: unpriced } }))
}

/// The summary by a run's notes. `None`: one of them cannot be read.
fn read_notes(connection: &Connection, run: &RunId) -> Result<Option<RunSummary>, Fault> {
    let mut list = connection.prepare_cached("SELECT notes FROM entries WHERE run = ?1 ORDER BY seq")?;
    let mut rows = list.query([run.as_str()])?;
    let mut summary = RunSummary::default();
    while let Some(row) = rows.next()? {
        let Some(text) = row.text(0) else { return Ok(None) };
        // Most entries have neither, and are not parsed.
        if !text.contains("call_charged") && !text.contains("\"stopped\"") {
            continue;
        }
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
