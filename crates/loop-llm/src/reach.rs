//! Whether a server can be reached, and what is said where it cannot.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::{TcpStream, lookup_host};

use crate::error::{ErrorPhase, LlmError, RetryAdvice};
use crate::exchange::Interrupted;
use crate::http::proxy_of;
use crate::http_model::{base_url_of, secrets_of};
use crate::mask;

/// A server as messages name it, and whether it has answered this process.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    url: Url,
    shown: Arc<str>,
    has_answered: Arc<AtomicBool>,
}

impl Server {
    /// The server with this base URL. All models of one host and port share what is known of it.
    pub(crate) fn of(url: &Url) -> Self {
        type Servers = Mutex<BTreeMap<String, Arc<AtomicBool>>>;
        static SERVERS: LazyLock<Servers> = LazyLock::new(Servers::default);
        let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
        let has_answered = Arc::clone(servers.entry(url.origin().ascii_serialization()).or_default());
        Self { shown: shown(url).into(), url: url.clone(), has_answered }
    }

    /// Takes note of an answer, whatever it says.
    pub(crate) fn answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// The error of a call that got no answer. A server that never answered this process and takes no connection is
    /// probably not there: the call is not worth another try.
    pub(crate) fn error(&self, error: Interrupted, secrets: &Secrets) -> LlmError {
        let Interrupted::Http(http) = &error else {
            return LlmError::new(FailureKind::Connection, ErrorPhase::Headers, error.message());
        };
        if !http.is_connect() {
            let message = mask::line(&error.message(), secrets);
            return LlmError::new(FailureKind::Connection, ErrorPhase::Headers, message);
        }
        let cause = Unreachable::of(http);
        let says = match (cause, proxy_of(&self.url).ok().flatten()) {
            (Some(cause), None) => cause.says(),
            (Some(cause), Some(proxy)) => format!("{} ({})", cause.cause(), proxy.hint()),
            (None, _) => error.message(),
        };
        let message = mask::line(&format!("{}: {says}", self.shown), secrets);
        let mut error = LlmError::new(FailureKind::Connection, ErrorPhase::Connect, message);
        if cause.is_some() && !self.has_answered.load(Ordering::Relaxed) {
            error.retry = RetryAdvice::Never;
        }
        error
    }
}

/// Tries to connect to the server of a URL within `limit`, sends nothing, and returns the URL as it is shown.
///
/// # Errors
/// One line: the URL with credentials masked, why it takes no connection, and what to look at.
pub async fn reach(url: &str, limit: Duration) -> Result<String, String> {
    let url = base_url_of(url)?;
    let failed = |cause: String| format!("{}: {cause}", shown(&url));
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(failed("the URL has no host".to_owned()));
    };
    let host = host.trim_matches(['[', ']']);
    let connecting = async {
        let addresses: Vec<_> = lookup_host((host, port)).await.map_err(NoHost)?.collect();
        TcpStream::connect(&*addresses).await.map_err(Box::<dyn Error + Send + Sync>::from)
    };
    match tokio::time::timeout(limit, connecting).await {
        Ok(Ok(_)) => Ok(shown(&url)),
        Ok(Err(error)) => {
            Err(failed(Unreachable::of(&*error).map_or_else(|| error.to_string(), Unreachable::says)))
        }
        Err(_) => Err(failed(Unreachable::Silent.says())),
    }
}

/// A URL without user, password and query, with what else looks like a credential masked.
pub fn shown(url: &Url) -> String {
    let text = format!("{}{}", url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
    mask::line(&text, &secrets_of(url))
}

/// Why a server takes no connection.
#[derive(Clone, Copy, Debug)]
enum Unreachable {
    Refused,
    NoHost,
    NoRoute,
    Silent,
}

impl Unreachable {
    /// The cause of an error, by the types in its chain. `None`: another one, such as a certificate.
    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        std::iter::successors(Some(error), |error| Error::source(*error)).find_map(|error| {
            if error.is::<NoHost>() {
                return Some(Self::NoHost);
            }
            if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout) {
                return Some(Self::Silent);
            }
            match error.downcast_ref::<io::Error>()?.kind() {
                ErrorKind::ConnectionRefused => Some(Self::Refused),
                ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => Some(Self::NoRoute),
                ErrorKind::TimedOut => Some(Self::Silent),
                _ => None,
            }
        })
    }

    fn cause(self) -> &'static str {
        match self {
            Self::Refused => "connection refused",
            Self::NoHost => "no such host",
            Self::NoRoute => "no route to the host",
            Self::Silent => "no connection in time",
        }
    }

    fn says(self) -> String {
        let cure = match self {
            Self::Refused | Self::Silent => "is it running?",
            Self::NoHost | Self::NoRoute => "is it running, and is its name right?",
        };
        format!("{} ({cure})", self.cause())
    }
}

/// The names of hosts as the system knows them. What it does not know is an error of its own type.
pub(crate) struct SystemNames;

impl Resolve for SystemNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses: Vec<_> = lookup_host((name.as_str(), 0)).await.map_err(NoHost)?.collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// The system knows no address of a host.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct NoHost(io::Error);
