//! The files of `docs/deploy`: their commands are commands of ours, and other people's programs accept them.

use std::path::PathBuf;
use std::process::Command;

use crate::common::{Shell, root};

const COMPOSE: [&str; 2] = ["compose.yaml", "compose-restate.yaml"];
const UNITS: [&str; 3] = ["loopgate.service", "loopgate-worker@.service", "restate.service"];
const KUBERNETES: [&str; 3] = ["kubernetes.yaml", "kubernetes-postgres.yaml", "kubernetes-restate.yaml"];

fn file(name: &str) -> PathBuf {
    root().join("docs/deploy").join(name)
}

/// The options that a file gives to `loopgate`.
fn options(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file(name)).unwrap();
    let words =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let options = words.filter(|word| word.starts_with("--") && !word.starts_with("---"));
    options.map(|word| word.split('=').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_option_of_a_server_or_a_worker_is_one_of_the_command() {
    let commands = [
        (&["serve"][..], [UNITS[0], COMPOSE[0], KUBERNETES[0], KUBERNETES[1]].as_slice()),
        (&["engine", "worker"], [UNITS[1], COMPOSE[1], KUBERNETES[2]].as_slice()),
    ];
    for (command, names) in commands {
        let help = Shell::new().run(&[command, &["--help"]].concat()).out;
        for name in names {
            let options = options(name);
            assert!(options.len() >= 4, "{name}: {options:?}");
            for option in options {
                // An option without a value ends its line.
                let is_one = help.split_whitespace().any(|word| word.trim_end_matches([',', ':']) == option);
                assert!(is_one, "{name}: {option} is not an option of `loopgate {}`", command.join(" "));
            }
        }
    }
}

#[test]
fn the_files_name_one_version_of_restate() {
    // The one that `cargo xtask servers restate` tests with.
    let tested = std::fs::read_to_string(root().join("xtask/src/servers.rs")).unwrap();
    let tested = tested.split("@restatedev/restate-server@").nth(1).unwrap().split('"').next().unwrap();
    let (version, _) = tested.rsplit_once('.').unwrap();
    for name in [COMPOSE[1], KUBERNETES[2]] {
        let text = std::fs::read_to_string(file(name)).unwrap();
        assert!(text.contains(&format!("restatedev/restate:{version}\n")), "{name} does not name {version}");
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
    for name in COMPOSE {
        let (passed, said) = checked(&compose, &schema, &file(name));
        assert!(passed, "{said}");
        let faulty = broken(name, "read_only: true", "read_only: [1]", folder.path());
        assert!(!checked(&compose, &schema, &faulty).0, "the checker sees no fault");
    }
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
fn systemd_accepts_the_units() {
    let folder = tempfile::tempdir().unwrap();
    // The commands are not installed here.
    let there = env!("CARGO_BIN_EXE_loopgate");
    // The worker wants the server's unit, which is read as well.
    for name in ["restate.service", "loopgate.service", "loopgate-worker@.service"] {
        let program = if name == "restate.service" { "restate-server" } else { "loopgate" };
        let unit = broken(name, &format!("/usr/local/bin/{program}"), there, folder.path());
        let unit = match name.strip_suffix("@.service") {
            None => unit,
            // An instance of a template.
            Some(stem) => {
                let instance = folder.path().join(format!("{stem}@1.service"));
                std::fs::copy(&unit, &instance).unwrap();
                instance
            }
        };
        let (passed, said) = checked("systemd-analyze", &["verify"], &unit);
        // It reads the units of this machine as well, and complains of theirs.
        let of_ours: Vec<&str> = said.lines().filter(|line| !line.contains("/lib/systemd/system/")).collect();
        assert!(passed && of_ours.is_empty(), "{name}: {of_ours:?}");
        let text = std::fs::read_to_string(&unit).unwrap();
        std::fs::write(&unit, text.replacen("RestartSec=2", "RestartSecs=2", 1)).unwrap();
        let (_, said) = checked("systemd-analyze", &["verify"], &unit);
        assert!(said.contains("RestartSecs"), "{name}: {said}");
        std::fs::write(&unit, text).unwrap();
    }
}
