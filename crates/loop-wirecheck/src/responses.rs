//! Requests of Responses.

use std::sync::Arc;

use loop_llm::{Arguments, AssistantTurn, Image, Message, ModelRequest, Raw, ToolCall, ToolOutput};
use serde_json::{Map, Value, json};

use super::canon::{
    self, Unexpressed, drop_default, drop_nulls, join_texts, keep, list, list_mut, remove_everywhere, schema,
    text,
};
use super::options;
use super::request::Form;

pub(crate) struct Responses;

impl Form for Responses {
    fn without(&self, body: &mut Value, lacks: &mut Unexpressed) {
        if remove_everywhere(body, "prompt_cache_breakpoint", &SCHEMAS) {
            lacks.insert("cache marks of the client".to_owned());
        }
        if let Some(tools) = list_mut(body, "tools") {
            keep(tools, lacks, |tool| {
                let kind = text(tool, "type");
                (kind != "function").then(|| format!("tool of the server: {kind}"))
            });
            canon::take_members(tools, &["defer_loading"], lacks);
        }
        if let Some(items) = list_mut(body, "input") {
            keep(items, lacks, |item| {
                let kind = text(item, "type");
                matches!(
                    kind,
                    "additional_tools"
                        | "item_reference"
                        | "custom_tool_call_output"
                        | "mcp_approval_response"
                )
                .then(|| format!("item: {kind}"))
            });
        }
        for item in list_mut(body, "input").into_iter().flatten() {
            let key = if kind(item) == "function_call_output" { "output" } else { "content" };
            let is_ours = text(item, "role") != "assistant" && kind(item) != "reasoning";
            let Some(parts) = list_mut(item, key).filter(|_| is_ours) else { continue };
            keep(parts, lacks, |part| match text(part, "type") {
                "input_text" | "text" => None,
                "input_image" if text(part, "image_url").is_empty() => Some("picture by its id".to_owned()),
                "input_image" => {
                    options::is_address(text(part, "image_url")).then(|| "picture by its address".to_owned())
                }
                other => Some(format!("part: {other}")),
            });
            if canon::texts_first(parts) {
                lacks.insert("pictures before texts".to_owned());
            }
        }
        let Some(members) = body.as_object_mut() else { return };
        for key in ["previous_response_id", "conversation"] {
            if members.remove(key).is_some_and(|value| !value.is_null()) {
                lacks.insert(format!("a history that the server keeps ({key})"));
            }
        }
    }

    fn neutral(&self, body: &Value, origin: &str, lacks: &mut Unexpressed) -> Result<ModelRequest, String> {
        let mut request =
            ModelRequest { system: text(body, "instructions").into(), ..ModelRequest::default() };
        let mut turn: Vec<&Value> = Vec::new();
        if let Some(input) = body.get("input").and_then(Value::as_str) {
            request.messages.push(Message::user(input));
        }
        for item in list(body, "input") {
            let is_ours = kind(item) == "function_call_output"
                || (kind(item) == "message" && text(item, "role") != "assistant");
            if !is_ours {
                turn.push(item);
                continue;
            }
            end_turn(&mut turn, origin, &mut request);
            if kind(item) == "function_call_output" {
                let (text, images) = content(item.get("output"));
                let call = canon::text(item, "call_id").into();
                let result =
                    ToolOutput { call, is_error: false, text: text.into(), images, ..ToolOutput::default() };
                match request.messages.last_mut() {
                    Some(Message::Tool { results }) => results.push(result),
                    _ => request.messages.push(Message::Tool { results: vec![result] }),
                }
                continue;
            }
            let (words, images) = content(item.get("content"));
            request.messages.push(match text(item, "role") {
                "user" => Message::User { text: words.into(), images, author: Default::default() },
                "system" | "developer" => Message::Operator { text: words.into() },
                other => return Err(format!("a message of the role {other}")),
            });
        }
        end_turn(&mut turn, origin, &mut request);
        if lacks.iter().any(|lack| lack.contains("the server keeps")) && is_torn(&request.messages) {
            return Err("a history that the server keeps".to_owned());
        }
        request.tools = list(body, "tools").iter().map(|tool| options::tool(tool, "parameters")).collect();
        request.max_output_tokens = body.get("max_output_tokens").and_then(Value::as_u64);
        options::sampling(body, ["temperature", "top_p", "", ""], &mut request);
        request.no_stream = !body.get("stream").and_then(Value::as_bool).unwrap_or_default();
        request.one_call_at_a_time = body.get("parallel_tool_calls") == Some(&Value::Bool(false));
        request.cache.key = body.get("prompt_cache_key").and_then(Value::as_str).map(Into::into);
        request.service_tier = body.get("service_tier").and_then(Value::as_str).map(Into::into);
        let mut known = KNOWN.to_vec();
        match options::choice(body.get("tool_choice")) {
            Some(choice) => request.tool_choice = choice,
            None => known.retain(|key| *key != "tool_choice"),
        }
        options::extra(body, &known, &mut request);
        let reasoning = body.get("reasoning").cloned().unwrap_or_default();
        request.effort = options::effort(text(&reasoning, "effort"));
        request.show_reasoning = text(&reasoning, "summary") == "auto";
        let mut within = Vec::new();
        within.extend(request.effort.map(|_| "effort"));
        within.extend(request.show_reasoning.then_some("summary"));
        options::extra_within(body, "reasoning", &within, &mut request);
        let output = options::output(body.pointer("/text/format"), /*is_nested*/ false);
        options::extra_within(body, "text", if output.is_some() { &["format"] } else { &[] }, &mut request);
        request.output = output.unwrap_or_default();
        if body.get("store") == Some(&Value::Bool(true)) {
            request.extra.insert("store".to_owned(), true.into());
        }
        let include = list(body, "include");
        if include.iter().any(|word| word != ENCRYPTED) {
            request.extra.insert("include".to_owned(), include.into());
        }
        Ok(request)
    }

