//! A server as this process uses it: how sessions are made, and the thread that reads and writes for all of them.

use std::future::Future;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::broadcast;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use uuid::Uuid;

use super::fault::SessionError;
use super::session::Session;
use super::tls::Tls;
use super::url::JournalUrl;
use crate::stored::changes::JournalChange;

/// What moves the bytes of all sessions of this process. The journal's callers are threads that may wait.
static RUNTIME: LazyLock<Option<Handle>> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let handle = runtime.handle().clone();
    let spawned = thread::Builder::new().name("loopgate-postgres".to_owned());
    spawned.spawn(move || runtime.block_on(std::future::pending::<()>())).ok()?;
    Some(handle)
});

/// How long a statement may take.
const STATEMENT: Duration = Duration::from_secs(60);
/// How long until a server that went away is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// A server, and how this process is known there.
pub(in super::super) struct Server {
    pub(super) url: JournalUrl,
    tls: Option<Tls>,
    /// Names this process, as long as it has the journal open.
    pub(super) id: String,
    pub(super) changes: OnceLock<broadcast::Sender<JournalChange>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url.shown()).finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn new(mut url: JournalUrl) -> Result<Arc<Self>, SessionError> {
        let id = Uuid::new_v4().to_string();
        url.config.application_name(application(&id));
        let tls = if url.is_encrypted {
            Some(Tls::new(url.authorities.as_deref()).map_err(SessionError::Stated)?)
        } else {
            None
        };
        Ok(Arc::new(Self { url, tls, id, changes: OnceLock::new() }))
    }

    /// A new session.
    pub(in super::super) fn connect(self: &Arc<Self>) -> Result<Session, SessionError> {
        let (config, tls) = self.login();
        let has_password = config.get_password().is_some();
        let client = wait(connected(config, tls, |_| {})).map_err(|error| {
            // The server says nothing of it: it is the client that has none to give.
            let is_own = error.is_of_client() && !has_password;
            let wants = "the server wants a password; set PGPASSWORD, or write it into ~/.pgpass";
            if is_own { SessionError::Stated(wants.to_owned()) } else { error }
        })?;
        Session::begin(Arc::clone(self), Arc::new(client))
    }

    /// A new session, once the server is there again; waits as long as the URL says.
    pub(super) fn connect_again(self: &Arc<Self>) -> Result<Session, SessionError> {
        let until = Instant::now() + self.url.wait;
        loop {
            match self.connect() {
                Err(error)
                    if (error.is_disconnected() || matches!(error, SessionError::NoSession))
                        && Instant::now() < until =>
                {
                    thread::sleep(AGAIN);
                }
                connected => return connected,
            }
        }
    }

    /// How a client logs in.
    pub(super) fn login(&self) -> (Config, Option<Tls>) {
        (self.url.config.clone(), self.tls.clone())
    }

    /// The name of this process at the server.
    pub(in super::super) fn id(&self) -> &str {
        &self.id
    }
}

/// A logged-in client. `receive` gets what the server says without being asked. What reads and writes for the client ends with
/// it.
pub(super) async fn connected(
    config: Config,
    tls: Option<Tls>,
    receive: impl Fn(AsyncMessage) + Send + 'static,
) -> Result<Client, tokio_postgres::Error> {
    match tls {
        None => {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(drive(connection, receive));
            Ok(client)
        }
        Some(tls) => {
            let (client, connection) = config.connect(tls).await?;
            tokio::spawn(drive(connection, receive));
            Ok(client)
        }
    }
}

async fn drive<S, T>(mut connection: tokio_postgres::Connection<S, T>, receive: impl Fn(AsyncMessage))
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
        receive(message);
    }
}

/// How the sessions of a process are called at the server.
pub(super) fn application(id: &str) -> String {
    format!("loopgate {id}")
}

/// Begins a task of the journal's own thread.
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Some(runtime) = &*RUNTIME {
        runtime.spawn(task);
    }
}

/// What comes of a request to a server. The calling thread waits for it.
pub(super) fn wait<T: Send + 'static>(
    request: impl Future<Output = Result<T, tokio_postgres::Error>> + Send + 'static,
) -> Result<T, SessionError> {
    wait_within(STATEMENT, request)
}

/// The same within another time.
pub(super) fn wait_within<T: Send + 'static>(
    time: Duration,
    request: impl Future<Output = Result<T, tokio_postgres::Error>> + Send + 'static,
) -> Result<T, SessionError> {
    let Some(runtime) = &*RUNTIME else {
        return Err(SessionError::Stated(
            "the system gives no thread for the connections; end other programs".into(),
        ));
    };
    let (reply, done) = sync_channel(1);
    runtime.spawn(async move {
        let came = tokio::time::timeout(time, request).await;
        // The caller waits for it.
        _ = reply.send(came.map_or(Err(SessionError::Silent), |came| came.map_err(SessionError::Client)));
    });
    done.recv().unwrap_or(Err(SessionError::Silent))
}
