//! The simulator, as `cargo xtask sim` starts it: seeds of the core and of the driver, planted bugs, one seed again.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of the workspace's own"
)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic ends a simulation as it should")]

mod arguments;
mod bugs;
mod cores;
mod driver;
mod drivers;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    // Tools and models of the driver's simulation break down by design. What a panic says here is in its payload.
    std::panic::set_hook(Box::new(|panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&driver::BREAKS_DOWN) {
            eprintln!("{panic}");
        }
    }));
    let mut passed = true;
    if let Some(bug) = arguments.bug {
        passed &= bugs::find(bug, &arguments);
    } else if let Some(seed) = arguments.seed {
        passed &= cores::one(seed);
    }
    if let Some((from, to)) = arguments.seeds {
        passed &= cores::many(from, to, arguments.jobs);
    }
    if let Some((from, to)) = arguments.driver {
        passed &= drivers::many(from, to, arguments.jobs);
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
