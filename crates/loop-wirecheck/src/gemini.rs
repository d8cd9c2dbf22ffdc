//! Requests of Gemini's generateContent.

use std::sync::Arc;

use loop_llm::{
    Arguments, AssistantTurn, Image, Message, ModelRequest, OutputFormat, Raw, Strictness, ToolCall,
    ToolChoice, ToolOutput,
};
use serde_json::{Map, Value, json};

use super::canon::{
    self, Unexpressed, drop_default, drop_nulls, join_texts, keep, list, list_mut, schema, text,
};
use super::options;
use super::request::Form;

pub(crate) struct Gemini;

impl Form for Gemini {
    fn without(&self, body: &mut Value, lacks: &mut Unexpressed) {
        camel(body);
        if let Some(members) = body.as_object_mut() {
            if members.remove("cachedContent").is_some() {
                lacks.insert("a cached content".to_owned());
            }
            if let Some(tools) = members.get_mut("tools").filter(|tools| tools.is_object()) {
                *tools = Value::Array(vec![tools.take()]);
            }
        }
        for tool in list_mut(body, "tools").into_iter().flatten() {
            let Some(tool) = tool.as_object_mut() else { continue };
            tool.retain(|kind, value| {
                let is_ours = kind == "functionDeclarations";
                if !is_ours && !value.is_null() {
                    lacks.insert(format!("tool of the server: {kind}"));
                }
                is_ours
            });
        }
        let has_server_tools = lacks.iter().any(|lack| lack.starts_with("tool of the server"));
        if let Some(config) = body.get_mut("toolConfig").and_then(Value::as_object_mut)
            && has_server_tools
        {
            config.remove("includeServerSideToolInvocations");
        }
        for content in list_mut(body, "contents").into_iter().flatten() {
            if text(content, "role") == "model" {
                continue;
            }
            let Some(parts) = list_mut(content, "parts") else { continue };
            hoist(parts);
            keep(parts, lacks, |part| {
                let kind = part.pointer("/inlineData/mimeType").and_then(Value::as_str);
                let has = |key: &str| part.get(key).is_some();
                match kind {
                    Some(kind) if kind.starts_with("image/") => None,
                    Some(kind) => Some(format!("part: {kind}")),
                    None if has("text") || has("functionResponse") => None,
                    None => Some(format!(
                        "part: {}",
                        part.as_object()
                            .and_then(|part| part.keys().next())
                            .map_or("nothing", String::as_str)
                    )),
                }
            });
            let is_result = |part: &Value| part.get("functionResponse").is_some();
            let results = parts.iter().filter(|part| is_result(part)).count();
            if !parts.is_sorted_by_key(|part| !is_result(part)) {
                lacks.insert("texts before results".to_owned());
                parts.sort_by_key(|part| !is_result(part));
            }
            // Pictures of results stand right after them.
            if results == 0 && canon::texts_first(parts) {
                lacks.insert("pictures before texts".to_owned());
            }
        }
    }

