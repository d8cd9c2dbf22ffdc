//! Exports a recorded run as one JSON line with its calls and their results.

use std::collections::BTreeMap;

use loop_core::types::{Status, StopClass};
use loop_core::{Evidence, Run};
use loop_runtime::tools::markdown_of;
use serde::Serialize;
use serde_json::Value;

/// A line of a file of runs: the calls that settled, each with the text that the model read.
#[derive(Debug, Serialize)]
struct RecordedLine<'a> {
    id: &'a str,
    success: Option<bool>,
    effects: BTreeMap<&'a str, &'static str>,
    steps: Vec<RecordedStep<'a>>,
}

#[derive(Debug, Serialize)]
struct RecordedStep<'a> {
    turn: u64,
    tool: &'a str,
    arguments: Value,
    result: String,
    is_error: bool,
    status: Status,
}

/// A run as one line of JSON with its calls and their results, without a line break. `success` is true for an answered
/// run, false for a failed one, and null otherwise. A turn begins with the work item, and with each instruction of a
/// person.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn trajectory_line(run: &Run) -> serde_json::Result<String> {
    let success = run.outcome().and_then(|outcome| match outcome.stop.class {
        StopClass::Answered => Some(true),
        StopClass::Failed => Some(false),
        _ => None,
    });
    let effects = run.spec().tools.iter().map(|tool| (&*tool.name, tool.effect.name())).collect();
    let steps = run.evidence().iter().map(|evidence| {
        let Evidence { pass, tool, parameters, observation, .. } = evidence;
        let said = run.instructions().iter().filter(|instruction| instruction.from_pass <= *pass);
        let arguments = serde_json::from_str(&parameters.to_string());
        let status = observation.status;
        RecordedStep {
            turn: 1 + said.count() as u64,
            tool,
            arguments: arguments.unwrap_or_else(|_| Value::Object(serde_json::Map::new())),
            result: markdown_of(observation).into_owned(),
            is_error: observation.failure.is_some(),
            status,
        }
    });
    let steps = steps.collect();
    serde_json::to_string(&RecordedLine { id: run.id().as_str(), success, effects, steps })
}
