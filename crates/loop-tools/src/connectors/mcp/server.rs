//! One server, shared by all tools and runs that use it. A thread of its own starts it, speaks with it and ends it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::Credentials;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::connectors::command::sandbox;
use crate::connectors::error::{ConnectorError, one_line};
use crate::connectors::mcp::connection::{Answer, Ask, Live, NoConnection};
use crate::connectors::mcp::endpoint::Endpoint;
use crate::connectors::mcp::manifest::McpManifest;
use crate::connectors::mcp::program::Recipe;
use crate::connectors::mcp::settings::{McpSettings, McpTransport};
use crate::connectors::trouble::Trouble;

/// A connection that was lost within this time counts as a failure to start.
const SHORT_LIFE: Duration = Duration::from_secs(10);
/// How many failures in a row are answered with another try at once.
const TRIES_AT_ONCE: u32 = 2;
/// The longest wait after more of them.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Why a server could not be used, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct McpError {
    message: String,
}

/// A server of the Model Context Protocol. A clone shares it: all tools of it in all runs of a process use one connection,
/// which is made when it is first needed and again after it was lost. When the last clone is dropped, the server is ended.
#[derive(Clone)]
pub struct McpClient(Arc<ServerInner>);

struct ServerInner {
    plan: Arc<Plan>,
    /// The way to the thread, once there is one.
    orders: Mutex<Option<mpsc::UnboundedSender<ServerOrder>>>,
}

/// What is known of a server before it is started.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) identity: Value,
    pub(crate) origin: Origin,
    pub(crate) start_timeout: Duration,
    pub(crate) idle_timeout: Duration,
}

/// Where a server comes from.
#[derive(Debug)]
pub(crate) enum Origin {
    Program(Box<Recipe>),
    Http(Endpoint),
}

/// What the thread is asked to do.
enum ServerOrder {
    Start(Credentials),
    List(Credentials, oneshot::Sender<Result<McpManifest, McpError>>),
    Ask(Credentials, Ask, oneshot::Sender<Result<Answer, Trouble>>),
}

impl McpClient {
    /// The server with these settings. Nothing is started.
    ///
    /// # Errors
    /// A setting is wrong: a program that is not there or runs what it is given, a folder that is not there, a URL that may
    /// not be connected to.
    pub fn new(settings: McpSettings) -> Result<Self, ConnectorError> {
        let McpSettings { name, transport, start_timeout, idle_timeout } = settings;
        let identity = identity_of(&name, &transport);
        let origin = match &transport {
            McpTransport::Program(program) => Origin::Program(Box::new(Recipe::new(program)?)),
            McpTransport::Http(http) => Origin::Http(Endpoint::new(&name, http)?),
        };
        for (key, time) in [("start_timeout", start_timeout), ("idle_timeout", idle_timeout)] {
            if time.is_zero() {
                let message = "without time nothing can be done; write 1 ms or more".to_owned();
                return Err(ConnectorError::Server { server: name, key: key.to_owned(), message });
            }
        }
        let plan = Plan { name, identity, origin, start_timeout, idle_timeout };
        Ok(Self(Arc::new(ServerInner { plan: Arc::new(plan), orders: Mutex::new(None) })))
    }

    /// What identifies the server: its name, and the program with its arguments or the URL, as they are written. Trust
    /// applies to this identity alone.
    pub fn identity(&self) -> Value {
        self.0.plan.identity.clone()
    }

    /// Begins to start the server, without waiting. Does nothing if it is started or being started.
    pub fn start(&self, credentials: &Credentials) {
        // A thread that cannot be started is said at the first call.
        let _ = self.order(ServerOrder::Start(credentials.clone()));
    }

    /// What the server lists now.
    ///
    /// # Errors
    /// It does not start, does not answer in time, or does not speak the protocol.
    pub async fn manifest(&self, credentials: &Credentials) -> Result<McpManifest, McpError> {
        let (reply, listed) = oneshot::channel();
        let message = match self.order(ServerOrder::List(credentials.clone(), reply)) {
            Ok(()) => match listed.await {
                Ok(listed) => return listed,
                Err(_) => "its thread ended".to_owned(),
            },
            Err(message) => message,
        };
        Err(McpError { message })
    }

    /// The answer to what is asked. When it is dropped, the call is cancelled at the server.
    pub(crate) async fn ask(&self, ask: Ask, credentials: &Credentials) -> Result<Answer, Trouble> {
        let (reply, answered) = oneshot::channel();
        self.order(ServerOrder::Ask(credentials.clone(), ask, reply)).map_err(Trouble::Permanent)?;
        let ended = || Trouble::InDoubt("the thread of the server ended".to_owned());
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    fn order(&self, order: ServerOrder) -> Result<(), String> {
        let mut orders = self.0.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let order = match &*orders {
            Some(sender) => match sender.send(order) {
                Ok(()) => return Ok(()),
                Err(back) => back.0,
            },
            None => order,
        };
        let sender = thread_of(&self.0.plan)?;
        let sent = sender.send(order).map_err(|_| "its thread ended".to_owned());
        *orders = Some(sender);
        sent
    }
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpClient").field(&self.0.plan.name).finish()
    }
}

fn identity_of(name: &str, transport: &McpTransport) -> Value {
    match transport {
        McpTransport::Program(program) => {
            let written = program.written.as_ref().unwrap_or(&program.program);
            json!({ "name": name, "program": written, "args": program.args })
        }
        McpTransport::Http(http) => json!({ "name": name, "url": http.url }),
    }
}

