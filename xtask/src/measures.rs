//! `cargo xtask measures`: the size and readability of the code in numbers, with bounds.
//!
//! A line of code is not blank, not a comment and not part of a test. The product is the crates that users build,
//! without `loop-testkit`, `xtask` and `fuzz`.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cycles::{self, File};
use crate::workspace::{self, Failure};
use crate::{rust_text, terms};

/// A measure: its name, its value and its bound.
type Row = (String, String, String);

/// The bounds of the crates, in lines of code.
const BOUNDS: [(&str, usize); 17] = [
    ("loop-core", 15_000),
    ("loop-claims", 2_500),
    ("loop-llm", 11_000),
    ("loop-tools", 12_000),
    ("loop-prompts", 1_700),
    ("loop-journal", 6_500),
    ("loop-runtime", 9_000),
    ("loop-inspect", 4_000),
    ("loop-domain", 8_000),
    ("loop-eval", 6_500),
    ("loop-server", 9_000),
    ("loop-restate", 2_000),
    ("loop-otel", 1_300),
    ("loop-mock", 5_000),
    ("loopgate", 10_000),
    ("loop-testkit", 4_500),
    ("xtask", 3_000),
];

/// Crates that are not part of the product.
const DEV: [&str; 2] = ["loop-testkit", "xtask"];

/// Strings on which code must not decide, since types exist for them.
const DECIDING: [&str; 4] = ["NO_DATA_FOUND", "IN_DOUBT", "INVALID", "DOUBT"];

pub(crate) fn run() -> Result<(), Failure> {
    let rows = rows(workspace::root())?;
    let width = |of: fn(&Row) -> &str| rows.iter().map(|row| of(row).chars().count()).max().unwrap_or(0);
    let (what, now) = (width(|row| &row.0), width(|row| &row.1));
    let line = |(name, count, most): &Row| format!("{name:what$}  {count:>now$}  {most}");
    let head = ("measure".to_owned(), "now".to_owned(), "at most".to_owned());
    workspace::print_lines(&std::iter::once(&head).chain(&rows).map(line).collect::<Vec<_>>());
    Ok(())
}

fn rows(root: &Path) -> Result<Vec<Row>, Failure> {
    let sources = sources(root)?;
    let of = |krate: &str| -> usize {
        sources.iter().filter(|file| file.krate == krate).map(|file| file.lines).sum()
    };
    let packages = workspace::packages(root)?;
    let (dev, product): (Vec<&String>, Vec<&String>) =
        packages.iter().partition(|package| DEV.contains(&package.as_str()));
    let sum = |packages: &[&String]| packages.iter().map(|package| of(package)).sum::<usize>();
    let below = |folder: &str| -> usize {
        sources.iter().filter(|file| file.path.starts_with(folder)).map(|file| file.lines).sum()
    };
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |what: &str, now: usize, most: &str| {
        rows.push((what.to_owned(), now.to_string(), most.to_owned()));
    };
    row("lines of code: product", sum(&product), "106000");
    row("lines of code: for us", sum(&dev), "8000");
    row("lines of tests", test_lines(root)?, "80000");
    for (krate, most) in BOUNDS {
        row(&format!("  {krate}"), of(krate), &most.to_string());
    }
    let core = "crates/loop-core/src/";
    row("  the core's gate and run", below(&format!("{core}gate/")) + below(&format!("{core}run/")), "6500");
    row("members of the workspace", packages.len(), "17");
    row("settings that are declared twice", declared_twice(&sources).len(), "0");
    let deciding = sources.iter().flat_map(|file| file.code.split(|c: char| !is_word(c)));
    row("names of strings that decide", deciding.filter(|word| DECIDING.contains(word)).count(), "0");
    for (what, folder) in [
        ("loop-runtime", "crates/loop-runtime/src"),
        ("loopgate", "crates/loopgate/src"),
        ("the core's run", "crates/loop-core/src/run"),
    ] {
        let files = sources.iter().filter(|file| file.path.starts_with(&format!("{folder}/")));
        let files: Vec<File> = files.map(|file| file.in_crate()).collect();
        row(&format!("files in the largest import cycle of {what}"), cycles::largest(&files).len(), "4");
    }
    let mut roots: Vec<(usize, &str)> = product
        .iter()
        .filter_map(|package| sources.iter().find(|file| file.is_root_of(package)))
        .map(|file| (root_names(&file.code), file.krate.as_str()))
        .collect();
    roots.sort_unstable_by(|a, b| b.cmp(a));
    for (names, krate) in roots.into_iter().take(3) {
        row(&format!("root names of {krate}"), names, "15");
    }
    let help = workspace::read(&root.join("docs/reference/command.md"))?;
    row("commands at the top", commands(&help).len(), "36");
    row("options", options(&help), "190");
    row("words of README, CHANGELOG and docs", words(root)?, "80000");
    row("decision records", workspace::files_below(&root.join("docs/adr"), "md")?.len(), "25");
    row(
        "words of comments that have a plainer one",
        sources.iter().map(|file| terms::comment_words(&file.path, &file.text).len()).sum(),
        "0",
    );
    Ok(rows)
}

