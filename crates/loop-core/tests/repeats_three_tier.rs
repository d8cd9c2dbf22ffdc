//! The policy `three_tier`: a limit for each tool, the same parameters, a search text that is alike.

use crate::repeating;

use repeating::*;

use loop_core::repeats::{
    CallFacts, CallStatus, Fingerprint, Ledger, OtherCalls, RepeatRule, Rules, SettledCall,
};
use loop_core::spec::{GateSettings, Repeats, ThreeTier, ToolRepeats};
use loop_core::types::{CommandKey, Digest, EvidenceId, Slot, Status};
use serde_json::{Value, json};

#[track_caller]
fn check(script: &[(&str, &str)]) {
    check_with(Repeats::ThreeTier, ThreeTier::default(), script);
}

// ---- limits ----

#[track_caller]
fn check_limit(tool: &str, limit: u32) {
    let mut world = Guarded::new(Repeats::ThreeTier, ThreeTier::default());
    let mut call = |n: u32| {
        // Search texts without a word in common.
        let text = char::from(b'a' + n as u8).to_string().repeat(5);
        world.call(tool, &json!({"query": text}), &ToolRepeats::default(), Status::Ok, "x")
    };
    for n in 0..limit {
        assert_eq!(call(n), Ok(()), "call {n} of {tool}");
    }
    assert_eq!(call(limit), Err(RepeatRule::Limit { limit }), "{tool}");
}

#[test]
fn each_tool_has_its_limit() {
    // S3-6, S3-14, S3-15, S3-16, S3-17, S3-18
    check_limit("composio_execute", 2);
    for tool in
        ["search_knowledge", "semantic_search", "search_codebase", "smart_query_database", "query_database"]
    {
        check_limit(tool, 2);
    }
    check_limit("read_file", 3);
    check_limit("write_file", 2);
    check_limit("list_directory", 2);
    check_limit("whatever_else", 3);
}

#[test]
fn each_tool_is_counted_by_itself() {
    // S3-13
    check(&[("read_file a = 1", "run"), ("read_file b = 1", "run"), ("list_directory a = 1", "run")]);
    check(&[
        ("list_directory a = 1", "run"),
        ("list_directory b = 1", "run"),
        ("list_directory c = 1", "limit_exceeded"),
        ("read_file c = 1", "run"),
    ]);
}

#[test]
fn what_ran_counts_and_what_was_refused_does_not() {
    // S3-22, S3-d5: a failed call ran; one that was skipped, or that a person refused, did not.
    check(&[
        ("read_file a = !gone", "run"),
        ("read_file b = 1", "run"),
        ("read_file b = 1", "exact_duplicate"),
        ("read_file b = 1", "exact_duplicate"),
        ("read_file c = 1", "run"),
        ("read_file d = 1", "limit_exceeded"),
    ]);
    let mut world = Guarded::new(Repeats::ThreeTier, ThreeTier::default());
    for n in 0..4 {
        let arguments = json!({ "n": n });
        world.call("list_directory", &arguments, &ToolRepeats::default(), Status::Denied, "no").unwrap();
    }
}

#[test]
fn a_tools_own_limit_goes_before_the_table() {
    // S3-6
    let mut world = Guarded::new(Repeats::ThreeTier, ThreeTier::default());
    let rules = ToolRepeats { max_calls: Some(4), ..ToolRepeats::default() };
    let calls: Vec<_> = (0..5)
        .map(|n| world.call("read_file", &json!({ "n": n }), &rules, Status::Ok, "x").is_ok())
        .collect();
    assert_eq!(calls, [true, true, true, true, false]);
}

// ---- the same parameters ----

