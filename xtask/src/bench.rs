//! `cargo xtask bench [SUITE]`: what a gate decision, a clone of the state and a whole offline run cost.

use std::path::PathBuf;

use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};

/// Cases of the bench program of `loop-core` whose instructions are counted.
const COUNTED: [&str; 4] = ["gate-10", "gate-100", "gate-1000", "reply-10KB"];
/// How often a counted case is done; the bench program has that many copies at the most.
const TIMES: u64 = 40;

pub(crate) fn run(suite: Option<&str>) -> Result<(), Failure> {
    match suite {
        None | Some("core") => core(),
        Some(other) => Err(Failure::Usage(format!("no bench `{other}`; there is core"))),
    }
}

fn core() -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    cmd!(shell, "cargo bench --locked -p loop-core --bench core").run()?;
    cmd!(shell, "cargo bench --locked -p loop-runtime --bench offline").run()?;
    println!("\n{:12} {:>12}", "case", "instructions");
    if cmd!(shell, "valgrind --version").quiet().ignore_stderr().read().is_err() {
        println!("valgrind is not here");
        return Ok(());
    }
    let messages =
        cmd!(shell, "cargo bench --locked -p loop-core --bench core --no-run --message-format=json")
            .read()?;
    let program = program(&messages)?;
    for case in COUNTED {
        // What is done before the case is the same in both, so the difference is the case itself.
        let whole = count(&shell, &program, case, TIMES)?;
        let nothing = count(&shell, &program, case, 0)?;
        println!("{case:12} {:12}", whole.saturating_sub(nothing) / TIMES);
    }
    Ok(())
}

/// The bench program among what cargo has built.
fn program(messages: &str) -> Result<PathBuf, Failure> {
    let built = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = built.filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from));
    programs.next().ok_or_else(|| Failure::Check("cargo names no bench program".to_owned()))
}

fn count(shell: &Shell, program: &PathBuf, case: &str, times: u64) -> Result<u64, Failure> {
    let times = times.to_string();
    let out = cmd!(
        shell,
        "valgrind --tool=callgrind --callgrind-out-file=/dev/null {program} count {case} {times}"
    );
    let output = out.quiet().output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    collected(&told).ok_or_else(|| Failure::Check(format!("valgrind counted nothing:\n{told}")))
}

/// The instructions in what callgrind tells at its end.
fn collected(told: &str) -> Option<u64> {
    let (_, rest) = told.split_once("Collected : ")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_count_is_read_from_what_callgrind_tells() {
        let told =
            "==7== Events    : Ir\n==7== Collected : 4291547\n==7== \n==7== I   refs:      4,291,547\n";
        assert_eq!(collected(told), Some(4_291_547));
        assert_eq!(collected("==7== an error"), None);
    }

    #[test]
    fn the_program_is_the_one_that_cargo_names() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/core-1\"}\nnot json\n";
        assert_eq!(program(messages).unwrap(), PathBuf::from("/t/core-1"));
        assert!(program("{}").is_err());
    }

    #[test]
    fn an_unknown_bench_names_the_known_one() {
        assert_eq!(run(Some("cors")).unwrap_err().to_string(), "no bench `cors`; there is core");
    }
}
