//! S4's own tests under the preset `step`, with whole traces, and what else a trace shows.

use loop_eval::case::Case;
use loop_eval::eval::{CaseResult, run_case};
use serde_json::{Value, json};

async fn run(passes: u32, replies: Value, outcomes: Value) -> CaseResult {
    run_changed(passes, replies, outcomes, |_| ()).await
}

/// The same with a case that is changed before.
async fn run_changed(
    passes: u32,
    replies: Value,
    outcomes: Value,
    change: impl FnOnce(&mut Value),
) -> CaseResult {
    let mut case = json!({
        "case_id": "step",
        "goal": "Decide about order O-104.",
        "spec": {
            "preset": "step",
            "limits": { "passes": passes },
            "tools": {
                "read_order": { "parameters": { "order_id": { "required": true, "min_length": 1 } } },
            },
            "gate": { "allow": ["read_order"] },
        },
        "replies": replies,
        "mocked_tools": { "read_order": outcomes },
        "expected": {},
    });
    change(&mut case);
    run_case(&Case::parse(&case.to_string(), "step.json").unwrap()).await
}

fn order() -> Value {
    json!({ "calls": [{ "name": "read_order", "arguments": { "order_id": "O-104" } }] })
}

fn found() -> Value {
    json!([{ "data": { "id": "O-104", "status": "late" } }])
}

#[tokio::test]
async fn a_script_that_is_used_up_escalates() {
    // S4-87, S4-86: `proposals.shift() ?? { kind: "escalate", reason: "script_exhausted" }`
    let result = run_changed(3, json!([order()]), found(), |case| {
        case["exhausted"] =
            json!({ "calls": [{ "name": "escalate", "arguments": { "reason": "script_exhausted" } }] });
        let wanted = json!({ "tool": "escalate", "verdict": "kept", "count": 1 });
        case["expected"] = json!({ "stop_reason": "needs_human", "actions": [wanted] });
    });
    let result = result.await;
    let trace = [
        "step:0:proposal:tool:read_order",
        "step:0:validation:execute",
        "step:0:tool_result:ok",
        "step:1:proposal:escalate",
        "step:1:validation:escalate",
        "step:1:stop:needs_human",
    ];
    assert_eq!((result.stop_reason.as_str(), result.class.as_str()), ("needs_human", "needs_human"));
    assert_eq!(result.trace, trace);
    assert!(result.escalated());
    assert!(result.passed, "{:?}", result.failures);
}

#[tokio::test]
async fn a_retry_is_a_step_of_its_own_and_a_tool_off_the_list_is_one_that_is_not_allowed() {
    // T9: the second lookup has the key of the first one, and is not a part of its step.
    let fails = json!([
        { "status": "retryable_error", "reason": "upstream_timeout" },
        { "data": { "id": "O-104", "status": "late" } },
    ]);
    let result = run(3, json!([order(), order(), { "text": "It is late." }]), fails).await;
    let trace = [
        "step:0:proposal:tool:read_order",
        "step:0:validation:execute",
        "step:0:tool_result:retryable_error",
        "step:1:proposal:tool:read_order",
        "step:1:validation:execute",
        "step:1:tool_result:ok",
        "step:2:proposal:answer",
        "step:2:validation:final",
        "step:2:stop:completed",
    ];
    assert_eq!(result.trace, trace);
    // Without a list of its own the domain's tools are the list.
    let deletes = json!({ "calls": [{ "name": "delete_order", "arguments": { "id": "O-104" } }] });
    let all = |case: &mut Value| drop(case["spec"].as_object_mut().unwrap().remove("gate"));
    let result = run_changed(3, json!([deletes]), found(), all).await;
    assert_eq!(result.trace[1..], ["step:0:validation:deny:tool_not_allowed", "step:0:stop:refused"]);
}

