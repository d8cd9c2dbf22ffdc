//! `cargo xtask tidy`: style checks that a reviewer should not have to make.

use std::fs;
use std::path::{Path, PathBuf};

use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};
use crate::{drawings, links, rust_text, site, terms};

/// Fails with the list of problems.
pub(crate) fn run() -> Result<(), Failure> {
    workspace::report("tidy", &find_problems(workspace::root())?)?;
    println!("tidy: nothing to repair");
    Ok(())
}

fn find_problems(root: &Path) -> Result<Vec<String>, Failure> {
    let mut problems = Vec::new();
    let mut declared = Vec::new();
    for folder in ["crates", "xtask"] {
        for path in workspace::files_below(&root.join(folder), "rs")? {
            let (file, text) = (workspace::shown(root, &path), workspace::read(&path)?);
            problems.extend(rust_problems(&file, &text));
            if file.contains("/src/") && !file.ends_with("_tests.rs") {
                problems.extend(terms::old_terms(&file, &text));
                problems.extend(terms::comment_words(&file, &text));
            }
            if file.starts_with("crates/") && file.contains("/src/") {
                declared.extend(terms::public_types(&text).into_iter().map(|name| (name, file.clone())));
            }
        }
    }
    for (name, files) in terms::homonyms(&declared) {
        problems
            .push(format!("`{name}` is declared in {}: give it one home or two names", files.join(" and ")));
    }
    for package in workspace::packages(root)? {
        let folder = if package == "xtask" { root.join("xtask") } else { root.join("crates").join(&package) };
        let tests = folder.join("tests/main.rs");
        if tests.exists() {
            let below = workspace::files_below(&folder.join("tests"), "rs")?;
            let beside = below.iter().filter(|path| path.parent() == tests.parent());
            let names: Vec<&str> = beside.filter_map(|path| path.file_stem()?.to_str()).collect();
            problems.extend(unlisted_tests(
                &workspace::shown(root, &tests),
                &workspace::read(&tests)?,
                &names,
            ));
        }
        let path = folder.join("Cargo.toml");
        problems.extend(manifest_problems(&workspace::shown(root, &path), &workspace::read(&path)?));
    }
    for path in workspace::files_below(&root.join("docs"), "md")? {
        let (file, text) = (workspace::shown(root, &path), workspace::read(&path)?);
        // Each part of the table of contents has a title.
        if file != site::SUMMARY {
            problems.extend(markdown_problems(&file, &text));
        }
        problems.extend(numbers_by_hand(&file, &text));
        // Records stay as they were decided, and rows of requirements quote the founding documents.
        if !file.starts_with("docs/adr/") && file != "docs/requirements.md" {
            problems.extend(terms::page_words(&file, &text));
        }
    }
    for file in ["README.md", "CHANGELOG.md"] {
        problems.extend(terms::page_words(file, &workspace::read(&root.join(file))?));
    }
    problems.extend(drawings::find_problems(root)?);
    problems.extend(links::find_problems(root)?);
    problems.extend(site::find_problems(root)?);
    for path in kept_files(root)? {
        // What git lists may be gone from the disk, and a binary file has no lines.
        let Ok(bytes) = fs::read(&path) else { continue };
        if !bytes.contains(&0) && bytes.last().is_some_and(|last| *last != b'\n') {
            problems.push(format!("{}: no newline at the end", workspace::shown(root, &path)));
        }
    }
    Ok(problems)
}

fn rust_problems(file: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("//!") {
        problems.push(format!("{file}:1: does not start with a `//!` that says what the file is for"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        problems.push(format!("{file}: {lines} lines, {MAX_LINES} are allowed: split it"));
    }
    for (index, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            problems.push(format!("{file}:{}: blanks at the end of the line", index + 1));
        }
        if line.contains('\t') {
            problems.push(format!("{file}:{}: a tab", index + 1));
        }
    }
    for ((index, line), whole) in rust_text::code_only(text).lines().enumerate().zip(text.lines()) {
        for unwanted in UNWANTED {
            // A test that needs a program of others is run by its suite.
            let is_run = unwanted == "#[ignore"
                && whole.contains("\"needs ")
                && whole.contains(": cargo xtask servers ");
            if line.contains(unwanted) && !is_run {
                problems.push(format!("{file}:{}: `{unwanted}`", index + 1));
            }
        }
    }
    problems
}

/// Files of tests that `tests/main.rs` does not declare, so that they never run.
fn unlisted_tests(file: &str, text: &str, beside: &[&str]) -> Vec<String> {
    let listed = |name: &str| text.lines().any(|line| line.trim() == format!("mod {name};"));
    let missing = beside.iter().filter(|name| **name != "main" && !listed(name));
    missing.map(|name| format!("{file}: `mod {name};` is missing, so its tests are not run")).collect()
}

fn manifest_problems(file: &str, text: &str) -> Vec<String> {
    let package = text.lines().skip_while(|line| line.trim() != "[package]").skip(1);
    let mut package = package.take_while(|line| !line.starts_with('['));
    let described = package.any(|line| {
        line.strip_prefix("description").is_some_and(|rest| rest.trim_matches([' ', '=', '"']).len() > 1)
    });
    if described { Vec::new() } else { vec![format!("{file}: `[package]` has no description")] }
}

fn markdown_problems(file: &str, text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut titles = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && line.starts_with("# ") {
            titles.push(index + 1);
        }
    }
    match titles.as_slice() {
        [] => vec![format!("{file}: no `# ` title")],
        [_] => Vec::new(),
        [_, more @ ..] => more.iter().map(|line| format!("{file}:{line}: a second `# ` title")).collect(),
    }
}

