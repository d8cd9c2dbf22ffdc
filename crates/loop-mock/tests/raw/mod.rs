//! HTTP without a client: bytes are sent, and an answer is taken apart.

pub(crate) mod api;

use std::time::Duration;

use loop_mock::LoopbackServer;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer as a plain client reads it.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The sizes of its chunks.
    pub(crate) pieces: Vec<usize>,
    /// Whether a chunked body has its last chunk.
    pub(crate) is_complete: bool,
}

impl Reply {
    #[track_caller]
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&bytes[..at]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let mut reply =
            Self { status, headers, body: bytes[at + 4..].to_vec(), pieces: Vec::new(), is_complete: false };
        if reply.header("transfer-encoding") == Some("chunked") {
            reply.unchunk();
        }
        reply
    }

    fn unchunk(&mut self) {
        let bytes = std::mem::take(&mut self.body);
        let mut rest = bytes.as_slice();
        while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
            let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
            self.body.extend_from_slice(&rest[at + 2..at + 2 + size]);
            assert_eq!(rest[at + 2 + size..at + 4 + size], *b"\r\n");
            rest = &rest[at + 4 + size..];
            if size == 0 {
                self.is_complete = true;
            } else {
                self.pieces.push(size);
            }
        }
        assert!(rest.is_empty());
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.text().split_inclusive("\n\n").map(str::to_owned).collect()
    }

    /// The visible text of a stream.
    pub(crate) fn content(&self) -> String {
        let chunks = self.events().into_iter().filter_map(|event| {
            serde_json::from_str::<Value>(event.trim().strip_prefix("data: ").unwrap_or_default()).ok()
        });
        chunks
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
            .collect()
    }
}

/// A question with these headers, after which the connection is closed.
pub(crate) fn request(path: &str, headers: &[(&str, &str)], body: &Value) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let body = body.to_string();
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

pub(crate) async fn send(server: &LoopbackServer, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// Everything that comes until the server closes.
pub(crate) async fn exchange(server: &LoopbackServer, bytes: &[u8]) -> Vec<u8> {
    let mut stream = send(server, bytes).await;
    let mut answer = Vec::new();
    soon(stream.read_to_end(&mut answer)).await.unwrap();
    answer
}

/// A guard, not a measure: what hangs fails.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it came to an end")
}

pub(crate) async fn get(server: &LoopbackServer, path: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n\r\n");
    Reply::read(&exchange(server, request.as_bytes()).await)
}
