//! `loopgate verify`: whole runs are whole, and each fault is a clear line.

use crate::common::{Shell, root, ticket};

use std::fs;
use std::path::PathBuf;

fn journal(shell: &Shell) -> PathBuf {
    shell.state.path().join("loopgate/journal.db")
}

fn sql(shell: &Shell, statements: &str) {
    rusqlite::Connection::open(journal(shell)).unwrap().execute_batch(statements).unwrap();
}

fn last(shell: &Shell) -> String {
    shell.run(&["runs"]).out.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn runs_of_every_kind_keep_every_invariant() {
    // I-1 to I-29 as far as a journal shows them: documents, conversations, outputs, refusals, waits, small budgets.
    let shell = Shell::new();
    let tickets = (1041..1056).map(ticket).filter(|it| root().join(it).exists()).collect::<Vec<_>>();
    assert!(tickets.len() >= 5, "{tickets:?}");
    for (nth, item) in tickets.iter().enumerate() {
        let set = ["limits.passes=1", "limits.tool_calls=1", "limits.tokens=12000"][nth % 3];
        shell.run(&["run", "examples/helpdesk", item]);
        shell.run(&["run", "examples/helpdesk", item, "--set", set]);
    }
    for text in
        ["Search user Alice", "search_user Bob, get_user_by_id 42, update_user 42 EPAM", "Delete all users"]
    {
        shell.run(&["run", "examples/crm", "--text", text]);
    }
    let waiting = last(&shell);
    shell.run(&["approve", &waiting, "1/action-0"]);
    let ran = shell.run(&["verify", "--all"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!((ran.out.lines().count(), &*ran.err), (2 * tickets.len() + 3, ""), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.contains("  ok: ")), "{}", ran.out);
    // A file of its own, and one run.
    let file = journal(&shell);
    assert_eq!(shell.run(&["verify", file.to_str().unwrap()]).out, ran.out);
    let one = shell.run(&["verify", "last"]);
    assert_eq!((one.code, one.out.lines().next()), (0, ran.out.lines().next()));
    let json = shell.json(&["verify", "--all", "--json"]);
    assert_eq!(
        (&json["ok"], json["runs"].as_array().unwrap().len()),
        (&true.into(), ran.out.lines().count())
    );
}

#[test]
fn each_fault_is_a_line_and_the_exit_code() {
    // H2, H3, H11, K16
    let shell = Shell::new();
    let run = |shell: &Shell| {
        let ran = shell.run(&["run", "examples/helpdesk", &ticket(1042)]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        last(shell)
    };
    let whole = run(&shell);
    let damaged = run(&shell);
    sql(&shell, &format!("UPDATE entries SET event = '{{' WHERE seq = 3 AND run = '{damaged}'"));
    let ran = shell.run(&["verify", &damaged]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        lines[0].starts_with(&format!("{damaged}  damaged, entry 3: the event cannot be read")),
        "{lines:?}"
    );
    assert_eq!(lines[1], "  good: entries 0 to 2, of 3 that can be read");
    assert!(lines[2].starts_with("  lost: ") && lines[3].starts_with("  next: "), "{lines:?}");
    // The others are checked all the same.
    let ran = shell.run(&["verify", "--all"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains(&format!("{whole}  ok: ")), "{}", ran.out);
    // A run that is gone.
    let gone = run(&shell);
    sql(&shell, &format!("DELETE FROM entries WHERE run = '{gone}'; DELETE FROM runs WHERE run = '{gone}'"));
    let ran = shell.run(&["verify", "--all"]);
    assert!(ran.code == 1 && ran.out.contains(&format!("{gone}  missing: ")), "{}", ran.out);
    // Without the key.
    let key = journal(&shell).with_file_name("journal.db.key");
    let text = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    let ran = shell.run(&["verify", &whole]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.starts_with(&format!("{whole}  unverified: ")), "{}", ran.out);
    assert!(ran.out.contains("journal.db.key back"), "{}", ran.out);
    fs::write(&key, text).unwrap();
    assert_eq!(shell.run(&["verify", &whole]).code, 0);
    // A newer format, no journal, no run.
    shell.run(&["verify", "r9"]).fails_with(&["r9"]);
    sql(&shell, "PRAGMA user_version = 9");
    shell.run(&["verify", "--all"]).fails_with(&["newer loopgate (format 9"]);
    Shell::new().run(&["verify", "--all"]).fails_with(&["no journal here"]);
    for args in [&["verify"][..], &["verify", "x", "--all"]] {
        assert_eq!(shell.run(args).code, 2, "{args:?}");
    }
}

#[test]
fn the_good_entries_of_a_damaged_run_are_continued_as_a_new_run() {
    // H3: the damaged run stays as it is.
    let shell = Shell::new();
    let ran = shell.run(&["run", "examples/helpdesk", &ticket(1042), "--no-save"]);
    let document = ran.out;
    let damaged = last(&shell);
    shell.run(&["verify", &damaged, "--salvage"]).fails_with(&["is whole", "loopgate resume"]);
    sql(&shell, &format!("UPDATE entries SET event = '{{' WHERE seq = 5 AND run = '{damaged}'"));
    let salvaged = shell.run(&["verify", &damaged, "--salvage"]);
    assert_eq!(salvaged.code, 0, "{}{}", salvaged.out, salvaged.err);
    assert_eq!(salvaged.out, document, "it reads the rest again, and comes to the same");
    assert!(salvaged.err.contains(&format!("continues {damaged} after 5 entries")), "{}", salvaged.err);
    assert!(salvaged.err.contains("every write needs an approval"), "{}", salvaged.err);
    let new = last(&shell);
    assert_ne!(new, damaged);
    assert_eq!(shell.run(&["verify", &new]).code, 0);
    assert_eq!(shell.run(&["verify", &damaged]).code, 1);
    assert_eq!(shell.json(&["show", &new, "--json"])["parent"]["run"], damaged.as_str());
}

#[test]
fn an_effect_of_a_salvaged_run_needs_an_approval_because_it_may_have_happened() {
    // W5: the trusted profile would run it without asking.
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm").display().to_string();
    let request = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";
    let ran =
        shell.run(&["run", &folder, "--profile", "trusted", "--set", "gate.people=true", "--text", request]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let damaged = last(&shell);
    let events = shell.run(&["show", &damaged, "--events"]).out;
    let seq_of = |what: &str| {
        let found = events.lines().rfind(|line| line.contains(what)).unwrap();
        serde_json::from_str::<serde_json::Value>(found).unwrap()["seq"].as_u64().unwrap()
    };
    // What follows the request of the effect is lost: it may have happened, and it does not happen again.
    let cut =
        |seq: u64| sql(&shell, &format!("DELETE FROM entries WHERE run = '{damaged}' AND seq >= {seq}"));
    cut(seq_of("\"tool_started\""));
    let salvaged = shell.run(&["verify", &damaged, "--salvage"]);
    assert_eq!(salvaged.code, 7, "{}{}", salvaged.out, salvaged.err);
    assert!(salvaged.out.contains(&format!("run {damaged} may have made it")), "{}", salvaged.out);
    // The request itself is lost: it is made again, and a person is asked, although the profile would let it run.
    cut(seq_of("\"call_started\",\"key\":\"3/main\"") + 1);
    let salvaged = shell.run(&["verify", &damaged, "--salvage"]);
    let waiting = shell.run(&["pending"]);
    assert!(waiting.out.contains("update_user"), "{}{}{}", salvaged.out, salvaged.err, waiting.out);
    assert!(waiting.out.contains(&format!("run {damaged} may have made it already")), "{}", waiting.out);
}
