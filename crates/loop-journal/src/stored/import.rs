//! JSON lines as runs of a journal: each run is checked as a whole, then written in one transaction.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, Read as _};
use std::sync::Arc;

use super::sql::params;
use loop_core::spec::SPEC_VERSION;
use loop_core::types::{Digest, RunId};
use loop_core::{Note, RunSpec};

use super::event;
use super::export::{BlobLine, DataLine, EXPORT_VERSION, EntryLine, FORMAT, FirstLine, RunFields};
use super::fault::Fault;
use super::heads::Head;
use super::labels::{self, RunLabel};
use super::lock::file_name;
use super::rows::{self, CHANGED, RunRow, link};
use super::seal::SealFault;
use super::{Files, StoredJournal, pruned, read};
use crate::replay::replay;
use crate::{Durability, Entry, JournalError, Recorded};

/// What was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportedRuns {
    /// How many runs are new in this journal.
    pub runs: u64,
    /// How many of them are the journal's own: it made them with its key, and they have ended. Each other run can be
    /// read, and not be resumed.
    pub own: u64,
    /// How many runs the journal had already, with the same entries.
    pub skipped: u64,
}

/// Why an import ended before its end. What was imported before stays.
#[derive(Clone, Debug)]
pub struct NotImported {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong there, and what to do.
    pub message: String,
    /// What was imported before.
    pub before: ImportedRuns,
}

impl fmt::Display for NotImported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)?;
        match self.before.runs {
            0 => f.write_str("; nothing was imported"),
            1 => f.write_str("; 1 run before it was imported, and the next import skips it"),
            runs => write!(f, "; {runs} runs before it were imported, and the next import skips them"),
        }
    }
}

impl std::error::Error for NotImported {}

/// What is wrong, and in which line.
type LineError = (u64, String);

/// The lines of an export.
struct ExportReader {
    lines: Box<dyn BufRead + Send>,
    /// The number of the line that was read last.
    at: u64,
    blobs: BTreeMap<String, BlobLine>,
    runs: u64,
}

/// A run whose chain was checked, as it is written.
struct CheckedRun {
    line: u64,
    row: RunRow,
    label: Option<RunLabel>,
    blobs: [BlobLine; 2],
    beginning: Digest,
    entries: Vec<EntryLine>,
    /// What each entry follows.
    links: Vec<Digest>,
    /// Whether its entries lead to its end: nothing follows them, in whatever journal it is.
    is_over: bool,
}

impl StoredJournal {
    /// Imports the runs of an export, each in one transaction. The chain of each run is checked before. A run that this
    /// journal has already is skipped if its entries are the same, and refused if not.
    ///
    /// # Errors
    /// The first line that is not of an export, was changed, is of a newer version or missing, or whose run cannot be
    /// imported. The runs before it are imported, and nothing of its own run.
    pub async fn import(&self, lines: Box<dyn BufRead + Send>) -> Result<ImportedRuns, NotImported> {
        let mut imported = ImportedRuns::default();
        let mut source = ExportReader { lines, at: 0, blobs: BTreeMap::new(), runs: 0 };
        loop {
            let next = tokio::task::spawn_blocking(move || {
                let next = source.next_run();
                (source, next)
            });
            let refused = |(line, message), before| NotImported { line, message, before };
            let (rest, next) = next
                .await
                .map_err(|error| refused((0, format!("the work was cut off: {error}")), imported))?;
            source = rest;
            match next.map_err(|wrong| refused(wrong, imported))? {
                None => return Ok(imported),
                Some(ready) => {
                    let line = ready.line;
                    let taken = self.take_in(ready).await;
                    let taken = taken.map_err(|error| refused((line, error.to_string()), imported))?;
                    imported.runs += u64::from(taken != RunImport::Skipped);
                    imported.own += u64::from(taken == RunImport::Own);
                    imported.skipped += u64::from(taken == RunImport::Skipped);
                }
            }
        }
    }

