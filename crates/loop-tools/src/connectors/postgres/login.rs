//! Where a server is and who logs in, with the secret of it.

use std::net::IpAddr;

use crate::Credentials;
use loop_core::secrets::Secrets;
use tokio_postgres::config::Host;

use crate::connectors::postgres::settings::PostgresLogin;
use crate::connectors::trouble::Trouble;

/// The port, unless another is named.
const PORT: u16 = 5_432;
/// What a URL has to be.
const URL: &str = "postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters percent-encoded";

/// The name of the secret that a login needs.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Parts { login: PostgresLogin, secret: Option<String> },
    Url { secret: String },
}

/// A login, complete.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) database: String,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
}

impl Origin {
    pub(crate) fn of(login: &PostgresLogin) -> Self {
        match login {
            PostgresLogin::Parts { password_env, .. } => {
                Self::Parts { login: login.clone(), secret: password_env.clone() }
            }
            PostgresLogin::Url { url_env } => Self::Url { secret: url_env.clone() },
        }
    }

    /// The secret's name.
    pub(crate) fn secret(&self) -> Option<&str> {
        match self {
            Self::Parts { secret, .. } => secret.as_deref(),
            Self::Url { secret } => Some(secret),
        }
    }

    /// The login with what `credentials` hold.
    ///
    /// # Errors
    /// The secret is not there, or is not what it has to be. No message holds a part of it.
    pub(crate) fn login(&self, credentials: &Credentials, is_unencrypted: bool) -> Result<Login, Trouble> {
        let secret = match self.secret() {
            None => None,
            Some(name) => {
                let found = credentials.get(name).map(str::trim).filter(|secret| !secret.is_empty());
                Some(found.ok_or_else(|| {
                    Trouble::Permanent(format!("the secret `{name}` is not set, and this source needs it"))
                })?)
            }
        };
        match (self, secret) {
            (Self::Parts { login: PostgresLogin::Parts { host, port, database, user, .. }, .. }, secret) => {
                Ok(Login {
                    host: host.trim().to_owned(),
                    port: *port,
                    database: database.clone(),
                    user: user.clone(),
                    password: secret.map(str::to_owned),
                })
            }
            (Self::Url { secret: name }, Some(url)) => of_url(url, is_unencrypted)
                .map_err(|wrong| Trouble::Permanent(format!("the secret `{name}`: {wrong}"))),
            (Self::Parts { .. } | Self::Url { .. }, _) => {
                Err(Trouble::Permanent("the source names no server".to_owned()))
            }
        }
    }
}

impl Login {
    /// What hides the password, as it is and as a URL may write it.
    pub(crate) fn mask(&self, credentials: &Credentials, place: &Origin) -> Secrets {
        let mut mask = Secrets::default();
        let secret = place.secret().and_then(|name| credentials.get(name)).map(str::trim);
        for secret in self.password.as_deref().into_iter().chain(secret) {
            mask.add(secret);
        }
        if let (Origin::Url { .. }, Some(url)) = (place, secret) {
            passwords_in(url).iter().for_each(|password| mask.add(password));
        }
        mask
    }

    /// Whether the server is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        is_local(&self.host)
    }
}

/// The password in a URL, as it is written there and decoded.
pub(crate) fn passwords_in(url: &str) -> Vec<String> {
    let written = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    let written = written.and_then(|(user, _)| user.split_once(':')).map(|(_, password)| password.to_owned());
    let decoded = of_url(url, true).ok().and_then(|login| login.password);
    let mut passwords: Vec<String> =
        written.into_iter().chain(decoded).filter(|text| !text.is_empty()).collect();
    passwords.dedup();
    passwords
}

/// Whether the host is this machine: a Unix socket or a loopback address.
pub(crate) fn is_local(host: &str) -> bool {
    let host = host.trim();
    host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn of_url(url: &str, is_unencrypted: bool) -> Result<Login, String> {
    let wrong = || format!("it is not a URL of one PostgreSQL server; write {URL}");
    let (base, options) = url.split_once('?').unwrap_or((url, ""));
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        if key != "sslmode" {
            return Err(
                "its URL has options behind `?`; only `sslmode` is read, so set the rest in the source"
                    .to_owned(),
            );
        }
        // Other modes ask for less than what is done anyway: the certificate is always verified.
        if value == "disable" && !is_unencrypted {
            return Err(
                "its URL says `sslmode=disable`; add `tls = \"off\"` to the source, or take it out of the URL".to_owned()
            );
        }
    }
    // The parser also reads a list of words, which could name a file.
    if !(base.starts_with("postgres://") || base.starts_with("postgresql://")) {
        return Err(wrong());
    }
    let config: tokio_postgres::Config = base.parse().map_err(|_| wrong())?;
    let [host] = config.get_hosts() else { return Err(wrong()) };
    let host = match host {
        Host::Tcp(host) => host.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.to_string_lossy().into_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(PORT);
    let (Some(user), Some(database)) = (config.get_user(), config.get_dbname()) else {
        return Err(format!("its URL names no user or no database; write {URL}"));
    };
    let password = config.get_password().map(|password| String::from_utf8_lossy(password).into_owned());
    Ok(Login { host, port, database: database.to_owned(), user: user.to_owned(), password })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn credentials(url: &str) -> Credentials {
        [("DB".to_owned(), url.to_owned())].into_iter().collect()
    }

    fn place() -> Origin {
        Origin::of(&PostgresLogin::Url { url_env: "DB".to_owned() })
    }

    #[test]
    fn a_url_is_read_and_its_password_is_masked_in_each_form() {
        // K13
        let credentials =
            credentials("postgresql://ada:p%40ss-w0rd-1@db.example:6432/erp?sslmode=verify-full");
        let login = place().login(&credentials, false).unwrap();
        assert_eq!(
            (&*login.host, login.port, &*login.database, &*login.user, login.password.as_deref()),
            ("db.example", 6_432, "erp", "ada", Some("p@ss-w0rd-1"))
        );
        let mask = login.mask(&credentials, &place());
        assert_eq!(mask.mask_message("p@ss-w0rd-1 p%40ss-w0rd-1"), "[masked] [masked]");
    }

    #[test]
    fn a_wrong_secret_is_said_without_a_part_of_it() {
        // K13
        for url in [
            "ada:topsecret1@db/erp",
            "host=db user=ada password=topsecret1 dbname=erp",
            "postgres://ada:topsecret1@one,two/erp",
            "postgres://ada:topsecret1@db",
            "postgres://ada:top#secret1@db:x/erp",
            "postgres://ada:topsecret1@db/erp?sslmode=disable",
            "postgres://ada:topsecret1@db/erp?options=topsecret1",
            "",
        ] {
            let Err(Trouble::Permanent(message)) = place().login(&credentials(url), false) else {
                panic!("{url} is accepted");
            };
            assert!(message.starts_with("the secret `DB`") && !message.contains("secret1"), "{message}");
        }
        assert!(place().login(&credentials("postgres://a:b@db/erp?sslmode=disable"), true).is_ok());
    }

    #[test]
    fn this_machine_is_known() {
        for host in ["localhost", "127.0.0.1", "127.9.9.9", "::1", "/var/run/postgresql"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["db.example", "10.0.0.1", "localhost.example", "0.0.0.0"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