/// A thread that serves the orders until the last handle of the server is dropped.
fn thread_of(plan: &Arc<Plan>) -> Result<mpsc::UnboundedSender<ServerOrder>, String> {
    let (sender, orders) = mpsc::unbounded_channel();
    let of_thread = Arc::clone(plan);
    let failed = |error: std::io::Error| format!("no thread could be started for it: {}", one_line(error));
    // Not one of the runtime's threads: the restrictions stay with the thread, and the server outlives a run.
    let begun =
        thread::Builder::new().name(format!("mcp {}", plan.name)).spawn(move || serve(&of_thread, orders));
    begun.map_err(failed)?;
    Ok(sender)
}

fn serve(plan: &Arc<Plan>, mut orders: mpsc::UnboundedReceiver<ServerOrder>) {
    if let Origin::Program(recipe) = &plan.origin
        && sandbox::restrict_thread(recipe.sandbox()).is_err()
    {
        // The callers that wait find that the thread ended.
        return;
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let connections = Arc::new(Connections { plan: Arc::clone(plan), state: Mutex::default() });
    runtime.block_on(async {
        while let Some(order) = orders.recv().await {
            tokio::spawn(Arc::clone(&connections).serve(order));
        }
        connections.close().await;
    });
}

/// The connections of a server, one at a time.
struct Connections {
    plan: Arc<Plan>,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    current: Option<SharedConnection>,
    failures: u32,
    /// What went wrong last, and until when it is not tried again.
    wait: Option<(Instant, NoConnection)>,
}

/// A connection that is made, or was made, for all who wait for it.
type SharedConnection = Shared<BoxFuture<'static, Result<Arc<Live>, NoConnection>>>;

impl Connections {
    async fn serve(self: Arc<Self>, order: ServerOrder) {
        match order {
            ServerOrder::Start(credentials) => {
                let _ = self.live(&credentials).await;
            }
            ServerOrder::List(credentials, mut reply) => {
                tokio::select! {
                    () = reply.closed() => {}
                    listed = self.manifest(&credentials) => {
                        let _ = reply.send(listed);
                    }
                }
            }
            ServerOrder::Ask(credentials, ask, mut reply) => {
                tokio::select! {
                    () = reply.closed() => {}
                    answer = self.ask(&ask, &credentials) => {
                        let _ = reply.send(answer);
                    }
                }
            }
        }
    }

    async fn manifest(&self, credentials: &Credentials) -> Result<McpManifest, McpError> {
        let live = self.live(credentials).await.map_err(|error| McpError { message: error.message })?;
        let listed = live.manifest(&self.plan).await;
        listed.map_err(|trouble| McpError { message: trouble.message() })
    }

    async fn ask(&self, ask: &Ask, credentials: &Credentials) -> Result<Answer, Trouble> {
        let mut is_second = false;
        loop {
            let live = self.live(credentials).await.map_err(|error| {
                let message = format!("the server `{}` is not there: {}", self.plan.name, error.message);
                if error.passes { Trouble::Retryable(message) } else { Trouble::Permanent(message) }
            })?;
            match live.ask(ask, &self.plan).await {
                // Nothing was done, and another session may be all that it takes.
                Err(Trouble::Retryable(_) | Trouble::Later(..)) if live.is_forgotten() && !is_second => {
                    is_second = true
                }
                answer => return answer,
            }
        }
    }

    /// The connection, which is made where there is none.
    async fn live(&self, credentials: &Credentials) -> Result<Arc<Live>, NoConnection> {
        let connecting = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.bury();
            if let Some((until, failure)) = &state.wait
                && Instant::now() < *until
            {
                return Err(failure.clone());
            }
            state.current.get_or_insert_with(|| self.connect(credentials)).clone()
        };
        connecting.await
    }

    fn connect(&self, credentials: &Credentials) -> SharedConnection {
        let (plan, credentials) = (Arc::clone(&self.plan), credentials.clone());
        // Of its own, so that it goes on where the one who wanted it first has gone.
        let made = tokio::spawn(async move { Live::connect(&plan, &credentials).await });
        let panicked = || NoConnection { message: "the connection panicked".to_owned(), passes: false };
        async move { made.await.unwrap_or_else(|_| Err(panicked())) }.boxed().shared()
    }

    async fn close(&self) {
        let current = self.state.lock().unwrap_or_else(PoisonError::into_inner).current.take();
        if let Some(Ok(live)) = current.and_then(|current| current.peek().cloned()) {
            live.close().await;
        }
    }
}

impl ConnectionState {
    /// Forgets a connection that is over, and how long to wait for the next.
    fn bury(&mut self) {
        let ended = match self.current.as_ref().and_then(Shared::peek) {
            Some(Err(failure)) => Some((true, failure.clone())),
            Some(Ok(live)) if live.is_closed() => {
                let message = "it ended again and again".to_owned();
                Some((live.age() < SHORT_LIFE, NoConnection { message, passes: true }))
            }
            _ => None,
        };
        let Some((is_failure, failure)) = ended else { return };
        self.current = None;
        self.failures = if is_failure { self.failures.saturating_add(1) } else { 0 };
        let beyond = self.failures.saturating_sub(TRIES_AT_ONCE);
        self.wait = (beyond > 0).then(|| {
            let wait = Duration::from_secs(1 << beyond.min(6)).min(LONGEST_WAIT);
            (Instant::now() + wait, failure)
        });
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
