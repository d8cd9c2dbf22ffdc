//! The one HTTP client of the process, and its connections.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::redirect::Policy;
use rustls_platform_verifier::BuilderVerifierExt;

use crate::error::{ErrorPhase, LlmError, LlmErrorKind, RetryAdvice};

/// The client that all calls of the process share; a clone shares its connections.
///
/// It follows no redirect, since a credential would travel along; it asks for no compression, since a compressed
/// stream arrives in lumps; it gives a connection ten seconds, and calls itself `loopgate/<version>`. Certificates
/// are checked as the operating system checks them. Proxies named by `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and
/// `NO_PROXY` are used as they stand in the environment when the client is first asked for.
///
/// # Errors
/// [`LlmErrorKind::Connection`], never worth a retry, when the system offers no certificates to check against.
pub fn http_client() -> Result<reqwest::Client, LlmError> {
    static CLIENT: OnceLock<Result<reqwest::Client, LlmError>> = OnceLock::new();
    CLIENT.get_or_init(|| build().map_err(unusable)).clone()
}

/// What an error of the client says, with its causes. The address, in which a key may stand, is left out.
pub fn http_error(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn build() -> Result<reqwest::Client, BuildError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    // A configuration that is handed over ready bypasses reqwest's own choice of protocols.
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT)
        .redirect(Policy::none())
        .user_agent(concat!("loopgate/", env!("CARGO_PKG_VERSION")))
        .http1_max_headers(MAX_HEADERS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .build()?;
    Ok(client)
}

fn unusable(error: BuildError) -> LlmError {
    let message = format!("no HTTP client can be made on this machine: {error}");
    let mut error = LlmError::new(LlmErrorKind::Connection, ErrorPhase::Connect, message);
    error.retry = RetryAdvice::Never;
    error
}

#[derive(Debug, thiserror::Error)]
enum BuildError {
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Client(#[from] reqwest::Error),
}

/// How long a connection may take, its name lookup and TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// The most header lines of a response.
const MAX_HEADERS: usize = 128;
/// The most bytes of a response's headers over HTTP/2.
const MAX_HEADER_BYTES: u32 = 64 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::http_client;

    #[test]
    fn a_client_can_be_made_and_is_shared() {
        http_client().unwrap();
        http_client().unwrap();
    }
}
