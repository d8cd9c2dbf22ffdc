//! The server that a generated tool connects to.

use serde_json::Value;
use url::{Host, ParseError, Url};

use crate::openapi::document::{Document, Operation};
use crate::openapi::text::{escaped, line};

/// The most characters of a URL in a message.
const SHOWN: usize = 100;

/// A server, with what a tool needs in order to connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// The URL up to the path of an operation, as a template without placeholders.
    pub(crate) url: String,
    /// The host, with its port where that is not the usual one.
    pub(crate) place: String,
    pub(crate) plain_http: bool,
    /// `HOST:PORT` of a place on this machine or in a private network.
    pub(crate) private: Option<String>,
    /// Whether the operator set it.
    pub(crate) is_given: bool,
}

impl Server {
    /// The server that the operator set.
    ///
    /// # Errors
    /// It is not the URL of a server.
    pub(crate) fn given(text: &str) -> Result<Self, String> {
        let wrong = |message: &str| format!("--base-url {}: {message}", line(text, SHOWN));
        let url = Url::parse(text).map_err(|_| wrong("it is not a URL; write https://HOST/PATH"))?;
        Self::of(&url, true).map_err(|message| wrong(&message))
    }

    /// The server that the document names for an operation.
    ///
    /// # Errors
    /// The document names no usable server.
    pub(crate) fn of_document(document: &Document, operation: &Operation<'_>) -> Result<Self, String> {
        let places = [Some(operation.node), Some(operation.item), Some(document.root())];
        let first = |node: &'_ Value| node.get("servers").and_then(|servers| servers.get(0)).cloned();
        let server = places.into_iter().flatten().find_map(first);
        let help = "give it with --base-url https://HOST/PATH";
        let Some(server) = server else {
            return Err(format!("the document names no server; {help}"));
        };
        let template = server.get("url").and_then(Value::as_str).unwrap_or_default();
        let shown = line(template, SHOWN);
        let text = filled(template, server.get("variables")).map_err(|name| {
            format!(
                "the server `{shown}` has the variable `{}` without a default; {help}",
                line(&name, SHOWN)
            )
        })?;
        match Url::parse(&text) {
            Ok(url) => Self::of(&url, false)
                .map_err(|message| format!("the document's server `{shown}`: {message}; {help}")),
            Err(ParseError::RelativeUrlWithoutBase) => {
                Err(format!("the document's server `{shown}` is relative; {help}"))
            }
            Err(_) => Err(format!("the document's server `{shown}` is not a URL; {help}")),
        }
    }

    fn of(url: &Url, is_given: bool) -> Result<Self, String> {
        let (true, Some(host)) = (matches!(url.scheme(), "https" | "http"), url.host()) else {
            return Err("it must begin with https://".to_owned());
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it holds a user or a password".to_owned());
        }
        let name = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let is_private = match &host {
            Host::Domain(name) => {
                let name = name.trim_end_matches('.');
                name == "localhost" || name.ends_with(".localhost")
            }
            Host::Ipv4(address) => address.is_loopback() || address.is_private(),
            Host::Ipv6(address) => address.is_loopback() || address.is_unique_local(),
        };
        let place = url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        let path = url.path().trim_end_matches('/');
        Ok(Self {
            url: format!("{}://{place}{}", url.scheme(), escaped(path)),
            place,
            plain_http: url.scheme() == "http",
            private: is_private.then(|| format!("{name}:{port}")),
            is_given,
        })
    }

    /// Why a tool must not use the server until the operator confirms it. `None`: it may.
    pub(crate) fn doubt(&self) -> Option<String> {
        let what = match (self.is_given, self.plain_http, &self.private) {
            (true, ..) | (false, false, None) => return None,
            (false, _, Some(_)) => "on this machine or in a private network",
            (false, true, None) => "without encryption",
        };
        Some(format!(
            "the document's server is {what}; if you mean it, import again with --base-url {}",
            self.url
        ))
    }
}

/// A URL with the default values of its variables.
///
/// # Errors
/// The name of a variable without a default.
fn filled(template: &str, variables: Option<&Value>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(|| after.to_owned())?;
        let variable = variables.and_then(|all| all.get(name)).and_then(|one| one.get("default"));
        let value = match variable {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => return Err(name.to_owned()),
        };
        filled.push_str(before);
        filled.push_str(&value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}
