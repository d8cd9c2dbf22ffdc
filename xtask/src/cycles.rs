//! Finds import cycles between the files of a crate.

use std::collections::{BTreeMap, BTreeSet};

/// A source file: its path below `src` and its code, without comments and tests.
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) code: String,
}

/// The largest set of files in which each reaches all others by imports. Empty: there is no cycle.
///
/// An import is a path that begins with `crate` or `super`. It leads to the file of the longest module that it names.
/// Declarations and re-exports in `mod.rs` and `lib.rs` do not count, and neither do imports of such a file.
pub(crate) fn largest(files: &[File]) -> BTreeSet<String> {
    let modules: BTreeMap<Vec<&str>, &str> =
        files.iter().map(|file| (module_of(&file.name), &*file.name)).collect();
    let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| !is_folder(&file.name)) {
        let to = arrows.entry(&file.name).or_default();
        for path in paths(&file.code, &module_of(&file.name)) {
            let named = (1..=path.len()).rev().find_map(|length| {
                let module: Vec<&str> = path.iter().take(length).map(String::as_str).collect();
                modules.get(&module)
            });
            to.extend(named.filter(|name| !is_folder(name) && **name != file.name));
        }
    }
    let all: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|file| (*file, reached(&arrows, file))).collect();
    let cycle = |file: &str| -> BTreeSet<String> {
        let mutual = all
            .get(file)
            .into_iter()
            .flatten()
            .filter(|to| all.get(**to).is_some_and(|back| back.contains(file)));
        mutual.map(|name| (*name).to_owned()).collect()
    };
    all.keys().map(|file| cycle(file)).max_by_key(BTreeSet::len).unwrap_or_default()
}

/// The files that this one reaches by imports.
fn reached<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        for to in arrows.get(file).into_iter().flatten().copied() {
            if seen.insert(to) {
                open.push(to);
            }
        }
    }
    seen
}

fn is_folder(name: &str) -> bool {
    name.ends_with("mod.rs") || name == "lib.rs" || name == "main.rs"
}

/// The module of a file: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module_of(name: &str) -> Vec<&str> {
    let name = name.strip_suffix(".rs").unwrap_or(name);
    let name = name.strip_suffix("/mod").unwrap_or(name);
    if ["lib", "main", "mod"].contains(&name) { Vec::new() } else { name.split('/').collect() }
}

/// The paths in code from the root of its crate, with the first level of braces expanded.
fn paths(code: &str, module: &[&str]) -> Vec<Vec<String>> {
    let flat: String = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for (head, from) in [("crate::", 0), ("super::", 1)] {
        for (at, _) in flat.match_indices(head) {
            let before = flat.get(..at).unwrap_or_default();
            if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') || before.ends_with("super::") {
                continue;
            }
            let (mut rest, mut up) = (flat.get(at + head.len()..).unwrap_or_default(), from);
            while let Some(outer) = rest.strip_prefix("super::") {
                (rest, up) = (outer, up + 1);
            }
            let base: Vec<String> = match from {
                0 => Vec::new(),
                _ => module.iter().take(module.len().saturating_sub(up)).map(ToString::to_string).collect(),
            };
            let end =
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
            let (path, behind) = rest.split_at(end);
            let steps: Vec<String> =
                path.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect();
            let path = [base, steps].concat();
            match behind.strip_prefix('{').and_then(|group| group.split_once('}')) {
                Some((group, _)) => found.extend(group.split(',').map(|name| {
                    let steps = name.trim().split("::").map(str::to_owned);
                    path.iter().cloned().chain(steps).collect()
                })),
                None => found.push(path),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, code: &str) -> File {
        File { name: name.to_owned(), code: code.to_owned() }
    }

    #[test]
    fn files_that_reach_each_other_are_a_cycle() {
        let files = [
            file("lib.rs", "pub mod a; pub use crate::c::C;"),
            file("a.rs", "use crate::b::{self, B};"),
            file("b.rs", "use crate::{d::inner::D, e};"),
            file("d/inner.rs", "use super::super::a::A;"),
            file("d/mod.rs", "mod inner; use crate::a;"),
            file("e.rs", "fn f() { crate::c::g() }"),
            file("c.rs", ""),
        ];
        assert_eq!(largest(&files), BTreeSet::from(["a.rs", "b.rs", "d/inner.rs"].map(str::to_owned)));
    }
}
