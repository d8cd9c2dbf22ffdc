//! What a server may send before it is cut off: one message of so many bytes, and so many requests that it takes no reply to.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::time::{Instant, sleep_until};

/// The most bytes of one message of a server.
pub const MCP_MESSAGE_BYTES_MAX: usize = 8 << 20;
/// The most requests of a server whose replies it has not taken.
const OWED_MAX: usize = 64;

/// What is known of a connection while it is open, and why we closed it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// How often the server said that its tools have changed.
    pub(crate) announced: AtomicU64,
    owed: AtomicUsize,
    reason: OnceLock<&'static str>,
}

/// A program at the other end of two pipes: a message a line.
pub(crate) struct Pipes<R, W> {
    read: BufReader<R>,
    line: Vec<u8>,
    write: Arc<tokio::sync::Mutex<Option<W>>>,
    watch: Arc<Watch>,
}

/// A transport that ends where a server asks and takes no reply, and does not wait for one that does not know the newest
/// revision and says nothing.
pub(crate) struct WatchedTransport<T> {
    inner: T,
    watch: Arc<Watch>,
    /// How long the answer to the first request may take.
    patience: Option<Duration>,
    first: First,
}

/// The request that asks which revisions a server speaks.
enum First {
    NotYet,
    Until(RequestId, Instant),
    /// It was answered in the server's place.
    Late(RequestId),
}

impl Watch {
    /// Why we closed the connection. `None`: we did not.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        self.reason.get().copied()
    }

    /// Remembers why the connection is closed.
    pub(crate) fn close(&self, reason: &'static str) {
        let _ = self.reason.set(reason);
    }

    /// Remembers that a message was too long.
    pub(crate) fn message_too_long(&self) {
        self.close("it sent a message of more than 8 MiB");
    }
}

impl<R: AsyncRead + Unpin, W> Pipes<R, W> {
    pub(crate) fn new(read: R, write: W, watch: Arc<Watch>) -> Self {
        let write = Arc::new(tokio::sync::Mutex::new(Some(write)));
        Self { read: BufReader::new(read), line: Vec::new(), write, watch }
    }

