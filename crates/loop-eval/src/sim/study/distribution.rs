//! How the runs of a study ended: reasons, classes, amounts, and the limits that were reached.

use std::collections::BTreeMap;

use loop_core::{Condition, CostMode, Outcome, PicoUsd, RunSpec, WorkItem};
use schemars::JsonSchema;
use serde::Serialize;

use super::assumptions::{Assumptions, SimAssumption};
use super::one::Studied;

/// The version of this format.
pub const SIM_VERSION: u32 = 1;

/// How the runs of a study ended.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Distribution {
    /// The version of this format: 1.
    pub version: u32,
    /// The domain's name.
    pub domain: String,
    /// The id of the work item. Absent: a made-up item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The seed. The same seed and assumptions give the same distribution.
    pub seed: u64,
    /// The number of runs.
    pub runs: u64,
    /// The stop reasons, the most frequent first.
    pub reasons: Vec<ReasonRuns>,
    /// The classes of the stops, the most frequent first.
    pub classes: Vec<ClassRuns>,
    /// Main calls.
    pub passes: Amounts,
    /// Model calls of every kind.
    pub model_calls: Amounts,
    /// Tool calls.
    pub tool_calls: Amounts,
    /// Input and output tokens.
    pub tokens: Amounts,
    /// Cost in pico-dollars (10⁻¹² USD). Null: the price of a model is not known.
    pub cost_pico_usd: Option<Amounts>,
    /// `estimated`, `strict` or `after`: how the limits of cost and tokens are enforced.
    pub cost_mode: String,
    /// Milliseconds that count against `limits.wall_ms`.
    pub wall_ms: Amounts,
    /// Approvals and questions to people.
    pub requests_to_people: Amounts,
    /// The limits that runs reached, the most frequent first.
    pub reached: Vec<ReachedLimit>,
    /// What models, tools and people were assumed to do.
    pub assumptions: Vec<SimAssumption>,
}

/// How many runs stopped for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReasonRuns {
    /// The stop reason, for example `confident`.
    pub reason: String,
    /// The runs.
    pub runs: u64,
}

/// How many runs ended with a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClassRuns {
    /// The class, for example `answered`.
    pub class: String,
    /// The runs.
    pub runs: u64,
}

/// An amount over all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Amounts {
    /// Half of the runs used at most this.
    pub p50: u64,
    /// 95 % of the runs used at most this.
    pub p95: u64,
    /// No run used more.
    pub max: u64,
    /// The limit. Null: there is none.
    pub limit: Option<u64>,
}

/// How many runs reached a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReachedLimit {
    /// Path of the limit's setting.
    pub setting: String,
    /// Runs that stopped for it.
    pub stopped: u64,
    /// Runs that reached it, and may have stopped for another reason.
    pub reached: u64,
}

impl Distribution {
    pub(super) fn of(
        spec: &RunSpec,
        item: Option<&WorkItem>,
        assumed: &Assumptions,
        seed: u64,
        studied: &[Studied],
    ) -> Self {
        let outcomes: Vec<&Outcome> = studied.iter().filter_map(|it| it.run.outcome()).collect();
        let limits = &spec.limits;
        let amounts = |of: &dyn Fn(&Outcome) -> u64, limit: Option<u64>| {
            Amounts::of(outcomes.iter().map(|outcome| of(outcome)).collect(), limit)
        };
        let is_priced = outcomes.iter().all(|outcome| outcome.totals.cost.unknown_calls == 0);
        let cost = is_priced.then(|| {
            amounts(&|outcome| outcome.totals.cost.known.0, limits.cost.map(|PicoUsd(limit)| limit))
        });
        let mode: CostMode = limits.cost_mode;
        let asked = studied.iter().map(|it| it.asked).collect();
        Self {
            version: SIM_VERSION,
            domain: spec.domain.to_string(),
            item: item.map(|item| item.id.to_string()),
            seed,
            runs: outcomes.len() as u64,
            reasons: counted(outcomes.iter().map(|outcome| outcome.stop.reason().to_string()))
                .map(|(reason, runs)| ReasonRuns { reason, runs })
                .collect(),
            classes: counted(outcomes.iter().map(|outcome| outcome.stop.class.name().to_owned()))
                .map(|(class, runs)| ClassRuns { class, runs })
                .collect(),
            passes: amounts(&|outcome| outcome.totals.passes.into(), Some(limits.passes.into())),
            model_calls: amounts(
                &|outcome| outcome.totals.model_calls.into(),
                Some(limits.model_calls.into()),
            ),
            tool_calls: amounts(&|outcome| outcome.totals.tool_calls.into(), Some(limits.tool_calls.into())),
            tokens: amounts(&|outcome| outcome.totals.usage.total(), limits.tokens),
            cost_pico_usd: cost,
            cost_mode: mode.name().to_owned(),
            wall_ms: amounts(&|outcome| outcome.totals.wall_ms, Some(limits.wall_ms)),
            requests_to_people: Amounts::of(asked, None),
            reached: reached(&outcomes),
            assumptions: assumed.list(),
        }
    }
}

impl Amounts {
    pub(in crate::sim) fn of(mut all: Vec<u64>, limit: Option<u64>) -> Self {
        all.sort_unstable();
        // The smallest amount that so many of a hundred runs do not exceed.
        let at = |percent: usize| {
            let rank = (all.len() * percent).div_ceil(100).max(1);
            all.get(rank - 1).copied().unwrap_or_default()
        };
        Self { p50: at(50), p95: at(95), max: at(100), limit }
    }
}

/// How often each occurs, the most frequent first, then by name.
fn counted(all: impl Iterator<Item = String>) -> impl Iterator<Item = (String, u64)> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts.into_iter()
}

fn reached(outcomes: &[&Outcome]) -> Vec<ReachedLimit> {
    let setting = |condition: &Condition| {
        let path = condition.change.as_ref()?.setting.path();
        path.starts_with("limits.").then(|| path.to_owned())
    };
    let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for outcome in outcomes {
        if let Some(setting) = setting(&outcome.stop.primary) {
            let counts = all.entry(setting).or_default();
            *counts = (counts.0 + 1, counts.1 + 1);
        }
        for setting in outcome.stop.also.iter().filter_map(setting) {
            all.entry(setting).or_default().1 += 1;
        }
    }
    let mut all: Vec<ReachedLimit> = all
        .into_iter()
        .map(|(setting, (stopped, reached))| ReachedLimit { setting, stopped, reached })
        .collect();
    all.sort_by(|a, b| b.reached.cmp(&a.reached).then_with(|| a.setting.cmp(&b.setting)));
    all
}
