//! `loopgate runs`: the runs of a journal as a list, by what they are and what they cost.

use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use loop_core::types::RunId;
use loop_inspect::listed::{LISTED_VERSION, ListedRun, ListedRuns, ListedTotals};

use crate::args::{FilterArgs, JournalArgs, ReportArgs, When};
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
    let (mut ids, mut listed): (Vec<RunId>, Vec<ListedRun>) = (Vec::new(), Vec::new());
    for (line, run) in args.filter.listed(&journal).await? {
        if args.item.as_ref().is_none_or(|item| *item == run.item) {
            ids.push(line.run);
            listed.push(run);
        }
    }
    let totals = ListedTotals::of(&listed);
    let limit = args.limit.or((!args.json.json).then_some(DEFAULT_LIMIT));
    let limit = limit.map_or(listed.len(), |limit| limit as usize);
    let more = listed.len().saturating_sub(limit);
    ids.truncate(limit);
    listed.truncate(limit);
    let instants = journal.last_instants(&ids).await?;
    for (id, run) in ids.iter().zip(&mut listed) {
        run.elapsed_ms = instants.get(id).map(|at| at.0);
    }
    if args.json.json {
        let listed = ListedRuns { version: LISTED_VERSION, runs: listed, totals };
        stream::print_report(&listed)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Who forces colours into a pipe reads it.
    let is_colored = AutoStream::choice(&std::io::stdout()) != ColorChoice::Never;
    let columns = screen::width(screen::Output::Stdout);
    match columns.or_else(|| is_colored.then(|| screen::columns_set().unwrap_or(80))) {
        Some(_) if listed.is_empty() => {}
        Some(columns) => stream::print_lines(&listed::table(&listed, When::now_unix_ms(), columns)),
        None => {
            let mut text = String::new();
            listed.iter().for_each(|run| listed::one(&mut text, run));
            stream::print_part(&text);
        }
    }
    stream::note(format!("totals:  {}", listed::in_words(&totals)));
    if more > 0 {
        stream::note(format!("… {} more: --limit {}", grouped(more as u64), limit + more));
    }
    Ok(ExitCode::SUCCESS)
}

/// How many runs are listed for people.
const DEFAULT_LIMIT: u32 = 20;
