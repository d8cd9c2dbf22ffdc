//! The words of a person's text that give a value: which characters around a word are part of it (K3).

use loop_core::policy::{PolicyAsk, Ruling, RunSources, Taint, ruling};
use loop_core::{ArgSpec, Effect, WorkItem};
use serde_json::{Value, json};

/// Whether a work item with this text lets a call reach the value.
fn gives(text: &str, value: &Value) -> bool {
    let mut spec = loop_testkit::run().spec;
    let mut send = loop_testkit::tool("send", Effect::Egress);
    send.args = ArgSpec::from_schema(&json!({"type": "object", "properties": {"to": {}}}));
    send.policy.authority = vec!["/to".into()];
    spec.tools = vec![send];
    spec.gate.approved = vec!["send".into()];
    let item = WorkItem::new("T-1", "ticket", "A ticket", text);
    let sources =
        RunSources { spec: &spec, item: &item, evidence: &[], instructions: &[], requested_before: &[] };
    let (tool, parameters) = (spec.tool("send").unwrap(), json!({ "to": value }));
    let ask =
        PolicyAsk { spec: &spec, tool, parameters: &parameters, taint: Taint::default(), sources: &sources };
    ruling(&ask) == Ruling::Runs
}

#[track_caller]
fn check(text: &str, value: &Value, expected: bool) {
    assert_eq!(gives(text, value), expected, "{value} in {text:?}");
}

#[test]
fn digits_in_groups_are_one_number() {
    // `12 500` is twelve thousand five hundred, so it gives neither 12 nor 500.
    for (text, value, expected) in [
        ("It was 12 500 in all", json!(12), false),
        ("It was 12 500 in all", json!(500), false),
        ("It was 1 250 000 in all", json!(250), false),
        // A group has three digits and begins with one of them.
        ("It was 12 50 in all", json!(12), true),
        ("It was 12 50 in all", json!(50), true),
        ("It was 12 (500) in all", json!(12), true),
        ("It was 12 (500) in all", json!(500), true),
        ("It was 12, 500 in all", json!(12), true),
        ("It was 12, 500 in all", json!(500), true),
        // A group follows at most three digits.
        ("It was 1234 500 in all", json!(1234), true),
        ("It was 1234 500 in all", json!(500), true),
        ("It was 123 500 in all", json!(123), false),
        ("It was 123 500 in all", json!(500), false),
        // A word without digits is not a part of a number.
        ("It was about 500 in all", json!(500), true),
    ] {
        check(text, &value, expected);
    }
}

#[test]
fn a_separator_marks_a_word_where_it_is_between_letters() {
    for (value, expected) in [
        ("ab.cd", true),
        ("ab_cd", true),
        ("ab@cd", true),
        ("/ab", false),
        (".ab", false),
        ("ab-", false),
        // Two capitals are a name, one begins a sentence.
        ("ABcd", true),
        ("Abcd", false),
        ("abcd2", true),
    ] {
        check(&format!("see {value} for more"), &json!(value), expected);
        // Alone in a field each is what was meant.
        check(&format!("about: {value}"), &json!(value), true);
    }
}

#[test]
fn quotes_right_around_a_word_mark_it_and_brackets_do_not() {
    for (text, expected) in [
        ("see \"abc\" for more", true),
        ("see 'abc' for more", true),
        ("see «abc», for more", true),
        ("see (\"abc\") for more", true),
        ("see (abc) for more", false),
        ("see *abc* for more", false),
        ("see \"(abc)\" for more", false),
        // One quote may belong to words before or after it.
        ("see \"abc for more\"", false),
        ("see \"more abc\"", false),
    ] {
        check(text, &json!("abc"), expected);
    }
}

#[test]
fn a_number_sign_marks_letters_digits_and_hyphens() {
    for (text, value, expected) in [
        ("see #abc for more", json!("abc"), true),
        ("see #ab-c for more", json!("ab-c"), true),
        ("see #1001 for more", json!("1001"), true),
        ("see #a/b for more", json!("a/b"), false),
        ("see #a_b for more", json!("a_b"), false),
        ("see ##abc for more", json!("abc"), false),
        // Without it a common word is not a value.
        ("see abc for more", json!("abc"), false),
        ("see ab-c for more", json!("ab-c"), true),
    ] {
        check(text, &value, expected);
    }
}
