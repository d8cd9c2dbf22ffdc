//! The history in a request of the Messages API: turns of blocks, in which each call has its result in the next turn.

use std::sync::Arc;

use loop_core::types::{Arguments, FailureKind, ToolCall};
use loop_llm::{Message, ToolOutput};
use serde_json::Value;

use super::SIGNATURE;
use super::read::unfit;
use crate::servers::protocol::Fault;
use crate::servers::received::{
    Content, add_result, assistant, image, is_name, present, result, text_of, unknown, user,
};
use crate::servers::seal::{Seal, check};

/// The turns while they are parsed.
#[derive(Default)]
pub(super) struct History {
    turns: Vec<Message>,
    /// The calls without a result, which the next turn must contain.
    open: Vec<Arc<str>>,
    /// Whether the first block of the model's latest turn is thinking.
    thought: bool,
}

impl History {
    /// Parses messages. Consecutive messages of the same role are one turn. With a thinking budget, a turn whose calls
    /// are answered must begin with thinking.
    pub(super) fn read(messages: &[Value], has_budget: bool) -> Result<Vec<Message>, Fault> {
        let mut history = Self::default();
        let mut before = "";
        for (n, message) in messages.iter().enumerate() {
            let place = format!("messages.{n}");
            if let Some(name) = unknown(message, "role content") {
                return Err(unfit(&format!("{place}.{name}"), "Extra inputs are not permitted"));
            }
            let blocks = blocks(&place, message.get("content"))?;
            let role = text_of(message, "role").unwrap_or_default();
            if n == 0 && role != "user" {
                return Err(unfit("messages", "first message must use the \"user\" role"));
            }
            if blocks.is_empty() {
                let message = match role {
                    "assistant" => {
                        "all messages must have non-empty content except for the optional final assistant"
                    }
                    _ => "user messages must have non-empty content",
                };
                return Err(unfit(&place, message));
            }
            match role {
                "user" => history.user(&place, &blocks, before == "user")?,
                "assistant" => history.assistant(&place, &blocks, before == "assistant")?,
                "system" if before == "user" => history.operator(&place, &blocks)?,
                "system" => return Err(unfit(&place, "a system message has to follow a user message")),
                _ => return Err(unfit(&format!("{place}.role"), "Input should be 'user' or 'assistant'")),
            }
            before = if role == "system" { "user" } else { role };
        }
        if before == "assistant" {
            let message = "This model does not support assistant message prefill. The conversation must end with a \
                           user message.";
            return Err(Fault::new("messages", message));
        }
        if !history.open.is_empty() {
            return Err(unfit("messages", &unanswered(&history.open)));
        }
        let in_a_loop = matches!(history.turns.last(), Some(Message::Tool { .. }));
        if has_budget && in_a_loop && !history.thought {
            let message = "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is \
                           enabled, a final `assistant` message must start with a thinking block.";
            return Err(Fault::new("messages", message).because(FailureKind::StaleReasoning));
        }
        Ok(history.turns)
    }

    fn user(&mut self, place: &str, blocks: &[Value], goes_on: bool) -> Result<(), Fault> {
        let (mut words, mut results) = (Content::default(), Vec::new());
        let mut has_replied = goes_on && !matches!(self.turns.last(), Some(Message::Tool { .. }));
        for (at, block) in blocks.iter().enumerate() {
            let place = format!("{place}.content.{at}");
            match text_of(block, "type") {
                Some("tool_result") if has_replied => {
                    return Err(unfit(&place, "`tool_result` blocks have to come before all others"));
                }
                Some("tool_result") => results.push(self.result(&place, block)?),
                Some("text") => {
                    has_replied = true;
                    words.text.push_str(&text_block(&place, block)?);
                }
                Some("image") => {
                    has_replied = true;
                    words.images.push(image_block(&place, block)?);
                }
                _ => return Err(unfit(&format!("{place}.type"), UNKNOWN_TAG)),
            }
        }
        for result in results {
            add_result(&mut self.turns, result);
        }
        if has_replied && !(words.text.is_empty() && words.images.is_empty()) {
            self.turns.push(user(words));
        }
        Ok(())
    }

    fn result(&mut self, place: &str, block: &Value) -> Result<ToolOutput, Fault> {
        members(place, block, "type tool_use_id content is_error cache_control")?;
        let id = text_of(block, "tool_use_id").unwrap_or_default();
        let Some(at) = self.open.iter().position(|known| &**known == id) else {
            let message = format!(
                "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a \
                 corresponding `tool_use` block in the previous message, and there may be one for each."
            );
            return Err(unfit(place, &message));
        };
        self.open.remove(at);
        let mut words = Content::default();
        let content =
            present(block, "content").map_or(Ok(Vec::new()), |content| blocks(place, Some(content)))?;
        for (at, block) in content.iter().enumerate() {
            let place = format!("{place}.content.{at}");
            match text_of(block, "type") {
                Some("text") => words.text.push_str(&text_block(&place, block)?),
                Some("image") => words.images.push(image_block(&place, block)?),
                _ => return Err(unfit(&format!("{place}.type"), UNKNOWN_TAG)),
            }
        }
        let is_error = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        Ok(result(id, is_error, words))
    }

