//! `loopgate save`: the outcome of a run that has ended goes to the domain's save target, later than at its end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use loop_core::Saved;
use loop_runtime::save::Saver as _;

use crate::args::JournalArgs;
use crate::failure::Failure;
use crate::resume::Found;
use crate::run::Signals;
use crate::{places, show, stream};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A URL gets the same idempotency key as from the run itself, so the receiver drops what it has already. The run does not \
                  change: `show` still says how its own saving ended."
)]
pub(crate) struct SaveArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// Save it even if the run has saved it
    #[arg(long)]
    pub(crate) again: bool,
    /// The run's domain folder, or its loopgate.toml [default: where it was when the run began]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) domain: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

pub(crate) async fn save(args: SaveArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let line = show::find(journal.as_ref(), &args.run).await?;
    let found = Found::read(journal, &line.run).await?;
    let (id, at) = (found.id().clone(), places::at(args.journal.journal.as_deref()));
    let Some(outcome) = found.run.outcome().filter(|_| found.run.is_done()) else {
        return Err(Failure::new(format!(
            "run {id} has not ended, so there is no outcome to save; `loopgate resume {id}{at}` continues it"
        )));
    };
    if let Some(Saved::At { location }) = &outcome.saved
        && !args.again
    {
        stream::note(format!("saved:   {location}, by the run itself; --again saves it once more"));
        return Ok(ExitCode::SUCCESS);
    }
    let domain = found.domain(args.domain.as_deref())?;
    let Some(target) = domain.save.clone() else {
        let folder = domain.folder().display();
        return Err(Failure::new(format!(
            "the domain {folder} does not say where to save; give it a [save] table with `path` or `url`"
        )));
    };
    domain.ready(/*saves*/ true)?;
    let target = target.with_spec(Arc::clone(found.run.spec()));
    let mut signals = Signals::new()?;
    match signals.unless_received(target.save(found.run.started(), outcome)).await {
        Ok(location) => {
            stream::note(format!("saved:   {location}"));
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(Failure::new(format!("run {id} is not saved: {}", error.message))),
    }
}
