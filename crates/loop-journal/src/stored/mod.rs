//! A journal in a database: every entry is committed before anything follows from it. In one SQLite file it is synced to the
//! disk where the [`SyncPolicy`] says so. A PostgreSQL database has the same tables, and the same statements run there: the
//! module `sql` is the door to both.
//!
//! A run has one writer. It holds a lock that the system, or the server, releases when its process ends, however it ends;
//! and because a lock can fail where folders are shared over a network, every take-over raises the run's epoch, and an
//! append under an older epoch is refused.
//!
//! Entries are chained by their hashes, from what the run was opened with on, and the run's row names the last one under
//! a seal that only the journal's key makes: so a changed, lost or added row is noticed when the run is read. How far
//! each run had come is kept beside the journal as well, so that a run which was rolled back, or lost its newest entries,
//! is noticed before anything is done again.

mod audit;
mod budgets;
mod changes;
mod clock;
mod evals;
mod event;
mod export;
mod fault;
mod files;
mod heads;
mod import;
mod labels;
mod lock;
mod locks;
mod opened;
mod outbox;
mod outside;
mod page;
#[cfg(feature = "postgres")]
mod postgres;
mod pruned;
mod queue;
mod read;
mod remote;
mod rows;
mod salvage;
mod schema;
mod seal;
mod search;
mod sql;
mod stats;
mod summary;
mod writer;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loop_core::types::RunId;
use sql::{Connection, Purpose};
use tokio::sync::Semaphore;

use crate::outbox::{ClaimedMessage, DeliveryResult, HookMessage, QueuedMessage};
use crate::{Durability, Entry, Header, Journal, JournalError, Recorded, RunLine, RunWriter};
pub use budgets::BatchLock;
pub use changes::{JournalChange, JournalChanges};
pub use evals::KeptEval;
pub use export::{EXPORT_VERSION, Exported};
use fault::Fault;
use files::JournalFiles;
use heads::{ChainEnd, Head, Heads};
pub use import::{ImportedRuns, NotImported};
pub use labels::{Label, RunLabel};
use lock::FileLocks;
use locks::Locks;
use opened::{Database, Files, behind};
pub use page::{ListChanges, ListPosition, RunQuery};
pub use pruned::KeepReason;
pub use queue::{Accepted, QueueBounds, QueueLock, QueuedSubmission, Submission, SubmissionState};
pub use remote::{RemoteAnswer, RemoteRequest};
use rows::{Claim, LastSpec, Opening, RunRow, Text};
pub use salvage::{LostEntries, SalvagedRun};
use seal::Key;
pub use search::SearchTerms;
pub use stats::JournalStats;
pub use summary::RunSummary;
use writer::{AppendAfter, OwnedRun, RunAppend, WriterThread};

/// All runs in one SQLite file, or in a PostgreSQL database. Clones share its connections, and the thread that writes for all runs.
#[derive(Clone, Debug)]
pub struct StoredJournal {
    store: Arc<Store>,
    sync: SyncPolicy,
    /// How many bytes an entry may take.
    limit: u64,
}

#[derive(Debug)]
struct Store {
    files: Arc<Files>,
    writer: WriterThread,
    /// Reads. It writes only when the journal is opened, so that no reader keeps an entry waiting.
    reader: Mutex<Connection>,
    /// Threads that read or wait for their turn. Without it each read that waits would have a thread, with a stack and a heap
    /// of its own.
    reads: Arc<Semaphore>,
    /// Held while runs are added to the index of words: two that do it at once would read the same ones.
    indexing: tokio::sync::Mutex<()>,
}

/// How many threads there are for reads: one that reads, and the next one that has its turn at once.
const READING_THREADS: usize = 2;

/// Which entries are synced to the disk before the run does what they allow. Every entry is committed first in any case,
/// so that none is lost when the process is killed; the policy decides what a power failure may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncPolicy {
    /// Every entry. A power failure takes nothing.
    Full,
    /// Entries that announce an effect, its result, answers and instructions of people, a wait for a person, and the
    /// end. A power failure may take model calls and reads after the last of these; a resumed run makes them again, and
    /// pays for them again.
    #[default]
    Effects,
    /// None. A power failure may take entries of any kind, and with them the knowledge that an effect was begun.
    None,
}

