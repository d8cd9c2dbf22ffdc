//! Parses a request of the Chat Completions API as strictly as OpenAI does.

use std::sync::Arc;

use loop_core::types::{Arguments, ToolCall};
use loop_llm::codec::Api;
use loop_llm::{Message, ModelRequest, ToolChoice, ToolDefinition};
use serde_json::Value;

use crate::servers::protocol::{Fault, Format, ModelCall};
use crate::servers::received::{
    Content, add_result, add_system, assistant, data_url, is_name, is_outside, output, present, request,
    result, text_of, tool, unknown, user,
};
use crate::servers::schemas;

/// Parses a body. Texts stay unchanged. Several leading system texts are joined by an empty line.
pub(crate) fn read(body: &Value) -> Result<ModelCall, Fault> {
    if !body.is_object() {
        return Err(Fault::new("body", "the body is not a JSON object"));
    }
    if let Some(name) = unknown(body, KNOWN) {
        return Err(Fault::new(name, format!("Unrecognized request argument supplied: {name}")));
    }
    let model = text_of(body, "model").ok_or_else(|| Fault::new("model", "`model` has to be a text"))?;
    if present(body, "n").is_some_and(|n| n.as_u64() != Some(1)) {
        return Err(Fault::new("n", "one choice is all there is"));
    }
    let mut received = request(model);
    for param in ["max_tokens", "max_completion_tokens"] {
        if let Some(max) = present(body, param) {
            let max = max.as_u64().filter(|max| *max > 0);
            let max =
                max.ok_or_else(|| Fault::new(param, format!("`{param}` has to be a number above 0")))?;
            received.max_output_tokens = Some(max);
        }
    }
    sampling(body)?;
    if present(body, "stop").and_then(Value::as_array).is_some_and(|stops| stops.len() > 4) {
        return Err(Fault::new("stop", "`stop` has at most 4 texts"));
    }
    let (tools, choice) = tools(body)?;
    (received.tools, received.tool_choice) = (tools.into(), choice);
    received.one_call_at_a_time = body.get("parallel_tool_calls").and_then(Value::as_bool) == Some(false);
    let format = present(body, "response_format");
    let schema = format.and_then(|format| format.pointer("/json_schema/schema"));
    received.output =
        output(format.is_some_and(|format| text_of(format, "type") == Some("json_object")), schema);
    messages(body, &mut received)?;
    let is_true = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or(false);
    let streams = is_true(body.get("stream"));
    if !streams && present(body, "stream_options").is_some() {
        return Err(Fault::new("stream_options", "`stream_options` is only for streams"));
    }
    let options = body.get("stream_options").and_then(|options| options.get("include_usage"));
    Ok(ModelCall::new(received, Format { streams, tells_usage: is_true(options), ..Format::default() }))
}

/// Checks `temperature` and `top_p`, for both of OpenAI's APIs.
pub(crate) fn sampling(body: &Value) -> Result<(), Fault> {
    for (param, max) in [("temperature", 2.0), ("top_p", 1.0)] {
        if is_outside(present(body, param), max) {
            return Err(Fault::new(param, format!("Invalid '{param}': expected a number from 0 to {max}.")));
        }
    }
    Ok(())
}

fn tools(body: &Value) -> Result<(Vec<ToolDefinition>, ToolChoice), Fault> {
    let listed = match present(body, "tools") {
        None => &[],
        Some(Value::Array(listed)) if listed.len() <= MAX_TOOLS => listed.as_slice(),
        Some(_) => {
            return Err(Fault::new("tools", format!("`tools` has to be a list of at most {MAX_TOOLS}")));
        }
    };
    let tools = functions(listed, nested, "name description parameters strict")?;
    for param in ["tool_choice", "parallel_tool_calls"] {
        if tools.is_empty() && present(body, param).is_some() {
            return Err(Fault::new(param, format!("'{param}' is only allowed when 'tools' are specified.")));
        }
    }
    let choice = choice(present(body, "tool_choice"), &tools, |choice| choice.get("allowed_tools"), nested)?;
    Ok((tools, choice))
}

