//! Servers of the Model Context Protocol, and their tools as [`Tool`](crate::Tool)s.
//!
//! ```text
//! McpTool ─▶ McpClient ─▶ own thread ─▶ connection ─▶ program over its pipes, or streamable HTTP
//!                                          │
//!                                          ├─ what the server lists is compared with what was trusted
//!                                          └─ call, progress, cancellation, result
//! ```

mod connection;
pub(crate) mod content;
mod endpoint;
mod manifest;
mod program;
mod server;
mod settings;
mod tool;
mod wire;

pub use self::manifest::{McpManifest, McpResource, McpToolSpec};
pub use self::server::{McpClient, McpError};
pub use self::settings::{McpHttp, McpProgram, McpSettings, McpTransport};
pub use self::tool::{McpResourceTool, McpTool};
pub use self::wire::MCP_MESSAGE_BYTES_MAX;
