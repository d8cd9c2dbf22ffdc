//! Real processes that are killed with SIGKILL at exact places, and what must hold afterwards.
//!
//! `cargo test -p loopgate --test crash` plays a seeded share, `cargo xtask crash --full` everything. A case is a process
//! that drives runs of a scenario over a journal in a file, with tools whose effects are counted by a server in this
//! process. It is ended at a place, others resume the runs, and `check` compares journal, acknowledgements and effects.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, unreachable_pub)]
#![cfg(target_os = "linux")]

mod case;
mod check;
mod child;
mod journal;
mod kills;
mod model;
mod scenarios;
mod server;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((first, rest)) if first == "child" => child::run(rest),
        Some((first, rest)) if first == "effect" => server::effect(rest),
        _ => kills::suite(&args),
    }
}
