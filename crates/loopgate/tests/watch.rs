//! What a person sees while a run works: the status line at a terminal, and what is left of it.

use rustix::process::Signal;
use serde_json::json;

use crate::common;

use common::provider::{Piece, Provider, Says};
use common::rows::rows_of;
use common::terminal::Terminal;
use common::{Ran, Shell, ticket};

const USER_REQUEST: &str = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";

/// The arguments of a run of the people register with this provider.
fn register(shell: &Shell, provider: &Provider) -> Vec<String> {
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let url = format!("base={}", provider.url);
    let args = ["run", folder.to_str().unwrap(), "--text", USER_REQUEST, "--model", "base=compatible/m"];
    args.iter().map(ToString::to_string).chain(["--base-url".to_owned(), url]).collect()
}

fn command(shell: &Shell, args: &[String]) -> std::process::Command {
    shell.command(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The rows in which something of the status line is left.
fn remains(rows: &[String]) -> Vec<&String> {
    rows.iter().filter(|row| row.contains(" passed") || row.contains('│')).collect()
}

#[track_caller]
fn has_once(rows: &[String], text: &str) {
    let count = rows.iter().filter(|row| row.contains(text)).count();
    assert_eq!(count, 1, "`{text}`:\n{}", rows.join("\n"));
}

// W6: a retry, a stalled stream and an approval are all seen, and nothing of the status line stays.
#[test]
fn a_terminal_shows_a_429_a_stall_and_an_approval_and_keeps_none_of_it() {
    let shell = Shell::new();
    let provider = Provider::replying(vec![
        Says::Refused { status: 429, retry_after: 2 },
        Says::Stream(vec![
            Piece::Text("I look Bob up first, and then I set his company.\nOne moment."),
            Piece::Hold,
            Piece::Call { tool: "update_user", arguments: json!({"id": 42, "company": "EPAM"}) },
        ]),
        Says::Stream(vec![Piece::Text("Bob works for EPAM now.")]),
    ]);
    let mut person = Terminal::of_width(command(&shell, &register(&shell, &provider)), 72);
    person.wait_for("the call failed (rate_limited: Rate limit reached); try 2 in ");
    person.wait_for("pass 1 of 10 · m · 429, again in ");
    person.wait_for("│ One moment.");
    person.wait_for("receiving");
    person.wait_for("silent for ");
    provider.go_on();
    person.wait_for("Allow update_user? [y/N] ");
    // While a person is asked, nothing else is shown.
    let asked = rows_of(&person.written(), 72);
    assert_eq!(remains(&asked), Vec::<&String>::new());
    person.press("y\n");
    let (code, screen) = person.end();
    assert_eq!(code, 0, "{screen}");
    let rows = rows_of(&screen.replace('\n', "\r\n"), 72);
    assert_eq!(remains(&rows), Vec::<&String>::new(), "{}", rows.join("\n"));
    for text in [
        "the call failed (rate_limited: Rate limit reached); try 2 in",
        "Allow update_user? [y/N] y",
        "Bob works for EPAM now.",
        "models:  base compatible m (2 calls), served by m-2026-08-01",
        "stopped: completed (answered).",
    ] {
        has_once(&rows, text);
    }
}

// The document is printed once, and last: what streams is shown in place.
#[test]
fn a_document_is_printed_once_at_a_terminal_of_any_kind() {
    for (columns, term, ci) in
        [(80, "xterm", ""), (40, "xterm", ""), (200, "xterm", ""), (80, "dumb", ""), (80, "xterm", "true")]
    {
        let shell = Shell::new();
        let mut command = shell.command(&["run", "examples/helpdesk", &ticket(1042), "--no-save"]);
        command.env("TERM", term).env("CI", ci);
        let (code, screen) = Terminal::of_width(command, columns).end();
        assert_eq!(code, 0, "{screen}");
        let rows = rows_of(&screen.replace('\n', "\r\n"), columns.into());
        assert_eq!(remains(&rows), Vec::<&String>::new(), "{columns} {term}\n{}", rows.join("\n"));
        has_once(&rows, "## 🔍 Situation");
        has_once(&rows, "totals:  2 passes");
        let moves = screen.contains("\u{1b}[J");
        assert!(!moves || term != "dumb" && ci.is_empty(), "{columns} {term} {ci}: {screen:?}");
    }
}

// Ctrl-Z and Ctrl-C leave the terminal a clean line.
#[test]
fn a_program_that_is_stopped_or_ended_takes_its_status_line_with_it() {
    let shell = Shell::new();
    let provider = Provider::replying(vec![Says::Stream(vec![Piece::Text("One moment."), Piece::Hold])]);
    let mut person = Terminal::run(command(&shell, &register(&shell, &provider)));
    person.wait_for("receiving");
    person.signal(Signal::TSTP);
    assert!(person.is_stopped());
    // What it wrote before it stopped may still be on its way.
    person.wait_until(|written| remains(&rows_of(written, 80)).is_empty());
    person.signal(Signal::CONT);
    person.wait_for("receiving");
    person.signal(Signal::INT);
    person.wait_for("stopping at the next gate");
    person.wait_for("pass 1 of 10, then stop");
    person.signal(Signal::INT);
    let (code, screen) = person.end();
    assert_eq!(code, 130, "{screen}");
    let rows = rows_of(&screen.replace('\n', "\r\n"), 80);
    assert_eq!(remains(&rows), Vec::<&String>::new(), "{}", rows.join("\n"));
    has_once(&rows, "stopped: manual_stop (cancelled)");
}

// A model's name and a tool's name that a provider chose steer no terminal.
#[test]
fn names_from_a_provider_stay_in_their_row() {
    let shell = Shell::new();
    let hostile = "evil\u{1b}[2J\u{202e}\n\u{7}日本語";
    let provider = Provider::replying(vec![
        Says::Stream(vec![
            Piece::Text("\u{1b}[2Jx\u{202e}y"),
            Piece::Call { tool: "search\u{1b}[3A_user\u{7}", arguments: json!({"name": "Bob"}) },
        ]),
        common::provider::text(hostile, "That was it."),
    ]);
    let (code, screen) = Terminal::of_width(command(&shell, &register(&shell, &provider)), 60).end();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains('\u{202e}') && !screen.contains("\u{1b}[2J") && !screen.contains("\u{1b}[3A"));
    let rows = rows_of(&screen.replace('\n', "\r\n"), 60);
    assert_eq!(remains(&rows), Vec::<&String>::new(), "{}", rows.join("\n"));
}

// W6: on a pipe a retry is one line, without a word of a terminal's language.
#[test]
fn a_pipe_has_a_line_for_each_wait() {
    let shell = Shell::new();
    let provider = Provider::replying(vec![
        Says::Refused { status: 429, retry_after: 0 },
        Says::Stream(vec![Piece::Text("That was it.")]),
    ]);
    let args = register(&shell, &provider);
    let ran: Ran = command(&shell, &args).output().unwrap().into();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("  the call failed (rate_limited: Rate limit reached); try 2 in "),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains('\u{1b}') && !ran.err.contains("pass 1 with"), "{}", ran.err);
    // Who asked for silence has it.
    let quiet = Provider::replying(vec![
        Says::Refused { status: 429, retry_after: 0 },
        Says::Stream(vec![Piece::Text("That was it.")]),
    ]);
    let mut args = register(&shell, &quiet);
    args.extend(["--progress".to_owned(), "never".to_owned()]);
    let ran: Ran = command(&shell, &args).output().unwrap().into();
    assert!(!ran.err.contains("the call failed"), "{}", ran.err);
}
