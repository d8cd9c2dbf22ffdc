//! A load client: runs many loops against any OpenAI-compatible server, and prints one JSON line about what they cost.
//!
//! `cargo run --release -p loop-runtime --example load -- --help` lists the options.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the line is what it is for")]

#[path = "load/args.rs"]
mod args;
#[path = "load/loops.rs"]
mod loops;
#[path = "load/meter.rs"]
mod meter;

use std::process::ExitCode;

use crate::args::{Asked, HELP, Options, Protocol};

fn main() -> ExitCode {
    match args::parse(std::env::args().skip(1)) {
        Ok(Asked::Help) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Asked::Load(options)) => load(&options).unwrap_or_else(|error| {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

/// One model, one set of connections and one journal serve all loops.
fn load(options: &Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let work = options.work;
    Ok(match options.protocol {
        Protocol::Conversation => meter::measure(work, loops::conversation(options)?),
        Protocol::Output => meter::measure(work, loops::output(options)?),
        Protocol::Document => meter::measure(work, loops::document(options)?),
    })
}
