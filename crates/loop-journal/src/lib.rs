//! Journals of agent runs: append-only lists of a run's events and notes, durable before anything follows from them.
//!
//! A [`Journal`] stores runs: in memory ([`MemoryJournal`]), in a SQLite file or a PostgreSQL database
//! ([`StoredJournal`]), or in a store of your own. [`replay()`] turns the entries back into the state of the run.
//!
//! # What it is not
//!
//! It makes no decisions and drives no runs. It is not a log of texts for people: reports and traces are made from it. No
//! entry is ever changed: a fork is a new run, and a pruned run is deleted as a whole.
//!
//! # A run
//!
//! ```
//! use std::sync::Arc;
//! use loop_core::run::{Provenance, StopMode};
//! use loop_core::spec::ModelSpec;
//! use loop_core::types::{Digest, Millis, RunId};
//! use loop_core::{Event, EventKind, Facts, Run, RunSpec, WorkItem};
//! use loop_journal::{Durability, Entry, Header, Journal, MemoryJournal, replay};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (id, none) = (RunId::new("r1"), Digest::of("none", b""));
//! let spec = Arc::new(RunSpec::conversation("desk", ModelSpec::new("none", "none")));
//! let item = WorkItem::message("M-1", "A greeting", "Hello");
//! let provenance = Provenance::default();
//! let facts = Facts { unix_ms: 0, nonce: "k3j9".into(), prompts: none, tools: none, history: None, provenance };
//! let (mut run, event, notes) = Run::start(id.clone(), spec.clone(), item, facts);
//!
//! let journal = MemoryJournal::new();
//! let header = Header { run: id.clone(), unix_ms: 0, item: "M-1".into(), title: "A greeting".into(), spec,
//!                       manifest_hash: none, manifest: "[]".into(), origin: None, request_key: None };
//! let mut writer = journal.create(&header, &Arc::new(Entry { seq: 0, event, notes })).await?;
//!
//! let event = Event { at: Millis(5), kind: EventKind::StopRequested { how: StopMode::Now } };
//! let notes = run.apply(&event)?;
//! let durability = Durability::of(&event.kind, &run);
//! writer.append(&Arc::new(Entry { seq: 1, event, notes }), durability).await?;
//!
//! assert_eq!(replay(&id, &journal.read(&id).await?)?, run);
//! # Ok(())
//! # }
//! ```
//!
//! # The modules
//!
//! The traits, the entries and the errors are at the root. [`StoredJournal`] has the methods of most modules.
//!
//! | module | what you find there |
//! |---|---|
//! | [`list`] | lists of runs: queries, summaries, changes, sizes, search terms |
//! | [`versions`] | upgrades: which program may continue a run that another one began |
//! | [`shared`] | budgets that runs share: of a day, of a month, of a batch |
//! | [`outbox`] | messages of hooks, committed with the entry that caused them |
//! | [`queue`] | a server's queue, requests to runs that another process drives, the lock of a batch |
//! | [`transfer`] | export and import of runs, and salvage of damaged ones |
//! | [`prune`] | which old runs may be deleted |
//! | [`label`] | a person's judgement of a run |
//! | [`evals`] | evals that are stored in a journal |
//! | [`audit`] | the audit log of a server |
//! | [`files`] | files and folders that only their owner can access |
//! | [`mod@hmac`] | HMAC with SHA-256, for seals and signatures |

mod audited;
pub mod files;
pub mod hmac;
mod memory;
mod none;
pub mod outbox;
mod replay;
mod retention;
pub mod shared;
mod stored;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use loop_core::run::Phase;
use loop_core::types::{CommandKey, Digest, Millis, RunId};
use loop_core::{Event, EventKind, Note, Run, RunSpec, StopReason};
use serde::{Deserialize, Serialize};

use crate::label::RunLabel;
use crate::outbox::{ClaimedMessage, DeliveryResult, HookMessage, QueuedMessage};
pub use memory::MemoryJournal;
pub use none::NoJournal;
pub use replay::{ReplayError, replay};
pub use stored::{StoredJournal, SyncPolicy};

