//! Seeds of the core, on several threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use loop_eval::sim::{Tally, shrink, simulate};

/// How many seeds a thread takes at a time.
const SHARE: u64 = 1_024;

/// Simulates the seeds. Prints what they came to, or the first fault, shrunk.
pub(crate) fn many(from: u64, to: u64, jobs: u64) -> bool {
    let start = Instant::now();
    let next = AtomicU64::new(from);
    let failed = AtomicBool::new(false);
    let work = || {
        let (mut tally, mut fault) = (Tally::default(), None);
        while !failed.load(Ordering::Relaxed) {
            let first = next.fetch_add(SHARE, Ordering::Relaxed);
            if first >= to {
                break;
            }
            match simulate(first, to.min(first + SHARE)) {
                Ok(more) => tally.add(&more),
                Err((seed, _)) => {
                    failed.store(true, Ordering::Relaxed);
                    fault = Some(seed);
                }
            }
        }
        (tally, fault)
    };
    let (mut all, mut faults) = (Tally::default(), Vec::new());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            match thread.join() {
                Ok((tally, fault)) => {
                    all.add(&tally);
                    faults.extend(fault);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let took = start.elapsed().as_secs_f64();
    println!(
        "core: {} runs, {} events, {} rejected, {} replayed, {took:.1} s, {:.0} runs a second",
        all.runs,
        all.events,
        all.rejected,
        all.replayed,
        all.runs as f64 / took,
    );
    let reasons: Vec<String> = all.reasons.iter().map(|(reason, runs)| format!("{reason} {runs}")).collect();
    println!("reasons: {}", reasons.join(", "));
    faults.sort_unstable();
    faults.first().is_none_or(|seed| show(*seed, ""))
}

/// Prints the fault of a seed, shrunk. Always `false`.
pub(crate) fn show(seed: u64, more: &str) -> bool {
    match shrink(seed) {
        Some(shrunk) => print!("{shrunk}"),
        None => match simulate(seed, seed + 1) {
            Err((_, simulated)) => println!("seed {seed}: {:?}", simulated.fault),
            Ok(_) => println!("seed {seed}: no fault by itself"),
        },
    }
    println!("again: cargo xtask sim --seed {seed}{more}");
    false
}

/// Simulates one seed. Prints its fault, or how it ended.
pub(crate) fn one(seed: u64) -> bool {
    match simulate(seed, seed + 1) {
        Ok(tally) => {
            println!("seed {seed}: every invariant held; {} events, {:?}", tally.events, tally.reasons);
            true
        }
        Err(_) => show(seed, ""),
    }
}
