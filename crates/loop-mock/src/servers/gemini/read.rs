//! Parses a request of `generateContent` as strictly as Google does.

use std::sync::Arc;

use loop_llm::codec::Api;
use loop_llm::{ModelRequest, ToolChoice, ToolDefinition};
use serde_json::Value;

use super::contents::read_contents;
use crate::servers::protocol::{Fault, Format, ModelCall, Target};
use crate::servers::received::{is_name, is_outside, output, request, text_of, tool};
use crate::servers::schemas;

/// Parses a body.
pub(crate) fn read(target: &Target<'_>, body: &Value) -> Result<ModelCall, Fault> {
    if !body.is_object() {
        return Err(Fault::new("body", "Invalid JSON payload received."));
    }
    members(body, KNOWN, "")?;
    let model = target.model.unwrap_or_default();
    let mut received = request(model);
    if member(body, "cachedContent").is_some() {
        return Err(Fault::new("cachedContent", "CachedContent not found (or permission denied)"));
    }
    if let Some(system) = member(body, "systemInstruction") {
        members(system, "role parts", "system_instruction")?;
        let parts = system.get("parts").and_then(Value::as_array).into_iter().flatten();
        let text: Option<String> = parts.map(|part| text_of(part, "text")).collect();
        let text =
            text.ok_or_else(|| Fault::new("systemInstruction", "system_instruction takes texts alone"))?;
        received.system = text.into();
    }
    config(body, &mut received)?;
    let config = member(body, "generationConfig").unwrap_or(&Value::Null);
    let schema = member(config, "responseJsonSchema").or_else(|| member(config, "responseSchema"));
    let is_json = member(config, "responseMimeType").is_some_and(|kind| kind == "application/json");
    received.output = output(is_json, schema.filter(|_| is_json));
    received.tools = tools(body)?.into();
    choice(body, &mut received)?;
    let contents = body.get("contents").and_then(Value::as_array).filter(|contents| !contents.is_empty());
    let contents = contents.ok_or_else(|| {
        Fault::new("contents", "* GenerateContentRequest.contents: contents is not specified")
    })?;
    // Models before the third generation know no signatures.
    let signs = !["gemini-1", "gemini-2"].iter().any(|old| model.starts_with(old));
    received.messages = read_contents(contents, signs)?;
    let is_array = target.streams && !target.query.split('&').any(|pair| pair == "alt=sse");
    let ways =
        Format { streams: target.streams, is_array, seals: signs, tells_usage: true, ..Format::default() };
    Ok(ModelCall::new(received, ways))
}

/// A member by its name in camel case or snake case. `null` counts as absent.
pub(super) fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let value = value.get(name).or_else(|| value.get(snake(name)));
    value.filter(|value| !value.is_null())
}