/// The audit log of a server: what was requested, by whom, and with which result.
pub mod audit {
    pub use crate::audited::{AuditAction, AuditEntry, AuditFilter, AuditLine, AuditReport, AuditResult};
}

/// Lists of runs: queries, summaries, changes, sizes.
pub mod list {
    pub use crate::stored::{
        JournalChange, JournalChanges, JournalStats, ListChanges, ListPosition, RunQuery, RunSummary,
        SearchTerms,
    };
}

/// Labels: a person's judgement of a run.
pub mod label {
    pub use crate::stored::{Label, RunLabel};
}

/// Evals that are stored in a journal.
pub mod evals {
    pub use crate::stored::KeptEval;
}

/// Pruning: which old runs may be deleted, and which are kept.
pub mod prune {
    pub use crate::retention::Retention;
    pub use crate::stored::KeepReason;
}

/// A server's queue of submissions, requests to runs that another process drives, and the lock of a batch.
pub mod queue {
    pub use crate::stored::{
        Accepted, BatchLock, QueueBounds, QueueLock, QueuedSubmission, RemoteAnswer, RemoteRequest,
        Submission, SubmissionState,
    };
}

/// Export and import of runs, and salvage of damaged ones.
pub mod transfer {
    pub use crate::stored::{EXPORT_VERSION, Exported, ImportedRuns, LostEntries, NotImported, SalvagedRun};
}

/// Upgrades: which program may continue a run that another one began.
pub mod versions {
    pub use crate::replay::{
        begun_by_newer, check_version, not_newer, not_on_engine, own, replay_seeing, taken_over,
    };
}

/// A store of runs. Each run is an append-only list of entries.
#[async_trait]
pub trait Journal: Send + Sync + fmt::Debug {
    /// Creates a run together with its first entry: either both are durable or neither exists. Spec and manifest are
    /// stored once, by their hashes.
    ///
    /// # Errors
    /// When a run of this id or of this request key exists, or the journal cannot be written.
    async fn create(&self, header: &Header, first: &Arc<Entry>) -> Result<Box<dyn RunWriter>, JournalError>;

    /// The same, and commits these messages of hooks with the first entry. A journal without an outbox drops them.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    async fn create_announcing(
        &self,
        header: &Header,
        first: &Arc<Entry>,
        _messages: Vec<HookMessage>,
    ) -> Result<Box<dyn RunWriter>, JournalError> {
        self.create(header, first).await
    }

    /// Opens an existing run for writing: returns what is recorded of it, and a writer that continues after that.
    ///
    /// # Errors
    /// When there is no such run, another process writes it, or the journal cannot verify what it has of it.
    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError>;

    /// Everything that is recorded of a run.
    ///
    /// # Errors
    /// When there is no such run, or what is stored cannot be read.
    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError>;

    /// The run that has this request key. `None`: there is none, or the journal stores no keys.
    ///
    /// # Errors
    /// When the journal cannot be read.
    async fn run_of_key(&self, _key: &str) -> Result<Option<RunId>, JournalError> {
        Ok(None)
    }

    /// A line for every run, newest first. The line of a run that cannot be read says so in [`RunLine::trouble`].
    ///
    /// # Errors
    /// When the journal cannot be read at all.
    async fn runs(&self) -> Result<Vec<RunLine>, JournalError>;

    /// The labels of these runs, or of all runs. A run without a label is left out. A journal without labels has none.
    ///
    /// # Errors
    /// When the journal cannot be read.
    async fn labels(&self, _runs: Option<&[RunId]>) -> Result<BTreeMap<RunId, RunLabel>, JournalError> {
        Ok(BTreeMap::new())
    }

    /// The messages of hooks that are not delivered, oldest first. A journal without an outbox has none.
    ///
    /// # Errors
    /// When the journal cannot be read.
    async fn outbox(&self) -> Result<Vec<QueuedMessage>, JournalError> {
        Ok(Vec::new())
    }

    /// Claims a message for delivery: no other process delivers it until the result is dropped. `None`: it is
    /// delivered, or another process delivers it now.
    ///
    /// # Errors
    /// When the journal cannot be read, or the claim cannot be made.
    async fn claim_message(&self, _message: &str) -> Result<Option<ClaimedMessage>, JournalError> {
        Ok(None)
    }

    /// Records the result of a delivery.
    ///
    /// # Errors
    /// When the journal cannot be written. The message is then delivered again.
    async fn settle_message(&self, _message: &str, _delivered: &DeliveryResult) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Appends to one run. A run has at most one writer at a time. Dropping it lets another process take over.
