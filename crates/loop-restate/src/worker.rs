//! The worker: drives the runs of its domains and makes their calls.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::blobs::BlobStore;
use loop_core::run::Started;
use loop_core::{Event, Outcome};
use loop_runtime::Runner;
use loop_runtime::engine::WorkKey;
use loop_runtime::journal::{JournalError, replay};
use loop_runtime::report::Report;
use loop_runtime::run::{CancellationToken, RunId, StartError};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::carried::Carrier;
use crate::sdk;
use crate::wire::{ENGINE, EndedReply, EngineSubmission, WorkerDomain};

/// A worker with one runner for each domain, by name.
#[derive(Debug, Default)]
pub struct Worker {
    runners: BTreeMap<Arc<str>, Runner>,
    /// The cancellation tokens of the calls in progress, by run and call.
    under_way: Mutex<BTreeMap<(Arc<str>, WorkKey), CancellationToken>>,
    carrier: Carrier,
}

/// Calls in progress. They are removed when this is dropped.
pub(crate) struct UnderWay<'a> {
    worker: &'a Worker,
    run: Arc<str>,
    keys: Vec<WorkKey>,
    /// Cancels them.
    pub(crate) cancel: CancellationToken,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut under_way = self.worker.lock();
        for of in &self.keys {
            under_way.remove(&(Arc::clone(&self.run), *of));
        }
    }
}

/// Why a worker cannot begin a run or make a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// Two runners have domains of the same name.
    #[error("two domains are named `{name}`; give one of them another name")]
    Twice {
        /// The name.
        name: Arc<str>,
    },
    /// The runs of a domain share a budget, which is stored on one machine.
    #[error(
        "domain `{name}`: budgets that runs share are not kept with Restate; leave [budget] out, or use `loopgate serve`"
    )]
    SharedBudgets {
        /// The domain.
        name: Arc<str>,
    },
    /// The worker has no such domain.
    #[error("this worker has no domain `{name}`; start one with --domain for it")]
    UnknownDomain {
        /// The domain.
        name: Arc<str>,
    },
    /// The run cannot begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal has a run of this id that has not ended.
    #[error(
        "run {run} is in the journal, has not ended and is not known to Restate; submit the item with another key"
    )]
    Taken {
        /// The run.
        run: RunId,
    },
    /// The outcome cannot be written as JSON.
    #[error("the outcome as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// How a run begins.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Start {
    /// With this event.
    First(Box<Event>),
    /// Not at all: the journal has the run, and it has ended.
    Ended(Box<EndedReply>),
}

impl Worker {
    /// A worker without domains.
    pub fn new() -> Self {
        Self::default()
    }

    /// The worker with one more runner.
    ///
    /// # Errors
    /// It has a runner for a domain of this name already, or the runs of the runner share budgets.
    pub fn with(mut self, runner: Runner) -> Result<Self, WorkerError> {
        let name = Arc::clone(&runner.spec().domain);
        if runner.shared_budgets().is_some() {
            return Err(WorkerError::SharedBudgets { name });
        }
        match self.runners.insert(Arc::clone(&name), runner) {
            None => Ok(self),
            Some(_) => Err(WorkerError::Twice { name }),
        }
    }

    /// The worker with a blob store: values of more than 64 KiB are stored there, and the engine gets their ids. All
    /// workers of a server need the same store. The blobs of a run are deleted after `stay`, counted from its end:
    /// until Restate has recorded the end, another worker may have to read them.
    #[must_use]
    pub fn with_blobs(mut self, store: BlobStore, stay: Duration) -> Self {
        self.carrier = Carrier::with_store(store, stay);
        self
    }

    pub(crate) fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// Serves the engine until `ends` completes. Runs in progress then continue in another worker, or after a restart.
    pub async fn serve(self, listener: TcpListener, ends: impl Future) {
        sdk::serve(Arc::new(self), listener, ends).await;
    }

    pub(crate) fn runner(&self, domain: &Arc<str>) -> Result<&Runner, WorkerError> {
        let runner = self.runners.get(domain);
        runner.ok_or_else(|| WorkerError::UnknownDomain { name: Arc::clone(domain) })
    }

    /// The longest time limit of a call.
    pub(crate) fn slowest_call(&self) -> Duration {
        let specs = self.runners.values().map(Runner::spec);
        let limits = specs.flat_map(|spec| {
            let tools = spec.tools.iter().map(|tool| tool.timeout_ms);
            let models = &spec.models;
            let others = [&models.selector, &models.escalated, &models.fallback];
            let models = others.into_iter().flatten().chain([&models.base]);
            tools.chain(models.map(|model| model.timeout_ms))
        });
        Duration::from_millis(limits.max().unwrap_or(0))
    }

    /// Notes that these calls begin, so that they can be cancelled.
    pub(crate) fn begins(&self, run: &Arc<str>, keys: &[WorkKey]) -> UnderWay<'_> {
        let cancel = CancellationToken::new();
        let mut under_way = self.lock();
        for of in keys {
            under_way.insert((Arc::clone(run), *of), cancel.clone());
        }
        UnderWay { worker: self, run: Arc::clone(run), keys: keys.to_vec(), cancel }
    }

    /// Cancels a call, if it is in progress.
    pub(crate) fn abort(&self, run: &Arc<str>, of: WorkKey) {
        if let Some(cancel) = self.lock().get(&(Arc::clone(run), of)) {
            cancel.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Arc<str>, WorkKey), CancellationToken>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn domains(&self) -> Vec<WorkerDomain> {
        let served = self.runners.iter();
        served
            .map(|(name, runner)| WorkerDomain {
                name: Arc::clone(name),
                spec: runner.spec().hash().to_string(),
            })
            .collect()
    }

    /// Begins a run with its first event, or returns its end if the journal has it.
    pub(crate) async fn begin(&self, run: RunId, submission: EngineSubmission) -> Result<Start, WorkerError> {
        let runner = self.runner(&submission.domain)?;
        match runner.journal().read(&run).await {
            Ok(recorded) => {
                let state = replay(&run, &recorded).map_err(StartError::from)?;
                if !runner.is_same_request(&state, submission.item) {
                    let key = submission.key.unwrap_or_else(|| run.to_string().into());
                    return Err(StartError::OtherRequest { key, run }.into());
                }
                match state.outcome().filter(|_| state.is_done()) {
                    Some(outcome) => Ok(Start::Ended(Box::new(Self::ended(state.started(), outcome)?))),
                    None => Err(WorkerError::Taken { run }),
                }
            }
            Err(JournalError::Unknown { .. }) => {
                Ok(Start::First(Box::new(runner.first_event(ENGINE, run, submission.item)?)))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn ended(started: &Started, outcome: &Outcome) -> Result<EndedReply, WorkerError> {
        let text = match (&outcome.answer, outcome.output.as_ref().filter(|output| output.valid)) {
            (Some(answer), _) => answer.to_string(),
            (None, Some(output)) => output.value.to_string(),
            (None, None) => outcome.document.to_markdown(),
        };
        Ok(EndedReply {
            run: outcome.run.to_string(),
            class: outcome.stop.class.name().to_owned(),
            reason: outcome.stop.reason().to_string(),
            exit_code: outcome.stop.class.exit_code(),
            text,
            report: serde_json::to_value(Report::new(started, outcome))?,
        })
    }
}

pub(crate) fn unix_ms() -> u64 {
    loop_runtime::journal::unix_ms(SystemTime::now())
}
