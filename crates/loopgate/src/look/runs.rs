//! `loopgate runs`: lists the runs of a journal, with filters.

use std::process::ExitCode;

use loop_inspect::listed::{LISTED_VERSION, ListedRuns, ListedTotals};

use crate::args::{FilterArgs, JournalArgs, ReportArgs};
use crate::context::places;
use crate::output::{Failure, grouped, screen, stream};
use crate::shown::listed;

#[derive(Debug, clap::Args)]
pub(crate) struct RunsCommandArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Only runs of this work item, by its id
    #[arg(long, value_name = "ID")]
    pub(crate) item: Option<String>,
    /// Maximum number of runs in the list [default: 20; with --json all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

pub(crate) async fn runs(args: RunsCommandArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let mut found = args.filter.listed(&journal).await?;
    found.retain(|(_, run)| args.item.as_ref().is_none_or(|item| *item == run.item));
    let totals = ListedTotals::of(&found.iter().map(|(_, run)| run.clone()).collect::<Vec<_>>());
    let limit = args.limit.or((!args.json.json).then_some(20)).map_or(found.len(), |limit| limit as usize);
    let more = found.len().saturating_sub(limit);
    found.truncate(limit);
    if args.json.json {
        let runs = found.into_iter().map(|(_, run)| run).collect();
        stream::print_report(&ListedRuns { version: LISTED_VERSION, runs, totals })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    for (line, run) in found {
        let last = journal.entries_from(&line.run, line.entries.saturating_sub(1), 1).await.ok();
        let last = last.filter(|_| line.trouble.is_none());
        rows.push((run, last.and_then(|it| Some(it.first()?.event.at.0))));
    }
    let mut text = String::new();
    match screen::table_width() {
        Some(columns) => stream::print_lines(&listed::table(&rows, columns)),
        None => rows.iter().for_each(|(run, elapsed)| listed::one(&mut text, run, *elapsed)),
    }
    stream::print(&text);
    stream::note(format!("totals:  {}", listed::in_words(&totals)));
    if more > 0 {
        stream::note(format!("… {} more: --limit {}", grouped(more as u64), limit + more));
    }
    Ok(ExitCode::SUCCESS)
}
