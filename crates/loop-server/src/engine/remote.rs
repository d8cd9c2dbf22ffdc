//! Requests between servers that share a journal: a server passes a request to the server that drives the run, and
//! carries out requests for its own runs.

use std::sync::Arc;
use std::time::Duration;

use loop_core::EventKind;
use loop_core::types::RunId;
use loop_runtime::Runner;
use loop_runtime::journal::list::JournalChange;
use loop_runtime::journal::queue::{RemoteAnswer, RemoteRequest};
use loop_runtime::run::StartError;
use tokio::time::Instant;

use super::people::{fault_of, over};
use super::shared::changed;
use super::{Engine, EngineError};

impl Engine {
    /// Sends a request to the process that drives a run, and waits for the response.
    pub(super) async fn ask_driver(
        &self,
        run: &RunId,
        runner: &Runner,
        kind: EventKind,
    ) -> Result<(), EngineError> {
        let journal = &self.inner.journal;
        let kind = runner.masked(kind);
        let mut changes = journal.changes();
        let may_answer = |change| match change {
            JournalChange::Run(changed) => changed == *run,
            JournalChange::Requests | JournalChange::Any => true,
            JournalChange::Queue => false,
        };
        let id = journal.request(run, &kind).await?;
        let (since, mut may_withdraw) = (Instant::now(), true);
        loop {
            match journal.request_answer(&id).await {
                Ok(Some(RemoteAnswer::Done)) => return Ok(()),
                Ok(Some(RemoteAnswer::Ended)) => return Err(over(run)),
                Ok(Some(RemoteAnswer::Refused)) => return Err(self.refusal(run, &kind).await),
                // Where the server of the journal is gone, it is asked again.
                Ok(None) | Err(_) => {}
            }
            if may_withdraw && since.elapsed() >= UNTAKEN {
                match journal.withdraw_request(&id).await {
                    Ok(true) => return Err(EngineError::Elsewhere),
                    // Its driver has it.
                    Ok(false) => may_withdraw = false,
                    Err(_) => {}
                }
            }
            if since.elapsed() >= UNANSWERED {
                return Err(EngineError::State(
                    "the process that drives the run has this and does not answer; look at the run before you send it again"
                        .to_owned(),
                ));
            }
            tokio::select! {
                () = self.left() => return Err(EngineError::Draining),
                () = changed(changes.as_mut(), may_answer) => {}
                () = tokio::time::sleep(self.inner.limits.poll) => {}
            }
        }
    }

    /// Why a run does not accept a request.
    async fn refusal(&self, run: &RunId, kind: &EventKind) -> EngineError {
        let (recorded, state) = match self.open_run(run).await {
            Ok(read) => read,
            Err(error) => return error,
        };
        if state.is_done() {
            return over(run);
        }
        let now = recorded.now().max(state.now());
        if let EventKind::Instruction { text } = kind
            && let Err(rejected) = state.takes_instruction(text)
        {
            return EngineError::Rejected(rejected);
        }
        fault_of(&state, now, kind).unwrap_or_else(|| {
            EngineError::State(
                "the run changed before this reached it; look at the run, and send it again".to_owned(),
            )
        })
    }

    /// Carries out requests of other servers for runs of this one, until the engine stops.
    pub(super) async fn look_after_requests(self) {
        let mut changes = self.inner.journal.changes();
        let is_request = |change| matches!(change, JournalChange::Requests | JournalChange::Any);
        loop {
            // Where the server of the journal is gone, it is looked again.
            if let Ok(requests) = self.inner.journal.open_requests(MAX_REQUESTS).await {
                for request in requests {
                    _ = self.look_at(request).await;
                }
            }
            tokio::select! {
                () = self.inner.left.cancelled() => return,
                () = changed(changes.as_mut(), is_request) => {}
                () = self.inner.driver_changed.notified() => {}
                () = tokio::time::sleep(self.inner.limits.poll) => {}
            }
        }
    }

    async fn look_at(&self, request: RemoteRequest) -> Result<(), EngineError> {
        let RemoteRequest { id, run, kind, is_awaited, is_own } = request;
        let journal = &self.inner.journal;
        let Some(kind) = kind else { return Ok(journal.refuse_request(&id, RemoteAnswer::Refused).await?) };
        if let Some(cell) = self.inner.cell(&run)
            && cell.hand_over(&id, kind.clone())
        {
            return Ok(());
        }
        let Some(line) = journal.line(&run).await? else {
            return Ok(journal.refuse_request(&id, RemoteAnswer::Ended).await?);
        };
        match (line.is_written, line.stop.is_some()) {
            (true, _) => Ok(()),
            (false, true) => Ok(journal.refuse_request(&id, RemoteAnswer::Ended).await?),
            // Its driver left or was killed. The process that was asked continues it, if it is there.
            (false, false) if self.is_draining() || (is_awaited && !is_own) => Ok(()),
            (false, false) => self.carry_out(&run, &id, kind).await,
        }
    }

    /// Journals a request for a run that no process drives, and continues the run unless it waits for a person.
    async fn carry_out(&self, run: &RunId, id: &Arc<str>, kind: EventKind) -> Result<(), EngineError> {
        let noted = match self.inner.source.of_run(run).await {
            Ok(runner) => runner.note_request(run, id, kind).await,
            Err(why) => {
                // This server cannot; another one may.
                return Err(EngineError::NotResumed(why));
            }
        };
        match noted {
            Ok(Some(state)) => self.said(run, &state).await,
            Ok(None) | Err(StartError::Refused { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The most requests that are read at a time.
const MAX_REQUESTS: usize = 100;
/// The time after which a request is withdrawn that no driver has taken.
const UNTAKEN: Duration = Duration::from_secs(10);
/// The time after which the engine gives up a request that a driver has taken. Before that, another server takes over
/// the run of a driver that does not respond.
const UNANSWERED: Duration = Duration::from_secs(60);
