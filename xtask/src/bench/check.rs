//! `cargo xtask bench check`: fails if a loop, a decision or a codec executes more instructions than before.
//!
//! The load of the machine changes times but not instruction counts, so counts by valgrind are compared: with the
//! committed baseline of this compiler and target, or else with the previous commit, which is then built and counted in
//! the same run.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Value, json};
use xshell::{Shell, cmd};

use super::{built_to_count, instructions, loops};
use crate::workspace::{self, Failure};

/// The file of baselines: the instructions of each case, by compiler and target.
const BASELINE: &str = "xtask/bench/instructions.json";
/// The most growth of a case, in percent.
const MAX_GROWTH: u64 = 3;
/// Cases of the core's bench program, and how often each runs. The program makes at most this many copies.
const CORE: [&str; 4] = ["gate-10", "gate-100", "gate-1000", "reply-10KB"];
const CORE_TIMES: u64 = 40;
/// Cases of the bench program of the codecs: decoding a reply, and encoding the last pass of a long run.
const WIRE: [&str; 2] = ["decode-openai-chat-text", "encode-openai-chat-128-kept"];
/// How often a case of the codecs runs.
const WIRE_TIMES: u64 = 2;
/// Counts of other clients, which are printed for comparison only.
const INFORMATION: [&str; 2] = ["loop-by-hand", "loop-bare"];
/// The folder in which the previous commit is checked out.
const BEFORE: &str = "target/bench-before";

/// Instructions of each case.
type Counts = BTreeMap<String, u64>;

pub(super) fn run(shell: &Shell, write: bool, against: Option<&str>) -> Result<(), Failure> {
    if write && against.is_some() {
        return Err(Failure::Usage("--write compares with nothing: leave --against out".to_owned()));
    }
    let compiler = compiler(&cmd!(shell, "rustc -vV").read()?)
        .ok_or_else(|| Failure::Check("rustc names no version and host".to_owned()))?;
    let path = workspace::root().join(BASELINE);
    let mut baselines = baselines(&path)?;
    let now = counted(shell)?;
    if write {
        workspace::print_lines(&compared(&now, &now).rows);
        baselines.insert(compiler.clone(), now);
        let text = format!("{:#}\n", json!(baselines));
        fs::write(&path, text).map_err(|error| Failure::Check(format!("{BASELINE}: {error}")))?;
        println!("\n{BASELINE} now holds these counts for {compiler}");
        return Ok(());
    }
    let (before, source) = match (against, baselines.remove(&compiler)) {
        (None, Some(baseline)) => (baseline, format!("the baseline of {compiler}")),
        (None, None) => {
            println!("{BASELINE} has no counts for {compiler}, so the commit before is counted");
            (counted_at(shell, "HEAD~1")?, "HEAD~1".to_owned())
        }
        (Some(commit), _) => (counted_at(shell, commit)?, commit.to_owned()),
    };
    let compared = compared(&before, &now);
    println!("\n{:28} {:>14} {:>14}   before: {source}", "instructions", "before", "now");
    workspace::print_lines(&compared.rows);
    workspace::print_lines(&compared.improved);
    workspace::report("bench check", &compared.grown)
}

/// Builds the programs of the shell's folder, and counts every case.
fn counted(shell: &Shell) -> Result<Counts, Failure> {
    let programs = built_to_count(shell)?;
    let mut counts = loops::counted(shell, &programs)?;
    let core = CORE.map(|case| (&programs.core, case, CORE_TIMES));
    for (program, case, times) in core.into_iter().chain(WIRE.map(|case| (&programs.wire, case, WIRE_TIMES)))
    {
        counts.push((case, instructions(program, case, times)?));
    }
    Ok(counts.into_iter().map(|(case, count)| (case.to_owned(), count)).collect())
}

/// The counts of a commit. It is checked out next to this one, and shares the built third-party crates.
fn counted_at(shell: &Shell, commit: &str) -> Result<Counts, Failure> {
    let folder = workspace::root().join(BEFORE);
    let unknown = |_| {
        Failure::Check(format!(
            "bench check: commit {commit} is not here; fetch it, such as with `git fetch --deepen 1`"
        ))
    };
    let named = format!("{commit}^{{commit}}");
    let commit = cmd!(shell, "git rev-parse --verify --quiet {named}").quiet().read().map_err(unknown)?;
    // An earlier run that was cut off may have left its folder.
    cmd!(shell, "git worktree remove --force {folder}").quiet().ignore_status().ignore_stderr().run()?;
    cmd!(shell, "git worktree add --force --detach {folder} {commit}").quiet().run()?;
    let counts = {
        let _there = shell.push_dir(&folder);
        let _shared = shell.push_env("CARGO_TARGET_DIR", workspace::root().join("target"));
        counted(shell)
    };
    cmd!(shell, "git worktree remove --force {folder}").quiet().run()?;
    counts
}

