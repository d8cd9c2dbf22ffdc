//! Parses a request of the Messages API as strictly as Anthropic does.

use std::sync::Arc;

use loop_core::types::FailureKind;
use loop_llm::codec::Api;
use loop_llm::{ModelRequest, ToolChoice, ToolDefinition};
use serde_json::Value;

use super::blocks::{History, text_block};
use crate::servers::protocol::{Fault, Format, ModelCall, Target};
use crate::servers::received::{is_name, is_outside, output, present, request, text_of, tool, unknown};
use crate::servers::schemas;

/// Parses a body.
pub(crate) fn read(target: &Target<'_>, body: &Value) -> Result<ModelCall, Fault> {
    if !target.headers.iter().any(|(name, _)| name == "anthropic-version") {
        return Err(Fault::new("anthropic-version", "anthropic-version: header is required"));
    }
    if !body.is_object() {
        return Err(Fault::new("body", "the body is not a JSON object"));
    }
    if let Some(name) = unknown(body, KNOWN) {
        return Err(unfit(name, "Extra inputs are not permitted"));
    }
    betas(target, body)?;
    let model = text_of(body, "model").ok_or_else(|| unfit("model", "Field required"))?;
    let max = present(body, "max_tokens").ok_or_else(|| unfit("max_tokens", "Field required"))?;
    let max = max.as_u64().filter(|max| *max > 0);
    let max = max.ok_or_else(|| unfit("max_tokens", "Input should be greater than or equal to 1"))?;
    let mut received = ModelRequest { max_output_tokens: Some(max), ..request(model) };
    let thinking = thinking(body, max)?;
    sampling(body)?;
    marks(body)?;
    received.system = system(present(body, "system"))?.unwrap_or_default().into();
    received.tools = tools(body)?.into();
    choice(body, &mut received, thinking)?;
    let schema =
        body.pointer("/output_config/format/schema").or_else(|| body.pointer("/output_format/schema"));
    received.output = output(/*is_json*/ false, schema);
    let messages = body.get("messages").and_then(Value::as_array).filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| unfit("messages", "at least one message is required"))?;
    received.messages = History::read(messages, thinking == Thinking::Budget)?;
    let hides_reasoning =
        present(body, "thinking").and_then(|thinking| text_of(thinking, "display")) == Some("omitted");
    let streams = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    let ways = Format { streams, hides_reasoning, seals: true, tells_usage: true, ..Format::default() };
    Ok(ModelCall::new(received, ways))
}

/// Checks the members of beta features. The server stores no conversations, so a thread to continue is not found.
fn betas(target: &Target<'_>, body: &Value) -> Result<(), Fault> {
    let given = |beta: &str| {
        let headers = target.headers.iter().filter(|(name, _)| name == "anthropic-beta");
        headers.flat_map(|(_, value)| value.split(',')).any(|given| given.trim().starts_with(beta))
    };
    for (member, beta) in OF_BETAS {
        if present(body, member).is_some() && !given(beta) {
            return Err(unfit(member, "Extra inputs are not permitted"));
        }
    }
    match present(body, "thread").map(|thread| text_of(thread, "type")) {
        None | Some(Some("create")) => Ok(()),
        Some(Some("continue")) => {
            Err(unfit("thread.previous_message_id", "no thread has it").because(FailureKind::StateLost))
        }
        Some(_) => Err(unfit("thread.type", "Input tag does not match any of the expected tags")),
    }
}

/// An error at a place, in Anthropic's wording.
pub(super) fn unfit(place: &str, message: &str) -> Fault {
    Fault::new(place, format!("{place}: {message}"))
}

#[derive(Clone, Copy, PartialEq)]
enum Thinking {
    Off,
    Adaptive,
    Budget,
}

fn thinking(body: &Value, max_tokens: u64) -> Result<Thinking, Fault> {
    let Some(thinking) = present(body, "thinking") else { return Ok(Thinking::Off) };
    if let Some(name) = unknown(thinking, "type budget_tokens display block_binding") {
        return Err(unfit(&format!("thinking.{name}"), "Extra inputs are not permitted"));
    }
    match text_of(thinking, "type") {
        Some("adaptive" | "between_tools") => Ok(Thinking::Adaptive),
        Some("disabled") => Ok(Thinking::Off),
        Some("enabled") => {
            let budget = thinking.get("budget_tokens").and_then(Value::as_u64).unwrap_or_default();
            if budget < 1_024 {
                let message = "Input should be greater than or equal to 1024";
                return Err(unfit("thinking.enabled.budget_tokens", message));
            }
            if budget >= max_tokens {
                let message = "`max_tokens` must be greater than `thinking.budget_tokens`";
                return Err(Fault::new("max_tokens", message));
            }
            Ok(Thinking::Budget)
        }
        _ => Err(unfit("thinking.type", "Input tag does not match any of the expected tags")),
    }
}

fn sampling(body: &Value) -> Result<(), Fault> {
    for param in ["temperature", "top_p"] {
        if is_outside(present(body, param), 1.0) {
            return Err(unfit(param, "range: 0..1"));
        }
    }
    if present(body, "top_k").is_some_and(|max| !max.is_u64()) {
        return Err(unfit("top_k", "Input should be a valid integer"));
    }
    let blank = |stop: &Value| stop.as_str().is_none_or(|stop| stop.trim().is_empty());
    if present(body, "stop_sequences").and_then(Value::as_array).is_some_and(|stops| stops.iter().any(blank))
    {
        return Err(unfit("stop_sequences", "each stop sequence must contain non-whitespace"));
    }
    Ok(())
}

