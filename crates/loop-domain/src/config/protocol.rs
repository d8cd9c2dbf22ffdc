//! `[protocol]` and `[output]`: what a reply is taken for, and what a run ends with.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loop_core::spec::{ErrorStyle, Execution};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// What a reply is taken for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProtocolConfig {
    /// `document`: sections that are refined pass by pass. `conversation`: messages, and the reply that calls no tool is the
    /// answer. `output`: the same, and the end is a value that is valid. Default: `document`.
    #[serde(rename = "type")]
    pub(crate) kind: ProtocolKind,
    /// For `conversation` and `output`: how the calls of one reply run. Default: `ordered`.
    pub(crate) execution: Option<Execution>,
    /// For `conversation` and `output`: the wording in which a failed call is reported to the model. Default: `plain`.
    pub(crate) errors: Option<ErrorStyle>,
}

/// Kinds of protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProtocolKind {
    /// Sections that are refined pass by pass.
    #[default]
    Document,
    /// Messages with native calls.
    Conversation,
    /// The same, up to a valid value.
    Output,
}

impl ProtocolKind {
    /// The kind as it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Conversation => "conversation",
            Self::Output => "output",
        }
    }
}

/// What a run of the protocol `output` ends with. The model gives it by calling a tool of this name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutputConfig {
    /// The name of the tool that takes the value, for example `save_lead`.
    #[schemars(regex(pattern = r"^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$"))]
    pub(crate) name: String,
    /// What the value is for and when it is to be given. The model reads it.
    #[serde(default)]
    pub(crate) description: String,
    /// The JSON Schema of the value, which is an object: a file, or the schema itself as a table.
    pub(crate) schema: SchemaConfig,
    /// How often the model may give a value that is not valid before the run ends, the first included. Default: 3.
    #[schemars(range(min = 1))]
    pub(crate) attempts: Option<u32>,
    /// How many passes one attempt may take. Default: 15.
    #[schemars(range(min = 1))]
    pub(crate) passes_per_attempt: Option<u32>,
    /// Whether the model is shown each value as a person would read it, and gives another one or ends by calling `submit`.
    /// Default: false, the first value ends the attempt.
    #[serde(default)]
    pub(crate) reflect: bool,
    /// With `reflect`: another name for `submit`.
    #[schemars(regex(pattern = r"^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$"))]
    pub(crate) submit_as: Option<String>,
    /// Tools that must accept a value that fits the schema, in this order. Each is called with `output`, the value as a JSON
    /// text. What a failure of one says is what the model reads. They are not offered to the model. Default: none.
    #[serde(default)]
    pub(crate) validate: Vec<Arc<str>>,
}

/// A JSON Schema, or the file that holds it.
#[derive(Debug)]
pub(crate) enum SchemaConfig {
    /// The file.
    File(String),
    /// The schema itself.
    Inline(Map<String, Value>),
}

struct FileOrTable;

impl<'de> Visitor<'de> for FileOrTable {
    type Value = SchemaConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a file or a table")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SchemaConfig, E> {
        Ok(SchemaConfig::File(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<SchemaConfig, A::Error> {
        Map::deserialize(MapAccessDeserializer::new(members)).map(SchemaConfig::Inline)
    }
}

impl<'de> Deserialize<'de> for SchemaConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FileOrTable)
    }
}

impl JsonSchema for SchemaConfig {
    fn schema_name() -> Cow<'static, str> {
        "SchemaConfig".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A JSON Schema: the name of a file, or the schema itself as a table.",
            "anyOf": [{ "type": "string" }, { "type": "object" }],
        })
    }
}
