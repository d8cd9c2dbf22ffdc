//! A builder of model replies: sections with a contract block, native calls, or plain text.

use loop_core::reply::{FinishReason, Reply};
use loop_core::types::{ToolCall, Usage};
use serde_json::{Value, json};

use crate::{NONCE, used};

/// A reply under construction.
#[derive(Clone, Debug)]
pub struct DraftReply {
    /// The text before the contract.
    pub text: String,
    /// The contract block. `None`: none.
    pub contract: Option<Value>,
    /// Native calls, in order.
    pub calls: Vec<ToolCall>,
    /// Why the reply ended.
    pub finish: FinishReason,
    /// The usage that the provider reports.
    pub usage: Option<Usage>,
}

/// A reply with a section `Situation` and a contract with this confidence.
pub fn draft(confidence: &str) -> DraftReply {
    bare_draft(confidence).section("Situation", "The disk is full.")
}

/// A reply with only a contract, which has the run's nonce.
pub fn bare_draft(confidence: &str) -> DraftReply {
    DraftReply {
        contract: Some(
            json!({"nonce": NONCE, "analysis_confidence": confidence, "confidence_reason": "because", "ai_actions": []}),
        ),
        ..text("")
    }
}

/// The parameters that name a target.
pub fn target(name: &str) -> Value {
    json!({"target": name})
}

/// A reply with only this text.
pub fn text(text: &str) -> DraftReply {
    DraftReply {
        text: text.to_owned(),
        contract: None,
        calls: Vec::new(),
        finish: FinishReason::EndTurn,
        usage: Some(used(100, 50)),
    }
}

/// A native call, with this text as its arguments.
pub fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

/// A reply that only calls these tools.
pub fn calls(wanted: &[(&str, Value)]) -> DraftReply {
    let draft = DraftReply { finish: FinishReason::ToolUse, ..text("") };
    wanted.iter().fold(draft, |draft, (name, arguments)| draft.calling(name, &arguments.to_string()))
}

impl DraftReply {
    /// Adds a section.
    pub fn section(mut self, heading: &str, body: &str) -> Self {
        self.text.push_str(&format!("## {heading}\n\n{body}\n\n"));
        self
    }

    /// Adds an action to the contract.
    #[track_caller]
    pub fn asks_as(mut self, priority: &str, tool: &str, parameters: Value) -> Self {
        let actions = self.contract.as_mut().and_then(|contract| contract.get_mut("ai_actions"));
        let actions = actions.and_then(Value::as_array_mut).expect("only a contract asks for actions");
        let id = format!("a-{}", actions.len());
        let action = json!({
            "action_id": id,
            "action_type": tool,
            "reason": "to know",
            "parameters": parameters,
            "priority": priority,
        });
        actions.push(action);
        self
    }

    /// Adds a required action to the contract.
    #[track_caller]
    pub fn asks(self, tool: &str, parameters: Value) -> Self {
        self.asks_as("required", tool, parameters)
    }

    /// Sets a member of the contract.
    #[track_caller]
    pub fn member(mut self, name: &str, value: Value) -> Self {
        let contract = self.contract.as_mut().and_then(Value::as_object_mut);
        contract.expect("only a contract has members").insert(name.to_owned(), value);
        self
    }

    /// Sets the finish reason.
    pub fn ending(mut self, finish: FinishReason) -> Self {
        self.finish = finish;
        self
    }

    /// Sets the reported usage.
    pub fn using(mut self, usage: Option<Usage>) -> Self {
        self.usage = usage;
        self
    }

    /// The text and the contract block.
    pub fn whole_text(&self) -> String {
        match &self.contract {
            Some(contract) => format!("{}```json\n{contract}\n```\n", self.text),
            None => self.text.clone(),
        }
    }

    /// The reply as a driver reports it.
    pub fn reply(&self) -> Reply {
        let calls = self.calls.clone();
        Reply { calls, finish: self.finish, usage: self.usage, ..Reply::text(self.whole_text()) }
    }

    /// Adds a native call with this text as its arguments.
    pub fn calling(mut self, name: &str, arguments: &str) -> Self {
        let id = format!("c-{}", self.calls.len());
        self.calls.push(call(&id, name, arguments));
        self
    }
}
