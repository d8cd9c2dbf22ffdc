//! Thinking options, and whether sampling options are accepted with them.

use serde::Deserialize;
use serde_json::{Value, json};

use super::models::{Abilities, Sampling, Thinking, ThinkingOff};
use crate::codec::{Draft, Target, Text};
use crate::error::LlmError;
use crate::options::Effort;
use crate::request::{Message, ModelRequest};

/// The thinking options of a request.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    pub(super) thinking: Option<Value>,
    pub(super) effort: Option<Effort>,
    /// Whether thinking was requested.
    pub(super) thinks: bool,
}

impl Reasoning {
    /// Whether there is a token budget.
    pub(super) fn has_budget(&self) -> bool {
        self.thinking.as_ref().is_some_and(|thinking| thinking.get("budget_tokens").is_some())
    }
}

pub(super) fn thinking(draft: &mut Draft<'_, Abilities>, max: u64) -> Result<Reasoning, LlmError> {
    let has_efforts = !draft.abilities.efforts.is_empty() && draft.target.profile.effort;
    let request = draft.request;
    match draft.abilities.thinking {
        Thinking::Never => {
            let is_given = request.effort.is_some_and(|effort| effort != Effort::None);
            draft.warnings.leave_out_if(is_given, "reasoning_effort")?;
            draft.warnings.leave_out_if(request.reasoning_tokens.is_some(), "reasoning_tokens")?;
            Ok(Reasoning::default())
        }
        Thinking::Budget => budget(draft, max),
        Thinking::Either if request.reasoning_tokens.is_some() || !has_efforts => budget(draft, max),
        Thinking::Either | Thinking::OnRequest | Thinking::Always(_) => {
            draft.warnings.leave_out_if(request.reasoning_tokens.is_some(), "reasoning_tokens")?;
            adaptive(draft, has_efforts)
        }
    }
}

/// For models that take `budget_tokens`.
fn budget(draft: &mut Draft<'_, Abilities>, max: u64) -> Result<Reasoning, LlmError> {
    let request = draft.request;
    let wanted = match (request.reasoning_tokens, request.effort) {
        (Some(tokens), _) => tokens,
        (None, None | Some(Effort::None)) => return Ok(Reasoning::default()),
        (None, Some(_)) if !draft.target.profile.effort => {
            draft.warnings.leave_out("reasoning_effort")?;
            return Ok(Reasoning::default());
        }
        (None, Some(effort)) => tokens_of(effort),
    };
    let Some(tokens) = draft.thinking_budget(wanted, LEAST_BUDGET..=u64::MAX, Some(max))? else {
        return Ok(Reasoning::default());
    };
    if answers_without_thinking(request, &draft.target) {
        // While a turn's calls are being answered, the turn must begin with thinking, and this one has none.
        let is_chosen = request.reasoning_tokens.is_some();
        let name = if is_chosen { "reasoning_tokens" } else { "reasoning_effort" };
        draft.warnings.warn(format!("param_dropped({name})"));
        return Ok(Reasoning::default());
    }
    let thinking = json!({"type": "enabled", "budget_tokens": tokens});
    Ok(Reasoning { thinking: Some(thinking), effort: None, thinks: true })
}

/// For models with adaptive thinking.
fn adaptive(draft: &mut Draft<'_, Abilities>, has_efforts: bool) -> Result<Reasoning, LlmError> {
    let thinks_anyway = matches!(draft.abilities.thinking, Thinking::Always(_));
    let mut wanted = draft.request.effort;
    if wanted == Some(Effort::None) {
        match draft.abilities.thinking {
            Thinking::Always(ThinkingOff::Disabled) => {
                return Ok(Reasoning { thinking: Some(json!({"type": "disabled"})), ..Reasoning::default() });
            }
            Thinking::Always(ThinkingOff::BetweenTools) => {
                return Ok(Reasoning {
                    thinking: Some(json!({"type": "between_tools"})),
                    ..Reasoning::default()
                });
            }
            Thinking::Always(ThinkingOff::Never) => {}
            _ => return Ok(Reasoning::default()),
        }
    }
    if wanted.is_some() && !has_efforts {
        draft.warnings.leave_out("reasoning_effort")?;
        wanted = None;
    }
    let effort = wanted.and_then(|wanted| wanted.nearest(draft.abilities.efforts));
    if effort != wanted {
        draft.warnings.change("reasoning_effort")?;
    }
    let thinks = effort.is_some() || (thinks_anyway && draft.request.show_reasoning);
    let mut thinking = thinks.then(|| json!({"type": "adaptive"}));
    if let (true, Some(Value::Object(thinking))) = (draft.request.show_reasoning, &mut thinking) {
        thinking.insert("display".to_owned(), "summarized".into());
    }
    Ok(Reasoning { thinking, effort, thinks })
}

/// Adds `temperature`, `top_p` and `top_k`.
pub(super) fn sampling(draft: &mut Draft<'_, Abilities>, thinks: bool) -> Result<(), LlmError> {
    let is_taken = draft.abilities.sampling != Sampling::None && !thinks;
    match draft.request.temperature {
        Some(_) if !is_taken => draft.warnings.leave_out("temperature")?,
        Some(temperature) if temperature > 1.0 => {
            draft.warnings.change("temperature")?;
            draft.members.add("temperature", &1.0);
        }
        Some(temperature) => draft.members.add("temperature", &temperature),
        None => {}
    }
    let is_second = draft.abilities.sampling == Sampling::NotBoth && draft.request.temperature.is_some();
    draft.offer("top_p", draft.request.top_p, is_taken && !is_second)?;
    draft.offer("top_k", draft.request.top_k, is_taken)
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
