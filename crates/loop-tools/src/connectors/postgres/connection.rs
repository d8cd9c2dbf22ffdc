//! One connection: made, encrypted, logged in, and what stops a statement on it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Client, Config, NoTls, SimpleQueryMessage};
use tokio_rustls::TlsConnector;

use crate::connectors::postgres::failure::{SentQuery, failure, line};
use crate::connectors::postgres::login::Login;
use crate::connectors::postgres::run::PreparedStatement;
use crate::connectors::postgres::wire::{CheckedStream, Stream, WireError};
use crate::connectors::tls::client_config;
use crate::connectors::trouble::Trouble;

/// What a client sends before anything else where it wants TLS.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// How long a request to stop a statement may take, and the end of a connection.
pub(crate) const STOPS_WITHIN: Duration = Duration::from_secs(2);
/// A setting that a session of the server has where it is this connection's own.
const OWN: &str = "loopgate.own_session";
/// How long a new session has for its first answer.
const FIRST: Duration = Duration::from_secs(4);
/// How many statements a connection keeps prepared.
const PREPARED_MAX: usize = 100;

/// How connections are protected.
#[derive(Clone)]
pub(crate) enum Encryption {
    Off,
    /// Certificates are verified by the operating system.
    Platform,
    /// Further authorities are trusted.
    Trusting(Arc<rustls::ClientConfig>),
}

/// A connection that is logged in.
pub(crate) struct Connection {
    pub(crate) client: Client,
    driver: Driver,
    /// Whom it is logged in as.
    pub(crate) login: Login,
    statements: HashMap<Arc<str>, Arc<PreparedStatement>>,
    /// Whether the server looks, while it works, whether this program is still there.
    pub(crate) notices_end: bool,
    /// Whether a pooler is between: each transaction may be in another session of the server, so that it sets all that it needs,
    /// and nothing is kept behind it.
    pub(crate) is_pooled: bool,
}

/// What reads and writes for a client. It ends with the connection, with why, and at the latest when it is dropped: a server
/// that is silent would keep it otherwise.
struct Driver(Option<JoinHandle<Option<tokio_postgres::Error>>>);

impl Driver {
    /// Waits for its end, which is known once.
    async fn end(&mut self, within: Duration) -> Option<tokio_postgres::Error> {
        let ended = tokio::time::timeout(within, self.0.as_mut()?).await;
        let error = ended.ok()?.ok();
        self.0 = None;
        error?
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(driver) = &self.0 {
            driver.abort();
        }
    }
}

impl Connection {
    /// A new connection. The caller bounds its time.
    pub(crate) async fn open(login: &Login, encryption: &Encryption, options: &str) -> Result<Self, Trouble> {
        let options = format!("{options} -c {OWN}=on");
        let (client, driver) = match logged_in(login, encryption, Some(&options)).await {
            Ok(made) => made,
            // Poolers do not take them.
            Err(LoginFault::Said(error)) if error.code() == Some(&SqlState::PROTOCOL_VIOLATION) => {
                logged_in(login, encryption, None).await.map_err(LoginFault::trouble)?
            }
            Err(fault) => return Err(fault.trouble()),
        };
        // One that ignores them says nothing.
        let own = format!("SELECT pg_catalog.current_setting('{OWN}', true)");
        // The login itself a pooler answers from what it knows.
        let own = tokio::time::timeout(FIRST, client.simple_query(&own)).await.map_err(|_| {
            Trouble::Retryable(format!(
                "the server takes the login and gives no session within {} s; where a pooler is between, let its pool have one \
                 for each connection of the source (`pool`)",
                FIRST.as_secs()
            ))
        })?;
        let own = own.map_err(|error| refused(&error))?;
        let is_own = own.iter().any(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0) == Some("on"),
            _ => false,
        });
        let mut made = Self {
            client,
            driver,
            login: login.clone(),
            statements: HashMap::new(),
            notices_end: false,
            is_pooled: !is_own,
        };
        // Servers before version 14 do not know it, and some systems cannot do it.
        let probe = "SET client_connection_check_interval = 1000; RESET client_connection_check_interval";
        made.notices_end = made.client.batch_execute(probe).await.is_ok();
        Ok(made)
    }

    /// A statement that was prepared here before.
    pub(crate) fn prepared(&self, sql: &str) -> Option<Arc<PreparedStatement>> {
        self.statements.get(sql).cloned()
    }

    /// Keeps a prepared statement for the next call.
    pub(crate) fn keep(&mut self, sql: &Arc<str>, prepared: Arc<PreparedStatement>) {
        if self.is_pooled {
            return;
        }
        if self.statements.len() >= PREPARED_MAX {
            self.statements.clear();
        }
        self.statements.insert(Arc::clone(sql), prepared);
    }

    /// Forgets a prepared statement.
    pub(crate) fn forget(&mut self, sql: &str) {
        self.statements.remove(sql);
    }

    /// Why the connection ended, where it has; waits a moment for the end to be known.
    pub(crate) async fn end(&mut self) -> Option<Trouble> {
        let error = self.driver.end(Duration::from_millis(100)).await?;
        // What the server says when an operator ends it comes here where no request waits for an answer.
        Some(failure(&error, SentQuery::NONE))
    }

    /// Stops what the server does for this connection, and closes it. Ends within a few seconds in every case.
    pub(crate) async fn stop(self, encryption: &Encryption) {
        let token = self.client.cancel_token();
        if !self.client.is_closed() {
            // Where it fails, the server notices the closed connection, or its time limit ends the statement.
            _ = tokio::time::timeout(STOPS_WITHIN, cancel(&token, &self.login, encryption)).await;
        }
        self.close().await;
    }

    /// Closes the connection and waits until it is closed.
    pub(crate) async fn close(self) {
        let Self { client, mut driver, .. } = self;
        drop(client);
        driver.end(STOPS_WITHIN).await;
    }
}

