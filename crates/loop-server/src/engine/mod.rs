//! The engine of the server: a durable queue of submissions, and the drivers of runs. It bounds how many runs are
//! driven at a time. Runs that wait for a person are in the journal only. It does not know HTTP or a command line.
//!
//! | module | what you find there |
//! |---|---|
//! | `cell` | the in-memory state of a run that has not ended |
//! | `error` | why the engine refuses a request |
//! | `labels` | labels of runs |
//! | `line` | the scheduler: which run begins next |
//! | `open` | the start, which continues what an earlier process left |
//! | `outbox` | retries of hook messages |
//! | `people` | stops, instructions, approvals and answers |
//! | `remote` | requests to runs that another server drives |
//! | `settings` | which settings a caller may change |
//! | `shared` | a queue that several servers share |
//! | `submit` | from a request to a row of the queue |
//! | `versions` | runs of another version of the program |
//! | `view` | runs as callers see them |
//! | `work` | a job: a run driven to its end, or until it waits for a person |

mod cell;
mod error;
mod labels;
mod line;
mod open;
mod outbox;
mod people;
mod remote;
mod settings;
mod shared;
mod submit;
mod versions;
mod view;
mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loop_core::types::RunId;
use loop_domain::Domain;
use loop_runtime::Runner;
use loop_runtime::budget::{BudgetUse, SharedBudget, SharedBudgets, SharedLedger};
use loop_runtime::journal::StoredJournal;
use loop_runtime::journal::queue::{QueueBounds, QueueLock};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use cell::RunCell;
pub use cell::{LiveRun, ReplyPiece, RunPhase};
pub use error::EngineError;
use line::{RunPlaces, WaitingJobs};
pub use people::PersonDecision;
#[cfg(feature = "http")]
pub(crate) use shared::run_changed;
pub use submit::{NewRun, RunFrom, Submitted};
pub(crate) use view::INDEXES;
#[cfg(feature = "http")]
pub(crate) use view::tags_of;
pub use view::{PendingAction, RunFilter, RunPage, RunState, RunView};

/// A domain that the server offers.
pub struct ServedDomain {
    /// The loaded domain.
    pub domain: Domain,
    /// The runner of the domain, with journal, shared budgets, save target and hooks. It drops runs while they wait for
    /// people.
    pub runner: Runner,
    /// The most runs of the domain that are driven at a time.
    pub max_runs: usize,
    /// The most submissions of the domain in the queue.
    pub max_queued: u64,
}

impl fmt::Debug for ServedDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedDomain").field("name", self.name()).finish_non_exhaustive()
    }
}

impl ServedDomain {
    /// The domain's name.
    pub fn name(&self) -> &Arc<str> {
        &self.domain.spec.domain
    }
}

/// Makes runners: for new runs with their settings, and for runs in the journal.
#[async_trait]
pub trait RunnerSource: Send + Sync + fmt::Debug {
    /// The runner of a new run, with these settings in place of the domain's, and these tags. `settings` are dotted
    /// keys with values as on a command line. With settings it may read files, so it is called on a thread that may
    /// block.
    ///
    /// # Errors
    /// One line for the caller: which setting is wrong, and how to fix it.
    fn of_new(
        &self,
        domain: &ServedDomain,
        settings: &[(String, String)],
        tags: &[String],
    ) -> Result<Runner, String>;

    /// [`of_new`](Self::of_new) for a run that also counts against a budget of its caller. A source that resumes runs
    /// by their origin records the budget there.
    ///
    /// # Errors
    /// As [`of_new`](Self::of_new).
    fn of_new_within(
        &self,
        domain: &ServedDomain,
        settings: &[(String, String)],
        tags: &[String],
        budget: &SharedBudget,
        ledger: Arc<dyn SharedLedger>,
    ) -> Result<Runner, String> {
        let runner = self.of_new(domain, settings, tags)?;
        let shared = runner.shared_budgets().cloned().unwrap_or_else(|| SharedBudgets::new(ledger, []));
        Ok(runner.with_shared_budgets(shared.and(budget.clone())))
    }

