//! The budget that runs share: what it refuses, what is cut to its rest, and how a run ends by it.

use crate::common::usd;
use loop_testkit::*;

use loop_core::gate::Measure;
use loop_core::run::{PromptSize, Refusal};
use loop_core::spec::CostMode;
use loop_core::types::{PicoUsd, StopClass, Tier};
use loop_core::{EventKind, Note, Rejected, StopReason};

/// 1,000 input tokens by the estimate: 10^8 pico-dollars, and 256 output tokens another 1.024 × 10^8.
const PROMPT_1: PromptSize = PROMPT;
const INPUT: u64 = 100_000_000;
const OUTPUT_TOKEN: u64 = 400_000;
/// What a final pass with the same input may cost.
const FINAL_PASS: u64 = INPUT + 1_500 * OUTPUT_TOKEN;

/// A prompt that the base model cannot answer within twice the cost of a final pass.
const DEAR: PromptSize = PromptSize { bytes: 20_000, shared_bytes: 0 };

fn one_tier() -> Setup {
    run().with(|spec| spec.models.selector = None)
}

/// The shared budget leaves this much for the call that is commanded.
fn refusal(world: &World, left: u64) -> EventKind {
    refusal_of(world, PROMPT_1, left)
}

fn refusal_of(world: &World, prompt: PromptSize, left: u64) -> EventKind {
    let call = world.call();
    EventKind::CallRefused {
        key: call.key,
        attempt: call.attempt,
        prompt_bytes: prompt.bytes,
        shared_bytes: prompt.shared_bytes,
        refusal: Refusal::SharedBudget { left: PicoUsd(left) },
    }
}

fn refused(world: World, left: u64) -> World {
    refused_with(world, PROMPT_1, left)
}

fn refused_with(mut world: World, prompt: PromptSize, left: u64) -> World {
    let kind = refusal_of(&world, prompt, left);
    world.apply(kind);
    world
}

#[test]
fn a_call_is_cut_to_what_the_shared_budget_leaves() {
    // I-1: with the whole reserve of the final pass held back.
    let world = refused(one_tier().start(), FINAL_PASS + INPUT + 300 * OUTPUT_TOKEN).expect_call("1/main", 1);
    let quote = world.run.quote(&key("1/main"), PROMPT_1).unwrap();
    assert_eq!((quote.max_output_tokens, quote.reserve.cost), (300, usd(INPUT + 300 * OUTPUT_TOKEN)));
    assert_eq!(world.run.final_pass_reserve(&key("1/main"), &quote), PicoUsd(FINAL_PASS));
    let world = world.started_with(PROMPT_1).answered(&draft("high"));
    world.ends(StopReason::Confident);
}

#[test]
fn what_is_left_of_the_shared_budget_pays_for_the_final_pass() {
    // S0-45, S0-51: not even 256 output tokens are left, and the final pass is.
    let world = refused(one_tier().start(), FINAL_PASS + INPUT).expect_call("1/final", 1);
    let quote = world.run.quote(&key("1/final"), PROMPT_1).unwrap();
    assert_eq!(world.run.final_pass_reserve(&key("1/final"), &quote), PicoUsd(0));
    assert!(quote.reserve.cost <= usd(FINAL_PASS + INPUT));
    let world = world.started_with(PROMPT_1).answered(&draft("low"));
    let world = world.ends(StopReason::SharedBudgetExceeded);
    let stop = &world.outcome().stop;
    assert_eq!((stop.class, stop.class.exit_code()), (StopClass::Partial, 3));
    let (needs, held) = (PicoUsd(INPUT + 256 * OUTPUT_TOKEN), PicoUsd(FINAL_PASS));
    assert_eq!(stop.primary.value, Measure::NextCost { spent: PicoUsd(0), needs, held });
    assert_eq!(stop.primary.threshold, usd(FINAL_PASS + INPUT).map(Measure::PicoUsd));
    assert_eq!(stop.primary.change, None, "a setting of the run does not help");
    assert!(world.run.passes()[0].final_pass);
}

