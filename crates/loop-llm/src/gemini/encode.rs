//! Encodes a request. The same request gives the same bytes, and new turns are only appended.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::models::{Abilities, Thinking, abilities};
use super::turn::call_ids;
use loop_core::types::{FailureKind, ToolCall};

use crate::call::object_text;
use crate::codec::{
    Aliases, Body, Draft, Encoded, Json, Members, OPERATOR, Target, TurnWriter, Wrapper, WrittenTurn,
    described, results_in_order, turns, wire_name,
};
use crate::error::LlmError;
use crate::options::{Effort, OutputFormat, Strictness, ToolChoice};
use crate::request::{AssistantTurn, Image, Message, ModelRequest, ToolOutput};
use crate::warnings::Warnings;

pub(crate) fn encode(request: &ModelRequest, target: &Target<'_>) -> Result<Encoded, LlmError> {
    let aliases = Aliases::of(&request.tools)?;
    let abilities = abilities(if target.profile.known_models { target.known_as } else { "" });
    let turns = turns(request, target, &Writer { target: *target, abilities })?;
    let first = turns.iter().position(|turn| turn.values > 0);
    let is_models = first.and_then(|first| turns.get(first)).is_some_and(|turn| turn.joint != USER);
    let calls_first = request.messages.iter().find_map(|message| match message {
        Message::Assistant(turn) if turn.raw.is_some() || !turn.text.is_empty() || !turn.calls.is_empty() => {
            Some(!turn.calls.is_empty())
        }
        _ => None,
    });
    // The API requires a call right after a user's turn or after results.
    if first.is_none() || is_models && calls_first == Some(true) {
        let message = match first {
            None => "no turn says anything",
            Some(_) => "a call of the model's needs a turn of the user's before it",
        };
        return Err(LlmError::unsendable(FailureKind::InvalidRequest, message));
    }
    // A cached content has a system prompt and tools of its own.
    let is_kept_there = request.extra.contains_key("cachedContent");
    let mut body = Body::default();
    let mut head = Json::default();
    head.raw("{");
    if !request.system.is_empty() && !is_kept_there && !request.extra.contains_key("systemInstruction") {
        head.raw("\"systemInstruction\":{\"parts\":[{\"text\":").value(&request.system).raw("}]},");
    }
    head.raw("\"contents\":[");
    body.push(head.take());
    let (messages, close) = turns.join(&mut body);
    body.push(close.as_bytes());
    body.push(&b"]"[..]);
    let mut warnings = Warnings::of(request.unsupported, &turns)?;
    if is_models {
        // Servers accept it, but do not promise to.
        warnings.warn("begins_with_model_turn");
    }
    let mut draft =
        Draft { request, target: *target, abilities, members: Members::new(&request.extra), warnings };
    if !is_kept_there {
        tools(&mut draft)?;
    }
    let config = config(&mut draft)?;
    if !config.is_empty() {
        draft.members.add("generationConfig", &config);
    }
    draft.warnings.leave_out_key(&request.cache);
    draft.warnings.leave_out_if(request.cache.long, "cache.long")?;
    if let Some(tier) = &request.service_tier {
        draft.members.add("serviceTier", tier);
    }
    body.push(draft.members.finish("}"));
    Ok(Encoded { body, messages, warnings: draft.warnings.finish(), aliases })
}

struct Writer<'a> {
    target: Target<'a>,
    abilities: Abilities,
}

