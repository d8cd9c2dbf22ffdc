//! The history in a request of `generateContent`: contents of parts, with one response for each call, in the same
//! order.

use std::sync::Arc;

use loop_core::types::{Arguments, FailureKind, ToolCall};
use loop_llm::{Message, ToolOutput};
use serde_json::Value;

use super::read::{member, members};
use super::{SIGNATURE, bound};
use crate::servers::protocol::Fault;
use crate::servers::received::{Content, assistant, image, is_name, result, text_of, user};
use crate::servers::seal::{Seal, check};

/// Parses contents. With `signs`, the first call of each content in the current turn needs a signature.
pub(super) fn read_contents(contents: &[Value], signs: bool) -> Result<Vec<Message>, Fault> {
    let current = contents.iter().rposition(is_requested).unwrap_or(0);
    let mut history = History::default();
    for (n, content) in contents.iter().enumerate() {
        members(content, "role parts", &format!("contents[{n}]"))?;
        let role = text_of(content, "role").unwrap_or("user");
        let parts = content.get("parts").and_then(Value::as_array).filter(|parts| !parts.is_empty());
        let parts = parts.ok_or_else(|| {
            unfit(format!("* GenerateContentRequest.contents[{n}].parts: contents.parts must not be empty."))
        })?;
        match role {
            "user" | "function" => history.user(n, parts)?,
            "model" => history.model(n, parts, signs && n > current)?,
            _ => return Err(unfit("Please use a valid role: user, model.")),
        }
    }
    if !history.open.is_empty() {
        return Err(unfit(UNEQUAL));
    }
    if matches!(history.turns.last(), Some(Message::Assistant(_))) {
        return Err(unfit("Please ensure that the last content is from the user or a function."));
    }
    Ok(history.turns)
}

/// Whether it is the user's own content: not of the model, and not a response to a call.
fn is_requested(content: &Value) -> bool {
    let parts = content.get("parts").and_then(Value::as_array);
    let responds = parts.into_iter().flatten().any(|part| member(part, "functionResponse").is_some());
    text_of(content, "role").unwrap_or("user") == "user" && !responds
}

#[derive(Default)]
struct History {
    turns: Vec<Message>,
    /// The calls in the previous content.
    open: Vec<ToolCall>,
}

impl History {
    fn user(&mut self, n: usize, parts: &[Value]) -> Result<(), Fault> {
        let (mut words, mut results, mut has_replied) = (Content::default(), Vec::new(), false);
        let responses = parts.iter().filter(|part| member(part, "functionResponse").is_some()).count();
        if responses > 0 && self.open.is_empty() {
            let message =
                "Please ensure that function response turn comes immediately after a function call turn.";
            return Err(unfit(message));
        }
        if responses != self.open.len() {
            return Err(unfit(UNEQUAL));
        }
        let mut calls = std::mem::take(&mut self.open).into_iter();
        for (at, part) in parts.iter().enumerate() {
            let place = format!("contents[{n}].parts[{at}]");
            members(part, "text inlineData functionResponse thought thoughtSignature", &place)?;
            if let Some(response) = member(part, "functionResponse") {
                let call = calls.next().ok_or_else(|| unfit(UNEQUAL))?;
                results.push(read_response(&place, response, &call)?);
            } else if let Some(data) = member(part, "inlineData") {
                has_replied = true;
                let media_type = member(data, "mimeType").and_then(Value::as_str).unwrap_or_default();
                let picture = image(media_type, text_of(data, "data").unwrap_or_default());
                words
                    .images
                    .push(picture.ok_or_else(|| unfit(format!("Unsupported MIME type at '{place}'")))?);
            } else {
                has_replied = true;
                let text = text_of(part, "text").filter(|text| !text.is_empty());
                words.text.push_str(text.ok_or_else(|| unfit(empty(n)))?);
            }
        }
        if !results.is_empty() {
            self.turns.push(Message::Tool { results });
        }
        if has_replied {
            self.turns.push(user(words));
        }
        Ok(())
    }

