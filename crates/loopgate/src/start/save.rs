//! `loopgate resume --save`: saves the outcome of an ended run to the domain's save target.

use std::process::ExitCode;
use std::sync::Arc;

use loop_core::run::SaveState;
use loop_runtime::save::Saver as _;

use super::resume::SaveWhen;
use crate::args::AgainArgs;
use crate::context::{FoundRun, Signals};
use crate::output::{Failure, stream};

/// Saves the outcome of this run, which must have ended.
pub(crate) async fn save(run: &str, when: SaveWhen, again: &AgainArgs) -> Result<ExitCode, Failure> {
    let found = FoundRun::any(run, again).await?;
    let (id, at) = (found.id().clone(), again.at());
    let Some(outcome) = found.run.outcome().filter(|_| found.run.is_done()) else {
        return Err(Failure::new(format!(
            "run {id} has not ended, so there is no outcome to save; `loopgate resume {id}{at}` continues it"
        )));
    };
    if let Some(SaveState::At { location }) = &outcome.saved
        && when == SaveWhen::Missing
    {
        stream::note(format!("saved:   {location}, by the run itself; --save=again saves it once more"));
        return Ok(ExitCode::SUCCESS);
    }
    let domain = found.domain(again.folder.domain.as_deref())?;
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
