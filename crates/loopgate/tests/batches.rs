//! What a batch says of items that are not saved, not its own, or done and pruned.

use std::process::Output;

use serde_json::Value;

use crate::common::{Ran, Shell, root, ticket};

const HELPDESK: &str = "examples/helpdesk";

/// So many tickets that need one pass each.
fn tickets(shell: &Shell, count: usize) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(ticket(1041))).unwrap();
    let mut ticket: Value = serde_json::from_str(&text).unwrap();
    (0..count)
        .map(|nth| {
            ticket["id"] = format!("B-{nth}").into();
            shell.file(&format!("items/{nth}.json"), &ticket.to_string()).display().to_string()
        })
        .collect()
}

fn args<'a>(items: &'a [String], options: &[&'a str]) -> Vec<&'a str> {
    let items = items.iter().map(String::as_str);
    ["run", HELPDESK, "--progress", "never", "--jobs", "1"]
        .into_iter()
        .chain(items)
        .chain(options.iter().copied())
        .collect()
}

#[test]
fn what_is_not_saved_is_said_and_kept_and_what_is_pruned_is_done() {
    // U2: each item once, also after its run was pruned.
    let shell = Shell::new();
    let items = tickets(&shell, 2);
    let file = shell.file("a-file", "");
    let save = format!("save.file={}/{{item}}.json", file.display());
    let ran = shell.run(&args(&items, &["--json", "--set", &save]));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.err.matches(": saved: no: ").count(), 2, "{}", ran.err);
    assert!(ran.err.contains("item B-0: saved: no: "), "{}", ran.err);
    assert!(ran.err.contains("batch:   2 answered; 2 not saved\n"), "{}", ran.err);
    assert!(ran.err.contains("next:    `loopgate resume "), "{}", ran.err);
    for line in ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert_eq!(line["saved"], Value::Null);
        let run = line["run"].as_str().unwrap();
        let message = line["message"].as_str().unwrap();
        assert!(
            message.starts_with("saved: no: ")
                && message.contains(&format!("`loopgate resume {run} --save`"))
        );
    }
    // I-12: what only the journal has is deleted only where that is asked for.
    let kept = shell.run(&["journal", "prune", "--older-than", "0s"]);
    assert_eq!(kept.err.matches("its outcome could not be saved").count(), 2, "{}", kept.err);
    assert!(kept.err.contains("pruned: 0 runs with 0 entries; kept: 2"), "{}", kept.err);
    let pruned = shell.run(&["journal", "prune", "--older-than", "0s", "--unsaved"]);
    assert!(pruned.err.contains("pruned: 2 runs"), "{}", pruned.err);
    for more in [&[][..], &["--retry-failed"]] {
        let again = shell.run(&args(&items, &[&["--set", &save], more].concat()));
        assert_eq!(again.code, 0, "{}{}", again.out, again.err);
        assert!(again.err.contains("batch:   2 done (pruned); 2 were done before\n"), "{}", again.err);
        assert!(!again.err.contains("next:") && !again.err.contains("failed"), "{}", again.err);
        assert_eq!(again.out.matches("done (pruned)").count(), 2, "{}", again.out);
    }
}

#[test]
fn a_reader_that_is_gone_ends_no_batch() {
    let shell = Shell::new();
    let items = tickets(&shell, 3);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = shell.command(&args(&items, &["--json", "--no-save"]));
    let ran: Output = command.stdout(writer).output().unwrap();
    let ran = Ran::from(ran);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(ran.err.matches("standard output cannot be written").count(), 1, "{}", ran.err);
    assert!(ran.err.contains("batch:   3 answered\n"), "{}", ran.err);
}

#[test]
fn two_items_that_would_be_saved_to_one_file_are_refused() {
    let shell = Shell::new();
    let mut items = tickets(&shell, 1);
    let text =
        std::fs::read_to_string(&items[0]).unwrap().replacen("\"subject\":\"", "\"subject\":\"Again: ", 1);
    items.push(shell.file("items/other.json", &text).display().to_string());
    shell.run(&args(&items, &[])).fails_with(&[
        &items[0],
        &items[1],
        "two items with the id `B-0`",
        "{run}",
        "nothing was started",
    ]);
    let unsaved = shell.run(&args(&items, &["--no-save"]));
    assert_eq!(unsaved.code, 0, "{}{}", unsaved.out, unsaved.err);
    let one = shell.run(&args(&items[..1], &["--no-save"]));
    assert!(one.err.contains("batch:   1 answered; 1 was done before\n"), "{}", one.err);
}

#[test]
fn an_imported_run_does_not_count_as_done() {
    let (shell, other) = (Shell::new(), Shell::new());
    assert_eq!(shell.run(&args(&tickets(&shell, 1), &["--no-save"])).code, 0);
    let export = shell.state.path().join("export.jsonl").display().to_string();
    assert_eq!(shell.run(&["journal", "export", "--all", "--out", &export]).code, 0);
    assert_eq!(other.run(&["journal", "import", &export]).code, 0);
    let ran = other.run(&args(&tickets(&other, 1), &["--no-save"]));
    assert_eq!(ran.code, 6, "{}{}", ran.out, ran.err);
    // The whole reason, in the table and on standard error.
    let why = "does not count as done: it was imported";
    let remedy = "use another journal for the batch (--journal)";
    assert!(ran.out.contains(why) && ran.out.contains(remedy), "{}", ran.out);
    assert!(ran.err.contains("item B-0: failed: run ") && ran.err.contains(remedy), "{}", ran.err);
}
