//! Stops, instructions, approvals, denials and answers. Each is journaled, or handed to the run's driver, before the
//! caller gets a response.

use std::sync::Arc;
use std::time::Duration;

use loop_core::run::{AnswerFault, PersonAnswer, Phase, StopMode};
use loop_core::types::{Approver, CommandKey, Millis, RunId};
use loop_core::{EventKind, Run};
use loop_runtime::journal::queue::SubmissionState;
use loop_runtime::journal::versions::not_on_engine;
use loop_runtime::journal::{Journal as _, Recorded, replay};
use loop_runtime::run::{expire, note_alone};

use super::cell::{RunCell, SubmittedRun};
use super::work::until;
use super::{Engine, EngineError, RunPhase};

/// A person's decision about an action that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonDecision {
    /// The action may run once, as it was shown.
    Approve {
        /// Who approves it.
        by: Approver,
    },
    /// The action does not run.
    Deny {
        /// The reason, which the model reads.
        why: Arc<str>,
    },
    /// The answer to a question.
    Answer {
        /// The answer.
        text: Arc<str>,
    },
}

impl Engine {
    /// Stops a run, at its next gate or at once. A queued run ends without a model call.
    ///
    /// # Errors
    /// There is no such run, it has ended, or another process drives it.
    pub async fn stop(&self, run: &RunId, how: StopMode) -> Result<(), EngineError> {
        if let Some(cell) = self.inner.cell(run) {
            if cell.phase() == RunPhase::Queued && self.inner.journal.stop_submission(run, how).await? {
                self.begin_stopped(&cell, how);
                return Ok(());
            }
            if self.stop_driven(&cell, how) {
                return Ok(());
            }
            if cell.phase() == RunPhase::Interrupted && self.inner.journal.line(run).await?.is_none() {
                return self.give_up(&cell).await;
            }
        }
        // In a queue that servers share, the one that begins it finds the stop.
        if self.inner.journal.shares_queue() && self.inner.journal.stop_submission(run, how).await? {
            return Ok(());
        }
        let (_, state) = self.open_own(run).await?;
        if state.is_done() {
            return Err(over(run));
        }
        if let Some(by) = state.started().provenance.called_by.as_deref() {
            let root = &by.root;
            return Err(EngineError::State(format!("it is a part of run {root}; stop that one")));
        }
        self.say(&state, EventKind::StopRequested { how }).await
    }

    /// Stops a run that is driven or about to be. False: it is not such a run.
    ///
    /// The stop is set before the remote is read, and the driver sets the remote before it reads the stop, so one of them
    /// sees the other.
    pub(super) fn stop_driven(&self, cell: &Arc<RunCell>, how: StopMode) -> bool {
        if cell.phase() != RunPhase::Running {
            return false;
        }
        cell.set_stop(how);
        if let Some(remote) = cell.remote() {
            remote.stop(how);
        }
        match cell.phase() {
            RunPhase::Running => true,
            // Its driver left meanwhile.
            RunPhase::Waiting { .. } => {
                self.continue_run(cell);
                true
            }
            RunPhase::Queued | RunPhase::Interrupted | RunPhase::OtherVersion | RunPhase::Ended => false,
        }
    }

    /// Ends a submission whose run could not begin, and which therefore has no outcome.
    async fn give_up(&self, cell: &Arc<RunCell>) -> Result<(), EngineError> {
        let queued = self.inner.journal.submission(&cell.run).await?;
        if queued.is_some_and(|queued| !queued.is_sealed) {
            return Err(EngineError::State(
                "its row in the queue was changed by another program; the operator removes it from the journal"
                    .to_owned(),
            ));
        }
        // From here on it is not begun again.
        if !cell.leave_rest(RunPhase::Ended) {
            return Err(EngineError::State("the run begins now; send the stop again".to_owned()));
        }
        if let Err(error) = self.inner.journal.advance_submission(&cell.run, SubmissionState::Over).await {
            cell.set_phase(RunPhase::Interrupted);
            return Err(error.into());
        }
        self.inner.state().cells.remove(&cell.run);
        Ok(())
    }

