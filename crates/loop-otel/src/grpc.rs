//! OTLP exporters over gRPC.

use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{Compression, WithExportConfig, WithTonicConfig};

use crate::config::Receiver;
use crate::send::retries;

/// The builder of an exporter with the settings of its receiver. The error is for the operator.
pub(crate) fn configured<B: WithExportConfig + WithTonicConfig>(
    builder: B,
    receiver: &Receiver,
) -> Result<B, String> {
    let mut builder = builder
        .with_endpoint(receiver.url.as_str())
        .with_timeout(receiver.timeout)
        .with_retry_policy(retries())
        .with_metadata(MetadataMap::from_headers(receiver.headers.clone()));
    if receiver.is_compressed {
        builder = builder.with_compression(Compression::Gzip);
    }
    if let Some(pem) = receiver.trusted()? {
        builder = builder.with_tls_config(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)));
    }
    Ok(builder)
}
