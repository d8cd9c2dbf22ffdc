//! `cargo xtask tidy --report`: how readable the code is, in numbers that are counted the same way each time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::workspace::{self, Failure};
use crate::{rust_text, terms};

/// The rooms of `loop-core` whose decisions are its story.
const STORY: [&str; 2] = ["gate", "run"];

/// A row of the report: what is counted, the count, and what it should be.
type Row = (String, String, &'static str);

pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let rows = rows(root)?;
    let width = rows.iter().map(|(what, ..)| what.chars().count()).max().unwrap_or(0);
    let mut lines = vec![format!("{:width$}  {:>12}  aim", "measure", "now")];
    lines.extend(rows.iter().map(|(what, now, aim)| format!("{what:width$}  {now:>12}  {aim}")));
    workspace::print_lines(&lines);
    Ok(())
}

fn rows(root: &Path) -> Result<Vec<Row>, Failure> {
    let sources = sources(root)?;
    let core = |file: &Source| file.name.starts_with("crates/loop-core/src/");
    let everywhere = |needle: &str| sources.iter().map(|file| count(&file.code, needle)).sum::<usize>();
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |what: &str, now: usize, aim| rows.push((what.to_owned(), now.to_string(), aim));

    let declared: Vec<(String, String)> = sources
        .iter()
        .filter(|file| file.name.starts_with("crates/"))
        .flat_map(|file| terms::public_types(&file.text).into_iter().map(|name| (name, file.name.clone())))
        .collect();
    row("public type names declared twice", terms::homonyms(&declared).len(), "0");
    let old: usize = sources.iter().map(|file| terms::old_terms(&file.name, &file.text).len()).sum();
    row("names with another term (lines of code)", old, "0");
    row("version branches", everywhere("has_whole_gate") + everywhere("has_judgement"), "0");

    let in_core = || sources.iter().filter(|file| core(file));
    row("fields of State", members(in_core(), "pub struct State {"), "9");
    row("variants of Phase", members(in_core(), "pub enum Phase {"), "7");
    let phases = in_core().flat_map(|file| file.code.lines());
    row("lines that list a variant of Phase", phases.filter(|line| lists_variant(line)).count(), "< 30");
    let asks = sources.iter().filter(|file| {
        !["spec", "reply"].iter().any(|room| file.name.starts_with(&format!("crates/loop-core/src/{room}/")))
    });
    row(
        "`is_native()` outside of spec and reply",
        asks.map(|file| count(&file.code, "is_native()")).sum(),
        "0",
    );
    let cycles = cycles(&sources);
    row("rooms of the core in import cycles", cycles, "0");

    let mut lines: BTreeMap<String, Length> = BTreeMap::new();
    let mut story = Length::default();
    for file in &sources {
        let folder = file.name.split('/').take_while(|part| *part != "src").last().unwrap_or_default();
        lines.entry(folder.to_owned()).or_default().add(file);
        if STORY.iter().any(|room| file.name.starts_with(&format!("crates/loop-core/src/{room}/"))) {
            story.add(file);
        }
    }
    row("lines of the core's story (gate and run)", story.all, "about 5000");
    row("  code alone", story.code, "");
    for (folder, lines) in lines {
        let aim = match &*folder {
            "loop-core" => "12500 at most",
            "loop-llm" => "15500 at most",
            _ => "",
        };
        row(&format!("lines of {folder} (src, without tests)"), lines.all, aim);
        row("  code alone", lines.code, "");
    }
    let readme = workspace::read(&root.join("README.md"))?;
    let says =
        readme.lines().position(|line| line.starts_with("Bounded AI agent loops")).map_or(0, |at| at + 1);
    row("line of README.md that says what it does", says, "3");
    Ok(rows)
}

/// A source file, without its tests.
struct Source {
    name: String,
    text: String,
    /// Without comments, strings and tests.
    code: String,
    /// Lines that are not of a test.
    lines: usize,
}

/// How long sources are, in lines, without tests.
#[derive(Clone, Copy, Default)]
struct Length {
    all: usize,
    /// Without comments and blank lines.
    code: usize,
}

impl Length {
    fn add(&mut self, file: &Source) {
        self.all += file.lines;
        self.code += file.code.lines().filter(|line| !line.trim().is_empty()).count();
    }
}