impl SyncPolicy {
    /// What it makes of what an entry asks for.
    fn of(self, asked: Durability) -> Durability {
        match self {
            Self::Full => Durability::Synced,
            // Without a boot id, entries that a power failure took would count as rolled back.
            Self::Effects if !clock::has_boot_id() => Durability::Synced,
            Self::Effects => asked,
            Self::None => Durability::Committed,
        }
    }
}

/// What a journal is made of.
struct JournalParts {
    path: PathBuf,
    base: PathBuf,
    database: Database,
    locks: Locks,
    heads: Heads,
    key: Option<Key>,
    place: JournalFiles,
    reader: Connection,
}

#[derive(Debug)]
struct Writer {
    journal: StoredJournal,
    held: Arc<OwnedRun>,
    /// What is committed with the next entries.
    messages: Vec<HookMessage>,
    /// The ids of the requests that the next entries carry out.
    requests: Vec<Arc<str>>,
    /// The run's row as the last append left it. `None`: it has to be read.
    row: Option<Box<RunRow>>,
}

impl StoredJournal {
    /// The journal at `path`, for writing. Folders and file are made where they are missing; only their owner may read
    /// them. With the feature `postgres`, a path that is a URL (`postgres://USER@HOST/DATABASE`) names a database; its
    /// tables are made where they are missing. This waits for the server.
    ///
    /// # Errors
    /// When the file is of a newer format, is something else than a journal, or cannot be written.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        if server_url(&path).is_none() {
            schema::create(&path)?;
        }
        let journal = Self::open_at(path, /*makes_key*/ true)?;
        journal.store.writable()?;
        Ok(journal)
    }

    /// The journal at `path`, which must be there: for commands that read.
    ///
    /// # Errors
    /// When there is no file, or it is of a newer format, something else than a journal, or cannot be read.
    pub fn open_existing(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        Self::open_at(path.into(), /*makes_key*/ false)
    }

    /// The same journal with this maximum size of an entry, in bytes of JSON, for runs that are begun or resumed by
    /// this value.
    pub fn with_entry_limit(self, bytes: u64) -> Self {
        Self { limit: bytes, ..self }
    }

    /// The same journal with this policy, for runs that are begun or resumed by this value.
    pub fn with_sync(self, sync: SyncPolicy) -> Self {
        Self { sync, ..self }
    }

    /// How many commits were made since the journal was opened here. Entries that runs append at the same time share one.
    pub fn commits(&self) -> u64 {
        self.store.files.commits.load(Ordering::Relaxed)
    }

    /// How many of the [commits](Self::commits) were synced to the disk.
    pub fn synced_commits(&self) -> u64 {
        self.store.files.synced_commits.load(Ordering::Relaxed)
    }

    /// How often a file was synced for a run: synced commits, and the heads of new runs. SQLite syncs twice more whenever it
    /// moves its log into the file.
    pub fn syncs(&self) -> u64 {
        self.synced_commits() + self.store.files.synced_heads.load(Ordering::Relaxed)
    }

    /// How many entries were committed since the journal was opened here.
    pub fn entries(&self) -> u64 {
        self.store.files.entries.load(Ordering::Relaxed)
    }

    fn open_at(given: PathBuf, makes_key: bool) -> Result<Self, JournalError> {
        if let Some(url) = server_url(&given) {
            return Self::open_server(url, makes_key);
        }
        schema::expect_file(&given)?;
        // The same file has the same locks by whatever link it is reached, and no file is taken for `:memory:`.
        let path = fs::canonicalize(&given).map_err(|error| Fault::from(error).at(&given))?;
        let locks = FileLocks::beside(&path);
        let connection = Connection::Sqlite(schema::connect(&path, &locks)?);
        let place = JournalFiles::of(&path).map_err(|error| Fault::from(error).at(&path))?;
        let key = if makes_key {
            locks.alone().and_then(|_alone| Key::make(&path).map(Some))
        } else {
            Key::read(&path)
        };
        let key = match key {
            // A user who may only read the journal need not read its key.
            Err(error) if !makes_key && error.kind() == std::io::ErrorKind::PermissionDenied => None,
            key => key.map_err(|error| Fault::from(error).at(&path))?,
        };
        let heads = Heads::beside(&path);
        Ok(Self::of_parts(JournalParts {
            base: path.clone(),
            path,
            database: Database::File,
            locks: Locks::Files(locks),
            heads,
            key,
            place,
            reader: connection,
        }))
    }

    fn of_parts(parts: JournalParts) -> Self {
        let JournalParts { path, base, database, locks, heads, key, place, reader } = parts;
        let files = Arc::new(Files {
            path,
            base,
            database,
            locks,
            heads,
            key,
            place,
            entries: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            synced_commits: AtomicU64::new(0),
            synced_heads: AtomicU64::new(0),
            last_spec: LastSpec::default(),
        });
        let writer = WriterThread::new(Arc::clone(&files));
        let reads = Arc::new(Semaphore::new(READING_THREADS));
        let indexing = tokio::sync::Mutex::default();
        let store = Store { files, writer, reader: Mutex::new(reader), reads, indexing };
        Self { store: Arc::new(store), sync: SyncPolicy::default(), limit: ENTRY_LIMIT }
    }

    #[cfg(feature = "postgres")]
    fn open_server(url: &str, lays: bool) -> Result<Self, JournalError> {
        postgres::open(url, lays, &state_folder()).map(Self::of_parts)
    }

    #[cfg(not(feature = "postgres"))]
    fn open_server(_: &str, _: bool) -> Result<Self, JournalError> {
        let message =
            "this program was built without PostgreSQL; name a file, or build it with the feature `postgres`";
        Err(JournalError::Storage { place: "postgres".to_owned(), message: message.to_owned() })
    }

    /// Where the journal is unless the operator sets another path: `$XDG_STATE_HOME/loopgate/journal.db`, else
    /// `~/.local/state/loopgate/journal.db`.
    pub fn default_path() -> PathBuf {
        path_below(env::var_os("XDG_STATE_HOME"), env::home_dir())
    }

    /// The journal's file, by its absolute path; the URL of its database, without the options.
    pub fn path(&self) -> &Path {
        &self.store.files.path
    }

    /// Reads on a thread that may wait for a disk. If the connection to a server breaks meanwhile, it reads once more.
    async fn reading<T, W>(&self, work: W) -> Result<T, JournalError>
    where
        T: Send + 'static,
        W: FnOnce(&Files, &mut Connection) -> Result<T, Fault> + Clone + Send + 'static,
    {
        self.reading_once(move |files, connection| {
            let again = files.is_shared().then(|| work.clone());
            match (work(files, connection), again) {
                (Err(fault), Some(again)) if fault.is_disconnected() => {
                    files.revive(connection)?;
                    again(files, connection)
                }
                (done, _) => done,
            }
        })
        .await
    }

    /// The same of a table that only some journals have. One without it has nothing in it.
    async fn reading_table<T, W>(&self, table: &'static str, work: W) -> Result<T, JournalError>
    where
        T: Default + Send + 'static,
        W: FnOnce(&Files, &mut Connection) -> Result<T, Fault> + Clone + Send + 'static,
    {
        self.reading(move |files, connection| match connection.has_table(table)? {
            true => work(files, connection),
            false => Ok(T::default()),
        })
        .await
    }

    /// Changes tables that only some journals have: they are laid first. If the connection to a server breaks meanwhile, it
    /// is done once more, whether it was committed or not.
    async fn changing<T: Send + 'static>(
        &self,
        purpose: Purpose<'static>,
        durability: Durability,
        tables: &'static str,
        work: impl FnOnce(&Files, &Connection) -> Result<T, Fault> + Clone + Send + 'static,
    ) -> Result<T, JournalError> {
        let changed = self.store.writer.alone_again(move |files, open| {
            files.place.holds(&files.path)?;
            open.commit_for(purpose, files, durability, |connection| {
                connection.lay(tables)?;
                work(files, connection)
            })
        });
        changed.await
    }

    /// The same with work that cannot be done twice.
    async fn reading_once<T, W>(&self, work: W) -> Result<T, JournalError>
    where
        T: Send + 'static,
        W: FnOnce(&Files, &mut Connection) -> Result<T, Fault> + Send + 'static,
    {
        let store = Arc::clone(&self.store);
        // It is never closed.
        let turn = Arc::clone(&store.reads).acquire_owned().await;
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            // A transaction that a panic cut short was rolled back when it was dropped.
            let mut connection = store.reader.lock().unwrap_or_else(PoisonError::into_inner);
            let ready = store.files.revive(&mut connection);
            ready
                .and_then(|()| work(&store.files, &mut connection))
                .map_err(|fault| fault.at(&store.files.path))
        });
        match task.await {
            Ok(result) => result,
            Err(error) => {
                Err(fault::storage(&self.store.files.path, format!("the work was cut off: {error}")))
            }
        }
    }
}

