//! A model behind Chat Completions.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use super::decode::Decoder;
use super::encode::encode;
use super::errors::classify;
use super::profile::Profile;
use crate::error::{ErrorPhase, LlmError, LlmErrorKind};
use crate::http::http_client;
use crate::model::{ChatModel, EventStream};
use crate::options::CallOptions;
use crate::request::ModelRequest;
use crate::secrets::Secrets;
use crate::transport::{self, Post, Timers};

/// A model that speaks Chat Completions: OpenAI's own, or one behind a compatible server.
///
/// It does not try again by itself: [`Retrying`](crate::Retrying) does.
pub struct OpenAiChat {
    url: Url,
    profile: Profile,
    has_key: bool,
    secrets: Secrets,
    headers: HeaderMap,
    options: CallOptions,
    timers: Timers,
}

impl OpenAiChat {
    /// A model behind `base_url`, for example `http://127.0.0.1:8080/v1`, without a key.
    ///
    /// # Errors
    /// [`LlmErrorKind::InvalidRequest`] where `base_url` is no http or https URL.
    pub fn new(base_url: &str, profile: Profile) -> Result<Self, LlmError> {
        let wrong = || {
            let message = "the base URL must be an http or https URL, for example http://127.0.0.1:8080/v1";
            LlmError::new(LlmErrorKind::InvalidRequest, ErrorPhase::Encode, message)
        };
        let mut url = Url::parse(base_url.trim()).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong());
        }
        url.path_segments_mut().map_err(|()| wrong())?.pop_if_empty().extend(["chat", "completions"]);
        Ok(Self {
            secrets: secrets_of(&url),
            url,
            profile,
            has_key: false,
            headers: HeaderMap::new(),
            options: CallOptions::default(),
            timers: Timers::default(),
        })
    }

    /// The same model with a key, sent as `Authorization: Bearer`.
    ///
    /// # Errors
    /// [`LlmErrorKind::Auth`] where the key cannot stand in a header; the message does not show it.
    pub fn with_key(mut self, key: SecretString) -> Result<Self, LlmError> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret())).map_err(|_| {
            let message = "the key holds characters that a header cannot carry";
            LlmError::new(LlmErrorKind::Auth, ErrorPhase::Encode, message)
        })?;
        value.set_sensitive(true);
        self.headers.insert(reqwest::header::AUTHORIZATION, value);
        self.secrets.add(&key);
        self.has_key = true;
        Ok(self)
    }

    /// The same model with one more header. Its value is a secret: see [`Secrets`] for where it is masked.
    ///
    /// # Errors
    /// [`LlmErrorKind::InvalidRequest`] where name or value cannot be a header.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, LlmError> {
        let wrong = || {
            let message = format!("the header {name:?} cannot be sent as it is given");
            LlmError::new(LlmErrorKind::InvalidRequest, ErrorPhase::Encode, message)
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut sent = HeaderValue::from_str(value).map_err(|_| wrong())?;
        sent.set_sensitive(true);
        self.secrets.add(&SecretString::from(value.trim()));
        // A credential may stand behind the name of its scheme.
        if let Some((_, credential)) = value.trim().split_once(' ') {
            self.secrets.add(&SecretString::from(credential.trim()));
        }
        self.headers.insert(name, sent);
        Ok(self)
    }

    /// The same model with other options for every call.
    pub fn with_options(self, options: CallOptions) -> Self {
        Self { options, ..self }
    }

    /// The same model with other timers.
    pub fn with_timers(self, timers: Timers) -> Self {
        Self { timers, ..self }
    }
}

#[async_trait]
impl ChatModel for OpenAiChat {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let encoded = encode(request, &self.options, &self.profile)?;
        let post = Post {
            client: http_client()?,
            url: self.url.clone(),
            headers: self.headers.clone(),
            body: encoded.body,
            secrets: self.secrets.clone(),
            timers: self.timers,
            classify,
        };
        let decoder = Decoder::new(encoded.aliases, self.secrets.clone());
        transport::send(post, decoder, encoded.warnings).await
    }
}

impl fmt::Debug for OpenAiChat {
    /// Where it is and what it is like; neither key nor headers nor what a URL may hold beside host and path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host: Arc<str> = self.url.host_str().unwrap_or_default().into();
        f.debug_struct("OpenAiChat")
            .field("host", &host)
            .field("port", &self.url.port_or_known_default())
            .field("path", &self.url.path())
            .field("profile", &self.profile)
            .field("has_key", &self.has_key)
            .finish_non_exhaustive()
    }
}

/// Name and password of a URL, as they stand there and decoded.
fn secrets_of(url: &Url) -> Secrets {
    let parts = [Some(url.username()), url.password()];
    let texts = parts.into_iter().flatten().flat_map(|part| [part.to_owned(), decoded(part)]);
    Secrets::new(texts.map(SecretString::from))
}

/// A part of a URL without its percent encoding.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).filter(|_| *first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
