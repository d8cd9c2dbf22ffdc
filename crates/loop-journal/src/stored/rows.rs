//! What is written into the tables and read from them; each function runs inside a transaction of its caller.

use std::sync::{Arc, Mutex, PoisonError};

use super::sql::{self, Cell, Connection, FromCell, Row, Value, params};
use loop_core::types::{Digest, RunId, canonical};
use loop_core::{EventKind, Note, RunSpec, StopReason};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::event;
use super::fault::Fault;
use super::heads::ChainEnd;
use super::pruned;
use super::seal::{Key, SealFault, SealPrefix};
use crate::{Entry, Header, JournalError, RunLine};

/// A writer's right to append to a run: valid until another one takes over.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) run: RunId,
    epoch: i64,
    /// Tells two writers of one epoch apart, as they come about when a file is put back from a copy.
    token: Arc<str>,
}

/// A run's row. Its seal covers all of it but the process that writes it.
#[derive(Clone, Debug)]
pub(super) struct RunRow {
    pub(super) run: RunId,
    pub(super) unix_ms: i64,
    pub(super) domain: Arc<str>,
    pub(super) item: Arc<str>,
    pub(super) title: Arc<str>,
    pub(super) spec: Arc<str>,
    pub(super) manifest: Arc<str>,
    pub(super) origin: Option<Arc<str>>,
    pub(super) request_key: Option<Arc<str>>,
    pub(super) stop: Option<String>,
    pub(super) epoch: i64,
    pub(super) writer_pid: i64,
    pub(super) writer_token: Arc<str>,
    pub(super) entries: i64,
    pub(super) head: String,
    pub(super) seal: String,
    /// The fields before `stop`, digested for the seals of the rows after this one. They do not change while a run is
    /// written.
    pub(super) begun: Option<Arc<SealPrefix>>,
}

const COLUMNS: &str = "run, unix_ms, domain, item, title, spec, manifest, origin, request_key, stop, epoch,
                       writer_pid, writer_token, entries, head, seal";

impl RunRow {
    fn read(row: &Row<'_>) -> Result<Self, Fault> {
        let run = RunId::new(row.lossy(0));
        let run = &run;
        Ok(Self {
            unix_ms: cell(row, 1, run, 0)?,
            domain: cell(row, 2, run, 0)?,
            item: cell(row, 3, run, 0)?,
            title: cell(row, 4, run, 0)?,
            spec: cell(row, 5, run, 0)?,
            manifest: cell(row, 6, run, 0)?,
            origin: cell(row, 7, run, 0)?,
            request_key: cell(row, 8, run, 0)?,
            stop: cell(row, 9, run, 0)?,
            epoch: cell(row, 10, run, 0)?,
            writer_pid: cell(row, 11, run, 0)?,
            writer_token: cell(row, 12, run, 0)?,
            entries: cell(row, 13, run, 0)?,
            head: cell(row, 14, run, 0)?,
            seal: cell(row, 15, run, 0)?,
            begun: None,
            run: run.clone(),
        })
    }

    pub(super) fn find(connection: &Connection, run: &RunId) -> Result<Option<Self>, Fault> {
        let find = format!("SELECT {COLUMNS} FROM runs WHERE run = ?1");
        connection.find(&find, [run.as_str()], |row| Ok(Self::read(row)))?.transpose()
    }

