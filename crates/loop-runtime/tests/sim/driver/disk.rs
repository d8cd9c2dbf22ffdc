//! A simulated disk: a journal in memory that fails, hangs where a process dies, and remembers what it acknowledged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use loop_core::types::{CommandKey, RunId};
use loop_core::{EventKind, Note, Verdict};
use loop_runtime::journal::{
    Durability, Entry, Header, Journal, JournalError, MemoryJournal, Recorded, RunLine, RunWriter,
};
use tokio::sync::Notify;

use super::bugs::Bug;

/// Where the process dies: at this entry, before it is written or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiesAt {
    pub(crate) seq: u64,
    pub(crate) is_written: bool,
}

/// What happened, for people who read how a simulation failed.
#[derive(Clone, Debug)]
pub(crate) enum Happened {
    /// An entry was acknowledged.
    Entry(Arc<Entry>),
    /// The entry with this number could not be written.
    NotWritten(u64),
    /// The process died.
    Died,
    /// So many entries are resumed by themselves.
    Prefix(usize),
}

#[derive(Debug, Default)]
struct Plan {
    dies_at: Option<DiesAt>,
    fails_at: Option<u64>,
}

#[derive(Debug, Default)]
struct Shared {
    inner: Mutex<MemoryJournal>,
    header: Mutex<Option<Header>>,
    plan: Mutex<Plan>,
    acknowledged: Mutex<Vec<Arc<Entry>>>,
    happened: Mutex<Vec<Happened>>,
    died: Notify,
    /// How many drivers may write. A driver of an earlier epoch must not.
    epoch: AtomicU64,
}

/// The disk. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Shared>, Option<Bug>);

impl Disk {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self(Arc::default(), bug)
    }

    /// The next fault: the process dies at an entry, or writing one fails.
    pub(crate) fn plan(&self, dies_at: Option<DiesAt>, fails_at: Option<u64>) {
        *self.0.plan.lock().unwrap() = Plan { dies_at, fails_at };
    }

    /// Waits until the process dies.
    pub(crate) async fn died(&self) {
        self.0.died.notified().await;
    }

    /// What was acknowledged, in order.
    pub(crate) fn acknowledged(&self) -> Vec<Arc<Entry>> {
        self.0.acknowledged.lock().unwrap().clone()
    }

    /// What happened, in order.
    pub(crate) fn happened(&self) -> Vec<Happened> {
        self.0.happened.lock().unwrap().clone()
    }

    /// Something happens.
    pub(crate) fn happens(&self, what: Happened) {
        self.0.happened.lock().unwrap().push(what);
    }

    fn acknowledge(&self, entry: &Arc<Entry>) {
        self.0.acknowledged.lock().unwrap().push(Arc::clone(entry));
        self.happens(Happened::Entry(Arc::clone(entry)));
    }

    /// The spec of the run.
    pub(crate) fn spec(&self) -> Option<Arc<loop_core::RunSpec>> {
        self.0.header.lock().unwrap().as_ref().map(|header| Arc::clone(&header.spec))
    }

    /// How many starts of this action were acknowledged.
    pub(crate) fn starts_of(&self, key: &CommandKey) -> usize {
        let entries = self.0.acknowledged.lock().unwrap();
        let is_it = |entry: &&Arc<Entry>| matches!(&entry.event.kind, EventKind::ToolStarted { key: of, .. } if of == key);
        entries.iter().filter(is_it).count()
    }

    /// Whether a verdict that lets this call run was acknowledged.
    pub(crate) fn allows(&self, tool: &str, target: &str) -> bool {
        let entries = self.0.acknowledged.lock().unwrap();
        let fits = |note: &Note| match note {
            Note::ActionJudged(action) => {
                action.verdict == Verdict::Run
                    && action.tool_name() == tool
                    && action.parameters.contains(target)
            }
            _ => false,
        };
        entries.iter().any(|entry| entry.notes.iter().any(fits))
    }

    /// The disk after a process died: with the planted bug, the last acknowledged entry is not on it.
    pub(crate) async fn after_death(&self, run: &RunId) {
        let entries = self.acknowledged();
        // What was lost once may have been written anew: then the list is not a journal any more.
        if (0..).zip(&entries).any(|(n, entry)| entry.seq != n) {
            return;
        }
        let kept = match self.1 {
            Some(Bug::AcknowledgedIsLost) if entries.len() > 2 => &entries[..entries.len() - 1],
            Some(Bug::EntryIsAltered) if entries.len() > 3 => {
                let mut altered = (*entries[entries.len() - 1]).clone();
                altered.notes.clear();
                altered.event.at = altered.event.at.plus(1);
                let mut all = entries.clone();
                all.pop();
                all.push(Arc::new(altered));
                return self.rewrite(run, &all).await;
            }
            _ => return,
        };
        self.rewrite(run, kept).await;
    }

    async fn rewrite(&self, _: &RunId, entries: &[Arc<Entry>]) {
        let header = self.0.header.lock().unwrap().clone();
        let (Some(header), [first, rest @ ..]) = (header, entries) else { return };
        let journal = MemoryJournal::new();
        let mut writer = journal.create(&header, first).await.unwrap();
        for entry in rest {
            writer.append(entry, Durability::Committed).await.unwrap();
        }
        drop(writer);
        *self.0.inner.lock().unwrap() = journal;
    }

    /// A disk with the first entries of a run.
    pub(crate) async fn with_prefix(recorded: &Recorded, count: usize, run: &RunId, from: &Self) -> Self {
        let disk = Self::new(None);
        *disk.0.header.lock().unwrap() = from.0.header.lock().unwrap().clone();
        let entries: Vec<Arc<Entry>> = recorded.entries.iter().take(count).cloned().map(Arc::new).collect();
        disk.rewrite(run, &entries).await;
        *disk.0.acknowledged.lock().unwrap() = entries;
        disk
    }

    fn inner(&self) -> MemoryJournal {
        self.0.inner.lock().unwrap().clone()
    }

    /// Writing takes time. The process may die before the entry is written, and writing may fail.
    async fn admit(&self, seq: u64) -> Result<(), JournalError> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let (dies, fails) = {
            let plan = self.0.plan.lock().unwrap();
            let dies = plan.dies_at.is_some_and(|at| at.seq <= seq && !at.is_written);
            (dies, plan.fails_at.is_some_and(|at| at <= seq))
        };
        if dies {
            self.die().await;
        }
        if fails {
            self.happens(Happened::NotWritten(seq));
            let message = "no space left on device".to_owned();
            return Err(JournalError::Storage { place: "a full disk".to_owned(), message });
        }
        Ok(())
    }

    /// The entry is on the disk. The process may die before it hears of that.
    async fn written(&self, entry: &Arc<Entry>) {
        let dies = {
            let plan = self.0.plan.lock().unwrap();
            plan.dies_at.is_some_and(|at| at.seq <= entry.seq && at.is_written)
        };
        self.acknowledge(entry);
        if dies {
            self.die().await;
        }
    }

    async fn die(&self) {
        self.0.plan.lock().unwrap().dies_at = None;
        self.0.died.notify_one();
        std::future::pending::<()>().await;
    }
}

