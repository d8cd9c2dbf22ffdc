//! Journals: the append-only list of a run's events and notes, durable before anything follows from them.

mod memory;
mod none;
mod sqlite;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use loop_core::{Digest, Event, EventKind, Millis, Note, RunId, RunSpec, StopReason};
use serde::{Deserialize, Serialize};

pub use crate::parts::{expire, replay};
pub use memory::MemoryJournal;
pub use none::NoJournal;
pub use sqlite::SqliteJournal;

/// Where runs are written down.
#[async_trait]
pub trait Journal: Send + Sync + fmt::Debug {
    /// Opens a new run for writing, together with its first entry: either both are durable or neither is there. Spec and
    /// manifest are stored once, by their hashes.
    ///
    /// # Errors
    /// When a run of this id exists, or the journal cannot be written.
    async fn create(&self, header: &Header, first: &Arc<Entry>) -> Result<Box<dyn RunWriter>, JournalError>;

    /// Takes a run over for writing: everything that was written, and a writer that goes on behind it.
    ///
    /// # Errors
    /// When there is no such run, another process writes it, or the journal cannot vouch for what it holds of it.
    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError>;

    /// Everything that was written of a run.
    ///
    /// # Errors
    /// When there is no such run, or what is stored cannot be read.
    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError>;

    /// A line for every run, newest first. A run that cannot be read is a line as well, which says so.
    ///
    /// # Errors
    /// When the journal cannot be read at all.
    async fn runs(&self) -> Result<Vec<RunLine>, JournalError>;
}

/// Appends to one run. There is one writer a run at a time; dropping it lets another take over.
#[async_trait]
pub trait RunWriter: Send + fmt::Debug {
    /// Makes an entry durable. Its number must follow the last one's.
    ///
    /// # Errors
    /// When it is not durable: then nothing may follow from it.
    async fn append(&mut self, entry: &Arc<Entry>) -> Result<(), JournalError>;
}

/// What a run is opened with.
#[derive(Clone, Debug)]
pub struct Header {
    /// The run's name.
    pub run: RunId,
    /// Wall time of its start in milliseconds since 1970.
    pub unix_ms: u64,
    /// The work item's id, for lists.
    pub item: Arc<str>,
    /// The work item's title, for lists.
    pub title: Arc<str>,
    /// What it runs by.
    pub spec: Arc<RunSpec>,
    /// Names the tool manifest.
    pub manifest_hash: Digest,
    /// The tool manifest as JSON.
    pub manifest: Arc<str>,
    /// How whoever goes on with the run can put its loop together again; read by nobody here.
    pub origin: Option<Arc<str>>,
}

/// One event with what was decided while it was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// From 0, without gaps.
    pub seq: u64,
    /// What happened.
    pub event: Event,
    /// What was decided.
    pub notes: Vec<Note>,
}

/// A run as it was written down.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What it runs by.
    pub spec: Arc<RunSpec>,
    /// The tool manifest as JSON.
    pub manifest: Arc<str>,
    /// What its [`Header`] says of where it came from.
    pub origin: Option<Arc<str>>,
    /// In order.
    pub entries: Vec<Entry>,
    /// Why the run can be read and not resumed: what the journal keeps beside it is not there, or knows of more entries.
    pub unverified: Option<Arc<str>>,
    /// Milliseconds since the last entry by this machine's own clock, which counts from its start and which nobody sets.
    /// `None` where the machine was started anew since then, or the journal does not know.
    pub since_last_ms: Option<u64>,
}

impl Recorded {
    /// The instant by the run's clock. Setting the wall clock back does not take the run's time back: it counts at least
    /// what the last entry says, and what has passed since then by the clock that nobody sets.
    pub fn now(&self) -> Millis {
        let Some(last) = self.entries.last().map(|entry| entry.event.at) else { return Millis(0) };
        let started = self.entries.first().and_then(|first| match &first.event.kind {
            EventKind::Started(started) => Some(started.unix_ms),
            _ => None,
        });
        let by_wall = Millis(started.map_or(0, |started| unix_ms(SystemTime::now()).saturating_sub(started)));
        by_wall.max(last.plus(self.since_last_ms.unwrap_or_default()))
    }
}

/// Milliseconds since 1970; 0 for a clock that is set to a time before.
pub(crate) fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLine {
    /// The run's name.
    pub run: RunId,
    /// Wall time of its start in milliseconds since 1970.
    pub unix_ms: u64,
    /// The domain's name.
    pub domain: Arc<str>,
    /// The work item's id.
    pub item: Arc<str>,
    /// The work item's title.
    pub title: Arc<str>,
    /// How many entries there are.
    pub entries: u64,
    /// Why it stopped, once it did.
    pub stop: Option<StopReason>,
    /// Whether a process is writing it. It is asked for runs that have not stopped; of others it is false.
    pub is_written: bool,
    /// What is wrong with what is stored of it; the other fields are then as far as they could be read, and not to be
    /// believed.
    pub trouble: Option<Arc<str>>,
}

/// Why a journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file is of a later format.
    #[error("{path}: written by a newer loopgate (format {found}, this one knows {known}); use that version, or another file with --journal", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format it says.
        found: u32,
        /// The format that this program writes.
        known: u32,
    },
    /// Another process writes this run.
    #[error("run {run} is being written by another process (pid {pid}); wait for it, or stop it")]
    Busy {
        /// The run.
        run: RunId,
        /// That process.
        pid: u32,
    },
    /// No run of this name.
    #[error("no run {run} in {place}; `loopgate runs` lists them")]
    Unknown {
        /// The name.
        run: RunId,
        /// The journal.
        place: String,
    },
    /// Nothing was written down.
    #[error(
        "run {run} cannot be found again: nothing was written down; give the loop or the agent a journal (with_journal)"
    )]
    NotKept {
        /// The name.
        run: RunId,
    },
    /// A run of this name is there already.
    #[error("run {run} exists already in {place}")]
    Exists {
        /// The name.
        run: RunId,
        /// The journal.
        place: String,
    },
    /// What is stored cannot be read.
    #[error("run {run}, entry {seq}: {message}")]
    Corrupt {
        /// The run.
        run: RunId,
        /// The entry.
        seq: u64,
        /// What is wrong.
        message: String,
    },
    /// What is stored can be read, and the journal cannot vouch for it.
    #[error("run {run} cannot be resumed: {message}")]
    Unverified {
        /// The run.
        run: RunId,
        /// What is missing or does not fit, and what to do.
        message: String,
    },
    /// An entry is larger than the journal takes.
    #[error(
        "run {run}, entry {seq}: {bytes} bytes are more than the journal takes ({limit}); give a smaller work item, or let the tool return less"
    )]
    TooLarge {
        /// The run.
        run: RunId,
        /// The entry.
        seq: u64,
        /// What it takes, as JSON.
        bytes: u64,
        /// What the journal takes.
        limit: u64,
    },
    /// The storage failed.
    #[error("{place}: {message}")]
    Storage {
        /// The journal.
        place: String,
        /// What the storage says.
        message: String,
    },
}