    /// Gives a run an instruction for its next pass.
    ///
    /// # Errors
    /// The run has no further pass or has not begun, or another process drives it.
    pub async fn instruct(&self, run: &RunId, text: Arc<str>) -> Result<(), EngineError> {
        if text.trim().is_empty() {
            return Err(EngineError::Invalid("text: it is blank; give the instruction".to_owned()));
        }
        if self.has_not_begun(run).await? {
            return Err(EngineError::State(
                "the run has not begun; send the instruction when it has, or submit another item".to_owned(),
            ));
        }
        let (_, state) = self.open_own(run).await?;
        if state.is_done() {
            return Err(over(run));
        }
        state.takes_instruction(&text).map_err(EngineError::Rejected)?;
        if let Some(remote) = self.inner.cell(run).and_then(|cell| cell.remote()) {
            // Otherwise its driver leaves.
            if remote.tell(Arc::clone(&text)) {
                return Ok(());
            }
        }
        self.say(&state, EventKind::Instruction { text }).await
    }

    /// Whether a run is in the queue, of this or another server.
    pub(super) async fn has_not_begun(&self, run: &RunId) -> Result<bool, EngineError> {
        let journal = &self.inner.journal;
        match self.inner.cell(run) {
            Some(cell) => Ok(cell.phase() == RunPhase::Queued),
            None if !journal.shares_queue() || journal.line(run).await?.is_some() => Ok(false),
            None => Ok(journal
                .submission(run)
                .await?
                .is_some_and(|queued| queued.state == SubmissionState::Queued)),
        }
    }

    /// Decides an action that waits. `binding` identifies what the person was shown. The decision counts for nothing
    /// else.
    ///
    /// # Errors
    /// The action does not wait, it was changed since it was shown, or the decision does not count.
    pub async fn decide(
        &self,
        run: &RunId,
        key: &str,
        binding: &str,
        decision: PersonDecision,
    ) -> Result<(), EngineError> {
        if self.has_not_begun(run).await? {
            return Err(EngineError::NoAction { key: cut(key) });
        }
        let (recorded, state) = self.open_own(run).await?;
        let no_action = || EngineError::NoAction { key: cut(key) };
        let action: CommandKey = key.parse().map_err(|_| no_action())?;
        let own = state.binding(&action).ok_or_else(no_action)?;
        if own.to_string() != binding.trim().to_ascii_lowercase() {
            return Err(EngineError::Binding { key: action.to_string() });
        }
        let now = recorded.now().max(state.now());
        let answered = |key, answer| EventKind::PersonAnswered { key, answer, binding: Some(own) };
        let kind = match decision {
            PersonDecision::Approve { by } => EventKind::ApprovedBy { key: action, by, binding: Some(own) },
            PersonDecision::Deny { why } => answered(action, PersonAnswer::Denied { why }),
            PersonDecision::Answer { text } => answered(action, PersonAnswer::Answered { text }),
        };
        if let Some(refused) = fault_of(&state, now, &kind) {
            if matches!(refused, EngineError::Answer { fault: AnswerFault::Expired { .. }, .. }) {
                // From now on, whatever a clock is set to. A driver of the run journals it as well.
                _ = expire(&*self.inner.journal, run).await;
            }
            return Err(refused);
        }
        if let Some(remote) = self.inner.cell(run).and_then(|cell| cell.remote()) {
            let is_taken = match kind.clone() {
                EventKind::ApprovedBy { key, by, .. } => remote.approve_as(key, by, own),
                EventKind::PersonAnswered { key, answer, .. } => remote.answer_as_shown(key, answer, own),
                _ => false,
            };
            // Otherwise its driver leaves.
            if is_taken {
                return Ok(());
            }
        }
        self.say(&state, kind).await
    }

