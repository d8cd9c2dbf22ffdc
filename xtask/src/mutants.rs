//! `cargo xtask mutants`: small changes to the code of `loop-core` that its tests have to notice. cargo-mutants makes them.
//!
//! Those that the tests do not notice are in `docs/reference/mutants.txt`, each with the reason why it may stay. The command
//! fails where one is missed that is not there, and where one is there of a line that is gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};

/// The version whose names of mutants the list has.
const VERSION: &str = "27";
/// The list of what may be missed.
const LIST: &str = "docs/reference/mutants.txt";

/// What a run is about: all of the core, some files, or what changed since a commit.
pub(crate) fn run(full: bool, base: Option<&str>, files: &[PathBuf]) -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    require_tool(&shell)?;
    let out = workspace::root().join("target/mutants");
    fs::create_dir_all(&out).map_err(|error| Failure::Check(format!("{}: {error}", out.display())))?;
    let mut arguments: Vec<String> =
        ["mutants", "--package", "loop-core", "--in-place", "--no-shuffle", "--output"]
            .map(str::to_owned)
            .to_vec();
    // In place: a copy of the workspace would be built from nothing.
    arguments.push(out.display().to_string());
    if !files.is_empty() {
        for file in files {
            arguments.extend(["--file".to_owned(), format!("crates/loop-core/src/{}", file.display())]);
        }
    } else if !full {
        let diff = changed(&shell, base)?;
        if diff.is_empty() {
            println!("mutants: nothing of loop-core changed; name files with --file, or take --full");
            return Ok(());
        }
        let path = out.join("changed.diff");
        fs::write(&path, diff).map_err(|error| Failure::Check(format!("{}: {error}", path.display())))?;
        arguments.extend(["--in-diff".to_owned(), path.display().to_string()]);
    }
    // For building as well as for running: the tests in the modules and those of `it`. The walk takes too long.
    arguments.extend(["--cargo-arg=--lib", "--cargo-arg=--test=it"].map(str::to_owned));
    if !cmd!(shell, "git diff --quiet -- crates").quiet().ignore_status().output()?.status.success() {
        let message = "mutants: files in crates are changed and not committed; commit them first, since mutants are made in place";
        return Err(Failure::Check(message.to_owned()));
    }
    // It exits with 2 where mutants were missed, which is judged here.
    println!("$ cargo {}", arguments.join(" "));
    let mut command = Command::new("cargo");
    command.args(&arguments).current_dir(workspace::root());
    // A case that fails under a mutant is not a regression, and is not kept.
    let ran = command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1").status();
    let code = ran.map_err(|error| Failure::Check(format!("cargo: {error}")))?.code();
    if !matches!(code, Some(0 | 2 | 3)) {
        return Err(Failure::Check(format!(
            "mutants: cargo-mutants ended with {code:?}; see {}",
            out.display()
        )));
    }
    judge(&out.join("mutants.out"))
}

fn require_tool(shell: &Shell) -> Result<(), Failure> {
    let version = cmd!(shell, "cargo mutants --version").quiet().ignore_stderr().ignore_status().read()?;
    let found = version.trim().strip_prefix("cargo-mutants ").unwrap_or_default();
    if found.split('.').next() == Some(VERSION) {
        return Ok(());
    }
    let has = if found.is_empty() { "is not installed".to_owned() } else { format!("is version {found}") };
    let message = format!(
        "mutants: cargo-mutants {has}; run `cargo install cargo-mutants --version '^{VERSION}' --locked`"
    );
    Err(Failure::Check(message))
}

/// What changed of the core since a commit, as a diff.
fn changed(shell: &Shell, base: Option<&str>) -> Result<String, Failure> {
    let base = match base {
        Some(base) => base.to_owned(),
        None => cmd!(shell, "git merge-base HEAD main").quiet().read()?,
    };
    Ok(cmd!(shell, "git diff {base} -- crates/loop-core/src").quiet().read()?)
}

/// Compares what was missed with the list, and prints the share that was noticed.
fn judge(folder: &Path) -> Result<(), Failure> {
    let lines = |name: &str| -> Result<Vec<String>, Failure> {
        let text = workspace::read(&folder.join(name))?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    let (caught, missed, timeout) = (lines("caught.txt")?, lines("missed.txt")?, lines("timeout.txt")?);
    let unviable = lines("unviable.txt")?.len();
    let noticed = caught.len() + timeout.len();
    let list = workspace::read(&workspace::root().join(LIST))?;
    let known: BTreeSet<&str> = listed(&list).map(|(name, _)| name).collect();
    let mut problems = reasonless(&list);
    for mutant in &missed {
        let name = nameless(mutant);
        if !known.contains(&*name) {
            problems.push(format!(
                "{mutant}: no test notices it; write a test, or add `{name}` to {LIST} with the reason"
            ));
        }
    }
    println!(
        "mutants: {noticed} of {} were noticed ({} timed out), {} missed, {unviable} do not compile",
        noticed + missed.len(),
        timeout.len(),
        missed.len()
    );
    workspace::report("mutants", &problems)
}

/// The mutants of the list, each with its reason: `file: what: reason`, one a line.
fn listed(list: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(" | ").unwrap_or((line, "")))
}

fn reasonless(list: &str) -> Vec<String> {
    let without = listed(list).filter(|(_, reason)| reason.trim().is_empty());
    without
        .map(|(name, _)| format!("{LIST}: `{name}` has no reason; write ` | ` and the reason behind it"))
        .collect()
}

/// A mutant's name without the line and the column, which move: `src/run/under.rs: replace f -> bool with true`.
fn nameless(mutant: &str) -> String {
    let Some((place, what)) = mutant.split_once(": ") else { return mutant.to_owned() };
    let file = place.split(':').next().unwrap_or(place);
    format!("{}: {what}", file.trim_start_matches("crates/loop-core/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_known_by_its_file_and_what_it_does() {
        let mutant =
            "crates/loop-core/src/run/under.rs:15:9: replace Run::under -> Self with Default::default()";
        assert_eq!(nameless(mutant), "src/run/under.rs: replace Run::under -> Self with Default::default()");
    }

    #[test]
    fn each_mutant_of_the_list_has_a_reason() {
        let list = "# head\n\na.rs: replace x with y | the same\nb.rs: replace z with w\n";
        let known: Vec<_> = listed(list).collect();
        assert_eq!(known, [("a.rs: replace x with y", "the same"), ("b.rs: replace z with w", "")]);
        assert_eq!(
            reasonless(list),
            [format!("{LIST}: `b.rs: replace z with w` has no reason; write ` | ` and the reason behind it")]
        );
    }

    #[test]
    fn the_committed_list_has_reasons() {
        let list = workspace::read(&workspace::root().join(LIST)).unwrap_or_default();
        assert!(list.starts_with('#'));
        assert_eq!(reasonless(&list), [""; 0]);
    }
}
