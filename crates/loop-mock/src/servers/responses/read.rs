//! Parses a request of the Responses API as strictly as OpenAI does.

use std::sync::Arc;

use loop_core::types::{Arguments, FailureKind, ToolCall};
use loop_llm::request::AssistantTurn;
use loop_llm::{Message, ModelRequest, ToolChoice, ToolDefinition};
use serde_json::Value;

use super::{REASONED, SEAL, bound};
use crate::servers::chat::{choice, functions, sampling};
use crate::servers::protocol::{Fault, Format, ModelCall};
use crate::servers::received::{
    Content, add_result, add_system, data_url, is_name, output, present, request, result, text_of, unknown,
    user,
};
use crate::servers::seal::{Seal, check};

/// Parses a body.
pub(crate) fn read(body: &Value) -> Result<ModelCall, Fault> {
    if !body.is_object() {
        return Err(Fault::new("body", "the body is not a JSON object"));
    }
    if let Some(name) = unknown(body, KNOWN) {
        return Err(Fault::new(name, format!("Unknown parameter: '{name}'.")));
    }
    let model =
        text_of(body, "model").ok_or_else(|| Fault::new("model", "Missing required parameter: 'model'."))?;
    if let Some(previous) = text_of(body, "previous_response_id") {
        let message = format!("Previous response with id '{previous}' not found.");
        return Err(Fault::new("previous_response_id", message).because(FailureKind::StateLost));
    }
    if body.get("background").and_then(Value::as_bool) == Some(true) {
        return Err(Fault::new("background", "nothing is stored here, so nothing runs in the background"));
    }
    let mut received = request(model);
    add_system(&mut received, text_of(body, "instructions").unwrap_or_default());
    if let Some(max) = present(body, "max_output_tokens") {
        let max = max.as_u64().filter(|max| *max >= LEAST_TOKENS);
        let message =
            format!("Invalid 'max_output_tokens': integer below minimum value, at least {LEAST_TOKENS}.");
        received.max_output_tokens = Some(max.ok_or_else(|| Fault::new("max_output_tokens", message))?);
    }
    sampling(body)?;
    for (param, known) in NESTED {
        let Some(value) = present(body, param) else { continue };
        if let Some(name) = unknown(value, known) {
            return Err(Fault::new(param, format!("Unknown parameter: '{param}.{name}'.")));
        }
    }
    let (tools, choice) = tools(body)?;
    (received.tools, received.tool_choice) = (tools.into(), choice);
    received.one_call_at_a_time = body.get("parallel_tool_calls").and_then(Value::as_bool) == Some(false);
    let format = body.pointer("/text/format");
    let is_json = format.is_some_and(|format| text_of(format, "type") == Some("json_object"));
    received.output = output(is_json, format.and_then(|format| present(format, "schema")));
    match body.get("input") {
        Some(Value::String(text)) => received.messages.push(Message::user(text.as_str())),
        Some(Value::Array(items)) if !items.is_empty() => InputItems::new(&mut received).read(items)?,
        _ => return Err(unfit("Missing required parameter: 'input'.")),
    }
    let included = present(body, "include").and_then(Value::as_array);
    let seals = included.is_some_and(|included| {
        included.iter().any(|included| included.as_str() == Some("reasoning.encrypted_content"))
    });
    let streams = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    if !streams && present(body, "stream_options").is_some() {
        return Err(Fault::new("stream_options", "'stream_options' is only allowed when 'stream' is true."));
    }
    Ok(ModelCall::new(received, Format { streams, seals, tells_usage: true, ..Format::default() }))
}

fn tools(body: &Value) -> Result<(Vec<ToolDefinition>, ToolChoice), Fault> {
    let listed = match present(body, "tools") {
        None => &[],
        Some(Value::Array(listed)) => listed.as_slice(),
        Some(_) => return Err(Fault::new("tools", "Invalid type for 'tools': expected an array.")),
    };
    let tools = functions(listed, itself, "type name description parameters strict")?;
    if tools.is_empty()
        && present(body, "tool_choice").is_some_and(|choice| choice != "auto" && choice != "none")
    {
        let message = "Tool choice must be 'auto' or 'none' when no tools are specified.";
        return Err(Fault::new("tool_choice", message));
    }
    let choice = choice(present(body, "tool_choice"), &tools, itself, itself)?;
    Ok((tools, choice))
}

