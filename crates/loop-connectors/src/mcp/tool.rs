//! The tools of a server.

use async_trait::async_trait;
use loop_tools::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use serde_json::{Value, json};

use crate::error::ConnectorError;
use crate::mcp::manifest::McpToolSpec;
use crate::mcp::server::McpServer;

/// A tool that a server offers. It is called only while the server describes it as `trusted`.
#[derive(Clone, Debug)]
pub struct McpTool {
    declaration: ToolDeclaration,
    server: McpServer,
    trusted: McpToolSpec,
}

/// A tool that reads the resources of a server.
#[derive(Clone, Debug)]
pub struct McpResourceTool {
    declaration: ToolDeclaration,
    server: McpServer,
}

impl McpTool {
    /// The tool that `server` describes as `trusted`. The declaration says how it is named and judged; its schema becomes
    /// that of `trusted`.
    ///
    /// # Errors
    /// The schema of its results is not a schema.
    pub fn new(
        declaration: ToolDeclaration,
        server: &McpServer,
        trusted: McpToolSpec,
    ) -> Result<Self, ConnectorError> {
        let digest = trusted.digest(&server.identity()).to_string();
        let schema = trusted.input_schema.clone();
        let declaration = declaration.schema(schema).defined_by(&json!({ "kind": "mcp", "digest": digest }));
        Ok(Self { declaration, server: server.clone(), trusted })
    }
}

impl McpResourceTool {
    /// The tool that reads what stands at one of `uris`, which its one parameter `uri` names.
    pub fn new(declaration: ToolDeclaration, server: &McpServer, uris: &[String]) -> Self {
        let schema = json!({
            "type": "object",
            "properties": { "uri": { "type": "string", "description": "The address of what to read", "enum": uris } },
            "required": ["uri"],
            "additionalProperties": false,
        });
        let definition = json!({ "kind": "mcp", "server": server.identity(), "resources": uris });
        Self { declaration: declaration.schema(schema).defined_by(&definition), server: server.clone() }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(
        &self,
        _parameters: Value,
        _context: &ToolContext,
        _credentials: &Credentials,
    ) -> ToolResult {
        let _ = (&self.server, &self.trusted);
        ToolResult::failed(&*self.declaration.name, &self.declaration.title, "not written yet")
    }
}

#[async_trait]
impl Tool for McpResourceTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(
        &self,
        _parameters: Value,
        _context: &ToolContext,
        _credentials: &Credentials,
    ) -> ToolResult {
        let _ = &self.server;
        ToolResult::failed(&*self.declaration.name, &self.declaration.title, "not written yet")
    }
}
