//! A journal in one SQLite file: every entry is on the disk before anything follows from it.
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
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loop_core::RunId;
use rusqlite::{Connection, TransactionBehavior};

use crate::journal::{Entry, Header, Journal, JournalError, Recorded, RunLine, RunWriter};
use fault::Fault;
use heads::{Head, HeadFile, Heads};
use lock::{Locks, NotTaken, RunLock};
use place::Place;
use rows::{Claim, Stored};
use seal::{Broken, Key};

/// All runs in one SQLite file. Clones share the connection.
#[derive(Clone, Debug)]
pub struct SqliteJournal {
    store: Arc<Store>,
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
    connection: Mutex<Connection>,
}

#[derive(Debug)]
struct Writer {
    journal: SqliteJournal,
    claim: Claim,
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
        Self { store: store.unwrap_or_else(|shared| shared) }
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
        let store = Store { path, locks, heads, key, place, limit: ENTRY_LIMIT, connection };
        Ok(Self { store: Arc::new(store) })
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

    fn writer(&self, (claim, head, lock): (Claim, HeadFile, RunLock)) -> Box<dyn RunWriter> {
        Box::new(Writer { journal: self.clone(), claim, head: Arc::new(head), _lock: lock })
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
        let known = usize::try_from(head.entries).unwrap_or(usize::MAX);
        let hash = if known == 0 { Some(&beginning) } else { hashes.get(known - 1) };
        match hash {
            None => recorded.unverified = Some(behind(hashes.len() as u64, head.entries).into()),
            Some(hash) if *hash != head.hash => {
                return Err(rows::corrupt(run, head.entries.saturating_sub(1), rows::CHANGED));
            }
            Some(_) if known == hashes.len() => {
                let now = clock::now();
                recorded.since_last_ms = head.written.zip(now).and_then(|(then, now)| then.until(&now));
            }
            Some(_) => {}
        }
        Ok(recorded)
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
        let (header, first) = (header.clone(), Arc::clone(first));
        let made = self.blocking(move |store, connection| {
            if rows::last_writer(connection, &header.run)?.is_some() {
                return Err(store.exists(&header.run).into());
            }
            store.place.holds(&store.path)?;
            let key = store.key(&header.run)?;
            let lock = store.lock(&header.run, None)?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let made = rows::create(&transaction, &header, &first, key, store.limit)?;
            let (claim, hash) = made.ok_or_else(|| store.exists(&header.run))?;
            let head = store.heads.create(&header.run, key, rows::beginning(&header))?;
            transaction.commit()?;
            store.place.holds(&store.path)?;
            head.write(key, 1, hash)?;
            Ok((claim, head, lock))
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
            let recorded = store.verify(&run, stored.ok_or_else(|| store.unknown(&run))?, head)?;
            if let Some(message) = &recorded.unverified {
                let message = message.to_string();
                return Err(JournalError::Unverified { run, message }.into());
            }
            let head = store.heads.open(&run)?;
            let claim = rows::take_over(&transaction, &run, store.key(&run)?)?;
            let claim = claim.ok_or_else(|| store.unknown(&run))?;
            transaction.commit()?;
            Ok((recorded, (claim, head, lock)))
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
                // Its writer may have ended it after it was read; nobody writes it, so the second answer holds.
                let again = rows::lines(connection, store.key.as_ref())?;
                let again: BTreeMap<_, _> = again.into_iter().map(|line| (line.run.clone(), line)).collect();
                for line in lines.iter_mut().filter(|line| line.stop.is_none() && !line.is_written) {
                    if let Some(again) = again.get(&line.run) {
                        line.clone_from(again);
                    }
                    let head = heads.get(&line.run).and_then(Option::as_ref);
                    if let Some(head) = head.filter(|head| head.entries > line.entries) {
                        line.trouble.get_or_insert_with(|| behind(line.entries, head.entries).into());
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
    async fn append(&mut self, entry: &Arc<Entry>) -> Result<(), JournalError> {
        let (claim, entry, head) = (self.claim.clone(), Arc::clone(entry), Arc::clone(&self.head));
        let appended = self.journal.blocking(move |store, connection| {
            let key = store.key(&claim.run)?;
            store.place.holds(&store.path)?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let hash = rows::append(&transaction, &claim, &entry, key, store.limit)?;
            let hash = hash.ok_or_else(|| store.unknown(&claim.run))?;
            transaction.commit()?;
            // What the entry announces is begun only where the entry is found again.
            store.place.holds(&store.path)?;
            Ok(head.write(key, entry.seq + 1, hash)?)
        });
        appended.await
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
