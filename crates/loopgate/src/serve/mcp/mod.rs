//! `loopgate mcp`: offers a domain to clients of the Model Context Protocol (MCP).

mod http;
mod progress;
mod runs;
mod service;
mod stdio;
mod tasks;
mod tools;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt;
use tokio_util::sync::CancellationToken;

use self::http::Server;
use self::runs::{DomainRuns, NO_LIMIT};
use self::service::Service;
use self::stdio::Lines;

use crate::args::AgainArgs;
use crate::context::{Origin, Signals, on_journal, places, to_loop};
use crate::output::{Failure, stream};
use crate::serve::mcp_args::McpArgs;

/// The most bytes of a message besides its work item. In JSON, a byte of the item may take six.
const MESSAGE_BYTES: usize = 256 << 10;

/// How long runs may take to stop and to journal their cost.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);

pub(crate) async fn mcp(args: McpArgs) -> Result<ExitCode, Failure> {
    let domain = places::load(&args.domain)?;
    domain.ready(args.written.saves())?;
    domain.start_servers();
    let journal = args.written.open(&domain)?;
    let origin = Origin::of(&args.domain, args.written.saves(), /*asks*/ false)?.text()?;
    let runner = to_loop(&domain, args.written.saves());
    let runner =
        on_journal(runner, &domain, &journal, /*batch*/ None).with_origin(origin).leave_when_waiting();
    if args.max_cost.is_some() && runner.spec().limits.cost.is_none() {
        return Err(Failure::new(NO_LIMIT));
    }
    let mut signals = Signals::new()?;
    let leaving = CancellationToken::new();
    let item_bytes = usize::try_from(domain.item_bytes_max()).unwrap_or(usize::MAX);
    let max_message = item_bytes.saturating_mul(6).saturating_add(MESSAGE_BYTES);
    let again = AgainArgs::of_server(&args.written);
    let max_runs = usize::from(args.max_runs);
    let runs = DomainRuns::new(domain, runner, journal, again, max_runs, args.max_cost, leaving.clone());
    let runs = Arc::new(runs);
    let service = Service::new(Arc::clone(&runs));
    let received = match args.http {
        Some(at) => {
            let server = Server::bind(at, &args, service, max_message, &leaving).await?;
            tokio::select! {
                () = server.serve() => None,
                received = signals.next() => Some(received),
            }
        }
        None => {
            // What waits is answered as soon as the client has left, and what was requested before is answered still.
            let lines = Lines::new(tokio::io::stdin(), tokio::io::stdout(), max_message, leaving.clone());
            tokio::select! {
                () = serve(service, lines) => None,
                received = signals.next() => Some(received),
            }
        }
    };
    // A second signal ends it at once.
    if !signals.unless_received(runs.leave(LEAVE_LIMIT)).await {
        stream::note(
            "loopgate: a run has not stopped in time; `loopgate resume --all` continues what is left",
        );
    }
    Ok(received.map_or(ExitCode::SUCCESS, |received| ExitCode::from(received.exit_code())))
}

/// Serves the client until it disconnects or breaks the protocol.
async fn serve(service: Service, lines: Lines<tokio::io::Stdin>) {
    match service.serve(lines).await {
        Ok(running) => {
            let _ = running.waiting().await;
        }
        Err(error) => stream::note(format!("loopgate: the client did not begin: {error}")),
    }
}
