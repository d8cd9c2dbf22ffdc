//! `loopgate run --explain-picks`, and the page `docs/how-to/offline.md`. `UPDATE_EXPLAIN=1` writes what the command
//! prints into the page; read the difference before you keep it.

use crate::common::{Shell, root};

// Issue 17, part 9
#[test]
fn the_page_on_the_stub_shows_what_its_command_prints() {
    let path = root().join("docs/how-to/offline.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (_, rest) = page.split_once("```console\n$ loopgate ").unwrap();
    let command = rest.lines().next().unwrap();
    let (_, rest) = rest.split_once("```text\n").unwrap();
    let (expected, _) = rest.split_once("```").unwrap();
    let args: Vec<&str> = command.split(' ').collect();
    let ran = Shell::new().run(&args);
    let is_of_it = |line: &&str| line.starts_with("selected: ") || line.starts_with("not: ");
    let printed: String = ran.err.lines().filter(is_of_it).map(|line| format!("{line}\n")).collect();
    if std::env::var_os("UPDATE_EXPLAIN").is_some() {
        let old = format!("```text\n{expected}```");
        std::fs::write(&path, page.replacen(&old, &format!("```text\n{printed}```"), 1)).unwrap();
        return;
    }
    assert_eq!(printed, expected);
    // Each tool of the domain has its line.
    assert!(printed.lines().count() >= 6, "{printed}");
}

const UNLOCK: &str = r#"
[gate]
people = true

[tools.unlock_account]
kind = "command"
effect = "write_idempotent"
description = "Unlock the account of a user"

[tools.unlock_account.parameters.user]
pattern = "^[^@ ]+@[^@ ]+$"
required = true

[tools.unlock_account.command]
program = "/bin/echo"
args = ["unlocked", "{user}"]
"#;

// Issue 17, part 9
#[test]
fn an_approval_can_be_tried_without_a_model() {
    let shell = Shell::new();
    let domain = shell.copy_of("examples/helpdesk");
    let file = domain.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text + UNLOCK).unwrap();
    let user = "a.b@c.example";
    let item = shell.file(
        "item.json",
        &format!(r#"{{"id": "T-9", "subject": "Please unlock my account", "account": "harbor", "description": "Unlock {user}."}}"#),
    );
    let (domain, item) = (domain.to_str().unwrap(), item.to_str().unwrap());
    let waiting = shell.run(&["run", domain, item, "--no-save"]);
    assert_eq!(waiting.code, 5, "{}", waiting.err);
    let pending = &shell.json(&["pending", "--json"])["pending"][0];
    assert_eq!((&pending["tool"], &pending["parameters"]["user"]), (&"unlock_account".into(), &user.into()));
    let (run, key) = (pending["run"].as_str().unwrap(), pending["action"].as_str().unwrap());
    let approved = shell.run(&["approve", run, key]);
    assert_eq!(approved.code, 0, "{}", approved.err);
    assert!(approved.out.contains("- **unlock_account**: "), "{}", approved.out);
    let denied = shell.run(&["run", domain, item, "--no-save"]);
    assert_eq!(denied.code, 5, "{}", denied.err);
    let run = shell.json(&["pending", "--json"])["pending"][0]["run"].as_str().unwrap().to_owned();
    let denied = shell.run(&["deny", &run, key, "--why", "no"]);
    assert!(denied.out.contains("- **unlock_account** was denied, so it did not run."), "{}", denied.out);
}

#[test]
fn a_pattern_that_is_none_and_a_default_that_it_refuses_are_said() {
    let shell = Shell::new();
    let domain = shell.copy_of("examples/helpdesk");
    let file = domain.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    for (pattern, said) in [
        (r#"pattern = "([""#, r#""([" is not a regular expression, or is too large; correct it"#),
        ("pattern = \"@\"\ndefault = \"y\"", "it does not fit its own parameter: "),
        ("pattern = \"^x\"", "one of them does not fit its own parameter: "),
    ] {
        std::fs::write(&file, text.replacen("min_length = 3", pattern, 1)).unwrap();
        shell.run(&["domain", "check", domain.to_str().unwrap()]).fails_with(&["loopgate.toml:9", said]);
    }
}
