//! `loopgate engine`: workers, submissions and runs on a durable engine.

#[cfg(feature = "restate")]
mod restate;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::args::{
    DomainArgs, IngressArgs, JournalArgs, ReportArgs, RequestArgs, SettingArgs, When, WrittenArgs,
};
#[cfg(not(feature = "restate"))]
use crate::output::Failure;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum EngineCommand {
    /// Make the calls of runs that the engine keeps
    Worker(Box<WorkerArgs>),
    /// Submit a work item to the engine, for its workers
    Submit(Box<SubmitArgs>),
    /// Show what a run of the engine does now
    Status(StatusArgs),
    /// Stop a run of the engine
    Stop(StopArgs),
    /// Delete the blobs of runs that were killed in the engine
    Sweep(Box<SweepArgs>),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The engine keeps what happened in a run. The journal follows it before each call, with the entries that `loopgate run` \
                  writes. Workers with the same domains can share one address behind a balancer. A signal ends the worker: what is \
                  under way continues in another one, or in the next.\n\n\
                  Exit codes: 0 the worker ended after a signal, 1 it could not begin, 2 wrong usage."
)]
pub(crate) struct WorkerArgs {
    /// Address and port for the engine; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::args::address)]
    pub(crate) listen: SocketAddr,
    /// Let other workers on this machine listen at the same address; the system divides the engine's connections
    #[arg(long)]
    pub(crate) share_port: bool,
    /// URL of the engine's admin API, at which the worker registers itself, for example http://127.0.0.1:9070
    #[arg(long, value_name = "URL")]
    pub(crate) register: Option<String>,
    /// URL at which the engine reaches the worker [default: http:// and the address of --listen]
    #[arg(long, value_name = "URL", requires = "register")]
    pub(crate) advertise: Option<String>,
    /// A domain folder, or its loopgate.toml
    #[arg(long = "domain", value_name = "FOLDER", required = true)]
    pub(crate) domains: Vec<PathBuf>,
    /// A store for what is larger than 64 KiB in a call, as file:///FOLDER or s3://BUCKET/PREFIX. The same for all workers
    #[arg(long, value_name = "URL")]
    pub(crate) blobs: Option<String>,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    #[command(flatten)]
    pub(crate) written: WrittenArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Standard output has the run's id, or with --wait its document. The same --key is the same run, so a repeated \
                  submission begins nothing.\n\n\
                  Exit codes: 0 it was submitted; with --wait those of `loopgate run`; 1 the engine or the run could not be reached or \
                  could not begin, 2 wrong usage."
)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// The work item: a JSON or Markdown file, or `-` for standard input
    #[arg(required_unless_present = "text")]
    pub(crate) item: Option<PathBuf>,
    /// The work item as text
    #[arg(long, value_name = "TEXT", conflicts_with = "item")]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) ingress: IngressArgs,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// Wait for the end of the run, and print its document
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: print the outcome as one JSON object
    #[arg(long, requires = "wait")]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// The run's id
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) ingress: IngressArgs,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// The run's id
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) ingress: IngressArgs,
    /// Cancel calls that are under way, instead of stopping at the next gate
    #[arg(long)]
    pub(crate) now: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A worker deletes the blobs of a run that ends. This deletes those of runs that were killed in the engine. A run is \
                  over if the engine says so, or if the engine does not know it and the journal has its end. Without --delete \
                  nothing is deleted.\n\n\
                  Exit codes: 0 done, 1 the store, the engine or the journal could not be reached, 2 wrong usage."
)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    pub(crate) ingress: IngressArgs,
    /// The store of the workers, as file:///FOLDER or s3://BUCKET/PREFIX
    #[arg(long, value_name = "URL")]
    pub(crate) blobs: String,
    /// Look at blobs that were last put before then: an age (2d, 36h), or a UTC date or time (2026-11-01)
    #[arg(long, value_name = "WHEN", value_parser = When::parse)]
    pub(crate) older_than: When,
    /// Delete them, instead of printing what would be deleted
    #[arg(long)]
    pub(crate) delete: bool,
    /// Delete those of runs too that the engine does not know and whose end the journal does not have; check --ingress first
    #[arg(long)]
    pub(crate) unknown: bool,
    /// How many blobs to look at
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    pub(crate) max: usize,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

#[cfg(feature = "restate")]
pub(crate) use restate::engine;

#[cfg(not(feature = "restate"))]
pub(crate) async fn engine(_: EngineCommand) -> Result<std::process::ExitCode, Failure> {
    Err(Failure::not_built("engine", "restate"))
}
