//! `loopgate view`: serves read-only pages over the local journal to the person at this machine.

use std::net::SocketAddr;

use crate::args::JournalArgs;
#[cfg(not(feature = "server"))]
use crate::output::Failure;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It prints an address with a code that opens it once, within ten minutes. The pages are for reading: what waits is \
                  decided with `loopgate approve`, or on the pages of `loopgate serve`. A signal ends it.\n\n\
                  Exit codes: 0 it ended after a signal, 1 it could not begin, 2 wrong usage."
)]
pub(crate) struct ViewArgs {
    /// The run to print the address of, by its id, the beginning of one, or `last`
    pub(crate) run: Option<String>,
    /// Loopback address and port; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", value_parser = crate::args::address)]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

#[cfg(not(feature = "server"))]
pub(crate) async fn view(_: ViewArgs) -> Result<std::process::ExitCode, Failure> {
    Err(Failure::new(
        "this loopgate is built without `view`; build it with --features server, or use `loopgate show RUN --html FILE`",
    ))
}
