//! A server over streamable HTTP: the requests that the protocol's library makes, by a client that connects only where it may.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Credentials;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _, try_unfold};
use loop_core::secrets::Secrets;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, ServerJsonRpcMessage,
};
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use url::Url;

use crate::connectors::charset;
use crate::connectors::error::ConnectorError;
use crate::connectors::http::HttpDefinition;
use crate::connectors::http::answer::charset_of;
use crate::connectors::http::auth::Signer;
use crate::connectors::http::client::{Client, SendError, Signature};
use crate::connectors::http::guard::{Guard, is_exposed};
use crate::connectors::http::request::set_parameter;
use crate::connectors::mcp::settings::McpHttp;
use crate::connectors::mcp::wire::{MCP_MESSAGE_BYTES_MAX, Watch, readable};
use crate::connectors::tls::client_config;
use crate::connectors::trouble::Trouble;

/// The most bytes of an answer that is a failure.
const FAILURE_BYTES: usize = 64 << 10;
/// How often a stream of notices is opened again in a row.
const STREAM_TRIES: usize = 5;

/// Where a server is, and how requests are made to it. A clone shares it.
#[derive(Clone)]
pub(crate) struct Endpoint(Arc<Parts>);

struct Parts {
    url: Url,
    client: Client,
    signer: Signer,
    headers: Vec<(HeaderName, HeaderValue)>,
    is_signed: bool,
}

/// The endpoint during one connection.
#[derive(Clone)]
pub(crate) struct Session {
    endpoint: Endpoint,
    credentials: Credentials,
    /// Every secret that was sent.
    mask: Arc<Mutex<Secrets>>,
    watch: Arc<Watch>,
}

/// Why a request has no answer. A message holds no URL and no secret.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.clone().message())]
pub(crate) struct EndpointError(pub(crate) Trouble);

type HttpError = StreamableHttpError<EndpointError>;

impl Endpoint {
    /// The endpoint of these settings.
    ///
    /// # Errors
    /// The key that is wrong, with dots between its parts, and what is wrong with it.
    pub(crate) fn new(server: &str, settings: &McpHttp) -> Result<Self, ConnectorError> {
        let checked = Self::check(settings);
        checked.map_err(|(key, message)| ConnectorError::Server { server: server.to_owned(), key, message })
    }

    fn check(settings: &McpHttp) -> Result<Self, (String, String)> {
        let wrong = |key: &str, message: &str| Err((key.to_owned(), message.to_owned()));
        let Ok(url) = Url::parse(settings.url.trim()) else {
            return wrong("url", "it is not a URL; write https://HOST/PATH");
        };
        if url.fragment().is_some() {
            return wrong("url", "a part after `#` is never sent; take it out");
        }
        let guard = Guard::new(&url, None, &settings.private, settings.plain_http);
        let guard = guard.map_err(|(key, message)| (key.to_owned(), message))?;
        if settings.auth.is_some() && is_exposed(&url) {
            return wrong(
                "url",
                "the secret in `auth` would go over the network unencrypted; write https://",
            );
        }
        let mut headers = Vec::new();
        for (name, value) in &settings.headers {
            let key = format!("headers.{name}");
            let Ok(header) = HeaderName::try_from(name.as_str()) else {
                return wrong(&key, "it is not the name of a header; correct it");
            };
            if is_reserved(&header) {
                return wrong(&key, "the protocol sets this header; take it out");
            }
            let Ok(value) = HeaderValue::try_from(value.as_str()) else {
                return wrong(&key, "it holds a character that no header may hold; correct it");
            };
            headers.push((header, value));
        }
        let tls = settings.ca.as_deref().map(|path| client_config(Some(path))).transpose();
        let tls = tls.map_err(|error| ("ca".to_owned(), error.to_string()))?;
        let definition = HttpDefinition {
            url: settings.url.clone(),
            auth: settings.auth.clone(),
            private: settings.private.clone(),
            plain_http: settings.plain_http,
            ..HttpDefinition::default()
        };
        let signer = Signer::new(&definition, tls.as_ref())?;
        let client = Client::new(guard, 0, None).with_tls(tls.as_ref());
        let is_signed = settings.auth.is_some();
        Ok(Self(Arc::new(Parts { url, client, signer, headers, is_signed })))
    }

