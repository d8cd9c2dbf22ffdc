//! Checks of cost and tokens: charges equal what was reported, and reserves equal what is in flight.

use loop_core::invariants::Transition;
use loop_core::run::Reserve;
use loop_core::spec::{CostMode, STRICT_BYTES_A_TOKEN};
use loop_core::types::{CommandKey, PicoUsd, Price, Tier};
use loop_core::{EventKind, Note, Run};

use crate::sim::check::{Checked, GhostState, call, check, must, work};

/// Tokens that a strict bound adds to the bytes of a prompt.
const FRAME: u64 = 256;

/// I-21: a reported usage is charged at the model's price, and a sub-call that a tool reports is charged.
pub(crate) fn is_charged(step: &Transition<'_>) -> Checked {
    reported(step)?;
    sub_call(step)
}

fn charge(step: &Transition<'_>, of: CommandKey) -> Option<(loop_core::types::Usage, Option<PicoUsd>)> {
    step.notes.iter().find_map(|note| match note {
        Note::CallCharged { key, usage, cost, .. } if *key == of => Some((*usage, *cost)),
        _ => None,
    })
}

fn reported(step: &Transition<'_>) -> Checked {
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

/// Whether the sub-call of a smart tool or a check is charged.
fn sub_call(step: &Transition<'_>) -> Checked {
    let (key, is_due) = match &step.event.kind {
        EventKind::ToolFinished { key, observation, .. } => {
            let granted = work(step.before).iter().any(|work| work.key == *key && work.sub_call.is_some());
            (key, granted && observation.sub_call.is_some())
        }
        EventKind::Checked { key, used, .. } => {
            (key, check(step.before).is_some_and(|it| it.sub_call.is_some()) && used.is_some())
        }
        _ => return Ok(()),
    };
    must(!is_due || charge(step, *key).is_some(), "I-21 a sub-call is charged", || key.to_string())
}

/// I-1: the rest of a shared budget is the least that it has had since the last resume.
pub(crate) fn shares_what_is_left(run: &Run, ghost: &GhostState) -> Checked {
    let said = run.shared_limit();
    must(said == ghost.shared, "I-1 the rest of a shared budget is not exceeded", || {
        format!("{:?} is left, the run says {said:?}", ghost.shared)
    })
}

/// I-1: in strict mode a reserve covers each byte of the prompt and of the reply as a token, at the highest price.
pub(crate) fn a_strict_reserve_covers(step: &Transition<'_>) -> Checked {
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

/// I-1: the reserve of the run is that of the calls in flight.
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
    let tools = work(run).iter().filter(|work| work.sub_call.is_some()).map(|_| run.auxiliary_tier());
    let opinion = run.spec().gate.second_opinion.map(|it| it.tier);
    let checks = check(run).filter(|it| it.sub_call.is_some()).and(opinion);
    let mut cost = all.cost.unwrap_or_default().0;
    for tier in tools.chain(checks) {
        let one = sub_reserve(run, tier);
        all.input_tokens += one.input_tokens;
        all.output_tokens += one.output_tokens;
        cost += one.cost.unwrap_or_default().0;
    }
    Reserve { cost: Some(PicoUsd(cost)), ..all }
}

fn sub_reserve(run: &Run, tier: Tier) -> Reserve {
    let limits = &run.spec().limits;
    let input_tokens = match limits.cost_mode {
        CostMode::Strict => limits.sub_call_bytes + FRAME,
        CostMode::Estimated | CostMode::After => limits.sub_call_bytes.div_ceil(2),
    };
    let output_tokens = match limits.cost_mode {
        CostMode::Strict => limits.sub_call_tokens * STRICT_BYTES_A_TOKEN,
        CostMode::Estimated | CostMode::After => limits.sub_call_tokens,
    };
    let price = run.spec().model(tier).price.as_ref();
    let cost = price.map(|price| priced(run, price, input_tokens, output_tokens));
    Reserve { input_tokens, output_tokens, cost }
}

fn priced(run: &Run, price: &Price, input: u64, output: u64) -> PicoUsd {
    match run.spec().limits.cost_mode {
        CostMode::Strict => price.ceiling(input, output),
        CostMode::Estimated | CostMode::After => price.fresh(input, output),
    }
}
