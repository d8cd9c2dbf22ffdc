//! The helpdesk's tickets, from the file to the outcome.

use crate::common;

use common::{Shell, ticket, timeless};
use serde_json::Value;

fn run(shell: &Shell, id: u32) -> Value {
    shell.json(&["run", "examples/helpdesk", &ticket(id), "--json", "--no-save"])
}

#[track_caller]
fn check(id: u32, reason: &str, class: &str, passes: u64) -> Value {
    let shell = Shell::new();
    let outcome = run(&shell, id);
    let found = (
        outcome["stop"]["reason"].as_str(),
        outcome["stop"]["class"].as_str(),
        outcome["totals"]["passes"].as_u64(),
    );
    assert_eq!(found, (Some(reason), Some(class), Some(passes)), "{outcome:#}");
    outcome
}

#[test]
fn every_ticket_is_the_same_on_a_second_run_and_its_parts_fit_together() {
    // S0-1, S0-12, S0-113, S0-119: citations exist, totals add up, nothing depends on chance.
    for id in 1041..=1048 {
        let shell = Shell::new();
        let outcome = run(&shell, id);
        assert_eq!(timeless(outcome.clone()), timeless(run(&shell, id)), "T-{id}");
        let evidence: Vec<&str> = outcome["evidence"]
            .as_array()
            .unwrap()
            .iter()
            .map(|evidence| evidence["id"].as_str().unwrap())
            .collect();
        let sections = outcome["document"]["sections"].as_array().unwrap();
        assert!(sections.iter().any(|section| section["type"] == "next_steps"), "T-{id}");
        for section in sections {
            for cited in section["evidence"].as_array().unwrap() {
                let cited = cited.as_str().unwrap();
                assert!(cited == "E0" || evidence.contains(&cited), "T-{id}: {cited} of {evidence:?}");
            }
            assert!(!section["body"].as_str().unwrap().contains("analysis_confidence"), "T-{id}");
        }
        let totals = &outcome["totals"];
        let ran =
            outcome["actions"].as_array().unwrap().iter().filter(|action| action["verdict"] == "run").count();
        assert_eq!(totals["tool_calls"].as_u64(), Some(ran as u64), "T-{id}");
        assert_eq!(
            totals["tokens"].as_u64().unwrap(),
            totals["input_tokens"].as_u64().unwrap() + totals["output_tokens"].as_u64().unwrap()
        );
        let calls = 1 + totals["passes"].as_u64().unwrap() + totals["sub_calls"].as_u64().unwrap();
        assert_eq!(totals["model_calls"].as_u64(), Some(calls), "T-{id}: selector, passes, sub-calls");
        assert_eq!(totals["cost_usd"].as_f64(), Some(0.0));
    }
}

#[test]
fn a_ticket_that_asks_for_nothing_needs_no_tool() {
    // S0-41
    let outcome = check(1041, "confident", "answered", 1);
    assert_eq!(outcome["totals"]["tool_calls"], 0);
}

#[test]
fn a_result_that_names_something_leads_to_another_look() {
    // S0-2, S0-10, S0-11, S0-28: the device's record names the backup job.
    let outcome = check(1042, "confident", "answered", 2);
    let evidence = outcome["evidence"].as_array().unwrap();
    let backup = evidence.iter().find(|evidence| evidence["tool"] == "fetch_backup_status").unwrap();
    assert_eq!((backup["pass"].as_u64(), backup["status"].as_str()), (Some(1), Some("ok")));
    // Only what changed was written again.
    let pass_of = |kind: &str| {
        let sections = outcome["document"]["sections"].as_array().unwrap();
        sections.iter().find(|section| section["type"] == kind).unwrap()["pass"].as_u64()
    };
    assert_eq!((pass_of("situation"), pass_of("findings")), (Some(1), Some(2)));
}

#[test]
fn a_chain_of_three_names_takes_three_passes() {
    // S0-12
    check(1043, "confident", "answered", 3);
}

#[test]
fn a_device_that_does_not_exist_is_reported_and_cited_as_absent() {
    // S0-42, S0-68
    let outcome = check(1044, "no_new_actions", "partial", 1);
    let evidence = outcome["evidence"].as_array().unwrap();
    let absent = evidence
        .iter()
        .find(|evidence| evidence["status"] == "empty" && evidence["tool"] == "fetch_device_info");
    assert!(absent.unwrap()["parameters"]["target"] == "HAR-LT-999");
}

#[test]
fn a_vague_ticket_ends_for_lack_of_evidence() {
    let outcome = check(1045, "no_new_actions", "partial", 1);
    assert_eq!(outcome["confidence"], "low");
}

#[test]
fn instructions_in_a_ticket_are_not_followed() {
    // K5: the forged contract in the ticket neither ends the loop nor reaches the document as one.
    let outcome = check(1046, "confident", "answered", 2);
    assert!(outcome["totals"]["tool_calls"].as_u64().unwrap() >= 3);
    assert_ne!(outcome["confidence_reason"].as_str().unwrap(), "");
}

#[test]
fn a_locked_account_brings_the_fitting_procedures() {
    // S0-39, S0-60, S0-72, S0-73: the smart tool chooses a few of many.
    let outcome = check(1047, "confident", "answered", 2);
    assert!(outcome["totals"]["sub_calls"].as_u64().unwrap() >= 1);
}

#[test]
fn a_site_problem_brings_its_history() {
    check(1048, "confident", "answered", 2);
}
