//! Implements `loopgate engine` for Restate.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use loop_core::run::StopMode;
use loop_restate::blobs::BlobStore;
use loop_restate::client::InvocationState;
use loop_restate::sweep::{BlobNeed, OldBlobs, RunBlobs};
use loop_restate::wire::{EngineStatus, EngineSubmission, OpenRequest};
use loop_restate::{Client, ClientError, Worker};
use loop_runtime::Runner;
use loop_runtime::engine::RunMessage;
use loop_runtime::run::RunId;
use tokio::net::{TcpListener, TcpSocket};

use super::{EngineCommand, StatusArgs, StopArgs, SubmitArgs, SweepArgs, WorkerArgs};

use crate::args::DomainArgs;
use crate::context::{Origin, Signals, client, failed, on_journal, places, to_loop};
use crate::output::{Failure, count, grouped, row, stream, time};

pub(crate) async fn engine(command: EngineCommand) -> Result<ExitCode, Failure> {
    match command {
        EngineCommand::Worker(args) => worker(*args).await,
        EngineCommand::Submit(args) => submit(*args).await,
        EngineCommand::Status(args) => status(args).await,
        EngineCommand::Stop(args) => stop(args).await,
        EngineCommand::Sweep(args) => sweep(*args).await,
    }
}

async fn worker(args: WorkerArgs) -> Result<ExitCode, Failure> {
    let listener = bind(args.listen, args.share_port)?;
    let at = listener.local_addr()?;
    let mut signals = Signals::new()?;
    let mut worker = Worker::new();
    let mut names = Vec::new();
    for folder in &args.domains {
        let of = DomainArgs { domain: folder.clone(), settings: args.settings.clone() };
        let domain = places::load(&of)?;
        domain.ready(args.written.saves())?;
        domain.start_servers();
        let journal = places::journal(&args.written.journal, domain.sync)?;
        let origin = Origin::of(&of, args.written.saves(), /*asks*/ false)?.text()?;
        let runner =
            on_journal(to_loop(&domain, args.written.saves()), &domain, &journal, /*batch*/ None);
        names.push(runner.spec().domain.to_string());
        worker = worker.with(runner.with_origin(origin)).map_err(|error| Failure::new(error.to_string()))?;
    }
    if let Some(url) = &args.blobs {
        let store = BlobStore::open(url).await.map_err(|error| Failure::new(format!("--blobs: {error}")))?;
        worker = worker.with_blobs(store, BLOBS_STAY);
    }
    let (ending, ends) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(worker.serve(listener, ends));
    stream::note(format!("worker:  http://{at} ({})", names.join(", ")));
    if let Some(admin) = &args.register {
        let own = args.advertise.clone().unwrap_or_else(|| format!("http://{at}"));
        let registered = client(admin)?.register(&own).await;
        registered.map_err(|error| Failure::new(format!("{own} is not registered: {error}")))?;
        stream::note(format!("registered at {admin} as {own}"));
    }
    signals.next().await;
    stream::note("ending:  what is under way continues in another worker, or in the next");
    drop(ending);
    // A second signal ends it at once; a panic in it has been reported.
    _ = signals.unless_received(serving).await;
    Ok(ExitCode::SUCCESS)
}

fn bind(at: SocketAddr, shares: bool) -> Result<TcpListener, Failure> {
    let refused = |error: std::io::Error| Failure::new(format!("--listen {at}: {error}"));
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(refused)?;
    socket.set_reuseaddr(true).map_err(refused)?;
    if shares {
        socket.set_reuseport(true).map_err(refused)?;
    }
    let taken = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::new(format!(
            "--listen {at}: something listens there already; give another port, or each worker there --share-port"
        )),
        _ => refused(error),
    };
    socket.bind(at).map_err(taken)?;
    socket.listen(BACKLOG).map_err(taken)
}

const BACKLOG: u32 = 1_024;
/// How long the blobs of a run are kept after its end: as long as Restate keeps the workflow.
const BLOBS_STAY: Duration = Duration::from_secs(24 * 3_600);

