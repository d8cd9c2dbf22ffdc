//! The runs of an MCP server: starts, drives, stops and awaits them. Ended runs are read from the journal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loop_core::run::StopMode;
use loop_core::types::{PicoUsd, RunId};
use loop_core::{EventKind, WorkItem};
use loop_domain::Domain;
use loop_runtime::Runner;
use loop_runtime::journal::{Journal, Recorded, RunLine, StoredJournal, replay};
use loop_runtime::run::{Attached, DriveResult, Handle, Remote};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::progress::ProgressMessages;

use crate::args::AgainArgs;
use crate::context::{FoundRun, still_waits};
use crate::drive::Listening;
use crate::output::Failure;

/// The most runs in progress, including those that wait for a person.
const MAX_LIVE: usize = 64;

/// How often the journal is read for a run that another process may drive.
pub(crate) const POLL: Duration = Duration::from_millis(500);

/// The state of a run in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LivePhase {
    Running,
    Waiting,
    Over,
}

/// A run in progress in this process, for requests that wait for it.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// Increases with each message.
    pub(crate) step: u64,
    pub(crate) message: Arc<str>,
    pub(crate) phase: LivePhase,
}

/// Answers and instructions of a client for a waiting run.
struct ClientMessage {
    kinds: Vec<EventKind>,
    /// Whether to stop the run as soon as it is resumed.
    stops: bool,
    reply: oneshot::Sender<Result<(), Failure>>,
}

struct ManagedRun {
    live: watch::Receiver<Live>,
    remote: Arc<Mutex<Option<Remote>>>,
    stated: mpsc::Sender<ClientMessage>,
}

/// The run of a request.
pub(crate) struct RequestedRun {
    pub(crate) id: RunId,
    /// Whether the request began it. False: an earlier request with the same key did.
    pub(crate) is_new: bool,
}

/// The runs of a domain in its journal.
pub(crate) struct DomainRuns {
    pub(crate) domain: Domain,
    pub(crate) journal: Arc<StoredJournal>,
    runner: Runner,
    again: AgainArgs,
    managed: Mutex<BTreeMap<RunId, ManagedRun>>,
    places: Arc<Semaphore>,
    max_runs: usize,
    costs: Costs,
    /// The ids of runs that have ended.
    ended: broadcast::Sender<RunId>,
    tasks: TaskTracker,
    leaving: CancellationToken,
}

impl DomainRuns {
    pub(crate) fn new(
        domain: Domain,
        runner: Runner,
        journal: Arc<StoredJournal>,
        again: AgainArgs,
        max_runs: usize,
        max_cost: Option<PicoUsd>,
        leaving: CancellationToken,
    ) -> Self {
        Self {
            domain,
            runner,
            journal,
            again,
            max_runs,
            places: Arc::new(Semaphore::new(max_runs)),
            managed: Mutex::default(),
            costs: Costs { max: max_cost, taken: Mutex::default() },
            ended: broadcast::channel(64).0,
            tasks: TaskTracker::new(),
            leaving,
        }
    }

    /// The option `--journal` for commands that are shown.
    pub(crate) fn at(&self) -> String {
        self.again.at()
    }

    pub(crate) fn ended(&self) -> broadcast::Receiver<RunId> {
        self.ended.subscribe()
    }

    pub(crate) fn leaving(&self) -> &CancellationToken {
        &self.leaving
    }

