//! Encodes a request. The same request gives the same bytes, and new turns are only appended.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::turn::Writer;
use crate::codec::{Aliases, Body, Draft, Encoded, Json, Members, Target, turns, wire_name};
use crate::error::LlmError;
use crate::openai::{Abilities, choose, draft, effort, sampling, service, shape, strict};
use crate::options::{Effort, OutputFormat};
use crate::request::ModelRequest;
use crate::warnings::Warnings;

pub(crate) fn encode(request: &ModelRequest, target: &Target<'_>) -> Result<Encoded, LlmError> {
    let aliases = Aliases::of(&request.tools)?;
    let turns = turns(request, target, &Writer { target: *target })?;
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
    let warnings = Warnings::of(request.unsupported, &turns)?;
    let mut draft = draft(request, target, Members::new(&request.extra), warnings);
    let effort = effort(&mut draft)?;
    draft.members.add("store", &false);
    if draft.abilities.reasons() {
        draft.members.add("include", &["reasoning.encrypted_content"]);
    }
    tools(&mut draft)?;
    if let Some(max) = request.max_output_tokens {
        if max < LEAST_OUTPUT {
            draft.warnings.change("max_output_tokens")?;
        }
        draft.members.add("max_output_tokens", &max.max(LEAST_OUTPUT));
    }
    output(&mut draft)?;
    reasoning(&mut draft, effort)?;
    // The protocol has no stop sequences: the decoder looks for them.
    sampling(&mut draft, effort)?;
    draft.warnings.leave_out_if(request.top_k.is_some(), "top_k")?;
    draft.warnings.leave_out_if(request.seed.is_some(), "seed")?;
    service(&mut draft)?;
    body.push(draft.members.finish("}"));
    let warnings = draft.warnings.finish();
    Ok(Encoded { body, messages: start..range.end, warnings, aliases })
}

fn tools(draft: &mut Draft<'_, Abilities>) -> Result<(), LlmError> {
    if draft.request.tools.is_empty() {
        return Ok(());
    }
    let profile = draft.target.profile;
    let mut json = Json::default();
    for (nth, tool) in draft.request.tools.iter().enumerate() {
        json.raw(if nth == 0 { "[" } else { "," });
        json.raw("{\"type\":\"function\",\"name\":").value(&wire_name(&tool.name));
        if !tool.description.is_empty() {
            json.raw(",\"description\":").value(&tool.description);
        }
        let strict = strict(tool, profile.strict_tools, &mut draft.warnings)?;
        json.raw(",\"parameters\":").value(strict.as_ref().unwrap_or(&tool.parameters));
        // Without `strict` the server would bind the schema.
        json.raw(",\"strict\":").value(&strict.is_some()).raw("}");
    }
    json.raw("]");
    draft.members.add_json("tools", json.take());
    let function = |name: &Arc<str>| json!({"type": "function", "name": wire_name(name)});
    let allowed = |tools: Vec<Value>| json!({"type": "allowed_tools", "mode": "auto", "tools": tools});
    choose(draft, function, allowed)
}

fn output(draft: &mut Draft<'_, Abilities>) -> Result<(), LlmError> {
    let format = match &draft.request.output {
        OutputFormat::Text => return Ok(()),
        OutputFormat::JsonSchema { name, description, schema, strict }
            if draft.target.profile.json_schema =>
        {
            let mut form = Map::from_iter([("type".to_owned(), "json_schema".into())]);
            form.extend(shape(name, description, schema, *strict, &mut draft.warnings)?);
            Value::Object(form)
        }
        OutputFormat::JsonSchema { .. } => {
            draft.warnings.change("text.format")?;
            json!({"type": "json_object"})
        }
        OutputFormat::JsonObject => json!({"type": "json_object"}),
    };
    draft.members.add("text", &json!({"format": format}));
    Ok(())
}

fn reasoning(draft: &mut Draft<'_, Abilities>, effort: Option<Effort>) -> Result<(), LlmError> {
    let mut reasoning = Map::new();
    if let Some(effort) = effort {
        reasoning.insert("effort".to_owned(), effort.name().into());
    }
    if draft.request.show_reasoning {
        if draft.abilities.reasons() {
            reasoning.insert("summary".to_owned(), "auto".into());
        } else {
            draft.warnings.leave_out("show_reasoning")?;
        }
    }
    if !reasoning.is_empty() {
        draft.members.add("reasoning", &reasoning);
    }
    draft.warnings.leave_out_if(draft.request.reasoning_tokens.is_some(), "reasoning_tokens")?;
    Ok(())
}

/// Minimum `max_output_tokens` that the API accepts.
const LEAST_OUTPUT: u64 = 16;