    /// What its seal is over: the fields that a run keeps, and those that change with its entries.
    fn sealed<T>(&self, with: impl FnOnce([&str; KEPT], [&str; CHANGING]) -> T) -> T {
        let [unix_ms, epoch, entries] =
            [self.unix_ms, self.epoch, self.entries].map(|number| number.to_string());
        let optional = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), |text| format!("+{text}"));
        let (origin, stop) = (optional(self.origin.as_deref()), optional(self.stop.as_deref()));
        let request_key = optional(self.request_key.as_deref());
        with(
            [
                self.run.as_str(),
                &unix_ms,
                &self.domain,
                &self.item,
                &self.title,
                &self.spec,
                &self.manifest,
                &origin,
                &request_key,
            ],
            [&stop, &epoch, &entries, &self.head],
        )
    }

    fn seal(&mut self, key: &Key) {
        self.begun = None;
        self.seal_next(key);
    }

    /// Seals a row of which nothing but the entries and what follows from them was changed since it was sealed.
    fn seal_next(&mut self, key: &Key) {
        let begun = self.begun.take();
        let (seal, begun) = self.sealed(|kept, changing| {
            let begun = begun.unwrap_or_else(|| Arc::new(key.begin(TAG, &kept)));
            (key.seal_begun(&begun, &changing), begun)
        });
        (self.seal, self.begun) = (seal, Some(begun));
    }

    /// Seals the row as that of a run which was imported. No program without the key makes the one seal of the other.
    pub(super) fn seal_imported(&mut self, key: &Key) {
        self.seal = self.sealed(|kept, changing| key.seal(IMPORTED_TAG, &all(kept, changing)));
    }

    pub(super) fn check(&self, key: &Key) -> Option<SealFault> {
        self.sealed(|kept, changing| {
            let fields = all(kept, changing);
            match key.check(&self.seal, TAG, &fields) {
                Some(SealFault::Changed) if key.check(&self.seal, IMPORTED_TAG, &fields).is_none() => {
                    Some(SealFault::Imported)
                }
                checked => checked,
            }
        })
    }

    /// Writes a new row. False if there is one of this run or of this request key.
    pub(super) fn insert(&self, connection: &Connection) -> Result<bool, Fault> {
        let open = format!(
            "INSERT INTO runs ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
             ON CONFLICT DO NOTHING"
        );
        let opened = connection.execute(
            &open,
            params![
                self.run.as_str(),
                self.unix_ms,
                self.domain,
                self.item,
                self.title,
                self.spec,
                self.manifest,
                self.origin,
                self.request_key,
                self.stop,
                self.epoch,
                self.writer_pid,
                self.writer_token,
                self.entries,
                self.head,
                self.seal,
            ],
        )?;
        Ok(opened > 0)
    }

    pub(super) fn count(&self) -> u64 {
        u64::try_from(self.entries).unwrap_or_default()
    }

    fn hash(&self) -> Result<Digest, Fault> {
        self.head.parse().map_err(|_| corrupt(&self.run, self.count().saturating_sub(1), CHANGED))
    }

    /// The number of its entries and the hash of the last.
    pub(super) fn position(&self) -> Result<ChainEnd, Fault> {
        Ok(ChainEnd { entries: self.count(), hash: self.hash()? })
    }

    /// Takes entries into the row: how many there are, the hash of the last, and why the run stopped. Returns for each
    /// the hash of what it follows.
    fn take(&mut self, entries: &[Text], key: &Key) -> Result<Vec<String>, Fault> {
        let (mut prev, mut links) = (self.hash()?, Vec::with_capacity(entries.len()));
        for Text { seq, event, notes, stop } in entries {
            if self.count() != *seq {
                return Err(Fault::Stated(format!("entry {seq} cannot follow {} entries", self.entries)));
            }
            prev = link(&prev, self.epoch, event, notes);
            self.entries += 1;
            links.push(std::mem::replace(&mut self.head, prev.to_string()));
            if let (None, Some(stop)) = (&self.stop, stop) {
                self.stop = Some(stop.name().to_owned());
            }
        }
        self.seal_next(key);
        Ok(links)
    }
}

/// All fields of a row's seal.
fn all<'a>(kept: [&'a str; KEPT], changing: [&'a str; CHANGING]) -> Vec<&'a str> {
    kept.into_iter().chain(changing).collect()
}

/// The process that wrote the run last, if there is such a run.
pub(super) fn last_writer(connection: &Connection, run: &RunId) -> Result<Option<u32>, Fault> {
    let pid: Option<i64> =
        connection.find("SELECT writer_pid FROM runs WHERE run = ?1", [run.as_str()], |row| row.get(0))?;
    Ok(pid.map(|pid| u32::try_from(pid).unwrap_or_default()))
}

/// The run that has this request key.
pub(super) fn run_of_key(
    connection: &Connection,
    key: &str,
    seal: Option<&Key>,
) -> Result<Option<RunId>, Fault> {
    let find = format!("SELECT {COLUMNS} FROM runs WHERE request_key = ?1");
    let Some(row) = connection.find(&find, [key], |row| Ok(RunRow::read(row)))?.transpose()? else {
        return pruned::run_of_key(connection, key);
    };
    match seal.and_then(|seal| row.check(seal)) {
        Some(SealFault::Changed) => Err(corrupt(&row.run, row.count().saturating_sub(1), CHANGED)),
        Some(SealFault::OtherKey | SealFault::Imported) | None => Ok(Some(row.run)),
    }
}

/// What a run is opened with, as it is stored.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) header: Header,
    spec: Arc<SpecText>,
    manifest_hash: String,
    /// What the first entry follows: the hash of all that was given before it. So none of it can be changed under the
    /// entries.
    pub(super) beginning: Digest,
}

