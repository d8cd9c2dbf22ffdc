//! `cargo xtask bench`: counts the instructions of a loop, and checks that no count grew.

mod check;
mod loops;

use std::path::{Path, PathBuf};

use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};

/// Counts the instructions of a program.
const CALLGRIND: [&str; 2] = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];

/// Counts the loops, or runs what `what` names. `write` and `against` belong to `check`.
pub(crate) fn run(what: Option<&str>, write: bool, against: Option<&str>) -> Result<(), Failure> {
    if what != Some("check") && (write || against.is_some()) {
        return Err(Failure::Usage("--write and --against belong to `bench check`".to_owned()));
    }
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    match what {
        None | Some("check") if !can_count()? => Err(Failure::Check(
            "bench: valgrind is not here; install it, such as with `apt-get install valgrind`".to_owned(),
        )),
        None => loops::run(&shell),
        Some("check") => check::run(&shell, write, against),
        Some("build") => built_to_count(&shell).map(drop),
        Some(other) => Err(Failure::Usage(format!(
            "no bench `{other}`; there are check and build, and without a name the loops"
        ))),
    }
}

/// Whether `valgrind` is installed.
pub(crate) fn can_count() -> Result<bool, Failure> {
    let shell = Shell::new()?;
    Ok(cmd!(shell, "valgrind --version").quiet().ignore_stderr().read().is_ok())
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

/// Builds the programs to measure, with the default optimisation of a release. One build makes all of them, since
/// builds with other features would rebuild shared crates.
fn built(shell: &Shell) -> Result<Programs, Failure> {
    Programs::named(&build(shell, "bench", &[])?)
}

/// The same without optimising code that no counted case runs, and with the state walk of the core.
fn built_to_count(shell: &Shell) -> Result<Programs, Failure> {
    Programs::named(&build(shell, COUNTED, &WALK)?)
}

/// The state walk of the core, from the build of the counted programs.
pub(crate) fn walk(shell: &Shell) -> Result<PathBuf, Failure> {
    program(&build(shell, COUNTED, &WALK)?, "explore")
}

/// The cargo profile of the counted programs and of the state walk.
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

/// The instructions of a case of a bench program.
fn instructions(program: &Path, case: &str, times: u64) -> Result<u64, Failure> {
    let shell = Shell::new()?;
    let count = |times: u64| {
        let times = times.to_string();
        let output = cmd!(shell, "valgrind {CALLGRIND...} {program} count {case} {times}");
        let output = output.quiet().ignore_status().output()?;
        let reported = String::from_utf8_lossy(&output.stderr);
        collected(&reported)
            .filter(|_| output.status.success())
            .ok_or_else(|| Failure::Check(format!("valgrind counted nothing of {case}:\n{reported}")))
    };
    // What is done before the case is the same in both, so the difference is the case itself.
    Ok(count(times)?.saturating_sub(count(0)?) / times)
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
            "no bench `cors`; there are check and build, and without a name the loops"
        );
    }

    #[test]
    fn options_of_the_check_are_refused_elsewhere() {
        let refused = run(Some("build"), true, None).unwrap_err().to_string();
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
