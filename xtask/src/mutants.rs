//! `cargo xtask mutants`: small changes to the code of `loop-core` that its tests have to notice. cargo-mutants lists them, and
//! `loop-mutants` runs them, all from one build.
//!
//! Those that the tests do not notice are in `docs/reference/mutants.txt`, each with the reason why it may stay. The command
//! fails where one is missed that is not there, and where one is there that the code does not have any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::flags::Mutants;
use crate::workspace::{self, Failure};

/// The version whose names of mutants the list has.
const VERSION: &str = "27";
/// The list of what may be missed.
const LIST: &str = "docs/reference/mutants.txt";
const SOURCE: &str = "crates/loop-core/src";

/// Runs all mutants of the core, those of some files, or those of what changed since a commit.
pub(crate) fn run(flags: &Mutants) -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    require_tool(&shell)?;
    let out = workspace::root().join("target/mutants");
    fs::create_dir_all(&out).map_err(|error| Failure::Check(format!("{}: {error}", out.display())))?;
    if !cmd!(shell, "git diff --quiet -- crates").quiet().ignore_status().output()?.status.success() {
        let message = "mutants: files in crates are changed and not in the index; `git add` them first, since the copy is \
                       made of the index";
        return Err(Failure::Check(message.to_owned()));
    }
    let all = list(&shell, &[])?;
    let chosen = if flags.full {
        all.clone()
    } else if flags.file.is_empty() {
        let diff = changed(&shell, flags.base.as_deref())?;
        if diff.is_empty() {
            println!("mutants: nothing of loop-core changed; name files with --file, or take --full");
            return Ok(());
        }
        let path = out.join("changed.diff");
        write(&path, &diff)?;
        list(&shell, &["--in-diff".to_owned(), path.display().to_string()])?
    } else {
        let files = flags.file.iter().flat_map(|file| ["--file".to_owned(), glob(file)]);
        list(&shell, &files.collect::<Vec<_>>())?
    };
    let path = out.join("list.json");
    write(&path, &Value::Array(chosen).to_string())?;
    let (names, may_stay) = (names(&all), workspace::read(&workspace::root().join(LIST))?);
    let known = if flags.listed { String::new() } else { known(&names, &may_stay) };
    write(&out.join("known.txt"), &known)?;
    start(flags, &path, &out)?;
    judge(&workspace::read(&out.join("results.txt"))?, &names, &may_stay)
}

/// What the list says may stay, by the names that cargo-mutants gives it, one a line. It is not run again.
fn known(names: &BTreeMap<String, String>, list: &str) -> String {
    let may_stay: BTreeSet<&str> = listed(list).map(|(name, _)| name).collect();
    let known = names.iter().filter(|(_, listed)| may_stay.contains(listed.as_str()));
    known.map(|(name, _)| format!("{name}\n")).collect()
}

/// The files that a name means: those of a folder, or one.
fn glob(file: &Path) -> String {
    let path = PathBuf::from(SOURCE).join(file);
    let is_folder = workspace::root().join(&path).is_dir();
    if is_folder { format!("{}/**/*.rs", path.display()) } else { path.display().to_string() }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::Check(format!("{}: {error}", path.display())))
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
    Ok(cmd!(shell, "git diff {base} -- {SOURCE}").quiet().read()?)
}

/// Mutants as cargo-mutants lists them.
fn list(shell: &Shell, arguments: &[String]) -> Result<Vec<Value>, Failure> {
    let json = cmd!(shell, "cargo mutants --list --json --package loop-core {arguments...}").read()?;
    serde_json::from_str(&json).map_err(|error| Failure::Check(format!("mutants: the list: {error}")))
}

/// Starts the package that runs them.
fn start(flags: &Mutants, list: &Path, out: &Path) -> Result<(), Failure> {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--locked", "--package", "loop-mutants", "--"]);
    command.arg("--list").arg(list).arg("--root").arg(workspace::root()).arg("--out").arg(out);
    command.arg("--known").arg(out.join("known.txt"));
    if flags.sample.is_some() || flags.seed.is_some() {
        command.arg("--seed").arg(flags.seed.unwrap_or(1).to_string());
    }
    for (name, value) in [("--sample", flags.sample), ("--jobs", flags.jobs)] {
        if let Some(value) = value {
            command.arg(name).arg(value.to_string());
        }
    }
    if let Some(shard) = &flags.shard {
        command.arg("--shard").arg(shard);
    }
    let status = command.current_dir(workspace::root()).status();
    match status.map_err(|error| Failure::Check(format!("cargo: {error}")))?.code() {
        Some(0) => Ok(()),
        code => Err(Failure::Check(format!("mutants: loop-mutants ended with {code:?}"))),
    }
}

