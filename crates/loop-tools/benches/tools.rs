//! What a call of a tool costs beyond the work that it does: the same work by hand, in turns with it, in one run.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use loop_core::types::{Effect, Scope};
use loop_llm::http::http_client;
use loop_tools::connectors::{
    CommandSettings, CommandTool, Database, FilesSettings, FilesTool, FilesWork, HttpDefinition, HttpTool,
    SqlTool,
};
use loop_tools::{Credentials, Tool, ToolContext, ToolDeclaration};
use serde_json::{Value, json};

/// How often each is done.
const CALLS: usize = 500;
const BODY: &str = r#"{"name": "web-1", "state": "late"}"#;

#[tokio::main]
async fn main() {
    println!("{:8} {:>12} {:>12} {:>8}", "kind", "by hand", "call", "ratio");
    http().await;
    command().await;
    files().await;
    sql().await;
}

async fn http() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        listener.incoming().for_each(|stream| _ = thread::spawn(|| serve(stream.unwrap())))
    });
    let url = format!("http://{place}/");
    let definition = HttpDefinition {
        url: url.clone(),
        private: vec![place],
        plain_http: true,
        ..HttpDefinition::default()
    };
    let tool = HttpTool::new(declaration(json!({"type": "object"})), &definition).unwrap();
    let client = http_client().unwrap();
    let by_hand = async || {
        let body = client.get(&url).send().await.unwrap().bytes().await.unwrap();
        serde_json::from_slice::<Value>(&body).unwrap();
    };
    measure("http", &tool, &json!({}), by_hand).await;
}

/// Answers every request of a connection.
fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if line == "\r\n" && stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
        line.clear();
    }
}

async fn command() {
    let settings = CommandSettings::new("uname", std::env::temp_dir());
    let tool = CommandTool::new(declaration(json!({"type": "object"})), settings).unwrap();
    let by_hand = async || assert!(Command::new("uname").env_clear().output().unwrap().status.success());
    measure("command", &tool, &json!({}), by_hand).await;
}

async fn files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.md");
    std::fs::write(&file, "A line of a note.\n".repeat(100)).unwrap();
    let work = FilesWork::Read;
    let tool = FilesTool::new(declaration(work.schema()), &FilesSettings::new(folder.path(), work)).unwrap();
    let by_hand = async || assert!(!std::fs::read_to_string(&file).unwrap().is_empty());
    measure("files", &tool, &json!({"path": "a.md"}), by_hand).await;
}

async fn sql() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch("CREATE TABLE stock (name, pieces); INSERT INTO stock VALUES ('nut', 7)")
        .unwrap();
    let query = "SELECT name, pieces FROM stock";
    let database = Database::open(&path).unwrap();
    let tool = SqlTool::new(declaration(json!({"type": "object"})), &database, query).unwrap();
    let by_hand = async || {
        let mut statement = connection.prepare_cached(query).unwrap();
        let pieces: i64 = statement.query_row([], |row| row.get(1)).unwrap();
        assert_eq!(pieces, 7);
    };
    measure("sql", &tool, &json!({}), by_hand).await;
}

fn declaration(schema: Value) -> ToolDeclaration {
    ToolDeclaration::new("look").title("Look").schema(schema).effect(Effect::Read)
}

/// Prints the medians. Both are done in turns, so that a busy machine is as busy for each.
async fn measure(kind: &str, tool: &impl Tool, parameters: &Value, by_hand: impl AsyncFn()) {
    let (context, credentials) = (ToolContext::new(Scope::default(), "x", "k"), Credentials::none());
    let first = tool.call(parameters.clone(), &context, &credentials).await;
    assert_eq!(first.kind, None, "{}", first.summary);
    by_hand().await;
    let (mut raw, mut called) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let began = Instant::now();
        by_hand().await;
        raw.push(began.elapsed());
        let began = Instant::now();
        tool.call(parameters.clone(), &context, &credentials).await;
        called.push(began.elapsed());
    }
    let [raw, called] = [raw, called].map(|mut times: Vec<Duration>| {
        times.sort();
        times.into_iter().nth(CALLS / 2).unwrap()
    });
    let ratio = called.as_secs_f64() / raw.as_secs_f64();
    println!("{kind:8} {raw:>12.1?} {called:>12.1?} {ratio:>8.2}");
}
