//! Cost and tokens: charges are what was reported, reserves are what is in flight, and limits hold.

use loop_core::{
    CommandKey, CostMode, EventKind, Note, PicoUsd, Price, Reserve, Run, STRICT_BYTES_A_TOKEN, Slot,
};

use crate::sim::check::{Checked, Ghost, Step, call, must, work};

/// Tokens by which a strict bound exceeds the bytes of a prompt.
const FRAME: u64 = 256;

/// I-21: what an event adds to the cost is what its notes charge, and a reported usage is charged at the model's price.
pub(crate) fn is_charged(step: &Step<'_>) -> Checked {
    let (before, after) = (step.before.totals(), step.after.totals());
    let (mut usage, mut cost, mut sub_calls) = (before.usage, before.cost, 0);
    for note in step.notes {
        let Note::CallCharged { key, usage: used, cost: charged, .. } = note else { continue };
        usage = usage.plus(used);
        cost.add(*charged);
        sub_calls += u32::from(is_action(*key));
    }
    let check = "I-21 the cost is the sum of the charges";
    must((usage, cost) == (after.usage, after.cost), check, || {
        format!("charged are {usage:?} and {cost}, the totals are {after:?}")
    })?;
    let started = u32::from(matches!(step.event.kind, EventKind::CallStarted { .. }));
    must(after.model_calls == before.model_calls + started + sub_calls, check, || {
        format!("{} model calls after {}", after.model_calls, before.model_calls)
    })?;
    let open =
        |run: &Run| call(run).filter(|call| call.started.is_some()).map(|call| (call.key, call.attempt));
    let settled = open(step.before).is_some() && open(step.before) != open(step.after);
    let charged =
        step.notes.iter().filter(|note| matches!(note, Note::CallCharged { key, .. } if !is_action(*key)));
    must(charged.count() == usize::from(settled), check, || "a settled call is charged once".to_owned())?;
    reported(step)?;
    sub_call(step)
}

fn is_action(key: CommandKey) -> bool {
    matches!(key.slot, Slot::Action(_))
}

fn charge(step: &Step<'_>, of: CommandKey) -> Option<(loop_core::Usage, Option<PicoUsd>)> {
    step.notes.iter().find_map(|note| match note {
        Note::CallCharged { key, usage, cost, .. } if *key == of => Some((*usage, *cost)),
        _ => None,
    })
}

fn reported(step: &Step<'_>) -> Checked {
    let EventKind::ModelReplied { key, reply, .. } = &step.event.kind else { return Ok(()) };
    let Some(usage) = reply.usage else { return Ok(()) };
    let Some(started) = call(step.before).and_then(|call| call.started) else { return Ok(()) };
    let price = step.before.spec().model(started.tier).price.as_ref();
    let expected = reply.cost.or(price.map(|price| price.of(&usage)));
    let check = "I-21 a reported usage is charged at the model's price";
    must(charge(step, *key) == Some((usage, expected)), check, || {
        format!("{usage:?} costs {expected:?}, charged is {:?}", charge(step, *key))
    })
}

/// A sub-call that a smart tool reports is charged.
fn sub_call(step: &Step<'_>) -> Checked {
    let EventKind::ToolFinished { key, observation, .. } = &step.event.kind else { return Ok(()) };
    let granted = work(step.before).iter().any(|work| work.key == *key && work.sub_call.is_some());
    let is_due = granted && observation.sub_call.is_some();
    must(!is_due || charge(step, *key).is_some(), "I-21 a sub-call is charged", || key.to_string())
}

/// I-1, I-2, I-3: nothing is started beyond a limit, and a settlement exceeds one only by what it took beyond its
/// reserve.
pub(crate) fn stays_within_limits(step: &Step<'_>) -> Checked {
    let limits = &step.after.spec().limits;
    let (mut more_tokens, mut more_cost) = (0_u64, 0_u64);
    for note in step.notes {
        let Note::CallCharged { key, usage, cost, .. } = note else { continue };
        let reserve = if is_action(*key) { sub_reserve(step.before) } else { call_reserve(step.before) };
        let reserved = reserve.input_tokens.saturating_add(reserve.output_tokens);
        more_tokens = more_tokens.saturating_add(usage.total().saturating_sub(reserved));
        let charged = cost.unwrap_or_default().0;
        more_cost = more_cost.saturating_add(charged.saturating_sub(reserve.cost.unwrap_or_default().0));
    }
    if let Some(limit) = limits.tokens {
        holds(step, "tokens", limit, tokens(step.before), tokens(step.after), more_tokens)?;
    }
    if let Some(PicoUsd(limit)) = limits.cost {
        holds(step, "cost", limit, cost(step.before), cost(step.after), more_cost)?;
    }
    strict_reserve(step)
}

