//! A journal in one SQLite file: every entry is on the disk before anything follows from it.
//!
//! A run has one writer. It holds a lock file that the system releases when its process ends, however it ends; and
//! because a lock can fail where folders are shared over a network, every take-over raises the run's epoch, and an
//! append under an older epoch is refused. Entries are chained by their hashes, and the run names the last one, so that
//! a changed, lost or added row is noticed when the run is read.

mod fault;
mod lock;
mod rows;
mod schema;

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
use lock::{Locks, NotTaken, RunLock};
use rows::Claim;

/// All runs in one SQLite file. Clones share the connection.
#[derive(Clone, Debug)]
pub struct SqliteJournal {
    store: Arc<Store>,
}

#[derive(Debug)]
struct Store {
    path: PathBuf,
    locks: Locks,
    connection: Mutex<Connection>,
}

#[derive(Debug)]
struct Writer {
    journal: SqliteJournal,
    claim: Claim,
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
        let journal = Self::open_existing(path)?;
        journal.store.writable()?;
        Ok(journal)
    }

    /// The journal at `path`, which must be there: for commands that read.
    ///
    /// # Errors
    /// When there is no file, or it is of a newer format, something else than a journal, or cannot be read.
    pub fn open_existing(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let given = path.into();
        schema::expect_file(&given)?;
        // The same file has the same locks by whatever link it is reached, and no file is taken for `:memory:`.
        let path = fs::canonicalize(&given).map_err(|error| Fault::from(error).at(&given))?;
        let locks = Locks::beside(&path);
        let connection = schema::connect(&path, &locks)?;
        Ok(Self { store: Arc::new(Store { path, locks, connection: Mutex::new(connection) }) })
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

    fn writer(&self, (claim, lock): (Claim, RunLock)) -> Box<dyn RunWriter> {
        Box::new(Writer { journal: self.clone(), claim, _lock: lock })
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
    async fn create(&self, header: &Header) -> Result<Box<dyn RunWriter>, JournalError> {
        let header = header.clone();
        let made = self.blocking(move |store, connection| {
            if rows::last_writer(connection, &header.run)?.is_some() {
                return Err(store.exists(&header.run).into());
            }
            let lock = store.lock(&header.run, None)?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let claim = rows::create(&transaction, &header)?.ok_or_else(|| store.exists(&header.run))?;
            transaction.commit()?;
            Ok((claim, lock))
        });
        Ok(self.writer(made.await?))
    }

    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError> {
        let run = run.clone();
        let taken = self.blocking(move |store, connection| {
            let pid = rows::last_writer(connection, &run)?.ok_or_else(|| store.unknown(&run))?;
            let lock = store.lock(&run, Some(pid))?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let recorded = rows::recorded(&transaction, &run)?.ok_or_else(|| store.unknown(&run))?;
            let claim = rows::take_over(&transaction, &run)?;
            transaction.commit()?;
            Ok((recorded, (claim, lock)))
        });
        let (recorded, claimed) = taken.await?;
        Ok((recorded, self.writer(claimed)))
    }

    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError> {
        let run = run.clone();
        let read = self.blocking(move |store, connection| {
            // In one transaction, so that what another process appends meanwhile is seen as a whole or not at all.
            let transaction = connection.transaction()?;
            Ok(rows::recorded(&transaction, &run)?.ok_or_else(|| store.unknown(&run))?)
        });
        read.await
    }

    async fn runs(&self) -> Result<Vec<RunLine>, JournalError> {
        let listed = self.blocking(|store, connection| {
            let mut lines = rows::lines(connection)?;
            let mut is_open = false;
            for line in lines.iter_mut().filter(|line| line.stop.is_none()) {
                line.is_written = store.locks.is_held(&line.run);
                is_open |= !line.is_written;
            }
            if is_open {
                // Its writer may have ended it after it was read; nobody writes it, so the second answer holds.
                let again: BTreeMap<_, _> =
                    rows::lines(connection)?.into_iter().map(|line| (line.run.clone(), line)).collect();
                for line in lines.iter_mut().filter(|line| line.stop.is_none() && !line.is_written) {
                    if let Some(again) = again.get(&line.run) {
                        line.clone_from(again);
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
        let (claim, entry) = (self.claim.clone(), Arc::clone(entry));
        let appended = self.journal.blocking(move |store, connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let claimed = rows::append(&transaction, &claim, &entry)?;
            claimed.ok_or_else(|| store.unknown(&claim.run))?;
            Ok(transaction.commit()?)
        });
        appended.await
    }
}

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