/// The function of a tool in Chat Completions.
fn nested(listed: &Value) -> Option<&Value> {
    listed.get("function").filter(|_| unknown(listed, "type function").is_none())
}

/// The functions in a list of tools, for both of OpenAI's APIs. `function` returns the function of a tool, and `known`
/// are the permitted members.
pub(crate) fn functions(
    listed: &[Value],
    function: impl Fn(&Value) -> Option<&Value>,
    known: &str,
) -> Result<Vec<ToolDefinition>, Fault> {
    let mut tools: Vec<ToolDefinition> = Vec::new();
    for (n, listed) in listed.iter().enumerate() {
        let unfit = |what: &str| Fault::new("tools", format!("tools[{n}] {what}"));
        if text_of(listed, "type") != Some("function") {
            return Err(unfit("is not a function"));
        }
        let function = function(listed).ok_or_else(|| unfit("has another member, or no `function`"))?;
        if let Some(name) = unknown(function, known) {
            return Err(Fault::new("tools", format!("Unknown parameter: 'tools[{n}].{name}'.")));
        }
        let name = text_of(function, "name").filter(|name| is_name(name, 64, "-"));
        let name = name.ok_or_else(|| unfit("has a name that is not allowed"))?;
        if tools.iter().any(|tool| &*tool.name == name) {
            return Err(unfit("has the name of another one"));
        }
        let parameters = present(function, "parameters");
        if parameters.is_some_and(|parameters| !parameters.is_object()) {
            return Err(unfit("has parameters that are not a schema"));
        }
        if let Some(why) = parameters.and_then(|parameters| schemas::refused(Api::OpenaiChat, parameters)) {
            return Err(Fault::new("tools", format!("Invalid schema for function '{name}': {why}.")));
        }
        tools.push(tool(name, text_of(function, "description"), parameters));
    }
    Ok(tools)
}

/// The tool choice, for both of OpenAI's APIs. `allowed` returns the list of several tools, and `function` the name of
/// one.
pub(crate) fn choice(
    choice: Option<&Value>,
    tools: &[ToolDefinition],
    allowed: impl Fn(&Value) -> Option<&Value>,
    function: impl Fn(&Value) -> Option<&Value>,
) -> Result<ToolChoice, Fault> {
    let named = |listed: &Value| -> Option<Arc<str>> {
        let name =
            text_of(function(listed)?, "name").filter(|_| text_of(listed, "type") == Some("function"))?;
        tools.iter().find(|tool| &*tool.name == name).map(|tool| Arc::clone(&tool.name))
    };
    let Some(choice) = choice else { return Ok(ToolChoice::Auto) };
    let chosen = match (choice.as_str(), text_of(choice, "type")) {
        (Some("auto"), _) => Some(ToolChoice::Auto),
        (Some("none"), _) => Some(ToolChoice::None),
        (Some("required"), _) => Some(ToolChoice::Required),
        (None, Some("function")) => named(choice).map(ToolChoice::Named),
        (None, Some("allowed_tools")) => allowed(choice).and_then(|allowed| {
            matches!(text_of(allowed, "mode")?, "auto" | "required").then_some(())?;
            let names: Option<Vec<_>> = allowed.get("tools")?.as_array()?.iter().map(named).collect();
            names.filter(|names| !names.is_empty()).map(ToolChoice::AnyOf)
        }),
        _ => None,
    };
    chosen.ok_or_else(|| Fault::new("tool_choice", "'tool_choice' names no choice or no tool that there is"))
}

