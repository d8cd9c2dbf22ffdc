//! `loopgate fork` and `loopgate retry`: an effect of the run before is held back, and has its key when it is approved.

use crate::common;

use std::path::PathBuf;

use common::{Ran, Shell};
use serde_json::Value;

const USER_REQUEST: &str = "Find Bob and update his company to EPAM";

/// The people register, where a person allows each change.
fn register(shell: &Shell) -> PathBuf {
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    folder
}

#[track_caller]
fn id_of(ran: &Ran) -> String {
    let id = ran.err.lines().rev().find_map(|line| line.strip_prefix("run:     "));
    id.unwrap_or_else(|| panic!("{}{}", ran.out, ran.err)).to_owned()
}

/// A run that changed Bob's company after an approval.
fn parent(shell: &Shell, folder: &std::path::Path) -> String {
    let ran = shell.run(&["run", folder.to_str().unwrap(), "--text", USER_REQUEST]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let run = id_of(&ran);
    let ran = shell.run(&["approve", &run, "2/action-0"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    run
}

#[test]
fn an_effect_is_not_repeated_without_an_approval() {
    let shell = Shell::new();
    let folder = register(&shell);
    let run = parent(&shell, &folder);
    let ran = shell.run(&["fork", &run, "--list"]);
    println!("{}{}", ran.out, ran.err);
    let ran = shell.run(&["fork", &run, "--at", "0"]);
    println!("{}{}", ran.out, ran.err);
    let ran = shell.run(&["fork", &run]);
    println!("{}{}", ran.out, ran.err);
    let ran = shell.run(&["show", "last"]);
    println!("{}{}", ran.out, ran.err);
    let ran = shell.run(&["fork", &run, "--at", "20"]);
    println!("{}{}", ran.out, ran.err);
    let ran = shell.run(&["retry", &run]);
    println!("{}{}", ran.out, ran.err);
    let _: Option<Value> = None;
    panic!();
}
