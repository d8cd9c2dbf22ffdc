//! The report: every member that programs rely on, a cost that adds up, and a schema that is kept.

use crate::common;

use common::world::{Log, Stage, answer, look, notes, refuses, runner, says, selections};
use loop_core::Note;
use loop_core::types::{FailureKind, PicoUsd, Usage};
use loop_runtime::{
    Outcome, Runner,
    report::{EvidenceDetail, Report},
    save::{DetailedTarget, SaveTarget, Saver as _},
};
use serde_json::Value;
use std::sync::Arc;

async fn reported(runner: &Runner) -> (Outcome, Value) {
    let handle = runner.run(common::item()).start().await.unwrap();
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    let report = serde_json::to_value(Report::new(&started, &outcome)).unwrap();
    (outcome, report)
}

/// A run with everything in it: selects, a failing tool, a retry, an action that cannot run, a save.
fn whole(log: &Log, folder: &std::path::Path) -> Runner {
    let unknown = serde_json::json!({"action_type": "lock", "parameters": {}, "reason": "to look", "priority": "required"});
    let stage = Stage::new(log).on("select", [says(selections(&["ok-1", "fail"]))]).on(
        "main",
        [
            refuses(FailureKind::Overloaded),
            says(answer("medium", &[look("ok-2"), look("ok-1"), unknown])),
            says(answer("high", &[])),
        ],
    );
    runner(common::spec(), log, stage).with_saver(Arc::new(SaveTarget::File(folder.join("{item}.json"))))
}

#[tokio::test]
async fn the_report_has_what_programs_rely_on() {
    // S0-57, C14
    let folder = tempfile::tempdir().unwrap();
    let (outcome, report) = reported(&whole(&Log::new(), folder.path())).await;
    assert_eq!(report["version"], 1);
    assert_eq!(report["run"], outcome.run.as_str());
    assert_eq!(report["item"], serde_json::json!({"id": "T-1", "kind": "ticket", "title": "Backup failed"}));
    let stop = &report["stop"];
    assert_eq!(
        (&stop["reason"], &stop["class"], &stop["also"]),
        (&"confident".into(), &"answered".into(), &Value::Array(vec![]))
    );
    assert_eq!(
        stop["explanation"],
        "High confidence, nothing left to run, and everything demanded is there."
    );
    assert_eq!((&report["confidence"], &report["confidence_reason"]), (&"high".into(), &"because".into()));

    let section = &report["document"]["sections"][1];
    assert_eq!((&section["type"], &section["heading"]), (&"findings".into(), &"📋 Findings".into()));
    assert_eq!((section["body"].as_str().unwrap().trim(), &section["pass"]), ("It says so [E0].", &1.into()));
    assert_eq!(section["evidence"], serde_json::json!(["E0"]));

    let evidence: Vec<_> = report["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            format!(
                "{} {} {} {} {}",
                e["id"], e["tool"], e["parameters"]["target"], e["status"], e["summary"]
            )
        })
        .collect();
    assert_eq!(
        evidence,
        [
            r#""E1" "look" "ok-1" "ok" "saw ok-1""#,
            r#""E2" "look" "fail" "permanent_error" "no such thing""#,
            r#""E3" "look" "ok-2" "ok" "saw ok-2""#,
        ]
    );
    let actions: Vec<_> = report["actions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| format!("{} {} {} {} {}", a["key"], a["tool"], a["verdict"], a["reason"], a["evidence"]))
        .collect();
    assert_eq!(
        actions,
        [
            r#""0/action-0" "look" "run" "to know" "E1""#,
            r#""0/action-1" "look" "run" "to know" "E2""#,
            r#""1/action-0" "look" "run" "to know" "E3""#,
            r#""1/action-1" "look" "duplicate" "to know" null"#,
            r#""1/action-2" "lock" "unknown_tool" "to look" null"#,
        ]
    );
    assert!(
        report["actions"][3]["verdict_reason"].as_str().unwrap().contains("E1"),
        "{}",
        report["actions"][3]
    );
    assert!(
        report["actions"][4]["verdict_reason"].as_str().unwrap().contains("look"),
        "{}",
        report["actions"][4]
    );
    assert!(report["actions"][0]["parameters"].is_object());
    let totals = &report["totals"];
    assert_eq!(
        (&totals["passes"], &totals["model_calls"], &totals["tool_calls"]),
        (&2.into(), &4.into(), &3.into())
    );
    assert!(totals["tokens"].is_u64() && totals["cost_usd"].is_f64() && totals["wall_ms"].is_u64());
    assert_eq!(report["saved"]["location"], folder.path().join("T-1.json").display().to_string());
}