/// A source file, without its tests.
struct Source {
    krate: String,
    path: String,
    text: String,
    /// Without comments, strings and tests.
    code: String,
    /// Lines of code.
    lines: usize,
}

impl Source {
    fn is_root_of(&self, package: &str) -> bool {
        self.path == format!("crates/{package}/src/lib.rs")
    }

    fn in_crate(&self) -> File {
        let name = self.path.split_once("/src/").map_or(&*self.path, |(_, name)| name);
        File { name: name.to_owned(), code: self.code.clone() }
    }
}

fn sources(root: &Path) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for package in workspace::packages(root)? {
        let folder = if package == "xtask" { root.join("xtask") } else { root.join("crates").join(&package) };
        for path in workspace::files_below(&folder.join("src"), "rs")? {
            let shown = workspace::shown(root, &path);
            if shown.ends_with("tests.rs") {
                continue;
            }
            let text = workspace::read(&path)?;
            let whole = rust_text::code_only(&text);
            let tests = rust_text::test_parts(&whole).ranges;
            let (mut code, mut at) = (String::new(), 0);
            for line in whole.split_inclusive('\n') {
                if !tests.iter().any(|range| range.contains(&at)) {
                    code.push_str(line);
                }
                at += line.len();
            }
            let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
            sources.push(Source { krate: package.clone(), path: shown, text, code, lines });
        }
    }
    Ok(sources)
}

