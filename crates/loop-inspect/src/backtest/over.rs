//! Backtests many runs of a journal in parallel.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loop_core::EventKind;
use loop_core::types::{Digest, RunId};
use loop_runtime::journal::{Journal, JournalError, Recorded};
use tokio::task::JoinSet;

use super::drive::{BacktestError, Backtested, backtest};
use super::policy::Policies;
use super::report::TestedRun;

/// Runs of one journal.
#[derive(Clone, Debug)]
pub struct RunsOf {
    /// The journal, opened once for each worker that reads it. At least one.
    pub handles: Vec<Arc<dyn Journal>>,
    /// The runs, in the order of the report.
    pub runs: Vec<RunId>,
}

/// Why a run is not part of a backtest.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotTested {
    /// It cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It cannot be replayed.
    #[error(transparent)]
    Run(#[from] BacktestError),
    /// A policy does not fit its spec. Then no run is tested.
    #[error("{0}")]
    Policy(Arc<str>),
}

impl Policies {
    /// What a recorded run does under each of the policies.
    ///
    /// # Errors
    /// If a policy does not fit the spec of the run, or the run cannot be driven again.
    pub fn backtest(&self, run: &RunId, recorded: &Recorded) -> Result<Backtested, NotTested> {
        let specs = self.of(digest(recorded), &recorded.spec);
        let specs = specs.as_ref().as_ref().map_err(|why| NotTested::Policy(Arc::clone(why)))?;
        Ok(backtest(run, recorded, &specs.base, &specs.under)?)
    }

    /// Backtests these runs of a journal under each of the policies, in their order, for a
    /// [`BacktestReport`](super::BacktestReport). The workers share the runs. `done` counts the runs
    /// tested so far. With `documents`, each run that stops earlier has its document in the result.
    pub async fn over(
        self: &Arc<Self>,
        of: &RunsOf,
        done: &Arc<AtomicUsize>,
        documents: bool,
    ) -> Vec<(RunId, Result<TestedRun, NotTested>)> {
        let (runs, next) = (Arc::new(of.runs.clone()), Arc::new(AtomicUsize::new(0)));
        let mut workers = JoinSet::new();
        for journal in &of.handles {
            let (policies, journal, runs) = (Arc::clone(self), Arc::clone(journal), Arc::clone(&runs));
            let (next, done) = (Arc::clone(&next), Arc::clone(done));
            workers.spawn(async move {
                let mut tested = Vec::new();
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(run) = runs.get(at)
                {
                    let result = match journal.read(run).await {
                        Ok(recorded) => policies
                            .backtest(run, &recorded)
                            .map(|tested| TestedRun::new(&policies, tested, documents)),
                        Err(error) => Err(error.into()),
                    };
                    tested.push((at, result));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                tested
            });
        }
        let mut tested: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
        tested.sort_by_key(|(at, _)| *at);
        runs.iter().cloned().zip(tested.into_iter().map(|(_, result)| result)).collect()
    }
}

/// The digest of the spec that a run names. `None`: its first entry is not the beginning of a run.
fn digest(recorded: &Recorded) -> Option<Digest> {
    match recorded.entries.first().map(|entry| &entry.event.kind) {
        Some(EventKind::Started(started)) => Some(started.spec),
        Some(_) | None => None,
    }
}
