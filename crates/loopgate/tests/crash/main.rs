//! Real processes that are killed with SIGKILL at exact places, and journals that fail: what must hold afterwards.
//!
//! `cargo test -p loopgate --test crash` plays a seeded share, `cargo xtask crash --full` everything. A case is a process
//! that drives the runs of a scenario over a journal in a file, with tools whose effects are counted by a server in this
//! process. It is ended at a place, others resume the runs, and `check` compares journal, acknowledgements and effects.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, unreachable_pub)]

#[cfg(target_os = "linux")]
mod case;
#[cfg(target_os = "linux")]
mod check;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod journal;
#[cfg(target_os = "linux")]
mod kills;
#[cfg(target_os = "linux")]
mod model;
#[cfg(target_os = "linux")]
mod planted;
#[cfg(target_os = "linux")]
mod real;
#[cfg(target_os = "linux")]
mod scenarios;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod suite;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((first, rest)) if first == "child" => child::run(rest),
        Some((first, rest)) if first == "effect" => server::effect(rest),
        _ => suite::run(&args),
    }
}

/// What a killed process left behind is read from `/proc`.
#[cfg(not(target_os = "linux"))]
fn main() {
    println!("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s");
}
