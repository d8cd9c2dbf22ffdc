//! A request to a runner: a work item or a run to be resumed, and how it is driven.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use loop_core::run::{Phase, Started};
use loop_core::types::RunId;
use loop_core::{EventKind, Outcome, Run, WorkItem};
use loop_journal::{JournalError, Recorded, replay};
use tokio_util::sync::CancellationToken;

use crate::drive::driver::{Opening, Pace};
use crate::drive::fresh::fresh_id;
use crate::drive::handle::Handle;
use crate::drive::runner::Runner;
use crate::drive::start_error::StartError;
use crate::drive::stream::RunStream;
use crate::drive::take_over::TakeoverSource;
use crate::watch::sink;

/// A request to a runner, as [`Runner::run`] and [`Runner::resume`] make it.
///
/// Nothing happens until it is driven, in one of three ways, which leave the same journal:
///
/// - **awaited**, it gives the outcome; dropping its future ends everything that the run has in flight, what is journaled
///   stays, and the run can be resumed;
/// - [`start`](Self::start) gives a handle to a run that continues by itself;
/// - [`stream`](Self::stream) gives the events of a run that continues only while it is polled.
#[must_use = "a request does nothing until it is awaited, started or streamed"]
pub struct RunRequest {
    runner: Runner,
    of: Purpose,
    cancel: Option<CancellationToken>,
    /// The id of the new run. `None`: it gets one.
    id: Option<RunId>,
}

/// What a request with a key led to.
#[derive(Debug)]
pub enum Attached {
    /// A new run, which continues on a task of its own.
    Began(Handle),
    /// The run of an earlier request, which had no driver. It is resumed here, and continues by itself.
    Resumed(Handle),
    /// The run of an earlier request, which has ended.
    Ended(Box<EndedRun>),
    /// The run of an earlier request, which is driven elsewhere: by another process, or by another task of this one.
    Elsewhere {
        /// The run.
        run: RunId,
        /// The id of the process that drives it. 0: not known.
        pid: u32,
    },
}

/// A run that has ended, as the journal has it.
#[derive(Clone, Debug)]
pub struct EndedRun {
    /// The data of its first event.
    pub started: Started,
    /// Its outcome.
    pub outcome: Outcome,
    /// Why the journal cannot verify it. `None`: it is verified.
    pub unverified: Option<Arc<str>>,
}

/// What a request is for.
enum Purpose {
    /// A new run of an item, under the caller's key.
    Item(WorkItem, Option<Arc<str>>),
    /// A run whose driver is gone, with what people say to it before it continues.
    Resumed(RunId, Vec<EventKind>),
    /// A new run that begins with what another one had, under the caller's key.
    Continued(TakeoverSource, Option<Arc<str>>),
}

impl Runner {
    /// An id for a run that has not begun. No other run has it, and ids follow the order of time.
    pub fn new_id() -> RunId {
        RunId::new(fresh_id(std::time::SystemTime::now()).to_string())
    }

    /// Whether a run of this item can begin: each limit of cost has the prices that it needs, and the limits pay for the
    /// first pass.
    ///
    /// # Errors
    /// If the price of a model is unknown, or a limit is too small.
    pub fn check_begins(&self, item: WorkItem) -> Result<(), StartError> {
        let parts = self.parts();
        parts.check_price()?;
        let item = sink::item(&parts.secrets, item);
        let facts = parts.facts(None);
        let (run, ..) = Run::start_named(Self::new_id(), Arc::clone(&parts.spec), parts.names(), item, facts);
        parts.check_first_pass(&run, Arc::default())
    }

