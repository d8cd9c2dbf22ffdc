//! What an MCP server is made from.

use std::path::PathBuf;
use std::time::Duration;

use crate::connectors::command::SandboxFolders;
use crate::connectors::http::HttpAuth;

/// What an MCP server is made from.
#[derive(Clone, Debug)]
pub struct McpSettings {
    /// The server's name for messages, for example `github`.
    pub name: String,
    /// How to reach it.
    pub transport: McpTransport,
    /// How long it may take until it has started and said which tools it has.
    pub start_timeout: Duration,
    /// How long a call may pass without an answer or a notice of progress. The tool's own limit ends it in any case.
    pub idle_timeout: Duration,
}

/// How an MCP server is reached.
#[derive(Clone, Debug)]
pub enum McpTransport {
    /// A program that is started, and speaks over its standard input and output.
    Program(McpProgram),
    /// A running server, over streamable HTTP.
    Http(McpHttp),
}

/// A server that is started as a program. It runs without a shell in an environment of its own: of this process it gets
/// `HOME`, `LANG`, `LC_ALL`, `LOGNAME`, `PATH`, `TMPDIR`, `TZ` and `USER`, and beyond them what the settings name.
#[derive(Clone, Debug)]
pub struct McpProgram {
    /// The program: a name that is looked for in `PATH` once, when the server is made, or an absolute path.
    pub program: String,
    /// The program as the configuration names it, where `program` is a path that was made of that. It identifies the
    /// server, so that a folder with a configuration may be moved. `None`: `program` is what the configuration names.
    pub written: Option<String>,
    /// The arguments.
    pub args: Vec<String>,
    /// The working folder. It must exist when the server is made.
    pub folder: PathBuf,
    /// Variables that the program gets as they are in the environment of this process. Those that are not set are left out.
    pub env: Vec<String>,
    /// Variables with their values.
    pub set: Vec<(String, String)>,
    /// Variables whose values come from the [`Credentials`](crate::Credentials) and are masked in its output.
    pub secret_env: Vec<String>,
    /// The folders that the program may use, where the kernel has Landlock. `None`: all that its user may use.
    pub sandbox: Option<SandboxFolders>,
}

/// A server over streamable HTTP.
#[derive(Clone, Debug)]
pub struct McpHttp {
    /// The endpoint, for example `https://mcp.example.com/mcp`.
    pub url: String,
    /// Headers of every request, without secrets.
    pub headers: Vec<(String, String)>,
    /// How requests authenticate. `None`: not at all.
    pub auth: Option<HttpAuth>,
    /// Places on this machine and in private networks that it may connect to, as `HOST:PORT`.
    pub private: Vec<String>,
    /// Whether it may connect without encryption.
    pub plain_http: bool,
    /// A PEM file with certificates that are trusted in addition to those of the system.
    pub ca: Option<PathBuf>,
}

impl McpSettings {
    /// The settings of a server with 10 seconds to start, and 12 seconds for a call to show progress.
    pub fn new(name: impl Into<String>, transport: McpTransport) -> Self {
        Self {
            name: name.into(),
            transport,
            start_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(12),
        }
    }
}

impl McpProgram {
    /// A program without arguments that works in `folder`.
    pub fn new(program: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            written: None,
            args: Vec::new(),
            folder: folder.into(),
            env: Vec::new(),
            set: Vec::new(),
            secret_env: Vec::new(),
            sandbox: None,
        }
    }
}

impl McpHttp {
    /// The server at `url`, without authentication.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            auth: None,
            private: Vec::new(),
            plain_http: false,
            ca: None,
        }
    }
}
