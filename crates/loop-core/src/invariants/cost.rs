//! Cost and tokens: what is settled and what is in flight, checked against the limits and against the charges.

use super::view::{call, has_sub_call, work};
use super::{Checked, Past, Transition, must};
use crate::run::{EventKind, Note, Reserve, Run};
use crate::spec::CostMode;
use crate::types::{ChildUse, CommandKey, Lease, PicoUsd, Usage};

/// A limit, and what is taken from it.
struct LimitUsage {
    name: &'static str,
    limit: u64,
    before: u64,
    after: u64,
    /// What settlements of this step took beyond their reserves.
    overshoot: u64,
}

/// What is started is covered by the rest of the shared budget, in every mode: what other runs reserved is theirs.
pub(super) fn shared_budget_holds(step: &Transition<'_>, _: &Past) -> Checked {
    let Some(limit) = step.after.shared_limit() else { return Ok(()) };
    let (before, after) = (cost(step.before), cost(step.after));
    let beyond: u64 = charges(step)
        .map(|(key, _, cost)| {
            let reserve = reserve_of(step.before, key).cost.unwrap_or_default();
            cost.unwrap_or_default().0.saturating_sub(reserve.0)
        })
        .chain(
            lease_charges(step)
                .map(|(lease, used)| used.cost.known.0.saturating_sub(lease.cost.unwrap_or_default().0)),
        )
        .fold(0, u64::saturating_add);
    must(after <= limit.0.max(before.saturating_add(beyond)), || {
        format!(
            "the shared budget was exceeded: {before} -> {after} of {limit}, {beyond} beyond the reserves"
        )
    })
}

/// What is started exceeds no limit, and a settlement exceeds it only by what it took beyond its reserve. With the mode
/// `after` no call is started once the limit is used up.
pub(super) fn limits_hold(step: &Transition<'_>, _: &Past) -> Checked {
    let mode = step.after.spec().limits.cost_mode;
    let started = matches!(step.event.kind, EventKind::CallStarted { .. });
    for LimitUsage { name, limit, before, after, overshoot } in taken(step) {
        let shown = || format!("{name}: {before} -> {after} of {limit}, {overshoot} beyond the reserves");
        match mode {
            CostMode::Strict | CostMode::Estimated => {
                must(after <= limit.max(before.saturating_add(overshoot)), || {
                    format!("a limit was exceeded: {}", shown())
                })?;
                must(!started || after <= limit, || format!("a call was started beyond it: {}", shown()))?;
            }
            CostMode::After => must(!started || before < limit, || {
                format!("a call was started after it was used up: {}", shown())
            })?,
        }
    }
    Ok(())
}

fn taken(step: &Transition<'_>) -> Vec<LimitUsage> {
    let limits = &step.after.spec().limits;
    let (mut tokens_beyond, mut cost_beyond) = (0_u64, 0_u64);
    for (key, usage, cost) in charges(step) {
        let reserve = reserve_of(step.before, key);
        let reserved = reserve.input_tokens.saturating_add(reserve.output_tokens);
        tokens_beyond = tokens_beyond.saturating_add(usage.total().saturating_sub(reserved));
        let beyond = cost.unwrap_or_default().0.saturating_sub(reserve.cost.unwrap_or_default().0);
        cost_beyond = cost_beyond.saturating_add(beyond);
    }
    for (lease, used) in lease_charges(step) {
        let tokens = used.usage.total().saturating_sub(lease.tokens.unwrap_or_default());
        tokens_beyond = tokens_beyond.saturating_add(tokens);
        let cost = used.cost.known.0.saturating_sub(lease.cost.unwrap_or_default().0);
        cost_beyond = cost_beyond.saturating_add(cost);
    }
    let of_tokens = limits.tokens.map(|limit| LimitUsage {
        name: "tokens",
        limit,
        before: tokens(step.before),
        after: tokens(step.after),
        overshoot: tokens_beyond,
    });
    let of_cost = limits.cost.map(|PicoUsd(limit)| LimitUsage {
        name: "cost in pico-dollars",
        limit,
        before: cost(step.before),
        after: cost(step.after),
        overshoot: cost_beyond,
    });
    of_tokens.into_iter().chain(of_cost).collect()
}

fn tokens(run: &Run) -> u64 {
    let reserved = run.reserved();
    let in_flight = reserved.input_tokens.saturating_add(reserved.output_tokens);
    run.totals().usage.total().saturating_add(in_flight)
}

fn cost(run: &Run) -> u64 {
    run.totals().cost.known.plus(run.reserved().cost.unwrap_or_default()).0
}

/// The reserve of the call in flight, or of the sub-call under this key.
fn reserve_of(run: &Run, key: CommandKey) -> Reserve {
    if has_sub_call(key) {
        return run.sub_call_reserve(&key);
    }
    call(run).and_then(|call| call.started).map_or_else(Reserve::default, |it| it.reserve)
}

/// The charges of a step: the key, the tokens, the cost.
fn charges(step: &Transition<'_>) -> impl Iterator<Item = (CommandKey, Usage, Option<PicoUsd>)> {
    step.notes.iter().filter_map(|note| match note {
        Note::CallCharged { key, usage, cost, .. } => Some((*key, *usage, *cost)),
        _ => None,
    })
}

/// The leases that a step charges, each with its charge.
fn lease_charges<'a>(step: &'a Transition<'_>) -> impl Iterator<Item = (Lease, &'a ChildUse)> {
    step.notes.iter().filter_map(|note| {
        let Note::LeaseCharged { key, used } = note else { return None };
        let lease = work(step.before).iter().find(|work| work.key == *key)?.lease.as_deref()?;
        Some((*lease, &**used))
    })
}

/// A step adds to the cost what its notes charge, and every call that settles is charged once.
pub(super) fn is_the_sum_of_the_charges(step: &Transition<'_>, _: &Past) -> Checked {
    let (mut usage, mut cost) = (step.before.totals().usage, step.before.totals().cost);
    let (mut sub_calls, mut calls) = (0, 0);
    for (key, used, charged) in charges(step) {
        usage = usage.plus(&used);
        cost.add(charged);
        if has_sub_call(key) {
            sub_calls += 1;
        } else {
            calls += 1;
        }
    }
    let mut by_children = 0;
    for (_, used) in lease_charges(step) {
        usage = usage.plus(&used.usage);
        cost.known = cost.known.plus(used.cost.known);
        cost.unknown_calls += used.cost.unknown_calls;
        by_children += used.model_calls;
    }
    let totals = step.after.totals();
    must((usage, cost) == (totals.usage, totals.cost), || {
        format!("the totals are {totals:?}, the charges give {usage:?} and {cost}")
    })?;
    let started = u32::from(matches!(step.event.kind, EventKind::CallStarted { .. }));
    // A request that its provider refused for its form is not a call.
    let left_out = |run: &Run| run.left_out().len() as u32;
    let taken_back = left_out(step.after).saturating_sub(left_out(step.before));
    must(
        totals.model_calls + taken_back
            == step.before.totals().model_calls + started + sub_calls + by_children,
        || "a model call was counted that was neither announced nor charged".to_owned(),
    )?;
    let open = |run: &Run| call(run).filter(|it| it.started.is_some()).map(|it| (it.key, it.attempt));
    let settled = open(step.before).is_some() && open(step.before) != open(step.after);
    must(calls == u32::from(settled), || {
        format!("{calls} calls were charged, while {:?} was in flight", open(step.before))
    })
}
