//! `loopgate fork` and `loopgate retry`: a new run that begins with what another run had.

use std::process::ExitCode;
use std::sync::Arc;

use loop_core::EventKind;
use loop_core::run::{Parent, ParentEffect, Started};
use loop_domain::Domain;
use loop_runtime::Runner;
use loop_runtime::journal::transfer::{Lost, Salvaged};
use loop_runtime::journal::{Entry, Journal, StoredJournal};
use loop_runtime::run::{Forkable, Handle, Takeover};

use crate::args::{FolderArgs, JournalArgs, JsonArgs, Progress, SettingArgs, WrittenArgs};
use crate::budgets::BatchOrigin;
use crate::failure::Failure;
use crate::live::Live;
use crate::replay::opened;
use crate::resume::{Found, Loaded, Origin};
use crate::run::{Driving, Signals};
use crate::{budgets, places, run, saving, show, stream};

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

/// How a new run that begins with what another one had is put together and driven.
#[derive(Debug, clap::Args)]
pub(crate) struct NextArgs {
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    #[command(flatten)]
    pub(crate) folder: FolderArgs,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    #[command(flatten)]
    pub(crate) written: WrittenArgs,
}

impl NextArgs {
    /// With the settings of the run before.
    pub(crate) fn unchanged(folder: FolderArgs, journal: JournalArgs) -> Self {
        let (settings, json) = (SettingArgs::default(), JsonArgs::none());
        Self { settings, folder, json, written: WrittenArgs::to(journal) }
    }
}

pub(crate) async fn fork(args: ForkArgs) -> Result<ExitCode, Failure> {
    let from = Found::of(&args.run, &args.next.written.journal).await?;
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
    let from = Found::of(&args.run, &args.next.written.journal).await?;
    let (_domain, runner) = runner(&from, &args.next)?;
    let handle = runner.retry(from.id()).start().await?;
    drive(from, &runner, handle, &args.next).await
}

/// Continues the good entries of a damaged run as a new run.
pub(crate) async fn salvage(named: &str, next: &NextArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&next.written.journal)?;
    let id = show::find(journal.as_ref(), named).await?.run;
    let Salvaged { recorded, vouched, lost, fault } = journal.salvage(&id).await?;
    if fault.is_none() && lost == Lost::Nothing {
        let at = places::at(next.written.journal.journal.as_deref());
        return Err(Failure::new(format!(
            "run {id} is whole; `loopgate resume {id}{at}` continues it if it is not over"
        )));
    }
    let entries = recorded.entries.len() as u64;
    if vouched < entries {
        stream::note(format!("warning: the journal's key vouches for {vouched} of the {entries} entries"));
    }
    let run = opened(&recorded)?;
    let from = Found { journal, recorded, run };
    let (domain, runner) = runner(&from, next)?;
    let mut before = entries_before(from.journal.as_ref(), from.run.started()).await;
    before.extend(from.recorded.entries.iter().cloned());
    domain.goes_on_behind(&before);
    let may_have_lost = lost != Lost::Nothing;
    let handle = runner.salvage(from.id(), from.recorded.clone(), may_have_lost).start().await?;
    drive(from, &runner, handle, next).await
}

/// The entries after which a fork can begin, one a line.
fn list(from: &Found) -> Result<String, Failure> {
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

/// The loop of the new run.
fn runner(from: &Found, next: &NextArgs) -> Result<(Domain, Runner), Failure> {
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
    let mut runner = saving::to_loop(&domain, saves).with_origin(origin);
    if asks {
        runner = runner.with_people();
    }
    let journal = StoredJournal::clone(&from.journal).with_sync(next.written.sync.policy(&domain));
    let runner = budgets::on_journal(runner, &domain, &Arc::new(journal), budget).leave_when_waiting();
    Ok((domain, runner))
}

/// Says what the new run begins with, drives it, and prints what it came to.
async fn drive(from: Found, runner: &Runner, handle: Handle, next: &NextArgs) -> Result<ExitCode, Failure> {
    if let Some(parent) = &handle.started().parent {
        taken_over(handle.started(), parent).into_iter().for_each(stream::note);
    }
    let signals = Signals::new()?;
    let driving = Driving {
        runner,
        journal: Arc::clone(&from.journal),
        at: next.written.journal.journal.clone(),
        live: Live::new(runner.spec(), Progress::Auto),
        lines: None,
        json: next.json.detail(),
        prints: true,
        signals,
    };
    let (code, mut signals) = driving.drive(handle).await?;
    signals.unless_received(async {}).await;
    Ok(code)
}

/// What a run begins with, in lines.
pub(crate) fn taken_over(started: &Started, parent: &Parent) -> Vec<String> {
    let (run, entries) = (&parent.run, parent.entries);
    let what = match parent.how {
        Takeover::Fork => {
            format!("fork:    {} continues {run} after entry {}", started.run, entries.saturating_sub(1))
        }
        Takeover::Retry => format!("retry:   {} knows the evidence of {run}", started.run),
        Takeover::Salvage => format!("salvage: {} continues {run} after {entries} entries", started.run),
    };
    let mut lines = vec![what];
    if parent.how != Takeover::Retry {
        lines.push(format!("so far:  {} (counted against the limits)", run::bill(&parent.totals())));
    }
    let open = |effect: &&ParentEffect| effect.evidence.is_none() || parent.how == Takeover::Retry;
    for effect in parent.effects.iter().filter(open) {
        lines.push(format!("effect:  {}", described(effect, parent.how)));
    }
    if parent.lost {
        lines.push(format!(
            "effects: {run} may have made, or may still make, others: every write needs an approval"
        ));
    }
    lines
}

/// One effect of the parent, in a line.
fn described(effect: &ParentEffect, how: Takeover) -> String {
    let ParentEffect { key, tool, parameters, status, evidence } = effect;
    let status = status.map_or("not settled", |status| status.name());
    let parameters = parameters.to_string();
    let what = format!("{key} {tool} {}: {status}", stream::cut(&parameters, MAX_PARAMETER_CHARS));
    match (how, evidence) {
        (Takeover::Retry, Some(evidence)) => format!("{what}, see {evidence}"),
        _ => format!("{what}; it is not repeated without an approval"),
    }
}

/// The entries that scripted models have replied to before a fork began, the oldest first. Those that cannot be read
/// are left out.
pub(crate) async fn entries_before(journal: &dyn Journal, started: &Started) -> Vec<Entry> {
    let mut parts = Vec::new();
    let continued = |started: &Started| {
        let parent = started.parent.as_deref().filter(|parent| parent.how != Takeover::Retry)?;
        Some((parent.run.clone(), parent.entries))
    };
    let mut next = continued(started);
    while let Some((run, entries)) = next.take() {
        let Ok(mut recorded) = journal.read(&run).await else { break };
        recorded.entries.truncate(usize::try_from(entries).unwrap_or(usize::MAX));
        if let Some(EventKind::Started(first)) = recorded.entries.first().map(|first| &first.event.kind) {
            next = continued(first);
        }
        parts.push(recorded.entries);
    }
    parts.into_iter().rev().flatten().collect()
}

/// How many characters of a call's parameters are shown.
const MAX_PARAMETER_CHARS: usize = 120;
