//! Notes: what a model reads with a result that repeats something, before a call is refused.

use loop_testkit::*;

use loop_core::repeats::{CallFacts, Guard, RepeatNote, Rules, SettledCall};
use loop_core::spec::{RepeatNotes, Repeats, ThreeTier, ToolRepeats};
use loop_core::types::{Observation, Status};
use loop_core::{Note, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A guard with the notes of its results.
struct Noted(Guard);

impl Noted {
    fn new(repeats: Repeats) -> Self {
        Self(Guard::new(repeats, ThreeTier::default()))
    }

    /// A call that may run, with what it returns: `!` begins a failure. `None`: it is refused.
    fn call(&mut self, tool: &str, arguments: &Value, result: &str) -> Option<Option<RepeatNote>> {
        let rules = ToolRepeats::default();
        let is_read = tool != "write";
        let facts = CallFacts { tool, arguments, rules: &rules, is_read, tries: 1 };
        let running = self.0.before(&facts).ok()?;
        Some(match result.strip_prefix('!') {
            Some(error) => self.0.after_failure(running, error),
            None => self.0.after(running, Status::Ok, result),
        })
    }

    /// `tool argument = result`, one after the other. The codes of the notes, `-` for none, `refused`.
    fn codes(&mut self, steps: &[&str]) -> Vec<&'static str> {
        let mut code = |step: &&str| {
            let (call, result) = step.split_once(" = ").unwrap();
            let (tool, argument) = call.split_once(' ').unwrap();
            let name = if tool == "find" { "query" } else { "name" };
            match self.call(tool, &json!({ name: argument }), result) {
                None => "refused",
                Some(None) => "-",
                Some(Some(note)) => note.code(),
            }
        };
        steps.iter().map(&mut code).collect()
    }
}

#[track_caller]
fn check(steps: &[&str], codes: &[&str]) {
    assert_eq!(Noted::new(Repeats::Progress).codes(steps), codes, "{steps:?}");
}

#[test]
fn a_tool_that_fails_again_is_noted_whatever_its_arguments_are() {
    // S1-38, S4-52: the same error twice, or any error three times.
    check(&["read a = !no such row", "read b = !no such row"], &["-", "failures"]);
    check(&["read a = !one", "read b = !two", "read c = !three"], &["-", "-", "failures"]);
    // Numbers and ids are not compared: they name what was asked for.
    check(&["read a = !card_17 not found", "read b = !card_18 not found"], &["-", "failures"]);
    // A success of the tool, and a change, begin anew.
    check(&["read a = !no", "read b = 1", "read c = !no"], &["-", "-", "-"]);
    check(&["read a = !no", "write x = done", "read c = !no"], &["-", "-", "-"]);
    // Another tool's success does not.
    check(&["read a = !no", "look b = 1", "read c = !no"], &["-", "-", "failures"]);
    // What a failing write changes does not excuse its own failures.
    check(&["write a = !no", "write b = !no", "write c = !no"], &["-", "failures", "failures"]);
    // Failures of other tools are their own.
    check(&["read a = !no", "look b = !no"], &["-", "-"]);
}

#[test]
fn the_same_result_is_noted_before_the_call_is_refused() {
    // S4-40: a note, then a refusal.
    check(&["read a = 1", "read a = 1", "read a = 1"], &["-", "same_result", "refused"]);
    check(&["read a = 1", "write x = done", "read a = 1"], &["-", "-", "-"]);
    check(&["read a = 1", "read a = 2", "read a = 3"], &["-", "-", "-"]);
    // Another order of words.
    let steps = ["find lost red card = []", "find red card lost = []", "find card red lost = []"];
    check(&steps, &["-", "same_result", "refused"]);
}

#[test]
fn searches_in_other_words_with_the_same_result_are_noted_and_never_refused() {
    let steps =
        ["find lost card = 7", "find stolen card = 7", "find block my card = 7", "find card gone = 7"];
    check(&steps, &["-", "-", "same_search", "same_search"]);
    check(&["find a b = 1", "find c d = 2", "find e f = 1"], &["-", "-", "-"]);
    check(&["find a b = 1", "find c d = 1", "write x = y", "find e f = 1"], &["-", "-", "-", "-"]);
    // Reads of different things may well say the same.
    check(&["read a = 1", "read b = 1", "read c = 1", "read d = 1"], &["-", "-", "-", "-"]);
    // The same search again is not one in other words.
    check(
        &["find a b = 1", "find a b = 1", "find c d = 1", "find e f = 1"],
        &["-", "same_result", "-", "same_search"],
    );
}

