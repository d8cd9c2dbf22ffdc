//! The loopback server: its socket, its services, and the requests that it received.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loop_core::types::{FailureKind, Usage};
use loop_llm::scripted::RequestPurpose;
use loop_llm::{ChatModel, Message, ModelRequest};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::behaviour::{Behaviour, Delivery, Reply};
use super::chat;
use super::http::{Answer, Reader, Unreadable};
use super::lies::{Lie, LyingModel};
use super::protocol;
use super::serve::Exchange;

/// A server on the loopback address. It stops when it is dropped.
#[derive(Debug)]
pub struct LoopbackServer {
    address: SocketAddr,
    state: Arc<ServerState>,
    stop: Option<oneshot::Sender<()>>,
    accepting: JoinHandle<()>,
}

impl LoopbackServer {
    /// Starts a server on a free port of 127.0.0.1. Call it within a tokio runtime, whose tasks serve the requests.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(service: Service) -> io::Result<Self> {
        Self::start_at(service, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    /// Starts a server on this address. Port 0 takes a free port.
    ///
    /// # Errors
    /// The address is not available.
    pub fn start_at(service: Service, address: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        let (ended, _) = watch::channel(0);
        let state = Arc::new(ServerState { service, log: Mutex::new(RequestLog::default()), ended });
        let (stop, stopped) = oneshot::channel();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state), stopped));
        Ok(Self { address, state, stop: Some(stop), accepting })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients of most protocols: `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.url())
    }

    /// The URL without a path: `http://127.0.0.1:PORT`. Every protocol is served below it, with and without the version
    /// in its paths.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests received so far, oldest first, including those in progress.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.log().kept.iter().map(|(_, received)| received.clone()).collect()
    }

    /// The requests received, once this many have ended in total, however their clients went away.
    pub async fn ended(&self, requests: u64) -> Vec<ReceivedRequest> {
        // The sender lives as long as this server.
        let _ = self.state.ended.subscribe().wait_for(|ended| *ended >= requests).await;
        self.requests()
    }

    /// Closes every connection and the socket. Both are closed when this returns.
    pub async fn shutdown(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        // The task holds the listener and all connections.
        self.accepting.abort();
    }
}

/// What a server serves: a model, behaviours, or behaviours followed by a model.
///
/// Each model call uses the next behaviour, in whichever protocol. [`Behaviour::refuse`] is used by the next
/// connection.
pub struct Service {
    model: Option<Arc<dyn ChatModel>>,
    names: Vec<Arc<str>>,
    first: VecDeque<Behaviour>,
    usual: Behaviour,
    lie: Option<&'static Lie>,
    keeps: usize,
    observer: Option<Observer>,
}

type Observer = Box<dyn Fn(&ReceivedRequest) + Send + Sync>;

impl Service {
    /// The model answers every request.
    pub fn of(model: Arc<dyn ChatModel>) -> Self {
        Self { model: Some(model), ..Self::empty() }
    }

    /// These behaviours respond, one after the other, and the last one repeats. There is no model: for one, use
    /// [`of`](Self::of) and [`first`](Self::first).
    pub fn replies(behaviours: impl IntoIterator<Item = Behaviour>) -> Self {
        let first: VecDeque<Behaviour> = behaviours.into_iter().collect();
        let usual = first.back().cloned().unwrap_or_default();
        Self { first, usual, ..Self::empty() }
    }

    /// These behaviours respond first, one for each request. They replace those of an earlier call.
    #[must_use]
    pub fn first(mut self, behaviours: impl IntoIterator<Item = Behaviour>) -> Self {
        self.first = behaviours.into_iter().collect();
        self
    }

    /// The behaviour of every request that has no other one.
    #[must_use]
    pub fn usually(mut self, behaviour: Behaviour) -> Self {
        self.usual = behaviour;
        self
    }

    /// Serves this lie. It does not apply to requests outside of its [`LieOn`](super::LieOn), and to those that behaviours of
    /// [`first`](Self::first) answer.
    #[must_use]
    pub fn lying(mut self, lie: &'static Lie) -> Self {
        self.lie = Some(lie);
        self
    }

