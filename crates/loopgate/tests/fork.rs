//! `loopgate fork` and `loopgate retry`: an effect of the run before is held back, and has its key when it is approved.

use crate::common;

use std::path::{Path, PathBuf};

use common::{Ran, Shell};
use serde_json::{Value, json};

const USER_REQUEST: &str = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";
const TICKET: &str = "examples/helpdesk/tickets/T-1042.json";

/// The people register, where a person allows each change, and which stores the idempotency key of each.
fn register(shell: &Shell) -> PathBuf {
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let keyed =
        text.replace("SET company = trim(:company)", "SET company = trim(:company) || ' by ' || :call_key");
    assert_ne!(text, keyed);
    std::fs::write(&file, keyed).unwrap();
    folder
}

fn company(folder: &Path) -> String {
    fn walk(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
    }
    let copy =
        walk(&folder.join(".loopgate")).into_iter().find(|path| path.to_string_lossy().ends_with(".db"));
    let database = rusqlite::Connection::open(copy.unwrap()).unwrap();
    database.query_row("SELECT company FROM users WHERE id = 42", [], |row| row.get(0)).unwrap()
}

#[track_caller]
fn id_of(ran: &Ran) -> String {
    let id = ran.err.lines().find_map(|line| line.strip_prefix("run:     "));
    id.unwrap_or_else(|| panic!("{}{}", ran.out, ran.err)).to_owned()
}

/// Runs the command that a waiting run prints for its approval.
#[track_caller]
fn approved(shell: &Shell, waiting: &Ran) -> Ran {
    assert_eq!(waiting.code, 5, "{}{}", waiting.out, waiting.err);
    let command = waiting.out.lines().find_map(|line| line.trim().strip_prefix("loopgate approve ")).unwrap();
    shell.run(&std::iter::once("approve").chain(command.split(' ')).collect::<Vec<_>>())
}

/// A run that changed Bob's company after an approval.
fn parent(shell: &Shell, folder: &Path) -> String {
    let ran = shell.run(&["run", folder.to_str().unwrap(), "--text", USER_REQUEST]);
    let ended = approved(shell, &ran);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    id_of(&ran)
}

#[test]
fn an_effect_is_not_repeated_without_an_approval_and_keeps_its_key() {
    // I-6, I-26
    let shell = Shell::new();
    let folder = register(&shell);
    let run = parent(&shell, &folder);
    let done = format!("EPAM by {run}/3/action-0");
    assert_eq!(company(&folder), done);
    let events = shell.run(&["show", &run, "--events"]).out;

    let list = shell.run(&["fork", &run, "--list"]);
    assert!(list.out.starts_with("    0  started          a model call comes next\n"), "{}", list.out);
    assert!(list.out.contains("   11  tool_started     calls are open\n"), "{}", list.out);

    let fork = shell.run(&["fork", &run, "--at", "6"]);
    let id = id_of(&fork);
    assert!(fork.err.contains(&format!("fork:    {id} continues {run} after entry 6\n")), "{}", fork.err);
    assert!(fork.err.contains("so far:  2 passes, 2 model calls, 2 tool calls,"), "{}", fork.err);
    let effect = format!(
        "effect:  {run}/3/action-0 update_user {{\"company\":\"EPAM\",\"id\":42}}: ok; it is not repeated"
    );
    assert!(fork.err.contains(&effect), "{}", fork.err);
    assert!(fork.out.contains(&format!("asked because: run {run} has started it already")), "{}", fork.out);
    // A person who sees it denies it, and nothing happens.
    let denied = fork.out.lines().find_map(|line| line.trim().strip_prefix("loopgate deny ")).unwrap();
    let denied = denied.replace("TEXT", "done");
    let ran = shell.run(&std::iter::once("deny").chain(denied.split(' ')).collect::<Vec<_>>());
    assert!(ran.err.contains("1 denied"), "{}", ran.err);
    assert_eq!(company(&folder), done);

    // Another fork, approved: the key is the parent's, so a service that knows it does it once.
    let fork = shell.run(&["fork", &run, "--at", "0"]);
    let id = id_of(&fork);
    let ended = approved(&shell, &fork);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    assert_eq!(company(&folder), done);
    let report = shell.json(&["show", &id, "--json"]);
    let of = &report["parent"];
    assert_eq!((&of["run"], &of["how"], &of["entries"]), (&json!(run), &json!("fork"), &json!(1)));
    assert_eq!(of["effects"][0]["key"], json!(format!("{run}/3/action-0")));
    assert!(shell.run(&["show", &id]).out.contains(&format!("{id} continues {run} after entry 0\n")));
    // The parent is as it was, and a fork of the fork knows the key as well.
    assert_eq!(shell.run(&["show", &run, "--events"]).out, events);
    let second = shell.run(&["fork", &id, "--at", "0"]);
    assert!(second.err.contains(&format!("effect:  {run}/3/action-0 update_user")), "{}", second.err);
}

#[test]
fn without_an_entry_it_begins_after_the_last_one_where_nothing_is_in_flight() {
    let shell = Shell::new();
    let folder = register(&shell);
    let run = parent(&shell, &folder);
    let ran = shell.run(&["fork", &run, "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains(&format!("continues {run} after entry 12\n")), "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["parent"]["totals"]["passes"], 3);
    assert_eq!(report["totals"]["passes"], 4);
    assert_eq!(report["parent"]["effects"], json!([]), "what came before is part of it");
    // What cannot be is one line that says what can.
    let refused =
        |args: &[&str], says: &[&str]| shell.run(&[&["fork", &run], args].concat()).fails_with(says);
    refused(&["--at", "99"], &["has no entry 99: the last one is 14"]);
    refused(&["--at", "14"], &["cannot be forked after entry 14", "that can be forked is 13"]);
    refused(&["--at", "10", "--set", "limits.passes=5"], &["other ones; the last entry", "is 6"]);
    let settings = shell.run(&["fork", &run, "--at", "6", "--set", "limits.passes=2"]);
    assert!(settings.err.contains("stopped: max_passes"), "{}", settings.err);
    let id = id_of(&settings);
    assert!(shell.run(&["show", &id]).out.contains("overridden: limits.passes = 2"));
    // A conversation has no evidence for a retry.
    shell.run(&["retry", &run]).fails_with(&["its protocol is not `document`", "fork it"]);
}

#[test]
fn a_run_that_continues_one_of_a_batch_counts_for_the_batch() {
    // L22: what a fork and a retry cost is taken from the budget of the batch.
    let shell = Shell::new();
    let second = "examples/helpdesk/tickets/T-1041.json";
    let ran = shell.run(&["run", "examples/helpdesk", TICKET, second, "--budget-usd", "5", "--json"]);
    let first: Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
    let run = first["run"].as_str().unwrap();
    let journal = rusqlite::Connection::open(shell.state.path().join("loopgate/journal.db")).unwrap();
    let batch_of = |run: &str| {
        let sql = "SELECT origin FROM runs WHERE run = ?1";
        let origin: String = journal.query_row(sql, [run], |row| row.get(0)).unwrap();
        serde_json::from_str::<Value>(&origin).unwrap()["batch"].clone()
    };
    let batch = batch_of(run);
    assert_eq!(batch["limit"], json!(5_000_000_000_000_u64), "{batch}");
    let retry = shell.run(&["retry", run]);
    assert_eq!(batch_of(&id_of(&retry)), batch);
    let fork = shell.run(&["fork", &id_of(&retry), "--at", "0"]);
    assert_eq!(batch_of(&id_of(&fork)), batch);
}
