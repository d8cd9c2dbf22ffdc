//! The policy `progress`: results count, not calls.

use crate::repeating;

use repeating::*;

use loop_core::repeats::{CallFacts, Guard, RepeatRule};
use loop_core::spec::{Repeats, ThreeTier, ToolRepeats};
use loop_core::types::Status;
use serde_json::{Value, json};

#[track_caller]
fn check(script: &[(&str, &str)]) {
    check_with(Repeats::Progress, ThreeTier::default(), script);
}

#[test]
fn the_same_result_twice_is_enough() {
    // S3-1, C4
    check(&[("read a = 1", "run"), ("read a = 1", "run"), ("read a = 1", "same_result")]);
    check(&[("read a = 1", "run"), ("read b = 1", "run"), ("read a = 1", "run"), ("read b = 1", "run")]);
    // It stays refused, and what was refused leaves no trace.
    check(&[
        ("read a = 1", "run"),
        ("read a = 1", "run"),
        ("read a = 1", "same_result"),
        ("read b = 2", "run"),
        ("read a = 1", "same_result"),
    ]);
    // An empty result is one like any other.
    check(&[("read a = []", "run"), ("read a = []", "run"), ("read a = []", "same_result")]);
}

#[test]
fn a_changed_result_is_progress() {
    // C4
    check(&[("read a = 1", "run"), ("read a = 2", "run"), ("read a = 3", "run"), ("read a = 4", "run")]);
    check(&[("read a = 1", "run"), ("read a = 1", "run"), ("edit a = ok", "run"), ("read a = 2", "run")]);
    check(&[
        ("read a = 1", "run"),
        ("read a = 2", "run"),
        ("read a = 1", "run"),
        ("read a = 1", "run"),
        ("read a = 1", "same_result"),
    ]);
}

#[test]
fn a_write_between_makes_it_worth_looking_again() {
    check(&[
        ("read a = 1", "run"),
        ("read a = 1", "run"),
        ("edit x = ok", "run"),
        ("read a = 1", "run"),
        ("read a = 1", "run"),
        ("read a = 1", "same_result"),
        ("edit y = ok", "run"),
        ("read a = 1", "run"),
    ]);
    // The same tests after each edit, which fail as before.
    check(&[
        ("edit 1 = ok", "run"),
        ("test x = failed", "run"),
        ("edit 2 = ok", "run"),
        ("test x = failed", "run"),
        ("edit 3 = ok", "run"),
        ("test x = failed", "run"),
        ("edit 4 = ok", "run"),
        ("test x = failed", "run"),
    ]);
}

#[test]
fn a_write_that_is_itself_a_repeat_changed_nothing() {
    check(&[("edit a = ok", "run"), ("edit a = ok", "run"), ("edit a = ok", "same_result")]);
    check(&[
        ("edit x = ok", "run"),
        ("read a = 1", "run"),
        ("edit x = ok", "run"),
        ("read a = 1", "run"),
        ("edit x = ok", "cycle"),
        ("read a = 1", "same_result"),
    ]);
    // One that tells something else each time goes on.
    check(&[("edit a = 1", "run"), ("edit a = 2", "run"), ("edit a = 3", "run"), ("edit a = 4", "run")]);
    // One that was refused or failed for now changed nothing either.
    check(&[
        ("read a = 1", "run"),
        ("read a = 1", "run"),
        ("edit x = ?locked", "run"),
        ("read a = 1", "same_result"),
    ]);
}

#[test]
fn what_steps_on_may_go_on() {
    // The step tells the same each time; what is looked at after it tells that it went on.
    let mut script = Vec::new();
    let pages: Vec<String> = (0..8).map(|n| format!("read screen = page {n}")).collect();
    for page in &pages {
        script.extend([("click next = ok", "run"), (page.as_str(), "run")]);
    }
    check(&script);
}

