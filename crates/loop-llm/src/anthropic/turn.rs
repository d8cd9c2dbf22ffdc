//! Encodes turns as content blocks, with cache marks.

use std::sync::Arc;

use loop_core::types::ToolCall;

use crate::call::object_text;
use crate::codec::{
    Json, OPERATOR, Target, TurnWriter, Wrapper, WrittenTurn, results_in_order, wire_id, wire_name,
};
use crate::error::LlmError;
use crate::request::{AssistantTurn, Image, Message, ToolOutput};

/// A user's message, which also contains tool results and late instructions.
pub(super) const USER: Wrapper = Wrapper { open: "{\"role\":\"user\",\"content\":[", close: "]}" };
/// An assistant's message.
pub(super) const ASSISTANT: Wrapper = Wrapper { open: "{\"role\":\"assistant\",\"content\":[", close: "]}" };
/// A late instruction, for models that accept one.
const SYSTEM: Wrapper = Wrapper { open: "{\"role\":\"system\",\"content\":[", close: "]}" };

pub(super) struct Writer<'a> {
    pub(super) target: Target<'a>,
    /// Whether late instructions are sent with the role `system`.
    pub(super) late_system: bool,
}

impl TurnWriter for Writer<'_> {
    fn write(
        &self,
        message: &Message,
        before: Option<&Message>,
        json: &mut Json,
        changed: &mut Vec<&'static str>,
    ) -> Result<WrittenTurn, LlmError> {
        let (joint, values) = match message {
            Message::User { text, images, .. } => (USER, blocks(text, images, json)),
            Message::Operator { text } if self.late_system && before.is_some_and(is_ours) => {
                (SYSTEM, blocks(text, &[], json))
            }
            Message::Operator { text } if text.trim().is_empty() => (USER, 0),
            Message::Operator { text } => {
                json.raw("{\"type\":\"text\",\"text\":").text_after(OPERATOR, text).raw("}");
                changed.push("operator");
                (USER, 1)
            }
            Message::Assistant(turn) => match self.target.own(turn) {
                Some(raw) => return WrittenTurn::own(ASSISTANT, raw, json),
                None => (ASSISTANT, assistant(turn, json)),
            },
            Message::Tool { results: given } => {
                (USER, results(before.map_or(&[], Message::calls), given, json))
            }
        };
        Ok(WrittenTurn { joint, values })
    }
}

/// Whether a turn is a user's message or results, and is not empty: a late instruction has to follow such a turn.
fn is_ours(message: &Message) -> bool {
    match message {
        Message::User { text, images, .. } => !images.is_empty() || !text.trim().is_empty(),
        Message::Operator { text } => !text.trim().is_empty(),
        Message::Tool { .. } => true,
        Message::Assistant(_) => false,
    }
}

/// Text and image blocks. A blank text is left out, as the API refuses it.
fn blocks(text: &str, images: &[Image], json: &mut Json) -> usize {
    let has_text = !text.trim().is_empty();
    if has_text {
        json.raw("{\"type\":\"text\",\"text\":").value(text).raw("}");
    }
    for (nth, image) in images.iter().enumerate() {
        json.raw(if has_text || nth > 0 { "," } else { "" });
        json.raw("{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":")
            .value(&image.media_type);
        json.raw(",\"data\":").value(&image.base64).raw("}}");
    }
    usize::from(has_text) + images.len()
}

fn assistant(turn: &AssistantTurn, json: &mut Json) -> usize {
    let mut values = blocks(&turn.text, &[], json);
    for call in &turn.calls {
        json.raw(if values == 0 { "" } else { "," });
        json.raw("{\"type\":\"tool_use\",\"id\":").value(&legal_id(&call.id));
        json.raw(",\"name\":").value(&wire_name(&call.name));
        json.raw(",\"input\":").raw(&object_text(&call.arguments)).raw("}");
        values += 1;
    }
    values
}

fn results(calls: &[ToolCall], given: &[ToolOutput], json: &mut Json) -> usize {
    let mut values = 0;
    for (call, result) in results_in_order(calls, given) {
        json.raw(if values == 0 { "" } else { "," });
        json.raw("{\"type\":\"tool_result\",\"tool_use_id\":").value(&legal_id(&call.id));
        // The API refuses an error without text.
        let text = if result.is_error && result.text.trim().is_empty() { "error" } else { &result.text };
        if result.is_error {
            json.raw(",\"is_error\":true");
        }
        if !result.images.is_empty() {
            json.raw(",\"content\":[");
            blocks(text, &result.images, json);
            json.raw("]");
        } else if !text.trim().is_empty() {
            json.raw(",\"content\":").value(text);
        }
        json.raw("}");
        values += 1;
    }
    values
}

/// A call's id with only the characters that the API accepts. It is the same in the call and in its result.
pub(super) fn legal_id(id: &Arc<str>) -> Arc<str> {
    wire_id(id, MAX_ID, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Maximum bytes of an id.
const MAX_ID: usize = 128;