    /// Continues a run that was interrupted, or whose deadline for an answer has passed.
    ///
    /// # Errors
    /// It has ended, it waits for a person, or another process drives it.
    pub async fn resume(&self, run: &RunId) -> Result<(), EngineError> {
        if self.inner.draining.is_cancelled() {
            return Err(EngineError::Draining);
        }
        if let Some(cell) = self.inner.cell(run)
            && matches!(cell.phase(), RunPhase::Queued | RunPhase::Running)
        {
            return Ok(());
        }
        if let Some(cell) = self.inner.cell(run)
            && self.inner.journal.line(run).await?.is_none()
        {
            // It could not begin.
            self.begin_again(&cell);
            return Ok(());
        }
        let (recorded, state) = self.open_own(run).await?;
        if state.is_done() {
            return Err(over(run));
        }
        if let Some(by) = state.started().provenance.called_by.as_deref() {
            return Box::pin(self.resume(&by.root)).await;
        }
        self.check_version(run, &recorded)?;
        let now = recorded.now();
        if matches!(state.phase(), Phase::WaitingForPerson { .. })
            && !state.requested().iter().any(|requested| requested.is_over(now))
        {
            return Err(EngineError::State(
                "the run waits for a person; decide what GET /v1/pending lists, and it continues by itself"
                    .to_owned(),
            ));
        }
        let line = self.inner.journal.line(run).await?.ok_or(EngineError::UnknownRun)?;
        if line.is_written {
            // Another request may have continued it here meanwhile.
            let is_here = self.inner.cell(run).is_some_and(|cell| cell.phase() == RunPhase::Running);
            return if is_here { Ok(()) } else { Err(EngineError::Elsewhere) };
        }
        if !self.inner.domains.contains_key(&state.spec().domain) {
            return Err(EngineError::State(format!(
                "its domain `{}` is not served here; the operator serves it, or resumes the run with `loopgate resume`",
                state.spec().domain
            )));
        }
        let cell = self.cell_of(&state).await?;
        self.continue_run(&cell);
        Ok(())
    }

    /// Journals this event and continues the run, unless it still waits for a person.
    async fn say(&self, state: &Run, kind: EventKind) -> Result<(), EngineError> {
        let run = state.id();
        if let Some(by) = state.started().provenance.called_by.as_deref() {
            return self.say_below(run, &by.root, kind).await;
        }
        let runner = self.inner.source.of_run(run).await.map_err(EngineError::NotResumed)?;
        let mut noted = runner.note_down(run, [kind.clone()]).await.map_err(EngineError::from);
        if matches!(noted, Err(EngineError::Elsewhere))
            && let Some(cell) = self.inner.cell(run).filter(|cell| cell.phase() == RunPhase::Running)
        {
            // Its driver leaves, and has the journal's lock until its hooks have been delivered.
            _ = tokio::time::timeout(LEAVES, cell.live().rests()).await;
            noted = runner.note_down(run, [kind.clone()]).await.map_err(EngineError::from);
        }
        match noted {
            Err(EngineError::Elsewhere) if self.inner.journal.shares_queue() => {
                self.ask_driver(run, &runner, kind).await
            }
            noted => self.said(run, &noted?).await,
        }
    }

    /// Journals this event in a run that another run called as a tool, and continues the run at the root of the tree.
    async fn say_below(&self, run: &RunId, root: &RunId, kind: EventKind) -> Result<(), EngineError> {
        let (_, top) = self.open_own(root).await?;
        if top.is_done() {
            return Err(over(root));
        }
        if note_alone(&*self.inner.journal, run, vec![kind]).await?.is_none() {
            return Err(EngineError::State(format!(
                "it would end by that; stop run {root}, of which it is a part"
            )));
        }
        if self.inner.domains.contains_key(&top.spec().domain) {
            let cell = self.cell_of(&top).await?;
            cell.set_said_below(true);
            self.continue_run(&cell);
        }
        Ok(())
    }

