//! Runs on a durable execution engine: the engine records the results, and replays the decisions whenever it continues.
//!
//! The [driver](crate::run::Handle) of one process waits for calls, timers and people itself. An engine such as Restate
//! waits on its own, and calls the program again to continue. These are the parts for that:
//!
//! - [`EngineRun`] holds a run and decides. It has no clock, no randomness and no task: for the same first event and
//!   the same results it commands the same work, byte by byte. An engine replays it from what it has recorded.
//! - [`EngineWork`] is a call as data. Any process with the same domain can make it:
//!   [`Runner::perform`](crate::Runner::perform).
//! - [`Projection`] writes the entries to a journal, each once, however often the run is replayed.
//!
//! ```
//! # use std::sync::Arc;
//! # use loop_runtime::{Runner, RunSpec, WorkItem, spec::SectionSpec, tools::Registry};
//! # use loop_runtime::models::{ModelSpec, Models, Offline};
//! use loop_runtime::engine::{EngineRun, Projection, Settlement};
//! use loop_runtime::run::{CancellationToken, RunId};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("offline", "offline-1"));
//! # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
//! # let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
//! let first = runner.first_event("my-engine", RunId::new("run-1"), item)?;
//! let mut run = EngineRun::open(&runner, first, None)?;
//! let mut projection = Projection::open(&runner, &run).await?;
//! loop {
//!     let step = run.step()?;
//!     projection.write(&mut run).await?;
//!     if run.is_done() {
//!         break;
//!     }
//!     for work in step.start {
//!         let settled = runner.perform(work, CancellationToken::new()).await;
//!         run.settle(settled)?;
//!     }
//! }
//! assert_eq!(run.outcome().map(|outcome| outcome.totals.passes), Some(1));
//! # Ok(())
//! # }
//! ```

mod driven;
mod message;
mod observers;
mod performed;
mod projection;
mod status;
mod work;

pub use driven::{EngineRun, EngineStep};
pub use message::{MessageReceipt, RunMessage};
pub use projection::Projection;
pub use status::{EngineStatus, OpenRequest};
pub use work::{EngineWork, Settlement, WorkKey};

use loop_core::types::RunId;
use loop_journal::JournalError;

use crate::drive::start_error::StartError;

/// Why a run cannot be driven further in this process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineRunError {
    /// The run does not begin here: another domain, other tools, other prompts.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The journal refuses its entries.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// This program decides otherwise than the one that wrote the run's entries.
    #[error(
        "entry {seq} of run {run} was decided otherwise before; continue it with the version of loopgate and the domain that it began with"
    )]
    Diverged {
        /// The run.
        run: RunId,
        /// The number of the first entry that differs, from 0.
        seq: u64,
    },
    /// The run rejects an event that follows from its own command.
    #[error("run {run}: {message}; this is an error in loopgate, please report it")]
    Stuck {
        /// The run.
        run: RunId,
        /// The event and why it is rejected.
        message: String,
    },
}
