//! S4's own tests under the preset `step`, with whole traces, and what else a trace shows.

use loop_eval::case::Case;
use loop_eval::eval::{CaseResult, run_case};
use serde_json::{Value, json};

async fn run(passes: u32, replies: Value, outcomes: Value) -> CaseResult {
    let case = json!({
        "case_id": "step",
        "goal": "Decide about order O-104.",
        "spec": {
            "preset": "step",
            "limits": { "passes": passes },
            "tools": {
                "read_order": { "parameters": { "order_id": { "required": true, "min_length": 1 } } },
                "delete_order": { "effect": "write_irreversible" },
                "escalate": { "kind": "question", "parameters": { "reason": { "required": true } } },
            },
            "gate": { "forbid": ["delete_order"] },
        },
        "replies": replies,
        "mocked_tools": { "read_order": outcomes },
        "expected": {},
    });
    run_case(&Case::parse(&case.to_string(), "step.json").unwrap()).await
}

fn order() -> Value {
    json!({ "calls": [{ "name": "read_order", "arguments": { "order_id": "O-104" } }] })
}

fn found() -> Value {
    json!([{ "data": { "id": "O-104", "status": "late" } }])
}

#[tokio::test]
async fn a_tool_and_then_an_answer_is_completed() {
    // S4-82, S4-87
    let result = run(3, json!([order(), { "text": "It is late." }]), found()).await;
    let trace = [
        "step:0:proposal:tool:read_order",
        "step:0:validation:execute",
        "step:0:tool_result:ok",
        "step:1:proposal:answer",
        "step:1:validation:final",
        "step:1:stop:completed",
    ];
    assert_eq!(
        (result.stop_reason.as_str(), result.tool_calls, &*result.trace),
        ("completed", 1, &trace.map(String::from)[..])
    );
}

#[tokio::test]
async fn a_forbidden_tool_is_refused_and_nothing_is_observed() {
    // S4-83
    let deletes = json!({ "calls": [{ "name": "delete_order", "arguments": { "id": "O-104" } }] });
    let result = run(3, json!([deletes, { "text": "Done." }]), found()).await;
    let trace = [
        "step:0:proposal:tool:delete_order",
        "step:0:validation:deny:tool_not_allowed",
        "step:0:stop:refused",
    ];
    assert_eq!(
        (result.stop_reason.as_str(), result.tool_calls, &*result.trace),
        ("refused", 0, &trace.map(String::from)[..])
    );
    assert_eq!((result.actions.proposed, result.actions.invalid), (1, 1));
}

#[tokio::test]
async fn a_tool_whose_status_is_an_error_is_a_tool_failure() {
    // S4-84
    let result =
        run(3, json!([order(), { "text": "Done." }]), json!([{ "status": "error", "reason": "no" }])).await;
    let end = ["step:0:tool_result:permanent_error", "step:0:stop:tool_failure"];
    assert_eq!(result.trace[2..], end);
}

#[tokio::test]
async fn the_second_proposal_does_not_run_when_one_step_is_permitted() {
    // S4-85
    let result = run(1, json!([order(), { "text": "It is late." }]), found()).await;
    assert_eq!((result.stop_reason.as_str(), result.model_calls, result.tool_calls), ("max_passes", 1, 1));
    assert_eq!(result.trace.last().map(String::as_str), Some("step:0:stop:max_passes"));
}

#[tokio::test]
async fn a_script_that_is_used_up_escalates() {
    // S4-86
    let escalates =
        json!({ "calls": [{ "name": "escalate", "arguments": { "reason": "script_exhausted" } }] });
    let result = run(3, json!([order(), escalates]), found()).await;
    assert_eq!(result.stop_reason, "needs_human");
    assert!(
        result.trace.contains(&"step:1:validation:escalate:needs_person".to_owned()),
        "{:?}",
        result.trace
    );
    assert!(result.escalated());
}

#[tokio::test]
async fn every_iteration_records_proposal_validation_action_observation_error_and_stop() {
    // S4-46, S4-65, S4-78, S4-80
    let blank = json!([{ "calls": [{ "name": "read_order", "arguments": { "order_id": "" } }] }, { "text": "Done." }]);
    let result = run(8, blank, found()).await;
    for line in [
        "step:0:proposal:tool:read_order",
        "step:0:validation:deny:invalid_tool_input",
        "step:0:stop:refused",
    ] {
        assert!(result.trace.contains(&line.to_owned()), "{line} is missing in {:#?}", result.trace);
    }
    let broken = json!([order(), { "text": "cut", "fails": "the line broke" }, { "text": "It is late." }]);
    let result = run(8, broken, found()).await;
    assert!(result.trace.contains(&"step:0:tool_result:ok".to_owned()), "{:#?}", result.trace);
    assert!(result.trace.iter().any(|line| line.contains(":error:")), "{:#?}", result.trace);
}
