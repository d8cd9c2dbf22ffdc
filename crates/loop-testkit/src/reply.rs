//! What a model replies: sections with a contract block, native calls, or plain text.

use loop_core::reply::{FinishReason, Reply};
use loop_core::types::{ToolCall, Usage};
use serde_json::{Value, json};

use crate::{NONCE, used};

/// A reply to be: sections and a contract.
#[derive(Clone, Debug)]
pub struct DraftReply {
    /// What is before the contract.
    pub text: String,
    /// The contract block; `None` where there is none.
    pub contract: Option<Value>,
    /// Native calls, in their order.
    pub calls: Vec<ToolCall>,
    /// Why the reply ended.
    pub finish: FinishReason,
    /// What the provider says that it used.
    pub usage: Option<Usage>,
}

/// A reply with a `Situation` and a contract of this confidence.
pub fn draft(confidence: &str) -> DraftReply {
    bare_draft(confidence).section("Situation", "The disk is full.")
}

/// A reply with nothing but a contract, with the run's nonce as the prompt asks for it.
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

/// A reply that is this text.
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

/// A reply that calls these tools, and says nothing.
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

    /// Asks for an action in the contract.
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

    /// Asks for a required action in the contract.
    #[track_caller]
    pub fn asks(self, tool: &str, parameters: Value) -> Self {
        self.asks_as("required", tool, parameters)
    }

    /// Puts a member into the contract.
    #[track_caller]
    pub fn member(mut self, name: &str, value: Value) -> Self {
        let contract = self.contract.as_mut().and_then(Value::as_object_mut);
        contract.expect("only a contract has members").insert(name.to_owned(), value);
        self
    }

    /// Ends for this reason.
    pub fn ending(mut self, finish: FinishReason) -> Self {
        self.finish = finish;
        self
    }

    /// Says that it used this.
    pub fn using(mut self, usage: Option<Usage>) -> Self {
        self.usage = usage;
        self
    }

    /// Text and contract block, as a model writes them.
    pub fn whole_text(&self) -> String {
        match &self.contract {
            Some(contract) => format!("{}```json\n{contract}\n```\n", self.text),
            None => self.text.clone(),
        }
    }

    /// The reply, as a driver reports it.
    pub fn reply(&self) -> Reply {
        let calls = self.calls.clone();
        Reply { calls, finish: self.finish, usage: self.usage, ..Reply::text(self.whole_text()) }
    }

    /// Calls one more tool natively, with this text as its arguments.
    pub fn calling(mut self, name: &str, arguments: &str) -> Self {
        let id = format!("c-{}", self.calls.len());
        self.calls.push(call(&id, name, arguments));
        self
    }
}
