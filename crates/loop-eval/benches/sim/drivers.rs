//! Seeds of the driver, on several threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::driver::bugs::Bug;
use crate::driver::{Tally, one, shrink};

/// How many simulations the shrinking of a seed may take.
const TRIES: u32 = 2_000;

/// Simulates these seeds on several threads. Prints what they came to.
pub(crate) fn many(from: u64, to: u64, jobs: u64) -> bool {
    let start = Instant::now();
    let next = AtomicU64::new(from);
    let failed = AtomicBool::new(false);
    let work = || {
        let (mut tally, mut faults) = (Tally::default(), Vec::new());
        while !failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                break;
            }
            let driven = one(seed, None);
            tally.add(&driven.tally);
            if driven.fault.is_some() {
                failed.store(true, Ordering::Relaxed);
                faults.push(seed);
            }
        }
        (tally, faults)
    };
    let (mut all, mut faults) = (Tally::default(), Vec::new());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let (tally, more) = thread.join().unwrap();
            all.add(&tally);
            faults.extend(more);
        }
    });
    let took = start.elapsed().as_secs_f64();
    let Tally { runs, entries, deaths, dispatches, prefixes, shared } = all;
    println!(
        "driver: {runs} runs, {entries} entries, {deaths} deaths, {dispatches} tool calls, {shared} with a shared \
         budget, {prefixes} prefixes resumed, {took:.1} s, {:.0} runs a second",
        runs as f64 / took
    );
    faults.sort_unstable();
    if let Some(seed) = faults.first() {
        show(*seed, None);
        println!("again: cargo xtask sim --driver {seed}..{}", seed + 1);
    }
    faults.is_empty()
}

/// Prints the fault of a seed, shrunk.
pub(crate) fn show(seed: u64, bug: Option<Bug>) {
    match shrink(seed, bug, TRIES) {
        Some(shrunk) => print!("{shrunk}"),
        None => println!("driver seed {seed}: no fault by itself: it depends on more than its seed"),
    }
}