    /// A request that runs a work item; awaited, it gives the outcome.
    ///
    /// A program may start further runs from an outcome, or inside a tool:
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, RunSpec, WorkItem, models::{ModelSpec, Models, Offline}, spec::SectionSpec, tools::Registry};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("offline", "offline-1"));
    /// # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
    /// # let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
    /// let outcome = runner.run(item).await?;
    /// let text = outcome.document.to_markdown();
    /// let second = runner.run(WorkItem::new("T-1b", "review", "Is this right?", &*text)).await?;
    /// # assert_ne!(outcome.run, second.run);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(&self, item: WorkItem) -> RunRequest {
        RunRequest { runner: self.clone(), of: Purpose::Item(item, None), cancel: None, id: None }
    }

    /// A request that resumes a run whose driver is gone. Calls that were in flight are settled as lost, and the run
    /// continues to its end. It is refused if the tools, prompts or settings are not those that the run was started
    /// with.
    pub fn resume(&self, run: &RunId) -> RunRequest {
        self.resume_with(run, [])
    }

    /// The same, with answers and instructions of people that the run receives before it continues. If the run refuses
    /// one of them, none is journaled.
    pub fn resume_with(&self, run: &RunId, stated: impl IntoIterator<Item = EventKind>) -> RunRequest {
        let of = Purpose::Resumed(run.clone(), stated.into_iter().collect());
        RunRequest { runner: self.clone(), of, cancel: None, id: None }
    }

    /// A request for a fork: a new run that continues from the state of `run` after the entry with this sequence
    /// number, under the spec of this runner. Without a number it begins after the last entry where that is possible
    /// and nothing is in flight.
    ///
    /// Totals and time up to there count for the fork. No write that `run` started after it is made again without an
    /// approval, and an approved one has its idempotency key. `run` itself does not change.
    pub fn fork(&self, run: &RunId, entry: Option<u64>) -> RunRequest {
        self.continued(TakeoverSource::Fork { run: run.clone(), entry })
    }

    /// A request for a retry: a new run with the work item and the evidence of `run`, which has ended. Totals, time and
    /// document begin from zero. A write that succeeded counts as a repeat, and one that is in doubt stays in doubt.
    pub fn retry(&self, run: &RunId) -> RunRequest {
        self.continued(TakeoverSource::Retry { run: run.clone() })
    }

    /// A request for a new run that continues from the entries that can be read of a damaged journal, as far as they
    /// follow from each other. What was in flight as they end is in doubt. `lost` says whether entries may be missing
    /// after them: every write of the new run then needs an approval.
    pub fn salvage(&self, run: &RunId, prefix: Recorded, lost: bool) -> RunRequest {
        self.continued(TakeoverSource::Salvage { run: run.clone(), prefix: Box::new(prefix), lost })
    }

    fn continued(&self, from: TakeoverSource) -> RunRequest {
        RunRequest { runner: self.clone(), of: Purpose::Continued(from, None), cancel: None, id: None }
    }
}

impl RunRequest {
    /// The same request with a token. When `cancel` is cancelled, calls in flight are cut off, and the run ends within
    /// two seconds with the reason `manual_stop`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, RunSpec, StopReason, WorkItem, models::{ModelSpec, Models, Offline}, run::CancellationToken, spec::SectionSpec, tools::Registry};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("offline", "offline-1"));
    /// # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
    /// # let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
    /// let cancel = CancellationToken::new();
    /// cancel.cancel();
    /// let outcome = runner.run(item).until(&cancel).await?;
    /// assert_eq!(outcome.stop.reason(), StopReason::ManualStop);
    /// # Ok(())
    /// # }
    /// ```
    pub fn until(self, cancel: &CancellationToken) -> Self {
        Self { cancel: Some(cancel.clone()), ..self }
    }

    /// The same request with the caller's idempotency key. The journal has one run for each key, however often it is
    /// requested and by however many processes. [`attach`](Self::attach) attaches a second request to the first run.
    /// The other ways to drive refuse it with [`JournalError::KeyTaken`](loop_journal::JournalError::KeyTaken). A
    /// request that resumes a run and a fork ignore the key. A retry is a new run with its own key.
    pub fn with_key(self, key: impl Into<Arc<str>>) -> Self {
        let of = match self.of {
            Purpose::Item(item, _) => Purpose::Item(item, Some(key.into())),
            Purpose::Continued(from @ TakeoverSource::Retry { .. }, _) => {
                Purpose::Continued(from, Some(key.into()))
            }
            other @ (Purpose::Resumed(..) | Purpose::Continued(..)) => other,
        };
        Self { of, ..self }
    }

