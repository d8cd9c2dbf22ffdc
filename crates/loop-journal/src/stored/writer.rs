//! The thread that writes: one for all runs that this process writes into a journal.
//!
//! Runs hand their entries over and wait. All that waits when the thread is free is committed together, and synced if one of
//! the entries asks for it:
//!
//! ```text
//! run 1 ──┐
//! run 2 ──┼──► queue ──► group: begin, append, append, …, commit, heads ──► each run is notified of its own entries
//! run 3 ──┘
//! ```
//!
//! A run hands its next entries over when the last ones are committed, so no group changes their order. If an entry cannot be
//! appended, the group is rolled back and each run's entries are committed by themselves: one run fails, not all. If the
//! commit fails, nothing of the group is there, and all of them fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::sql::{Connection, Purpose};
use loop_core::types::RunId;
use tokio::sync::oneshot;

use super::fault::{self, Fault};
use super::heads::HeadFile;
use super::locks::RunLock;
use super::rows::{self, Claim, Opening, RunRow, Text};
use super::{Files, outbox, remote, schema};
use crate::outbox::HookMessage;
use crate::{Durability, JournalError};

/// What a writer of a run holds. What is handed over holds it too, so that no other process takes the run over before it
/// is done.
#[derive(Debug)]
pub(super) struct OwnedRun {
    pub(super) claim: Claim,
    pub(super) head: HeadFile,
    /// Gives the run up when it is dropped.
    pub(super) _lock: RunLock,
}

/// Entries of one run that follow each other.
#[derive(Debug)]
pub(super) struct RunAppend {
    pub(super) held: Arc<OwnedRun>,
    pub(super) follows: AppendAfter,
    pub(super) entries: Vec<Text>,
    /// Messages of hooks that these entries cause.
    pub(super) messages: Vec<HookMessage>,
    /// The ids of requests from other processes that these entries carry out.
    pub(super) requests: Vec<Arc<str>>,
    pub(super) durability: Durability,
}

/// What entries follow.
#[derive(Debug)]
pub(super) enum AppendAfter {
    /// The beginning of a new run.
    Beginning(Box<Opening>),
    /// Entries. `None`: the run's row has to be read.
    Row(Option<Box<RunRow>>),
}

/// What comes of a change: the run's row behind it.
pub(super) type CommitResult = Result<Box<RunRow>, JournalError>;

/// What comes of a change, and the texts of its entries. They are freed where they were allocated: the allocator gives memory
/// out again without a lock only to the thread that freed it.
type AppendResult = (CommitResult, Vec<Text>);

/// The thread, which begins with the first change and ends with this value.
#[derive(Debug)]
pub(super) struct WriterThread {
    files: Arc<Files>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
}

type Alone = dyn FnOnce(&Files, Result<&mut WriteConnection, JournalError>) + Send;

enum Job {
    Change(WaitingAppend),
    /// Work that has the connection to itself.
    Alone(Box<Alone>),
}

/// A change, and who waits for it.
struct WaitingAppend {
    change: RunAppend,
    reply: oneshot::Sender<AppendResult>,
}

impl WaitingAppend {
    fn tell(self, committed: CommitResult) {
        let Self { mut change, reply } = self;
        let texts = std::mem::take(&mut change.entries);
        // If its caller has gone, this gives the run up. It does so before another caller can look.
        drop(change);
        // A caller that no longer waits finds it when the run is read.
        _ = reply.send((committed, texts));
    }
}

impl WriterThread {
    pub(super) fn new(files: Arc<Files>) -> Self {
        Self { files, running: Mutex::new(None) }
    }

    /// Commits a change together with what other runs hand over at the same time. A caller that no longer waits changes
    /// nothing: the change is committed as a whole or not at all.
    pub(super) async fn commit(&self, change: RunAppend) -> CommitResult {
        let (reply, committed) = oneshot::channel();
        self.hand_over(Job::Change(WaitingAppend { change, reply }))?;
        committed.await.map_or_else(|_| Err(self.cut_off()), |(committed, _)| committed)
    }

