//! Results without what changes by itself.

use std::sync::Arc;

use loop_core::repeats::stable_digest;
use loop_core::spec::ToolRepeats;
use proptest::prelude::*;
use serde_json::{Value, json};

fn volatile(pointers: &[&str]) -> ToolRepeats {
    ToolRepeats { volatile: pointers.iter().map(|it| Arc::from(*it)).collect(), ..ToolRepeats::default() }
}

#[track_caller]
fn check(rules: &ToolRepeats, a: Value, b: Value, is_same: bool, ignored: &[&str]) {
    let (a, b) = (stable_digest(&a.to_string(), rules), stable_digest(&b.to_string(), rules));
    assert_eq!(a.0 == b.0, is_same);
    let found: Vec<&str> = a.1.iter().map(AsRef::as_ref).collect();
    assert_eq!(found, ignored);
}

#[test]
fn what_says_when_and_under_which_number_it_was_answered_is_left_out() {
    let default = ToolRepeats::default();
    for name in
        ["timestamp", "generated_at", "request_id", "requestId", "trace_id", "elapsed_ms", "X-Request-Id"]
    {
        let result = |at: u32| json!({name: at, "disk": 91});
        check(&default, result(1), result(2), true, &[&format!("/{name}")]);
        let inside = |at: u32| json!({"meta": {name: at, "page": 1}, "disk": 91});
        check(&default, inside(1), inside(2), true, &[&format!("/meta/{name}")]);
    }
    let headers = |date: &str| json!({"status": 200, "headers": {"Date": date, "ETag": "x"}});
    check(&default, headers("Mon"), headers("Tue"), true, &["/headers/Date"]);
}

#[test]
fn what_may_be_the_answer_itself_is_not_left_out() {
    let default = ToolRepeats::default();
    for (a, b) in [
        // Facts of a record, however they sound.
        (json!({"updated_at": 1, "id": 7}), json!({"updated_at": 2, "id": 7})),
        (json!({"created_at": 1, "id": 7}), json!({"created_at": 2, "id": 7})),
        (json!({"date": "a", "id": 7}), json!({"date": "b", "id": 7})),
        (json!({"last_seen": 1, "id": 7}), json!({"last_seen": 2, "id": 7})),
        (json!({"latency_ms": 1, "id": 7}), json!({"latency_ms": 2, "id": 7})),
        (json!({"duration_ms": 1, "id": 7}), json!({"duration_ms": 2, "id": 7})),
        // Of an entry, not of the answer.
        (json!({"events": [{"timestamp": 1}]}), json!({"events": [{"timestamp": 2}]})),
        (json!([{"timestamp": 1, "id": 7}]), json!([{"timestamp": 2, "id": 7}])),
        (json!({"event": {"timestamp": 1}}), json!({"event": {"timestamp": 2}})),
        // A member that holds more than one value.
        (json!({"timestamp": {"day": 1}, "id": 7}), json!({"timestamp": {"day": 2}, "id": 7})),
        // All there is: the tool tells the time.
        (json!({"timestamp": 1}), json!({"timestamp": 2})),
        (json!({"timestamp": 1, "server_time": 1}), json!({"timestamp": 2, "server_time": 2})),
        (json!("12:01"), json!("12:02")),
        (json!({}), json!(null)),
    ] {
        check(&default, a, b, false, &[]);
    }
}

#[test]
fn a_tool_may_say_what_is_left_out() {
    // In place of the default list.
    let result = |n: u32| json!({"jobs": [{"id": 7, "age": n}, {"id": 8, "age": n}], "request_id": 1});
    check(&volatile(&["/jobs/*/age"]), result(1), result(2), true, &["/jobs/0/age", "/jobs/1/age"]);
    check(&volatile(&["/jobs/0/age"]), result(1), result(2), false, &["/jobs/0/age"]);
    let map = |n: u32| json!({"hosts": {"a": {"uptime": n}, "b": {"uptime": n + 1}}});
    check(&volatile(&["/hosts/*/uptime"]), map(1), map(2), true, &["/hosts/a/uptime", "/hosts/b/uptime"]);
    let request = |n: u32| json!({"request_id": n, "id": 7});
    check(&volatile(&["/nothing"]), request(1), request(2), false, &[]);
    check(
        &volatile(&["/a~1b/c~0d"]),
        json!({"a/b": {"c~d": 1}}),
        json!({"a/b": {"c~d": 2}}),
        true,
        &["/a~1b/c~0d"],
    );
    // Entries keep their places.
    let list = |first: u32, second: u32| json!([first, second]);
    check(&volatile(&["/0"]), list(1, 7), list(2, 7), true, &["/0"]);
    check(&volatile(&["/0"]), list(1, 7), list(7, 2), false, &["/0"]);
    check(&volatile(&["/x/y", "/9", "/0/0"]), list(1, 2), list(1, 3), false, &[]);
}

#[test]
fn a_text_is_taken_as_it_is() {
    let default = ToolRepeats::default();
    let (a, b) = (stable_digest("ran in 1 s", &default), stable_digest("ran in 2 s", &default));
    assert_ne!(a.0, b.0);
    assert_eq!(a, stable_digest("ran in 1 s", &default));
    assert!(a.1.is_empty());
}

proptest! {
    #![proptest_config(crate::common::cases(256))]

    #[test]
    fn any_member_of_another_name_makes_a_difference(name in "[a-z_]{1,12}", a in 0..9_u32, b in 0..9_u32) {
        let known = ["timestamp", "response_time", "server_time", "traceid", "span_id", "requestid"];
        prop_assume!(!known.contains(&name.as_str()) && !name.ends_with("_at") && !name.ends_with("_id") && !name.ends_with("_ms"));
        let digest = |n: u32| stable_digest(&json!({&name: n, "id": 7}).to_string(), &ToolRepeats::default()).0;
        prop_assert_eq!(digest(a) == digest(b), a == b || name == "id");
    }

    #[test]
    fn whatever_is_said_to_change_by_itself_no_text_breaks_it(data in any::<String>(), pointer in "[/*a-c0-1~]{0,8}") {
        let rules = volatile(&[&pointer]);
        prop_assert_eq!(stable_digest(&data, &rules), stable_digest(&data, &rules));
    }
}
