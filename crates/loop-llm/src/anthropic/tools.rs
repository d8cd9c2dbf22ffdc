//! Encodes tools and tool choice.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::models::{Abilities, ForcedCall};
use super::schema::Quota;
use crate::codec::{Draft, Json, wire_name};
use crate::error::LlmError;
use crate::options::{Strictness, ToolChoice, ToolDefinition};
use crate::warnings::Warnings;

/// Adds the tools and the tool choice, with the cache mark of the last tool. With a token budget for thinking no call can be
/// forced. Returns the choice as an instruction where the model cannot be forced.
pub(super) fn add(
    draft: &mut Draft<'_, Abilities>,
    has_budget: bool,
    mark: Option<&'static str>,
) -> Result<Option<String>, LlmError> {
    let (request, profile) = (draft.request, draft.target.profile);
    if request.tools.is_empty() {
        return Ok(None);
    }
    let can_force = match draft.abilities.forced_choice {
        ForcedCall::WithoutBudget => !has_budget,
        ForcedCall::Never => false,
    };
    let mut instruction = None;
    let mut choice = Map::new();
    let kind = match &request.tool_choice {
        ToolChoice::Auto => "auto",
        ToolChoice::None => "none",
        ToolChoice::Required | ToolChoice::Prefer if can_force && profile.required_choice.is_some() => "any",
        ToolChoice::Prefer => "auto",
        ToolChoice::Named(name) if can_force && profile.named_choice => {
            choice.insert("name".to_owned(), (*wire_name(name)).into());
            "tool"
        }
        ToolChoice::Required => {
            draft.warnings.lessen("tool_choice_degraded", "tool_choice")?;
            instruction = Some("Call at least one tool in this turn.".to_owned());
            "auto"
        }
        ToolChoice::Named(name) => {
            draft.warnings.lessen("tool_choice_degraded", "tool_choice")?;
            instruction = Some(format!("Call the tool {} in this turn.", wire_name(name)));
            "auto"
        }
        // Leaving tools out of the list would change the cached prefix.
        ToolChoice::AnyOf(_) => {
            draft.warnings.change("tool_choice")?;
            "auto"
        }
    };
    choice.insert("type".to_owned(), kind.into());
    if request.one_call_at_a_time && request.tool_choice != ToolChoice::None {
        if profile.parallel_switch {
            choice.insert("disable_parallel_tool_use".to_owned(), true.into());
        } else {
            draft.warnings.leave_out("parallel_tool_calls")?;
        }
    }
    let is_offered = profile.strict_tools && draft.abilities.schemas;
    let mut room = Quota::whole();
    let mut json = Json::default();
    for (nth, tool) in request.tools.iter().enumerate() {
        let is_meant = instruction.is_some() && is_chosen(&request.tool_choice, &tool.name);
        let bound = bound(tool, is_meant, is_offered.then_some(&mut room), &mut draft.warnings)?;
        json.raw(if nth == 0 { "[" } else { "," }).raw("{\"name\":").value(&wire_name(&tool.name));
        if !tool.description.is_empty() {
            json.raw(",\"description\":").value(&tool.description);
        }
        json.raw(",\"input_schema\":");
        match &bound {
            Some(bound) => json.value(bound).raw(",\"strict\":true"),
            None => schema(&tool.parameters, &mut json),
        };
        if let Some(mark) = mark.filter(|_| nth + 1 == request.tools.len()) {
            json.raw(",\"cache_control\":").raw(mark);
        }
        json.raw("}");
    }
    json.raw("]");
    draft.members.add_json("tools", json.take());
    if kind != "auto" || choice.len() > 1 || instruction.is_some() {
        draft.members.add("tool_choice", &choice);
    }
    Ok(instruction)
}

fn is_chosen(choice: &ToolChoice, name: &Arc<str>) -> bool {
    match choice {
        ToolChoice::Required => true,
        ToolChoice::Named(chosen) => chosen == name,
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Prefer | ToolChoice::AnyOf(_) => false,
    }
}

/// The schema of a tool for strict mode, where it is requested and possible. A tool that the model should call and cannot
/// be forced to is strict where possible.
fn bound(
    tool: &ToolDefinition,
    is_meant: bool,
    room: Option<&mut Quota>,
    warnings: &mut Warnings,
) -> Result<Option<Value>, LlmError> {
    if tool.strict == Strictness::Off && !is_meant {
        return Ok(None);
    }
    let bound = room.and_then(|room| room.tool(&tool.parameters));
    if bound.is_none() {
        warnings.unbound(tool.strict, "of the tool ", &tool.name)?;
    }
    Ok(bound)
}

/// A schema as it is, with `"type":"object"`, which the API requires.
fn schema<'a>(parameters: &Value, json: &'a mut Json) -> &'a mut Json {
    if parameters.get("type").is_some_and(|kind| kind == "object") {
        return json.value(parameters);
    }
    let mut stated = parameters.as_object().cloned().unwrap_or_else(Map::new);
    stated.insert("type".to_owned(), "object".into());
    json.value(&stated)
}
