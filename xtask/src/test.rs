//! `cargo xtask test [SUITE]`: runs all tests, or those of one suite, and prints the seconds of each suite.

use std::path::Path;

use crate::teed::teed;
use crate::workspace::Failure;

/// The environment variable with the seed of property tests.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Features that are not enabled by default and are tested too.
pub(crate) const FEATURES: &str =
    "loopgate/mcp-server,loopgate/otel,loopgate/restate,loopgate/s3,loopgate/server";

/// The cargo arguments of all tests.
pub(crate) const WORKSPACE: [&str; 3] = ["--workspace", "--features", FEATURES];

/// The environment variable with the number of parallel tests.
const THREADS: &str = "RUST_TEST_THREADS";

/// The environment variable for how many cases the tests try.
const SCOPE: &str = "LOOPGATE_TESTS";

pub(crate) fn run(suite: Option<&str>, full: bool) -> Result<(), Failure> {
    let is_lies = suite == Some(LIES);
    let full = full || is_lies;
    let package = suite.filter(|_| !is_lies).map(package).transpose()?;
    let mut arguments = vec!["test", "--locked", "--no-fail-fast"];
    match package {
        // Modules of two programs: runs in process, and the command itself.
        None if is_lies => {
            arguments.extend(["-p", "loop-domain", "-p", "loopgate", "--test", "it", "lies::"]);
        }
        // What is not built by default is tested all the same.
        None => arguments.extend(WORKSPACE),
        // Kinds of tools and of stores are features there.
        Some(package @ ("loop-domain" | "loop-restate" | "loop-server" | "loop-tools")) => {
            arguments.extend(["-p", package, "--all-features"]);
        }
        Some(package @ "loopgate") => arguments.extend(["-p", package, "--features", FEATURES]),
        Some(package) => arguments.extend(["-p", package]),
    }
    // Random cases are the same in each run, unless a seed is given; `cargo xtask explore` tries others.
    let seed = std::env::var(SEED).unwrap_or_else(|_| "1".to_owned());
    let threads = std::env::var(THREADS).unwrap_or_else(|_| threads());
    // A test run compares snapshots and never writes them.
    let scope = if full { "full".to_owned() } else { std::env::var(SCOPE).unwrap_or_default() };
    let environment = [("INSTA_UPDATE", "no"), (SEED, &*seed), (THREADS, &*threads), (SCOPE, &*scope)];
    let (lines, passed) = teed("cargo", &arguments, &environment)?;
    let times = times(&lines);
    println!("\n{}", table(&times));
    match passed {
        true => Ok(()),
        false => Err(Failure::Check("test: some tests failed".to_owned())),
    }
}

/// More parallel tests than processors, since tests that start programs and servers wait half of their time.
fn threads() -> String {
    (2 * std::thread::available_parallelism().map_or(1, usize::from)).to_string()
}

/// A suite: its number of tests and their time, without the build.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    name: String,
    tests: u64,
    failed: u64,
    centiseconds: u64,
}

/// The suites of a test run in order, from the output of `cargo test`.
fn times(lines: &[String]) -> Vec<Suite> {
    let mut suites: Vec<Suite> = Vec::new();
    let mut current = String::new();
    for line in lines {
        if let Some(name) = suite_of(line, &current) {
            current = name;
        } else if let Some((tests, failed, centiseconds)) = result_of(line) {
            match suites.iter_mut().find(|suite| suite.name == current) {
                Some(suite) => {
                    suite.tests += tests;
                    suite.failed += failed;
                    suite.centiseconds += centiseconds;
                }
                None => suites.push(Suite { name: current.clone(), tests, failed, centiseconds }),
            }
        }
    }
    suites
}

/// The suite of a program that `cargo test` runs. Integration tests of most crates have the same program name, and
/// follow the unit tests of their crate.
fn suite_of(line: &str, current: &str) -> Option<String> {
    let line = line.trim_start();
    let doc = line.strip_prefix("Doc-tests ");
    let program = || {
        let path = line.strip_prefix("Running ")?.rsplit_once('(')?.1.trim_end_matches(')');
        let file = Path::new(path).file_name()?.to_str()?;
        Some(file.rsplit_once('-').map_or(file, |(name, _)| name))
    };
    let crate_name = doc.or_else(program)?.trim().replace('_', "-");
    let known = SUITES.iter().find(|(_, package)| *package == crate_name).map(|(suite, _)| *suite);
    Some(match (known, &*crate_name) {
        (Some(suite), _) => suite.to_owned(),
        (None, "explore") => format!("{WALK} (narrow)"),
        (None, "xtask") => "xtask".to_owned(),
        (None, _) => current.trim_end_matches(" (narrow)").replace(WALK, "core"),
    })
}

