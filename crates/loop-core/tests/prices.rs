//! Prices: what a token of each class costs, which threshold re-prices a call, and what the most is.

use crate::common::usd;
use loop_core::run::PromptSize;
use loop_core::spec::CostMode;
use loop_core::types::{ModelFailure, PicoUsd, Price, PriceAbove, Usage};
use loop_testkit::{draft, failure, key, run};
use proptest::prelude::*;

/// A model with all that a price can have: caches of both kinds, and a dearer half above 272,000 tokens.
fn tiered() -> Price {
    Price {
        cache_read: Some(100_000),
        cache_write: Some(2_500_000),
        cache_write_long: Some(5_000_000),
        above: vec![PriceAbove {
            input_tokens: 272_000,
            input: 4_000_000,
            output: 15_000_000,
            cache_read: Some(200_000),
            cache_write: Some(5_000_000),
            cache_write_long: Some(10_000_000),
        }],
        ..Price::flat(2_000_000, 10_000_000)
    }
}

#[test]
fn a_large_input_re_prices_the_whole_call_and_not_what_is_above_the_threshold() {
    // wire WU11
    let usage = Usage { input: 50_000, cache_read: 250_000, output: 1_000, ..Usage::default() };
    assert_eq!(usage.total_input(), 300_000);
    let upper = 50_000 * 4_000_000 + 250_000 * 200_000 + 1_000 * 15_000_000;
    assert_eq!(tiered().of(&usage), PicoUsd(upper));
    // The cached tokens alone decide it: without them the same fresh ones are below.
    let lower = 50_000 * 2_000_000 + 1_000 * 10_000_000;
    assert_eq!(tiered().of(&Usage { cache_read: 0, ..usage }), PicoUsd(lower));
    // At the threshold itself nothing is dearer yet.
    let at = Usage { input: 272_000, ..Usage::default() };
    assert_eq!(tiered().of(&at), PicoUsd(272_000 * 2_000_000));
    assert_eq!(tiered().of(&Usage { input: 272_001, ..at }), PicoUsd(272_001 * 4_000_000));
}

#[test]
fn of_several_thresholds_the_largest_that_was_passed_counts_in_whatever_order_they_stand() {
    let above = |input_tokens, input| PriceAbove {
        input_tokens,
        input,
        output: input,
        cache_read: None,
        cache_write: None,
        cache_write_long: None,
    };
    let rising = Price { above: vec![above(100, 2), above(200, 3)], ..Price::flat(1, 1) };
    let falling = Price { above: vec![above(200, 3), above(100, 2)], ..Price::flat(1, 1) };
    for (input, each) in [(100, 1), (101, 2), (200, 2), (201, 3)] {
        assert_eq!(rising.fresh(input, 0), PicoUsd(input * each));
        assert_eq!(falling.fresh(input, 0), PicoUsd(input * each));
    }
}

#[test]
fn a_long_lived_cache_has_its_own_price_and_else_that_of_the_next_kind() {
    // wire WU17: the same prompt, once with marks of five minutes and once of an hour, at 1.25 and 2 times the input.
    let price = Price {
        cache_write: Some(5_000_000),
        cache_write_long: Some(8_000_000),
        ..Price::flat(4_000_000, 20_000_000)
    };
    let short = Usage { input: 10, cache_write_short: 1_000, ..Usage::default() };
    let long = Usage { input: 10, cache_write_long: 1_000, ..Usage::default() };
    assert_eq!(price.of(&short), PicoUsd(10 * 4_000_000 + 1_000 * 5_000_000));
    assert_eq!(price.of(&long), PicoUsd(10 * 4_000_000 + 1_000 * 2 * 4_000_000));
    let without = Price { cache_write_long: None, ..price };
    assert_eq!(without.of(&long), without.of(&short));
    assert_eq!(Price::flat(4, 20).of(&long), PicoUsd(1_010 * 4));
}

