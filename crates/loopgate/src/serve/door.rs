//! The door of the server: its tokens, its names, its limits, and the address for the person at this machine.

use std::net::SocketAddr;
use std::sync::Arc;

use loop_runtime::journal::SqliteJournal;
use loop_server::api;
use loop_server::doors::tokens::TokenFile;
use loop_server::doors::{Audit, DoorLimits, Doors, DoorsConfig, Hosts, WatchedTokens};
use loop_server::engine::Engine;
use tokio::net::TcpListener;

use super::ServeArgs;
use crate::failure::Failure;
use crate::{identity, stream};

/// Binds the address, once it is known that the server can be reached there safely.
pub(super) async fn bind(args: &ServeArgs) -> Result<TcpListener, Failure> {
    let at = args.listen;
    if !at.ip().is_loopback() && args.tokens.is_none() {
        return Err(Failure::new(format!(
            "--listen {at}: other machines reach this address, so tokens are required; give --tokens FILE, or use a loopback \
             address such as 127.0.0.1:8787"
        )));
    }
    if at.ip().is_unspecified() && args.public_hosts.is_empty() {
        return Err(Failure::new(format!(
            "--listen {at}: it has no name by which callers reach it; give --public-host NAME"
        )));
    }
    TcpListener::bind(at).await.map_err(|error| {
        Failure::new(format!("--listen {at}: {error}; choose another port, or 0 for any free one"))
    })
}

/// The limits of requests to this engine.
pub(super) fn limits(engine: &Engine) -> DoorLimits {
    let limits = DoorLimits::default();
    let body_bytes = u64::try_from(api::max_body(engine)).unwrap_or(u64::MAX).max(limits.body_bytes);
    DoorLimits { body_bytes, ..limits }
}

/// The door, which records in the journal.
pub(super) fn doors(
    args: &ServeArgs,
    listen: SocketAddr,
    journal: &Arc<SqliteJournal>,
    limits: DoorLimits,
) -> Result<Doors, Failure> {
    let tokens = args.tokens.as_ref().map(|file| {
        let reported = Arc::new(|error: &loop_server::doors::tokens::TokenError| {
            stream::note(format!("loopgate: --tokens {error}; the tokens that were read before stay valid"));
        });
        WatchedTokens::open(TokenFile::at(file), reported)
    });
    let tokens = tokens.transpose().map_err(|error| Failure::new(format!("--tokens {error}")))?;
    if !listen.ip().is_loopback() {
        stream::note("warning: tokens are sent in plain text; put a proxy with TLS in front");
    }
    Ok(Doors::new(DoorsConfig {
        listen,
        hosts: Hosts::new(listen, &args.public_hosts)?,
        tokens,
        local: identity::approver(None),
        proxies: args.proxies.clone(),
        limits,
        audit: Audit::of(Arc::clone(journal)),
    })?)
}

/// Prints where the server is, and the address that lets the person at this machine in, once.
pub(super) fn announce(doors: &Doors, listen: SocketAddr) -> Result<(), Failure> {
    stream::note(format!("serving: http://{listen}/v1"));
    if let Some(code) = doors.invite()? {
        stream::note(format!(
            "open:    http://{listen}/login?code={} (once, within 10 minutes)",
            code.reveal()
        ));
    }
    Ok(())
}
