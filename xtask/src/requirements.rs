//! `cargo xtask requirements`: checks that tests name the ids in the table `docs/requirements.md`, and only those.
//!
//! A test names an id in a comment, a doc comment or a string, inside a `#[cfg(test)]` part, in a file under `tests/`, or in
//! `loop-testkit`, whose checks run in the tests of other crates.
//! Each row `test` must be named by a test. Each row `decision: ADR NNNN` must be explained by that record, and not be
//! claimed by a test or an eval case. No test may name an unknown row.
//! In addition, every invariant, fault and control of the reliability page is named by a test, or is in
//! `docs/reference/testing.md` with the issue that it comes with.

mod promises;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::table::{Coverage, Id, Row};
use crate::rust_text;
use crate::workspace::{self, Failure};

/// `list`: prints each row with the tests that name it, or with its other state.
pub(crate) fn run(list: bool, shared: Option<&Path>) -> Result<(), Failure> {
    let root = workspace::root();
    let rows = match table::parse(&workspace::read(&root.join(TABLE))?) {
        Ok(rows) => rows,
        Err(problems) => return workspace::report("requirements", &problems),
    };
    let named = named_by_tests(root)?;
    if list {
        let line = |row: &Row| match (&row.state, named.rows.get(&row.id)) {
            (Coverage::Test, Some(places)) => {
                let places: Vec<&str> = places.iter().map(String::as_str).collect();
                format!("{:7} {}", row.id.to_string(), places.join(" "))
            }
            (Coverage::Test, None) => format!("{:7} no test", row.id.to_string()),
            (Coverage::Doc, _) => format!("{:7} doc", row.id.to_string()),
            (Coverage::Decision(number), _) => format!("{:7} decided by ADR {number:04}", row.id.to_string()),
        };
        workspace::print_lines(&rows.iter().map(line).collect::<Vec<_>>());
        return Ok(());
    }
    let mut problems = compare(&rows, &named.rows);
    problems.extend(decided(&rows, &named.rows, root)?);
    problems.extend(promises::problems(&named.promises, &workspace::read(&root.join(promises::PAGE))?));
    let source = match shared {
        Some(path) => Some(path.to_owned()),
        None => Some(root.join("../shared/requirements.md")).filter(|path| path.is_file()),
    };
    if let Some(source) = source {
        problems.extend(missing(&rows, &workspace::read(&source)?));
    }
    workspace::print_lines(&summary(&rows, &named.rows));
    workspace::report("requirements", &problems)
}

/// The crate of fixtures, which counts as tests.
const TEST_KIT: &str = "loop-testkit";

const TABLE: &str = "docs/requirements.md";

/// The places at which tests name each id, as `file:line`.
type Places = BTreeMap<Id, BTreeSet<String>>;

fn compare(rows: &[Row], named: &Places) -> Vec<String> {
    let mut problems = Vec::new();
    for row in rows {
        let (id, line) = (row.id, row.line);
        let first = named.get(&id).and_then(BTreeSet::first);
        match (&row.state, first) {
            (Coverage::Test, None) => {
                problems.push((
                    id,
                    format!("{TABLE}:{line}: {id} has no reason at its end, and no test names it"),
                ));
            }
            (Coverage::Decision(number), Some(place)) => {
                let text = format!(
                    "{TABLE}:{line}: {id} is decided by ADR {number:04}, but {place} names it: take the id out there"
                );
                problems.push((id, text));
            }
            (Coverage::Test, Some(_)) | (Coverage::Decision(_), None) | (Coverage::Doc, _) => {}
        }
    }
    let known: BTreeSet<Id> = rows.iter().map(|row| row.id).collect();
    for (id, places) in named {
        if !known.contains(id) {
            problems.extend(places.iter().map(|place| (*id, format!("{place}: {id} is not in {TABLE}"))));
        }
    }
    problems.sort();
    problems.into_iter().map(|(_, text)| text).collect()
}

/// Errors in rows that a later decision contradicts: the record is missing, it does not name the row, or an eval case
/// claims the row.
fn decided(rows: &[Row], named: &Places, root: &Path) -> Result<Vec<String>, Failure> {
    let records = workspace::files_below(&root.join("docs/adr"), "md")?;
    let cases = workspace::files_below(&root.join("examples"), "json")?;
    let mut problems = Vec::new();
    for row in rows {
        let Coverage::Decision(number) = row.state else { continue };
        let (id, line) = (row.id, row.line);
        let is_it = |path: &&PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{number:04}-")))
        };
        match records.iter().find(is_it) {
            None => problems.push(format!("{TABLE}:{line}: {id}: there is no ADR {number:04} in docs/adr")),
            Some(path) if !names(&workspace::read(path)?, id) => {
                problems
                    .push(format!("{TABLE}:{line}: {id}: {} does not name it", workspace::shown(root, path)));
            }
            Some(_) => {}
        }
        for path in &cases {
            // A row that a test names is reported already.
            if !named.contains_key(&id) && names(&workspace::read(path)?, id) {
                let case = workspace::shown(root, path);
                problems
                    .push(format!("{TABLE}:{line}: {id} is decided by ADR {number:04}, but {case} names it"));
            }
        }
    }
    Ok(problems)
}

