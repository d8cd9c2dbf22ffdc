//! What a recorded result says of how a call ended, where the recording does not.

use loop_core::Status;
use serde_json::Value;

use super::effects::{shell_command, words};

/// What a result says that is not ready (its `status` or `state`).
const WAITS: &[&str] = &["pending", "queued", "running", "processing", "in_progress", "not_ready"];

/// What a failure says that may pass.
const MAY_PASS: &[&str] = &[
    "timed out",
    "timeout",
    "time-out",
    "too many requests",
    "overloaded",
    "unavailable",
    "rate limit",
    "try again later",
    "connection refused",
    "connection reset",
    "connection lost",
];

/// Codes of such failures, as words of their own.
const CODES: &[&str] = &["429", "502", "503", "504"];

/// How a call ended, by what it is and what it returned. A failure that does not say that it may pass is
/// [`Status::PermanentError`].
pub(super) fn status(tool: &str, arguments: &Value, result: &str, is_error: bool) -> Status {
    match is_error {
        true if may_pass(result) => Status::RetryableError,
        true => Status::PermanentError,
        false if waits(result) || is_wait(tool, arguments) => Status::Pending,
        false => Status::Ok,
    }
}

fn waits(result: &str) -> bool {
    // A whole record with such a state is an answer: only what says little else waits.
    if result.len() > 600 || !result.starts_with('{') {
        return false;
    }
    let Ok(Value::Object(members)) = serde_json::from_str::<Value>(result) else { return false };
    members.len() <= 6
        && members.values().all(|value| !value.is_array() && !value.is_object())
        && ["status", "state"]
            .iter()
            .any(|key| members.get(*key).and_then(Value::as_str).is_some_and(|word| WAITS.contains(&word)))
}

/// Whether a call is made to let time pass.
fn is_wait(tool: &str, arguments: &Value) -> bool {
    let is_one = |word: &str| matches!(word, "wait" | "sleep");
    let in_shell = shell_command(tool, arguments)
        .is_some_and(|command| command.split(|c: char| !c.is_alphanumeric()).any(|word| word == "sleep"));
    in_shell || words(tool).iter().any(|word| is_one(word))
}

fn may_pass(result: &str) -> bool {
    // A failure that may pass is told in a line or two; a long text that has the word somewhere is about another thing.
    let text: String = result.chars().take(400).collect::<String>().to_lowercase();
    let words = || text.split(|c: char| !c.is_alphanumeric());
    MAY_PASS.iter().any(|says| text.contains(says)) || words().any(|word| CODES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_result_says_whether_it_is_ready_and_a_failure_whether_it_may_pass() {
        for (result, is_error, stated) in [
            (r#"{"status":"pending"}"#, false, Status::Pending),
            (r#"{"id":3,"state":"in_progress","eta":4}"#, false, Status::Pending),
            (r#"{"job":{"status":"pending"}}"#, false, Status::Ok),
            (r#"{"order":"O1","status":"pending","items":["a"]}"#, false, Status::Ok),
            (r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"status":"pending"}"#, false, Status::Ok),
            (r#"{"status":"done","note":"was pending"}"#, false, Status::Ok),
            ("pending", false, Status::Ok),
            ("503 Service Unavailable", true, Status::RetryableError),
            ("Error: request timed out", true, Status::RetryableError),
            ("HTTP 429", true, Status::RetryableError),
            ("curl: (7) Connection refused", true, Status::RetryableError),
            ("order #50312 not found", true, Status::PermanentError),
            ("503 rows", false, Status::Ok),
        ] {
            assert_eq!(status("get", &json!({}), result, is_error), stated, "{result}");
        }
    }

    #[test]
    fn a_call_may_be_there_to_wait() {
        for (tool, arguments, waits) in [
            ("wait", json!({ "seconds": 5 }), true),
            ("browser_wait_for", json!({}), true),
            ("bash", json!({ "command": "sleep 30 && tail -n 1 build.log" }), true),
            ("bash", json!({ "command": "cat asleep.txt" }), false),
            ("waiter_of_table", json!({ "n": 3 }), false),
        ] {
            let stated = status(tool, &arguments, "ok", false);
            assert_eq!(stated == Status::Pending, waits, "{tool} {arguments}");
            assert_eq!(status(tool, &arguments, "Error: no", true), Status::PermanentError);
        }
    }
}