#[async_trait]
pub trait RunWriter: Send + fmt::Debug {
    /// Commits these messages of hooks together with the last of the entries that are appended next. If that entry is
    /// not durable, they are dropped. A journal without an outbox drops them.
    fn announce(&mut self, _messages: Vec<HookMessage>) {}

    /// Marks a request that was made to this run in another process as carried out by the entries that are appended
    /// next. It is answered in the same commit. False: it is answered already, was withdrawn, or is among those
    /// entries.
    ///
    /// # Errors
    /// When the journal cannot be written.
    async fn carry_out(&mut self, _request: &Arc<str>) -> Result<bool, JournalError> {
        Ok(false)
    }

    /// Answers such a request with the refusal of the run.
    ///
    /// # Errors
    /// When the journal cannot be written.
    async fn refuse(&mut self, _request: &Arc<str>) -> Result<(), JournalError> {
        Ok(())
    }

    /// Appends an entry and makes it durable, and all entries before it at least as durable. Its number must follow the
    /// last one's.
    ///
    /// # Errors
    /// When it is not durable. The caller must then do nothing that follows from it.
    async fn append(&mut self, entry: &Arc<Entry>, durability: Durability) -> Result<(), JournalError>;

    /// Appends entries as if one after another. The caller starts nothing and reports nothing until all of them are
    /// durable, so a journal may commit them together.
    ///
    /// # Errors
    /// How many of them are durable, from the first on, and why the next one is not.
    async fn append_all(
        &mut self,
        entries: &[Arc<Entry>],
        durability: Durability,
    ) -> Result<(), (usize, JournalError)> {
        for (appended, entry) in entries.iter().enumerate() {
            self.append(entry, durability).await.map_err(|error| (appended, error))?;
        }
        Ok(())
    }
}

/// What an entry has to survive before the run does what it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// The end of the process, also by `kill -9`.
    Committed,
    /// A power failure too.
    Synced,
}

impl Durability {
    /// The durability that the entry of an event needs, which was just applied to `run`. [`Synced`](Self::Synced) for
    /// an effect that begins or ended, for answers and instructions of people, for a wait for a person, and for the
    /// end.
    pub fn of(event: &EventKind, run: &Run) -> Self {
        let is_effect_or_person = match event {
            // While a reply is being received, only reads run.
            EventKind::ToolFinished { .. } if matches!(run.phase(), Phase::Calling { .. }) => false,
            EventKind::ToolStarted { key, .. } | EventKind::ToolFinished { key, .. } => changes(run, key),
            EventKind::PersonAnswered { .. }
            | EventKind::ApprovedBy { .. }
            | EventKind::Instruction { .. }
            | EventKind::RunWaits { .. } => true,
            _ => false,
        };
        let rests =
            matches!(run.phase(), Phase::WaitingForPerson { .. } | Phase::Saving { .. } | Phase::Done { .. });
        if is_effect_or_person || rests { Self::Synced } else { Self::Committed }
    }
}

/// Whether the action under a key may change something; yes where its tool is not known.
fn changes(run: &Run, key: &CommandKey) -> bool {
    let action = run.actions().iter().rev().find(|action| action.key == *key);
    let tool = action.and_then(|action| run.spec().tool(action.tool_name()));
    tool.is_none_or(|tool| !tool.effect.is_read())
}

