//! Fleets: what is shared is never used more than there is, each run that arrives ends once, and what saturates is named.

use std::sync::Arc;

use loop_eval::sim::{Assumptions, Fleet, FleetFigures, FleetPlan, FleetReport, FleetResource};
use loop_prompts::Prompts;

use crate::sim::desk;

const HOUR_MS: u64 = 3_600_000;

/// Everything that is shared is there in plenty.
const PLENTY: FleetPlan = FleetPlan {
    arrivals_an_hour: 300,
    hours: 1,
    workers: 4,
    places: 100,
    requests_a_minute: None,
    tokens_a_minute: None,
    slow_percent: 0,
    slow_times: 1,
    deaths_a_day: 0,
    lease_ms: 30_000,
};

/// Each model call takes 8 to 12 seconds and never fails, and one call is all that a run of `calls = 0` needs.
fn simulated(plan: FleetPlan, seed: u64) -> FleetFigures {
    let mut assumed = Assumptions::default();
    for (name, value) in [("done", "100"), ("refuses", "0"), ("model_fails", "0"), ("no_contract", "0")] {
        assumed.change(name, value).unwrap();
    }
    let fleet = Fleet::new(&Arc::new(Prompts::builtin()), None, assumed);
    fleet.simulate(&Arc::new(desk()), &plan, seed).unwrap_or_else(|(seed, fault)| panic!("{seed}: {fault:?}"))
}

#[test]
fn with_plenty_of_everything_nothing_waits() {
    let figures = simulated(PLENTY, 1);
    // About 300 arrive: a Poisson variable is within 4 standard deviations of its mean.
    assert!((230..370).contains(&figures.runs), "{figures:?}");
    assert_eq!((figures.waited_ms.max, figures.limited_ms.max, figures.backlog), (0, 0, 0));
    assert_eq!((figures.rate_limited, figures.deaths, figures.taken_over), (0, 0, 0));
    assert_eq!(figures.answered, figures.runs);
    assert!(figures.keeps_up() && figures.saturated().is_none());
    assert!(figures.took_ms.max < 5 * 60_000, "{figures:?}");
    assert_eq!(figures, simulated(PLENTY, 1), "the same seed gives the same figures");
    assert_ne!(figures.runs, simulated(PLENTY, 2).runs);
}

#[test]
fn places_are_used_as_long_as_runs_take() {
    // Little's law: runs under way on average = arrivals a time × time of a run. Here nothing waits.
    let figures = simulated(FleetPlan { places: 5, workers: 1, arrivals_an_hour: 300, ..PLENTY }, 3);
    let place = figures.used.iter().find(|used| used.resource == FleetResource::Places).unwrap();
    let least = figures.runs * 4_000 * 100 / (5 * HOUR_MS);
    assert!(u64::from(place.percent) >= least, "{figures:?}");
    assert!(place.percent <= 100, "{figures:?}");
}

#[test]
fn another_number_of_workers_meets_the_same_arrivals_and_one_place_falls_behind() {
    let one = simulated(FleetPlan { workers: 1, places: 1, ..PLENTY }, 5);
    let many = simulated(PLENTY, 5);
    assert_eq!(one.runs, many.runs);
    assert_eq!(one.saturated(), Some(FleetResource::Places));
    assert!(!one.keeps_up() && one.backlog > 50, "{one:?}");
    assert!(one.ended_in_time + one.backlog <= one.runs);
    // A run calls models for at least 4 s: no more can end in an hour on one place.
    assert!(one.ended_in_time <= HOUR_MS / 4_000, "{one:?}");
    assert!(one.waited_ms.p50 > many.waited_ms.max);
    assert!(one.took_ms.p50 > one.waited_ms.p50);
}

#[test]
fn no_more_is_sent_in_an_hour_than_the_provider_takes() {
    let few = simulated(FleetPlan { requests_a_minute: Some(4), ..PLENTY }, 7);
    assert_eq!(few.saturated(), Some(FleetResource::Requests));
    assert!(few.limited_ms.p95 > 10_000 && few.rate_limited > 0, "{few:?}");
    let small = simulated(FleetPlan { tokens_a_minute: Some(2_000), ..PLENTY }, 7);
    assert_eq!(small.saturated(), Some(FleetResource::Tokens));
    let wide = simulated(
        FleetPlan { requests_a_minute: Some(4_000), tokens_a_minute: Some(100_000_000), ..PLENTY },
        7,
    );
    assert_eq!((wide.rate_limited, wide.limited_ms.max), (0, 0));
    let plain = simulated(PLENTY, 7);
    assert_eq!((wide.took_ms, wide.cost_pico_usd), (plain.took_ms, plain.cost_pico_usd));
}

#[test]
fn runs_of_workers_that_die_end_once_each() {
    let often = simulated(FleetPlan { deaths_a_day: 500, workers: 2, places: 10, ..PLENTY }, 11);
    assert!(often.deaths > 10 && often.taken_over > 0, "{often:?}");
    let calm = simulated(FleetPlan { workers: 2, places: 10, ..PLENTY }, 11);
    assert_eq!(often.runs, calm.runs);
    assert!(often.took_ms.p95 > calm.took_ms.p95);
    // A call that was under way is made again, and was paid.
    assert!(often.model_calls > calm.model_calls);
    assert!(often.total_cost_pico_usd > calm.total_cost_pico_usd);
}

#[test]
fn slow_calls_are_felt() {
    let slow = simulated(FleetPlan { slow_percent: 20, slow_times: 3, ..PLENTY }, 13);
    let usual = simulated(PLENTY, 13);
    assert!(slow.took_ms.p95 > usual.took_ms.p95 * 3 / 2, "{slow:?}\n{usual:?}");
}

#[test]
fn the_schema_is_that_of_the_type() {
    let file = "../../docs/schema/fleet.schema.json";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = serde_json::to_string_pretty(&schemars::schema_for!(FleetReport)).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{file} is old: run this test with UPDATE_SCHEMA=1");
}