/// Whether a text names this row.
fn names(text: &str, id: Id) -> bool {
    table::ids_in(text).into_iter().any(|(_, found)| found == id)
}

fn missing(rows: &[Row], source: &str) -> Vec<String> {
    let ours: BTreeSet<Id> = rows.iter().map(|row| row.id).collect();
    let theirs: BTreeSet<Id> = source.lines().filter_map(table::first_id).collect();
    theirs.difference(&ours).map(|id| format!("{TABLE}: {id} is missing")).collect()
}

fn summary(rows: &[Row], named: &Places) -> Vec<String> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(row.id.group()).or_default().push(row);
    }
    let lines = groups.into_iter().map(|(group, rows)| {
        let of = |is_it: fn(&Coverage) -> bool| rows.iter().filter(|row| is_it(&row.state)).count();
        let (test, doc) = (of(|it| *it == Coverage::Test), of(|it| *it == Coverage::Doc));
        let decided = rows.len() - test - doc;
        let tested =
            rows.iter().filter(|row| row.state == Coverage::Test && named.contains_key(&row.id)).count();
        let decided = if decided > 0 { format!(", {decided} decided otherwise") } else { String::new() };
        format!("{group}: {} rows: {tested} of {test} named by tests{decided}, {doc} doc", rows.len())
    });
    lines.collect()
}

/// The ids that tests name: rows of the table, and promises of the reliability page.
#[derive(Default)]
struct Named {
    rows: Places,
    promises: BTreeSet<promises::Promise>,
}

fn named_by_tests(root: &Path) -> Result<Named, Failure> {
    let mut places = Named::default();
    for package in workspace::packages(root)? {
        let folder = if package == "xtask" { root.join("xtask") } else { root.join("crates").join(&package) };
        let mut sources = Vec::new();
        for path in workspace::files_below(&folder.join("src"), "rs")? {
            let text = workspace::read(&path)?;
            sources.push(Source::new(path, text));
        }
        let test_modules: Vec<PathBuf> = sources.iter().flat_map(Source::test_modules).collect();
        for source in &sources {
            // A `#[path]` module is known by its name: `dispatch_tests.rs` holds the tests of `dispatch.rs`.
            let by_name =
                source.path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("_tests"));
            let whole = package == TEST_KIT
                || by_name
                || test_modules.iter().any(|module| is_of(module, &source.path));
            source.collect(root, whole, &mut places);
        }
        for path in workspace::files_below(&folder.join("tests"), "rs")? {
            let text = workspace::read(&path)?;
            Source::new(path, text).collect(root, true, &mut places);
        }
    }
    Ok(places)
}

/// A Rust file with the ranges of its code and of its tests.
struct Source {
    path: PathBuf,
    text: String,
    code: String,
    tests: rust_text::TestParts,
}

impl Source {
    fn new(path: PathBuf, text: String) -> Source {
        let code = rust_text::code_only(&text);
        let tests = rust_text::test_parts(&code);
        Source { path, text, code, tests }
    }

    /// The modules in other files that this one declares for tests, as paths without `.rs`.
    fn test_modules(&self) -> Vec<PathBuf> {
        let parent = self.path.parent().unwrap_or(Path::new(""));
        let stem = self.path.file_stem().unwrap_or_default();
        let folder = match stem.to_str() {
            Some("lib" | "main" | "mod") => parent.to_owned(),
            _ => parent.join(stem),
        };
        self.tests.modules.iter().map(|name| folder.join(name)).collect()
    }

    fn collect(&self, root: &Path, whole: bool, named: &mut Named) {
        let counts = |at: usize| {
            let in_words = self.code.as_bytes().get(at) == Some(&b' ');
            in_words && (whole || self.tests.ranges.iter().any(|range| range.contains(&at)))
        };
        for (at, id) in table::ids_in(&self.text).into_iter().filter(|(at, _)| counts(*at)) {
            let line = rust_text::line_of(&self.text, at);
            let place = format!("{}:{line}", workspace::shown(root, &self.path));
            named.rows.entry(id).or_default().insert(place);
        }
        let promises = promises::all_in(&self.text).into_iter().filter(|(at, _)| counts(*at));
        named.promises.extend(promises.map(|(_, promise)| promise));
    }
}