    /// The model names in `GET …/models`. Default: `offline-1`. Requests may name any model.
    #[must_use]
    pub fn with_names<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// How many requests [`LoopbackServer::requests`] stores, the latest ones. Default: 1,000.
    #[must_use]
    pub fn keeping(mut self, requests: usize) -> Self {
        self.keeps = requests;
        self
    }

    /// Sets a callback for every request that has ended. It runs in the task that served the request.
    #[must_use]
    pub fn observed(mut self, observer: impl Fn(&ReceivedRequest) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    fn empty() -> Self {
        Self {
            model: None,
            names: vec!["offline-1".into()],
            first: VecDeque::new(),
            usual: Behaviour::model(),
            lie: None,
            keeps: 1_000,
            observer: None,
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("model", &self.model)
            .field("first", &self.first)
            .field("usual", &self.usual)
            .field("lie", &self.lie)
            .finish_non_exhaustive()
    }
}

/// A request that a server received, and how it was answered.
#[derive(Clone, Default, PartialEq)]
pub struct ReceivedRequest {
    /// The HTTP method, for example `POST`.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The query, without the question mark. Empty if there is none.
    pub query: String,
    /// The headers with lower-case names, in the order received.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; a string if it is not JSON, and `null` if there is none.
    pub body: Value,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// The status of the response. `None`: none was written yet.
    pub status: Option<u16>,
    /// Bytes of the response's body, without chunk framing; 0 until it has ended.
    pub bytes_out: u64,
    /// How the response ended. `None`: it has not.
    pub ending: Option<ConnectionEnd>,
    /// The true tokens of the reply, whatever the response reported. `None`: no model replied, or the response ended
    /// before its reply.
    pub usage: Option<Usage>,
    /// Whether a named behaviour changed the response.
    pub lied: bool,
}

impl ReceivedRequest {
    /// The first header of this name. `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The request in neutral form. `None`: the body is not a valid model request.
    pub fn request(&self) -> Option<ModelRequest> {
        let (api, target) = protocol::find(&self.path, &self.query, &self.headers)?;
        protocol::read(api, &target, &self.body).ok().map(|requested| requested.request)
    }
}

impl fmt::Debug for ReceivedRequest {
    /// Everything except the values of headers with credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): &(String, String)| {
            let is_secret = SECRET_HEADERS.contains(&name.as_str());
            (name.clone(), if is_secret { "***".to_owned() } else { value.clone() })
        };
        f.debug_struct("Received")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("query", &self.query)
            .field("headers", &self.headers.iter().map(shown).collect::<Vec<_>>())
            .field("body", &self.body)
            .field("bytes_in", &self.bytes_in)
            .field("status", &self.status)
            .field("bytes_out", &self.bytes_out)
            .field("ending", &self.ending)
            .field("usage", &self.usage)
            .field("lied", &self.lied)
            .finish()
    }
}

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// It was written to its end.
    Whole,
    /// The server ended it early, as its behaviour or its model's error says.
    Cut,
    /// The client closed the connection first.
    HungUp,
}

#[derive(Debug)]
struct ServerState {
    service: Service,
    log: Mutex<RequestLog>,
    /// How many requests have ended.
    ended: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct RequestLog {
    /// How many behaviours were used.
    used: usize,
    /// How many requests for a main call were received.
    main: u64,
    /// How many requests have begun.
    begun: u64,
    /// The latest requests, by their numbers.
    kept: VecDeque<(u64, ReceivedRequest)>,
}

impl ServerState {
    fn log(&self) -> MutexGuard<'_, RequestLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the next behaviour refuses the connection. It is then used.
    fn refuses(&self) -> bool {
        let mut log = self.log();
        let refuses = matches!(self.next_of(&log).reply, Reply::Refuse);
        log.used += usize::from(refuses);
        refuses
    }

