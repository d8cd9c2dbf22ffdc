//! `loopgate guard score`: tables and JSON over recorded runs, and what is no such file.

use crate::common;

use common::Shell;
use serde_json::{Value, json};

/// Twelve of one call: by the names of tools a read, with one result.
fn stuck(id: &str, success: bool) -> String {
    let step = json!({ "tool": "get_order", "arguments": { "order": "O1" }, "result": "open" });
    json!({ "id": id, "success": success, "steps": vec![step; 12] }).to_string()
}

fn fine(id: &str) -> String {
    let step = |n: u64| json!({ "tool": "get_order", "arguments": { "order": "O1" }, "result": format!("state {n}") });
    json!({ "id": id, "success": true, "steps": (0..4).map(step).collect::<Vec<_>>() }).to_string()
}

#[test]
fn every_policy_has_a_row() {
    let shell = Shell::new();
    let file = shell.file("runs.jsonl", &format!("{}\n{}\n", stuck("one", false), fine("two")));
    let ran = shell.run(&["guard", "score", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!(
        ran.out.lines().next(),
        Some("2 runs with 16 calls: 1 successful with 4 calls, 1 failed with 12 calls.")
    );
    let rows: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [
        "progress 0 0.0 % 0 0.0 % 0",
        "progress 1 100.0 % 10 83.3 % 0",
        "never_rerun 1 100.0 % 3 75.0 % 3",
        "off 0 0.0 % 0 0.0 % 0",
        "cycles5 1 100.0 % 8 66.7 % 0",
        "openhands 1 100.0 % 8 66.7 % 0",
        "consecutive:5 1 100.0 % 7 58.3 % 0",
        "last3 1 100.0 % 2 50.0 % 1",
        "progress 3 10",
    ] {
        let row: Vec<&str> = row.split(' ').collect();
        assert!(rows.contains(&row), "{row:?}\n{}", ran.out);
    }
    assert!(!ran.out.contains("labelled"), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 100), "{}", ran.out);
}

#[test]
fn named_policies_are_the_rows_and_json_holds_the_same() {
    let shell = Shell::new();
    let file = shell.file("runs.jsonl", &stuck("one", true));
    let file = file.to_str().unwrap();
    let args =
        ["guard", "score", file, "--policy", "consecutive:2", "--policy", "off", "--json", "--details"];
    let ran = shell.run(&args);
    let all: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(all["policies"].as_array().unwrap().len(), 2);
    assert_eq!(all["policies"][0]["policy"], "consecutive:2");
    assert_eq!(all["policies"][0]["successful"]["calls_lost"], 10);
    assert_eq!(all["runs"][0]["run"], "one");
    assert_eq!(all["runs"].as_array().unwrap().len(), 1);
    let reported = shell.run(&["guard", "score", file, "--policy", "consecutive:10,last3", "--details"]);
    let line = "consecutive:10: one [successful]: step 10 get_order (more than 10 times in a row); step 11 get_order \
        (more than 10 times in a row)";
    assert!(reported.out.lines().any(|found| found == line), "{}", reported.out);
}

#[test]
fn the_committed_set_is_scored_by_halves() {
    let shell = Shell::new();
    let set = "crates/loop-eval/data/loops.jsonl";
    let ran = shell.run(&["guard", "score", set, "--split", "dev", "--policy", "off", "--json"]);
    let dev: Value = serde_json::from_str(&ran.out).unwrap();
    let of = |key: &str| dev["policies"][0]["labelled"][key].as_u64().unwrap();
    assert!(of("loops") >= 100 && of("productive") >= 100, "{dev}");
    assert_eq!((of("caught"), of("false_positives")), (0, 0));
}

#[track_caller]
fn fails(args: &[&str], code: i32, says: &str) {
    let ran = Shell::new().run(args);
    assert_eq!((ran.code, ran.out.as_str()), (code, ""));
    assert!(ran.err.contains(says), "{}", ran.err);
}

#[test]
fn what_cannot_be_scored_is_one_line_with_its_place() {
    let shell = Shell::new();
    let file = shell
        .file("runs.jsonl", &format!("{}\n{{\"id\":\"x\",\"steps\":[{{\"tool\":\"t\"}}]}}\n", fine("one")));
    let file = file.to_str().unwrap();
    let ran = shell.run(&["guard", "score", file]);
    // X10: what can be scored is.
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, format!("loopgate: {file}:2: run `x`, step 0 (`t`): its result is missing\n"));
    assert!(ran.out.starts_with("1 runs with ") && ran.out.contains("progress"), "{}", ran.out);
    let fine = shell.file("fine.jsonl", &fine("one"));
    let fine = fine.to_str().unwrap();
    for (args, says) in [
        (vec!["guard", "score", fine, "--split", "dev"], "there is no run of this split"),
        (vec!["guard", "score", "no/such.jsonl"], "loopgate: no/such.jsonl: No such file"),
    ] {
        let ran = shell.run(&args);
        assert_eq!(ran.code, 1, "{args:?}");
        assert!(ran.err.contains(says), "{}", ran.err);
        assert!(ran.out.starts_with("0 runs with 0 calls"), "{}", ran.out);
    }
    let ran = shell.run(&["guard", "score", "no/such.jsonl", fine]);
    assert!(ran.code == 1 && ran.out.starts_with("1 runs with "), "{}", ran.out);
    fails(
        &["guard", "score", fine, "--policy", "sometimes"],
        2,
        "`sometimes` is no policy: progress, three_tier",
    );
    fails(&["guard", "score", fine, "--split", "half"], 2, "`half` is no split: dev or held_out");
    fails(&["guard", "score", fine, "--effects", "no/such.json"], 1, "loopgate: no/such.json: No such file");
    fails(&["guard", "score"], 2, "<FILE.jsonl>");
}
