//! `[servers]`: servers that speak the Model Context Protocol.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::OrderedTable;
use crate::config::command::SandboxConfig;
use crate::config::http::HttpAuthConfig;

/// A server that speaks the Model Context Protocol (MCP). Its trusted tools become tools of the domain. Which are trusted is
/// in `tools.lock` next to this file, which `loopgate tools DOMAIN trust` writes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(all(feature = "mcp", unix)),
    allow(dead_code, reason = "without the feature it is only recognised")
)]
pub(crate) struct ServerConfig {
    /// The program that is started, and speaks over its standard input and output. Give this or `url`.
    pub(crate) command: Option<ServerCommandConfig>,
    /// The endpoint of a server over streamable HTTP, for example `https://mcp.example.com/mcp`. Give this or `command`.
    pub(crate) url: Option<String>,
    /// For `url`: headers of every request. Secrets are for `auth`. Default: none.
    #[serde(default)]
    pub(crate) headers: OrderedTable<String>,
    /// For `url`: how requests show who sends them. Default: not at all.
    pub(crate) auth: Option<HttpAuthConfig>,
    /// For `url`: places on this machine and in private networks that it may connect to, as `HOST:PORT`. Default: none.
    #[serde(default)]
    pub(crate) private: Vec<String>,
    /// For `url`: whether it may connect without encryption. Default: false.
    #[serde(default)]
    pub(crate) plain_http: bool,
    /// For `url`: a PEM file with certificates of your own authority, from the domain's folder. They are trusted in addition
    /// to those of the system. Default: only those of the system.
    pub(crate) ca: Option<String>,
    /// Milliseconds until the server has started and listed its tools. Default: 10,000.
    #[schemars(range(min = 1))]
    pub(crate) start_timeout_ms: Option<u64>,
    /// Milliseconds that a call may pass without an answer or a notice of progress. A tool's own `timeout_ms` ends it in any
    /// case. Default: 12,000.
    #[schemars(range(min = 1))]
    pub(crate) idle_ms: Option<u64>,
    /// What the names of its tools begin with: the tool `search` is called `PREFIX_search`. Empty: names have no prefix.
    /// Default: the server's name.
    pub(crate) prefix: Option<String>,
    /// The names on the server of the tools that are wanted. Default: all that are trusted.
    pub(crate) only: Option<Vec<String>>,
    /// The URIs of resources that the tool `PREFIX_read_resource` may read. Default: none, and there is not such a tool.
    #[serde(default)]
    pub(crate) resources: Vec<String>,
}

/// The program of a server. It is started without a shell, once for all runs of a process.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(all(feature = "mcp", unix)),
    allow(dead_code, reason = "without the feature it is only recognised")
)]
pub(crate) struct ServerCommandConfig {
    /// The program: a name that is looked for in `PATH` when the domain is read, an absolute path, or a path with a `/` from the
    /// domain's folder.
    pub(crate) program: String,
    /// The arguments. Default: none.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// The folder in which it works. Default: the domain's folder.
    pub(crate) folder: Option<String>,
    /// The variables of the environment that it gets as they are, besides `HOME`, `PATH` and the like. Default: none.
    #[serde(default)]
    pub(crate) env: Vec<String>,
    /// Variables with their values. Default: none.
    #[serde(default)]
    pub(crate) set: OrderedTable<String>,
    /// The secrets that it gets as variables, by their names. Their values are masked in all that a run reads. Default: none.
    #[serde(default)]
    pub(crate) secret_env: Vec<String>,
    /// The only folders that it may use, where the kernel has Landlock. Default: all that its user may use.
    pub(crate) sandbox: Option<SandboxConfig>,
}