/// Why a login failed.
enum LoginFault {
    /// The server says it, or the connection broke.
    Said(tokio_postgres::Error),
    Known(Trouble),
}

impl LoginFault {
    fn trouble(self) -> Trouble {
        match self {
            Self::Said(error) => refused(&error),
            Self::Known(trouble) => trouble,
        }
    }
}

/// A client that is logged in.
async fn logged_in(
    login: &Login,
    encryption: &Encryption,
    options: Option<&str>,
) -> Result<(Client, Driver), LoginFault> {
    let stream = stream(login, encryption).await.map_err(LoginFault::Known)?;
    let mut config = Config::new();
    config
        .user(&login.user)
        .dbname(&login.database)
        .application_name("loopgate")
        .ssl_mode(SslMode::Disable)
        .channel_binding(ChannelBinding::Disable);
    if let Some(options) = options {
        config.options(options);
    }
    if let Some(password) = &login.password {
        config.password(password);
    }
    let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(LoginFault::Said)?;
    let driver = Driver(Some(tokio::spawn(async move { connection.await.err() })));
    Ok((client, driver))
}

/// Asks the server to stop a statement, as another connection.
async fn cancel(token: &CancelToken, login: &Login, encryption: &Encryption) -> Result<(), Trouble> {
    let stream = stream(login, encryption).await?;
    token.cancel_query_raw(stream, NoTls).await.map_err(|error| refused(&error))
}

/// A stream to the server, encrypted where it has to be.
async fn stream(login: &Login, encryption: &Encryption) -> Result<CheckedStream, Trouble> {
    let (host, port) = (login.host.as_str(), login.port);
    let unreachable = |error: io::Error| {
        Trouble::Retryable(format!("no connection to {host} port {port}: {}", line(&error.to_string())))
    };
    #[cfg(unix)]
    if host.starts_with('/') {
        let path = std::path::Path::new(host).join(format!(".s.PGSQL.{port}"));
        let stream = tokio::net::UnixStream::connect(&path).await.map_err(unreachable)?;
        return Ok(CheckedStream::new(Box::new(stream), false));
    }
    let mut stream = TcpStream::connect((host, port)).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    let settings = match encryption {
        Encryption::Off => return Ok(CheckedStream::new(Box::new(stream), !login.is_local())),
        Encryption::Platform => {
            let settings = client_config(None);
            Arc::new(settings.map_err(|error| Trouble::Permanent(error.to_string()))?)
        }
        Encryption::Trusting(settings) => Arc::clone(settings),
    };
    stream.write_all(&TLS_REQUEST).await.map_err(unreachable)?;
    let permanent = |message: String| Trouble::Permanent(message);
    match stream.read_u8().await.map_err(unreachable)? {
        b'S' => {}
        // A server that does not encrypt does not receive the name of the role either.
        b'N' => {
            return Err(permanent(format!(
                "the server {host} does not offer TLS; switch it on there, or write `tls = \"off\"` where the network is safe"
            )));
        }
        _ => return Err(permanent(WireError::NotPostgres.to_string())),
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        permanent(format!("`{host}` is not a name that a certificate can be verified for; correct it"))
    })?;
    let encrypted: Box<dyn Stream> =
        Box::new(TlsConnector::from(settings).connect(name, stream).await.map_err(|error| {
            let is_tls = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
            let says = line(&error.to_string());
            if is_tls {
                permanent(format!(
                    "TLS with {host} fails: {says}; name the certificate of the server's authority in `ca`, or correct \
                     `host`"
                ))
            } else {
                Trouble::Retryable(format!("no connection to {host} port {port}: {says}"))
            }
        })?);
    Ok(CheckedStream::new(encrypted, false))
}

/// Why a login failed.
fn refused(error: &tokio_postgres::Error) -> Trouble {
    match failure(error, SentQuery::NONE) {
        // A server that closes the connection while it logs in.
        Trouble::Retryable(message) if error.as_db_error().is_none() => {
            Trouble::Retryable(format!("{message} during the login"))
        }
        other => other,
    }
}
