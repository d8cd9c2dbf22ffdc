//! A test in a network namespace of its own, so that no port of the machine is in the way and nothing leaves it.

use std::process::Command;

/// The variable that a test in a namespace has.
const VARIABLE: &str = "LOOP_RESTATE_TEST_NAMESPACE";

/// Whether the test of this name is to run here. Where namespaces may be made, the test runs once more in one of its own, and
/// the answer here is no. Elsewhere it runs here, on the machine's loopback, and says so.
pub fn is_inside(test: &str) -> bool {
    if std::env::var_os(VARIABLE).is_some() {
        return true;
    }
    let alone: Option<&[&str]> = [&["--net"] as &[&str], &["--net", "--user", "--map-root-user"]]
        .into_iter()
        .find(|how| succeeds(Command::new("unshare").args(*how).args(["ip", "link", "set", "lo", "up"])));
    let Some(how) = alone else {
        println!("no network namespace can be made: {test} runs on the loopback of the machine");
        return true;
    };
    let status = Command::new("unshare")
        .args(how)
        .args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--include-ignored", "--nocapture"])
        .env(VARIABLE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{test} failed in its namespace");
    false
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
