//! Simulations of the driver: a share of seeds in the test profile.

mod driver;

use std::io::Write as _;
use std::ops::Range;
use std::time::Instant;

use driver::bugs::Bug;
use driver::{Tally, one, shrink};
use loop_testkit::sim::named_seeds;

/// Seeds of a test run. `LOOPGATE_SIM_DRIVER=0..20000` simulates these seeds in place of the share, and prints their time.
const SEEDS: u64 = 150;
/// Seeds in which a bug is searched for.
const MAX_SEEDS: u64 = 400;
/// How many simulations the shrinking of a failing seed may take.
const TRIES: u32 = 2_000;

fn simulated(seeds: Range<u64>) -> Tally {
    let mut all = Tally::default();
    for seed in seeds {
        let driven = one(seed, None);
        if let Some(fault) = driven.fault {
            match shrink(seed, None, TRIES) {
                Some(shrunk) => panic!("{shrunk}"),
                None => panic!("seed {seed} of the driver: {fault:?}, which depends on more than its seed"),
            }
        }
        all.add(&driven.tally);
    }
    all
}

#[test]
fn every_invariant_holds_on_the_first_seeds_of_the_driver() {
    // I-6, I-11 to I-14, I-25, and each invariant of the core on each entry; shared budgets (I-1, I-21), two people (U4, I-26).
    let named = named_seeds("LOOPGATE_SIM_DRIVER");
    let (seeds, began) = (named.clone().unwrap_or(0..SEEDS), Instant::now());
    let tally = simulated(seeds);
    if named.is_some() {
        return writeln!(std::io::stderr(), "{tally:?} in {:?}", began.elapsed()).unwrap();
    }
    let seeds = SEEDS;
    assert_eq!(tally.runs, seeds, "{tally:?}");
    assert!(tally.entries > 8 * seeds && tally.dispatches > seeds / 2, "{tally:?}");
    assert!([tally.deaths, tally.shared, tally.prefixes].iter().all(|runs| *runs > seeds / 6), "{tally:?}");
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