    /// A connection's session with these credentials.
    pub(crate) fn session(&self, credentials: &Credentials, watch: Arc<Watch>) -> Session {
        let mask = Arc::new(Mutex::new(Secrets::default()));
        Session { endpoint: self.clone(), credentials: credentials.clone(), mask, watch }
    }

    /// The settings of the library's transport: nothing is sent a second time, and nothing goes on for ever.
    pub(crate) fn transport_config(&self, timeout: Duration) -> StreamableHttpClientTransportConfig {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.0.url.as_str())
            .reinit_on_expired_session(false)
            .control_request_timeout(timeout)
            .max_sse_event_size(MCP_MESSAGE_BYTES_MAX);
        config.retry_config = Arc::new(FewTimes);
        config
    }
}

impl Session {
    /// Text without the secrets that were sent.
    pub(crate) fn mask(&self) -> Secrets {
        self.mask.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn sign(&self) -> Result<Signature, HttpError> {
        let mut mask = self.mask();
        let signed = self.endpoint.0.signer.sign(&self.credentials, &mut mask).await;
        *self.mask.lock().unwrap_or_else(PoisonError::into_inner) = mask;
        signed.map_err(|trouble| {
            no_answer(match trouble {
                Trouble::Retryable(message) | Trouble::Later(message, _) => Trouble::Retryable(message),
                other => Trouble::Permanent(other.message()),
            })
        })
    }

    /// The answer to a request. Where a token was refused, another one is fetched, once.
    async fn send(
        &self,
        method: reqwest::Method,
        dress: impl Fn(RequestBuilder) -> RequestBuilder + Send + Sync,
    ) -> Result<Response, HttpError> {
        let parts = &*self.endpoint.0;
        for is_last in [false, true] {
            let signed = self.sign().await?;
            let mut url = parts.url.clone();
            if let Some((name, value)) = &signed.query {
                set_parameter(&mut url, name, value);
            }
            let client = parts.client.client_for(&url).map_err(of_sending)?;
            let own: HeaderMap =
                parts.headers.iter().cloned().chain(signed.headers.iter().cloned()).collect();
            let request = dress(client.request(method.clone(), url).headers(own));
            let response = request.send().await.map_err(|error| of_sending(parts.client.failed(error)))?;
            let is_refused = response.status() == StatusCode::UNAUTHORIZED && parts.is_signed;
            if is_last || !is_refused || !parts.signer.forget(&signed).await {
                return Ok(response);
            }
        }
        Err(no_answer(of_status(StatusCode::UNAUTHORIZED)))
    }

    fn events(&self, response: Response) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let watch = Arc::clone(&self.watch);
        let named = content_type(&response).and_then(charset_of);
        let (encoding, ..) = charset::seen(&[], named)
            .map_err(|why| no_answer(Trouble::InDoubt(format!("its answer is {why}"))))?;
        let mut decoder = encoding.new_decoder_without_bom_handling();
        let bytes = response.bytes_stream().map_err(|error| std::io::Error::other(error.without_url()));
        let bounded = try_unfold((bytes.boxed(), Event::default()), move |(mut bytes, mut event)| {
            let watch = Arc::clone(&watch);
            async move {
                let Some(chunk) = bytes.try_next().await? else { return Ok(None) };
                if event.take(&chunk) > MCP_MESSAGE_BYTES_MAX {
                    watch.message_too_long();
                    return Err(std::io::Error::other("an event is too long"));
                }
                Ok(Some((chunk, (bytes, event))))
            }
        });
        let decoded = bounded.map_ok(move |chunk| {
            // The protocol's streams are UTF-8.
            if encoding == encoding_rs::UTF_8 {
                return chunk;
            }
            let mut text = String::with_capacity(decoder.max_utf8_buffer_length(chunk.len()).unwrap_or(0));
            let _ = decoder.decode_to_string(&chunk, &mut text, /*last*/ false);
            text.into()
        });
        let events = SseStream::from_bytes_stream(decoded.boxed()).map_ok(|mut event| {
            event.data = event.data.map(|data| match readable(data.as_bytes()) {
                Some(message) => message.to_string(),
                None => data,
            });
            event
        });
        let watch = Arc::clone(&self.watch);
        let events = events.inspect_err(move |error| {
            if let SseError::Utf8Parse(_) = error {
                watch.close("its answer is not UTF-8, and names no charset");
            }
        });
        Ok(events.boxed())
    }