#[test]
fn cycles_of_two_to_five_calls_are_refused_at_the_third_round() {
    // Each round writes, so that no call is without a write since it was made last.
    for length in 2..=5 {
        let round: Vec<String> = (0..length).map(|n| format!("toggle {n} = ok {n}")).collect();
        let mut script: Vec<(&str, &str)> = Vec::new();
        for step in round.iter().chain(&round) {
            script.push((step, "run"));
        }
        script.push((&round[0], "cycle"));
        check(&script);
        // With another result anywhere in it there is no cycle.
        let other = format!("toggle {} = otherwise", length - 1);
        let mut script: Vec<(&str, &str)> = round.iter().map(|step| (step.as_str(), "run")).collect();
        script.extend(round[..length - 1].iter().map(|step| (step.as_str(), "run")));
        script.extend([(other.as_str(), "run"), (&round[0], "run")]);
        check(&script);
    }
    let rule = {
        let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
        for step in ["toggle a = 1", "toggle b = 2", "toggle a = 1", "toggle b = 2"] {
            assert_eq!(world.step(step), Ok(()));
        }
        world.step("toggle a = 1").unwrap_err()
    };
    assert_eq!(rule, RepeatRule::Cycle { length: 2, times: 2 });
    assert_eq!(
        rule.message("toggle"),
        "The last 2 calls have repeated 2 times with the same results, and tool 'toggle' would begin the \
         next round"
    );
}

#[test]
fn one_call_whose_results_change_is_never_a_cycle() {
    // B8, C4: a state that flaps is looked at as often as it takes.
    check(&[("read link = up", "run"), ("read link = down", "run")].repeat(6));
    // A write that answers otherwise each time as well.
    check(&[("toggle a = on", "run"), ("toggle a = off", "run")].repeat(6));
    // What else is looked at meanwhile makes no cycle of it.
    let watch = [
        ("read link = up", "run"),
        ("read peer = ok", "run"),
        ("read link = down", "run"),
        ("read peer = ok", "run"),
    ];
    check(&watch.repeat(4));
    // What the round itself changes explains what it reads: its writes go nowhere.
    let back_and_forth = [
        ("edit on = ok", "run"),
        ("read link = up", "run"),
        ("edit off = ok", "run"),
        ("read link = down", "run"),
    ];
    check(&[&back_and_forth[..], &back_and_forth[..], &[("edit on = ok", "cycle")]].concat());
}

#[test]
fn a_circle_of_six_is_none() {
    let round: Vec<String> = (0..6).map(|n| format!("toggle {n} = ok {n}")).collect();
    let twice: Vec<(&str, &str)> = round.iter().chain(&round).map(|step| (step.as_str(), "run")).collect();
    check(&twice);
}

#[test]
fn what_failed_for_good_is_not_made_again_before_something_changed() {
    // C4, S4-57
    check(&[("read a = !gone", "run"), ("read a = 1", "failed_before"), ("read b = 1", "run")]);
    check(&[("read a = !gone", "run"), ("edit x = ok", "run"), ("read a = 1", "run")]);
    check(&[
        ("edit a = !no", "run"),
        ("edit a = ok", "failed_before"),
        ("edit b = ok", "run"),
        ("edit a = ok", "run"),
    ]);
}

#[test]
fn what_may_pass_is_tried_as_often_as_the_tool_says() {
    // C4: two tries under one key; a third call needs another failure, or a change.
    check(&[("read a = ?busy", "run"), ("read a = ?busy", "run"), ("read a = 1", "failed_before")]);
    check(&[
        ("read a = ?busy", "run"),
        ("read a = 1", "run"),
        ("read a = 1", "run"),
        ("read a = 1", "same_result"),
    ]);
    check(&[("read a = ?busy", "run"), ("read a = ?slow", "run"), ("read a = 1", "run")]);
    check(&[
        ("read a = ?busy", "run"),
        ("read a = ?busy", "run"),
        ("edit x = ok", "run"),
        ("read a = 1", "run"),
    ]);
}

#[test]
fn what_is_not_ready_is_asked_again() {
    let wait = [("read job = ...", "run"); 20];
    check(&[&wait[..], &[("read job = done", "run")]].concat());
    // As often as its tool says, and no more.
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    let rules = ToolRepeats { polls: 3, ..ToolRepeats::default() };
    let calls: Vec<bool> =
        (0..6).map(|_| world.call("read", &json!({}), &rules, Status::Pending, "wait").is_ok()).collect();
    assert_eq!(calls, [true, true, true, true, false, false]);
}

