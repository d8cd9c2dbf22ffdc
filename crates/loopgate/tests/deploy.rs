//! The files of `docs/deploy`: their commands are commands of ours, and other people's programs accept them.

use std::path::PathBuf;
use std::process::Command;

use crate::common::{Shell, root};

const COMPOSE: &str = "compose.yaml";
const UNIT: &str = "loopgate.service";
const KUBERNETES: [&str; 2] = ["kubernetes.yaml", "kubernetes-postgres.yaml"];

fn file(name: &str) -> PathBuf {
    root().join("docs/deploy").join(name)
}

/// The options that a file gives to `loopgate serve`.
fn options(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file(name)).unwrap();
    let words =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let options = words.filter(|word| word.starts_with("--") && !word.starts_with("---"));
    options.map(|word| word.split('=').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_option_of_the_server_is_one_of_the_command() {
    let help = Shell::new().run(&["serve", "--help"]).out;
    for name in [UNIT, COMPOSE, KUBERNETES[0], KUBERNETES[1]] {
        let options = options(name);
        assert!(options.len() >= 4, "{name}: {options:?}");
        for option in options {
            assert!(
                help.contains(&format!("{option} ")),
                "{name}: {option} is not an option of `loopgate serve`"
            );
        }
    }
}

/// Whether a checker accepts a file, and what it says.
fn checked(program: &str, arguments: &[&str], path: &std::path::Path) -> (bool, String) {
    let run = Command::new(program).args(arguments).arg(path).output().unwrap();
    let said = [run.stdout, run.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (run.status.success(), said.concat())
}

/// A copy of a file with a fault in it.
fn broken(name: &str, from: &str, to: &str, folder: &std::path::Path) -> PathBuf {
    let text = std::fs::read_to_string(file(name)).unwrap();
    assert!(text.contains(from), "{name} has no {from}");
    let path = folder.join(name);
    std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    path
}

#[test]
#[ignore = "needs checkers from PyPI: cargo xtask servers deploy"]
fn compose_and_kubernetes_accept_the_files() {
    let bin = PathBuf::from(std::env::var_os("LOOPGATE_DEPLOY_CHECKERS").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let compose = bin.join("check-jsonschema").display().to_string();
    let schema = ["--builtin-schema", "vendor.compose-spec"];
    let (passed, said) = checked(&compose, &schema, &file(COMPOSE));
    assert!(passed, "{said}");
    let faulty = broken(COMPOSE, "read_only: true", "read_only: [1]", folder.path());
    assert!(!checked(&compose, &schema, &faulty).0, "the checker sees no fault");
    let kubernetes = bin.join("kubernetes-validate").display().to_string();
    for name in KUBERNETES {
        let (passed, said) = checked(&kubernetes, &["--strict"], &file(name));
        assert!(passed, "{said}");
        let faulty = broken(name, "serviceName:", "serviceNames:", folder.path());
        assert!(!checked(&kubernetes, &["--strict"], &faulty).0, "the checker sees no fault");
    }
}

#[test]
#[ignore = "needs systemd-analyze: cargo xtask servers deploy"]
fn systemd_accepts_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    // The command is not installed here.
    let there = env!("CARGO_BIN_EXE_loopgate");
    let unit = broken(UNIT, "/usr/local/bin/loopgate", there, folder.path());
    let (passed, said) = checked("systemd-analyze", &["verify"], &unit);
    assert!(passed && said.is_empty(), "{said}");
    let faulty = broken(UNIT, "RestartSec=2", "RestartSecs=2", folder.path());
    let (_, said) = checked("systemd-analyze", &["verify"], &faulty);
    assert!(said.contains("RestartSecs"), "{said}");
}
