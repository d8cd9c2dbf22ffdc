//! Money and tokens: what is settled and what is in flight, held against the limits (I-1, I-2, I-3).

use loop_core::gate::Measure;
use loop_core::run::{Phase, Purpose, Refusal, Reserve};
use loop_core::spec::CostMode;
use loop_core::types::{CommandKey, PicoUsd, Price, Slot, Tier};
use loop_core::{EventKind, Note, Run};

use crate::edge::{Edge, call, check, finishes, is_action, work};

/// Output tokens that are reserved for the final pass.
const FINAL_PASS_OUTPUT: u64 = 1_500;
/// Tokens by which a strict bound exceeds the bytes of a prompt.
const FRAME: u64 = 256;

/// A limit and what is taken from it.
struct Headroom {
    name: &'static str,
    limit: u64,
    before: u64,
    after: u64,
    /// What settlements of this step took beyond what was reserved for them.
    overshoot: u64,
    /// What a final pass with the input of the call that was started or granted would take.
    final_pass: Option<u64>,
}

/// The final pass is quoted against all that is left.
pub fn leaves_all_to_the_final_pass(edge: &Edge<'_>) -> Result<(), String> {
    let EventKind::CallRefused { key, refusal: Refusal::Cost | Refusal::Tokens, .. } = &edge.event.kind
    else {
        return Ok(());
    };
    let limits = &edge.after.spec().limits;
    let left = limits.tokens.map(|limit| limit.saturating_sub(tokens(edge.before)));
    for note in edge.notes.iter().filter(|_| key.slot == Slot::Final) {
        let Note::Stopped { certificate } = note else { continue };
        for condition in std::iter::once(&certificate.primary).chain(&certificate.also) {
            let fits = match &condition.value {
                Measure::NextCost { spent, needs, .. } => {
                    limits.cost.is_some_and(|limit| spent.plus(*needs) <= limit)
                }
                Measure::NextTokens { needs, .. } => left.is_some_and(|left| *needs <= left),
                _ => false,
            };
            // The final pass's own cause may be the refusal of the call that it stands for.
            let is_cause = matches!(edge.before.phase(), Phase::Calling { purpose: Purpose::Final { cause }, .. } if cause == condition);
            if fits && !is_cause {
                return Err(format!("the final pass was refused although it fits: {condition:?}"));
            }
        }
    }
    Ok(())
}

/// I-1, I-2, I-3, of money and of tokens: nothing that is started passes a limit, and a settlement passes it only by
/// what it took beyond its reserve.
pub fn holds(edge: &Edge<'_>, honest: bool) -> Result<(), String> {
    let limits = &edge.after.spec().limits;
    for headroom in headrooms(edge) {
        let Headroom { name, limit, before, after, overshoot, final_pass } = headroom;
        let started = matches!(edge.event.kind, EventKind::CallStarted { .. });
        let reported = format!("{name}: {before} -> {after} of {limit}, {overshoot} beyond the reserves");
        match limits.cost_mode {
            CostMode::Strict | CostMode::Estimated => {
                if after > limit.max(before.saturating_add(overshoot)) {
                    return Err(format!("{reported}: a limit was passed"));
                }
                if started && after > limit {
                    return Err(format!("{reported}: a call was started beyond the limit"));
                }
                // The final pass's share is left when another call starts.
                let held = final_pass.map_or(0, |final_pass| final_pass.min(limit / 4));
                if after.saturating_add(held) > limit && final_pass.is_some() {
                    return Err(format!("{reported}: {held} for the final pass were not held back"));
                }
                if limits.cost_mode == CostMode::Strict && honest && after > limit {
                    return Err(format!("{reported}: a strict limit was passed"));
                }
            }
            CostMode::After => {
                if started && before >= limit {
                    return Err(format!("{reported}: a call was started after the money was used up"));
                }
            }
        }
    }
    Ok(())
}

