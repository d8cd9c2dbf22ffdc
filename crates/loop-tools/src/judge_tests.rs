//! What each result is worth, and what a model gets to read of it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use serde_json::json;

fn tool() -> ToolDeclaration {
    ToolDeclaration::new("fetch_x").title("X").effect(Effect::Read)
}

fn seen(result: ToolResult) -> Observation {
    judge(&tool(), result, 4_000)
}

#[track_caller]
fn check(result: ToolResult, status: Status, summary: &str, markdown: &str) {
    let seen = seen(result);
    assert_eq!((seen.status, &*seen.summary, &*shown(&seen)), (status, summary, markdown));
}

/// What an observation says: its Markdown, or its failure as `title: message`.
fn shown(seen: &Observation) -> String {
    match &seen.failure {
        Some(failure) => {
            assert_eq!(&*seen.markdown, "", "one of both");
            format!("{}: {}", failure.title, failure.message)
        }
        None => seen.markdown.to_string(),
    }
}

#[test]
fn every_result_has_its_status() {
    // S0-67, S0-68, S0-71, S0-d4, S0-129, T4, T7, T8
    let ok = || ToolResult::ok("fetch_x", "Found 1 items", "## X", json!([1]));
    let failed = |kind| ToolResult { kind, ..ToolResult::failed("fetch_x", "X", "oh") };
    check(ok(), Status::Ok, "Found 1 items", "## X");
    check(ToolResult { summary: " ".into(), ..ok() }, Status::Ok, "X", "## X");
    for nothing in [json!(null), json!([]), json!("")] {
        let result = ToolResult { data: nothing, ..ok() };
        check(result, Status::Empty, "No data found", "X: No data found");
    }
    for something in [json!(0), json!(false), json!({}), json!([null])] {
        check(ToolResult { data: something, ..ok() }, Status::Ok, "Found 1 items", "## X");
    }
    let blank = "the result is a success without any Markdown";
    for markdown in ["", " \n\t", "\u{200b}\u{1b}[0m"] {
        let result = ToolResult { markdown: markdown.into(), ..ok() };
        check(result, Status::MalformedResult, blank, &format!("X: {blank}"));
    }
    for nameless in [ToolResult::text("15 users"), ToolResult { tool_name: String::new(), ..ok() }] {
        let [judged, named] = ["", "fetch_x"].map(|tool_name| {
            judge(&tool(), ToolResult { tool_name: tool_name.into(), ..nameless.clone() }, 1_000)
        });
        assert_eq!((judged.status, &judged), (Status::Ok, &named));
    }
    for third_party in [ok(), failed(None)] {
        let result = ToolResult { tool_name: "fetch_y".into(), ..third_party };
        let message = "the result says that it is of `fetch_y`";
        check(result, Status::MalformedResult, message, &format!("X: {message}"));
    }
    let kinds = [
        (Some(Failure::Empty), Status::Empty),
        (Some(Failure::Retryable), Status::RetryableError),
        (Some(Failure::Permanent), Status::PermanentError),
        (Some(Failure::InvalidInput), Status::InvalidInput),
        (Some(Failure::Pending), Status::Pending),
        (Some(Failure::InDoubt), Status::RetryableError),
        (None, Status::PermanentError),
    ];
    for (kind, status) in kinds {
        check(failed(kind), status, "oh", "X: oh");
    }
}

#[test]
fn doubt_is_for_effects_that_may_not_run_twice() {
    // K1
    let outcomes = [
        (Effect::Read, Status::RetryableError),
        (Effect::WriteIdempotent, Status::RetryableError),
        (Effect::WriteKeyed, Status::RetryableError),
        (Effect::WriteIrreversible, Status::InDoubt),
        (Effect::Egress, Status::InDoubt),
        (Effect::Exec, Status::InDoubt),
    ];
    for (effect, status) in outcomes {
        let declaration = ToolDeclaration::new("pay").effect(effect);
        let result = ToolResult::in_doubt("pay", "Pay", "the answer was lost");
        let observation = judge(&declaration, result, 4_000);
        assert_eq!(
            (observation.status, &*observation.summary),
            (status, "the answer was lost"),
            "{effect:?}"
        );
    }
}

#[test]
fn only_what_is_not_ready_says_when_to_ask_again() {
    let pending = ToolResult::pending("fetch_x", "X", 250);
    assert_eq!((seen(pending.clone()).status, seen(pending).retry_after_ms), (Status::Pending, Some(250)));
    let claimed = ToolResult { retry_after_ms: Some(250), ..ToolResult::failed("fetch_x", "X", "oh") };
    assert_eq!(seen(claimed).retry_after_ms, None);
}

#[test]
fn a_failure_that_shows_nothing_gets_its_text() {
    // S0-89, S0-d4
    let bare = ToolResult {
        markdown: String::new(),
        error: None,
        kind: None,
        ..ToolResult::failed("fetch_x", "X", "TypeError: x")
    };
    check(bare.clone(), Status::PermanentError, "TypeError: x", "X: TypeError: x");
    check(
        ToolResult { summary: String::new(), ..bare },
        Status::PermanentError,
        "Unknown error",
        "X: Unknown error",
    );
}

