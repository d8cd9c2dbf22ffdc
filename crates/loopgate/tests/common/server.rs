//! `loopgate serve` as a process: started, asked over HTTP, killed, ended by a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Shell;

/// How long a test waits for what has to happen.
pub const LONG: Duration = Duration::from_secs(60);

pub struct Server {
    child: Child,
    pub address: String,
    /// The address for the person at this machine.
    pub open: String,
    /// The token that requests are sent with. Empty: they have none.
    pub token: String,
    err: BufReader<ChildStderr>,
}

/// What was answered: the status, the head and the body.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request and reads the answer. `None`: the server is gone.
pub fn ask(address: &str, line: &str, headers: &str, body: &str) -> Option<Answered> {
    let mut stream = sent(address, line, headers, body)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answered { status, head: head.to_owned(), body: body.to_owned() })
}

/// Sends a request, and leaves the answer to be read.
pub fn sent(address: &str, line: &str, headers: &str, body: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LONG * 2)).unwrap();
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(head.as_bytes()).ok()?;
    Some(stream)
}

/// The headers of a caller with this token.
pub fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n")
}

/// A file of tokens with one of an administrator, and that token.
pub fn admin(shell: &Shell) -> (PathBuf, String) {
    let file = shell.state.path().join("tokens.toml");
    shell.run(&["serve", "tokens", "remove", "test", "--file", path(&file)]);
    let token = token(shell, &file, "test", &["--role", "admin"]);
    (file, token)
}

/// Adds a token, and returns it.
#[track_caller]
pub fn token(shell: &Shell, file: &Path, name: &str, args: &[&str]) -> String {
    let ran = shell.run(&[&["serve", "tokens", "add", name, "--file", path(file)], args].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out.trim_end().to_owned()
}

pub fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

impl Server {
    /// A server with a token of an administrator.
    pub fn start(shell: &Shell, args: &[&str]) -> Self {
        let (file, token) = admin(shell);
        Self::open(shell, &[&["--tokens", path(&file)], args].concat()).with_token(&token)
    }

    /// A server with the tokens that the arguments name.
    pub fn open(shell: &Shell, args: &[&str]) -> Self {
        let login = shell.state.path().join("login");
        let own = ["serve", "--listen", "127.0.0.1:0", "--login-file", path(&login)];
        let all = [&own, args].concat();
        let mut child = shell.command(&all).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = |prefix: &str| {
            let mut line = String::new();
            err.read_line(&mut line).unwrap();
            line.trim().strip_prefix(prefix).unwrap_or_else(|| panic!("{line}")).to_owned()
        };
        let address = line("serving: http://").strip_suffix("/v1").unwrap().to_owned();
        // The address itself is in the file alone.
        assert_eq!(line("open:    "), format!("in {} (once, within 10 minutes)", login.display()));
        let open = std::fs::read_to_string(&login).unwrap().trim_end().to_owned();
        Self { child, address, open, token: String::new(), err }
    }

    /// The same server, asked with this token.
    pub fn with_token(mut self, token: &str) -> Self {
        token.clone_into(&mut self.token);
        self
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks without a token.
    pub fn send(&self, line: &str, headers: &str, body: &str) -> Answered {
        ask(&self.address, line, headers, body).unwrap_or_else(|| panic!("{line}: no answer"))
    }

    /// Asks with its token.
    pub fn ask(&self, line: &str, headers: &str, body: &str) -> Answered {
        self.send(line, &format!("{}{headers}", bearer(&self.token)), body)
    }

    pub fn get(&self, path: &str) -> Value {
        let answered = self.ask(&format!("GET {path}"), "", "");
        assert_eq!(answered.status, 200, "{path}: {answered:?}");
        answered.json()
    }

    /// Submits and waits as long as the run is under way.
    pub fn submitted(&self, body: &Value) -> Value {
        let answered = self.ask("POST /v1/runs", "prefer: wait=60\r\n", &body.to_string());
        assert_eq!(answered.status, 202, "{answered:?}");
        answered.json()
    }

    pub fn kill(self) {
        drop(self);
    }

    /// Ends it as a service manager does. Returns its exit code, and what it told.
    pub fn end(mut self) -> (i32, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut told = String::new();
        self.err.read_to_string(&mut told).unwrap();
        (self.child.wait().unwrap().code().unwrap(), told)
    }
}

/// A test that fails leaves no server behind.
impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
