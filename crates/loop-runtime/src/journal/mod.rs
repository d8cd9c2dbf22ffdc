//! Journals: the append-only list of a run's events and notes, durable before anything follows from them.

mod memory;
mod none;
mod sqlite;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use loop_core::{Digest, Event, Note, RunId, RunSpec, StopReason};
use serde::{Deserialize, Serialize};

pub use memory::MemoryJournal;
pub use none::NoJournal;
pub use sqlite::SqliteJournal;

/// Where runs are written down.
#[async_trait]
pub trait Journal: Send + Sync + fmt::Debug {
    /// Opens a new run for writing. Spec and manifest are stored once, by their hashes.
    ///
    /// # Errors
    /// When a run of this id exists, or the journal cannot be written.
    async fn create(&self, header: &Header) -> Result<Box<dyn RunWriter>, JournalError>;

    /// Takes a run over for writing: everything that was written, and a writer that goes on behind it.
    ///
    /// # Errors
    /// When there is no such run, or another process writes it.
    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError>;

    /// Everything that was written of a run.
    ///
    /// # Errors
    /// When there is no such run, or what is stored cannot be read.
    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError>;

    /// A line for every run, newest first.
    ///
    /// # Errors
    /// When the journal cannot be read.
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
    /// The storage failed.
    #[error("{place}: {message}")]
    Storage {
        /// The journal.
        place: String,
        /// What the storage says.
        message: String,
    },
}