    fn canonical(&self, mut body: Value) -> Value {
        let Some(members) = body.as_object_mut() else { return body };
        drop_nulls(members);
        members.remove("model");
        drop_default(members, "stream", &Value::Bool(false));
        // Where nothing is said of it, we ask the server to keep nothing.
        drop_default(members, "store", &Value::Bool(false));
        drop_default(members, "parallel_tool_calls", &Value::Bool(true));
        drop_default(members, "tool_choice", &"auto".into());
        drop_default(members, "instructions", &"".into());
        if let Some(Value::Array(include)) = members.get_mut("include") {
            include.retain(|word| word != ENCRYPTED);
        }
        drop_default(members, "include", &json!([]));
        for key in ["reasoning", "text"] {
            if let Some(Value::Object(group)) = members.get_mut(key) {
                drop_nulls(group);
                drop_default(group, "format", &json!({"type": "text"}));
                if let Some(Value::Object(format)) = group.get_mut("format") {
                    drop_nulls(format);
                    drop_default(format, "strict", &Value::Bool(false));
                    drop_default(format, "description", &"".into());
                    canon::schema_within(format);
                }
            }
            drop_default(members, key, &json!({}));
        }
        let tools: Vec<Value> = list(&body, "tools").iter().map(canonical_tool).collect();
        let input = match body.get("input") {
            Some(Value::String(text)) => vec![canonical_item(&json!({"role": "user", "content": text}))],
            _ => list(&body, "input").iter().map(canonical_item).collect(),
        };
        if let Some(members) = body.as_object_mut() {
            members.insert("input".to_owned(), input.into());
            members.remove("tools");
            if !tools.is_empty() {
                members.insert("tools".to_owned(), tools.into());
            }
        }
        body
    }

    fn assistant_turns(&self, canonical: &Value) -> Vec<Vec<Value>> {
        let mut turns: Vec<Vec<Value>> = Vec::new();
        let mut is_open = false;
        for item in list(canonical, "input") {
            let is_ours = kind(item) == "function_call_output"
                || (kind(item) == "message" && text(item, "role") != "assistant");
            match turns.last_mut() {
                _ if is_ours => {}
                Some(turn) if is_open => turn.push(item.clone()),
                _ => turns.push(vec![item.clone()]),
            }
            is_open = !is_ours;
        }
        turns
    }
}

fn kind(item: &Value) -> &str {
    match text(item, "type") {
        "" => "message",
        kind => kind,
    }
}

/// Whether results stand without their calls.
fn is_torn(messages: &[Message]) -> bool {
    let mut before: Option<&Message> = None;
    for message in messages {
        if matches!(message, Message::Tool { .. }) && !matches!(before, Some(Message::Assistant(_))) {
            return true;
        }
        before = Some(message);
    }
    false
}

