//! Encodes a request. The same request gives the same bytes, and new turns are only appended.

use std::sync::Arc;

use loop_core::types::FailureKind;
use serde_json::{Value, json};

use crate::call::written_arguments;
use crate::codec::{
    Aliases, Body, Draft, Encoded, Json, Members, OPERATOR, Target, TurnWriter, Wrapper, WrittenTurn,
    results_in_order, short_id, turns, wire_name,
};
use crate::error::LlmError;
use crate::openai::{Abilities, before_result, choose, draft, effort, sampling, service, shape, strict};
use crate::options::{Effort, OutputFormat};
use crate::profile::{MaxTokensField, NullContent, ReasoningBack, SystemRole, ToolIds};
use crate::request::{AssistantTurn, Image, Message, ModelRequest, ToolOutput};
use crate::warnings::Warnings;

pub(crate) fn encode(request: &ModelRequest, target: &Target<'_>) -> Result<Encoded, LlmError> {
    let aliases = Aliases::of(&request.tools)?;
    let turns = turns(request, target, &Writer { target: *target })?;
    let mut body = Body::default();
    let mut head = Json::with_capacity(request.system.len() + request.system.len() / 16 + 128);
    head.raw("{\"model\":").text(target.model).raw(",\"messages\":[");
    let start = head.len() - 1;
    if !request.system.is_empty() {
        head.raw("{\"role\":").text(system_role(target)).raw(",\"content\":").text(&request.system).raw("}");
        if turns.iter().any(|turn| turn.values > 0) {
            head.raw(",");
        }
    }
    body.push(head.take());
    let (range, _) = turns.join(&mut body);
    let warnings = Warnings::of(request.unsupported, &turns)?;
    let mut draft = draft(request, target, Members::after("]", &request.extra), warnings);
    let effort = effort(&mut draft)?;
    tools(&mut draft, effort)?;
    if let Some(max) = request.max_output_tokens {
        let field = match target.profile.max_tokens_field {
            MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
            MaxTokensField::MaxTokens => "max_tokens",
        };
        draft.members.add(field, &max);
    }
    output(&mut draft)?;
    if request.effort == Some(Effort::None) && target.profile.thinking_switch {
        draft.members.add("thinking", &json!({"type": "disabled"}));
    } else if let Some(effort) = effort {
        draft.members.add("reasoning_effort", effort.name());
    }
    draft.warnings.leave_out_if(request.reasoning_tokens.is_some(), "reasoning_tokens")?;
    // Compatible servers show reasoning by default; OpenAI's own never does.
    let is_refused = request.show_reasoning && target.profile.known_models;
    draft.warnings.leave_out_if(is_refused, "show_reasoning")?;
    sampling(&mut draft, effort)?;
    more_sampling(&mut draft, effort)?;
    service(&mut draft)?;
    if !request.no_stream && target.profile.ask_usage {
        draft.members.add_json("stream_options", b"{\"include_usage\":true}");
    }
    body.push(draft.members.finish("}"));
    let warnings = draft.warnings.finish();
    Ok(Encoded { body, messages: start..range.end, warnings, aliases })
}

fn system_role(target: &Target<'_>) -> &'static str {
    match target.profile.system_role {
        SystemRole::Developer => "developer",
        SystemRole::System => "system",
    }
}

struct Writer<'a> {
    target: Target<'a>,
}

impl TurnWriter for Writer<'_> {
    fn write(
        &self,
        message: &Message,
        before: Option<&Message>,
        json: &mut Json,
        _: &mut Vec<&'static str>,
    ) -> Result<WrittenTurn, LlmError> {
        let values = match message {
            Message::User { text, images, .. } => self.user(text, images, before, json),
            Message::Operator { text } => match self.target.profile.late_instructions.role() {
                Some(role) => {
                    json.raw("{\"role\":").text(role).raw(",\"content\":").text(text).raw("}");
                    1
                }
                None => self.user(&[OPERATOR, text].concat(), &[], before, json),
            },
            Message::Assistant(turn) => match self.target.own(turn) {
                Some(raw) => return WrittenTurn::own(Wrapper::NONE, raw, json),
                None => self.assistant(turn, before, json),
            },
            Message::Tool { results } => self.results(before, results, json),
        };
        Ok(WrittenTurn { joint: Wrapper::NONE, values })
    }
}

