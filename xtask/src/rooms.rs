//! Checks which modules of `loop-core`, `loop-runtime` and `loopgate` may use which. Part of `cargo xtask layers`.
//!
//! A room is a top-level folder of a crate, used only through its `mod.rs`. It may use itself and the rooms that its
//! table lists. Every path that begins with `crate::` is checked, in `use` and in code, in tests too.

use std::path::Path;

use crate::rust_text;
use crate::workspace::{self, Failure};

/// A crate with rooms: its name, and each room with the rooms that it may use.
type CrateRooms = (&'static str, &'static [(&'static str, &'static [&'static str])]);

const HOUSES: [CrateRooms; 3] = [
    (
        "loop-core",
        &[
            ("types", &[]),
            ("secrets", &["types"]),
            ("spec", &["types"]),
            ("reply", &["types", "spec"]),
            ("policy", &["types", "spec", "reply"]),
            ("repeats", &["types", "spec", "reply"]),
            ("gate", &["types", "spec", "reply", "policy", "repeats"]),
            ("run", &["types", "spec", "reply", "policy", "repeats", "gate"]),
            ("invariants", &["types", "spec", "reply", "policy", "repeats", "gate", "run"]),
        ],
    ),
    (
        "loop-runtime",
        &[
            ("watch", &[]),
            ("drive", &["watch"]),
            ("agent", &["watch", "drive"]),
            ("engine", &["watch", "drive"]),
        ],
    ),
    (
        "loopgate",
        &[
            ("output", &[]),
            ("args", &["output"]),
            ("context", &["output", "args"]),
            ("shown", &["output", "args"]),
            ("drive", &["output", "args", "context", "shown"]),
            ("start", &COMMANDS),
            ("look", &COMMANDS),
            ("decide", &COMMANDS),
            ("check", &COMMANDS),
            ("history", &COMMANDS),
            ("serve", &COMMANDS),
        ],
    ),
];

/// The rooms that command rooms may use. A command room may not use another one.
const COMMANDS: [&str; 5] = ["output", "args", "context", "shown", "drive"];

/// One line for each forbidden path, for each file outside of a room, and for each room without a `mod.rs`.
pub(crate) fn find_problems() -> Result<Vec<String>, Failure> {
    let root = workspace::root();
    let mut problems = Vec::new();
    for house in &HOUSES {
        let (krate, rooms) = house;
        let sources = root.join(format!("crates/{krate}/src"));
        for (room, _) in *rooms {
            if !sources.join(room).join("mod.rs").is_file() {
                problems.push(format!("crates/{krate}/src/{room}/mod.rs: the room `{room}` has no door"));
            }
        }
        for path in workspace::files_below(&sources, "rs")? {
            let inside = path.strip_prefix(&sources).unwrap_or(&path);
            problems.extend(check(house, inside, &workspace::read(&path)?));
        }
    }
    Ok(problems)
}

/// The errors in one file. `path` is relative to the sources of the crate.
fn check((krate, rooms): &CrateRooms, path: &Path, text: &str) -> Vec<String> {
    let shown = format!("crates/{krate}/src/{}", path.display());
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let (room, below) = match parts.as_slice() {
        ["lib.rs" | "main.rs"] => return Vec::new(),
        [first, _, ..] => match rooms.iter().find(|(room, _)| room == first) {
            Some((room, below)) => (*room, *below),
            None => {
                return vec![format!("{shown}: `{first}` is not a room: see HOUSES in xtask/src/rooms.rs")];
            }
        },
        _ => return vec![format!("{shown}: a file outside of the rooms; only lib.rs is")],
    };
    let code = rust_text::code_only(text);
    let depth = parts.len() - 1;
    let mut problems = Vec::new();
    for (line, name) in names_of_root(&code, depth) {
        if name == room || below.contains(&name) {
            continue;
        }
        let why = match rooms.iter().any(|(known, _)| *known == name) {
            true => format!("the room `{room}` may not use `{name}`, which is not below it"),
            false => format!("`{name}` is not a room: name the room that it is in"),
        };
        problems.push(format!("{shown}:{line}: {why}"));
    }
    problems
}

/// The first names after `crate::` in a file's code, each with its line, with braces expanded. A path by `super` that
/// leaves a room counts as one from the root. `depth` is how many folders below the root the file is.
fn names_of_root(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let leaves = "super::".repeat(depth + 1);
    let mut found = Vec::new();
    for root in ["crate::", leaves.as_str()] {
        for (at, _) in code.match_indices(root) {
            let before = code.get(..at).unwrap_or_default();
            if before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
                continue;
            }
            let line = before.matches('\n').count() + 1;
            let rest = code.get(at + root.len()..).unwrap_or_default();
            match rest.strip_prefix('{') {
                Some(group) => found.extend(firsts(group).into_iter().map(|name| (line, name))),
                None => found.push((line, word(rest))),
            }
        }
    }
    found
}

/// The first word of each entry of a group in braces.
fn firsts(group: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.extend(group.get(from..at).map(word).filter(|name| !name.is_empty()));
                from = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn word(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    #[track_caller]
    fn check_found(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(check(&HOUSES[0], Path::new(path), text), expected);
    }

    #[test]
    fn the_rooms_of_each_crate_use_the_rooms_below_them() {
        let problems = find_problems().unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn paths_downward_and_within_a_room_are_no_problem() {
        let text = "use crate::types::{Digest, Slot};\nuse crate::{spec::Limits, gate::{stop, verdict}};\n\
                    fn f() { crate::policy::ruling(); super::decide(); }\n";
        check_found("gate/judge.rs", text, &[]);
        check_found("lib.rs", "pub use crate::run::Run;", &[]);
    }

    #[test]
    fn a_path_upward_is_named_with_its_line() {
        let upward = "crates/loop-core/src/policy/mod.rs:2: the room `policy` may not use `gate`, which is not below it";
        check_found("policy/mod.rs", "use crate::spec::RunSpec;\nuse crate::gate::Verdict;\n", &[upward]);
        check_found("policy/mod.rs", "\nfn f() -> crate::gate::Verdict {}\n", &[upward]);
        check_found(
            "policy/mod.rs",
            "\nuse crate::{\n    spec::RunSpec,\n    gate::{Verdict, Limit},\n};\n",
            &[upward],
        );
        check_found("policy/mod.rs", "\nuse super::super::gate::Verdict;\n", &[upward]);
        let beside = "crates/loop-core/src/repeats/guard.rs:1: the room `repeats` may not use `policy`, which is not below it";
        check_found("repeats/guard.rs", "use crate::policy::reported;", &[beside]);
    }

    #[test]
    fn a_name_of_the_root_is_not_a_room() {
        let root = "crates/loop-core/src/run/phase.rs:1: `Digest` is not a room: name the room that it is in";
        check_found("run/phase.rs", "use crate::Digest;", &[root]);
    }

    #[test]
    fn comments_and_texts_name_what_they_like() {
        check_found(
            "types/ids.rs",
            "//! See [`Run`](crate::Run).\nconst A: &str = \"crate::run::Run\";\n",
            &[],
        );
        check_found("types/ids.rs", "macro_rules! m { () => { $crate::run::Run } }", &[]);
    }

    #[test]
    fn a_file_outside_of_the_rooms_is_reported() {
        check_found(
            "odds.rs",
            "",
            &["crates/loop-core/src/odds.rs: a file outside of the rooms; only lib.rs is"],
        );
        let other =
            "crates/loop-core/src/attic/mod.rs: `attic` is not a room: see HOUSES in xtask/src/rooms.rs";
        check_found("attic/mod.rs", "", &[other]);
    }
}