/// Numbers of the state walk on a page. Only the file that `cargo xtask explore --write` generates may contain them.
fn numbers_by_hand(file: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<String> = line
            .split_whitespace()
            .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
            .collect();
        for pair in words.windows(2) {
            let [count, what] = pair else { continue };
            let counts = count.starts_with(|c: char| c.is_ascii_digit()) || NUMBERS.contains(&&**count);
            if counts && ["alphabets", "states", "edges"].contains(&&**what) {
                problems.push(format!(
                    "{file}:{number}: `{count} {what}` by hand: leave it to `cargo xtask explore --write`"
                ));
            }
        }
    }
    problems
}

/// The files that git tracks or would add. Without git, all files outside of build folders.
fn kept_files(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let shell = Shell::new()?;
    shell.change_dir(root);
    let listed =
        cmd!(shell, "git ls-files --cached --others --exclude-standard -z").quiet().ignore_stderr().read();
    match listed {
        Ok(names) => {
            Ok(names.split('\0').filter(|name| !name.is_empty()).map(|name| root.join(name)).collect())
        }
        Err(_) => {
            let mut files = Vec::new();
            for extension in ["rs", "md", "toml", "sql", "json", "snap", "txt"] {
                files.extend(workspace::files_below(root, extension)?);
            }
            Ok(files)
        }
    }
}

const MAX_LINES: usize = 900;

/// Number words that a page about tests is likely to use.
const NUMBERS: [&str; 20] = [
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
    "forty",
    "fifty",
];

const UNWANTED: [&str; 3] = ["#[ignore", "todo!", "unimplemented!"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let problems = find_problems(workspace::root()).unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn rust_files_are_held_to_the_rules() {
        assert!(rust_problems("a.rs", "//! Good.\nfn a() {}\n").is_empty());
        assert_eq!(
            rust_problems("a.rs", "//! Good.\n\n// todo! in a comment\nconst A: &str = \"#[ignore]\";\n")
                .len(),
            0
        );
        let run_by_a_suite = "//! Good.\n#[ignore = \"needs X: cargo xtask servers x\"]\nfn a() {}\n";
        assert!(rust_problems("a.rs", run_by_a_suite).is_empty());
        let bad = "fn a() {\n\ttodo!()\n} \n#[ignore = \"slow\"]\nfn b() { unimplemented!() }\n";
        assert_eq!(
            rust_problems("a.rs", bad),
            [
                "a.rs:1: does not start with a `//!` that says what the file is for",
                "a.rs:2: a tab",
                "a.rs:3: blanks at the end of the line",
                "a.rs:2: `todo!`",
                "a.rs:4: `#[ignore`",
                "a.rs:5: `unimplemented!`",
            ]
        );
        let long = format!("//! Long.\n{}", "\n".repeat(MAX_LINES));
        assert_eq!(rust_problems("a.rs", &long), ["a.rs: 901 lines, 900 are allowed: split it"]);
    }

    #[test]
    fn every_file_of_tests_is_run() {
        assert!(unlisted_tests("main.rs", "//! All.\n\nmod a;\nmod b;\n", &["a", "b", "main"]).is_empty());
        assert_eq!(
            unlisted_tests("main.rs", "mod a;\n// mod b;\n", &["a", "b"]),
            ["main.rs: `mod b;` is missing, so its tests are not run"]
        );
    }

    #[test]
    fn a_manifest_needs_a_description_of_its_package() {
        assert!(manifest_problems("c", "[package]\ndescription = \"A crate\"\n").is_empty());
        let elsewhere = "[package]\nname = \"a\"\n[other]\ndescription = \"no\"\n";
        assert_eq!(manifest_problems("c", elsewhere), ["c: `[package]` has no description"]);
        assert_eq!(manifest_problems("c", "[package]\ndescription = \"\"\n").len(), 1);
    }

    #[test]
    fn numbers_of_the_walk_are_on_no_page() {
        let text = "# T\n\nSeventeen alphabets, of 1,200 states.\nAll states.\n";
        let problems = numbers_by_hand("d", text);
        let reported =
            |what: &str| format!("d:3: `{what}` by hand: leave it to `cargo xtask explore --write`");
        assert_eq!(problems, [reported("seventeen alphabets"), reported("1,200 states")]);
    }

    #[test]
    fn a_document_has_one_title() {
        assert!(markdown_problems("d", "# One\n\n## Two\n```\n# a comment in a script\n```\n").is_empty());
        assert_eq!(markdown_problems("d", "## Two\n"), ["d: no `# ` title"]);
        assert_eq!(markdown_problems("d", "# One\n# Two\n"), ["d:2: a second `# ` title"]);
    }
}
