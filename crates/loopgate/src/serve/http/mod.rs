//! `loopgate serve`: serves domains by an HTTP API, with its tokens, audit log and hooks.

#[cfg(feature = "server")]
mod door;
#[cfg(feature = "server")]
mod runner_cache;
#[cfg(feature = "server")]
mod source;
#[cfg(feature = "server")]
mod start;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(feature = "server")]
use crate::args::DomainArgs;
use crate::args::{SettingArgs, WrittenArgs};
use crate::output::Failure;
use crate::serve::{audit, hooks, tokens};

/// `loopgate serve`, or what belongs to a server.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    command: Option<ServeCommand>,
    /// The domain folders, or their loopgate.toml files
    #[arg(required = true, value_name = "DOMAIN")]
    pub(crate) domains: Vec<PathBuf>,
    /// Address and port; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8787", value_parser = crate::args::address)]
    pub(crate) listen: SocketAddr,
    /// The file of tokens (`loopgate serve tokens add`); without it only the person at this machine gets in
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// A file that gets the address with the one-time code, which only its owner can read [default: it is printed if standard
    /// error is a terminal]
    #[arg(long, value_name = "FILE")]
    pub(crate) login_file: Option<PathBuf>,
    /// A name by which a proxy forwards to the server, as browsers show it; links in messages of hooks begin with the first
    #[arg(long = "public-host", value_name = "NAME")]
    pub(crate) public_hosts: Vec<String>,
    /// The address of a proxy whose X-Forwarded-For names the client
    #[arg(long = "proxy", value_name = "ADDRESS")]
    pub(crate) proxies: Vec<IpAddr>,
    /// Maximum number of runs under way at a time, in all domains together; see `[serve] max_runs` for one domain
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: u16,
    /// Maximum number of submissions that wait, in all domains together; further ones get 429
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_queued: u32,
    /// Seconds that runs under way get to end after a signal; the next start resumes what is left
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) drain: u64,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    #[command(flatten)]
    pub(crate) written: WrittenArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ServeCommand {
    /// Look after the file of tokens that lets callers into the server
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    /// List what callers of the server did, from where, and who was refused
    Audit(audit::AuditArgs),
    /// List the messages of hooks that are not delivered, or deliver them
    Hooks(hooks::HooksArgs),
}

const HELP: &str = "The API is under /v1, and /openapi.json describes it. An accepted submission is in the journal: its run begins, \
    once, even if the server is killed. The first signal ends the server after the runs under way, the second at once. A profile, a \
    model, a URL and a setting count for each domain.\n\n\
    Exit codes: 0 the server ended after a signal, 1 it could not begin, 2 wrong usage, 129, 130 and 143 ended at once by a signal.";

#[cfg(feature = "server")]
impl ServeArgs {
    /// The arguments of each domain.
    pub(crate) fn of_domains(&self) -> impl Iterator<Item = DomainArgs> {
        let of = |domain: &PathBuf| DomainArgs { domain: domain.clone(), settings: self.settings.clone() };
        self.domains.iter().map(of)
    }
}

pub(crate) async fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    match args.command {
        Some(ServeCommand::Tokens(command)) => tokens::tokens(command),
        Some(ServeCommand::Audit(args)) => audit::audit(args).await,
        Some(ServeCommand::Hooks(args)) => hooks::hooks(args).await,
        #[cfg(feature = "server")]
        None => start::serve(args).await,
        #[cfg(not(feature = "server"))]
        None => Err(Failure::not_built("serve", "server")),
    }
}
