//! A model behind an HTTP API, for all protocols.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use percent_encoding::percent_decode_str;
use reqwest::Url;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::codec::{Api, Codec, classify};
use crate::defaults::Defaults;
use crate::error::LlmError;
use crate::http::{http_client_for, is_exposed};
use crate::mask;
use crate::model::{ChatModel, EventStream};
use crate::profile::{Auth, Profile};
use crate::reach::{Server, shown};
use crate::request::ModelRequest;
use crate::transport::{self, Post, Timers};

/// A model behind the API of a provider, or of a compatible server. The [`Profile`] selects the protocol and its details.
///
/// It does not retry: [`Retrying`](crate::wrap::Retrying) does.
///
/// ```
/// # use loop_llm::{HttpModel, LlmError, Profile};
/// # fn main() -> Result<(), LlmError> {
/// let profile = Profile::named("anthropic").unwrap_or_default();
/// let model = HttpModel::new(profile, None)?.with_key("sk-ant-…".into())?;
/// # Ok(()) }
/// ```
pub struct HttpModel {
    url: Url,
    server: Server,
    /// The URL of all calls. `None` where it depends on the request.
    endpoint: Option<Url>,
    codec: Codec,
    has_key: bool,
    secrets: Secrets,
    headers: HeaderMap,
    defaults: Defaults,
    timers: Timers,
}

impl HttpModel {
    /// A model at `base_url`, or else at the base URL of the profile, without a key.
    ///
    /// A base URL of Anthropic's or Google's protocol without a version gets the usual one.
    ///
    /// # Errors
    /// [`FailureKind::InvalidRequest`] if there is no base URL, or it is not an `http` or `https` URL.
    pub fn new(profile: Arc<Profile>, base_url: Option<&str>) -> Result<Self, LlmError> {
        let wrong = |message: &str| LlmError::unsendable(FailureKind::InvalidRequest, message);
        let Some(base_url) = base_url.or(profile.base_url.as_deref()) else {
            let message = format!("{} needs a base URL: every user has their own", profile.name);
            return Err(wrong(&message));
        };
        let mut url = base_url_of(base_url).map_err(|message| wrong(&message))?;
        let version = match profile.api {
            Api::OpenaiChat | Api::OpenaiResponses => None,
            Api::Anthropic => Some("v1"),
            Api::Gemini => Some("v1beta"),
        };
        let is_version = |part: &str| {
            part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let has_version = url.path_segments().is_some_and(|mut parts| parts.any(is_version));
        let mut segments = url.path_segments_mut().map_err(|()| wrong(NO_URL))?;
        segments.pop_if_empty();
        if let Some(version) = version.filter(|_| !has_version) {
            segments.push(version);
        }
        drop(segments);
        let endpoint = match profile.api {
            Api::OpenaiChat => Some(below(&url, ["chat", "completions"])),
            Api::OpenaiResponses => Some(below(&url, ["responses"])),
            Api::Anthropic => Some(below(&url, ["messages"])),
            Api::Gemini => None,
        };
        let mut headers: HeaderMap =
            OWN_HEADERS.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
        if profile.api == Api::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        Ok(Self {
            secrets: secrets_of(&url),
            server: Server::of(&url),
            url,
            endpoint,
            codec: Codec::new(profile),
            has_key: false,
            headers,
            defaults: Defaults::default(),
            timers: Timers::default(),
        })
    }

    /// The same model with the abilities of `base_model`, for a server that has its own name for that model.
    pub fn with_base_model(self, base_model: impl Into<Arc<str>>) -> Self {
        Self { codec: self.codec.with_base_model(base_model), ..self }
    }

    /// The same model with an API key, sent as the profile specifies.
    ///
    /// # Errors
    /// [`FailureKind::Auth`] if the key is not a valid header value. The message does not contain it.
    pub fn with_key(mut self, key: SecretString) -> Result<Self, LlmError> {
        let (name, before) = match self.codec.profile().auth {
            Auth::Bearer => ("authorization", "Bearer "),
            Auth::ApiKey => ("api-key", ""),
            Auth::XApiKey => ("x-api-key", ""),
            Auth::XGoogApiKey => ("x-goog-api-key", ""),
        };
        let mut value = HeaderValue::from_str(&format!("{before}{}", key.expose_secret())).map_err(|_| {
            let message = "the key holds characters that a header cannot carry";
            LlmError::unsendable(FailureKind::Auth, message)
        })?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        self.secrets.add(key.expose_secret());
        self.has_key = true;
        self.server.is_keyless = false;
        Ok(self)
    }

    /// The same model with one more header. Its value is a secret: [`Secrets`] says where it is masked.
    ///
    /// # Errors
    /// [`FailureKind::InvalidRequest`] if the name or the value is not valid in a header.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, LlmError> {
        let wrong = || {
            let message = format!("the header {name:?} cannot be sent as it is given");
            LlmError::unsendable(FailureKind::InvalidRequest, message)
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut sent = HeaderValue::from_str(value).map_err(|_| wrong())?;
        sent.set_sensitive(true);
        self.secrets.add(value.trim());
        self.server.is_keyless = false;
        // A credential may follow the name of its scheme, such as `Bearer`.
        if let Some((_, credential)) = value.trim().split_once(' ') {
            self.secrets.add(credential.trim());
        }
        if OWN_HEADERS.iter().any(|(own, _)| *own == name) {
            self.headers.append(name, sent);
        } else {
            self.headers.insert(name, sent);
        }
        Ok(self)
    }

    /// The same model with default options for requests that do not set them.
    pub fn with_defaults(self, defaults: Defaults) -> Self {
        Self { defaults, ..self }
    }

    /// The same model with other timeouts.
    pub fn with_timers(self, timers: Timers) -> Self {
        Self { timers, ..self }
    }

    /// Whether its credentials could be read in transit: its URL is an `http://` URL of another machine, and it has
    /// [secrets](Self::secrets). Such a model sends nothing.
    pub fn exposes_secrets(&self) -> bool {
        is_exposed(&self.url) && !self.secrets.is_empty()
    }

    /// The URL of a call.
    fn endpoint(&self, request: &ModelRequest) -> Url {
        if let Some(endpoint) = &self.endpoint {
            return endpoint.clone();
        }
        // Google's model lists prefix each name with `models/`.
        let model = request.model.strip_prefix("models/").unwrap_or(&request.model);
        if request.no_stream {
            return below(&self.url, ["models", &format!("{model}:generateContent")]);
        }
        let mut url = below(&self.url, ["models", &format!("{model}:streamGenerateContent")]);
        // The query of the base URL, such as a gateway's key, is kept.
        let own = self.url.query().filter(|own| !own.is_empty());
        let query = own.map_or_else(|| STREAM.to_owned(), |own| format!("{own}&{STREAM}"));
        url.set_query(Some(&query));
        url
    }
}

#[async_trait]
impl ChatModel for HttpModel {
    fn secrets(&self) -> Secrets {
        self.secrets.clone()
    }