#[test]
fn a_price_without_thresholds_is_written_as_it_always_was_and_an_old_one_is_read() {
    let old = r#"{"input":3,"output":15,"cache_read":1}"#;
    let price: Price = serde_json::from_str(old).unwrap();
    assert_eq!(price, Price { cache_read: Some(1), ..Price::flat(3, 15) });
    assert_eq!(serde_json::to_string(&price).unwrap(), old);
    let written = serde_json::to_string(&tiered()).unwrap();
    assert_eq!(serde_json::from_str::<Price>(&written).unwrap(), tiered());
    assert!(serde_json::from_str::<Price>(r#"{"input":3}"#).is_err(), "no price is not 0");
}

#[test]
fn every_reserve_of_a_large_prompt_is_at_the_price_of_a_large_prompt() {
    // S0-45: money is held back at the price that the call will have, output included.
    for (mode, bytes, expected) in [
        (CostMode::Estimated, 600_000, 300_000 * 4_000_000 + 256 * 15_000_000),
        (CostMode::Estimated, 500_000, 250_000 * 2_000_000 + 256 * 10_000_000),
        (CostMode::Strict, 299_744, 300_000 * 10_000_000 + 6 * 256 * 15_000_000),
    ] {
        let world = run()
            .with(|spec| {
                spec.models.base.price = Some(tiered());
                spec.models.base.context_tokens = 1_000_000;
                spec.models.selector = None;
                spec.limits.output_tokens = 256;
                spec.limits.cost_mode = mode;
                spec.limits.cost = usd(100_000_000_000_000);
            })
            .start();
        let prompt = PromptSize { bytes, shared_bytes: 0 };
        let quote = world.run.quote(&key("1/main"), prompt).unwrap();
        assert_eq!(quote.reserve.cost, usd(expected), "{mode:?} {bytes}");
    }
}

#[test]
fn what_money_leaves_for_output_is_counted_at_the_price_above_the_threshold() {
    // S0-45: a quarter is reserved for the final pass; what is left pays for 1,000 tokens of the dearer kind,
    // six bytes each.
    let input = 300_000 * 10_000_000;
    let left = input + 1_000 * 6 * 15_000_000;
    let world = run()
        .with(|spec| {
            spec.models.base.price = Some(tiered());
            spec.models.base.context_tokens = 1_000_000;
            spec.models.selector = None;
            spec.limits.cost_mode = CostMode::Strict;
            spec.limits.cost = usd(left / 3 * 4);
        })
        .start();
    let quote = world.run.quote(&key("1/main"), PromptSize { bytes: 299_744, shared_bytes: 0 }).unwrap();
    assert_eq!(quote.max_output_tokens, 1_000);
}

fn any_price() -> impl Strategy<Value = Price> {
    let token = 0_u64..20_000_000;
    let cache = || proptest::option::of(0_u64..20_000_000);
    let rates = (token.clone(), token, cache(), cache(), cache());
    let above =
        (0_u64..400_000, rates.clone()).prop_map(|(input_tokens, (input, output, read, write, long))| {
            PriceAbove {
                input_tokens,
                input,
                output,
                cache_read: read,
                cache_write: write,
                cache_write_long: long,
            }
        });
    (rates, proptest::collection::vec(above, 0..4)).prop_map(|((input, output, read, write, long), above)| {
        Price { input, output, cache_read: read, cache_write: write, cache_write_long: long, above }
    })
}

fn any_usage() -> impl Strategy<Value = Usage> {
    let tokens = || 0_u64..200_000;
    (tokens(), tokens(), tokens(), tokens(), tokens(), tokens()).prop_map(
        |(input, cache_read, cache_write_short, cache_write_long, output, reasoning)| Usage {
            input,
            cache_read,
            cache_write_short,
            cache_write_long,
            output,
            reasoning,
            estimated: false,
        },
    )
}

proptest! {
    #![proptest_config(crate::common::cases(256))]

    #[test]
    fn no_usage_of_these_totals_or_smaller_ones_costs_more_than_the_ceiling(
        price in any_price(), usage in any_usage(), more in (0_u64..300_000, 0_u64..300_000),
    ) {
        // C18
        let (input, output) = (usage.total_input() + more.0, usage.total_output() + more.1);
        prop_assert!(price.ceiling(input, output) >= price.of(&usage));
    }

    #[test]
    fn the_dearer_of_two_prices_is_never_below_either(
        one in any_price(), other in any_price(), usage in any_usage(),
    ) {
        let dearer = one.dearer(&other);
        prop_assert!(dearer.of(&usage) >= one.of(&usage).max(other.of(&usage)));
        prop_assert_eq!(one.dearer(&one), one);
    }

    #[test]
    fn a_price_reads_back_as_it_was_written(price in any_price()) {
        let text = serde_json::to_string(&price).unwrap();
        prop_assert_eq!(serde_json::from_str::<Price>(&text).unwrap(), price);
    }
}

#[test]
fn tries_that_cost_something_are_on_the_bill_to_the_last_unit() {
    // wire WU15: one try fails before any output, one breaks off in the middle, one succeeds.
    let cut = Usage { input: 1_001, output: 17, estimated: true, ..Usage::default() };
    let nothing = ModelFailure { usage: Some(Usage::default()), ..failure(true) };
    let broken = ModelFailure { usage: Some(cut), ..failure(true) };
    let prepared = run().with(|spec| {
        spec.models.base.price = Some(tiered());
        spec.limits.cost = None;
    });
    let world = prepared.start().started().failed(nothing).expect_call("1/main", 2);
    let world = world.started().failed(broken).expect_call("1/main", 3);
    let mut answer = draft("high");
    let whole = Usage { input: 999, cache_read: 3, output: 101, ..Usage::default() };
    answer.usage = Some(whole);
    let world = world.replied(&answer);
    let totals = world.run.totals();
    assert_eq!(totals.cost.total(), Some(tiered().of(&cut).plus(tiered().of(&whole))));
    assert_eq!(totals.usage, cut.plus(&whole));
    assert!(totals.usage.estimated);
}
