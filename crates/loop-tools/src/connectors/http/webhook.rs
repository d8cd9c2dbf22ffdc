//! A webhook: one POST to an address of the operator, under the guard that tools have.

use std::fmt;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use url::Url;

use crate::connectors::http::client::{Client, SendError, SentFlag, Signature};
use crate::connectors::http::guard::{Guard, host_of};
use crate::connectors::http::request::{Payload, Unsigned};

/// A URL that receives messages.
pub struct Webhook {
    client: Client,
    url: Url,
}

impl Webhook {
    /// A webhook at this URL. `private` lists the addresses on this machine and in private networks that it may lead
    /// to, as `HOST:PORT`. It connects without encryption only with `plain_http`.
    ///
    /// # Errors
    /// The key that is wrong, and what is wrong with it.
    pub fn new(url: &str, private: &[String], plain_http: bool) -> Result<Self, (&'static str, String)> {
        let url =
            Url::parse(url).map_err(|_| ("url", "it is not a URL; write `https://HOST/PATH`".to_owned()))?;
        let guard = Guard::new(&url, None, private, plain_http)?;
        // A message must not be lost in a connection that the server has just closed.
        Ok(Self { client: Client::new(guard, 0, None).with_fresh_connections(), url })
    }

    /// Sends a body with these headers. A redirect is not followed.
    ///
    /// # Errors
    /// Why it did not arrive, as one line that shows the host and no more of the address.
    pub async fn send(&self, body: Value, headers: &[(&'static str, String)]) -> Result<(), String> {
        let host = host_of(&self.url);
        let mut all = HeaderMap::new();
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            let value = HeaderValue::try_from(value)
                .map_err(|_| format!("`{name}` has a character that no header may hold"))?;
            all.insert(HeaderName::from_static(name), value);
        }
        let prepared = Unsigned {
            method: Method::POST,
            url: self.url.clone(),
            headers: all,
            body: Some(Payload::Json(body)),
        };
        let (signed, departure) = (Signature::default(), SentFlag::default());
        match self.client.send(&prepared, &signed, &self.url, MAX_BYTES, &departure).await {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) => Err(format!("{host} answered {}", answer.status)),
            // It has taken the message: what it says about it is not read.
            Err(SendError::Unreadable { status, .. }) if status.is_success() => Ok(()),
            Err(SendError::Unreadable { status, .. }) => Err(format!("{host} answered {status}")),
            Err(
                SendError::Refused(message)
                | SendError::Limited(message, _)
                | SendError::Unreachable(message)
                | SendError::Lost(message),
            ) => Err(format!("{host}: {message}")),
        }
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("host", &host_of(&self.url)).finish_non_exhaustive()
    }
}

/// How many bytes of an answer are read.
const MAX_BYTES: usize = 64 << 10;
