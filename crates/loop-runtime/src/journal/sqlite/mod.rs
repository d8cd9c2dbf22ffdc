//! A journal in one SQLite file: every entry is committed before anything follows from it, and synced to the disk where the
//! [`SyncPolicy`] says so.
//!
//! A run has one writer. It holds a lock file that the system releases when its process ends, however it ends; and
//! because a lock can fail where folders are shared over a network, every take-over raises the run's epoch, and an
//! append under an older epoch is refused.
//!
//! Entries are chained by their hashes, from what the run was opened with on, and the run's row names the last one under
//! a seal that only the journal's key makes: so a changed, lost or added row is noticed when the run is read. How far
//! each run had come is kept beside the journal as well, so that a run which was rolled back, or lost its newest entries,
//! is noticed before anything is done again.

mod clock;
mod fault;
mod heads;
mod lock;
mod place;
mod rows;
mod schema;
mod seal;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loop_core::RunId;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::journal::{Durability, Entry, Header, Journal, JournalError, Recorded, RunLine, RunWriter};
use fault::Fault;
use heads::{Head, HeadFile, Heads, Position};
use lock::{Locks, NotTaken, RunLock};
use place::Place;
use rows::{Claim, RunRow, Stored};
use seal::{Broken, Key};

/// All runs in one SQLite file. Clones share the connection.
#[derive(Clone, Debug)]
pub struct SqliteJournal {
    store: Arc<Store>,
    sync: SyncPolicy,
}

#[derive(Debug)]
struct Store {
    path: PathBuf,
    locks: Locks,
    heads: Heads,
    /// `None` where it cannot be read: then nothing is written, and nothing vouched for.
    key: Option<Key>,
    place: Place,
    /// How many bytes an entry may take.
    limit: u64,
    synced_commits: AtomicU64,
    /// Whether the connection syncs its commits now. Changed under the connection's lock alone.
    syncs: AtomicBool,
    connection: Mutex<Connection>,
}

/// Which entries are synced to the disk before the run does what they allow. Every entry is committed first in any case,
/// so that none is lost when the process is killed; the policy decides what a power failure may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Every entry. A power failure takes nothing.
    Full,
    /// What announces an effect, its result, what people said, a wait for a person, and the end. A power failure may take
    /// model calls and reads after the last of these; a resumed run makes them again, and pays for them again.
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

#[derive(Debug)]
struct Writer {
    journal: SqliteJournal,
    claim: Claim,
    /// The run's row as the last append left it. `None`: it has to be read.
    row: Option<RunRow>,
    head: Arc<HeadFile>,
    /// Held as long as the writer lives.
    _lock: RunLock,
}

impl SqliteJournal {
    /// The journal at `path`, for writing. Folders and file are made where they are missing; only their owner may read
    /// them.
    ///
    /// # Errors
    /// When the file is of a newer format, is something else than a journal, or cannot be written.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        schema::create(&path)?;
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

    /// The same journal, which takes no entry of more than so many bytes as JSON.
    pub fn with_entry_limit(self, bytes: u64) -> Self {
        let store = Arc::try_unwrap(self.store);
        // Nobody else has it yet: it was just opened.
        let store = store.map(|store| Arc::new(Store { limit: bytes, ..store }));
        Self { store: store.unwrap_or_else(|shared| shared), ..self }
    }

    /// The same journal; runs that are begun or resumed by this value are written under this policy.
    pub fn with_sync(self, sync: SyncPolicy) -> Self {
        Self { sync, ..self }
    }

    /// How many commits were synced to the disk since the journal was opened here.
    pub fn synced_commits(&self) -> u64 {
        self.store.synced_commits.load(Ordering::Relaxed)
    }