    /// Does `work` with the connection that writes.
    pub(super) async fn alone<T, W>(&self, work: W) -> Result<T, JournalError>
    where
        T: Send + 'static,
        W: FnOnce(&Files, &mut WriteConnection) -> Result<T, Fault> + Send + 'static,
    {
        let (reply, done) = oneshot::channel();
        let work = move |files: &Files, open: Result<&mut WriteConnection, JournalError>| {
            let result =
                open.and_then(|open| work(files, open).map_err(|fault| fault.of_a_write(&files.path)));
            // An error here means that the caller no longer waits.
            _ = reply.send(result);
        };
        self.hand_over(Job::Alone(Box::new(work)))?;
        done.await.unwrap_or_else(|_| Err(self.cut_off()))
    }

    /// The same with work that comes to the same if it is done twice. If the connection to a server breaks meanwhile, it is
    /// done once more, whether it was committed or not.
    pub(super) async fn alone_again<T, W>(&self, work: W) -> Result<T, JournalError>
    where
        T: Send + 'static,
        W: FnOnce(&Files, &mut WriteConnection) -> Result<T, Fault> + Clone + Send + 'static,
    {
        self.alone(move |files, open| {
            let again = files.is_shared().then(|| work.clone());
            match (work(files, open), again) {
                (Err(fault), Some(again)) if fault.is_disconnected() => {
                    files.revive(&mut open.connection)?;
                    again(files, open)
                }
                (done, _) => done,
            }
        })
        .await
    }

    fn hand_over(&self, job: Job) -> Result<(), JournalError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let to = match &mut *running {
            Some(running) => running,
            none => none.insert(Running::start(&self.files)?),
        };
        to.jobs.send(job).map_err(|_| self.cut_off())
    }

    fn cut_off(&self) -> JournalError {
        fault::storage(&self.files.path, "the work was cut off")
    }
}

impl Running {
    fn start(files: &Arc<Files>) -> Result<Self, JournalError> {
        let ((jobs, queue), files) = (channel(), Arc::clone(files));
        let path = files.path.clone();
        let thread = thread::Builder::new().name("loopgate-journal".to_owned()).spawn(move || {
            let mut committer = Committer { files: &files, open: None };
            while let Some(group) = next_group(&queue) {
                committer.carry_out(group);
            }
        });
        Ok(Self { jobs, thread: thread.map_err(|error| Fault::from(error).at(&path))? })
    }
}

impl Drop for WriterThread {
    /// Waits until all that was handed over is done and the file is closed.
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Running { jobs, thread }) = running else { return };
        drop(jobs);
        // Waking a run may drop the journal's last owner in the thread itself, which cannot wait for its own end.
        if thread.thread().id() != thread::current().id() {
            // It panics nowhere but in a panic hook.
            _ = thread.join();
        }
    }
}

/// All that waits, at most [`MAX_GROUP`]. `None`: nothing comes any more.
fn next_group(queue: &Receiver<Job>) -> Option<Vec<Job>> {
    let first = queue.recv().ok()?;
    Some(std::iter::once(first).chain(queue.try_iter().take(MAX_GROUP - 1)).collect())
}

/// The connection that writes.
#[derive(Debug)]
pub(super) struct WriteConnection {
    connection: Connection,
    /// Whether it syncs its commits now.
    is_syncing: bool,
    /// The version of the file's tables that were looked at last. On a server each session looks when it begins.
    schema: Option<i64>,
}

