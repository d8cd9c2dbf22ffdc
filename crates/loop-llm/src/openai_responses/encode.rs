//! Encodes a request. The same request gives the same bytes, and new turns are only appended.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::turn::Writer;
use crate::codec::{Aliases, Body, Encoded, Json, Members, Target, turns, wire_name};
use crate::error::LlmError;
use crate::openai::{Abilities, choose, effort, known, shape, strict};
use crate::options::{Effort, OutputFormat};
use crate::request::ModelRequest;
use crate::warnings::Warnings;

pub(crate) fn encode(request: &ModelRequest, target: &Target<'_>) -> Result<Encoded, LlmError> {
    let aliases = Aliases::of(&request.tools)?;
    let turns = turns(request, &Writer { target: *target })?;
    let mut body = Body::default();
    let mut head = Json::default();
    head.raw("{\"model\":").value(target.model);
    // The caller's own instructions are among the other members.
    if !request.system.is_empty() && !request.extra.contains_key("instructions") {
        head.raw(",\"instructions\":").value(&request.system);
    }
    head.raw(",\"input\":[");
    let start = head.len() - 1;
    body.push(head.take());
    let (range, _) = turns.join(&mut body);
    body.push(&b"]"[..]);
    let mut warnings = Warnings::of(request.unsupported, &turns)?;
    let mut members = Members::new(&request.extra);
    let abilities = known(target);
    let effort = effort(request, target, &abilities, &mut warnings)?;
    members.add("store", &false);
    if abilities.reasons() {
        members.add("include", &["reasoning.encrypted_content"]);
    }
    tools(request, target, &mut members, &mut warnings)?;
    if let Some(max) = request.max_output_tokens {
        if max < LEAST_OUTPUT {
            warnings.change("max_output_tokens")?;
        }
        members.add("max_output_tokens", &max.max(LEAST_OUTPUT));
    }
    output(request, target, &mut members, &mut warnings)?;
    reasoning(request, &abilities, effort, &mut members, &mut warnings)?;
    sampling(request, &abilities, effort, &mut members, &mut warnings)?;
    if let (Some(key), true, false) = (&request.cache.key, target.profile.cache_key, request.cache.off) {
        members.add("prompt_cache_key", key);
    } else {
        warnings.leave_out_key(&request.cache);
    }
    if request.cache.long {
        warnings.leave_out("cache.long")?;
    }
    if let Some(tier) = &request.service_tier {
        members.add("service_tier", tier);
    }
    if !request.no_stream {
        members.add("stream", &true);
    }
    body.push(members.finish());
    body.push(&b"}"[..]);
    Ok(Encoded { body, messages: start..range.end, warnings: warnings.finish(), aliases })
}

fn tools(
    request: &ModelRequest,
    target: &Target<'_>,
    members: &mut Members<'_>,
    warnings: &mut Warnings,
) -> Result<(), LlmError> {
    if request.tools.is_empty() {
        return Ok(());
    }
    let profile = target.profile;
    let mut json = Json::default();
    for (nth, tool) in request.tools.iter().enumerate() {
        json.raw(if nth == 0 { "[" } else { "," });
        json.raw("{\"type\":\"function\",\"name\":").value(&wire_name(&tool.name));
        if !tool.description.is_empty() {
            json.raw(",\"description\":").value(&tool.description);
        }
        let strict = strict(tool, profile.strict_tools, warnings)?;
        json.raw(",\"parameters\":").value(strict.as_ref().unwrap_or(&tool.parameters));
        // Without `strict` the server would bind the schema.
        json.raw(",\"strict\":").value(&strict.is_some()).raw("}");
    }
    json.raw("]");
    members.add_json("tools", json.take());
    let function = |name: &Arc<str>| json!({"type": "function", "name": wire_name(name)});
    let allowed = |tools: Vec<Value>| json!({"type": "allowed_tools", "mode": "auto", "tools": tools});
    choose(request, profile, function, allowed, members, warnings)
}

fn output(
    request: &ModelRequest,
    target: &Target<'_>,
    members: &mut Members<'_>,
    warnings: &mut Warnings,
) -> Result<(), LlmError> {
    let format = match &request.output {
        OutputFormat::Text => return Ok(()),
        OutputFormat::JsonSchema { name, description, schema, strict } if target.profile.json_schema => {
            let mut form = Map::from_iter([("type".to_owned(), "json_schema".into())]);
            form.extend(shape(name, description, schema, *strict, warnings)?);
            Value::Object(form)
        }
        OutputFormat::JsonSchema { .. } => {
            warnings.change("text.format")?;
            json!({"type": "json_object"})
        }
        OutputFormat::JsonObject => json!({"type": "json_object"}),
    };
    members.add("text", &json!({"format": format}));
    Ok(())
}

fn reasoning(
    request: &ModelRequest,
    abilities: &Abilities,
    effort: Option<Effort>,
    members: &mut Members<'_>,
    warnings: &mut Warnings,
) -> Result<(), LlmError> {
    let mut reasoning = Map::new();
    if let Some(effort) = effort {
        reasoning.insert("effort".to_owned(), effort.name().into());
    }
    if request.show_reasoning {
        if abilities.reasons() {
            reasoning.insert("summary".to_owned(), "auto".into());
        } else {
            warnings.leave_out("show_reasoning")?;
        }
    }
    if !reasoning.is_empty() {
        members.add("reasoning", &reasoning);
    }
    if request.reasoning_tokens.is_some() {
        warnings.leave_out("reasoning_tokens")?;
    }
    Ok(())
}

/// Sampling options. The protocol has no stop sequences: the decoder looks for them.
fn sampling(
    request: &ModelRequest,
    abilities: &Abilities,
    effort: Option<Effort>,
    members: &mut Members<'_>,
    warnings: &mut Warnings,
) -> Result<(), LlmError> {
    let is_taken = abilities.takes(abilities.sampling, effort);
    for (name, value) in [("temperature", request.temperature), ("top_p", request.top_p)] {
        match value {
            Some(value) if is_taken => members.add(name, &value),
            Some(_) => warnings.leave_out(name)?,
            None => {}
        }
    }
    for (name, is_given) in [("top_k", request.top_k.is_some()), ("seed", request.seed.is_some())] {
        if is_given {
            warnings.leave_out(name)?;
        }
    }
    Ok(())
}

/// Minimum `max_output_tokens` that the API accepts.
const LEAST_OUTPUT: u64 = 16;
