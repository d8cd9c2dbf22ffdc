//! The server that counts effects: a thread of the parent, so it survives every kill, and it is the one that kills in the
//! middle of a request.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A request that reached the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The path without its slash: the tool's name, or `save`.
    pub tool: String,
    /// The item of the run that called.
    pub item: String,
    /// What the call was for.
    pub target: String,
    /// The idempotency key. `None`: the tool sends none.
    pub key: Option<String>,
    /// Whether the server did what was asked. A server that answers 503 did not.
    pub applied: bool,
}

#[derive(Debug, Default)]
struct ServerState {
    hits: Vec<Hit>,
    /// The process to kill at the request with this number from now on, counted from 0.
    armed: Option<(u64, Pid)>,
    seen: u64,
}

/// A server of one case. It ends with the process.
#[derive(Clone, Debug)]
pub struct Server {
    pub address: String,
    state: Arc<Mutex<ServerState>>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::<Mutex<ServerState>>::default();
        let of_thread = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&of_thread);
                thread::spawn(move || serve(stream.ok()?, &state));
            }
        });
        Self { address, state }
    }

    /// Counts requests from 0 again, and kills this process at the one with the number `at`.
    pub fn arm(&self, at: Option<u64>, pid: Pid) {
        let mut state = locked(&self.state);
        state.seen = 0;
        state.armed = at.map(|at| (at, pid));
    }

    /// Kills nothing from now on, and gives the number of requests since [`arm`](Self::arm).
    pub fn disarm(&self) -> u64 {
        let mut state = locked(&self.state);
        state.armed = None;
        state.seen
    }

    pub fn hits(&self) -> Vec<Hit> {
        locked(&self.state).hits.clone()
    }
}

fn locked(state: &Mutex<ServerState>) -> MutexGuard<'_, ServerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one connection. `None`: its other end is gone.
fn serve(stream: TcpStream, state: &Mutex<ServerState>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (head, body) = request(&mut reader)?;
        let path = head.split_whitespace().nth(1)?.trim_start_matches('/').to_owned();
        let reply = {
            let mut state = locked(state);
            let at = state.seen;
            state.seen += 1;
            let hit = hit_of(&head, &path, &body, &state.hits);
            let applied = hit.applied;
            if path != CHAT {
                state.hits.push(hit);
            }
            // Counted first: the effect has happened when the process ends.
            if let Some((_, pid)) = state.armed.filter(|(armed, _)| *armed == at) {
                state.armed = None;
                kill_process(pid, Signal::KILL).ok()?;
                return None;
            }
            if path == CHAT {
                (200, chat(&body))
            } else if applied {
                (200, json!({"done": path}))
            } else {
                (503, json!({"error": "try again"}))
            }
        };
        let text = reply.1.to_string();
        let head = format!(
            "HTTP/1.1 {} X\r\ncontent-type: application/json\r\nretry-after: 0\r\ncontent-length: {}\r\n\r\n",
            reply.0,
            text.len()
        );
        reader.get_mut().write_all(format!("{head}{text}").as_bytes()).ok()?;
    }
}

/// Where a model is asked over the wire.
const CHAT: &str = "v1/chat/completions";

fn hit_of(head: &str, path: &str, body: &Value, before: &[Hit]) -> Hit {
    let (tool, query) = path.split_once('?').unwrap_or((path, ""));
    let of_query = |name: &str| {
        let pair = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        pair.map(str::to_owned)
    };
    let named = |name: &str| body[name].as_str().map(str::to_owned).or_else(|| of_query(name));
    let target = named("target").unwrap_or_default();
    let key = header(head, "idempotency-key").or_else(|| body["key"].as_str().map(str::to_owned));
    // A report has the id of its item in its own place.
    let item = named("item").or_else(|| body["item"]["id"].as_str().map(str::to_owned)).unwrap_or_default();
    let is_first = !before.iter().any(|hit| hit.tool == tool && hit.target == target && hit.item == item);
    let applied = !(tool == "busy" && is_first);
    Hit { tool: tool.to_owned(), item, target, key, applied }
}

fn header(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = header(&head, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

/// A model over the wire: two replies that call `pay` and `note`, then an answer.
fn chat(body: &Value) -> Value {
    let turns = body["messages"]
        .as_array()
        .map_or(0, |messages| messages.iter().filter(|message| message["role"] == "assistant").count());
    let call = |nth: u32, tool: &str, target: &str| {
        let function = json!({"name": tool, "arguments": json!({"target": target}).to_string()});
        json!({"id": format!("call_{turns}_{nth}"), "type": "function", "function": function})
    };
    let (message, finish) = match turns {
        0 => (json!([call(0, "find", "a"), call(1, "find", "b"), call(2, "note", "n1")]), "tool_calls"),
        1 => (json!([call(0, "pay", "p1"), call(1, "note", "n2")]), "tool_calls"),
        _ => (Value::Null, "stop"),
    };
    let message = match message {
        Value::Null => json!({"role": "assistant", "content": "It is done."}),
        calls => json!({"role": "assistant", "content": null, "tool_calls": calls}),
    };
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    })
}

/// What the program of a command tool does: one effect, and nothing after it.
pub fn effect(args: &[String]) -> ! {
    let [address, tool, item, target, key] = args else { panic!("effect ADDRESS TOOL ITEM TARGET KEY") };
    let body = json!({"item": item, "target": target, "key": key}).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /{tool} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}",
        body.len()
    );
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status).unwrap();
    std::process::exit(i32::from(!status.contains(" 200 ")));
}