    async fn take_in(&self, ready: CheckedRun) -> Result<RunImport, JournalError> {
        let taken = self.store.writer.alone(move |files, open| {
            open.connection().check_writes()?;
            files.place.holds(&files.path)?;
            let CheckedRun { mut row, label, blobs, beginning, entries, links, is_over, .. } = ready;
            let run = row.run.clone();
            let key = files.key(&run)?;
            let _lock = files.lock(&run, None)?;
            if let Some(there) = RunRow::find(open.connection(), &run)? {
                let is_same = (there.entries, &there.head) == (row.entries, &row.head);
                let other =
                    "it is in this journal already, with other entries; import it into another journal";
                return if is_same { Ok(RunImport::Skipped) } else { Err(of_run(&run, other)) };
            }
            if let Some(pruned) = pruned::find(open.connection(), &run, key)?
                && (pruned.entries, &*pruned.head) != (row.count(), &*row.head)
            {
                let other = "it was pruned here with other entries; import it into another journal";
                return Err(of_run(&run, other));
            }
            let known = files.head(&run)?;
            fits_head(files, &run, &row, &links, known.as_ref())?;
            // Before anything is written. The transaction decides.
            if let Some(key) = &row.request_key
                && let Some(of) = rows::run_of_key(open.connection(), key, files.key.as_ref())?
                && of != run
            {
                return Err(JournalError::KeyTaken { key: Arc::clone(key), run: of }.into());
            }
            let taken = match row.check(key) {
                None if is_over => RunImport::Own,
                Some(SealFault::Imported) => RunImport::Read,
                // Another journal may have gone on with it.
                None | Some(SealFault::OtherKey) => {
                    row.seal_imported(key);
                    RunImport::Read
                }
                Some(SealFault::Changed) => {
                    return Err(of_run(&run, "its row was changed since it was exported; export it again"));
                }
            };
            let position = row.position()?;
            // Before the run is there, as that of a run that begins: no run is without one. The head of a run that
            // vanished stays as it is until the run is there again.
            let head = match &known {
                Some(known) => files.heads.open(&run, key, known, position)?,
                None => files.heads.create(&run, key, beginning, false)?,
            };
            open.commit(files, Durability::Synced, |connection| {
                pruned::forget(connection, &run)?;
                files.check_key(connection, row.request_key.as_ref())?;
                let keep = "INSERT INTO blobs (hash, kind, body) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
                for BlobLine { hash, kind, body } in &blobs {
                    connection.execute(keep, params![hash, kind, body])?;
                }
                if !row.insert(connection)? {
                    return Err(files.exists(&run).into());
                }
                let insert = "INSERT INTO entries (run, seq, epoch, prev_hash, event, notes)
                              VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                for (EntryLine { seq, epoch, event, notes, .. }, prev) in entries.iter().zip(&links) {
                    let (event, notes) = (event.get(), notes.get());
                    let entry = params![run.as_str(), seq, epoch, prev.to_string(), event, notes];
                    connection.execute_one(insert, entry)?;
                }
                // It counts as the export says it.
                label.as_ref().map_or(Ok(()), |label| labels::put(connection, &run, label, key))
            })?;
            head.write(key, position, Durability::Synced)?;
            Ok(taken)
        });
        taken.await
    }
}

/// What came of a run of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunImport {
    /// It was there.
    Skipped,
    /// It is as if it had never left.
    Own,
    /// It can be read.
    Read,
}

/// Refuses a run of which this journal knew more entries, or others. `links` has what each entry follows.
fn fits_head(
    files: &Files,
    run: &RunId,
    row: &RunRow,
    links: &[Digest],
    known: Option<&Head>,
) -> Result<(), Fault> {
    let Some(known) = known.map(|known| known.committed) else {
        // A head of two records that another key made, or that was changed, is evidence of a run.
        return match files.heads.is_whole(&file_name(run)) {
            false => Ok(()),
            true => {
                let place = files.heads.path(run);
                let other = "the record of how far it had come here was changed, or made with another key; import it into another journal, or move the record away";
                Err(of_run(run, &format!("{other}: {}", place.display())))
            }
        };
    };
    let has = row.position()?;
    let at = usize::try_from(known.entries).ok();
    let hash = if known.entries == has.entries { Some(&has.hash) } else { at.and_then(|at| links.get(at)) };
    if hash == Some(&known.hash) {
        return Ok(());
    }
    let (has, had) = (has.entries, known.entries);
    let message = if has < had {
        format!(
            "the export has {has} of its entries, and this journal had {had}; import a later export, or import this one into another journal"
        )
    } else {
        "this journal had other entries of it; import it into another journal".to_owned()
    };
    Err(of_run(run, &message))
}