    fn neutral(&self, body: &Value, origin: &str, _: &mut Unexpressed) -> Result<ModelRequest, String> {
        let mut request =
            ModelRequest { system: texts(body.get("systemInstruction")).into(), ..ModelRequest::default() };
        for content in &merged(list(body, "contents")) {
            match text(content, "role") {
                "model" => {
                    let turn = model_turn(content, origin, request.messages.len());
                    request.messages.push(Message::Assistant(turn));
                }
                "user" | "" | "function" => user(content, &mut request),
                other => return Err(format!("a content of the role {other}")),
            }
        }
        let declarations = list(body, "tools").iter().flat_map(|tool| list(tool, "functionDeclarations"));
        let is_validated = mode(body) == "VALIDATED";
        request.tools = declarations
            .map(|tool| {
                let key = if tool.get("parametersJsonSchema").is_some() {
                    "parametersJsonSchema"
                } else {
                    "parameters"
                };
                let mut tool = options::tool(tool, key);
                if schema(Some(&tool.parameters)).is_null() {
                    tool.parameters = json!({"type": "object", "properties": {}});
                }
                if is_validated {
                    tool.strict = Strictness::Prefer;
                }
                tool
            })
            .collect();
        let names = body
            .pointer("/toolConfig/functionCallingConfig")
            .map_or(&[][..], |it| list(it, "allowedFunctionNames"));
        let mut names = names.iter().filter_map(Value::as_str);
        request.tool_choice = match (mode(body), names.next(), names.next()) {
            ("NONE", ..) => ToolChoice::None,
            ("ANY", None, _) => ToolChoice::Required,
            ("ANY", Some(name), None) => ToolChoice::Named(name.into()),
            _ => ToolChoice::Auto,
        };
        let config = body.get("generationConfig").cloned().unwrap_or_default();
        request.max_output_tokens = config.get("maxOutputTokens").and_then(Value::as_u64);
        options::sampling(&config, ["temperature", "topP", "topK", "seed"], &mut request);
        request.stop =
            list(&config, "stopSequences").iter().filter_map(Value::as_str).map(Into::into).collect();
        let schema = config.get("responseJsonSchema").or_else(|| config.get("responseSchema"));
        if let Some(schema) = schema.filter(|_| text(&config, "responseMimeType") == "application/json") {
            request.output = OutputFormat::JsonSchema {
                name: "reply".into(),
                description: Arc::default(),
                schema: schema.clone(),
                strict: Strictness::Prefer,
            };
        } else if text(&config, "responseMimeType") == "application/json" {
            request.output = OutputFormat::JsonObject;
        }
        let thinking = config.get("thinkingConfig").cloned().unwrap_or_default();
        request.effort = options::effort(&text(&thinking, "thinkingLevel").to_ascii_lowercase());
        request.reasoning_tokens = thinking.get("thinkingBudget").and_then(Value::as_u64);
        request.show_reasoning = thinking.get("includeThoughts") == Some(&Value::Bool(true));
        options::extra(body, &KNOWN, &mut request);
        options::extra_within(body, "generationConfig", &KNOWN_CONFIG, &mut request);
        if thinking.get("thinkingBudget").is_some_and(|budget| budget.as_i64().is_some_and(|it| it < 0)) {
            let own = json!({"thinkingConfig": {"thinkingBudget": thinking.get("thinkingBudget")}});
            request.extra.insert("generationConfig".to_owned(), own);
        }
        let is_subset =
            names.next().is_some() || mode(body) == "ANY" && request.tool_choice == ToolChoice::Auto;
        if is_subset {
            // That one of several must be called has no word of its own.
            request
                .extra
                .insert("toolConfig".to_owned(), body.get("toolConfig").cloned().unwrap_or_default());
        } else {
            options::extra_within(body, "toolConfig", &["functionCallingConfig"], &mut request);
        }
        Ok(request)
    }

    fn canonical(&self, mut body: Value) -> Value {
        camel(&mut body);
        let system = texts(body.get("systemInstruction"));
        let tools: Vec<Value> = list(&body, "tools")
            .iter()
            .flat_map(|tool| list(tool, "functionDeclarations"))
            .map(canonical_tool)
            .collect();
        let others = list(&body, "tools").iter().filter_map(Value::as_object);
        let others: Vec<Value> = others
            .filter(|tool| tool.iter().any(|(key, value)| key != "functionDeclarations" && !value.is_null()))
            .map(|tool| Value::Object(tool.clone()))
            .collect();
        let mut contents: Vec<Value> = Vec::new();
        for content in list(&body, "contents") {
            let role = if text(content, "role") == "model" { "model" } else { "user" };
            let mut parts = list(content, "parts").to_vec();
            hoist(&mut parts);
            let parts: Vec<Value> = parts.into_iter().map(canonical_part).collect();
            match contents.last_mut() {
                Some(last) if text(last, "role") == role => {
                    if let Some(all) = list_mut(last, "parts") {
                        all.extend(parts);
                    }
                }
                _ => contents.push(json!({"role": role, "parts": parts})),
            }
        }
        for content in &mut contents {
            if let Some(parts) = list_mut(content, "parts") {
                *parts = join_texts(std::mem::take(parts));
            }
        }
        contents.retain(|content| !list(content, "parts").is_empty());
        let Some(members) = body.as_object_mut() else { return body };
        drop_nulls(members);
        for key in ["systemInstruction", "tools", "contents", "model"] {
            members.remove(key);
        }
        if !system.is_empty() {
            members.insert("systemInstruction".to_owned(), system.into());
        }
        if !tools.is_empty() {
            members.insert("tools".to_owned(), tools.into());
        }
        if !others.is_empty() {
            members.insert("otherTools".to_owned(), others.into());
        }
        members.insert("contents".to_owned(), contents.into());
        if let Some(Value::Object(config)) = members.get_mut("generationConfig") {
            drop_nulls(config);
            drop_default(config, "responseModalities", &json!(["TEXT"]));
            drop_default(config, "candidateCount", &1.into());
            canon::rename(config, "responseSchema", "responseJsonSchema");
            if let Some(form) = config.get_mut("responseJsonSchema") {
                *form = schema(Some(form));
            }
            if let Some(Value::Object(thinking)) = config.get_mut("thinkingConfig") {
                drop_nulls(thinking);
                drop_default(thinking, "includeThoughts", &Value::Bool(false));
                if let Some(Value::String(level)) = thinking.get_mut("thinkingLevel") {
                    *level = level.to_ascii_lowercase();
                }
            }
            drop_default(config, "thinkingConfig", &json!({}));
        }
        drop_default(members, "generationConfig", &json!({}));
        if let Some(Value::Object(config)) = members.get_mut("toolConfig") {
            drop_nulls(config);
            if let Some(Value::Object(calling)) = config.get_mut("functionCallingConfig") {
                drop_nulls(calling);
                drop_default(calling, "mode", &"AUTO".into());
                drop_default(calling, "allowedFunctionNames", &json!([]));
            }
            drop_default(config, "functionCallingConfig", &json!({}));
        }
        drop_default(members, "toolConfig", &json!({}));
        body
    }

