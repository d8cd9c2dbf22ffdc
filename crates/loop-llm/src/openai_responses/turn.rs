//! Encodes one turn as items.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use crate::call::written_arguments;
use crate::codec::{
    Json, List, OPERATOR, Target, Text, TurnWriter, Wrapper, WrittenTurn, results_in_order, wire_id,
    wire_name,
};
use crate::error::LlmError;
use crate::openai::before_result;
use crate::raw::Raw;
use crate::request::{AssistantTurn, Image, Message, ToolOutput};

pub(super) struct Writer<'a> {
    pub(super) target: Target<'a>,
}

impl TurnWriter for Writer<'_> {
    fn write(
        &self,
        message: &Message,
        before: Option<&Message>,
        json: &mut Json,
        _: &mut Vec<&'static str>,
    ) -> Result<WrittenTurn, LlmError> {
        let values = match message {
            Message::User { text, images, .. } => {
                json.raw("{\"role\":\"user\",\"content\":");
                content(text, images, json);
                json.raw("}");
                1
            }
            Message::Operator { text } => {
                let role = self.target.profile.late_instructions.role();
                json.raw("{\"role\":").value(role.unwrap_or("user")).raw(",\"content\":");
                json.text_after(if role.is_none() { OPERATOR } else { "" }, text).raw("}");
                1
            }
            Message::Assistant(turn) => match self.target.own(turn) {
                Some(raw) => return WrittenTurn::own(Wrapper::NONE, raw, json),
                None => assistant(turn, json),
            },
            Message::Tool { results } => {
                let Some(Message::Assistant(turn)) = before else {
                    return Ok(WrittenTurn { joint: Wrapper::NONE, values: 0 });
                };
                self.results(turn, results, json)
            }
        };
        Ok(WrittenTurn { joint: Wrapper::NONE, values })
    }
}

impl Writer<'_> {
    fn results(&self, turn: &AssistantTurn, results: &[ToolOutput], json: &mut Json) -> usize {
        let own = self.target.own(turn);
        let custom = own.map(custom_calls).unwrap_or_default();
        let mut values = 0;
        for (call, result) in results_in_order(&turn.calls, results) {
            let is_custom = custom.iter().any(|id| **id == *call.id);
            let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
            // A turn in the provider's own form contains the original ids.
            let id = if own.is_some() { Arc::clone(&call.id) } else { call_id(&call.id) };
            json.raw(if values == 0 { "{\"type\":" } else { ",{\"type\":" }).value(kind);
            json.raw(",\"call_id\":").value(&id).raw(",\"output\":");
            let first = before_result(result);
            if result.images.is_empty() {
                json.text_after(first, &result.text);
            } else {
                content(&format!("{first}{}", result.text), &result.images, json);
            }
            json.raw("}");
            values += 1;
        }
        values
    }
}

/// A turn without the provider's own form: items without ids, and without reasoning.
fn assistant(turn: &AssistantTurn, json: &mut Json) -> usize {
    let mut values = 0;
    if !turn.text.is_empty() {
        json.raw("{\"role\":\"assistant\",\"content\":").value(&turn.text).raw("}");
        values += 1;
    }
    for call in &turn.calls {
        json.raw(if values == 0 { "" } else { "," });
        json.raw("{\"type\":\"function_call\",\"call_id\":").value(&call_id(&call.id));
        json.raw(",\"name\":").value(&wire_name(&call.name));
        json.raw(",\"arguments\":").value(written_arguments(&call.arguments)).raw("}");
        values += 1;
    }
    values
}

/// A text and its images.
fn content(text: &str, images: &[Image], json: &mut Json) {
    if images.is_empty() {
        json.value(text);
        return;
    }
    let mut before = "[";
    if !text.is_empty() {
        json.raw("[{\"type\":\"input_text\",\"text\":").value(text).raw("}");
        before = ",";
    }
    for image in images {
        json.raw(before).value(&json!({"type": "input_image", "image_url": image.data_url()}));
        before = ",";
    }
    json.raw("]");
}

fn call_id(id: &Arc<str>) -> Arc<str> {
    wire_id(id, MAX_ID, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// The ids of the turn's custom tool calls, whose results have another type.
fn custom_calls(raw: &Raw) -> Vec<String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Item<'a> {
        #[serde(rename = "type", borrow)]
        kind: Text<'a>,
        call_id: Text<'a>,
    }
    if !raw.json().contains("custom_tool_call") {
        return Vec::new();
    }
    let list = format!("[{}]", raw.json());
    let items: List<Item<'_>> = serde_json::from_str(&list).unwrap_or_default();
    let custom = items.iter().filter(|item| item.kind.or_empty() == "custom_tool_call");
    custom.map(|item| item.call_id.or_empty().to_owned()).collect()
}

/// Maximum bytes of a call's id.
const MAX_ID: usize = 64;
