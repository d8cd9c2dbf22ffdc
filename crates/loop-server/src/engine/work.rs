//! Jobs: a run is driven from the queue to its end, or until it waits for a person.

use std::sync::Arc;
use std::time::Duration;

use loop_core::run::{Phase, Started, StopMode};
use loop_core::types::RunId;
use loop_core::{Outcome, StopReason};
use loop_runtime::journal::JournalError;
use loop_runtime::journal::queue::{QueuedSubmission, SubmissionState};
use loop_runtime::journal::versions::not_on_engine;
use loop_runtime::observe::RunEvent;
use loop_runtime::run::{DriveResult, Handle, StartError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cell::RunCell;
use super::line::{Job, JobOrder};
use super::submit::JobBody;
use super::{Engine, EngineError, ReplyPiece, RunPhase};
use crate::clock::unix_ms;

/// The result of a job.
enum JobEnd {
    /// The run has ended.
    Ended,
    /// The run waits for a person until this deadline.
    Waits { until_unix_ms: u64 },
    /// The run did not continue, for this reason.
    Stays { phase: RunPhase, why: EngineError },
}

impl Engine {
    /// Starts a job for each free permit.
    pub(super) fn dispatch(&self) {
        let inner = &self.inner;
        loop {
            if inner.draining.is_cancelled() {
                return;
            }
            let taken = {
                let mut state = inner.state();
                let super::EngineState { line, places, .. } = &mut *state;
                if places.all() >= inner.limits.max_runs {
                    return;
                }
                let has_place = |name: &str| {
                    inner.domains.get(name).is_some_and(|domain| places.of(name) < domain.max_runs)
                };
                let Some(job) = line.next(has_place) else { return };
                places.take(&job.domain);
                (job.clone(), state.cells.get(&job.run).cloned())
            };
            match taken {
                (job, Some(cell)) => self.start(job, cell),
                (job, None) => inner.state().places.give_back(&job.domain),
            }
        }
    }

    fn start(&self, job: Job, cell: Arc<RunCell>) {
        let place =
            RunSlot { engine: self.clone(), domain: Arc::clone(&job.domain), cell: Arc::clone(&cell) };
        let engine = self.clone();
        let is_new = cell.phase() == RunPhase::Queued;
        cell.set_said_below(false);
        cell.set_phase(RunPhase::Running);
        self.inner.tasks.spawn(async move {
            let came = if is_new { engine.begin(&cell).await } else { engine.resume_job(&cell).await };
            engine
                .settle(&cell, came.unwrap_or_else(|why| JobEnd::Stays { phase: RunPhase::Interrupted, why }))
                .await;
            drop(place);
        });
    }

    /// Records the result of a job.
    async fn settle(&self, cell: &Arc<RunCell>, came: JobEnd) {
        cell.set_remote(None);
        self.inner.driver_changed.notify_one();
        match came {
            JobEnd::Ended => {
                // Otherwise the next start finds out.
                _ = self.inner.journal.advance_submission(&cell.run, SubmissionState::Over).await;
                self.inner.state().end(cell);
                cell.set_phase(RunPhase::Ended);
            }
            JobEnd::Waits { until_unix_ms } => {
                cell.set_phase(RunPhase::Waiting { until_unix_ms });
                // A stop, or an answer to a run below, that came when the driver was already leaving.
                // One that another process drives is looked at again.
                let has_news = cell.stop().is_some() || cell.is_said_below();
                if has_news && until_unix_ms != ELSEWHERE {
                    self.continue_run(cell);
                }
            }
            JobEnd::Stays { why: EngineError::OtherVersion(why), .. } => {
                self.leave_to_another(cell, why).await
            }
            JobEnd::Stays { .. } if !self.is_own(cell).await => {
                // Another process has it. It is looked at again.
                cell.set_phase(RunPhase::Waiting { until_unix_ms: ELSEWHERE });
            }
            JobEnd::Stays { phase, why } => {
                let why = why.for_operator().unwrap_or_else(|| why.to_string());
                cell.set_trouble(Some(why.into()));
                cell.set_phase(phase);
            }
        }
    }

    /// Whether no other process has claimed a run meanwhile.
    async fn is_own(&self, cell: &RunCell) -> bool {
        self.inner.journal.has_claim(&cell.run).await.unwrap_or(true)
    }

    /// Begins the run of a submission. If the run exists already, it was begun before a crash.
    async fn begin(&self, cell: &Arc<RunCell>) -> Result<JobEnd, EngineError> {
        let inner = &self.inner;
        let queued = inner.journal.submission(&cell.run).await?.ok_or(EngineError::UnknownRun)?;
        if !queued.is_sealed {
            return Err(EngineError::NotResumed(
                "its row in the queue was changed by another program, so it is not begun".to_owned(),
            ));
        }
        if queued.submission.body.is_empty() {
            return self.resume_job(cell).await;
        }
        let body: JobBody = serde_json::from_str(&queued.submission.body).map_err(|error| {
            EngineError::NotResumed(format!("its row in the queue cannot be read: {error}"))
        })?;
        if body.from.is_some() && inner.journal.line(&cell.run).await?.is_some() {
            // It was begun before a crash, whatever became of the run that it began from.
            self.note_begun(&cell.run).await;
            return self.resume_job(cell).await;
        }
        let domain = inner.domains.get(&cell.domain).ok_or(EngineError::UnknownRun)?;
        let runner = self.runner_of(domain, &body).await?.map_err(EngineError::NotResumed)?;
        let stop = queued.stop.or(cell.stop());
        let cancel = CancellationToken::new();
        let request = body.request(&runner).with_id(cell.run.clone());
        // One that is stopped before it begins ends without a call.
        let request = if stop.is_some() {
            cancel.cancel();
            request.until(&cancel)
        } else {
            request
        };
        match request.start().await {
            Ok(handle) => {
                self.note_begun(&cell.run).await;
                if stop.is_none() && inner.journal.shares_queue() {
                    // From here on another server asks the driver; until then it may have left its stop in the row.
                    if let Ok(Some(QueuedSubmission { stop: Some(how), .. })) =
                        inner.journal.submission(&cell.run).await
                    {
                        cell.set_stop(how);
                    }
                }
                self.drive(cell, handle).await
            }
            Err(StartError::Journal(JournalError::Exists { .. })) => {
                self.note_begun(&cell.run).await;
                self.resume_job(cell).await
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn note_begun(&self, run: &RunId) {
        // Where it is not recorded, the next start begins it again by its id, and finds it there.
        _ = self.inner.journal.advance_submission(run, SubmissionState::Begun).await;
    }

    /// Continues a run until it ends or waits.
    async fn resume_job(&self, cell: &Arc<RunCell>) -> Result<JobEnd, EngineError> {
        let inner = &self.inner;
        let (recorded, run) = self.open_run(&cell.run).await?;
        cell.set_entries(recorded.entries.len() as u64);
        if run.is_done() {
            return Ok(JobEnd::Ended);
        }
        not_on_engine(&cell.run, &recorded)?;
        self.check_version(&cell.run, &recorded)?;
        let stop = cell.stop();
        if matches!(run.phase(), Phase::WaitingForPerson { .. }) && stop.is_none() {
            let deadline = run.deadline();
            if deadline.is_none_or(|deadline| deadline > recorded.now()) {
                return Ok(JobEnd::Waits { until_unix_ms: until(run.started(), deadline) });
            }
        }
        let runner = inner.source.of_run(&cell.run).await.map_err(EngineError::NotResumed)?;
        match runner.resume(&cell.run).start().await {
            Ok(handle) => {
                if let Some(how) = stop {
                    handle.stop(how);
                }
                self.drive(cell, handle).await
            }
            // It is looked at again.
            Err(StartError::Journal(JournalError::Busy { .. })) => {
                Ok(JobEnd::Waits { until_unix_ms: ELSEWHERE })
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn drive(&self, cell: &Arc<RunCell>, mut handle: Handle) -> Result<JobEnd, EngineError> {
        cell.set_trouble(None);
        cell.set_remote(Some(handle.remote()));
        self.inner.driver_changed.notify_one();
        let events = handle.events();
        let watched = Arc::clone(cell);
        let watching = tokio::spawn(async move {
            let Some(mut events) = events else { return };
            while let Some(event) = events.recv().await {
                match event {
                    RunEvent::Recorded(entry) => watched.set_entries(entry.seq + 1),
                    RunEvent::Text { key, attempt, text } => {
                        watched.tell(ReplyPiece { call: key.to_string().into(), attempt, text });
                    }
                    RunEvent::Part { .. } | RunEvent::Call { .. } | RunEvent::Lost { .. } => {}
                }
            }
        });
        // A stop that was asked for between the start and here.
        if let Some(how) = cell.stop() {
            handle.stop(how);
        }
        let driven = handle.driven().await;
        _ = watching.await;
        Ok(match driven {
            DriveResult::Ended(outcome) => self.ended_as(cell, &outcome).await?,
            DriveResult::Waiting(waiting) => {
                let until = waiting.requested.iter().filter_map(|requested| requested.until_unix_ms).min();
                JobEnd::Waits { until_unix_ms: until.unwrap_or(NEVER) }
            }
        })
    }

    /// The result when a driver ends. A driver that cannot write the journal ends too, but its run has not ended.
    async fn ended_as(&self, cell: &RunCell, outcome: &Outcome) -> Result<JobEnd, EngineError> {
        let line = self.inner.journal.line(&cell.run).await?;
        let has_stop = line.is_some_and(|line| line.stop.is_some());
        let has_failed = outcome.stop.primary.reason == StopReason::StorageFailed;
        if (has_stop && !has_failed) || self.open_run(&cell.run).await?.1.is_done() {
            return Ok(JobEnd::Ended);
        }
        let why = "its driver could not write the journal; free the journal's disk, then resume the run";
        Ok(JobEnd::Stays { phase: RunPhase::Interrupted, why: EngineError::NotResumed(why.to_owned()) })
    }

    /// Enqueues a run to be continued. A run that is driven already is left alone.
    pub(super) fn continue_run(&self, cell: &Arc<RunCell>) {
        let (run, domain) = (cell.run.clone(), Arc::clone(&cell.domain));
        let order = JobOrder::resume(cell.priority, cell.nth);
        if !cell.leave_rest(RunPhase::Running) {
            return;
        }
        self.inner.state().line.push(Job { run, domain, order });
        self.dispatch();
    }

    /// Enqueues a submission again whose run could not begin.
    pub(super) fn begin_again(&self, cell: &Arc<RunCell>) {
        let (run, domain) = (cell.run.clone(), Arc::clone(&cell.domain));
        if !cell.leave_rest(RunPhase::Queued) {
            return;
        }
        self.inner.state().line.push(Job { run, domain, order: JobOrder::begin(cell.priority, cell.nth) });
        self.dispatch();
    }

    /// Begins a run that was stopped before it began. It costs nothing, so it does not wait for a permit.
    pub(super) fn begin_stopped(&self, cell: &Arc<RunCell>, how: StopMode) {
        cell.set_stop(how);
        let job = {
            let mut state = self.inner.state();
            let order = JobOrder::begin(cell.priority, cell.nth);
            let job = state.line.remove(&cell.domain, order, &cell.run);
            if job.is_some() {
                state.places.take(&cell.domain);
            }
            job
        };
        match job {
            Some(job) => self.start(job, Arc::clone(cell)),
            // It has begun meanwhile.
            None => _ = self.stop_driven(cell, how),
        }
    }

    /// Watches the runs that wait, until the engine stops: their deadline may pass, and another process may answer.
    pub(super) async fn look_after_waits(self) {
        let mut delivered = Instant::now();
        loop {
            tokio::select! {
                () = self.inner.left.cancelled() => return,
                () = tokio::time::sleep(self.inner.limits.poll) => {}
            }
            if self.is_draining() {
                continue;
            }
            if delivered.elapsed() >= self.inner.limits.deliver {
                // What fails is due again.
                _ = self.deliver_due().await;
                delivered = Instant::now();
            }
            let waiting: Vec<Arc<RunCell>> = {
                let state = self.inner.state();
                state
                    .cells
                    .values()
                    .filter(|cell| matches!(cell.phase(), RunPhase::Waiting { .. }))
                    .cloned()
                    .collect()
            };
            if waiting.is_empty() {
                continue;
            }
            let runs: Vec<RunId> = waiting.iter().map(|cell| cell.run.clone()).collect();
            let Ok(progress) = self.inner.journal.free_runs(runs).await else { continue };
            let now = unix_ms();
            for cell in waiting {
                let RunPhase::Waiting { until_unix_ms } = cell.phase() else { continue };
                let Some(entries) = progress.get(&cell.run) else { continue };
                if until_unix_ms <= now || *entries != cell.entries() {
                    self.continue_run(&cell);
                }
            }
        }
    }
}

pub(super) fn until(started: &Started, deadline: Option<loop_core::types::Millis>) -> u64 {
    deadline.map_or(NEVER, |deadline| started.unix_ms_at(deadline))
}

/// A permit, released when it is dropped. A run whose task panicked is left to the operator.
struct RunSlot {
    engine: Engine,
    domain: Arc<str>,
    cell: Arc<RunCell>,
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        if self.cell.phase() == RunPhase::Running && std::thread::panicking() {
            self.cell.set_remote(None);
            self.cell.set_trouble(Some("its driver failed; restart the server to resume it".into()));
            self.cell.set_phase(RunPhase::Interrupted);
        }
        self.engine.inner.state().places.give_back(&self.domain);
        self.engine.dispatch();
        self.engine.inner.freed.notify_one();
    }
}

/// In place of a deadline: another process drives the run.
pub(super) const ELSEWHERE: u64 = 0;

/// The deadline of a wait without one.
pub(super) const NEVER: u64 = u64::MAX;
/// The default interval between checks of waiting runs.
pub(super) const POLL: Duration = Duration::from_secs(1);
/// The default interval between retries of hook messages.
pub(super) const DELIVER: Duration = Duration::from_secs(30);
