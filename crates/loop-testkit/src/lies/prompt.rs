//! Parses a prompt for a lying model: names of tools, headings, the nonce. Builds its replies.

use loop_core::reply::FinishReason;
use loop_core::types::{Arguments, ToolCall};
use loop_llm::model::ReplyEnd;
use loop_llm::scripted::{has_tools, nonce_of};
use loop_llm::{Message, ModelReply, ModelRequest};
use serde_json::{Value, json};

/// A prompt, as far as a lying model reads it.
pub(super) struct Prompt<'a> {
    pub(super) request: &'a ModelRequest,
    /// Each tool with a required parameter, and whether that is a number.
    tools: Vec<(String, Option<(String, bool)>)>,
    pub(super) headings: Vec<String>,
    pub(super) item: String,
    /// Numbers and texts of the evidence that may be cited.
    pub(super) evidence: Vec<(String, String)>,
}

impl<'a> Prompt<'a> {
    pub(super) fn of(request: &'a ModelRequest) -> Self {
        let (tools, headings) = loop_mock::offline::described(request);
        let (item, evidence) = loop_mock::offline::sources(request);
        let native = request.tools.iter().map(|tool| (tool.name.to_string(), required(&tool.parameters)));
        let written = tools.into_iter().map(|(name, first)| (name, first.map(|first| (first, false))));
        Self { request, tools: native.chain(written).collect(), headings, item, evidence }
    }

    /// Whether tools are called natively.
    pub(super) fn is_conversation(&self) -> bool {
        has_tools(self.request)
    }

    /// How many replies the model has given before.
    pub(super) fn replies(&self) -> usize {
        let is_reply = |message: &&Message| matches!(message, Message::Assistant(_));
        self.request.messages.iter().filter(is_reply).count()
    }

    /// A call of the first read-only tool, about this subject.
    pub(super) fn read(&self, about: &str) -> ToolCall {
        let reads = |name: &str| !WRITES.iter().any(|verb| name.starts_with(verb));
        let found = self.tools.iter().find(|(name, first)| reads(name) && first.is_some());
        match found {
            Some((name, Some((first, is_number)))) => {
                let about = if *is_number { json!(about.len()) } else { json!(about) };
                call(name, &json!({ first: about }).to_string())
            }
            _ => call("look_up", &json!({"about": about}).to_string()),
        }
    }

    /// A call of the first tool that writes, or of an undeclared one if there is none.
    pub(super) fn write(&self) -> ToolCall {
        let writes = |name: &str| WRITES.iter().any(|verb| name.starts_with(verb));
        let name = self.tools.iter().map(|(name, _)| name.as_str()).find(|name| writes(name));
        let arguments = json!({"id": 2, "company": "Osier Works", "ticket": "T-1042"});
        match self.request.tools.iter().find(|tool| Some(&*tool.name) == name) {
            // A schema may be closed: only members that it has are given.
            Some(tool) => {
                let known = |name: &String| tool.parameters.pointer(&format!("/properties/{name}")).is_some();
                let given = arguments.as_object().into_iter().flatten().filter(|(name, _)| known(name));
                let given: Value = given.map(|(name, value)| (name.clone(), value.clone())).collect();
                call(&tool.name, &given.to_string())
            }
            None => call(name.unwrap_or("close_ticket"), &json!({"ticket": "T-1042"}).to_string()),
        }
    }

    /// A document of these sections' bodies, each under a heading of the prompt.
    pub(super) fn sections(&self, body: impl Fn(usize) -> String) -> String {
        let sections = self.headings.iter().enumerate();
        sections.map(|(nth, heading)| format!("## {heading}\n\n{}\n\n", body(nth))).collect()
    }

    /// A contract block of this run.
    pub(super) fn contract(&self, confidence: &str, calls: &[ToolCall]) -> String {
        block(&json!({
            "nonce": self.nonce(),
            "analysis_confidence": confidence,
            "confidence_reason": "because it is so",
            "ai_actions": calls.iter().enumerate().map(action).collect::<Vec<_>>(),
        }))
    }

    pub(super) fn nonce(&self) -> &str {
        nonce_of(self.request).unwrap_or_default()
    }

    /// A reply that requests these calls, in the protocol of the prompt.
    pub(super) fn asks(&self, honest: ModelReply, calls: Vec<ToolCall>) -> ModelReply {
        if self.is_conversation() {
            let (finish, stop) = (FinishReason::ToolUse, Some(ReplyEnd::ToolUse));
            return ModelReply { tool_calls: calls, finish, stop, ..ModelReply::text("", None) };
        }
        says(format!("{}{}", body_of(&honest), self.contract("low", &calls)))
    }

    /// An answer: the text in a conversation, or before a confident contract in a document.
    pub(super) fn answers(&self, text: &str) -> ModelReply {
        if self.is_conversation() {
            return says(text);
        }
        says(format!("{}{}", self.sections(|_| text.to_owned()), self.contract("high", &[])))
    }
}

/// A reply of this text that ended by itself.
pub(super) fn says(text: impl Into<String>) -> ModelReply {
    ModelReply { stop: Some(ReplyEnd::EndTurn), ..ModelReply::text(text.into(), None) }
}

/// The text of an honest reply before its contract block.
pub(super) fn body_of(honest: &ModelReply) -> &str {
    honest.text.rfind("```json").and_then(|at| honest.text.get(..at)).unwrap_or(&honest.text)
}

pub(super) fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: "call_1".into(), name: name.into(), arguments: Arguments::from(arguments) }
}

/// The calls with ids of their own.
pub(super) fn numbered(calls: impl IntoIterator<Item = ToolCall>) -> Vec<ToolCall> {
    let number = |(nth, call): (usize, ToolCall)| ToolCall { id: format!("call_{}", nth + 1).into(), ..call };
    calls.into_iter().enumerate().map(number).collect()
}

pub(super) fn block(value: &Value) -> String {
    format!("```json\n{value:#}\n```\n")
}

fn action((nth, call): (usize, &ToolCall)) -> Value {
    json!({
        "action_id": format!("action-{nth}"),
        "action_type": call.name,
        "reason": "it would help",
        "parameters": call.arguments.object().ok(),
        "priority": "required",
    })
}

/// The first member that a schema requires, and whether it is a number.
fn required(schema: &Value) -> Option<(String, bool)> {
    let first = schema.get("required")?.as_array()?.first()?.as_str()?;
    let kind = schema.pointer(&format!("/properties/{first}/type"))?;
    Some((first.to_owned(), kind == "integer" || kind == "number"))
}

/// How the names of tools begin that change something.
const WRITES: [&str; 7] = ["update", "change", "close", "issue", "delete", "write", "set"];