#[test]
fn a_run_that_gets_nothing_of_the_shared_budget_ends_at_once() {
    let world = refused(one_tier().start(), 0).expect_call("1/final", 1);
    let world = world.started_with(PROMPT_1).ends(StopReason::SharedBudgetExceeded);
    assert_eq!(world.reasons(), [StopReason::SharedBudgetExceeded]);
    assert_eq!((world.outcome().totals.model_calls, world.outcome().passes.len()), (0, 0));
    let refusals = world.all_notes().filter(|note| matches!(note, Note::CallRefused { .. })).count();
    assert_eq!(refusals, 2, "the pass and the final pass");
}

#[test]
fn the_shared_budget_is_covered_before_each_call_in_every_mode() {
    // I-3 is the run's own limit: what other runs reserved is theirs.
    for mode in [CostMode::Strict, CostMode::Estimated, CostMode::After] {
        let setup = one_tier().limits(|limits| limits.cost_mode = mode);
        let world = refused(setup.start(), INPUT).expect_call("1/final", 1);
        let quote = world.run.quote(&key("1/final"), PROMPT_1);
        assert_eq!(quote, Err(Refusal::SharedBudget { left: PicoUsd(INPUT) }), "{mode:?}");
    }
}

#[test]
fn a_refusal_counts_only_for_a_call_that_costs_more_than_is_left() {
    // I-8: each refusal leaves the run less, so that it ends.
    let world = one_tier().start();
    let quote = world.run.quote(&key("1/main"), PROMPT_1).unwrap();
    let enough = refusal(&world, quote.reserve.cost.unwrap().0 + FINAL_PASS);
    let mut world = world.rejects(enough.clone());
    assert!(matches!(world.try_apply(enough), Err(Rejected::OtherQuote { .. })));
    let world = refused(world, FINAL_PASS + INPUT + 300 * OUTPUT_TOKEN);
    let world = refused(world, FINAL_PASS + INPUT / 10).expect_call("1/final", 1);
    assert_eq!(world.run.shared_limit(), Some(PicoUsd(FINAL_PASS + INPUT / 10)));
}

#[test]
fn the_tier_that_the_shared_budget_refuses_says_nothing_of_the_own_limit() {
    // I-10: the own limit refuses the base model and covers the cheaper one, which the shared budget then refuses.
    let own = FINAL_PASS * 2;
    let setup = run().with(|spec| spec.gate.cheaper_tier = true).limits(|limits| {
        limits.cost_mode = CostMode::Strict;
        limits.cost = usd(own);
    });
    let world = setup.start();
    let quote = world.run.quote(&key("1/main"), DEAR).unwrap();
    assert_eq!(quote.tier, Tier::Selector);
    let world = refused_with(world, DEAR, 1).started_with(DEAR).ends(StopReason::BudgetExceeded);
    let condition = world.outcome().stop.primary.clone();
    let Measure::NextCost { spent, needs, held } = condition.value else { panic!("{condition:?}") };
    assert!(spent.plus(needs).plus(held) > PicoUsd(own), "{condition:?}");
    let change = condition.change.unwrap();
    assert!(matches!(change.to, Measure::PicoUsd(to) if to > PicoUsd(own)), "{change}");
}

#[test]
fn a_later_driver_asks_the_shared_budget_anew() {
    let mut world = refused(one_tier().start(), FINAL_PASS + INPUT + 300 * OUTPUT_TOKEN);
    assert!(world.run.shared_limit().is_some());
    world.apply(EventKind::Resumed { away_ms: 0, by: None });
    assert_eq!(world.run.shared_limit(), None);
    assert_eq!(world.run.quote(&key("1/main"), PROMPT_1).unwrap().max_output_tokens, 4_096);
    // So does a fork.
    let world = refused(one_tier().start(), FINAL_PASS + INPUT + 300 * OUTPUT_TOKEN);
    assert_eq!(world.forked(2).unwrap().run.shared_limit(), None);
}