impl Writer<'_> {
    fn user(&self, text: &str, images: &[Image], before: Option<&Message>, json: &mut Json) -> usize {
        let is_after_tool =
            matches!(before, Some(Message::Tool { .. })) && self.target.profile.no_user_after_tool;
        if is_after_tool {
            json.raw(BRIDGE).raw(",");
        }
        json.raw("{\"role\":\"user\",\"content\":");
        if images.is_empty() {
            json.text(text);
        } else {
            json.raw("[{\"type\":\"text\",\"text\":").text(text).raw("}");
            pictures(images, json);
            json.raw("]");
        }
        json.raw("}");
        1 + usize::from(is_after_tool)
    }

    fn assistant(&self, turn: &AssistantTurn, before: Option<&Message>, json: &mut Json) -> usize {
        if turn.text.is_empty() && turn.calls.is_empty() {
            let stands_between =
                matches!(before, Some(Message::Tool { .. })) && self.target.profile.no_user_after_tool;
            if stands_between {
                json.raw(BRIDGE);
            }
            return usize::from(stands_between);
        }
        let profile = self.target.profile;
        json.raw("{\"role\":\"assistant\"");
        match profile.null_content {
            _ if !turn.text.is_empty() || turn.calls.is_empty() => {
                json.raw(",\"content\":").text(&turn.text);
            }
            NullContent::Null => {
                json.raw(",\"content\":null");
            }
            NullContent::EmptyString => {
                json.raw(",\"content\":\"\"");
            }
            NullContent::Omit => {}
        }
        if profile.reasoning_back == ReasoningBack::WithToolCalls && !turn.calls.is_empty() {
            // The reasoning of another provider's model is not sent.
            json.raw(",\"reasoning_content\":").text(if turn.raw.is_none() { &turn.reasoning } else { "" });
        }
        if !turn.calls.is_empty() {
            json.raw(",\"tool_calls\":[");
            for (nth, call) in turn.calls.iter().enumerate() {
                json.raw(if nth == 0 { "{\"id\":" } else { ",{\"id\":" }).text(&self.id(&call.id));
                json.raw(",\"type\":\"function\",\"function\":{\"name\":").text(&wire_name(&call.name));
                json.raw(",\"arguments\":").text(written_arguments(&call.arguments)).raw("}}");
            }
            json.raw("]");
        }
        json.raw("}");
        1
    }

    fn results(&self, before: Option<&Message>, results: &[ToolOutput], json: &mut Json) -> usize {
        let calls = before.map_or(&[][..], Message::calls);
        // A turn in the provider's own form contains the original ids.
        let is_own = matches!(before, Some(Message::Assistant(turn)) if self.target.own(turn).is_some());
        let id = |id: &Arc<str>| if is_own { Arc::clone(id) } else { self.id(id) };
        let mut values = 0;
        for (call, result) in results_in_order(calls, results) {
            json.raw(if values == 0 { "" } else { "," });
            json.raw("{\"role\":\"tool\",\"tool_call_id\":").text(&id(&call.id)).raw(",\"content\":");
            let picture = match (result.images.is_empty(), result.text.is_empty()) {
                (true, _) => "",
                (false, true) => PICTURE,
                (false, false) => PICTURE_AFTER_TEXT,
            };
            let first = before_result(result);
            if picture.is_empty() {
                json.text_after(first, &result.text);
            } else {
                json.text_after(first, &format!("{}{picture}", result.text));
            }
            json.raw("}");
            values += 1;
        }
        for (call, result) in results_in_order(calls, results).filter(|(_, result)| !result.images.is_empty())
        {
            let label = format!("Pictures of the result of {}:", id(&call.id));
            json.raw(",");
            if values == calls.len() && self.target.profile.no_user_after_tool {
                json.raw(BRIDGE).raw(",");
            }
            json.raw("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":").text(&label).raw("}");
            pictures(&result.images, json);
            json.raw("]}");
            values += 1;
        }
        values
    }

    fn id(&self, id: &Arc<str>) -> Arc<str> {
        let is_nine = || id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match self.target.profile.tool_ids {
            ToolIds::Any => Arc::clone(id),
            ToolIds::Alnum9 if is_nine() => Arc::clone(id),
            ToolIds::Alnum9 => short_id(id, 9).into(),
        }
    }
}