#[test]
fn a_long_result_reports_no_progress_whatever_state_it_has() {
    let state = |length: usize| {
        let frame = r#"{"status": "running", "note": ""}"#;
        frame.replace(r#""""#, &format!("\"{}\"", "x".repeat(length - frame.len())))
    };
    for (length, third) in [(600, "run"), (601, "same_result")] {
        let look = format!("read job = {}", state(length));
        check(&[(look.as_str(), "run"), (look.as_str(), "run"), (look.as_str(), third)]);
    }
}

#[test]
fn what_says_that_it_is_under_way_may_be_looked_at_again() {
    for state in [
        r#"{"status": "running"}"#,
        r#"{"job": 7, "state": "In-Progress", "eta": null}"#,
        r#"{"ready": false}"#,
        r#"{"job": 7, "complete": false}"#,
        "\"still running\"",
        "status: queued",
        "Not ready yet.",
    ] {
        let look = format!("read job = {state}");
        // A pause between tells the same each time.
        let mut script = [(look.as_str(), "run"), ("pause 5 = ok", "run")].repeat(9);
        script.extend([
            ("read job = done", "run"),
            ("read job = done", "run"),
            ("read job = done", "same_result"),
        ]);
        check(&script);
    }
    for state in [
        // A record with a state, something still to be done, and what is about something pending.
        r#"{"id": 1, "title": "x", "done": false}"#,
        r#"{"id": 7, "status": "pending", "items": [1]}"#,
        r#"{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "status": "running"}"#,
        r#"{"status": "delivered"}"#,
        "no pending orders",
        "note: running",
        "[]",
    ] {
        let look = format!("read job = {state}");
        check(&[(&look, "run"), (&look, "run"), (&look, "same_result")]);
    }
    // Not for ever.
    let look = ("read job = running", "run");
    check(&[&[look; 21][..], &[("read job = running", "same_result")]].concat());
    // A write that says so has been done; one that is not ready is asked again.
    let begins = r#"pay a = {"status": "processing"}"#;
    check(&[(begins, "run"), (begins, "run"), (begins, "same_result")]);
    check(&[("deploy a = ...", "run"); 20]);
}

#[test]
fn a_repair_is_never_taken_for_the_call_that_it_revises() {
    // G4: white space, case, quotes, dashes, signs and numbers written as texts may be what was wrong.
    let one = |name: &str, texts: &[&str]| texts.iter().map(|text| json!({ name: text })).collect::<Vec<_>>();
    let repairs = [
        ("indentation", one("old", &["return x", "  return x", "\treturn x"])),
        ("line_ends", one("text", &["a\nb", "a\r\nb", "a b"])),
        ("blanks", one("name", &["Anna Berg", "Anna  Berg", " Anna Berg"])),
        ("case", one("name", &["anna berg", "Anna Berg", "ANNA BERG"])),
        ("case_of_a_search", one("query", &["disk full", "disk FULL", "DISK full"])),
        ("one_word", one("query", &["users", "user", "Users"])),
        ("quotes", one("name", &["'orders'", "\"orders\"", "orders"])),
        ("apostrophes", one("name", &["O'Brien", "O\u{2019}Brien", "OBrien"])),
        ("phrase", one("query", &["\"disk full\"", "disk full", "'disk full'"])),
        ("exclusion", one("query", &["-disk full", "disk -full", "disk full"])),
        ("dashes", one("date", &["2026-01-05", "2026\u{2013}01\u{2013}05", "20260105"])),
        ("phone", one("number", &["555-1234", "555 1234", "5551234"])),
        ("fingerprints", one("id", &["#42", "42", "(42)"])),
        ("punctuation", one("title", &["Done", "Done.", "Done!"])),
        ("underscores", one("key", &["a_b", "a-b", "a b"])),
        ("operators", one("query", &["disk AND full", "disk OR full", "disk full"])),
        ("fields", one("query", &["title: disk", "title disk", "title:disk"])),
        ("wildcards", one("query", &["disk full?", "disk* full", "?disk full"])),
        ("types", vec![json!({"id": 7}), json!({"id": "7"}), json!({"id": [7]})]),
        ("first_page", vec![json!({"page": -1}), json!({"page": "0"}), json!({"page": 1})]),
    ];
    for tool in ["read", "edit"] {
        for (name, calls) in &repairs {
            for (status, result) in [
                (Status::Empty, "[]"),
                (Status::Ok, "same"),
                (Status::PermanentError, "not found"),
                (Status::InvalidInput, "not valid"),
                (Status::MalformedResult, "no result"),
            ] {
                let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
                for call in calls {
                    let draft = world.call(tool, call, &ToolRepeats::default(), status, result);
                    assert_eq!(draft, Ok(()), "{tool}, {name}: {call} after {status:?}");
                }
            }
        }
    }
    // Other arguments repair what a tool could not take, also another page of it.
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    for page in 0..4 {
        let call = json!({"page": page});
        assert_eq!(world.call("read", &call, &ToolRepeats::default(), Status::InvalidInput, "no"), Ok(()));
    }
}

#[test]
fn a_write_is_never_nearly_the_same_as_another() {
    // G4
    for status in [Status::Ok, Status::Empty, Status::PermanentError] {
        let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
        for page in 1..5 {
            let call = json!({"query": "disk full", "page": page});
            assert_eq!(world.call("edit", &call, &ToolRepeats::default(), status, "same"), Ok(()));
        }
        for words in ["disk full", "full disk", "the full disk", "disk is full"] {
            let call = json!({"query": words});
            assert_eq!(world.call("edit", &call, &ToolRepeats::default(), status, "same"), Ok(()), "{words}");
        }
    }
}

#[test]
fn a_search_that_reads_like_two_before_runs_once_something_was_written() {
    // M13, S3-5: what both told may not be so any more.
    let rules = ToolRepeats { query: Some("for".into()), ..ToolRepeats::default() };
    let search = |world: &mut Guarded, text: &str| {
        world.call("search", &json!({"for": text}), &rules, Status::Ok, "[]").map_err(|rule| rule.code())
    };
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    assert_eq!(search(&mut world, "fix bug"), Ok(()));
    assert_eq!(search(&mut world, "fix the bug"), Ok(()));
    assert_eq!(search(&mut world, "fix a bug"), Err("similar_query"));
    assert_eq!(world.step("edit x = ok"), Ok(()));
    assert_eq!(search(&mut world, "fix a bug"), Ok(()));
    // What was told before the write counts no more than it does for the same call.
    assert_eq!(search(&mut world, "fix my bug"), Ok(()));
    assert_eq!(search(&mut world, "fix one bug"), Err("similar_query"));
    // A write that comes between the two is one as well.
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    assert_eq!(search(&mut world, "fix bug"), Ok(()));
    assert_eq!(world.step("edit x = ok"), Ok(()));
    assert_eq!(search(&mut world, "fix the bug"), Ok(()));
    assert_eq!(search(&mut world, "fix a bug"), Ok(()));
}

#[track_caller]
fn check_looks(tool: &str, arguments: &[Value], results: &[&str], refused_at: Option<usize>) {
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    let rules = ToolRepeats::default();
    let refused = arguments
        .iter()
        .zip(results)
        .position(|(arguments, result)| world.call(tool, arguments, &rules, Status::Ok, result).is_err());
    assert_eq!(refused, refused_at, "{arguments:?}");
}

#[test]
fn pages_past_the_end_and_searches_in_other_order_are_nearly_the_same() {
    let page = |n: u32| json!({"query": "disk", "page": n});
    check_looks("read", &[page(1), page(2), page(3), page(4)], &["1", "2", "[]", "[]"], None);
    check_looks(
        "read",
        &[page(1), page(2), page(3), page(4), page(5)],
        &["1", "2", "[]", "[]", "[]"],
        Some(4),
    );
    let query = |text: &str| json!({"query": text, "kind": "wiki"});
    let same = [query("reset a password"), query("password reset"), query("How to reset passwords?")];
    check_looks("read", &same, &["[]", "[]", "[]"], Some(2));
    // Other words, other arguments, or something found: a search goes on.
    let refined = [query("reset password"), query("reset password vpn"), query("vpn password"), query("vpn")];
    check_looks("read", &refined, &["[]"; 4], None);
    check_looks("read", &same, &["[]", "[1]", "[2]"], None);
    let kinds = ["wiki", "mail", "chat"].map(|kind| json!({"query": "reset password", "kind": kind}));
    check_looks("read", &kinds, &["[]"; 3], None);
    let written = [json!({"id": 7}), json!({"id": 7, "page": 2}), json!({"id": 7, "page": 3})];
    check_looks("read", &written, &["x", "x", "x"], Some(2));
    // Nor is a sign of it left out, alone or among words.
    let signed = [json!({"degrees": "1"}), json!({"degrees": "-1"}), json!({"degrees": ".1"})];
    check_looks("read", &signed, &["[]"; 3], None);
    let versions = ["release 1.5", "release 5.1", "release 1-5", "release 1 5"].map(query);
    check_looks("read", &versions, &["[]"; 4], None);
    // Where something starts may be an hour, a line or a year; with the length of a page beside it, it is a page.
    let hours = [9, 10, 11, 12].map(|hour| json!({"start": hour}));
    check_looks("read", &hours, &["[]"; 4], None);
    let pages = [0, 20, 40].map(|from| json!({"start": from, "limit": 20}));
    check_looks("read", &pages, &["[]"; 3], Some(2));
    // A date is no page.
    let days = ["2026-01-01", "2026-01-02", "2026-01-03"].map(|day| json!({"start": day}));
    check_looks("read", &days, &["[]"; 3], None);
}

#[test]
fn what_only_says_when_it_was_answered_is_no_change() {
    let at =
        |n: u32| format!(r#"{{"status": "down", "request_id": "r-{n}", "meta": {{"elapsed_ms": {n}}}}}"#);
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    let rules = ToolRepeats::default();
    let calls: Vec<_> = (0..3).map(|n| world.call("read", &json!({}), &rules, Status::Ok, &at(n))).collect();
    let ignored = vec!["/meta/elapsed_ms".into(), "/request_id".into()];
    assert_eq!(calls, [Ok(()), Ok(()), Err(RepeatRule::SameResult { times: 2, ignored })]);
    assert_eq!(
        calls[2].clone().unwrap_err().message("fetch_status"),
        "Tool 'fetch_status' has already returned the same result 2 times (not counting /meta/elapsed_ms, \
         /request_id), and nothing was changed since"
    );
}

#[test]
fn a_tool_may_say_what_tells_its_calls_apart_and_how_often_it_runs() {
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    let rules = ToolRepeats { key: vec!["/id".into()], ..ToolRepeats::default() };
    let call = |id: u32, note: &str| json!({"id": id, "note": note});
    let mut made = |arguments: Value| world.call("read", &arguments, &rules, Status::Ok, "x").is_ok();
    let calls = [made(call(1, "a")), made(call(1, "b")), made(call(1, "c")), made(call(2, "c"))];
    assert_eq!(calls, [true, true, false, true]);
    for repeats in [Repeats::Progress, Repeats::NeverRerun, Repeats::Reuse, Repeats::Off, Repeats::ThreeTier]
    {
        let mut world = Guarded::new(repeats, ThreeTier::default());
        let rules = ToolRepeats { max_calls: Some(2), ..ToolRepeats::default() };
        let mut made = |id: u32| world.call("read", &call(id, ""), &rules, Status::Ok, &id.to_string());
        let calls = [made(1), made(2), made(3)];
        assert_eq!(calls, [Ok(()), Ok(()), Err(RepeatRule::Limit { limit: 2 })], "{repeats:?}");
    }
}

#[test]
fn a_new_turn_may_ask_again() {
    // S3-38
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    for _ in 0..3 {
        assert_eq!(world.step("read a = 1"), Ok(()));
        assert_eq!(world.step("read a = 1"), Ok(()));
        assert!(world.step("read a = 1").is_err());
        world.guard.new_turn();
    }
}

#[test]
fn what_may_have_happened_is_not_done_again_even_in_a_new_turn() {
    // I-6
    let mut guard = Guard::new(Repeats::Progress, ThreeTier::default());
    let (rules, arguments) = (ToolRepeats::default(), json!({"to": "a"}));
    let call = CallFacts { tool: "send", arguments: &arguments, rules: &rules, is_read: false, tries: 2 };
    let running = guard.before(&call).unwrap();
    guard.after(running, Status::InDoubt, "");
    assert_eq!(guard.before(&call), Err(RepeatRule::Failed));
    guard.new_turn();
    assert_eq!(guard.before(&call), Err(RepeatRule::Failed));
}

#[test]
fn calls_side_by_side_are_told_apart() {
    // I-20
    let mut guard = Guard::new(Repeats::Progress, ThreeTier::default());
    let (rules, arguments) = (ToolRepeats::default(), json!({"path": "app.log"}));
    let a = CallFacts { tool: "a", arguments: &arguments, rules: &rules, is_read: true, tries: 2 };
    let b = CallFacts { tool: "b", ..a };
    let (on_a, on_b) = (guard.before(&a).unwrap(), guard.before(&b).unwrap());
    guard.after(on_a, Status::PermanentError, "no such log");
    guard.after(on_b, Status::Ok, "B");
    assert_eq!(guard.before(&a), Err(RepeatRule::Failed));
    assert!(guard.before(&b).is_ok());

    // What runs counts for whatever is asked beside it, in whichever order it ends.
    let limited = ToolRepeats { max_calls: Some(2), ..ToolRepeats::default() };
    let mut guard = Guard::new(Repeats::NeverRerun, ThreeTier::default());
    let numbered = [json!({"n": 1}), json!({"n": 2}), json!({"n": 3})];
    let call = |n: usize| CallFacts { arguments: &numbered[n], rules: &limited, ..a };
    let (one, two) = (guard.before(&call(0)).unwrap(), guard.before(&call(1)).unwrap());
    assert_eq!(guard.before(&call(0)), Err(RepeatRule::Limit { limit: 2 }));
    guard.after(two, Status::Ok, "2");
    guard.after(one, Status::Ok, "1");
    assert_eq!(guard.before(&call(2)), Err(RepeatRule::Limit { limit: 2 }));
}

#[test]
fn texts_alike_count_as_the_same_search_where_a_tool_says_so() {
    // S3-5: by results, so a search that finds something else goes on.
    let rules = ToolRepeats { query: Some("for".into()), ..ToolRepeats::default() };
    let run = |results: &[&str]| {
        let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
        let texts = ["fix bug", "fix the bug", "fix a bug"];
        let mut call = |(text, result): (&str, &&str)| {
            world.call("read", &json!({"for": text}), &rules, Status::Ok, result)
        };
        texts.into_iter().zip(results).map(|call_of| call(call_of).is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(run(&["[]", "[]", "[]"]), [true, true, false]);
    assert_eq!(run(&["[]", "[1]", "[1]"]), [true, true, true]);
}

#[test]
fn nearly_the_same_calls_that_fail_for_now_are_compared_once_their_tries_are_used_up() {
    // M15: each page has tries of its own; what may still be tried says nothing about the next page.
    let page = |world: &mut Guarded, page: u32| {
        let arguments = json!({"path": "log", "page": page});
        world
            .call("read", &arguments, &ToolRepeats::default(), Status::RetryableError, "busy")
            .map_or_else(|rule| rule.code(), |()| "run")
    };
    let reported = |pages: &[u32]| -> Vec<&str> {
        let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
        pages.iter().map(|n| page(&mut world, *n)).collect()
    };
    assert_eq!(reported(&[1, 2, 3, 4]), ["run"; 4]);
    assert_eq!(reported(&[1, 1, 2, 2, 3]), ["run", "run", "run", "run", "same_result"]);
    assert_eq!(reported(&[1, 1, 2, 3, 3]), ["run"; 5]);
}
