//! `loopgate stop`: stops a run, whichever process on this machine drives it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use loop_core::EventKind;
use loop_core::types::RunId;
use loop_runtime::journal::StoredJournal;
use loop_runtime::journal::queue::{RemoteAnswer, SubmissionState};
use loop_runtime::run::{DriveResult, StopMode};
use tokio::time::Instant;

use crate::args::AgainArgs;
use crate::context::{FoundRun, Signals, explained, find, is_over, places};
use crate::output::{Failure, stream};
use crate::shown::ended;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A run that another process drives, a command, an MCP server or `loopgate serve`, is stopped there. One that no \
                  process drives is ended here. One that waits in the queue of a server ends without a call.\n\n\
                  Exit codes: 0 the run has ended, or ends at its next gate; 1 it had ended before, or could not be stopped; 2 \
                  wrong usage."
)]
pub(crate) struct StopArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// Cancel calls that are under way, instead of stopping at the next gate
    #[arg(long)]
    pub(crate) now: bool,
    #[command(flatten)]
    pub(crate) again: AgainArgs,
}

/// How often the result of a request is checked.
const POLL: Duration = Duration::from_millis(200);
/// The time after which a request is withdrawn that no driver has taken.
const UNTAKEN: Duration = Duration::from_secs(10);
/// How long to wait for the end of a run that has taken the request.
const ENDS: Duration = Duration::from_secs(20);

pub(crate) async fn stop(args: StopArgs) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new()?;
    let said = signals.unless_received(stopped(&args)).await?;
    stream::note(said);
    Ok(ExitCode::SUCCESS)
}

/// Stops the run, and returns the result in one line.
async fn stopped(args: &StopArgs) -> Result<String, Failure> {
    let journal = places::existing_journal(&args.again.journal)?;
    let how = if args.now { StopMode::Now } else { StopMode::AtGate };
    let run = match find(journal.as_ref(), &args.run).await {
        Ok(line) => line.run,
        Err(unknown) => return dequeued(&journal, &RunId::new(args.run.as_str()), how).await?.ok_or(unknown),
    };
    let at = args.again.at();
    let found = FoundRun::read(Arc::clone(&journal), &run).await;
    if let Some(by) = found.ok().and_then(|found| found.run.started().provenance.called_by.clone())
        && journal.line(&by.root).await?.is_some_and(|root| root.stop.is_none())
    {
        let root = by.root;
        let message = format!("run {run} is a part of run {root}; stop that one: loopgate stop {root}{at}");
        return Err(Failure::new(message));
    }
    let (mut request, mut is_taken, since) = (None, false, Instant::now());
    loop {
        let line = journal.line(&run).await?.ok_or_else(|| Failure::new(format!("run {run} was pruned")))?;
        match (line.stop, &request) {
            (Some(reason), Some(_)) => return Ok(format!("stopped: run {run}: {}", reason.name())),
            (Some(reason), None) => return Err(is_over(&run, reason.name(), &at)),
            (None, Some(id)) if !line.is_written => _ = journal.withdraw_request(id).await?,
            (None, _) => {}
        }
        if !line.is_written {
            return end(Arc::clone(&journal), &run, &args.again).await;
        }
        let id = match &request {
            Some(id) => Arc::clone(id),
            None => {
                let id = journal.request(&run, &EventKind::StopRequested { how }).await?;
                Arc::clone(request.insert(id))
            }
        };
        match journal.request_answer(&id).await? {
            Some(RemoteAnswer::Done) => is_taken = true,
            Some(RemoteAnswer::Refused) => {
                return Err(Failure::new(format!(
                    "run {run} is ending by itself; `loopgate show {run}{at}` shows what it came to"
                )));
            }
            Some(RemoteAnswer::Ended) | None => {}
        }
        if is_taken && since.elapsed() >= ENDS {
            return Ok(format!(
                "stopping: run {run} has it, and ends at its next gate; `loopgate show {run}{at}` shows how"
            ));
        }
        if !is_taken && since.elapsed() >= UNTAKEN && journal.withdraw_request(&id).await? {
            return Err(Failure::new(format!(
                "run {run} is driven by another process, which did not take the stop within {} s; stop it there with Ctrl-C",
                UNTAKEN.as_secs()
            )));
        }
        if since.elapsed() >= ENDS + UNTAKEN {
            return Err(Failure::new(format!(
                "run {run} is driven by another process, which has the stop and does not answer; look at it before you \
                 send it again"
            )));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Stops a submission that a server has not begun. `None`: there is no such submission.
async fn dequeued(journal: &StoredJournal, run: &RunId, how: StopMode) -> Result<Option<String>, Failure> {
    let queued = journal.submission(run).await?;
    let is_queued = queued.is_some_and(|queued| queued.state == SubmissionState::Queued);
    let is_stopped = is_queued && journal.stop_submission(run, how).await?;
    Ok(is_stopped.then(|| {
        format!("stopping: run {run} has not begun, and ends without a call once a server begins it")
    }))
}

/// Ends a run that no process drives.
async fn end(journal: Arc<StoredJournal>, run: &RunId, again: &AgainArgs) -> Result<String, Failure> {
    let found = FoundRun::read(journal, run).await?;
    let (domain, runner) = found.runner(again).await?;
    let explained = |error| explained(error, domain.folder());
    // Runs that it called end with it, so they are driven again as well.
    let handle = if found.run.waits_below().next().is_some() {
        let handle = runner.resume(run).start().await.map_err(explained)?;
        handle.stop(StopMode::Now);
        handle
    } else {
        let request = EventKind::StopRequested { how: StopMode::Now };
        runner.resume_with(run, [request]).start().await.map_err(explained)?
    };
    match handle.driven().await {
        DriveResult::Ended(outcome) => Ok(format!("stopped: run {run}: {}", ended(&outcome).1)),
        DriveResult::Waiting(_) => Err(Failure::new(format!("run {run} still waits for a person"))),
    }
}
