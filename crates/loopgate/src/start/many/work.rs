//! Runs the items of a batch: attaches to the run of an item, drives it, and begins it again if necessary.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loop_core::run::NotTakenOver;
use loop_core::types::{RunId, StopClass};
use loop_core::{Outcome, StopReason};
use loop_runtime::Runner;
use loop_runtime::journal::{JournalError, StoredJournal};
use loop_runtime::report::{BatchLine, BatchState};
use loop_runtime::run::{Attached, DriveResult, Handle, StartError};

use super::items::Item;

use crate::context::ReceivedSignal;
use crate::drive::Listening;
use crate::output::{Failure, one_line, stream};

/// How often a run of another process is checked for its end.
const POLL: Duration = Duration::from_millis(500);

/// Whether further items are started, and how many are in progress. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct HaltFlag {
    state: Arc<Mutex<HaltState>>,
    under_way: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct HaltState {
    /// Why no further items are started. `None`: they are.
    why: Option<Arc<str>>,
    signal: Option<ReceivedSignal>,
}

impl HaltFlag {
    fn with<T>(&self, change: impl FnOnce(&mut HaltState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts no further items because of a signal. Returns whether it is the first signal.
    pub(super) fn stop_for(&self, received: ReceivedSignal) -> bool {
        self.with(|state| {
            state.why.get_or_insert_with(|| "stopped by a signal".into());
            state.signal.replace(received).is_none()
        })
    }

    fn stop(&self, why: &str) {
        self.with(|state| _ = state.why.get_or_insert_with(|| why.into()));
    }

    /// The signal that ended the batch. `None`: there was none.
    pub(super) fn signal(&self) -> Option<ReceivedSignal> {
        self.with(|state| state.signal)
    }

    fn why(&self) -> Option<Arc<str>> {
        self.with(|state| state.why.clone())
    }

    /// How many runs are in progress.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }
}

/// Counts a run in progress until it is dropped.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(halt: &HaltFlag) -> Self {
        halt.under_way.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&halt.under_way))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs the items of a batch.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) runner: Runner,
    pub(super) journal: Arc<StoredJournal>,
    pub(super) halt: HaltFlag,
    /// Whether items whose run failed before are begun again.
    pub(super) retries: bool,
    /// Whether a failed run keeps further items from starting.
    pub(super) fails_fast: bool,
}

/// The result of an item.
enum ItemResult {
    Outcome {
        outcome: Box<Outcome>,
        state: BatchState,
        done_before: bool,
    },
    /// An earlier start completed it, and its run was pruned since.
    Pruned(RunId),
}

/// The line of an item whose run was pruned.
fn pruned(item: &Item, run: &RunId) -> BatchLine {
    let line = BatchLine::without("", &item.item.id, BatchState::Pruned, None);
    BatchLine { done_before: true, run: Some(run.to_string()), ..line }
}

/// Fails if the journal cannot verify the run of an item, so that its outcome may be from elsewhere.
fn expect_own(run: &RunId, unverified: Option<&Arc<str>>) -> Result<(), Failure> {
    match unverified {
        None => Ok(()),
        Some(why) => Err(Failure::new(format!(
            "run {run} has this item's key and does not count as done: {why}; use another journal for the batch (--journal)"
        ))),
    }
}

impl Worker {
    /// Runs one item. Returns a line for each time that it was given.
    pub(super) async fn work(&self, item: Item) -> Vec<BatchLine> {
        let line = match self.halt.why() {
            Some(why) => self.not_started(&item, why).await,
            None => {
                let _under_way = UnderWay::begin(&self.halt);
                self.drive(&item).await
            }
        };
        let line = line.unwrap_or_else(|failure| {
            let message = Some(failure.line().into());
            BatchLine::without("", &item.item.id, BatchState::Failed, message)
        });
        self.consider(&line);
        item.origins.into_iter().map(|origin| BatchLine { origin, ..line.clone() }).collect()
    }

    /// The line of an item that is not started. An item that is done already is reported as done, and one with an
    /// unfinished run names the run.
    async fn not_started(&self, item: &Item, why: Arc<str>) -> Result<BatchLine, Failure> {
        let (_, last) = self.last(item).await?;
        let mut line = BatchLine::without("", &item.item.id, BatchState::NotStarted, Some(why));
        if let Some(run) = last {
            let recorded = match self.runner.journal().read(&run).await {
                Err(JournalError::Pruned { run, .. }) => return Ok(pruned(item, &run)),
                recorded => recorded?,
            };
            expect_own(&run, recorded.unverified.as_ref())?;
            let run = loop_runtime::journal::replay(&run, &recorded)?;
            if let Some(outcome) =
                run.outcome().filter(|outcome| run.is_done() && !self.begins_again(outcome))
            {
                let line = BatchLine::of("", &item.item.id, outcome, BatchState::Ended);
                return Ok(BatchLine { done_before: true, ..line });
            }
            line.run = Some(run.id().to_string());
        }
        Ok(line)
    }

