//! The MCP module of a build without MCP: every server in a domain is an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loop_tools::{Credentials, Tool};

use crate::LoadOptions;
use crate::config::ToolConfig;
use crate::error::DomainError;
use crate::file::File;
use crate::review::ServerReview;
use crate::tools::ToolSecrets;

/// No servers.
#[derive(Default)]
pub(crate) struct Servers;

/// No tools of servers.
pub(crate) struct MadeTools {
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) warnings: Vec<String>,
}

/// The type of [`McpServers`](crate::review::McpServers) in a build without servers. It has no values.
#[derive(Debug)]
pub(crate) enum ServerList {}

/// The error that this program was built without MCP servers.
fn refused(file: &File, path: &[&str]) -> DomainError {
    let message = if cfg!(unix) {
        "this program was built without MCP servers; build it with `--features mcp`"
    } else {
        "MCP servers need a Unix system; take them out"
    };
    file.error(path, message)
}

impl Servers {
    pub(crate) fn open(file: &File, _: &mut ToolSecrets, _: &mut Vec<String>) -> Result<Self, DomainError> {
        match file.config.servers.names().next() {
            Some(name) => Err(refused(file, &["servers", name])),
            None => Ok(Self),
        }
    }

    pub(crate) fn tools(
        &mut self,
        file: &File,
        tables: &[(&str, &ToolConfig)],
        _: &mut ToolSecrets,
    ) -> Result<MadeTools, DomainError> {
        match tables.first() {
            Some((name, _)) => Err(refused(file, &["tools", name, "kind"])),
            None => Ok(MadeTools { tools: Vec::new(), warnings: Vec::new() }),
        }
    }

    pub(crate) fn start(&self, _: &Credentials) {}

    pub(crate) fn of_tool(&self, _: &str) -> Option<&str> {
        None
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        Vec::new()
    }
}

impl ServerList {
    pub(crate) fn load(folder_or_file: &Path, options: &LoadOptions) -> Result<Self, DomainError> {
        Err(refused(&File::read(folder_or_file, options)?, &["servers"]))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    pub(crate) fn check(&self, _: &str) -> Result<(), DomainError> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "as in a build with servers")]
    pub(crate) async fn review(&self, _: &str) -> Result<ServerReview, String> {
        match *self {}
    }

    pub(crate) fn trust(&self, _: &[ServerReview]) -> Result<PathBuf, DomainError> {
        match *self {}
    }
}
