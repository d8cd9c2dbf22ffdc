//! What each provider requires of a history, written from its documentation and without the code of the codecs.

use std::collections::BTreeSet;

use serde_json::Value;

/// What is wrong with a body.
pub(crate) type Validator = fn(&Value) -> Result<(), String>;

/// For each protocol, what its provider requires.
pub(crate) const ALL: [(&str, Validator); 4] =
    [("anthropic", anthropic), ("openai-chat", chat), ("openai-responses", responses), ("gemini", gemini)];

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>, String> {
    value[name].as_array().ok_or_else(|| format!("`{name}` is not a list"))
}

fn must(holds: bool, what: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn ids(values: &[&Value], member: &str) -> Vec<String> {
    values.iter().map(|value| value[member].as_str().unwrap_or_default().to_owned()).collect()
}

/// Turns alternate and have content; the results of all calls are at the head of the next turn.
fn anthropic(body: &Value) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    for (at, message) in list(body, "messages")?.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        must(message["role"] == role, format!("message {at} is not of the {role}"))?;
        let blocks = list(message, "content")?;
        must(!blocks.is_empty(), format!("message {at} is empty"))?;
        let of = |kind: &str| blocks.iter().filter(|block| block["type"] == kind).collect::<Vec<_>>();
        for text in of("text") {
            let text = text["text"].as_str().unwrap_or_default();
            must(!text.trim().is_empty(), format!("message {at} has an empty text"))?;
        }
        let results = of("tool_result");
        let is_at_head = blocks.iter().take(results.len()).all(|block| block["type"] == "tool_result");
        must(is_at_head, format!("message {at} has results behind other blocks"))?;
        same(&open, &ids(&results, "tool_use_id"), at)?;
        open = ids(&of("tool_use"), "id");
        for call in of("tool_use") {
            must(call["input"].is_object(), format!("message {at} has arguments that are not an object"))?;
        }
    }
    must(open.is_empty(), "the last calls have no results")
}

/// Each call of a turn has one result behind it, before anything else.
fn chat(body: &Value) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    let mut given: Vec<String> = Vec::new();
    for (at, message) in list(body, "messages")?.iter().enumerate() {
        if message["role"] == "tool" {
            given.push(message["tool_call_id"].as_str().unwrap_or_default().to_owned());
            must(
                message["content"].is_string() || message["content"].is_array(),
                format!("message {at} is empty"),
            )?;
            continue;
        }
        same(&open, &given, at)?;
        given.clear();
        let calls: Vec<&Value> = message["tool_calls"].as_array().into_iter().flatten().collect();
        open = ids(&calls, "id");
        let has_content = match &message["content"] {
            Value::String(text) => !text.is_empty(),
            Value::Array(parts) => !parts.is_empty(),
            _ => false,
        };
        must(has_content || !open.is_empty(), format!("message {at} says nothing"))?;
    }
    same(&open, &given, usize::MAX)
}

/// Each call has one output behind it, and each output a call before it. An id is free again behind its output.
fn responses(body: &Value) -> Result<(), String> {
    let mut open = BTreeSet::new();
    for (at, item) in list(body, "input")?.iter().enumerate() {
        let id = item["call_id"].as_str().unwrap_or_default().to_owned();
        match item["type"].as_str() {
            Some("function_call") => {
                must(open.insert(id.clone()), format!("item {at}: the call {id} is there twice"))?;
            }
            Some("function_call_output") => {
                must(open.remove(&id), format!("item {at}: an output without a call: {id}"))?;
            }
            _ => must(open.is_empty(), format!("item {at}: calls {open:?} have no outputs before it"))?,
        }
    }
    must(open.is_empty(), format!("calls {open:?} have no outputs"))
}

/// Contents alternate and have parts; the answers of all calls are in the next content.
fn gemini(body: &Value) -> Result<(), String> {
    let mut open = 0;
    for (at, content) in list(body, "contents")?.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "model" };
        must(content["role"] == role, format!("content {at} is not of the {role}"))?;
        let parts = list(content, "parts")?;
        must(!parts.is_empty(), format!("content {at} is empty"))?;
        let count = |member: &str| parts.iter().filter(|part| !part[member].is_null()).count();
        must(count("functionResponse") == open, format!("content {at} answers another number of calls"))?;
        open = count("functionCall");
    }
    must(open == 0, "the last calls have no answers")
}

fn same(calls: &[String], results: &[String], at: usize) -> Result<(), String> {
    let sorted = |ids: &[String]| {
        let mut ids = ids.to_vec();
        ids.sort();
        ids
    };
    let (wanted, given) = (sorted(calls), sorted(results));
    let unique: BTreeSet<&String> = wanted.iter().collect();
    must(unique.len() == wanted.len(), format!("before message {at}: two calls have one id: {wanted:?}"))?;
    must(wanted == given, format!("before message {at}: calls {wanted:?} have results {given:?}"))
}