fn sources(root: &Path) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for package in workspace::packages(root)? {
        let folder = if package == "xtask" { root.join("xtask") } else { root.join("crates").join(&package) };
        for path in workspace::files_below(&folder.join("src"), "rs")? {
            let name = workspace::shown(root, &path);
            if name.ends_with("tests.rs") {
                continue;
            }
            let text = workspace::read(&path)?;
            let whole = rust_text::code_only(&text);
            let tests = rust_text::test_parts(&whole).ranges;
            let is_test = |at: usize| tests.iter().any(|range| range.contains(&at));
            let (mut code, mut lines, mut at) = (String::new(), 0, 0);
            for line in whole.split_inclusive('\n') {
                if !is_test(at) {
                    code.push_str(line);
                    lines += 1;
                }
                at += line.len();
            }
            sources.push(Source { name, text, code, lines });
        }
    }
    Ok(sources)
}

/// Whether a line constructs or matches a phase by its variant, such as `Phase::Calling {`.
fn lists_variant(line: &str) -> bool {
    let mut named = line.split("Phase::").skip(1);
    named.any(|rest| rest.starts_with(char::is_uppercase))
}

fn count(code: &str, needle: &str) -> usize {
    code.lines().filter(|line| line.contains(needle)).count()
}

/// Fields or variants: the lines of the block that begin at its own depth.
fn members<'a>(files: impl Iterator<Item = &'a Source>, head: &str) -> usize {
    let mut found = 0;
    for file in files {
        let Some((_, block)) = file.code.split_once(head) else { continue };
        let (mut depth, mut at_start) = (0_usize, true);
        for c in block.chars() {
            match c {
                '{' | '(' | '[' | '<' => depth += 1,
                '}' if depth == 0 => break,
                '}' | ')' | ']' | '>' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => at_start = true,
                // An attribute is no member.
                '#' => {}
                c if depth == 0 && at_start && c.is_alphabetic() => {
                    found += 1;
                    at_start = false;
                }
                _ => {}
            }
        }
    }
    found
}

/// How many rooms of the core import each other, directly or by way of others.
fn cycles(sources: &[Source]) -> usize {
    let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in sources {
        let Some(path) = file.name.strip_prefix("crates/loop-core/src/") else { continue };
        let Some((room, _)) = path.split_once('/') else { continue };
        for used in file.code.split("crate::").skip(1) {
            let used = used.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
            arrows.entry(room).or_default().insert(used);
        }
    }
    let reaches = |from: &str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> =
            arrows.get(from).into_iter().flatten().copied().filter(|to| *to != from).collect();
        while let Some(room) = open.pop() {
            if seen.insert(room) {
                open.extend(arrows.get(room).into_iter().flatten().copied());
            }
        }
        seen
    };
    arrows.keys().filter(|room| reaches(room).contains(**room)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, code: &str) -> Source {
        Source {
            name: name.to_owned(),
            text: code.to_owned(),
            code: code.to_owned(),
            lines: code.lines().count(),
        }
    }

    #[test]
    fn fields_and_variants_are_counted() {
        let state = source(
            "s.rs",
            "pub struct State {\n  a: Vec<(u8, u8)>,\n  pub(crate) b: u8,\n}\nstruct Other { c: u8 }\n",
        );
        assert_eq!(members([&state].into_iter(), "pub struct State {"), 2);
        let phase = source("p.rs", "pub enum Phase {\n  A,\n  B { a: u8, b: u8 },\n  C(u8),\n}\n");
        assert_eq!(members([&phase].into_iter(), "pub enum Phase {"), 3);
    }

    #[test]
    fn rooms_that_import_each_other_are_counted() {
        let file = |room: &str, uses: &str| source(&format!("crates/loop-core/src/{room}/mod.rs"), uses);
        let down =
            [file("types", ""), file("spec", "use crate::types::A;"), file("run", "use crate::spec::B;")];
        assert_eq!(cycles(&down), 0);
        let round = [
            file("types", "use crate::run::A;"),
            file("spec", "use crate::types::A;"),
            file("run", "use crate::spec::B;"),
        ];
        assert_eq!(cycles(&round), 3);
    }

    #[test]
    fn every_row_has_a_number() {
        let rows = rows(workspace::root()).unwrap_or_default();
        assert!(rows.len() > 15, "{rows:?}");
    }
}
