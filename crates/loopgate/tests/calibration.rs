//! Calibration from evals to a run: what `eval --calibration` counts, and what a run with `gate.calibration` ends as.

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

/// A shop whose model always states high. Of its three cases it passes two.
fn shop() -> (Shell, String) {
    let shell = Shell::new();
    let contract = json!({
        "nonce": "{{nonce}}", "analysis_confidence": "high", "confidence_reason": "sure", "ai_actions": [],
    });
    let reply = format!("## Answer\n\nAt nine.\n\n```json\n{contract}\n```");
    let script = json!({ "version": 1, "replies": [{ "for": "main", "text": reply }] });
    shell.file("shop/loopgate.toml", DOMAIN);
    shell.file("shop/replies.json", &script.to_string());
    shell.file("shop/item.md", "# When does the shop open?\n");
    for (name, word) in [("one", "nine"), ("two", "nine"), ("three", "ten")] {
        let case = json!({
            "case_id": name, "domain": "..", "model": "domain", "text": "# When?",
            "expected": { "document": { "answer": { "contains": [word] } } },
        });
        shell.file(&format!("shop/evals/{name}.json"), &case.to_string());
    }
    let folder = shell.state.path().join("shop").display().to_string();
    (shell, folder)
}

/// The confidence of a run's conditions and of its passes.
fn ended(shell: &Shell, args: &[&str]) -> Value {
    shell.json(&[args, &["--json", "--no-save"]].concat())
}

#[test]
fn a_model_that_is_always_sure_is_believed_as_often_as_it_was_right() {
    // Issue 19, part 5: 16 of 24 runs that stated high passed, which is worth medium.
    let (shell, folder) = shop();
    let file = format!("{folder}/calibration.json");
    // Next to the domain: what is written into its folder makes stored results anew.
    let page = shell.state.path().join("page.html").display().to_string();
    let ran = shell.run(&["eval", &folder, "--repeat", "8", "--calibration", &file, "--html", &page]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    for part in [
        "calibration of scripted/",
        " in shop: Brier score 0.277, 0.222 if the pass rate of all were forecast; 16 of 24 runs passed",
        "high        16 of 24   66.7 %  46.7 % to 82.0 %   80 % to 100 %    medium",
        "low           0 of 0     none  none               0 % to 50 %      low (too few runs)",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&ran.out).contains(&squeezed(part)), "`{part}` is missing in {}", ran.out);
    }
    assert!(ran.err.contains("calibration written to "), "{}", ran.err);
    assert!(ran.err.contains("warning: scripted/"), "{}", ran.err);
    assert!(
        ran.err
            .contains("too few runs stated medium (0 runs), low (0 runs); a level with fewer than 16 counts"),
        "{}",
        ran.err
    );
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<h2>Calibration</h2>") && html.contains("role=\"img\""), "{html}");
    assert!(html.contains("46.7 % to 82.0 %") && !html.contains("<script"), "{html}");
    let measured: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(measured["rows"][0]["high"], json!({ "passed": 16, "runs": 24 }));
    // The file is in the domain's folder, and makes no run anew.
    let again = shell.run(&["eval", &folder, "--repeat", "8", "--calibration", &file, "--json"]);
    assert_eq!(again.err.matches(" (stored)\n").count(), 24, "{}", again.err);
    let report: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(report["calibration"]["models"][0]["levels"][0]["measured"], "medium");

    // Without it the run is confident; with it, it is not, and says what was stated and what that is worth.
    let item = format!("{folder}/item.md");
    let run = |more: &[&str]| ended(&shell, &[&["run", &folder, &item], more].concat());
    assert_eq!(run(&[])["stop"]["reason"], "confident");
    let with = [DOMAIN, "[gate]\ncalibration = \"calibration.json\"\n"].concat();
    shell.file("shop/loopgate.toml", &with);
    let lowered = run(&[]);
    assert_eq!(lowered["stop"]["reason"], "no_new_actions", "{lowered:#}");
    assert_eq!(
        lowered["stop"]["conditions"][0]["value"],
        "medium, measured; stated high, and 16 of 24 runs that stated it passed"
    );
    assert_eq!(
        (&lowered["passes"][0]["confidence"], &lowered["passes"][0]["measured"]),
        (&json!("high"), &json!("medium"))
    );
    let id = lowered["run"].as_str().unwrap();
    let why = shell.run(&["why", id]);
    assert!(why.out.contains("high in pass 1 (measured medium)"), "{}", why.out);
    assert!(why.out.contains("stated high, and 16 of 24 runs"), "{}", why.out);
    assert_eq!(shell.json(&["why", id, "--json"])["confidence"][0]["measured"], "medium");
    // The journal has what is needed: the file may be gone.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(shell.run(&["verify", id]).code, 0);
    assert!(shell.run(&["show", id]).out.contains("high (measured medium)"));
    // `backtest` says what the run would have ended as without it.
    let backtest = shell.json(&["backtest", id, "--set", "gate.calibration=none", "--json"]);
    assert!(backtest.to_string().contains("confident"), "{backtest:#}");
    // And a run that could not read it does not begin.
    let ran = shell.run(&["run", &folder, &item]);
    ran.fails_with(&["loopgate.toml:", "calibration.json: cannot be read: "]);
    assert_eq!(run(&["--set", "gate.calibration=none"])["stop"]["reason"], "confident");
}

#[test]
fn without_a_run_that_counts_nothing_is_written() {
    let (shell, folder) = shop();
    let scripted = json!({
        "case_id": "scripted", "domain": "..", "text": "# When?", "replies": [{ "text": "## Answer\n\nAt nine." }],
        "expected": { "also": [] },
    });
    for name in ["one", "two", "three"] {
        std::fs::remove_file(format!("{folder}/evals/{name}.json")).unwrap();
    }
    shell.file("shop/evals/scripted.json", &scripted.to_string());
    let file = format!("{folder}/calibration.json");
    let ran = shell.run(&["eval", &folder, "--calibration", &file]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("no run counts, so nothing is written; "), "{}", ran.err);
    assert!(!std::path::Path::new(&file).exists());
    let none = shell.run(&["eval", &folder, "--calibration", &format!("{folder}/no/such/file.json")]);
    none.fails_with(&["--calibration ", "name a file in a folder that can be written"]);
}