impl WriteConnection {
    fn at(files: &Files) -> Result<Self, JournalError> {
        // The files are looked at before and after, so that no other journal is opened in place of this one.
        let is_in_place = || files.place.holds(&files.path).map_err(|fault| fault.at(&files.path));
        is_in_place()?;
        let connection = files.connect()?;
        is_in_place()?;
        Ok(Self { connection, is_syncing: false, schema: None })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Commits what `work` does, or none of it, while no other transaction writes.
    pub(super) fn commit<T>(
        &mut self,
        files: &Files,
        durability: Durability,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.commit_for(Purpose::Alone, files, durability, work)
    }

    /// Commits what `work` does, or none of it.
    pub(super) fn commit_for<T>(
        &mut self,
        purpose: Purpose<'_>,
        files: &Files,
        durability: Durability,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        // A panic may have left one.
        self.roll_back()?;
        let is_synced = durability == Durability::Synced;
        if let Connection::Sqlite(connection) = &self.connection
            && self.is_syncing != is_synced
        {
            schema::sync_commits(connection, is_synced)?;
            self.is_syncing = is_synced;
        }
        self.connection.begin(purpose)?;
        let done = self.check_schema().and_then(|()| work(&self.connection));
        let done = done.and_then(|done| {
            self.connection.commit(purpose)?;
            Ok(done)
        });
        match done {
            Ok(done) => {
                files.count_commit(is_synced);
                Ok(done)
            }
            Err(fault) => {
                // The fault says more than that this failed too.
                _ = self.roll_back();
                Err(fault)
            }
        }
    }

    /// Fails where another program has put something into the file that may change what is written.
    fn check_schema(&mut self) -> Result<(), Fault> {
        let connection = match &self.connection {
            Connection::Sqlite(connection) => connection,
            #[cfg(feature = "postgres")]
            Connection::Postgres(_) => return Ok(()),
        };
        let version = connection.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))?;
        if self.schema != Some(version) {
            schema::check_own(connection)?;
            self.schema = Some(version);
        }
        Ok(())
    }

    fn roll_back(&self) -> Result<(), Fault> {
        Ok(self.connection.roll_back()?)
    }
}

/// Commits groups, and tells each run what came of its entries.
struct Committer<'a> {
    files: &'a Files,
    /// Opened with the first group.
    open: Option<WriteConnection>,
}

/// Why a group was not committed.
enum Failed {
    /// One of its changes was refused.
    Change(Fault),
    /// The journal cannot be written.
    Journal(Fault),
}

