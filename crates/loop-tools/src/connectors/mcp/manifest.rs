//! What a server says about itself, and the digests by which it is recognised.

use std::collections::BTreeSet;

use crate::text::clean;
use loop_core::types::{Digest, digest};
use serde::Serialize;
use serde_json::{Value, json};

/// What a server says that it has. All of it was written by the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpManifest {
    /// The name that it gives itself.
    pub server: String,
    /// Its tools, by name. A name that it lists twice is not among them.
    pub tools: Vec<McpToolSpec>,
    /// The resources that it lists, by URI.
    pub resources: Vec<McpResource>,
    /// What of its lists cannot be used, a line each.
    pub left_out: Vec<String>,
}

/// A tool as its server describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct McpToolSpec {
    /// Its name on the server.
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of its structured results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What it claims about its effect. Nothing is decided by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

/// A resource as its server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpResource {
    /// Its address.
    pub uri: String,
    /// Its name for people.
    pub name: String,
    /// What it is. Empty: the server does not say.
    pub description: String,
}

impl McpToolSpec {
    /// The digest of everything that this server says of the tool, as the server wrote it. `identity` is
    /// [`McpServer::identity`](crate::connectors::McpServer::identity).
    pub fn digest(&self, identity: &Value) -> Digest {
        digest("mcp-tool", &json!([identity, self]))
    }

    /// The description without control characters, terminal commands and invisible characters.
    pub fn clean_description(&self) -> String {
        clean(self.description.trim()).0.into_owned()
    }

    /// The title in the same way, on one line. `None`: it has none.
    pub fn clean_title(&self) -> Option<String> {
        let annotated = self.annotations.as_ref().and_then(|claims| claims.get("title")?.as_str());
        let title =
            clean(self.title.as_deref().or(annotated)?).0.split_whitespace().collect::<Vec<_>>().join(" ");
        (!title.is_empty()).then_some(title)
    }
}

impl McpManifest {
    /// The manifest of these lists, in an order that does not depend on the server's.
    pub(crate) fn new(server: String, mut tools: Vec<McpToolSpec>, mut resources: Vec<McpResource>) -> Self {
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let doubled: BTreeSet<String> = tools
            .windows(2)
            .filter_map(|pair| match pair {
                [one, next] if one.name == next.name => Some(one.name.clone()),
                _ => None,
            })
            .collect();
        tools.retain(|tool| !doubled.contains(&tool.name));
        let left_out = doubled
            .iter()
            .map(|name| format!("the tool `{}`: the server lists it more than once", clean(name).0));
        let left_out = left_out.collect();
        resources.sort_by(|a, b| a.uri.cmp(&b.uri));
        resources.dedup_by(|a, b| a.uri == b.uri);
        Self { server, tools, resources, left_out }
    }
}
