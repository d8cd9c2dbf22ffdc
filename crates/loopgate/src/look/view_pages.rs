//! Starts and stops the server of `loopgate view`.

use std::process::ExitCode;

use loop_server::doors::{Audit, DoorLimits, Doors, DoorsConfig, Hosts, serve};
use loop_server::pages::router;
use tokio::net::TcpListener;

use super::view::ViewArgs;
use crate::context::{Signals, find, pages_source, places};
use crate::output::{Failure, stream};

pub(crate) async fn view(args: ViewArgs) -> Result<ExitCode, Failure> {
    let at = args.listen;
    if !at.ip().is_loopback() {
        return Err(Failure::new(format!(
            "--listen {at}: other machines reach this address; use a loopback address such as 127.0.0.1:0, or `loopgate serve`"
        )));
    }
    let mut signals = Signals::new()?;
    let journal = places::existing_journal(&args.journal)?;
    let run = match &args.run {
        Some(wanted) => Some(find(journal.as_ref(), wanted).await?.run),
        None => None,
    };
    let listener = TcpListener::bind(at).await.map_err(|error| {
        Failure::new(format!("--listen {at}: {error}; choose another port, or 0 for any free one"))
    })?;
    let listen = listener.local_addr()?;
    let broken = |error: &dyn std::fmt::Display| Failure::new(format!("--listen {listen}: {error}"));
    let limits = DoorLimits::default();
    let doors = Doors::new(DoorsConfig {
        listen,
        hosts: Hosts::new(listen, &[]).map_err(|error| broken(&error))?,
        tokens: None,
        proxies: Vec::new(),
        limits: limits.clone(),
        audit: Audit::none(),
    });
    let doors = doors.map_err(|error| broken(&error))?;
    let code = doors.invite().map_err(|error| broken(&error))?;
    let code = code.ok_or_else(|| Failure::new("the system gives no code; try again"))?;
    let router = doors.guard(router(pages_source(journal, None, Audit::none())));
    stream::note(format!("open:    http://{listen}/login?code={}", code.reveal()));
    if let Some(run) = run {
        stream::note(format!("then:    http://{listen}/runs/{run}"));
    }
    serve(listener, router, limits, Vec::new(), async {
        signals.next().await;
    })
    .await;
    Ok(ExitCode::SUCCESS)
}
