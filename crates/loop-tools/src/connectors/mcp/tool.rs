//! The tools of a server.

use std::sync::Arc;

use crate::schema::SchemaCheck;
use crate::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use async_trait::async_trait;
use loop_core::types::{Digest, Effect};
use serde_json::{Value, json};

use crate::connectors::error::ConnectorError;
use crate::connectors::http::answer::done_with_nothing;
use crate::connectors::mcp::connection::{Answer, Ask, Content, NO_RESULT};
use crate::connectors::mcp::content::{of_call, of_resource};
use crate::connectors::mcp::manifest::McpToolSpec;
use crate::connectors::mcp::server::McpClient;
use crate::connectors::trouble::Trouble;

/// A tool that a server offers. It is called only while the server's description equals the trusted one.
///
/// A call without an answer is [`in_doubt`](ToolResult::in_doubt), unless nothing was sent.
#[derive(Clone, Debug)]
pub struct McpTool {
    declaration: ToolDeclaration,
    server: McpClient,
    name: String,
    trusted: Digest,
    /// What its structured results have to fit.
    output: Option<Arc<SchemaCheck>>,
}

/// A tool that reads the resources of a server.
#[derive(Clone, Debug)]
pub struct McpResourceTool {
    declaration: ToolDeclaration,
    server: McpClient,
}

impl McpTool {
    /// The tool that `server` describes as `trusted`. The declaration says how it is named and judged; its schema becomes
    /// that of `trusted`.
    ///
    /// # Errors
    /// The effect is `write_keyed`, because the protocol cannot send the key of a call.
    pub fn new(
        declaration: ToolDeclaration,
        server: &McpClient,
        trusted: McpToolSpec,
    ) -> Result<Self, ConnectorError> {
        if declaration.effect == Some(Effect::WriteKeyed) {
            let message = "an MCP server is not given the key of a call, so it cannot know that a call is made again; write \
                           `write_idempotent` or `write_irreversible`";
            return Err(ConnectorError::Setting { key: "effect", message: message.to_owned() });
        }
        let digest = trusted.digest(&server.identity());
        // A schema that is none holds for no result.
        let output = trusted.output_schema.as_ref().and_then(|schema| SchemaCheck::new(schema).ok());
        let output = output.map(Arc::new);
        let definition = json!({ "kind": "mcp", "digest": digest.to_string() });
        let schema = trusted.parameters().map_or(trusted.input_schema, |(schema, _)| schema);
        let declaration = declaration.schema(schema).defined_by(&definition);
        Ok(Self { declaration, server: server.clone(), name: trusted.name, trusted: digest, output })
    }

    /// What of a structured result breaks what the server itself said of it.
    fn violations(&self, answer: &Answer) -> Option<String> {
        let Content::Tool(result) = &answer.content else { return None };
        if result.is_error {
            return None;
        }
        let (output, value) = (self.output.as_ref()?, result.structured.as_ref()?);
        output.violations(value)
    }
}

impl McpResourceTool {
    /// The tool that reads what is at one of `uris`, which its one parameter `uri` names.
    pub fn new(declaration: ToolDeclaration, server: &McpClient, uris: &[String]) -> Self {
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

    async fn call(&self, parameters: Value, context: &ToolContext, credentials: &Credentials) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let arguments = match parameters {
            Value::Object(arguments) => arguments,
            _ => return ToolResult::invalid_input(name, title, "the parameters are not an object"),
        };
        let (trusted, traceparent) = (self.trusted, context.traceparent);
        let ask = Ask::Tool { name: self.name.clone(), arguments, trusted, traceparent };
        let answer = match asked(&self.server, ask, context, credentials).await {
            Ok(answer) => answer,
            Err(trouble) => return trouble.result(name, title),
        };
        if let Some(violations) = self.violations(&answer) {
            let says = format!("the result is not what the server says that it returns: {violations}");
            return unread(&self.declaration, answer.mask.mask_message(&says));
        }
        result(&self.declaration, context, answer)
    }
}

#[async_trait]
impl Tool for McpResourceTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, credentials: &Credentials) -> ToolResult {
        let uri = parameters.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned();
        let ask = Ask::Resource { uri, traceparent: context.traceparent };
        match asked(&self.server, ask, context, credentials).await {
            Ok(answer) => result(&self.declaration, context, answer),
            Err(trouble) => trouble.result(&self.declaration.name, &self.declaration.title),
        }
    }
}

/// The answer, unless the call is cancelled.
async fn asked(
    server: &McpClient,
    ask: Ask,
    context: &ToolContext,
    credentials: &Credentials,
) -> Result<Answer, Trouble> {
    let cancelled = || Trouble::InDoubt("the call was cancelled".to_owned());
    context.cancel.run_until_cancelled(server.ask(ask, credentials)).await.unwrap_or_else(|| Err(cancelled()))
}

fn result(declaration: &ToolDeclaration, context: &ToolContext, answer: Answer) -> ToolResult {
    let Answer { content, mask } = answer;
    match content {
        Content::Tool(result) => of_call(declaration, &context.scope, result, &mask),
        Content::Resource(result) => of_resource(declaration, &context.scope, result, &mask)
            .unwrap_or_else(|| unread(declaration, NO_RESULT.to_owned())),
        Content::Unread => unread(declaration, NO_RESULT.to_owned()),
    }
}

/// The result of a call that the server answered without an error, and whose answer cannot be read or believed. A write is
/// done all the same.
fn unread(declaration: &ToolDeclaration, says: String) -> ToolResult {
    if declaration.effect.is_none_or(Effect::is_read) {
        return ToolResult::retryable(&*declaration.name, &declaration.title, says);
    }
    ToolResult { error: Some(says), ..done_with_nothing(&declaration.name, Value::Null) }
}
