//! The replies of a scripted model.

use loop_core::reply::FinishReason;
use loop_core::types::Usage;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::RequestPurpose;
use loop_core::types::{Arguments, ToolCall};

/// One scripted reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object such as `{ \"text\": \"…\" }`")]
pub struct ScriptedReply {
    /// The purpose of the call that it waits for; `None` for any.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<RequestPurpose>,
    /// The visible text.
    pub text: String,
    /// Tool calls, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ScriptedCall>,
    /// Reasoning before the text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The provider's own form of the turn, any JSON, which becomes part of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
    /// The stop reason. By default `tool_use` with calls and `end_turn` without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<FinishReason>,
    /// The reported tokens. By default one for four bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether no usage is reported.
    pub no_usage: bool,
    /// The message of an error after text and calls, like an interrupted stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails: Option<String>,
    /// Delay before the reply, in milliseconds.
    pub delay_ms: u64,
}

impl ScriptedReply {
    /// A reply with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A reply that calls a tool. Arguments that are a string are sent unchanged, valid or not.
    pub fn call(name: impl Into<String>, arguments: Value) -> Self {
        Self::default().and_call(name, arguments)
    }

    /// Adds a call.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.calls.push(ScriptedCall { id: None, name: name.into(), arguments });
        self
    }

    /// Adds a call with this id.
    #[must_use]
    pub fn and_call_as(mut self, id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        self.calls.push(ScriptedCall { id: Some(id.into()), name: name.into(), arguments });
        self
    }

    /// The calls as a decoder would return them.
    pub(super) fn tool_calls(&self) -> Vec<ToolCall> {
        self.calls.iter().map(ScriptedCall::made).collect()
    }
}

/// A tool call of a scripted reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object such as `{ \"name\": \"TOOL\", \"arguments\": {} }`")]
pub struct ScriptedCall {
    /// The call's id. By default `call_1`, `call_2` … for the whole script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// An object, or a string that is sent unchanged. By default an empty object.
    #[serde(default = "nothing", deserialize_with = "object_or_text")]
    pub arguments: Value,
}

impl ScriptedCall {
    fn made(&self) -> ToolCall {
        let text = match &self.arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        ToolCall {
            id: self.id.as_deref().unwrap_or_default().into(),
            name: self.name.as_str().into(),
            arguments: Arguments::from(text),
        }
    }
}

/// Gives calls without an id one that is unique in the script.
pub(super) fn number(replies: &mut [ScriptedReply]) {
    let given: Vec<String> =
        replies.iter().flat_map(|reply| &reply.calls).filter_map(|call| call.id.clone()).collect();
    let mut free = (1_u64..).map(|n| format!("call_{n}")).filter(|id| !given.contains(id));
    for call in replies.iter_mut().flat_map(|reply| &mut reply.calls).filter(|call| call.id.is_none()) {
        call.id = free.next();
    }
}

fn nothing() -> Value {
    Value::Object(serde_json::Map::new())
}

fn object_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    match Value::deserialize(deserializer)? {
        arguments @ (Value::Object(_) | Value::String(_)) => Ok(arguments),
        _ => Err(D::Error::custom("arguments has to be an object or a text")),
    }
}
