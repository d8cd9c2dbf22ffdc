//! Text from outside on a terminal: it steers nothing, forges no row, and stays whole where it is data.

use crate::common;

use common::{Ran, Shell};
use serde_json::{Value, json};

const HELPDESK: &str = "examples/helpdesk";

/// A window's title, a link, a cleared screen, colours, eight-bit controls, marks of direction, hidden text, and a line of our own.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}]8;;http://evil.example\u{1b}\\link\u{1b}]8;;\u{1b}\\\u{1b}[2J\u{1b}[7m\u{9b}31m\
    \u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}\u{8}\u{7f}\r\nstopped: forged (answered)\u{2028}stopped: forged again\u{85}end";

/// What is left of text when our own styles are taken away.
fn unstyled(text: &str) -> String {
    let ours = ["0", "1", "2", "31", "32", "33"].map(|style| format!("\u{1b}[{style}m"));
    ours.iter().fold(text.to_owned(), |text, style| text.replace(style, ""))
}

#[track_caller]
fn is_harmless(text: &str) {
    let text = unstyled(text);
    let harmful = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}' | '\u{202e}' | '\u{2028}' | '\u{2066}' | '\u{feff}' | '\u{e0041}')
    };
    assert!(!text.contains(harmful), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("stopped: forged")), "{text}");
}

/// A reply whose every part is hostile.
fn reply(contract: Value) -> String {
    let text = HOSTILE.replace("\r\n", " ");
    format!(
        "## Situation\n\nIt\tis {text} [E0].\n\n## Next steps\n\n1. Wait [E0].\n\n```json\n{contract}\n```\n\n## {text}\n\n`` {text}"
    )
}

/// Runs an item that is as hostile as what the model says of it.
fn hostile_run(shell: &Shell, flags: &[&str]) -> Ran {
    let action = |id: &str, tool: &str, priority: &str| {
        json!({"action_id": id, "action_type": tool, "reason": HOSTILE, "priority": priority,
            "parameters": {"target": HOSTILE, (HOSTILE): 1}})
    };
    let actions = [
        action("a", &format!("fetch{HOSTILE}"), "required"),
        action("b", "fetch_device_info", "nice_to_have"),
        json!({"action_id": "c", "action_type": "fetch_device_info", "reason": HOSTILE, "priority": "required",
            "parameters": {"target": HOSTILE}}),
    ];
    let first =
        reply(json!({"nonce": "{{nonce}}", "analysis_confidence": "medium", "confidence_reason": HOSTILE,
        "ai_actions": actions}));
    let second =
        reply(json!({"nonce": "{{nonce}}", "analysis_confidence": "medium", "confidence_reason": HOSTILE,
        "refuse": HOSTILE, "ai_actions": []}));
    let script = json!({"version": 1, "replies": [
        {"for": "select", "text": "[]"}, {"for": "main", "text": first}, {"for": "main", "text": second},
        {"for": "main", "text": second}, {"for": "main", "text": second}]});
    let script = shell.file("hostile.json", &script.to_string()).display().to_string();
    let item = json!({"id": format!("T-9{HOSTILE}"), "subject": HOSTILE.repeat(3), "description": HOSTILE});
    let item = shell.file("item.json", &item.to_string()).display().to_string();
    let tiers = [format!("selector=scripted/{script}"), format!("base=scripted/{script}")];
    let args = [
        "run",
        HELPDESK,
        &item,
        "--no-save",
        "--model",
        &tiers[0],
        "--model",
        &tiers[1],
        "--progress",
        "always",
    ];
    coloured(shell, &[&args[..], flags].concat())
}

/// Runs as on a terminal: nothing is taken out on the way.
fn coloured(shell: &Shell, args: &[&str]) -> Ran {
    shell.command(args).env("CLICOLOR_FORCE", "1").output().unwrap().into()
}