    fn masks(&self) -> bool {
        true
    }

    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        self.send(request)?.await
    }
}

impl HttpModel {
    /// Begins a call. What is needed only until it begins is not kept while its reply is waited for.
    fn send(
        &self,
        request: &ModelRequest,
    ) -> Result<impl Future<Output = Result<EventStream, LlmError>> + Send + use<>, LlmError> {
        let with_defaults = self.defaults.fill(request);
        let request = with_defaults.as_ref().unwrap_or(request);
        if self.exposes_secrets() {
            return Err(LlmError::unsendable(FailureKind::InvalidRequest, EXPOSED));
        }
        let encoded = self.codec.encode(request)?;
        let url = self.endpoint(request);
        let mut headers = self.headers.clone();
        if let Some(traceparent) = request.meta.traceparent
            && let Ok(value) = HeaderValue::try_from(traceparent.to_string())
        {
            headers.insert("traceparent", value);
        }
        let mut secrets = request.secrets.clone();
        secrets.extend(&self.secrets);
        let decoder = self.codec.decoder(request, encoded.aliases, secrets.clone());
        let post = Post {
            client: http_client_for(&url)?,
            url,
            server: self.server.clone(),
            headers,
            body: encoded.body,
            secrets,
            timers: self.timers,
            classify,
        };
        Ok(transport::send(post, decoder, encoded.warnings))
    }
}

impl fmt::Debug for HttpModel {
    /// Shows host, port, masked path and profile; neither key nor headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host: Arc<str> = self.url.host_str().unwrap_or_default().into();
        f.debug_struct("HttpModel")
            .field("host", &host)
            .field("port", &self.url.port_or_known_default())
            .field("path", &self.secrets.mask_message_by(self.url.path(), "***", /*is_cut*/ false))
            .field("profile", &self.codec.profile().name)
            .field("has_key", &self.has_key)
            .finish_non_exhaustive()
    }
}

