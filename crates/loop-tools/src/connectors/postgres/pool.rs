//! The connections of a source: at most so many, used again while they are whole.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Credentials;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connectors::postgres::connection::{Connection, Encryption};
use crate::connectors::postgres::login::{Login, Origin};
use crate::connectors::postgres::settings::PostgresSettings;
use crate::connectors::trouble::Trouble;

/// How long a connection may have been idle to be used without a look whether it still works.
const FRESH: Duration = Duration::from_millis(500);
/// How long a connection has to answer that look.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// How long an idle connection is kept.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// What ends the transaction of a call that changed nothing. A rollback also takes back settings, the role, notifications and
/// temporary tables, so that locks of the session are all that is left.
const UNDO: &str = "ROLLBACK; SELECT pg_catalog.pg_advisory_unlock_all()";
/// What takes back what a call did to its session, behind a COMMIT.
const RESET: &str = "SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; SELECT pg_catalog.pg_advisory_unlock_all(); \
                     DISCARD TEMP";

/// How a call left its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionEnd {
    Open,
    Committed,
}

/// The connections of a source.
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) settings: PostgresSettings,
    pub(crate) place: Origin,
    encryption: Encryption,
    /// What each connection begins with, as the server reads it.
    options: String,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<IdleConnection>>,
}

struct IdleConnection {
    connection: Connection,
    since: Instant,
}

/// A connection that one call has for itself. Dropped before it is given back, its statement is stopped and it is closed.
pub(crate) struct Lease {
    connection: Option<Connection>,
    /// Whether the connection served another call before.
    was_used: bool,
    permit: Option<OwnedSemaphorePermit>,
    pool: Arc<Pool>,
}

impl Pool {
    pub(crate) fn new(name: &str, settings: PostgresSettings, encryption: Encryption, place: Origin) -> Self {
        // What is outside of a transaction can only read.
        let mut options = "-c default_transaction_read_only=on".to_owned();
        for (name, value) in settings.of_sessions() {
            options.push_str(&format!(" -c {name}={}", escaped(&value)));
        }
        Self {
            name: name.to_owned(),
            permits: Arc::new(Semaphore::new(settings.pool)),
            settings,
            place,
            encryption,
            options,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// The same source without connections.
    pub(crate) fn empty_copy(&self) -> Self {
        Self::new(&self.name, self.settings.clone(), self.encryption.clone(), self.place.clone())
    }

    /// Whether connections are not encrypted.
    pub(crate) fn is_unencrypted(&self) -> bool {
        matches!(self.encryption, Encryption::Off)
    }

    /// The login with what `credentials` hold.
    pub(crate) fn login(&self, credentials: &Credentials) -> Result<Login, Trouble> {
        self.place.login(credentials, self.is_unencrypted())
    }

    /// A connection for one call: an idle one that still works, or a new one.
    pub(crate) async fn lease(self: &Arc<Self>, login: &Login, within: Duration) -> Result<Lease, Trouble> {
        let limit = within.min(self.settings.connect_timeout);
        let waits = tokio::time::timeout(limit, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = waits else {
            let count = self.settings.pool;
            return Err(Trouble::Retryable(format!(
                "all {count} connections of the source are in use; try again later"
            )));
        };
        let mut lease =
            Lease { connection: None, was_used: false, permit: Some(permit), pool: Arc::clone(self) };
        while let Some(idle) = self.take() {
            if idle.connection.login != *login {
                idle.connection.close().await;
                continue;
            }
            let is_fresh = idle.since.elapsed() < FRESH;
            lease.connection = Some(idle.connection);
            if is_fresh || lease.works().await {
                lease.was_used = true;
                return Ok(lease);
            }
            lease.connection = None;
        }
        let opened =
            tokio::time::timeout(limit, Connection::open(login, &self.encryption, &self.options)).await;
        let opened = opened.unwrap_or_else(|_| {
            let (host, port, ms) = (&login.host, login.port, limit.as_millis());
            Err(Trouble::Retryable(format!("no connection to {host} port {port}: no answer within {ms} ms")))
        });
        lease.connection = Some(opened?);
        Ok(lease)
    }

    /// The idle connection that was used last. Others that were idle for too long, or are closed, are dropped.
    fn take(&self) -> Option<IdleConnection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|idle| idle.since.elapsed() < IDLE_MAX && !idle.connection.client.is_closed());
        idle.pop()
    }

    fn put(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(IdleConnection { connection, since: Instant::now() });
    }
}

impl Lease {
    /// The connection.
    ///
    /// # Errors
    /// It was given back already.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, Trouble> {
        let gone = || Trouble::Retryable("the connection is closed".to_owned());
        self.connection.as_mut().ok_or_else(gone)
    }

    /// Whether the connection served another call before.
    pub(crate) fn was_used(&self) -> bool {
        self.was_used
    }

    /// Whether the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.client.is_closed())
    }

    /// Closes the connection.
    pub(crate) async fn close(mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
    }

    /// Whether the connection answers.
    async fn works(&self) -> bool {
        let Some(connection) = &self.connection else { return false };
        let look = tokio::time::timeout(ANSWERS_WITHIN, connection.client.check_connection()).await;
        matches!(look, Ok(Ok(())))
    }

    /// Gives the connection back, without anything that the call left in it. Where that takes too long, the connection is
    /// closed.
    pub(crate) async fn give_back(mut self, left: TransactionEnd) {
        let Some(connection) = &self.connection else { return };
        let batch = match (left, connection.is_pooled) {
            // Its session may be that of another client by now, and the pooler resets its own.
            (TransactionEnd::Committed, true) => return self.close().await,
            (TransactionEnd::Open, true) => "ROLLBACK",
            (TransactionEnd::Open, false) => UNDO,
            (TransactionEnd::Committed, false) => RESET,
        };
        let reset = tokio::time::timeout(ANSWERS_WITHIN, connection.client.batch_execute(batch)).await;
        if matches!(reset, Ok(Ok(())))
            && let Some(connection) = self.connection.take()
        {
            let pool = Arc::clone(&self.pool);
            pool.put(connection);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let permit = self.permit.take();
        let encryption = self.pool.encryption.clone();
        // Without a runtime nothing can be sent, and the connection is just closed.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // The place in the pool is free again when the connection is gone.
            drop(runtime.spawn(async move {
                connection.stop(&encryption).await;
                drop(permit);
            }));
        }
    }
}

/// A value of an option as the server splits them: at spaces, and with backslashes as they are.
fn escaped(value: &str) -> String {
    value.chars().flat_map(|c| if c == ' ' || c == '\\' { vec!['\\', c] } else { vec![c] }).collect()
}
