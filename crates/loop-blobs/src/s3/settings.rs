//! Where a bucket is, and its keys.

use std::env;

use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use crate::error::BlobErrorKind;

/// Where a bucket is, and its keys: the variables that programs for S3 share. Its `Debug` shows no key.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct S3Settings {
    /// URL of the server. `AWS_ENDPOINT_URL_S3`, else `AWS_ENDPOINT_URL`. `None`: that of Amazon for the region.
    pub endpoint: Option<String>,
    /// `AWS_REGION`, else `AWS_DEFAULT_REGION`. `None`: `us-east-1`.
    pub region: Option<String>,
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key_id: Option<SecretString>,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: Option<SecretString>,
    /// `AWS_SESSION_TOKEN`, which temporary keys need.
    pub session_token: Option<SecretString>,
    /// Whether blobs may go over the network unencrypted: `AWS_ALLOW_HTTP=true`. A server on this machine needs no leave.
    pub allow_http: bool,
}

impl S3Settings {
    /// The settings of the environment.
    pub fn from_env() -> Self {
        Self::from_variables(|name| env::var(name).ok())
    }

    /// The settings of variables by name. An empty one is as good as none.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| {
            variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let secret = |name: &str| get(name).map(SecretString::from);
        Self {
            endpoint: get("AWS_ENDPOINT_URL_S3").or_else(|| get("AWS_ENDPOINT_URL")),
            region: get("AWS_REGION").or_else(|| get("AWS_DEFAULT_REGION")),
            access_key_id: secret("AWS_ACCESS_KEY_ID"),
            secret_access_key: secret("AWS_SECRET_ACCESS_KEY"),
            session_token: secret("AWS_SESSION_TOKEN"),
            allow_http: get("AWS_ALLOW_HTTP").is_some_and(|value| value.eq_ignore_ascii_case("true")),
        }
    }

    /// What a request needs, or what is missing.
    pub(super) fn checked(&self) -> Result<Account, BlobErrorKind> {
        let wrong = |what: &str| BlobErrorKind::Settings(what.to_owned());
        let (Some(key), Some(secret)) = (&self.access_key_id, &self.secret_access_key) else {
            return Err(wrong(
                "the bucket has no keys; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary ones)",
            ));
        };
        let endpoint = self.endpoint.as_ref().map(|endpoint| {
            let url = Url::parse(endpoint)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            url.ok_or_else(|| wrong("AWS_ENDPOINT_URL is not an http or https URL; write https://host"))
        });
        let endpoint = endpoint.transpose()?;
        if let Some(url) = &endpoint {
            if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
                return Err(wrong("AWS_ENDPOINT_URL holds a user, a key or a `?`; write https://host"));
            }
            if url.scheme() == "http" && !is_here(url) && !self.allow_http {
                return Err(wrong(
                    "blobs would go over the network unencrypted; write https:// in AWS_ENDPOINT_URL, or set AWS_ALLOW_HTTP=true",
                ));
            }
        }
        Ok(Account {
            is_here: endpoint.as_ref().is_some_and(is_here),
            endpoint: endpoint.map(|url| url.as_str().trim_end_matches('/').to_owned()),
            region: self.region.clone().unwrap_or_else(|| "us-east-1".to_owned()),
            key: key.expose_secret().to_owned(),
            secret: secret.expose_secret().to_owned(),
            token: self.session_token.as_ref().map(|token| token.expose_secret().to_owned()),
        })
    }
}

/// Settings that are complete. It has no `Debug`, since it holds keys.
pub(super) struct Account {
    pub(super) endpoint: Option<String>,
    /// Whether the server is on this machine.
    pub(super) is_here: bool,
    pub(super) region: String,
    pub(super) key: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn settings(variables: &[(&str, &str)]) -> S3Settings {
        let get =
            |name: &str| variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
        S3Settings::from_variables(get)
    }

    const KEYS: [(&str, &str); 3] = [
        ("AWS_ACCESS_KEY_ID", "hidden-id"),
        ("AWS_SECRET_ACCESS_KEY", "hidden-key"),
        ("AWS_SESSION_TOKEN", "hidden-token"),
    ];

    #[test]
    fn the_variables_are_those_of_other_programs_and_the_nearer_one_wins() {
        let more = [
            ("AWS_ENDPOINT_URL", "https://a"),
            ("AWS_ENDPOINT_URL_S3", "https://b"),
            ("AWS_DEFAULT_REGION", "r"),
        ];
        let account =
            settings(&[&KEYS[..], &more].concat()).checked().unwrap_or_else(|kind| panic!("{kind}"));
        assert_eq!((account.endpoint.as_deref(), &*account.region), (Some("https://b"), "r"));
        assert_eq!(
            (&*account.key, &*account.secret, account.token.as_deref()),
            ("hidden-id", "hidden-key", Some("hidden-token"))
        );
        let plain = settings(&KEYS).checked().unwrap_or_else(|kind| panic!("{kind}"));
        assert_eq!((plain.endpoint, &*plain.region), (None, "us-east-1"));
    }

    #[test]
    fn what_is_wrong_says_what_to_set_and_shows_no_key() {
        let with = |endpoint: &str| settings(&[&KEYS[..], &[("AWS_ENDPOINT_URL", endpoint)]].concat());
        let cases = [
            (settings(&KEYS[..1]), "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
            (settings(&[("AWS_ACCESS_KEY_ID", " "), KEYS[1]]), "set AWS_ACCESS_KEY_ID"),
            (with("nothing"), "write https://host"),
            (with("ftp://hidden"), "write https://host"),
            (with("https://hidden:hidden@host"), "write https://host"),
            (with("http://minio.example"), "AWS_ALLOW_HTTP=true"),
        ];
        for (settings, fix) in cases {
            let text = settings.checked().map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(fix), "{text}");
            assert!(!text.contains("hidden"), "{text}");
            assert!(!format!("{settings:?}").contains("hidden-"), "{settings:?}");
        }
        for here in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"] {
            assert!(with(here).checked().is_ok(), "{here}");
        }
        let allowed = S3Settings { allow_http: true, ..with("http://minio.example") };
        assert!(allowed.checked().is_ok());
    }
}