/// In Responses, a tool is its function, and a choice lists tools directly.
fn itself(value: &Value) -> Option<&Value> {
    Some(value)
}

fn unfit(message: impl Into<String>) -> Fault {
    Fault::new("input", message)
}

/// Items while they are converted to turns. Several items of the model are one turn.
struct InputItems<'a> {
    received: &'a mut ModelRequest,
    /// The calls without an output.
    open: Vec<Arc<str>>,
    /// A reasoning item that must be followed by its item.
    reasoning: Option<String>,
    /// Whether the current turn contains reasoning.
    reasoned: bool,
}

impl<'a> InputItems<'a> {
    fn new(received: &'a mut ModelRequest) -> Self {
        Self { received, open: Vec::new(), reasoning: None, reasoned: false }
    }

    fn read(mut self, items: &[Value]) -> Result<(), Fault> {
        for (n, item) in items.iter().enumerate() {
            match text_of(item, "type") {
                Some("reasoning") => self.reasoning(n, item)?,
                Some("function_call") => self.call(n, item)?,
                Some("function_call_output") => self.output(n, item)?,
                Some("message") | None => self.message(n, item)?,
                Some(other) => return Err(unfit(format!("Invalid value: '{other}' at 'input[{n}].type'."))),
            }
        }
        self.end_of_reasoning()?;
        match self.open.first() {
            Some(call) => Err(unfit(format!("No tool output found for function call {call}."))),
            None => Ok(()),
        }
    }

    fn message(&mut self, n: usize, item: &Value) -> Result<(), Fault> {
        members(n, item, "type role content id status phase")?;
        let role = text_of(item, "role").unwrap_or_default();
        let words = content(item.get("content"), role == "assistant")
            .ok_or_else(|| unfit(format!("Invalid value at 'input[{n}].content'.")))?;
        match role {
            "assistant" => {
                self.belongs(item, "message")?;
                self.turn(|turn| turn.text = [&*turn.text, &words.text].concat().into());
                return Ok(());
            }
            "user" => self.received.messages.push(user(words)),
            "system" | "developer" if !words.images.is_empty() => {
                return Err(unfit(format!("'input[{n}]' shows pictures, which only users do")));
            }
            "system" | "developer" if self.received.messages.is_empty() => {
                add_system(self.received, &words.text)
            }
            "system" | "developer" => {
                self.received.messages.push(Message::Operator { text: words.text.into() });
            }
            _ => return Err(unfit(format!("Invalid value: '{role}' at 'input[{n}].role'."))),
        }
        self.end_of_reasoning()?;
        self.reasoned = false;
        Ok(())
    }

    fn reasoning(&mut self, n: usize, item: &Value) -> Result<(), Fault> {
        members(n, item, "type id summary content encrypted_content status")?;
        self.end_of_reasoning()?;
        let id = text_of(item, "id").unwrap_or_default();
        let Some(parts) = item.get("summary").and_then(Value::as_array) else {
            return Err(unfit(format!("Missing required parameter: 'input[{n}].summary'.")));
        };
        let summary: Option<String> = parts.iter().map(|part| text_of(part, "text")).collect();
        let summary = summary.ok_or_else(|| unfit(format!("Invalid value at 'input[{n}].summary'.")))?;
        let Some(sealed) = text_of(item, "encrypted_content") else {
            let message = format!(
                "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
            );
            return Err(unfit(message));
        };
        if check(SEAL, sealed, &bound(id, &summary)) != Seal::Whole {
            let message = format!(
                "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be \
                 decrypted or parsed."
            );
            return Err(unfit(message).because(FailureKind::StaleReasoning));
        }
        self.turn(|_| {});
        self.reasoning = Some(id.to_owned());
        self.reasoned = true;
        Ok(())
    }

