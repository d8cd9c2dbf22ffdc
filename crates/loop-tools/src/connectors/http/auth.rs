//! How a request authenticates.

use std::fmt;
use std::time::Duration;

use crate::Credentials;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loop_core::secrets::Secrets;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::connectors::http::client::{Client, SendError, SentFlag, Signature};
use crate::connectors::http::definition::{HttpAuth, HttpDefinition};
use crate::connectors::http::guard::{Guard, is_exposed};
use crate::connectors::http::request::{KeyError, Payload, Unsigned};
use crate::connectors::trouble::Trouble;

/// The most bytes of the answer with a token.
const TOKEN_BYTES: usize = 64 << 10;
/// How long before its end a token is no longer used.
const EARLY: Duration = Duration::from_secs(30);
/// How long a token is used of which its server does not say.
const TOKEN_LIFE: Duration = Duration::from_secs(300);

/// What signs the requests of one tool.
pub(crate) struct Signer {
    auth: Option<HttpAuth>,
    /// Where tokens are asked for, and what asks: a client that connects to nothing else.
    tokens: Option<(Url, Client)>,
    /// The token of the client credentials. One call at a time asks for it, and the others wait.
    token: Mutex<Option<Token>>,
}

/// A token, for which secret it was given, and until when it is used.
struct Token {
    text: String,
    secret: String,
    until: Instant,
}

impl Signer {
    /// The signer of a checked definition.
    ///
    /// # Errors
    /// The key that is wrong, and what is wrong with it.
    pub(crate) fn new(definition: &HttpDefinition, tls: Option<&ClientConfig>) -> Result<Self, KeyError> {
        let wrong = |key: &str, message: &str| Err((format!("auth.{key}"), message.to_owned()));
        let auth = definition.auth.as_ref();
        let mut tokens = None;
        match auth {
            Some(HttpAuth::Header { header, .. }) => {
                if HeaderName::try_from(header.as_str()).is_err() {
                    return wrong("header", "it is not the name of a header; correct it");
                }
            }
            Some(HttpAuth::Query { parameter, .. }) if parameter.trim().is_empty() => {
                return wrong("parameter", "the name of the parameter is empty; correct it");
            }
            Some(HttpAuth::Cookie { cookie, .. }) => {
                if cookie.is_empty()
                    || !cookie.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
                {
                    return wrong("cookie", "it is not the name of a cookie; correct it");
                }
            }
            Some(HttpAuth::Basic { user, .. }) if user.contains(':') => {
                return wrong("user", "a user's name holds no colon; correct it");
            }
            Some(HttpAuth::ClientCredentials { token_url, .. }) => {
                let Ok(url) = Url::parse(token_url) else {
                    return wrong("token_url", "it is not a URL; write https://HOST/PATH");
                };
                if is_exposed(&url) {
                    return wrong(
                        "token_url",
                        "the secret would go over the network unencrypted; write https://",
                    );
                }
                let guard = Guard::new(&url, None, &definition.private, definition.plain_http);
                let guard = guard.map_err(|(_, message)| ("auth.token_url".to_owned(), message))?;
                tokens = Some((url, Client::new(guard, 0, definition.per_minute).with_tls(tls)));
            }
            Some(HttpAuth::Bearer { .. } | HttpAuth::Query { .. } | HttpAuth::Basic { .. }) | None => {}
        }
        Ok(Self { auth: auth.cloned(), tokens, token: Mutex::new(None) })
    }

