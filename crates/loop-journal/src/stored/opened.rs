//! An open journal: where it is, what it is locked and sealed with, and what is known of its runs beside the database.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loop_core::types::RunId;

#[cfg(feature = "postgres")]
use super::fault;
use super::fault::Fault;
use super::files::JournalFiles;
use super::heads::{Head, Heads};
use super::locks::{Locks, NotTaken, RunLock};
use super::read::RunData;
use super::seal::{Key, SealFault};
use super::sql::Connection;
use super::{clock, pruned, rows, schema};
use crate::{JournalError, Recorded};

/// The files of a journal, and what is known of them.
#[derive(Debug)]
pub(super) struct Files {
    /// The file; on a server, the URL, which has no password.
    pub(super) path: PathBuf,
    /// The key lies at this path with an ending of its own, and so do the heads. It is the file, where the journal is one.
    pub(super) base: PathBuf,
    pub(super) database: Database,
    pub(super) locks: Locks,
    pub(super) heads: Heads,
    /// `None` where it cannot be read: then nothing is written, and nothing vouched for.
    pub(super) key: Option<Key>,
    pub(super) place: JournalFiles,
    pub(super) entries: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) synced_commits: AtomicU64,
    pub(super) synced_heads: AtomicU64,
    pub(super) last_spec: rows::LastSpec,
}

/// What the journal is stored in.
#[derive(Debug)]
pub(super) enum Database {
    File,
    #[cfg(feature = "postgres")]
    Server(Arc<super::postgres::Server>),
}

impl Files {
    /// The key, which every writer needs.
    pub(super) fn key(&self, run: &RunId) -> Result<&Key, Fault> {
        let missing = || JournalError::Unverified { run: run.clone(), message: self.no_key() };
        Ok(self.key.as_ref().ok_or_else(missing)?)
    }

    pub(super) fn no_key(&self) -> String {
        format!(
            "the journal's key is missing, so nothing vouches for it; put {} back",
            Key::path(&self.base).display()
        )
    }

    /// Says of a run that was read why it may not be resumed, and how long ago its last entry was written.
    pub(super) fn verify(&self, run: &RunId, stored: RunData, head: Option<Head>) -> Result<Recorded, Fault> {
        let RunData { mut recorded, hashes, beginning, broken } = stored;
        if self.key.is_none() {
            recorded.unverified = Some(self.no_key().into());
            return Ok(recorded);
        }
        if broken == Some(SealFault::OtherKey) {
            recorded.unverified = Some(rows::OTHER_KEY.into());
            return Ok(recorded);
        }
        if head.is_none() && self.is_shared() {
            // Another machine wrote it.
            if broken == Some(SealFault::Imported) {
                recorded.unverified = Some(rows::IMPORTED.into());
            }
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
        if broken == Some(SealFault::Imported) {
            recorded.unverified = Some(rows::IMPORTED.into());
        } else if head.committed.entries == hashes.len() as u64 {
            recorded.since_last_ms = head.written.zip(now).and_then(|(then, now)| then.until(&now));
        }
        Ok(recorded)
    }

    /// Whether other machines write the journal too, so that this one has no head of their runs.
    pub(super) fn is_shared(&self) -> bool {
        !matches!(self.database, Database::File)
    }

    /// The name of this process where others share the journal, under a lease that is renewed from now on.
    #[cfg_attr(not(feature = "postgres"), expect(clippy::unnecessary_wraps))]
    pub(super) fn process(&self) -> Result<Option<&str>, Fault> {
        match &self.database {
            Database::File => Ok(None),
            #[cfg(feature = "postgres")]
            Database::Server(server) => {
                if let Locks::Advisory(locks) = &self.locks {
                    locks.live()?;
                }
                Ok(Some(server.id()))
            }
        }
    }

    /// Another connection to the database.
    pub(super) fn connect(&self) -> Result<Connection, JournalError> {
        match &self.database {
            Database::File => match &self.locks {
                Locks::Files(locks) => Ok(Connection::Sqlite(schema::connect(&self.path, locks)?)),
                #[cfg(feature = "postgres")]
                Locks::Advisory(_) => Err(fault::storage(&self.path, "its locks are those of a server")),
            },
            #[cfg(feature = "postgres")]
            Database::Server(server) => server
                .connect()
                .map(|session| Connection::Postgres(Box::new(session)))
                .map_err(|error| Fault::Sql(error.into()).at(&self.path)),
        }
    }

    /// Makes a connection to a server anew that broke since it was used.
    #[cfg_attr(not(feature = "postgres"), expect(clippy::unused_self, clippy::unnecessary_wraps))]
    pub(super) fn revive(&self, connection: &mut Connection) -> Result<(), Fault> {
        match connection {
            Connection::Sqlite(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Connection::Postgres(session) if session.is_closed() => {
                session.revive().map_err(|error| Fault::Sql(error.into()))?;
                // The session with the locks probably broke too. Before anything is written, they are taken again.
                if let Locks::Advisory(locks) = &self.locks { locks.keep() } else { Ok(()) }
            }
            #[cfg(feature = "postgres")]
            Connection::Postgres(_) => Ok(()),
        }
    }

    pub(super) fn count_commit(&self, is_synced: bool) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.synced_commits.fetch_add(is_synced.into(), Ordering::Relaxed);
    }

    /// A run's head, where there is one that can be read.
    pub(super) fn head(&self, run: &RunId) -> Result<Option<Head>, Fault> {
        match &self.key {
            Some(key) => Ok(self.heads.read(run, key)?),
            None => Ok(None),
        }
    }

    /// Why a run is not there: it was pruned, or never was.
    pub(super) fn gone(&self, connection: &Connection, run: &RunId) -> Result<JournalError, Fault> {
        let key = self.key.as_ref();
        let pruned = key.map(|key| pruned::find(connection, run, key)).transpose()?.flatten();
        Ok(pruned.map_or_else(
            || self.unknown(run),
            |pruned| JournalError::Pruned { run: run.clone(), unix_ms: pruned.unix_ms },
        ))
    }

    pub(super) fn unknown(&self, run: &RunId) -> JournalError {
        JournalError::Unknown { run: run.clone(), place: self.path.display().to_string() }
    }

    /// Fails where a run has this request key.
    pub(super) fn check_key(&self, connection: &Connection, key: Option<&Arc<str>>) -> Result<(), Fault> {
        let Some(key) = key else { return Ok(()) };
        match rows::run_of_key(connection, key, self.key.as_ref())? {
            Some(run) => Err(JournalError::KeyTaken { key: Arc::clone(key), run }.into()),
            None => Ok(()),
        }
    }

    pub(super) fn exists(&self, run: &RunId) -> JournalError {
        JournalError::Exists { run: run.clone(), place: self.path.display().to_string() }
    }

    /// The lock of a run; `last_writer` is named where the lock file does not say who holds it.
    pub(super) fn lock(&self, run: &RunId, last_writer: Option<u32>) -> Result<RunLock, Fault> {
        self.locks.take(run).map_err(|not_taken| match not_taken {
            NotTaken::Held(pid) => {
                JournalError::Busy { run: run.clone(), pid: pid.or(last_writer).unwrap_or_default() }.into()
            }
            NotTaken::Failed(fault) => fault,
        })
    }
}

/// That the journal holds less of a run than it did.
pub(super) fn behind(entries: u64, known: u64) -> String {
    format!(
        "the journal has {entries} of its entries, and there were {known}: it was rolled back, or the file with its newest \
         entries is missing; put the journal's `-wal` file back, or look what the run had done and begin it anew"
    )
}
