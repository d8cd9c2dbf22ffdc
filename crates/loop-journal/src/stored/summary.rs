//! What lists say of a run beyond its row: its class and what its calls cost. Read from the notes once, and kept for runs
//! that have stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::page::{list_of, named};
use super::sql::{Cell, Connection, Purpose};
use loop_core::types::{Confidence, Cost, RunId, StopClass};
use loop_core::{Note, RunSpec};
use serde::{Deserialize, Serialize};

use super::StoredJournal;
use super::fault::Fault;
use super::seal::Key;
use crate::{Durability, JournalError};

/// A run's class, what its own calls cost, and what else a list says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The class of its stop. `None`: it has not stopped.
    pub class: Option<StopClass>,
    /// The cost of the calls that it made itself. What a fork takes over from its parent counts for the parent.
    pub cost: Cost,
    /// Milliseconds from its start to its stop, waits for people included. `None`: it has not stopped.
    pub duration_ms: Option<u64>,
    /// The name of its base model at the provider. `None`: it cannot be read.
    pub model: Option<Arc<str>>,
    /// The confidence of its last pass: the measured one, else the stated one. `None`: it has no pass, or its protocol states
    /// none.
    pub confidence: Option<Confidence>,
}

/// Journals of which no summary was kept have no such table. It can be dropped: everything in it follows from the entries.
/// `summaries` is the table of earlier programs, which say less.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS run_summaries (
        run  TEXT NOT NULL PRIMARY KEY,
        head TEXT NOT NULL,
        body TEXT NOT NULL,
        seal TEXT NOT NULL
    ) STRICT;";