    /// Reads until a line is whole. False: there is none any more. If it is cancelled, the next call continues.
    async fn next_line(&mut self) -> io::Result<bool> {
        loop {
            let bytes = self.read.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            if self.line.len() + taken > MCP_MESSAGE_BYTES_MAX {
                self.watch.message_too_long();
                return Ok(false);
            }
            self.line.extend_from_slice(bytes.get(..taken).unwrap_or_default());
            self.read.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

impl<R, W> Transport<RoleClient> for Pipes<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = Arc::clone(&self.write);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut write = write.lock().await;
            let Some(write) = write.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
            write.write_all(&line).await?;
            write.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        // What is not a message is passed over: programs write all kinds of lines to their output.
        while self.next_line().await.unwrap_or(false) {
            let read = readable(&self.line).and_then(|value| serde_json::from_value(value).ok());
            if self.line.starts_with(b"{") && std::str::from_utf8(&self.line).is_err() {
                self.watch.close("it sent a message that is not UTF-8");
                return None;
            }
            self.line.clear();
            if read.is_some() {
                return read;
            }
        }
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

/// The answer of a server that only knows the handshake to the request that comes before it.
fn unknown_method(id: RequestId) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer to the first request", None);
    JsonRpcMessage::error(error, Some(id))
}

/// A message in the form that the protocol's library reads, whatever its server made of it. The result of a request is put
/// into a box, so that the library takes it as it is; [`unboxed`] takes it out. `None`: it is not a message.
pub(crate) fn readable(text: &[u8]) -> Option<Value> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let Ok(Value::Object(mut message)) = serde_json::from_slice(text) else { return None };
    // Some libraries write every member that a message can have.
    message.retain(|_, value| !value.is_null());
    message.insert("jsonrpc".to_owned(), Value::from("2.0"));
    if message.contains_key("method") {
        return Some(Value::Object(message));
    }
    match message.remove("error") {
        Some(Value::Object(mut error)) => {
            let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
            error.insert("code".to_owned(), Value::from(code.unwrap_or(ErrorCode::INTERNAL_ERROR.0)));
            let said = error.remove("message").unwrap_or_default();
            let said = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
            error.insert("message".to_owned(), Value::from(said));
            message.insert("error".to_owned(), Value::Object(error));
        }
        Some(said) => {
            let error = json!({ "code": ErrorCode::INTERNAL_ERROR.0, "message": said.to_string() });
            message.insert("error".to_owned(), error);
        }
        None => {
            let result = message.remove("result").unwrap_or_else(|| json!({}));
            message.get("id")?;
            message.insert("result".to_owned(), boxed(result));
        }
    }
    Some(Value::Object(message))
}

/// What a handshake is known by, in the two kinds of the protocol.
const HANDSHAKES: [&str; 2] = ["protocolVersion", "supportedVersions"];
/// What a capability says with true or false.
const FLAGS: [&str; 2] = ["listChanged", "subscribe"];
/// The one member of a box.
const BOX: &str = "loopgate/result";

fn boxed(mut result: Value) -> Value {
    // Of a list of tools the library reads which arguments go into headers.
    if let Some(Value::Array(tools)) = result.get("tools") {
        let tools = tools.iter().filter(|tool| is_tool(tool));
        let tools: Vec<_> =
            tools.map(|tool| json!({ "name": tool["name"], "inputSchema": tool["inputSchema"] })).collect();
        return json!({ "tools": tools, "_meta": { BOX: result } });
    }
    let Some(members) = result.as_object_mut() else { return json!({ BOX: result }) };
    if !HANDSHAKES.iter().any(|member| members.contains_key(*member)) {
        return json!({ BOX: result });
    }
    let capabilities = members.get_mut("capabilities").map(Value::take);
    let capabilities = match capabilities {
        Some(Value::Object(mut all)) => {
            all.retain(|_, value| value.is_object() || *value == true);
            for value in all.values_mut() {
                match value.as_object_mut() {
                    Some(says) => says.retain(|name, value| !FLAGS.contains(&&**name) || value.is_boolean()),
                    None => *value = json!({}),
                }
            }
            all
        }
        _ => Map::new(),
    };
    members.insert("capabilities".to_owned(), Value::Object(capabilities));
    if members.contains_key("protocolVersion") {
        let about = |name: &str| {
            let word = members.get("serverInfo").and_then(|about| about.get(name));
            word.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let about = json!({ "name": about("name"), "version": about("version") });
        members.insert("serverInfo".to_owned(), about);
    }
    result
}

/// Whether the library reads an entry of a list of tools.
fn is_tool(entry: &Value) -> bool {
    entry.get("name").is_some_and(Value::is_string) && entry.get("inputSchema").is_some_and(Value::is_object)
}

/// The member of a tool that the library refuses, because its schema names headers that cannot be.
pub(crate) const REFUSED: &str = "loopgate/refused";

/// A result as its server wrote it.
pub(crate) fn unboxed(result: ServerResult) -> Value {
    let written = match result {
        ServerResult::CustomResult(result) => result.0,
        ServerResult::ListToolsResult(list) => {
            let mut listed = list.meta.and_then(|mut meta| meta.remove(BOX)).unwrap_or_default();
            let kept: BTreeSet<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
            for tool in listed.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
                let is_refused =
                    is_tool(tool) && tool["name"].as_str().is_some_and(|name| !kept.contains(name));
                if let Some(members) = tool.as_object_mut().filter(|_| is_refused) {
                    members.insert(REFUSED.to_owned(), Value::Bool(true));
                }
            }
            return listed;
        }
        other => serde_json::to_value(other).unwrap_or_default(),
    };
    match written {
        Value::Object(mut members) => members.remove(BOX).unwrap_or(Value::Object(members)),
        other => other,
    }
}

impl<T> WatchedTransport<T> {
    /// `patience`: how long the server may take to say which revisions it speaks, before it is taken for one that only knows
    /// the handshake. `None`: as long as it wants.
    pub(crate) fn new(inner: T, watch: Arc<Watch>, patience: Option<Duration>) -> Self {
        Self { inner, watch, patience, first: First::NotYet }
    }
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for WatchedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let (JsonRpcMessage::Request(request), Some(patience)) = (&item, self.patience)
            && let ClientRequest::DiscoverRequest(_) = &request.request
        {
            self.first = First::Until(request.id.clone(), Instant::now() + patience);
        }
        let is_reply = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let (sent, watch) = (self.inner.send(item), Arc::clone(&self.watch));
        async move {
            let sent = sent.await;
            if is_reply {
                let paid = |owed: usize| Some(owed.saturating_sub(1));
                let _ = watch.owed.fetch_update(Ordering::AcqRel, Ordering::Acquire, paid);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = loop {
            let message = match &self.first {
                First::NotYet | First::Late(_) => self.inner.receive().await?,
                First::Until(id, at) => tokio::select! {
                    message = self.inner.receive() => message?,
                    () = sleep_until(*at) => {
                        let id = id.clone();
                        self.first = First::Late(id.clone());
                        return Some(unknown_method(id));
                    }
                },
            };
            let answered = match &message {
                JsonRpcMessage::Response(response) => Some(&response.id),
                JsonRpcMessage::Error(error) => error.id.as_ref(),
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
            };
            let is_of = |id: &RequestId| answered.is_some_and(|other| id.to_string() == other.to_string());
            match &self.first {
                First::Late(id) if is_of(id) => continue,
                First::Until(id, _) if is_of(id) => {
                    let id = id.clone();
                    self.first = First::NotYet;
                    // Some answer whatever they do not know with an empty result.
                    if let JsonRpcMessage::Response(response) = &message
                        && !matches!(response.result, ServerResult::DiscoverResult(_))
                    {
                        return Some(unknown_method(id));
                    }
                }
                First::NotYet | First::Until(..) | First::Late(_) => {}
            }
            break message;
        };
        if matches!(message, JsonRpcMessage::Request(_))
            && self.watch.owed.fetch_add(1, Ordering::AcqRel) >= OWED_MAX
        {
            let _ = self.watch.reason.set("it asked more and more and took no reply");
            return None;
        }
        Some(message)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
