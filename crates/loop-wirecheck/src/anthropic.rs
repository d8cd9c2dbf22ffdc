//! Requests of Anthropic's Messages.

use std::sync::Arc;

use loop_llm::{
    Arguments, AssistantTurn, Effort, Image, Message, ModelRequest, OutputFormat, Raw, Strictness, ToolCall,
    ToolChoice, ToolOutput,
};
use serde_json::{Map, Value, json};

use super::canon::{
    self, Unexpressed, drop_default, drop_nulls, join_texts, keep, list, list_mut, remove_everywhere, schema,
    text,
};
use super::options;
use super::request::Form;

pub(crate) struct Anthropic;

impl Form for Anthropic {
    fn without(&self, body: &mut Value, lacks: &mut Unexpressed) {
        if remove_everywhere(body, "cache_control", &SCHEMAS) {
            lacks.insert(MARKS.to_owned());
        }
        if let Some(tools) = list_mut(body, "tools") {
            keep(tools, lacks, |tool| {
                let kind = text(tool, "type");
                (!matches!(kind, "" | "custom")).then(|| format!("tool of the server: {kind}"))
            });
            canon::take_members(tools, &TOOL_MEMBERS, lacks);
        }
        for message in list_mut(body, "messages").into_iter().flatten() {
            if text(message, "role") != "user" {
                continue;
            }
            let Some(blocks) = list_mut(message, "content") else { continue };
            keep(blocks, lacks, lack);
            for block in blocks.iter_mut().filter(|block| text(block, "type") == "tool_result") {
                if let Some(parts) = list_mut(block, "content") {
                    keep(parts, lacks, lack);
                    if canon::texts_first(parts) {
                        lacks.insert("pictures before texts".to_owned());
                    }
                }
            }
            let is_result = |block: &Value| text(block, "type") == "tool_result";
            let results = blocks.iter().filter(|block| is_result(block)).count();
            if !blocks.is_sorted_by_key(|block| !is_result(block)) {
                lacks.insert("texts before results".to_owned());
                blocks.sort_by_key(|block| !is_result(block));
            }
            if blocks.get_mut(results..).is_some_and(canon::texts_first) {
                lacks.insert("pictures before texts".to_owned());
            }
        }
    }

    fn neutral(&self, body: &Value, origin: &str, lacks: &mut Unexpressed) -> Result<ModelRequest, String> {
        let mut request =
            ModelRequest { system: texts(body.get("system")).into(), ..ModelRequest::default() };
        for message in &merged(list(body, "messages")) {
            match text(message, "role") {
                "user" => user(message.get("content"), &mut request),
                "assistant" => request.messages.push(Message::Assistant(assistant(message, origin))),
                "system" => {
                    request.messages.push(Message::Operator { text: texts(message.get("content")).into() })
                }
                other => return Err(format!("a message of the role {other}")),
            }
        }
        request.cache.off = !lacks.contains(MARKS);
        request.tools = list(body, "tools").iter().map(|tool| options::tool(tool, "input_schema")).collect();
        request.max_output_tokens = body.get("max_tokens").and_then(Value::as_u64);
        options::sampling(body, ["temperature", "top_p", "top_k", ""], &mut request);
        request.no_stream = !body.get("stream").and_then(Value::as_bool).unwrap_or_default();
        request.service_tier = body.get("service_tier").and_then(Value::as_str).map(Into::into);
        request.stop =
            list(body, "stop_sequences").iter().filter_map(Value::as_str).map(Into::into).collect();
        let mut known = KNOWN.to_vec();
        if let Some(choice) = body.get("tool_choice") {
            let is_one = choice.get("disable_parallel_tool_use") == Some(&Value::Bool(true));
            request.one_call_at_a_time = is_one;
            request.tool_choice = match text(choice, "type") {
                "any" => ToolChoice::Required,
                "tool" => ToolChoice::Named(text(choice, "name").into()),
                "none" => ToolChoice::None,
                _ => ToolChoice::Auto,
            };
        }
        let config = body.get("output_config").cloned().unwrap_or_default();
        // To us an effort means that it reasons.
        let reasons = body.get("thinking").is_some_and(|thinking| !thinking.is_null());
        request.effort = options::effort(text(&config, "effort")).filter(|_| reasons);
        if let Some(schema) = config.pointer("/format/schema") {
            request.output = OutputFormat::JsonSchema {
                name: "reply".into(),
                description: Arc::default(),
                schema: schema.clone(),
                strict: Strictness::Prefer,
            };
        }
        let thinking = body.get("thinking").cloned().unwrap_or_default();
        match text(&thinking, "type") {
            "enabled" => request.reasoning_tokens = thinking.get("budget_tokens").and_then(Value::as_u64),
            "disabled" if request.effort.is_none() => request.effort = Some(Effort::None),
            "" => {}
            _ => known.retain(|key| *key != "thinking"),
        }
        request.show_reasoning = text(&thinking, "display") == "summarized";
        options::extra(body, &known, &mut request);
        let known = if request.effort.is_some() { &["effort", "format"][..] } else { &["format"] };
        options::extra_within(body, "output_config", known, &mut request);
        Ok(request)
    }

