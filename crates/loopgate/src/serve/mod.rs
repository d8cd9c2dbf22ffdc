//! Commands that serve or call something: the HTTP and MCP servers, mock models, model and tool calls, the durable
//! engine.

mod audit;
mod engine;
mod hooks;
mod http;
#[cfg(feature = "mcp-server")]
mod mcp;
mod mcp_args;
#[cfg(feature = "mock")]
mod mock;
#[cfg(not(feature = "mock"))]
#[path = "no_mock.rs"]
mod mock;
mod model;
mod models;
mod servers;
mod tokens;
mod tools;

pub(crate) use engine::{EngineCommand, engine};
pub(crate) use http::{ServeArgs, serve};
#[cfg(feature = "mcp-server")]
pub(crate) use mcp::mcp;
pub(crate) use mcp_args::McpArgs;
#[cfg(not(feature = "mcp-server"))]
pub(crate) use mcp_args::mcp;
pub(crate) use mock::{MockArgs, mock};
pub(crate) use model::{ModelCommand, model};
pub(crate) use tools::{ToolsArgs, tools};