#[derive(Debug)]
struct Writer {
    disk: Disk,
    inner: Box<dyn RunWriter>,
    epoch: u64,
}

#[async_trait]
impl Journal for Disk {
    async fn create(&self, header: &Header, first: &Arc<Entry>) -> Result<Box<dyn RunWriter>, JournalError> {
        self.admit(0).await?;
        *self.0.header.lock().unwrap() = Some(header.clone());
        let inner = self.inner().create(header, first).await?;
        self.acknowledge(first);
        let epoch = self.0.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Box::new(Writer { disk: self.clone(), inner, epoch }))
    }

    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError> {
        let (mut recorded, inner) = self.inner().resume(run).await?;
        // The clock of the disk: a driver was away for a second.
        recorded.since_last_ms = Some(1_000);
        let epoch = self.0.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((recorded, Box::new(Writer { disk: self.clone(), inner, epoch })))
    }

    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError> {
        self.inner().read(run).await
    }

    async fn runs(&self) -> Result<Vec<RunLine>, JournalError> {
        self.inner().runs().await
    }
}

#[async_trait]
impl RunWriter for Writer {
    async fn append(&mut self, entry: &Arc<Entry>, durability: Durability) -> Result<(), JournalError> {
        self.disk.admit(entry.seq).await?;
        if self.epoch != self.disk.0.epoch.load(Ordering::Relaxed) {
            let message = "a driver of an earlier epoch writes".to_owned();
            return Err(JournalError::Storage { place: "the disk".to_owned(), message });
        }
        if self.disk.1 == Some(Bug::AcknowledgedUnwritten) && entry.seq % 7 == 6 {
            self.disk.written(entry).await;
            return Ok(());
        }
        self.inner.append(entry, durability).await?;
        self.disk.written(entry).await;
        Ok(())
    }
}
