//! `cargo xtask explore`: walks the reachable states of small runs further than a test does, and tries many more random
//! cases of the core's properties.

use std::fs;

use xshell::Shell;

use crate::bench;
use crate::servers::{self, TestPrograms};
use crate::teed::{teed, teed_in};
use crate::workspace::{self, Failure};

/// The file with the expected results of the walk.
const SEEN: &str = "crates/loop-core/tests/explore/walk.txt";

/// Walks every alphabet of `crates/loop-core/tests/explore`, optimised, and prints a line for each. The result is
/// compared with its file, or written to it. A `full` walk sees five times as many states and is only printed.
///
/// After a test run of the workspace, its `programs` and the walk built by `cargo xtask bench check` are used.
pub(crate) fn run(write: bool, full: bool, programs: Option<&TestPrograms>) -> Result<(), Failure> {
    println!(
        "states, edges and ends by alphabet; `cut` where the walk was ended before it had seen everything"
    );
    let scope = [("LOOPGATE_EXPLORE", if full { "full" } else { "wide" })];
    let (lines, passed) = if programs.is_some() {
        let shell = Shell::new()?;
        shell.change_dir(workspace::root());
        let walk = bench::walk(&shell)?.display().to_string();
        teed_in(&servers::folder_of(CORE), &walk, &["--nocapture"], &scope)?
    } else {
        let test = [
            "test",
            "--profile",
            bench::COUNTED,
            "--locked",
            "-p",
            CORE,
            "--test",
            "explore",
            "--",
            "--nocapture",
        ];
        teed("cargo", &test, &scope)?
    };
    if !passed {
        return Err(Failure::Check("explore: the walk found a fault".to_owned()));
    }
    properties(programs)?;
    let seen = table(&lines)?;
    if full {
        println!("{seen}");
        return Ok(());
    }
    let path = workspace::root().join(SEEN);
    if write {
        return fs::write(&path, seen).map_err(|error| Failure::Check(format!("{SEEN}: {error}")));
    }
    if workspace::read(&path)? == seen {
        return Ok(());
    }
    let what = "differs from this walk; `cargo xtask explore --write` writes what was seen";
    Err(Failure::Check(format!("{SEEN}: {what}")))
}

/// Tries the core's properties on many new random cases. The tests are unoptimised, since optimising them takes longer
/// than they run.
fn properties(programs: Option<&TestPrograms>) -> Result<(), Failure> {
    let times = [("LOOPGATE_PROPERTIES", "20")];
    let (_, passed) = if let Some(programs) = programs {
        teed_in(&servers::folder_of(CORE), servers::program(programs, CORE)?, &PROPERTIES, &times)?
    } else {
        let test = ["test", "--locked", "-p", CORE, "--test", "it", "--"];
        teed("cargo", &[&test[..], &PROPERTIES].concat(), &times)?
    };
    match passed {
        true => Ok(()),
        false => Err(Failure::Check("explore: a property does not hold".to_owned())),
    }
}

const CORE: &str = "loop-core";
const PROPERTIES: [&str; 2] = ["properties::", "repeats_ledger::"];

/// The result of the walk of an alphabet.
#[derive(Debug, PartialEq, Eq)]
struct AlphabetWalk {
    name: String,
    states: u64,
    edges: u64,
    deep: u64,
    bound: u64,
    is_cut: bool,
}

/// The content of the file: a summary sentence, then a row for each alphabet.
fn table(lines: &[String]) -> Result<String, Failure> {
    let mut walked: Vec<AlphabetWalk> = lines.iter().filter_map(|line| read(line)).collect();
    walked.sort_by(|a, b| a.name.cmp(&b.name));
    let bound = lines.iter().find_map(|line| {
        let reported = line.split_once("a run of the defaults takes ")?.1;
        reported.split_once(" events")?.0.parse::<u64>().ok()
    });
    let (Some(bound), false) = (bound, walked.is_empty()) else {
        return Err(Failure::Check("explore: the walk told nothing that can be read".to_owned()));
    };
    let sum = |of: fn(&AlphabetWalk) -> u64| with_commas(walked.iter().map(of).sum());
    let mut out = format!(
        "{} alphabets, {} states, {} edges.\nA run with the default limits takes at most {bound} events.\n\n",
        walked.len(),
        sum(|it| it.states),
        sum(|it| it.edges),
    );
    out.push_str("| alphabet | states | edges | longest way, in events | bound |\n|---|---|---|---|---|\n");
    for it in &walked {
        let (states, edges) = (with_commas(it.states), with_commas(it.edges));
        let cut = if it.is_cut { ", cut" } else { "" };
        out.push_str(&format!("| {} | {states}{cut} | {edges} | {} | {} |\n", it.name, it.deep, it.bound));
    }
    Ok(out)
}

/// A line of the walk: `NAME N states N edges SECONDS s  N events deep, N at the max (cut)  REASONS`.
fn read(line: &str) -> Option<AlphabetWalk> {
    // With one thread the test's own name comes before it.
    let line = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")).map_or(line, |it| it.1);
    let (head, rest) = line.split_once(" states ")?;
    let (name, states) = head.trim_end().rsplit_once(' ')?;
    let (edges, rest) = rest.split_once(" edges ")?;
    let (_, rest) = rest.split_once(" s ")?;
    let (deep, rest) = rest.split_once(" events deep, ")?;
    let (bound, rest) = rest.split_once(" at most")?;
    let number = |text: &str| text.trim().parse().ok();
    Some(AlphabetWalk {
        name: name.trim().to_owned(),
        states: number(states)?,
        edges: number(edges)?,
        deep: number(deep)?,
        bound: number(bound)?,
        is_cut: rest.starts_with(" (cut)"),
    })
}

/// `1234567` as `1,234,567`.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_line_of_the_walk_is_read() {
        let line = "money, strict          13778 states     13777 edges   20.4 s  18 events deep, 401 at most  completed 1";
        let walked = AlphabetWalk {
            name: "money, strict".to_owned(),
            states: 13_778,
            edges: 13_777,
            deep: 18,
            bound: 401,
            is_cut: false,
        };
        assert_eq!(read(line), Some(walked));
        let cut = "test a ... everything, by shape   9 states 10 edges    1.0 s   2 events deep, 3 at most (cut)  x 1";
        let walked = read(cut).unwrap();
        assert_eq!((&*walked.name, walked.states, walked.is_cut), ("everything, by shape", 9, true));
        assert_eq!(read("test money ... ok"), None);
    }

    #[test]
    fn the_table_adds_up_what_was_walked() {
        let lines = [
            "b   1200 states   2300 edges   0.1 s   2 events deep, 30 at most  x 1",
            "a   7 states   8 edges   0.1 s   1 events deep, 20 at most (cut)  x 1",
            "a run of the defaults takes 421 events at most",
        ];
        let table = table(&lines.map(str::to_owned)).unwrap();
        assert!(table.starts_with("2 alphabets, 1,207 states, 2,308 edges.\n"), "{table}");
        assert!(table.contains("at most 421 events"), "{table}");
        assert!(table.ends_with("| a | 7, cut | 8 | 1 | 20 |\n| b | 1,200 | 2,300 | 2 | 30 |\n"), "{table}");
    }

    #[test]
    fn a_walk_that_tells_nothing_is_an_error() {
        assert!(table(&["test result: ok. 0 passed".to_owned()]).is_err());
    }
}
