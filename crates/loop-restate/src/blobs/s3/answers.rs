//! The HTTP client of a bucket, which turns each failed response into a typed error.
//!
//! `object_store` decides by the kind of an [`HttpError`] whether to retry a request, and keeps it as a source of its
//! own error. So the status and the S3 error code are parsed here, and [`kind_of`] finds them again. The text of a
//! response is never shown, since some servers repeat the signature of the request in it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use reqwest::StatusCode;
use reqwest::redirect::Policy;
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::settings::Account;
use crate::blobs::error::BlobErrorKind;

/// Gives `object_store` the client.
#[derive(Debug)]
pub(super) struct Connector(reqwest::Client);

impl Connector {
    pub(super) fn new(account: &Account, request_timeout: Duration) -> Result<Self, BlobErrorKind> {
        let unusable = |error: &dyn fmt::Display| {
            BlobErrorKind::Settings(format!("an HTTP client cannot be made on this machine: {error}"))
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(|error| unusable(&error))?
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(CONNECT.min(request_timeout))
            .timeout(request_timeout)
            // A redirect would pass on a signature.
            .redirect(Policy::none())
            .user_agent(concat!("loopgate/", env!("CARGO_PKG_VERSION")));
        if account.is_here {
            builder = builder.no_proxy();
        }
        builder.build().map(Self).map_err(|error| unusable(&error.without_url()))
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(self.0.clone())))
    }
}

#[derive(Debug)]
struct Service(reqwest::Client);

#[async_trait::async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.0.call(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        let answer = S3Answer { status, code: body.ok().and_then(|body| code(&body.to_bytes())) };
        // The kind says whether `object_store` sends the request again; a put of a blob can always be repeated.
        let kind = if answer.is_for_now() { HttpErrorKind::Request } else { HttpErrorKind::Unknown };
        Err(HttpError::new(kind, answer))
    }
}

/// A failed response of an S3 server.
#[derive(Debug)]
struct S3Answer {
    status: StatusCode,
    /// The S3 error code, for example `SlowDown`.
    code: Option<String>,
}

impl S3Answer {
    fn is_for_now(&self) -> bool {
        self.status.is_server_error()
            || matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            || matches!(self.code.as_deref(), Some("SlowDown" | "RequestTimeout" | "OperationAborted"))
    }

    fn kind(&self) -> BlobErrorKind {
        match (self.status, self.code.as_deref()) {
            _ if self.is_for_now() => BlobErrorKind::Unavailable(self.to_string()),
            (StatusCode::NOT_FOUND, Some("NoSuchBucket")) => BlobErrorKind::NoBucket,
            (StatusCode::NOT_FOUND, _) => BlobErrorKind::Missing,
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => BlobErrorKind::Denied(self.to_string()),
            _ => BlobErrorKind::Refused(self.to_string()),
        }
    }
}

impl fmt::Display for S3Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP status {}", self.status.as_u16())?;
        self.code.as_ref().map_or(Ok(()), |code| write!(f, ", {code}"))
    }
}

impl Error for S3Answer {}

/// The S3 error code in the XML of a response. It is a single word, so nothing else of the body can be shown.
fn code(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let (code, _) = text.split_once("<Code>")?.1.split_once("</Code>")?;
    let is_word = !code.is_empty()
        && code.len() <= MAX_CODE_BYTES
        && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word.then(|| code.to_owned())
}

/// The kind of an error, from its sources.
pub(super) fn kind_of(error: &object_store::Error) -> BlobErrorKind {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let mut transport = None;
    while let Some(it) = cause {
        if let Some(answer) = it.downcast_ref::<S3Answer>() {
            return answer.kind();
        }
        transport = it.downcast_ref::<HttpError>().map(HttpError::kind).or(transport);
        cause = it.source();
    }
    let unavailable = |what: &str| BlobErrorKind::Unavailable(what.to_owned());
    match transport {
        Some(HttpErrorKind::Connect) => unavailable("there is no connection"),
        Some(HttpErrorKind::Timeout) => unavailable("the request took too long"),
        Some(_) => unavailable("the connection broke off"),
        None => BlobErrorKind::Refused("the answer is not one of S3".to_owned()),
    }
}

const CONNECT: Duration = Duration::from_secs(5);
/// The most bytes of a failed response that are read.
const MAX_ANSWER_BYTES: usize = 64 << 10;
const MAX_CODE_BYTES: usize = 64;
