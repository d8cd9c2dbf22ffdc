//! Planted bugs: each must be found.

use std::time::Instant;

use loop_core::Planted;
use loop_eval::sim::{shrink, simulate};

use crate::arguments::Arguments;
use crate::cores::show;

/// How many seeds are tried for a bug.
const SEEDS: u64 = 400_000;

/// Finds the bug with this number, from 1, or each of them. Prints the seed that found it, its check and the seconds.
pub(crate) fn find(number: Option<usize>, arguments: &Arguments) -> bool {
    let mut found_all = true;
    for (n, bug) in (1..).zip(Planted::ALL) {
        if number.is_some_and(|number| number != n) {
            continue;
        }
        Planted::choose(Some(bug));
        let start = Instant::now();
        let (from, to) = arguments.seed.map_or((0, SEEDS), |seed| (seed, seed + 1));
        let found = simulate(from, to);
        let took = start.elapsed().as_secs_f64();
        match &found {
            Err((seed, simulated)) => {
                let check = simulated.fault.as_ref().map_or("", |fault| fault.check);
                let events = shrink(*seed).map_or(simulated.journal.len(), |it| it.simulated.journal.len());
                println!(
                    "bug {n:>2} found in {took:>5.1} s by seed {seed:>6}, {events:>2} events: {}; {check}",
                    bug.what()
                );
                if number.is_some() {
                    show(*seed, &format!(" --bug {n}"));
                }
            }
            Ok(tally) => {
                println!("bug {n:>2} NOT FOUND in {} runs, {took:.1} s: {}", tally.runs, bug.what());
                found_all = false;
            }
        }
    }
    Planted::choose(None);
    found_all
}
