//! What a model is told of each call, in all styles and for all that can become of one.

use crate::common;

use std::fmt::Write as _;

use common::native::*;
use common::ok;
use loop_core::gate::{Breaker, DeniedBy, Limit};
use loop_core::policy::ResultOrigin;
use loop_core::reply::Reply;
use loop_core::run::PersonAnswer;
use loop_core::spec::{ErrorStyle, ProtocolSpec, Repeats};
use loop_core::types::{CommandKey, Observation, Slot, Status, ToolCall};
use loop_core::{RunSpec, StopReason, Verdict};
use loop_prompts::{call_result, observation_text};
use loop_testkit::STATUSES;

const STYLES: [ErrorStyle; 5] =
    [ErrorStyle::Plain, ErrorStyle::Quoted, ErrorStyle::Named, ErrorStyle::Prefixed, ErrorStyle::Tagged];

fn in_style(mut spec: RunSpec, style: ErrorStyle) -> RunSpec {
    match &mut spec.protocol {
        ProtocolSpec::Document(_) => unreachable!("native calls only"),
        ProtocolSpec::Conversation(conversation) => conversation.errors = style,
        ProtocolSpec::Output(output) => output.errors = style,
    }
    spec
}

/// One line for each result: `case: text`, with a mark for errors.
fn reported(world: &Native, cases: &[(&str, ToolCall)]) -> String {
    let results = world.run.actions().iter().map(|action| call_result(&world.run, action));
    let mut out = String::new();
    for ((case, _), result) in cases.iter().zip(results) {
        let _ = writeln!(out, "{case}: {}{:?}", if result.is_error { "! " } else { "" }, result.text);
    }
    out
}

/// What came of calls that were run, one of each status.
fn observed(style: ErrorStyle) -> String {
    let named =
        STATUSES.iter().map(|status| (status.name(), look(status.name(), "fetch_bike", status.name())));
    let mut cases: Vec<(&str, ToolCall)> = named.collect();
    cases.push(("own_text", look("own", "fetch_bike", "own_text")));
    cases.push(("two_lines", look("two", "fetch_bike", "two_lines")));
    cases.push(("bare", look("bare", "fetch_bike", "bare")));
    let mut spec = in_style(conversation(), style);
    // Notes have tests of their own.
    spec.gate.repeat_notes = loop_core::spec::RepeatNotes::OFF;
    let mut world = begin(spec, message("What is it?"));
    world.replied(calls("", cases.iter().map(|(_, call)| call.clone()).collect::<Vec<_>>()));
    world.tools_end(|parameters| {
        let has = |name: &str| parameters.contains(&format!("\"{name}\""));
        match STATUSES.iter().find(|status| has(status.name())) {
            Some(Status::Ok) => ok("found 1", "| frame |\n|---|\n| FR-0042 |"),
            Some(Status::Empty) => failed(Status::Empty, "No data found"),
            // C32
            Some(Status::Timeout) => failed(Status::Timeout, "timeout after 12000 ms"),
            Some(Status::Cancelled) => failed(Status::Cancelled, "cancelled"),
            Some(status) => failed(*status, "no route"),
            None if has("own_text") => {
                Observation::new(Status::PermanentError, "gone", "# Gone\n\nIt was sold.", "null")
            }
            None if has("two_lines") => Observation::failed(Status::PermanentError, "Bicycle", "one\ntwo"),
            None => Observation::new(Status::PermanentError, "no text", "", "null"),
        }
    });
    world.grow();
    // What a listener is told when a tool ends is what the model reads.
    for (action, evidence) in world.run.actions().iter().zip(world.run.evidence()) {
        let text = observation_text(&world.run, action, &evidence.observation);
        assert_eq!(text, call_result(&world.run, action).text);
    }
    reported(&world, &cases)
}

