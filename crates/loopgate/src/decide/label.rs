//! `loopgate label`: labels an ended run as good or bad.

use std::process::ExitCode;

use loop_runtime::journal::Journal as _;
use loop_runtime::journal::label::{Label, RunLabel};

use crate::args::{JournalArgs, name_of, one_of};
use crate::context::{find, places};
use crate::drive::approver;
use crate::output::{Failure, stream};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "`eval --labelled --calibration FILE` counts labelled runs, and `backtest` says what becomes of them under other \
                  settings. A label leaves the journal with its run."
)]
pub(crate) struct LabelArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// What the run was worth; it replaces the label that the run has
    #[arg(value_parser = one_of(LABELS), required_unless_present = "remove")]
    pub(crate) label: Option<Label>,
    /// Why, in one or two sentences
    #[arg(long, value_name = "TEXT", requires = "label")]
    pub(crate) note: Option<String>,
    /// Who says so; it is not verified
    #[arg(long = "as", value_name = "NAME", requires = "label")]
    pub(crate) claim: Option<String>,
    /// Take the label away
    #[arg(long, conflicts_with = "label")]
    pub(crate) remove: bool,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

const LABELS: [(&str, &str, Label); 2] =
    [("good", "It did what it was for", Label::Good), ("bad", "It did not", Label::Bad)];

pub(crate) async fn label(args: LabelArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let run = find(journal.as_ref(), &args.run).await?.run;
    let by = approver(name_of("--as", args.claim.as_deref())?).to_string();
    let new = |label| RunLabel::new(label, args.note.as_deref().unwrap_or_default(), &by);
    let label = args.label.map(new).transpose().map_err(|error| Failure::new(format!("--{error}")))?;
    let had = journal.labels(Some(std::slice::from_ref(&run))).await?.remove(&run);
    let before = had.map_or_else(String::new, |had| format!(" (before: {})", had.label.name()));
    let said = match &label {
        Some(label) => format!("run {run}: {}{before}", label.label.name()),
        None => format!("run {run}: no label{before}"),
    };
    journal.set_label(&run, label).await?;
    stream::note(said);
    Ok(ExitCode::SUCCESS)
}
