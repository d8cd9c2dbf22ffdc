//! `tools.lock` next to `loopgate.toml`: the tool descriptions of each MCP server that the operator has trusted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(all(feature = "mcp", unix))]
use crate::connectors::McpToolSpec;

/// The version of the format that this crate reads and writes.
const VERSION: u32 = 1;

/// The tools that are trusted, by server. `loopgate tools DOMAIN trust` writes this file. It belongs into version control.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The version of this file's format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// The servers, by their names in the domain file.
    pub servers: BTreeMap<String, LockedServer>,
}

/// What is trusted of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockedServer {
    /// What identifies the server: its name, and the program with its arguments or the URL, as the domain file had
    /// them. If the domain file has something else now, nothing of the server is trusted.
    pub identity: Value,
    /// The tools, by name.
    pub tools: Vec<LockedTool>,
}

/// A tool as its server described it when it was trusted. A tool that is described in another way is not called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockedTool {
    /// Its name on the server.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of its structured results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the server claims about its effect. Nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    /// The digest of the server's identity and of all this, so that an edit by hand is noticed.
    pub digest: String,
}

impl Default for Lock {
    fn default() -> Self {
        Self { version: VERSION, servers: BTreeMap::new() }
    }
}

#[cfg(all(feature = "mcp", unix))]
impl LockedTool {
    /// The tool that the server with this identity describes.
    fn of(tool: McpToolSpec, identity: &Value) -> Self {
        let digest = tool.digest(identity).to_string();
        let McpToolSpec { name, title, description, input_schema, output_schema, annotations } = tool;
        Self { name, title, description, input_schema, output_schema, annotations, digest }
    }

    /// The tool as the connector takes it.
    pub fn spec(&self) -> McpToolSpec {
        let Self { name, title, description, input_schema, output_schema, annotations, digest: _ } =
            self.clone();
        McpToolSpec { name, title, description, input_schema, output_schema, annotations }
    }
}

/// Why a text is not a lock file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotALock {
    /// What is wrong.
    pub message: String,
    /// Whether a newer program wrote it.
    pub is_newer: bool,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
}

impl Lock {
    /// The lock of this text.
    ///
    /// # Errors
    /// It is not one, or was written by a newer program.
    pub fn parse(text: &str) -> Result<Self, NotALock> {
        let at = |line: usize, column: usize, message: String, is_newer| NotALock {
            message,
            is_newer,
            line: line.max(1),
            column: column.max(1),
        };
        let broken = |error: &serde_json::Error| {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            let message = format!("it is not a file of trusted tools: {message}");
            at(error.line(), error.column(), message, false)
        };
        let value: Value = serde_json::from_str(text).map_err(|error| broken(&error))?;
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {
                serde_json::from_str(text).map_err(|error| broken(&error))
            }
            Some(newer) if newer > u64::from(VERSION) => {
                let message = format!(
                    "written by a newer loopgate: its format is {newer}, this one reads {VERSION}; update loopgate"
                );
                Err(at(1, 1, message, true))
            }
            _ => {
                let message = "it is not a file of trusted tools: it has no known `version`".to_owned();
                Err(at(1, 1, message, false))
            }
        }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        // A map of texts and JSON is always JSON.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

#[cfg(all(feature = "mcp", unix))]
impl LockedServer {
    /// An entry with these tools of the server with this identity.
    pub fn of(tools: Vec<McpToolSpec>, identity: Value) -> Self {
        let tools = tools.into_iter().map(|tool| LockedTool::of(tool, &identity)).collect();
        Self { identity, tools }
    }

    /// The first tool that was edited by hand since it was trusted.
    pub fn edited(&self) -> Option<&LockedTool> {
        self.tools.iter().find(|tool| tool.digest != tool.spec().digest(&self.identity).to_string())
    }
}