    /// Starts a run of this item. With a key it attaches to the run that has it, in this or another process.
    pub(crate) async fn start(
        self: &Arc<Self>,
        item: WorkItem,
        key: Option<Arc<str>>,
    ) -> Result<RequestedRun, Failure> {
        let request = self.runner.run(item);
        let request = match key {
            Some(key) => request.with_key(key),
            None => request,
        };
        // One that is looked after here already may wait for a person.
        if let Some(id) = request.earlier().await?.filter(|id| self.live(id).is_some()) {
            return Ok(RequestedRun { id, is_new: false });
        }
        let place = self.place()?;
        let reserved = self.costs.reserve(self.runner.spec().limits.cost)?;
        let (handle, is_new) = match request.attach().await {
            Ok(Attached::Began(handle)) => (handle, true),
            Ok(Attached::Resumed(handle)) => (handle, false),
            other => {
                self.costs.settle(reserved, Some(PicoUsd::default()));
                let id = match other? {
                    Attached::Ended(ended) => ended.started.run.clone(),
                    Attached::Elsewhere { run, .. } => run,
                    Attached::Began(handle) | Attached::Resumed(handle) => handle.id().clone(),
                };
                return Ok(RequestedRun { id, is_new: false });
            }
        };
        let id = handle.id().clone();
        self.tend(self.runner.clone(), handle, reserved, place);
        Ok(RequestedRun { id, is_new })
    }

    /// The run in progress with this id.
    pub(crate) fn live(&self, id: &RunId) -> Option<watch::Receiver<Live>> {
        self.with(|managed| managed.get(id).map(|managed| managed.live.clone()))
    }

    /// The line of a run of this domain, by its complete id.
    pub(crate) async fn line(&self, id: &str) -> Result<RunLine, Failure> {
        let lines = self.lines().await?;
        let line = lines.into_iter().find(|line| line.run.as_str() == id);
        line.ok_or_else(|| {
            Failure::new(
                "no run of this domain has this id; `list_runs` lists them, and `start_run` returns one",
            )
        })
    }

    /// The runs of this domain, newest first.
    pub(crate) async fn lines(&self) -> Result<Vec<RunLine>, Failure> {
        let mut lines = self.journal.runs().await?;
        lines.retain(|line| line.domain == self.domain.spec.domain);
        Ok(lines)
    }

    /// A run from the journal.
    pub(crate) async fn read(&self, id: &RunId) -> Result<(Recorded, loop_core::Run), Failure> {
        let recorded = self.journal.read(id).await?;
        let run = replay(id, &recorded)?;
        Ok((recorded, run))
    }

    /// Adds an event to a waiting run, and resumes it.
    pub(crate) async fn state(self: &Arc<Self>, id: &RunId, kind: EventKind) -> Result<(), Failure> {
        self.resume(id, vec![kind], /*stops*/ false).await
    }

    /// Stops a run: at once if it is in progress, and as soon as it is resumed if it waits.
    pub(crate) async fn stop(self: &Arc<Self>, id: &RunId) -> Result<(), Failure> {
        let remote = self.with(|managed| {
            let running = managed.get(id).filter(|it| it.live.borrow().phase == LivePhase::Running)?;
            lock(&running.remote).clone()
        });
        match remote {
            Some(remote) => {
                remote.stop(StopMode::Now);
                Ok(())
            }
            None => self.resume(id, Vec::new(), /*stops*/ true).await,
        }
    }

    async fn resume(self: &Arc<Self>, id: &RunId, kinds: Vec<EventKind>, stops: bool) -> Result<(), Failure> {
        if let Some(stated) = self.with(|managed| managed.get(id).map(|it| it.stated.clone())) {
            let (reply, replied) = oneshot::channel();
            let over =
                || Failure::new(format!("run {id} does not wait any more; `wait_for_run` returns its state"));
            stated.try_send(ClientMessage { kinds, stops, reply }).map_err(|_| over())?;
            return replied.await.map_err(|_| over())?;
        }
        // A run of another process that has ended, or of this one before it was restarted.
        let place = self.place()?;
        let found = FoundRun::read(Arc::clone(&self.journal), id).await?;
        if found.run.is_done() {
            return Err(Failure::new(format!("run {id} is over; `read_document` returns what it came to")));
        }
        let (_, runner) = found.runner(&self.again).await?;
        let reserved = self.costs.reserve(runner.spec().limits.cost)?;
        match runner.resume_with(id, kinds).start().await {
            Ok(handle) => {
                if stops {
                    handle.stop(StopMode::Now);
                }
                self.tend(runner, handle, reserved, place);
                Ok(())
            }
            Err(error) => {
                self.costs.settle(reserved, Some(PicoUsd::default()));
                Err(error.into())
            }
        }
    }