#[test]
fn the_same_parameters_run_once() {
    // S3-4, S3-9, S3-25
    check(&[("lookup a = 1", "run"), ("lookup a = 1", "exact_duplicate"), ("lookup b = 1", "run")]);
    check(&[("lookup a = 1", "run"), ("other a = 1", "run")]);
    // Also where the first one failed for good, and whatever was written between.
    check(&[("lookup a = !no", "run"), ("write x = ok", "run"), ("lookup a = 1", "exact_duplicate")]);
    let mut world = Guarded::new(Repeats::ThreeTier, ThreeTier::default());
    let mut call = |text: &str| {
        let arguments: Value = serde_json::from_str(text).unwrap();
        world.call("lookup", &arguments, &ToolRepeats::default(), Status::Ok, "x")
    };
    // S3-39: nested members in another order are the same.
    assert_eq!(call(r#"{"a": {"x": 1, "y": [2, {"p": 3, "q": 4}]}, "b": 5}"#), Ok(()));
    assert_eq!(call(r#"{"b":5,"a":{"y":[2,{"q":4,"p":3}],"x":1}}"#), Err(RepeatRule::Exact));
}

#[test]
fn a_failure_that_may_pass_is_tried_again_within_the_limit() {
    // C4: two tries in all here.
    check(&[("lookup a = ?busy", "run"), ("lookup a = 1", "run"), ("lookup a = 1", "exact_duplicate")]);
    check(&[("lookup a = ?busy", "run"), ("lookup a = ?busy", "run"), ("lookup a = 1", "exact_duplicate")]);
    let three_tier = ThreeTier { other: 1, ..ThreeTier::default() };
    let script = [("lookup a = ?busy", "run"), ("lookup a = 1", "limit_exceeded")];
    check_with(Repeats::ThreeTier, three_tier, &script);
}

// ---- search texts ----

/// Whether a second search is refused, and how alike it is held to be.
fn near_duplicate(three_tier: &ThreeTier, first: &Value, second: &Value) -> Option<u32> {
    let mut world = Guarded::new(Repeats::ThreeTier, three_tier.clone());
    let rules = ToolRepeats::default();
    world.call("search_knowledge", first, &rules, Status::Ok, "x").unwrap();
    match world.call("search_knowledge", second, &rules, Status::Ok, "x") {
        Ok(()) => None,
        Err(RepeatRule::Similar { millis, .. }) => Some(millis),
        Err(RepeatRule::Exact) => Some(1_000),
        Err(other) => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_texts(first: &str, second: &str, expected: Option<u32>) {
    let found = near_duplicate(&ThreeTier::default(), &json!({"query": first}), &json!({"query": second}));
    assert_eq!(found, expected, "{first:?}, then {second:?}");
}

#[test]
fn search_texts_that_are_alike_run_once() {
    // S3-5, S3-12, S3-d1
    check_texts("fix bug", "fix the bug", Some(777));
    check_texts("fix bug", "write a poem", None);
    // S3-11: case, punctuation and outer whitespace do not count.
    check_texts("Fix bug!", "  fix bug", Some(1_000));
    // S3-d3: other order is known not to be recognised.
    check_texts("how to reset password", "reset password how to", None);
    // S3-d4: the text at hand is held against the earlier one.
    let tide = ThreeTier { similar_millis: 400, ..ThreeTier::default() };
    assert_eq!(near_duplicate(&tide, &json!({"query": "tide"}), &json!({"query": "diet"})), Some(500));
    assert_eq!(near_duplicate(&tide, &json!({"query": "diet"}), &json!({"query": "tide"})), None);
}

#[test]
fn how_alike_is_a_setting() {
    // S3-40
    let (a, b) = (json!({"query": "fix bug"}), json!({"query": "fix the bug"}));
    for (similar_millis, expected) in [(777, Some(777)), (778, None)] {
        assert_eq!(near_duplicate(&ThreeTier { similar_millis, ..ThreeTier::default() }, &a, &b), expected);
    }
    // A text of the greatest length is compared, and a longer one is not.
    for (length, expected) in [(1_000, Some(999)), (1_001, None)] {
        let of = |last: &str| "a".repeat(length - 1) + last;
        check_texts(&of("b"), &of("c"), expected);
    }
    // Exactly at the threshold counts: 2 * 3 / 8.
    check_texts("abcd", "abce", Some(750));
}

#[test]
fn actions_are_kept_apart() {
    // S3-27, S3-d1, S3-d2, C23
    for (a, b) in [
        ("delete user", "deactivate user"),
        ("enable mfa", "disable mfa"),
        ("grant access alice", "revoke access alice"),
        ("delete user alice", "delete user alicia"),
        ("delete the user", "delete user"),
        ("remove old backups", "old backups"),
    ] {
        check_texts(a, b, None);
        check_texts(b, a, None);
    }
    check_texts("Delete user alice", "delete user, alice.", Some(1_000));
}

#[test]
fn different_numbers_and_names_are_kept_apart() {
    // S3-d2, C23
    for (a, b) in [
        ("invoice 1041", "invoice 1042"),
        ("disk space server01", "disk space server02"),
        ("python 3.10 install", "python 3.11 install"),
        ("version 1.12 notes", "version 11.2 notes"),
        ("mails of anna@example.com", "mails of anne@example.com"),
        ("docs on example.com", "docs on example.org"),
        ("why is app_main slow", "why is app_mail slow"),
    ] {
        check_texts(a, b, None);
        check_texts(b, a, None);
    }
    check_texts("show invoice 1041", "show the invoice 1041", Some(894));
    check_texts("disk space on server01", "disk space server01.", Some(926));
}

#[test]
fn to_the_letter_dangerous_words_are_removed() {
    // S3-27, S3-d1: which makes different actions alike.
    let literal = ThreeTier { literal: true, ..ThreeTier::default() };
    let query = |text: &str| json!({ "query": text });
    assert_eq!(near_duplicate(&literal, &query("delete user"), &query("deactivate user")), Some(1_000));
    assert_eq!(near_duplicate(&literal, &query("invoice 1041"), &query("invoice 1042")), Some(916));
    assert_eq!(near_duplicate(&literal, &query("fix bug"), &query("fix the bug")), Some(777));
}

#[test]
fn the_search_text_is_found_among_the_arguments() {
    // S3-10: the first of these names that is there and holds a text.
    for name in ["query", "search_query", "q", "question", "search", "text"] {
        let found =
            near_duplicate(&ThreeTier::default(), &json!({name: "fix bug"}), &json!({name: "fix the bug"}));
        assert_eq!(found, Some(777), "{name}");
    }
    let found = near_duplicate(
        &ThreeTier::default(),
        &json!({"command": "fix bug"}),
        &json!({"command": "fix the bug"}),
    );
    assert_eq!(found, None);
    // All other arguments have to be the same.
    let with = |text: &str, scope: &str| json!({"query": text, "scope": scope});
    assert_eq!(
        near_duplicate(&ThreeTier::default(), &with("fix bug", "a"), &with("fix the bug", "a")),
        Some(777)
    );
    assert_eq!(near_duplicate(&ThreeTier::default(), &with("fix bug", "a"), &with("fix the bug", "b")), None);
    assert_eq!(near_duplicate(&ThreeTier::default(), &json!({"query": 7}), &json!({"query": 70})), None);
}

#[test]
fn only_searches_are_compared_and_each_with_its_own_kind() {
    // S3-13, S3-26
    let two = |three_tier: &ThreeTier, first: &str, second: &str, rules: &ToolRepeats| {
        let mut world = Guarded::new(Repeats::ThreeTier, three_tier.clone());
        world.call(first, &json!({"query": "fix bug"}), rules, Status::Ok, "x").unwrap();
        world.call(second, &json!({"query": "fix the bug"}), rules, Status::Ok, "x").is_ok()
    };
    let (table, rules) = (ThreeTier::default(), ToolRepeats::default());
    assert!(!two(&table, "search_knowledge", "search_knowledge", &rules));
    assert!(two(&table, "search_knowledge", "search_codebase", &rules));
    assert!(two(&table, "read_help", "read_help", &rules));
    // The list is a setting, and so is a tool's own parameter.
    let listed = ThreeTier { search: vec!["read_help".into()], ..ThreeTier::default() };
    assert!(!two(&listed, "read_help", "read_help", &rules));
    assert!(two(&listed, "search_knowledge", "search_knowledge", &rules));
    let own = ToolRepeats { query: Some("query".into()), ..ToolRepeats::default() };
    assert!(!two(&table, "read_help", "read_help", &own));
    // What changes something is never held to be like something else.
    assert!(two(&table, "send_mail", "send_mail", &own));
}

#[test]
fn search_texts_are_compared_under_each_policy_where_a_tool_says_so() {
    let rules = ToolRepeats { query: Some("for".into()), ..ToolRepeats::default() };
    for (repeats, refused_at) in [
        (Repeats::NeverRerun, 1),
        (Repeats::ThreeTier, 1),
        (Repeats::Reuse, 1),
        (Repeats::Off, 1),
        // By results: told the same twice.
        (Repeats::Progress, 2),
    ] {
        let mut world = Guarded::new(repeats, ThreeTier::default());
        let texts = ["fix bug", "fix the bug", "fix a bug"];
        let refused = texts
            .iter()
            .position(|text| world.call("read", &json!({"for": text}), &rules, Status::Ok, "x").is_err());
        assert_eq!(refused, Some(refused_at), "{repeats:?}");
    }
}

#[test]
fn a_text_is_held_against_the_last_of_its_tool_however_many_there_are() {
    // At most 32 of them, and none that is very long.
    let three_tier =
        ThreeTier { limits: [("search_knowledge".into(), 1_000)].into(), ..ThreeTier::default() };
    let mut world = Guarded::new(Repeats::ThreeTier, three_tier);
    let rules = ToolRepeats::default();
    let mut search =
        |text: String| world.call("search_knowledge", &json!({"query": text}), &rules, Status::Ok, "x");
    let word = |n: u32| char::from_u32(0x4E00 + n).unwrap().to_string().repeat(8);
    for n in 0..33 {
        assert_eq!(search(word(n)), Ok(()));
    }
    let like = |n: u32| format!("{}x", word(n));
    assert!(search(like(32)).is_err());
    assert!(search(like(1)).is_err());
    assert_eq!(search(like(0)), Ok(()));
    let long = "lorem ipsum ".repeat(100);
    assert_eq!(search(long.clone()), Ok(()));
    assert_eq!(search(format!("{long}!")), Ok(()));
}

// ---- order, scope, messages ----

#[test]
fn the_limit_comes_first_then_the_parameters_then_the_text() {
    // S3-19, S3-20
    let run = |limit: u32, second: &str| {
        let three_tier =
            ThreeTier { limits: [("search_knowledge".into(), limit)].into(), ..ThreeTier::default() };
        let mut world = Guarded::new(Repeats::ThreeTier, three_tier);
        let rules = ToolRepeats::default();
        let mut search =
            |text| world.call("search_knowledge", &json!({"query": text}), &rules, Status::Ok, "x");
        search("fix bug").unwrap();
        search(second).unwrap_err()
    };
    // All three hold; two hold; one holds.
    assert_eq!(run(1, "fix bug"), RepeatRule::Limit { limit: 1 });
    assert_eq!(run(2, "fix bug"), RepeatRule::Exact);
    assert_eq!(run(2, "fix bug!"), RepeatRule::Similar { query: "fix bug".into(), millis: 1_000 });
}

#[test]
fn each_turn_begins_with_an_empty_record() {
    // S3-3, S3-8, S3-21, S3-38, S3-41
    let mut world = Guarded::new(Repeats::ThreeTier, ThreeTier::default());
    let rules = ToolRepeats::default();
    let turn = |world: &mut Guarded| {
        let mut search =
            |text| world.call("search_knowledge", &json!({"query": text}), &rules, Status::Ok, "x");
        [search("fix bug"), search("fix bug"), search("fix the bug"), search("poem"), search("tide")]
            .map(|draft| draft.map_or_else(|rule| rule.code(), |()| "run"))
    };
    let expected = ["run", "exact_duplicate", "similar_query", "run", "limit_exceeded"];
    for _ in 0..3 {
        assert_eq!(turn(&mut world), expected);
        world.guard.new_turn();
    }
}

#[test]
fn the_three_messages_and_their_codes() {
    // S3-28, S3-29, S3-30, S3-31
    for (rule, message, code) in [
        (
            RepeatRule::Limit { limit: 2 },
            "Tool 'composio_execute' has reached its execution limit (2) for this turn",
            "limit_exceeded",
        ),
        (
            RepeatRule::Exact,
            "Tool 'composio_execute' was already executed with identical parameters",
            "exact_duplicate",
        ),
        (
            RepeatRule::Similar { query: "fix bug".into(), millis: 777 },
            "Tool 'composio_execute' was already executed with a similar query",
            "similar_query",
        ),
    ] {
        assert_eq!(rule.message("composio_execute"), message);
        assert_eq!(rule.code(), code);
    }
}

// ---- the ledger by itself ----

struct Turn {
    gate: GateSettings,
    ledger: Ledger,
    calls: u32,
}

impl Turn {
    fn new() -> Self {
        Self { gate: GateSettings::default(), ledger: Ledger::default(), calls: 0 }
    }

    /// One reply with these searches: what is said to each, and then all that may run has run.
    fn reply(&mut self, texts: &[&str]) -> Vec<&'static str> {
        let rules = Rules::of(&self.gate, Repeats::ThreeTier);
        let (mut other_calls, mut settled, mut draft) = (OtherCalls::default(), Vec::new(), Vec::new());
        for text in texts {
            let arguments = json!({ "query": text });
            let call = CallFacts {
                tool: "search_knowledge",
                arguments: &arguments,
                rules: &ToolRepeats::default(),
                is_read: true,
                tries: 2,
            };
            let fingerprint = Fingerprint::of(&call, &rules);
            self.calls += 1;
            let key = CommandKey::new(self.calls, Slot::Action(0));
            draft.push(match self.ledger.call_status(&fingerprint, &rules, &other_calls) {
                CallStatus::New => {
                    other_calls.add(&fingerprint, key, /*waits*/ false);
                    self.ledger.started(&fingerprint, key, 1, EvidenceId(self.calls));
                    settled.push(SettledCall {
                        signature: fingerprint.signature(),
                        key,
                        attempt: 1,
                        polled: 0,
                        status: Status::Ok,
                        reported: Digest::of("test", text.as_bytes()),
                        ignored: Vec::new(),
                        waits: false,
                        error: None,
                    });
                    "run"
                }
                CallStatus::Repeat { rule: Some(rule), .. } => rule.code(),
                other => panic!("nothing failed: {other:?}"),
            });
        }
        assert_eq!(self.ledger.settled(&settled, &self.gate.repeat_notes), []);
        draft
    }
}

#[test]
fn what_stands_earlier_in_the_same_reply_counts() {
    // S3-25
    let mut turn = Turn::new();
    let draft = turn.reply(&["fix bug", "fix bug", "fix the bug", "poem", "tide"]);
    assert_eq!(draft, ["run", "exact_duplicate", "similar_query", "run", "limit_exceeded"]);
    assert_eq!(turn.reply(&["other"]), ["limit_exceeded"]);
}

#[test]
fn a_turn_takes_a_few_kilobytes_and_a_scope_gives_them_back() {
    // As JSON: digests have 32 bytes here, and what each call told is kept beside it.
    let mut turn = Turn::new();
    turn.gate.three_tier.limits.clear();
    turn.gate.three_tier.other = 100;
    let size = |turn: &Turn| serde_json::to_string(&turn.ledger).unwrap().len();
    let empty = size(&turn);
    let word = |n: u32| char::from(b'a' + n as u8).to_string().repeat(30);
    for n in 0..15 {
        assert_eq!(turn.reply(&[&word(n)]), ["run"]);
    }
    assert!(size(&turn) - empty <= 15 * 1_400, "{} bytes", size(&turn));
    turn.ledger.new_scope();
    assert!(size(&turn) <= empty + 16, "{} bytes", size(&turn));
}
