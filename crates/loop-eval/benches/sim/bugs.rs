//! Planted bugs: each must be found.

use std::time::Instant;

use loop_core::Planted;
use loop_eval::sim::{Fault, shrink, simulate};

use crate::arguments::Arguments;
use crate::cores::show;
use crate::driver::bugs::Bug;
use crate::{driver, drivers};

/// How many seeds are tried for a bug of the core, and for one around the driver.
const SEEDS: u64 = 1_000_000;
const DRIVER_SEEDS: u64 = 10_000;

/// Finds the bug with this number, from 1, or each of them. Prints the seed that found it, its check and the seconds.
pub(crate) fn find(number: Option<usize>, arguments: &Arguments) -> bool {
    let (mut tried, mut found) = (0, 0);
    let is_meant = |n: usize| number.is_none_or(|number| number == n);
    for (n, bug) in (1..).zip(Planted::ALL).filter(|(n, _)| is_meant(*n)) {
        tried += 1;
        found += u32::from(of_core(n, bug, number.is_some(), arguments));
    }
    for (n, bug) in (1 + Planted::ALL.len()..).zip(Bug::ALL).filter(|(n, _)| is_meant(*n)) {
        tried += 1;
        found += u32::from(of_driver(n, bug, number.is_some(), arguments));
    }
    println!("planted bugs: {found} of {tried} found");
    tried > 0 && found == tried
}

fn of_core(n: usize, bug: Planted, is_alone: bool, arguments: &Arguments) -> bool {
    Planted::choose(Some(bug));
    let start = Instant::now();
    let (from, to) = arguments.seed.map_or((0, SEEDS), |seed| (seed, seed + 1));
    let result = simulate(from, to);
    let took = start.elapsed().as_secs_f64();
    let is_found = match &result {
        Err((seed, simulated)) => {
            let events = shrink(*seed).map_or(simulated.journal.len(), |it| it.simulated.journal.len());
            report(n, bug.what(), took, *seed, simulated.fault.as_ref(), Some(events));
            if is_alone {
                show(*seed, &format!(" --bug {n}"));
            }
            true
        }
        Ok(tally) => {
            println!("bug {n:>2} NOT FOUND in {} runs, {took:.1} s: {}", tally.runs, bug.what());
            false
        }
    };
    Planted::choose(None);
    is_found
}

fn of_driver(n: usize, bug: Bug, is_alone: bool, arguments: &Arguments) -> bool {
    let start = Instant::now();
    let (from, to) = arguments.seed.map_or((0, DRIVER_SEEDS), |seed| (seed, seed + 1));
    let found = (from..to).find_map(|seed| driver::one(seed, Some(bug)).fault.map(|fault| (seed, fault)));
    let took = start.elapsed().as_secs_f64();
    match &found {
        Some((seed, fault)) => {
            report(n, bug.what(), took, *seed, Some(fault), None);
            if is_alone {
                drivers::show(*seed, Some(bug));
                println!("again: cargo xtask sim --seed {seed} --bug {n}");
            }
        }
        None => {
            println!("bug {n:>2} NOT FOUND in {} runs of the driver, {took:.1} s: {}", to - from, bug.what())
        }
    }
    found.is_some()
}

fn report(n: usize, what: &str, took: f64, seed: u64, fault: Option<&Fault>, events: Option<usize>) {
    let check = fault.map_or("", |fault| fault.check);
    let events = events.map(|events| format!(", {events} events")).unwrap_or_default();
    println!("bug {n:>2} found in {took:>4.1} s by seed {seed}{events}: {what} [{check}]");
}
