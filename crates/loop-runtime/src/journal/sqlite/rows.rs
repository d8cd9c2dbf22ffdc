//! What is written into the tables and read from them; each function runs inside a transaction of its caller.

use std::sync::Arc;

use loop_core::{Digest, Note, RunId, RunSpec, SPEC_VERSION, StopReason, canonical};
use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::fault::Fault;
use crate::journal::{Entry, Header, JournalError, Recorded, RunLine};

/// A writer's right to append to a run: valid until another one takes over.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) run: RunId,
    epoch: i64,
    /// Tells two writers of one epoch apart, as they come about when a file is put back from a copy.
    token: String,
}

/// The process that wrote the run last, if there is such a run.
pub(super) fn last_writer(connection: &Connection, run: &RunId) -> Result<Option<u32>, Fault> {
    let mut find = connection.prepare_cached("SELECT writer_pid FROM runs WHERE run = ?1")?;
    let pid: Option<i64> = find.query_row([run.as_str()], |row| row.get(0)).optional()?;
    Ok(pid.map(|pid| u32::try_from(pid).unwrap_or_default()))
}

/// Opens a run; `None` when there is one of this name.
pub(super) fn create(connection: &Connection, header: &Header) -> Result<Option<Claim>, Fault> {
    // The canonical text is what the spec's hash is over, so that a reader can check the one against the other.
    let spec = canonical(&serde_json::to_value(&*header.spec)?);
    let (spec_hash, manifest_hash) = (header.spec.hash().to_string(), header.manifest_hash.to_string());
    let keep = "INSERT INTO blobs (hash, kind, body) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    let mut keep = connection.prepare_cached(keep)?;
    keep.execute(params![spec_hash, "spec", spec])?;
    keep.execute(params![manifest_hash, "manifest", header.manifest])?;

    let claim = Claim { run: header.run.clone(), epoch: 1, token: Uuid::now_v7().to_string() };
    let open = "INSERT INTO runs (run, unix_ms, domain, item, title, spec, manifest, epoch, writer_pid, writer_token, head)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO NOTHING";
    let opened = connection.prepare_cached(open)?.execute(params![
        header.run.as_str(),
        i64::try_from(header.unix_ms).unwrap_or(i64::MAX),
        header.spec.domain,
        header.item,
        header.title,
        spec_hash,
        manifest_hash,
        claim.epoch,
        std::process::id(),
        claim.token,
        START.to_string(),
    ])?;
    if let (true, Some(origin)) = (opened > 0, &header.origin) {
        let keep = "INSERT INTO origins (run, origin) VALUES (?1, ?2)";
        connection.prepare_cached(keep)?.execute(params![header.run.as_str(), origin])?;
    }
    Ok((opened > 0).then_some(claim))
}

/// What is kept of where a run came from; nothing in a file of a format that has no place for it.
fn origin(connection: &Connection, run: &RunId) -> Result<Option<Arc<str>>, Fault> {
    if !connection.table_exists(None, "origins")? {
        return Ok(None);
    }
    let mut find = connection.prepare_cached("SELECT origin FROM origins WHERE run = ?1")?;
    Ok(find.query_row([run.as_str()], |row| row.get(0)).optional()?)
}

/// Raises a run's epoch, so that whoever wrote it until then writes no more (I-29).
pub(super) fn take_over(connection: &Connection, run: &RunId) -> Result<Claim, Fault> {
    let token = Uuid::now_v7().to_string();
    let raise = "UPDATE runs SET epoch = epoch + 1, writer_pid = ?2, writer_token = ?3 WHERE run = ?1 RETURNING epoch";
    let mut raise = connection.prepare_cached(raise)?;
    let epoch = raise.query_row(params![run.as_str(), std::process::id(), token], |row| row.get(0))?;
    Ok(Claim { run: run.clone(), epoch, token })
}

