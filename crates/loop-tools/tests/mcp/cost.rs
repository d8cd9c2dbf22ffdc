//! What servers cost: `cargo test --release -p loop-tools --features mcp --test it mcp::cost -- --ignored --nocapture`
//! prints it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::future::join_all;
use loop_core::types::{Effect, Scope};
use loop_tools::connectors::McpTool;
use loop_tools::{Credentials, Tool as _, ToolContext, ToolDeclaration};
use serde_json::{Value, json};

use super::world::{program, server};

const CALLS: usize = 300;

#[tokio::test]
#[ignore = "needs MCP servers: cargo xtask servers mcp"]
async fn five_servers_start_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    assert!(Command::new("git").args(["init", "--quiet"]).current_dir(&path).status().unwrap().success());
    let shown = path.to_str().unwrap();
    let named: [(&str, &[&str]); 5] =
        [("everything", &[]), ("filesystem", &[shown]), ("memory", &[]), ("time", &[]), ("git", &[])];
    let mut alone = Vec::new();
    for (name, args) in named {
        let server = server(name, args, &path);
        let began = Instant::now();
        server.manifest(&Credentials::none()).await.unwrap();
        alone.push((name, began.elapsed()));
    }
    let servers = named.map(|(name, args)| server(name, args, &path));
    let began = Instant::now();
    for server in &servers {
        server.start(&Credentials::none());
    }
    let started =
        join_all(servers.iter().map(async |server| server.manifest(&Credentials::none()).await)).await;
    let together = began.elapsed();
    assert!(
        started.iter().all(|manifest| manifest.as_ref().is_ok_and(|it| !it.tools.is_empty())),
        "{started:?}"
    );
    let all: Duration = alone.iter().map(|(_, took)| *took).sum();
    let _ = writeln!(
        std::io::stderr(),
        "alone {alone:?}, one after the other {all:?}, side by side {together:?}"
    );
}

#[tokio::test]
#[ignore = "needs MCP servers: cargo xtask servers mcp"]
async fn a_call_costs_one_message_each_way() {
    let folder = tempfile::tempdir().unwrap();
    // What is least: lines written and read by hand.
    let mut child = Command::new(program("mcp-server-everything"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut by_hand = |message: &Value| -> Value {
        writeln!(input, "{message}").unwrap();
        loop {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == message["id"] {
                return answer;
            }
        }
    };
    let about = json!({ "name": "by-hand", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
    by_hand(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }));
    let server = server("everything", &[], folder.path());
    let tools = server.manifest(&Credentials::none()).await.unwrap().tools;
    let echo = tools.into_iter().find(|tool| tool.name == "echo").unwrap();
    let tool = McpTool::new(ToolDeclaration::new("echo").effect(Effect::Read), &server, echo).unwrap();
    let (context, credentials) = (ToolContext::new(Scope::default(), "x", "k"), Credentials::none());
    let (mut raw, mut called) = (Vec::new(), Vec::new());
    // In turns, so that a busy machine is as busy for each.
    for number in 1..=CALLS {
        let began = Instant::now();
        let arguments = json!({ "name": "echo", "arguments": { "message": "hello" } });
        by_hand(&json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": arguments }));
        raw.push(began.elapsed());
        let began = Instant::now();
        let result = tool.call(json!({ "message": "hello" }), &context, &credentials).await;
        called.push(began.elapsed());
        assert!(result.success, "{}", result.summary);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let [raw, called] = [raw, called].map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    let ratio = called.as_secs_f64() / raw.as_secs_f64();
    let _ = writeln!(
        std::io::stderr(),
        "medians of {CALLS}: lines by hand {raw:?}, call {called:?}: {ratio:.1} times the lines"
    );
}