    /// The same request, whose new run has this id from [`Runner::new_id`]. A program that stores the id first can
    /// repeat the request after a crash, and the journal refuses a second run with that id: [`JournalError::Exists`]. A
    /// request that resumes a run ignores it.
    pub fn with_id(self, id: RunId) -> Self {
        Self { id: Some(id), ..self }
    }

    /// How many entries of the other run a fork, a retry or a salvaged run would take over now. A fork without a
    /// sequence number begins after the last of them. 0: the request takes over none. Nothing is journaled.
    ///
    /// # Errors
    /// If the other run cannot be read, or the new one cannot begin from there.
    pub async fn entries_taken_over(&self) -> Result<u64, StartError> {
        match &self.of {
            Purpose::Continued(from, _) => self.runner.entries_from(from).await,
            Purpose::Item(..) | Purpose::Resumed(..) => Ok(0),
        }
    }

    /// The run that an earlier request with the same [key](Self::with_key) began. `None`: there is none, or this request
    /// has no key.
    ///
    /// # Errors
    /// When the run cannot be read, or the key belongs to a run of another domain or another item.
    pub async fn earlier(&self) -> Result<Option<RunId>, StartError> {
        let Purpose::Item(item, Some(key)) = &self.of else { return Ok(None) };
        let Some(run) = self.runner.journal().run_of_key(key).await? else { return Ok(None) };
        earlier(&self.runner, key, &run, item.clone()).await?;
        Ok(Some(run))
    }

    /// Starts a run, or attaches to the one that an earlier request with the same [key](Self::with_key) began. The
    /// domain and the work item must be the same; the item's trace and caller may differ.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, RunSpec, WorkItem, journal::MemoryJournal, models::{ModelSpec, Models, Offline}, run::Attached, spec::SectionSpec, tools::Registry};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("offline", "offline-1"));
    /// # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
    /// # let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
    /// let runner = runner.with_journal(Arc::new(MemoryJournal::new()));
    /// let first = runner.run(item.clone()).with_key("order-17").await?;
    /// match runner.run(item).with_key("order-17").attach().await? {
    ///     Attached::Ended(ended) => assert_eq!(ended.outcome, first),
    ///     Attached::Began(_) | Attached::Resumed(_) | Attached::Elsewhere { .. } => unreachable!("it has ended"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the run cannot begin or cannot be resumed, or the key belongs to a run of another domain or another item.
    pub async fn attach(self) -> Result<Attached, StartError> {
        let Self { runner, of, cancel, id } = self;
        let (item, key) = match of {
            Purpose::Item(item, Some(key)) => (item, key),
            of => {
                let request = Self { runner, of, cancel, id };
                return Ok(Attached::Began(request.start().await?));
            }
        };
        let opened = runner.open_keyed(item.clone(), Vec::new(), Some(key), id).await;
        let (key, run) = match opened {
            Ok(opening) => {
                return Ok(Attached::Began(Handle::spawn(runner.begin(opening, Pace::Own, cancel.as_ref()))));
            }
            Err(StartError::Journal(JournalError::KeyTaken { key, run })) => (key, run),
            Err(error) => return Err(error),
        };
        let (state, unverified) = earlier(&runner, &key, &run, item).await?;
        if let Phase::Done { outcome } = state.phase() {
            let (started, outcome) = (state.started().clone(), Outcome::clone(outcome));
            return Ok(Attached::Ended(Box::new(EndedRun { started, outcome, unverified })));
        }
        let request = Self { runner, of: Purpose::Resumed(run, Vec::new()), cancel, id: None };
        match request.start().await {
            Ok(handle) => Ok(Attached::Resumed(handle)),
            Err(StartError::Journal(JournalError::Busy { run, pid })) => Ok(Attached::Elsewhere { run, pid }),
            Err(error) => Err(error),
        }
    }

