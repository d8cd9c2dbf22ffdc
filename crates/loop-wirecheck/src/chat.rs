//! Requests of Chat Completions.

use std::sync::Arc;

use loop_llm::{Arguments, AssistantTurn, Image, Message, ModelRequest, Raw, ToolCall, ToolOutput};
use serde_json::{Map, Value, json};

use super::canon::{
    self, Unexpressed, drop_default, drop_nulls, join_texts, keep, list, list_mut, remove_everywhere, rename,
    schema, text,
};
use super::options;
use super::request::Form;

pub(crate) struct Chat;

impl Form for Chat {
    fn without(&self, body: &mut Value, lacks: &mut Unexpressed) {
        if remove_everywhere(body, "cache_control", &SCHEMAS) {
            lacks.insert("cache marks of the client".to_owned());
        }
        if let Some(tools) = list_mut(body, "tools") {
            keep(tools, lacks, |tool| {
                let kind = text(tool, "type");
                let is_function = kind == "function" || (kind.is_empty() && tool.get("function").is_some());
                (!is_function).then(|| format!("tool of the server: {kind}"))
            });
        }
        for message in list_mut(body, "messages").into_iter().flatten() {
            let role = text(message, "role").to_owned();
            if role != "tool" && message.as_object_mut().is_some_and(|it| it.remove("name").is_some()) {
                lacks.insert("name of a speaker".to_owned());
            }
            let Some(parts) = list_mut(message, "content").filter(|_| role != "assistant") else { continue };
            keep(parts, lacks, |part| match text(part, "type") {
                "text" => None,
                "image_url" if role == "tool" => Some("picture in a result".to_owned()),
                "image_url" => {
                    let url = part.pointer("/image_url/url").and_then(Value::as_str).unwrap_or_default();
                    options::is_address(url).then(|| "picture by its address".to_owned())
                }
                other => Some(format!("part: {other}")),
            });
            if canon::texts_first(parts) {
                lacks.insert("pictures before texts".to_owned());
            }
        }
    }

    fn neutral(&self, body: &Value, origin: &str, _: &mut Unexpressed) -> Result<ModelRequest, String> {
        let mut request = ModelRequest::default();
        let mut rest = list(body, "messages");
        if let Some((first, others)) = rest.split_first()
            && is_system(first)
        {
            request.system = content(first).0.into();
            rest = others;
        }
        for message in rest {
            match text(message, "role") {
                "user" => {
                    let (text, images) = content(message);
                    request.messages.push(Message::User {
                        text: text.into(),
                        images,
                        author: Default::default(),
                    });
                }
                "assistant" => request.messages.push(Message::Assistant(assistant(message, origin))),
                "tool" => {
                    let (text, images) = content(message);
                    let call = canon::text(message, "tool_call_id").into();
                    let result = ToolOutput {
                        call,
                        is_error: false,
                        text: text.into(),
                        images,
                        ..ToolOutput::default()
                    };
                    match request.messages.last_mut() {
                        Some(Message::Tool { results }) => results.push(result),
                        _ => request.messages.push(Message::Tool { results: vec![result] }),
                    }
                }
                _ if is_system(message) => {
                    request.messages.push(Message::Operator { text: content(message).0.into() });
                }
                other => return Err(format!("a message of the role {other}")),
            }
        }
        request.tools = list(body, "tools")
            .iter()
            .map(|tool| options::tool(tool.get("function").unwrap_or(tool), "parameters"))
            .collect();
        request.max_output_tokens =
            ["max_completion_tokens", "max_tokens"].iter().find_map(|key| body.get(*key)?.as_u64());
        options::sampling(body, ["temperature", "top_p", "top_k", "seed"], &mut request);
        request.seed = request.seed.or_else(|| body.get("random_seed")?.as_i64());
        request.no_stream = !body.get("stream").and_then(Value::as_bool).unwrap_or_default();
        request.one_call_at_a_time = body.get("parallel_tool_calls") == Some(&Value::Bool(false));
        request.cache.key = body.get("prompt_cache_key").and_then(Value::as_str).map(Into::into);
        request.service_tier = body.get("service_tier").and_then(Value::as_str).map(Into::into);
        request.stop = match body.get("stop") {
            Some(Value::String(text)) => vec![text.as_str().into()],
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(Into::into).collect(),
            _ => Vec::new(),
        };
        let mut known = KNOWN.to_vec();
        match options::choice(body.get("tool_choice")) {
            Some(choice) => request.tool_choice = choice,
            None => known.retain(|key| *key != "tool_choice"),
        }
        match options::output(body.get("response_format"), /*is_nested*/ true) {
            Some(output) => request.output = output,
            None => known.retain(|key| *key != "response_format"),
        }
        match body.get("reasoning_effort").and_then(Value::as_str).map(options::effort) {
            Some(None) => known.retain(|key| *key != "reasoning_effort"),
            effort => request.effort = effort.flatten(),
        }
        options::extra(body, &known, &mut request);
        Ok(request)
    }