    /// The runner of a run in the journal, made from the run's origin.
    ///
    /// # Errors
    /// One line for the operator: why it cannot be made.
    async fn of_run(&self, run: &RunId) -> Result<Runner, String>;
}

/// Limits on what an engine does at a time.
#[derive(Clone, Copy, Debug)]
pub struct EngineLimits {
    /// The most runs that are driven at a time, in all domains together.
    pub max_runs: usize,
    /// The most submissions in the queue, of all domains together.
    pub max_queued: u64,
    /// How often the journal is checked for runs that wait for a person: whether their deadline has passed, and whether
    /// another process has answered for them.
    pub poll: Duration,
    /// How often the outbox is checked for hook messages that are due.
    pub deliver: Duration,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self { max_runs: 4, max_queued: 1_000, poll: work::POLL, deliver: work::DELIVER }
    }
}

/// The current load of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineLoad {
    /// The load of each domain, by name.
    pub domains: BTreeMap<Arc<str>, DomainLoad>,
    /// Whether the server is shutting down, so that no new work begins.
    pub is_draining: bool,
}

/// The current load of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainLoad {
    /// Runs in the queue.
    pub queued: u64,
    /// Runs that this process drives.
    pub running: u64,
    /// Runs that wait for a person.
    pub waiting: u64,
    /// Runs that cannot continue until the operator has done something.
    pub interrupted: u64,
    /// Runs that are left to another version of the program.
    pub other_version: u64,
    /// Submissions that this process has accepted since it began.
    pub submitted: u64,
    /// Runs that have ended in this process since it began.
    pub ended: u64,
}

/// The engine of a server. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<EngineInner>,
}

struct EngineInner {
    journal: Arc<StoredJournal>,
    domains: BTreeMap<Arc<str>, ServedDomain>,
    source: Arc<dyn RunnerSource>,
    limits: EngineLimits,
    state: Mutex<EngineState>,
    tasks: TaskTracker,
    asides: Arc<Semaphore>,
    /// Cancelled when no new work begins.
    draining: CancellationToken,
    /// Cancelled when the engine stops working.
    left: CancellationToken,
    /// Notified when a permit may be free, or the queue may have more.
    freed: Notify,
    /// Whether the response to a claim was lost, so that the claim may have succeeded.
    lost_claim: AtomicBool,
    /// How many submissions wait in a queue that servers share, by domain.
    queued: Mutex<BTreeMap<Arc<str>, u64>>,
    /// Notified when a driver begins or ends, which may have open requests.
    driver_changed: Notify,
    _lock: QueueLock,
}

/// What the process knows of runs that have not ended.
#[derive(Default)]
struct EngineState {
    cells: BTreeMap<RunId, Arc<RunCell>>,
    line: WaitingJobs,
    places: RunPlaces,
    /// Runs of a shared queue that are left to a server of another version, with their domains. They are not claimed
    /// again.
    left: BTreeMap<RunId, Arc<str>>,
    /// What this process has counted for each domain.
    counted: BTreeMap<Arc<str>, DomainCounts>,
}

#[derive(Clone, Copy, Default)]
struct DomainCounts {
    submitted: u64,
    ended: u64,
}

impl EngineState {
    /// Forgets a run that has ended.
    fn end(&mut self, cell: &RunCell) {
        self.cells.remove(&cell.run);
        self.counted.entry(Arc::clone(&cell.domain)).or_default().ended += 1;
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("domains", &self.inner.domains.keys()).finish_non_exhaustive()
    }
}

impl Engine {
    /// The journal.
    pub fn journal(&self) -> &Arc<StoredJournal> {
        &self.inner.journal
    }

    /// The domains, by name.
    pub fn domains(&self) -> impl Iterator<Item = &ServedDomain> {
        self.inner.domains.values()
    }

    /// The domain of this name. `None`: the server does not offer it.
    pub fn domain(&self, name: &str) -> Option<&ServedDomain> {
        self.inner.domains.get(name)
    }

