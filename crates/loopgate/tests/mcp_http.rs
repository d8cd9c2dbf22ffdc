//! `loopgate mcp --http`: who is let in, and what a slow, large or foreign request comes to.

use crate::common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use common::Shell;
use serde_json::{Value, json};

pub const TOKEN: &str = "a-token-of-thirty-two-characters";

pub struct Server {
    child: Child,
    pub address: String,
    err: BufReader<std::process::ChildStderr>,
}

impl Server {
    pub fn start(shell: &Shell, token: Option<&str>, args: &[&str]) -> Self {
        Self::of(shell, "examples/helpdesk", token, args)
    }

    pub fn of(shell: &Shell, domain: &str, token: Option<&str>, args: &[&str]) -> Self {
        let all = [&["mcp", domain, "--http", "127.0.0.1:0"], args].concat();
        let mut command = shell.command(&all);
        command.env_remove("LOOPGATE_MCP_TOKEN");
        if let Some(token) = token {
            command.env("LOOPGATE_MCP_TOKEN", token);
        }
        let mut child = command.spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        err.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("serving: http://").and_then(|it| it.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address, err }
    }

    /// Sends a head and a body, and reads until the server closes.
    fn exchange(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        // A server that refuses a body need not read it.
        let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn post(&self, more: &[(&str, &str)], body: &Value) -> String {
        let bearer = format!("Bearer {TOKEN}");
        let usual = [
            ("host", self.address.as_str()),
            ("authorization", &bearer),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let named = |name: &str| more.iter().any(|(other, _)| *other == name);
        let headers: Vec<_> =
            usual.into_iter().filter(|(name, _)| !named(name)).chain(more.iter().copied()).collect();
        self.exchange("POST", "/mcp", &headers, &body.to_string())
    }

    pub fn end(mut self) -> i32 {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}})
}

#[track_caller]
fn status(answer: &str, code: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
}

#[test]
fn only_a_client_with_the_token_is_let_in() {
    let shell = Shell::new();
    let server = Server::start(&shell, Some(TOKEN), &[]);
    for given in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic YTpi",
        &format!("Bearer {TOKEN}x"),
        &format!("Bearer {}", &TOKEN[1..]),
    ] {
        let answer = server.post(&[("authorization", given)], &initialize());
        status(&answer, 401);
        assert!(answer.contains("www-authenticate: Bearer"), "{answer}");
    }
    let answer = server.post(&[], &initialize());
    status(&answer, 200);
    assert!(answer.contains("mcp-session-id:") && answer.contains("\"serverInfo\""), "{answer}");
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("host", server.address.as_str()), ("authorization", bearer.as_str())];
    status(&server.exchange("GET", "/", &headers, ""), 404);
    assert_eq!(server.end(), 143);
}

#[test]
fn a_web_page_and_a_name_that_was_bound_anew_are_refused() {
    // DNS rebinding: the browser sends the attacker's name as the host, and its page as the origin.
    let shell = Shell::new();
    let server = Server::start(&shell, Some(TOKEN), &["--allow-origin", "https://app.example.com:443"]);
    status(&server.post(&[("host", "evil.example.com")], &initialize()), 403);
    let none = Server::start(&shell, Some(TOKEN), &[]);
    status(&none.post(&[("origin", "http://evil.example.com")], &initialize()), 403);
    for origin in ["http://evil.example.com", "null", "http://localhost:1"] {
        status(&server.post(&[("origin", origin)], &initialize()), 403);
    }
    status(&server.post(&[("origin", "https://app.example.com")], &initialize()), 200);
}

#[test]
fn without_a_token_one_is_made_for_this_machine_and_none_for_others() {
    let shell = Shell::new();
    let mut server = Server::start(&shell, None, &[]);
    let mut line = String::new();
    server.err.read_line(&mut line).unwrap();
    let token = line.trim().strip_prefix("token:   ").unwrap();
    assert_eq!(token.len(), 64, "{token}");
    status(&server.post(&[], &initialize()), 401);
    status(&server.post(&[("authorization", &format!("Bearer {token}"))], &initialize()), 200);
    let mut command = shell.command(&["mcp", "examples/helpdesk", "--http", "0.0.0.0:0"]);
    let ran: common::Ran = command.env_remove("LOOPGATE_MCP_TOKEN").output().unwrap().into();
    ran.fails_with(&["--http 0.0.0.0:0", "a token is required", "LOOPGATE_MCP_TOKEN"]);
    let mut command = shell.command(&["mcp", "examples/helpdesk", "--http", "127.0.0.1:0"]);
    let ran: common::Ran = command.env("LOOPGATE_MCP_TOKEN", "short").output().unwrap().into();
    ran.fails_with(&["LOOPGATE_MCP_TOKEN", "at least 24"]);
    assert!(!ran.err.contains("short;"));
    shell
        .run(&["mcp", "examples/helpdesk", "--http", &server.address])
        .fails_with(&["--http", "another port"]);
}

#[test]
fn large_and_slow_requests_end() {
    let shell = Shell::new();
    let server = Server::start(&shell, Some(TOKEN), &[]);
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": "x".repeat(64 << 20)});
    let answer = server.post(&[], &large);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");
    // A client that never ends its headers.
    let mut slow = TcpStream::connect(&server.address).unwrap();
    slow.write_all(b"POST /mcp HTTP/1.1\r\nhost: ").unwrap();
    // One that never ends its body.
    let mut body = TcpStream::connect(&server.address).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: 100\r\n\r\n{{",
        server.address
    );
    body.write_all(head.as_bytes()).unwrap();
    let since = Instant::now();
    for stream in [&mut slow, &mut body] {
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut answer = [0; 64];
        let read = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
    // Others were served meanwhile.
    status(&server.post(&[], &initialize()), 200);
}

#[test]
fn sessions_are_bounded() {
    let shell = Shell::new();
    let server = Server::start(&shell, Some(TOKEN), &[]);
    for _ in 0..64 {
        status(&server.post(&[], &initialize()), 200);
    }
    status(&server.post(&[], &initialize()), 503);
    // The protocol without sessions is not affected.
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "run", "arguments": {"item": "# The printer is broken\n\nIt is."}, "_meta": meta}});
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "run")];
    let answer = server.post(&headers, &body);
    status(&answer, 200);
    assert!(answer.contains("\"state\":\"ended\""), "{answer}");
}
