//! Thinking options, and whether sampling options are accepted with them.

use serde::Deserialize;
use serde_json::{Value, json};

use super::models::{Abilities, Off, Sampling, Thinking};
use crate::codec::{Members, Target, Text};
use crate::error::LlmError;
use crate::options::Effort;
use crate::request::{Message, ModelRequest};
use crate::warnings::Warnings;

/// The thinking options of a request.
#[derive(Debug, Default)]
pub(super) struct Reported {
    pub(super) thinking: Option<Value>,
    pub(super) effort: Option<Effort>,
    /// Whether thinking was requested.
    pub(super) thinks: bool,
}

impl Reported {
    /// Whether there is a token budget.
    pub(super) fn has_budget(&self) -> bool {
        self.thinking.as_ref().is_some_and(|thinking| thinking.get("budget_tokens").is_some())
    }
}

pub(super) fn thinking(
    request: &ModelRequest,
    target: &Target<'_>,
    abilities: &Abilities,
    max: u64,
    warnings: &mut Warnings,
) -> Result<Reported, LlmError> {
    let has_efforts = !abilities.efforts.is_empty() && target.profile.effort;
    match abilities.thinking {
        Thinking::Never => {
            if request.effort.is_some_and(|effort| effort != Effort::None) {
                warnings.leave_out("reasoning_effort")?;
            }
            if request.reasoning_tokens.is_some() {
                warnings.leave_out("reasoning_tokens")?;
            }
            Ok(Reported::default())
        }
        Thinking::Budget => budget(request, target, max, warnings),
        Thinking::Either if request.reasoning_tokens.is_some() || !has_efforts => {
            budget(request, target, max, warnings)
        }
        Thinking::Either | Thinking::OnRequest | Thinking::Always(_) => {
            if request.reasoning_tokens.is_some() {
                warnings.leave_out("reasoning_tokens")?;
            }
            adaptive(request, abilities, has_efforts, warnings)
        }
    }
}

/// For models that take `budget_tokens`.
fn budget(
    request: &ModelRequest,
    target: &Target<'_>,
    max: u64,
    warnings: &mut Warnings,
) -> Result<Reported, LlmError> {
    let is_off = request.effort == Some(Effort::None) && request.reasoning_tokens.is_none();
    let wanted = match (request.reasoning_tokens, request.effort) {
        _ if is_off => return Ok(Reported::default()),
        (Some(tokens), _) => tokens,
        (None, None) => return Ok(Reported::default()),
        (None, Some(_)) if !target.profile.effort => {
            warnings.leave_out("reasoning_effort")?;
            return Ok(Reported::default());
        }
        (None, Some(effort)) => tokens_of(effort),
    };
    let name = if request.reasoning_tokens.is_some() { "reasoning_tokens" } else { "reasoning_effort" };
    // Enough must be left for a reply, and a requested budget is reduced as little as possible.
    let room = if request.reasoning_tokens.is_some() { max.saturating_sub(1) } else { max - max / 4 };
    if room < LEAST_BUDGET {
        warnings.leave_out(name)?;
        return Ok(Reported::default());
    }
    let tokens = wanted.clamp(LEAST_BUDGET, room);
    if tokens != wanted && request.reasoning_tokens.is_some() {
        warnings.change(name)?;
    }
    if answers_without_thinking(request, target) {
        // While a turn's calls are being answered, the turn must begin with thinking, and this one has none.
        warnings.warn(format!("param_dropped({name})"));
        return Ok(Reported::default());
    }
    let thinking = json!({"type": "enabled", "budget_tokens": tokens});
    Ok(Reported { thinking: Some(thinking), effort: None, thinks: true })
}

