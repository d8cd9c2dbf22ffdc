//! The expectations of a case: stop reason, counts, tools, trace, document, output, evidence and actions.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::case::OrderedMembers;

/// What is expected of a run. A member that is absent is not checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[serde(expecting = "an object with what is expected, such as `{ \"class\": \"answered\" }`")]
pub struct Expected {
    /// The stop reason, or several of which one must be it. Also accepted: `max_steps` for `max_passes`, `completed`
    /// for `confident` too, and `failed` for any reason of that class.
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub stop_reason: Names,
    /// The class of the stop: `answered`, `partial`, `refused`, `needs_human`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Reasons that must be true as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Maximum number of tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// Minimum number of tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_tool_calls: Option<u32>,
    /// Maximum number of passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_passes: Option<u32>,
    /// Maximum number of model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_calls: Option<u32>,
    /// Maximum number of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Maximum cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Exact counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Tools that must not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbidden_tools: Vec<String>,
    /// Tools that must run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
    /// Trace events that must occur: a kind such as `validation`, a kind with its detail such as
    /// `validation:execute`, or a whole line such as `step:0:validation:execute`. A prefix up to a colon matches too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires_trace_events: Vec<String>,
    /// Trace events that must not occur, written in the same way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbids_trace_events: Vec<String>,
    /// The whole trace, line by line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<String>>,
    /// Sections of the document, by their ids.
    #[serde(skip_serializing_if = "OrderedMembers::is_empty")]
    pub document: OrderedMembers<TextCheck>,
    /// The final answer of a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<TextCheck>,
    /// Whether the last output is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_valid: Option<bool>,
    /// Parts of the last output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<OutputCheck>,
    /// Results that must be among the evidence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EvidenceCheck>,
    /// Actions that must have been requested, with their verdicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<ActionCheck>,
    /// Exactly what the domain requires and the run does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Vec<String>>,
}

/// Exact counts of a run. A member that is absent is not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[serde(expecting = "an object such as `{ \"passes\": 2 }`")]
pub struct Counts {
    /// Main calls whose reply was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
    /// Model calls of every kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u32>,
    /// Tool calls, selected ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u32>,
    /// Results, including those of calls that were refused after they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<u32>,
    /// Attempts at an output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

/// What a text must be. Upper and lower case differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[serde(expecting = "an object such as `{ \"contains\": [\"a text\"] }`")]
pub struct TextCheck {
    /// Whether the text must exist. Default: it must, if any other member is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
    /// The whole text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// Texts that must be in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contains: Vec<String>,
    /// Texts that must not be in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<String>,
}

/// What a part of the output must be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[serde(expecting = "an object such as `{ \"pointer\": \"/name\", \"equals\": \"x\" }`")]
pub struct OutputCheck {
    /// A JSON pointer to the part. Empty: the whole output.
    pub pointer: String,
    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// A text that must be in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// Whether the part must exist. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
}

/// A result that must exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[serde(expecting = "an object such as `{ \"tool\": \"NAME\", \"status\": \"ok\" }`")]
pub struct EvidenceCheck {
    /// The tool's own name.
    pub tool: String,
    /// How it ended, for example `ok` or `empty`. Default: in any way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Texts that must be in what the model reads of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contains: Vec<String>,
    /// Exactly how many such results there are. Default: at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// An action that must have been requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[serde(expecting = "an object such as `{ \"tool\": \"NAME\", \"verdict\": \"denied\" }`")]
pub struct ActionCheck {
    /// The tool's own name, or what the model wrote.
    pub tool: String,
    /// The verdict: `run`, `kept`, `unknown_tool`, `invalid_arguments`, `denied`, `duplicate`, `skipped`,
    /// `needs_person`, `over_limit`, `breaker_open`, `one_at_a_time` or `ended`. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// A text that must be in the verdict's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Exactly how many such actions there are. Default: at least one.
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
