//! A queue that several servers share. Each server claims as many runs as it can drive. Runs of a process that has
//! ended are claimed and continued by others.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loop_core::run::Phase;
use loop_core::types::RunId;
use loop_runtime::journal::list::{JournalChange, JournalChanges};
use loop_runtime::journal::queue::SubmissionState;
use tokio::time::Instant;

use super::{Engine, EngineError, ServedDomain};

impl Engine {
    /// Claims submissions for the free permits. With `looks_for_left`, also runs in progress that no process drives any
    /// more.
    pub(super) async fn claim(&self, looks_for_left: bool) -> Result<(), EngineError> {
        let journal = &self.inner.journal;
        if self.inner.lost_claim.load(Ordering::Relaxed) {
            for queued in journal.claimed_submissions().await? {
                if self.inner.cell(&queued.submission.run).is_none() {
                    self.take_up(queued).await?;
                }
            }
            self.inner.lost_claim.store(false, Ordering::Relaxed);
        }
        let left = self.left_to_others().await;
        for domain in self.inner.domains.values() {
            let mut claimed = match looks_for_left {
                true => {
                    journal.claim_submissions(domain.name(), SubmissionState::Begun, MAX_LEFT, &left).await?
                }
                false => Vec::new(),
            };
            let free = self.free_places(domain);
            if free > 0 {
                claimed.extend(
                    journal.claim_submissions(domain.name(), SubmissionState::Queued, free, &[]).await?,
                );
            }
            for queued in claimed {
                self.take_up(queued).await?;
            }
        }
        self.dispatch();
        Ok(())
    }

    /// How many more runs of a domain can begin here.
    fn free_places(&self, domain: &ServedDomain) -> usize {
        let state = self.inner.state();
        let waiting = state.line.all();
        let all = self.inner.limits.max_runs.saturating_sub(state.places.all() + waiting);
        let taken = state.places.of(domain.name()) + state.line.of(domain.name());
        all.min(domain.max_runs.saturating_sub(taken))
    }

    /// Claims until the engine stops: when a permit is free, when the queue has more, and at intervals, since a process
    /// that crashes sends no notification.
    pub(super) async fn look_after_queue(self) {
        let mut changes = self.inner.journal.changes();
        let is_of_queue = |change| matches!(change, JournalChange::Queue | JournalChange::Any);
        let mut looked = Instant::now();
        loop {
            tokio::select! {
                () = self.inner.left.cancelled() => return,
                () = self.inner.freed.notified() => {}
                () = changed(changes.as_mut(), is_of_queue) => {}
                () = tokio::time::sleep(self.inner.limits.poll) => {}
            }
            if !self.is_draining() {
                // Where the server of the journal is gone, it is tried again.
                let looks_for_left = looked.elapsed() >= self.inner.limits.poll;
                if looks_for_left {
                    looked = Instant::now();
                    if let Ok(queued) = self.inner.journal.queue_lengths().await {
                        *self.inner.queued.lock().unwrap_or_else(PoisonError::into_inner) = queued;
                    }
                }
                if self.claim(looks_for_left).await.is_err() {
                    self.inner.lost_claim.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Waits until a run of another process, or of none yet, has ended or waits for a person.
    pub(super) async fn wait_elsewhere(&self, run: &RunId, limit: Duration) {
        let until = Instant::now() + limit;
        let mut changes = self.inner.journal.changes();
        while !self.rests_elsewhere(run).await {
            if let Some(mut live) = self.live(run) {
                _ = tokio::time::timeout_at(until, live.rests()).await;
                return;
            }
            tokio::select! {
                () = self.draining() => return,
                () = tokio::time::sleep_until(until) => return,
                () = run_changed(changes.as_mut(), run) => {}
                () = tokio::time::sleep(self.inner.limits.poll) => {}
            }
        }
    }

    /// Whether a run is in a shared queue.
    #[cfg(feature = "http")]
    pub(crate) async fn is_queued(&self, run: &RunId) -> bool {
        let journal = &self.inner.journal;
        journal.shares_queue()
            && matches!(journal.submission(run).await, Ok(Some(queued)) if queued.state != SubmissionState::Over)
    }

    async fn rests_elsewhere(&self, run: &RunId) -> bool {
        match self.inner.journal.line(run).await {
            Ok(None) => false,
            Ok(Some(line)) if line.is_written => false,
            Ok(Some(line)) if line.stop.is_some() => true,
            // It may be between two processes.
            Ok(Some(_)) => {
                let state = self.open_run(run).await;
                state.is_ok_and(|(_, state)| matches!(state.phase(), Phase::WaitingForPerson { .. }))
            }
            Err(_) => true,
        }
    }
}

/// Waits for a matching change of the journal. `None`: the journal has no notifications.
pub(super) async fn changed(changes: Option<&mut JournalChanges>, is_it: impl Fn(JournalChange) -> bool) {
    let Some(changes) = changes else { return std::future::pending().await };
    while !is_it(changes.next().await) {}
}

/// Waits until a run may have changed.
pub(crate) async fn run_changed(changes: Option<&mut JournalChanges>, run: &RunId) {
    let is_it = |change| match change {
        JournalChange::Run(changed) => changed == *run,
        JournalChange::Any => true,
        JournalChange::Queue | JournalChange::Requests => false,
    };
    changed(changes, is_it).await;
}

/// The most abandoned runs that are claimed at a time.
const MAX_LEFT: usize = 100;