/// What came of calls that were not run, as the core judges them.
fn refused(style: ErrorStyle) -> String {
    let cases = [
        ("ok", look("a", "fetch_bike", "FR-0042")),
        ("unknown_near", look("b", "fetch_bik", "FR-0042")),
        ("unknown_far", look("c", "launch", "FR-0042")),
        ("hostile_name", call("d", "a\u{202e}b\nc", "{}")),
        ("no_name", call("e", "", "{}")),
        ("missing_argument", call("f", "fetch_bike", "{}")),
        ("empty_arguments", call("g", "fetch_bike", "")),
        ("no_json", call("h", "fetch_bike", "{\"target\"")),
        ("no_object", call("i", "fetch_bike", "[1]")),
        ("forbidden", look("j", "delete_bike", "FR-0042")),
        ("needs_person", look("k", "update_bike", "FR-0042")),
    ];
    let mut spec = in_style(conversation(), style);
    spec.limits.tool_calls = 1;
    let mut world = begin(spec, message("What is it?"));
    world.replied(calls("", cases.each_ref().map(|(_, call)| call.clone())));
    world.tools_end(|_| ok("found 1", "x"));
    world.grow();
    let mut out = reported(&world, &cases);

    // Over the limit, and what the core judges so only elsewhere.
    let mut spec = in_style(conversation(), style);
    spec.limits.tool_calls = 1;
    let mut world = begin(spec, message("What is it?"));
    world.replied(calls("", [look("a", "fetch_bike", "1"), look("b", "fetch_bike", "2")]));
    world.tools_end(|_| ok("found 1", "x"));
    let result = call_result(&world.run, &world.run.actions()[1]);
    let _ = writeln!(out, "over_limit: {}{:?}", if result.is_error { "! " } else { "" }, result.text);
    let action = |verdict: Verdict| {
        let mut action = (*world.run.actions()[0]).clone();
        (action.verdict, action.evidence) = (verdict, None);
        action
    };
    let duplicate =
        Verdict::Duplicate { of: CommandKey::new(1, Slot::Action(0)), evidence: None, rule: None };
    for (case, verdict) in [
        ("never_settled", Verdict::Run),
        // C27
        ("skipped", Verdict::Skipped),
        ("denied", Verdict::Denied { why: "not today".into(), by: DeniedBy::Policy }),
        // S3-29
        ("duplicate", duplicate),
        ("stopped", Verdict::Ended { reason: StopReason::ManualStop }),
        // W1
        ("a_persons_no", Verdict::Denied { why: "not on a Friday".into(), by: DeniedBy::Person }),
        ("silence", Verdict::Denied { why: "nobody answered in time".into(), by: DeniedBy::Silence }),
        ("one_at_a_time", Verdict::OneAtATime),
        ("breaker_of_tools", Verdict::BreakerOpen { breaker: Breaker::ToolFailures }),
        ("breaker_of_denials", Verdict::BreakerOpen { breaker: Breaker::Denied }),
        ("breaker_of_arguments", Verdict::BreakerOpen { breaker: Breaker::BadArguments }),
        ("limit_of_its_tool", Verdict::OverLimit { limit: Limit::OfTool { calls: 3 } }),
    ] {
        let result = call_result(&world.run, &action(verdict));
        let _ = writeln!(out, "{case}: {}{:?}", if result.is_error { "! " } else { "" }, result.text);
    }
    out
}

/// What is told of outputs and submissions.
fn outputs(style: ErrorStyle) -> String {
    let mut world = begin(in_style(output(), style), message("Write it down."));
    world.replied(calls("", [look("a", "save_job", "x")]));
    let mut out = format!("output: {:?}\n", call_result(&world.run, &world.run.actions()[0]).text);
    for (case, first) in [("submitted", true), ("submitted_too_early", false)] {
        let mut world = begin(in_style(reflection(), style), message("Write it down."));
        if first {
            world.replied(calls("", [look("a", "save_job", "x")]));
            world.tools_end(|_| ok("a job", "# Job x"));
        }
        world.replied(calls("", [call("b", "submit", "{}")]));
        let result = call_result(&world.run, world.run.actions().last().unwrap());
        let _ = writeln!(out, "{case}: {}{:?}", if result.is_error { "! " } else { "" }, result.text);
    }
    out
}

#[test]
fn every_end_of_a_call_has_its_words_in_every_style() {
    // C8, C32, S0-67, S0-88, S1-29, S1-d1, S1-d2, S2-35, S2-36, S2-76, S2-77, S4-79, S4-80
    for style in STYLES {
        let text = format!(
            "# of calls that were run\n{}\n# of calls that were not\n{}\n# of outputs\n{}",
            observed(style),
            refused(style),
            outputs(style)
        );
        check_text(&format!("results_{}", style.name()), &text);
    }
}

