//! The plan of a run before it begins: what it may use at most, and which limit can bind first.

use std::sync::Arc;

use loop_core::run::WorstCase;
use loop_core::spec::CostMode;
use loop_core::types::{Millis, PicoUsd};
use loop_core::{RunSpec, WorkItem};
use loop_prompts::Prompts;
use schemars::JsonSchema;
use serde::Serialize;

use crate::forecast::Forecast;
use loop_runtime::report::{Item, counted};

/// The version of this format.
pub const PLAN_VERSION: u32 = 1;

/// What a run may use at most, before it begins.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// The version of this format: 1.
    pub version: u32,
    /// The domain's name.
    pub domain: String,
    /// The work item. Absent: the plan is of any item, and counts none in the first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<Item>,
    /// What no run exceeds.
    pub at_most: AtMost,
    /// The passes that are certain to fit into each limit, whatever models and tools do; those first that can bind
    /// first.
    pub passes_that_fit: Vec<PassesThatFit>,
}

/// What no run exceeds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AtMost {
    /// Main calls.
    pub passes: u32,
    /// Model calls of every kind: selection, passes, repairs, sub-calls, failed tries.
    pub model_calls: u32,
    /// Tool calls, selected ones included.
    pub tool_calls: u32,
    /// Input and output tokens.
    pub tokens: u64,
    /// How many of the tokens exceed `limits.tokens`; 0 without such a limit, and with the cost mode `strict`.
    pub tokens_over_limit: u64,
    /// Cost in US dollars. Null: the price of a model is not known, and no cost limit keeps the run from calling it.
    pub cost_usd: Option<f64>,
    /// Cost in pico-dollars (10⁻¹² USD), exact. Null as above.
    pub cost_pico_usd: Option<u64>,
    /// How many of the pico-dollars exceed `limits.cost_usd`; 0 without such a limit, and with the cost mode `strict`.
    pub cost_over_limit_pico_usd: u64,
    /// `estimated`, `strict` or `after`: how the limits of cost and tokens are enforced.
    pub cost_mode: String,
    /// Milliseconds that count against `limits.wall_ms`, with the time in which calls in flight settle.
    pub wall_ms: u64,
    /// Approvals and questions to people.
    pub requests_to_people: u32,
    /// The tools that are runs, whose use is part of all figures but the tokens: those are of this domain's models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub called_runs: Vec<String>,
    /// Milliseconds of waiting for people, in addition to `wall_ms`. Null: people have no deadline.
    pub person_ms: Option<u64>,
}

/// How many passes are certain to fit into a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PassesThatFit {
    /// Path of the limit's setting.
    pub setting: String,
    /// The passes.
    pub passes: u32,
}

impl AtMost {
    /// What a run uses at most, for people: names and values, without what exceeds a limit. `grouped` writes a number.
    pub fn in_words(&self, grouped: impl Fn(u64) -> String) -> Vec<(&'static str, String)> {
        let cost = self.cost_pico_usd.map(|cost| cost.saturating_sub(self.cost_over_limit_pico_usd));
        let unknown = match self.called_runs.is_empty() {
            true => "unknown: the price of a model is not known, and no cost limit is set",
            false => "unknown: it calls runs, and no cost limit is set",
        };
        let cost = cost.map_or_else(|| unknown.to_owned(), |cost| PicoUsd(cost).to_string());
        let people = match (self.requests_to_people, self.person_ms) {
            (0, _) => "are not asked".to_owned(),
            (requests, Some(ms)) => {
                format!("{}, and {} of waiting more", counted(requests, "request"), seconds(ms))
            }
            (requests, None) => {
                format!("{}, which wait until they are answered", counted(requests, "request"))
            }
        };
        let runs = format!(
            "{}: part of these limits; the tokens are of this domain's models",
            self.called_runs.join(", ")
        );
        let runs = Some(("runs that it calls", runs)).filter(|_| !self.called_runs.is_empty());
        let own = [
            ("passes", self.passes.to_string()),
            ("model calls", self.model_calls.to_string()),
            ("tool calls", self.tool_calls.to_string()),
            ("tokens", grouped(self.tokens.saturating_sub(self.tokens_over_limit))),
            ("cost", cost),
            ("wall clock", seconds(self.wall_ms)),
            ("people", people),
        ];
        own.into_iter().chain(runs).collect()
    }

    /// What the limits of cost and tokens do not exclude: the amounts, and why. `None` in the mode `strict`.
    pub fn worst_in_words(&self, grouped: impl Fn(u64) -> String) -> Option<(String, String)> {
        let cost = self.cost_pico_usd.filter(|_| self.cost_over_limit_pico_usd > 0);
        let cost = cost.map(|cost| PicoUsd(cost).to_string());
        let tokens = (self.tokens_over_limit > 0).then(|| format!("{} tokens", grouped(self.tokens)));
        let amounts: Vec<String> = cost.into_iter().chain(tokens).collect();
        let checked = match self.cost_mode == CostMode::After.name() {
            true => "checks the limit once a call is billed",
            false => "begins no call whose estimate does not fit",
        };
        (!amounts.is_empty()).then(|| (amounts.join(" and "), format!("`{}` {checked}", self.cost_mode)))
    }
}

impl PassesThatFit {
    /// When its limit binds, for people.
    pub fn in_words(&self) -> String {
        match self.passes {
            0 => "before a whole pass".to_owned(),
            passes => format!("after {}", counted(passes, "pass")),
        }
    }
}

fn seconds(ms: u64) -> String {
    format!("{} s", Millis(ms).in_seconds())
}

impl Plan {
    /// The plan of a run of `item`, or of any item.
    pub fn new(spec: &Arc<RunSpec>, prompts: &Prompts, item: Option<&WorkItem>) -> Self {
        let worst = WorstCase::of(spec);
        let none = WorkItem::new("", "item", "", "");
        let forecast = Forecast::new(spec, prompts, item.unwrap_or(&none));
        let called = spec.tools.iter().filter(|tool| tool.policy.lease.is_some());
        let mode: CostMode = spec.limits.cost_mode;
        Self {
            version: PLAN_VERSION,
            domain: spec.domain.to_string(),
            item: item.map(|item| Item {
                id: item.id.to_string(),
                kind: item.kind.to_string(),
                title: item.title.to_string(),
            }),
            at_most: AtMost {
                passes: worst.passes,
                model_calls: worst.model_calls,
                tool_calls: worst.tool_calls,
                tokens: worst.tokens,
                tokens_over_limit: worst.tokens_over,
                cost_usd: worst.cost.map(|cost| cost.as_usd()),
                cost_pico_usd: worst.cost.map(|cost| cost.0),
                cost_over_limit_pico_usd: worst.cost_over.0,
                cost_mode: mode.name().to_owned(),
                wall_ms: worst.wall_ms,
                requests_to_people: worst.requests,
                called_runs: called.map(|tool| tool.name.to_string()).collect(),
                person_ms: worst.person_ms,
            },
            passes_that_fit: forecast
                .bounds
                .iter()
                .map(|bound| PassesThatFit { setting: bound.setting.path().to_owned(), passes: bound.passes })
                .collect(),
        }
    }
}
