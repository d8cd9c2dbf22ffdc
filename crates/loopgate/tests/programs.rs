//! A program that a tool started ends with the command that was to return its result.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::Shell;

/// The processes that have the mark in their environment.
fn alive(mark: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let environs = entries.map(|entry| fs::read(entry.path().join("environ")).unwrap_or_default());
    environs.filter(|environ| String::from_utf8_lossy(environ).contains(mark)).count()
}

fn until(what: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !what() {
        if start.elapsed() > Duration::from_secs(60) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn a_signal_to_a_call_by_hand_ends_the_program_too() {
    // K12
    let shell = Shell::new();
    let mark = format!("loopgate-call-{}-mark", std::process::id());
    let script = shell.file("desk/act", "#!/bin/sh\nsleep 600 & sleep 600\n");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    let domain = shell.file(
        "desk/loopgate.toml",
        &format!(
            "version = 1\nname = \"desk\"\n[protocol]\ntype = \"conversation\"\n[tools.act]\nkind = \"command\"\neffect = \"read\"\n\
             timeout_ms = 600000\ncommand = {{ program = \"./act\", env = [\"PATH\"], set = {{ MARK = \"{mark}\" }} }}\n"
        ),
    );
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut called = shell.command(&["tools", domain.to_str().unwrap(), "call", "act"]).spawn().unwrap();
        assert!(until(|| alive(&mark) >= 3), "it never began");
        kill_process(Pid::from_child(&called), signal).unwrap();
        assert_eq!(called.wait().unwrap().code(), Some(code));
        assert!(until(|| alive(&mark) == 0), "{} are still there", alive(&mark));
    }
}