    fn behaviour(&self, received: &ReceivedRequest) -> Behaviour {
        let mut log = self.log();
        let first = self.service.first.get(log.used);
        log.used += 1;
        match (first, self.service.lie) {
            (Some(behaviour), _) => behaviour.clone(),
            (None, None) => self.service.usual.clone(),
            (None, Some(lie)) => {
                let request = received.request();
                let purpose = request.as_ref().map(RequestPurpose::of);
                log.main += u64::from(purpose == Some(RequestPurpose::Main));
                let is_result = |message: &Message| matches!(message, Message::Tool { .. });
                let has_results = request.is_some_and(|request| request.messages.iter().any(is_result));
                lie.answer(purpose, log.main, has_results)
            }
        }
    }

    fn next_of(&self, log: &RequestLog) -> &Behaviour {
        self.service.first.get(log.used).unwrap_or(&self.service.usual)
    }

    /// Assigns the request its number, from 1.
    fn begin(&self, received: &ReceivedRequest) -> u64 {
        let mut log = self.log();
        log.begun += 1;
        let number = log.begun;
        log.kept.push_back((number, received.clone()));
        while log.kept.len() > self.service.keeps {
            log.kept.pop_front();
        }
        number
    }

    fn end(&self, number: u64, received: ReceivedRequest) {
        if let Some(observer) = &self.service.observer {
            observer(&received);
        }
        let mut log = self.log();
        if let Some((_, kept)) = log.kept.iter_mut().find(|(known, _)| *known == number) {
            *kept = received;
        }
        drop(log);
        self.ended.send_modify(|ended| *ended += 1);
    }
}

async fn accept(listener: TcpListener, state: Arc<ServerState>, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = or_pause(listener.accept()), if connections.len() < MAX_CONNECTIONS => {
                if let Some((stream, _)) = accepted {
                    connections.spawn(connection(stream, Arc::clone(&state)));
                }
            }
            Some(_) = connections.join_next() => {}
            _ = &mut stopped => break,
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// The accepted connection, or nothing after a pause if that failed. A connection that is gone before it is accepted is
/// skipped. If the process has no file descriptors left, only waiting helps.
async fn or_pause<T>(accepted: impl Future<Output = io::Result<T>>) -> Option<T> {
    match accepted.await {
        Ok(accepted) => Some(accepted),
        Err(_) => {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn connection(stream: TcpStream, state: Arc<ServerState>) {
    if state.refuses() || stream.set_nodelay(true).is_err() {
        return;
    }
    let (half, mut writer) = stream.into_split();
    let mut reader = Reader::new(half);
    loop {
        match reader.request(&mut writer).await {
            Ok((mut received, keeps)) => {
                let behaviour = behaviour(&state, &received);
                received.lied = behaviour.is_lie;
                let number = state.begin(&received);
                let mut answer = Answer::new(&mut reader, &mut writer, &behaviour.delivery, keeps);
                let result = route(&state, &received, &behaviour, number, &mut answer).await;
                let keeps = answer.keeps;
                let ending = result.map_or_else(|ending| ending, |()| ConnectionEnd::Whole);
                (received.status, received.bytes_out) = (answer.status, answer.sent);
                (received.usage, received.ending) = (answer.usage, Some(ending));
                state.end(number, received);
                if ending != ConnectionEnd::Whole || !keeps {
                    return;
                }
            }
            Err(Unreadable::Refused { code, message }) => {
                let delivery = Delivery::default();
                let mut answer = Answer::new(&mut reader, &mut writer, &delivery, /*keeps*/ false);
                let body = chat::plain_error(message, None);
                if answer.json(code, &[], &body).await.is_ok() && writer.shutdown().await.is_ok() {
                    reader.drain().await;
                }
                return;
            }
            Err(Unreadable::Closed) => return,
        }
    }
}

/// The behaviour of a request. Only model calls use behaviours up.
fn behaviour(state: &ServerState, received: &ReceivedRequest) -> Behaviour {
    let is_question = protocol::find(&received.path, &received.query, &received.headers).is_some();
    if received.method == "POST" && is_question { state.behaviour(received) } else { Behaviour::model() }
}

async fn route(
    state: &ServerState,
    received: &ReceivedRequest,
    behaviour: &Behaviour,
    number: u64,
    answer: &mut Answer<'_>,
) -> Result<(), ConnectionEnd> {
    let (method, path) = (received.method.as_str(), received.path.as_str());
    let found = protocol::find(path, &received.query, &received.headers);
    let count = protocol::token_count(path, received.bytes_in);
    let allowed = match &found {
        Some(_) => "POST",
        None if protocol::is_list(path) || protocol::named_model(path).is_some() => "GET",
        None if count.is_some() => "POST",
        None => {
            let message = format!("there is nothing at {path}; there are {QUESTIONS} and {MODELS}");
            return answer.json(404, &[], &chat::plain_error(&message, Some("unknown_url"))).await;
        }
    };
    if method != allowed {
        let message = format!("{method} is not for {path}; use {allowed}");
        let body = chat::plain_error(&message, Some("method_not_allowed"));
        return answer.json(405, &[("allow", allowed.to_owned())], &body).await;
    }
    if let Some(count) = count {
        return answer.json(200, &[], &protocol::bytes_of(&count)).await;
    }
    if let Some(name) = protocol::named_model(path) {
        let names = &state.service.names;
        return match names.is_empty() || names.iter().any(|known| **known == *name) {
            true => answer.json(200, &[], &protocol::bytes_of(&chat::model(name))).await,
            false => {
                let message = format!("The model '{name}' does not exist");
                answer.json(404, &[], &chat::plain_error(&message, Some("model_not_found"))).await
            }
        };
    }
    let Some((api, target)) = found else {
        return answer.json(200, &[], &chat::models(&state.service.names)).await;
    };
    let request = format!("req_{number}");
    answer.names(protocol::request_header(api), request.clone());
    let mut exchange = Exchange { api, number, request, behaviour, answer };
    match &behaviour.reply {
        Reply::Model => match (protocol::read(api, &target, &received.body), &state.service.model) {
            (Err(unfit), _) => exchange.say(unfit.kind, &unfit.message, Some(&unfit.param)).await,
            (Ok(mut requested), Some(model)) => {
                requested.ways.streams &= !behaviour.is_whole;
                if behaviour.is_lie {
                    let liar = LyingModel { honest: model.as_ref(), say: behaviour.say.as_ref() };
                    exchange.ask(&liar, &requested).await
                } else {
                    exchange.ask(model.as_ref(), &requested).await
                }
            }
            (Ok(_), None) => {
                exchange.say(FailureKind::ServerError, "there is no model to answer", None).await
            }
        },
        Reply::Status { code, body } => exchange.answer.json(*code, &[], body).await,
        Reply::Body(body) => {
            exchange.answer.events().await?;
            exchange.answer.write(body).await?;
            exchange.answer.finish().await
        }
        Reply::Refuse => Err(ConnectionEnd::Cut),
        Reply::Raw(bytes) => {
            exchange.answer.raw(bytes).await?;
            Err(ConnectionEnd::Cut)
        }
        Reply::Silence => Err(exchange.answer.silence().await),
        Reply::Echo => {
            let secrets = received.headers.iter().filter(|(name, _)| SECRET_HEADERS.contains(&name.as_str()));
            let secrets: Vec<&str> = secrets.map(|(_, value)| value.as_str()).collect();
            let message = format!("Incorrect API key provided: {}", secrets.join(" "));
            exchange.say(FailureKind::Auth, &message, None).await
        }
        Reply::Flood { bytes } => exchange.flood(*bytes).await,
        Reply::Line { bytes } => exchange.endless_line(*bytes).await,
    }
}

const MODELS: &str = "/v1/models";
/// The paths of model calls.
const QUESTIONS: &str = "/v1/chat/completions, /v1/responses, /v1/messages, /v1beta/models/MODEL:generateContent, \
                         /v1beta/models/MODEL:streamGenerateContent";

/// The most open connections. Further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 256;
/// The pause after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Headers whose values are not printed.
const SECRET_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"];

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::or_pause;

    #[tokio::test(start_paused = true)]
    async fn accepting_pauses_after_a_failure() {
        let began = Instant::now();
        assert_eq!(or_pause(async { Ok(7) }).await, Some(7));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(or_pause(async { Err::<u8, _>(io::Error::other("no files left")) }).await, None);
        assert_eq!(began.elapsed(), Duration::from_millis(50));
    }
}
