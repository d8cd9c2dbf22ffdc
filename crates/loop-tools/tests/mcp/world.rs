//! The servers, and how the tests call them.

use std::path::{Path, PathBuf};

use loop_core::types::{Effect, Observation, Scope};
use loop_tools::connectors::{McpClient, McpProgram, McpSettings, McpTool, McpTransport};
use loop_tools::{Credentials, Registry, ToolContext, ToolDeclaration};
use serde_json::Value;

/// Where `cargo xtask servers mcp` put the servers.
pub(crate) fn program(name: &str) -> PathBuf {
    let folder =
        PathBuf::from(std::env::var_os("LOOPGATE_TEST_MCP").expect("set by `cargo xtask servers mcp`"));
    let places = [folder.join("node_modules/.bin").join(name), folder.join("venv/bin").join(name)];
    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is not there"))
}

/// A server that is started as a program.
pub(crate) fn server(name: &str, args: &[&str], folder: &Path) -> McpClient {
    let mut settings = McpProgram::new(program(&format!("mcp-server-{name}")).to_str().unwrap(), folder);
    settings.args = args.iter().map(|arg| (*arg).to_owned()).collect();
    // Otherwise `memory` keeps what it is told in the folder of its own program.
    settings.set = vec![("MEMORY_FILE_PATH".to_owned(), folder.join("memory.json").display().to_string())];
    McpClient::new(McpSettings::new(name, McpTransport::Program(settings))).unwrap()
}

/// All tools of a server as it lists them now, by the names that it gives them.
pub(crate) async fn registry(server: &McpClient, effect: Effect) -> Registry {
    let manifest = server.manifest(&Credentials::none()).await.unwrap();
    let mut builder = Registry::builder();
    for tool in manifest.tools {
        let declaration = ToolDeclaration::new(tool.name.replace(['-', '.'], "_")).effect(effect);
        builder = builder.tool(McpTool::new(declaration, server, tool).unwrap());
    }
    builder.build().unwrap()
}

pub(crate) async fn call(registry: &Registry, tool: &str, arguments: Value) -> Observation {
    let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
    registry.dispatch(tool, &arguments, context, &Credentials::none(), 30_000, 4_000).await
}
