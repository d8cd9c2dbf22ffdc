//! `cargo xtask bench [SUITE]`: what a decision costs, what the wire costs, what a whole loop costs, what a call of a
//! tool costs, and whether the
//! instructions of any of them grew.

mod check;
mod core;
mod eager;
mod loops;
mod tools;
mod wire;

use std::path::{Path, PathBuf};

use xshell::{Shell, cmd};

use crate::workspace::Failure;

/// Counts the instructions of a program.
const CALLGRIND: [&str; 2] = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];

/// Runs all benches, or the one named. `write` and `against` belong to `check`.
pub(crate) fn run(suite: Option<&str>, write: bool, against: Option<&str>) -> Result<(), Failure> {
    if suite != Some("check") && (write || against.is_some()) {
        return Err(Failure::Usage("--write and --against belong to `bench check`".to_owned()));
    }
    match suite {
        None => core::run()
            .and_then(|()| wire::run())
            .and_then(|()| loops::run())
            .and_then(|()| eager::run())
            .and_then(|()| tools::run()),
        Some("core") => core::run(),
        Some("wire") => wire::run(),
        Some("loop") => loops::run(),
        Some("eager") => eager::run(),
        Some("tools") => tools::run(),
        Some("check") => check::run(write, against),
        Some("build") => built_to_count(&Shell::new()?).map(drop),
        Some(other) => Err(Failure::Usage(format!(
            "no bench `{other}`; there are core, wire, loop, eager, tools, check and build"
        ))),
    }
}

/// Whether instructions can be counted here: `valgrind` is installed.
pub(crate) fn can_count() -> Result<bool, Failure> {
    Ok(has_valgrind(&Shell::new()?))
}

/// The programs that are measured.
#[derive(Clone)]
struct Programs {
    /// The decisions of the gate.
    core: PathBuf,
    /// The load client.
    load: PathBuf,
    /// The server, the bare client, and the loops by hand.
    loops: PathBuf,
    /// The codecs.
    wire: PathBuf,
}

/// Builds the programs that are measured, optimised as a user's program is by default. One build for all, since other
/// features of a crate would build it, and all above it, again.
fn built(shell: &Shell) -> Result<Programs, Failure> {
    Programs::named(&build(shell, "bench", &[])?)
}

/// The same without the optimisation of what no counted case runs, and with the walk over the states of the core.
fn built_to_count(shell: &Shell) -> Result<Programs, Failure> {
    Programs::named(&build(shell, COUNTED, &WALK)?)
}

/// The walk over the states of the core, in the build of the programs whose instructions are counted.
pub(crate) fn walk(shell: &Shell) -> Result<PathBuf, Failure> {
    program(&build(shell, COUNTED, &WALK)?, "explore")
}

/// The profile of the programs whose instructions are counted, and of the walk.
pub(crate) const COUNTED: &str = "counted";

const WALK: [&str; 2] = ["--test", "explore"];

fn build(shell: &Shell, profile: &str, more: &[&str]) -> Result<String, Failure> {
    // Without the offline stub, which no program here uses.
    let packages = ["-p", "loop-core", "-p", "loop-llm", "-p", "loop-runtime", "--no-default-features"];
    let programs = ["--bench", "core", "--bench", "loops", "--bench", "wire", "--example", "load"];
    let build = cmd!(shell, "cargo build --locked --profile={profile} {packages...} {programs...} {more...}");
    Ok(build.arg("--message-format=json").read()?)
}

impl Programs {
    fn named(messages: &str) -> Result<Programs, Failure> {
        let named = |name| program(messages, name);
        Ok(Programs {
            core: named("core")?,
            load: named("load")?,
            loops: named("loops")?,
            wire: named("wire")?,
        })
    }
}

/// The program of this name among what cargo has built.
fn program(messages: &str, name: &str) -> Result<PathBuf, Failure> {
    let built = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = built.filter_map(|message| {
        let is_it = message.pointer("/target/name").is_some_and(|built| built == name);
        message.get("executable")?.as_str().filter(|_| is_it).map(PathBuf::from)
    });
    programs.next().ok_or_else(|| Failure::Check(format!("cargo has built no program {name}")))
}

/// Whether programs can be watched while they run.
fn has_valgrind(shell: &Shell) -> bool {
    cmd!(shell, "valgrind --version").quiet().ignore_stderr().read().is_ok()
}

/// What a tool of valgrind tells at its end of `program count CASE TIMES`, as `read` finds it there.
fn watched(
    tool: &[&str],
    program: &Path,
    case: &str,
    times: u64,
    read: fn(&str) -> Option<u64>,
) -> Result<u64, Failure> {
    let shell = Shell::new()?;
    let times = times.to_string();
    let out = cmd!(shell, "valgrind {tool...} {program} count {case} {times}");
    let output = out.quiet().ignore_status().output()?;
    let reported = String::from_utf8_lossy(&output.stderr);
    read(&reported)
        .filter(|_| output.status.success())
        .ok_or_else(|| Failure::Check(format!("valgrind counted nothing of {case}:\n{reported}")))
}

/// The instructions of a case of a bench program.
fn instructions(program: &Path, case: &str, times: u64) -> Result<u64, Failure> {
    // What is done before the case is the same in both, so the difference is the case itself.
    let whole = watched(&CALLGRIND, program, case, times, collected)?;
    let nothing = watched(&CALLGRIND, program, case, 0, collected)?;
    Ok(whole.saturating_sub(nothing) / times)
}

/// The instructions in what callgrind tells at its end.
fn collected(reported: &str) -> Option<u64> {
    let (_, rest) = reported.split_once("Collected : ")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_program_is_the_one_that_cargo_names() {
        let messages = "{\"target\":{\"name\":\"xtask\"},\"executable\":\"/t/xtask\"}\n\
                        {\"target\":{\"name\":\"core\"},\"executable\":null}\nnot json\n\
                        {\"target\":{\"name\":\"core\"},\"executable\":\"/t/core-1\"}\n";
        assert_eq!(program(messages, "core").unwrap(), PathBuf::from("/t/core-1"));
        assert!(program(messages, "load").is_err());
    }

    #[test]
    fn an_unknown_bench_names_the_known_ones() {
        let refused = |suite| run(Some(suite), false, None).unwrap_err().to_string();
        assert_eq!(
            refused("cors"),
            "no bench `cors`; there are core, wire, loop, eager, tools, check and build"
        );
    }

    #[test]
    fn options_of_the_check_are_refused_elsewhere() {
        let refused = run(Some("core"), true, None).unwrap_err().to_string();
        assert_eq!(refused, "--write and --against belong to `bench check`");
    }

    #[test]
    fn the_count_is_read_from_what_callgrind_tells() {
        let reported =
            "==7== Events    : Ir\n==7== Collected : 4291547\n==7== \n==7== I   refs:      4,291,547\n";
        assert_eq!(collected(reported), Some(4_291_547));
        assert_eq!(collected("==7== an error"), None);
    }
}
