//! `cargo xtask prices`: generates the price table from the published package `genai-prices`.
//!
//! pip downloads the package, and none of its code runs. The same package always gives the same table, with one model a
//! line. With `--check` nothing is written: the committed table must equal the one generated from the version that it
//! names.

mod convert;
mod rules;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use xshell::{Shell, cmd};

use crate::prices::convert::{ConvertedPackage, convert};
use crate::workspace::{self, Failure};

/// The table, from the root of the workspace.
const TABLE: &str = "crates/loop-llm/src/prices/table.json";
/// The package, at the package index.
const PACKAGE: &str = "genai-prices";
/// The most bytes of the table, since every program loads it at its start.
const MAX_BYTES: usize = 300_000;

pub(crate) fn run(check: bool, wheel: Option<&Path>) -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    let path = workspace::root().join(TABLE);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let wheel = match wheel {
        // Relative to where the command was called, not to the root.
        Some(wheel) => std::path::absolute(wheel).map_err(|error| Failure::Check(error.to_string()))?,
        None => fetched(&shell, check.then(|| header(&committed, "version")).flatten())?,
    };
    let read = include_str!("prices/package.py");
    let read = cmd!(shell, "python3 - {wheel}").stdin(read).quiet().read()?;
    let package: Value = serde_json::from_str(&read)
        .map_err(|error| Failure::Check(format!("{}: {error}", wheel.display())))?;
    let version = package.get("version").and_then(Value::as_str).unwrap_or_default();
    let converted = convert(&package);
    let dated = match dated(&committed, version, &converted) {
        Some(dated) => dated,
        None => cmd!(shell, "date -u +%F").quiet().read()?,
    };
    let table = written(version, &dated, &converted)?;
    let models = converted.priced;
    if check {
        if table != committed {
            return Err(Failure::Check(format!("{TABLE} is not what {PACKAGE} {version} gives; {REVISE}")));
        }
        println!("prices: {models} models, as {PACKAGE} {version} gives them");
        return Ok(());
    }
    print_notes(&converted);
    fs::write(&path, &table).map_err(|error| Failure::Check(format!("{}: {error}", path.display())))?;
    println!("prices: {models} models of {PACKAGE} {version}, {} bytes, dated {dated}", table.len());
    Ok(())
}

const REVISE: &str = "run `cargo xtask prices` and look at the difference";

/// The wheel of the package: of this version, or the newest.
fn fetched(shell: &Shell, version: Option<String>) -> Result<PathBuf, Failure> {
    let folder = workspace::root().join("target/prices");
    shell.remove_path(&folder)?;
    shell.create_dir(&folder)?;
    let wanted = version.map_or_else(|| PACKAGE.to_owned(), |version| format!("{PACKAGE}=={version}"));
    let pip = cmd!(
        shell,
        "python3 -m pip download --no-deps --only-binary :all: --disable-pip-version-check -q -d {folder} {wanted}"
    );
    pip.run()?;
    let wheel =
        shell.read_dir(&folder)?.into_iter().find(|path| path.extension().is_some_and(|it| it == "whl"));
    wheel.ok_or_else(|| Failure::Check(format!("pip returned no wheel of {wanted}")))
}

/// The date of the committed table, if the models are unchanged. Generating the same table again does not make it
/// newer.
fn dated(committed: &str, version: &str, converted: &ConvertedPackage) -> Option<String> {
    let dated = header(committed, "dated")?;
    (written(version, &dated, converted).ok()? == committed).then_some(dated)
}

/// A member in the table's first line.
fn header(table: &str, key: &str) -> Option<String> {
    let first = table.lines().next()?.strip_suffix(HEAD_END)?;
    let head: Value = serde_json::from_str(&format!("{first}}}")).ok()?;
    head.get(key)?.as_str().map(str::to_owned)
}

/// The text between the head and the first model.
const HEAD_END: &str = ",\"models\":[";

/// The table in its committed format: a line for the head, and one for each model.
fn written(version: &str, dated: &str, converted: &ConvertedPackage) -> Result<String, Failure> {
    let head = json!({
        "format": 1,
        "package": PACKAGE,
        "version": version,
        "dated": dated,
        "unit": "usd_per_million_tokens",
        "fallback": converted.fallback,
    });
    let head = sorted(head);
    let lines: Vec<String> = converted.models.iter().cloned().map(sorted).collect();
    let table =
        format!("{}{HEAD_END}\n{}\n]}}\n", head.strip_suffix('}').unwrap_or_default(), lines.join(",\n"));
    match table.len() {
        0..=MAX_BYTES => Ok(table),
        bytes => Err(Failure::Check(format!(
            "the table has {bytes} bytes, {MAX_BYTES} are allowed: leave models out"
        ))),
    }
}

/// JSON with sorted members, independent of features of `serde_json`.
fn sorted(mut value: Value) -> String {
    value.sort_all_objects();
    value.to_string()
}

fn print_notes(converted: &ConvertedPackage) {
    for (reason, what) in &converted.notes.0 {
        let names: Vec<&str> = what.iter().map(String::as_str).collect();
        println!("{reason} ({}):\n    {}", names.len(), names.join(" "));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    fn converted(id: &str) -> ConvertedPackage {
        let fallback = [("azure".to_owned(), vec!["openai".to_owned()])].into();
        ConvertedPackage { fallback, models: vec![json!({ "id": id })], ..ConvertedPackage::default() }
    }

    #[test]
    fn the_head_is_found_again_and_the_table_is_json() {
        let table = written("0.2.3", "2026-11-21", &converted("m")).unwrap();
        assert_eq!(header(&table, "version").as_deref(), Some("0.2.3"));
        assert_eq!(header(&table, "dated").as_deref(), Some("2026-11-21"));
        let whole: Value = serde_json::from_str(&table).unwrap();
        assert_eq!(whole["models"], json!([{ "id": "m" }]));
        assert_eq!(whole["fallback"], json!({ "azure": ["openai"] }));
        assert_eq!(header("", "version"), None);
    }

    #[test]
    fn a_table_that_is_made_again_keeps_its_day_and_a_changed_one_does_not() {
        let table = written("0.2.3", "2026-11-21", &converted("m")).unwrap();
        assert_eq!(dated(&table, "0.2.3", &converted("m")).as_deref(), Some("2026-11-21"));
        assert_eq!(dated(&table, "0.2.3", &converted("other")), None);
        assert_eq!(dated(&table, "0.2.4", &converted("m")), None);
        assert_eq!(dated("", "0.2.3", &converted("m")), None);
    }

    #[test]
    fn a_table_that_grew_too_large_is_refused() {
        assert!(written("1", "2026-11-21", &converted(&"m".repeat(MAX_BYTES))).is_err());
    }
}
