//! `tools.lock` next to `loopgate.toml`: what the operator has trusted of each server, as the server said it then.

use std::collections::BTreeMap;
#[cfg(all(feature = "mcp", unix))]
use std::fs;
#[cfg(all(feature = "mcp", unix))]
use std::io::{ErrorKind, Write};
#[cfg(all(feature = "mcp", unix))]
use std::path::{Path, PathBuf};

#[cfg(all(feature = "mcp", unix))]
use loop_tools::connectors::McpToolSpec;
#[cfg(all(feature = "mcp", unix))]
use loop_tools::files;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(all(feature = "mcp", unix))]
use crate::error::DomainError;
#[cfg(all(feature = "mcp", unix))]
use crate::review::one_line;

/// The name of the file in a domain's folder.
pub(crate) const LOCK: &str = "tools.lock";

/// The version of the format that this crate reads and writes.
#[cfg(all(feature = "mcp", unix))]
const VERSION: u32 = 1;

/// The tools that are trusted, by server. `loopgate tools DOMAIN trust` writes this file. It belongs into version control.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lock {
    /// The version of this file's format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// The servers, by their names in the domain file.
    pub(crate) servers: BTreeMap<String, LockedServer>,
}

/// What is trusted of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockedServer {
    /// What the server was known by: its name, and the program with its arguments or the URL, as the domain file has them. Where
    /// the domain file has something else, nothing of the server is trusted.
    pub(crate) identity: Value,
    /// The tools, by name.
    pub(crate) tools: Vec<LockedTool>,
}

/// A tool as its server described it when it was trusted. A tool that is described in another way is not called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockedTool {
    /// Its name on the server.
    pub(crate) name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// What it does.
    #[serde(default)]
    pub(crate) description: String,
    /// The JSON Schema of its arguments.
    pub(crate) input_schema: Value,
    /// The JSON Schema of its structured results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Value>,
    /// What the server claims about its effect. Nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<Value>,
    /// The digest of the server's identity and of all this, so that an edit by hand is noticed.
    pub(crate) digest: String,
}

#[cfg(all(feature = "mcp", unix))]
impl Default for Lock {
    fn default() -> Self {
        Self { version: VERSION, servers: BTreeMap::new() }
    }
}

#[cfg(all(feature = "mcp", unix))]
impl LockedTool {
    /// The tool that the server with this identity describes.
    pub(crate) fn of(tool: McpToolSpec, identity: &Value) -> Self {
        let digest = tool.digest(identity).to_string();
        let McpToolSpec { name, title, description, input_schema, output_schema, annotations } = tool;
        Self { name, title, description, input_schema, output_schema, annotations, digest }
    }

    /// The tool as the connector takes it.
    pub(crate) fn spec(&self) -> McpToolSpec {
        let Self { name, title, description, input_schema, output_schema, annotations, digest: _ } =
            self.clone();
        McpToolSpec { name, title, description, input_schema, output_schema, annotations }
    }
}

#[cfg(all(feature = "mcp", unix))]
impl Lock {
    /// The file in `folder`; empty where there is none.
    ///
    /// # Errors
    /// It cannot be read, is not such a file, or was written by a newer program.
    pub(crate) fn read(folder: &Path) -> Result<Self, DomainError> {
        let path = folder.join(LOCK);
        match files::text(&path, files::MAX_BYTES) {
            Ok(text) => Self::parse(&text, &path),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(DomainError::Unreadable { path, message: error.to_string() }),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, DomainError> {
        let advice =
            "restore it, or delete it and trust the servers again with `loopgate tools DOMAIN trust`";
        let broken = |error: &serde_json::Error| {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            let message = format!("it is not a file of trusted tools: {message}; {advice}");
            invalid(path, error.line(), error.column(), message)
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
                Err(invalid(path, 1, 1, message))
            }
            _ => {
                let message =
                    format!("it is not a file of trusted tools: it has no known `version`; {advice}");
                Err(invalid(path, 1, 1, message))
            }
        }
    }

    /// Refuses a tool of `server` that was changed by hand since it was trusted.
    pub(crate) fn verify(&self, server: &str, folder: &Path) -> Result<(), DomainError> {
        let Some(locked) = self.servers.get(server) else { return Ok(()) };
        let edited =
            locked.tools.iter().find(|tool| tool.digest != tool.spec().digest(&locked.identity).to_string());
        let Some(tool) = edited else { return Ok(()) };
        let path = folder.join(LOCK);
        // The place of the digest, for a person. The file was read a moment ago.
        let text = files::text(&path, files::MAX_BYTES).unwrap_or_default();
        let at = text.find(tool.digest.as_str()).filter(|_| !tool.digest.is_empty()).unwrap_or_default();
        let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let message = format!(
            "server `{server}`: what is written of its tool `{}` does not fit the digest, so it was edited by hand; look at \
             `loopgate tools DOMAIN diff {server}`, then run `loopgate tools DOMAIN trust {server}`",
            one_line(&tool.name)
        );
        Err(invalid(&path, line, 1, message))
    }

    /// Writes the file in `folder`, whole or not at all.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf, DomainError> {
        let path = folder.join(LOCK);
        let failed = |message: String| DomainError::Unwritable { path: path.clone(), message };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| failed(error.to_string()))?;
        text.push('\n');
        // Of this process alone, and in the same folder: only there a rename replaces the file at once.
        let beside = folder.join(format!(".{LOCK}.{}", std::process::id()));
        let written = fs::File::create(&beside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let replaced = written.and_then(|()| fs::rename(&beside, &path));
        if let Err(error) = replaced {
            // It may never have been there.
            let _ = fs::remove_file(&beside);
            return Err(failed(error.to_string()));
        }
        Ok(path)
    }
}

/// The JSON Schema of `tools.lock`, for editors.
pub fn lock_schema() -> Value {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Lock>().to_value();
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), LOCK.into());
    }
    schema
}

#[cfg(all(feature = "mcp", unix))]
fn invalid(path: &Path, line: usize, column: usize, message: String) -> DomainError {
    DomainError::Invalid { path: path.to_owned(), line: line.max(1), column: column.max(1), message }
}