impl TurnWriter for Writer<'_> {
    fn write(
        &self,
        message: &Message,
        before: Option<&Message>,
        json: &mut Json,
        changed: &mut Vec<&'static str>,
    ) -> Result<WrittenTurn, LlmError> {
        let mut parts = Parts { json, count: 0 };
        let joint = match message {
            // The first prompt may be empty; elsewhere an empty text is refused.
            Message::User { text, images, .. }
                if text.is_empty() && images.is_empty() && before.is_none() =>
            {
                parts.begin("{\"text\":\"\"}");
                USER
            }
            Message::User { text, images, .. } => {
                parts.text(text);
                images.iter().for_each(|image| parts.picture(image));
                USER
            }
            Message::Operator { text } => {
                if !text.is_empty() {
                    parts.begin("{\"text\":").text_after(OPERATOR, text).raw("}");
                    changed.push("operator");
                }
                USER
            }
            Message::Assistant(turn) => {
                if let Some(raw) = self.target.own(turn) {
                    return WrittenTurn::own(MODEL, raw, json);
                }
                self.rebuilt(turn, &mut parts);
                MODEL
            }
            Message::Tool { results } => {
                if let Some(Message::Assistant(turn)) = before {
                    self.results(turn, results, &mut parts);
                }
                USER
            }
        };
        Ok(WrittenTurn { joint, values: parts.count })
    }
}

/// The parts of a turn under construction.
struct Parts<'a> {
    json: &'a mut Json,
    count: usize,
}

impl Parts<'_> {
    /// Begins the next part.
    fn begin(&mut self, open: &str) -> &mut Json {
        self.json.raw(if self.count == 0 { "" } else { "," });
        self.count += 1;
        self.json.raw(open)
    }

    /// A text part. An empty one is refused by the API, and left out.
    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.begin("{\"text\":").value(text).raw("}");
        }
    }

    fn picture(&mut self, image: &Image) {
        let json = self.begin("");
        picture(image, json);
    }
}

impl Writer<'_> {
    /// A turn without the provider's own form, or of another provider.
    fn rebuilt(&self, turn: &AssistantTurn, parts: &mut Parts<'_>) {
        parts.text(&turn.text);
        for (nth, call) in turn.calls.iter().enumerate() {
            let json = parts.begin("{\"functionCall\":{");
            if is_provided(&call.id) {
                json.raw("\"id\":").value(&call.id).raw(",");
            }
            json.raw("\"name\":").value(&wire_name(&call.name));
            json.raw(",\"args\":").raw(&object_text(&call.arguments)).raw("}");
            if nth == 0 && self.abilities.signs {
                json.raw(",\"thoughtSignature\":").value(NO_SIGNATURE);
            }
            json.raw("}");
        }
    }

    /// The results of the calls of a turn, in the order of its calls.
    fn results(&self, turn: &AssistantTurn, results: &[ToolOutput], parts: &mut Parts<'_>) {
        let ids: Vec<Option<String>> = match self.target.own(turn) {
            Some(raw) => call_ids(raw.json()),
            None => {
                turn.calls.iter().map(|call| is_provided(&call.id).then(|| call.id.to_string())).collect()
            }
        };
        let mut pictures: Vec<(&ToolCall, &[Image])> = Vec::new();
        for (nth, (call, result)) in results_in_order(&turn.calls, results).enumerate() {
            let json = parts.begin("{\"functionResponse\":{");
            if let Some(id) = ids.get(nth).and_then(Option::as_ref) {
                json.raw("\"id\":").value(id).raw(",");
            }
            json.raw("\"name\":").value(&wire_name(&call.name)).raw(",\"response\":{");
            json.raw(if result.is_error { "\"error\":" } else { "\"output\":" });
            let is_below = !result.images.is_empty() && !self.abilities.pictures_in_results;
            match (is_below, is_structure(&result.text) && !result.is_error) {
                (true, _) if result.text.is_empty() => json.value(PICTURE),
                (true, _) => json.value(&format!("{}\n{PICTURE}", result.text)),
                (false, true) => json.raw(&result.text),
                (false, false) => json.value(&result.text),
            };
            json.raw("}");
            if is_below {
                pictures.push((call, &result.images));
            } else if !result.images.is_empty() {
                json.raw(",\"parts\":[");
                for (nth, image) in result.images.iter().enumerate() {
                    json.raw(if nth == 0 { "" } else { "," });
                    picture(image, json);
                }
                json.raw("]");
            }
            json.raw("}}");
        }
        for (call, images) in pictures {
            parts.text(&format!("Pictures of the result of {}:", wire_name(&call.name)));
            images.iter().for_each(|image| parts.picture(image));
        }
    }
}

