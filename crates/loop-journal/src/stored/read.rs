//! What is read of a run: its entries in their chain, checked against its row.

use std::sync::Arc;

use super::sql::{Connection, Row, params};
use loop_core::run::Started;
use loop_core::spec::SPEC_VERSION;
use loop_core::types::{Digest, RunId};
use loop_core::{EventKind, RunSpec, StopReason};

use super::event;
use super::fault::Fault;
use super::rows::{CHANGED, RunRow, cell, corrupt, link, parse, root, stop_of};
use super::seal::{Key, SealFault};
use crate::{Entry, JournalError, Recorded};

/// The part of a spec that every version has: what it says decides whether the rest can be read.
#[derive(serde::Deserialize)]
pub(super) struct SpecVersion {
    pub(super) version: u32,
}

/// A run as it is stored, and the hash of each of its entries.
pub(super) struct RunData {
    pub(super) recorded: Recorded,
    pub(super) hashes: Vec<Digest>,
    /// What the first entry follows.
    pub(super) beginning: Digest,
    /// Why its row is not sealed by the key; `None` where it is, or there is no key.
    pub(super) broken: Option<SealFault>,
}

/// Everything about a run, checked; `None` when there is none of this name.
pub(super) fn recorded(
    connection: &Connection,
    run: &RunId,
    key: Option<&Key>,
) -> Result<Option<RunData>, Fault> {
    let Some(row) = RunRow::find(connection, run)? else { return Ok(None) };
    let broken = key.and_then(|key| row.check(key));
    if broken == Some(SealFault::Changed) {
        return Err(corrupt(run, row.count().saturating_sub(1), CHANGED));
    }
    let (spec, manifest) = given(connection, &row)?;
    let beginning = beginning(&row);
    let Chain { entries, hashes, fault, unknown } = chain(connection, run, beginning)?;
    if let Some(unknown) = unknown.filter(|_| fault.is_some()) {
        let seq = entries.len() as u64;
        if follower(connection, &row, seq)?.as_deref() == Some(&*unknown.hash.to_string()) {
            let run = run.clone();
            return Err(JournalError::UnknownEntry { run, seq, message: unknown.message }.into());
        }
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    if entries.len() as u64 != row.count() {
        let message = format!("{} entries are there, {} were written", entries.len(), row.count());
        return Err(corrupt(run, entries.len() as u64, message));
    }
    if hashes.last().copied().unwrap_or(beginning).to_string() != row.head {
        return Err(corrupt(run, (entries.len() as u64).saturating_sub(1), CHANGED));
    }
    fits(&row, &spec, &entries)?;
    let recorded = Recorded {
        spec: Arc::new(spec),
        manifest,
        origin: row.origin,
        entries,
        unverified: None,
        imported: broken == Some(SealFault::Imported),
        since_last_ms: None,
    };
    Ok(Some(RunData { recorded, hashes, beginning, broken }))
}

/// The hash of an entry as what follows it has it: the next entry, or the run's row. `None`: nothing follows it.
fn follower(connection: &Connection, row: &RunRow, seq: u64) -> Result<Option<String>, Fault> {
    if seq + 1 == row.count() {
        return Ok(Some(row.head.clone()));
    }
    let find = "SELECT prev_hash FROM entries WHERE run = ?1 AND seq = ?2";
    let next = i64::try_from(seq + 1).unwrap_or(i64::MAX);
    Ok(connection.find(find, params![row.run.as_str(), next], |row| row.get(0))?)
}

/// What the first entry of a run follows.
pub(super) fn beginning(row: &RunRow) -> Digest {
    let optional = [row.origin.as_deref(), row.request_key.as_deref()];
    root(row.run.as_str(), row.unix_ms, &row.spec, &row.manifest, optional)
}

/// The spec and the tool manifest of a run, checked against their hashes.
pub(super) fn given(connection: &Connection, row: &RunRow) -> Result<(RunSpec, Arc<str>), Fault> {
    let run = &row.run;
    let spec = blob(connection, row, &row.spec, "spec")?;
    if *Digest::of("spec", spec.as_bytes()).to_string() != *row.spec {
        return Err(corrupt(run, 0, "the spec is not the one that its hash names"));
    }
    let version: SpecVersion = parse(&spec, "spec", run, 0)?;
    if version.version != SPEC_VERSION {
        let message = format!(
            "its spec was written by another loopgate (version {}, this one knows {SPEC_VERSION}); use that version",
            version.version
        );
        return Err(corrupt(run, 0, message));
    }
    let spec: RunSpec = parse(&spec, "spec", run, 0)?;
    let manifest = blob(connection, row, &row.manifest, "manifest")?;
    if *Digest::of("manifest", manifest.as_bytes()).to_string() != *row.manifest {
        return Err(corrupt(run, 0, "the tool manifest is not the one that its hash names"));
    }
    Ok((spec, manifest))
}

fn blob(connection: &Connection, row: &RunRow, hash: &str, what: &str) -> Result<Arc<str>, Fault> {
    let find = "SELECT body FROM blobs WHERE hash = ?1";
    let found = connection.find(find, [hash], |found| Ok(cell(found, 0, &row.run, 0)))?;
    found.unwrap_or_else(|| Err(corrupt(&row.run, 0, format!("the {what} is missing"))))
}

/// Lists are made from columns: each must say what the entries say.
pub(super) fn fits(row: &RunRow, spec: &RunSpec, entries: &[Entry]) -> Result<(), Fault> {
    let Some(EventKind::Started(started)) = entries.first().map(|entry| &entry.event.kind) else {
        return Err(corrupt(&row.run, 0, "it does not begin with the start of a run"));
    };
    let Started { run, unix_ms, item, tools, .. } = &**started;
    let is = |column: &str, holds: bool| {
        let other = || corrupt(&row.run, 0, format!("its {column} is not the one that it was started with"));
        if holds { Ok(()) } else { Err(other()) }
    };
    is("name", *run == row.run)?;
    is("time", i64::try_from(*unix_ms) == Ok(row.unix_ms))?;
    is("domain", *spec.domain == *row.domain)?;
    is("item", *item.id == *row.item && *item.title == *row.title)?;
    is("tool manifest", *tools.to_string() == *row.manifest)?;
    let stop = entries.iter().find_map(stop_of);
    if stop.as_ref().map(StopReason::name) != row.stop.as_deref() {
        let seq = (entries.len() as u64).saturating_sub(1);
        return Err(corrupt(&row.run, seq, "its stop is not the one that its entries say"));
    }
    Ok(())
}

/// A run's entries in order and the hash of each, up to the first that cannot be read.
pub(super) struct Chain {
    pub(super) entries: Vec<Entry>,
    pub(super) hashes: Vec<Digest>,
    /// Why the entries end before the stored ones do. `None`: they do not.
    pub(super) fault: Option<Fault>,
    /// The entry that the fault is about, if it is JSON of a kind that is not known.
    unknown: Option<Unknown>,
}

/// An entry that is JSON and is not read.
struct Unknown {
    hash: Digest,
    message: String,
}

/// A run's entries, as far as their chain holds.
pub(super) fn chain(connection: &Connection, run: &RunId, beginning: Digest) -> Result<Chain, Fault> {
    let list = "SELECT seq, epoch, prev_hash, event, notes FROM entries WHERE run = ?1 ORDER BY seq";
    let mut list = connection.prepare_cached(list)?;
    let mut rows = list.query([run.as_str()])?;
    let mut chain = Chain { entries: Vec::new(), hashes: Vec::new(), fault: None, unknown: None };
    let (mut prev, mut epoch_before) = (beginning, 0);
    loop {
        let read = rows.next().map_err(|error| ChainBreak::Entry(error.into())).and_then(|row| {
            let seq = chain.entries.len() as u64;
            row.map(|row| next_entry(&row, run, seq, prev, epoch_before)).transpose()
        });
        match read {
            Ok(Some((entry, epoch, hash))) => {
                (prev, epoch_before) = (hash, epoch);
                chain.entries.push(entry);
                chain.hashes.push(hash);
            }
            Ok(None) => return Ok(chain),
            Err(broken) => {
                // Of two entries that do not fit each other, neither is known to be the one that was written.
                if matches!(broken, ChainBreak::Link(_)) {
                    chain.entries.pop();
                    chain.hashes.pop();
                }
                chain.fault = Some(match broken {
                    ChainBreak::Link(fault) | ChainBreak::Entry(fault) => fault,
                    ChainBreak::Unknown(unknown) => {
                        let (seq, message) = (chain.entries.len() as u64, unknown.message.clone());
                        chain.unknown = Some(unknown);
                        corrupt(run, seq, message)
                    }
                });
                return Ok(chain);
            }
        }
    }
}

/// Where a chain ends before its end.
enum ChainBreak {
    /// An entry cannot be read, or is missing.
    Entry(Fault),
    /// An entry does not carry the hash of the one before it.
    Link(Fault),
    /// An entry cannot be read, although it is JSON.
    Unknown(Unknown),
}

impl From<Fault> for ChainBreak {
    fn from(fault: Fault) -> Self {
        Self::Entry(fault)
    }
}

/// The entry that follows, its epoch, and its hash.
fn next_entry(
    row: &Row<'_>,
    run: &RunId,
    seq: u64,
    prev: Digest,
    epoch_before: i64,
) -> Result<(Entry, i64, Digest), ChainBreak> {
    if u64::try_from(cell::<i64>(row, 0, run, seq)?) != Ok(seq) {
        return Err(corrupt(run, seq, "the entry is missing").into());
    }
    let (epoch, prev_hash): (i64, String) = (cell(row, 1, run, seq)?, cell(row, 2, run, seq)?);
    let (event, notes): (String, String) = (cell(row, 3, run, seq)?, cell(row, 4, run, seq)?);
    if prev_hash != prev.to_string() {
        return Err(ChainBreak::Link(corrupt(run, seq.saturating_sub(1), CHANGED)));
    }
    if epoch < epoch_before {
        return Err(corrupt(run, seq, "written by a process that had lost the run to another one").into());
    }
    let hash = link(&prev, epoch, &event, &notes);
    let read = (parse::<event::ReadEvent>(&event, "event", run, seq), parse(&notes, "notes", run, seq));
    match read {
        (Ok(event::ReadEvent(event)), Ok(notes)) => Ok((Entry { seq, event, notes }, epoch, hash)),
        (Err(fault), _) | (_, Err(fault)) if is_json(&event) && is_json(&notes) => match fault {
            Fault::Journal(JournalError::Corrupt { message, .. }) => {
                Err(ChainBreak::Unknown(Unknown { hash, message }))
            }
            fault => Err(fault.into()),
        },
        (Err(fault), _) | (_, Err(fault)) => Err(fault.into()),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
