//! Builds a copy of the workspace whose `loop-core` holds all mutants, and leaves out those that do not compile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::mutant::{self, Kind, Mutant};
use crate::switch;

/// How often the compiler is asked: it reports names, types and borrows one after the other.
const MAX_ROUNDS: usize = 12;

/// The programs of tests, and the mutants that are not in them.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) programs: Vec<PathBuf>,
    /// Those that cannot be switched: cargo-mutants has to run them alone.
    pub(crate) unplaced: BTreeSet<u32>,
    /// Those whose own code does not compile.
    pub(crate) unbuilt: BTreeSet<u32>,
}

/// The copy, which is written anew.
pub(crate) fn copy(root: &Path, copy: &Path) -> Result<(), String> {
    if copy.exists() {
        fs::remove_dir_all(copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    }
    let mut prefix = copy.as_os_str().to_owned();
    prefix.push("/");
    let mut argument = std::ffi::OsString::from("--prefix=");
    argument.push(prefix);
    let git = Command::new("git").args(["checkout-index", "-a"]).arg(argument).current_dir(root).status();
    match git {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("git checkout-index failed ({other:?}); run it in a git checkout")),
    }
}

/// Writes the mutants into the copy and builds its tests.
pub(crate) fn build(copy: &Path, target: &Path, mutants: &[Mutant]) -> Result<Built, String> {
    let originals = originals(copy, mutants)?;
    let library = copy.join("crates/loop-core/src/lib.rs");
    let head = fs::read_to_string(&library).map_err(|error| format!("{}: {error}", library.display()))?;
    let head = format!("{head}\n#[allow(missing_docs, clippy::all)]\nmod mutant_switch;\n");
    write(&library, &head)?;
    write(&library.with_file_name("mutant_switch.rs"), &switch_source(mutants.len()))?;
    let mut refused = Refused::default();
    for round in 1..=MAX_ROUNDS {
        let without: BTreeSet<u32> = refused.unbuilt.union(&refused.unplaced).copied().collect();
        let left_out = write_switched(copy, &originals, mutants, &without)?;
        let found = check(copy, target, mutants)?;
        println!(
            "mutants: check {round}: {} mutants do not compile, {} cannot be switched",
            found.unbuilt.len(),
            found.unplaced.len()
        );
        if found.unbuilt.is_empty() && found.unplaced.is_empty() {
            let programs = programs(copy, target)?;
            let unplaced = refused.unplaced.union(&left_out).copied().collect();
            return Ok(Built { programs, unplaced, unbuilt: refused.unbuilt });
        }
        refused.unbuilt.extend(found.unbuilt);
        refused.unplaced.extend(found.unplaced);
    }
    Err(format!("the copy does not compile after {MAX_ROUNDS} rounds; see {}", copy.display()))
}

fn originals(copy: &Path, mutants: &[Mutant]) -> Result<BTreeMap<String, String>, String> {
    let files = mutant::by_file(mutants);
    let read = |file: &str| fs::read_to_string(copy.join(file)).map_err(|error| format!("{file}: {error}"));
    files.keys().map(|file| Ok(((*file).to_owned(), read(file)?))).collect()
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn write_switched(
    copy: &Path,
    originals: &BTreeMap<String, String>,
    mutants: &[Mutant],
    without: &BTreeSet<u32>,
) -> Result<BTreeSet<u32>, String> {
    let mut left_out = BTreeSet::new();
    for (file, list) in mutant::by_file(mutants) {
        let list: Vec<&Mutant> = list.into_iter().filter(|mutant| !without.contains(&mutant.id)).collect();
        let source = originals.get(file).map_or("", String::as_str);
        let switched = switch::switched(source, &list).map_err(|error| format!("{file}: {error}"))?;
        left_out.extend(switched.left_out);
        write(&copy.join(file), &switched.text)?;
    }
    Ok(left_out)
}

fn cargo(copy: &Path, target: &Path, arguments: &[&str]) -> Result<(Vec<Value>, bool), String> {
    let mut command = Command::new("cargo");
    command.args(arguments).args(["--locked", "--message-format=json", "-p", "loop-core"]);
    command.current_dir(copy).env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "0");
    let output = command.stderr(Stdio::null()).output().map_err(|error| format!("cargo: {error}"))?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let messages = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ok((messages, output.status.success()))
}

/// What the compiler refuses.
#[derive(Debug, Default)]
struct Refused {
    /// Mutants whose own code it refuses.
    unbuilt: BTreeSet<u32>,
    /// Mutants around which it refuses the code that switches them.
    unplaced: BTreeSet<u32>,
}

fn check(copy: &Path, target: &Path, mutants: &[Mutant]) -> Result<Refused, String> {
    let (messages, is_built) = cargo(copy, target, &["check", "--lib"])?;
    let mut refused = Refused::default();
    for message in messages.iter().filter_map(|message| message.get("message")) {
        let rendered = message.get("rendered").and_then(Value::as_str).unwrap_or_default();
        if message.get("level").and_then(Value::as_str) != Some("error")
            || rendered.starts_with("error: aborting")
        {
            continue;
        }
        let before = refused.unbuilt.len() + refused.unplaced.len();
        let spans = message.get("spans").and_then(Value::as_array).into_iter().flatten();
        for span in spans.filter(|span| span.get("is_primary").and_then(Value::as_bool) == Some(true)) {
            let file = span.get("file_name").and_then(Value::as_str).unwrap_or_default();
            let number = |name: &str| {
                span.get(name).and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok()).unwrap_or(0)
            };
            let text = fs::read_to_string(copy.join(file)).unwrap_or_default();
            let start = number("byte_start");
            match enclosing(&text, start, number("byte_end")) {
                Some((ids, true)) => refused.unbuilt.extend(ids),
                Some((ids, false)) => refused.unplaced.extend(ids),
                None => refused.unplaced.extend(arms_behind(&text, start, mutants)),
            }
        }
        if refused.unbuilt.len() + refused.unplaced.len() == before && before == 0 {
            return Err(format!("the compiler refuses what is not a mutant:\n{rendered}"));
        }
    }
    if !is_built && refused.unbuilt.is_empty() && refused.unplaced.is_empty() {
        return Err(format!("cargo check fails in {} and names no error", copy.display()));
    }
    Ok(refused)
}