/// Appends an entry; `None` when the run is gone.
pub(super) fn append(connection: &Connection, claim: &Claim, entry: &Entry) -> Result<Option<()>, Fault> {
    let run = claim.run.as_str();
    let find = "SELECT epoch, writer_token, writer_pid, entries, head FROM runs WHERE run = ?1";
    let mut find = connection.prepare_cached(find)?;
    type Found = (i64, String, i64, i64, String);
    let found = find.query_row([run], |row| Found::try_from(row)).optional()?;
    let Some((epoch, token, pid, entries, head)) = found else {
        return Ok(None);
    };
    if (epoch, &token) != (claim.epoch, &claim.token) {
        let pid = u32::try_from(pid).unwrap_or_default();
        return Err(JournalError::Busy { run: claim.run.clone(), pid }.into());
    }
    if u64::try_from(entries) != Ok(entry.seq) {
        let message = format!("entry {} cannot follow {entries} entries", entry.seq);
        return Err(Fault::Said(message));
    }
    let prev: Digest =
        head.parse().map_err(|_| corrupt(&claim.run, entry.seq, "no hash of the entry before"))?;
    let (event, notes) = (json(&entry.event)?, json(&entry.notes)?);
    let head = link(&prev, epoch, &event, &notes);
    let stop = entry.notes.iter().find_map(|note| match note {
        Note::Stopped { certificate } => Some(certificate.primary.reason.name()),
        _ => None,
    });
    let write =
        "INSERT INTO entries (run, seq, epoch, prev_hash, event, notes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut write = connection.prepare_cached(write)?;
    write.execute(params![run, entries, epoch, prev.to_string(), event, notes])?;
    let advance =
        "UPDATE runs SET entries = entries + 1, head = ?2, stop = coalesce(stop, ?3) WHERE run = ?1";
    connection.prepare_cached(advance)?.execute(params![run, head.to_string(), stop])?;
    Ok(Some(()))
}

/// The part of a spec that every version has: what it says decides whether the rest can be read.
#[derive(serde::Deserialize)]
struct SpecVersion {
    version: u32,
}

