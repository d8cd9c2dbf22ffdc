//! A loop put together: spec, tools, models, prompts, journal. It serves any number of runs.

use std::fmt;
use std::sync::Arc;

use loop_core::{
    Event, Fact, Facts, Note, Outcome, PersonAnswer, Rejected, Run, RunId, RunSpec, StopMode, WorkItem,
};
use loop_prompts::Prompts;
use loop_tools::{Credentials, Registry};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use crate::driver::{Clock, Driver};
use crate::journal::{Header, Journal, JournalError, MemoryJournal, Recorded, RunWriter};
use crate::model::Models;
use crate::save::Saver;
use crate::signal::{Control, Signal};

/// Everything that a driver needs beside the run.
pub(crate) struct Parts {
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) registry: Registry,
    pub(crate) models: Models,
    pub(crate) prompts: Arc<Prompts>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) saver: Option<Arc<dyn Saver>>,
}

/// A loop: runs work items, one after another or side by side. Clones share everything.
#[derive(Clone)]
pub struct Loop {
    parts: Arc<Parts>,
}

impl fmt::Debug for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop")
            .field("domain", &self.parts.spec.domain)
            .field("tools", &self.parts.registry)
            .finish()
    }
}

/// Why a run could not begin, or could not be taken up again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// What is written down does not follow from itself.
    #[error("entry {seq} of run {run} does not follow from the ones before it: {rejected}")]
    Broken {
        /// The run.
        run: RunId,
        /// The entry.
        seq: u64,
        /// What is wrong.
        rejected: Rejected,
    },
    /// The tools, prompts or settings are not those that the run was started with.
    #[error("run {run} was started with other {what}; go on with the domain as it was")]
    Changed {
        /// The run.
        run: RunId,
        /// What differs.
        what: &'static str,
    },
}

impl Loop {
    /// A loop over these tools and models, with the built-in prompts and a journal in memory.
    ///
    /// The spec's list of tools is taken from the registry.
    pub fn new(spec: RunSpec, registry: Registry, models: Models) -> Self {
        let spec = Arc::new(RunSpec { tools: registry.specs(), save: false, ..spec });
        let parts = Parts {
            spec,
            registry,
            models,
            prompts: Arc::new(Prompts::builtin()),
            credentials: Arc::new(Credentials::none()),
            journal: Arc::new(MemoryJournal::new()),
            saver: None,
        };
        Self { parts: Arc::new(parts) }
    }

    /// The same loop with other prompts.
    pub fn with_prompts(self, prompts: Arc<Prompts>) -> Self {
        self.with(|parts| parts.prompts = prompts)
    }

    /// The same loop with credentials for its tools.
    pub fn with_credentials(self, credentials: Arc<Credentials>) -> Self {
        self.with(|parts| parts.credentials = credentials)
    }

    /// The same loop writing to another journal.
    pub fn with_journal(self, journal: Arc<dyn Journal>) -> Self {
        self.with(|parts| parts.journal = journal)
    }

    /// The same loop saving its outcomes.
    pub fn with_saver(self, saver: Arc<dyn Saver>) -> Self {
        self.with(|parts| {
            parts.saver = Some(saver);
            parts.spec = Arc::new(RunSpec { save: true, ..(*parts.spec).clone() });
        })
    }

    /// What it runs by.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.parts.spec
    }

    /// Its journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.parts.journal
    }

    /// Runs a work item to its end. Dropping the future ends everything that the run has in flight; what is written
    /// down stays, and the run can be taken up again.
    ///
    /// # Errors
    /// Only when the run could not begin: a run that has begun always has an outcome.
    pub async fn run(&self, item: WorkItem) -> Result<Outcome, StartError> {
        let handle = self.start(item).await?;
        let _ended_with_this_future = AbortOnDrop(handle.task.abort_handle());
        Ok(handle.wait().await)
    }

    /// Begins a run and gives a handle to it.
    ///
    /// # Errors
    /// When the journal refuses it.
    pub async fn start(&self, item: WorkItem) -> Result<Handle, StartError> {
        let id = RunId::new(uuid::Uuid::now_v7().to_string());
        let parts = &self.parts;
        let facts = Facts {
            unix_ms: unix_ms(),
            nonce: nonce(),
            prompts: parts.prompts.hash(),
            tools: parts.registry.manifest_hash(),
        };
        let header = Header {
            run: id.clone(),
            unix_ms: facts.unix_ms,
            item: Arc::clone(&item.id),
            title: Arc::clone(&item.title),
            spec: Arc::clone(&parts.spec),
            manifest_hash: facts.tools,
            manifest: Arc::clone(parts.registry.manifest()),
        };
        let writer = parts.journal.create(&header).await?;
        let clock = Clock { origin: Instant::now(), base: loop_core::Millis(0) };
        let (run, event, notes) = Run::start(id, Arc::clone(&parts.spec), item, facts);
        Ok(self.spawn(run, writer, 0, clock, vec![(event, notes)]))
    }

    /// Takes up a run whose driver is gone: what it had in flight is settled as lost, and it goes on.
    ///
    /// # Errors
    /// When the journal refuses, or the loop is not the one that the run was started with.
    pub async fn resume(&self, run: &RunId) -> Result<Handle, StartError> {
        let (recorded, writer) = self.parts.journal.resume(run).await?;
        let mut state = replay(run, &recorded)?;
        let changed = |what| StartError::Changed { run: run.clone(), what };
        // The settings hold a part of what the tools say about themselves, so the tools come first.
        if state.started().tools != self.parts.registry.manifest_hash() {
            return Err(changed("tools"));
        }
        if state.spec().hash() != self.parts.spec.hash() {
            return Err(changed("settings"));
        }
        if state.started().prompts != self.parts.prompts.hash() {
            return Err(changed("prompts"));
        }
        let since_start = loop_core::Millis(unix_ms().saturating_sub(state.started().unix_ms));
        // Wall time that went backwards must not take the run's time back.
        let base = since_start.max(state.now());
        let mut first = Vec::new();
        let event = Event { at: base, fact: Fact::Resumed { away_ms: base.since(state.now()) } };
        if let Ok(notes) = state.apply(&event) {
            first.push((event, notes));
        }
        let clock = Clock { origin: Instant::now(), base };
        Ok(self.spawn(state, writer, recorded.entries.len() as u64, clock, first))
    }

    fn spawn(
        &self,
        run: Run,
        writer: Box<dyn RunWriter>,
        seq: u64,
        clock: Clock,
        first: Vec<(Event, Vec<Note>)>,
    ) -> Handle {
        let (control, controls) = unbounded_channel();
        let (signal, signals) = unbounded_channel();
        let id = run.id().clone();
        let started = Arc::new(run.started().clone());
        let driver = Driver::new(Arc::clone(&self.parts), run, writer, seq, clock, controls, vec![signal]);
        let task = tokio::spawn(driver.drive(first));
        Handle { id, started, control, signals: Some(signals), task }
    }

    fn with(self, change: impl FnOnce(&mut Parts)) -> Self {
        let shared = &self.parts;
        let mut parts = Parts {
            spec: Arc::clone(&shared.spec),
            registry: shared.registry.clone(),
            models: shared.models.clone(),
            prompts: Arc::clone(&shared.prompts),
            credentials: Arc::clone(&shared.credentials),
            journal: Arc::clone(&shared.journal),
            saver: shared.saver.clone(),
        };
        change(&mut parts);
        Self { parts: Arc::new(parts) }
    }
}

