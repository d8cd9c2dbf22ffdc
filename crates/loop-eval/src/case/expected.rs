//! What is expected of a run.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::case::Ordered;

/// What is expected of a run. Whatever is not named is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Expected {
    /// The reason with which it stops, or several of which one has to be it. S4's names do as well: `max_steps` is
    /// `max_passes`, `completed` is also `confident`, `failed` is any reason of that class.
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub stop_reason: Names,
    /// The class of the stop: `answered`, `partial`, `refused`, `needs_human`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Reasons that have to be true as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The most tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// The fewest tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_tool_calls: Option<u32>,
    /// The most passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_passes: Option<u32>,
    /// The most calls to models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_calls: Option<u32>,
    /// The most tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The most US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Exact numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Tools that may not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbidden_tools: Vec<String>,
    /// Tools that have to run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
    /// Trace events that have to be there: a kind such as `validation`, a kind with its detail such as
    /// `validation:execute`, or a whole line such as `step:0:validation:execute`. A beginning up to a colon does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires_trace_events: Vec<String>,
    /// Trace events that may not be there, written the same way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbids_trace_events: Vec<String>,
    /// The whole trace, line by line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<String>>,
    /// Sections of the document, by their ids.
    #[serde(skip_serializing_if = "Ordered::is_empty")]
    pub document: Ordered<TextCheck>,
    /// The final answer of a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<TextCheck>,
    /// Whether the last output is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_valid: Option<bool>,
    /// Parts of the last output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<OutputCheck>,
    /// What has to be among the evidence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EvidenceCheck>,
    /// What has to be among the actions that were asked for, with their verdicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<ActionCheck>,
    /// What the domain demands and is not there, exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Vec<String>>,
}

/// Exact numbers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Counts {
    /// Main calls whose reply was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
    /// Calls to models of every kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u32>,
    /// Tool calls, selected ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u32>,
    /// Observations, those of what was refused after it was asked for included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<u32>,
    /// Attempts at an output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

/// What a text has to be. Letters count as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TextCheck {
    /// Whether it is there. Default: it is, where anything else is said of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
    /// The whole text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// What has to stand in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contains: Vec<String>,
    /// What may not stand in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<String>,
}

/// What a part of the output has to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputCheck {
    /// A JSON pointer to the part; empty for the whole.
    pub pointer: String,
    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// What has to stand in it, a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// Whether it is there. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
}

/// An observation that has to be there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvidenceCheck {
    /// The tool.
    pub tool: String,
    /// How it ended, for example `ok` or `empty`. Default: any way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What has to stand in what the model reads of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contains: Vec<String>,
    /// How many such observations there are, exactly. Default: at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// An action that has to have been asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ActionCheck {
    /// The tool, as it is called or as the model wrote it.
    pub tool: String,
    /// What was decided: `run`, `kept`, `unknown_tool`, `invalid_arguments`, `denied`, `duplicate`, `skipped`,
    /// `needs_person`, `over_limit`, `breaker_open`, `one_at_a_time` or `ended`. Default: anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// What has to stand in the verdict's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many such actions there are, exactly. Default: at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// A name, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl Names {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => serializer.serialize_str(one),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMore)
    }
}

struct OneOrMore;

impl<'de> Visitor<'de> for OneOrMore {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of texts")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Names, E> {
        Ok(Names(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Names, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = items.next_element()? {
            names.push(name);
        }
        Ok(Names(names))
    }
}

impl JsonSchema for Names {
    fn schema_name() -> Cow<'static, str> {
        "Names".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A name, or several.",
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
        })
    }
}