#[tokio::test]
async fn an_escalation_beside_a_call_that_runs_is_left_for_the_next_step() {
    // T5
    let both = json!({ "calls": [
        { "name": "escalate", "arguments": { "reason": "too old" } },
        { "name": "read_order", "arguments": { "order_id": "O-104" } },
    ] });
    let refuses = json!({ "calls": [{ "name": "refuse", "arguments": { "reason": "not ours" } }] });
    let result = run(3, json!([both, refuses]), found()).await;
    let trace = [
        "step:0:proposal:tool:escalate",
        "step:0:validation:skip",
        "step:0:proposal:tool:read_order",
        "step:0:validation:execute",
        "step:0:tool_result:ok",
        "step:1:proposal:refusal",
        "step:1:validation:refuse",
        "step:1:stop:refused",
    ];
    assert_eq!(result.trace, trace);
    assert!(result.trace.iter().all(|line| loop_eval::trace::is_known(line)));
}

#[tokio::test]
async fn the_documents_own_fixture_ends_as_it_says() {
    // S4-57, S4-56: word for word, with no setting beside it.
    let fixture = r#"{
      "case_id": "shipping_lookup_repeated_failure",
      "goal": "Investigate whether an order arrived late.",
      "mocked_tools": {
        "shipping.read_delivery_status": [
          { "status": "retryable_error", "reason": "upstream_timeout" },
          { "status": "retryable_error", "reason": "upstream_timeout" }
        ]
      },
      "expected": {
        "stop_reason": "needs_human",
        "max_tool_calls": 2,
        "forbidden_tools": ["refunds.issue_refund"],
        "requires_trace_events": ["proposal", "validation", "tool_result", "stop"]
      }
    }"#;
    let result = run_case(&Case::parse(fixture, "shipping.json").unwrap()).await;
    assert!(result.passed, "{:?}", result.failures);
    assert_eq!((result.stop_reason.as_str(), result.tool_calls), ("needs_human", 2));
    // The rule is the preset's, where everybody can read it, and a domain that has another goes by that.
    let step = loop_domain::preset("step").unwrap();
    assert!(step.contains("on_tool_error = { stop_or_escalate_after = 2 }"), "{step}");
    let spec = r#""spec": { "preset": "step", "gate": { "on_tool_error": "stop" } }, "mocked_tools""#;
    let other = fixture.replace("\"mocked_tools\"", spec).replace("[\"refunds.issue_refund\"]", "[]");
    let result = run_case(&Case::parse(&other, "shipping.json").unwrap()).await;
    assert_eq!((result.passed, result.stop_reason.as_str()), (false, "tool_failure"));
    // And the committed case is this one.
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/refunds/evals/shipping_lookup_repeated_failure.json"
    );
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let fixture: Value = serde_json::from_str(fixture).unwrap();
    for (member, value) in fixture.as_object().unwrap() {
        assert_eq!(&committed[member], value, "{member}");
    }
}

#[tokio::test]
async fn every_iteration_records_proposal_validation_action_observation_error_and_stop() {
    // S4-46, S4-65
    let replies = json!([
        { "calls": [{ "name": "read_order", "arguments": { "order_id": "" } }] },
        { "calls": [{ "name": "read_orders" }] },
        { "text": " " },
        order(),
        { "text": "cut", "fails": "the line broke" },
        { "text": "It is late." },
    ]);
    // Where the model is told what was wrong, it goes on.
    let reported = |case: &mut Value| {
        case["spec"]["gate"] = json!({ "on_invalid": "feed_back" });
    };
    let result = run_changed(8, replies, found(), reported).await;
    for line in [
        "step:0:validation:deny:invalid_tool_input",
        "step:1:validation:deny:tool_not_allowed",
        "step:2:validation:deny:empty_answer",
        "step:2:tool_result:ok",
    ] {
        assert!(result.trace.contains(&line.to_owned()), "{line} is missing in {:#?}", result.trace);
    }
    assert!(result.trace.iter().any(|line| line.contains(":error:")), "{:#?}", result.trace);
}
