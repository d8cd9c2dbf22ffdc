//! Which results report work in progress (C4): asking for them again is not a repeat, within the tool's number of polls.

use crate::repeating::Guarded;

use loop_core::spec::{Repeats, ThreeTier, ToolRepeats};
use loop_core::types::Status;
use serde_json::json;

/// Whether a read that returns this three times may be made a fourth time.
fn waits(result: &str) -> bool {
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    let rules = ToolRepeats::default();
    (0..4).all(|_| world.call("read", &json!({"job": 7}), &rules, Status::Ok, result).is_ok())
}

#[track_caller]
fn check(result: &str, expected: bool) {
    assert_eq!(waits(result), expected, "{result}");
}

#[test]
fn a_text_that_is_a_state_alone_reports_work_in_progress() {
    for (text, expected) in [
        ("running", true),
        (" Running… ", true),
        ("still running", true),
        ("in-progress", true),
        ("status: not ready yet.", true),
        ("state: queued", true),
        ("job: queued", false),
        ("it is running", false),
        ("ready", false),
        ("", false),
    ] {
        check(text, expected);
        check(&json!(text).to_string(), expected);
    }
    // A state has at most 60 bytes.
    let of = |length: usize| format!("{:.<length$}", "running");
    check(&of(60), true);
    check(&of(61), false);
}

#[test]
fn a_small_object_with_a_state_reports_work_in_progress_and_a_record_does_not() {
    for (object, expected) in [
        (json!({"status": "running"}), true),
        (json!({"state": "Pending", "id": 7}), true),
        (json!({"phase": "deploying"}), true),
        (json!({"status": "done"}), false),
        (json!({"kind": "running"}), false),
        (json!(["running"]), false),
        (json!(7), false),
        // A member that holds others is a record, which has a state of its own.
        (json!({"status": "running", "order": {"id": 7}}), false),
        (json!({"status": "running", "orders": []}), false),
        // At most six members.
        (json!({"status": "running", "a": 1, "b": 2, "c": 3, "d": 4, "e": 5}), true),
        (json!({"status": "running", "a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}), false),
        // A flag says it of the call where there is at most one other member.
        (json!({"done": false}), true),
        (json!({"ready": false, "id": 7}), true),
        (json!({"ready": false, "id": 7, "name": "x"}), false),
        (json!({"done": true}), false),
        (json!({"seen": false}), false),
    ] {
        check(&object.to_string(), expected);
    }
    // A report of progress has at most 600 bytes.
    let of = |length: usize| {
        let empty = json!({"status": "running", "log": ""}).to_string().len();
        json!({"status": "running", "log": "x".repeat(length - empty)}).to_string()
    };
    assert_eq!(of(600).len(), 600);
    check(&of(600), true);
    check(&of(601), false);
}
