//! The worst case of what a run may still use: its spec, with what is left of each limit.

use std::sync::Arc;

use loop_core::Run;
use loop_core::run::{Phase, WorstCase};
use loop_core::types::PicoUsd;

/// The most that this run can use from this state on, whatever the models, the tools and the people do.
pub(super) fn left(run: &Run) -> WorstCase {
    let mut spec = (**run.spec()).clone();
    let (limits, totals) = (&mut spec.limits, run.totals());
    // A limit of 0 would mean that nothing follows. What is in flight does, so that 1 is left of each.
    let of = |limit: u32, used: u32| limit.saturating_sub(used).max(1);
    limits.passes = of(limits.passes, totals.passes);
    limits.tool_calls = of(limits.tool_calls, totals.tool_calls);
    // A call in flight is counted and not charged.
    limits.model_calls =
        limits.model_calls.saturating_sub(totals.model_calls).saturating_add(in_flight(run)).max(1);
    limits.cost = limits.cost.map(|limit| PicoUsd(limit.0.saturating_sub(totals.cost.known.0).max(1)));
    limits.tokens = limits.tokens.map(|limit| limit.saturating_sub(totals.usage.total()).max(1));
    limits.wall_ms = limits.wall_ms.saturating_sub(run.elapsed_ms()).max(1);
    WorstCase::of(&Arc::new(spec))
}

/// How many model calls are in flight, sub-calls of tools and checks included.
fn in_flight(run: &Run) -> u32 {
    match run.phase() {
        Phase::Calling { call, .. } => u32::from(call.started.is_some()),
        Phase::Running { batch, .. } => {
            let open = batch.work.iter().filter(|work| work.sub_call.is_some() && work.observation.is_none());
            open.count() as u32
        }
        Phase::Validating(checking) => u32::from(checking.sub_call.is_some()),
        Phase::WaitingForPerson { .. } | Phase::Stopping(_) | Phase::Saving { .. } | Phase::Done { .. } => 0,
    }
}
