//! The project's own commands: `cargo xtask --help` lists them. One file a subcommand.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this binary is for")]

mod bench;
mod ci;
mod explore;
mod flags;
mod layers;
mod prices;
mod requirements;
mod rust_text;
mod test;
mod tidy;
mod wire;
mod workspace;

use std::process::ExitCode;

use crate::flags::XtaskCmd;
use crate::workspace::Failure;

fn main() -> ExitCode {
    let result = match flags::Xtask::from_env_or_exit().subcommand {
        XtaskCmd::Test(flags) => test::run(flags.suite.as_deref()),
        XtaskCmd::Ci(_) => ci::run(),
        XtaskCmd::Explore(_) => explore::run(),
        XtaskCmd::Bench(flags) => bench::run(flags.suite.as_deref()),
        XtaskCmd::Layers(_) => layers::run(),
        XtaskCmd::Requirements(flags) => requirements::run(flags.list, flags.shared.as_deref()),
        XtaskCmd::Prices(flags) => prices::run(flags.check, flags.wheel.as_deref()),
        XtaskCmd::Wire(flags) => wire::run(&flags.files, flags.differences, flags.json),
        XtaskCmd::Tidy(_) => tidy::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Check(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
