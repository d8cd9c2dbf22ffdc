//! Money: every call is on the bill once, in integers, and nothing else is.

use crate::common;

use common::*;

use common::walk::{choices, setups, walked};
use loop_core::{Note, Price, Spend, SubCallUse, Usage};
use proptest::prelude::*;

/// Calls that were announced, and sub-calls that were reported or lost.
fn charges(world: &World) -> Vec<(Usage, Option<loop_core::PicoUsd>)> {
    world
        .all_notes()
        .filter_map(|note| match note {
            Note::CallCharged { usage, cost, .. } => Some((*usage, *cost)),
            _ => None,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_bill_is_the_sum_of_its_charges_and_every_call_is_charged_once(setup in setups(), choices in choices(50)) {
        // S0-119, I-21: retries, picker, sub-calls, failed and lost calls included.
        let world = walked(setup, &choices).autopilot(&said("high"));
        let (mut usage, mut cost) = (Usage::default(), Spend::default());
        for (used, charged) in charges(&world) {
            usage = usage.plus(&used);
            cost.add(charged);
        }
        let totals = world.outcome().totals;
        prop_assert_eq!((totals.usage, totals.cost), (usage, cost));
        prop_assert_eq!(totals.model_calls as usize, charges(&world).len());
        let announced = world.journal.iter().filter(|(event, ..)| event.fact.name() == "call_started").count();
        prop_assert_eq!((totals.model_calls - totals.sub_calls) as usize, announced);
    }

    #[test]
    fn a_price_is_linear_and_never_overflows(input in any::<u64>(), output in any::<u64>(), price in any::<(u64, u64)>()) {
        let price = Price::flat(price.0, price.1);
        let product = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let exact = product(input, price.input).saturating_add(product(output, price.output));
        let cost = price.of(&used(input, output)).0;
        prop_assert_eq!(u128::from(cost), exact.min(u64::MAX.into()));
    }
}

#[test]
fn every_tier_is_charged_at_its_own_price() {
    // S0-119, C28: the picker's and the sub-call's tokens at the picker's price.
    let mut filtered = found("x");
    filtered.sub_call = Some(SubCallUse { answered: true, usage: Some(used(1_000, 10)) });
    let world = run()
        .picker(&[])
        .start()
        .picked(&[("fetch_docs", target("a"))])
        .finished("0/action-0", filtered)
        .replied(&said("high"));
    let costs: Vec<_> = charges(&world).into_iter().map(|(_, cost)| cost).collect();
    let expected = [100 * 10 + 50 * 40, 1_000 * 10 + 10 * 40, 100 * 100_000 + 50 * 400_000];
    assert_eq!(costs, expected.map(usd));
    assert_eq!(world.outcome().totals.cost.total(), usd(expected.iter().sum()));
}

#[test]
fn a_call_whose_usage_is_not_told_is_charged_at_its_reserve() {
    // L3, L21
    let world = run().start().replied(&said("high").using(None));
    let totals = world.outcome().totals;
    assert_eq!(totals.usage, Usage { estimated: true, ..used(1_000, 4_096) });
    assert_eq!(totals.cost.total(), usd(1_000 * 100_000 + 4_096 * 400_000));
}

#[test]
fn a_cost_that_the_provider_reports_is_taken() {
    let mut world = run().start().started();
    let mut reply = said("high").reply();
    reply.cost = usd(77);
    world.tell(loop_core::Fact::ModelReplied { key: key("1/main"), attempt: 1, reply });
    assert_eq!(world.outcome().totals.cost.total(), usd(77));
}

#[test]
fn a_typical_run_of_the_founding_document_costs_what_it_says() {
    // S0-138, S0-139: prices and usage give the order of the founding figures; no figure is built in.
    let flash = Price::flat(250_000, 1_000_000);
    let world = run()
        .with(|spec| {
            spec.models.base = model(Some(flash));
            spec.models.picker = None;
        })
        .picker(&[])
        .start()
        .started()
        .answered(&text("[]").using(Some(used(700, 100))))
        .replied(&said("low").asks("fetch_device", target("a")).using(Some(used(10_000, 500))))
        .all_finished()
        .replied(&said("high").using(Some(used(13_000, 500))));
    assert_eq!(world.outcome().totals.cost.to_string(), "$0.007025");
}
