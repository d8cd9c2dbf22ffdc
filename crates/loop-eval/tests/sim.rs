//! Simulations of the core from seeds.

use std::io::Write as _;
use std::time::Instant;

use loop_eval::sim::{Choices, Mode, SimPlan, SimWorld, simulate, simulate_choices};

#[test]
fn every_invariant_holds_on_the_first_seeds() {
    // I-1 to I-13, I-15, I-18 to I-21, I-25 to I-28, U5, U7, H1, H7: each is a check after each event.
    // S4-62: "Set hard limits for steps, tool calls, wall-clock time, retries, and cost.": each run stays within its plan.
    // `LOOPGATE_SIM_CORE=1000000` simulates as many as `cargo xtask sim --full`, and prints their time.
    let named = std::env::var("LOOPGATE_SIM_CORE").ok().and_then(|seeds| seeds.parse().ok());
    let (seeds, began) = (named.unwrap_or(6_000_u64), Instant::now());
    let tally = simulate(0, seeds).unwrap_or_else(|(seed, it)| panic!("seed {seed}: {:?}", it.fault));
    if named.is_some() {
        writeln!(std::io::stderr(), "{tally:?} in {:?}", began.elapsed()).unwrap();
    }
    assert_eq!((tally.runs, tally.replayed), (seeds, seeds.div_ceil(16)));
    assert!(tally.reasons.len() >= 20, "{:?}", tally.reasons);
    assert!(tally.rejected > 1_000, "{}", tally.rejected);
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

#[cfg(feature = "planted-bugs")]
#[test]
fn a_planted_bug_is_found_and_shrunk() {
    use loop_core::Planted;
    use loop_eval::sim::shrink;
    for bug in [
        Planted::EvidenceByCompletion,
        Planted::StopNowWaits,
        Planted::TaintDropped,
        Planted::SharedRestAddsUp,
        Planted::OneApprovalIsEnough,
    ] {
        Planted::choose(Some(bug));
        let (seed, simulated) = simulate(0, 2_000).unwrap_err();
        let shrunk = shrink(seed).unwrap();
        assert!(shrunk.simulated.journal.len() <= simulated.journal.len());
        assert_eq!(Some(&shrunk.fault.check), simulated.fault.as_ref().map(|fault| &fault.check));
        assert!(shrunk.to_string().contains("started"), "{shrunk}");
        Planted::choose(None);
        assert!(simulate(seed, seed + 1).is_ok(), "the bug did it");
    }
}
