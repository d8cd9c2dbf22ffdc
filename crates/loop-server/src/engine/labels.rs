//! Labels of runs, for the API and the pages.

use loop_core::types::RunId;
use loop_runtime::journal::JournalError;
use loop_runtime::journal::label::RunLabel;

use super::{Engine, EngineError};

impl Engine {
    /// Sets the label of a run that has ended. `None` removes it.
    ///
    /// # Errors
    /// If there is no such run, it has not ended, or the journal cannot be written.
    pub async fn label(&self, run: &RunId, label: Option<RunLabel>) -> Result<(), EngineError> {
        match self.inner.journal.set_label(run, label).await {
            // It waits in the queue.
            Err(JournalError::Unknown { .. }) if self.owner(run).await?.is_some() => {
                Err(JournalError::NotEnded { run: run.clone() }.into())
            }
            set => Ok(set?),
        }
    }
}
