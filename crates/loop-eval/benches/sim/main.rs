//! The simulator, as `cargo xtask sim` starts it: seeds of the core, planted bugs, one seed again.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of the workspace's own"
)]

mod arguments;
mod bugs;
mod cores;

use std::process::ExitCode;

use arguments::{Arguments, Asked};

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let passed = match arguments.asked {
        Asked::Bugs(bug) => bugs::find(bug, &arguments),
        Asked::Seed(seed) => cores::one(seed),
        Asked::Seeds(from, to) => cores::many(from, to, arguments.jobs),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
