//! What only the tests of the core share: random runs, how many of them, and short names. The rest is in `loop_testkit`.

pub mod noted;
pub mod started;
pub mod walk;

use loop_core::types::{Confidence, PicoUsd, Tier};
use loop_testkit::World;

/// A share of so many random cases of a property, all of them with `LOOPGATE_TESTS=full`, or as many times that as
/// `LOOPGATE_PROPERTIES` says. `cargo xtask test` fixes their seed; `cargo xtask explore` tries many more, and others each
/// time.
#[expect(clippy::disallowed_methods, reason = "how much a test tries is not an input of a run")]
pub fn cases(count: u32) -> proptest::prelude::ProptestConfig {
    let times = std::env::var("LOOPGATE_PROPERTIES").ok().and_then(|times| times.parse::<u32>().ok());
    let cases = times.map_or_else(|| loop_testkit::share(count), |times| count * times);
    proptest::prelude::ProptestConfig::with_cases(cases)
}

/// The tier of the commanded call.
pub fn tier_of(world: &World) -> Tier {
    world.call().tier
}

pub fn usd(pico: u64) -> Option<PicoUsd> {
    Some(PicoUsd(pico))
}

pub fn confidence(world: &World) -> Confidence {
    world.outcome().confidence
}
