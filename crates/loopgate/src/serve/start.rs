//! The start and the end of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loop_runtime::journal::SyncPolicy;
use loop_server::api;
use loop_server::caller::{Caller, Role};
use loop_server::doors::Audit;
use loop_server::engine::{Engine, EngineLimits, ServedDomain};
use loop_server::pages;
use loop_server::server::{Server, ServerLimits};

use super::ServeArgs;
use super::source::{Runners, keep_all};
use crate::args::{DomainArgs, GoOnArgs};
use crate::failure::Failure;
use crate::run::Signals;
use crate::{places, stream, view};

pub(super) async fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    if !args.listen.ip().is_loopback() {
        return Err(Failure::new(format!(
            "--listen {}: other machines reach this address, and the server has no tokens; use a loopback address such as \
             127.0.0.1:8787",
            args.listen
        )));
    }
    let mut signals = Signals::new()?;
    loop_server::log_to(|line| stream::note(format!("loopgate: {line}")));
    let cwd = places::cwd()?;
    let mut loaded = Vec::new();
    for of in args.of_domains() {
        let domain = places::load(&of)?;
        domain.ready(!args.no_save)?;
        loaded.push((of, domain));
    }
    let mut named: BTreeMap<Arc<str>, DomainArgs> = BTreeMap::new();
    let policies: Vec<SyncPolicy> = loaded.iter().map(|(_, domain)| args.sync.policy(domain)).collect();
    let journal = places::journal(&args.journal, strictest(&policies))?;
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
        saves: !args.no_save,
        sync: args.sync,
        go_on: GoOnArgs::of_server(&args.journal, args.sync),
        known: Mutex::default(),
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
    let server = Server::bind(args.listen, ServerLimits::default()).await.map_err(|error| {
        Failure::new(format!("--listen {}: {error}; choose another port, or 0 for any free one", args.listen))
    })?;
    let limits = EngineLimits { max_runs: jobs, max_queued: queued, ..EngineLimits::default() };
    let engine = Engine::open(journal, served, Arc::new(runners), limits).await?;
    stream::note(format!("serving: http://{}/v1", server.address()?));
    let ending = server.ending();
    let pages = pages::router(view::source(
        Arc::clone(engine.journal()),
        Some(engine.clone()),
        Audit::of(Arc::clone(engine.journal())),
    ));
    let router = api::router(engine.clone()).merge(pages).layer(axum::Extension(person_here()));
    let serving = tokio::spawn(server.serve(router, CLOSE_LIMIT));
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

/// The person at this machine, for as long as the server has no other callers.
fn person_here() -> Caller {
    Caller { name: "local".into(), roles: BTreeSet::from([Role::Admin]), domains: None }
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

/// How long answers that have begun may take when the server ends.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
