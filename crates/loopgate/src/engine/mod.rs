//! Runs on a durable engine: `loopgate engine`, and what people say to such runs.

#[cfg(feature = "restate")]
mod restate;

use std::net::SocketAddr;
use std::path::PathBuf;
#[cfg(not(feature = "restate"))]
use std::process::ExitCode;

#[cfg(not(feature = "restate"))]
use crate::args::PersonArgs;
use crate::args::{DomainArgs, JournalArgs, ReportArgs, RequestArgs, SettingArgs, WrittenArgs};
#[cfg(not(feature = "restate"))]
use crate::failure::Failure;
#[cfg(not(feature = "restate"))]
use crate::people::Said;
use crate::runs::When;

#[cfg(feature = "restate")]
pub(crate) use restate::{engine, say, tell};

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

/// Where a run is, if a durable engine has it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// URL of the ingress of the durable engine that has the run, for example http://127.0.0.1:8080
    #[arg(long, value_name = "URL")]
    pub(crate) ingress: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct IngressArgs {
    /// URL of the engine's ingress, for example http://127.0.0.1:8080
    #[arg(long = "ingress", value_name = "URL")]
    pub(crate) url: String,
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
    #[arg(long, value_name = "ADDRESS:PORT")]
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

#[cfg(not(feature = "restate"))]
fn missing() -> Failure {
    Failure::new("this loopgate is built without Restate; build it with --features restate to get it")
}

#[cfg(not(feature = "restate"))]
pub(crate) async fn engine(command: EngineCommand) -> Result<ExitCode, Failure> {
    drop(command);
    Err(missing())
}

#[cfg(not(feature = "restate"))]
pub(crate) async fn say(_: &str, _: &PersonArgs, said: Said) -> Result<ExitCode, Failure> {
    drop(said);
    Err(missing())
}

#[cfg(not(feature = "restate"))]
pub(crate) async fn tell(_: &str, _: &str, _: &str) -> Result<ExitCode, Failure> {
    Err(missing())
}
