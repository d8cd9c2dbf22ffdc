//! Options that both protocols encode the same way.

use std::sync::Arc;

use loop_core::FailureKind;
use serde_json::{Map, Value};

use super::models::{Abilities, abilities};
use super::schema;
use crate::codec::{Members, Target};
use crate::error::LlmError;
use crate::options::{Effort, Strictness, ToolChoice, ToolDefinition};
use crate::profile::Profile;
use crate::request::{ModelRequest, ToolOutput};
use crate::warnings::Warnings;

/// The abilities of the request's model.
pub(crate) fn known(target: &Target<'_>) -> Abilities {
    abilities(if target.profile.known_models { target.known_as } else { "" })
}

/// The nearest effort that the model supports. A request for some reasoning never becomes none.
pub(crate) fn effort(
    request: &ModelRequest,
    target: &Target<'_>,
    abilities: &Abilities,
    warnings: &mut Warnings,
) -> Result<Option<Effort>, LlmError> {
    let Some(wanted) = request.effort else { return Ok(None) };
    let rows = target.profile.efforts_of(target.known_as);
    let offered: &[Effort] = if target.profile.effort { rows.unwrap_or(abilities.efforts) } else { &[] };
    if rows.is_none() {
        return nearest(wanted, offered, warnings);
    }
    let fits = |effort: &Effort| (*effort == Effort::None) == (wanted == Effort::None);
    nearest(wanted, &offered.iter().copied().filter(fits).collect::<Vec<_>>(), warnings)
}

fn nearest(wanted: Effort, offered: &[Effort], warnings: &mut Warnings) -> Result<Option<Effort>, LlmError> {
    let nearest = wanted.nearest(offered);
    match nearest {
        None if wanted != Effort::None => warnings.leave_out("reasoning_effort")?,
        Some(other) if other != wanted => warnings.change("reasoning_effort")?,
        Some(_) | None => {}
    }
    Ok(nearest)
}

/// The schema of a tool for strict mode. `None` where it is not requested or not possible.
pub(crate) fn strict(
    tool: &ToolDefinition,
    is_offered: bool,
    warnings: &mut Warnings,
) -> Result<Option<Value>, LlmError> {
    if tool.strict == Strictness::Off {
        return Ok(None);
    }
    let strict = schema::strict(&tool.parameters).filter(|_| is_offered);
    match (&strict, tool.strict) {
        (None, Strictness::Require) => {
            let message =
                format!("the schema of the tool {} cannot be made binding for this model", tool.name);
            Err(LlmError::unsendable(FailureKind::Unsupported, message))
        }
        (None, _) => {
            warnings.warn(format!("schema_not_strict({})", tool.name));
            Ok(None)
        }
        (Some(_), _) => Ok(strict),
    }
}

/// The output format, strict where that is requested and possible.
pub(crate) fn shape(
    name: &str,
    description: &str,
    schema: &Value,
    strict: Strictness,
    warnings: &mut Warnings,
) -> Result<Map<String, Value>, LlmError> {
    let bound = if strict == Strictness::Off { None } else { schema::strict(schema) };
    if bound.is_none() && strict == Strictness::Require {
        let message = format!("the schema {name} cannot be made binding for this model");
        return Err(LlmError::unsendable(FailureKind::Unsupported, message));
    }
    if bound.is_none() && strict == Strictness::Prefer {
        warnings.warn(format!("schema_not_strict({name})"));
    }
    let mut shape = Map::from_iter([("name".to_owned(), name.into())]);
    if !description.is_empty() {
        shape.insert("description".to_owned(), description.into());
    }
    shape.insert("schema".to_owned(), bound.as_ref().unwrap_or(schema).clone());
    shape.insert("strict".to_owned(), bound.is_some().into());
    Ok(shape)
}

/// Tool choice and parallel calls. `function` encodes the choice of one tool, `allowed` the choice of several.
pub(crate) fn choose(
    request: &ModelRequest,
    profile: &Profile,
    function: impl Fn(&Arc<str>) -> Value,
    allowed: impl FnOnce(Vec<Value>) -> Value,
    members: &mut Members<'_>,
    warnings: &mut Warnings,
) -> Result<(), LlmError> {
    let choice: Option<Value> = match &request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => match &profile.required_choice {
            Some(word) => Some((**word).into()),
            None => warnings.leave_out("tool_choice").map(|()| None)?,
        },
        ToolChoice::Prefer => {
            profile.required_choice.as_deref().map(Value::from).filter(|_| !request.tools.is_empty())
        }
        ToolChoice::Named(name) if profile.named_choice => Some(function(name)),
        ToolChoice::AnyOf(names) if profile.allowed_tools => {
            Some(allowed(names.iter().map(function).collect()))
        }
        ToolChoice::Named(_) | ToolChoice::AnyOf(_) => warnings.leave_out("tool_choice").map(|()| None)?,
    };
    if let Some(choice) = choice {
        members.add("tool_choice", &choice);
    }
    if request.one_call_at_a_time {
        if profile.parallel_switch {
            members.add("parallel_tool_calls", &false);
        } else {
            warnings.leave_out("parallel_tool_calls")?;
        }
    }
    Ok(())
}

/// Prefix of a result that is an error, as the protocol has no flag for it.
const ERROR_PREFIX: &str = "ERROR: ";

/// What stands before the text of a result. Nothing where it says itself that it is an error.
pub(crate) fn before_result(result: &ToolOutput) -> &'static str {
    let says_so = result.text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if result.is_error && !says_so { ERROR_PREFIX } else { "" }
}