    /// Stops all runs, and waits until their cost is journaled.
    pub(crate) async fn leave(&self, limit: Duration) -> bool {
        self.leaving.cancel();
        self.tasks.close();
        tokio::time::timeout(limit, self.tasks.wait()).await.is_ok()
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        if self.leaving.is_cancelled() {
            return Err(Failure::new("the server is ending"));
        }
        if self.with(|managed| managed.len()) >= MAX_LIVE {
            return Err(Failure::new(format!(
                "{MAX_LIVE} runs are under way or wait for a person; stop one with `stop_run`, or try again later"
            )));
        }
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Failure::new(format!(
                "{} runs are under way, which is the maximum (--max-runs); wait for one with `wait_for_run`",
                self.max_runs
            ))
        })
    }

    fn tend(
        self: &Arc<Self>,
        runner: Runner,
        handle: Handle,
        reserved: PicoUsd,
        place: OwnedSemaphorePermit,
    ) {
        let id = handle.id().clone();
        let first = Live { step: 0, message: "the run has started".into(), phase: LivePhase::Running };
        let (sender, live) = watch::channel(first);
        let (stated, received) = mpsc::channel(4);
        let remote = Arc::new(Mutex::new(Some(handle.remote())));
        let managed = ManagedRun { live, remote: Arc::clone(&remote), stated };
        self.with(|runs| runs.insert(id.clone(), managed));
        let tending =
            RunTask { runs: Arc::clone(self), id, runner, sender, remote, reserved: Some(reserved) };
        self.tasks.spawn(tending.drive(handle, received, place));
    }

    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<RunId, ManagedRun>) -> T) -> T {
        change(&mut lock(&self.managed))
    }
}

/// A run that this process looks after until it has ended.
struct RunTask {
    runs: Arc<DomainRuns>,
    id: RunId,
    runner: Runner,
    sender: watch::Sender<Live>,
    remote: Arc<Mutex<Option<Remote>>>,
    reserved: Option<PicoUsd>,
}

impl RunTask {
    async fn drive(
        mut self,
        mut handle: Handle,
        mut received: mpsc::Receiver<ClientMessage>,
        place: OwnedSemaphorePermit,
    ) {
        let mut place = Some(place);
        loop {
            let remote = handle.remote();
            let _listening = Listening::to(&self.runs.journal, &self.id, remote.clone());
            *lock(&self.remote) = Some(remote.clone());
            self.tell(LivePhase::Running, None);
            let watching = self.watch(&mut handle);
            let driving = handle.driven();
            tokio::pin!(driving);
            let driven = tokio::select! {
                driven = &mut driving => driven,
                () = self.runs.leaving.cancelled() => {
                    remote.stop(StopMode::Now);
                    driving.await
                }
            };
            if let Some(watching) = watching {
                let _ = watching.await;
            }
            match driven {
                DriveResult::Ended(outcome) => {
                    self.settle(outcome.totals.cost.total());
                    return;
                }
                DriveResult::Waiting(_) => {
                    drop(place.take());
                    self.tell(LivePhase::Waiting, Some("the run waits for a person"));
                }
            }
            match self.waiting(&mut received).await {
                Some((next, held)) => (handle, place) = (next, Some(held)),
                None => return,
            }
        }
    }