const WALK: &str = "core, walk";

/// Tests, failures and hundredths of seconds of `test result: ok. 3 passed; 0 failed; …; finished in 0.12s`.
fn result_of(line: &str) -> Option<(u64, u64, u64)> {
    let reported = line.strip_prefix("test result: ")?;
    let number = |what: &str| {
        let before = reported.split_once(what)?.0;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    };
    let seconds = reported.split_once("finished in ")?.1.trim_end_matches('s');
    let (whole, part) = seconds.split_once('.')?;
    let centiseconds = whole.parse::<u64>().ok()? * 100 + part.get(..2)?.parse::<u64>().ok()?;
    let failed = number(" failed")?;
    Some((number(" passed")? + failed, failed, centiseconds))
}

fn table(suites: &[Suite]) -> String {
    let width = suites.iter().map(|suite| suite.name.len()).max().unwrap_or(0);
    let row = |suite: &Suite| {
        let failed = if suite.failed > 0 { format!("  {} FAILED", suite.failed) } else { String::new() };
        format!("{:width$}  {:5} tests  {:>7} s{failed}", suite.name, suite.tests, seconds(suite))
    };
    suites.iter().map(row).collect::<Vec<_>>().join("\n")
}

fn seconds(suite: &Suite) -> String {
    format!("{}.{}", suite.centiseconds / 100, suite.centiseconds / 10 % 10)
}

fn package(suite: &str) -> Result<&'static str, Failure> {
    match SUITES.iter().find(|(name, _)| *name == suite) {
        Some((_, package)) => Ok(package),
        None => {
            let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).chain([LIES]).collect();
            Err(Failure::Usage(format!("no suite `{suite}`; the suites are {}", names.join(", "))))
        }
    }
}

/// The suite of all lies of the mock server. The suites of its two crates contain it too.
const LIES: &str = "lies";

const SUITES: [(&str, &str); 16] = [
    ("core", "loop-core"),
    ("claims", "loop-claims"),
    ("tools", "loop-tools"),
    ("llm", "loop-llm"),
    ("mock", "loop-mock"),
    ("prompts", "loop-prompts"),
    ("journal", "loop-journal"),
    ("runtime", "loop-runtime"),
    ("inspect", "loop-inspect"),
    ("domain", "loop-domain"),
    ("eval", "loop-eval"),
    ("otel", "loop-otel"),
    ("restate", "loop-restate"),
    ("server", "loop-server"),
    ("e2e", "loopgate"),
    ("testkit", "loop-testkit"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::workspace;

    #[test]
    fn every_crate_has_a_suite() {
        for package in workspace::packages(workspace::root()).unwrap() {
            assert!(
                package == "xtask" || SUITES.iter().any(|(_, it)| *it == package),
                "add a suite for `{package}` to SUITES in xtask/src/test.rs"
            );
        }
    }

    #[test]
    fn each_suite_has_the_seconds_of_all_its_programs() {
        let reported = "     Running unittests src/lib.rs (target/debug/deps/loop_core-0d1a)
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s
     Running tests/explore/main.rs (target/debug/deps/explore-77)
test result: ok. 46 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 62.01s
     Running tests/main.rs (target/debug/deps/it-9a)
test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.25s
     Running unittests src/main.rs (target/debug/deps/loopgate-3)
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
     Running tests/main.rs (target/debug/deps/it-b7)
test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 20.00s
   Doc-tests loop_core
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s";
        let lines: Vec<String> = reported.lines().map(str::to_owned).collect();
        let suite = |name: &str, tests, failed, centiseconds| Suite {
            name: name.to_owned(),
            tests,
            failed,
            centiseconds,
        };
        let suites = times(&lines);
        let expected = [
            suite("core", 16, 2, 200),
            suite("core, walk (narrow)", 46, 0, 6_201),
            suite("e2e", 7, 0, 2_000),
        ];
        assert_eq!(suites, expected);
        assert!(table(&suites).starts_with("core                    16 tests      2.0 s  2 FAILED\n"));
    }

    #[test]
    fn an_unknown_suite_names_the_known_ones() {
        let error = package("cors").unwrap_err();
        assert!(matches!(error, Failure::Usage(_)));
        assert_eq!(
            error.to_string(),
            "no suite `cors`; the suites are core, claims, tools, llm, mock, prompts, journal, runtime, inspect, domain, eval, otel, restate, server, e2e, testkit, lies"
        );
        assert_eq!(package("e2e").unwrap(), "loopgate");
    }
}
