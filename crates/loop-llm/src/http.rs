//! The shared HTTP client of the process, with its connection pool.

use std::error::Error;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use loop_core::types::{FailureKind, Proxy};
use reqwest::Url;
use reqwest::redirect::Policy;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::BuilderVerifierExt;

use crate::error::{ErrorPhase, LlmError, RetryAdvice};
use crate::reach::SystemNames;

pub use crate::delay::retry_after;
pub use crate::http_model::{base_url_of, holds_url_secret};
pub use crate::reach::{reach, shown};
pub use crate::transport::Timers;

/// The client of all calls of the process. Clones share its connections.
///
/// It follows no redirects, which would pass on credentials. It asks for no compression, which delays the chunks of a
/// stream. Its connect timeout is ten seconds, and its user agent `loopgate/<version>`. Certificates are verified by the
/// operating system. The proxies of `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are used, as set at the first
/// call. A proxy for `https://` sees the host name and none of the content. One for `http://` sees everything: see
/// [`http_client_for`].
///
/// # Errors
/// [`FailureKind::Connection`], which is never retried, if the system has no certificates to verify against.
pub fn http_client() -> Result<reqwest::Client, LlmError> {
    static CLIENT: OnceLock<Result<reqwest::Client, LlmError>> = OnceLock::new();
    CLIENT.get_or_init(|| build(|client| client, None).map_err(unusable)).clone()
}

/// The client for a URL: [`http_client`], or one without a proxy if the server is on this machine. Unencrypted calls to
/// such a server never leave the machine.
///
/// # Errors
/// Like [`http_client`], and if the environment names a proxy for the URL that cannot be used.
pub fn http_client_for(url: &Url) -> Result<reqwest::Client, LlmError> {
    static DIRECT: OnceLock<Result<reqwest::Client, LlmError>> = OnceLock::new();
    if is_loopback(url) {
        return DIRECT
            .get_or_init(|| build(reqwest::ClientBuilder::no_proxy, None).map_err(unusable))
            .clone();
    }
    proxy_of(url)?;
    http_client()
}

/// A client for a URL like [`http_client_for`], with connections of its own, for calls on another runtime than the
/// other calls of the program.
///
/// # Errors
/// Like [`http_client`].
pub fn own_http_client_for(url: &Url) -> Result<reqwest::Client, LlmError> {
    build_for(url, None)
}

/// A client like that of [`own_http_client_for`] that trusts the certificates of a PEM file instead of those of the
/// operating system.
///
/// # Errors
/// [`FailureKind::Connection`], which is never retried, if the file has no certificate or one that cannot be read.
pub fn own_http_client_trusting(url: &Url, pem: &[u8]) -> Result<reqwest::Client, LlmError> {
    build_for(url, Some(pem))
}

fn build_for(url: &Url, pem: Option<&[u8]>) -> Result<reqwest::Client, LlmError> {
    proxy_of(url)?;
    let is_loopback = is_loopback(url);
    build(|client| if is_loopback { client.no_proxy() } else { client }, pem).map_err(unusable)
}

/// The proxy of the environment by which a URL is reached. `None`: it is reached directly.
///
/// # Errors
/// [`FailureKind::Connection`], which is never retried, if the environment names one that cannot be used.
pub(crate) fn proxy_of(url: &Url) -> Result<Option<Proxy>, LlmError> {
    if is_loopback(url) {
        return Ok(None);
    }
    let variable = |name: &str| std::env::var(name).ok();
    let proxy = Proxy::of(url.scheme(), url.host_str().unwrap_or_default(), variable);
    proxy.map_err(never)
}

/// Whether a URL's host is this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.');
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether calls to a URL can be read in transit: they are unencrypted and leave this machine.
pub fn is_exposed(url: &Url) -> bool {
    url.scheme() == "http" && !is_loopback(url)
}

/// The message of a client error with its causes, without the URL, which may contain a key. Where no connection was made
/// by a proxy, it names the proxy.
pub fn http_error(error: reqwest::Error) -> String {
    let url = error.url().filter(|_| error.is_connect());
    let proxy = url.and_then(|url| proxy_of(url).ok().flatten());
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    match proxy {
        Some(proxy) => format!("{text} ({})", proxy.hint()),
        None => text,
    }
}

fn build(
    proxies: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    pem: Option<&[u8]>,
) -> Result<reqwest::Client, BuildError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut tls = match pem {
        Some(pem) => tls.with_root_certificates(roots(pem)?),
        None => tls.with_platform_verifier()?,
    }
    .with_no_client_auth();
    // A preconfigured TLS client bypasses reqwest's choice of protocols.
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let client = proxies(reqwest::Client::builder())
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT)
        .dns_resolver(SystemNames)
        .redirect(Policy::none())
        .user_agent(concat!("loopgate/", env!("CARGO_PKG_VERSION")))
        .http1_max_headers(MAX_HEADERS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .build()?;
    Ok(client)
}

fn roots(pem: &[u8]) -> Result<RootCertStore, BuildError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(|_| BuildError::Pem("it is not PEM"))?)?;
    }
    if roots.is_empty() { Err(BuildError::Pem("it holds no certificate")) } else { Ok(roots) }
}

fn unusable(error: BuildError) -> LlmError {
    never(format!("no HTTP client can be made on this machine: {error}"))
}

/// An error before any connection, which is the same each time.
fn never(message: String) -> LlmError {
    let mut error = LlmError::new(FailureKind::Connection, ErrorPhase::Connect, message);
    error.retry = RetryAdvice::Never;
    error
}

#[derive(Debug, thiserror::Error)]
enum BuildError {
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Client(#[from] reqwest::Error),
    #[error("the file of trusted certificates: {0}")]
    Pem(&'static str),
}

/// Connect timeout, including DNS lookup and TLS.
const CONNECT: Duration = Duration::from_secs(10);
/// Maximum header lines of a response.
const MAX_HEADERS: usize = 128;
/// Maximum bytes of a response's headers over HTTP/2.
const MAX_HEADER_BYTES: u32 = 64 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use reqwest::Url;

    use super::{http_client, is_exposed};

    #[test]
    fn a_client_can_be_made_and_is_shared() {
        http_client().unwrap();
        http_client().unwrap();
    }
    // B13
    #[test]
    fn only_what_leaves_this_machine_unencrypted_is_exposed() {
        let is_exposed = |url: &str| is_exposed(&Url::parse(url).unwrap());
        for here in ["http://localhost:1/v1", "http://a.localhost", "http://127.9.0.1", "http://[::1]:8080"] {
            assert!(!is_exposed(here), "{here}");
        }
        for there in
            ["http://10.0.0.7", "http://localhost.example", "http://[::ffff:10.0.0.7]", "http://0.0.0.0"]
        {
            assert!(is_exposed(there) && !is_exposed(&there.replace("http:", "https:")), "{there}");
        }
    }
}