impl Opening {
    pub(super) fn of(header: Header, spec: Arc<SpecText>) -> Self {
        let manifest_hash = header.manifest_hash.to_string();
        let beginning = root(
            header.run.as_str(),
            unix_ms(&header),
            &spec.hash,
            &manifest_hash,
            [header.origin.as_deref(), header.request_key.as_deref()],
        );
        Self { header, spec, manifest_hash, beginning }
    }
}

/// A spec as it is stored.
#[derive(Debug)]
pub(super) struct SpecText {
    spec: Arc<RunSpec>,
    json: String,
    pub(super) hash: Arc<str>,
}

/// The text of the spec that a run began with last: most runs of a process follow the same one.
#[derive(Debug, Default)]
pub(super) struct LastSpec(Mutex<Option<Arc<SpecText>>>);

impl LastSpec {
    /// The text of a spec, which is read back as this spec.
    pub(super) fn text_of(&self, spec: &Arc<RunSpec>, run: &RunId) -> Result<Arc<SpecText>, Fault> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // It is held, so no other spec is at its place in memory.
        if let Some(text) = last.as_ref().filter(|text| Arc::ptr_eq(&text.spec, spec)) {
            return Ok(Arc::clone(text));
        }
        // The canonical text is what the spec's hash is over, so that a reader can check the one against the other.
        let json = canonical(&serde_json::to_value(&**spec)?);
        let hash = Digest::of("spec", json.as_bytes()).to_string().into();
        let text = Arc::new(SpecText { spec: Arc::clone(spec), json, hash });
        is_read_back(&text.json, &**spec, "spec", run)?;
        *last = Some(Arc::clone(&text));
        Ok(text)
    }
}

impl Claim {
    /// The right to write a run that is new.
    pub(super) fn first(run: &RunId) -> Self {
        Self { run: run.clone(), epoch: 1, token: Uuid::new_v4().to_string().into() }
    }
}

/// Opens a run with its first entries; `None` when there is one of this name or of this request key.
pub(super) fn create(
    connection: &Connection,
    claim: &Claim,
    opening: &Opening,
    entries: &[Text],
    key: &Key,
) -> Result<Option<RunRow>, Fault> {
    let Opening { header, spec, manifest_hash, beginning } = opening;
    let keep = "INSERT INTO blobs (hash, kind, body) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    connection.execute(keep, params![spec.hash, "spec", spec.json])?;
    connection.execute(keep, params![manifest_hash, "manifest", header.manifest])?;

    let mut row = RunRow {
        run: header.run.clone(),
        unix_ms: unix_ms(header),
        domain: Arc::clone(&header.spec.domain),
        item: Arc::clone(&header.item),
        title: Arc::clone(&header.title),
        spec: Arc::clone(&spec.hash),
        manifest: manifest_hash.as_str().into(),
        origin: header.origin.clone(),
        request_key: header.request_key.clone(),
        stop: None,
        epoch: claim.epoch,
        writer_pid: std::process::id().into(),
        writer_token: Arc::clone(&claim.token),
        entries: 0,
        head: beginning.to_string(),
        seal: String::new(),
        begun: None,
    };
    let links = row.take(entries, key)?;
    // The key of a run that was pruned stays taken.
    let is_pruned = |key: &Arc<str>| pruned::run_of_key(connection, key).map(|run| run.is_some());
    if row.request_key.as_ref().map(is_pruned).transpose()? == Some(true) || !row.insert(connection)? {
        return Ok(None);
    }
    insert(connection, &row, entries, &links)?;
    Ok(Some(row))
}