/// A summary, and the last entry that it knows of.
#[derive(Clone, Debug)]
struct FreshSummary {
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
            let kept = key.filter(|_| transaction.has_table("run_summaries").unwrap_or_default());
            let (mut summaries, mut fresh) = (BTreeMap::new(), Vec::new());
            let (known, unread): (Vec<_>, Vec<_>) =
                listed(&transaction, &runs, kept)?.into_iter().partition(|listed| listed.kept.is_some());
            summaries.extend(known.into_iter().filter_map(|ListedRow { run, kept, .. }| Some((run, kept?))));
            for part in unread.chunks(READ_TOGETHER) {
                let mut read = read_notes(&transaction, part)?;
                for ListedRow { run, head, has_stopped, .. } in part {
                    let Some(summary) = read.remove(run) else { continue };
                    summaries.insert(run.clone(), summary.clone());
                    if *has_stopped && key.is_some() {
                        fresh.push(FreshSummary { run: run.clone(), head: head.clone(), summary });
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

    async fn keep(&self, mut fresh: Vec<FreshSummary>) -> Result<(), JournalError> {
        // In one order, so that processes which keep the same ones do not wait for each other.
        fresh.sort_unstable_by(|a, b| a.run.cmp(&b.run));
        for part in fresh.chunks(KEPT_TOGETHER) {
            self.keep_together(part.to_vec()).await?;
        }
        Ok(())
    }

    async fn keep_together(&self, fresh: Vec<FreshSummary>) -> Result<(), JournalError> {
        let kept = self.store.writer.alone_again(move |files, open| {
            let Some(key) = &files.key else { return Ok(()) };
            if open.connection().is_read_only()? {
                return Ok(());
            }
            files.place.holds(&files.path)?;
            open.commit_for(Purpose::Rows, files, Durability::Committed, |connection| {
                connection.lay(TABLE)?;
                let keep = "INSERT INTO run_summaries (run, head, body, seal)
                            SELECT run, ?2, ?3, ?4 FROM runs WHERE run = ?1
                            ON CONFLICT (run) DO UPDATE SET head = excluded.head, body = excluded.body,
                                seal = excluded.seal";
                let mut keep = connection.prepare_cached(keep)?;
                let rows = fresh.iter().map(|FreshSummary { run, head, summary }| {
                    let body = serde_json::to_string(summary).unwrap_or_default();
                    let seal = key.seal(TAG, &[run.as_str(), head, &body]);
                    [run.to_string(), head.clone(), body, seal].map(Cell::Text)
                });
                keep.execute_all(rows)?;
                Ok(())
            })
        });
        kept.await
    }
}

/// A run as the list has it.
struct ListedRow {
    run: RunId,
    head: String,
    has_stopped: bool,
    /// The summary that was kept of the run as it is now, if the key made its seal.
    kept: Option<RunSummary>,
}

/// These runs, with the summaries that were kept where a `key` can vouch for them. It is one question, however many runs there
/// are.
fn listed(connection: &Connection, runs: &[RunId], key: Option<&Key>) -> Result<Vec<ListedRow>, Fault> {
    let list = match key {
        Some(_) => {
            "SELECT runs.run, runs.head, runs.stop, body, run_summaries.seal
             FROM runs LEFT JOIN run_summaries ON run_summaries.run = runs.run AND run_summaries.head = runs.head"
        }
        None => "SELECT run, head, stop, NULL, NULL FROM runs",
    };
    let list = format!("{list} {}", named(connection).replace("WHERE run", "WHERE runs.run"));
    let runs = list_of(connection, runs.iter().map(RunId::as_str));
    Ok(connection.list(&list, [runs], |row| {
        let (run, head, stop): (String, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let kept = match (key, row.text(3), row.text(4)) {
            (Some(key), Some(body), Some(seal)) if key.check(seal, TAG, &[&run, &head, body]).is_none() => {
                serde_json::from_str(body).ok()
            }
            _ => None,
        };
        Ok(ListedRow { run: RunId::new(run), head, has_stopped: stop.is_some(), kept })
    })?)
}

/// The summaries of these runs by their notes. A run has none of which one note cannot be read.
fn read_notes(connection: &Connection, runs: &[ListedRow]) -> Result<BTreeMap<RunId, RunSummary>, Fault> {
    let mut summaries: BTreeMap<RunId, RunSummary> =
        runs.iter().map(|listed| (listed.run.clone(), RunSummary::default())).collect();
    read_models(connection, &mut summaries)?;
    // Most entries have none of these, and are not read. An event begins with its time.
    let list = format!(
        "SELECT run, notes, substr(event, 1, 40), seq FROM entries {}
             AND (seq = 0 OR notes LIKE '%call_charged%' OR notes LIKE '%\"stopped\"%'
                  OR notes LIKE '%\"stop_settled\"%' OR notes LIKE '%\"reply_read\"%')
         ORDER BY run, seq",
        named(connection)
    );
    let mut list = connection.prepare_cached(&list)?;
    let mut rows = list.query([list_of(connection, runs.iter().map(|listed| listed.run.as_str()))])?;
    let mut began = None;
    while let Some(row) = rows.next()? {
        let run = RunId::new(row.lossy(0));
        let Some(summary) = summaries.get_mut(&run) else { continue };
        let notes = row.text(1).and_then(|text| serde_json::from_str::<Vec<Note>>(text).ok());
        let Some(notes) = notes else {
            summaries.remove(&run);
            continue;
        };
        let at = row.text(2).and_then(time_of);
        if row.count(3)? == 0 {
            began = at;
        }
        for note in notes {
            match &note {
                Note::CallCharged { cost, .. } => summary.cost.add(*cost),
                Note::ReplyRead { confidence, calibrated, .. } => {
                    let counted = calibrated.map_or(*confidence, |calibrated| calibrated.measured);
                    summary.confidence = Some(counted).filter(|_| summary.confidence.is_some());
                }
                _ => {}
            }
            if let Some(certificate) = note.certificate() {
                summary.class = Some(certificate.class);
                summary.duration_ms = at.zip(began).map(|(at, began)| at.saturating_sub(began));
            }
        }
    }
    Ok(summaries)
}

/// The time of an event in its stored form, in milliseconds since the start of the run.
fn time_of(event: &str) -> Option<u64> {
    event.strip_prefix("{\"at\":")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Adds the models of these runs. Runs of one domain mostly have one spec.
fn read_models(connection: &Connection, runs: &mut BTreeMap<RunId, RunSummary>) -> Result<(), Fault> {
    let mut specs: BTreeMap<String, Vec<RunId>> = BTreeMap::new();
    let list = format!("SELECT run, spec FROM runs {}", named(connection));
    let named: Vec<(String, String)> =
        connection.list(&list, [list_of(connection, runs.keys().map(RunId::as_str))], |row| {
            Ok((row.lossy(0), row.lossy(1)))
        })?;
    named.into_iter().for_each(|(run, spec)| specs.entry(spec).or_default().push(RunId::new(run)));
    for (hash, of) in specs {
        let body: Option<String> =
            connection.find("SELECT body FROM blobs WHERE hash = ?1", [hash.as_str()], |row| row.get(0))?;
        let Some(spec) = body.and_then(|body| serde_json::from_str::<RunSpec>(&body).ok()) else { continue };
        let states = spec.protocol.properties().states_confidence.then_some(Confidence::Unknown);
        for run in of {
            if let Some(summary) = runs.get_mut(&run) {
                (summary.model, summary.confidence) = (Some(Arc::clone(&spec.models.base.model)), states);
            }
        }
    }
    Ok(())
}

/// The notes of how many runs are read with one question.
const READ_TOGETHER: usize = 20;
/// How many summaries are written in one transaction: what a run appends waits for it.
const KEPT_TOGETHER: usize = 200;
const TAG: &str = "summary";
