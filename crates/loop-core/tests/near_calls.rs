//! What makes two reads nearly the same (C4, S3-1): pages, cursors, words, and whose change justifies the next one.

use crate::repeating;

use repeating::*;

use loop_core::repeats::{CallFacts, Guard};
use loop_core::spec::{Repeats, ThreeTier, ToolRepeats};
use loop_core::types::Status;
use serde_json::{Value, json};

/// The place of the first call that is refused.
fn refused_at(arguments: &[Value], results: &[&str]) -> Option<usize> {
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    let rules = ToolRepeats::default();
    arguments
        .iter()
        .zip(results)
        .position(|(arguments, result)| world.call("read", arguments, &rules, Status::Ok, result).is_err())
}

#[test]
fn a_cursor_is_the_place_of_a_page_and_not_another_question() {
    for name in ["cursor", "page_token", "next_token"] {
        let pages = [json!("a"), json!("b"), json!(7)].map(|at| json!({"query": "disk", name: at}));
        assert_eq!(refused_at(&pages, &["[]"; 3]), Some(2), "{name}");
        // Something else under this name is not a place.
        let flags = [json!(true), json!(false), json!(null)].map(|at| json!({"query": "disk", name: at}));
        assert_eq!(refused_at(&flags, &["[]"; 3]), None, "{name}");
    }
}

#[test]
fn a_short_word_keeps_its_last_letter() {
    let query = |text: &str| json!({"query": text});
    let short = ["gas station", "ga station", "station gas"].map(query);
    assert_eq!(refused_at(&short, &["[]"; 3]), None);
    // An abbreviation keeps its capitals where a sentence begins with it.
    let capitals = ["VPN reset", "vPN reset", "reset vPN"].map(query);
    assert_eq!(refused_at(&capitals, &["[]"; 3]), None);
    let long = ["gate stations", "gates station", "station gate"].map(query);
    assert_eq!(refused_at(&long, &["[]"; 3]), Some(2));
}

#[test]
fn a_call_does_not_justify_the_next_page_by_its_own_change() {
    // The first page changed between two reads of it. The second page returns the same, and so would the third.
    let pages = [1, 1, 2, 3].map(|page| json!({"query": "disk", "page": page}));
    assert_eq!(refused_at(&pages, &["a", "b", "b", "b"]), Some(3));
    // Nor does the change of the first page hide that it has returned the same twice since.
    let pages = [1, 1, 1, 2].map(|page| json!({"query": "disk", "page": page}));
    assert_eq!(refused_at(&pages, &["a", "b", "b", "b"]), Some(3));
}

#[test]
fn a_search_is_repeated_only_where_both_before_it_returned_the_same() {
    let rules = ToolRepeats { query: Some("for".into()), ..ToolRepeats::default() };
    let mut world = Guarded::new(Repeats::Progress, ThreeTier::default());
    let mut search = |text: &str, result: &str| {
        let called = world.call("search", &json!({"for": text}), &rules, Status::Ok, result);
        called.map_err(|rule| rule.code())
    };
    assert_eq!(search("fix bug", "[1]"), Ok(()));
    assert_eq!(search("fix the bug", "[2]"), Ok(()));
    assert_eq!(search("fix a bug", "[2]"), Ok(()));
    assert_eq!(search("fix my bug", "[2]"), Err("similar_query"));
}

#[test]
fn a_text_of_more_than_words_is_similar_to_nothing() {
    // An option, a path or a blank may be what is searched for.
    for texts in
        [["fix -v bug", "bug -v fix", "fix bug -v"], ["fix  bug now", "bug  fix now", "now  fix bug"]]
    {
        let arguments = texts.map(|text| json!({"query": text}));
        assert_eq!(refused_at(&arguments, &["[]"; 3]), None, "{texts:?}");
    }
}

#[test]
fn a_failure_of_unknown_kind_counts_at_once_and_has_no_tries() {
    // `Guard::after_failure`: whatever number of tries the call may have.
    let mut guard = Guard::new(Repeats::Progress, ThreeTier::default());
    let (rules, arguments) = (ToolRepeats::default(), json!({"path": "log"}));
    let read = CallFacts { tool: "read", arguments: &arguments, rules: &rules, is_read: true, tries: 4 };
    for _ in 0..2 {
        let running = guard.before(&read).unwrap();
        guard.after_failure(running, "busy");
    }
    assert_eq!(guard.before(&read).map_err(|rule| rule.code()), Err("failed_before"));
}

#[test]
fn a_new_turn_keeps_the_key_of_a_call_that_may_be_tried_again() {
    // I-6
    let mut guard = Guard::new(Repeats::Progress, ThreeTier::default());
    let (rules, arguments) = (ToolRepeats::default(), json!({"path": "log"}));
    let read = CallFacts { tool: "read", arguments: &arguments, rules: &rules, is_read: true, tries: 2 };
    let first = guard.before(&read).unwrap();
    let key = |running: &str| running.split_once("key: ").unwrap().1.to_owned();
    let shown = format!("{first:?}");
    guard.after(first, Status::RetryableError, "busy");
    guard.new_turn();
    let again = format!("{:?}", guard.before(&read).unwrap());
    assert_eq!(key(&again), key(&shown).replace("attempt: 1", "attempt: 2"));
}

#[test]
fn a_similar_search_is_reused_where_it_returned_something_and_nothing_was_written_since() {
    // S3-5 under `reuse`.
    let rules = ToolRepeats { query: Some("for".into()), ..ToolRepeats::default() };
    let search = |world: &mut Guarded, text: &str, status| {
        world.call("search", &json!({"for": text}), &rules, status, "[1]").map_err(|rule| rule.code())
    };
    let reuse = || Guarded::new(Repeats::Reuse, ThreeTier::default());
    let mut world = reuse();
    assert_eq!(search(&mut world, "fix bug", Status::Ok), Ok(()));
    assert_eq!(search(&mut world, "fix the bug", Status::Ok), Err("similar_query"));
    assert_eq!(world.step("edit x = ok"), Ok(()));
    assert_eq!(search(&mut world, "fix the bug", Status::Ok), Ok(()));
    let mut world = reuse();
    assert_eq!(search(&mut world, "fix bug", Status::PermanentError), Ok(()));
    assert_eq!(search(&mut world, "fix the bug", Status::Ok), Ok(()));
}

#[test]
fn a_result_that_comes_after_a_new_turn_began_counts_in_it() {
    let (rules, arguments) = (ToolRepeats::default(), json!({"path": "log"}));
    let read = CallFacts { tool: "read", arguments: &arguments, rules: &rules, is_read: true, tries: 1 };
    let mut guard = Guard::new(Repeats::NeverRerun, ThreeTier::default());
    let running = guard.before(&read).unwrap();
    guard.new_turn();
    guard.after(running, Status::Ok, "7");
    assert!(guard.before(&read).is_err());
    // One that came before is not a repeat in it.
    guard.new_turn();
    assert!(guard.before(&read).is_ok());
}

#[test]
fn a_failure_for_good_is_noted_as_a_failure_and_not_as_a_result() {
    // The second page fails as the first did.
    let rules = ToolRepeats::default();
    let mut guard = Guard::new(Repeats::Progress, ThreeTier::default());
    let notes = [1, 2].map(|page| {
        let arguments = json!({"query": "disk", "page": page});
        let read = CallFacts { tool: "read", arguments: &arguments, rules: &rules, is_read: true, tries: 1 };
        let running = guard.before(&read).unwrap();
        guard.after(running, Status::PermanentError, "no such file").map(|note| note.code())
    });
    assert_eq!(notes, [None, Some("failures")]);
}
