//! A domain that calls another one as a tool: its approvals, its limits, its kills, its mistakes.

use crate::common;

use std::path::PathBuf;

use common::Shell;
use common::server::{Server, path};
use common::terminal::Terminal;
use serde_json::{Value, json};

const DESK: &str = r#"
version = 1
name = "desk"
goal = "Answer."
[protocol]
type = "conversation"
[models.base]
provider = "scripted"
script = "replies.json"
[gate]
people = true
[tools.change]
kind = "run"
domain = "crm"
description = "Changes an entry of the people register"
"#;

/// A desk that calls the people register, in which a person allows each change.
fn desk(shell: &Shell, more: &str) -> PathBuf {
    let register = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(register.join(".loopgate")).ok();
    let folder = register.with_file_name("desk");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::rename(&register, folder.join("crm")).unwrap();
    let task = json!({ "task": "search_user Bob, get_user_by_id 42, update_user 42 EPAM" });
    let replies = json!({ "version": 1, "replies": [
        { "calls": [{ "id": "c1", "name": "change", "arguments": task.to_string() }] },
        { "text": "Bob is with EPAM now." },
    ] });
    std::fs::write(folder.join("replies.json"), replies.to_string()).unwrap();
    std::fs::write(folder.join("loopgate.toml"), format!("{DESK}{more}")).unwrap();
    folder
}

fn pending(shell: &Shell) -> Vec<Value> {
    shell.json(&["pending", "--json"])["pending"].as_array().unwrap().clone()
}

fn id_of(err: &str) -> String {
    err.lines().find_map(|line| line.strip_prefix("run:     ")).unwrap().to_owned()
}