    fn open_at(given: PathBuf, makes_key: bool) -> Result<Self, JournalError> {
        schema::expect_file(&given)?;
        // The same file has the same locks by whatever link it is reached, and no file is taken for `:memory:`.
        let path = fs::canonicalize(&given).map_err(|error| Fault::from(error).at(&given))?;
        let locks = Locks::beside(&path);
        let connection = schema::connect(&path, &locks)?;
        let place = Place::of(&path).map_err(|error| Fault::from(error).at(&path))?;
        let key = if makes_key {
            locks.alone().and_then(|_alone| Key::make(&path).map(Some))
        } else {
            Key::read(&path)
        };
        let key = match key {
            // Whoever may only read the journal need not read its key.
            Err(error) if !makes_key && error.kind() == std::io::ErrorKind::PermissionDenied => None,
            key => key.map_err(|error| Fault::from(error).at(&path))?,
        };
        let (heads, connection) = (Heads::beside(&path), Mutex::new(connection));
        let store = Store {
            path,
            locks,
            heads,
            key,
            place,
            limit: ENTRY_LIMIT,
            synced_commits: AtomicU64::new(0),
            syncs: AtomicBool::new(false),
            connection,
        };
        Ok(Self { store: Arc::new(store), sync: SyncPolicy::default() })
    }

    /// Where the journal is unless somebody says otherwise: `$XDG_STATE_HOME/loopgate/journal.db`, else
    /// `~/.local/state/loopgate/journal.db`.
    pub fn default_path() -> PathBuf {
        path_below(env::var_os("XDG_STATE_HOME"), env::home_dir())
    }

    /// The journal's file, by its absolute path.
    pub fn path(&self) -> &Path {
        &self.store.path
    }

    /// Does `work` where waiting for a disk holds nobody up.
    async fn blocking<T, W>(&self, work: W) -> Result<T, JournalError>
    where
        T: Send + 'static,
        W: FnOnce(&Store, &mut Connection) -> Result<T, Fault> + Send + 'static,
    {
        let store = Arc::clone(&self.store);
        let task = tokio::task::spawn_blocking(move || {
            // A transaction that a panic cut short was rolled back when it was dropped.
            let mut connection = store.connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&store, &mut connection).map_err(|fault| fault.at(&store.path))
        });
        match task.await {
            Ok(result) => result,
            Err(error) => Err(fault::storage(&self.store.path, format!("the work was cut off: {error}"))),
        }
    }

    fn writer(
        &self,
        (claim, row, head, lock): (Claim, Option<RunRow>, HeadFile, RunLock),
    ) -> Box<dyn RunWriter> {
        Box::new(Writer { journal: self.clone(), claim, row, head: Arc::new(head), _lock: lock })
    }
}

