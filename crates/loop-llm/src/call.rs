//! What a reply asks for, and how it ended.

use std::fmt;
use std::sync::Arc;

use loop_core::FinishReason;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A tool that a model wants run.
///
/// As JSON it is `{"id", "name", "arguments"}`, in which valid arguments are an object and others the text as it came;
/// `arguments_text` stands beside an object that was written in another way than it is written here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Unique within the reply; its result names it.
    pub id: Arc<str>,
    /// The tool's name as the request gave it.
    pub name: Arc<str>,
    /// What it is to be run with.
    pub arguments: Arguments,
}

/// The arguments of a call, checked for being an object and for nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// A JSON object.
    Object {
        /// The text as it was received; empty text stands for an empty object.
        text: Arc<str>,
    },
    /// No JSON, or no object: to be answered with an error result.
    Invalid {
        /// The text as it was received.
        text: Arc<str>,
        /// What is wrong, for the model.
        error: Arc<str>,
    },
}

impl Arguments {
    /// Reads what a model wrote. Blank text is an empty object.
    pub fn read(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        if text.trim().is_empty() {
            return Self::Object { text };
        }
        match serde_json::from_str::<Sound>(&text) {
            Ok(Sound { is_object: true }) => Self::Object { text },
            Ok(_) => Self::Invalid { text, error: "the arguments are no JSON object".into() },
            Err(error) => {
                Self::Invalid { text, error: format!("the arguments are not JSON: {error}").into() }
            }
        }
    }

    /// The text as it was received.
    pub fn text(&self) -> &Arc<str> {
        match self {
            Self::Object { text } | Self::Invalid { text, .. } => text,
        }
    }

    /// The object, read anew at each call: most calls are passed on as the text that they are. `None` where it is none.
    pub fn object(&self) -> Option<Map<String, Value>> {
        match self {
            Self::Object { text } if text.trim().is_empty() => Some(Map::new()),
            Self::Object { text } => serde_json::from_str(text).ok(),
            Self::Invalid { .. } => None,
        }
    }

    /// The text of a JSON object in any case: as it was received where it is one, and otherwise an object that holds
    /// it. Providers that take objects alone are given this.
    pub(crate) fn object_text(&self) -> Arc<str> {
        match self {
            Self::Object { text } if text.trim().is_empty() => "{}".into(),
            Self::Object { text } => Arc::clone(text),
            Self::Invalid { text, .. } => {
                serde_json::json!({"unreadable_arguments": &**text}).to_string().into()
            }
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ToolCall {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ToolCall".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A tool that a model wants run.",
            "type": "object",
            "required": ["id", "name", "arguments"],
            "additionalProperties": false,
            "properties": {
                "id": {"type": "string", "description": "Unique within the turn; its result names it."},
                "name": {"type": "string", "description": "The tool's name as the request gave it."},
                "arguments": {
                    "type": ["object", "string"],
                    "description": "An object; the text as it came where it is none.",
                },
                "arguments_text": {
                    "type": "string",
                    "description": "The object as it was written, where that is not how it is written here.",
                },
            },
        })
    }
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut call = serializer.serialize_struct("ToolCall", 4)?;
        call.serialize_field("id", &self.id)?;
        call.serialize_field("name", &self.name)?;
        match (self.arguments.object(), self.arguments.text()) {
            (Some(value), text) => {
                call.serialize_field("arguments", &value)?;
                let is_plain = serde_json::to_string(&value).is_ok_and(|plain| plain == **text);
                if is_plain {
                    call.skip_field("arguments_text")?;
                } else {
                    call.serialize_field("arguments_text", text)?;
                }
            }
            (None, text) => {
                call.serialize_field("arguments", text)?;
                call.skip_field("arguments_text")?;
            }
        }
        call.end()
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            id: Arc<str>,
            name: Arc<str>,
            arguments: Value,
            #[serde(default)]
            arguments_text: Option<Arc<str>>,
        }
        let Written { id, name, arguments, arguments_text } = Written::deserialize(deserializer)?;
        let arguments = match (arguments, arguments_text) {
            (Value::Object(value), None) => {
                let text = serde_json::to_string(&value).map_err(D::Error::custom)?.into();
                Arguments::Object { text }
            }
            (Value::Object(value), Some(text)) => {
                let arguments = Arguments::read(text);
                if arguments.object().as_ref() != Some(&value) {
                    return Err(D::Error::custom("arguments_text is not what arguments says"));
                }
                arguments
            }
            (Value::String(text), None) => Arguments::read(text),
            _ => return Err(D::Error::custom("arguments has to be an object or a text")),
        };
        Ok(Self { id, name, arguments })
    }
}