    fn canonical(&self, mut body: Value) -> Value {
        // Where the client set marks, ours stand elsewhere: that is named, and left out here.
        remove_everywhere(&mut body, "cache_control", &SCHEMAS);
        let Some(members) = body.as_object_mut() else { return body };
        drop_nulls(members);
        members.remove("model");
        drop_default(members, "stream", &Value::Bool(false));
        if let Some(choice) = members.get_mut("tool_choice").and_then(Value::as_object_mut) {
            drop_nulls(choice);
            drop_default(choice, "disable_parallel_tool_use", &Value::Bool(false));
        }
        drop_default(members, "tool_choice", &json!({"type": "auto"}));
        if let Some(Value::Object(format)) =
            members.get_mut("output_config").and_then(|config| config.get_mut("format"))
        {
            canon::schema_within(format);
        }
        let system = texts(members.get("system"));
        members.remove("system");
        if !system.is_empty() {
            members.insert("system".to_owned(), system.into());
        }
        let tools: Vec<Value> = list(&body, "tools").iter().map(canonical_tool).collect();
        let mut messages: Vec<Value> = Vec::new();
        for message in list(&body, "messages") {
            let role = text(message, "role");
            let blocks = canonical_blocks(message.get("content"));
            match messages.last_mut() {
                Some(last) if text(last, "role") == role => {
                    if let Some(content) = list_mut(last, "content") {
                        content.extend(blocks);
                        *content = join_texts(std::mem::take(content));
                    }
                }
                _ => messages.push(json!({"role": role, "content": blocks})),
            }
        }
        messages.retain(|message| !list(message, "content").is_empty());
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
        turns.map(|turn| list(turn, "content").to_vec()).collect()
    }
}

/// What has no place among the blocks of a user's turn or a result.
fn lack(block: &Value) -> Option<String> {
    match text(block, "type") {
        "text" | "tool_result" => None,
        "image" if block.pointer("/source/type").is_some_and(|kind| kind == "base64") => None,
        "image" => Some("picture by its address".to_owned()),
        other => Some(format!("part: {other}")),
    }
}

/// A text, or the texts of blocks.
fn texts(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks.iter().map(|block| text(block, "text")).collect(),
        _ => String::new(),
    }
}

fn images(value: Option<&Value>) -> Vec<Image> {
    let source = |block: &Value| {
        let source = block.get("source")?;
        Some(Image {
            media_type: text(source, "media_type").into(),
            base64: canon::base64(text(source, "data")),
        })
    };
    value.and_then(Value::as_array).into_iter().flatten().filter_map(source).collect()
}

/// Results first, then what the user says.
fn user(content: Option<&Value>, request: &mut ModelRequest) {
    let blocks = content.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (results, others): (Vec<&Value>, Vec<&Value>) =
        blocks.iter().partition(|block| text(block, "type") == "tool_result");
    if !results.is_empty() {
        let results = results.into_iter().map(|block| ToolOutput {
            call: text(block, "tool_use_id").into(),
            is_error: block.get("is_error") == Some(&Value::Bool(true)),
            text: texts(block.get("content")).into(),
            images: images(block.get("content")),
            ..ToolOutput::default()
        });
        request.messages.push(Message::Tool { results: results.collect() });
    }
    let others = Value::Array(others.into_iter().cloned().collect());
    let (stated, images) = match content {
        Some(Value::String(text)) => (text.clone(), Vec::new()),
        _ => (texts(Some(&others)), images(Some(&others))),
    };
    if !stated.is_empty() || !images.is_empty() {
        request.messages.push(Message::User { text: stated.into(), images, author: Default::default() });
    }
}

