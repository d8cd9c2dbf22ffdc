//! The page of the command is made of its help texts. `UPDATE_HELP=1` writes it anew.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const COMMANDS: &[&str] = &[
    "init",
    "doctor",
    "config",
    "run",
    "chat",
    "resume",
    "runs",
    "show",
    "why",
    "report",
    "diff",
    "view",
    "pending",
    "approve",
    "deny",
    "answer",
    "tell",
    "stop",
    "label",
    "domain check",
    "policy check",
    "plan",
    "schema",
    "eval",
    "eval record",
    "redteam",
    "replay",
    "verify",
    "backtest",
    "fork",
    "retry",
    "journal stats",
    "journal prune",
    "journal export",
    "journal import",
    "serve",
    "serve tokens add",
    "serve tokens list",
    "serve tokens remove",
    "serve audit",
    "serve hooks",
    "serve hooks deliver",
    "serve hooks drop",
    "mcp",
    "mock",
    "engine worker",
    "engine submit",
    "engine status",
    "engine stop",
    "engine sweep",
    "tools",
    "tools call",
    "tools diff",
    "tools trust",
    "model list",
    "model call",
    "model decode",
    "completions",
    "man",
];

const HEAD: &str = "# The command\n\n\
    This page lists every command of `loopgate` with its options, for operators.\n\
    It is made from the help texts without `-h, --help`, which each command has, and a test compares it with them.\n\
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
fn the_help_has_every_command_in_six_groups_and_at_most_37() {
    let top = help("");
    let (mut groups, mut names) = (Vec::new(), Vec::new());
    for line in top.lines().skip_while(|line| *line != "Start:").take_while(|line| *line != "Options:") {
        match line.strip_suffix(':') {
            Some(group) if !line.starts_with(' ') => groups.push(group),
            _ => names.extend(line.strip_prefix("  ").and_then(|line| line.split(' ').next())),
        }
        assert!(line.chars().count() <= 90, "{line}");
    }
    assert_eq!(groups, ["Start", "Look", "Decide", "Check", "History", "Serve"]);
    assert!(names.len() <= 37, "{names:?}");
    let first = |command: &str| command.split(' ').next().unwrap().to_owned();
    let hidden = ["completions", "man"];
    let mut listed: Vec<String> = COMMANDS.iter().map(|command| first(command)).collect();
    listed.dedup();
    listed.retain(|name| !hidden.contains(&&**name));
    assert_eq!(names, listed, "the page has the commands of the help, in its order");
    // What a shell completes is each command that there is.
    let completed = Command::new(env!("CARGO_BIN_EXE_loopgate"))
        .args(["--", "loopgate", ""])
        .env("LOOPGATE_COMPLETE", "fish")
        .output()
        .unwrap();
    let known = String::from_utf8(completed.stdout).unwrap();
    let known =
        known.lines().filter_map(|line| line.split('\t').next()).filter(|name| !name.starts_with('-'));
    for name in known {
        let is_there = names.contains(&name) || hidden.contains(&name) || name == "help";
        assert!(is_there, "`{name}` is a command that no group of the help has");
    }
}