/// For models with adaptive thinking.
fn adaptive(
    request: &ModelRequest,
    abilities: &Abilities,
    has_efforts: bool,
    warnings: &mut Warnings,
) -> Result<Reported, LlmError> {
    let thinks_anyway = matches!(abilities.thinking, Thinking::Always(_));
    let mut wanted = request.effort;
    if wanted == Some(Effort::None) {
        match abilities.thinking {
            Thinking::Always(Off::Disabled) => {
                return Ok(Reported { thinking: Some(json!({"type": "disabled"})), ..Reported::default() });
            }
            Thinking::Always(Off::BetweenTools) => {
                return Ok(Reported {
                    thinking: Some(json!({"type": "between_tools"})),
                    ..Reported::default()
                });
            }
            Thinking::Always(Off::Never) => {}
            _ => return Ok(Reported::default()),
        }
    }
    if wanted.is_some() && !has_efforts {
        warnings.leave_out("reasoning_effort")?;
        wanted = None;
    }
    let effort = wanted.and_then(|wanted| wanted.nearest(abilities.efforts));
    if effort != wanted {
        warnings.change("reasoning_effort")?;
    }
    let thinks = effort.is_some() || (thinks_anyway && request.show_reasoning);
    let mut thinking = thinks.then(|| json!({"type": "adaptive"}));
    if let (true, Some(Value::Object(thinking))) = (request.show_reasoning, &mut thinking) {
        thinking.insert("display".to_owned(), "summarized".into());
    }
    Ok(Reported { thinking, effort, thinks })
}

/// Adds `temperature`, `top_p` and `top_k`.
pub(super) fn sampling(
    request: &ModelRequest,
    abilities: &Abilities,
    thinks: bool,
    members: &mut Members<'_>,
    warnings: &mut Warnings,
) -> Result<(), LlmError> {
    let is_taken = abilities.sampling != Sampling::None && !thinks;
    match request.temperature {
        Some(_) if !is_taken => warnings.leave_out("temperature")?,
        Some(temperature) if temperature > 1.0 => {
            warnings.change("temperature")?;
            members.add("temperature", &1.0);
        }
        Some(temperature) => members.add("temperature", &temperature),
        None => {}
    }
    let is_second = abilities.sampling == Sampling::NotBoth && request.temperature.is_some();
    match request.top_p {
        Some(_) if !is_taken || is_second => warnings.leave_out("top_p")?,
        Some(share) => members.add("top_p", &share),
        None => {}
    }
    match request.top_k {
        Some(_) if !is_taken => warnings.leave_out("top_k")?,
        Some(max) => members.add("top_k", &max),
        None => {}
    }
    Ok(())
}

/// Whether the last results answer a turn that does not begin with thinking.
fn answers_without_thinking(request: &ModelRequest, target: &Target<'_>) -> bool {
    let mut turns = request.messages.iter().rev().skip_while(|turn| !matches!(turn, Message::Assistant(_)));
    let mut since = request.messages.iter().rev().take_while(|turn| !matches!(turn, Message::Assistant(_)));
    if !since.any(|turn| matches!(turn, Message::Tool { .. })) {
        return false;
    }
    // Consecutive turns of the model are one.
    let mut first = None;
    while let Some(Message::Assistant(turn)) = turns.next() {
        first = Some(turn);
    }
    let own = first.and_then(|turn| target.own(turn));
    !own.is_some_and(|own| begins_with_thinking(own.json()))
}

fn begins_with_thinking(blocks: &str) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Block<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
    }
    let first = serde_json::Deserializer::from_str(blocks).into_iter::<Block<'_>>().next();
    first.is_some_and(|block| {
        block.is_ok_and(|block| matches!(block.kind.some(), Some("thinking" | "redacted_thinking")))
    })
}

/// The budget for an effort, for models without efforts.
fn tokens_of(effort: Effort) -> u64 {
    match effort {
        Effort::None | Effort::Minimal => LEAST_BUDGET,
        Effort::Low => 2_048,
        Effort::Medium => 8_192,
        Effort::High => 16_384,
        Effort::XHigh => 32_768,
        Effort::Max => 49_152,
    }
}

/// Minimum `budget_tokens` that the API accepts.
const LEAST_BUDGET: u64 = 1_024;