    fn assistant(&mut self, place: &str, blocks: &[Value], goes_on: bool) -> Result<(), Fault> {
        if !goes_on && !self.open.is_empty() {
            return Err(unfit(place, &unanswered(&self.open)));
        }
        let (mut text, mut calls) = (String::new(), Vec::new());
        if let Some(Message::Assistant(turn)) = self.turns.pop_if(|_| goes_on) {
            (text, calls) = (turn.text.to_string(), turn.calls);
        } else {
            let first = blocks.first().and_then(|block| text_of(block, "type"));
            self.thought = matches!(first, Some("thinking" | "redacted_thinking"));
        }
        for (at, block) in blocks.iter().enumerate() {
            let place = format!("{place}.content.{at}");
            match text_of(block, "type") {
                Some("thinking") => thinking(&place, block)?,
                Some("text") => text.push_str(&text_block(&place, block)?),
                Some("tool_use") => {
                    let call = tool_use(&place, block)?;
                    if self.open.contains(&call.id) {
                        return Err(unfit(&place, "`tool_use` ids must be unique"));
                    }
                    self.open.push(Arc::clone(&call.id));
                    calls.push(call);
                }
                // The server has issued none, so none is right.
                Some("redacted_thinking") => {
                    return Err(unfit(&place, "Invalid `data` in `redacted_thinking` block")
                        .because(FailureKind::StaleReasoning));
                }
                _ => return Err(unfit(&format!("{place}.type"), UNKNOWN_TAG)),
            }
        }
        self.turns.push(assistant(text, calls));
        Ok(())
    }

    fn operator(&mut self, place: &str, blocks: &[Value]) -> Result<(), Fault> {
        if !self.open.is_empty() {
            return Err(unfit(place, &unanswered(&self.open)));
        }
        let mut text = String::new();
        for (at, block) in blocks.iter().enumerate() {
            text.push_str(&text_block(&format!("{place}.content.{at}"), block)?);
        }
        self.turns.push(Message::Operator { text: text.into() });
        Ok(())
    }
}

/// The blocks of a content. A text is one block, and an empty text none.
fn blocks(place: &str, content: Option<&Value>) -> Result<Vec<Value>, Fault> {
    match content {
        Some(Value::String(text)) if text.is_empty() => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![serde_json::json!({"type": "text", "text": text})]),
        Some(Value::Array(blocks)) => Ok(blocks.clone()),
        Some(_) => Err(unfit(&format!("{place}.content"), "Input should be a valid string or list")),
        None => Err(unfit(&format!("{place}.content"), "Field required")),
    }
}

/// The text of a text block.
pub(super) fn text_block(place: &str, block: &Value) -> Result<String, Fault> {
    members(place, block, "type text cache_control citations")?;
    match text_of(block, "text").filter(|_| text_of(block, "type") == Some("text")) {
        Some("") => Err(unfit(place, "text content blocks must be non-empty")),
        Some(text) => Ok(text.to_owned()),
        None => Err(unfit(&format!("{place}.text"), "Field required")),
    }
}

fn image_block(place: &str, block: &Value) -> Result<loop_llm::request::Image, Fault> {
    members(place, block, "type source cache_control")?;
    let source = block.get("source").filter(|source| text_of(source, "type") == Some("base64"));
    source
        .and_then(|source| image(text_of(source, "media_type")?, text_of(source, "data")?))
        .ok_or_else(|| unfit(&format!("{place}.source"), "the models here take pictures in base64 only"))
}

fn thinking(place: &str, block: &Value) -> Result<(), Fault> {
    members(place, block, "type thinking signature")?;
    let text =
        text_of(block, "thinking").ok_or_else(|| unfit(&format!("{place}.thinking"), "Field required"))?;
    let signature =
        text_of(block, "signature").ok_or_else(|| unfit(&format!("{place}.signature"), "Field required"))?;
    let message = match check(SIGNATURE, signature, text) {
        Seal::Whole => return Ok(()),
        Seal::Moved => {
            "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These \
             blocks must remain as they were in the original response."
        }
        Seal::Broken => "Invalid `signature` in `thinking` block",
    };
    Err(unfit(place, message).because(FailureKind::StaleReasoning))
}

fn tool_use(place: &str, block: &Value) -> Result<ToolCall, Fault> {
    members(place, block, "type id name input cache_control caller")?;
    let id = text_of(block, "id").filter(|id| is_name(id, usize::MAX, "-"));
    let id =
        id.ok_or_else(|| unfit(&format!("{place}.id"), "String should match pattern '^[a-zA-Z0-9_-]+$'"))?;
    let name = text_of(block, "name").filter(|name| is_name(name, 200, "-"));
    let name = name.ok_or_else(|| unfit(&format!("{place}.name"), "Field required"))?;
    let input = block.get("input").filter(|input| input.is_object());
    let input = input.ok_or_else(|| unfit(&format!("{place}.input"), "Input should be an object"))?;
    Ok(ToolCall { id: id.into(), name: name.into(), arguments: Arguments::from(input.to_string()) })
}

fn members(place: &str, block: &Value, known: &str) -> Result<(), Fault> {
    match unknown(block, known) {
        Some(name) => Err(unfit(&format!("{place}.{name}"), "Extra inputs are not permitted")),
        None => Ok(()),
    }
}

fn unanswered(open: &[Arc<str>]) -> String {
    format!(
        "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must \
         have a corresponding `tool_result` block in the next message.",
        open.join(", ")
    )
}

const UNKNOWN_TAG: &str = "Input tag does not match any of the expected tags";