    /// The current load.
    pub fn load(&self) -> EngineLoad {
        let mut domains: BTreeMap<Arc<str>, DomainLoad> =
            self.inner.domains.keys().map(|name| (Arc::clone(name), DomainLoad::default())).collect();
        let state = self.inner.state();
        for (domain, DomainCounts { submitted, ended }) in &state.counted {
            let load = domains.entry(Arc::clone(domain)).or_default();
            (load.submitted, load.ended) = (*submitted, *ended);
        }
        for cell in state.cells.values() {
            let load = domains.entry(Arc::clone(&cell.domain)).or_default();
            match cell.phase() {
                RunPhase::Queued => load.queued += 1,
                RunPhase::Running => load.running += 1,
                RunPhase::Waiting { .. } => load.waiting += 1,
                RunPhase::Interrupted => load.interrupted += 1,
                RunPhase::OtherVersion => load.other_version += 1,
                RunPhase::Ended => {}
            }
        }
        for domain in state.left.values() {
            domains.entry(Arc::clone(domain)).or_default().other_version += 1;
        }
        drop(state);
        if self.inner.journal.shares_queue() {
            // This process knows those that it has claimed.
            let queued = self.inner.queued.lock().unwrap_or_else(PoisonError::into_inner);
            for (domain, load) in &mut domains {
                load.queued = queued.get(domain).copied().unwrap_or_default();
            }
        }
        EngineLoad { domains, is_draining: self.inner.draining.is_cancelled() }
    }

    /// The shared budgets of the domains with their current use. A budget whose use cannot be read is left out.
    pub(crate) async fn all_budgets(&self) -> Vec<(Arc<str>, SharedBudget, BudgetUse)> {
        let mut all = Vec::new();
        for (name, domain) in &self.inner.domains {
            let Some(budgets) = domain.runner.shared_budgets() else { continue };
            let taken = budgets.taken().await.unwrap_or_default();
            all.extend(taken.into_iter().map(|(budget, taken)| (Arc::clone(name), budget, taken)));
        }
        all
    }

    /// Shuts down: accepts no more work, and waits until the runs in progress have ended or wait for a person, at most
    /// for `limit`. Returns whether they have. Runs that are left are in the journal, and the next start resumes them.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.inner.draining.cancel();
        self.inner.tasks.close();
        let is_done = tokio::time::timeout(limit, self.inner.tasks.wait()).await.is_ok();
        self.inner.left.cancel();
        is_done
    }

    /// Whether the server is shutting down, so that no new work begins.
    pub fn is_draining(&self) -> bool {
        self.inner.draining.is_cancelled()
    }

    /// Waits until the shutdown begins.
    pub async fn draining(&self) {
        self.inner.draining.cancelled().await;
    }

    /// Waits until the shutdown is complete.
    pub async fn left(&self) {
        self.inner.left.cancelled().await;
    }

    /// Runs work that uses the CPU or reads files on a blocking thread. At most as many run at a time as there are
    /// processors.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        // It is never closed.
        let turn = Arc::clone(&self.inner.asides).acquire_owned().await;
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        task.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The process is ending.
            Err(_) => EngineError::Draining,
        })
    }

    /// A watch on a run that has not ended: its phase and number of entries. `None`: it has ended, or it is not a run
    /// of this server.
    pub fn live(&self, run: &RunId) -> Option<LiveRun> {
        self.inner.state().cells.get(run).map(|cell| cell.live())
    }

    /// Waits until a run has ended or only waits for a person, at most for `limit`.
    pub async fn wait(&self, run: &RunId, limit: Duration) {
        let Some(mut live) = self.live(run) else {
            if self.inner.journal.shares_queue() {
                self.wait_elsewhere(run, limit).await;
            }
            return;
        };
        let rests = live.rests();
        // Whichever it was, the caller looks at the run again.
        _ = tokio::time::timeout(limit, async {
            tokio::select! {
                () = rests => {}
                () = self.draining() => {}
            }
        })
        .await;
    }
}

impl EngineInner {
    fn state(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, run: &RunId) -> Option<Arc<RunCell>> {
        self.state().cells.get(run).cloned()
    }

    fn bounds(&self, domain: &ServedDomain) -> QueueBounds {
        QueueBounds { all: self.limits.max_queued, domain: domain.max_queued }
    }
}
