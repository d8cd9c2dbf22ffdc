//! Starts an engine: takes the queue, and continues what an earlier process left.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;

use loop_runtime::journal::StoredJournal;
use loop_runtime::journal::queue::{QueuedSubmission, SubmissionState};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cell::{RunCell, SubmittedRun};
use super::line::{Job, JobOrder};
use super::submit::JobBody;
use super::{
    Engine, EngineError, EngineInner, EngineLimits, EngineState, RunPhase, RunnerSource, ServedDomain,
};

impl Engine {
    /// Opens the queue of a journal. Continues what is in it: submissions, runs that were in progress, and runs that
    /// wait for a person.
    ///
    /// # Errors
    /// Another server has the queue, or the journal cannot be read.
    pub async fn open(
        journal: Arc<StoredJournal>,
        domains: Vec<ServedDomain>,
        source: Arc<dyn RunnerSource>,
        limits: EngineLimits,
    ) -> Result<Self, EngineError> {
        let lock = journal.lock_queue()?;
        let domains: BTreeMap<Arc<str>, ServedDomain> =
            domains.into_iter().map(|domain| (Arc::clone(domain.name()), domain)).collect();
        let engine = Self {
            inner: Arc::new(EngineInner {
                journal,
                domains,
                source,
                limits,
                state: Mutex::new(EngineState::default()),
                tasks: TaskTracker::new(),
                asides: Arc::new(Semaphore::new(thread::available_parallelism().map_or(2, Into::into))),
                draining: CancellationToken::new(),
                left: CancellationToken::new(),
                freed: Notify::new(),
                lost_claim: AtomicBool::new(false),
                queued: Mutex::default(),
                driver_changed: Notify::new(),
                _lock: lock,
            }),
        };
        if engine.inner.journal.shares_queue() {
            engine.claim(true).await?;
            tokio::spawn(engine.clone().look_after_queue());
        } else {
            for queued in engine.inner.journal.open_submissions().await? {
                engine.take_up(queued).await?;
            }
            engine.dispatch();
        }
        tokio::spawn(engine.clone().look_after_requests());
        tokio::spawn(engine.clone().look_after_waits());
        Ok(engine)
    }

    /// Enqueues an unfinished submission. One of a domain that is not offered stays in the journal.
    pub(super) async fn take_up(&self, queued: QueuedSubmission) -> Result<(), EngineError> {
        let QueuedSubmission { submission, nth, state, stop, is_sealed } = queued;
        if !self.inner.domains.contains_key(&submission.domain) {
            return Ok(());
        }
        if let Some(cell) = self.inner.cell(&submission.run) {
            // It was here before, and another process had it meanwhile.
            self.continue_run(&cell);
            return Ok(());
        }
        let body: Option<JobBody> = serde_json::from_str(&submission.body).ok();
        let line = self.inner.journal.line(&submission.run).await?;
        let none: Arc<str> = "".into();
        let (item, tags) = match (&body, &line) {
            (Some(body), _) => ([&body.item.id, &body.item.title], body.tags.clone()),
            (None, Some(line)) => ([&line.item, &line.title], Vec::new()),
            (None, None) => ([&none, &none], Vec::new()),
        };
        let has_begun = state != SubmissionState::Queued;
        let known = SubmittedRun::of(&submission, nth, item, tags);
        let phase = if has_begun { RunPhase::Running } else { RunPhase::Queued };
        let cell = Arc::new(RunCell::new(known, phase, stop));
        let order = match has_begun {
            true => JobOrder::resume(submission.priority, nth),
            false => JobOrder::begin(submission.priority, nth),
        };
        let mut state = self.inner.state();
        state.cells.insert(submission.run.clone(), Arc::clone(&cell));
        if is_sealed {
            state.line.push(Job { run: submission.run, domain: submission.domain, order });
        } else {
            cell.set_trouble(Some(
                "its row in the queue was changed by another program, so it is not begun".into(),
            ));
            cell.set_phase(RunPhase::Interrupted);
        }
        Ok(())
    }
}