    fn assistant_turns(&self, canonical: &Value) -> Vec<Vec<Value>> {
        let turns = list(canonical, "contents").iter().filter(|content| text(content, "role") == "model");
        turns.map(|turn| list(turn, "parts").to_vec()).collect()
    }
}

fn mode(body: &Value) -> &str {
    body.pointer("/toolConfig/functionCallingConfig/mode").and_then(Value::as_str).unwrap_or_default()
}

/// Members as the documentation writes them; both ways are taken. What is a user's own is not touched.
fn camel(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let all = std::mem::take(members);
            for (key, mut value) in all {
                let mut words = key.split('_');
                let mut name = words.next().unwrap_or_default().to_owned();
                for word in words {
                    let mut letters = word.chars();
                    name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
                    name.push_str(letters.as_str());
                }
                if !OWN.contains(&name.as_str()) {
                    camel(&mut value);
                }
                members.insert(name, value);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(camel),
        _ => {}
    }
}

/// Puts the pictures of results behind all results, where they also may stand.
fn hoist(parts: &mut Vec<Value>) {
    let mut pictures = Vec::new();
    for part in parts.iter_mut() {
        let Some(response) = part.get_mut("functionResponse").and_then(Value::as_object_mut) else {
            continue;
        };
        if let Some(Value::Array(inner)) = response.remove("parts") {
            pictures.extend(inner);
        }
    }
    let results = parts.iter().take_while(|part| part.get("functionResponse").is_some()).count();
    parts.splice(results..results, pictures);
}

fn texts(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(content) => list(content, "parts").iter().map(|part| text(part, "text")).collect(),
        None => String::new(),
    }
}

fn image(part: &Value) -> Option<Image> {
    let data = part.get("inlineData")?;
    Some(Image { media_type: text(data, "mimeType").into(), base64: canon::base64(text(data, "data")) })
}

fn user(content: &Value, request: &mut ModelRequest) {
    let parts = list(content, "parts");
    let responses: Vec<&Value> = parts.iter().filter_map(|part| part.get("functionResponse")).collect();
    let has_responses = !responses.is_empty();
    if has_responses {
        let calls: Vec<ToolCall> = match request.messages.last() {
            Some(Message::Assistant(turn)) => turn.calls.clone(),
            _ => Vec::new(),
        };
        let mut left = calls;
        let mut results: Vec<ToolOutput> = Vec::new();
        for response in responses {
            let (id, name) = (text(response, "id"), text(response, "name"));
            // By its id, where there is one; otherwise by name and place.
            let place = left.iter().position(|call| &*call.id == id);
            let place = place.or_else(|| left.iter().position(|call| &*call.name == name));
            let call = place.map(|place| left.remove(place).id);
            results.push(result(response.get("response"), call.unwrap_or_else(|| id.into())));
        }
        if let Some(last) = results.last_mut() {
            last.images = parts.iter().filter_map(image).collect();
        }
        request.messages.push(Message::Tool { results });
    }
    let stated: String = parts.iter().map(|part| text(part, "text")).collect();
    let images: Vec<Image> =
        if has_responses { Vec::new() } else { parts.iter().filter_map(image).collect() };
    // A prompt may be empty.
    let is_prompt = request.messages.is_empty();
    if !stated.is_empty() || !images.is_empty() || is_prompt {
        request.messages.push(Message::User { text: stated.into(), images, author: Default::default() });
    }
}

/// Turns of the model that follow each other are one, as the server takes them.
fn merged(contents: &[Value]) -> Vec<Value> {
    let is_model = |content: &Value| text(content, "role") == "model";
    let mut merged: Vec<Value> = Vec::new();
    for content in contents {
        let last = merged.last_mut().filter(|last| is_model(last) && is_model(content));
        match last.and_then(|last| list_mut(last, "parts")) {
            Some(parts) => parts.extend_from_slice(list(content, "parts")),
            None => merged.push(content.clone()),
        }
    }
    merged
}

