//! Saving to a URL: one POST a try, with the same idempotency key each time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use loop_core::run::Started;
use loop_core::secrets::Secrets;
use loop_core::types::{CommandKey, Slot, is_clean};
use loop_llm::http::{http_client_for, http_error, is_exposed, retry_after};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Method, Request, Response, StatusCode, Url};

use crate::drive::save::SaveError;

/// An address that receives reports, with the headers to send. Its `Debug` shows no credential.
#[derive(Clone)]
pub struct HttpTarget {
    url: Url,
    headers: HeaderMap,
    /// What must not show in a message: the values of the headers.
    secrets: Secrets,
}

/// Why an address or a header cannot be used, as one line that does not repeat it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(&'static str);

impl HttpTarget {
    /// A target by its URL, `https` or `http`.
    ///
    /// # Errors
    /// It is not such a URL, or it has a user or a password.
    pub fn new(url: &str) -> Result<Self, TargetError> {
        let parsed = Url::parse(url).map_err(|_| TargetError("is not a URL; write `https://HOST/PATH`"))?;
        if !matches!(parsed.scheme(), "https" | "http") || parsed.host().is_none() {
            return Err(TargetError("begins neither with `https://` nor with `http://`; correct it"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(TargetError("holds a user or a password; use a token instead"));
        }
        if url.contains(['{', '}']) {
            return Err(TargetError("has a brace; the report names item and run, the address does not"));
        }
        Ok(Self { url: parsed, headers: HeaderMap::new(), secrets: Secrets::default() })
    }

    /// The same with one more header. Its value counts as a secret.
    ///
    /// # Errors
    /// Name or value cannot be in a header, or the header is one that saving sets itself.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, TargetError> {
        let name = HeaderName::try_from(name).map_err(|_| TargetError("is not the name of a header"))?;
        if name == CONTENT_TYPE || name.as_str() == IDEMPOTENCY_KEY {
            return Err(TargetError("is set by saving itself; leave it out"));
        }
        self.headers.insert(name, secret(value)?);
        self.keep(value)
    }

    /// The same with a token, sent as `authorization: Bearer …`.
    ///
    /// # Errors
    /// It is empty, or cannot be in a header.
    pub fn with_bearer(mut self, token: &str) -> Result<Self, TargetError> {
        let token = token.trim();
        if token.is_empty() {
            return Err(TargetError("the token is empty"));
        }
        self.headers.insert(AUTHORIZATION, secret(&format!("Bearer {token}"))?);
        self.keep(token)
    }

    /// The same, with a secret that goes to the server: only where third parties cannot read it on the way.
    fn keep(mut self, secret: &str) -> Result<Self, TargetError> {
        if is_exposed(&self.url) {
            return Err(TargetError("would send the token unencrypted; write `https://`, or send none"));
        }
        self.secrets.extend(&Secrets::of([secret]));
        Ok(self)
    }

    /// The credentials that it sends.
    pub(super) fn secrets(&self) -> Secrets {
        self.secrets.clone()
    }

    /// Sends a report; gives where it is: what `Location` says, else the server.
    pub(super) async fn post(&self, started: &Started, report: String) -> Result<Arc<str>, SaveError> {
        let client = http_client_for(&self.url).map_err(|error| self.failed(error.to_string(), None))?;
        let sending = client.execute(self.request(started, report)?);
        let Ok(sent) = tokio::time::timeout(LIMIT, async { self.read(sending.await).await }).await else {
            return Err(self.failed(format!("no answer after {} s", LIMIT.as_secs()), Some(PAUSE)));
        };
        sent
    }

    fn request(&self, started: &Started, report: String) -> Result<Request, SaveError> {
        let key = format!("{}/{}", started.run, CommandKey::new(0, Slot::Save));
        let key = HeaderValue::try_from(key)
            .map_err(|_| self.failed("the run's name cannot stand in a header".to_owned(), None))?;
        let mut request = Request::new(Method::POST, self.url.clone());
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(IDEMPOTENCY_KEY, key);
        *request.body_mut() = Some(report.into());
        Ok(request)
    }

    async fn read(&self, sent: reqwest::Result<Response>) -> Result<Arc<str>, SaveError> {
        // A connection that fails may have returned the report over; the key makes another try harmless.
        let mut response = sent.map_err(|error| {
            let retry = (!error.is_builder()).then_some(PAUSE);
            self.failed(self.hidden(&http_error(error)), retry)
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(self.location(&response));
        }
        let wait = is_passing(status).then(|| retry_after(response.headers()).unwrap_or(PAUSE));
        // The server may repeat what it was sent.
        let text = self.hidden_path(&self.hidden(&body(&mut response).await));
        let text = match text.chars().take(MAX_CHARS).collect::<String>() {
            text if text.is_empty() => status.to_string(),
            text => format!("{status}: {text}"),
        };
        match wait {
            Some(wait) if wait > LONGEST_WAIT => {
                Err(self.failed(format!("{text} (to be tried again after {} s)", wait.as_secs()), None))
            }
            wait => Err(self.failed(text, wait)),
        }
    }

    /// What may be recorded of where the report is.
    fn location(&self, response: &Response) -> Arc<str> {
        let named = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let named = named.filter(|location| !location.trim().is_empty());
        let named = named.and_then(|location| self.url.join(location).ok());
        let named = named.filter(|url| matches!(url.scheme(), "https" | "http"));
        // A place that is the target's own path names no report, and the path may be the key to it.
        let reported = named.filter(|url| (url.origin(), url.path()) != (self.url.origin(), self.url.path()));
        let Some(mut url) = reported else { return self.server().into() };
        url.set_query(None);
        url.set_fragment(None);
        // An http address takes both, so neither can fail.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let text = self.hidden(&self.hidden_keys(url.as_str()));
        match text.char_indices().nth(MAX_LOCATION_CHARS) {
            Some(_) => text.chars().take(MAX_LOCATION_CHARS - 1).chain(['…']).collect::<String>().into(),
            None => text.into(),
        }
    }

    /// Scheme, host and port. No more of the target is shown where others read it, since keys may be in its path.
    fn server(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    fn failed(&self, message: String, retry: Option<Duration>) -> SaveError {
        SaveError { message: format!("{}: {message}", self.server()).into(), retry }
    }

    /// An answer's text without the path that was asked for, which servers like to repeat.
    fn hidden_path(&self, text: &str) -> String {
        let path = self.url.path();
        let parts = [Some(path), Some(path.trim_matches('/')), self.url.query()].into_iter().flatten();
        parts.filter(|part| part.len() > 1).fold(text.to_owned(), |text, part| text.replace(part, "•••"))
    }

    /// A text without the parts of the target's path that are long enough to be keys, as those of webhooks are.
    fn hidden_keys(&self, text: &str) -> String {
        let parts = self.url.path().split('/').filter(|part| part.len() >= KEY_CHARS);
        parts.fold(text.to_owned(), |text, part| text.replace(part, "•••"))
    }

    fn hidden(&self, text: &str) -> String {
        self.secrets.mask_message_by(text, "•••", /*is_cut*/ false)
    }
}

impl fmt::Display for HttpTarget {
    /// Scheme, host and path, without the parts of the path that may be keys. The rest is not shown, for the same reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        f.write_str(&self.hidden_keys(url.as_str()))
    }
}

impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpTarget({self})")
    }
}