    /// Starts a run that continues by itself, and returns a handle to it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, RunSpec, WorkItem, models::{ModelSpec, Models, Offline}, observe::RunEvent, run::StopMode, spec::SectionSpec, tools::Registry};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("offline", "offline-1"));
    /// # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
    /// # let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
    /// let mut handle = runner.run(item).start().await?;
    /// let mut events = handle.events().ok_or("they can be taken once")?;
    /// while let Some(event) = events.recv().await {
    ///     if let RunEvent::Text { text, .. } = event {
    ///         print!("{text}");
    ///         handle.stop(StopMode::AtGate); // enough is enough
    ///     }
    /// }
    /// let outcome = handle.wait().await;
    /// # assert_eq!(outcome.totals.passes, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the run cannot begin, or cannot be resumed.
    pub async fn start(self) -> Result<Handle, StartError> {
        let Self { runner, of, cancel, id } = self;
        let opening = Box::pin(of.open(&runner, id)).await?;
        Ok(Handle::spawn(runner.begin(opening, Pace::Own, cancel.as_ref())))
    }

    /// Starts a run that continues only while it is polled: its reader decides its pace.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, RunSpec, WorkItem, models::{ModelSpec, Models, Offline}, observe::RunEvent, spec::SectionSpec, tools::Registry};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("offline", "offline-1"));
    /// # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
    /// # let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
    /// use futures::StreamExt;
    ///
    /// let mut run = runner.run(item).stream().await?;
    /// while let Some(event) = run.next().await {
    ///     if let RunEvent::Recorded(entry) = event {
    ///         // The run rests here, however long this takes.
    ///         println!("{} {}", entry.seq, entry.event.kind.name());
    ///     }
    /// }
    /// let outcome = run.into_outcome().await;
    /// # assert_eq!(outcome.totals.passes, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the run cannot begin, or cannot be resumed.
    pub async fn stream(self) -> Result<RunStream, StartError> {
        let Self { runner, of, cancel, id } = self;
        let opening = Box::pin(of.open(&runner, id)).await?;
        Ok(RunStream::new(runner.begin(opening, Pace::InStep, cancel.as_ref())))
    }
}

/// The run that has the key of a request, as it is now, and why the journal does not vouch for it. It must be of the
/// request's domain and item, and not an imported one: what another journal says that it came to answers no request here.
async fn earlier(
    runner: &Runner,
    key: &Arc<str>,
    run: &RunId,
    item: WorkItem,
) -> Result<(Run, Option<Arc<str>>), StartError> {
    let recorded = runner.journal().read(run).await?;
    if recorded.imported {
        return Err(StartError::ImportedRequest { key: Arc::clone(key), run: run.clone() });
    }
    let state = replay(run, &recorded)?;
    if runner.is_same_request(&state, item) {
        Ok((state, recorded.unverified))
    } else {
        Err(StartError::OtherRequest { key: Arc::clone(key), run: run.clone() })
    }
}

/// Only a run that could not begin is an error: one that has begun always has an outcome.
impl IntoFuture for RunRequest {
    type Output = Result<Outcome, StartError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { Ok(self.start().await?.wait_with().await) }.boxed()
    }
}

impl Purpose {
    /// Callers box it: what is needed until a run begins would stay part of their future for as long as the run takes.
    async fn open(self, runner: &Runner, id: Option<RunId>) -> Result<Opening, StartError> {
        match self {
            Self::Item(item, key) => runner.open_keyed(item, Vec::new(), key, id).await,
            Self::Resumed(run, stated) => runner.reopen_with(&run, stated).await,
            Self::Continued(from, key) => runner.open_from(&from, key, id).await,
        }
    }
}

impl fmt::Debug for RunRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of: &dyn fmt::Debug = match &self.of {
            Purpose::Item(item, _) => &item.id,
            Purpose::Resumed(run, _) => run,
            Purpose::Continued(from, _) => from,
        };
        f.debug_struct("RunRequest").field("runner", &self.runner).field("of", of).finish_non_exhaustive()
    }
}