/// Raises a run's epoch, so that its previous writer can write no more.
pub(super) fn take_over(connection: &Connection, run: &RunId, key: &Key) -> Result<Option<Claim>, Fault> {
    let Some(mut row) = RunRow::find(connection, run)? else { return Ok(None) };
    row.epoch += 1;
    row.writer_token = Uuid::new_v4().to_string().into();
    row.seal(key);
    let raise = "UPDATE runs SET epoch = ?2, writer_pid = ?3, writer_token = ?4, seal = ?5 WHERE run = ?1";
    connection.execute_one(
        raise,
        params![run.as_str(), row.epoch, std::process::id(), row.writer_token, row.seal],
    )?;
    Ok(Some(Claim { run: run.clone(), epoch: row.epoch, token: row.writer_token }))
}

/// Appends entries. Returns the run's new row, or `None` if the run is gone. `known` is the row as this writer left it: if
/// the stored row is still the same, it is not read and verified again.
pub(super) fn append(
    connection: &Connection,
    claim: &Claim,
    known: Option<&RunRow>,
    entries: &[Text],
    key: &Key,
) -> Result<Option<RunRow>, Fault> {
    let Some(first) = entries.first() else { return Err(Fault::Stated("no entry was given".to_owned())) };
    if let Some(row) = known.filter(|row| row.count() == first.seq)
        && let Some(row) = advance(connection, row.clone(), entries, key)?
    {
        return Ok(Some(row));
    }
    let Some(row) = RunRow::find(connection, &claim.run)? else { return Ok(None) };
    if (row.epoch, &row.writer_token) != (claim.epoch, &claim.token) {
        let pid = u32::try_from(row.writer_pid).unwrap_or_default();
        return Err(JournalError::Busy { run: claim.run.clone(), pid }.into());
    }
    if row.count() != first.seq {
        let message = format!("entry {} cannot follow {} entries", first.seq, row.entries);
        return Err(Fault::Stated(message));
    }
    if row.check(key).is_some() {
        return Err(corrupt(&claim.run, first.seq.saturating_sub(1), CHANGED));
    }
    advance(connection, row, entries, key)
}

/// The run's row, if these entries of this writer are the last that the journal has of it.
pub(super) fn committed(
    connection: &Connection,
    claim: &Claim,
    entries: &[Text],
) -> Result<Option<RunRow>, Fault> {
    let Some(last) = entries.last() else { return Ok(None) };
    let row = RunRow::find(connection, &claim.run)?;
    // No other writer has the token, and this one appends nothing until the commit of these is reported to it.
    let is_own = |row: &RunRow| {
        (row.epoch, &row.writer_token) == (claim.epoch, &claim.token) && row.count() == last.seq + 1
    };
    Ok(row.filter(is_own))
}

/// Writes the next entries and the updated row. Returns `None` if the stored row is not `row`.
fn advance(
    connection: &Connection,
    mut row: RunRow,
    entries: &[Text],
    key: &Key,
) -> Result<Option<RunRow>, Fault> {
    let (at, before) = (row.entries, std::mem::take(&mut row.seal));
    let links = row.take(entries, key)?;
    let advance = "UPDATE runs SET entries = ?2, head = ?3, stop = ?4, seal = ?5
                   WHERE run = ?1 AND seal = ?6 AND writer_token = ?7 AND entries = ?8 AND epoch = ?9";
    let changed = connection.execute(
        advance,
        params![
            row.run.as_str(),
            row.entries,
            row.head,
            row.stop,
            row.seal,
            before,
            row.writer_token,
            at,
            row.epoch
        ],
    )?;
    if changed == 0 {
        return Ok(None);
    }
    insert(connection, &row, entries, &links)?;
    Ok(Some(row))
}

/// Writes entries, each with the hash of the one before it.
fn insert(connection: &Connection, row: &RunRow, entries: &[Text], links: &[String]) -> Result<(), Fault> {
    let insert =
        "INSERT INTO entries (run, seq, epoch, prev_hash, event, notes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let all = entries.iter().zip(links).map(|(Text { seq, event, notes, .. }, prev)| {
        [
            Value::Text(row.run.as_str()),
            Value::Integer(i64::try_from(*seq).unwrap_or(i64::MAX)),
            Value::Integer(row.epoch),
            Value::Text(prev),
            Value::Text(event),
            Value::Text(notes),
        ]
    });
    let changed = connection.prepare_cached(insert)?.execute_all(all)?;
    Ok(sql::changed_all(changed, entries.len())?)
}

