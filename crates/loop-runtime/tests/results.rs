//! Reading more of an earlier result: from what the run keeps, without asking the tool again.

use crate::common;

use common::world::{Log, Stage, answer, says, unselected};
use loop_core::types::{Effect, Status};
use loop_runtime::{
    Runner, StopReason,
    models::Models,
    tools::{Registry, ToolContext, ToolDeclaration, ToolResult},
};
use loop_tools::Credentials;
use loop_tools::results::ResultsTool;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[tokio::test(start_paused = true)]
async fn a_cut_result_is_read_further_without_asking_the_tool_again() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let declaration = ToolDeclaration::new("fetch_log").effect(Effect::Read);
    let registry = Registry::builder()
        .tool_fn(declaration, move |_: Value, _: ToolContext, _: Credentials| {
            counted.fetch_add(1, Ordering::Relaxed);
            let lines: String = (1..=900).map(|n| format!("line {n} of the log\n")).collect();
            async move { ToolResult::value("fetch_log", Value::String(lines)) }
        })
        .tool(ResultsTool::new(ToolDeclaration::new("read_result")))
        .build()
        .unwrap();
    let action = |tool: &str, parameters: Value| json!({"action_type": tool, "parameters": parameters, "priority": "required"});
    let log = Log::new();
    let stage = Stage::new(&log).on(
        "main",
        [
            says(answer("medium", &[action("fetch_log", json!({}))])),
            says(answer(
                "medium",
                &[
                    action("read_result", json!({"evidence": "E1", "page": 2})),
                    action("read_result", json!({"evidence": "E1", "search": "line 900 "})),
                    action("read_result", json!({"evidence": "E2"})),
                ],
            )),
            says(answer("high", &[])),
        ],
    );
    let stage = Arc::new(stage);
    let outcome =
        Runner::new(unselected(), registry, Models::one(stage.clone())).run(common::item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let results: Vec<(Status, &str)> = outcome
        .evidence
        .iter()
        .map(|evidence| (evidence.observation.status, &*evidence.observation.markdown))
        .collect();
    assert_eq!(results.len(), 4);
    assert!(results[0].1.contains("[cut: 4000 of "), "{}", results[0].1);
    assert!(results[1].1.starts_with("## E1 (fetch_log), 900 lines, page 2 of "), "{}", results[1].1);
    assert_eq!(results[2].1, "## E1 (fetch_log), 1 of 900 lines, page 1 of 1\n\n900: line 900 of the log\n");
    // A call of the same batch has no result yet.
    assert_eq!(results[3].0, Status::InvalidInput);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let prompt = stage.requests("main").pop().unwrap().messages;
    assert!(format!("{prompt:?}").contains("line 900 of the log"), "the model reads what was found");
}
