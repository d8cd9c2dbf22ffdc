//! Leases: what a run that is called as a tool may use of the limits of the run that calls it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::defaults::is_default;
use crate::types::effects::Effects;
use crate::types::ids::RunId;
use crate::types::money::{Cost, PicoUsd};
use crate::types::taint::Taint;
use crate::types::usage::Usage;

/// What a run that is called as a tool may use. It is taken from the caller's rest before the run starts, and what is not
/// used returns when the run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// In pico-dollars. `None`: neither run has a limit of cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<PicoUsd>,
    /// Input and output tokens. `None`: neither run has a limit of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Model calls of every kind.
    pub model_calls: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Milliseconds, except for the time that people take.
    pub wall_ms: u64,
    /// Levels of runs below it. 0: it calls no run.
    pub depth: u32,
}

/// What a run that was called as a tool used, with all runs below it, and its taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChildUse {
    /// Its id. `None`: it did not begin.
    pub run: Option<RunId>,
    /// Its tokens.
    pub usage: Usage,
    /// Its cost.
    pub cost: Cost,
    /// Its model calls.
    pub model_calls: u32,
    /// Its tool calls.
    pub tool_calls: u32,
    /// The name of its stop reason. Empty: it has not ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: Arc<str>,
    /// How its effects ended, with those of the runs below it.
    #[serde(default, skip_serializing_if = "Effects::is_none")]
    pub effects: Effects,
    /// Whether an effect that it owed did not happen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub undone: bool,
    /// Its taint at its end. The caller has it from then on.
    pub taint: Taint,
}

impl Lease {
    /// The amounts of both together. Time and depth are not added up: runs take them side by side.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cost: sum(self.cost, other.cost, PicoUsd::plus),
            tokens: sum(self.tokens, other.tokens, u64::saturating_add),
            model_calls: self.model_calls.saturating_add(other.model_calls),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            ..self
        }
    }

    /// What is left of the amounts when `other` returns.
    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            cost: sum(self.cost, other.cost, |all, one| PicoUsd(all.0.saturating_sub(one.0))),
            tokens: sum(self.tokens, other.tokens, u64::saturating_sub),
            model_calls: self.model_calls.saturating_sub(other.model_calls),
            tool_calls: self.tool_calls.saturating_sub(other.tool_calls),
            ..self
        }
    }

    /// The lower of each: what a run takes that may use `self` and is offered `other`.
    pub(crate) fn within(self, other: Self) -> Self {
        Self {
            cost: least(self.cost, other.cost),
            tokens: least(self.tokens, other.tokens),
            model_calls: self.model_calls.min(other.model_calls),
            tool_calls: self.tool_calls.min(other.tool_calls),
            wall_ms: self.wall_ms.min(other.wall_ms),
            depth: self.depth.min(other.depth),
        }
    }

    /// An equal part for each of `runs`. Time and depth are whole for each.
    pub(crate) fn shared_by(self, runs: u32) -> Self {
        let runs = runs.max(1);
        Self {
            cost: self.cost.map(|cost| PicoUsd(cost.0 / u64::from(runs))),
            tokens: self.tokens.map(|tokens| tokens / u64::from(runs)),
            model_calls: self.model_calls / runs,
            tool_calls: self.tool_calls / runs,
            ..self
        }
    }
}

fn sum<T: Copy + Default>(a: Option<T>, b: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
    if a.is_none() && b.is_none() { None } else { Some(add(a.unwrap_or_default(), b.unwrap_or_default())) }
}

fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    a.into_iter().chain(b).min()
}
