//! The committed cases, run as `loopgate eval examples/` runs them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use loop_eval::eval::{Metrics, Suite};
use loop_eval::{report, trace};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_committed_case_ends_as_expected() {
    // S4-47 to S4-57 by examples/refunds; S4-59: the metrics of all.
    let suite = Suite::read([examples()]).unwrap();
    assert!(suite.cases.len() >= 40, "{} cases", suite.cases.len());
    let mut ended = BTreeSet::new();
    let results = suite.run(8, |result| assert!(ended.insert(result.file.clone()))).await;
    let metrics = Metrics::of(&results);
    let failed = results.iter().any(|result| !result.passed);
    let table = report::table(&results, &metrics);
    assert!(!failed, "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert_eq!(ended.len(), results.len());
    // What a case may name is what a trace can show.
    let unknown = results
        .iter()
        .flat_map(|result| &result.trace)
        .find(|line| !trace::is_known_with(line, &["already_refunded"]));
    assert_eq!(unknown, None);
    let whole = |share: loop_eval::eval::Share| share.part == share.of && share.of > 0;
    assert!(whole(metrics.completion) && whole(metrics.correct_stop_reason), "{metrics:?}");
    assert!(whole(metrics.escalation_accuracy) && whole(metrics.replay), "{metrics:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_of_the_evaluation_strategy_has_a_case_of_refunds() {
    // S4-48, S4-49, S4-50, S4-51, S4-52, S4-53, S4-54, S4-55, S4-57: each named by a case, of which each is
    // expected to end in its own way.
    let suite = Suite::read([examples().join("refunds")]).unwrap();
    for row in (48..=57).map(|n| format!("S4-{n}")).chain((82..=86).map(|n| format!("S4-{n}"))) {
        let covers = suite.cases.iter().any(|case| case.covers.contains(&row));
        assert!(covers, "no case of examples/refunds covers {row}");
    }
    let unnamed =
        suite.cases.iter().find(|case| case.shows.is_empty() || case.expected.stop_reason.is_empty());
    assert_eq!(unnamed.map(|case| &case.case_id), None);
}

#[test]
fn the_running_case_decides_about_the_order_of_the_document() {
    // S4-32: the goal, word for word, and at least one case that decides it with a model that looks and one that answers.
    let order = std::fs::read_to_string(examples().join("refunds/orders/O-104.json")).unwrap();
    let order: serde_json::Value = serde_json::from_str(&order).unwrap();
    assert_eq!(order["goal"], "Decide whether refund evidence is sufficient for order O-104.");
    let suite = Suite::read([examples().join("refunds")]).unwrap();
    let of_row = |case: &&loop_eval::case::Case| case.covers.iter().any(|row| row == "S4-32");
    let cases: Vec<_> = suite.cases.iter().filter(of_row).collect();
    assert!(!cases.is_empty());
    for case in cases {
        assert_eq!(case.item, Some("../orders/O-104.json".into()), "{}", case.case_id);
        let tools = &case.expected.required_tools;
        let drafts = |name: &&str| *name == "draft_refund_recommendation";
        let evidence = case.expected.evidence.iter().map(|it| it.tool.as_str());
        assert!(
            tools.iter().map(String::as_str).chain(evidence).any(|name| drafts(&name)),
            "{}",
            case.case_id
        );
    }
}
