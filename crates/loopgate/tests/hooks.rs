//! Hooks and approvals as an operator uses them.

use crate::common::Shell;

use std::path::PathBuf;

use serde_json::Value;

const CHANGE: &str = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";

/// The register, with hooks.
fn domain(shell: &Shell, hooks: &str) -> PathBuf {
    let folder = shell.copy_of("examples/crm");
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, format!("{text}\n{hooks}")).unwrap();
    folder
}

fn id(err: &str) -> String {
    err.lines().find_map(|line| line.strip_prefix("run:     ")).unwrap().to_owned()
}

#[test]
fn a_program_reads_what_happened_from_its_input() {
    let shell = Shell::new();
    let told = shell.state.path().join("told.jsonl");
    let hooks = format!(
        "[hooks.desk]\non = [\"waiting\", \"ended\"]\ncommand = [\"tee\", \"-a\", \"{}\"]\n",
        told.display()
    );
    let folder = domain(&shell, &hooks);
    let ran = shell.run(&["run", folder.to_str().unwrap(), "--text", CHANGE]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    let run = id(&ran.err);
    let action = shell.json(&["pending", "--json"])["pending"][0]["key"].as_str().map(str::to_owned);
    let action = action.unwrap_or_else(|| "3/action-0".to_owned());
    assert_eq!(shell.run(&["approve", &run, &action]).code, 0);
    let text = std::fs::read_to_string(&told).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run.waiting", "run.ended"], "{text}");
    assert_eq!(lines[0]["data"]["waiting"][0]["tool"], "update_user");
    assert_eq!(lines[1]["data"]["class"], "answered");
    // Ids, names and the title, and no argument of a call.
    assert!(!text.contains("\"company\"") && !text.contains("parameters"), "{text}");
    assert_eq!(shell.run(&["serve", "hooks"]).err.trim(), "no message is left");
}

#[test]
fn a_hook_that_cannot_be_is_one_line() {
    // K10, B14
    for (hook, says) in [
        ("on = []\ncommand = [\"true\"]", "it is told of nothing"),
        ("on = [\"ended\"]", "neither `command` nor `url`"),
        ("on = [\"ended\"]\ncommand = [\"true\"]\nurl = \"https://h.example/\"", "keep one of them"),
        ("on = [\"ended\"]\ncommand = [\"true\"]\nsecret = \"X\"", "a signature is for a `url`"),
        ("on = [\"ended\"]\ncommand = [\"true\"]\ntimeout_s = 61", "from 1 to 60"),
        ("on = [\"ended\"]\nurl = \"https://127.0.0.1/\"", "leads to this machine"),
        ("on = [\"ended\"]\nurl = \"http://hooks.example/\"", "without encryption"),
        (
            "on = [\"ended\"]\nurl = \"https://hooks.example/\"\nsecret = \"PATH\"",
            "is not `whsec_` and Base64",
        ),
        ("on = [\"begun\"]\ncommand = [\"true\"]", "begun"),
    ] {
        let shell = Shell::new();
        let folder = domain(&shell, &format!("[hooks.a]\n{hook}\n"));
        shell.run(&["run", folder.to_str().unwrap(), "--text", "Search user Alice"]).fails_with(&[says]);
    }
}

#[test]
fn who_approves_is_journaled_and_a_claim_is_shown_as_one() {
    let shell = Shell::new();
    let folder = domain(&shell, "");
    let run = id(&shell.run(&["run", folder.to_str().unwrap(), "--text", CHANGE]).err);
    let ran = shell.run(&["approve", &run, "3/action-0", "--as", "Ada Lovelace"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let shown = shell.run(&["show", &run]).out;
    let line = shown.lines().find(|line| line.contains("approved by ")).unwrap();
    assert!(line.contains("an unverified account as `Ada Lovelace` (unverified)"), "{line}");
    let outcome = shell.json(&["show", &run, "--json"]);
    let by = &outcome["people"]["requested"][0]["approvers"][0];
    assert_eq!(by["unverified_claim"], "Ada Lovelace");
    assert_eq!(by["account"], "", "{by}");
    shell.run(&["approve", &run, "3/action-0"]).fails_with(&["it has been approved already"]);
    assert_eq!(shell.run(&["verify", &run]).code, 0);
    shell.run(&["approve", &run, "3/action-0", "--as", " "]).fails_with(&["--as"]);
}

#[test]
fn where_two_people_have_to_approve_the_command_refuses_and_names_the_server() {
    // K8, U4: whatever name is claimed.
    let shell = Shell::new();
    let folder = domain(&shell, "");
    let ran = shell.run(&["run", folder.to_str().unwrap(), "--text", CHANGE, "--set", "gate.approvals=2"]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    let run = id(&ran.err);
    for claim in ["Ada", "Bob"] {
        let ran = shell.run(&["approve", &run, "3/action-0", "--as", claim]);
        ran.fails_with(&["`gate.approvals` demands 2 people", "loopgate serve"]);
    }
    let pending = shell.run(&["pending"]).out;
    assert!(pending.contains("2 tokens of `loopgate serve` have to approve it"), "{pending}");
    assert!(!pending.contains("approved by ") && !pending.contains("loopgate approve"), "{pending}");
    assert_eq!(shell.run(&["deny", &run, "3/action-0"]).code, 3);
    let folder = folder.to_str().unwrap();
    shell.run(&["run", folder, "--text", CHANGE, "--set", "gate.approvals=3"]).fails_with(&["write 1 or 2"]);
    shell.run(&["chat", folder, "--set", "gate.approvals=2"]).fails_with(&["demands two people"]);
}
