//! The options of a request.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use crate::defaults::Defaults;

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolDefinition {
    /// The name that the model calls. One that the provider does not accept is sent under an alias.
    pub name: Arc<str>,
    /// What the tool does. The model reads it.
    #[serde(default)]
    pub description: Arc<str>,
    /// The JSON Schema of the arguments, an object. Default: no arguments.
    #[serde(default = "nothing")]
    pub parameters: Value,
    /// Whether the provider must enforce the schema.
    #[serde(default)]
    pub strict: Strictness,
}

impl ToolDefinition {
    /// Whether it takes any arguments.
    pub(crate) fn has_parameters(&self) -> bool {
        let properties = self.parameters.get("properties").and_then(Value::as_object);
        properties.is_some_and(|properties| !properties.is_empty())
            || self.parameters.as_object().is_some_and(|schema| {
                schema.keys().any(|key| {
                    !matches!(key.as_str(), "type" | "properties" | "additionalProperties" | "required")
                })
            })
    }
}

fn nothing() -> Value {
    serde_json::json!({"type": "object", "properties": {}})
}

/// Whether a provider enforces a JSON Schema on the model's output.
///
/// As JSON it is a word; `false` is read as `off`, and `true` as `require`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strictness {
    /// It is not enforced.
    #[default]
    Off,
    /// It is enforced if the provider supports the schema.
    Prefer,
    /// It is enforced. A schema that the provider does not support is an error.
    Require,
}

impl<'de> Deserialize<'de> for Strictness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictnessVisitor)
    }
}

struct StrictnessVisitor;

impl Visitor<'_> for StrictnessVisitor {
    type Value = Strictness;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("off, prefer, require, true or false")
    }

    fn visit_bool<E: de::Error>(self, must: bool) -> Result<Strictness, E> {
        Ok(if must { Strictness::Require } else { Strictness::Off })
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Strictness, E> {
        match word {
            "off" => Ok(Strictness::Off),
            "prefer" => Ok(Strictness::Prefer),
            "require" => Ok(Strictness::Require),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }
}

impl schemars::JsonSchema for Strictness {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Strictness".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Whether a provider holds a model to a schema.",
            "oneOf": [
                {"description": "No.", "type": "string", "const": "off"},
                {"description": "Where the schema allows it.", "type": "string", "const": "prefer"},
                {
                    "description": "Yes; a schema that does not allow it is an error.",
                    "type": "string",
                    "const": "require",
                },
                {"description": "`true` for `require`, `false` for `off`.", "type": "boolean"},
            ],
        })
    }
}

/// Which tools may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tool may be called.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call at least one tool, if the provider can enforce that. Otherwise the model decides, without a
    /// warning.
    Prefer,
    /// The model must call this tool.
    Named(Arc<str>),
    /// Only these tools may be called. The full list of tools is still sent if the provider allows that.
    AnyOf(Vec<Arc<str>>),
}

/// The form of the visible text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Any text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that matches this schema.
    JsonSchema {
        /// The name of the schema: letters, digits, `_` and `-`.
        name: Arc<str>,
        /// What the JSON is for. The model reads it.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        description: Arc<str>,
        /// The JSON Schema.
        schema: Value,
        /// Whether the provider must enforce it.
        #[serde(default)]
        strict: Strictness,
    },
}

/// How long a model should reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Not at all.
    None,
    /// Hardly.
    Minimal,
    /// A little.
    Low,
    /// Moderately.
    Medium,
    /// Long.
    High,
    /// Very long.
    #[serde(rename = "xhigh")]
    XHigh,
    /// As long as it can.
    Max,
}

impl Effort {
    /// All efforts, in ascending order.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// The name as it is serialized.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The nearest effort that a model supports, the lower of two that are equally near. `None` if it supports none.
    pub(crate) fn nearest(self, offered: &[Self]) -> Option<Self> {
        let distance = |other: &Self| (*other as i32 - self as i32).abs();
        offered.iter().copied().min_by_key(|other| (distance(other), *other))
    }
}

/// Prompt caching: what a provider may cache of the beginning of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Caching {
    /// Whether the request asks for no caching. A provider may still cache by itself.
    pub off: bool,
    /// The key that calls with the same beginning share, for example the run's id. Some providers route by it. If the
    /// provider is not known to accept one, it is left out with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    /// Whether the key is left out without a warning if the provider is not known to accept one. For callers that set
    /// it on every request, whatever the provider.
    #[serde(skip)]
    #[schemars(skip)]
    pub is_hint: bool,
    /// Whether the cache is requested for an hour or more, which costs more to write.
    pub long: bool,
}

impl Caching {
    /// A key for providers that support one. Others ignore it without a warning.
    pub fn hint(key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()), is_hint: true, ..Self::default() }
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens to an option that a model does not offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unsupported {
    /// It is left out, with a warning.
    #[default]
    Degrade,
    /// The call fails before anything is sent.
    Reject,
}
