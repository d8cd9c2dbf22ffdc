//! What is said of the limits before a run begins, and that it holds.

use loop_core::spec::{CostMode, Limits, Setting};
use loop_core::types::{PicoUsd, Price};
use loop_inspect::Forecast;
use loop_runtime::{
    RunSpec, WorkItem,
    models::ModelSpec,
    spec::{Prompts, SectionSpec},
};

fn forecast(price: Option<Price>, limits: impl FnOnce(&mut Limits)) -> Forecast {
    let model = ModelSpec { price, ..ModelSpec::new("scripted", "m") };
    let mut spec = RunSpec::document("desk", [SectionSpec::new("findings", "Findings")], model);
    limits(&mut spec.limits);
    let item = WorkItem::new("T-1", "ticket", "Disk full", "The disk is full.");
    Forecast::new(&spec, &Prompts::builtin(), &item)
}

fn passes(forecast: &Forecast, setting: Setting) -> Option<u32> {
    forecast.bounds.iter().find(|bound| bound.setting == setting).map(|bound| bound.passes)
}

const DEAR: Price = Price::flat(3_000_000, 15_000_000);

#[test]
fn the_first_limit_that_can_bind_is_named() {
    let by_passes = forecast(None, |_| ());
    assert_eq!(by_passes.first().map(|first| (first.setting, first.passes)), Some((Setting::Passes, 5)));
    let line = "5 passes, no limit of money, 25 tool calls, 12 model calls, 300 s; \
                counting each pass at its most, limits.passes binds first, after 5 passes";
    assert_eq!(by_passes.to_string(), line);
    // W4: that a call may take all the time says nothing of which limit binds.
    let short = forecast(None, |limits| limits.wall_ms = 1_000);
    assert_eq!((short.first(), passes(&short, Setting::WallMs)), (by_passes.first(), None));
    let by_money = forecast(Some(DEAR), |limits| limits.cost = Some(PicoUsd(PicoUsd::PER_USD / 20)));
    assert_eq!(by_money.first().map(|first| first.setting), Some(Setting::Cost));
    assert!(by_money.to_string().contains("$0.050000 (estimated)"), "{by_money}");
}

#[test]
fn more_of_a_limit_leaves_room_for_more_passes_and_strict_for_fewer() {
    let by_cost = |usd_cents: u64, mode| {
        let limited = forecast(Some(DEAR), |limits| {
            limits.cost = Some(PicoUsd(usd_cents * PicoUsd::PER_USD / 100));
            limits.cost_mode = mode;
        });
        passes(&limited, Setting::Cost).unwrap()
    };
    let rising: Vec<u32> = [1, 10, 40, 200].map(|cents| by_cost(cents, CostMode::Estimated)).into();
    assert!(rising.is_sorted() && rising.first() == Some(&0) && rising.last() == Some(&5), "{rising:?}");
    assert!(by_cost(40, CostMode::Strict) < by_cost(40, CostMode::Estimated));
    let by_tokens = |tokens| {
        let limited = forecast(None, |limits| limits.tokens = Some(tokens));
        passes(&limited, Setting::Tokens).unwrap()
    };
    assert!(by_tokens(4_000) == 0 && by_tokens(1_000_000) == 5);
}

#[test]
fn a_limit_of_nothing_and_a_model_for_nothing_are_told_as_they_are() {
    let little = forecast(None, |limits| (limits.passes, limits.wall_ms) = (1, 1));
    assert!(little.to_string().starts_with("1 pass, "), "{little}");
    assert!(little.to_string().contains(", 0.001 s; "), "{little}");
    let nothing = forecast(None, |limits| limits.passes = 0);
    assert!(
        nothing
            .to_string()
            .ends_with("counting each pass at its most, limits.passes binds first, before a whole pass"),
        "{nothing}"
    );
    let free = Price::flat(0, 0);
    assert_eq!(passes(&forecast(Some(free), |_| ()), Setting::Cost), None, "money binds nothing");
}