impl Store {
    fn writable(&self) -> Result<(), JournalError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        match connection.is_readonly(rusqlite::MAIN_DB) {
            Ok(false) => Ok(()),
            Ok(true) => Err(fault::storage(&self.path, fault::NOT_WRITABLE)),
            Err(error) => Err(Fault::from(error).at(&self.path)),
        }
    }

    /// The key, which every writer needs.
    fn key(&self, run: &RunId) -> Result<&Key, Fault> {
        let missing = || JournalError::Unverified { run: run.clone(), message: self.no_key() };
        Ok(self.key.as_ref().ok_or_else(missing)?)
    }

    fn no_key(&self) -> String {
        format!(
            "the journal's key is missing, so nothing vouches for it; put {} back",
            Key::path(&self.path).display()
        )
    }

    /// Says of a run that was read why it may not be resumed, and how long ago its last entry was written.
    fn verify(&self, run: &RunId, stored: Stored, head: Option<Head>) -> Result<Recorded, Fault> {
        let Stored { mut recorded, hashes, beginning, broken } = stored;
        if self.key.is_none() {
            recorded.unverified = Some(self.no_key().into());
            return Ok(recorded);
        }
        if broken == Some(Broken::OtherKey) {
            recorded.unverified = Some(rows::OTHER_KEY.into());
            return Ok(recorded);
        }
        let Some(head) = head else {
            let place = self.heads.path(run);
            let message = format!(
                "the record of how far it had come is missing or changed; put {} back",
                place.display()
            );
            recorded.unverified = Some(message.into());
            return Ok(recorded);
        };
        let now = clock::now();
        let hash_at = |entries: u64| match usize::try_from(entries) {
            Ok(0) => Some(&beginning),
            entries => entries.ok().and_then(|entries| hashes.get(entries - 1)),
        };
        let required = head.required(now.as_ref());
        for known in [required, head.committed] {
            match hash_at(known.entries) {
                Some(hash) if *hash != known.hash => {
                    return Err(rows::corrupt(run, known.entries.saturating_sub(1), rows::CHANGED));
                }
                None if known == required => {
                    recorded.unverified = Some(behind(hashes.len() as u64, head.committed.entries).into());
                    return Ok(recorded);
                }
                Some(_) | None => {}
            }
        }
        if head.committed.entries == hashes.len() as u64 {
            recorded.since_last_ms = head.written.zip(now).and_then(|(then, now)| then.until(&now));
        }
        Ok(recorded)
    }

    /// Begins a transaction that writes; its commit is synced if `durability` asks for it.
    fn begin<'c>(
        &self,
        connection: &'c mut Connection,
        durability: Durability,
    ) -> Result<Transaction<'c>, Fault> {
        let is_synced = durability == Durability::Synced;
        if self.syncs.load(Ordering::Relaxed) != is_synced {
            schema::sync_commits(connection, is_synced)?;
            self.syncs.store(is_synced, Ordering::Relaxed);
        }
        self.synced_commits.fetch_add(is_synced.into(), Ordering::Relaxed);
        Ok(connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }

    /// A run's head, where there is one that can be read.
    fn head(&self, run: &RunId) -> Result<Option<Head>, Fault> {
        match &self.key {
            Some(key) => Ok(self.heads.read(run, key)?),
            None => Ok(None),
        }
    }

    fn unknown(&self, run: &RunId) -> JournalError {
        JournalError::Unknown { run: run.clone(), place: self.path.display().to_string() }
    }

    fn exists(&self, run: &RunId) -> JournalError {
        JournalError::Exists { run: run.clone(), place: self.path.display().to_string() }
    }

    /// The lock of a run; `last_writer` is named where the lock file does not say who holds it.
    fn lock(&self, run: &RunId, last_writer: Option<u32>) -> Result<RunLock, Fault> {
        self.locks.take(run).map_err(|not_taken| match not_taken {
            NotTaken::Held(pid) => {
                JournalError::Busy { run: run.clone(), pid: pid.or(last_writer).unwrap_or_default() }.into()
            }
            NotTaken::Failed(error) => error.into(),
        })
    }
}

