//! A journal as JSON lines: what leaves it, one run after another, each read as a whole or left out.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use super::sql::{Connection, Transaction};
use loop_core::types::{Digest, RunId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::StoredJournal;
use super::fault::Fault;
use super::labels::{self, RunLabel};
use super::read;
use super::rows::{RunRow, cell, link};
use crate::{JournalError, unix_ms};

/// The version of an export.
pub const EXPORT_VERSION: u32 = 2;
/// What the first line of an export calls it.
pub(super) const FORMAT: &str = "loopgate-journal";

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// How many runs.
    pub runs: u64,
    /// How many entries they have.
    pub entries: u64,
    /// The runs that were left out because they cannot be read, and why.
    pub left_out: Vec<(RunId, Arc<str>)>,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FirstLine {
    pub(super) format: String,
    pub(super) version: u32,
    #[serde(default)]
    pub(super) program: String,
    #[serde(default)]
    pub(super) exported_unix_ms: u64,
}

/// A line after the first. A run is followed by as many entries as it has.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum DataLine {
    Blob(BlobLine),
    Run(Box<RunFields>),
    Entry(EntryLine),
    /// The last line.
    End {
        runs: u64,
    },
}

/// A spec or a tool manifest, before the first run that has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BlobLine {
    pub(super) hash: String,
    pub(super) kind: String,
    pub(super) body: String,
}

/// A run's row.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunFields {
    pub(super) run: String,
    pub(super) unix_ms: i64,
    pub(super) domain: String,
    pub(super) item: String,
    pub(super) title: String,
    pub(super) spec: String,
    pub(super) manifest: String,
    pub(super) origin: Option<Arc<str>>,
    pub(super) request_key: Option<Arc<str>>,
    pub(super) stop: Option<String>,
    pub(super) epoch: i64,
    pub(super) entries: i64,
    pub(super) head: String,
    pub(super) seal: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<RunLabel>,
}

/// An entry, in the bytes that its hash is over.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryLine {
    pub(super) seq: u64,
    pub(super) epoch: i64,
    pub(super) hash: String,
    pub(super) event: Box<RawValue>,
    pub(super) notes: Box<RawValue>,
}

impl StoredJournal {
    /// Writes these runs as JSON lines, each as it is at one time. A run that cannot be read is left out. At most one run is
    /// in memory. `program` is named in the first line; `place` names `out` in an error.
    ///
    /// # Errors
    /// If there is no such run, or the journal cannot be read, or `out` cannot be written.
    pub async fn export(
        &self,
        runs: &[RunId],
        program: &str,
        place: &str,
        mut out: Box<dyn Write + Send>,
    ) -> Result<Exported, JournalError> {
        let (runs, program, place) = (runs.to_vec(), program.to_owned(), place.to_owned());
        let written = self.reading_once(move |files, connection| {
            let mut to = Lines { out: &mut *out, place: &place };
            let now = unix_ms(std::time::SystemTime::now());
            let (format, version) = (FORMAT.to_owned(), EXPORT_VERSION);
            to.write(&FirstLine { format, version, program, exported_unix_ms: now })?;
            let (mut exported, mut blobs) = (Exported::default(), BTreeSet::new());
            for run in runs {
                let transaction = connection.transaction()?;
                let checked = match read::recorded(&transaction, &run, files.key.as_ref()) {
                    Ok(Some(stored)) => files.verify(&run, stored, files.head(&run)?),
                    Ok(None) => return Err(files.gone(&transaction, &run)?.into()),
                    Err(fault) => Err(fault),
                };
                match checked {
                    Ok(recorded) => drop(recorded),
                    Err(fault) => {
                        exported.left_out.push((run, fault.at(&files.path).to_string().into()));
                        continue;
                    }
                }
                let Some(row) = RunRow::find(&transaction, &run)? else { continue };
                let label = labels::find(&transaction, &run, files.key.as_ref())?;
                exported.entries += one(&transaction, &row, label, &mut blobs, &mut to)?;
                exported.runs += 1;
            }
            to.write(&DataLine::End { runs: exported.runs })?;
            to.out.flush().map_err(|error| to.failed(&error))?;
            Ok(exported)
        });
        written.await
    }
}

struct Lines<'a> {
    out: &'a mut (dyn Write + Send),
    place: &'a str,
}

impl Lines<'_> {
    fn write(&mut self, line: &impl Serialize) -> Result<(), Fault> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.out.write_all(text.as_bytes()).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> Fault {
        let message = format!("the export cannot be written: {error}; make room, or name another file");
        JournalError::Storage { place: self.place.to_owned(), message }.into()
    }
}

/// Writes one run, which was checked in the same transaction. Returns the number of its entries.
fn one(
    transaction: &Transaction<'_>,
    row: &RunRow,
    label: Option<RunLabel>,
    blobs: &mut BTreeSet<String>,
    to: &mut Lines<'_>,
) -> Result<u64, Fault> {
    for hash in [&row.spec, &row.manifest] {
        if blobs.insert(hash.to_string()) {
            to.write(&DataLine::Blob(blob(transaction, hash)?))?;
        }
    }
    to.write(&DataLine::Run(Box::new(RunFields {
        run: row.run.to_string(),
        unix_ms: row.unix_ms,
        domain: row.domain.to_string(),
        item: row.item.to_string(),
        title: row.title.to_string(),
        spec: row.spec.to_string(),
        manifest: row.manifest.to_string(),
        origin: row.origin.clone(),
        request_key: row.request_key.clone(),
        stop: row.stop.clone(),
        epoch: row.epoch,
        entries: row.entries,
        head: row.head.clone(),
        seal: row.seal.clone(),
        label,
    })))?;
    let list = "SELECT epoch, event, notes FROM entries WHERE run = ?1 ORDER BY seq";
    let mut list = transaction.prepare_cached(list)?;
    let mut rows = list.query([row.run.as_str()])?;
    let (mut prev, mut seq): (Digest, u64) = (read::beginning(row), 0);
    while let Some(found) = rows.next()? {
        let epoch: i64 = cell(&found, 0, &row.run, seq)?;
        let (event, notes): (String, String) =
            (cell(&found, 1, &row.run, seq)?, cell(&found, 2, &row.run, seq)?);
        prev = link(&prev, epoch, &event, &notes);
        let (event, notes) = (RawValue::from_string(event)?, RawValue::from_string(notes)?);
        to.write(&DataLine::Entry(EntryLine { seq, epoch, hash: prev.to_string(), event, notes }))?;
        seq += 1;
    }
    Ok(seq)
}

fn blob(connection: &Connection, hash: &str) -> Result<BlobLine, Fault> {
    let find = "SELECT kind, body FROM blobs WHERE hash = ?1";
    let (kind, body) = connection.query_row(find, [hash], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(BlobLine { hash: hash.to_owned(), kind, body })
}