    fn canonical(&self, mut body: Value) -> Value {
        let Some(members) = body.as_object_mut() else { return body };
        drop_nulls(members);
        for key in ["stream_options", "model"] {
            members.remove(key);
        }
        rename(members, "max_completion_tokens", "max_tokens");
        rename(members, "random_seed", "seed");
        drop_default(members, "stream", &Value::Bool(false));
        drop_default(members, "parallel_tool_calls", &Value::Bool(true));
        drop_default(members, "n", &1.into());
        drop_default(members, "tool_choice", &"auto".into());
        drop_default(members, "response_format", &json!({"type": "text"}));
        if members.get("tool_choice").is_some_and(|choice| choice == "any") {
            members.insert("tool_choice".to_owned(), "required".into());
        }
        if let Some(Value::String(stop)) = members.get("stop") {
            members.insert("stop".to_owned(), json!([stop]));
        }
        if let Some(format) = members.get_mut("response_format").and_then(|it| it.get_mut("json_schema"))
            && let Some(format) = format.as_object_mut()
        {
            drop_nulls(format);
            drop_default(format, "strict", &Value::Bool(false));
            drop_default(format, "description", &"".into());
            canon::schema_within(format);
        }
        let tools: Vec<Value> = list(&body, "tools").iter().map(canonical_tool).collect();
        let messages: Vec<Value> = list(&body, "messages").iter().map(canonical_message).collect();
        if let Some(members) = body.as_object_mut() {
            members.insert("messages".to_owned(), messages.into());
            members.remove("tools");
            if !tools.is_empty() {
                members.insert("tools".to_owned(), tools.into());
            }
        }
        body
    }

    fn assistant_turns(&self, canonical: &Value) -> Vec<Vec<Value>> {
        let turns = list(canonical, "messages").iter().filter(|message| text(message, "role") == "assistant");
        turns.map(|turn| vec![turn.clone()]).collect()
    }
}

fn is_system(message: &Value) -> bool {
    matches!(text(message, "role"), "system" | "developer")
}

/// Texts and pictures of a message.
fn content(message: &Value) -> (String, Vec<Image>) {
    match message.get("content") {
        Some(Value::String(text)) => (text.clone(), Vec::new()),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().map(|part| text(part, "text")).collect();
            let urls = parts.iter().filter_map(|part| part.pointer("/image_url/url")?.as_str());
            (texts.concat(), urls.map(options::image).collect())
        }
        _ => (String::new(), Vec::new()),
    }
}

fn assistant(message: &Value, origin: &str) -> AssistantTurn {
    let calls = list(message, "tool_calls").iter().map(|call| {
        let function = call.get("function").unwrap_or(call);
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        ToolCall {
            id: text(call, "id").into(),
            name: text(function, "name").into(),
            arguments: Arguments::from(arguments),
        }
    });
    let is_plain_call = |call: &Value| {
        call.as_object().is_some_and(|call| call.keys().all(|key| PLAIN_CALL.contains(&key.as_str())))
    };
    let is_text = |part: &Value| text(part, "type") == "text";
    let is_plain = list(message, "content").iter().all(is_text)
        && list(message, "tool_calls").iter().all(is_plain_call)
        && message.as_object().into_iter().flatten().all(|(key, value)| {
            PLAIN.contains(&key.as_str()) || is_nothing(value) || *value == Value::Bool(false)
        });
    AssistantTurn {
        text: content(message).0.into(),
        calls: calls.collect(),
        reasoning: Arc::default(),
        raw: (!is_plain).then(|| Raw::from_text(format!("{origin}\n{message}"))),
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || *value == json!([]) || *value == json!("")
}

fn canonical_tool(tool: &Value) -> Value {
    let function = tool.get("function").unwrap_or(tool);
    let mut canonical = function.as_object().cloned().unwrap_or_default();
    drop_nulls(&mut canonical);
    drop_default(&mut canonical, "strict", &Value::Bool(false));
    drop_default(&mut canonical, "description", &"".into());
    canonical.insert("parameters".to_owned(), schema(function.get("parameters")));
    Value::Object(canonical)
}

fn canonical_message(message: &Value) -> Value {
    let mut members = message.as_object().cloned().unwrap_or_default();
    drop_nulls(&mut members);
    if is_system(message) {
        members.insert("role".to_owned(), "system".into());
    }
    let parts = match members.remove("content") {
        Some(Value::String(text)) => vec![json!({"text": text})],
        Some(Value::Array(parts)) => parts.into_iter().map(canonical_part).collect(),
        _ => Vec::new(),
    };
    let calls: Vec<Value> = list(message, "tool_calls").iter().map(canonical_call).collect();
    members.remove("tool_calls");
    // What is empty says nothing: no reasoning, no name.
    members.retain(|_, value| !is_nothing(value) && *value != Value::Bool(false));
    members.insert("content".to_owned(), join_texts(parts).into());
    if !calls.is_empty() {
        members.insert("tool_calls".to_owned(), calls.into());
    }
    Value::Object(members)
}

fn canonical_part(part: Value) -> Value {
    match text(&part, "type") {
        "text" if part.as_object().is_some_and(|part| part.len() == 2) => {
            json!({"text": text(&part, "text")})
        }
        "image_url" => {
            canon::picture(part.pointer("/image_url/url").and_then(Value::as_str).unwrap_or_default())
        }
        _ => part,
    }
}

fn canonical_call(call: &Value) -> Value {
    let function = call.get("function").unwrap_or(call);
    let mut canonical: Map<String, Value> = call.as_object().cloned().unwrap_or_default();
    for key in ["type", "function", "index"] {
        canonical.remove(key);
    }
    canonical.insert("name".to_owned(), text(function, "name").into());
    canonical.insert("arguments".to_owned(), canon::arguments(function.get("arguments")));
    Value::Object(canonical)
}

/// Members whose value is a schema or a user's own.
const SCHEMAS: [&str; 2] = ["parameters", "schema"];
const PLAIN: [&str; 3] = ["role", "content", "tool_calls"];
const PLAIN_CALL: [&str; 4] = ["id", "type", "function", "index"];
/// Members that have a place in the neutral form.
const KNOWN: [&str; 19] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "max_completion_tokens",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "random_seed",
    "stop",
    "stream",
    "stream_options",
    "parallel_tool_calls",
    "prompt_cache_key",
    "service_tier",
    "response_format",
    "reasoning_effort",
];
