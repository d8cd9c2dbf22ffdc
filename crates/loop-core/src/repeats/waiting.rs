//! Results that report work in progress. Polling again is not a repeat, up to a limit.

use serde_json::{Map, Value};

use crate::types::{Observation, Status};

/// An object with more members than this is a record with a state, not a progress report.
const MEMBERS: usize = 6;

/// With more members than this, a flag such as `done: false` describes a record, not the call.
const MEMBERS_OF_FLAG: usize = 2;

/// A result longer than this, in bytes, is not a progress report.
const LONGEST: usize = 600;

/// Most bytes of a text that is only a state.
const LONGEST_STATE: usize = 60;

/// Whether an observation reports work in progress.
pub(crate) fn waits(observation: &Observation) -> bool {
    if observation.status != Status::Ok {
        return observation.status == Status::Pending;
    }
    match observation.data.as_text() {
        Some(text) => says_so(text),
        None => is_not_ready(&observation.data),
    }
}

/// Whether a tool's data, JSON or a text, reports work in progress.
pub(super) fn is_not_ready(data: &str) -> bool {
    if data.len() > LONGEST {
        return false;
    }
    match serde_json::from_str::<Value>(data) {
        Ok(Value::Object(members)) => has_state(&members),
        Ok(Value::String(text)) => says_so(&text),
        Ok(_) => false,
        Err(_) => says_so(data),
    }
}

fn has_state(members: &Map<String, Value>) -> bool {
    let is_flat = |value: &Value| !value.is_array() && !value.is_object();
    let says = |name: &str| members.get(name).and_then(Value::as_str).is_some_and(is_under_way);
    members.len() <= MEMBERS
        && members.values().all(is_flat)
        && (["status", "state", "phase"].into_iter().any(says)
            || members.len() <= MEMBERS_OF_FLAG
                && ["ready", "done", "finished", "complete", "completed"]
                    .into_iter()
                    .any(|name| members.get(name) == Some(&Value::Bool(false))))
}

/// Whether the whole text is a state such as `status: running`.
fn says_so(text: &str) -> bool {
    let text = text.trim();
    if text.len() > LONGEST_STATE {
        return false;
    }
    let (name, state) = text.split_once(':').unwrap_or(("", text));
    let is_named = ["", "status", "state"].contains(&name.trim().to_lowercase().as_str());
    is_named && is_under_way(state)
}

fn is_under_way(state: &str) -> bool {
    let state = state.trim().trim_end_matches(['.', '…', '!']).to_lowercase().replace(['-', ' '], "_");
    UNDER_WAY.contains(&state.strip_prefix("still_").unwrap_or(&state))
}

const UNDER_WAY: &[&str] = &[
    "pending",
    "queued",
    "running",
    "processing",
    "in_progress",
    "not_ready",
    "not_ready_yet",
    "starting",
    "building",
    "deploying",
    "provisioning",
    "initializing",
    "waiting",
    "please_wait",
];
