//! A provider on loopback that keeps what it was sent: Chat Completions, one canned body a call.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

pub struct Provider {
    pub url: String,
    received: Arc<Mutex<Vec<String>>>,
    arrived: Receiver<()>,
    release: Sender<()>,
}

/// What a call gets.
pub enum Says {
    Body(Value),
    /// Nothing, until the client hangs up.
    Nothing,
    /// An error, to be tried again after so many seconds.
    Refused {
        status: u16,
        retry_after: u32,
    },
    /// A stream, in pieces.
    Stream(Vec<Piece>),
}

/// A piece of a stream.
#[derive(Clone)]
pub enum Piece {
    Text(&'static str),
    Call {
        tool: &'static str,
        arguments: Value,
    },
    /// Nothing, until the test says [`Provider::go_on`].
    Hold,
}

impl Provider {
    /// Calls get these replies in their order; later ones get the last.
    pub fn replying(replies: Vec<Says>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let received = Arc::<Mutex<Vec<String>>>::default();
        let (tell, arrived) = channel();
        let log = Arc::clone(&received);
        let (release, held) = channel();
        let held = Arc::new(Mutex::new(held));
        thread::spawn(move || {
            let mut nth = 0;
            for connection in listener.incoming() {
                let reply = &replies[nth.min(replies.len() - 1)];
                nth += usize::from(answer(connection.unwrap(), reply, &log, &tell, &held));
            }
        });
        Self { url, received, arrived, release }
    }

    /// Each call as it came: head and body.
    pub fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }

    /// Lets a stream that is held continue.
    pub fn go_on(&self) {
        self.release.send(()).unwrap();
    }

    /// Waits until a call more has come.
    pub fn wait(&self) {
        self.arrived.recv_timeout(Duration::from_secs(60)).expect("no call has come");
    }
}

fn answer(
    stream: TcpStream,
    says: &Says,
    log: &Mutex<Vec<String>>,
    tell: &Sender<()>,
    held: &Arc<Mutex<Receiver<()>>>,
) -> bool {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    log.lock().unwrap().push(format!("{head}{}", String::from_utf8_lossy(&body)));
    let _ = tell.send(());
    let mut stream = reader.into_inner();
    match says {
        Says::Body(value) => {
            let text = value.to_string();
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
            let _ = write!(stream, "{head} {}\r\n\r\n{text}", text.len());
        }
        Says::Refused { status, retry_after } => {
            let text = json!({"error": {"message": "Rate limit reached", "type": "requests"}}).to_string();
            let head = format!(
                "HTTP/1.1 {status} Refused\r\nretry-after: {retry_after}\r\ncontent-type: application/json\r\nconnection: close"
            );
            let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        }
        Says::Stream(pieces) => {
            let (pieces, held) = (pieces.clone(), Arc::clone(held));
            thread::spawn(move || stream_out(&mut stream, &pieces, &held));
        }
        Says::Nothing => {
            // In a thread of its own, so that others are served meanwhile.
            thread::spawn(move || stream.read_to_end(&mut Vec::new()));
        }
    }
    true
}

fn stream_out(stream: &mut TcpStream, pieces: &[Piece], held: &Mutex<Receiver<()>>) {
    let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
    let mut finish = "stop";
    let mut chunk = |delta: Value, finish: Option<&str>, usage: Value| {
        let choice = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let object = "chat.completion.chunk";
        let body =
            json!({"id": "c", "object": object, "model": "m-2026-08-01", "choices": choice, "usage": usage});
        let _ = write!(stream, "data: {body}\n\n").and_then(|()| stream.flush());
    };
    for piece in pieces {
        match piece {
            Piece::Text(text) => chunk(json!({"content": text}), None, Value::Null),
            Piece::Call { tool, arguments } => {
                finish = "tool_calls";
                let function = json!({"name": tool, "arguments": arguments.to_string()});
                let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
                chunk(json!({"tool_calls": [call]}), None, Value::Null);
            }
            Piece::Hold => {
                if held.lock().unwrap().recv().is_err() {
                    return;
                }
            }
        }
    }
    let usage = json!({"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25});
    chunk(json!({}), Some(finish), usage);
    let _ = write!(stream, "data: [DONE]\n\n");
}

/// A reply that ends a conversation, served by `model`.
pub fn text(model: &str, text: &str) -> Says {
    Says::Body(completion(model, json!({"role": "assistant", "content": text}), "stop"))
}

/// A reply that calls a tool.
pub fn call(model: &str, tool: &str, arguments: &Value) -> Says {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let calls = json!([{"id": "call_1", "type": "function", "function": function}]);
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    Says::Body(completion(model, message, "tool_calls"))
}

fn completion(model: &str, message: Value, finish: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    })
}