impl Store {
    fn writable(&self) -> Result<(), JournalError> {
        let connection = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        connection.check_writes().map_err(|fault| fault.at(&self.files.path))
    }
}

#[async_trait]
impl Journal for StoredJournal {
    async fn create(&self, header: &Header, first: &Arc<Entry>) -> Result<Box<dyn RunWriter>, JournalError> {
        self.create_announcing(header, first, Vec::new()).await
    }

    async fn create_announcing(
        &self,
        header: &Header,
        first: &Arc<Entry>,
        messages: Vec<HookMessage>,
    ) -> Result<Box<dyn RunWriter>, JournalError> {
        let (header, first, sync, limit) = (header.clone(), Arc::clone(first), self.sync, self.limit);
        let prepared = self.reading(move |files, connection| {
            let run = header.run.clone();
            let is_there = |connection: &Connection| match rows::last_writer(connection, &run)? {
                Some(_) => Err(Fault::from(files.exists(&run))),
                None => Ok(()),
            };
            is_there(connection)?;
            // Before the run has files of its own. The transaction that creates it decides.
            files.check_key(connection, header.request_key.as_ref())?;
            files.place.holds(&files.path)?;
            let key = files.key(&run)?;
            let lock = files.lock(&run, None)?;
            // Another process may have begun and ended it before it was locked; its head is not to be overwritten.
            is_there(connection)?;
            let entry = Text::of(&run, &first, limit)?;
            rows::is_read_back(&entry.event, &event::ReadEvent(first.event.clone()), "first event", &run)?;
            rows::is_read_back(&entry.notes, &first.notes, "first decisions", &run)?;
            let spec = files.last_spec.text_of(&header.spec, &run)?;
            let opening = Opening::of(header, spec);
            let is_synced = sync != SyncPolicy::None;
            let head = files.heads.create(&run, key, opening.beginning, is_synced)?;
            files.synced_heads.fetch_add(is_synced.into(), Ordering::Relaxed);
            Ok((OwnedRun { claim: Claim::first(&run), head, _lock: lock }, opening, entry))
        });
        let (held, opening, entry) = prepared.await?;
        let mut writer = Writer::new(self, held);
        writer.announce(messages);
        let durability = sync.of(Durability::Committed);
        writer.commit(AppendAfter::Beginning(Box::new(opening)), vec![entry], durability).await?;
        Ok(Box::new(writer))
    }

    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError> {
        let run = run.clone();
        // In the thread that writes, so that what a dropped writer handed over is done before the run is read.
        // Twice, it raises the epoch twice.
        let taken = self.store.writer.alone_again(move |files, open| {
            let Some(pid) = rows::last_writer(open.connection(), &run)? else {
                return Err(files.gone(open.connection(), &run)?.into());
            };
            open.connection().check_writes()?;
            files.place.holds(&files.path)?;
            let lock = files.lock(&run, Some(pid))?;
            let (recorded, claim, head, has, beginning) =
                open.commit(files, Durability::Committed, |connection| {
                    let head = files.head(&run)?;
                    let stored = read::recorded(connection, &run, files.key.as_ref())?;
                    let stored = stored.ok_or_else(|| files.unknown(&run))?;
                    let beginning = stored.beginning;
                    let has = ChainEnd {
                        entries: stored.hashes.len() as u64,
                        hash: stored.hashes.last().copied().unwrap_or(stored.beginning),
                    };
                    let recorded = files.verify(&run, stored, head.clone())?;
                    if let Some(message) = &recorded.unverified {
                        let message = message.to_string();
                        return Err(JournalError::Unverified { run: run.clone(), message }.into());
                    }
                    let claim = rows::take_over(connection, &run, files.key(&run)?)?;
                    Ok((recorded, claim.ok_or_else(|| files.unknown(&run))?, head, has, beginning))
                })?;
            let key = files.key(&run)?;
            let head = match &head {
                Some(head) => files.heads.open(&run, key, head, has)?,
                // Another machine wrote it until now.
                None => {
                    let head = files.heads.create(&run, key, beginning, true)?;
                    head.write(key, has, Durability::Synced)?;
                    head
                }
            };
            Ok((recorded, OwnedRun { claim, head, _lock: lock }))
        });
        let (recorded, held) = taken.await?;
        Ok((recorded, Box::new(Writer::new(self, held))))
    }

    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError> {
        let run = run.clone();
        let read = self.reading(move |files, connection| {
            // In one transaction, so that what another process appends meanwhile is seen as a whole or not at all.
            // The head first: its writer may append between the two, and the head is never ahead of the entries.
            let head = files.head(&run)?;
            let transaction = connection.transaction()?;
            match read::recorded(&transaction, &run, files.key.as_ref())? {
                Some(stored) => files.verify(&run, stored, head),
                None => Err(files.gone(&transaction, &run)?.into()),
            }
        });
        read.await
    }

