//! Simulations of the core: whole runs in which everything is drawn from a seed.

use std::io::Write as _;

use loop_testkit::sim::{Choices, FaultMode, HostileWorld, named_seeds, shrink, simulate, simulate_choices};

/// The seeds of a test run.
const SEEDS: u32 = 6_000;

#[test]
fn every_invariant_holds_on_the_first_seeds() {
    // I-1 to I-13, I-15, I-18 to I-21, I-25 to I-28, U5, U7, H1, H7: each is a check after each event.
    // S4-62: "Set hard limits for steps, tool calls, wall-clock time, retries, and cost.": each run stays within its plan.
    // `LOOPGATE_SIM_CORE=0..1000000` simulates these seeds in place of the share, and prints how they ended.
    let named = named_seeds("LOOPGATE_SIM_CORE");
    let share = u64::from(loop_testkit::share(SEEDS).max(1_500));
    let seeds = named.clone().unwrap_or(0..share);
    let tally = simulate(seeds.start, seeds.end).unwrap_or_else(|(seed, it)| match shrink(seed) {
        Some(shrunk) => panic!("{shrunk}"),
        None => panic!("seed {seed}: {:?}", it.fault),
    });
    if named.is_some() {
        return writeln!(std::io::stderr(), "{tally:?}").unwrap();
    }
    assert_eq!((tally.runs, tally.replayed), (share, share.div_ceil(16)));
    assert!(tally.reasons.len() >= 20, "{:?}", tally.reasons);
    assert!(tally.rejected > 1_000, "{}", tally.rejected);
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let world = HostileWorld::drawn(&mut Choices::of_seed(3));
    for seed in 0..40 {
        let mode = FaultMode::of(seed);
        let first = simulate_choices(&world, mode, Choices::of_seed(seed));
        let again = simulate_choices(&world, mode, Choices::of_seed(seed));
        assert_eq!(first.journal, again.journal);
        // The choices that a seed made are a simulation as well: that is what shrinking changes.
        let listed = simulate_choices(&world, mode, Choices::of_list(first.choices.clone()));
        assert_eq!(first.journal, listed.journal);
    }
}

#[test]
fn without_faults_a_run_ends_by_itself() {
    // I-8: the plain choice everywhere.
    for seed in 0..200 {
        let world = HostileWorld::drawn(&mut Choices::of_seed(seed));
        let simulated = simulate_choices(&world, FaultMode::Liveness, Choices::of_list(Vec::new()));
        assert!(simulated.fault.is_none() && simulated.run.is_done(), "{:?}", simulated.fault);
        assert_eq!(simulated.rejected, 0);
    }
}