/// Lines of code below the folders of tests, benches and examples, and in the parts of sources that are tests.
fn test_lines(root: &Path) -> Result<usize, Failure> {
    let mut all = 0;
    for package in workspace::packages(root)? {
        let folder = if package == "xtask" { root.join("xtask") } else { root.join("crates").join(&package) };
        for path in workspace::files_below(&folder, "rs")? {
            let code = rust_text::code_only(&workspace::read(&path)?);
            let name = workspace::shown(&folder, &path);
            let is_test = !name.starts_with("src/") || name.ends_with("tests.rs");
            let tests = rust_text::test_parts(&code).ranges;
            let mut at = 0;
            for line in code.split_inclusive('\n') {
                let counts = is_test || tests.iter().any(|range| range.contains(&at));
                all += usize::from(counts && !line.trim().is_empty());
                at += line.len();
            }
        }
    }
    Ok(all)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Public fields of the core's spec that a table of a domain file declares a second time.
fn declared_twice(sources: &[Source]) -> BTreeSet<String> {
    let fields = |paths: &[&str], before: &str| -> BTreeSet<String> {
        let is_of = |file: &&Source| paths.iter().any(|path| file.path.starts_with(path));
        let files = sources.iter().filter(is_of);
        let lines = files.flat_map(|file| file.code.lines());
        let named = lines.filter_map(|line| line.trim().strip_prefix(before)?.split_once(": "));
        named
            .map(|(name, _)| name.to_owned())
            .filter(|name| !name.is_empty() && name.chars().all(is_word))
            .collect()
    };
    let spec = fields(&["crates/loop-core/src/spec/"], "pub ");
    let tables = ["gate", "limits", "models", "protocol"];
    let tables = tables.map(|table| format!("crates/loop-domain/src/config/{table}.rs"));
    let tables = fields(&tables.each_ref().map(String::as_str), "pub(crate) ");
    spec.intersection(&tables).cloned().collect()
}

/// The number of names that the root of a crate exports, without modules and crates re-exported as modules.
fn root_names(code: &str) -> usize {
    let mut count = 0;
    let mut depth = 0_usize;
    let mut uses = String::new();
    for line in code.lines() {
        if depth == 0 && (uses.is_empty() && line.starts_with("pub use ") || !uses.is_empty()) {
            uses.push_str(line);
            if uses.trim_end().ends_with(';') {
                count += match uses.split_once('{') {
                    Some((_, names)) => names.split(',').filter(|name| name.contains(is_word)).count(),
                    None => usize::from(uses.contains("::")),
                };
                uses.clear();
            }
            continue;
        }
        let is_item = ["pub struct ", "pub enum ", "pub trait ", "pub fn ", "pub const ", "pub type "];
        count += usize::from(depth == 0 && is_item.iter().any(|head| line.starts_with(head)));
        depth = (depth + line.matches('{').count()).saturating_sub(line.matches('}').count());
    }
    count
}

/// The top-level commands in the page of help texts.
fn commands(help: &str) -> BTreeSet<&str> {
    let heads = help.lines().filter_map(|line| line.strip_prefix("## `loopgate ")?.strip_suffix('`'));
    heads.filter_map(|name| name.split(' ').next()).collect()
}

/// The number of options of all commands, without the global ones.
fn options(help: &str) -> usize {
    // What a text of an option says begins further to the right.
    let option = |line: &&str| line.starts_with("  -") || line.starts_with("      --");
    let of_all = ["--help", "--version"];
    help.lines().filter(option).filter(|line| !of_all.iter().any(|it| line.contains(it))).count()
}

fn words(root: &Path) -> Result<usize, Failure> {
    let mut files = workspace::files_below(&root.join("docs"), "md")?;
    files.extend(["README.md", "CHANGELOG.md"].map(|name| root.join(name)));
    files.iter().try_fold(0, |all, path| Ok(all + workspace::read(path)?.split_whitespace().count()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_root_are_counted_without_its_modules() {
        let code = "pub use a::{B, C as D};\npub use other_crate as journal;\npub mod m {\n    pub use a::E;\n}\n\
                    pub use a::{\n    F,\n    G,\n};\npub use a::H;\npub fn i() {}\n";
        assert_eq!(root_names(code), 6);
    }

    #[test]
    fn commands_and_options_are_those_of_the_page() {
        let help = "## `loopgate`\n  -h, --help  x\n## `loopgate run`\n      --json  x\n  -j, --jobs <N>\n## `loopgate journal stats`\n\
                    ## `loopgate journal prune`\n";
        assert_eq!(commands(help), BTreeSet::from(["run", "journal"]));
        assert_eq!(options(help), 2);
    }

    #[test]
    fn every_crate_has_a_bound_and_every_row_a_number() {
        let known = BOUNDS.map(|(krate, _)| krate);
        for package in workspace::packages(workspace::root()).unwrap() {
            assert!(known.contains(&package.as_str()), "give `{package}` a bound in xtask/src/measures.rs");
        }
        assert!(rows(workspace::root()).unwrap().len() > 30);
    }
}
