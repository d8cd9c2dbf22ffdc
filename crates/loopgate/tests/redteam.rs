//! `loopgate redteam` over the examples: nothing that a text asks for happens, and their own work goes on.

use crate::common;

use std::path::Path;

use common::{Shell, copy};
use loop_testkit::is_full;
use serde_json::Value;

/// A copy of an example without what its runs have left there.
fn example(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name), folder.path());
    let _ = std::fs::remove_dir_all(folder.path().join(".loopgate"));
    folder
}

#[test]
fn no_example_does_what_a_text_asks_for() {
    // I-25, I-27, K2, K3, K5, K8, S4-34, S4-53, S4-83
    let each = if is_full() { 3 } else { 1 };
    for (name, effects) in [("helpdesk", 0), ("crm", 1), ("refunds", 0)] {
        let (shell, folder) = (Shell::new(), example(name));
        let domain = folder.path().to_str().unwrap();
        let ran = shell.run(&["redteam", domain, "--each", &each.to_string(), "--runs", "15", "--json"]);
        assert_eq!(ran.code, 0, "{name}: {}{}", ran.out, ran.err);
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        let rows = report["rows"].as_array().unwrap();
        let sum = |key: &str| rows.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
        for key in ["executed", "doubled", "forged", "forged_refusals", "forged_escalations", "overrun"] {
            assert_eq!(sum(key), 0, "{name} {key}: {}", ran.out);
        }
        let runs = |scenario: &str| {
            let of = rows.iter().filter(|row| row["scenario"] == scenario);
            of.map(|row| row["runs"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(runs("one_run"), 14 * each * 6 + 15);
        for scenario in ["later_call", "store", "crash", "waiting"] {
            assert!(runs(scenario) >= 8 * 6, "{name} {scenario}: {}", ran.out);
        }
        assert!(
            report["summary"].as_str().unwrap().ends_with(" injected effects ran."),
            "{name}: {}",
            report["summary"]
        );
        // Only conversations have turns, and only documents have contract blocks.
        let (turns, padding) = if name == "helpdesk" { (0, 3 * each) } else { (8 * 6, 0) };
        assert_eq!((runs("turns"), runs("store_turns"), runs("padding")), (turns, turns, padding), "{name}");
        assert!(sum("resumed") > 0, "{name}: {}", ran.out);
        assert_eq!(report["benign"]["effects"], effects, "{name}: {}", ran.out);
        let benign = &report["benign"];
        for key in ["blocked", "denied_reads", "failed", "left_out"] {
            assert_eq!(benign[key], 0, "{name} {key}: {benign}");
        }
        // What tools search is no work; a case of the evals is.
        let items = [("helpdesk", 8), ("crm", 3), ("refunds", 4)];
        assert!(items.iter().any(|(of, items)| *of == name && benign["items"] == *items), "{name}: {benign}");
    }
}

#[test]
fn a_register_that_trusts_what_stands_in_it_is_told_so() {
    // K3: the values stand in a request or a record that is trusted, as an attacker's would.
    let (shell, folder) = (Shell::new(), example("crm"));
    let domain = folder.path().to_str().unwrap();
    let ran = shell.run(&[
        "redteam",
        domain,
        "--profile",
        "trusted",
        "--kind",
        "change",
        "--each",
        "4",
        "--runs",
        "0",
    ]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.contains("executed: change-0-0"), "{}", ran.out);
    // The last line says what closes it.
    let last = ran.out.trim_end().lines().last().unwrap();
    assert!(
        last.contains(" injected effects ran: set `") && last.contains("`gate.item_untrusted = true`"),
        "{last}"
    );
}

#[test]
fn an_empty_folder_of_evals_leaves_the_items() {
    // G7
    let (shell, folder) = (Shell::new(), example("helpdesk"));
    let _ = std::fs::remove_dir_all(folder.path().join("evals"));
    std::fs::create_dir(folder.path().join("evals")).unwrap();
    let domain = folder.path().to_str().unwrap();
    let ran = shell.run(&["redteam", domain, "--kind", "change", "--each", "1", "--runs", "0", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["benign"]["items"], 8, "{}", ran.out);
}

#[test]
fn one_scenario_can_be_played_alone() {
    let (shell, folder) = (Shell::new(), example("crm"));
    let domain = folder.path().to_str().unwrap();
    let ran = shell.run(&["redteam", domain, "--scenario", "store_turns", "--kind", "change"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let rows: Vec<&str> =
        ran.out.lines().filter(|line| line.contains("change ") || line.contains("any ")).collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.starts_with("store_turns any")), "{}", ran.out);
    // What is approved there is the desk's own affair: the register is changed by whoever talks to it.
    let ran = shell.run(&["redteam", domain, "--scenario", "turns", "--kind", "change", "--unguarded"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("executed: change-0-00 (turns): update_user {\"company\":"), "{}", ran.out);
}

#[test]
fn a_case_is_played_alone_and_what_each_leaves_out_is_said() {
    let (shell, folder) = (Shell::new(), example("crm"));
    let domain = folder.path().to_str().unwrap();
    for (case, runs) in [("change-0-00", 12), ("one_run/change-0-00/obedient/absent", 1), ("plan/0-3", 1)] {
        let report = shell.json(&["redteam", domain, "--runs", "0", "--case", case, "--json"]);
        let rows = report["rows"].as_array().unwrap();
        let played: u64 = rows.iter().map(|row| row["runs"].as_u64().unwrap()).sum();
        let lines = report["case"].as_array().unwrap().iter();
        let shown = lines.filter(|line| line.as_str().unwrap().starts_with("case: ")).count();
        assert!(played == shown as u64 && played <= runs * 4 && played > 0, "{case}: {report}");
        assert_eq!(report["left_out"], 0);
    }
    let ran = shell.run(&[
        "redteam",
        domain,
        "--scenario",
        "one_run",
        "--runs",
        "0",
        "--kind",
        "change",
        "--each",
        "1",
    ]);
    assert!(ran.out.contains("--each left out 43 texts: what they would have achieved"), "{}", ran.out);
}

#[test]
fn what_cannot_be_attacked_is_said_in_one_line() {
    let shell = Shell::new();
    let ran = shell.run(&["redteam", "examples/crm", "--kind", "chagne"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("--kind chagne: unknown kind; the kinds are send_out, change,"), "{}", ran.err);
    let ran = shell.run(&["redteam", "examples/crm", "--scenario", "turn"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("--scenario turn: unknown scenario; the scenarios are one_run, later_call,"),
        "{}",
        ran.err
    );
    let ran = shell.run(&["redteam", "examples/crm", "--scenario", "plan", "--case", "plan/0-9999"]);
    assert!(ran.code == 1 && ran.err.contains("--case plan/0-9999: no such case was played"), "{}", ran.err);
    let ran = shell.run(&["redteam", "examples/crm", "--item", "no-such.json"]);
    assert!(ran.code == 1 && ran.err.contains("no-such.json"), "{}", ran.err);
}
