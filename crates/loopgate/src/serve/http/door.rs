//! The door of `loopgate serve`: tokens, host names, limits, and the login link for the person at this machine.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use loop_server::api;
use loop_server::doors::tokens::TokenFile;
use loop_server::doors::{Audit, DoorLimits, Doors, DoorsConfig, Hosts, WatchedTokens};
use loop_server::engine::Engine;
use tokio::net::TcpListener;

use super::ServeArgs;

use crate::context::places::private;
use crate::output::{Failure, cut, stream};

/// Binds the address, after checking that it is safe to be reached there.
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
    if args.login_file.is_some() && !at.ip().is_loopback() {
        return Err(Failure::new(format!(
            "--login-file: a one-time code is for a loopback address, and --listen {at} is not one; log in with a token at /login"
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

/// The door. It records in this audit log.
pub(super) fn doors(
    args: &ServeArgs,
    listen: SocketAddr,
    hosts: Hosts,
    engine: &Engine,
    audit: Audit,
    limits: DoorLimits,
) -> Result<Doors, Failure> {
    let tokens = args.tokens.as_ref().map(|file| {
        let reported = Arc::new(|error: &loop_server::doors::tokens::TokenError| {
            stream::note(format!("loopgate: --tokens {error}; the tokens that were read before stay valid"));
        });
        WatchedTokens::open(TokenFile::at(file), reported)
    });
    let tokens = tokens.transpose().map_err(|error| Failure::new(format!("--tokens {error}")))?;
    if let (Some(tokens), Some(file)) = (&tokens, &args.tokens) {
        check(tokens, &file.display().to_string(), listen, engine)?;
    }
    if !listen.ip().is_loopback() {
        stream::note("warning: tokens are sent in plain text; put a proxy with TLS in front");
    }
    Ok(Doors::new(DoorsConfig { listen, hosts, tokens, proxies: args.proxies.clone(), limits, audit })?)
}

/// Fails if no request could get in, and warns of tokens for unknown domains.
fn check(tokens: &WatchedTokens, file: &str, listen: SocketAddr, engine: &Engine) -> Result<(), Failure> {
    if !listen.ip().is_loopback() && tokens.is_empty() {
        return Err(Failure::new(format!(
            "--tokens {file}: it has no valid token, so no request gets in; add one with `loopgate serve tokens add NAME --role \
             ROLE --file {file}`"
        )));
    }
    for token in tokens.tokens().iter() {
        for domain in token.domains.iter().flatten().filter(|name| engine.domain(name).is_none()) {
            let (name, domain) = (&token.name, cut(domain, 80));
            stream::note(format!(
                "warning: --tokens {file}: the token {name} is for the domain {domain}, which is not served here"
            ));
        }
    }
    Ok(())
}

/// Prints the server's address, and the login link with a one-time code: on a terminal, or in a file. Elsewhere, such
/// as in the log of a service, others might read it.
pub(super) fn announce(args: &ServeArgs, doors: &Doors, listen: SocketAddr) -> Result<(), Failure> {
    let invited = || -> Result<Option<String>, Failure> {
        let code = doors.invite()?;
        Ok(code.map(|code| format!("http://{listen}/login?code={}", code.reveal())))
    };
    let open = match &args.login_file {
        Some(file) => {
            if let Some(address) = invited()? {
                write_private(file, &address).map_err(|error| {
                    Failure::new(format!(
                        "--login-file {}: {error}; name a file that can be written",
                        file.display()
                    ))
                })?;
            }
            Some(format!("in {}", file.display()))
        }
        None if io::stderr().is_terminal() => invited()?,
        None => None,
    };
    stream::note(format!("serving: http://{listen}/v1"));
    match open {
        Some(open) => stream::note(format!("open:    {open} (once, within 10 minutes)")),
        None if listen.ip().is_loopback() => {
            stream::note(
                "open:    the address with a one-time code is printed to a terminal only; --login-file FILE writes it",
            );
        }
        None => {}
    }
    Ok(())
}

/// Creates or replaces a file that only its owner can read.
fn write_private(file: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    private(OpenOptions::new().write(true).create_new(true))
        .open(file)?
        .write_all(format!("{text}\n").as_bytes())
}
