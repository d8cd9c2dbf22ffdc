//! The address and the keys of a bucket.

use std::env;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use crate::blobs::error::BlobErrorKind;

/// The address and the keys of a bucket, from the environment variables that S3 tools share. `Debug` shows no key.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct S3Settings {
    /// URL of the server. `AWS_ENDPOINT_URL_S3`, else `AWS_ENDPOINT_URL`. `None`: that of Amazon for the region.
    pub endpoint: Option<String>,
    /// `AWS_REGION`, else `AWS_DEFAULT_REGION`. `None`: `us-east-1`.
    pub region: Option<String>,
    /// `AWS_ACCESS_KEY_ID`, or `aws_access_key_id` of the file of keys.
    pub access_key_id: Option<SecretString>,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: Option<SecretString>,
    /// `AWS_SESSION_TOKEN`, which temporary keys need.
    pub session_token: Option<SecretString>,
    /// Whether blobs may be sent unencrypted: `AWS_ALLOW_HTTP=true`. A server on this machine does not need it.
    pub allow_http: bool,
    /// Why the file of keys has none.
    fault: Option<String>,
}

impl S3Settings {
    /// The settings in the environment. If it has no keys, they are read from the file in `AWS_SHARED_CREDENTIALS_FILE`
    /// or `~/.aws/credentials`, in the section of `AWS_PROFILE` or `[default]`.
    pub fn from_env() -> Self {
        let settings = Self::from_variables(|name| env::var(name).ok());
        if settings.access_key_id.is_some() || settings.secret_access_key.is_some() {
            return settings;
        }
        let given = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let named = given("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
        let own = || env::home_dir().map(|home| home.join(".aws/credentials")).filter(|file| file.exists());
        let profile = given("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        match named.or_else(own) {
            Some(file) => settings.with_file(&file, &profile),
            None => settings,
        }
    }

    /// The settings with the keys of a section of a file: `[profile]`, and lines of `name = value`, in the format of
    /// other S3 tools. An error in it is reported when a store is opened.
    #[must_use]
    pub fn with_file(self, file: &Path, profile: &str) -> Self {
        let named = file.display();
        let mut text = String::new();
        // A pipe would be waited for.
        let opened = match std::fs::metadata(file) {
            Ok(found) if !found.is_file() => Err(std::io::Error::other("it is not a file")),
            found => found.and_then(|_| File::open(file)),
        };
        let read = opened.and_then(|opened| opened.take(MAX_FILE).read_to_string(&mut text));
        let keys = read.map(|_| section(&text, profile));
        let fault = match keys {
            Err(error) => format!("the file of keys {named}: {error}; correct AWS_SHARED_CREDENTIALS_FILE"),
            Ok(None) => format!("the file of keys {named} has no section [{profile}]; correct AWS_PROFILE"),
            Ok(Some((Some(id), Some(secret), token))) => {
                return Self {
                    access_key_id: Some(id.into()),
                    secret_access_key: Some(secret.into()),
                    session_token: token.map(Into::into),
                    ..self
                };
            }
            Ok(Some(_)) => format!(
                "the file of keys {named} has no aws_access_key_id or no aws_secret_access_key in [{profile}]; add it"
            ),
        };
        Self { fault: Some(fault), ..self }
    }

    /// The settings in these variables. An empty one counts as not set.
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
            fault: None,
        }
    }

    /// The complete settings, or what is missing.
    pub(super) fn checked(&self) -> Result<Account, BlobErrorKind> {
        let wrong = |what: &str| BlobErrorKind::Settings(what.to_owned());
        if let Some(fault) = &self.fault {
            return Err(wrong(fault));
        }
        let (Some(key), Some(secret)) = (&self.access_key_id, &self.secret_access_key) else {
            return Err(wrong(
                "the bucket has no keys; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary ones), or AWS_SHARED_CREDENTIALS_FILE to a file that has them",
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

/// Complete settings. There is no `Debug`, since they contain keys.
pub(super) struct Account {
    pub(super) endpoint: Option<String>,
    /// Whether the server is on this machine.
    pub(super) is_here: bool,
    pub(super) region: String,
    pub(super) key: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

/// The key id, the secret and the token in a section. `None`: there is no such section.
fn section(text: &str, profile: &str) -> Option<(Option<String>, Option<String>, Option<String>)> {
    let mut found = None;
    let mut is_in = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_in = name.trim() == profile;
            if is_in {
                found.get_or_insert((None, None, None));
            }
        } else if let (true, Some((id, secret, token)), Some((name, value))) =
            (is_in, &mut found, line.split_once('='))
        {
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match name.trim() {
                "aws_access_key_id" => *id = value,
                "aws_secret_access_key" => *secret = value,
                "aws_session_token" => *token = value,
                _ => {}
            }
        }
    }
    found
}

/// The most bytes of a file of keys.
const MAX_FILE: u64 = 1 << 20;

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
    fn keys_come_from_the_section_of_a_file_that_other_programs_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let text = "# a comment\n[default]\naws_access_key_id = hidden-one\naws_secret_access_key=hidden=two\n\n\
                    [ blobs ]\r\naws_access_key_id = hidden-id\r\naws_secret_access_key = hidden-key\r\n\
                    aws_session_token = hidden-token\r\nregion = x\n[half]\naws_access_key_id = hidden\n";
        std::fs::write(&file, text).unwrap();
        let of = |profile: &str| settings(&[("AWS_REGION", "r")]).with_file(&file, profile);
        let account = |profile: &str| of(profile).checked().unwrap_or_else(|kind| panic!("{kind}"));
        let (one, two) = (account("default"), account("blobs"));
        assert_eq!(
            (&*one.key, &*one.secret, one.token, &*one.region),
            ("hidden-one", "hidden=two", None, "r")
        );
        assert_eq!(
            (&*two.key, &*two.secret, two.token.as_deref()),
            ("hidden-id", "hidden-key", Some("hidden-token"))
        );
        let none = settings(&[]).with_file(&folder.path().join("none"), "default");
        for (settings, fix) in [
            (of("half"), "no aws_secret_access_key in [half]"),
            (of("other"), "AWS_PROFILE"),
            (none, "AWS_SHARED_CREDENTIALS_FILE"),
        ] {
            let text = settings.checked().map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(fix) && text.lines().count() == 1, "{text}");
            assert!(!format!("{text} {settings:?}").contains("hidden"), "{text}");
        }
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