#[test]
fn whatever_a_model_or_an_item_says_steers_no_terminal() {
    // K10
    let shell = Shell::new();
    let ran = hostile_run(&shell, &[]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    for part in
        ["stopped: refused (refused)", "│ ## Situation", "unknown_tool", "fetch_device_info", "It\tis"]
    {
        assert!(unstyled(&ran.err).contains(part), "`{part}` is missing in: {}", ran.err);
    }
    assert!(ran.err.contains("\u{1b}[1mgate\u{1b}[0m"), "styles of ours stay: {:?}", ran.err);
    assert!(ran.out.contains("## ") && ran.out.contains("It\tis"), "{}", ran.out);
    is_harmless(&ran.out);
    is_harmless(&ran.err);

    let shown = coloured(&shell, &["show", "last"]);
    is_harmless(&shown.out);
    is_harmless(&shown.err);
    let heading = shown.out.lines().next().unwrap();
    assert!(heading.starts_with("# ticket T-9") && heading.contains("again end: "), "{heading}");
}

#[test]
fn a_row_of_a_list_stays_one_row_of_a_bounded_length() {
    let shell = Shell::new();
    hostile_run(&shell, &[]);
    let long = json!({"id": "x".repeat(200), "subject": "y".repeat(500), "description": "Help."});
    let item = shell.file("long.json", &long.to_string()).display().to_string();
    shell.run(&["run", HELPDESK, &item, "--no-save"]);
    let runs = coloured(&shell, &["runs"]);
    is_harmless(&runs.out);
    // Its head and two rows, of 80 columns where nothing says how many there are.
    assert_eq!(runs.out.lines().count(), 3, "{}", runs.out);
    assert!(unstyled(&runs.out).lines().all(|row| row.chars().count() <= 80), "{}", runs.out);
    let runs = shell.run(&["runs"]);
    is_harmless(&runs.out);
    assert_eq!(runs.out.lines().count(), 2, "{}", runs.out);
    let row = runs.out.lines().find(|row| row.contains("xxx")).unwrap();
    assert!(row.contains(&format!("\t{}… {}…\t", "x".repeat(59), "y".repeat(99))), "{row}");
}

#[test]
fn data_stays_whole_and_steers_no_terminal_either() {
    let shell = Shell::new();
    let ran = hostile_run(&shell, &["--json"]);
    is_harmless(&ran.out);
    let outcome: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(outcome["item"]["title"].as_str().unwrap().contains('\u{202e}'), "{outcome:#}");
    let events = coloured(&shell, &["show", "last", "--events"]);
    is_harmless(&events.out);
    let first: Value = serde_json::from_str(events.out.lines().next().unwrap()).unwrap();
    assert!(first["event"]["item"]["id"].as_str().unwrap().contains(HOSTILE), "{first:#}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_cannot_be_written_is_one_line_and_no_success() {
    // W6
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    let folder = domain.to_str().unwrap();
    let run = ["run", folder, "--text", "Search user Alice"];
    for args in [&["tools", folder][..], &run[..]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran: Ran = shell.command(args).stdout(full).output().unwrap().into();
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert_eq!(ran.err.matches("standard output cannot be written: ").count(), 1, "{}", ran.err);
        assert_eq!(ran.err.contains("stopped: completed"), args[0] == "run", "{}", ran.err);
    }
    // Nothing of the run is lost.
    assert!(shell.run(&["show", "last"]).out.contains("`search_user`: 15 rows"));
}

/// The command with a reader of its standard output that is gone before anything is written.
#[cfg(target_os = "linux")]
fn without_a_reader(shell: &Shell, args: &[&str]) -> Ran {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    shell.command(args).stdout(writer).output().unwrap().into()
}

// A reader that is gone: what only prints ends quietly, and a run ends with its outcome, its journal and one line.
#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_is_gone_ends_no_run_and_hides_no_exit_code() {
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    let folder = domain.to_str().unwrap();
    let answered = ["run", folder, "--text", "Search user Alice"];
    let waits =
        ["run", folder, "--text", "search_user Bob, get_user_by_id 42, update_user 42 EPAM", "--json"];
    let limited = [&answered[..], &["--set", "limits.max_passes=1"]].concat();
    for (args, reason) in [
        (&answered[..], "completed"),
        (&[&answered[..], &["--json"]].concat(), "completed"),
        // Written to in the middle of the run.
        (&[&answered[..], &["--events"]].concat(), "completed"),
        // What the run ended with comes before what was lost.
        (&waits, "waiting"),
        (&limited, "max_passes"),
    ] {
        let read = shell.run(args);
        let ran = without_a_reader(&shell, args);
        assert_eq!(ran.err.matches("standard output cannot be written: ").count(), 1, "{}", ran.err);
        assert!(!ran.err.contains("panicked") && !ran.err.contains("internal error"), "{}", ran.err);
        assert!(ran.err.contains("totals:") && ran.err.contains("\nrun: "), "{}", ran.err);
        let shown = shell.run(&["show", "last", "--json"]);
        match reason {
            "waiting" => assert!(shown.err.contains("has not ended"), "{}", shown.err),
            reason => assert!(shown.out.contains(&format!("\"reason\": \"{reason}\"")), "{}", shown.out),
        }
        assert_eq!(ran.code, if read.code == 0 { 1 } else { read.code }, "{args:?}: {}", ran.err);
    }
    for args in [
        &["show", "last"][..],
        &["runs"],
        &["why", "last"],
        &["journal", "export", "--all"],
        &["tools", folder],
        &["model", "list"],
        &["--help"],
    ] {
        let ran = without_a_reader(&shell, args);
        assert_eq!(ran.code, 141, "{args:?}: {}", ran.err);
        assert!(ran.err.lines().count() <= 1, "{args:?}: {}", ran.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_one_line_in_every_command() {
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    let folder = domain.to_str().unwrap();
    assert_eq!(shell.run(&["run", folder, "--text", "Search user Alice"]).code, 0);
    for args in [
        &["show", "last"][..],
        &["show", "last", "--json"],
        &["runs"],
        &["why", "last"],
        &["why", "last", "--json"],
        &["plan", folder],
        &["domain", "check", folder],
        &["tools", folder],
        &["model", "list"],
        &["completions", "bash"],
        &["verify", "last"],
        &["doctor"],
        &["run", "--help"],
        &["--help"],
        &["--version"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran: Ran = shell.command(args).stdout(full).output().unwrap().into();
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.err);
        assert!(!ran.err.contains("the journal has every run"), "nothing was run: {args:?}: {}", ran.err);
        assert_eq!(
            ran.err.matches("standard output cannot be written: ").count(),
            1,
            "{args:?}: {}",
            ran.err
        );
    }
}