#[test]
fn searches_are_counted_by_what_else_they_are_asked_with_up_to_64_kinds() {
    let find = |noted: &mut Noted, query: &str, place: usize| {
        noted.call("find", &json!({"query": query, "in": place}), "7").unwrap().map(|note| note.code())
    };
    // Two kinds by turns do not forget each other.
    let mut noted = Noted::new(Repeats::Progress);
    for query in ["lost card", "stolen card"] {
        assert_eq!((find(&mut noted, query, 0), find(&mut noted, query, 1)), (None, None));
    }
    assert_eq!(find(&mut noted, "card gone", 0), Some("same_search"));
    assert_eq!(find(&mut noted, "card gone", 1), Some("same_search"));
    for (kinds, expected) in [(64, Some("same_search")), (65, None)] {
        let mut noted = Noted::new(Repeats::Progress);
        for query in ["lost card", "stolen card"] {
            assert_eq!(find(&mut noted, query, 0), None);
        }
        (1..kinds).for_each(|place| assert_eq!(find(&mut noted, "lost card", place), None));
        assert_eq!(find(&mut noted, "card gone", 0), expected, "{kinds}");
    }
}

#[test]
fn a_cycle_is_noted_when_its_second_round_is_closed() {
    let steps = ["write a = 1", "read t = no", "write b = 1", "read t = yes"];
    let twice: Vec<&str> = steps.iter().chain(&steps).copied().collect();
    let codes = Noted::new(Repeats::Progress).codes(&twice);
    assert_eq!(codes[7], "cycle", "{codes:?}");
    let mut noted = Noted::new(Repeats::Progress);
    noted.codes(&twice);
    assert_eq!(noted.codes(&steps[..1]), ["refused"]);
}

#[test]
fn the_numbers_are_settings_and_two_policies_have_no_notes() {
    let steps = ["read a = !no", "read b = !no", "read c = !no", "look x = 1", "look x = 1"];
    for repeats in [Repeats::ThreeTier, Repeats::Off] {
        assert_eq!(Noted::new(repeats).codes(&steps[..4]), ["-"; 4], "{repeats:?}");
    }
    let with =
        |notes| Noted(Guard::new(Repeats::Progress, ThreeTier::default()).with_notes(notes)).codes(&steps);
    assert_eq!(with(RepeatNotes::OFF), ["-"; 5]);
    assert_eq!(with(RepeatNotes { same: 0, ..RepeatNotes::default() }), ["-", "-", "failures", "-", "-"]);
    assert_eq!(with(RepeatNotes { failures: 0, same: 3, searches: 0 }), ["-", "-", "failures", "-", "-"]);
    let finds = ["find a b = 7", "find c d = 7", "find e f = 7"];
    for (searches, expected) in
        [(0, ["-", "-", "-"]), (1, ["-", "same_search", "same_search"]), (3, ["-", "-", "same_search"])]
    {
        let guard = Guard::new(Repeats::Progress, ThreeTier::default());
        let notes = RepeatNotes { searches, ..RepeatNotes::default() };
        assert_eq!(Noted(guard.with_notes(notes)).codes(&finds), expected, "{searches}");
    }
    // 1 is 2: what happened once repeats nothing.
    let least = RepeatNotes { failures: 1, same: 1, searches: 1 };
    assert_eq!(with(least), ["-", "failures", "failures", "-", "same_result"]);
}

#[test]
fn three_refused_calls_in_a_row_are_a_loop_that_should_stop() {
    let mut noted = Noted::new(Repeats::Progress);
    noted.codes(&["read a = 1", "read a = 1", "read a = 1", "read a = 1"]);
    assert!(!noted.0.is_stuck());
    noted.codes(&["read b = 1", "read a = 1", "read a = 1"]);
    assert!(!noted.0.is_stuck(), "one that ran came between");
    noted.codes(&["read a = 1"]);
    assert!(noted.0.is_stuck());
    noted.0.new_turn();
    assert!(!noted.0.is_stuck());
}

#[test]
fn what_failed_and_what_was_searched_for_before_a_turn_is_not_counted_in_it() {
    let steps = ["find a b = 7", "find c d = 7", "read x = !no such row"];
    let mut noted = Noted::new(Repeats::Progress);
    assert_eq!(noted.codes(&steps), ["-"; 3]);
    noted.0.new_turn();
    assert_eq!(noted.codes(&["find e f = 7", "read y = !no such row"]), ["-"; 2]);
    let mut noted = Noted::new(Repeats::Progress);
    noted.codes(&steps);
    assert_eq!(noted.codes(&["find e f = 7", "read y = !no such row"]), ["same_search", "failures"]);
}