    /// The bytes of an answer, of at most `limit`.
    async fn body(&self, mut response: Response, limit: usize) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > limit => {
                    return Err(no_answer(Trouble::InDoubt(format!(
                        "its answer has more than {limit} bytes"
                    ))));
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => return Ok(body),
                Err(_) => {
                    let message = "the connection broke in the middle of the answer".to_owned();
                    return Err(no_answer(Trouble::InDoubt(message)));
                }
            }
        }
    }
}

impl StreamableHttpClient for Session {
    type Error = EndpointError;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let accept = [EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE].join(", ");
        let text = serde_json::to_string(&message)?;
        let response = self.send(reqwest::Method::POST, |request| {
            let request = request.header(ACCEPT, &accept).header(CONTENT_TYPE, JSON_MIME_TYPE);
            let request = request.headers(headers.clone().into_iter().collect()).body(text.clone());
            match &session_id {
                Some(id) => request.header(HEADER_SESSION_ID, &**id),
                None => request,
            }
        });
        let response = response.await?;
        let status = response.status();
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        let is_silent = matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT);
        if is_silent && is_first(&message) {
            let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer", None);
            return Ok(StreamableHttpPostResponse::Json(refusal(&message, error), None));
        }
        if is_silent || status.is_success() && !is_request {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session =
            response.headers().get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let kind = kind_of(&response);
        let named = content_type(&response).and_then(charset_of).map(str::to_owned);
        if !status.is_success() {
            let is_json = kind == Some(Kind::Json);
            let may_speak = is_json && !is_access(status);
            let body = if may_speak { self.body(response, FAILURE_BYTES).await? } else { Vec::new() };
            return match charset::text(&body, named.as_deref()).ok().and_then(|text| message_of(&text)) {
                // A server that does not know the request, as one of an older revision, which may answer in any form.
                read if is_first(&message) && status.is_client_error() && !is_access(status) => {
                    let error = match read {
                        Some(JsonRpcMessage::Error(error)) => error.error,
                        _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("HTTP {status}"), None),
                    };
                    Ok(StreamableHttpPostResponse::Json(refusal(&message, error), session))
                }
                // It answers no request in particular: the server refused before it looked at the request, as many do that
                // have forgotten a session.
                Some(JsonRpcMessage::Error(error)) if error.id.is_none() && session_id.is_some() => {
                    Err(StreamableHttpError::SessionExpired)
                }
                Some(JsonRpcMessage::Error(error)) => {
                    Ok(StreamableHttpPostResponse::Json(refusal(&message, error.error), session))
                }
                _ if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) => {
                    let message =
                        "the server redirects to another address, which is not followed; correct the URL";
                    Err(no_answer(Trouble::Permanent(message.to_owned())))
                }
                _ => Err(no_answer(of_status(status))),
            };
        }
        match kind {
            Some(Kind::Events) => Ok(StreamableHttpPostResponse::Sse(self.events(response)?, session)),
            // Some do not say, or say that it is text.
            Some(Kind::Json) | None => {
                let body = self.body(response, MCP_MESSAGE_BYTES_MAX).await?;
                let text = charset::text(&body, named.as_deref());
                let wrong = match (&text, kind) {
                    (Err(why), _) => format!("its answer is {why}"),
                    (Ok(_), Some(_)) => "its answer is not a message of the protocol".to_owned(),
                    (Ok(_), None) => "its answer is neither JSON nor a stream of events".to_owned(),
                };
                match text.ok().and_then(|text| message_of(&text)) {
                    Some(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
                    None => Err(no_answer(Trouble::InDoubt(wrong))),
                }
            }
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let response = self.send(reqwest::Method::DELETE, |request| {
            request.headers(headers.clone().into_iter().collect()).header(HEADER_SESSION_ID, &*session_id)
        });
        match response.await?.status() {
            status if status.is_success() => Ok(()),
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportDeleteSession),
            status => Err(no_answer(of_status(status))),
        }
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let response = self.send(reqwest::Method::GET, |request| {
            let mut request = request.header(ACCEPT, EVENT_STREAM_MIME_TYPE);
            request = request.headers(headers.clone().into_iter().collect());
            if let Some(id) = &session_id {
                request = request.header(HEADER_SESSION_ID, &**id);
            }
            match &last_event_id {
                Some(id) => request.header(HEADER_LAST_EVENT_ID, id),
                None => request,
            }
        });
        let response = response.await?;
        match (response.status(), kind_of(&response)) {
            (StatusCode::METHOD_NOT_ALLOWED, _) => Err(StreamableHttpError::ServerDoesNotSupportSse),
            (status, Some(Kind::Events)) if status.is_success() => self.events(response),
            // Nothing else is worth a second try.
            _ => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.0.client).finish()
    }
}