    /// Waits until the run can be resumed here. `None`: it has ended elsewhere, or the server exits.
    async fn waiting(
        &mut self,
        received: &mut mpsc::Receiver<ClientMessage>,
    ) -> Option<(Handle, OwnedSemaphorePermit)> {
        loop {
            let stated = tokio::select! {
                biased;
                () = self.runs.leaving.cancelled() => return None,
                stated = received.recv() => stated,
                () = tokio::time::sleep(POLL) => None,
            };
            if let Some(ClientMessage { kinds, stops, reply }) = stated {
                let place = match Arc::clone(&self.runs.places).try_acquire_owned() {
                    Ok(place) => place,
                    Err(_) => {
                        let busy = Failure::new("too many runs are under way (--max-runs); try again later");
                        let _ = reply.send(Err(busy));
                        continue;
                    }
                };
                match self.runner.resume_with(&self.id, kinds).start().await {
                    Ok(handle) => {
                        if stops {
                            handle.stop(StopMode::Now);
                        }
                        self.tell(LivePhase::Running, Some("the run is resumed"));
                        let _ = reply.send(Ok(()));
                        return Some((handle, place));
                    }
                    Err(error) => {
                        let _ = reply.send(Err(error.into()));
                    }
                }
                continue;
            }
            // A person may have answered with the command, which may drive the run as well.
            let Ok((recorded, run)) = self.runs.read(&self.id).await else { continue };
            if let Some(outcome) = run.outcome() {
                self.settle(outcome.totals.cost.total());
                return None;
            }
            let now = recorded.now();
            if still_waits(&self.runs.journal, &run, now).await.unwrap_or(true) {
                continue;
            }
            let Ok(place) = Arc::clone(&self.runs.places).try_acquire_owned() else { continue };
            // Where another process drives it, this is refused.
            if let Ok(handle) = self.runner.resume(&self.id).start().await {
                return Some((handle, place));
            }
        }
    }

    fn watch(&self, handle: &mut Handle) -> Option<tokio::task::JoinHandle<()>> {
        let mut events = handle.events()?;
        let sender = self.sender.clone();
        let mut teller = ProgressMessages::new(self.runner.spec().limits.passes);
        Some(tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if let Some(message) = teller.message(&event) {
                    sender.send_modify(|live| {
                        live.step += 1;
                        live.message = message.into();
                    });
                }
            }
        }))
    }

    fn tell(&self, phase: LivePhase, message: Option<&str>) {
        self.sender.send_modify(|live| {
            live.phase = phase;
            if let Some(message) = message {
                live.step += 1;
                live.message = message.into();
            }
        });
    }

    fn settle(&mut self, cost: Option<PicoUsd>) {
        if let Some(reserved) = self.reserved.take() {
            self.runs.costs.settle(reserved, cost);
        }
    }
}

impl Drop for RunTask {
    fn drop(&mut self) {
        // What is not known is counted as what it may have been.
        self.settle(None);
        self.runs.with(|managed| managed.remove(&self.id));
        self.tell(LivePhase::Over, None);
        let _ = self.runs.ended.send(self.id.clone());
    }
}

/// The cost of a process's runs, and the most that those in progress may cost.
struct Costs {
    max: Option<PicoUsd>,
    taken: Mutex<PicoUsd>,
}

impl Costs {
    /// Reserves the limit of a run.
    fn reserve(&self, limit: Option<PicoUsd>) -> Result<PicoUsd, Failure> {
        let Some(max) = self.max else { return Ok(PicoUsd::default()) };
        let limit = limit.ok_or_else(|| Failure::new(NO_LIMIT))?;
        let mut taken = lock(&self.taken);
        let with = taken.plus(limit);
        if with > max {
            return Err(Failure::new(format!(
                "the runs of this server have cost or may cost {taken} of {max} (--max-cost), and another may cost {limit}; \
                 ask the operator to restart the server",
                taken = *taken
            )));
        }
        *taken = with;
        Ok(limit)
    }

    /// Replaces the reserve of a run by its cost.
    fn settle(&self, reserved: PicoUsd, cost: Option<PicoUsd>) {
        if self.max.is_some() {
            let mut taken = lock(&self.taken);
            *taken = PicoUsd(taken.0.saturating_sub(reserved.0)).plus(cost.unwrap_or(reserved));
        }
    }
}

/// The error of a run whose cost has no limit.
pub(crate) const NO_LIMIT: &str = "--max-cost needs a cost limit for each run; set limits.cost_usd in the domain, with the prices of its models";

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
