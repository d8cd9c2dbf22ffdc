//! The project's own commands: `cargo xtask --help` lists them. One file a subcommand.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this binary is for")]

mod bench;
mod blocks;
mod ci;
mod drawings;
mod explore;
mod flags;
mod layers;
mod links;
mod prices;
mod requirements;
mod rust_text;
mod teed;
mod test;
mod tidy;
mod wire;
mod workspace;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use crate::flags::XtaskCmd;
use crate::workspace::Failure;

fn main() -> ExitCode {
    let flags = match flags::Xtask::from_vec(dashes_last(std::env::args_os().skip(1))) {
        Ok(flags) => flags,
        Err(error) => error.exit(),
    };
    let result = match flags.subcommand {
        XtaskCmd::Test(flags) => test::run(flags.suite.as_deref(), flags.write),
        XtaskCmd::Ci(flags) => ci::run(flags.tested),
        XtaskCmd::Explore(flags) => explore::run(flags.write, flags.full),
        XtaskCmd::Bench(flags) => bench::run(flags.suite.as_deref()),
        XtaskCmd::Layers(_) => layers::run(),
        XtaskCmd::Requirements(flags) => requirements::run(flags.list, flags.shared.as_deref()),
        XtaskCmd::Prices(flags) => prices::run(flags.check, flags.wheel.as_deref()),
        XtaskCmd::Wire(flags) => wire::run(&flags.files, flags.differences, flags.json),
        XtaskCmd::Drawings(flags) => drawings::run(flags.check),
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

/// Arguments with each `-` at the end, after `--`: only there it is taken for a name.
fn dashes_last(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (dashes, mut others): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument == OsStr::new("-"));
    if !dashes.is_empty() {
        others.push("--".into());
        others.extend(dashes);
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_is_a_name() {
        let sorted = |arguments: &[&str]| dashes_last(arguments.iter().map(OsString::from));
        assert_eq!(sorted(&["wire", "-", "--json"]), ["wire", "--json", "--", "-"]);
        assert_eq!(sorted(&["wire", "a"]), ["wire", "a"]);
    }
}
