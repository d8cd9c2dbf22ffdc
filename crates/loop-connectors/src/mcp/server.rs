//! One server, shared by all tools and runs that use it.

use std::fmt;
use std::sync::Arc;

use loop_tools::Credentials;
use serde_json::{Value, json};

use crate::error::ConnectorError;
use crate::mcp::manifest::McpManifest;
use crate::mcp::settings::{McpSettings, McpTransport};

/// The most bytes of one message of a server.
pub const MCP_MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Why a server could not be asked, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct McpError {
    pub(crate) message: String,
}

/// A server of the Model Context Protocol. A clone shares it: all tools of it in all runs of a process use one connection,
/// which is made when it is first needed and again after it was lost.
#[derive(Clone)]
pub struct McpServer {
    settings: Arc<McpSettings>,
}

impl McpServer {
    /// The server with these settings. Nothing is started.
    ///
    /// # Errors
    /// A setting is wrong: a program that is not there or runs what it is given, a folder that is not there, a URL that may
    /// not be connected to.
    pub fn new(settings: McpSettings) -> Result<Self, ConnectorError> {
        Ok(Self { settings: Arc::new(settings) })
    }

    /// What the server is known by: its name, and the program with its arguments or the URL, as they were given. What is
    /// trusted is trusted of this server alone.
    pub fn identity(&self) -> Value {
        let name = &self.settings.name;
        match &self.settings.transport {
            McpTransport::Program(program) => {
                let written = program.written.as_ref().unwrap_or(&program.program);
                json!({ "name": name, "program": written, "args": program.args })
            }
            McpTransport::Http(http) => json!({ "name": name, "url": http.url }),
        }
    }

    /// Begins to start the server, and does not wait. Does nothing where it is started or being started.
    pub fn start(&self, _credentials: &Credentials) {}

    /// What the server says now.
    ///
    /// # Errors
    /// It does not start, does not answer in time, or does not speak the protocol.
    pub async fn manifest(&self, _credentials: &Credentials) -> Result<McpManifest, McpError> {
        Err(McpError { message: "not written yet".to_owned() })
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpServer").field(&self.settings.name).finish()
    }
}