/// The data with which a run is created in a journal.
#[derive(Clone, Debug)]
pub struct Header {
    /// The run's id.
    pub run: RunId,
    /// Wall-clock time of its start, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
    /// The work item's id, for lists.
    pub item: Arc<str>,
    /// The work item's title, for lists.
    pub title: Arc<str>,
    /// The spec that the run follows.
    pub spec: Arc<RunSpec>,
    /// The digest of the tool manifest.
    pub manifest_hash: Digest,
    /// The tool manifest as JSON.
    pub manifest: Arc<str>,
    /// How a program can rebuild the runner of this run. `None`: it cannot. The journal does not read it.
    pub origin: Option<Arc<str>>,
    /// The caller's idempotency key. A journal has one run of each. `None`: the caller gave none.
    pub request_key: Option<Arc<str>>,
}

/// One event, and what the core decided when it was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The sequence number, from 0 without gaps.
    pub seq: u64,
    /// The event.
    pub event: Event,
    /// The decisions. Empty if there were none.
    pub notes: Vec<Note>,
}

/// A run as its journal holds it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The spec that the run follows.
    pub spec: Arc<RunSpec>,
    /// The tool manifest as JSON.
    pub manifest: Arc<str>,
    /// The [`Header`]'s `origin`. `None`: it has none.
    pub origin: Option<Arc<str>>,
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// Why the run can be read and not resumed: the journal's seal is missing, or counts more entries. `None`: it is
    /// verified.
    pub unverified: Option<Arc<str>>,
    /// Whether the run was imported. The journal verifies it only from the import on, and it is not resumed.
    pub imported: bool,
    /// Milliseconds since the last entry, by the machine's clock since its start. `None`: the machine was restarted
    /// since, or the time is not known.
    pub since_last_ms: Option<u64>,
}

impl Recorded {
    /// The present instant by the run's clock. Setting the wall clock back does not turn it back: it is at least the
    /// instant of the last entry plus the time since then by the machine's monotonic clock.
    pub fn now(&self) -> Millis {
        let Some(last) = self.entries.last().map(|entry| entry.event.at) else { return Millis(0) };
        // A fork counts from the start of its parent.
        let started = self.entries.first().and_then(|first| match &first.event.kind {
            EventKind::Started(started) => Some((first.event.at, started.unix_ms)),
            _ => None,
        });
        let since =
            |(at, unix_ms_of): (Millis, u64)| at.plus(unix_ms(SystemTime::now()).saturating_sub(unix_ms_of));
        let by_wall = started.map_or(Millis(0), since);
        by_wall.max(last.plus(self.since_last_ms.unwrap_or_default()))
    }
}

