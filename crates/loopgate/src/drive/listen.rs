//! Carries out requests of other processes for a run that this process drives.

use std::sync::{Arc, Weak};
use std::time::Duration;

use loop_core::types::RunId;
use loop_runtime::journal::StoredJournal;
use loop_runtime::journal::queue::RemoteAnswer;
use loop_runtime::run::Remote;
use tokio::task::AbortHandle;

/// How often a driver checks for requests.
const LISTEN: Duration = Duration::from_millis(500);

/// The most requests that are read at a time.
const MAX_REQUESTS: usize = 100;

/// Carries out requests for a run until this is dropped.
pub(crate) struct Listening(AbortHandle);

impl Listening {
    pub(crate) fn to(journal: &Arc<StoredJournal>, run: &RunId, remote: Remote) -> Self {
        // The journal is closed when the run is over, and not when the runtime drops what it has aborted.
        let (journal, run) = (Arc::downgrade(journal), run.clone());
        Self(tokio::spawn(async move { listen(&journal, &run, &remote).await }).abort_handle())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn listen(journal: &Weak<StoredJournal>, run: &RunId, remote: &Remote) {
    loop {
        tokio::time::sleep(LISTEN).await;
        let Some(journal) = journal.upgrade() else { return };
        // Where the journal cannot be read now, it is looked again.
        let requests = journal.open_requests(MAX_REQUESTS).await.unwrap_or_default();
        for request in requests.into_iter().filter(|request| request.run == *run) {
            match request.kind {
                Some(kind) => _ = remote.carry_out(request.id, kind),
                None => _ = journal.refuse_request(&request.id, RemoteAnswer::Refused).await,
            }
        }
    }
}