/// A run on its way: it can be watched, stopped and waited for. Dropping it lets the run go on by itself.
#[derive(Debug)]
pub struct Handle {
    id: RunId,
    started: Arc<loop_core::Started>,
    control: UnboundedSender<Control>,
    signals: Option<UnboundedReceiver<Signal>>,
    task: JoinHandle<Outcome>,
}

impl Handle {
    /// The run's name.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The first event's data: work item, nonce, hashes.
    pub fn started(&self) -> &Arc<loop_core::Started> {
        &self.started
    }

    /// Everything that happens, in order, from the first event on. The queue can be taken once. Until then it keeps
    /// what happens; it ends with the handle, or when [`wait`](Self::wait) begins.
    pub fn signals(&mut self) -> Option<UnboundedReceiver<Signal>> {
        self.signals.take()
    }

    /// A way to stop the run and to answer its questions that outlives this handle.
    pub fn remote(&self) -> Remote {
        Remote { control: self.control.clone() }
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When the driver itself panicked, or its runtime was shut down before the end.
    pub async fn wait(mut self) -> Outcome {
        // Nobody reads them any more.
        self.signals = None;
        match self.task.await {
            Ok(outcome) => outcome,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => panic!("the run's task was taken away before its end: {error}"),
            },
        }
    }
}

/// Asks things of a run from elsewhere. What comes too late changes nothing.
#[derive(Clone, Debug)]
pub struct Remote {
    control: UnboundedSender<Control>,
}

impl Remote {
    /// Asks for the end: at the next gate, or now.
    pub fn stop(&self, how: StopMode) {
        // A run that is over hears nothing.
        let _ = self.control.send(Control::Stop(how));
    }

    /// Takes a stop at the next gate back, if it has not taken effect (S0-47).
    pub fn withdraw_stop(&self) {
        let _ = self.control.send(Control::WithdrawStop);
    }

    /// Answers whether an action may run.
    pub fn answer(&self, key: loop_core::CommandKey, answer: PersonAnswer) {
        let _ = self.control.send(Control::Answer(key, answer));
    }
}

/// The state that a recorded run leads to.
///
/// # Errors
/// When an entry does not follow from the ones before it.
pub fn replay(run: &RunId, recorded: &Recorded) -> Result<Run, StartError> {
    let broken = |seq, rejected| StartError::Broken { run: run.clone(), seq, rejected };
    let mut entries = recorded.entries.iter();
    let Some(first) = entries.next() else {
        return Err(broken(0, Rejected::NotTheStart("nothing")));
    };
    let (mut state, _) =
        Run::open(&first.event, Arc::clone(&recorded.spec)).map_err(|rejected| broken(0, rejected))?;
    for entry in entries {
        state.apply(&entry.event).map_err(|rejected| broken(entry.seq, rejected))?;
    }
    Ok(state)
}

/// Takes a task away when its owner goes; one that has ended is left as it is.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Sixteen random digits: nothing that a tool or an item could guess.
///
/// Only the last 32 bits of a version 7 UUID are fresh: those before them are a counter that goes on from the run's
/// id, and tools are told the run's id.
fn nonce() -> Arc<str> {
    let fresh = || uuid::Uuid::now_v7().as_u128() as u32;
    format!("{:08x}{:08x}", fresh(), fresh()).into()
}