    async fn run_of_key(&self, key: &str) -> Result<Option<RunId>, JournalError> {
        let key = key.to_owned();
        self.reading(move |files, connection| rows::run_of_key(connection, &key, files.key.as_ref())).await
    }

    async fn runs(&self) -> Result<Vec<RunLine>, JournalError> {
        let listed = self.reading(|files, connection| {
            let mut lines = rows::lines(connection, files.key.as_ref())?;
            let mut heads = BTreeMap::new();
            page::mark_written(files, &mut lines);
            for line in lines.iter().filter(|line| line.stop.is_none()) {
                if !line.is_written {
                    heads.insert(line.run.clone(), files.head(&line.run).ok().flatten());
                }
            }
            if !heads.is_empty() {
                let now = clock::now();
                // Its writer may have ended it after it was read. No process writes it now, so the second answer is
                // final.
                let again = rows::lines(connection, files.key.as_ref())?;
                let again: BTreeMap<_, _> = again.into_iter().map(|line| (line.run.clone(), line)).collect();
                for line in lines.iter_mut().filter(|line| line.stop.is_none() && !line.is_written) {
                    if let Some(again) = again.get(&line.run) {
                        line.clone_from(again);
                    }
                    let head = heads.get(&line.run).and_then(Option::as_ref);
                    let is_behind = |head: &&Head| head.required(now.as_ref()).entries > line.entries;
                    if let Some(head) = head.filter(is_behind) {
                        line.trouble
                            .get_or_insert_with(|| behind(line.entries, head.committed.entries).into());
                    }
                }
            }
            Ok(lines)
        });
        listed.await
    }