/// The compiler and its target as the key of a baseline: `rustc 1.95.0 x86_64-unknown-linux-gnu`.
fn compiler(version: &str) -> Option<String> {
    let field = |name: &str| version.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Some(format!("rustc {} {}", field("release:")?, field("host:")?))
}

/// All baselines. Empty if the file does not exist.
fn baselines(path: &Path) -> Result<BTreeMap<String, Counts>, Failure> {
    let broken = |error: String| Failure::Check(format!("{BASELINE}: {error}"));
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(broken(error.to_string())),
    };
    let counts = |value: &Value| -> Option<Counts> {
        value.as_object()?.iter().map(|(case, count)| Some((case.clone(), count.as_u64()?))).collect()
    };
    let value: Value = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    let all = value.as_object().into_iter().flatten();
    all.map(|(compiler, value)| {
        let counts =
            counts(value).ok_or_else(|| broken(format!("`{compiler}` holds something else than counts")))?;
        Ok((compiler.clone(), counts))
    })
    .collect()
}

/// The result of a comparison, a line each.
#[derive(Debug, Default, PartialEq, Eq)]
struct Comparison {
    /// Every case that was counted now.
    rows: Vec<String>,
    /// The cases that grew too much or have no earlier count.
    grown: Vec<String>,
    /// The cases that need so many fewer instructions that their baseline is too loose.
    improved: Vec<String>,
}

fn compared(before: &Counts, now: &Counts) -> Comparison {
    let mut compared = Comparison::default();
    for (case, now) in now {
        let Some(before) = before.get(case) else {
            compared.rows.push(format!("{case:28} {:>14} {now:>14}", "-"));
            if !INFORMATION.contains(&case.as_str()) {
                compared.grown.push(format!("{case} was not counted before; `{RENEW}` adds it"));
            }
            continue;
        };
        let growth = (*now as f64 / *before as f64 - 1.0) * 100.0;
        compared.rows.push(format!("{case:28} {before:>14} {now:>14} {growth:>+7.2} %"));
        if INFORMATION.contains(&case.as_str()) {
            continue;
        }
        if now * 100 > before * (100 + MAX_GROWTH) {
            let line = format!(
                "{case} takes {now} instructions, {growth:.1} % more than {before} (at most {MAX_GROWTH} %); \
                 make it cheaper, or say why in the commit that runs `{RENEW}`"
            );
            compared.grown.push(line);
        } else if now * 100 < before * (100 - MAX_GROWTH) {
            let saved = -growth;
            compared.improved.push(format!(
                "{case} takes {saved:.1} % fewer instructions; run `{RENEW}` so that they stay"
            ));
        }
    }
    compared
}

const RENEW: &str = "cargo xtask bench check --write";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn counts(cases: &[(&str, u64)]) -> Counts {
        cases.iter().map(|(case, count)| ((*case).to_owned(), *count)).collect()
    }

    #[test]
    fn growth_beyond_the_limit_fails_and_up_to_it_does_not() {
        let before = counts(&[("gate-10", 1_000), ("gate-100", 1_000), ("loop-bare", 1_000)]);
        let found =
            compared(&before, &counts(&[("gate-10", 1_030), ("gate-100", 1_031), ("loop-bare", 2_000)]));
        assert_eq!(found.rows.len(), 3);
        assert_eq!(found.improved, Vec::<String>::new());
        assert_eq!(found.grown.len(), 1, "{:?}", found.grown);
        let line = found.grown.first().unwrap();
        assert!(line.starts_with("gate-100 takes 1031 instructions, 3.1 % more than 1000"), "{line}");
        assert!(line.contains("cargo xtask bench check --write"), "{line}");
    }

    #[test]
    fn an_improvement_asks_for_a_new_baseline_and_fails_nothing() {
        let found = compared(&counts(&[("gate-10", 1_000)]), &counts(&[("gate-10", 900)]));
        assert_eq!(found.grown, Vec::<String>::new());
        let line = found.improved.first().unwrap();
        assert!(
            line.starts_with("gate-10 takes 10.0 % fewer instructions; run `cargo xtask bench"),
            "{line}"
        );
    }

    #[test]
    fn a_case_without_a_count_before_is_not_passed_over() {
        let found = compared(&counts(&[]), &counts(&[("gate-10", 900), ("loop-by-hand", 1)]));
        assert_eq!(
            found.grown,
            ["gate-10 was not counted before; `cargo xtask bench check --write` adds it"]
        );
    }

    #[test]
    fn the_compiler_is_its_release_and_its_target() {
        let version = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(compiler(version).unwrap(), "rustc 1.95.0 x86_64-unknown-linux-gnu");
        assert_eq!(compiler("rustc"), None);
    }
}