#[test]
fn an_approval_of_a_run_below_continues_the_run_that_called_it() {
    // K8, K17
    let shell = Shell::new();
    let folder = desk(&shell, "");
    let ran = shell.run(&["run", folder.to_str().unwrap(), "--text", "Bob works for EPAM now"]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let root = id_of(&ran.err);
    // One list, whichever run asks.
    let waits = pending(&shell);
    let [request] = &waits[..] else { panic!("{waits:#?}") };
    let below = request["run"].as_str().unwrap();
    assert_ne!(below, root);
    assert_eq!(request["tool"], "update_user");
    for line in [format!("loopgate approve {below} "), "waiting: a person has to answer".to_owned()] {
        assert!(ran.out.contains(&line) || ran.err.contains(&line), "{line}: {}{}", ran.out, ran.err);
    }
    // Nothing is driven on for those who only look.
    let resumed = shell.run(&["resume", "--all"]);
    assert!(resumed.out.contains("called by run "), "{}", resumed.out);
    assert!(resumed.out.contains("waiting: "), "{}", resumed.out);
    shell.run(&["stop", below]).fails_with(&["is a part of run", "loopgate stop"]);
    let key = request["action"].as_str().unwrap();
    let ran = shell.run(&["approve", below, key]);
    assert_eq!((ran.code, ran.out.trim()), (0, "Bob is with EPAM now."), "{}", ran.err);
    assert_eq!(id_of(&ran.err), root, "{}", ran.err);
    assert!(pending(&shell).is_empty());
    let shown = shell.json(&["show", &root, "--json"]);
    let calls = &shown["totals"]["model_calls"];
    assert!(calls.as_u64().unwrap() > 3, "those of both: {calls}");
    assert_eq!(shell.run(&["verify", "--all"]).code, 0);
    // What was done below is what the run at the top did, in each place that says it.
    assert!(ran.err.contains("Effects: 1 executed."), "{}", ran.err);
    assert!(ran.err.contains(&format!("called:  E1 change {below}: completed, ")), "{}", ran.err);
    let did = shell.run(&["show", "last", "--effects"]);
    for line in [format!("run: {below}"), "tool: update_user".to_owned(), "state: executed".to_owned()] {
        assert!(did.out.contains(&line), "{line}: {}", did.out);
    }
    let report = shell.run(&["report", "last"]);
    for line in [
        format!("Run {root} of desk"),
        format!("  run {below}: {key} update_user (write_idempotent): executed"),
        format!("  run {below}: {key} update_user: approved"),
    ] {
        assert!(report.out.contains(&line), "{line}: {}", report.out);
    }
    let report = shell.run(&["report", below]);
    assert!(report.out.contains(&format!("of run {root}, part of run {root}")), "{}", report.out);
    let below_it = shell.run(&["show", &root, "E1.1"]);
    assert!(below_it.out.contains("tool: search_user"), "{}", below_it.out);
    shell.run(&["show", &root, "E0.1"]).fails_with(&["E0", "is not of a run that it called"]);
    // A part is continued as a whole, and each command says so at once.
    for command in ["fork", "retry"] {
        shell.run(&[command, below]).fails_with(&["is part of run", "loopgate fork"]);
    }
    let why = shell.run(&["why", below]);
    assert!(why.out.contains(&format!("it is part of run {root}")), "{}", why.out);
    let plan = shell.run(&["plan", path(&folder)]);
    assert!(plan.out.contains("change: part of these limits"), "{}", plan.out);
    // What is over is not driven again.
    shell.run(&["resume", below]).fails_with(&["is over"]);
}

#[test]
fn a_chat_asks_what_a_called_run_asks() {
    // K8, K17
    let shell = Shell::new();
    let folder = desk(&shell, "");
    let mut person = Terminal::run(shell.command(&["chat", path(&folder)]));
    person.wait_for("You: ");
    person.press("Bob works for EPAM now\r");
    person.wait_for("Allow update_user? [y/N] ");
    person.press("/approve\n");
    person.wait_for("Bob is with EPAM now.");
    person.wait_for("You: ");
    person.press("/quit\r");
    let (code, screen) = person.end();
    assert_eq!(code, 0, "{screen}");
    assert!(pending(&shell).is_empty());
}

#[test]
fn a_denial_below_leaves_the_root_unanswered() {
    let shell = Shell::new();
    let folder = desk(&shell, "");
    let ran = shell.run(&["run", folder.to_str().unwrap(), "--text", "Bob works for EPAM now"]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let waits = pending(&shell);
    let (below, key) = (waits[0]["run"].as_str().unwrap(), waits[0]["action"].as_str().unwrap());
    let ran = shell.run(&["deny", below, key, "--why", "not today"]);
    // The text of the root says otherwise. What was asked for did not happen.
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("change left an effect of its own undone"), "{}", ran.err);
}

#[test]
fn a_stop_of_the_root_ends_the_part_that_waits() {
    let shell = Shell::new();
    let folder = desk(&shell, "");
    let ran = shell.run(&["run", path(&folder), "--text", "Bob works for EPAM now"]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let stopped = shell.run(&["stop", &id_of(&ran.err)]);
    assert_eq!(stopped.code, 0, "{}{}", stopped.out, stopped.err);
    assert!(pending(&shell).is_empty());
    let listed = shell.json(&["runs", "--json"]);
    assert_eq!(listed["totals"]["runs"], 2, "{listed:#}");
    assert_eq!(listed["totals"]["by_outcome"], json!({ "cancelled": 2 }), "{listed:#}");
}

#[test]
fn the_server_continues_the_root_when_its_part_is_approved() {
    // K8, K17
    let shell = Shell::new();
    let folder = desk(&shell, "");
    let server = Server::start(&shell, &[path(&folder)]);
    let view = server.submitted(&json!({ "item": "Bob works for EPAM now" }));
    assert_eq!(view["state"], "waiting", "{view}");
    let waits = &server.get("/v1/pending")["pending"][0];
    let (root, below) = (view["run"].as_str().unwrap(), waits["run"].as_str().unwrap());
    assert_ne!(root, below);
    let body = json!({ "key": waits["action"], "binding": waits["binding"] }).to_string();
    let approved = server.ask(&format!("POST /v1/runs/{below}/approve"), "", &body);
    assert_eq!(approved.status, 202, "{approved:?}");
    let ended = server.ask(&format!("GET /v1/runs/{root}"), "prefer: wait=30\r\n", "").json();
    assert_eq!((&ended["state"], &ended["class"]), (&json!("ended"), &json!("answered")), "{ended}");
    assert_eq!(server.end().0, 0);
}

#[test]
fn what_is_wrong_with_a_tool_that_calls_a_domain_is_said_at_its_place() {
    let shell = Shell::new();
    let folder = desk(&shell, "");
    let file = folder.join("loopgate.toml");
    let written = |from: &str, to: &str| {
        std::fs::write(&file, DESK.replace(from, to)).unwrap();
        shell.run(&["domain", "check", folder.to_str().unwrap()])
    };
    written("domain = \"crm\"\n", "").fails_with(&["loopgate.toml:", "the tool `change` has no `domain`"]);
    written("domain = \"crm\"", "domain = \"nowhere\"").fails_with(&["nowhere"]);
    written("domain = \"crm\"", "domain = \".\"").fails_with(&["would call itself without end"]);
    written("domain = \"crm\"", "domain = \"crm\"\neffect = \"read\"")
        .fails_with(&["`effect` is not for tools of kind `run`"]);
    written("kind = \"run\"", "kind = \"sql\"").fails_with(&["`domain` is not for tools of kind `sql`"]);
    let listed = written("", "");
    assert!(listed.out.contains("change: run, read"), "{}{}", listed.out, listed.err);
}