fn picture(image: &Image, json: &mut Json) {
    json.raw("{\"inlineData\":{\"mimeType\":").value(&image.media_type);
    json.raw(",\"data\":").value(&image.base64).raw("}}");
}

/// Whether the provider gave the id. Ids that the decoder made are `call_1`, `call_2` ….
fn is_provided(id: &str) -> bool {
    let is_count = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    !id.strip_prefix("call_").is_some_and(is_count)
}

/// Whether a text is an object or a list that is sent as JSON.
fn is_structure(text: &str) -> bool {
    text.starts_with(['{', '[']) && {
        // The API refuses structures that are too deep, and numbers beyond a double, which are not parsed here either.
        let is_shallow = |value: &Value| depth(value, MAX_DEPTH);
        serde_json::from_str::<Value>(text).is_ok_and(|value| is_shallow(&value))
    }
}

/// Whether a value is nested at most `max` levels deep.
fn depth(value: &Value, max: usize) -> bool {
    match value {
        Value::Array(items) => max > 0 && items.iter().all(|item| depth(item, max - 1)),
        Value::Object(members) => max > 0 && members.values().all(|member| depth(member, max - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn tools(draft: &mut Draft<'_, Abilities>) -> Result<(), LlmError> {
    if draft.request.tools.is_empty() {
        return Ok(());
    }
    let profile = draft.target.profile;
    let can_bind = draft.abilities.validates && profile.strict_tools;
    let mut json = Json::default();
    let mut is_bound = false;
    for (nth, tool) in draft.request.tools.iter().enumerate() {
        json.raw(if nth == 0 { "[{\"functionDeclarations\":[" } else { "," });
        json.raw("{\"name\":").value(&wire_name(&tool.name));
        if !tool.description.is_empty() {
            json.raw(",\"description\":").value(&tool.description);
        }
        if tool.has_parameters() {
            json.raw(",\"parametersJsonSchema\":").value(&tool.parameters);
        }
        json.raw("}");
        match tool.strict {
            Strictness::Prefer | Strictness::Require if can_bind => is_bound = true,
            wanted => draft.warnings.unbound(wanted, "of the tool ", &tool.name)?,
        }
    }
    json.raw("]}]");
    draft.members.add_json("tools", json.take());
    let names = |names: &[Arc<str>]| names.iter().map(|name| wire_name(name).to_string()).collect::<Vec<_>>();
    let calling: Option<Value> = match &draft.request.tool_choice {
        ToolChoice::Auto => is_bound.then(|| json!({"mode": "VALIDATED"})),
        ToolChoice::None => Some(json!({"mode": "NONE"})),
        ToolChoice::Required | ToolChoice::Prefer if profile.required_choice.is_some() => {
            Some(json!({"mode": "ANY"}))
        }
        ToolChoice::Prefer => is_bound.then(|| json!({"mode": "VALIDATED"})),
        ToolChoice::Named(name) if profile.named_choice => {
            Some(json!({"mode": "ANY", "allowedFunctionNames": names(std::slice::from_ref(name))}))
        }
        // One of them may be called, or none.
        ToolChoice::AnyOf(some) if profile.allowed_tools && draft.abilities.validates => {
            Some(json!({"mode": "VALIDATED", "allowedFunctionNames": names(some)}))
        }
        ToolChoice::Required | ToolChoice::Named(_) | ToolChoice::AnyOf(_) => {
            draft.warnings.leave_out("tool_choice").map(|()| None)?
        }
    };
    if let Some(calling) = calling {
        draft.members.add("toolConfig", &json!({"functionCallingConfig": calling}));
    }
    draft.warnings.leave_out_if(draft.request.one_call_at_a_time, "parallel_tool_calls")?;
    Ok(())
}

/// The generation config.
fn config(draft: &mut Draft<'_, Abilities>) -> Result<Map<String, Value>, LlmError> {
    let request = draft.request;
    let mut config = Map::new();
    let mut set = |name: &str, value: Value| config.insert(name.to_owned(), value);
    let (has_top_k, seed) = (draft.target.profile.top_k, request.seed.map(i32::try_from));
    draft.warnings.leave_out_if(request.top_k.is_some() && !has_top_k, "top_k")?;
    draft.warnings.leave_out_if(matches!(seed, Some(Err(_))), "seed")?;
    for (name, value) in [
        ("maxOutputTokens", request.max_output_tokens.map(Value::from)),
        ("temperature", request.temperature.map(Value::from)),
        ("topP", request.top_p.map(Value::from)),
        ("topK", request.top_k.filter(|_| has_top_k).map(Value::from)),
        ("seed", seed.and_then(Result::ok).map(Value::from)),
    ] {
        if let Some(value) = value {
            set(name, value);
        }
    }
    if !request.stop.is_empty() {
        let max = draft.target.profile.stop_max;
        draft.warnings.fewer_stops(request.stop.len(), max)?;
        if max > 0 {
            set("stopSequences", request.stop.iter().take(max).map(|text| Value::from(&**text)).collect());
        }
    }
    let can_form = draft.abilities.form_with_tools || request.tools.is_empty();
    match &request.output {
        OutputFormat::Text => {}
        OutputFormat::JsonObject | OutputFormat::JsonSchema { .. } if !can_form => {
            draft.warnings.leave_out("response_format")?;
        }
        OutputFormat::JsonObject => {
            set("responseMimeType", "application/json".into());
        }
        OutputFormat::JsonSchema { schema, description, .. } => {
            set("responseMimeType", "application/json".into());
            if draft.target.profile.json_schema {
                set("responseJsonSchema", described(schema, description, &mut draft.warnings));
            } else {
                draft.warnings.change("response_format")?;
            }
        }
    }
    let thinking = thinking(draft)?;
    if !thinking.is_empty() {
        config.insert("thinkingConfig".to_owned(), thinking.into());
    }
    Ok(config)
}

/// The thinking config: a level or a token budget, never both.
fn thinking(draft: &mut Draft<'_, Abilities>) -> Result<Map<String, Value>, LlmError> {
    let request = draft.request;
    let mut thinking = Map::new();
    let wanted = request.effort.filter(|_| draft.target.profile.effort);
    let is_taken = wanted.is_some() && draft.abilities.thinking != Thinking::No;
    let is_left_out = !is_taken && request.effort.is_some_and(|effort| effort != Effort::None);
    draft.warnings.leave_out_if(is_left_out, "reasoning_effort")?;
    let has_budget = matches!(draft.abilities.thinking, Thinking::Budget { .. });
    draft.warnings.leave_out_if(!has_budget && request.reasoning_tokens.is_some(), "reasoning_tokens")?;
    match draft.abilities.thinking {
        Thinking::No => return Ok(thinking),
        Thinking::Level(levels) => {
            let nearest = wanted.and_then(|effort| effort.nearest(levels));
            if nearest != wanted {
                draft.warnings.change("reasoning_effort")?;
            }
            if let Some(level) = nearest {
                thinking.insert("thinkingLevel".to_owned(), level.name().into());
            }
        }
        Thinking::Budget { least, max, can_be_off } => {
            let tokens = match request.reasoning_tokens.or(wanted.map(Abilities::tokens)) {
                Some(0) if can_be_off => Some(0),
                Some(tokens) => draft.thinking_budget(tokens, least..=max, request.max_output_tokens)?,
                None => None,
            };
            if let Some(tokens) = tokens {
                thinking.insert("thinkingBudget".to_owned(), tokens.into());
            }
        }
    }
    if request.show_reasoning {
        thinking.insert("includeThoughts".to_owned(), true.into());
    }
    Ok(thinking)
}

/// A user's turn.
const USER: Wrapper = Wrapper { open: "{\"role\":\"user\",\"parts\":[", close: "]}" };
/// A model's turn.
const MODEL: Wrapper = Wrapper { open: "{\"role\":\"model\",\"parts\":[", close: "]}" };
/// Replaces the signature that a turn of another model lacks.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// Replaces an image that a result cannot contain.
const PICTURE: &str = "[picture below]";
/// Maximum nesting of a result that is sent as JSON.
const MAX_DEPTH: usize = 64;
