//! What is wrong with a case is said in one line that points at its place.

use loop_eval::case::Case;
use loop_eval::eval::{Suite, run_case};
use serde_json::{Value, json};

/// A case that runs, to be spoiled.
fn sound() -> Value {
    json!({
        "case_id": "sound",
        "goal": "When does the shop open?",
        "spec": { "preset": "step", "tools": { "read_hours": { "description": "Read the hours." } } },
        "replies": [{ "calls": [{ "name": "read_hours" }] }, { "text": "At nine." }],
        "mocked_tools": { "read_hours": [{ "data": { "opens": "9:00" } }] },
        "expected": { "stop_reason": "completed" },
    })
}

/// What is said of a case with `value` in the place of `pointer`'s last part; null takes it out.
async fn stated(changes: &[(&str, Value)]) -> String {
    let mut case = sound();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let members = case.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => members.remove(key),
            value => members.insert(key.to_owned(), value.clone()),
        };
    }
    match Case::parse(&case.to_string(), "evals/case.json") {
        Err(error) => error.to_string(),
        Ok(case) => {
            let result = run_case(&case).await;
            assert!(!result.passed && result.failures.len() == 1, "{result:?}");
            result.error.unwrap()
        }
    }
}

#[tokio::test]
async fn a_sound_case_runs() {
    let case = Case::parse(&sound().to_string(), "evals/case.json").unwrap();
    let result = run_case(&case).await;
    assert!(result.passed && result.replayed, "{result:?}");
}

