//! `cargo xtask bench [SUITE]`: what a decision costs, what the wire costs, and what a whole loop costs.

mod core;
mod loops;
mod wire;

use std::path::PathBuf;

use xshell::{Shell, cmd};

use crate::workspace::Failure;

pub(crate) fn run(suite: Option<&str>) -> Result<(), Failure> {
    match suite {
        None => core::run().and_then(|()| wire::run()).and_then(|()| loops::run()),
        Some("core") => core::run(),
        Some("wire") => wire::run(),
        Some("loop") => loops::run(),
        Some(other) => Err(Failure::Usage(format!("no bench `{other}`; there are core, wire and loop"))),
    }
}

/// The program of this kind, such as `bench`, among what cargo has built.
fn program(messages: &str, kind: &str) -> Result<PathBuf, Failure> {
    let built = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = built.filter_map(|message| {
        let is_it = message.pointer("/target/kind/0").is_some_and(|built| built == kind);
        message.get("executable")?.as_str().filter(|_| is_it).map(PathBuf::from)
    });
    programs.next().ok_or_else(|| Failure::Check(format!("cargo names no {kind} program")))
}

/// Whether programs can be watched while they run.
fn has_valgrind(shell: &Shell) -> bool {
    cmd!(shell, "valgrind --version").quiet().ignore_stderr().read().is_ok()
}

/// What a tool of valgrind tells at its end of `program count CASE TIMES`, as `read` finds it there.
fn watched(
    shell: &Shell,
    tool: &[&str],
    program: &PathBuf,
    case: &str,
    times: u64,
    read: fn(&str) -> Option<u64>,
) -> Result<u64, Failure> {
    let times = times.to_string();
    let out = cmd!(shell, "valgrind {tool...} {program} count {case} {times}");
    let output = out.quiet().ignore_status().output()?;
    let reported = String::from_utf8_lossy(&output.stderr);
    read(&reported)
        .filter(|_| output.status.success())
        .ok_or_else(|| Failure::Check(format!("valgrind counted nothing of {case}:\n{reported}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_program_is_the_one_that_cargo_names() {
        let messages = "{\"target\":{\"kind\":[\"bin\"]},\"executable\":\"/t/xtask\"}\n\
                        {\"target\":{\"kind\":[\"bench\"]},\"executable\":null}\nnot json\n\
                        {\"target\":{\"kind\":[\"bench\"]},\"executable\":\"/t/core-1\"}\n";
        assert_eq!(program(messages, "bench").unwrap(), PathBuf::from("/t/core-1"));
        assert!(program(messages, "example").is_err());
    }

    #[test]
    fn an_unknown_bench_names_the_known_ones() {
        assert_eq!(
            run(Some("cors")).unwrap_err().to_string(),
            "no bench `cors`; there are core, wire and loop"
        );
    }
}