#[test]
fn help_explains_each_stop_reason_the_environment_and_a_domain() {
    let helped = |topic: &[&str]| {
        let mut process = Command::new(env!("CARGO_BIN_EXE_loopgate"));
        let output = process.arg("help").args(topic).env_remove("COLUMNS").output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code().unwrap(), out, err)
    };
    for reason in loop_core::StopReason::all() {
        let (code, out, err) = helped(&[reason.name()]);
        let class = match reason.name() {
            "effect_blocked" | "tier_changed" => format!("{reason} (an addition: it ends no run"),
            name => format!("{name} (class {}, ", reason.class().name()),
        };
        assert!(code == 0 && out.starts_with(&class) && err.is_empty(), "{reason}: {out}{err}");
        let about = out.split("\n\n").nth(1).unwrap();
        assert!(about.ends_with('.') && !about.contains("[`"), "{out}");
    }
    let reasons = loop_core::StopReason::all();
    for class in loop_core::types::StopClass::ALL {
        let name = class.name();
        let (code, out, err) = helped(&[name]);
        let is_reason = reasons.iter().any(|reason| reason.name() == name);
        let head = format!("{name} (a class of outcomes, exit code {})\n", class.exit_code());
        assert!(code == 0 && (is_reason || out.starts_with(&head)) && err.is_empty(), "{name}: {out}{err}");
    }
    assert!(helped(&["partial"]).1.contains("max_passes, "));
    for state in ["waiting", "running", "interrupted", "damaged"] {
        let (code, out, _) = helped(&[state]);
        assert!(code == 0 && out.starts_with(&format!("{state} (a state of a run")), "{out}");
    }
    let (_, environment, _) = helped(&["environment"]);
    for name in ["LOOPGATE_PRICES", "XDG_STATE_HOME", "NO_COLOR", "COLUMNS"] {
        assert!(environment.contains(name), "{environment}");
    }
    assert!(helped(&["domain"]).1.contains("loopgate.toml"));
    assert_eq!(helped(&["journal", "prune"]).1, format!("{}\n", help("journal prune").trim_end()));
    for (topic, near) in [("max_pases", "`max_passes`"), ("journl", "`journal`")] {
        let (code, out, err) = helped(&[topic]);
        assert!(code == 2 && out.is_empty() && err.contains(near) && err.lines().count() == 1, "{err}");
    }
}

#[test]
fn options_of_many_commands_stand_before_a_command_or_after_it_and_are_refused_where_they_mean_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none.db");
    let none = none.to_str().unwrap();
    let called = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_loopgate")).args(args).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let after = called(&["journal", "stats", "--json", "--journal", none]);
    assert!(after.0 == 1 && after.1.contains("none.db: no journal here"), "{after:?}");
    let joined = format!("--journal={none}");
    for before in [
        &["--json", "--journal", none, "journal", "stats"][..],
        &["journal", "--journal", none, "stats", "--json"],
        &[&joined, "--json", "journal", "stats"],
    ] {
        assert_eq!(called(before), after, "{before:?}");
    }
    let detail = called(&["--journal", none, "--json", "show", "last", "--evidence", "none"]);
    assert!(detail.0 == 1 && detail.1.contains("no journal here"), "{detail:?}");
    for refused in [&["domain", "check", "--json", "d"][..], &["--json", "domain", "check", "d"]] {
        let (code, line) = called(refused);
        assert!(code == 2 && line.contains("unexpected argument '--json'"), "{line}");
    }
    let twice = called(&["--journal", none, "runs", "--journal", none]);
    assert!(twice.0 == 2 && twice.1.contains("cannot be used multiple times"), "{twice:?}");
}

fn section(page: &mut String, command: &str) {
    let title = format!("loopgate {command}");
    write!(page, "\n## `{}`\n\n```text\n{}\n```\n", title.trim_end(), without_help(&help(command))).unwrap();
}

/// The help without the option that prints it, which each command has.
fn without_help(help: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut is_of_it = false;
    for line in help.trim_end().lines() {
        let is_option = line.trim_start().starts_with("-h, --help");
        is_of_it = is_option || is_of_it && line.trim_start().starts_with("Print help");
        if is_of_it {
            continue;
        }
        let is_gap = line.is_empty() && lines.last().is_some_and(|last| last.is_empty());
        if !is_gap {
            lines.push(line);
        }
    }
    let text = lines.join("\n").replace("\nOptions:\n\n", "\n");
    let text = text.replace("It also has ", "Also: ").replace(": see `loopgate --help`.", ".");
    text.trim_end().trim_end_matches("Options:").trim_end().to_owned()
}

fn help(command: &str) -> String {
    let mut process = Command::new(env!("CARGO_BIN_EXE_loopgate"));
    process.args(command.split_whitespace()).arg("--help").env_remove("COLUMNS").env("NO_COLOR", "1");
    let output = process.output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
