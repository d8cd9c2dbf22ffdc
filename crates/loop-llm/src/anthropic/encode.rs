//! Encodes a request. The same request gives the same bytes, and new turns are only appended.

use loop_core::types::FailureKind;
use serde_json::json;

use super::cache::Marks;
use super::models::{Abilities, abilities};
use super::think::{sampling, thinking};
use super::tools;
use super::turn::{ASSISTANT, Writer};
use crate::codec::{Aliases, Body, Draft, Encoded, Json, Members, Target, described, turns};
use crate::error::LlmError;
use crate::options::{Effort, OutputFormat, Strictness};
use crate::profile::LateInstructions;
use crate::request::ModelRequest;
use crate::warnings::Warnings;

pub(crate) fn encode(request: &ModelRequest, target: &Target<'_>) -> Result<Encoded, LlmError> {
    let aliases = Aliases::of(&request.tools)?;
    let abilities = abilities(if target.profile.known_models { target.known_as } else { "" });
    let is_users = target.profile.late_instructions == LateInstructions::User;
    let late_system = abilities.late_system && !is_users;
    let turns = turns(request, target, &Writer { target: *target, late_system })?;
    if turns.iter().all(|turn| turn.values == 0) {
        let message = "a request without a turn that says anything";
        return Err(LlmError::unsendable(FailureKind::InvalidRequest, message));
    }
    let warnings = Warnings::of(request.unsupported, &turns)?;
    let mut draft =
        Draft { request, target: *target, abilities, members: Members::new(&request.extra), warnings };
    let max = request.max_output_tokens.unwrap_or(draft.abilities.max_output);
    draft.members.add("max_tokens", &max);
    let reported = thinking(&mut draft, max)?;
    let has_system = !request.system.trim().is_empty() && !request.extra.contains_key("system");
    let marks =
        |has_instruction| Marks::of(target.profile.cache_marks, &request.cache, &turns, has_instruction);
    let mark = Some(marks(false)).filter(|marks| marks.head).map(|marks| marks.json());
    let choice = tools::add(&mut draft, reported.has_budget(), mark.filter(|_| !has_system))?;
    if let Some(thinking) = &reported.thinking {
        draft.members.add("thinking", thinking);
    }
    let form = output(&mut draft, reported.effort)?;
    sampling(&mut draft, reported.thinks)?;
    draft.warnings.leave_out_if(request.seed.is_some(), "seed")?;
    stop(&mut draft)?;
    draft.warnings.leave_out_key(&request.cache);
    if let Some(tier) = &request.service_tier {
        draft.members.add("service_tier", tier);
    }
    let instruction = [choice, form].into_iter().flatten().collect::<Vec<_>>().join("\n");
    let marks = marks(!instruction.is_empty());
    if marks.whole {
        draft.members.add_json("cache_control", marks.json());
    }
    if !request.no_stream {
        draft.members.add("stream", &true);
    }
    let mut head = Json::default();
    head.raw("{\"model\":").value(target.model);
    let start = head.len() + 1;
    if has_system {
        head.raw(",\"system\":[{\"type\":\"text\",\"text\":").value(&request.system);
        if let Some(mark) = mark {
            head.raw(",\"cache_control\":").raw(mark);
        }
        head.raw("}]");
    }
    head.raw(",\"messages\":[");
    let mut body = Body::default();
    body.push(head.take());
    let (range, close) = turns.join_marked(&mut body, marks.turns(), marks.member());
    let mut tail = Json::default();
    let ends_with_ours =
        turns.iter().rev().find(|turn| turn.values > 0).is_some_and(|turn| turn.joint != ASSISTANT);
    if !instruction.is_empty() && ends_with_ours {
        tail.raw(",{\"type\":\"text\",\"text\":").value(&instruction).raw("}");
    }
    tail.raw(close).raw("]");
    body.push(tail.take());
    body.push(draft.members.finish("}"));
    Ok(Encoded { body, messages: start..range.end, warnings: draft.warnings.finish(), aliases })
}

/// Adds effort and output format. Returns the instruction that replaces what the model does not support.
fn output(draft: &mut Draft<'_, Abilities>, effort: Option<Effort>) -> Result<Option<String>, LlmError> {
    let mut config = serde_json::Map::new();
    if let Some(effort) = effort {
        config.insert("effort".to_owned(), effort.name().into());
    }
    let instruction = match &draft.request.output {
        OutputFormat::Text => None,
        OutputFormat::JsonObject => {
            draft.warnings.change("response_format")?;
            Some(ONE_OBJECT.to_owned())
        }
        OutputFormat::JsonSchema { name, description, schema, strict } => {
            let is_offered = draft.target.profile.json_schema && draft.abilities.schemas;
            let schema = &described(schema, description, &mut draft.warnings);
            match super::schema::Quota::whole().bind(schema).filter(|_| is_offered) {
                Some(bound) => {
                    config.insert("format".to_owned(), json!({"type": "json_schema", "schema": bound}));
                    None
                }
                None => {
                    if *strict != Strictness::Require {
                        draft.warnings.change("response_format")?;
                    }
                    draft.warnings.unbound(*strict, "", name)?;
                    Some(format!("{ONE_OBJECT} It has to be valid against this JSON Schema: {schema}"))
                }
            }
        }
    };
    if !config.is_empty() {
        draft.members.add("output_config", &config);
    }
    Ok(instruction)
}

/// Adds stop sequences. Blank ones are refused by the API.
fn stop(draft: &mut Draft<'_, Abilities>) -> Result<(), LlmError> {
    let texts: Vec<_> = draft.request.stop.iter().filter(|text| !text.trim().is_empty()).collect();
    draft.warnings.fewer_stops(draft.request.stop.len(), texts.len())?;
    if !texts.is_empty() {
        draft.members.add("stop_sequences", &texts);
    }
    Ok(())
}

const ONE_OBJECT: &str = "Reply with one JSON object and nothing else.";
