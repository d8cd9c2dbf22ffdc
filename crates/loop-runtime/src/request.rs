//! A request to a loop: a work item, or a run to be resumed, and in which way it is driven.

use std::fmt;
use std::future::IntoFuture;

use futures::FutureExt;
use futures::future::BoxFuture;
use loop_core::{EventKind, Outcome, RunId, WorkItem};
use loop_llm::Message;
use tokio_util::sync::CancellationToken;

use crate::agent::AgentRequest;
use crate::driver::{Opening, Pace};
use crate::handle::Handle;
use crate::journal::Recorded;
use crate::parts::{Runner, StartError};
use crate::stream::RunStream;
use crate::take_over::From;

/// A request to a loop, as [`Runner::run`] and [`Runner::resume`] make it.
///
/// Nothing happens until it is driven, in one of four ways, which leave the same journal:
///
/// - **awaited**, it gives the outcome; dropping its future ends everything that the run has in flight, what is journaled
///   stays, and the run can be resumed;
/// - [`start`](Self::start) gives a handle to a run that continues by itself;
/// - [`stream`](Self::stream) gives the events of a run that continues only while it is polled;
/// - [`recurse`](Self::recurse) makes each pass by the one before, and tells the depth.
#[must_use = "a request does nothing until it is awaited, started, streamed or recursed"]
pub struct RunRequest {
    runner: Runner,
    of: Of,
    cancel: Option<CancellationToken>,
}

/// What a request is for.
enum Of {
    /// A new run of an item.
    Item(WorkItem),
    /// A run whose driver is gone, with what people say to it before it continues.
    Resumed(RunId, Vec<EventKind>),
    /// A new run that begins with what another one had.
    Continued(From),
}

impl Runner {
    /// A request that runs a work item; awaited, it gives the outcome.
    ///
    /// A run may begin others: inside a tool, after an outcome, one for each of its findings.
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
        RunRequest { runner: self.clone(), of: Of::Item(item), cancel: None }
    }

    /// A request that resumes a run whose driver is gone: what it had in flight is settled as lost, and it continues to
    /// its end. It is refused where the loop is not the one that the run was started with.
    pub fn resume(&self, run: &RunId) -> RunRequest {
        self.resume_with(run, [])
    }

    /// The same, with what people say to the run before it continues: answers and instructions. Where the run refuses
    /// one of them, nothing of it is journaled.
    pub fn resume_with(&self, run: &RunId, stated: impl IntoIterator<Item = EventKind>) -> RunRequest {
        let of = Of::Resumed(run.clone(), stated.into_iter().collect());
        RunRequest { runner: self.clone(), of, cancel: None }
    }

    /// A request for a fork: a new run that continues from what `run` was after the entry with this sequence number, by
    /// the rules of this loop. Without one it begins after the last entry where that
    /// is possible and nothing is in flight.
    ///
    /// Totals and time up to there count for the fork. No write that `run` started after it is made again without an
    /// approval, and an approved one has its idempotency key. `run` itself does not change.
    pub fn fork(&self, run: &RunId, entry: Option<u64>) -> RunRequest {
        self.continued(From::Fork { run: run.clone(), entry })
    }

    /// A request for a retry: a new run with the work item of `run`, which has ended, that knows its evidence. Totals,
    /// time and document begin anew. A write that succeeded is a repeat, and one that is in doubt stays in doubt.
    pub fn retry(&self, run: &RunId) -> RunRequest {
        self.continued(From::Retry { run: run.clone() })
    }

    /// A request for a new run that continues from the entries that can be read of a damaged journal, as far as they
    /// follow from each other. What was in flight as they end is in doubt. `lost` says whether entries may be missing
    /// after them: every write of the new run then needs an approval.
    pub fn salvage(&self, run: &RunId, prefix: Recorded, lost: bool) -> RunRequest {
        self.continued(From::Salvage { run: run.clone(), prefix: Box::new(prefix), lost })
    }

    fn continued(&self, from: From) -> RunRequest {
        RunRequest { runner: self.clone(), of: Of::Continued(from), cancel: None }
    }

    /// A request that answers the last message of `history`, by the rules of this loop. What is said and done is appended
    /// to it, whatever the end, and the next request continues from there.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, Message, RunSpec, models::{ModelSpec, Models, Offline}, observe::RunEvent, tools::Registry};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = RunSpec::conversation("help", ModelSpec::new("offline", "offline-1"));
    /// # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
    /// use futures::StreamExt;
    ///
    /// let mut messages = vec![Message::user("Good morning")];
    /// let mut turn = runner.chat(&mut messages).stream().await?;
    /// while let Some(event) = turn.next().await {
    ///     if let RunEvent::Text { text, .. } = event {
    ///         print!("{text}");
    ///     }
    /// }
    /// let meta = turn.finish().await;
    /// # assert_eq!((meta.totals.passes, messages.len()), (1, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn chat<'h>(&self, history: &'h mut Vec<Message>) -> AgentRequest<&'h mut Vec<Message>> {
        AgentRequest::new(self.clone(), history)
    }
}

impl RunRequest {
    /// The same request, until `cancel` is cancelled: then what is in flight is cut off, and the run ends within two
    /// seconds with the reason `manual_stop`.
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

    /// Starts a run that continues by itself, and gives a handle to it.
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
        let Self { runner, of, cancel } = self;
        let opening = of.open(&runner).await?;
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
        let Self { runner, of, cancel } = self;
        let opening = of.open(&runner).await?;
        Ok(RunStream::new(runner.begin(opening, Pace::InStep, cancel.as_ref())))
    }

    /// Drives the run level by level: each pass is in a future of its own, which is made by the one before and replaces
    /// it, so that ten thousand of them need no more room than one. Gives the depth besides the outcome: the pass in which
    /// the run ended.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, RunSpec, WorkItem, models::{ModelSpec, Models, Offline}, spec::SectionSpec, tools::Registry};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("offline", "offline-1"));
    /// # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
    /// # let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
    /// let (outcome, depth) = runner.run(item).recurse().await?;
    /// assert_eq!((outcome.totals.passes, depth), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the run cannot begin, or cannot be resumed.
    pub async fn recurse(self) -> Result<(Outcome, u32), StartError> {
        let Self { runner, of, cancel } = self;
        let opening = of.open(&runner).await?;
        let (ended, depth) = runner.descend(opening, cancel.as_ref()).await;
        Ok((ended.outcome, depth))
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

impl Of {
    async fn open(self, runner: &Runner) -> Result<Opening, StartError> {
        match self {
            Self::Item(item) => runner.open(item, Vec::new()).await,
            Self::Resumed(run, stated) => runner.reopen_with(&run, stated).await,
            Self::Continued(from) => runner.open_from(from).await,
        }
    }
}

impl fmt::Debug for RunRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of: &dyn fmt::Debug = match &self.of {
            Of::Item(item) => &item.id,
            Of::Resumed(run, _) => run,
            Of::Continued(from) => from,
        };
        f.debug_struct("RunRequest").field("runner", &self.runner).field("of", of).finish_non_exhaustive()
    }
}
