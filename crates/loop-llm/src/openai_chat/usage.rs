//! Token counts as a server reports them, in disjoint buckets.

use loop_core::{PicoUsd, Usage};
use serde_json::Value;

/// What a server said about the tokens of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing.
    Nothing,
    /// Something that cannot be counted with: a count is missing, negative or absurd.
    Unusable,
    /// These counts; `is_odd` where they contradicted each other and were made to fit.
    Counts { usage: Usage, is_odd: bool },
}

/// The usage of a chunk or a reply.
pub(super) fn read(usage: &Value) -> Told {
    let mut is_odd = false;
    let mut number = |value: Option<&Value>| match value {
        None | Some(Value::Null) => None,
        Some(value) => {
            let read = value.as_u64().filter(|tokens| *tokens <= MOST);
            is_odd |= read.is_none();
            read
        }
    };
    let prompt = number(usage.get("prompt_tokens"));
    let completion = number(usage.get("completion_tokens"));
    let is_missing = |name: &str| usage.get(name).is_none_or(Value::is_null);
    let (Some(prompt), Some(completion)) = (prompt, completion) else {
        let is_silent = is_missing("prompt_tokens") && is_missing("completion_tokens");
        return if is_silent { Told::Nothing } else { Told::Unusable };
    };
    let input_details = usage.get("prompt_tokens_details");
    let cached = number(input_details.and_then(|details| details.get("cached_tokens")))
        .or_else(|| number(usage.get("prompt_cache_hit_tokens")))
        .or_else(|| number(usage.get("num_cached_tokens")))
        .unwrap_or(0);
    let written = number(input_details.and_then(|details| details.get("cache_write_tokens"))).unwrap_or(0);
    let output_details = usage.get("completion_tokens_details");
    let reasoning = number(output_details.and_then(|details| details.get("reasoning_tokens"))).unwrap_or(0);
    // Some servers count reasoning beside the completion, which shows in the total.
    let total = number(usage.get("total_tokens"));
    let is_beside = reasoning > 0 && total == Some(prompt + completion + reasoning);
    is_odd |= cached.saturating_add(written) > prompt || (reasoning > completion && !is_beside);
    let cache_read = cached.min(prompt);
    let cache_write_short = written.min(prompt - cache_read);
    let reasoning = if is_beside { reasoning } else { reasoning.min(completion) };
    let usage = Usage {
        input: prompt - cache_read - cache_write_short,
        cache_read,
        cache_write_short,
        cache_write_long: 0,
        output: if is_beside { completion } else { completion - reasoning },
        reasoning,
        estimated: false,
    };
    Told::Counts { usage, is_odd }
}

/// What the server itself says that the call cost, in dollars. Nothing is no price.
pub(super) fn cost(usage: &Value) -> Option<PicoUsd> {
    let pico = (usage.get("cost")?.as_f64()? * PicoUsd::PER_USD as f64).round();
    (pico >= 1.0 && pico < u64::MAX as f64).then_some(PicoUsd(pico as u64))
}

/// More tokens than any call can have.
const MOST: u64 = 1_000_000_000;