/// Counts the cache marks in the order of the prefix: tools, system, messages.
fn marks(body: &Value) -> Result<(), Fault> {
    let mut marks = Vec::new();
    for part in ["tools", "system", "messages"] {
        if let Some(part) = body.get(part) {
            collect(part, &mut marks);
        }
    }
    if marks.len() > MAX_MARKS {
        let message = format!(
            "A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {}.",
            marks.len()
        );
        return Err(Fault::new("cache_control", message));
    }
    let mut has_short = false;
    for mark in marks {
        let is_long = match (text_of(mark, "type"), text_of(mark, "ttl")) {
            (Some("ephemeral"), Some("1h")) => true,
            (Some("ephemeral"), Some("5m") | None) => false,
            _ => return Err(unfit("cache_control", "Input should be ephemeral with a ttl of 5m or 1h")),
        };
        if is_long && has_short {
            let message = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block";
            return Err(unfit("cache_control.ttl", message));
        }
        has_short |= !is_long;
    }
    Ok(())
}

/// The cache marks in a value: of blocks, and of blocks within messages and results.
fn collect<'a>(value: &'a Value, marks: &mut Vec<&'a Value>) {
    for item in value.as_array().into_iter().flatten() {
        marks.extend(present(item, "cache_control"));
        if let Some(content) = item.get("content") {
            collect(content, marks);
        }
    }
}

fn system(system: Option<&Value>) -> Result<Option<String>, Fault> {
    match system {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(blocks)) => {
            let texts: Result<String, Fault> = blocks
                .iter()
                .enumerate()
                .map(|(n, block)| text_block(&format!("system.{n}"), block))
                .collect();
            texts.map(Some)
        }
        Some(_) => Err(unfit("system", "Input should be a valid string or a list of text blocks")),
    }
}

fn tools(body: &Value) -> Result<Vec<ToolDefinition>, Fault> {
    let mut tools: Vec<ToolDefinition> = Vec::new();
    for (n, listed) in present(body, "tools").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let place = |name: &str| format!("tools.{n}.{name}");
        if let Some(name) = unknown(listed, KNOWN_OF_TOOL) {
            return Err(unfit(&place(name), "Extra inputs are not permitted"));
        }
        if present(listed, "type").is_some_and(|kind| kind != "custom") {
            return Err(unfit(&place("type"), "the models here know custom tools only"));
        }
        let name = text_of(listed, "name").filter(|name| is_name(name, 128, "-"));
        let name = name
            .ok_or_else(|| unfit(&place("name"), "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"))?;
        if tools.iter().any(|tool| &*tool.name == name) {
            return Err(unfit("tools", "Tool names must be unique."));
        }
        let schema =
            present(listed, "input_schema").ok_or_else(|| unfit(&place("input_schema"), "Field required"))?;
        if text_of(schema, "type") != Some("object") {
            return Err(unfit(&place("input_schema.type"), "Input should be 'object'"));
        }
        if let Some(why) = schemas::refused(Api::Anthropic, schema) {
            return Err(unfit(&place("custom.input_schema"), &why));
        }
        tools.push(tool(name, text_of(listed, "description"), Some(schema)));
    }
    Ok(tools)
}

fn choice(body: &Value, received: &mut ModelRequest, thinking: Thinking) -> Result<(), Fault> {
    let Some(choice) = present(body, "tool_choice") else { return Ok(()) };
    if received.tools.is_empty() {
        return Err(unfit("tool_choice", "may only be specified while providing `tools`"));
    }
    if let Some(name) = unknown(choice, "type name disable_parallel_tool_use") {
        return Err(unfit(&format!("tool_choice.{name}"), "Extra inputs are not permitted"));
    }
    received.one_call_at_a_time =
        choice.get("disable_parallel_tool_use").and_then(Value::as_bool).unwrap_or(false);
    received.tool_choice = match text_of(choice, "type") {
        Some("auto") => ToolChoice::Auto,
        Some("none") => ToolChoice::None,
        Some("any") => ToolChoice::Required,
        Some("tool") => {
            let name = text_of(choice, "name").unwrap_or_default();
            let found = received.tools.iter().find(|tool| &*tool.name == name);
            let found = found.ok_or_else(|| unfit("tool_choice.tool.name", "no tool has this name"))?;
            ToolChoice::Named(Arc::clone(&found.name))
        }
        _ => return Err(unfit("tool_choice.type", "Input tag does not match any of the expected tags")),
    };
    let forces = matches!(received.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    if forces && thinking == Thinking::Budget {
        let message = "Thinking may not be enabled when tool_choice forces tool use.";
        return Err(Fault::new("tool_choice", message));
    }
    Ok(())
}

const MAX_MARKS: usize = 4;

const KNOWN: &str = "model max_tokens messages system tools tool_choice stop_sequences temperature top_p top_k thinking \
    output_config cache_control metadata service_tier stream container context_management inference_geo \
    mcp_servers speed diagnostics thread output_format";

/// Members that are accepted if the header `anthropic-beta` has a word with this prefix.
const OF_BETAS: [(&str, &str); 2] =
    [("thread", "message-threads-"), ("output_format", "structured-outputs-")];

const KNOWN_OF_TOOL: &str = "type name description input_schema strict cache_control eager_input_streaming defer_loading \
    input_examples allowed_callers";
