//! Begins a new run from another run, for forks, retries and salvage.

use std::process::ExitCode;
use std::sync::Arc;

use loop_domain::Domain;
use loop_runtime::Runner;
use loop_runtime::journal::transfer::{LostEntries, SalvagedRun};
use loop_runtime::run::Handle;

use super::driving::DrivenRun;
use crate::args::{FolderArgs, JournalArgs, Progress, ReportArgs, SettingArgs, WrittenArgs};
use crate::context::{
    BatchOrigin, FoundRun, Loaded, Origin, Signals, again, entries_before, find, opened, places,
};
use crate::output::{Failure, at_journal, stream};
use crate::shown::{Live, taken_over};

/// How a new run that begins with what another one had is put together and driven.
#[derive(Debug, clap::Args)]
pub(crate) struct NextArgs {
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    #[command(flatten)]
    pub(crate) folder: FolderArgs,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) written: WrittenArgs,
}

impl NextArgs {
    /// The arguments with the settings of the previous run.
    pub(crate) fn unchanged(folder: FolderArgs, journal: JournalArgs) -> Self {
        let (settings, json) = (SettingArgs::default(), ReportArgs { json: false });
        Self { settings, folder, json, written: WrittenArgs::to(journal) }
    }
}

/// The runner of the new run.
pub(crate) fn runner(from: &FoundRun, next: &NextArgs) -> Result<(Domain, Runner), Failure> {
    if let Some(by) = from.run.started().provenance.called_by.as_deref() {
        let root = &by.root;
        return Err(Failure::new(format!(
            "run {} is part of run {root}; fork or retry that one, for example with `loopgate fork {root}`",
            from.id()
        )));
    }
    let Loaded { domain, arguments, cwd, saves, asks, origin } =
        from.load(next.folder.domain.as_deref(), &next.settings)?;
    let saves = saves && next.written.saves();
    domain.ready(saves)?;
    domain.start_servers();
    let tags = origin.as_ref().map_or_else(Vec::new, |origin| origin.tags().to_vec());
    // It continues the work of a batch, so what it costs counts for that.
    let batch = origin.as_ref().and_then(Origin::batch).cloned();
    let budget = batch.as_ref().map(BatchOrigin::budget);
    let origin = Origin::of_folder(&arguments, cwd, saves, asks)?.of_batch(batch).with_tags(tags);
    let origin = origin.text()?;
    let runner = again(&from.journal, &domain, saves, asks, budget).with_origin(origin);
    Ok((domain, runner))
}

/// Prints what the new run begins with, drives it, and prints its result.
pub(crate) async fn drive(
    from: FoundRun,
    runner: &Runner,
    handle: Handle,
    next: &NextArgs,
) -> Result<ExitCode, Failure> {
    if let Some(parent) = &handle.started().parent {
        taken_over(handle.started(), parent).into_iter().for_each(stream::note);
    }
    let signals = Signals::new()?;
    let driving = DrivenRun {
        runner,
        journal: Arc::clone(&from.journal),
        at: next.written.journal.journal.clone(),
        shows: (Live::new(runner.spec(), Progress::Auto), None),
        json: next.json.detail(),
        prints: true,
        signals,
    };
    let (code, mut signals) = driving.drive(handle).await?;
    signals.unless_received(async {}).await;
    Ok(code)
}

/// Salvages the valid entries of a damaged run as a new run.
pub(crate) async fn salvage(named: &str, next: &NextArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&next.written.journal)?;
    let id = find(journal.as_ref(), named).await?.run;
    let SalvagedRun { recorded, vouched, lost, fault } = journal.salvage(&id).await?;
    if fault.is_none() && lost == LostEntries::Nothing {
        let at = at_journal(next.written.journal.journal.as_deref());
        return Err(Failure::new(format!(
            "run {id} is whole; `loopgate resume {id}{at}` continues it if it is not over"
        )));
    }
    let entries = recorded.entries.len() as u64;
    if vouched < entries {
        stream::note(format!("warning: the journal's key vouches for {vouched} of the {entries} entries"));
    }
    let run = opened(&recorded)?;
    let from = FoundRun { journal, recorded, run };
    let (domain, runner) = runner(&from, next)?;
    let mut before = entries_before(from.journal.as_ref(), from.run.started()).await;
    before.extend(from.recorded.entries.iter().cloned());
    domain.goes_on_behind(&before);
    let may_have_lost = lost != LostEntries::Nothing;
    let handle = runner.salvage(from.id(), from.recorded.clone(), may_have_lost).start().await?;
    drive(from, &runner, handle, next).await
}