fn end_turn(items: &mut Vec<&Value>, origin: &str, request: &mut ModelRequest) {
    if items.is_empty() {
        return;
    }
    let items = std::mem::take(items);
    let is_call = |item: &&Value| kind(item) == "function_call";
    let calls = items.iter().filter(|item| is_call(item)).map(|call| ToolCall {
        id: text(call, "call_id").into(),
        name: text(call, "name").into(),
        arguments: Arguments::from(text(call, "arguments")),
    });
    let texts: Vec<String> = items.iter().map(|item| content(item.get("content")).0).collect();
    let has_only = |item: &Value, keys: &[&str]| {
        item.as_object().is_some_and(|item| item.keys().all(|key| keys.contains(&key.as_str())))
    };
    let messages = items.iter().take_while(|item| kind(item) == "message").count();
    let is_plain_part = |part: &Value| has_only(part, &["type", "text"]);
    let is_plain = messages <= 1
        && items.iter().skip(messages).all(|item| is_call(item) && has_only(item, &PLAIN_CALL))
        && items.iter().take(messages).all(|item| {
            has_only(item, &["type", "role", "content"]) && list(item, "content").iter().all(is_plain_part)
        });
    let json: Vec<String> = items.iter().map(|item| item.to_string()).collect();
    request.messages.push(Message::Assistant(AssistantTurn {
        text: texts.concat().into(),
        calls: calls.collect(),
        reasoning: Arc::default(),
        raw: (!is_plain).then(|| Raw::from_text(format!("{origin}\n{}", json.join(",")))),
    }));
}

/// Texts and pictures.
fn content(value: Option<&Value>) -> (String, Vec<Image>) {
    match value {
        Some(Value::String(text)) => (text.clone(), Vec::new()),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().map(|part| text(part, "text")).collect();
            let images = parts.iter().map(|part| text(part, "image_url")).filter(|url| !url.is_empty());
            (texts.concat(), images.map(options::image).collect())
        }
        _ => (String::new(), Vec::new()),
    }
}

fn canonical_tool(tool: &Value) -> Value {
    let mut canonical = tool.as_object().cloned().unwrap_or_default();
    drop_nulls(&mut canonical);
    drop_default(&mut canonical, "strict", &Value::Bool(false));
    drop_default(&mut canonical, "description", &"".into());
    canonical.insert("parameters".to_owned(), schema(tool.get("parameters")));
    Value::Object(canonical)
}

fn canonical_item(item: &Value) -> Value {
    let mut members = item.as_object().cloned().unwrap_or_default();
    drop_nulls(&mut members);
    match kind(item) {
        "message" => {
            members.remove("type");
            if matches!(text(item, "role"), "developer") {
                members.insert("role".to_owned(), "system".into());
            }
            let parts = canonical_parts(members.remove("content"));
            members.insert("content".to_owned(), parts.into());
        }
        "function_call" => {
            members.insert("arguments".to_owned(), canon::arguments(item.get("arguments")));
        }
        "function_call_output" => {
            let parts = canonical_parts(members.remove("output"));
            members.insert("output".to_owned(), parts.into());
            members.remove("status");
        }
        _ => {}
    }
    Value::Object(members)
}

fn canonical_parts(value: Option<Value>) -> Vec<Value> {
    let parts = match value {
        Some(Value::String(text)) => vec![json!({"text": text})],
        Some(Value::Array(parts)) => parts.into_iter().map(canonical_part).collect(),
        _ => Vec::new(),
    };
    join_texts(parts)
}

fn canonical_part(part: Value) -> Value {
    match text(&part, "type") {
        "input_text" | "output_text" | "text" => {
            let mut members: Map<String, Value> = part.as_object().cloned().unwrap_or_default();
            members.remove("type");
            drop_nulls(&mut members);
            for key in ["annotations", "logprobs"] {
                drop_default(&mut members, key, &json!([]));
            }
            Value::Object(members)
        }
        "input_image" => canon::picture(text(&part, "image_url")),
        _ => part,
    }
}

const ENCRYPTED: &str = "reasoning.encrypted_content";
const SCHEMAS: [&str; 2] = ["parameters", "schema"];
const PLAIN_CALL: [&str; 4] = ["type", "call_id", "name", "arguments"];
/// Members that have a place in the neutral form, or are seen to on their own.
const KNOWN: [&str; 16] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "max_output_tokens",
    "temperature",
    "top_p",
    "stream",
    "parallel_tool_calls",
    "prompt_cache_key",
    "service_tier",
    "reasoning",
    "text",
    "store",
    "include",
];
