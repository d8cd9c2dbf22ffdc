//! The settings of TLS of all connections of tools: one provider, and certificates that are always verified.

#[cfg(feature = "postgres")]
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
#[cfg(feature = "postgres")]
use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls_platform_verifier::BuilderVerifierExt;

/// Settings with which the operating system verifies certificates. The process makes them once.
///
/// # Errors
/// The operating system's certificates cannot be read.
pub(crate) fn platform() -> Result<ClientConfig, String> {
    static TLS: OnceLock<Result<ClientConfig, String>> = OnceLock::new();
    let make = || Ok(builder()?.with_platform_verifier()?.with_no_client_auth());
    TLS.get_or_init(|| make().map_err(|error: rustls::Error| error.to_string())).clone()
}

/// Settings that trust the authorities in the PEM file `path`, and no others.
///
/// # Errors
/// The file cannot be read, or holds no certificate that can be an authority.
#[cfg(feature = "postgres")]
pub(crate) fn trusting(path: &Path) -> Result<ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("it holds no certificate".to_owned());
    }
    let builder = builder().map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}
