//! Journals: the append-only list of a run's events and notes, durable before anything follows from them.

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

/// What was asked of a server, by whom, and what came of it.
pub mod audit {
    pub use crate::audited::{AuditAction, AuditEntry, AuditFilter, AuditLine, AuditReport, AuditResult};
}

/// Lists of runs, their numbers, and what changes in them.
pub mod list {
    pub use crate::stored::{
        JournalChange, JournalChanges, JournalStats, ListChanges, ListPosition, RunQuery, RunSummary,
        SearchTerms,
    };
}

/// What a person says a run was worth.
pub mod label {
    pub use crate::stored::{Label, RunLabel};
}

/// Evals that were kept in a journal.
pub mod evals {
    pub use crate::stored::KeptEval;
}

/// Deleting old runs: which may go, and which are kept.
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

/// Runs out of a journal and into one, and what can be read of a damaged one.
pub mod transfer {
    pub use crate::stored::{EXPORT_VERSION, Exported, ImportedRuns, LostEntries, NotImported, SalvagedRun};
}

/// Which program continues a run that another one began.
pub mod versions {
    pub use crate::replay::{
        begun_by_newer, check_version, not_newer, not_on_engine, own, replay_seeing, taken_over,
    };
}

/// Where runs are recorded.
#[async_trait]
pub trait Journal: Send + Sync + fmt::Debug {
    /// Opens a new run for writing, together with its first entry: either both are durable or neither is there. Spec and
    /// manifest are stored once, by their hashes.
    ///
    /// # Errors
    /// When a run of this id or of this request key exists, or the journal cannot be written.
    async fn create(&self, header: &Header, first: &Arc<Entry>) -> Result<Box<dyn RunWriter>, JournalError>;

    /// The same, and these messages of hooks are committed with the first entry. A journal without an outbox keeps none of
    /// them.
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

    /// Takes a run over for writing: everything that was written, and a writer that continues behind it.
    ///
    /// # Errors
    /// When there is no such run, another process writes it, or the journal cannot vouch for what it holds of it.
    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError>;

    /// Everything that was written of a run.
    ///
    /// # Errors
    /// When there is no such run, or what is stored cannot be read.
    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError>;

    /// The run that has this request key. `None`: none has. A journal that keeps no keys has none.
    ///
    /// # Errors
    /// When the journal cannot be read.
    async fn run_of_key(&self, _key: &str) -> Result<Option<RunId>, JournalError> {
        Ok(None)
    }

    /// A line for every run, newest first. A run that cannot be read is a line as well, which says so.
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

    /// A message that nothing else delivers until the result is dropped. `None`: it is delivered, or another process
    /// delivers it now.
    ///
    /// # Errors
    /// When the journal cannot be read, or the claim cannot be made.
    async fn claim_message(&self, _message: &str) -> Result<Option<ClaimedMessage>, JournalError> {
        Ok(None)
    }

    /// Records what became of a delivery.
    ///
    /// # Errors
    /// When the journal cannot be written. The message is then delivered again.
    async fn settle_message(&self, _message: &str, _delivered: &DeliveryResult) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Appends to one run. There is one writer a run at a time; dropping it lets another take over.
#[async_trait]
pub trait RunWriter: Send + fmt::Debug {
    /// Commits these messages of hooks together with the last of the entries that are appended next: if that one is not
    /// durable, they are dropped. A journal without an outbox keeps none of them.
    fn announce(&mut self, _messages: Vec<HookMessage>) {}

    /// Takes a request that was made to this run in another process: the entries that are appended next carry it out, and it
    /// is answered in the same commit. False: it is answered already, was withdrawn, or is among those entries.
    ///
    /// # Errors
    /// When the journal cannot be written.
    async fn carry_out(&mut self, _request: &Arc<str>) -> Result<bool, JournalError> {
        Ok(false)
    }

    /// Answers such a request: the run does not accept it.
    ///
    /// # Errors
    /// When the journal cannot be written.
    async fn refuse(&mut self, _request: &Arc<str>) -> Result<(), JournalError> {
        Ok(())
    }

    /// Makes an entry durable, and all entries before it at least as much. Its number must follow the last one's.
    ///
    /// # Errors
    /// When it is not durable: then nothing may follow from it.
    async fn append(&mut self, entry: &Arc<Entry>, durability: Durability) -> Result<(), JournalError>;

    /// Makes entries durable that follow each other, as if they were appended one after the other. The caller starts
    /// nothing and tells of nothing until all of them are durable, so a journal may make them durable at once.
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
    /// What the entry of an event asks for that was just applied to `run`: an effect that begins or ended, what a person
    /// said, a wait for a person and the end survive a power failure.
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

/// What a run is opened with in a journal.
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
    /// Whether the run was imported: the journal vouches for what it is since then, and it is not resumed.
    pub imported: bool,
    /// Milliseconds since the last entry, by the machine's clock since its start. `None`: the machine was restarted
    /// since, or the time is not known.
    pub since_last_ms: Option<u64>,
}

impl Recorded {
    /// The instant by the run's clock. Setting the wall clock back does not take the run's time back: it counts at
    /// least what the last entry says, and what has passed since then by the clock that cannot be set.
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
    /// Another process works this batch off.
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
    /// A run of an export is not taken in.
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
    /// An entry is whole, and another version of the program wrote what this one does not know.
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
    /// An entry is larger than the journal takes.
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
    /// What a run would begin with cannot be stored so that it is read back as it is.
    #[error("run {run} did not begin: its {what} would not be read back from the journal as it is{message}")]
    NotReadBack {
        /// The run.
        run: RunId,
        /// What of it.
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