/// Whether a file is a module, or lies in its folder.
fn is_of(module: &Path, file: &Path) -> bool {
    file == module.with_extension("rs") || file.starts_with(module)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Sample ids are written with `@`, or this file would name them itself.
    fn sample(text: &str) -> String {
        text.replace('@', "S")
    }

    fn collected(text: &str, whole: bool) -> Vec<String> {
        let mut named = Named::default();
        Source::new(PathBuf::from("a.rs"), sample(text)).collect(Path::new(""), whole, &mut named);
        named
            .rows
            .iter()
            .flat_map(|(id, places)| places.iter().map(move |place| format!("{place} {id}")))
            .collect()
    }

    #[test]
    fn only_words_in_test_parts_count() {
        let text = "//! @0-1\nfn a() {} // @0-2\n#[cfg(test)]\nmod tests {\n    // @0-d3\n    fn b() { c(\"@1-4\") }\n}\n";
        assert_eq!(collected(text, false), [sample("a.rs:5 @0-d3"), sample("a.rs:6 @1-4")]);
        assert_eq!(collected(text, true).len(), 4);
    }

    #[test]
    fn an_id_is_a_whole_word() {
        let text = "// @0-51, (@0-52) @0-53/@0-54. `@0-d5`: no x@0-6 @0-7x @0-8-b @0-09 @9-1 @0-\n";
        assert_eq!(
            collected(text, true),
            ["@0-51", "@0-52", "@0-53", "@0-54", "@0-d5"].map(|id| sample(&format!("a.rs:1 {id}")))
        );
    }

    #[test]
    fn a_test_module_in_its_own_file_is_found() {
        let modules = |path: &str| {
            Source::new(PathBuf::from(path), "#[cfg(test)]\nmod walk;\n".to_owned()).test_modules()
        };
        assert_eq!(modules("src/lib.rs"), [Path::new("src/walk")]);
        assert_eq!(modules("src/run/mod.rs"), [Path::new("src/run/walk")]);
        assert_eq!(modules("src/run.rs"), [Path::new("src/run/walk")]);
        assert!(is_of(Path::new("src/run/walk"), Path::new("src/run/walk.rs")));
        assert!(is_of(Path::new("src/run/walk"), Path::new("src/run/walk/alphabet.rs")));
        assert!(!is_of(Path::new("src/run/walk"), Path::new("src/run/walker.rs")));
    }

    #[test]
    fn the_table_is_held_against_the_tests() {
        let text = "- @0-1: a\n- @0-3: c (doc: an aim)\n- @0-4: d\n\
             - @0-5: e (decision: ADR 0007)\n- @0-6: f (decision: ADR 0007)\n";
        let rows = table::parse(&sample(text)).unwrap();
        let mut named = Named::default();
        Source::new(PathBuf::from("t.rs"), sample("// @0-4\n// @1-9 @0-6\n")).collect(
            Path::new(""),
            true,
            &mut named,
        );
        let named = named.rows;
        let expected = [
            "docs/requirements.md:1: @0-1 has no reason at its end, and no test names it",
            "docs/requirements.md:5: @0-6 is decided by ADR 0007, but t.rs:2 names it: take the id out there",
            "t.rs:2: @1-9 is not in docs/requirements.md",
        ];
        assert_eq!(compare(&rows, &named), expected.map(sample));
        assert_eq!(
            summary(&rows, &named),
            [sample("@0: 5 rows: 1 of 2 named by tests, 2 decided otherwise, 1 doc")]
        );
        assert_eq!(
            missing(&rows, &sample("| @0-3 | kind | x \\| y | 3 |\n| @0-8 | z |\ntext @0-9\n")),
            [sample("docs/requirements.md: @0-8 is missing")]
        );
    }

    #[test]
    fn a_decision_is_one_that_a_record_explains_and_no_case_covers() {
        let folder = std::env::temp_dir().join(format!("loopgate-requirements-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("docs/adr/0007-a.md", &sample("@0-1 is left out, and @0-2."));
        write("examples/a/evals/b.json", &sample("{\"covers\": [\"@0-2\"]}"));
        let text = "- @0-1: a (decision: ADR 0007)\n- @0-2: b (decision: ADR 0007)\n\
                    - @0-3: c (decision: ADR 0007)\n- @0-4: d (decision: ADR 0008)\n";
        let rows = table::parse(&sample(text)).unwrap();
        let problems = decided(&rows, &Places::new(), &folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let expected = [
            "docs/requirements.md:2: @0-2 is decided by ADR 0007, but examples/a/evals/b.json names it",
            "docs/requirements.md:3: @0-3: docs/adr/0007-a.md does not name it",
            "docs/requirements.md:4: @0-4: there is no ADR 0008 in docs/adr",
        ];
        assert_eq!(problems, expected.map(sample));
    }

    #[test]
    fn our_own_table_can_be_read() {
        let rows = table::parse(&workspace::read(&workspace::root().join(TABLE)).unwrap());
        assert!(rows.is_ok(), "{rows:?}");
    }
}
