//! Simulations of the core from seeds.

use std::io::Write as _;
use std::ops::Range;
use std::time::Instant;

use loop_eval::sim::{Choices, Mode, SimPlan, SimWorld, shrink, simulate, simulate_choices};

#[test]
fn every_invariant_holds_on_the_first_seeds() {
    // I-1 to I-13, I-15, I-18 to I-21, I-25 to I-28, U5, U7, H1, H7: each is a check after each event.
    // S4-62: "Set hard limits for steps, tool calls, wall-clock time, retries, and cost.": each run stays within its plan.
    // `LOOPGATE_SIM_CORE=0..1000000` simulates these seeds in place of the share, and prints their time.
    let named = named("LOOPGATE_SIM_CORE");
    let (seeds, began) = (named.clone().unwrap_or(0..6_000), Instant::now());
    let tally = simulate(seeds.start, seeds.end).unwrap_or_else(|(seed, it)| match shrink(seed) {
        Some(shrunk) => panic!("{shrunk}"),
        None => panic!("seed {seed}: {:?}", it.fault),
    });
    if named.is_some() {
        return writeln!(std::io::stderr(), "{tally:?} in {:?}", began.elapsed()).unwrap();
    }
    assert_eq!((tally.runs, tally.replayed), (6_000, 6_000_u64.div_ceil(16)));
    assert!(tally.reasons.len() >= 20, "{:?}", tally.reasons);
    assert!(tally.rejected > 1_000, "{}", tally.rejected);
}

/// The seeds `A..B` that a variable names.
pub(crate) fn named(variable: &str) -> Option<Range<u64>> {
    let text = std::env::var(variable).ok()?;
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let world = SimWorld::drawn(&mut Choices::of_seed(3));
    for seed in 0..40 {
        let first = simulate_choices(&world, SimPlan::of(seed), Choices::of_seed(seed));
        let again = simulate_choices(&world, SimPlan::of(seed), Choices::of_seed(seed));
        assert_eq!(first.journal, again.journal);
        // The choices that a seed made are a simulation as well: that is what shrinking changes.
        let listed = simulate_choices(&world, SimPlan::of(seed), Choices::of_list(first.choices.clone()));
        assert_eq!(first.journal, listed.journal);
    }
}

#[test]
fn without_faults_a_run_ends_by_itself() {
    // I-8: the plain choice everywhere.
    for seed in 0..200 {
        let world = SimWorld::drawn(&mut Choices::of_seed(seed));
        let plan = SimPlan { mode: Mode::Liveness, is_whole: true };
        let simulated = simulate_choices(&world, plan, Choices::of_list(Vec::new()));
        assert!(simulated.fault.is_none() && simulated.run.is_done(), "{:?}", simulated.fault);
        assert_eq!(simulated.rejected, 0);
    }
}