async fn submit(args: SubmitArgs) -> Result<ExitCode, Failure> {
    let client = client(&args.ingress.url)?;
    let domain = places::load(&args.domain)?;
    let item = places::item_or_text(&domain, args.item.as_deref(), args.text.as_deref())?;
    let item = args.request.on(item)?;
    let name = Arc::clone(&domain.spec.domain);
    let served = client.domains().await.map_err(failed)?;
    if !served.iter().any(|served| served.name == name) {
        let known: Vec<&str> = served.iter().map(|served| &*served.name).collect();
        return Err(Failure::new(format!(
            "the worker has no domain `{name}`, only {}; start one with --domain for it",
            known.join(", ")
        )));
    }
    let key = args.request.key()?;
    let run = key.as_deref().map_or_else(Runner::new_id, |key| Client::run_of_key(&name, key));
    let submission = EngineSubmission { domain: name, item, key };
    let submitted = client.submit(&run, &submission).await.map_err(failed)?;
    if submitted.is_known {
        stream::note(format!("run {run} was submitted before; nothing new begins"));
    }
    if !args.wait {
        stream::print(&format!("{run}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    stream::note(format!("run:     {run}"));
    let mut signals = Signals::new()?;
    // A signal ends the wait, and the run continues.
    let ended = signals.unless_received(client.wait(&run)).await;
    let ended = ended.map_err(failed)?;
    match args.json {
        true => stream::print_report(&ended.report)?,
        false => stream::print(&format!("{}\n", ended.text.trim_end())),
    }
    stream::note(format!("stopped: {} ({})", ended.reason, ended.class));
    Ok(ExitCode::from(ended.exit_code))
}

async fn status(args: StatusArgs) -> Result<ExitCode, Failure> {
    let run = RunId::new(args.run.as_str());
    let client = client(&args.ingress.url)?;
    let status = client.status(&run).await.map_err(failed)?;
    // A run that was killed keeps the status that it had, and answers count for nothing.
    if let InvocationState::Killed { why } = client.state(&run).await.map_err(failed)? {
        return Err(failed(ClientError::Killed { run, why }));
    }
    args.json.print(&status, || in_words(&run, &status, &args.ingress.url))?;
    Ok(ExitCode::SUCCESS)
}

/// Deletes the blobs of killed runs, or prints what it would delete.
async fn sweep(args: SweepArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let client = client(&args.ingress.url)?;
    // Opening a store makes its folder, and an empty one would look swept.
    let folder = args.blobs.strip_prefix("file://").filter(|folder| !folder.contains('%'));
    if folder.is_some_and(|folder| !Path::new(folder).is_dir()) {
        return Err(Failure::new(format!(
            "--blobs: {}: there is no such folder; give the store of the workers",
            args.blobs
        )));
    }
    let store =
        BlobStore::open(&args.blobs).await.map_err(|error| Failure::new(format!("--blobs: {error}")))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let age = now.saturating_sub(Duration::from_millis(args.older_than.unix_ms()));
    let found = OldBlobs::find(&store, &client, journal.as_ref(), age, args.max).await;
    let found = found.map_err(|error| Failure::new(error.to_string()))?;
    let (mut text, mut deleted, mut bytes) = (String::new(), 0_u64, 0_u64);
    for of in &found.runs {
        let RunBlobs { run, need, blobs, bytes: all } = of;
        let goes = *need == BlobNeed::Over || *need == BlobNeed::Unknown && args.unknown;
        let why = match need {
            BlobNeed::Over => "the run is over",
            BlobNeed::Open => "the run is under way",
            BlobNeed::Unknown => "Restate does not know the run, and the journal has no end of it",
        };
        let verb = if goes { "delete" } else { "keep" };
        row(
            &mut text,
            &format!(
                "{verb:<6}  {run}  {}, {} bytes: {why}",
                count(blobs.len() as u64, "blob"),
                grouped(*all)
            ),
        );
        match goes && args.delete {
            true => {
                let (one, of_one) =
                    of.delete(&store, age).await.map_err(|error| Failure::new(error.to_string()))?;
                deleted += one;
                bytes += of_one;
            }
            false if goes => {
                deleted += blobs.len() as u64;
                bytes += all;
            }
            false => {}
        }
    }
    stream::print(&text);
    if found.others > 0 {
        stream::note(format!("kept:    {} without the name of a run", count(found.others, "blob")));
    }
    if found.is_cut {
        stream::note(format!(
            "{} were looked at, and there are more: sweep again, or raise --max",
            count(args.max as u64, "blob")
        ));
    }
    let did = if args.delete { "deleted:" } else { "would be deleted with --delete:" };
    stream::note(format!("{did} {}, {} bytes", count(deleted, "blob"), grouped(bytes)));
    Ok(ExitCode::SUCCESS)
}

fn in_words(run: &RunId, status: &EngineStatus, url: &str) -> String {
    let EngineStatus { phase, pass, entries, stop, waiting, .. } = status;
    let stop = stop.as_ref().map_or_else(String::new, |stop| format!(", stopped: {stop}"));
    let mut text = format!("run {run}: {phase}, pass {pass}, {entries} entries{stop}\n");
    for OpenRequest { key, tool, parameters, why, is_question, deadline_unix_ms, binding } in waiting {
        let (yes, stated) = if *is_question { ("answer", " TEXT") } else { ("approve", "") };
        let lines = [
            format!("  {key}  {tool}  {parameters}"),
            format!("    {why}"),
            match deadline_unix_ms {
                Some(until) => format!("    until {} UTC, then it counts as a denial", time(*until)),
                None => "    no deadline".to_owned(),
            },
            format!("    loopgate {yes} {run} {key}{stated} --binding {} --ingress {url}", binding.short()),
        ];
        lines.iter().for_each(|line| row(&mut text, line));
    }
    text
}

async fn stop(args: StopArgs) -> Result<ExitCode, Failure> {
    let run = RunId::new(args.run.as_str());
    let how = if args.now { StopMode::Now } else { StopMode::AtGate };
    client(&args.ingress.url)?.post(&run, &RunMessage::Stop(how)).await.map_err(failed)?;
    stream::note(format!("run {run} is told to stop"));
    Ok(ExitCode::SUCCESS)
}