/// The URL with more path segments.
fn below<'a>(base: &Url, path: impl IntoIterator<Item = &'a str>) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.extend(path);
    }
    url
}

/// What a base URL has to be.
const NO_URL: &str = "the base URL must be an http or https URL, for example http://127.0.0.1:8080/v1";

/// The base URL in a text.
///
/// # Errors
/// It is not an `http` or `https` URL: what it has to be, with credentials masked.
pub fn base_url_of(text: &str) -> Result<Url, String> {
    let text = text.trim();
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => return Ok(url),
        _ => {}
    }
    let with_scheme = Url::parse(&format!("http://{text}"));
    Err(match with_scheme.ok().filter(|url| url.has_host() && !text.contains("://")) {
        Some(url) => {
            let shown = shown(&url);
            let rest = shown.strip_prefix("http").unwrap_or_default();
            format!("the base URL has no scheme; write http{rest} or https{rest}")
        }
        None => NO_URL.to_owned(),
    })
}

/// Headers of every call. Compression would delay the chunks of a stream.
const OWN_HEADERS: [(HeaderName, &str); 3] = [
    (CONTENT_TYPE, "application/json"),
    (ACCEPT, "text/event-stream, application/json"),
    (ACCEPT_ENCODING, "identity"),
];

/// Requests server-sent events in Google's protocol.
const STREAM: &str = "alt=sse";

/// Whether a text contains a URL with a credential before the host, in the path or in the query.
pub fn holds_url_secret(text: &str) -> bool {
    text.match_indices("://").any(|(at, _)| {
        let (before, after) = text.split_at(at);
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let scheme = before.len() - before.trim_end_matches(is_scheme).len();
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>'));
        let after = after.get(..end.unwrap_or(after.len())).unwrap_or_default();
        let url = [before.get(at - scheme..).unwrap_or_default(), after].concat();
        match Url::parse(&url) {
            // A user name or password is a credential even if it is too short to be masked in texts.
            Ok(url) => !url.username().is_empty() || url.password().is_some() || !secrets_of(&url).is_empty(),
            Err(_) => after.contains('@'),
        }
    })
}

/// User name, password, keys in the query and parts of the path that look like keys, both as written and decoded.
pub(crate) fn secrets_of(url: &Url) -> Secrets {
    let user = [Some(url.username()), url.password()];
    let query = url.query().unwrap_or_default().split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        let name = name.to_ascii_lowercase();
        let is_key = KEYS.iter().any(|key| name.contains(key)) || looks_like_a_key(&decoded(value));
        is_key.then_some(value)
    });
    let path = url.path().split('/').filter(|part| looks_like_a_key(&decoded(part)));
    let parts = user.into_iter().flatten().chain(query).chain(path);
    // In a query `+` may be a space.
    let texts = parts.flat_map(|part| [part.to_owned(), decoded(part), decoded(&part.replace('+', " "))]);
    Secrets::of(texts)
}

/// Whether a part of a URL looks like a key rather than a model, a project or a region: it has the prefix of a known key,
/// or 16 letters and digits in a row, or 24 characters with upper case, lower case and digits, or is a UUID.
fn looks_like_a_key(part: &str) -> bool {
    let is_mixed = |text: &str| {
        text.bytes().any(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let has_case = |is_it: fn(&u8) -> bool| part.as_bytes().iter().any(is_it);
    let is_long = part.len() >= 24 && has_case(u8::is_ascii_uppercase) && has_case(u8::is_ascii_lowercase);
    let digits: String = part.chars().filter(|c| *c != '-').collect();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut runs = part.split(|c: char| !c.is_ascii_alphanumeric());
    mask::begins_like_a_key(part)
        || is_long && is_mixed(part)
        || is_uuid
        || runs.any(|run| run.len() >= 16 && is_mixed(run))
}

/// The error of a model that would expose its credentials.
const EXPOSED: &str =
    "the credential would go over the network unencrypted; write https:// in the base URL, or send none";

/// Parts of the names of query parameters whose values are secrets. Other values, such as a region, are words that
/// replies use too.
const KEYS: [&str; 8] = ["key", "code", "sig", "token", "secret", "pass", "auth", "cred"];

/// A part of a URL with percent encoding decoded.
fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}
