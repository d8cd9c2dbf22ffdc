//! Simulations of the driver: a share of what `cargo xtask sim` simulates, in the test profile.

use crate::driver::bugs::Bug;
use crate::driver::{Tally, one, shrink};

/// Seeds of a test run.
const SEEDS: u64 = 150;
/// Seeds in which a bug is searched for.
const MAX_SEEDS: u64 = 400;

fn simulated(from: u64, to: u64) -> Tally {
    let mut all = Tally::default();
    for seed in from..to {
        let driven = one(seed, None);
        assert!(driven.fault.is_none(), "cargo xtask sim --driver {seed}..{}: {:?}", seed + 1, driven.fault);
        all.add(&driven.tally);
    }
    all
}

#[test]
fn every_invariant_holds_on_the_first_seeds_of_the_driver() {
    // I-6, I-11 to I-14, I-25, and each invariant of the core on each entry; L22 and U4 with shared budgets and two people.
    let tally = simulated(0, SEEDS);
    assert_eq!((tally.runs, tally.prefixes > SEEDS / 8), (SEEDS, true), "{tally:?}");
    assert!(tally.deaths > SEEDS / 2 && tally.dispatches > SEEDS && tally.shared > SEEDS / 4, "{tally:?}");
}

#[test]
fn a_seed_of_the_driver_gives_the_same_run_again() {
    // H1: what happens is drawn from the seed alone, so a failing seed is one that can be shown again.
    for seed in 0..8 {
        let (first, again) = (one(seed, None), one(seed, None));
        assert_eq!(first.choices, again.choices, "seed {seed}");
        assert_eq!(first.tally, again.tally, "seed {seed}");
    }
}

#[test]
fn every_bug_around_the_driver_is_found_and_one_is_shrunk() {
    for bug in Bug::ALL {
        let found = (0..MAX_SEEDS).find(|seed| one(*seed, Some(bug)).fault.is_some());
        assert!(found.is_some(), "not found in {MAX_SEEDS} seeds: {}", bug.what());
    }
    let bug = Bug::DispatchedTwice;
    let seed = (0..MAX_SEEDS).find(|seed| one(*seed, Some(bug)).fault.is_some()).unwrap();
    let shrunk = shrink(seed, Some(bug), 100).unwrap();
    let shown = shrunk.to_string();
    assert!(shrunk.driven.happened.len() <= shrunk.from_events, "{shown}");
    assert!(shown.contains(shrunk.fault.check) && shown.contains("\"started\""), "{shown}");
    assert!(shrink(seed, None, 1).is_none(), "the bug did it");
}