    async fn drive(&self, item: &Item) -> Result<BatchLine, Failure> {
        let (outcome, state, done_before) = match self.attach(item).await? {
            ItemResult::Outcome { outcome, state, done_before } => (outcome, state, done_before),
            ItemResult::Pruned(run) => return Ok(pruned(item, &run)),
        };
        let line = BatchLine::of("", &item.item.id, &outcome, state);
        let waits = (state == BatchState::Waiting)
            .then(|| format!("a person has to answer; `loopgate pending {}` shows what", outcome.run));
        Ok(BatchLine { done_before, message: waits.or(line.message.clone()), ..line })
    }

    /// The number of the item's last run, and its id. 1 and `None` if it has none.
    async fn last(&self, item: &Item) -> Result<(u32, Option<RunId>), Failure> {
        let (mut nth, mut last) = (1, None);
        while let Some(run) = self.runner.journal().run_of_key(&item.key(nth)).await? {
            last = Some(run);
            nth += 1;
        }
        Ok((nth.saturating_sub(1).max(1), last))
    }

    async fn attach(&self, item: &Item) -> Result<ItemResult, Failure> {
        let (mut nth, _) = self.last(item).await?;
        // The run before this one, from which it knows the evidence.
        let mut before: Option<RunId> = None;
        let mut is_noted = false;
        loop {
            let attached = match before.take() {
                Some(run) => self.begin_again(item, &run, nth).await,
                None => self.runner.run(item.item.clone()).with_key(item.key(nth)).attach().await,
            };
            match attached {
                Ok(Attached::Began(handle) | Attached::Resumed(handle)) => {
                    return Ok(self.driven(handle).await);
                }
                Ok(Attached::Ended(ended)) if ended.unverified.is_some() => {
                    expect_own(&ended.started.run, ended.unverified.as_ref())?;
                }
                Err(StartError::ImportedRequest { run, .. }) => {
                    expect_own(&run, Some(&Arc::from("it was imported")))?;
                }
                Ok(Attached::Ended(ended)) if self.begins_again(&ended.outcome) && !is_noted => {
                    before = Some(ended.outcome.run.clone());
                    nth += 1;
                }
                Ok(Attached::Ended(ended)) => {
                    let (outcome, state) = (Box::new(ended.outcome), BatchState::Ended);
                    return Ok(ItemResult::Outcome { outcome, state, done_before: !is_noted });
                }
                Ok(Attached::Elsewhere { run, pid }) => {
                    if !std::mem::replace(&mut is_noted, true) {
                        stream::note(format!(
                            "item {}: another process drives run {run} (pid {pid}); waiting for its end",
                            one_line(&item.item.id)
                        ));
                    }
                    tokio::time::sleep(POLL).await;
                }
                Err(StartError::Journal(JournalError::Pruned { run, .. })) => {
                    return Ok(ItemResult::Pruned(run));
                }
                // Another process has begun it in between.
                Err(StartError::Journal(JournalError::KeyTaken { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Begins an item again, with the evidence of the previous run if possible.
    async fn begin_again(&self, item: &Item, run: &RunId, nth: u32) -> Result<Attached, StartError> {
        match self.runner.retry(run).with_key(item.key(nth)).start().await {
            Ok(handle) => Ok(Attached::Began(handle)),
            Err(StartError::NotTakenOver {
                why: NotTakenOver::NoDocument | NotTakenOver::OtherProtocol,
                ..
            }) => self.runner.run(item.item.clone()).with_key(item.key(nth)).attach().await,
            Err(error) => Err(error),
        }
    }

    /// Whether an item with an ended run is to be done again: the run was stopped by hand or by a shared budget, or it
    /// failed and failed runs are retried.
    fn begins_again(&self, outcome: &Outcome) -> bool {
        let stop = &outcome.stop;
        let is_cut_off =
            matches!(stop.primary.reason, StopReason::SharedBudgetExceeded | StopReason::ManualStop)
                && matches!(stop.class, StopClass::Partial | StopClass::Cancelled);
        is_cut_off || self.retries && stop.class == StopClass::Failed
    }

    /// Decides after an item whether further items are started.
    fn consider(&self, line: &BatchLine) {
        if line.done_before {
            return;
        }
        let has_failed = line.state == BatchState::Failed
            || line.class.as_deref().is_some_and(|class| {
                [StopClass::Failed, StopClass::InDoubt].iter().any(|failed| failed.name() == class)
            });
        if self.fails_fast && has_failed {
            self.halt.stop("an item failed (--fail-fast)");
        }
        if line.reason.as_deref() == Some(StopReason::SharedBudgetExceeded.name()) {
            self.halt.stop("a shared budget is used up");
        }
    }

    async fn driven(&self, handle: Handle) -> ItemResult {
        let _listening = Listening::to(&self.journal, handle.id(), handle.remote());
        let (outcome, state) = match handle.driven().await {
            DriveResult::Ended(outcome) => (outcome, BatchState::Ended),
            DriveResult::Waiting(waiting) => (waiting.outcome, BatchState::Waiting),
        };
        ItemResult::Outcome { outcome: Box::new(outcome), state, done_before: false }
    }
}
