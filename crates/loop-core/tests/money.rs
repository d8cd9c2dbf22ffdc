//! Money: every call is on the cost once, in integers, and nothing else is.

use crate::common::usd;
use loop_testkit::*;

use crate::common::walk::{choices, setups, walked};
use loop_core::Note;
use loop_core::spec::CostMode;
use loop_core::types::{CallExtent, Cost, ModelFailure, Price, Receipt, SubCallUse, Usage};
use proptest::prelude::*;

/// Calls that were announced, and sub-calls that were reported or lost.
fn charges(world: &World) -> Vec<(Usage, Option<loop_core::types::PicoUsd>)> {
    world
        .all_notes()
        .filter_map(|note| match note {
            Note::CallCharged { usage, cost, .. } => Some((*usage, *cost)),
            _ => None,
        })
        .collect()
}

proptest! {
    #![proptest_config(crate::common::cases(300))]

    #[test]
    fn the_bill_is_the_sum_of_its_charges_and_every_call_is_charged_once(setup in setups(), choices in choices(50)) {
        // S0-119, I-21: retries, selector, sub-calls, failed and lost calls included.
        let world = walked(setup, &choices).autopilot(&draft("high"));
        let (mut usage, mut cost) = (Usage::default(), Cost::default());
        for (used, charged) in charges(&world) {
            usage = usage.plus(&used);
            cost.add(charged);
        }
        let totals = world.outcome().totals;
        prop_assert_eq!((totals.usage, totals.cost), (usage, cost));
        prop_assert_eq!(totals.model_calls as usize, charges(&world).len());
        let announced = world.journal.iter().filter(|(event, ..)| event.kind.name() == "call_started").count();
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
    // S0-119, C28: the selector's and the sub-call's tokens at the selector's price.
    let mut filtered = found("x");
    filtered.sub_call = Some(SubCallUse::new(true, Some(used(1_000, 10))).into());
    let world = run()
        .selector(&[])
        .start()
        .selected(&[("fetch_docs", target("a"))])
        .finished("0/action-0", filtered)
        .replied(&draft("high"));
    let costs: Vec<_> = charges(&world).into_iter().map(|(_, cost)| cost).collect();
    let expected = [100 * 10 + 50 * 40, 1_000 * 10 + 10 * 40, 100 * 100_000 + 50 * 400_000];
    assert_eq!(costs, expected.map(usd));
    assert_eq!(world.outcome().totals.cost.total(), usd(expected.iter().sum()));
}

/// What a run is charged for one call that fails like this, and for which the provider reports nothing.
fn charged(mode: CostMode, received: Receipt) -> (Usage, Option<loop_core::types::PicoUsd>) {
    let failed = ModelFailure { usage: None, received, ..failure(false) };
    let world = run().limits(|limits| limits.cost_mode = mode).start().started().failed(failed);
    charges(&world)[0]
}

#[test]
fn a_complete_reply_without_usage_costs_what_came_and_not_its_reserve() {
    // P4, L21 (ADR 31): a short reply is not held to be as long as the longest that was granted.
    let reply = draft("high").using(None);
    let bytes = reply.reply().known_bytes();
    let world = run().start().replied(&reply);
    let totals = world.outcome().totals;
    assert!(bytes < 600, "{bytes}");
    assert_eq!(totals.usage, Usage { estimated: true, ..used(1_000, bytes.div_ceil(3)) });
    assert_eq!(totals.cost.total(), usd(1_000 * 100_000 + bytes.div_ceil(3) * 400_000));
}

#[test]
fn a_reply_without_usage_that_is_longer_than_was_granted_costs_what_came() {
    // P4: reasoning and arguments count as text does, and so does what was dropped of them.
    let world = run().start().started();
    let mut reply = draft("high").using(None).reply();
    reply.reasoning = Some("r".repeat(600_000).into());
    assert!(reply.known_bytes() > 600_000);
    reply.received = Receipt { bytes: 3 << 20, ..Receipt::ended() };
    let mut world = world;
    world.apply(loop_core::EventKind::ModelReplied { key: key("1/main"), attempt: 1, reply: reply.into() });
    assert_eq!(world.outcome().totals.usage, Usage { estimated: true, ..used(1_000, 1 << 20) });
}

#[test]
fn in_strict_mode_only_reported_usage_releases_a_reserve() {
    // P4
    let strict = |bytes| {
        let mut world = run().limits(|limits| limits.cost_mode = CostMode::Strict).start().started();
        let mut reply = draft("high").using(None).reply();
        reply.received.bytes = bytes;
        world.apply(loop_core::EventKind::ModelReplied {
            key: key("1/main"),
            attempt: 1,
            reply: reply.into(),
        });
        world.outcome().totals.usage
    };
    let reserve = 2_000 + 256;
    // T7: a token for each byte that may arrive, and no more where more is said to have come.
    assert_eq!(strict(0), Usage { estimated: true, ..used(reserve, 6 * 4_096) });
    assert_eq!(strict(3 << 20), Usage { estimated: true, ..used(reserve, 6 * 4_096) });
    let refused = Receipt { extent: CallExtent::NoReply, ..Receipt::default() };
    assert_eq!(charged(CostMode::Strict, refused).0, Usage { estimated: true, ..used(reserve, 6 * 4_096) });
}

#[test]
fn a_failed_call_without_usage_costs_by_how_far_it_came() {
    // P4, L3 (ADR 31): no reply costs nothing; what broke off keeps its reserve and never costs less than what came.
    let estimated = |output| Usage { estimated: true, ..used(1_000, output) };
    for (extent, bytes, expected) in [
        (CallExtent::NoReply, 0, Usage { estimated: true, ..used(0, 0) }),
        (CallExtent::Ended, 0, estimated(0)),
        (CallExtent::Ended, 300, estimated(100)),
        (CallExtent::Open, 0, estimated(4_096)),
        (CallExtent::Open, 300, estimated(4_096)),
        (CallExtent::Open, 3 << 20, estimated(1 << 20)),
    ] {
        let (usage, cost) = charged(CostMode::Estimated, Receipt { bytes, extent, ..Receipt::default() });
        assert_eq!(usage, expected, "{extent:?} {bytes}");
        assert_eq!(cost, usd(usage.input * 100_000 + usage.output * 400_000), "{extent:?} {bytes}");
    }
}

#[test]
fn a_count_that_was_reported_before_a_reply_broke_off_is_no_less_than_what_came() {
    // P4: some providers count once at the beginning.
    let begun = ModelFailure {
        usage: Some(used(500, 1)),
        received: Receipt { bytes: 8_000, ..Receipt::default() },
        ..failure(false)
    };
    let world = run().start().started().failed(begun);
    assert_eq!(charges(&world)[0].0, Usage { estimated: true, ..used(500, 1_000) });
    // What came counts as well where the client names the text and no number of bytes.
    let partial = Some("x".repeat(8_000).into());
    let begun = ModelFailure { usage: Some(used(500, 1)), partial, ..failure(false) };
    let world = run().start().started().failed(begun);
    assert_eq!(charges(&world)[0].0, Usage { estimated: true, ..used(500, 1_000) });
}

#[test]
fn what_was_reported_before_the_end_is_the_least_and_not_the_whole() {
    // P4: Gemini counts in every chunk. Where the stream breaks, the last count is of a part.
    let reported = |input, output| Usage { reasoning: 100, ..used(input, output) };
    let charged = |mode, reported| {
        let received = Receipt { bytes: 300, reported, ..Receipt::default() };
        charged(mode, received).0
    };
    let estimated = |input, output| Usage { estimated: true, ..reported(input, output) };
    assert_eq!(charged(CostMode::Estimated, reported(800, 50)), estimated(800, 3_996));
    assert_eq!(charged(CostMode::After, reported(800, 9_000)), estimated(800, 9_000));
    assert_eq!(charged(CostMode::Strict, reported(800, 50)), estimated(2_256, 6 * 4_096 - 100));
    assert_eq!(charged(CostMode::Strict, reported(9_000, 90_000)), estimated(9_000, 90_000));
}

#[test]
fn a_sub_call_without_usage_costs_what_came() {
    // P4: the same for the model behind a tool.
    let charged = |received| {
        let mut filtered = found("x");
        filtered.sub_call =
            Some(Box::new(SubCallUse { answered: true, usage: None, received, served_model: None }));
        let world = run().selector(&[]).start().selected(&[("fetch_docs", target("a"))]);
        charges(&world.finished("0/action-0", filtered))[1].0
    };
    let short = charged(Receipt { bytes: 30, ..Receipt::ended() });
    assert_eq!(short, Usage { estimated: true, ..used(12_000, 10) });
    assert_eq!(charged(Receipt::default()), Usage { estimated: true, ..used(12_000, 512) });
}

#[test]
fn the_model_that_served_a_sub_call_is_kept() {
    // W3
    let mut filtered = found("x");
    let used = SubCallUse::new(true, Some(used(10, 5)));
    filtered.sub_call = Some(Box::new(SubCallUse { served_model: Some("filter-2".into()), ..used }));
    let world =
        run().selector(&[]).start().selected(&[("fetch_docs", target("a"))]).finished("0/action-0", filtered);
    let served: Vec<_> =
        world.run.model_calls().into_iter().map(|call| (call.key.to_string(), call.served_model)).collect();
    assert_eq!(served, [("0/select".into(), None), ("0/action-0".into(), Some("filter-2".into()))]);
}

#[test]
fn a_cost_that_the_provider_reports_is_taken() {
    let mut world = run().start().started();
    let mut reply = draft("high").reply();
    reply.cost = usd(77);
    world.apply(loop_core::EventKind::ModelReplied { key: key("1/main"), attempt: 1, reply: reply.into() });
    assert_eq!(world.outcome().totals.cost.total(), usd(77));
}

#[test]
fn a_typical_run_of_the_founding_document_costs_what_it_says() {
    // S0-138, S0-139: prices and usage give the order of the founding figures; no figure is built in.
    let flash = Price::flat(250_000, 1_000_000);
    let world = run()
        .with(|spec| {
            spec.models.base = model(Some(flash));
            spec.models.selector = None;
        })
        .selector(&[])
        .start()
        .started()
        .answered(&text("[]").using(Some(used(700, 100))))
        .replied(&draft("low").asks("fetch_device", target("a")).using(Some(used(10_000, 500))))
        .all_finished()
        .replied(&draft("high").using(Some(used(13_000, 500))));
    assert_eq!(world.outcome().totals.cost.to_string(), "$0.007025");
}
