//! `cargo xtask test [SUITE]`: all tests, or those of one crate under a short name.

use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};

pub(crate) fn run(suite: Option<&str>) -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    let command = match suite {
        None => cmd!(shell, "cargo test --workspace --locked --no-fail-fast"),
        Some(suite) => {
            let package = package(suite)?;
            cmd!(shell, "cargo test -p {package} --locked --no-fail-fast")
        }
    };
    // A test run compares snapshots and never writes them.
    Ok(command.env("INSTA_UPDATE", "no").run()?)
}

fn package(suite: &str) -> Result<&'static str, Failure> {
    match SUITES.iter().find(|(name, _)| *name == suite) {
        Some((_, package)) => Ok(package),
        None => {
            let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
            Err(Failure::Usage(format!("no suite `{suite}`; the suites are {}", names.join(", "))))
        }
    }
}

const SUITES: [(&str, &str); 9] = [
    ("core", "loop-core"),
    ("tools", "loop-tools"),
    ("llm", "loop-llm"),
    ("prompts", "loop-prompts"),
    ("runtime", "loop-runtime"),
    ("connectors", "loop-connectors"),
    ("domain", "loop-domain"),
    ("eval", "loop-eval"),
    ("e2e", "loopgate"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

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
    fn an_unknown_suite_names_the_known_ones() {
        let error = package("cors").unwrap_err();
        assert!(matches!(error, Failure::Usage(_)));
        assert_eq!(
            error.to_string(),
            "no suite `cors`; the suites are core, tools, llm, prompts, runtime, connectors, domain, eval, e2e"
        );
        assert_eq!(package("e2e").unwrap(), "loopgate");
    }
}
