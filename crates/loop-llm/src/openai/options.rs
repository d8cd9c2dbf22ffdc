//! Options that both protocols encode the same way.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::models::{Abilities, abilities};
use super::schema;
use crate::codec::{Draft, Members, Target};
use crate::error::LlmError;
use crate::options::{Effort, Strictness, ToolChoice, ToolDefinition};
use crate::request::{ModelRequest, ToolOutput};
use crate::warnings::Warnings;

/// A request without options yet.
pub(crate) fn draft<'a>(
    request: &'a ModelRequest,
    target: &Target<'a>,
    members: Members<'a>,
    warnings: Warnings,
) -> Draft<'a, Abilities> {
    let abilities = abilities(if target.profile.known_models { target.known_as } else { "" });
    Draft { request, target: *target, abilities, members, warnings }
}

/// The nearest effort that the model supports. A request for some reasoning never becomes none.
pub(crate) fn effort(draft: &mut Draft<'_, Abilities>) -> Result<Option<Effort>, LlmError> {
    let Some(wanted) = draft.request.effort else { return Ok(None) };
    let rows = draft.target.profile.efforts_of(draft.target.known_as);
    let offered: &[Effort] =
        if draft.target.profile.effort { rows.unwrap_or(draft.abilities.efforts) } else { &[] };
    if rows.is_none() {
        return nearest(wanted, offered, &mut draft.warnings);
    }
    let fits = |effort: &Effort| (*effort == Effort::None) == (wanted == Effort::None);
    nearest(wanted, &offered.iter().copied().filter(fits).collect::<Vec<_>>(), &mut draft.warnings)
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
    if strict.is_none() {
        warnings.unbound(tool.strict, "of the tool ", &tool.name)?;
    }
    Ok(strict)
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
    if bound.is_none() {
        warnings.unbound(strict, "", name)?;
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
    draft: &mut Draft<'_, Abilities>,
    function: impl Fn(&Arc<str>) -> Value,
    allowed: impl FnOnce(Vec<Value>) -> Value,
) -> Result<(), LlmError> {
    let choice: Option<Value> = match &draft.request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => match &draft.target.profile.required_choice {
            Some(word) => Some((**word).into()),
            None => draft.warnings.leave_out("tool_choice").map(|()| None)?,
        },
        ToolChoice::Prefer => draft
            .target
            .profile
            .required_choice
            .as_deref()
            .map(Value::from)
            .filter(|_| !draft.request.tools.is_empty()),
        ToolChoice::Named(name) if draft.target.profile.named_choice => Some(function(name)),
        ToolChoice::AnyOf(names) if draft.target.profile.allowed_tools => {
            Some(allowed(names.iter().map(function).collect()))
        }
        ToolChoice::Named(_) | ToolChoice::AnyOf(_) => {
            draft.warnings.leave_out("tool_choice").map(|()| None)?
        }
    };
    if let Some(choice) = choice {
        draft.members.add("tool_choice", &choice);
    }
    if draft.request.one_call_at_a_time {
        if draft.target.profile.parallel_switch {
            draft.members.add("parallel_tool_calls", &false);
        } else {
            draft.warnings.leave_out("parallel_tool_calls")?;
        }
    }
    Ok(())
}

/// Adds `temperature` and `top_p`.
pub(crate) fn sampling(draft: &mut Draft<'_, Abilities>, effort: Option<Effort>) -> Result<(), LlmError> {
    let is_taken = draft.abilities.takes(draft.abilities.sampling, effort);
    draft.offer("temperature", draft.request.temperature, is_taken)?;
    draft.offer("top_p", draft.request.top_p, is_taken)
}

/// Adds how the provider serves the call: the key of its cache, the service tier, and whether the reply is streamed.
pub(crate) fn service(draft: &mut Draft<'_, Abilities>) -> Result<(), LlmError> {
    draft.warnings.leave_out_if(draft.request.cache.long, "cache.long")?;
    if let (Some(key), true, false) =
        (&draft.request.cache.key, draft.target.profile.cache_key, draft.request.cache.off)
    {
        draft.members.add("prompt_cache_key", key);
    } else {
        draft.warnings.leave_out_key(&draft.request.cache);
    }
    if let Some(tier) = &draft.request.service_tier {
        draft.members.add("service_tier", tier);
    }
    if !draft.request.no_stream {
        draft.members.add("stream", &true);
    }
    Ok(())
}

/// Prefix of a result that is an error, as the protocol has no flag for it.
const ERROR_PREFIX: &str = "ERROR: ";

/// The text before the text of a result. Empty where the result says itself that it is an error.
pub(crate) fn before_result(result: &ToolOutput) -> &'static str {
    let says_so = result.text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if result.is_error && !says_so { ERROR_PREFIX } else { "" }
}