#[test]
fn only_what_was_found_or_found_to_be_absent_or_awaited_is_no_error() {
    for status in STATUSES {
        let mut world = begin(conversation(), message("What is it?"));
        world.replied(calls("", [look("a", "fetch_bike", "FR-0042")]));
        world.tools_end(|_| failed(status, "no route"));
        let result = call_result(&world.run, &world.run.actions()[0]);
        let is_plain = [Status::Ok, Status::Empty, Status::Pending, Status::Skipped].contains(&status);
        assert_eq!(result.is_error, !is_plain, "{status:?}");
        assert!(!result.text.trim().is_empty(), "{status:?}");
    }
}

#[test]
fn a_repeated_call_is_given_what_the_first_one_brought() {
    // C5, S2-100
    let mut spec = conversation();
    spec.gate.repeats = Some(Repeats::Reuse);
    let mut world = begin(spec, message("What is it?"));
    let same = || [look("a", "fetch_bike", "FR-0042"), look("b", "fetch_bike", "FR-0042")];
    world.replied(calls("", same()));
    world.tools_end(|_| ok("found 1", "{\"frame\": 1}\n"));
    world.grow();
    assert_eq!(world.results(), ["{\"frame\": 1}\n", "(cached, pass 1)\n{\"frame\": 1}\n"]);
    world.replied(calls("", same()));
    world.tools_end(|_| unreachable!("nothing runs"));
    world.grow();
    assert_eq!(world.results(), ["(cached, pass 1)\n{\"frame\": 1}\n"; 2]);
}

#[test]
fn a_repeated_call_beside_one_that_failed_fails_likewise() {
    let mut spec = conversation();
    spec.gate.repeats = Some(Repeats::Reuse);
    let mut world = begin(spec, message("What is it?"));
    world.replied(calls("", [look("a", "fetch_bike", "FR-0042"), look("b", "fetch_bike", "FR-0042")]));
    world.tools_end(|_| failed(Status::RetryableError, "busy"));
    world.grow();
    assert_eq!(world.results(), ["! Error: busy", "! (cached, pass 1)\nError: busy"]);
}

#[test]
fn a_person_who_says_no_is_quoted() {
    let mut spec = conversation();
    spec.gate.people = true;
    let mut world = begin(spec, message("Change it."));
    world.replied(calls("", [look("a", "update_bike", "1"), look("b", "fetch_bike", "2")]));
    world.tools_end(|_| ok("found", "it"));
    world.answered(PersonAnswer::Denied { why: "not on Sundays".into() });
    world.grow();
    assert_eq!(world.results(), ["! Error: A person denied it: not on Sundays", "it"]);
}

#[test]
fn a_write_that_was_cut_off_is_in_doubt() {
    let mut spec = conversation();
    spec.tools[2].effect = loop_core::types::Effect::WriteIrreversible;
    spec.gate.approved = vec!["update_bike".into()];
    let mut world = begin(spec, message("Change it."));
    world.replied(calls("", [look("a", "update_bike", "1")]));
    world.tools_end(|_| failed(Status::Timeout, "timeout after 12000 ms"));
    world.grow();
    assert_eq!(world.results(), ["! Error: timeout after 12000 ms; it may or may not have happened"]);
}

#[test]
fn a_result_of_every_style_says_how_its_call_ended_and_who_wrote_it() {
    for style in STYLES {
        for status in STATUSES {
            let mut world = begin(in_style(conversation(), style), message("Change it."));
            world.replied(calls("", [look("a", "fetch_bike", "1")]));
            world.tools_end(|_| failed(status, "no route"));
            let result = call_result(&world.run, &world.run.actions()[0]);
            assert_eq!(result.status, Some(status), "{style:?}");
            let is_doubted = result.text.contains("may or may not have happened");
            assert_eq!(is_doubted, status == Status::InDoubt, "{style:?} {status:?}");
            let is_reported = [Status::Denied, Status::Duplicate, Status::Skipped].contains(&status);
            let of_tool = ResultOrigin::Tool { untrusted: false, private: false };
            let origin = if is_reported { ResultOrigin::Verdict } else { of_tool };
            assert_eq!(result.origin, Some(origin), "{style:?} {status:?}");
        }
    }
}

#[test]
fn names_of_any_length_stay_short() {
    let mut world = begin(conversation(), message("What is it?"));
    let name = "x".repeat(10_000);
    world.replied(calls("", [call("a", &name, "{}"), look("b", "fetch_bike", "1")]));
    world.tools_end(|_| ok("found", "it"));
    world.grow();
    assert_eq!(world.results()[0], format!("! Error: Unknown tool {}…", "x".repeat(127)));
}