/// A wall time for people, in UTC.
fn time(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| unix_ms.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Milliseconds since 1970; 0 for a clock that is set to a time before.
pub fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLine {
    /// The run's id.
    pub run: RunId,
    /// Wall-clock time of its start, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
    /// The domain's name.
    pub domain: Arc<str>,
    /// The work item's id.
    pub item: Arc<str>,
    /// The work item's title.
    pub title: Arc<str>,
    /// How many entries there are.
    pub entries: u64,
    /// Why it stopped. `None`: it has not.
    pub stop: Option<StopReason>,
    /// Whether a process is writing it. Always false for a run that has stopped.
    pub is_written: bool,
    /// Whether it was imported: it can be read, and not be resumed.
    pub is_imported: bool,
    /// The [`Header`]'s `origin`. `None`: it has none.
    pub origin: Option<Arc<str>>,
    /// What is wrong with the stored run; the other fields are then unreliable. `None`: nothing is.
    pub trouble: Option<Arc<str>>,
}

/// Why a journal cannot be read or written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file has a later format.
    #[error("{path}: written by a newer loopgate (format {found}, this one knows {known}); use that version, or another file with --journal", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The format that this program reads and writes.
        known: u32,
    },
    /// The file has an earlier format, from before the first release.
    #[error("{path}: written by an older loopgate (format {found}, this one reads {known}); use another file with --journal", path = path.display())]
    Older {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The format that this program reads and writes.
        known: u32,
    },
    /// Another process writes this run.
    #[error(
        "run {run} is being written by another process (pid {pid}); wait for it, or stop it with `loopgate stop {run}`"
    )]
    Busy {
        /// The run.
        run: RunId,
        /// The id of that process.
        pid: u32,
    },
    /// Another process runs this batch.
    #[error("another process works this batch off (pid {pid}); wait for it, or stop it")]
    BatchBusy {
        /// The id of that process.
        pid: u32,
    },
    /// Another process serves this journal's queue.
    #[error("another server uses this journal (pid {pid}); stop it, or serve another file with --journal")]
    QueueBusy {
        /// The id of that process.
        pid: u32,
    },
    /// The journal has no run with this id.
    #[error("no run {run} in {place}; `loopgate runs` lists them")]
    Unknown {
        /// The id.
        run: RunId,
        /// The journal.
        place: String,
    },
    /// The run was deleted by `loopgate journal prune`, and the journal says so.
    #[error(
        "run {run} was pruned at {} UTC; import an export that holds it (`loopgate journal import FILE`), or begin a new run, with another key if it had one", time(*unix_ms)
    )]
    Pruned {
        /// The run.
        run: RunId,
        /// When, in milliseconds since 1970 (UTC).
        unix_ms: u64,
    },
    /// A run of an export cannot be imported.
    #[error("run {run}: {message}")]
    NotTakenIn {
        /// The run.
        run: RunId,
        /// Why not, and what to do.
        message: String,
    },
    /// The run has not stopped, so a person cannot judge it yet.
    #[error("run {run} has not ended; label it when it has")]
    NotEnded {
        /// The run.
        run: RunId,
    },
    /// The run is not pruned now.
    #[error("run {run} is not pruned: {why}")]
    Kept {
        /// The run.
        run: RunId,
        /// Why not.
        why: prune::KeepReason,
    },
    /// Nothing was recorded.
    #[error(
        "run {run} cannot be found again: nothing was written down; give the loop or the agent a journal (with_journal)"
    )]
    NotKept {
        /// The name.
        run: RunId,
    },
    /// The journal already has a run with this id.
    #[error("run {run} exists already in {place}")]
    Exists {
        /// The id.
        run: RunId,
        /// The journal.
        place: String,
    },
    /// The journal already has a run with this request key.
    #[error(
        "the key `{key}` is of run {run} already; `loopgate show {run}` shows it, and another request needs another key"
    )]
    KeyTaken {
        /// The caller's key.
        key: Arc<str>,
        /// The run that has it.
        run: RunId,
    },
    /// What is stored cannot be read.
    #[error("run {run}, entry {seq}: {message}")]
    Corrupt {
        /// The run.
        run: RunId,
        /// The entry's sequence number.
        seq: u64,
        /// What is wrong.
        message: String,
    },
    /// An entry is intact, and has something of another version of the program that this one does not know.
    #[error(
        "run {run}, entry {seq}: it is whole, and this version of loopgate does not know it ({message}); use the version that wrote it"
    )]
    UnknownEntry {
        /// The run.
        run: RunId,
        /// The entry's sequence number.
        seq: u64,
        /// What is not known.
        message: String,
    },
    /// The stored run can be read, and the journal cannot verify it.
    #[error("run {run} cannot be resumed: {message}")]
    Unverified {
        /// The run.
        run: RunId,
        /// What is missing or does not match, and what to do.
        message: String,
    },
    /// An entry is larger than the journal accepts.
    #[error(
        "run {run}, entry {seq}: {bytes} bytes are more than the journal takes ({limit}); give a smaller work item, or let the tool return less"
    )]
    TooLarge {
        /// The run.
        run: RunId,
        /// The entry's sequence number.
        seq: u64,
        /// The size of the entry as JSON, in bytes.
        bytes: u64,
        /// The limit of the journal, in bytes.
        limit: u64,
    },
    /// A value with which the run would begin would not be read back from the journal unchanged.
    #[error("run {run} did not begin: its {what} would not be read back from the journal as it is{message}")]
    NotReadBack {
        /// The run.
        run: RunId,
        /// Which value.
        what: &'static str,
        /// Why not, behind a colon. Empty: it would be read as another one.
        message: String,
    },
    /// The storage failed.
    #[error("{place}: {message}")]
    Storage {
        /// The journal.
        place: String,
        /// The storage's message.
        message: String,
    },
}
