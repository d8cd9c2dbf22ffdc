//! The arguments of `loopgate run`, for one item and for a batch.

use std::path::{Path, PathBuf};

use loop_core::types::PicoUsd;

use crate::args::{DomainArgs, JsonArgs, Progress, RequestArgs, WrittenArgs};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of a batch")]
pub(crate) struct ManyArgs {
    /// Number of runs at a time [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "text")]
    pub(crate) jobs: Option<u16>,
    /// Maximum cost in US dollars of all runs of the batch together, over all its starts; the price of each model must be
    /// known
    #[arg(long, value_name = "USD", value_parser = budget, allow_hyphen_values = true, conflicts_with = "text")]
    pub(crate) budget_usd: Option<PicoUsd>,
    /// Start no more items once a run fails or leaves an effect in doubt
    #[arg(long, conflicts_with = "text")]
    pub(crate) fail_fast: bool,
    /// Begin the items again whose runs failed in an earlier start; the new runs know the evidence of the failed ones
    #[arg(long, conflicts_with = "text")]
    pub(crate) retry_failed: bool,
}

impl ManyArgs {
    /// Whether any of these options is given.
    pub(crate) fn is_given(&self) -> bool {
        self.jobs.is_some() || self.budget_usd.is_some() || self.fail_fast || self.retry_failed
    }
}

fn budget(text: &str) -> Result<PicoUsd, String> {
    match text.parse::<PicoUsd>() {
        Ok(PicoUsd(0)) => {
            Err("a budget of 0 lets no run call a model; give an amount such as 5.00".to_owned())
        }
        Ok(budget) => Ok(budget),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = BATCH_HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// The work item: a JSON or Markdown file, `-` for standard input, or a `.jsonl` file with one item a line; several
    /// items are a batch
    #[arg(required_unless_present = "text", conflicts_with = "text", value_name = "ITEM")]
    pub(crate) items: Vec<PathBuf>,
    /// The work item as text
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// A tag of the run, by which `runs` finds it; repeat the option for several
    #[arg(long = "tag", value_name = "NAME")]
    pub(crate) tags: Vec<String>,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    /// Print each event and note as a JSON line, instead of the document, the answer or the value
    #[arg(long, conflicts_with = "json")]
    pub(crate) events: bool,
    #[command(flatten)]
    pub(crate) written: WrittenArgs,
    /// Record every exchange with a model to this file; the provider `recorded` plays it back
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Say first what the run may use, and which limit can bind first; without it a limit is named once 70 % of it is used
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Say on standard error why each tool was called before the first pass, or was not
    #[arg(long)]
    pub(crate) explain_picks: bool,
    /// Show live progress on standard error
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN")]
    pub(crate) progress: Progress,
    #[command(flatten)]
    pub(crate) many: ManyArgs,
}

impl RunArgs {
    /// Whether it is a batch: several items, or an option for batches.
    pub(crate) fn is_many(&self) -> bool {
        self.items.len() > 1 || self.many.is_given() || self.items.iter().any(|path| is_lines(path))
    }
}

const BATCH_HELP: &str = "A batch ends with the highest exit code of its runs. An item that was not started counts as 3, one that \
    could not begin as 6. After Ctrl-C it is 130, after SIGTERM 143.";

/// Whether a path names a file with one item a line.
pub(crate) fn is_lines(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("jsonl"))
}