#[tokio::test]
async fn each_slip_has_one_line_with_its_place() {
    // S4-56: the form, and whatever it does not allow.
    type Bad<'a> = (&'a [(&'a str, Value)], &'a [&'a str]);
    let cases: [Bad<'_>; 32] = [
        (
            &[("/expected/stop_reason", json!("done"))],
            &["/expected/stop_reason: there is no reason `done`; there are confident"],
        ),
        (
            &[("/expected/stop_reason", json!(["completed", "x"]))],
            &["/expected/stop_reason/1: there is no reason `x`"],
        ),
        (&[("/expected/class", json!("fine"))], &["/expected/class: there is no class `fine`"]),
        (
            &[("/expected/actions", json!([{ "tool": "read_hours", "verdict": "ran" }]))],
            &["/expected/actions/0/verdict: there is no verdict `ran`"],
        ),
        (
            &[("/expected/evidence", json!([{ "tool": "read_hours", "status": "good" }]))],
            &["/expected/evidence/0/status: there is no status `good`"],
        ),
        (
            &[("/expected/evidence", json!([{ "tool": "read_hour" }]))],
            &["/expected/evidence/0/tool: there is no tool `read_hour`; did you mean `read_hours`?"],
        ),
        (
            &[("/expected/required_tools", json!(["fly"]))],
            &["/expected/required_tools/0: there is no tool `fly`; there are read_hours"],
        ),
        (
            &[("/expected/output", json!([{ "pointer": "a" }]))],
            &["/expected/output/0/pointer: `a` is not a JSON pointer"],
        ),
        (
            &[("/expected/actions", json!([{ "tool": "read_huors", "verdict": "run", "count": 0 }]))],
            &["/expected/actions/0/tool: there is no tool `read_huors`; did you mean `read_hours`?"],
        ),
        (
            &[("/expected/forbids_trace_events", json!(["validation:exectue"]))],
            &["/expected/forbids_trace_events/0: no line of a trace is ever `validation:exectue`"],
        ),
        (
            &[("/expected/requires_trace_events", json!(["stop", "stop:done"]))],
            &["/expected/requires_trace_events/1: no line"],
        ),
        (
            &[("/expected/document", json!({ "nosuch": { "present": false } }))],
            &["/expected/document/nosuch: there is no section `nosuch`"],
        ),
        (
            &[("/expected/forbidden_tools", json!(["raed_hours"]))],
            &["/expected/forbidden_tools/0: there is no tool `raed_hours`"],
        ),
        (
            &[("/stop", json!({ "during_pass": 0, "how": "at_gate" }))],
            &["/stop/during_pass: passes count from 1"],
        ),
        (&[("/restart_after_pass", json!(0))], &["/restart_after_pass: passes count from 1"]),
        (
            &[("/mocked_tools", json!({ "read_hours": [{}], "read.hours": [{}] }))],
            &["/mocked_tools/read.hours: `read_hours` is the same tool"],
        ),
        (
            &[("/mocked_tools", json!({ "read_hour": [{}] }))],
            &["/mocked_tools/read_hour: there is no tool `read_hour`; did you mean"],
        ),
        (
            &[("/mocked_tools", json!({ "read_hours": [] }))],
            &["/mocked_tools/read_hours: its results are missing"],
        ),
        (
            &[("/mocked_tools", json!({ "read_hours": [{ "repeats": true }, {}] }))],
            &["/mocked_tools/read_hours/0/repeats: it serves every further call"],
        ),
        (
            &[("/mocked_tools", json!({ "read_hours": [{ "retry_after_ms": 5 }] }))],
            &["/mocked_tools/read_hours/0/retry_after_ms: only what is `pending`"],
        ),
        (
            &[("/mocked_tools", json!({ "read_hours": [{ "status": "fine" }] }))],
            &["evals/case.json:1:", "unknown variant `fine`"],
        ),
        (&[("/model", json!("domain"))], &["/model: `replies` is there as well; a case has one model"]),
        (&[("/script", json!("x.json"))], &["/script: `replies` is there as well"]),
        (&[("/model", json!("gpt")), ("/replies", Value::Null)], &["/model: `gpt` is not a model"]),
        (&[("/domain", json!(".."))], &["/spec: `domain` is there as well; keep one of them"]),
        (&[("/domain", json!("none")), ("/spec", Value::Null)], &["/domain:", "there is no such file"]),
        (&[("/goal", Value::Null)], &["/goal: there is neither a goal nor a work item"]),
        (&[("/spec/preset", json!("stp"))], &["/spec:", "there is no preset `stp`", "step"]),
        (&[("/set", json!({ "limits.pases": 3 }))], &["/set/limits.pases:", "passes"]),
        (&[("/people", json!([{ "say": "answer" }]))], &["/people/0/text: the answer is empty"]),
        (&[("/version", json!(2))], &["/version: there is no version 2; this one reads 1"]),
        (&[("/expect", json!({}))], &["evals/case.json:1:", "unknown field `expect`"]),
    ];
    for (changes, parts) in cases {
        let stated = stated(changes).await;
        assert_eq!(stated.lines().count(), 1, "{stated}");
        assert!(stated.starts_with("evals/case.json:"), "{stated}");
        for part in parts {
            assert!(stated.contains(part), "`{part}` is missing in: {stated}");
        }
    }
}

#[tokio::test]
async fn a_tool_that_is_called_more_often_than_it_was_mocked_fails_the_case() {
    let mut case = sound();
    case["replies"] = json!([
        { "calls": [{ "name": "read_hours" }] }, { "calls": [{ "name": "read_hours" }] }, { "text": "At nine." },
    ]);
    case["spec"]["gate"] = json!({ "on_tool_error": "continue" });
    let result = run_case(&Case::parse(&case.to_string(), "case.json").unwrap()).await;
    assert_eq!(
        result.failures,
        ["`read_hours` was called with {}, and the case has no outcome left for it (1 given)"]
    );
}

#[tokio::test]
async fn a_stop_or_a_loss_that_never_came_fails_the_case() {
    for (key, value, says) in [
        ("stop", json!({ "during_pass": 9, "how": "at_gate" }), "it was never stopped: pass 9 was not begun"),
        ("restart_after_pass", json!(9), "its driver was never lost: it did not go on after pass 9"),
    ] {
        let mut case = sound();
        case[key] = value;
        let result = run_case(&Case::parse(&case.to_string(), "case.json").unwrap()).await;
        assert_eq!(result.failures, [says]);
    }
}

#[tokio::test]
async fn a_question_that_no_line_answers_fails_the_case() {
    let mut case = sound();
    case["spec"]["tools"]["write_hours"] = json!({ "effect": "write_idempotent" });
    case["spec"]["gate"] = json!({ "people": true });
    case["replies"] = json!([{ "calls": [{ "name": "write_hours" }] }, { "text": "No." }]);
    let result = run_case(&Case::parse(&case.to_string(), "case.json").unwrap()).await;
    assert_eq!(
        result.failures,
        ["a person was asked about `write_hours` (1/action-0), and no line of `people` answers"]
    );
    assert_eq!(result.tool_calls, 0);
}

#[test]
fn two_cases_of_one_folder_have_two_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.case.json", "b.case.json"] {
        std::fs::write(folder.path().join(name), sound().to_string()).unwrap();
    }
    let error = Suite::read([folder.path()]).unwrap_err().to_string();
    assert!(
        error.contains("b.case.json: /case_id:") && error.contains("a.case.json has the same"),
        "{error}"
    );
    let one = Suite::read([folder.path().join("a.case.json"), folder.path().join("a.case.json")]).unwrap();
    assert_eq!(one.cases.len(), 1);
    assert_eq!(one.filter("nothing").cases.len(), 0);
}

#[test]
fn of_several_files_that_are_wrong_each_has_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.case.json", "{");
    write("b.case.json", &sound().to_string());
    write("c.case.json", &sound().to_string());
    write("d.case.json", "{\"case_id\": 1}");
    let error = Suite::read([folder.path()]).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    let files = ["a.case.json:1:", "c.case.json: /case_id:", "d.case.json:1:"];
    assert_eq!(lines.len(), files.len(), "{error}");
    for (line, file) in lines.iter().zip(files) {
        assert!(line.contains(file), "{line}");
    }
}
