//! The page of the command is made of its help texts. `UPDATE_HELP=1` writes it anew.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const COMMANDS: &[&str] = &[
    "init",
    "doctor",
    "run",
    "chat",
    "show",
    "why",
    "replay",
    "verify",
    "diff",
    "plan",
    "backtest",
    "runs",
    "journal stats",
    "journal prune",
    "journal export",
    "journal import",
    "tokens add",
    "tokens list",
    "tokens remove",
    "audit",
    "save",
    "hooks",
    "hooks deliver",
    "hooks drop",
    "tools",
    "tools call",
    "tools diff",
    "tools trust",
    "pending",
    "approve",
    "deny",
    "answer",
    "tell",
    "resume",
    "fork",
    "retry",
    "domain check",
    "policy check",
    "eval",
    "redteam",
    "mcp",
    "view",
    "serve",
    "worker",
    "submit",
    "status",
    "stop",
    "sweep",
    "mock",
    "model call",
    "model decode",
    "models",
    "completions",
    "man",
];

const HEAD: &str = "# The command\n\n\
    This page lists every command of `loopgate` with its options, for operators.\n\
    It is made from the help texts, and a test compares it with them.\n\
    The exit codes of `run` are at the end of the first text.\n";

#[test]
fn the_page_of_the_command_is_its_help() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/command.md");
    let mut page = HEAD.to_owned();
    section(&mut page, "");
    for command in COMMANDS {
        section(&mut page, command);
    }
    if std::env::var_os("UPDATE_HELP").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "{} is stale; run this test with UPDATE_HELP=1", path.display());
}

#[test]
fn every_command_is_on_the_page() {
    let top = help("");
    let lines = top.lines().skip_while(|line| *line != "Commands:").skip(1);
    // A longer indent continues the text of the line before.
    let commands = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    for command in commands.filter(|command| !command.starts_with(' ')) {
        let name = command.split(' ').next().unwrap();
        let is_listed = COMMANDS.iter().any(|listed| listed.split(' ').next() == Some(name));
        assert!(is_listed || name == "help", "`{name}` is not in COMMANDS");
    }
}

fn section(page: &mut String, command: &str) {
    let title = format!("loopgate {command}");
    write!(page, "\n## `{}`\n\n```text\n{}\n```\n", title.trim_end(), help(command).trim_end()).unwrap();
}

fn help(command: &str) -> String {
    let mut process = Command::new(env!("CARGO_BIN_EXE_loopgate"));
    process.args(command.split_whitespace()).arg("--help").env_remove("COLUMNS").env("NO_COLOR", "1");
    let output = process.output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
