//! What a run may use at most, computed from its limits before it begins.

use std::sync::Arc;

use crate::policy;
use crate::run::apply::{Facts, Run};
use crate::run::event::Provenance;
use crate::run::quote::FRAME_TOKENS;
use crate::run::stopping::GRACE_MS;
use crate::spec::{CostMode, Execution, RunSpec, SpecNames};
use crate::types::{Digest, PicoUsd, Price, RunId, Tier, WorkItem};

/// The most that any run of a spec uses, whatever the models, the tools and the people do.
///
/// It assumes that:
///
/// - a call takes no more input than `context_tokens` and writes no more output than it is granted (in the cost mode
///   `strict`: no more than arrives),
/// - a called run takes no more than its lease, and its calls no more tokens than those of this spec's models,
/// - a byte is at most one token, and prices are those of the spec,
/// - the driver reports deadlines in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstCase {
    /// Main calls, from 0.
    pub passes: u32,
    /// Model calls of every kind: selection, passes, repairs, sub-calls, failed tries.
    pub model_calls: u32,
    /// Tool calls, selected ones included. Polls of a tool that is not ready are not counted, and neither are reads that
    /// start before their reply is complete and are dropped.
    pub tool_calls: u32,
    /// Input and output tokens of all model calls.
    pub tokens: u64,
    /// Cost of all model calls in pico-dollars. `None`: the price of a model is not known, or is that of a called run,
    /// and no cost limit keeps the run from calling it.
    pub cost: Option<PicoUsd>,
    /// Milliseconds of the wall clock that count against its limit, with the time that calls in flight get to settle.
    pub wall_ms: u64,
    /// Approvals and questions to a person; 0 where no person can be asked.
    pub requests: u32,
    /// Milliseconds that the run waits for people, in addition to `wall_ms`. `None`: without a bound.
    pub person_ms: Option<u64>,
    /// Tokens by which the worst case exceeds `limits.tokens`, because input is estimated; 0 without such a limit and in
    /// `strict` mode.
    pub tokens_over: u64,
    /// Pico-dollars by which the worst case exceeds `limits.cost_usd`; 0 without such a limit and in `strict` mode.
    pub cost_over: PicoUsd,
}

impl WorstCase {
    /// The worst case of a run of `spec`.
    pub fn of(spec: &Arc<RunSpec>) -> Self {
        let limits = &spec.limits;
        if stops_at_start(spec) {
            return Self::NOTHING;
        }
        let models =
            [Tier::Selector, Tier::Base, Tier::Escalated, Tier::Fallback].map(|tier| spec.model(tier));
        // With a cost limit, a model without a known price is not called.
        let is_called = |price: Option<&Price>| limits.cost.is_none() || price.is_some();
        let mut most = CallBounds::default();
        for model in models.into_iter().filter(|model| is_called(model.price.as_ref())) {
            let output = limits.cost_mode.reserved_output(limits.output_tokens.min(model.max_output_tokens));
            most.add(CallBounds::call(model.price.as_ref(), model.context_tokens, output));
        }
        let mut in_flight = most;
        let has_smart = spec.tools.iter().any(|tool| tool.smart);
        let asks = spec.gate.second_opinion.is_some() && spec.sections().iter().any(|section| section.verify);
        if has_smart || asks {
            // A check is alone in flight.
            let at_once = if has_smart { sub_calls_at_once(spec) } else { 1 };
            let input = limits.sub_call_bytes.saturating_add(FRAME_TOKENS);
            for model in models.into_iter().filter(|model| is_called(model.price.as_ref())) {
                let output = limits.cost_mode.reserved_output(limits.sub_call_tokens);
                let one = CallBounds::call(model.price.as_ref(), input, output);
                most.add(one);
                in_flight.add(one.times(at_once));
            }
        }
        let all = most.times(limits.model_calls);
        let over = match limits.cost_mode {
            CostMode::Strict => CallBounds::default(),
            CostMode::Estimated | CostMode::After => in_flight,
        };
        let tokens =
            limits.tokens.map_or(all.tokens, |limit| limit.saturating_add(over.tokens).min(all.tokens));
        // The models of a called run have prices of their own: its lease bounds what it costs, and not these.
        let calls_runs = spec.tools.iter().any(|tool| tool.policy.lease.is_some());
        let cost = match limits.cost {
            Some(limit) if calls_runs => Some(limit.plus(over.cost)),
            Some(limit) => Some(limit.plus(over.cost).min(all.cost)),
            None => Some(all.cost).filter(|_| !all.is_unpriced && !calls_runs),
        };
        let requests = requests(spec);
        Self {
            passes: limits.passes,
            model_calls: limits.model_calls,
            tool_calls: limits.tool_calls,
            tokens,
            cost,
            wall_ms: limits.wall_ms.saturating_add(GRACE_MS),
            requests,
            person_ms: match requests {
                0 => Some(0),
                // The requests of one pass wait side by side.
                _ => limits.person_ms.map(|ms| ms.saturating_mul(limits.passes.into())),
            },
            tokens_over: limits.tokens.map_or(0, |limit| tokens.saturating_sub(limit)),
            cost_over: limits
                .cost
                .zip(cost)
                .map_or(PicoUsd(0), |(limit, cost)| PicoUsd(cost.0.saturating_sub(limit.0))),
        }
    }

