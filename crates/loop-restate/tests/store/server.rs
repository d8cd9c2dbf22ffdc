//! A server on loopback that answers requests in the order of a script, each on a connection of its own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use loop_restate::blobs::{BlobOptions, S3Settings};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) enum Answer {
    /// Bytes as they are written; then the connection is closed.
    Bytes(String),
    /// None, as long as the client waits.
    Silence,
}

/// What a client sent: the first line, then the headers in small letters.
pub(crate) type Request = Vec<String>;

pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
    load: Arc<Load>,
    task: JoinHandle<()>,
}

/// How many requests are answered, and how many were at most.
#[derive(Default)]
struct Load {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers so; the last answer is repeated.
    pub(crate) async fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let mut answers: VecDeque<Arc<Answer>> = answers.into_iter().map(Arc::new).collect();
        let (seen, load) = (Arc::clone(&requests), Arc::new(Load::default()));
        let counted = Arc::clone(&load);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
                tokio::spawn(answer_one(stream, answer.unwrap(), Arc::clone(&seen), Arc::clone(&counted)));
            }
        });
        Self { port, requests, load, task }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The most requests that were under way at once.
    pub(crate) fn peak(&self) -> usize {
        self.load.peak.load(Ordering::SeqCst)
    }
}

async fn answer_one(
    stream: TcpStream,
    answer: Arc<Answer>,
    requests: Arc<Mutex<Vec<Request>>>,
    load: Arc<Load>,
) {
    let mut stream = BufReader::new(stream);
    let mut request = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        if line == "\r\n" {
            break;
        }
        let line = line.trim_end();
        request.push(if request.is_empty() { line.to_owned() } else { line.to_lowercase() });
    }
    let length = request.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    if stream.read_exact(&mut body).await.is_err() {
        return;
    }
    requests.lock().unwrap().push(request);
    load.peak.fetch_max(load.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    // Others arrive meanwhile, if they are sent.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    load.now.fetch_sub(1, Ordering::SeqCst);
    match &*answer {
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(bytes.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        // Until the client closes the connection.
        Answer::Silence => {
            let _ = stream.read(&mut [0]).await;
        }
    }
}

/// An answer with headers and a body.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Bytes(format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    ))
}

/// An error of S3.
pub(crate) fn error(status: &str, code: &str) -> Answer {
    answer(
        status,
        "",
        &format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>hidden text</Message></Error>"),
    )
}

/// Keys that no error may show, short limits, and the server of this port.
pub(crate) fn options(port: u16) -> BlobOptions {
    let mut options = BlobOptions::default();
    options.retries = 2;
    options.request_timeout = Duration::from_secs(10);
    options.deadline = Duration::from_secs(30);
    options.s3 = S3Settings::from_variables(|name| {
        let value = match name {
            "AWS_ENDPOINT_URL" => format!("http://127.0.0.1:{port}"),
            "AWS_ACCESS_KEY_ID" => "hidden-id".to_owned(),
            "AWS_SECRET_ACCESS_KEY" => "hidden-key".to_owned(),
            "AWS_SESSION_TOKEN" => "hidden-token".to_owned(),
            _ => return None,
        };
        Some(value)
    });
    options
}