    fn model(&mut self, n: usize, parts: &[Value], needs_signature: bool) -> Result<(), Fault> {
        let (mut text, mut calls) = (String::new(), Vec::new());
        // A client keeps each piece of a streamed reply as a content of its own.
        let goes_on = matches!(self.turns.last(), Some(Message::Assistant(_)));
        for (at, part) in parts.iter().enumerate() {
            let place = format!("contents[{n}].parts[{at}]");
            members(part, "text functionCall thought thoughtSignature", &place)?;
            let signature = member(part, "thoughtSignature").and_then(Value::as_str);
            if let Some(call) = member(part, "functionCall") {
                let call = read_call(&place, call)?;
                let is_first = calls.is_empty();
                match signature {
                    Some(DUMMY) => {}
                    Some(signature) => {
                        let Ok(value) = call.arguments.object() else {
                            return Err(unfit(format!("Invalid value at '{place}.function_call.args'")));
                        };
                        verify(&place, signature, &bound(&call.name, value))?;
                    }
                    None if is_first && needs_signature => {
                        let message = format!(
                            "Function call is missing a thought_signature in functionCall parts. This is required for \
                             tools to work correctly. Function call `{}`, position {}.",
                            call.name,
                            n + 1
                        );
                        return Err(unfit(message).because(FailureKind::StaleReasoning));
                    }
                    None => {}
                }
                calls.push(call);
                continue;
            }
            let words = text_of(part, "text").ok_or_else(|| unfit(empty(n)))?;
            if let Some(signature) = signature.filter(|signature| *signature != DUMMY) {
                verify(&place, signature, words)?;
            } else if words.is_empty() && signature.is_none() && !goes_on {
                return Err(unfit(empty(n)));
            }
            if part.get("thought").and_then(Value::as_bool) != Some(true) {
                text.push_str(words);
            }
        }
        if calls.is_empty()
            && let Some(Message::Assistant(turn)) = self.turns.pop_if(|_| goes_on)
        {
            self.turns.push(assistant(turn.text.to_string() + &text, turn.calls));
            return Ok(());
        }
        let before = self.turns.last();
        if !calls.is_empty() && !matches!(before, Some(Message::User { .. } | Message::Tool { .. })) {
            let message = "Please ensure that function call turn comes immediately after a user turn or after a \
                           function response turn.";
            return Err(unfit(message));
        }
        if before.is_none() {
            return Err(unfit("Please ensure that the first content is from the user."));
        }
        self.open = calls.clone();
        self.turns.push(assistant(text, calls));
        Ok(())
    }
}

fn read_call(place: &str, call: &Value) -> Result<ToolCall, Fault> {
    members(call, "id name args", &format!("{place}.function_call"))?;
    let name = text_of(call, "name").filter(|name| is_name(name, 128, ".:-"));
    let name = name.ok_or_else(|| unfit(format!("{place}.function_call.name: Name cannot be empty.")))?;
    let args = member(call, "args").map_or_else(|| "{}".to_owned(), Value::to_string);
    let id: Arc<str> = text_of(call, "id").unwrap_or_default().into();
    Ok(ToolCall { id, name: name.into(), arguments: Arguments::from(args) })
}

/// Parses a response to this call: `output` is the result, `error` the error, and anything else is passed on unchanged.
fn read_response(place: &str, value: &Value, call: &ToolCall) -> Result<ToolOutput, Fault> {
    let place = format!("{place}.function_response");
    members(value, "id name response parts", &place)?;
    if text_of(value, "name") != Some(&*call.name) {
        return Err(unfit(format!("{place}.name: the function call of this position is {}", call.name)));
    }
    if text_of(value, "id").is_some_and(|id| id != &*call.id) {
        return Err(unfit(format!("{place}.id: the function call of this position has another one")));
    }
    let Some(response) = value.get("response").filter(|response| response.is_object()) else {
        return Err(unfit(format!(
            "Invalid value at '{place}.response' (type.googleapis.com/google.protobuf.Struct)"
        )));
    };
    let (reported, is_error) = match (response.get("error"), response.get("output")) {
        (Some(error), _) => (error, true),
        (None, Some(output)) => (output, false),
        (None, None) => (response, false),
    };
    let text = reported.as_str().map_or_else(|| reported.to_string(), str::to_owned);
    let mut words = Content { text, images: Vec::new() };
    for part in member(value, "parts").and_then(Value::as_array).into_iter().flatten() {
        let data = member(part, "inlineData")
            .ok_or_else(|| unfit(format!("{place}.parts takes inline data alone")))?;
        let media_type = member(data, "mimeType").and_then(Value::as_str).unwrap_or_default();
        let picture = image(media_type, text_of(data, "data").unwrap_or_default());
        words.images.push(picture.ok_or_else(|| unfit(format!("Unsupported MIME type at '{place}'")))?);
    }
    Ok(result(&call.id, is_error, words))
}

fn verify(place: &str, signature: &str, text: &str) -> Result<(), Fault> {
    match check(SIGNATURE, signature, text) {
        Seal::Whole => Ok(()),
        Seal::Moved | Seal::Broken => {
            let message = format!("Thought signature is not valid at '{place}'.");
            Err(unfit(message).because(FailureKind::StaleReasoning))
        }
    }
}

fn unfit(message: impl Into<String>) -> Fault {
    Fault::new("contents", message)
}

fn empty(n: usize) -> String {
    format!("Unable to submit request because it must have a text parameter at 'contents[{n}]'.")
}

const UNEQUAL: &str = "Please ensure that the number of function response parts is equal to the number of function \
                       call parts of the function call turn.";

/// The placeholder for a signature of a turn from another provider.
const DUMMY: &str = "skip_thought_signature_validator";
