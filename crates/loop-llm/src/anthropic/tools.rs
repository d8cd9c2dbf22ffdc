//! Encodes tools and tool choice.

use std::sync::Arc;

use loop_core::FailureKind;
use serde_json::{Map, Value};

use super::models::{Abilities, Forced};
use super::schema::Quota;
use crate::codec::{Json, Members, Target, wire_name};
use crate::error::LlmError;
use crate::options::{Strictness, ToolChoice, ToolDefinition};
use crate::request::ModelRequest;
use crate::warnings::Warnings;

/// The options that the encoding of tools depends on.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub(super) abilities: &'a Abilities,
    /// Whether thinking has a token budget.
    pub(super) has_budget: bool,
    /// The cache mark of the last tool.
    pub(super) mark: Option<&'static str>,
}

/// Adds the tools and the tool choice. Returns the choice as an instruction where the model cannot be forced.
pub(super) fn add(
    request: &ModelRequest,
    target: &Target<'_>,
    given: &Given<'_>,
    members: &mut Members<'_>,
    warnings: &mut Warnings,
) -> Result<Option<String>, LlmError> {
    if request.tools.is_empty() {
        return Ok(None);
    }
    let profile = target.profile;
    let can_force = match given.abilities.forced_choice {
        Forced::WithoutBudget => !given.has_budget,
        Forced::Never => false,
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
            warnings.lessen("tool_choice_degraded", "tool_choice")?;
            instruction = Some("Call at least one tool in this turn.".to_owned());
            "auto"
        }
        ToolChoice::Named(name) => {
            warnings.lessen("tool_choice_degraded", "tool_choice")?;
            instruction = Some(format!("Call the tool {} in this turn.", wire_name(name)));
            "auto"
        }
        // Leaving tools out of the list would change the cached prefix.
        ToolChoice::AnyOf(_) => {
            warnings.change("tool_choice")?;
            "auto"
        }
    };
    choice.insert("type".to_owned(), kind.into());
    if request.one_call_at_a_time && request.tool_choice != ToolChoice::None {
        if profile.parallel_switch {
            choice.insert("disable_parallel_tool_use".to_owned(), true.into());
        } else {
            warnings.leave_out("parallel_tool_calls")?;
        }
    }
    let is_offered = profile.strict_tools && given.abilities.schemas;
    let mut room = Quota::whole();
    let mut json = Json::default();
    for (nth, tool) in request.tools.iter().enumerate() {
        let is_meant = instruction.is_some() && is_chosen(&request.tool_choice, &tool.name);
        let bound = bound(tool, is_meant, is_offered.then_some(&mut room), warnings)?;
        json.raw(if nth == 0 { "[" } else { "," }).raw("{\"name\":").value(&wire_name(&tool.name));
        if !tool.description.is_empty() {
            json.raw(",\"description\":").value(&tool.description);
        }
        json.raw(",\"input_schema\":");
        match &bound {
            Some(bound) => json.value(bound).raw(",\"strict\":true"),
            None => schema(&tool.parameters, &mut json),
        };
        if let Some(mark) = given.mark.filter(|_| nth + 1 == request.tools.len()) {
            json.raw(",\"cache_control\":").raw(mark);
        }
        json.raw("}");
    }
    json.raw("]");
    members.add_json("tools", json.take());
    if kind != "auto" || choice.len() > 1 || instruction.is_some() {
        members.add("tool_choice", &choice);
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
    match (&bound, tool.strict) {
        (None, Strictness::Require) => {
            let message =
                format!("the schema of the tool {} cannot be made binding for this model", tool.name);
            return Err(LlmError::unsendable(FailureKind::Unsupported, message));
        }
        (None, Strictness::Prefer) => warnings.warn(format!("schema_not_strict({})", tool.name)),
        (None, Strictness::Off) | (Some(_), _) => {}
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