/// The name of each mutant in the list of survivors, by the name that cargo-mutants gives it.
///
/// Line and column are left out, because they move: `src/run/under.rs: replace f -> bool with true`. Of several that
/// would have one name the second ends with ` #2`.
fn names(all: &[Value]) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for name in all.iter().filter_map(|mutant| mutant.get("name")?.as_str()) {
        let placeless = placeless(name);
        let count = counts.entry(placeless.clone()).or_default();
        *count += 1;
        let listed = if *count == 1 { placeless } else { format!("{placeless} #{count}") };
        names.insert(name.to_owned(), listed);
    }
    names
}

fn placeless(mutant: &str) -> String {
    let Some((place, what)) = mutant.split_once(": ") else { return mutant.to_owned() };
    let file = place.split(':').next().unwrap_or(place);
    format!("{}: {what}", file.trim_start_matches("crates/loop-core/"))
}

/// Compares what was missed with the list.
fn judge(results: &str, names: &BTreeMap<String, String>, list: &str) -> Result<(), Failure> {
    let mut problems = reasonless(list);
    let known: BTreeSet<&str> = listed(list).map(|(name, _)| name).collect();
    let existing: BTreeSet<&str> = names.values().map(String::as_str).collect();
    let gone = known.difference(&existing);
    problems
        .extend(gone.map(|name| format!("{LIST}: `{name}` is not a mutant of the code; delete the line")));
    let mut excused = 0;
    for line in results.lines() {
        let mut fields = line.split('\t').skip(1);
        let (Some(fate), Some(mutant)) = (fields.next(), fields.next()) else { continue };
        let name = names.get(mutant).map_or(mutant, String::as_str);
        if matches!(fate, "caught" | "timeout") && known.contains(name) {
            problems.push(format!("{LIST}: a test notices `{name}`; delete the line"));
        }
        if !matches!(fate, "missed" | "unreached") {
            continue;
        }
        if known.contains(name) {
            excused += 1;
        } else {
            problems.push(format!(
                "{mutant}: no test notices it; write a test, or add `{name}` to {LIST} with the reason"
            ));
        }
    }
    println!("mutants: {excused} of those that no test noticed are in {LIST}");
    workspace::report("mutants", &problems)
}

/// The mutants of the list, each with its reason: `file: what | reason`, one a line.
fn listed(list: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("# "));
    lines.map(|line| line.split_once(" | ").unwrap_or((line, "")))
}

fn reasonless(list: &str) -> Vec<String> {
    let without = listed(list).filter(|(_, reason)| reason.trim().is_empty());
    without
        .map(|(name, _)| format!("{LIST}: `{name}` has no reason; write ` | ` and the reason behind it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_mutant_is_known_by_its_file_and_what_it_does() {
        let list = [
            json!({"name": "crates/loop-core/src/run/under.rs:15:9: replace < with <= in f"}),
            json!({"name": "crates/loop-core/src/run/under.rs:17:9: replace < with <= in f"}),
        ];
        let names: Vec<String> = names(&list).into_values().collect();
        assert_eq!(
            names,
            ["src/run/under.rs: replace < with <= in f", "src/run/under.rs: replace < with <= in f #2"]
        );
    }

    #[test]
    fn what_is_missed_and_not_listed_fails_and_what_is_gone_too() {
        let of = |name: &str| (format!("crates/loop-core/src/a.rs:1:2: {name}"), format!("src/a.rs: {name}"));
        let names = BTreeMap::from([of("x"), of("y"), of("z")]);
        let results = "0\tmissed\tcrates/loop-core/src/a.rs:1:2: x\t\n1\tcaught\tcrates/loop-core/src/a.rs:1:2: y\tt\n\
                       2\tunreached\tcrates/loop-core/src/a.rs:1:2: z\t\n";
        let list = "src/a.rs: x | the same\nsrc/a.rs: z | a way out\n";
        assert!(judge(results, &names, list).is_ok());
        assert!(judge(results, &names, "src/a.rs: x | the same\n").is_err());
        assert!(judge(results, &names, &format!("{list}src/a.rs: gone | old\n")).is_err());
        assert!(judge(results, &names, &format!("{list}src/a.rs: y | noticed now\n")).is_err());
        assert_eq!(
            known(&names, list),
            "crates/loop-core/src/a.rs:1:2: x\ncrates/loop-core/src/a.rs:1:2: z\n"
        );
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