    async fn labels(&self, runs: Option<&[RunId]>) -> Result<BTreeMap<RunId, RunLabel>, JournalError> {
        self.labels_of(runs).await
    }

    async fn outbox(&self) -> Result<Vec<QueuedMessage>, JournalError> {
        self.queued().await
    }

    async fn claim_message(&self, message: &str) -> Result<Option<ClaimedMessage>, JournalError> {
        self.claimed(message).await
    }

    async fn settle_message(&self, message: &str, delivered: &DeliveryResult) -> Result<(), JournalError> {
        self.settled(message, delivered).await
    }
}

impl Writer {
    fn new(journal: &StoredJournal, held: OwnedRun) -> Self {
        Self {
            journal: journal.clone(),
            held: Arc::new(held),
            messages: Vec::new(),
            requests: Vec::new(),
            row: None,
        }
    }

    async fn commit(
        &mut self,
        follows: AppendAfter,
        entries: Vec<Text>,
        durability: Durability,
    ) -> Result<(), JournalError> {
        let (messages, requests) = (std::mem::take(&mut self.messages), std::mem::take(&mut self.requests));
        let held = Arc::clone(&self.held);
        let change = RunAppend { held, follows, entries, messages, requests, durability };
        self.row = Some(self.journal.store.writer.commit(change).await?);
        Ok(())
    }
}

#[async_trait]
impl RunWriter for Writer {
    fn announce(&mut self, messages: Vec<HookMessage>) {
        self.messages.extend(messages);
    }