/// Fails for unknown members, in camel case or snake case.
pub(super) fn members(value: &Value, known: &str, place: &str) -> Result<(), Fault> {
    let Some(object) = value.as_object() else {
        return Err(Fault::new(place, format!("Invalid value at '{place}'")));
    };
    let third_party =
        object.keys().find(|name| !known.split(' ').any(|known| *name == known || **name == snake(known)));
    match third_party {
        Some(name) => {
            let at = if place.is_empty() { String::new() } else { format!(" at '{place}'") };
            let message =
                format!("Invalid JSON payload received. Unknown name \"{name}\"{at}: Cannot find field.");
            Err(Fault::new(name, message))
        }
        None => Ok(()),
    }
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn config(body: &Value, received: &mut ModelRequest) -> Result<(), Fault> {
    let Some(config) = member(body, "generationConfig") else { return Ok(()) };
    members(config, KNOWN_OF_CONFIG, "generation_config")?;
    if let Some(max) = member(config, "maxOutputTokens") {
        let max = max.as_u64().filter(|max| *max > 0);
        let message = "max_output_tokens must be positive";
        received.max_output_tokens = Some(max.ok_or_else(|| Fault::new("maxOutputTokens", message))?);
    }
    for (name, max) in [("temperature", 2.0), ("topP", 1.0)] {
        if is_outside(member(config, name), max) {
            let message = format!("Invalid value at 'generation_config.{}' (from 0 to {max})", snake(name));
            return Err(Fault::new(name, message));
        }
    }
    for name in ["topK", "seed"] {
        if member(config, name).is_some_and(|value| value.as_i64().is_none()) {
            return Err(Fault::new(name, format!("Invalid value at 'generation_config.{}'", snake(name))));
        }
    }
    if member(config, "candidateCount").is_some_and(|count| count.as_u64() != Some(1)) {
        return Err(Fault::new("candidateCount", "one candidate is all there is"));
    }
    if member(config, "stopSequences").and_then(Value::as_array).is_some_and(|stops| stops.len() > 5) {
        return Err(Fault::new("stopSequences", "at most 5 stop sequences are allowed"));
    }
    if let Some(thinking) = member(config, "thinkingConfig") {
        members(
            thinking,
            "thinkingLevel thinkingBudget includeThoughts",
            "generation_config.thinking_config",
        )?;
        if member(thinking, "thinkingLevel").is_some() && member(thinking, "thinkingBudget").is_some() {
            let message = "You can only set only one of thinking budget and thinking level.";
            return Err(Fault::new("thinkingConfig", message));
        }
    }
    Ok(())
}

fn tools(body: &Value) -> Result<Vec<ToolDefinition>, Fault> {
    let mut tools: Vec<ToolDefinition> = Vec::new();
    let listed = member(body, "tools").and_then(Value::as_array).into_iter().flatten();
    for (n, listed) in listed.enumerate() {
        members(listed, "functionDeclarations", &format!("tools[{n}]"))?;
        let declared = member(listed, "functionDeclarations").and_then(Value::as_array).into_iter().flatten();
        for (m, function) in declared.enumerate() {
            let place = format!("tools[{n}].function_declarations[{m}]");
            members(function, KNOWN_OF_FUNCTION, &place)?;
            let begins = |name: &&str| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let name = text_of(function, "name").filter(|name| is_name(name, 64, ".:-")).filter(begins);
            let name = name.ok_or_else(|| {
                Fault::new(
                    "tools",
                    format!(
                        "{place}.name: Invalid function name. Must start with a letter or an underscore."
                    ),
                )
            })?;
            if tools.iter().any(|tool| &*tool.name == name) {
                return Err(Fault::new("tools", format!("Duplicate function declaration found: {name}")));
            }
            let open = member(function, "parameters");
            let json = member(function, "parametersJsonSchema");
            if open.is_some() && json.is_some() {
                return Err(Fault::new(
                    "tools",
                    format!("{place}: only one of parameters and parameters_json_schema can be set"),
                ));
            }
            if let Some(keyword) = open.and_then(foreign) {
                let message = format!(
                    "Invalid JSON payload received. Unknown name \"{keyword}\" at '{place}.parameters': Cannot find \
                     field."
                );
                return Err(Fault::new("tools", message));
            }
            if let Some(why) = json.and_then(|json| schemas::refused(Api::Gemini, json)) {
                let message = format!("{place}.parameters_json_schema: {why}");
                return Err(Fault::new("tools", message));
            }
            tools.push(tool(name, text_of(function, "description"), open.or(json)));
        }
    }
    Ok(tools)
}

/// A keyword of JSON Schema that Google's own schemas do not have.
fn foreign(schema: &Value) -> Option<&'static str> {
    let schema = schema.as_object()?;
    let here = FOREIGN.iter().find(|keyword| schema.contains_key(**keyword)).copied();
    let properties = schema.get("properties").and_then(Value::as_object);
    let below = properties.into_iter().flat_map(|properties| properties.values());
    here.or_else(|| below.chain(schema.get("items")).find_map(foreign))
}

fn choice(body: &Value, received: &mut ModelRequest) -> Result<(), Fault> {
    let Some(config) = member(body, "toolConfig") else { return Ok(()) };
    members(config, "functionCallingConfig retrievalConfig", "tool_config")?;
    let Some(calling) = member(config, "functionCallingConfig") else { return Ok(()) };
    members(calling, "mode allowedFunctionNames", "tool_config.function_calling_config")?;
    let names = member(calling, "allowedFunctionNames").and_then(Value::as_array);
    let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
    let mode = text_of(calling, "mode").unwrap_or("AUTO");
    let unfit = |message: &str| Fault::new("toolConfig", message);
    if !matches!(mode, "AUTO" | "ANY" | "NONE" | "VALIDATED") {
        return Err(unfit("Invalid value at 'tool_config.function_calling_config.mode'"));
    }
    if !names.is_empty() && !matches!(mode, "ANY" | "VALIDATED") {
        return Err(unfit(
            "allowed_function_names should only be set when the function calling mode is ANY or VALIDATED.",
        ));
    }
    let mut allowed: Vec<Arc<str>> = Vec::new();
    for name in names {
        let found = received.tools.iter().find(|tool| &*tool.name == name);
        allowed.push(Arc::clone(
            &found.ok_or_else(|| unfit("allowed_function_names names no declared function"))?.name,
        ));
    }
    received.tool_choice = match (mode, allowed.as_slice()) {
        ("NONE", _) => ToolChoice::None,
        ("ANY", []) => ToolChoice::Required,
        ("ANY", [one]) => ToolChoice::Named(Arc::clone(one)),
        (_, []) => ToolChoice::Auto,
        _ => ToolChoice::AnyOf(allowed),
    };
    Ok(())
}

const KNOWN: &str = "model contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent \
    serviceTier labels store";

const KNOWN_OF_CONFIG: &str = "temperature topP topK maxOutputTokens stopSequences seed candidateCount presencePenalty \
    frequencyPenalty responseMimeType responseSchema responseJsonSchema responseModalities \
    responseLogprobs logprobs thinkingConfig mediaResolution speechConfig imageConfig \
    enableEnhancedCivicAnswers";

const KNOWN_OF_FUNCTION: &str =
    "name description parameters parametersJsonSchema response responseJsonSchema behavior";

const FOREIGN: [&str; 8] =
    ["$ref", "$defs", "$schema", "additionalProperties", "oneOf", "allOf", "not", "const"];