    /// What goes with a request. Every secret of it is added to `mask` before anything is sent.
    pub(crate) async fn sign(
        &self,
        credentials: &Credentials,
        mask: &mut Secrets,
    ) -> Result<Signature, Trouble> {
        let Some(auth) = &self.auth else { return Ok(Signature::default()) };
        let mut secret = |variable: &str| {
            let found = credentials.get(variable).map(str::trim).filter(|secret| !secret.is_empty());
            let found = found.ok_or_else(|| {
                Trouble::Permanent(format!(
                    "the environment variable `{variable}` is not set, and this tool needs the secret in it"
                ))
            })?;
            mask.add(found);
            Ok::<_, Trouble>(found.to_owned())
        };
        let header = |name: HeaderName, text: &str, variable: &str| {
            let mut value = HeaderValue::from_str(text).map_err(|_| {
                Trouble::Permanent(format!(
                    "the secret in `{variable}` holds a character that no header may hold"
                ))
            })?;
            value.set_sensitive(true);
            Ok(Signature { headers: vec![(name, value)], query: None })
        };
        match auth {
            HttpAuth::Bearer { token_env } => {
                header(AUTHORIZATION, &format!("Bearer {}", secret(token_env)?), token_env)
            }
            HttpAuth::Header { key_env, header: name } => {
                let name = HeaderName::try_from(name.as_str())
                    .map_err(|_| Trouble::Permanent("the name of the key's header is wrong".to_owned()))?;
                header(name, &secret(key_env)?, key_env)
            }
            HttpAuth::Query { key_env, parameter } => {
                Ok(Signature { headers: Vec::new(), query: Some((parameter.clone(), secret(key_env)?)) })
            }
            HttpAuth::Cookie { value_env, cookie } => {
                let value = secret(value_env)?;
                if value.contains([';', ',']) {
                    let message =
                        format!("the secret in `{value_env}` holds a character that no cookie may hold");
                    return Err(Trouble::Permanent(message));
                }
                header(COOKIE, &format!("{cookie}={value}"), value_env)
            }
            HttpAuth::Basic { user, password_env } => {
                let pair = STANDARD.encode(format!("{user}:{}", secret(password_env)?));
                mask.add(&pair);
                header(AUTHORIZATION, &format!("Basic {pair}"), password_env)
            }
            HttpAuth::ClientCredentials { client_id, client_secret_env, scope, .. } => {
                let secret = secret(client_secret_env)?;
                let mut token = self.token.lock().await;
                let usable = token.as_ref().filter(|it| it.secret == secret && Instant::now() < it.until);
                let text = match usable {
                    Some(token) => token.text.clone(),
                    None => {
                        let fresh = self.fetch(client_id, &secret, scope, mask).await?;
                        token.insert(fresh).text.clone()
                    }
                };
                mask.add(&text);
                header(AUTHORIZATION, &format!("Bearer {text}"), client_secret_env)
            }
        }
    }

    /// Drops the token that was sent and refused. Whether there can be another one.
    pub(crate) async fn forget(&self, sent: &Signature) -> bool {
        if !matches!(self.auth, Some(HttpAuth::ClientCredentials { .. })) {
            return false;
        }
        let mut token = self.token.lock().await;
        let is_sent = |token: &Token| {
            let text = format!("Bearer {}", token.text);
            sent.headers.iter().any(|(_, value)| value.as_bytes() == text.as_bytes())
        };
        // Another call may have fetched the next one by now.
        if token.as_ref().is_some_and(is_sent) {
            *token = None;
        }
        true
    }

    async fn fetch(&self, id: &str, secret: &str, scope: &str, mask: &mut Secrets) -> Result<Token, Trouble> {
        let failed = |message: &str| Trouble::Permanent(format!("no token for this tool: {message}"));
        let Some((url, client)) = &self.tokens else { return Err(failed("its server is not known")) };
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
        mask.add(&pair);
        let mut value =
            HeaderValue::try_from(format!("Basic {pair}")).map_err(|_| failed("its secret is wrong"))?;
        value.set_sensitive(true);
        let scope = Some(("scope", scope.trim())).filter(|(_, scope)| !scope.is_empty());
        let pairs = std::iter::once(("grant_type", "client_credentials")).chain(scope);
        let form = Serializer::new(String::new()).extend_pairs(pairs).finish();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let prepared =
            Unsigned { method: Method::POST, url: url.clone(), headers, body: Some(Payload::Form(form)) };
        let signed = Signature { headers: vec![(AUTHORIZATION, value)], query: None };
        let asked = client.send(&prepared, &signed, url, TOKEN_BYTES, &SentFlag::default()).await;
        let passes = |message: String, after| {
            Err(Trouble::passing(format!("no token for this tool: {message}"), after))
        };
        let answer = match asked {
            Ok(answer) => answer,
            Err(SendError::Refused(message)) => return Err(failed(&message)),
            Err(SendError::Limited(message, after)) => return passes(message, Some(after)),
            Err(SendError::Unreachable(message) | SendError::Lost(message)) => return passes(message, None),
            Err(SendError::Unreadable { message, passes: true, .. }) => return passes(message, None),
            Err(SendError::Unreadable { message, .. }) => return Err(failed(&message)),
        };
        match answer.status {
            status if status.is_success() => {}
            status @ (StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT) => {
                return passes(format!("the token's server answered {status}"), answer.retry_after());
            }
            status if status.is_server_error() => {
                return passes(format!("the token's server answered {status}"), answer.retry_after());
            }
            status => return Err(failed(&format!("the token's server answered {status}"))),
        }
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = body.get("access_token").and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() || !text.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
            return Err(failed("the answer of the token's server has none in it"));
        }
        let kind = body.get("token_type").and_then(Value::as_str).unwrap_or("bearer");
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(failed("the token is not a bearer token"));
        }
        let life = body.get("expires_in").and_then(Value::as_u64).map_or(TOKEN_LIFE, Duration::from_secs);
        // Beyond a day it is asked for again: no clock is that far off.
        let life = life.min(Duration::from_secs(86_400)).saturating_sub(EARLY);
        Ok(Token { text: text.to_owned(), secret: secret.to_owned(), until: Instant::now() + life })
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("auth", &self.auth).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