    async fn carry_out(&mut self, request: &Arc<str>) -> Result<bool, JournalError> {
        let is_open = !self.requests.contains(request) && self.journal.take_request(request).await?;
        if is_open {
            self.requests.push(Arc::clone(request));
        }
        Ok(is_open)
    }

    async fn refuse(&mut self, request: &Arc<str>) -> Result<(), JournalError> {
        self.requests.retain(|taken| taken != request);
        self.journal.refuse_request(request, RemoteAnswer::Refused).await
    }

    async fn append(&mut self, entry: &Arc<Entry>, asked: Durability) -> Result<(), JournalError> {
        let entries = std::slice::from_ref(entry);
        self.append_all(entries, asked).await.map_err(|(_, error)| error)
    }

    async fn append_all(
        &mut self,
        entries: &[Arc<Entry>],
        asked: Durability,
    ) -> Result<(), (usize, JournalError)> {
        let (run, limit) = (&self.held.claim.run, self.journal.limit);
        let (mut texts, mut refused) = (Vec::with_capacity(entries.len()), None);
        for entry in entries {
            match Text::of(run, entry, limit) {
                Ok(text) => texts.push(text),
                Err(fault) => {
                    refused = Some((texts.len(), fault.at(self.journal.path())));
                    break;
                }
            }
        }
        if refused.is_some() {
            // They are of the last entry, which is not there.
            self.messages.clear();
            self.requests.clear();
        }
        // The entries before one that is refused are whole.
        if !texts.is_empty() {
            let (durability, row) = (self.journal.sync.of(asked), self.row.take());
            self.commit(AppendAfter::Row(row), texts, durability).await.map_err(|error| (0, error))?;
        }
        refused.map_or(Ok(()), Err)
    }
}

/// How many bytes of JSON an entry may take where nothing else is said.
const ENTRY_LIMIT: u64 = 32 << 20;

/// The folder in which this machine keeps what belongs to journals on servers.
#[cfg(feature = "postgres")]
fn state_folder() -> PathBuf {
    let mut folder = StoredJournal::default_path();
    folder.set_file_name("postgres");
    folder
}

/// The URL of a server, where a journal is named by one and not by a file.
fn server_url(given: &Path) -> Option<&str> {
    given.to_str().filter(|text| text.starts_with("postgres://") || text.starts_with("postgresql://"))
}

fn path_below(state_home: Option<OsString>, home: Option<PathBuf>) -> PathBuf {
    // A relative folder is to be ignored, says the XDG specification.
    let state_home = state_home.map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = state_home.unwrap_or_else(|| home.unwrap_or_default().join(".local/state"));
    folder.join("loopgate/journal.db")
}

#[cfg(test)]
#[path = "power_tests.rs"]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod power_tests;

#[cfg(test)]
#[path = "unknown_tests.rs"]
#[allow(clippy::unwrap_used)]
mod unknown_tests;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use loop_core::spec::SectionSpec;
    use loop_testkit::Setup;

    use super::*;

    #[test]
    fn each_spec_has_a_text_of_its_own_whichever_was_last() {
        let spec =
            |section| Setup::document("test").section(SectionSpec::new(section, "A")).start_as("r1").spec;
        let (one, other, last) = (spec("a"), spec("b"), LastSpec::default());
        assert_ne!(one.hash(), other.hash());
        let run = RunId::new("r1");
        for spec in [&one, &other, &other, &one] {
            let (text, again) = (last.text_of(spec, &run).unwrap(), last.text_of(spec, &run).unwrap());
            assert_eq!(*text.hash, *spec.hash().to_string());
            assert!(Arc::ptr_eq(&text, &again), "it is written once");
        }
    }

    #[test]
    fn the_journal_lies_where_the_system_keeps_state() {
        let path =
            |state_home: Option<&str>| path_below(state_home.map(Into::into), Some("/home/ada".into()));
        assert_eq!(path(Some("/state")), Path::new("/state/loopgate/journal.db"));
        let below_home = Path::new("/home/ada/.local/state/loopgate/journal.db");
        for unusable in [None, Some(""), Some("relative")] {
            assert_eq!(path(unusable), below_home);
        }
    }
}
