//! `loopgate policy check`, and that `docs/explanation/policy.md` prints what it prints.

use crate::common;

use std::path::PathBuf;

use common::{Shell, root};
use serde_json::json;

/// The first block of the page behind this mark.
#[track_caller]
fn block(mark: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/explanation/policy.md")).unwrap();
    let (_, rest) = page.split_once(&format!("<!-- {mark} -->\n")).unwrap_or_else(|| panic!("no `{mark}`"));
    let (_, rest) = rest.split_once("```").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

fn mailroom(shell: &Shell) -> PathBuf {
    shell.file("mailroom/loopgate.toml", &block("file: loopgate.toml")).parent().unwrap().to_owned()
}

/// What is printed, without the hash at the end of its first line.
fn timeless(out: &str) -> String {
    let (first, rest) = out.split_once('\n').unwrap();
    let (head, hash) = first.rsplit_once(' ').unwrap();
    assert!(hash.len() == 64 && hash.chars().all(|c| c.is_ascii_hexdigit()), "{first}");
    format!("{head} …\n{rest}")
}

#[test]
fn the_page_shows_what_is_printed() {
    // K7
    let shell = Shell::new();
    let mailroom = mailroom(&shell).display().to_string();
    let [shown, ..] = [&*mailroom, "examples/helpdesk", "examples/crm"].map(|domain| {
        let ran = shell.run(&["policy", "check", domain]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{domain}");
        timeless(&ran.out)
    });
    assert_eq!(shown, block("prints: DOMAIN"));
}

#[test]
fn a_setting_changes_the_table_and_the_hash() {
    let shell = Shell::new();
    let mailroom = mailroom(&shell).display().to_string();
    let with = |set: &[&str]| {
        let mut args = vec!["policy", "check", &mailroom, "--json"];
        args.extend(set.iter().flat_map(|set| ["--set", set]));
        shell.json(&args)
    };
    let (plain, people) = (with(&[]), with(&["gate.people=true"]));
    assert_ne!(plain["policy"], people["policy"]);
    let send = |whole: &serde_json::Value| {
        let tool =
            whole["tools"].as_array().unwrap().iter().find(|row| row["tool"] == "send_mail").unwrap().clone();
        json!([
            tool["at_start"]["may"],
            tool["untrusted"]["may"],
            tool["untrusted_and_private"]["may"],
            tool["untrusted_origin"]
        ])
    };
    assert_eq!(send(&plain), json!(["runs", "left_undone", "denied", "denied"]));
    assert_eq!(send(&people), json!(["runs", "asks", "asks", "asks"]));
    let off = with(&["gate.taint=off"]);
    assert_eq!(send(&off), json!(["runs", "runs", "runs", "denied"]));
    assert_eq!((&off["reachable"], &off["problems"]), (&json!({}), &json!([])));
    assert_eq!(
        (&plain["label"], &plain["reachable"], &plain["domain"]),
        (&json!("2026-11-21"), &json!({"untrusted": true, "private": true}), &json!("mailroom"))
    );
}

#[test]
fn a_contradiction_is_one_line_and_an_exit_code() {
    let shell = Shell::new();
    let mailroom = mailroom(&shell);
    let path = mailroom.join("loopgate.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        text.replace(r#""change_address", "send_mail"]"#, r#""change_address", "delete_customer"]"#),
    )
    .unwrap();
    let mailroom = mailroom.display().to_string();
    let ran = shell.run(&["policy", "check", &mailroom]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.err.lines().collect::<Vec<_>>(),
        [
            "problem: gate.allow: `delete_customer` has no effect, for the tool is forbidden by gate.forbid; take it out of one list",
            "problem: gate.approved: `delete_customer` has no effect, for the tool is forbidden by gate.forbid; take it out of one list",
        ]
    );
    assert!(ran.out.contains("delete_customer  write_irreversible  denied"), "{}", ran.out);
    let json = shell.run(&["policy", "check", &mailroom, "--json"]);
    let whole: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, whole["problems"].as_array().unwrap().len()), (1, 2));
    shell.run(&["policy", "check", "/nowhere"]).fails_with(&["/nowhere"]);
}

#[test]
fn what_is_forbidden_and_not_there_is_noted_and_no_problem() {
    let shell = Shell::new();
    let mailroom = mailroom(&shell).display().to_string();
    let forbid = r#"gate.forbid=["delete_customer", "drop_table"]"#;
    let ran = shell.run(&["policy", "check", &mailroom, "--set", forbid]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.starts_with("note: gate.forbid: no tool is called `drop_table`; it holds"),
        "{}",
        ran.err
    );
    let json = shell.json(&["policy", "check", &mailroom, "--set", forbid, "--json"]);
    assert_eq!((&json["problems"], json["notes"].as_array().unwrap().len()), (&json!([]), 1));
}

// Issue 44: the whole suite takes 40 minutes, by `attacks.py LOOPGATE FOLDER`; here a share of it.
#[test]
#[ignore = "needs AgentDojo: cargo xtask servers agentdojo"]
fn attacks_of_a_public_suite_have_no_effect() {
    let shell = Shell::new();
    let python = std::env::var_os("LOOPGATE_AGENTDOJO_PYTHON").expect("set by xtask/src/servers.rs");
    let script = root().join("crates/loopgate/tests/clients/attacks.py");
    let mut command = std::process::Command::new(python);
    command.args([
        script.as_os_str(),
        env!("CARGO_BIN_EXE_loopgate").as_ref(),
        shell.state.path().as_os_str(),
    ]);
    let ran: common::Ran = command.args(["--share", "12"]).output().unwrap().into();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("benign none: 12 runs, 0 asked") && ran.out.ends_with("0 attacker effects\n"),
        "{}",
        ran.out
    );
}
