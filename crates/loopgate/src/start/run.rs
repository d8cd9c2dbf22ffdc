//! `loopgate run`: runs one work item through a domain's loop.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use loop_core::types::Tier;
use loop_core::{RunSpec, WorkItem};
use loop_inspect::Forecast;
use loop_runtime::journal::Journal;

use super::run_args::RunArgs;
use super::selection;
use crate::args::tags;
use crate::context::{Origin, Signals, on_journal, places, to_loop};
use crate::drive::{DrivenRun, Lines, attach, attach::Request};
use crate::output::{Failure, stream};
use crate::shown::Live;

pub(crate) async fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let domain = places::load_with(&args.domain, args.record.as_deref(), places::cwd()?)?;
    let item = places::item_or_text(&domain, args.items.first().map(PathBuf::as_path), args.text.as_deref())?;
    let item = args.request.on(item)?;
    domain.ready(args.written.saves())?;
    domain.start_servers();
    let journal = args.written.open(&domain)?;
    let prepared = to_loop(&domain, args.written.saves());
    let tags = tags(&args.tags)?;
    let origin = Origin::of(&args.domain, args.written.saves(), /*asks*/ false)?.with_tags(tags).text()?;
    let prepared = on_journal(prepared, &domain, &journal, /*batch*/ None);
    let prepared = prepared.with_origin(origin).leave_when_waiting();
    let spec = Arc::clone(prepared.spec());
    let mut signals = Signals::new()?;
    let key = args.request.key()?;
    let request = attach::request(&prepared, item, key, args.progress, &mut signals).await?;
    if let Request::Drive(handle) = &request {
        places::say_prices(&domain);
        stream::note(format!("starts:  {}", starts(&spec, &handle.started().item, journal.path())));
        if args.verbose {
            stream::note(format!(
                "limits:  {}",
                Forecast::new(&spec, &domain.prompts, &handle.started().item)
            ));
        }
    }
    let id = match &request {
        Request::Drive(handle) => handle.id().clone(),
        Request::Ended(ended) => ended.started.run.clone(),
    };
    let explained = args.explain_picks.then(|| (Arc::clone(&journal), id.clone()));
    let lines = args.events.then(|| Lines::new(Arc::clone(&journal) as Arc<dyn Journal>, id));
    let driving = DrivenRun {
        runner: &prepared,
        journal,
        at: args.written.journal.journal.clone(),
        shows: (Live::new(&spec, args.progress), lines),
        json: args.json.detail(),
        prints: !args.events,
        signals,
    };
    let (code, mut signals) = match request {
        Request::Drive(handle) => driving.drive(handle).await?,
        Request::Ended(ended) => driving.has_ended(*ended).await?,
    };
    if let Some((journal, id)) = explained {
        signals.unless_received(selection::explain(&domain, &*journal, &id)).await;
    }
    signals.unless_received(async { places::finish_recording(&domain, args.record.as_deref()) }).await;
    Ok(code)
}

/// A line about a run at its start: its item, domain, models and journal.
fn starts(spec: &RunSpec, item: &WorkItem, journal: &Path) -> String {
    let name = |tier| format!("{}/{}", spec.model(tier).provider, spec.model(tier).model);
    let tiers = [Tier::Base, Tier::Selector, Tier::Escalated, Tier::Fallback];
    let models = BTreeSet::from(tiers.map(name)).into_iter().collect::<Vec<_>>().join(", ");
    let (kind, id, domain) = (&item.kind, &item.id, &spec.domain);
    format!("{kind} {id} of {domain} with {models}; journal {}", journal.display())
}