/// The mutants between whose innermost marks a range of bytes is, and whether it is in the text of a mutant.
fn enclosing(text: &str, from: usize, to: usize) -> Option<(Vec<u32>, bool)> {
    let mut open: Vec<(&str, bool)> = Vec::new();
    let before = text.get(..from).unwrap_or_default();
    for (at, _) in before.match_indices("/*") {
        let Some(mark) = before.get(at + 2..).and_then(|rest| rest.split_once("*/")).map(|(mark, _)| mark)
        else {
            continue;
        };
        if let Some(ids) = mark.strip_prefix('#') {
            open.push((ids, true));
        } else if let Some(ids) = mark.strip_prefix('[') {
            open.push((ids, false));
        } else if let Some(ids) = mark.strip_suffix('#').or_else(|| mark.strip_suffix(']')) {
            let matching = open.iter().rposition(|(open, _)| *open == ids);
            open.truncate(matching.unwrap_or(open.len()));
        }
    }
    let after = text.get(to..).unwrap_or_default();
    let ends = |ids: &str, is_text: bool| {
        after.contains(&if is_text { format!("/*{ids}#*/") } else { format!("/*{ids}]*/") })
    };
    let (ids, is_text) = open.iter().rev().find(|(ids, is_text)| ends(ids, *is_text))?;
    Some((ids.split(',').filter_map(|id| id.parse().ok()).collect(), *is_text))
}

/// The arms of the `match` at this byte: without one of them the compiler finds a case missing.
fn arms_behind(text: &str, from: usize, mutants: &[Mutant]) -> Vec<u32> {
    let rest = text.get(from..).unwrap_or_default();
    let mut function = None;
    let mut found = Vec::new();
    for (at, _) in rest.match_indices("/*[") {
        let ids = rest.get(at + 3..).and_then(|rest| rest.split_once("*/")).map_or("", |(ids, _)| ids);
        let Some(id) = ids.parse::<usize>().ok() else { continue };
        let Some(mutant) = mutants.get(id).filter(|mutant| mutant.kind == Kind::Arm) else { continue };
        if *function.get_or_insert(&mutant.function) != &mutant.function {
            break;
        }
        found.push(mutant.id);
    }
    found
}

/// Builds the tests: those in the modules, and those of `it`.
fn programs(copy: &Path, target: &Path) -> Result<Vec<PathBuf>, String> {
    let (messages, is_built) = cargo(copy, target, &["test", "--no-run", "--lib", "--test", "it"])?;
    let executables = messages.iter().filter_map(|message| message.get("executable")?.as_str());
    let programs: Vec<PathBuf> = executables.map(PathBuf::from).collect();
    if is_built && !programs.is_empty() {
        return Ok(programs);
    }
    let errors = messages.iter().filter_map(|message| message.get("message")?.get("rendered")?.as_str());
    let errors: Vec<&str> = errors.filter(|text| text.starts_with("error")).collect();
    Err(format!("the tests with all mutants do not compile:\n{}", errors.join("\n")))
}

/// The module that says which mutant is on. With the second variable it writes which ones were reached.
fn switch_source(count: usize) -> String {
    format!(
        r#"use std::fs::File;
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{{AtomicBool, Ordering}};

static ACTIVE: LazyLock<u32> = LazyLock::new(|| {{
    std::env::var("{ACTIVE}").ok().and_then(|text| text.parse().ok()).unwrap_or(u32::MAX)
}});
static REACHED: LazyLock<Option<File>> =
    LazyLock::new(|| std::env::var("{REACHED}").ok().and_then(|path| File::create(path).ok()));
static SEEN: [AtomicBool; {count}] = [const {{ AtomicBool::new(false) }}; {count}];

pub(crate) fn on(id: u32) -> bool {{
    if let Some(file) = &*REACHED
        && let Some(seen) = SEEN.get(id as usize)
        && !seen.swap(true, Ordering::Relaxed)
    {{
        let mut file = file;
        let _ = file.write_all(format!("{{id}}\n").as_bytes());
    }}
    *ACTIVE == id
}}
"#
    )
}

/// The variable that switches a mutant on.
pub(crate) const ACTIVE: &str = "LOOPGATE_MUTANT";
/// The variable with the file into which the reached mutants are written.
pub(crate) const REACHED: &str = "LOOPGATE_MUTANTS_REACHED";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_traced_to_the_innermost_mutant() {
        let text =
            "/*[3,4*/(if on(3) {/*#3*/ a /*3#*/} else if on(4) {/*#4*/ b /*4#*/} else { c })/*3,4]*/ d";
        let at = |what: &str| {
            let at = text.find(what).unwrap_or_default() + 1;
            enclosing(text, at, at + 1)
        };
        assert_eq!((at(" a "), at(" b ")), (Some((vec![3], true)), Some((vec![4], true))));
        assert_eq!((at(" c "), at(" d")), (Some((vec![3, 4], false)), None));
    }
}
