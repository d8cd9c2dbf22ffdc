//! The project's maintenance commands: test, check, measure and release this workspace. `cargo xtask --help` lists them.
//!
//! **What it is not.** It is not published, and no crate depends on it. It depends on no crate of the workspace, so it builds in
//! seconds. Commands that need them run their programs.
//!
//! ```text
//! cargo xtask test core     # the tests of one crate
//! cargo xtask tidy          # style checks, in a second
//! cargo xtask ci            # everything that the build machine checks
//! ```
//!
//! | module | what you find there |
//! |---|---|
//! | [`flags`] | the command line |
//! | [`test`](mod@test), [`ci`] | `test` and `ci`: all tests, and all checks |
//! | [`tidy`], [`terms`], [`links`], [`drawings`] | `tidy`: style, words, links of the docs, complete drawings |
//! | [`layers`], [`rooms`] | `layers`: which crate and which module may use which |
//! | [`requirements`] | `requirements`: which tests name which requirement |
//! | [`features`] | `features`: whether builds share their dependencies |
//! | [`crash`], [`explore`] | `crash` and `explore`: killed processes, and all reachable states of small runs |
//! | [`servers`], [`browser`] | `servers` and `browser`: tests that need third-party programs, or Chromium |
//! | [`site`] | `site`: the documentation as a site, with a search and `llms.txt` |
//! | [`bench`](mod@bench), [`measures`], [`claims`] | `bench`, `measures` and `claims`: instruction counts, size of the code, scores of the claim checker |
//! | [`prices`] | `prices`: the price table, from a published package |
//! | [`publish`], [`release`] | `publish` and `release`: packages for registries, and the files of a release |
//! | [`workspace`], [`environment`], [`fetching`], [`teed`] | shared: paths and failures, cargo's environment, downloads, captured output |
//! | [`rust_text`], [`cycles`] | shared: Rust source without comments and strings, and import cycles |
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this binary is for")]

mod bench;
mod browser;
mod ci;
mod claims;
mod crash;
mod cycles;
mod drawings;
mod environment;
mod explore;
mod features;
mod fetching;
mod flags;
mod layers;
mod links;
mod measures;
mod prices;
mod publish;
mod release;
mod requirements;
mod rooms;
mod rust_text;
mod servers;
mod site;
mod teed;
mod terms;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use crate::flags::XtaskCmd;
use crate::workspace::Failure;

fn main() -> ExitCode {
    match environment::cleaned() {
        None => {}
        Some(Ok(code)) => return code,
        Some(Err(error)) => return ended(Err(Failure::Check(format!("xtask did not start again: {error}")))),
    }
    match flags::Xtask::from_vec(std::env::args_os().skip(1).collect()) {
        Ok(flags) => ended(run(flags)),
        Err(error) => error.exit(),
    }
}

fn run(flags: flags::Xtask) -> Result<(), Failure> {
    match flags.subcommand {
        XtaskCmd::Test(flags) => test::run(flags.suite.as_deref(), flags.full),
        XtaskCmd::Ci(flags) => ci::run(flags.tested),
        XtaskCmd::Crash(flags) => crash::run(flags.full, flags.seed, flags.part.as_deref()),
        XtaskCmd::Explore(flags) => explore::run(flags.write, flags.full, /*programs*/ None),
        XtaskCmd::Bench(flags) => bench::run(flags.suite.as_deref(), flags.write, flags.against.as_deref()),
        XtaskCmd::Browser(flags) => browser::run(flags.write, None),
        XtaskCmd::Site(flags) => site::installed().and_then(|mdbook| site::run(&mdbook, flags.all)),
        XtaskCmd::Servers(flags) => {
            servers::fetched(flags.suite.as_deref())
                .and_then(|fetched| servers::run(fetched, /*programs*/ None))
        }
        XtaskCmd::Layers(_) => layers::run(),
        XtaskCmd::Features(_) => features::run(),
        XtaskCmd::Requirements(flags) => requirements::run(flags.list, flags.shared.as_deref()),
        XtaskCmd::Claims(flags) => claims::run(&flags.public),
        XtaskCmd::Prices(flags) => prices::run(flags.check, flags.wheel.as_deref()),
        XtaskCmd::Publish(flags) => publish::run(flags.dry_run, flags.quick),
        XtaskCmd::Release(flags) => release::run(&flags),
        XtaskCmd::Tidy(_) => tidy::run(),
        XtaskCmd::Measures(_) => measures::run(),
    }
}

fn ended(result: Result<(), Failure>) -> ExitCode {
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
