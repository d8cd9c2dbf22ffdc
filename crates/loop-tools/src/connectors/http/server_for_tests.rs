//! A server on this machine for tests: it counts its connections, keeps what it was asked, and answers what a test says.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{Credentials, Registry, Tool, ToolContext, ToolDeclaration, ToolResult};
use async_trait::async_trait;
use loop_core::types::{Effect, Scope};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::connectors::http::guard::NameSource;
use crate::connectors::http::{HttpDefinition, HttpTool};

/// What a server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Sends these bytes and closes the connection.
    Raw(Vec<u8>),
    /// Sends the first text, and then the second again and again, with so many milliseconds between.
    Endless(String, Vec<u8>, u64),
    /// Keeps the connection open and says nothing.
    Never,
    /// Closes the connection.
    Close,
}

/// What a server was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenRequest {
    pub(crate) method: String,
    /// Path and query as they arrived.
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// A server. It ends with the runtime of its test.
pub(crate) struct TestServer {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<SeenRequest>>>,
}

impl SeenRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl TestServer {
    /// A server that answers each request with what `reply` makes of it and of its number, from 0.
    pub(crate) async fn start(reply: impl Fn(&SeenRequest, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server =
            Self { port, connections: Arc::default(), closed: Arc::default(), asked: Arc::default() };
        let (connections, closed, asked) =
            (Arc::clone(&server.connections), Arc::clone(&server.closed), Arc::clone(&server.asked));
        let reply = Arc::new(reply);
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                connections.fetch_add(1, Ordering::SeqCst);
                let (reply, asked, closed) = (Arc::clone(&reply), Arc::clone(&asked), Arc::clone(&closed));
                tokio::spawn(async move {
                    _ = serve(stream, |request| {
                        let mut asked = asked.lock().unwrap();
                        asked.push(request.clone());
                        reply(&request, asked.len() - 1)
                    })
                    .await;
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        server
    }

    /// A server that always answers the same.
    pub(crate) async fn always(reply: Reply) -> Self {
        Self::start(move |_, _| reply.clone()).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until so many connections are closed.
    pub(crate) async fn closed(&self, count: usize) {
        for _ in 0..500 {
            if self.closed.load(Ordering::SeqCst) >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("a connection is still open");
    }

    /// Waits for the first request.
    pub(crate) async fn is_asked(&self) {
        while self.asked().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn asked(&self) -> Vec<SeenRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// A definition of a GET of this server that may connect to it.
    pub(crate) fn definition(&self, path: &str) -> HttpDefinition {
        HttpDefinition {
            url: self.url(path),
            private: vec![self.place()],
            plain_http: true,
            ..HttpDefinition::default()
        }
    }
}

async fn serve(mut stream: TcpStream, mut reply: impl FnMut(SeenRequest) -> Reply) -> io::Result<()> {
    let Some(request) = request(&mut stream).await? else { return Ok(()) };
    match reply(request) {
        Reply::Raw(bytes) => {
            stream.write_all(&bytes).await?;
            stream.shutdown().await
        }
        Reply::Close => Ok(()),
        Reply::Never => {
            // Until the other side goes.
            let mut rest = [0; 64];
            while stream.read(&mut rest).await? > 0 {}
            Ok(())
        }
        Reply::Endless(first, again, pause_ms) => {
            stream.write_all(first.as_bytes()).await?;
            loop {
                stream.write_all(&again).await?;
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
        }
    }
}

async fn request(stream: &mut TcpStream) -> io::Result<Option<SeenRequest>> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines();
            let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
            let headers: BTreeMap<String, String> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
                return Ok(Some(SeenRequest { method, target, headers, body: body.to_owned() }));
            }
        }
        let read = stream.read(&mut chunk).await?;
        if read == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
}

/// An answer with this status, headers and body.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Reply {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    Reply::Raw(
        format!(
            "HTTP/1.1 {status} Status\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
        )
        .into_bytes(),
    )
}

/// A success with JSON.
pub(crate) fn json_answer(value: &Value) -> Reply {
    answer(200, &[("content-type", "application/json")], &value.to_string())
}

/// A redirect.
pub(crate) fn redirect(to: &str) -> Reply {
    answer(302, &[("location", to)], "")
}

/// A declaration with parameters of these names, of any type.
pub(crate) fn declaration(effect: Effect, parameters: &[&str]) -> ToolDeclaration {
    let properties: serde_json::Map<String, Value> =
        parameters.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    ToolDeclaration::new("find_order")
        .schema(json!({ "type": "object", "properties": properties }))
        .effect(effect)
}

/// A tool that reads.
pub(crate) fn reader(definition: &HttpDefinition, parameters: &[&str]) -> HttpTool {
    HttpTool::new(declaration(Effect::Read, parameters), definition).unwrap()
}

pub(crate) fn context() -> ToolContext {
    let scope =
        Scope { account: Some("a/7".into()), account_name: Some("Contoso".into()), ..Scope::default() };
    ToolContext::new(scope, "Late order", "run-1/1/action-0")
}

/// The result of a call.
pub(crate) async fn call(tool: &HttpTool, parameters: Value) -> ToolResult {
    tool.call(parameters, &context(), &Credentials::none()).await
}

/// What a run sees of a call with a limit of time.
pub(crate) async fn seen(
    tool: HttpTool,
    parameters: Value,
    timeout_ms: u64,
) -> loop_core::types::Observation {
    let registry = Registry::builder().tool(tool).build().unwrap();
    registry.dispatch("find_order", &parameters, context(), &Credentials::none(), timeout_ms, 4_000).await
}

/// Names with addresses that change from one question to the next; the last ones stay.
pub(crate) struct FakeNames(Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>, pub(crate) AtomicUsize);

impl FakeNames {
    pub(crate) fn new<const N: usize>(names: [(&str, &[&[&str]]); N]) -> Arc<Self> {
        let parsed = names.into_iter().map(|(name, answers)| {
            let answers = answers.iter().map(|all| all.iter().map(|it| it.parse().unwrap()).collect());
            (name.to_owned(), answers.collect())
        });
        Arc::new(Self(Mutex::new(parsed.collect()), AtomicUsize::new(0)))
    }
}

#[async_trait]
impl NameSource for FakeNames {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let mut names = self.0.lock().unwrap();
        let answers =
            names.get_mut(host.trim_end_matches('.')).ok_or_else(|| io::Error::other("no such name"))?;
        let first = answers.first().cloned().unwrap_or_default();
        if answers.len() > 1 {
            answers.remove(0);
        }
        Ok(first)
    }
}