#[tokio::test]
async fn the_bill_adds_up() {
    // I-21, S0-119
    let folder = tempfile::tempdir().unwrap();
    let runner = whole(&Log::new(), folder.path());
    let (outcome, report) = reported(&runner).await;
    let charged: Vec<(Usage, PicoUsd)> = notes(&runner, &outcome.run)
        .await
        .into_iter()
        .filter_map(|note| match note {
            Note::CallCharged { usage, cost, .. } => Some((usage, cost.unwrap())),
            _ => None,
        })
        .collect();
    assert_eq!(charged.len() as u32, outcome.totals.model_calls, "each call is charged once");
    let usage = charged.iter().fold(Usage::default(), |sum, (usage, _)| sum.plus(usage));
    let cost: u64 = charged.iter().map(|(_, cost)| cost.0).sum();
    assert_eq!(usage, outcome.totals.usage);
    assert_eq!(report["totals"]["tokens"], usage.total());
    assert_eq!(report["totals"]["input_tokens"], usage.total_input());
    assert_eq!(report["totals"]["output_tokens"], usage.total_output());
    assert_eq!(report["totals"]["cost_pico_usd"], cost);
    assert_eq!(cost, 3 * (1_000 * 100_000 + 100 * 400_000), "three replies; what was never sent is free");
    assert!((report["totals"]["cost_usd"].as_f64().unwrap() - 0.000_42).abs() < 1e-12);
}

#[tokio::test]
async fn an_unknown_price_is_no_price_of_nothing() {
    // L22, I-21
    let log = Log::new();
    let spec = common::world::spec(|spec| {
        spec.models.base.price = None;
        spec.limits.cost = None;
        spec.selection.enabled = false;
    });
    let (_, report) =
        reported(&runner(spec, &log, Stage::new(&log).on("main", [says(answer("high", &[]))]))).await;
    assert_eq!((&report["totals"]["cost_usd"], &report["saved"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_limit_of_money_without_a_price_starts_no_run() {
    // P7: below the agent's builder too, a limit that was set binds or is refused.
    let log = Log::new();
    let spec = common::world::spec(|spec| {
        spec.models.base.price = None;
        spec.limits.cost = Some(loop_core::types::PicoUsd(50_000_000_000));
    });
    let runner = runner(spec, &log, Stage::new(&log));
    let error = runner.run(common::item()).start().await.unwrap_err();
    assert!(error.to_string().contains("the limit of $0.050000 for a run cannot be kept"), "{error}");
    assert!(runner.journal().runs().await.unwrap().is_empty(), "nothing was begun");
}

#[test]
fn the_committed_schema_is_that_of_the_report() {
    // S0-57: run with UPDATE_SCHEMA=1 to write it anew.
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/outcome.schema.json");
    let schema = schemars::schema_for!(Report);
    let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == text, "docs/schema/outcome.schema.json is old: run this test with UPDATE_SCHEMA=1");
    for member in ["run", "item", "stop", "confidence", "document", "evidence", "actions", "totals", "saved"]
    {
        assert!(schema.get("properties").unwrap().get(member).is_some(), "{member}");
    }
}

#[tokio::test]
async fn a_report_holds_as_much_of_its_evidence_as_is_wanted() {
    // S0-57
    let folder = tempfile::tempdir().unwrap();
    let runner = whole(&Log::new(), folder.path());
    let handle = runner.run(common::item()).start().await.unwrap();
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    let of = |detail| {
        let report = Report::new(&started, &outcome).with_evidence(&outcome, detail);
        serde_json::to_value(report).unwrap()["evidence"].as_array().unwrap().clone()
    };
    let (full, summary) = (of(EvidenceDetail::Full), of(EvidenceDetail::Summary));
    assert_eq!((full.len(), summary.len()), (outcome.evidence.len(), outcome.evidence.len()));
    assert!(of(EvidenceDetail::Omitted).is_empty());
    for (nth, evidence) in outcome.evidence.iter().enumerate() {
        let Value::Object(mut whole) = full[nth].clone() else { panic!("{}", full[nth]) };
        let data = whole.remove("data").unwrap();
        let expected = serde_json::from_str(&evidence.observation.data)
            .unwrap_or_else(|_| Value::from(&*evidence.observation.data));
        assert_eq!(data, expected);
        let markdown = whole.remove("markdown").unwrap();
        match &evidence.observation.failure {
            None => assert_eq!(markdown, *evidence.observation.markdown),
            Some(failure) => assert!(markdown.as_str().unwrap().contains(&*failure.message), "{markdown}"),
        }
        assert_eq!(Value::Object(whole), summary[nth], "the rest is the summary");
    }
    // What is saved has all of it, unless the target says otherwise.
    let saved = std::fs::read_to_string(folder.path().join("T-1.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&saved).unwrap()["evidence"], Value::Array(full));
    let target = SaveTarget::File(folder.path().join("short.json"));
    let target = DetailedTarget { target, evidence: EvidenceDetail::Omitted, spec: None };
    target.save(&started, &outcome).await.unwrap();
    let saved = std::fs::read_to_string(folder.path().join("short.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&saved).unwrap()["evidence"], Value::Array(vec![]));
    // With the spec it holds where the values of the document are found, as `--json` does.
    let target = target.with_spec(Arc::clone(runner.spec()));
    target.save(&started, &outcome).await.unwrap();
    let saved = std::fs::read_to_string(folder.path().join("short.json")).unwrap();
    let saved = serde_json::from_str::<Value>(&saved).unwrap();
    let expected = Report::new(&started, &outcome).with_spec(runner.spec(), &started, &outcome);
    let expected = serde_json::to_value(&expected).unwrap();
    assert!(saved["claims"].is_array());
    assert_eq!((&saved["claims"], &saved["claim_totals"]), (&expected["claims"], &expected["claim_totals"]));
}