    fn call(&mut self, n: usize, item: &Value) -> Result<(), Fault> {
        members(n, item, "type id call_id name arguments status")?;
        self.belongs(item, "function_call")?;
        let missing = |name: &str| unfit(format!("Missing required parameter: 'input[{n}].{name}'."));
        let id = text_of(item, "call_id").filter(|id| !id.is_empty()).ok_or_else(|| missing("call_id"))?;
        let name = text_of(item, "name").filter(|name| is_name(name, 64, "-"));
        let name = name.ok_or_else(|| missing("name"))?;
        let arguments = text_of(item, "arguments").ok_or_else(|| missing("arguments"))?;
        let id: Arc<str> = id.into();
        if self.open.contains(&id) {
            return Err(unfit(format!("Duplicate function call id {id}.")));
        }
        self.open.push(Arc::clone(&id));
        let call = ToolCall { id, name: name.into(), arguments: Arguments::from(arguments) };
        self.turn(|turn| turn.calls.push(call));
        Ok(())
    }

    fn output(&mut self, n: usize, item: &Value) -> Result<(), Fault> {
        members(n, item, "type id call_id output status")?;
        self.end_of_reasoning()?;
        self.reasoned = false;
        let id = text_of(item, "call_id").unwrap_or_default();
        let Some(at) = self.open.iter().position(|known| &**known == id) else {
            let message = format!("No tool call found for function call output with call_id {id}.");
            return Err(unfit(message));
        };
        self.open.remove(at);
        let words = content(item.get("output"), /*is_assistant*/ false)
            .ok_or_else(|| unfit(format!("Invalid value at 'input[{n}].output'.")))?;
        let result = result(id, /*is_error*/ false, words);
        add_result(&mut self.received.messages, result);
        Ok(())
    }

    /// Adds to the current turn of the model.
    fn turn(&mut self, add: impl FnOnce(&mut AssistantTurn)) {
        if let Some(Message::Assistant(turn)) = self.received.messages.last_mut() {
            return add(turn);
        }
        let mut turn = AssistantTurn::default();
        add(&mut turn);
        self.received.messages.push(Message::Assistant(turn));
    }

    /// Checks that an item written after reasoning is returned after it.
    fn belongs(&mut self, item: &Value, kind: &str) -> Result<(), Fault> {
        self.reasoning = None;
        let id = text_of(item, "id").unwrap_or_default();
        if id.ends_with(REASONED) && !self.reasoned {
            return Err(unfit(format!(
                "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item."
            )));
        }
        Ok(())
    }

    fn end_of_reasoning(&mut self) -> Result<(), Fault> {
        match self.reasoning.take() {
            Some(id) => Err(unfit(format!(
                "Item '{id}' of type 'reasoning' was provided without its required following item."
            ))),
            None => Ok(()),
        }
    }
}

fn members(n: usize, item: &Value, known: &str) -> Result<(), Fault> {
    match unknown(item, known) {
        Some(name) => Err(unfit(format!("Unknown parameter: 'input[{n}].{name}'."))),
        None => Ok(()),
    }
}

/// A text, or a list of parts: those of the model, or those of the user.
fn content(content: Option<&Value>, is_assistant: bool) -> Option<Content> {
    let mut words = Content::default();
    match content? {
        Value::String(text) => words.text.push_str(text),
        Value::Array(parts) => {
            for part in parts {
                match (text_of(part, "type")?, is_assistant) {
                    ("input_text", false) | ("output_text", true) => {
                        words.text.push_str(text_of(part, "text")?)
                    }
                    ("refusal", true) => words.text.push_str(text_of(part, "refusal")?),
                    ("input_image", false) => words.images.push(data_url(text_of(part, "image_url")?)?),
                    _ => return None,
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    }
    Some(words)
}

const LEAST_TOKENS: u64 = 16;

const KNOWN: &str = "model input instructions tools tool_choice parallel_tool_calls max_output_tokens max_tool_calls \
    reasoning text store include previous_response_id conversation truncation context_management \
    prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier user service_tier \
    metadata background stream stream_options temperature top_p top_logprobs prompt moderation";

/// Members that have members.
const NESTED: [(&str, &str); 3] = [
    ("reasoning", "effort summary context mode generate_summary"),
    ("text", "format verbosity"),
    ("stream_options", "include_obfuscation"),
];
