//! Labels of runs, and what they are for: lists, exports, backtests, calibration; and evals that are kept.

use std::path::Path;

use crate::common::Shell;
use serde_json::{Value, json};

const DOMAIN: &str = r#"
version = 1
name = "shop"
goal = "Say when the shop opens"

[models.base]
provider = "scripted"
script = "replies.json"

[[section]]
id = "answer"
heading = "Answer"
required = true
"#;

/// A shop whose model always states high, and a case of it.
fn shop() -> (Shell, String) {
    let shell = Shell::new();
    let contract = json!({
        "nonce": "{{nonce}}", "analysis_confidence": "high", "confidence_reason": "sure", "ai_actions": [],
    });
    let reply = format!("## Answer\n\nAt nine.\n\n```json\n{contract}\n```");
    let script = json!({ "version": 1, "replies": [{ "for": "main", "text": reply }] });
    shell.file("shop/loopgate.toml", DOMAIN);
    shell.file("shop/replies.json", &script.to_string());
    let case = json!({
        "case_id": "one", "domain": "..", "model": "domain", "text": "# When?",
        "expected": { "document": { "answer": { "contains": ["nine"] } } },
    });
    shell.file("shop/evals/one.json", &case.to_string());
    let folder = shell.state.path().join("shop").display().to_string();
    (shell, folder)
}

fn run(shell: &Shell, folder: &str) -> String {
    let outcome = shell.json(&["run", folder, "--text", "When does the shop open?", "--json", "--no-save"]);
    outcome["run"].as_str().unwrap().to_owned()
}

fn good(shell: &Shell, args: &[&str]) -> String {
    let ran = shell.run(args);
    assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
    format!("{}{}", ran.out, ran.err)
}

#[test]
fn a_label_is_shown_replaced_taken_away_and_carried() {
    let (shell, folder) = shop();
    let [first, second] = [(); 2].map(|()| run(&shell, &folder));
    assert!(good(&shell, &["label", &first, "good"]).contains(&format!("run {first}: good\n")));
    let said = good(
        &shell,
        &["label", &first, "bad", "--note", "it named\u{1b}\u{202e} another day", "--as", "Ada"],
    );
    assert!(said.contains(&format!("run {first}: bad (before: good)\n")), "{said}");
    let shown = good(&shell, &["show", &first]);
    assert!(
        shown.contains("label: bad: it named another day")
            && shown.contains("by an unverified account as `Ada`"),
        "{shown}"
    );
    assert!(good(&shell, &["runs"]).contains(" [bad]"));
    let listed = shell.json(&["runs", "--json"]);
    let of = |run: &str| {
        let runs = listed["runs"].as_array().unwrap();
        runs.iter().find(|it| it["run"] == run).unwrap()["label"]["label"].clone()
    };
    assert_eq!((of(&first), of(&second)), (json!("bad"), Value::Null));
    // On the page of a file as well.
    let page = shell.state.path().join("run.html").display().to_string();
    good(&shell, &["show", &first, "--html", &page]);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("Label <strong class=\"pill bad\">bad</strong>") && !html.contains("class=\"decide\""),
        "{html}"
    );
    // It leaves with the run, and comes back with its export.
    let export = shell.state.path().join("export.jsonl").display().to_string();
    good(&shell, &["journal", "export", &first, "-o", &export]);
    good(&shell, &["journal", "prune", "--older-than", "0s"]);
    let left = shell.run(&["label", &first, "good"]);
    left.fails_with(&[&first]);
    good(&shell, &["journal", "import", &export]);
    assert!(good(&shell, &["show", &first]).contains("label: bad: it named"));
    assert!(good(&shell, &["label", &first, "--remove"]).contains("no label (before: bad)"));
    assert!(!good(&shell, &["runs"]).contains("[bad]"));
    // Wrong usage is a line.
    for (args, part) in [
        (&["label", &first][..], "required"),
        (&["label", &first, "fine"], "good, bad"),
        (&["label", &first, "good", "--remove"], "cannot be used with"),
        (&["label", "nothing", "good"], "nothing"),
        (
            &["label", &first, "good", "--note", &"x".repeat(2_001)],
            "--note: 2001 characters are more than 2000",
        ),
    ] {
        let ran = shell.run(args);
        assert!(ran.code != 0 && ran.err.contains(part), "{args:?}: {}", ran.err);
    }
}

#[test]
fn labelled_runs_are_counted_by_calibration_and_backtest() {
    let (shell, folder) = shop();
    let file = format!("{folder}/calibration.json");
    let eval = ["eval", "--labelled", "--calibration", &file];
    let runs: Vec<String> = (0..4).map(|_| run(&shell, &folder)).collect();
    shell.run(&eval).fails_with(&["--labelled", "no run is labelled"]);
    for (run, label) in runs.iter().zip(["good", "bad", "bad"]) {
        good(&shell, &["label", run, label]);
    }
    let counted = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["rows"][0]["high"].clone()
    };
    let said = good(&shell, &eval);
    assert!(said.contains("3 labelled runs, 1 of them good") && said.contains("1 of 3"), "{said}");
    assert!(!said.contains("cases"), "no case was run: {said}");
    assert_eq!(counted(&file), json!({ "passed": 1, "runs": 3 }));
    // Next to cases both count.
    good(&shell, &["eval", &folder, "--labelled", "--calibration", &file]);
    assert_eq!(counted(&file), json!({ "passed": 2, "runs": 4 }));
    // What becomes of them under another policy.
    let args = ["backtest", "--all", "--set", "gate.final_pass=false", "--set", "limits.passes=1"];
    let report = shell.json(&[&args[..], &["--json"]].concat());
    let labelled = &report["policies"][0]["labelled"];
    assert_eq!((&labelled["good"]["runs"], &labelled["bad"]["runs"]), (&json!(1), &json!(2)), "{report:#}");
    assert_eq!(report["runs"][3]["label"], Value::Null);
    assert!(good(&shell, &args).contains("  1 labelled good: "));
}

#[test]
fn an_eval_is_kept_where_the_journal_says_and_pruned_by_age() {
    let (shell, folder) = shop();
    let journal = shell.state.path().join("other.db").display().to_string();
    let said = good(&shell, &["eval", &folder, "--keep", "nightly", "--journal", &journal]);
    assert!(said.contains("kept:    nightly as eval ") && Path::new(&journal).exists(), "{said}");
    let prune = ["journal", "prune", "--journal", &journal, "--older-than", "0s"];
    let said = good(&shell, &[&prune[..], &["--domain", "shop"]].concat());
    assert!(said.contains("pruned: 0 runs with 0 entries; "), "{said}");
    let said = good(&shell, &[&prune[..], &["--dry-run"]].concat());
    assert!(said.contains("would be pruned: 0 runs with 0 entries and 1 eval; "), "{said}");
    assert!(good(&shell, &prune).contains("pruned: 0 runs with 0 entries and 1 eval; "));
    assert!(good(&shell, &prune).contains("pruned: 0 runs with 0 entries; "));
    for (args, part) in [
        (&["eval", &folder, "--keep", " "][..], "--keep: it is blank"),
        (&["eval", "--keep", "x"], "required"),
        (&["eval", &folder, "--labelled"], "--calibration"),
    ] {
        let ran = shell.run(args);
        assert!(ran.code != 0 && ran.err.contains(part), "{args:?}: {}", ran.err);
    }
}
