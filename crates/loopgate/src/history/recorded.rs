//! Resolves the recorded runs in the arguments of a command: ids, journal files, or all runs of a journal.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loop_core::types::RunId;
use loop_inspect::backtest::{NotTested, Policies, RunsOf, TestedRun};
use loop_runtime::journal::{Journal, StoredJournal};

use crate::args::JournalArgs;
use crate::context::{named, places};
use crate::output::{Failure, grouped, stream};

#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    /// Runs: ids, beginnings of ids, `last`, or files of journals, which mean all their runs
    #[arg(required_unless_present = "all")]
    pub(crate) runs: Vec<String>,
    /// All runs of the journal
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

/// The named runs, by journal, each once. Runs that cannot be read are included.
pub(crate) async fn runs_named(args: &RunsArgs) -> Result<Vec<RunsOf>, Failure> {
    let (mut all, mut ids) = (Vec::new(), Vec::new());
    for name in &args.runs {
        match Path::new(name) {
            file if file.is_file() => all.push(file.to_owned()),
            _ => ids.push(name.as_str()),
        }
    }
    let given = || args.journal.path();
    let mut found = Vec::new();
    if args.all {
        found.push(runs_of(given(), None).await?);
    } else if !ids.is_empty() {
        found.push(runs_of(given(), Some(&ids)).await?);
    }
    for file in all {
        found.push(runs_of(file, None).await?);
    }
    Ok(found)
}

/// Runs of one journal: all of them, oldest first, or those with these ids.
async fn runs_of(path: PathBuf, ids: Option<&[&str]>) -> Result<RunsOf, Failure> {
    places::expect_not_empty(&path)?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut handles: Vec<Arc<dyn Journal>> = Vec::new();
    for _ in 0..workers {
        handles.push(Arc::new(StoredJournal::open_existing(&path)?));
    }
    let lines = match handles.first() {
        Some(journal) => journal.runs().await?,
        None => Vec::new(),
    };
    let mut runs: Vec<RunId> = Vec::new();
    match ids {
        None => runs.extend(lines.into_iter().rev().map(|line| line.run)),
        Some(ids) => {
            for id in ids {
                let run = named(&lines, id)?.run.clone();
                if !runs.contains(&run) {
                    runs.push(run);
                }
            }
        }
    }
    if runs.is_empty() {
        return Err(Failure::new(format!(
            "{}: the journal holds no run yet; `loopgate run` makes one",
            path.display()
        )));
    }
    Ok(RunsOf { handles, runs })
}

/// Backtests the runs, with a progress line if a person watches.
pub(crate) async fn tested(
    policies: &Arc<Policies>,
    of: &[RunsOf],
    documents: bool,
) -> Result<Vec<(RunId, Result<TestedRun, NotTested>)>, Failure> {
    let done = Arc::new(AtomicUsize::new(0));
    let all: usize = of.iter().map(|of| of.runs.len()).sum();
    let mut tested = Vec::with_capacity(all);
    let progress = Progress::show(&done, all);
    for of in of {
        tested.append(&mut policies.over(of, &done, documents).await);
    }
    drop(progress);
    // A policy that does not fit is wrong for all runs of a domain.
    for (run, result) in &tested {
        if let Err(NotTested::Policy(error)) = result {
            return Err(Failure::new(format!("run {run}: {error}")));
        }
    }
    Ok(tested)
}

/// A progress line on standard error, until it is dropped.
struct Progress(Option<tokio::task::JoinHandle<()>>);

impl Progress {
    /// Shows the number in `done` out of `all`.
    fn show(done: &Arc<AtomicUsize>, all: usize) -> Self {
        Self(stream::is_watched().then(|| tokio::spawn(shown(Arc::clone(done), all))))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
            stream::progress("");
        }
    }
}

async fn shown(done: Arc<AtomicUsize>, all: usize) {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    loop {
        ticks.tick().await;
        let done = grouped(done.load(Ordering::Relaxed) as u64);
        stream::progress(&format!("{done} of {} runs", grouped(all as u64)));
    }
}