/// An entry as it is stored.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) seq: u64,
    pub(super) event: String,
    pub(super) notes: String,
    /// Why the run stopped, where this entry says so.
    stop: Option<StopReason>,
}

impl Text {
    /// An entry with these texts, whatever they say.
    #[cfg(test)]
    pub(super) fn stated(seq: u64, event: String, notes: String) -> Self {
        Self { seq, event, notes, stop: None }
    }

    /// Refuses an entry that takes more bytes than `limit`.
    pub(super) fn of(run: &RunId, entry: &Entry, limit: u64) -> Result<Self, Fault> {
        let event = json_of(&event::StoredEvent::of(&entry.event), room(entry))?;
        let notes = json_of(&entry.notes, NOTES_BYTES)?;
        let bytes = (event.len() + notes.len()) as u64;
        if bytes > limit {
            return Err(JournalError::TooLarge { run: run.clone(), seq: entry.seq, bytes, limit }.into());
        }
        Ok(Self { seq: entry.seq, event, notes, stop: stop_of(entry) })
    }
}

/// A value as JSON, in a text that has room for so many bytes from the start.
pub(super) fn json_of<T: Serialize + ?Sized>(value: &T, room: usize) -> serde_json::Result<String> {
    let mut json = Vec::with_capacity(room);
    serde_json::to_writer(&mut json, value)?;
    Ok(String::from_utf8(json).expect("serde_json writes UTF-8"))
}

/// A line for every run, newest first. One that cannot be read hides no other.
pub(super) fn lines(connection: &Connection, key: Option<&Key>) -> Result<Vec<RunLine>, Fault> {
    lines_where(connection, "ORDER BY unix_ms DESC, run DESC", Vec::new(), key)
}

/// A line for each run that these conditions choose, in their order.
pub(super) fn lines_where(
    connection: &Connection,
    conditions: &str,
    values: Vec<Cell>,
    key: Option<&Key>,
) -> Result<Vec<RunLine>, Fault> {
    let list = format!("SELECT {COLUMNS} FROM runs {conditions}");
    let mut list = connection.prepare_cached(&list)?;
    let mut rows = list.query(values)?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let read = RunRow::read(&row).and_then(|found| {
            let stop = match &found.stop {
                Some(name) => Some(parse::<StopReason>(
                    &serde_json::to_string(name)?,
                    "stop reason",
                    &found.run,
                    found.count(),
                )?),
                None => None,
            };
            Ok((stop, found))
        });
        lines.push(match read {
            Ok((stop, found)) => {
                let broken = key.and_then(|key| found.check(key));
                RunLine {
                    unix_ms: u64::try_from(found.unix_ms).unwrap_or_default(),
                    entries: found.count(),
                    stop,
                    // The database does not know: it is asked of the lock.
                    is_written: false,
                    is_imported: broken == Some(SealFault::Imported),
                    trouble: match broken {
                        None | Some(SealFault::Imported) => None,
                        Some(SealFault::Changed) => Some(CHANGED.into()),
                        Some(SealFault::OtherKey) => Some(OTHER_KEY.into()),
                    },
                    origin: found.origin,
                    domain: found.domain,
                    item: found.item,
                    title: found.title,
                    run: found.run,
                }
            }
            Err(fault) => unreadable(&row, fault)?,
        });
    }
    Ok(lines)
}

/// The line of a run whose row cannot be read. What the storage itself cannot give is no row.
fn unreadable(row: &Row<'_>, fault: Fault) -> Result<RunLine, Fault> {
    let Fault::Journal(JournalError::Corrupt { run, message, .. }) = fault else { return Err(fault) };
    let text = |column| row.lossy(column).into();
    Ok(RunLine {
        run,
        unix_ms: row.get::<i64>(1).ok().and_then(|at| u64::try_from(at).ok()).unwrap_or_default(),
        domain: text(2),
        item: text(3),
        title: text(4),
        entries: row.get::<i64>(13).ok().and_then(|count| u64::try_from(count).ok()).unwrap_or_default(),
        stop: None,
        is_written: false,
        is_imported: false,
        origin: None,
        trouble: Some(message.into()),
    })
}