/// Turns of the model that follow each other are one, as the server takes them.
fn merged(messages: &[Value]) -> Vec<Value> {
    let blocks = |message: &Value| match message.get("content") {
        Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
        _ => list(message, "content").to_vec(),
    };
    let is_model = |message: &Value| text(message, "role") == "assistant";
    let mut merged: Vec<Value> = Vec::new();
    for message in messages {
        match merged.last_mut().filter(|last| is_model(last) && is_model(message)) {
            Some(last) => {
                let both = [blocks(last), blocks(message)].concat();
                *last = json!({"role": "assistant", "content": both});
            }
            None => merged.push(message.clone()),
        }
    }
    merged
}

fn assistant(message: &Value, origin: &str) -> AssistantTurn {
    let blocks = list(message, "content");
    let is_use = |block: &Value| text(block, "type") == "tool_use";
    let calls = blocks.iter().filter(|block| is_use(block)).map(|block| ToolCall {
        id: text(block, "id").into(),
        name: text(block, "name").into(),
        arguments: Arguments::from(block.get("input").map(Value::to_string).unwrap_or_default()),
    });
    let has_only = |block: &Value, keys: &[&str]| {
        block.as_object().is_some_and(|block| block.keys().all(|key| keys.contains(&key.as_str())))
    };
    let is_plain = blocks.is_sorted_by_key(is_use)
        && blocks.iter().all(|block| match text(block, "type") {
            "text" => has_only(block, &["type", "text"]),
            "tool_use" => has_only(block, &["type", "id", "name", "input"]),
            _ => false,
        });
    let json: Vec<String> = blocks.iter().map(Value::to_string).collect();
    AssistantTurn {
        text: texts(message.get("content")).into(),
        calls: calls.collect(),
        reasoning: Arc::default(),
        raw: (!is_plain).then(|| Raw::from_text(format!("{origin}\n{}", json.join(",")))),
    }
}

fn canonical_tool(tool: &Value) -> Value {
    let mut canonical = tool.as_object().cloned().unwrap_or_default();
    drop_nulls(&mut canonical);
    drop_default(&mut canonical, "type", &"custom".into());
    drop_default(&mut canonical, "strict", &Value::Bool(false));
    drop_default(&mut canonical, "description", &"".into());
    canonical.insert("input_schema".to_owned(), schema(tool.get("input_schema")));
    Value::Object(canonical)
}

fn canonical_blocks(content: Option<&Value>) -> Vec<Value> {
    let blocks = match content {
        Some(Value::String(text)) => vec![json!({"text": text})],
        Some(Value::Array(blocks)) => blocks.iter().map(canonical_block).collect(),
        _ => Vec::new(),
    };
    join_texts(blocks)
}

fn canonical_block(block: &Value) -> Value {
    let mut members: Map<String, Value> = block.as_object().cloned().unwrap_or_default();
    drop_nulls(&mut members);
    match text(block, "type") {
        "text" => {
            members.remove("type");
            drop_default(&mut members, "citations", &json!([]));
        }
        "image" => {
            let source = block.get("source").cloned().unwrap_or_default();
            return canon::picture(text(&source, "data"));
        }
        "tool_result" => {
            drop_default(&mut members, "is_error", &Value::Bool(false));
            let content = canonical_blocks(block.get("content"));
            members.insert("content".to_owned(), content.into());
        }
        _ => {}
    }
    Value::Object(members)
}

const MARKS: &str = "cache marks of the client";
const SCHEMAS: [&str; 3] = ["input_schema", "schema", "input"];
/// Members of a tool that only some of Anthropic's models know.
const TOOL_MEMBERS: [&str; 4] =
    ["defer_loading", "input_examples", "eager_input_streaming", "allowed_callers"];
/// Members that have a place in the neutral form, or are seen to on their own.
const KNOWN: [&str; 14] = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "stream",
    "service_tier",
    "thinking",
    "output_config",
];
