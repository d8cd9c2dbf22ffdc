//! Starts and shuts down the server of `loopgate serve`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use loop_runtime::journal::SyncPolicy;
use loop_server::api;
use loop_server::doors::{self, Audit, Hosts};
use loop_server::engine::{Engine, EngineLimits, ServedDomain};
use loop_server::links::SignedLinks;
use loop_server::pages;
use tokio_util::sync::CancellationToken;

use super::runner_cache::RunnerCache;
use super::source::{Runners, keep_all};
use super::{ServeArgs, door};

use crate::args::{AgainArgs, DomainArgs};
use crate::context::{Signals, pages_source, places, telemetry};
use crate::output::{Failure, stream};

pub(super) async fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    let listener = door::bind(&args).await?;
    let at = listener.local_addr()?;
    let hosts = Hosts::new(at, &args.public_hosts)?;
    let mut signals = Signals::new()?;
    loop_server::log_to(|line| stream::note(format!("loopgate: {line}")));
    telemetry::serve_metrics();
    let cwd = places::cwd()?;
    let mut loaded = Vec::new();
    for of in args.of_domains() {
        let domain = places::load(&of)?;
        domain.ready(args.written.saves())?;
        loaded.push((of, domain));
    }
    let mut named: BTreeMap<Arc<str>, DomainArgs> = BTreeMap::new();
    let policies: Vec<SyncPolicy> = loaded.iter().map(|(_, domain)| domain.sync).collect();
    let journal = places::journal(&args.written.journal, strictest(&policies))?;
    let mut domains = Vec::new();
    for (of, domain) in loaded {
        let name = Arc::clone(&domain.spec.domain);
        if named.insert(Arc::clone(&name), of).is_some() {
            return Err(Failure::new(format!(
                "two of the domains are called {name}; give one of them another `name`, or serve it with a journal of its own"
            )));
        }
        domains.push(domain);
    }
    let runners = Runners {
        journal: Arc::clone(&journal),
        domains: named,
        cwd,
        saves: args.written.saves(),
        again: AgainArgs::of_server(&args.written),
        kept: RunnerCache::default(),
        links: Arc::new(SignedLinks::new(Arc::clone(&journal), hosts.origin())),
    };
    let (jobs, queued) = (usize::from(args.jobs), u64::from(args.max_queued));
    let served: Vec<ServedDomain> = domains
        .into_iter()
        .map(|domain| {
            domain.start_servers();
            let max_runs = domain.max_runs().and_then(|max| usize::try_from(max).ok()).unwrap_or(jobs);
            let max_queued = domain.max_queued().map_or(queued, u64::from);
            ServedDomain { runner: runners.runner(&domain), domain, max_runs, max_queued }
        })
        .collect();
    keep_all(&runners, &served).await?;
    let limits = EngineLimits { max_runs: jobs, max_queued: queued, ..EngineLimits::default() };
    let opened = Engine::open(Arc::clone(&journal), served, Arc::new(runners), limits).await;
    let engine =
        opened.map_err(|error| Failure::new(error.for_operator().unwrap_or_else(|| error.to_string())))?;
    let limits = door::limits(&engine);
    // One log, so that what a caller adds to it is bounded wherever it comes from.
    let audit = Audit::of(Arc::clone(engine.journal()));
    let doors = door::doors(&args, at, hosts, &engine, audit.clone(), limits.clone())?;
    let source = pages_source(Arc::clone(engine.journal()), Some(engine.clone()), audit.clone());
    let router = doors.guard(api::router(engine.clone(), audit).merge(pages::router(source)));
    let ending = CancellationToken::new();
    let shutdown = ending.clone().cancelled_owned();
    door::announce(&args, &doors, at)?;
    let serving = tokio::spawn(doors::serve(listener, router, limits, args.proxies.clone(), shutdown));
    signals.next().await;
    stream::note(format!(
        "ending:  no new work is begun; runs under way have {} s to end, and a second signal ends the server at once",
        args.drain
    ));
    let is_done = signals.unless_received(engine.drain(Duration::from_secs(args.drain))).await;
    ending.cancel();
    // A panic in it has been reported.
    _ = signals.unless_received(serving).await;
    if !is_done {
        stream::note("ended:   runs are left under way; the next start of the server resumes them");
    }
    Ok(ExitCode::SUCCESS)
}

fn strictest(policies: &[SyncPolicy]) -> SyncPolicy {
    if policies.contains(&SyncPolicy::Full) {
        SyncPolicy::Full
    } else if policies.iter().all(|policy| *policy == SyncPolicy::None) {
        SyncPolicy::None
    } else {
        SyncPolicy::Effects
    }
}