fn holds(step: &Step<'_>, of: &str, limit: u64, before: u64, after: u64, more: u64) -> Checked {
    let started = matches!(step.event.kind, EventKind::CallStarted { .. });
    let what = || format!("{of}: {before} -> {after} of {limit}, {more} beyond the reserves");
    match step.after.spec().limits.cost_mode {
        CostMode::Strict | CostMode::Estimated => {
            let bound = limit.max(before.saturating_add(more));
            must(
                after <= bound,
                "I-1, I-2 a limit is exceeded only by what a call took beyond its reserve",
                what,
            )?;
            must(!started || after <= limit, "I-1, I-2 no call starts beyond a limit", what)
        }
        CostMode::After => {
            must(!started || before < limit, "I-3 no call starts once a limit is used up", what)
        }
    }
}

/// I-1: in every mode, what is started is covered by what the shared budget leaves. A resumed run asks it anew.
pub(crate) fn stays_within_shared(step: &Step<'_>, ghost: &Ghost) -> Checked {
    let check = "I-1 the rest of a shared budget is not exceeded";
    let said = step.after.shared_limit();
    must(said == ghost.shared, check, || format!("{:?} is left, the run says {said:?}", ghost.shared))?;
    let Some(PicoUsd(limit)) = ghost.shared else { return Ok(()) };
    let started = matches!(step.event.kind, EventKind::CallStarted { .. });
    let granted = |run: &Run| work(run).iter().filter(|work| work.sub_call.is_some()).count();
    let more = started || granted(step.after) > granted(step.before);
    let after = cost(step.after);
    must(!more || after <= limit, check, || format!("{} -> {after} of {limit}", cost(step.before)))
}

/// In strict mode a reserve covers each byte of the prompt and of the reply as a token, at the highest price.
fn strict_reserve(step: &Step<'_>) -> Checked {
    let EventKind::CallStarted { tier, prompt_bytes, max_output_tokens, reserve, .. } = &step.event.kind
    else {
        return Ok(());
    };
    let spec = step.after.spec();
    if spec.limits.cost_mode != CostMode::Strict {
        return Ok(());
    }
    let written = max_output_tokens * STRICT_BYTES_A_TOKEN;
    let covers = reserve.input_tokens >= *prompt_bytes && reserve.output_tokens >= written;
    let price = spec.model(*tier).price.as_ref();
    let pays = price
        .is_none_or(|price| reserve.cost.is_some_and(|cost| cost >= price.ceiling(*prompt_bytes, written)));
    must(covers && pays, "I-1 a strict reserve covers the whole prompt", || format!("{reserve:?}"))
}

/// What the run says is reserved is what its phase has in flight.
pub(crate) fn reserves_what_is_in_flight(run: &Run) -> Checked {
    let (said, shown) = (run.reserved(), reserved(run));
    let same = (said.input_tokens, said.output_tokens) == (shown.input_tokens, shown.output_tokens)
        && said.cost.unwrap_or_default() == shown.cost.unwrap_or_default();
    must(same, "I-1 what is in flight is reserved", || {
        format!("{said:?} is reserved, {shown:?} is in flight")
    })
}

fn call_reserve(run: &Run) -> Reserve {
    call(run).and_then(|call| call.started).map_or_else(Reserve::default, |started| started.reserve)
}

fn reserved(run: &Run) -> Reserve {
    let mut all = call_reserve(run);
    let one = sub_reserve(run);
    let mut cost = all.cost.unwrap_or_default().0;
    for _ in work(run).iter().filter(|work| work.sub_call.is_some()) {
        all.input_tokens += one.input_tokens;
        all.output_tokens += one.output_tokens;
        cost += one.cost.unwrap_or_default().0;
    }
    Reserve { cost: Some(PicoUsd(cost)), ..all }
}

fn sub_reserve(run: &Run) -> Reserve {
    let limits = &run.spec().limits;
    let input_tokens = match limits.cost_mode {
        CostMode::Strict => limits.sub_call_bytes + FRAME,
        CostMode::Estimated | CostMode::After => limits.sub_call_bytes.div_ceil(2),
    };
    let output_tokens = match limits.cost_mode {
        CostMode::Strict => limits.sub_call_tokens * STRICT_BYTES_A_TOKEN,
        CostMode::Estimated | CostMode::After => limits.sub_call_tokens,
    };
    let price = run.spec().model(run.auxiliary_tier()).price.as_ref();
    let cost = price.map(|price| priced(run, price, input_tokens, output_tokens));
    Reserve { input_tokens, output_tokens, cost }
}

fn priced(run: &Run, price: &Price, input: u64, output: u64) -> PicoUsd {
    match run.spec().limits.cost_mode {
        CostMode::Strict => price.ceiling(input, output),
        CostMode::Estimated | CostMode::After => price.fresh(input, output),
    }
}

fn tokens(run: &Run) -> u64 {
    let reserved = reserved(run);
    let used = run.totals().usage.total();
    used.saturating_add(reserved.input_tokens).saturating_add(reserved.output_tokens)
}

fn cost(run: &Run) -> u64 {
    run.totals().cost.known.plus(reserved(run).cost.unwrap_or_default()).0
}