/// Everything about a run, checked; `None` when there is none of this name.
pub(super) fn recorded(connection: &Connection, run: &RunId) -> Result<Option<Recorded>, Fault> {
    let find = "SELECT runs.spec, spec.body, manifest.body, runs.entries, runs.head FROM runs
                LEFT JOIN blobs AS spec ON spec.hash = runs.spec
                LEFT JOIN blobs AS manifest ON manifest.hash = runs.manifest
                WHERE run = ?1";
    let mut find = connection.prepare_cached(find)?;
    let mut rows = find.query([run.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let spec_hash: String = cell(row, 0, run, 0)?;
    let spec: String = cell(row, 1, run, 0)?;
    let manifest: Arc<str> = cell(row, 2, run, 0)?;
    let (count, head): (i64, String) = (cell(row, 3, run, 0)?, cell(row, 4, run, 0)?);
    if Digest::of("spec", spec.as_bytes()).to_string() != spec_hash {
        return Err(corrupt(run, 0, "the spec is not the one that its hash names"));
    }
    let version: SpecVersion = parse(&spec, "spec", run, 0)?;
    if version.version > SPEC_VERSION {
        let message = format!(
            "its spec was written by a newer loopgate (version {}, this one knows {SPEC_VERSION}); use that version",
            version.version
        );
        return Err(corrupt(run, 0, message));
    }
    let spec: RunSpec = parse(&spec, "spec", run, 0)?;
    let (entries, last) = entries(connection, run)?;
    if i64::try_from(entries.len()) != Ok(count) {
        let message = format!("{} entries are there, {count} were written", entries.len());
        return Err(corrupt(run, entries.len() as u64, message));
    }
    if last.to_string() != head {
        return Err(corrupt(run, (entries.len() as u64).saturating_sub(1), CHANGED));
    }
    let origin = origin(connection, run)?;
    Ok(Some(Recorded { spec: Arc::new(spec), manifest, origin, entries }))
}

/// A run's entries in order, and the hash of the last.
fn entries(connection: &Connection, run: &RunId) -> Result<(Vec<Entry>, Digest), Fault> {
    let list = "SELECT seq, epoch, prev_hash, event, notes FROM entries WHERE run = ?1 ORDER BY seq";
    let mut list = connection.prepare_cached(list)?;
    let mut rows = list.query([run.as_str()])?;
    let (mut entries, mut prev, mut epoch_before) = (Vec::new(), START, 0);
    while let Some(row) = rows.next()? {
        let seq = entries.len() as u64;
        if u64::try_from(cell::<i64>(row, 0, run, seq)?) != Ok(seq) {
            return Err(corrupt(run, seq, "the entry is missing"));
        }
        let (epoch, prev_hash): (i64, String) = (cell(row, 1, run, seq)?, cell(row, 2, run, seq)?);
        let (event, notes): (String, String) = (cell(row, 3, run, seq)?, cell(row, 4, run, seq)?);
        if prev_hash != prev.to_string() {
            return Err(corrupt(run, seq.saturating_sub(1), CHANGED));
        }
        if epoch < epoch_before {
            return Err(corrupt(run, seq, "written by a process that had lost the run to another one"));
        }
        prev = link(&prev, epoch, &event, &notes);
        epoch_before = epoch;
        let (event, notes) = (parse(&event, "event", run, seq)?, parse(&notes, "notes", run, seq)?);
        entries.push(Entry { seq, event, notes });
    }
    Ok((entries, prev))
}

/// A line for every run, newest first.
pub(super) fn lines(connection: &Connection) -> Result<Vec<RunLine>, Fault> {
    let list =
        "SELECT run, unix_ms, domain, item, title, entries, stop FROM runs ORDER BY unix_ms DESC, run DESC";
    let mut list = connection.prepare_cached(list)?;
    let mut rows = list.query([])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let run = RunId::new(row.get::<_, Arc<str>>(0)?);
        let entries = u64::try_from(cell::<i64>(row, 5, &run, 0)?).unwrap_or_default();
        let stop = match cell::<Option<String>>(row, 6, &run, entries)? {
            Some(name) => Some(parse::<StopReason>(&json(&name)?, "stop reason", &run, entries)?),
            None => None,
        };
        lines.push(RunLine {
            unix_ms: u64::try_from(cell::<i64>(row, 1, &run, 0)?).unwrap_or_default(),
            domain: cell(row, 2, &run, 0)?,
            item: cell(row, 3, &run, 0)?,
            title: cell(row, 4, &run, 0)?,
            entries,
            stop,
            // The database does not know: it is asked of the lock.
            is_written: false,
            run,
        });
    }
    Ok(lines)
}

/// The hash of an entry, which the next one carries.
fn link(prev: &Digest, epoch: i64, event: &str, notes: &str) -> Digest {
    let mut bytes = prev.0.to_vec();
    bytes.extend(epoch.to_be_bytes());
    // With its length before it, no byte of the event can pass for one of the notes.
    bytes.extend((event.len() as u64).to_be_bytes());
    bytes.extend(event.as_bytes());
    bytes.extend(notes.as_bytes());
    Digest::of("journal-entry", &bytes)
}

fn cell<T: FromSql>(row: &Row<'_>, column: usize, run: &RunId, seq: u64) -> Result<T, Fault> {
    row.get(column).map_err(|error| corrupt(run, seq, error.to_string()))
}

fn parse<T: DeserializeOwned>(text: &str, what: &str, run: &RunId, seq: u64) -> Result<T, Fault> {
    serde_json::from_str(text)
        .map_err(|error| corrupt(run, seq, format!("the {what} cannot be read: {error}")))
}

fn json<T: Serialize>(value: &T) -> Result<String, Fault> {
    Ok(serde_json::to_string(value)?)
}

fn corrupt(run: &RunId, seq: u64, message: impl Into<String>) -> Fault {
    JournalError::Corrupt { run: run.clone(), seq, message: message.into() }.into()
}

/// What the first entry follows.
const START: Digest = Digest([0; 32]);

const CHANGED: &str = "changed since it was written; the run cannot go on from it";