#[test]
fn a_success_is_handed_on_and_not_copied() {
    let mut world = begin(conversation(), message("What is it?"));
    world.replied(calls("", [look("a", "fetch_bike", "1")]));
    world.tools_end(|_| ok("found", "  as it is \n"));
    let evidence = &world.run.evidence()[0].observation.markdown;
    let result = call_result(&world.run, &world.run.actions()[0]);
    assert!(std::sync::Arc::ptr_eq(&result.text, evidence));
    world.replied(Reply::text("Done."));
}

// ---- repeats, breakers, evidence ----

/// Three times the same question, whose tool brings the same: what the third and the fourth are told.
fn requested_again(change: impl FnOnce(&mut loop_core::RunSpec)) -> Vec<String> {
    let mut spec = conversation();
    change(&mut spec);
    let mut world = begin(spec, message("What is it?"));
    let mut reported = Vec::new();
    for n in 0..4 {
        world.replied(calls("", [look("a", "fetch_bike", "FR-0042")]));
        world.tools_end(|_| ok("found 1", "{\"frame\": 1}\n"));
        world.grow();
        if n > 1 {
            reported.extend(world.results());
        }
    }
    reported
}

#[test]
fn a_refused_repeat_says_why_and_the_second_time_what_to_do() {
    // S3-23, S4-40, I-32: the reason, then one nudge.
    let reported = requested_again(|_| {});
    let why = "! Error: Tool 'fetch_bike' has already returned the same result 2 times, and nothing was \
               changed since; its result is that of pass 2";
    let nudge = "asking again changes nothing; use what you have, try something else, or finish";
    assert_eq!(reported, [why.to_owned(), format!("{why}; {nudge}")]);
}

#[test]
fn a_refused_repeat_gives_the_earlier_result_again_where_that_is_set() {
    // C5
    let reported =
        requested_again(|spec| spec.gate.on_duplicate = loop_core::spec::OnDuplicate::ReplayCached);
    let nudge = "asking again changes nothing; use what you have, try something else, or finish";
    let again = [
        "(cached, pass 2)\n{\"frame\": 1}\n".to_owned(),
        format!("(cached, pass 2: {nudge})\n{{\"frame\": 1}}\n"),
    ];
    assert_eq!(reported, again);
    let reported = requested_again(|spec| spec.gate.on_duplicate = loop_core::spec::OnDuplicate::Deny);
    assert!(
        reported[0].starts_with("! Error: Not permitted: Tool 'fetch_bike' has already"),
        "{}",
        reported[0]
    );
}

#[test]
fn the_three_tiers_speak_as_they_were_written() {
    // S3-23, S3-28, S3-29: word for word, the second time as well.
    let reported = requested_again(|spec| spec.gate.repeats = Some(Repeats::ThreeTier));
    let exact = "! Error: Tool 'fetch_bike' was already executed with identical parameters";
    assert_eq!(reported, [exact, exact]);
    let reported = requested_again(|spec| {
        spec.gate.repeats = Some(Repeats::ThreeTier);
        spec.gate.three_tier.other = 1;
    });
    let limit = "! Error: Tool 'fetch_bike' has reached its execution limit (1) for this turn";
    assert_eq!(reported, [limit, limit]);
}

#[test]
fn a_tool_that_is_not_run_any_more_says_so() {
    // S4-67
    let mut world = begin(conversation(), message("What is it?"));
    for name in ["1", "2", "3", "4"] {
        world.replied(calls("", [look("a", "fetch_bike", name)]));
        world.tools_end(|_| failed(Status::Timeout, "timeout after 12000 ms"));
        world.grow();
    }
    let why = "! Error: Not run: it failed too often in a row, and is not run any more in this run \
         (gate.breakers.tool_failures)";
    assert_eq!(world.results(), [why]);
}

#[test]
fn an_answer_without_its_evidence_is_told_what_is_missing() {
    // S4-54: as a message of the user, after the answer; and it stays.
    let mut spec = conversation();
    spec.gate.required_tools = vec!["fetch_bike".into()];
    let mut world = begin(spec, message("What is it?"));
    world.replied(loop_core::reply::Reply::text("Surely a bicycle."));
    let turns = world.grow().turns;
    let Some(loop_llm::Message::User { text, .. }) = turns.last() else { panic!("{turns:?}") };
    let missing = "this is demanded first, and is not there: a result of `fetch_bike`";
    assert_eq!(text.trim(), format!("The output was not accepted. evidence: {missing}"));
}
