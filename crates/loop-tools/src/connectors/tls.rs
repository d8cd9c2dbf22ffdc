//! The settings of TLS that every connector uses: one provider of cryptography, and one way to verify a server.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::{BuilderVerifierExt, Verifier};

use crate::connectors::error::{ConnectorError, one_line};

/// The most bytes of a file of certificates. A list of all public authorities has about a quarter of it.
const CA_BYTES_MAX: u64 = 1 << 20;

/// The settings for a client. Certificates are verified by the operating system; with `ca`, the certificates of that PEM file
/// are trusted in addition. No protocol is announced (ALPN): the caller sets its own.
///
/// # Errors
/// The file cannot be read or holds no certificate, or the system has no certificates and no file is named.
pub(crate) fn client_config(ca: Option<&Path>) -> Result<ClientConfig, ConnectorError> {
    match ca {
        None => of_system(),
        Some(path) => with_file(path),
    }
}

fn of_system() -> Result<ClientConfig, ConnectorError> {
    // Reading the system's certificates takes longer than most requests.
    static TLS: OnceLock<Result<ClientConfig, String>> = OnceLock::new();
    let make = || -> Result<ClientConfig, rustls::Error> {
        Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_platform_verifier()?
            .with_no_client_auth())
    };
    let made = TLS.get_or_init(|| make().map_err(one_line)).clone();
    made.map_err(|message| ConnectorError::Tls { message })
}

fn with_file(path: &Path) -> Result<ClientConfig, ConnectorError> {
    let provider = Arc::new(ring::default_provider());
    let wrong = |message: String| ConnectorError::Certificates { path: path.display().to_string(), message };
    let roots = certificates(path)?;
    let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider))
        .map_err(|error| wrong(format!("a certificate in it cannot be used: {}", one_line(error))))?;
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| ConnectorError::Tls { message: one_line(error) })?;
    Ok(versions.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectorError> {
    let shown = || path.display().to_string();
    let unreadable =
        |error: std::io::Error| ConnectorError::Unreadable { path: shown(), message: one_line(error) };
    let wrong = |message: &str| ConnectorError::Certificates { path: shown(), message: message.to_owned() };
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(ConnectorError::Missing { what: "file", path: shown() });
        }
        Err(error) => return Err(unreadable(error)),
    };
    // A pipe or a device would never end.
    if !about.is_file() {
        return Err(wrong("it is not a file"));
    }
    if about.len() > CA_BYTES_MAX {
        return Err(wrong("it is over 1 MiB"));
    }
    let bytes = crate::files::bytes(path, CA_BYTES_MAX).map_err(unreadable)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        // The parser's message may show a part of the file, which may be a key.
        Err(_) => Err(wrong("it is not PEM")),
        Ok(found) if found.is_empty() => Err(wrong("it holds no certificate")),
        Ok(found) => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::client_config;

    #[test]
    fn a_file_without_certificates_is_refused_in_one_line_that_shows_nothing_of_it() {
        // K13
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let error = || client_config(Some(&path)).unwrap_err().to_string();
        assert!(error().contains("ca.pem: there is no such file; correct the path"), "{}", error());
        let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0LXNlY3JldA==\n-----END PRIVATE KEY-----\n";
        for (text, says) in [
            ("", "it holds no certificate"),
            ("not PEM at all", "it holds no certificate"),
            (key, "it holds no certificate"),
            ("-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n", "cannot be used"),
            ("-----BEGIN CERTIFICATE-----\nc2VjcmV0-secret!\n-----END CERTIFICATE-----\n", "it is not PEM"),
            ("-----BEGIN CERTIFICATE-----\nc2VjcmV0", "it is not PEM"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = error();
            assert!(error.contains(says) && !error.contains('\n'), "{text}: {error}");
            assert!(!error.contains("c2Vj") && !error.contains("secret!"), "{error}");
        }
        std::fs::write(&path, "x".repeat((1 << 20) + 1)).unwrap();
        assert!(error().contains("it is over 1 MiB"), "{}", error());
        assert!(client_config(Some(folder.path())).unwrap_err().to_string().contains("it is not a file"));
    }
}