/// The kinds of answers that the protocol knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Events,
}

/// How many bytes the event that is being read has so far.
#[derive(Debug, Default)]
struct Event {
    bytes: usize,
    /// Whether the line that is being read has no byte so far.
    is_blank: bool,
}

impl Event {
    /// Counts the bytes of a chunk, and returns the most that one event had in it.
    fn take(&mut self, chunk: &[u8]) -> usize {
        let mut most = self.bytes;
        for byte in chunk {
            self.bytes += 1;
            most = most.max(self.bytes);
            match byte {
                b'\n' if self.is_blank => self.bytes = 0,
                b'\n' => self.is_blank = true,
                b'\r' => {}
                _ => self.is_blank = false,
            }
        }
        most
    }
}

/// A stream of notices is opened again a few times, ever later.
#[derive(Debug)]
struct FewTimes;

impl SseRetryPolicy for FewTimes {
    fn retry(&self, current_times: usize) -> Option<Duration> {
        (current_times < STREAM_TRIES).then(|| Duration::from_secs(1 << current_times.min(6)))
    }
}

fn content_type(response: &Response) -> Option<&str> {
    response.headers().get(CONTENT_TYPE)?.to_str().ok()
}

fn kind_of(response: &Response) -> Option<Kind> {
    let kind = content_type(response)?;
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(EVENT_STREAM_MIME_TYPE) {
        Some(Kind::Events)
    } else {
        essence.eq_ignore_ascii_case(JSON_MIME_TYPE).then_some(Kind::Json)
    }
}

/// Headers that the protocol or the connection sets.
fn is_reserved(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("mcp-")
        || ["accept", "content-length", "content-type", "host", "last-event-id", "transfer-encoding"]
            .contains(&name)
}

/// A message of the server. `None`: it is not one.
fn message_of(text: &str) -> Option<ServerJsonRpcMessage> {
    serde_json::from_value(readable(text.as_bytes())?).ok()
}

/// Whether a message asks which revisions the server speaks. It is the first one, and belongs to no session.
fn is_first(message: &ClientJsonRpcMessage) -> bool {
    match message {
        JsonRpcMessage::Request(request) => matches!(request.request, ClientRequest::DiscoverRequest(_)),
        JsonRpcMessage::Notification(_) | JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => false,
    }
}

/// The server's refusal of this message. A server that refuses over HTTP does not always say which request it refuses.
fn refusal(message: &ClientJsonRpcMessage, error: ErrorData) -> ServerJsonRpcMessage {
    let id = match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        JsonRpcMessage::Notification(_) | JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => None,
    };
    JsonRpcMessage::error(error, id)
}

fn is_access(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// What a status means that is not a success.
fn of_status(status: StatusCode) -> Trouble {
    let message = match status {
        status if is_access(status) => "access was refused".to_owned(),
        status => format!("the server answered {status}"),
    };
    match status {
        StatusCode::TOO_MANY_REQUESTS => Trouble::Retryable(message),
        status if status.is_client_error() => Trouble::Permanent(message),
        _ => Trouble::InDoubt(message),
    }
}

fn no_answer(why: Trouble) -> HttpError {
    StreamableHttpError::Client(EndpointError(why))
}

fn of_sending(error: SendError) -> HttpError {
    no_answer(match error {
        SendError::Refused(message) => Trouble::Permanent(message),
        SendError::Limited(message, _) | SendError::Unreachable(message) => Trouble::Retryable(message),
        SendError::Lost(message) | SendError::Unreadable { message, .. } => Trouble::InDoubt(message),
    })
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
