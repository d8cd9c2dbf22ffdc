//! The arguments of `loopgate mcp`.

use crate::args::{DomainArgs, WrittenArgs};
#[cfg(not(feature = "mcp-server"))]
use crate::output::Failure;

#[derive(Debug, clap::Args)]
#[command(after_help = MCP_HELP)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// Serve streamable HTTP at the path `/mcp` of this address instead of standard input and output
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::args::address)]
    pub(crate) http: Option<std::net::SocketAddr>,
    /// Environment variable with the bearer token for HTTP; on a loopback address, a random token is printed if it is
    /// not set
    #[arg(long, value_name = "VARIABLE", default_value = "LOOPGATE_MCP_TOKEN", requires = "http")]
    pub(crate) token_env: String,
    /// Host name, or HOST:PORT, that HTTP requests may name besides localhost and the address
    #[arg(long = "allow-host", value_name = "HOST", requires = "http")]
    pub(crate) hosts: Vec<String>,
    /// Origin of web pages that may send HTTP requests, such as `https://app.example.com` [default: none]
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "http")]
    pub(crate) origins: Vec<String>,
    /// Maximum number of runs under way at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) max_runs: u16,
    /// Maximum cost in US dollars of all runs of this process together; each run needs a cost limit then
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<loop_core::types::PicoUsd>,
    #[command(flatten)]
    pub(crate) written: WrittenArgs,
}

const MCP_HELP: &str = "Standard output carries nothing but the protocol. Clients see all runs of this domain in the journal. \
    They cannot approve actions: use `loopgate approve`. The end of standard input, or a signal, stops the runs.\n\n\
    Exit codes: 0 the client has left, 1 the server could not begin, 2 wrong usage, 129, 130 and 143 ended by a signal.";

#[cfg(not(feature = "mcp-server"))]
pub(crate) async fn mcp(_: McpArgs) -> Result<std::process::ExitCode, Failure> {
    Err(Failure::not_built("mcp", "mcp-server"))
}