#[test]
fn a_failure_is_read_from_its_title_and_a_text_of_ones_own_is_kept() {
    // S0-67
    let of_ones_own = |markdown: &str| ToolResult {
        title: None,
        markdown: markdown.into(),
        ..ToolResult::failed("fetch_x", "X", "one\ntwo")
    };
    check(of_ones_own("> **Y:** one"), Status::PermanentError, "one two", "> **Y:** one");
    check(of_ones_own("# Gone"), Status::PermanentError, "one two", "# Gone");
    check(of_ones_own(" "), Status::PermanentError, "one two", "X: one\ntwo");
    let titled = ToolResult::failed("fetch_x", "Another title", "oh");
    check(titled, Status::PermanentError, "oh", "Another title: oh");
}

#[test]
fn a_write_that_brings_nothing_has_been_done() {
    // S0-68 is about looking for something.
    let write = tool().effect(Effect::WriteKeyed);
    let judged = judge(&write, ToolResult::ok("fetch_x", "Sent", "Sent.", Value::Null), 4_000);
    assert_eq!(judged.status, Status::Ok);
}

#[test]
fn the_markdown_is_cut_and_the_data_is_kept_whole() {
    // S0-123, S0-d13, T5, S0-34
    let rows = json!(["é".repeat(50)]);
    let cut = judge(&tool(), ToolResult::ok("fetch_x", "s", "é".repeat(50), rows.clone()), 4);
    assert_eq!(&*cut.markdown, "éééé… [cut: 4 of 50 characters]");
    assert_eq!(cut.warnings, [Arc::from("the markdown was cut to 4 of 50 characters")]);
    assert_eq!(serde_json::from_str::<Value>(&cut.data).unwrap(), rows);
    let whole = judge(&tool(), ToolResult::ok("fetch_x", "s", "é".repeat(4), 1), 4);
    assert_eq!((&*whole.markdown, whole.warnings.len()), ("éééé", 0));
    let hidden = judge(&tool(), ToolResult::ok("fetch_x", "s", "\u{200b}abc\u{200b}", 1), 2);
    assert_eq!(&*hidden.markdown, "ab… [cut: 2 of 3 characters]", "it is cleaned before it is cut");
    let failure = Reading { title: "X", cap: 8 }.failed(Status::PermanentError, &"e".repeat(99));
    assert_eq!(shown(&failure), "X: eeeeeeee… [cut: 8 of 99 characters]");
    assert_eq!(failure.warnings, [Arc::from("the message was cut to 8 of 99 characters")]);
}

#[test]
fn text_from_a_tool_cannot_steer_the_reader() {
    // I-24, T6
    let result = ToolResult::ok(
        "fetch_x",
        "red\u{1b}[31m\nline",
        "a\u{202e}b\u{200b}\n\tc\u{1b}[2J",
        json!(["\u{202e}"]),
    );
    let seen = seen(result);
    assert_eq!((&*seen.summary, &*seen.markdown), ("red line", "ab\n\tc"));
    assert_eq!(
        seen.warnings,
        [Arc::from("6 control or invisible characters were dropped from the markdown")]
    );
    assert_eq!(&*seen.data, "[\"\u{202e}\"]", "the data is for programs and stays as it was");
}

#[test]
fn an_unknown_tool_is_reported_with_similar_names() {
    // S0-88, S0-d1, S0-d4
    let similar = [Arc::from("fetch_a"), Arc::from("fetch_b")];
    let seen = unknown_tool("fetch_\u{202e}\n", &similar, 4_000);
    let text = "no tool is called `fetch_`; similar names: `fetch_a`, `fetch_b`";
    assert_eq!((seen.status, &*seen.data), (Status::PermanentError, "null"));
    assert_eq!(*seen.summary, format!("Unknown tool: {text}"));
    assert_eq!(shown(&seen), format!("Unknown tool: {text}"));
    let seen = unknown_tool("", &[], 4_000);
    assert_eq!(shown(&seen), "Unknown tool: the name is empty");
}

#[test]
fn equal_data_has_an_equal_digest_whatever_the_text() {
    let [one, other] = ["a", "b"].map(|text| seen(ToolResult::ok("fetch_x", text, text, json!({ "n": 1 }))));
    assert_eq!(one.digest, other.digest);
    let changed = seen(ToolResult::ok("fetch_x", "a", "a", json!({ "n": 2 })));
    assert_ne!(one.digest, changed.digest);
}

#[test]
fn a_success_with_an_error_warns() {
    let result =
        ToolResult { error: Some("one page was missing".into()), ..ToolResult::ok("fetch_x", "s", "m", 1) };
    let seen = seen(result);
    assert_eq!(seen.status, Status::Ok);
    assert_eq!(&*seen.warnings[0], "succeeded with an error: one page was missing");
}