impl Committer<'_> {
    fn carry_out(&mut self, group: Vec<Job>) {
        let mut waiting = Vec::with_capacity(group.len());
        for job in group {
            match job {
                Job::Change(change) => waiting.push(change),
                Job::Alone(work) => {
                    // What was handed over before it is done before it.
                    self.commit_waiting(&mut waiting);
                    let files = self.files;
                    // If it panics, its caller receives an error that it was cut off.
                    _ = catch_unwind(AssertUnwindSafe(|| work(files, self.open())));
                }
            }
        }
        self.commit_waiting(&mut waiting);
    }

    /// Commits what waits. If that panics, those who wait receive an error that they were cut off.
    fn commit_waiting(&mut self, waiting: &mut Vec<WaitingAppend>) {
        let waiting = std::mem::take(waiting);
        if !waiting.is_empty() {
            _ = catch_unwind(AssertUnwindSafe(|| self.commit_all(waiting)));
        }
    }

    fn open(&mut self) -> Result<&mut WriteConnection, JournalError> {
        match &mut self.open {
            Some(open) => {
                let revived = self.files.revive(&mut open.connection);
                revived.map(|()| open).map_err(|fault| fault.at(&self.files.path))
            }
            none => Ok(none.insert(WriteConnection::at(self.files)?)),
        }
    }

    fn commit_all(&mut self, waiting: Vec<WaitingAppend>) {
        self.commit_within(waiting, MAX_TRIES);
    }

    /// Commits all of it, or each by itself. If the connection breaks meanwhile, it is read back what was committed, and the
    /// rest is tried again.
    fn commit_within(&mut self, waiting: Vec<WaitingAppend>, tries: u32) {
        match self.commit(&waiting) {
            Ok((rows, durability)) => {
                for (waiting, row) in waiting.into_iter().zip(rows) {
                    let committed =
                        self.record_head(&waiting.change, &row, durability).map(|()| Box::new(row));
                    waiting.tell(committed.map_err(|fault| fault.at(&self.files.path)));
                }
            }
            Err(Failed::Change(fault) | Failed::Journal(fault)) if fault.is_disconnected() && tries > 1 => {
                let rest = self.read_back(waiting);
                if !rest.is_empty() {
                    self.commit_within(rest, tries - 1);
                }
            }
            Err(Failed::Change(_)) if waiting.len() > 1 => {
                waiting.into_iter().for_each(|waiting| self.commit_within(vec![waiting], tries));
            }
            Err(Failed::Change(fault) | Failed::Journal(fault)) => {
                let error = fault.at(&self.files.path);
                waiting.into_iter().for_each(|waiting| waiting.tell(Err(error.clone())));
            }
        }
    }

    /// Answers those whose entries were committed before the connection broke, and returns the others. No transaction of the
    /// broken connection goes on by then.
    fn read_back(&mut self, waiting: Vec<WaitingAppend>) -> Vec<WaitingAppend> {
        let mut rest = Vec::new();
        for waiting in waiting {
            let (files, change) = (self.files, &waiting.change);
            let found = self.open().and_then(|open| {
                let found = rows::committed(&open.connection, &change.held.claim, &change.entries);
                found.map_err(|fault| fault.at(&files.path))
            });
            match found {
                Ok(Some(row)) => {
                    let recorded = self.record_head(change, &row, Durability::Synced);
                    let committed = recorded.map(|()| Box::new(row));
                    waiting.tell(committed.map_err(|fault| fault.at(&self.files.path)));
                }
                Ok(None) => rest.push(waiting),
                Err(error) => waiting.tell(Err(error)),
            }
        }
        rest
    }

    /// Commits all of it or nothing. Returns the row behind each change, and how safe all of them are.
    fn commit(&mut self, group: &[WaitingAppend]) -> Result<(Vec<RunRow>, Durability), Failed> {
        let files = self.files;
        let open = self.open().map_err(|error| Failed::Journal(error.into()))?;
        files.place.holds(&files.path).map_err(Failed::Journal)?;
        let asked = group.iter().map(|waiting| waiting.change.durability);
        let durability = asked.max().unwrap_or(Durability::Committed);
        let runs: Vec<&RunId> = group.iter().map(|waiting| &waiting.change.held.claim.run).collect();
        let mut is_refused = false;
        let rows = open.commit_for(Purpose::Appends(&runs), files, durability, |connection| {
            let rows: Result<Vec<_>, Fault> =
                group.iter().map(|waiting| write(files, connection, &waiting.change)).collect();
            is_refused = rows.is_err();
            rows
        });
        let rows = rows.map_err(if is_refused { Failed::Change } else { Failed::Journal })?;
        let entries: usize = group.iter().map(|waiting| waiting.change.entries.len()).sum();
        files.entries.fetch_add(entries as u64, Ordering::Relaxed);
        // What an entry announces is begun only where the entry is found again.
        files.place.holds(&files.path).map_err(Failed::Journal)?;
        Ok((rows, durability))
    }

    fn record_head(&self, change: &RunAppend, row: &RunRow, durability: Durability) -> Result<(), Fault> {
        let OwnedRun { claim, head, .. } = &*change.held;
        // A server syncs each commit.
        let durability = if self.files.is_shared() { Durability::Synced } else { durability };
        Ok(head.write(self.files.key(&claim.run)?, row.position()?, durability)?)
    }
}

/// Writes a change, inside a transaction of the caller.
fn write(files: &Files, connection: &Connection, change: &RunAppend) -> Result<RunRow, Fault> {
    let claim = &change.held.claim;
    let key = files.key(&claim.run)?;
    let row = match &change.follows {
        AppendAfter::Beginning(opening) => {
            match rows::create(connection, claim, opening, &change.entries, key)? {
                Some(row) => row,
                None => {
                    files.check_key(connection, opening.header.request_key.as_ref())?;
                    return Err(files.exists(&claim.run).into());
                }
            }
        }
        AppendAfter::Row(known) => rows::append(connection, claim, known.as_deref(), &change.entries, key)?
            .ok_or_else(|| files.unknown(&claim.run))?,
    };
    outbox::put(connection, &change.messages, key)?;
    remote::carried_out(connection, &change.requests)?;
    Ok(row)
}

/// How often entries are tried to be committed whose connection breaks each time.
const MAX_TRIES: u32 = 4;

/// How many jobs are done together at most, so that the first of them does not wait long for the last.
const MAX_GROUP: usize = 1_024;
