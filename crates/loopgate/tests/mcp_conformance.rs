//! The official conformance suite of the protocol against `loopgate mcp`, in both of its revisions.

use std::io::Write as _;
use std::process::Command;

use crate::common;

// Issue 43, M4: the scenarios that do not apply are in `clients/conformance.yml`, each with its reason.
#[test]
#[ignore = "needs the conformance suite: cargo xtask servers mcp"]
fn the_official_suite_finds_nothing_but_what_does_not_apply() {
    let bin = std::env::var("LOOPGATE_MCP_CONFORMANCE").expect("it is set by xtask/src/servers.rs");
    let script = common::root().join("crates/loopgate/tests/clients/conformance.sh");
    let ran = Command::new("sh").arg(script).args([env!("CARGO_BIN_EXE_loopgate"), &bin]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    // The figures.
    std::io::stderr().write_all(out.as_bytes()).unwrap();
    assert!(ran.status.success(), "{out}\n{err}");
    assert_eq!(out.matches("SUMMARY").count(), 2, "a summary of each revision: {out}\n{err}");
}
