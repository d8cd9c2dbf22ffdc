//! What other processes commit to a journal that several share.

use loop_core::types::RunId;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::{Database, StoredJournal};

/// What was committed to a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalChange {
    /// Entries of this run.
    Run(RunId),
    /// A submission was added to the queue.
    Queue,
    /// A request to a run that another process drives was made or answered.
    Requests,
    /// Not known: the connection to the server was made anew, or too much happened at once.
    Any,
}

/// What any process commits to a journal, as its server reports it. A change may be missed while the connection breaks;
/// [`JournalChange::Any`] follows then.
#[derive(Debug)]
pub struct JournalChanges {
    changes: broadcast::Receiver<JournalChange>,
}

impl JournalChanges {
    /// The next change. It never returns once the journal reports no more changes.
    pub async fn next(&mut self) -> JournalChange {
        match self.changes.recv().await {
            Ok(change) => change,
            Err(RecvError::Lagged(_)) => JournalChange::Any,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl StoredJournal {
    /// What is committed from now on, by this process and by others. `None`: the journal is a file, which reports
    /// nothing.
    pub fn changes(&self) -> Option<JournalChanges> {
        match &self.store.files.database {
            Database::File => None,
            #[cfg(feature = "postgres")]
            Database::Server(server) => Some(JournalChanges { changes: server.changes() }),
        }
    }
}
