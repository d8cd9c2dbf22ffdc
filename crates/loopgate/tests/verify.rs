//! `loopgate verify`: whole runs are whole, and each fault is a clear line.

use crate::common::{Shell, root, ticket};

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
    let totals = format!("totals:  {} ok, 0 wrong, 0 missing\n", 2 * tickets.len() + 3);
    assert_eq!((ran.out.lines().count(), &*ran.err), (2 * tickets.len() + 3, &*totals), "{}", ran.out);
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
