//! `loopgate runs`: the runs of a journal as a list, by what they are and what they cost.

use std::process::ExitCode;

use loop_inspect::listed::{LISTED_VERSION, ListedRun, ListedRuns, ListedTotals};

use crate::args::{FilterArgs, JournalArgs, ReportArgs};
use crate::context::places;
use crate::output::{Failure, stream};
use crate::shown::listed;

#[derive(Debug, clap::Args)]
pub(crate) struct RunsCommandArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

pub(crate) async fn runs(args: RunsCommandArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let listed: Vec<ListedRun> =
        args.filter.listed(&journal).await?.into_iter().map(|(_, run)| run).collect();
    let totals = ListedTotals::of(&listed);
    if args.json.json {
        let listed = ListedRuns { version: LISTED_VERSION, runs: listed, totals };
        stream::print_report(&listed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    listed.iter().for_each(|run| listed::one(&mut text, run));
    stream::print(&text);
    stream::note(format!("totals:  {}", listed::in_words(&totals)));
    Ok(ExitCode::SUCCESS)
}