fn pictures(images: &[Image], json: &mut Json) {
    for image in images {
        json.raw(",").value(&json!({"type": "image_url", "image_url": {"url": image.data_url()}}));
    }
}

fn tools(draft: &mut Draft<'_, Abilities>, effort: Option<Effort>) -> Result<(), LlmError> {
    if draft.request.tools.is_empty() {
        return Ok(());
    }
    let profile = draft.target.profile;
    if !draft.abilities.takes(draft.abilities.tools_on_chat, effort) {
        let message = "this model takes tools only on the Responses interface, or at the effort none";
        return Err(LlmError::unsendable(FailureKind::Unsupported, message));
    }
    let mut json = Json::with_capacity(TOOL_BYTES * draft.request.tools.len());
    for (nth, tool) in draft.request.tools.iter().enumerate() {
        json.raw(if nth == 0 { "[" } else { "," });
        json.raw("{\"type\":\"function\",\"function\":{\"name\":").text(&wire_name(&tool.name));
        if !tool.description.is_empty() {
            json.raw(",\"description\":").text(&tool.description);
        }
        let strict = strict(tool, profile.strict_tools, &mut draft.warnings)?;
        json.raw(",\"parameters\":").value(strict.as_ref().unwrap_or(&tool.parameters));
        if profile.strict_tools {
            json.raw(",\"strict\":").value(&strict.is_some());
        }
        json.raw("}}");
    }
    json.raw("]");
    draft.members.add_json("tools", json.take());
    let function = |name: &Arc<str>| json!({"type": "function", "function": {"name": wire_name(name)}});
    let allowed = |tools: Vec<Value>| json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools}});
    choose(draft, function, allowed)
}

fn output(draft: &mut Draft<'_, Abilities>) -> Result<(), LlmError> {
    match &draft.request.output {
        OutputFormat::Text => {}
        OutputFormat::JsonSchema { name, description, schema, strict }
            if draft.target.profile.json_schema =>
        {
            let form = shape(name, description, schema, *strict, &mut draft.warnings)?;
            draft.members.add("response_format", &json!({"type": "json_schema", "json_schema": form}));
        }
        OutputFormat::JsonSchema { .. } => {
            draft.warnings.change("response_format")?;
            draft.members.add("response_format", &json!({"type": "json_object"}));
        }
        OutputFormat::JsonObject => draft.members.add("response_format", &json!({"type": "json_object"})),
    }
    Ok(())
}

/// Adds what the options of both protocols lack.
fn more_sampling(draft: &mut Draft<'_, Abilities>, effort: Option<Effort>) -> Result<(), LlmError> {
    draft.offer("top_k", draft.request.top_k, draft.target.profile.top_k)?;
    match (&draft.target.profile.seed_field, draft.request.seed) {
        (Some(field), Some(seed)) => draft.members.add(field, &seed),
        (field, seed) => draft.warnings.leave_out_if(field.is_none() && seed.is_some(), "seed")?,
    }
    if !draft.request.stop.is_empty() {
        let max = if draft.abilities.takes(draft.abilities.stop, effort) {
            draft.target.profile.stop_max
        } else {
            0
        };
        draft.warnings.fewer_stops(draft.request.stop.len(), max)?;
        if max > 0 {
            draft.members.add("stop", &draft.request.stop.iter().take(max).collect::<Vec<_>>());
        }
    }
    Ok(())
}

/// The assistant's turn between results and a user's message, for servers that require one.
const BRIDGE: &str = "{\"role\":\"assistant\",\"content\":\"OK.\"}";
/// Usual bytes of a tool in a request.
const TOOL_BYTES: usize = 384;
/// Replaces an image that a result cannot contain.
const PICTURE: &str = "[picture below]";
const PICTURE_AFTER_TEXT: &str = "\n[picture below]";
