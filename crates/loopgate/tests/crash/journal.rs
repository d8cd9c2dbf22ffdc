//! A journal that ends its own process, or fails, at an exact append.

use std::fmt;
use std::io::Write as _;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use loop_core::types::{Digest, RunId};
use loop_runtime::journal::{
    Durability, Entry, Header, Journal, JournalError, Recorded, RunLine, RunWriter, StoredJournal,
};
use rustix::process::{Signal, getpid, kill_process};

/// Where a process is ended, or its journal fails. Appends and requests are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPoint {
    /// Nowhere.
    Never,
    /// Before an entry is handed to the journal.
    Before(u64),
    /// After an entry is durable, before the driver learns of it.
    After(u64),
    /// When a request of a tool, or of saving, has reached its server and has no answer.
    Request(u64),
    /// From this append on the journal fails.
    Fail(u64),
    /// This append fails, and the next ones would not.
    FailOnce(u64),
    /// So many microseconds after the process was started.
    Timer(u64),
}

/// A fault that is put into the child, so that the harness is seen to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// None.
    Nothing,
    /// An entry is acknowledged before it is written.
    EarlyAck,
    /// Each effect of the tool `pay` is requested twice.
    Twice,
    /// A process is started that stays.
    Orphan,
}

impl Plant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::EarlyAck => "early-ack",
            Self::Twice => "twice",
            Self::Orphan => "orphan",
        }
    }

    pub fn of(name: &str) -> Self {
        let all = [Self::Nothing, Self::EarlyAck, Self::Twice, Self::Orphan];
        all.into_iter().find(|plant| plant.name() == name).unwrap()
    }
}

impl CrashPoint {
    /// When a process is ended, in microseconds after its start. `None`: at another place.
    pub fn micros(self) -> Option<u64> {
        if let Self::Timer(micros) = self { Some(micros) } else { None }
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never:0"),
            Self::Before(n) => write!(f, "before:{n}"),
            Self::After(n) => write!(f, "after:{n}"),
            Self::Request(n) => write!(f, "request:{n}"),
            Self::Fail(n) => write!(f, "fail:{n}"),
            Self::FailOnce(n) => write!(f, "fail-once:{n}"),
            Self::Timer(n) => write!(f, "timer:{n}"),
        }
    }
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a place; write it as `before:3`");
        let (name, number) = text.split_once(':').ok_or_else(wrong)?;
        let n = number.parse().map_err(|_| wrong())?;
        Ok(match name {
            "never" => Self::Never,
            "before" => Self::Before(n),
            "after" => Self::After(n),
            "request" => Self::Request(n),
            "fail" => Self::Fail(n),
            "fail-once" => Self::FailOnce(n),
            "timer" => Self::Timer(n),
            _ => return Err(wrong()),
        })
    }
}

/// Ends this process as `kill -9` does.
pub fn die() -> ! {
    kill_process(getpid(), Signal::KILL).unwrap();
    loop {
        std::thread::park();
    }
}

/// The hash of an entry, as the parent computes it of what it reads.
pub fn hash_of(entry: &Entry) -> String {
    Digest::of("crash", &serde_json::to_vec(entry).unwrap()).to_string()
}

/// Reports a line to the parent. What is in the pipe stays there when this process is killed.
pub fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// The journal in a file, which acknowledges every durable entry to the parent before the driver continues.
#[derive(Clone, Debug)]
pub struct CrashJournal {
    inner: StoredJournal,
    place: CrashPoint,
    plant: Plant,
    appends: Arc<AtomicU64>,
}

impl CrashJournal {
    pub fn new(inner: StoredJournal, place: CrashPoint, plant: Plant) -> Self {
        Self { inner, place, plant, appends: Arc::default() }
    }

    /// How many entries were appended, or would have been.
    pub fn appends(&self) -> u64 {
        self.appends.load(Ordering::Relaxed)
    }

    /// Counts these entries; ends the process or fails where that is the place.
    fn before(&self, run: &RunId, entries: &[Arc<Entry>]) -> Result<u64, JournalError> {
        let count = entries.len() as u64;
        let first = self.appends.fetch_add(count, Ordering::Relaxed);
        let is_within = |n: u64| (first..first + count).contains(&n);
        if self.plant == Plant::EarlyAck {
            self.acknowledge(run, entries);
        }
        match self.place {
            CrashPoint::Before(n) if is_within(n) => die(),
            CrashPoint::FailOnce(n) if is_within(n) => Err(failure()),
            CrashPoint::Fail(n) if first + count > n => Err(failure()),
            _ => Ok(first),
        }
    }

    /// What follows from durable entries: the place behind them, and their acknowledgement.
    fn after(&self, run: &RunId, first: u64, entries: &[Arc<Entry>]) {
        if matches!(self.place, CrashPoint::After(n) if (first..first + entries.len() as u64).contains(&n)) {
            die();
        }
        if self.plant != Plant::EarlyAck {
            self.acknowledge(run, entries);
        }
    }

    fn acknowledge(&self, run: &RunId, entries: &[Arc<Entry>]) {
        for entry in entries {
            report(&format!("ack {run} {} {}", entry.seq, hash_of(entry)));
        }
    }
}

fn failure() -> JournalError {
    let message = "no space left on device".to_owned();
    JournalError::Storage { place: "a full disk".to_owned(), message }
}

#[derive(Debug)]
struct Writer {
    journal: CrashJournal,
    run: RunId,
    inner: Box<dyn RunWriter>,
}

#[async_trait]
impl Journal for CrashJournal {
    async fn create(&self, header: &Header, first: &Arc<Entry>) -> Result<Box<dyn RunWriter>, JournalError> {
        let entries = std::slice::from_ref(first);
        let at = self.before(&header.run, entries)?;
        let inner = self.inner.create(header, first).await?;
        self.after(&header.run, at, entries);
        Ok(Box::new(Writer { journal: self.clone(), run: header.run.clone(), inner }))
    }

    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError> {
        let (recorded, inner) = self.inner.resume(run).await?;
        Ok((recorded, Box::new(Writer { journal: self.clone(), run: run.clone(), inner })))
    }

    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError> {
        self.inner.read(run).await
    }

    async fn runs(&self) -> Result<Vec<RunLine>, JournalError> {
        self.inner.runs().await
    }
}

#[async_trait]
impl RunWriter for Writer {
    async fn append(&mut self, entry: &Arc<Entry>, durability: Durability) -> Result<(), JournalError> {
        let entries = std::slice::from_ref(entry);
        let at = self.journal.before(&self.run, entries)?;
        self.inner.append(entry, durability).await?;
        self.journal.after(&self.run, at, entries);
        Ok(())
    }

    async fn append_all(
        &mut self,
        entries: &[Arc<Entry>],
        durability: Durability,
    ) -> Result<(), (usize, JournalError)> {
        let at = self.journal.before(&self.run, entries).map_err(|error| (0, error))?;
        self.inner.append_all(entries, durability).await?;
        self.journal.after(&self.run, at, entries);
        Ok(())
    }
}