    /// Continues a run after an event was journaled, unless it still waits for a person.
    pub(super) async fn said(&self, run: &RunId, state: &Run) -> Result<(), EngineError> {
        if !self.inner.domains.contains_key(&state.spec().domain) {
            // No place here is for it. Its view says so.
            return Ok(());
        }
        let cell = self.cell_of(state).await?;
        if !matches!(state.phase(), Phase::WaitingForPerson { .. }) {
            self.continue_run(&cell);
        } else if let Some(line) = self.inner.journal.line(run).await? {
            // What was journaled here is known here, and its readers look at it.
            cell.set_entries(line.entries);
        }
        Ok(())
    }

    /// A run from the journal.
    pub(super) async fn open_run(&self, run: &RunId) -> Result<(Recorded, Run), EngineError> {
        let (id, recorded) = (run.clone(), self.inner.journal.read(run).await?);
        let replaying = self.aside(move || {
            let state = replay(&id, &recorded)?;
            Ok((recorded, state))
        });
        replaying.await?
    }

    /// [`open_run`](Self::open_run), which fails if a durable engine drives the run.
    async fn open_own(&self, run: &RunId) -> Result<(Recorded, Run), EngineError> {
        let (recorded, state) = self.open_run(run).await?;
        if !state.is_done() {
            not_on_engine(run, &recorded)?;
        }
        Ok((recorded, state))
    }

    /// The cell of a run that has not ended. It is created for a run that was not submitted here.
    async fn cell_of(&self, state: &Run) -> Result<Arc<RunCell>, EngineError> {
        if let Some(cell) = self.inner.cell(state.id()) {
            return Ok(cell);
        }
        let queued = self.inner.journal.submission(state.id()).await?;
        let started = state.started();
        let known = SubmittedRun {
            run: state.id().clone(),
            domain: Arc::clone(&state.spec().domain),
            caller: queued.as_ref().map_or_else(|| "".into(), |queued| Arc::clone(&queued.submission.caller)),
            priority: queued.as_ref().map_or(0, |queued| queued.submission.priority),
            unix_ms: started.unix_ms,
            item: Arc::clone(&started.item.id),
            title: Arc::clone(&started.item.title),
            tags: Vec::new(),
            nth: queued.map_or(0, |queued| queued.nth),
        };
        let mut state_of = self.inner.state();
        // Another request may have made it meanwhile.
        let cell = state_of.cells.entry(state.id().clone());
        // It may wait for more people than the one who makes it known here.
        let phase = if matches!(state.phase(), Phase::WaitingForPerson { .. }) {
            RunPhase::Waiting { until_unix_ms: until(started, state.deadline()) }
        } else {
            RunPhase::Interrupted
        };
        Ok(Arc::clone(cell.or_insert_with(|| Arc::new(RunCell::new(known, phase, None)))))
    }
}

/// How long to wait for a driver that is ending. Hooks take at most a minute.
const LEAVES: Duration = Duration::from_secs(65);

/// Why an approval or an answer does not count. `None`: it counts, or it is neither.
pub(super) fn fault_of(state: &Run, now: Millis, kind: &EventKind) -> Option<EngineError> {
    let (key, may) = match kind {
        EventKind::ApprovedBy { key, by, binding } => {
            (key, state.may_approve(now, key, by, binding.as_ref()))
        }
        EventKind::PersonAnswered { key, answer, binding } => {
            (key, state.may_answer(now, key, answer, binding.as_ref()))
        }
        _ => return None,
    };
    may.err().map(|fault| EngineError::Answer { key: key.to_string(), fault })
}

pub(super) fn over(run: &RunId) -> EngineError {
    EngineError::State(format!("run {run} has ended; GET /v1/runs/{run}/document returns what it came to"))
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}