fn secret(value: &str) -> Result<HeaderValue, TargetError> {
    let mut value =
        HeaderValue::try_from(value).map_err(|_| TargetError("has a character that no header may hold"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_passing(status: StatusCode) -> bool {
    matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS)
        || status.is_server_error()
}

/// The beginning of a body, enough for a message.
async fn body(response: &mut Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < MAX_BYTES {
        // What broke off says as much as came.
        let Ok(Some(chunk)) = response.chunk().await else { break };
        bytes.extend_from_slice(&chunk);
    }
    bytes.truncate(MAX_BYTES);
    let text = String::from_utf8_lossy(&bytes);
    let visible: String = text.chars().map(|c| if is_clean(c) { c } else { ' ' }).collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Names a save to the server that receives it; the same on every try.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// How long one try may take, the answer's body included.
const LIMIT: Duration = Duration::from_secs(30);
/// How long to wait before another try where the server does not say.
const PAUSE: Duration = Duration::from_millis(500);
/// Beyond this a server's command to wait ends the saving: the run is over and holds up its caller.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A part of a path with so many characters may be a key.
const KEY_CHARS: usize = 16;
/// How much of an address is recorded, in characters.
const MAX_LOCATION_CHARS: usize = 500;
/// How much of an answer's body is read for a message, in bytes.
const MAX_BYTES: usize = 4_096;
/// How much of it is shown, in characters.
const MAX_CHARS: usize = 200;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::HttpTarget;

    #[test]
    fn a_part_of_the_path_that_may_be_a_key_is_hidden_wherever_it_comes_back() {
        let key = "abcdefghijklmnopqrstuvwx";
        let target = HttpTarget::new(&format!("https://hooks.example/services/{key}")).unwrap();
        let reported = target.hidden_keys(&format!("https://hooks.example/services/{key}/7"));
        assert_eq!(reported, "https://hooks.example/services/•••/7");
        assert_eq!(target.hidden_path(&format!("no POST services/{key} here")), "no POST ••• here");
    }
}
