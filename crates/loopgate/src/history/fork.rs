//! `loopgate fork` and `loopgate retry`: begin a new run from another run.

use std::process::ExitCode;

use loop_runtime::run::Forkable;

use crate::context::{FoundRun, entries_before};
use crate::drive::{NextArgs, drive, runner};
use crate::output::{Failure, stream};

#[derive(Debug, clap::Args)]
pub(crate) struct ForkArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// The entry after which the fork begins, by its number; `--list` and `loopgate show RUN --events` print it
    /// [default: the last one where nothing is in flight]
    #[arg(long, value_name = "ENTRY")]
    pub(crate) at: Option<u64>,
    /// Only print the entries after which a fork can begin, and begin none
    #[arg(long, conflicts_with_all = ["at", "json", "set", "models", "profile"])]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) next: NextArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) next: NextArgs,
}

pub(crate) async fn fork(args: ForkArgs) -> Result<ExitCode, Failure> {
    let from = FoundRun::of(&args.run, &args.next.written.journal).await?;
    if args.list {
        stream::print(&list(&from)?);
        return Ok(ExitCode::SUCCESS);
    }
    let (domain, runner) = runner(&from, &args.next)?;
    let at = match args.at {
        Some(at) => Some(at),
        None => runner.last_forkable(from.id(), &from.recorded)?,
    };
    if let Some(at) = at {
        let read = usize::try_from(at).unwrap_or(usize::MAX).saturating_add(1);
        let mut entries = entries_before(from.journal.as_ref(), from.run.started()).await;
        entries.extend(from.recorded.entries.iter().take(read).cloned());
        domain.goes_on_behind(&entries);
    }
    let handle = runner.fork(from.id(), at).start().await?;
    drive(from, &runner, handle, &args.next).await
}

pub(crate) async fn retry(args: RetryArgs) -> Result<ExitCode, Failure> {
    let from = FoundRun::of(&args.run, &args.next.written.journal).await?;
    let (_domain, runner) = runner(&from, &args.next)?;
    let handle = runner.retry(from.id()).start().await?;
    drive(from, &runner, handle, &args.next).await
}

/// The entries after which a fork can begin, a line each.
fn list(from: &FoundRun) -> Result<String, Failure> {
    let Forkable { entries, between_calls, under_other_limits } = Forkable::of(from.id(), &from.recorded)?;
    let mut text = String::new();
    for entry in &from.recorded.entries {
        let has = |all: &[u64]| all.binary_search(&entry.seq).is_ok();
        let what = match (has(&entries), has(&between_calls), has(&under_other_limits)) {
            (true, true, _) => "a model call comes next",
            (true, false, _) => "calls are open",
            (false, _, true) => "the final pass comes next: only with other limits",
            (false, _, false) => continue,
        };
        let name = entry.event.kind.name();
        text.push_str(&format!("{:>5}  {name:<16} {what}\n", entry.seq));
    }
    if text.is_empty() {
        text.push_str("no entry can be forked: the run ended as it began\n");
    }
    Ok(text)
}