fn headrooms(edge: &Edge<'_>) -> Vec<Headroom> {
    let limits = &edge.after.spec().limits;
    let mut headrooms = Vec::new();
    let (mut more_tokens, mut more_money) = (0_u64, 0_u64);
    for (key, usage, cost) in edge.charges() {
        let reserve = reserve_of(edge.before, key);
        more_tokens += usage.total().saturating_sub(reserve.input_tokens + reserve.output_tokens);
        more_money += cost.unwrap_or_default().0.saturating_sub(reserve.cost.unwrap_or_default().0);
    }
    let finishes = finishes(edge.after);
    let final_pass = match &edge.event.kind {
        EventKind::CallStarted { key, reserve, .. } => {
            Some(reserve.input_tokens).filter(|_| key.slot != Slot::Final && finishes)
        }
        _ => grants(edge)
            .then(|| sub_call(edge.after, CommandKey::new(1, Slot::Action(0))).input_tokens)
            .filter(|_| finishes),
    };
    if let Some(limit) = limits.tokens {
        headrooms.push(Headroom {
            name: "tokens",
            limit,
            before: tokens(edge.before),
            after: tokens(edge.after),
            overshoot: more_tokens,
            final_pass: final_pass.map(|input| input + FINAL_PASS_OUTPUT),
        });
    }
    if let Some(PicoUsd(limit)) = limits.cost {
        let finishes_on = edge.after.spec().model(edge.after.tier()).price.as_ref();
        headrooms.push(Headroom {
            name: "money",
            limit,
            before: money(edge.before),
            after: money(edge.after),
            overshoot: more_money,
            final_pass: final_pass
                .zip(finishes_on)
                .map(|(input, price)| priced(edge.after, price, input, FINAL_PASS_OUTPUT).0),
        });
    }
    headrooms
}

/// What is in flight, added up from the call and the grants that the phase shows.
pub fn reserved(run: &Run) -> Reserve {
    let call = call(run).and_then(|call| call.started).map_or_else(Reserve::default, |it| it.reserve);
    let smart = work(run).iter().filter(|work| work.sub_call.is_some()).map(|work| work.key);
    let checks = check(run).filter(|check| check.sub_call.is_some()).map(|check| check.key);
    smart.chain(checks).map(|key| sub_call(run, key)).fold(call, |all, one| Reserve {
        input_tokens: all.input_tokens + one.input_tokens,
        output_tokens: all.output_tokens + one.output_tokens,
        cost: Some(all.cost.unwrap_or_default().plus(one.cost.unwrap_or_default())),
    })
}

/// What the run says is in flight is what its phase shows.
pub fn is_what_is_in_flight(run: &Run) -> Result<(), String> {
    let (reported, shown) = (run.reserved(), reserved(run));
    let same = (reported.input_tokens, reported.output_tokens) == (shown.input_tokens, shown.output_tokens);
    if same && reported.cost.unwrap_or_default() == shown.cost.unwrap_or_default() {
        return Ok(());
    }
    Err(format!("{reported:?} is said to be in flight, {shown:?} is"))
}

fn tokens(run: &Run) -> u64 {
    let reserved = reserved(run);
    run.totals().usage.total() + reserved.input_tokens + reserved.output_tokens
}

fn money(run: &Run) -> u64 {
    run.totals().cost.known.plus(reserved(run).cost.unwrap_or_default()).0
}

/// What was held for what has settled: the call in flight, or one sub-call.
fn reserve_of(before: &Run, key: CommandKey) -> Reserve {
    if !is_action(key) && key.slot != Slot::Check {
        return call(before).and_then(|call| call.started).map_or_else(Reserve::default, |it| it.reserve);
    }
    sub_call(before, key)
}

/// Whether the event grants a sub-call.
fn grants(edge: &Edge<'_>) -> bool {
    let granted = |run: &Run| -> Vec<_> {
        let smart = work(run).iter().filter(|work| work.sub_call.is_some());
        let checks = check(run).filter(|check| check.sub_call.is_some());
        let checks = checks.map(|check| (check.key, check.attempt));
        smart.map(|work| (work.key, work.attempt)).chain(checks).collect()
    };
    let before = granted(edge.before);
    granted(edge.after).iter().any(|it| !before.contains(it))
}

/// What the sub-call under a key is held to cost.
fn sub_call(run: &Run, key: CommandKey) -> Reserve {
    let limits = &run.spec().limits;
    let input_tokens = match limits.cost_mode {
        CostMode::Strict => limits.sub_call_bytes + FRAME,
        CostMode::Estimated | CostMode::After => limits.sub_call_bytes.div_ceil(2),
    };
    let output_tokens = match limits.cost_mode {
        CostMode::Strict => limits.sub_call_tokens * 6,
        CostMode::Estimated | CostMode::After => limits.sub_call_tokens,
    };
    let opinion = run.spec().gate.second_opinion.filter(|_| key.slot == Slot::Check);
    let price = run.spec().model(opinion.map_or(Tier::Selector, |it| it.tier)).price.as_ref();
    Reserve {
        input_tokens,
        output_tokens,
        cost: price.map(|it| priced(run, it, input_tokens, output_tokens)),
    }
}

fn priced(run: &Run, price: &Price, input: u64, output: u64) -> PicoUsd {
    match run.spec().limits.cost_mode {
        CostMode::Strict => price.ceiling(input, output),
        CostMode::Estimated | CostMode::After => price.fresh(input, output),
    }
}
