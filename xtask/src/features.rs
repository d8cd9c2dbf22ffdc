//! Checks that the README's first command and the tests build shared dependencies with the same features.
//!
//! A dependency with an additional feature is built again for the tests, with all crates above it. The feature
//! `as-tested` of `loopgate` enables the features that the tests need, and this check finds missing ones. It also finds
//! libraries of procedural macros that a program depends on, since cargo then builds the macros twice.

use std::collections::{BTreeMap, BTreeSet};

use xshell::{Shell, cmd};

use crate::test::WORKSPACE;
use crate::workspace::{self, Failure};

/// Crates that must have the same features in both builds, with everything below them.
const SHARED: [&str; 3] = ["loop-llm", "loop-mock", "loop-prompts"];

/// The features of each package. A package has several sets if the programs of a build differ.
type Features = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn run() -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    let tree = |arguments: &[&str]| {
        let tree = cmd!(shell, "cargo tree --locked --prefix none --format {FORMAT} {arguments...}");
        tree.quiet().read().map(|tree| features(&tree))
    };
    let shared = SHARED.iter().flat_map(|name| ["-p", name]).chain(["-e", "normal"]).collect::<Vec<_>>();
    let first = tree(&["-p", "loopgate", "-e", "normal,build"])?;
    let tests = tree(&[&WORKSPACE[..], &["-e", "normal,build,dev"]].concat())?;
    let programs = tree(&[&WORKSPACE[..], &["-e", "normal,dev,no-proc-macro"]].concat())?;
    let shared = tree(&shared)?;
    println!("features: {} packages that the first command and the tests share", shared.len());
    let problems = [problems(&shared, &first, &tests), libraries_of_macros(&programs)].concat();
    workspace::report("features", &problems)
}

/// A line of `cargo tree`: a package, and its features.
const FORMAT: &str = "{p}|{f}";

fn features(tree: &str) -> Features {
    let mut features = Features::new();
    for (package, rest) in tree.lines().filter_map(|line| line.split_once('|')) {
        // A package that was listed before is marked.
        let of = rest.trim_end_matches(" (*)").to_owned();
        features.entry(package.trim_end_matches(" (proc-macro)").to_owned()).or_default().insert(of);
    }
    features
}

/// Shared packages whose features in the first command occur in no test build.
fn problems(shared: &Features, first: &Features, tests: &Features) -> Vec<String> {
    let empty = BTreeSet::new();
    let mut problems = Vec::new();
    for package in shared.keys() {
        let [first, tests] = [first, tests].map(|all| all.get(package).unwrap_or(&empty));
        if first.is_disjoint(tests) {
            let [first, tests] = [first, tests].map(named);
            let more: Vec<&str> = BTreeSet::difference(&tests, &first).copied().collect();
            let fewer: Vec<&str> = BTreeSet::difference(&first, &tests).copied().collect();
            let more = if more.is_empty() { String::new() } else { format!(" with {}", more.join(", ")) };
            let fewer =
                if fewer.is_empty() { String::new() } else { format!(" without {}", fewer.join(", ")) };
            problems.push(format!(
                "the tests build {package} again,{more}{fewer}: change `as-tested` in crates/loopgate/Cargo.toml"
            ));
        }
    }
    problems
}

/// Libraries of procedural macros that a program depends on.
fn libraries_of_macros(programs: &Features) -> Vec<String> {
    let is_one = |package: &&String| {
        let name = package.split(' ').next().unwrap_or_default();
        ["proc-macro2", "quote", "syn", "unicode-ident"].contains(&name)
    };
    let found = programs.keys().filter(is_one);
    found
        .map(|package| {
            format!("the tests build all procedural macros again, because a program has {package}: test its crate apart, as in xtask/src/test.rs")
        })
        .collect()
}

fn named(features: &BTreeSet<String>) -> BTreeSet<&str> {
    features.iter().flat_map(|it| it.split(',')).filter(|it| !it.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_dependency_with_a_feature_more_in_tests_is_named() {
        let shared = features("a v1|\nb v1|x (*)\n");
        let first = features("a v1|default,std\nb v1|x\nc v1|");
        // As a program of the build `a` has no features at all.
        let tests = features("a v1|alloc,default,std\na v1|\nb v1|x (*)\nc v1|y");
        assert_eq!(
            problems(&shared, &first, &tests),
            ["the tests build a v1 again, with alloc: change `as-tested` in crates/loopgate/Cargo.toml"]
        );
        assert_eq!(problems(&shared, &first, &first), Vec::<String>::new());
    }

    #[test]
    fn a_library_of_macros_in_a_program_is_named() {
        let programs = features("serde v1|derive\nsyn v2.0.119|full\n");
        let named = libraries_of_macros(&programs);
        assert!(matches!(&named[..], [one] if one.contains("syn v2.0.119")), "{named:?}");
    }
}