#[test]
fn a_note_is_one_short_line() {
    let all = RepeatNote::Failures { times: 3, same: 2, varied: true };
    let message = all.message("read", "no such row", &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(
        message,
        "tool 'read' has failed 3 times in a row with varied arguments, the last 2 times with the same error; the \
         last error was: no such row; other tools are: a, b, c, d, e and others"
    );
    // Another tool is named where this one does not help.
    for (note, end) in [
        (RepeatNote::SameResult { times: 2, similar: false }, "between; use it, change something, or finish"),
        (RepeatNote::SameResult { times: 2, similar: true }, "between; use it, change something, or finish"),
        (RepeatNote::SameSearch { times: 3 }, "between; other tools are: a"),
        (RepeatNote::Cycle { length: 2, times: 2 }, "the same results; try something else, or finish"),
        (RepeatNote::Failures { times: 3, same: 1, varied: false }, "in a row; other tools are: a"),
    ] {
        let message = note.message("read", "", &["a"]);
        assert!(message.ends_with(end), "{message}");
        assert!(!note.message("read", "", &[]).contains("other tools"), "{note:?}");
    }
    let five = all.message("read", "", &["a", "b", "c", "d", "e"]);
    assert!(five.ends_with("the same error; other tools are: a, b, c, d, e"), "{five}");
    for note in [
        all,
        RepeatNote::SameResult { times: 2, similar: true },
        RepeatNote::SameSearch { times: 3 },
        RepeatNote::Cycle { length: 5, times: 2 },
    ] {
        assert!(note.summary().chars().count() < 160 && !note.summary().contains('\n'), "{note:?}");
        assert_eq!(serde_json::to_value(note).unwrap()["by"], note.code());
    }
}

#[test]
fn the_line_for_people_says_what_repeats() {
    let cases = [
        (RepeatNote::Failures { times: 3, same: 1, varied: false }, "the tool has failed 3 times in a row"),
        (
            RepeatNote::Failures { times: 3, same: 2, varied: true },
            "the tool has failed 3 times in a row with varied arguments, the last 2 times with the same error",
        ),
        (
            RepeatNote::Failures { times: 3, same: 3, varied: false },
            "the tool has failed 3 times in a row with the same error",
        ),
        (
            RepeatNote::Failures { times: 3, same: 3, varied: true },
            "the tool has failed 3 times in a row with varied arguments and the same error",
        ),
    ];
    for (note, line) in cases {
        assert_eq!(note.summary(), line);
    }
}

#[test]
fn a_failure_that_may_pass_is_one_of_a_kind_only_once_its_tries_are_used_up() {
    // The same error twice is noted, unless the tool is tried again: that is not a repeat by the model.
    let noted = |attempts: u32| {
        let setup = conversation().with(|spec| spec.tools[0].attempts = attempts);
        let mut world = setup.start();
        for name in ["a", "b"] {
            let failed = Observation::failed(Status::RetryableError, "Device", "busy");
            world = world.replied(&look(name));
            let key = world.tools()[0].key.to_string();
            world = world.finished(&key, failed);
        }
        let last = world.run.evidence().last().unwrap().id;
        world.run.repeat_note(last)
    };
    assert_eq!(noted(2), None);
    assert_eq!(noted(1), Some(RepeatNote::Failures { times: 2, same: 2, varied: true }));
}

fn look(name: &str) -> DraftReply {
    calls(&[("fetch_device", target(name))])
}

fn fails(mut world: World, text: &str) -> World {
    while world.phase() == "acting" {
        let key = world.tools()[0].key.to_string();
        world = world.finished(&key, Observation::failed(Status::PermanentError, "Device", text));
    }
    world
}

#[test]
fn a_run_keeps_its_notes_and_says_them_once() {
    // I-11: the note is in the journal with the event that settled the batch, and a replay has the same.
    let mut world = conversation().start();
    for name in ["a", "b", "c"] {
        world = fails(world.replied(&look(name)), "no such device");
    }
    let expected = [
        None,
        Some(RepeatNote::Failures { times: 2, same: 2, varied: true }),
        Some(RepeatNote::Failures { times: 3, same: 3, varied: true }),
    ];
    let notes: Vec<_> = world.run.evidence().iter().map(|it| world.run.repeat_note(it.id)).collect();
    assert_eq!(notes, expected);
}

#[test]
fn calls_of_one_reply_fail_together_and_count_once() {
    // Two, since the breaker opens after three.
    let reply = calls(&[("fetch_device", target("a")), ("fetch_device", target("b"))]);
    let world = fails(conversation().parallel().start().replied(&reply), "no such device");
    assert!(world.run.evidence().iter().all(|it| world.run.repeat_note(it.id).is_none()));
    let world = fails(world.replied(&look("d")), "no such device");
    let last = world.run.evidence().last().unwrap();
    let note = RepeatNote::Failures { times: 2, same: 2, varied: true };
    assert_eq!(world.run.repeat_note(last.id), Some(note));
    // The arguments differed also where those of the last two calls are the same.
    let busy = |mut world: World| {
        while world.phase() == "acting" {
            let key = world.tools()[0].key.to_string();
            world = world.finished(&key, Observation::failed(Status::RetryableError, "Device", "busy"));
        }
        world
    };
    let setup = conversation().parallel().with(|spec| spec.tools[0].attempts = 1);
    let world = busy(busy(setup.start().replied(&reply)).replied(&look("a")));
    let last = world.run.evidence().last().unwrap();
    assert_eq!((world.run.evidence().len(), world.run.repeat_note(last.id)), (3, Some(note)));
}

#[test]
fn a_note_refuses_nothing() {
    // The grades in their order: a note with the second result, a refusal, a stop.
    let mut world = conversation().start();
    for _ in 0..2 {
        world = world.replied(&look("a"));
        let key = world.tools()[0].key.to_string();
        world = world.finished(&key, found("the same"));
    }
    let noted = world.run.evidence().last().unwrap().id;
    assert_eq!(world.run.repeat_note(noted), Some(RepeatNote::SameResult { times: 2, similar: false }));
    let world = world.replied(&look("a"));
    assert!(matches!(world.run.actions().last().unwrap().verdict, Verdict::Duplicate { .. }));
}

/// A step of a random script.
fn step() -> impl Strategy<Value = (usize, usize, usize)> {
    (0..4_usize, 0..4_usize, 0..4_usize)
}

fn played(steps: &[(usize, usize, usize)], reversed: bool) -> Vec<String> {
    let mut noted = Noted::new(Repeats::Progress);
    let said = |(tool, text, result): &(usize, usize, usize)| {
        let tool = ["read", "write", "find", "search"][*tool];
        let text = ["lost card", "card lost", "stolen card", "a"][*text];
        let result = ["1", "[]", "!no 17", "!no 18"][*result];
        // The order of members is kept, so that it could matter.
        let members = [("query", json!(text)), ("q", json!("x")), ("in", json!({"a": 1, "b": 2}))];
        let back = [("in", json!({"b": 2, "a": 1})), ("q", json!("x")), ("query", json!(text))];
        let members = if reversed { back } else { members };
        let arguments =
            Value::Object(members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect());
        format!("{:?}", noted.call(tool, &arguments, result))
    };
    steps.iter().map(said).collect()
}

proptest! {
    #![proptest_config(crate::common::cases(256))]

    #[test]
    fn the_order_of_members_changes_nothing(steps in prop::collection::vec(step(), 0..40)) {
        prop_assert_eq!(played(&steps, false), played(&steps, true));
    }

    #[test]
    fn a_run_without_repeats_has_no_notes_and_no_refusals(
        results in prop::collection::vec("[a-z]{1,12}", 0..60), policy in 0..3_usize,
    ) {
        // Each call differs and so does each result; nothing fails.
        let repeats = [Repeats::Progress, Repeats::NeverRerun, Repeats::Reuse][policy];
        let mut noted = Noted::new(repeats);
        for (n, result) in results.iter().enumerate() {
            let tool = ["read", "write", "find"][n % 3];
            let arguments = json!({ "query": format!("{result} number {n}"), "n": n });
            prop_assert_eq!(noted.call(tool, &arguments, &format!("{n}: {result}")), Some(None));
        }
    }

    #[test]
    fn a_failure_is_compared_by_its_beginning_alone(text in "\\PC{0,500}", tail in "\\PC{0,2000}") {
        // A text of any length costs what 400 characters cost.
        let beginning: String = text.chars().chain(std::iter::repeat(' ')).take(400).collect();
        let error = |text: &str| SettledCall::error_of(Status::PermanentError, text);
        prop_assert_eq!(error(&beginning), error(&format!("{beginning}{tail}")));
    }
}

#[test]
fn rules_of_a_run_carry_its_policy() {
    let gate = loop_core::spec::GateSettings::default();
    assert_eq!(Rules::of(&gate, Repeats::Reuse).repeats, Repeats::Reuse);
    assert!(
        SettledCall::error_of(Status::Ok, "x").is_none()
            && SettledCall::error_of(Status::Pending, "x").is_none()
    );
    // Note is the type that is journaled.
    let note = Note::ResultNoted {
        key: key("1/action-0"),
        evidence: loop_core::types::EvidenceId(1),
        note: RepeatNote::SameSearch { times: 3 },
    };
    let text = serde_json::to_string(&note).unwrap();
    assert_eq!(serde_json::from_str::<Note>(&text).unwrap(), note);
    assert!(text.contains(r#""type":"result_noted""#), "{text}");
}
