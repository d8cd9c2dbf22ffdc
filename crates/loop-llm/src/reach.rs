//! Whether a server can be reached, and the message if it cannot.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

use crate::error::{ErrorPhase, LlmError, RetryAdvice};
use crate::exchange::Interrupted;
use crate::http::proxy_of;
use crate::http_model::{base_url_of, secrets_of};
use crate::mask;

/// A server as messages name it, and whether it has answered this process.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    shown: Arc<str>,
    /// Whether its base URL has no path, where most servers have `/v1`.
    pub(crate) is_root: bool,
    has_answered: Arc<AtomicBool>,
    /// Whether calls carry no credential.
    pub(crate) is_keyless: bool,
}

impl Server {
    /// The server with this base URL. All models of one host and port share what is known of it.
    pub(crate) fn of(url: &Url) -> Self {
        static SERVERS: LazyLock<Mutex<BTreeMap<String, Arc<AtomicBool>>>> = LazyLock::new(Mutex::default);
        let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
        let has_answered = Arc::clone(servers.entry(url.origin().ascii_serialization()).or_default());
        let is_root = url.path().trim_matches('/').is_empty();
        Self { shown: shown(url).into(), is_root, has_answered, is_keyless: secrets_of(url).is_empty() }
    }

    /// Takes note of an answer, whatever it says.
    pub(crate) fn answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// The error of a call that got no answer. A server that never answered this process and takes no connection is
    /// probably not there: the call is not worth another try.
    pub(crate) fn error(&self, error: Interrupted, secrets: &Secrets) -> LlmError {
        let (phase, cause) = match &error {
            Interrupted::Http(error) if error.is_connect() => (ErrorPhase::Connect, cause_of(error)),
            _ => (ErrorPhase::Headers, None),
        };
        // The words of an error by a proxy are about the proxy.
        let says = cause.filter(|_| !error.is_by_proxy()).map_or_else(|| error.message(), str::to_owned);
        let message = mask::line(&format!("{}: {says}", self.shown), secrets);
        let mut error = LlmError::new(FailureKind::Connection, phase, message);
        if cause.is_some() && !self.has_answered.load(Ordering::Relaxed) {
            error.retry = RetryAdvice::Never;
        }
        error
    }
}

impl Interrupted {
    fn is_by_proxy(&self) -> bool {
        let url = if let Self::Http(error) = self { error.url() } else { None };
        url.is_some_and(|url| matches!(proxy_of(url), Ok(Some(_))))
    }
}

/// Tries to connect to the server of a URL within `limit`, sends nothing, and returns the URL as it is shown.
///
/// # Errors
/// One line: the URL with credentials masked, why the connection failed, and what to check.
pub async fn reach(url: &str, limit: Duration) -> Result<String, String> {
    let url = base_url_of(url)?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let connecting = async {
        let port = url.port_or_known_default().unwrap_or_default();
        TcpStream::connect(&*addresses(host.to_owned(), port).await?)
            .await
            .map_err(Box::<dyn Error + Send + Sync>::from)
    };
    let cause = match tokio::time::timeout(limit, connecting).await {
        Ok(Ok(_)) => return Ok(shown(&url)),
        Ok(Err(error)) => cause_of(&*error).map_or_else(|| error.to_string(), str::to_owned),
        Err(_) => SILENT.to_owned(),
    };
    Err(format!("{}: {cause}", shown(&url)))
}

/// A URL without user, password and query, with what else looks like a credential masked.
pub fn shown(url: &Url) -> String {
    let text = format!("{}{}", url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
    mask::line(&text, &secrets_of(url))
}

/// Why a server takes no connection, by the types in the chain of an error. `None`: another cause, such as a certificate.
fn cause_of(error: &(dyn Error + 'static)) -> Option<&'static str> {
    std::iter::successors(Some(error), |error| Error::source(*error)).find_map(|error| {
        if error.is::<NoHost>() {
            return Some("no such host (is it running, and is its name right?)");
        }
        // What TLS says of bytes that are not its own.
        if error.source().is_none() && error.to_string().contains("InvalidContentType") {
            return Some("the server speaks http: write http:// in place of https://");
        }
        match error.downcast_ref::<io::Error>()?.kind() {
            ErrorKind::ConnectionRefused => Some("connection refused (is it running?)"),
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => Some("no route (is it running?)"),
            ErrorKind::TimedOut => Some(SILENT),
            _ => None,
        }
    })
}

const SILENT: &str = "no connection in time (is it running?)";

/// The names of hosts as the system knows them. What it does not know is an error of its own type.
pub(crate) struct SystemNames;

impl Resolve for SystemNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(
            async move { Ok(Box::new(addresses(name.as_str().to_owned(), 0).await?.into_iter()) as Addrs) },
        )
    }
}

async fn addresses(host: String, port: u16) -> Result<Vec<SocketAddr>, NoHost> {
    let found = spawn_blocking(move || (host, port).to_socket_addrs()).await.map_err(io::Error::other);
    found.flatten().map(Iterator::collect).map_err(NoHost)
}

/// The system knows no address of a host.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct NoHost(io::Error);