    const NOTHING: Self = Self {
        passes: 0,
        model_calls: 0,
        tool_calls: 0,
        tokens: 0,
        cost: Some(PicoUsd(0)),
        wall_ms: 0,
        requests: 0,
        person_ms: Some(0),
        tokens_over: 0,
        cost_over: PicoUsd(0),
    };
}

/// The most that calls use.
#[derive(Clone, Copy, Debug, Default)]
struct CallBounds {
    tokens: u64,
    cost: PicoUsd,
    /// Whether the price of one of them is not known; `cost` is of the others then.
    is_unpriced: bool,
}

impl CallBounds {
    /// A call with this much input and output.
    fn call(price: Option<&Price>, input: u64, output: u64) -> Self {
        let cost = price.map(|price| price.ceiling(input, output));
        Self {
            tokens: input.saturating_add(output),
            cost: cost.unwrap_or_default(),
            is_unpriced: cost.is_none(),
        }
    }

    /// The larger of both, in each respect.
    fn add(&mut self, other: Self) {
        self.tokens = self.tokens.max(other.tokens);
        self.cost = self.cost.max(other.cost);
        self.is_unpriced |= other.is_unpriced;
    }

    fn times(self, calls: u32) -> Self {
        let calls = u64::from(calls);
        Self {
            tokens: self.tokens.saturating_mul(calls),
            cost: PicoUsd(self.cost.0.saturating_mul(calls)),
            is_unpriced: self.is_unpriced,
        }
    }
}

/// How many sub-calls may be in flight together.
fn sub_calls_at_once(spec: &RunSpec) -> u32 {
    let limits = &spec.limits;
    let in_batch = limits.read_calls().max(limits.selected);
    in_batch.min(limits.tool_calls).min(limits.model_calls)
}

/// How many approvals and questions a run may request.
fn requests(spec: &RunSpec) -> u32 {
    let limits = &spec.limits;
    let may_ask = spec
        .tools
        .iter()
        .any(|tool| !policy::is_forbidden(spec, tool) && (tool.policy.asks_person || !tool.effect.is_read()));
    if !spec.gate.people || !may_ask {
        return 0;
    }
    let of_reply = match spec.protocol.execution() {
        Execution::Single => 1,
        Execution::Parallel | Execution::Ordered => limits.read_calls(),
    };
    of_reply.min(limits.tool_calls).saturating_mul(limits.passes)
}

/// Whether a run ends before its first call, for example at a limit of 0.
fn stops_at_start(spec: &Arc<RunSpec>) -> bool {
    let nothing = Digest::of("worst case", b"");
    let item = WorkItem::new("", "", "", "");
    let facts = Facts {
        unix_ms: 0,
        nonce: "".into(),
        prompts: nothing,
        tools: nothing,
        history: None,
        provenance: Provenance::default(),
    };
    // The digests are not read, and computing them would be the main cost.
    let names = SpecNames { spec: nothing, policy: nothing };
    let (run, _, _) = Run::start_named(RunId::new("worst-case"), Arc::clone(spec), names, item, facts);
    run.outcome().is_some()
}
