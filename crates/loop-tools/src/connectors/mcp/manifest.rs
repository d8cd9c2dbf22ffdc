//! What a server says about itself, and the digests by which it is recognised.

use crate::schema::SchemaCheck;
use crate::text::clean;
use loop_core::types::{Digest, digest};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::connectors::error::short_line;
use crate::connectors::mcp::wire::REFUSED;

/// What a server lists. The server wrote all of it, so it is untrusted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpManifest {
    /// The name that it gives itself.
    pub server: String,
    /// Its tools, by name. Of a name that it lists twice, the first is there.
    pub tools: Vec<McpToolSpec>,
    /// The resources that it lists, by URI.
    pub resources: Vec<McpResource>,
    /// The entries of its lists that cannot be used, one line each.
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
    /// What can be read of a tool as its server wrote it. A line says what cannot. `None`: it cannot be called.
    fn read(mut entry: Value, left_out: &mut Vec<String>) -> Option<Self> {
        let shown = short_line(&clean(&entry.to_string()).0, SHOWN_CHARS);
        let Some(members) = entry.as_object_mut() else {
            left_out.push(format!("an entry of the list of tools is not an object: {shown}"));
            return None;
        };
        let Some(Value::String(name)) = members.remove("name").filter(|name| *name != "") else {
            left_out.push(format!("a tool has no name: {shown}"));
            return None;
        };
        let called = format!("the tool `{}`", short_line(&clean(&name).0, SHOWN_CHARS));
        let mut lack = |what: &str| left_out.push(format!("{called}: {what}"));
        if name.chars().count() > NAME_MAX {
            lack(&format!("its name has more than {NAME_MAX} characters"));
            return None;
        }
        if members.contains_key(REFUSED) {
            lack("its input schema names headers (`x-mcp-header`) that cannot be sent");
            return None;
        }
        let mut take = |member: &str, wanted: fn(&Value) -> bool, otherwise: &str| {
            let value = members.remove(member).filter(|value| !value.is_null())?;
            if wanted(&value) {
                return Some(value);
            }
            lack(&format!("{otherwise}, which is not read"));
            None
        };
        let title = take("title", Value::is_string, "its title is not a text");
        let description = take("description", Value::is_string, "its description is not a text");
        let output_schema =
            take("outputSchema", Value::is_object, "the schema of its results is not an object");
        let claims = take("annotations", Value::is_object, "its annotations are not an object");
        let input = take("inputSchema", Value::is_object, "its input schema is not an object");
        let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        let annotations = claims.map(|mut claims| {
            let mut read = Map::new();
            for claim in ["title"].iter().chain(&HINTS) {
                let value = claims.as_object_mut().and_then(|claims| claims.remove(*claim));
                match value {
                    None | Some(Value::Null) => {}
                    Some(value) if if *claim == "title" { value.is_string() } else { value.is_boolean() } => {
                        read.insert((*claim).to_owned(), value);
                    }
                    Some(_) => lack(&format!("its annotation `{claim}` has another type, and is not read")),
                }
            }
            Value::Object(read)
        });
        let Some(input_schema) = input else {
            lack(
                "it has no input schema, and cannot be called; its server has to give it one, for example {\"type\": \"object\"}",
            );
            return None;
        };
        Some(Self {
            name,
            title: text(title),
            description: text(description).unwrap_or_default(),
            input_schema,
            output_schema,
            annotations,
        })
    }

    /// The digest of everything that this server says of the tool, as the server wrote it. `identity` is
    /// [`McpClient::identity`](crate::connectors::McpClient::identity).
    pub fn digest(&self, identity: &Value) -> Digest {
        digest("mcp-tool", &json!([identity, self]))
    }

    /// The schema with which the tool is called, and the names of parameters whose defaults were removed. The schema is
    /// of an object, not behind a reference, and without defaults that violate their own schema. `None`: the arguments
    /// are not an object.
    pub fn parameters(&self) -> Option<(Value, Vec<String>)> {
        let mut members = self.input_schema.as_object()?.clone();
        for _ in 0..REFERENCES_MAX {
            let Some(reference) = members.remove("$ref") else {
                let is_object = |kind: &Value| kind == "object";
                let takes_object = match members.get("type") {
                    None => true,
                    Some(Value::Array(kinds)) => kinds.iter().any(is_object),
                    Some(kind) => is_object(kind),
                };
                members.insert("type".to_owned(), Value::from("object"));
                let (mut schema, mut dropped) = (Value::Object(members), Vec::new());
                drop_defaults(&mut schema, &mut dropped);
                return takes_object.then_some((schema, dropped));
            };
            let target = self.input_schema.pointer(reference.as_str()?.strip_prefix('#')?)?;
            for (name, value) in target.as_object()? {
                members.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        None
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

/// Takes out the defaults that their own schema refuses: they would be filled in, and the call refused. What refers to
/// another part of the schema is left as it is.
fn drop_defaults(schema: &mut Value, dropped: &mut Vec<String>) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        drop_defaults(property, dropped);
        let Some(default) = property.get("default").filter(|default| !default.is_null()) else { continue };
        let is_refused = SchemaCheck::new(property).is_ok_and(|check| !check.accepts(default));
        if let Some(members) = property.as_object_mut().filter(|_| is_refused) {
            members.remove("default");
            dropped.push(short_line(&clean(name).0, SHOWN_CHARS));
        }
    }
}

/// Whether a tool is called as a task only, as its server wrote it.
pub(crate) fn needs_task(entry: &Value) -> bool {
    let support = entry.get("execution").and_then(|execution| execution.get("taskSupport"));
    support.and_then(Value::as_str) == Some("required")
}

impl McpResource {
    /// A resource as its server wrote it. `None`: it has no address.
    fn read(entry: &Value) -> Option<Self> {
        let word = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        let uri = word("uri")?;
        let name = word("title").or_else(|| word("name")).unwrap_or_else(|| uri.clone());
        Some(Self { name, description: word("description").unwrap_or_default(), uri })
    }
}

/// What a list holds: its entries as the server wrote them, and what of it was not read, a line each.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<Value>,
    pub(crate) notes: Vec<String>,
}

/// The hints of the protocol. What else is among a tool's annotations is not part of what is trusted.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
/// The most characters of a tool's name. The protocol's own limit is 128.
const NAME_MAX: usize = 256;
/// How many references from the root of a schema are followed.
const REFERENCES_MAX: usize = 8;
/// How much of what a server wrote is in a line.
const SHOWN_CHARS: usize = 80;

impl McpManifest {
    /// The manifest of these lists, in an order that does not depend on the server's.
    pub(crate) fn new(server: String, tools: Listing, resources: Listing) -> Self {
        let mut left_out = [tools.notes, resources.notes].concat();
        let mut tools: Vec<_> =
            tools.entries.into_iter().filter_map(|tool| McpToolSpec::read(tool, &mut left_out)).collect();
        // What has the same name stays in the server's order.
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools.dedup_by(|again, first| {
            let is_again = again.name == first.name;
            if is_again {
                let name = short_line(&clean(&first.name).0, SHOWN_CHARS);
                left_out
                    .push(format!("the tool `{name}`: the server lists it more than once; the first holds"));
            }
            is_again
        });
        let mut resources: Vec<_> = resources.entries.iter().filter_map(McpResource::read).collect();
        resources.sort_by(|a, b| a.uri.cmp(&b.uri));
        resources.dedup_by(|a, b| a.uri == b.uri);
        Self { server, tools, resources, left_out }
    }
}