#[async_trait]
impl Journal for SqliteJournal {
    async fn create(&self, header: &Header, first: &Arc<Entry>) -> Result<Box<dyn RunWriter>, JournalError> {
        let (header, first, sync) = (header.clone(), Arc::clone(first), self.sync);
        let made = self.blocking(move |store, connection| {
            if rows::last_writer(connection, &header.run)?.is_some() {
                return Err(store.exists(&header.run).into());
            }
            store.place.holds(&store.path)?;
            let key = store.key(&header.run)?;
            let lock = store.lock(&header.run, None)?;
            let durability = sync.of(Durability::Committed);
            let transaction = store.begin(connection, durability)?;
            let made = rows::create(&transaction, &header, &first, key, store.limit)?;
            let (claim, row) = made.ok_or_else(|| store.exists(&header.run))?;
            let is_synced = sync != SyncPolicy::None;
            let head = store.heads.create(&header.run, key, rows::beginning(&header), is_synced)?;
            transaction.commit()?;
            store.place.holds(&store.path)?;
            head.write(key, row.position()?, durability)?;
            Ok((claim, Some(row), head, lock))
        });
        Ok(self.writer(made.await?))
    }

    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError> {
        let run = run.clone();
        let taken = self.blocking(move |store, connection| {
            let pid = rows::last_writer(connection, &run)?.ok_or_else(|| store.unknown(&run))?;
            if connection.is_readonly(rusqlite::MAIN_DB)? {
                return Err(Fault::Stated(fault::NOT_WRITABLE.to_owned()));
            }
            store.place.holds(&store.path)?;
            let lock = store.lock(&run, Some(pid))?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let head = store.head(&run)?;
            let stored = rows::recorded(&transaction, &run, store.key.as_ref())?;
            let stored = stored.ok_or_else(|| store.unknown(&run))?;
            let has = Position {
                entries: stored.hashes.len() as u64,
                hash: stored.hashes.last().copied().unwrap_or(stored.beginning),
            };
            let recorded = store.verify(&run, stored, head.clone())?;
            if let Some(message) = &recorded.unverified {
                let message = message.to_string();
                return Err(JournalError::Unverified { run, message }.into());
            }
            let key = store.key(&run)?;
            let head = head.ok_or_else(|| store.unknown(&run))?;
            let claim = rows::take_over(&transaction, &run, key)?;
            let claim = claim.ok_or_else(|| store.unknown(&run))?;
            transaction.commit()?;
            let head = store.heads.open(&run, key, &head, has)?;
            Ok((recorded, (claim, None, head, lock)))
        });
        let (recorded, claimed) = taken.await?;
        Ok((recorded, self.writer(claimed)))
    }

    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError> {
        let run = run.clone();
        let read = self.blocking(move |store, connection| {
            // In one transaction, so that what another process appends meanwhile is seen as a whole or not at all.
            // The head first: its writer may append between the two, and the head is never ahead of the entries.
            let head = store.head(&run)?;
            let transaction = connection.transaction()?;
            let stored = rows::recorded(&transaction, &run, store.key.as_ref())?;
            store.verify(&run, stored.ok_or_else(|| store.unknown(&run))?, head)
        });
        read.await
    }

    async fn runs(&self) -> Result<Vec<RunLine>, JournalError> {
        let listed = self.blocking(|store, connection| {
            let mut lines = rows::lines(connection, store.key.as_ref())?;
            let mut heads = BTreeMap::new();
            for line in lines.iter_mut().filter(|line| line.stop.is_none()) {
                line.is_written = store.locks.is_held(&line.run);
                if !line.is_written {
                    heads.insert(line.run.clone(), store.head(&line.run).ok().flatten());
                }
            }
            if !heads.is_empty() {
                let now = clock::now();
                // Its writer may have ended it after it was read; nobody writes it, so the second answer holds.
                let again = rows::lines(connection, store.key.as_ref())?;
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
}

#[async_trait]
impl RunWriter for Writer {
    async fn append(&mut self, entry: &Arc<Entry>, asked: Durability) -> Result<(), JournalError> {
        let (claim, entry, head) = (self.claim.clone(), Arc::clone(entry), Arc::clone(&self.head));
        let (known, durability) = (self.row.take(), self.journal.sync.of(asked));
        let appended = self.journal.blocking(move |store, connection| {
            let key = store.key(&claim.run)?;
            store.place.holds(&store.path)?;
            let transaction = store.begin(connection, durability)?;
            let row = rows::append(&transaction, &claim, known, &entry, key, store.limit)?;
            let row = row.ok_or_else(|| store.unknown(&claim.run))?;
            transaction.commit()?;
            // What the entry announces is begun only where the entry is found again.
            store.place.holds(&store.path)?;
            head.write(key, row.position()?, durability)?;
            Ok(row)
        });
        self.row = Some(appended.await?);
        Ok(())
    }
}

/// That the journal holds less of a run than it did.
fn behind(entries: u64, known: u64) -> String {
    format!(
        "the journal has {entries} of its entries, and there were {known}: it was rolled back, or the file with its newest \
         entries is missing; put the journal's `-wal` file back, or look what the run had done and begin it anew"
    )
}

/// How many bytes of JSON an entry may take where nothing else is said.
const ENTRY_LIMIT: u64 = 32 << 20;

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
mod tests {
    use super::*;

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