/// The system text and the turns.
fn messages(body: &Value, received: &mut ModelRequest) -> Result<(), Fault> {
    let listed = body.get("messages").and_then(Value::as_array).filter(|listed| !listed.is_empty());
    let Some(listed) = listed else {
        return Err(unfit("`messages` has to be a list of at least one message"));
    };
    // The calls that are to be answered next.
    let mut open: Vec<Arc<str>> = Vec::new();
    for (n, message) in listed.iter().enumerate() {
        let role = text_of(message, "role").unwrap_or_default();
        if let Some(name) = unknown(message, KNOWN_OF_MESSAGE) {
            return Err(unfit(format!("message {n} has the unknown member {name}")));
        }
        if role != "tool" && !open.is_empty() {
            return Err(unfit(unanswered(&open)));
        }
        let words = content(message.get("content"))
            .ok_or_else(|| unfit(format!("message {n} has content that is neither text nor pictures")))?;
        if role != "user" && !words.images.is_empty() {
            return Err(unfit(format!("message {n} has pictures, which only users show")));
        }
        let text = words.text;
        match role {
            "system" | "developer" if received.messages.is_empty() => add_system(received, &text),
            "system" | "developer" => received.messages.push(Message::Operator { text: text.into() }),
            "user" => received.messages.push(user(Content { text, images: words.images })),
            "assistant" => {
                let calls =
                    calls(message).ok_or_else(|| unfit(format!("message {n} has calls that are none")))?;
                let says = present(message, "content").is_some() || present(message, "refusal").is_some();
                if calls.is_empty() && !says {
                    return Err(unfit(format!("message {n} has neither content nor calls")));
                }
                open = calls.iter().map(|call| Arc::clone(&call.id)).collect();
                received.messages.push(assistant(text, calls));
            }
            "tool" => {
                let id = text_of(message, "tool_call_id").unwrap_or_default();
                let Some(at) = open.iter().position(|known| &**known == id) else {
                    return Err(unfit(format!("message {n} answers no call of the turn before: {id:?}")));
                };
                open.remove(at);
                let result = result(id, /*is_error*/ false, Content { text, images: Vec::new() });
                add_result(&mut received.messages, result);
            }
            _ => return Err(unfit(format!("message {n} has a role that is not known: {role:?}"))),
        }
    }
    if open.is_empty() { Ok(()) } else { Err(unfit(unanswered(&open))) }
}

fn unfit(message: impl Into<String>) -> Fault {
    Fault::new("messages", message)
}

fn unanswered(open: &[Arc<str>]) -> String {
    format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
         'tool_call_id'. These have no response: {}",
        open.join(", ")
    )
}

fn calls(message: &Value) -> Option<Vec<ToolCall>> {
    let Some(listed) = present(message, "tool_calls") else { return Some(Vec::new()) };
    let mut calls: Vec<ToolCall> = Vec::new();
    for listed in listed.as_array().filter(|listed| !listed.is_empty())? {
        let function = listed.get("function").filter(|_| text_of(listed, "type") == Some("function"))?;
        let name = text_of(function, "name").filter(|name| is_name(name, 64, "-"))?;
        let id = text_of(listed, "id").filter(|id| !id.is_empty())?;
        if calls.iter().any(|call| &*call.id == id) {
            return None;
        }
        let arguments = Arguments::from(text_of(function, "arguments")?);
        calls.push(ToolCall { id: id.into(), name: name.into(), arguments });
    }
    Some(calls)
}

/// The content of a message: a text, a list of parts, or nothing.
fn content(content: Option<&Value>) -> Option<Content> {
    let mut words = Content::default();
    match content {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => words.text.push_str(text),
        Some(Value::Array(parts)) => {
            for part in parts {
                match text_of(part, "type")? {
                    "text" => words.text.push_str(text_of(part, "text")?),
                    "image_url" => {
                        let url = part.get("image_url")?;
                        words.images.push(data_url(text_of(url, "url")?)?);
                    }
                    _ => return None,
                }
            }
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => return None,
    }
    Some(words)
}

const MAX_TOOLS: usize = 128;

/// The members of a request: OpenAI's, and behind them those of compatible servers.
const KNOWN: &str = "model messages tools tool_choice parallel_tool_calls max_completion_tokens max_tokens \
    reasoning_effort verbosity response_format temperature top_p stop seed metadata store \
    prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier user service_tier \
    stream stream_options n logprobs top_logprobs logit_bias prediction modalities web_search_options \
    presence_penalty frequency_penalty random_seed top_k min_p thinking reasoning reasoning_format \
    include_reasoning models provider transforms usage chat_template_kwargs cache_control";

const KNOWN_OF_MESSAGE: &str = "role content name refusal tool_calls tool_call_id reasoning_content reasoning reasoning_details \
    annotations prefix";