fn result(response: Option<&Value>, call: Arc<str>) -> ToolOutput {
    let written = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let members = response.and_then(Value::as_object);
    let only = |key: &str| members.filter(|members| members.len() == 1).and_then(|members| members.get(key));
    let (is_error, text) = match (only("output"), only("error")) {
        (Some(output), _) => (false, written(output)),
        (_, Some(error)) => (true, written(error)),
        _ => (false, response.map(Value::to_string).unwrap_or_default()),
    };
    ToolOutput { call, is_error, text: text.into(), ..ToolOutput::default() }
}

fn model_turn(content: &Value, origin: &str, at: usize) -> AssistantTurn {
    let parts = list(content, "parts");
    let calls = parts.iter().filter_map(|part| part.get("functionCall")).enumerate().map(|(nth, call)| {
        let id = text(call, "id");
        let id = if id.is_empty() { format!("call_{at}_{}", nth + 1) } else { id.to_owned() };
        let arguments = call.get("args").map(Value::to_string).unwrap_or_default();
        ToolCall { id: id.into(), name: text(call, "name").into(), arguments: Arguments::from(arguments) }
    });
    let has_only = |value: &Value, keys: &[&str]| {
        value.as_object().is_some_and(|value| value.keys().all(|key| keys.contains(&key.as_str())))
    };
    let is_plain_call = |part: &Value| {
        let call = part.get("functionCall");
        has_only(part, &["functionCall"])
            && call
                .is_some_and(|call| has_only(call, &["id", "name", "args"]) && !text(call, "id").is_empty())
    };
    let is_plain = parts.is_sorted_by_key(|part| part.get("functionCall").is_some())
        && parts.iter().all(|part| has_only(part, &["text"]) || is_plain_call(part));
    let json: Vec<String> = parts.iter().map(Value::to_string).collect();
    let stated = parts
        .iter()
        .filter(|part| part.get("thought") != Some(&Value::Bool(true)))
        .map(|part| text(part, "text"));
    AssistantTurn {
        text: stated.collect::<String>().into(),
        calls: calls.collect(),
        reasoning: Arc::default(),
        raw: (!is_plain).then(|| Raw::from_text(format!("{origin}\n{}", json.join(",")))),
    }
}

fn canonical_tool(tool: &Value) -> Value {
    let mut canonical = tool.as_object().cloned().unwrap_or_default();
    drop_nulls(&mut canonical);
    drop_default(&mut canonical, "description", &"".into());
    canon::rename(&mut canonical, "parametersJsonSchema", "parameters");
    let parameters = schema(canonical.get("parameters"));
    canonical.insert("parameters".to_owned(), parameters);
    Value::Object(canonical)
}

fn canonical_part(mut part: Value) -> Value {
    if let Value::Object(members) = &mut part {
        drop_nulls(members);
        drop_default(members, "thought", &Value::Bool(false));
    }
    if let Some(data) = part.get("inlineData")
        && text(data, "mimeType").starts_with("image/")
    {
        return canon::picture(text(data, "data"));
    }
    if let Some(Value::Object(response)) = part.get_mut("functionResponse") {
        let value = canonical_response(response.remove("response").unwrap_or_default());
        response.insert("response".to_owned(), value);
        drop_nulls(response);
    }
    if let Some(Value::String(signature)) = part.get_mut("thoughtSignature") {
        // Bytes in Base64: both alphabets are taken, with and without what fills them up.
        *signature = signature.replace('-', "+").replace('_', "/").trim_end_matches('=').to_owned();
    }
    if let Some(Value::Object(call)) = part.get_mut("functionCall") {
        drop_nulls(call);
        drop_default(call, "args", &json!({}));
    }
    part
}

/// What stands in `output` is the response itself, and a text that is JSON is that JSON.
fn canonical_response(response: Value) -> Value {
    let inner = match &response {
        Value::Object(members) if members.len() == 1 => members.get("output").cloned(),
        _ => None,
    };
    match inner.unwrap_or(response) {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Value::Object(members) if members.len() == 1 && members.contains_key("error") => {
            let error = members.get("error").cloned().unwrap_or_default();
            let error = match error {
                Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
                other => other,
            };
            Value::Object(Map::from_iter([("error".to_owned(), error)]))
        }
        other => other,
    }
}

/// Members whose value is a schema or a user's own.
const OWN: [&str; 7] = [
    "args",
    "response",
    "parameters",
    "parametersJsonSchema",
    "responseSchema",
    "responseJsonSchema",
    "labels",
];
/// Members that have a place in the neutral form, or are seen to on their own.
const KNOWN: [&str; 6] =
    ["contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "model"];
const KNOWN_CONFIG: [&str; 10] = [
    "maxOutputTokens",
    "temperature",
    "topP",
    "topK",
    "seed",
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "thinkingConfig",
];
