//! Which process writes which run: a lock of the operating system where the journal is a file, one of the server where it
//! is a database.

use std::collections::BTreeSet;

use loop_core::types::RunId;

use super::fault::Fault;
use super::lock::{FileLock, FileLocks};
#[cfg(feature = "postgres")]
use super::postgres::{AdvisoryLock, AdvisoryLocks};

/// The locks of one journal.
#[derive(Debug)]
pub(super) enum Locks {
    Files(FileLocks),
    #[cfg(feature = "postgres")]
    Advisory(AdvisoryLocks),
}

/// The lock of a run, or of another name. Dropping it lets another process take it.
#[derive(Debug)]
pub(super) enum RunLock {
    File(#[expect(dead_code, reason = "it is held until it is dropped")] FileLock),
    #[cfg(feature = "postgres")]
    Advisory(#[expect(dead_code, reason = "it is held until it is dropped")] AdvisoryLock),
}

/// Why a lock was not taken.
#[derive(Debug)]
pub(super) enum NotTaken {
    /// A process holds it; its id, where that is known.
    Held(Option<u32>),
    /// It cannot be taken.
    Failed(Fault),
}

impl Locks {
    /// Takes the lock of a name, or says at once who holds it.
    pub(super) fn take(&self, run: &RunId) -> Result<RunLock, NotTaken> {
        match self {
            Self::Files(locks) => Ok(RunLock::File(locks.take(run)?)),
            #[cfg(feature = "postgres")]
            Self::Advisory(locks) => locks.take(run).map(RunLock::Advisory),
        }
    }

    /// Those of these runs whose lock a process may hold.
    pub(super) fn held(&self, runs: &[&RunId]) -> BTreeSet<RunId> {
        match self {
            Self::Files(locks) => {
                runs.iter().filter(|run| locks.is_held(run)).map(|run| (*run).clone()).collect()
            }
            #[cfg(feature = "postgres")]
            Self::Advisory(locks) => locks.held_of(runs),
        }
    }

    /// Whether a process may hold the lock of a name.
    pub(super) fn is_held(&self, run: &RunId) -> bool {
        match self {
            Self::Files(locks) => locks.is_held(run),
            #[cfg(feature = "postgres")]
            Self::Advisory(locks) => locks.is_held(run),
        }
    }
}
