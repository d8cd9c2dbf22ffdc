//! Runs of another version of the program, which are left to a server of that version.

use std::sync::Arc;

use loop_core::types::RunId;
use loop_runtime::journal::Recorded;
use loop_runtime::journal::queue::SubmissionState;

use super::cell::RunCell;
use super::{Engine, EngineError, RunPhase};

impl Engine {
    /// Fails if a newer program has driven the run. Whether this program makes the recorded decisions was checked when
    /// the run was opened.
    pub(super) fn check_version(&self, run: &RunId, recorded: &Recorded) -> Result<(), EngineError> {
        let domain = self.inner.domains.get(&recorded.spec.domain);
        Ok(domain.map_or(Ok(()), |domain| domain.runner.check_version(run, recorded))?)
    }

    /// Leaves a run to another version of the program. In a shared queue, the claim is returned, and this server does
    /// not claim the run again.
    pub(super) async fn leave_to_another(&self, cell: &Arc<RunCell>, why: String) {
        cell.set_trouble(Some(why.into()));
        let journal = &self.inner.journal;
        if journal.shares_queue() {
            {
                let mut state = self.inner.state();
                state.left.insert(cell.run.clone(), Arc::clone(&cell.domain));
                state.cells.remove(&cell.run);
            }
            // What is not given back is free when this process ends.
            _ = journal.give_back_submission(&cell.run).await;
        }
        cell.set_phase(RunPhase::OtherVersion);
    }

    /// The runs that this server does not claim again, without those that have ended.
    pub(super) async fn left_to_others(&self) -> Vec<RunId> {
        let left: Vec<RunId> = self.inner.state().left.keys().cloned().collect();
        if left.is_empty() {
            return left;
        }
        let Ok(rows) = self.inner.journal.submissions_of(left.clone()).await else { return left };
        let is_open = |run: &RunId| rows.get(run).is_some_and(|queued| queued.state != SubmissionState::Over);
        self.inner.state().left.retain(|run, _| is_open(run));
        left.into_iter().filter(is_open).collect()
    }
}
