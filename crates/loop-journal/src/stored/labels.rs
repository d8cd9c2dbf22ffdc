//! Labels: a person's judgement of a run that has ended. The last one counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use loop_core::types::{RunId, cleaned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StoredJournal;
use super::fault::Fault;
use super::page::{list_of, named};
use super::rows::RunRow;
use super::seal::Key;
use super::sql::{Connection, NONE, Purpose, params};
use crate::{Durability, JournalError, unix_ms};

/// A person's judgement of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The run did what it was for.
    Good,
    /// The run did not do what it was for.
    Bad,
}

impl Label {
    /// Its name, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
        }
    }
}

/// The label of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunLabel {
    /// The judgement.
    pub label: Label,
    /// Why, in their words. Empty: they gave no reason.
    #[serde(default)]
    pub note: Arc<str>,
    /// Who, as far as it was checked, as in an approval: for example `ada (token ada)`.
    pub by: Arc<str>,
    /// When, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
}

impl RunLabel {
    /// A label that is given now.
    ///
    /// # Errors
    /// If the note is too long, in one line.
    pub fn new(label: Label, note: &str, by: &str) -> Result<Self, String> {
        // As other answers of people: without what is not seen.
        let note = cleaned(note);
        let note = note.trim();
        let chars = note.chars().count();
        if chars > MAX_NOTE {
            return Err(format!("note: {chars} characters are more than {MAX_NOTE}; shorten it"));
        }
        Ok(Self { label, note: note.into(), by: by.into(), unix_ms: unix_ms(SystemTime::now()) })
    }
}

impl RunLabel {
    /// The label with its note, in a line.
    pub fn in_words(&self) -> String {
        match &*self.note {
            "" => self.label.name().to_owned(),
            note => format!("{}: {note}", self.label.name()),
        }
    }
}

/// Journals of which no run was labelled have no such table.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS labels (
        run  TEXT NOT NULL PRIMARY KEY,
        body TEXT NOT NULL,
        seal TEXT NOT NULL
    ) STRICT;";

/// Characters of a note.
const MAX_NOTE: usize = 2_000;
const TAG: &str = "label";

impl StoredJournal {
    /// Sets the label of a run that has stopped, in place of the one that it has; with `None` it has none any more.
    ///
    /// # Errors
    /// If there is no such run, it has not stopped, or the journal cannot be written.
    pub async fn set_label(&self, run: &RunId, label: Option<RunLabel>) -> Result<(), JournalError> {
        let run = run.clone();
        // Alone, so that no run is pruned meanwhile.
        let set = self.changing(Purpose::Alone, Durability::Synced, TABLE, move |files, connection| {
            let Some(row) = RunRow::find(connection, &run)? else {
                return Err(files.gone(connection, &run)?.into());
            };
            if row.stop.is_none() {
                return Err(JournalError::NotEnded { run }.into());
            }
            match &label {
                Some(label) => put(connection, &run, label, files.key(&run)?),
                None => {
                    connection.execute("DELETE FROM labels WHERE run = ?1", [run.as_str()])?;
                    Ok(())
                }
            }
        });
        set.await
    }

    /// The labels of these runs, or of all. One for which the journal's key does not vouch is left out.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub(super) async fn labels_of(
        &self,
        runs: Option<&[RunId]>,
    ) -> Result<BTreeMap<RunId, RunLabel>, JournalError> {
        let runs = runs.map(<[RunId]>::to_vec);
        let read = self.reading_table("labels", move |files, connection| {
            labels(connection, runs.as_deref(), files.key.as_ref())
        });
        read.await
    }
}

fn labels(
    connection: &Connection,
    runs: Option<&[RunId]>,
    key: Option<&Key>,
) -> Result<BTreeMap<RunId, RunLabel>, Fault> {
    let list = "SELECT run, body, seal FROM labels";
    let read = |row: &super::sql::Row<'_>| Ok::<[String; 3], _>([row.get(0)?, row.get(1)?, row.get(2)?]);
    let rows: Vec<[String; 3]> = match runs {
        None => connection.list(list, NONE, read)?,
        Some(runs) => {
            let runs = list_of(connection, runs.iter().map(RunId::as_str));
            connection.list(&format!("{list} {}", named(connection)), [runs], read)?
        }
    };
    let sealed = rows.into_iter().filter_map(|[run, body, seal]| {
        let is_own = key.is_some_and(|key| key.check(&seal, TAG, &[&run, &body]).is_none());
        Some((RunId::new(run), serde_json::from_str(&body).ok().filter(|_| is_own)?))
    });
    Ok(sealed.collect())
}

/// The label of a run, for its export.
pub(super) fn find(
    connection: &Connection,
    run: &RunId,
    key: Option<&Key>,
) -> Result<Option<RunLabel>, Fault> {
    match connection.has_table("labels")? {
        true => Ok(labels(connection, Some(std::slice::from_ref(run)), key)?.remove(run)),
        false => Ok(None),
    }
}

/// Writes the label of a run.
pub(super) fn put(connection: &Connection, run: &RunId, label: &RunLabel, key: &Key) -> Result<(), Fault> {
    connection.lay(TABLE)?;
    let body = serde_json::to_string(label)?;
    let seal = key.seal(TAG, &[run.as_str(), &body]);
    let put = "INSERT INTO labels (run, body, seal) VALUES (?1, ?2, ?3)
               ON CONFLICT (run) DO UPDATE SET body = excluded.body, seal = excluded.seal";
    Ok(connection.execute_one(put, params![run.as_str(), body, seal])?)
}