fn of_run(run: &RunId, message: &str) -> Fault {
    JournalError::NotTakenIn { run: run.clone(), message: message.to_owned() }.into()
}

impl ExportReader {
    /// The next line without its end. `None`: there is none.
    fn line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        let mut bytes = Vec::new();
        let read = (&mut self.lines).take(MAX_LINE).read_until(b'\n', &mut bytes);
        self.at += 1;
        match read {
            Ok(0) => Ok(None),
            Ok(_) if bytes.pop_if(|last| *last == b'\n').is_some() => Ok(Some(bytes)),
            Ok(read) if read as u64 == MAX_LINE => Err(self.wrong("the line is too long for an export")),
            Ok(_) => Err(self.wrong(TORN)),
            Err(error) => Err(self.wrong(&format!("it cannot be read: {error}"))),
        }
    }

    fn wrong(&self, message: &str) -> LineError {
        (self.at, message.to_owned())
    }

    fn first(&mut self) -> Result<(), LineError> {
        let line = self.line().map_err(|(at, _)| (at, FOREIGN.to_owned()))?;
        let first = line.and_then(|line| serde_json::from_slice::<FirstLine>(&line).ok());
        match first.filter(|first| first.format == FORMAT && first.version > 0) {
            None => Err(self.wrong(FOREIGN)),
            Some(FirstLine { version, program, .. }) if version > EXPORT_VERSION => {
                let by = if program.is_empty() { "a newer loopgate" } else { &program };
                let message = format!(
                    "the export is of version {version}, and this program reads {EXPORT_VERSION}; use {by}, which wrote it"
                );
                Err(self.wrong(&message))
            }
            Some(FirstLine { version, .. }) if version < EXPORT_VERSION => Err(self.wrong(&format!(
                "the export is of version {version}, and this program reads {EXPORT_VERSION}; the program that wrote it reads it"
            ))),
            Some(_) => Ok(()),
        }
    }

    /// The next run, checked. `None`: the export is over.
    fn next_run(&mut self) -> Result<Option<CheckedRun>, LineError> {
        if self.at == 0 {
            self.first()?;
        }
        loop {
            match self.next()? {
                DataLine::Blob(blob) => {
                    let kind = ["spec", "manifest"].into_iter().find(|kind| *kind == blob.kind);
                    let hash = kind.map(|kind| Digest::of(kind, blob.body.as_bytes()).to_string());
                    if hash.as_deref() != Some(&*blob.hash) {
                        return Err(self.wrong(ALTERED));
                    }
                    self.blobs.insert(blob.hash.clone(), blob);
                }
                DataLine::Run(fields) => return self.run(*fields).map(Some),
                DataLine::Entry(_) => return Err(self.wrong("the entry belongs to no run; export it again")),
                DataLine::End { runs } if runs != self.runs => return Err(self.wrong(TORN)),
                DataLine::End { .. } => {
                    return match self.line()? {
                        None => Ok(None),
                        Some(_) => {
                            Err(self.wrong("a line follows the last one; import each export by itself"))
                        }
                    };
                }
            }
        }
    }

    fn next(&mut self) -> Result<DataLine, LineError> {
        let line = self.line()?.ok_or_else(|| self.wrong(TORN))?;
        serde_json::from_slice(&line).map_err(|error| {
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default();
            self.wrong(&format!("not a line of an export: {what}; export it again"))
        })
    }

    /// The entries of a run, each checked against its hash.
    fn run(&mut self, fields: RunFields) -> Result<CheckedRun, LineError> {
        let line = self.at;
        let blob = |hash: &str| {
            let find = self.blobs.get(hash).map(|BlobLine { hash, kind, body }| BlobLine {
                hash: hash.clone(),
                kind: kind.clone(),
                body: body.clone(),
            });
            find.ok_or_else(|| (line, "its spec or its tool manifest is missing; export it again".to_owned()))
        };
        let blobs = [blob(&fields.spec)?, blob(&fields.manifest)?];
        let label = fields.label;
        let row = RunRow {
            run: RunId::new(fields.run),
            unix_ms: fields.unix_ms,
            domain: fields.domain.into(),
            item: fields.item.into(),
            title: fields.title.into(),
            spec: fields.spec.into(),
            manifest: fields.manifest.into(),
            origin: fields.origin,
            request_key: fields.request_key,
            stop: fields.stop,
            epoch: fields.epoch,
            writer_pid: 0,
            writer_token: Arc::default(),
            entries: fields.entries,
            head: fields.head,
            seal: fields.seal,
            begun: None,
        };
        let spec = spec(&blobs[0].body).map_err(|message| (line, message))?;
        let beginning = read::beginning(&row);
        let (mut prev, mut epoch_before) = (beginning, 0);
        let (mut entries, mut links, mut parsed) = (Vec::new(), Vec::new(), Vec::new());
        for seq in 0..row.count() {
            let DataLine::Entry(entry) = self.next()? else { return Err(self.wrong(TORN)) };
            let (event, notes) = (entry.event.get(), entry.notes.get());
            links.push(prev);
            prev = link(&prev, entry.epoch, event, notes);
            let is_in_order = entry.seq == seq && entry.epoch >= epoch_before && entry.epoch <= row.epoch;
            if !is_in_order || prev.to_string() != entry.hash {
                return Err(self.wrong(ALTERED));
            }
            epoch_before = entry.epoch;
            let read: Result<(event::ReadEvent, Vec<Note>), _> = (|| Ok((from(event)?, from(notes)?)))();
            let (event::ReadEvent(event), notes) = read.map_err(|error: serde_json::Error| {
                self.wrong(&format!("the entry cannot be read ({error}); use the program that wrote it"))
            })?;
            parsed.push(Entry { seq, event, notes });
            entries.push(entry);
        }
        if prev.to_string() != row.head {
            return Err((line, ALTERED.to_owned()));
        }
        read::fits(&row, &spec, &parsed).map_err(|fault| match fault {
            Fault::Journal(JournalError::Corrupt { message, .. }) => (line, message),
            _ => (line, CHANGED.to_owned()),
        })?;
        let is_over = row.stop.is_some() && is_over(&row.run, spec, parsed);
        self.runs += 1;
        Ok(CheckedRun { line, row, label, blobs, beginning, entries, links, is_over })
    }
}

/// Whether these entries lead to the end of a run: one that has stopped may still have to settle or to be saved.
fn is_over(run: &RunId, spec: RunSpec, entries: Vec<Entry>) -> bool {
    let recorded = Recorded {
        spec: Arc::new(spec),
        manifest: "".into(),
        origin: None,
        entries,
        unverified: None,
        imported: false,
        since_last_ms: None,
    };
    replay(run, &recorded).is_ok_and(|state| state.is_done())
}

fn from<T: serde::de::DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text)
}

fn spec(text: &str) -> Result<RunSpec, String> {
    let version = from::<read::SpecVersion>(text).map_err(|_| ALTERED.to_owned())?.version;
    if version != SPEC_VERSION {
        return Err(format!(
            "its spec is of version {version}, and this program reads {SPEC_VERSION}; use the program that wrote it"
        ));
    }
    from(text).map_err(|error| format!("its spec cannot be read: {error}"))
}

const FOREIGN: &str = "not an export of a loopgate journal; `loopgate journal export` writes one";
const TORN: &str = "the export is cut off; export it again";
const ALTERED: &str = "changed since it was exported; export it again";

/// How long a line may be, in bytes: the largest entry, with its escapes.
const MAX_LINE: u64 = 128 << 20;
