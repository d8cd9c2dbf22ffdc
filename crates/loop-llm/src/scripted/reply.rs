//! What a scripted model is to say.

use loop_core::{FinishReason, Usage};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::RequestPurpose;
use loop_core::{Arguments, ToolCall};

/// One scripted reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedReply {
    /// The purpose that it waits for; any where it is not given.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<RequestPurpose>,
    /// What it says.
    pub text: String,
    /// The tools that it wants run, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ScriptedCall>,
    /// What it reasons before it says anything.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The provider's own turn, of any form: it comes back as part of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
    /// Why it ends; `tool_use` with calls and `end_turn` without where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<FinishReason>,
    /// Tokens as reported; a quarter of the bytes where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the provider says nothing of tokens.
    pub no_usage: bool,
    /// It fails after its text and calls, with this message, as a stream that breaks off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails: Option<String>,
    /// Milliseconds before it begins.
    pub delay_ms: u64,
}

impl ScriptedReply {
    /// A reply that says something and ends.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A reply that calls a tool. Arguments that are a text are sent as they stand, sound or not.
    pub fn call(name: impl Into<String>, arguments: Value) -> Self {
        Self::default().and_call(name, arguments)
    }

    /// The same with one more call.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.calls.push(ScriptedCall { id: None, name: name.into(), arguments });
        self
    }

    /// The same with one more call, of this id.
    #[must_use]
    pub fn and_call_as(mut self, id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        self.calls.push(ScriptedCall { id: Some(id.into()), name: name.into(), arguments });
        self
    }

    /// The calls as a model makes them.
    pub(super) fn tool_calls(&self) -> Vec<ToolCall> {
        self.calls.iter().map(ScriptedCall::made).collect()
    }
}

/// A tool call of a scripted reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// Its id; `call_1`, `call_2` … over the whole script where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// An object, or a text that is sent as it stands; an empty object where it is not given.
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

/// Gives the calls that have no id one that no other call of the script has.
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