/// A text of JSON, gone through as a value would be read from it and not kept.
struct Sound {
    is_object: bool,
}

impl<'de> Deserialize<'de> for Sound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SoundVisitor)
    }
}

struct SoundVisitor;

impl SoundVisitor {
    fn other<E>() -> Result<Sound, E> {
        Ok(Sound { is_object: false })
    }
}

impl<'de> Visitor<'de> for SoundVisitor {
    type Value = Sound;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Sound, E> {
        Self::other()
    }

    fn visit_bool<E>(self, _: bool) -> Result<Sound, E> {
        Self::other()
    }

    fn visit_u64<E>(self, _: u64) -> Result<Sound, E> {
        Self::other()
    }

    fn visit_i64<E>(self, _: i64) -> Result<Sound, E> {
        Self::other()
    }

    fn visit_f64<E>(self, _: f64) -> Result<Sound, E> {
        Self::other()
    }

    fn visit_str<E>(self, _: &str) -> Result<Sound, E> {
        Self::other()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Sound, A::Error> {
        while entries.next_element::<Sound>()?.is_some() {}
        Self::other()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Sound, A::Error> {
        // A name is a text; only that it can be read matters.
        while members.next_entry::<Sound, Sound>()?.is_some() {}
        Ok(Sound { is_object: true })
    }
}

/// Why a reply ended, more finely than [`FinishReason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ReplyEnd {
    /// It was done.
    EndTurn,
    /// It wants tools run.
    ToolUse,
    /// It was cut at the output limit.
    MaxTokens,
    /// It was cut where the model's window ends.
    ContextWindow,
    /// Our own cap cut it: it had gone on far beyond the output limit. See [`OutputCap`](crate::OutputCap).
    Capped,
    /// It came to one of the texts at which it was to end.
    StopSequence,
    /// The model refused.
    Refusal,
    /// A filter stopped it.
    ContentFilter,
    /// The provider paused in the middle of its own tools: the same turns with this one go on with it.
    PauseTurn,
    /// The provider has made the history shorter.
    Compaction,
    /// It says that it calls tools, and names none that can be read.
    MalformedToolCall,
    /// It ended by itself without saying anything: never a success.
    Empty,
    /// For a reason that is not known here.
    Other,
}

impl ReplyEnd {
    /// The reason as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::ContextWindow => "context_window",
            Self::Capped => "capped",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
            Self::ContentFilter => "content_filter",
            Self::PauseTurn => "pause_turn",
            Self::Compaction => "compaction",
            Self::MalformedToolCall => "malformed_tool_call",
            Self::Empty => "empty",
            Self::Other => "other",
        }
    }

    /// The reason in the loop's terms.
    pub fn finish(self) -> FinishReason {
        match self {
            Self::EndTurn | Self::StopSequence => FinishReason::EndTurn,
            Self::ToolUse => FinishReason::ToolUse,
            Self::MaxTokens | Self::ContextWindow => FinishReason::MaxTokens,
            Self::Capped => FinishReason::Capped,
            Self::Refusal => FinishReason::Refusal,
            Self::ContentFilter => FinishReason::Filtered,
            Self::PauseTurn | Self::Compaction | Self::MalformedToolCall | Self::Empty | Self::Other => {
                FinishReason::Other
            }
        }
    }
}

impl From<FinishReason> for ReplyEnd {
    fn from(finish: FinishReason) -> Self {
        match finish {
            FinishReason::EndTurn => Self::EndTurn,
            FinishReason::ToolUse => Self::ToolUse,
            FinishReason::MaxTokens => Self::MaxTokens,
            FinishReason::Capped => Self::Capped,
            FinishReason::Refusal => Self::Refusal,
            FinishReason::Filtered => Self::ContentFilter,
            FinishReason::Other => Self::Other,
        }
    }
}

/// Which side of a call a filter stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Filtered {
    /// What was sent.
    Input,
    /// What was being replied.
    Output,
}
