//! `loopgate resume`: continues a run with the runner that its origin describes.

use std::process::ExitCode;
use std::sync::Arc;

use loop_runtime::journal::versions::{check_version, not_on_engine};
use loop_runtime::journal::{Journal, ReplayError, RunLine, StoredJournal};
use loop_runtime::report::counted;
use loop_runtime::run::{DriveResult, StartError};

use super::save;
use crate::args::{AgainArgs, GoOnArgs};
use crate::context::{FoundRun, Signals, explained, places, still_waits};
use crate::drive::driven;
use crate::output::{Failure, one_line, stream};
use crate::shown::{Live, doubts, ended};

/// `loopgate resume`: continues a run that has not ended, or all of them.
pub(crate) async fn resume(args: ResumeArgs) -> Result<ExitCode, Failure> {
    match &args.run {
        Some(run) if let Some(when) = args.save => save::save(run, when, &args.go_on.again).await,
        Some(run) => FoundRun::open(run, &args.go_on.again).await?.go_on(Vec::new(), &args.go_on).await,
        None => resume_all(&args.go_on.again).await,
    }
}

/// Continues each run that has not ended, oldest first. A run that cannot be resumed is reported in its line.
async fn resume_all(again: &AgainArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&again.journal)?;
    let runs = journal.runs().await?;
    // What is damaged may be over, and that cannot be read.
    let mut open: Vec<_> = runs
        .into_iter()
        .filter(|line| (line.stop.is_none() && !line.is_imported) || line.trouble.is_some())
        .collect();
    open.reverse();
    if open.is_empty() {
        stream::note("no run is to be resumed");
    }
    stream::outlive_reader();
    let mut signals = Signals::new()?;
    let (mut is_well, all) = (true, open.len());
    for (nth, line) in (1..).zip(open) {
        let id = line.run.clone();
        let resumed = match resume_one(&journal, line, again, &mut signals).await {
            Ok(resumed) => resumed,
            Err(failure) => ResumeResult { is_well: false, says: format!("not resumed: {}", failure.line()) },
        };
        is_well &= resumed.is_well;
        stream::print(&format!("{id}  {}\n", one_line(&resumed.says)));
        if let Some(received) = signals.received() {
            if nth < all {
                stream::note(format!(
                    "stopped by a signal; {} not looked at",
                    counted((all - nth) as u64, "run")
                ));
            }
            stream::exit(received.exit_code().into());
        }
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The result of one of several runs.
struct ResumeResult {
    /// Whether it has an answer, or others continue it.
    is_well: bool,
    says: String,
}

async fn resume_one(
    journal: &Arc<StoredJournal>,
    line: RunLine,
    again: &AgainArgs,
    signals: &mut Signals,
) -> Result<ResumeResult, Failure> {
    let id = &line.run;
    if let Some(trouble) = line.trouble {
        return Err(Failure::new(format!("damaged: {trouble}")));
    }
    if line.is_written {
        return Ok(ResumeResult { is_well: true, says: "running: another process drives it".to_owned() });
    }
    let waits = || ResumeResult {
        is_well: true,
        says: format!("waiting: a person has to answer; `loopgate pending {id}{}` shows what", again.at()),
    };
    let found = match FoundRun::replayed(Arc::clone(journal), id).await {
        Ok(found) => check_version(id, &found.recorded).map(|()| found).map_err(StartError::from),
        Err(error) => Err(error),
    };
    let found = match found {
        Err(error) if error.is_of_another_version() => {
            return Ok(ResumeResult { is_well: false, says: format!("left to another version: {error}") });
        }
        found => found?,
    };
    if let Err(ReplayError::OnEngine { engine, .. }) = not_on_engine(id, &found.recorded) {
        return Ok(ResumeResult { is_well: true, says: format!("running: {engine} drives it") });
    }
    let now = found.recorded.now();
    if let Some(by) = found.run.started().provenance.called_by.as_deref() {
        let says = format!("called by run {}: it continues with that", by.root);
        return Ok(ResumeResult { is_well: true, says });
    }
    if still_waits(journal, &found.run, now).await? {
        return Ok(waits());
    }
    let (domain, runner) = found.runner(again).await?;
    let handle = runner.resume(id).start().await.map_err(|error| explained(error, domain.folder()))?;
    let outcome = match driven(journal, handle, &mut (Live::of(found.run), None), signals).await {
        DriveResult::Ended(outcome) => outcome,
        DriveResult::Waiting(_) => return Ok(waits()),
    };
    doubts(&outcome);
    let (is_well, says) = ended(&outcome);
    Ok(ResumeResult { is_well, says: format!("stopped: {says}") })
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes of --all: 0 each run ended as answered, waits for a person or is driven by another process; 1 one \
                  could not be resumed or ended otherwise, as its line says; 2 wrong usage; 130 and 143 stopped by a signal.\n\n\
                  With --save a URL gets the same idempotency key as from the run itself, so the receiver drops what it has already. \
                  The run does not change: `show` still says how its own saving ended."
)]
pub(crate) struct ResumeArgs {
    /// The run's id, the beginning of one, or `last`
    #[arg(required_unless_present = "all")]
    pub(crate) run: Option<String>,
    /// Resume every run of the journal that has not ended, oldest first, with one line each; a run that waits for a
    /// person is left as it is
    #[arg(long, conflicts_with_all = ["run", "json", "no_wait"])]
    pub(crate) all: bool,
    /// Save the outcome of a run that has ended to the domain's save target; `--save=again` also where the run has saved it
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "missing",
          conflicts_with_all = ["all", "json", "no_wait", "base_urls"])]
    pub(crate) save: Option<SaveWhen>,
    #[command(flatten)]
    pub(crate) go_on: GoOnArgs,
}

/// Which outcomes are saved that a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SaveWhen {
    /// One that the run has not saved
    Missing,
    /// Any, also one that the run has saved
    Again,
}