/// Why a run stopped, where this entry says so.
pub(super) fn stop_of(entry: &Entry) -> Option<StopReason> {
    entry.notes.iter().find_map(|note| match note {
        Note::Stopped { certificate } => Some(certificate.reason()),
        _ => None,
    })
}

fn unix_ms(header: &Header) -> i64 {
    i64::try_from(header.unix_ms).unwrap_or(i64::MAX)
}

pub(super) fn root(
    run: &str,
    unix_ms: i64,
    spec: &str,
    manifest: &str,
    optional: [Option<&str>; 2],
) -> Digest {
    let unix_ms = unix_ms.to_string();
    let optional = optional.map(|text| [if text.is_some() { "+" } else { "-" }, text.unwrap_or_default()]);
    let mut bytes = Vec::new();
    for field in [run, &unix_ms, spec, manifest].into_iter().chain(optional.into_iter().flatten()) {
        bytes.extend((field.len() as u64).to_be_bytes());
        bytes.extend(field.as_bytes());
    }
    Digest::of("journal-run", &bytes)
}

/// The hash of an entry, which the next one carries.
pub(super) fn link(prev: &Digest, epoch: i64, event: &str, notes: &str) -> Digest {
    let (epoch, length) = (epoch.to_be_bytes(), (event.len() as u64).to_be_bytes());
    // With its length before it, no byte of the event can pass for one of the notes.
    Digest::of_parts("journal-entry", &[&prev.0, &epoch, &length, event.as_bytes(), notes.as_bytes()])
}

pub(super) fn cell<T: FromCell>(row: &Row<'_>, column: usize, run: &RunId, seq: u64) -> Result<T, Fault> {
    row.get(column).map_err(|error: sql::Error| corrupt(run, seq, error.to_string()))
}

pub(super) fn parse<T: DeserializeOwned>(text: &str, what: &str, run: &RunId, seq: u64) -> Result<T, Fault> {
    serde_json::from_str(text)
        .map_err(|error| corrupt(run, seq, format!("the {what} cannot be read: {error}")))
}

/// Refuses what would not be read back as it is. A run that began with it could not be read again.
pub(super) fn is_read_back<T: DeserializeOwned + PartialEq>(
    text: &str,
    stored: &T,
    what: &'static str,
    run: &RunId,
) -> Result<(), Fault> {
    let message = match serde_json::from_str::<T>(text) {
        Ok(read) if read == *stored => return Ok(()),
        Ok(_) => String::new(),
        Err(error) => format!(": {error}"),
    };
    Err(JournalError::NotReadBack { run: run.clone(), what, message }.into())
}

/// Usual upper bound of the bytes of an entry's event.
fn room(entry: &Entry) -> usize {
    let text = match &entry.event.kind {
        // The Markdown is often the text of the data, which is stored once.
        EventKind::ToolFinished { observation, .. } => {
            let data = observation.data.as_text().map_or(observation.data.len(), |text| text.len());
            let markdown = observation.markdown.len();
            (data + if markdown == data { 0 } else { markdown }) * 9 / 8
        }
        EventKind::ModelReplied { reply, .. } => reply.text.len() * 9 / 8,
        _ => 0,
    };
    text + EVENT_BYTES
}

pub(super) fn corrupt(run: &RunId, seq: u64, message: impl Into<String>) -> Fault {
    JournalError::Corrupt { run: run.clone(), seq, message: message.into() }.into()
}

/// Bytes of an event without its texts, and of usual notes.
const EVENT_BYTES: usize = 768;
const NOTES_BYTES: usize = 256;
/// Fields of a row's seal that a run keeps, and those that change with its entries.
const KEPT: usize = 9;
const CHANGING: usize = 4;
const TAG: &str = "run";
const IMPORTED_TAG: &str = "imported-run";
pub(super) const CHANGED: &str = "changed since it was written; the run cannot be resumed from it";
pub(super) const IMPORTED: &str =
    "it was imported, and may have gone on where it is from; begin a new run of the work item instead";
pub(super) const OTHER_KEY: &str =
    "it was written with another key; put the file with the journal's own key back (`.key`)";
