//! Typed outputs: attempts, passes, what ends an attempt, what becomes of a rejected value, and every way out.

use loop_testkit::*;

use loop_core::gate::Measure;
use loop_core::reply::FinishReason;
use loop_core::run::{AttemptState, CheckResult, Output, PersonAnswer, Rejection, StopMode};
use loop_core::spec::{ArgSpec, Repeats};
use loop_core::types::{Status, StopClass};
use loop_core::{EventKind, Note, StopReason, Verdict};
use serde_json::{Value, json};

fn save(name: &str) -> DraftReply {
    calls(&[("save", target(name))])
}

fn look(name: &str) -> DraftReply {
    calls(&[("fetch_device", target(name))])
}

fn value(name: &str) -> String {
    target(name).to_string()
}

fn submit() -> DraftReply {
    calls(&[("submit", json!({}))])
}

fn is(world: &World, name: &str, valid: bool) -> bool {
    world.outcome().output == Some(Output { value: value(name).into(), valid })
}

// ---- without a reflection ----

#[test]
fn an_output_ends_the_attempt_and_is_validated() {
    // S2-17, S2-23, S2-70: at once, without a helper.
    let world = output().start().expect_call("1/main", 1).replied(&save("x"));
    assert_eq!(world.verdicts(), ["kept"]);
    let world = world.expect_check(&format!("1/check#1 {}", value("x"))).checked(CheckResult::Passed);
    let world = world.ends(StopReason::Completed);
    assert!(is(&world, "x", true));
    let outcome = world.outcome();
    assert_eq!(
        (outcome.stop.class, outcome.attempts, outcome.answer.as_ref()),
        (StopClass::Answered, 1, None)
    );
    assert_eq!(
        (outcome.totals.tool_calls, &*outcome.stopped_in.phase, outcome.stopped_in.attempt),
        (0, "validating", 1)
    );
}

#[test]
fn passes_follow_each_other_until_there_is_an_output() {
    // S2-15, S2-16, S2-52: helpers first; tokens add up.
    let world = output().start().replied(&look("a")).all_finished().expect_call("2/main", 1);
    let world = world.replied(&look("b")).all_finished().replied(&save("x")).checked(CheckResult::Passed);
    let world = world.ends(StopReason::Completed);
    assert_eq!((world.outcome().totals.passes, world.outcome().totals.usage.total()), (3, 3 * 150));
}

#[test]
fn calls_beside_an_output_all_run_and_the_last_output_counts() {
    // S2-73, S2-75
    let mixed = calls(&[
        ("fetch_device", target("a")),
        ("save", target("first")),
        ("fetch_docs", target("b")),
        ("save", target("last")),
        ("nope", json!({})),
    ]);
    let world = output().start().replied(&mixed).expect_tools(&["1/action-0#1 fetch_device"]).all_finished();
    let world = world.expect_tools(&["1/action-2#1 fetch_docs"]);
    assert_eq!(world.to_check(), None);
    let world = world.all_finished().expect_check(&format!("1/check#1 {}", value("last")));
    assert_eq!(world.results(), ["run ok", "kept", "run ok", "kept", "unknown_tool"]);
    let world = world.checked(CheckResult::Passed).ends(StopReason::Completed);
    assert!(is(&world, "last", true));
}

#[test]
fn an_output_is_validated_as_it_was_written() {
    // S2-4: whatever it looks like, validation tells.
    for written in ["{\"target\": \"x\", \"more\": 1}", "not JSON", "[]", "", "{\"target\": \"cut"] {
        let world =
            output().start().replied(&calls(&[]).calling("save", written).ending(FinishReason::MaxTokens));
        world.expect_check(&format!("1/check#1 {written}"));
    }
}

#[test]
fn a_rejected_output_begins_the_next_attempt_in_the_same_history() {
    // S2-14, S2-18, S2-53
    let world = output().start().replied(&look("a")).all_finished().replied(&save("x"));
    let messages = world.run.messages();
    let world = world.checked(rejected("too short"));
    assert_eq!(world.run.messages(), messages + 1, "what is wrong is a message");
    let reported = Note::OutputRejected { attempt: 1, by: "rule".into(), message: "too short".into() };
    assert!(world.notes().contains(&reported));
    assert!(world.notes().contains(&Note::AttemptBegan { attempt: 2, pass: 3 }));
    let world = world
        .expect_call("3/main", 1)
        .replied(&save("y"))
        .checked(CheckResult::Passed)
        .ends(StopReason::Completed);
    assert!(is(&world, "y", true));
    assert_eq!((world.outcome().attempts, world.outcome().totals.passes), (2, 3));
    assert_eq!(world.outcome().totals.usage.total(), 3 * 150, "over both attempts");
    let states: Vec<&AttemptState> = world.run.attempts().iter().map(|attempt| &attempt.state).collect();
    let first = AttemptState::Rejected(Rejection { by: "rule".into(), message: "too short".into() });
    assert_eq!(states, [&first, &AttemptState::Valid]);
    let from: Vec<u32> = world.run.attempts().iter().map(|attempt| attempt.from_pass).collect();
    assert_eq!(from, [1, 3]);
}

#[test]
fn attempts_are_three_unless_set_otherwise() {
    // S2-18, C13: what was last said is in the outcome.
    let world = (1..=3)
        .fold(output().start(), |world, n| world.replied(&save(&n.to_string())).checked(rejected("no")));
    let world = world.ends(StopReason::MaxAttempts);
    let stop = &world.outcome().stop;
    assert_eq!((stop.class, world.outcome().attempts), (StopClass::Failed, 3));
    assert_eq!(
        (&stop.primary.value, &stop.primary.threshold),
        (&Measure::Count(3), &Some(Measure::Count(3)))
    );
    assert_eq!(stop.primary.change.as_ref().unwrap().to_string(), "output.attempts = 4");
    assert!(is(&world, "3", false));
    let once = output().output_spec(|output| output.attempts = 1);
    once.start().replied(&save("x")).checked(rejected("no")).ends(StopReason::MaxAttempts);
}

#[test]
fn a_validator_that_breaks_ends_the_run() {
    let world = output().start().replied(&save("x")).checked(broken()).ends(StopReason::ToolFailure);
    assert_eq!(world.outcome().stop.primary.value, Measure::BrokenCheck("rule: it panicked".into()));
    assert!(is(&world, "x", false));
}

#[test]
fn a_reply_without_calls_is_invalid() {
    // S2-60, S2-92, C11
    let world = output().start().replied(&text("Here you are: x")).ends(StopReason::InvalidResponse);
    let stop = &world.outcome().stop;
    // Issue 43: what is to be done about it is not to be guessed.
    let said = "the reply calls no tool, where `save` had to be called; not every model and server keeps to a forced \
                call (`tool_choice`)";
    assert_eq!(stop.primary.value, Measure::Text(said.into()));
    assert_eq!((stop.class, world.outcome().output.as_ref()), (StopClass::Failed, None));
    let cut = text("Let me th").ending(FinishReason::MaxTokens);
    let world = output().start().replied(&cut).ends(StopReason::InvalidResponse);
    let reported = "the reply was cut at the output limit before it called `save`";
    assert_eq!(world.outcome().stop.primary.value, Measure::Text(reported.into()));
    // W2
    assert_eq!(world.reasons(), [StopReason::InvalidResponse, StopReason::OutputLimit]);
    // Also where the limit fell into what nobody sees.
    let world = output().start().replied(&text("").ending(FinishReason::MaxTokens));
    assert_eq!(
        world.ends(StopReason::InvalidResponse).outcome().stop.primary.value,
        Measure::Text(reported.into())
    );
    // A refusal is one, and nothing at all is asked for again.
    output().start().replied(&text("No.").ending(FinishReason::Refusal)).ends(StopReason::Refused);
    let world = output().start().replied(&text(" \u{200b}")).replied(&text("")).expect_call("1/main", 3);
    world.replied(&text("\n")).ends(StopReason::ModelFailure);
}

#[test]
fn calls_that_cannot_run_have_their_results_and_the_attempt_goes_on() {
    // S2-76, S2-77, C10
    let bad = calls(&[("nope", json!({})), ("fetch_device", json!({}))]);
    let world = output().start().replied(&bad).expect_call("2/main", 1);
    assert_eq!(world.results(), ["unknown_tool", "invalid_arguments"]);
    let world = world.replied(&look("a")).finished("2/action-0", observed(Status::PermanentError));
    world
        .expect_call("3/main", 1)
        .replied(&save("x"))
        .checked(CheckResult::Passed)
        .ends(StopReason::Completed);
    // Again and again they end it, without a final pass.
    let patient = output().with(|spec| spec.gate.breakers.bad_arguments = 0);
    let world = patient.start().replied(&bad).replied(&bad).replied(&bad).ends(StopReason::NoProgress);
    assert_eq!(world.outcome().output, None);
    // S4-67: six calls in a row that no tool could take, five are the most.
    let world = output().start().replied(&bad).replied(&bad).replied(&bad).ends(StopReason::NeedsHuman);
    assert_eq!(world.reasons(), [StopReason::NeedsHuman, StopReason::NoProgress]);
}

#[test]
fn an_attempt_takes_so_many_passes_and_not_one_more() {
    // S2-38, S2-39, S2-64, S2-78: fifteen unless set otherwise; nothing is validated, and it is told where it was.
    let fifteen = (1..=15).fold(output().start(), |world, n: u32| {
        let world = world.expect_call(&format!("{n}/main"), 1).replied(&look(&n.to_string()));
        if world.run.is_done() { world } else { world.all_finished() }
    });
    let world = fifteen.ends(StopReason::MaxPasses);
    let stop = &world.outcome().stop;
    assert_eq!(
        (&stop.primary.value, &stop.primary.threshold),
        (&Measure::Count(15), &Some(Measure::Count(15)))
    );
    assert_eq!(stop.primary.change.as_ref().unwrap().to_string(), "output.passes_per_attempt = 16");
    let outcome = world.outcome();
    assert_eq!((outcome.stopped_in.attempt, outcome.stopped_in.pass), (1, 15));
    assert_eq!((outcome.totals.usage.total(), outcome.output.as_ref()), (15 * 150, None));
    // What the last of them asks for is left undone, and told.
    assert_eq!(world.results().last().unwrap(), "ended");
    // A new attempt has passes of its own.
    let two = || output().output_spec(|output| output.passes_per_attempt = 2).start();
    let second = two().replied(&look("a")).all_finished().replied(&save("x")).checked(rejected("no"));
    let second = second.replied(&look("b")).all_finished().replied(&look("c")).ends(StopReason::MaxPasses);
    assert_eq!((second.outcome().stopped_in.attempt, second.outcome().totals.passes), (2, 4));
    assert!(is(&second, "x", false), "the last output there is");
}

#[test]
fn an_output_on_the_last_permitted_pass_is_validated() {
    // S2-17, S2-39
    let of_attempt = output().output_spec(|output| output.passes_per_attempt = 1).start();
    of_attempt.replied(&save("x")).checked(CheckResult::Passed).ends(StopReason::Completed);
    let of_run =
        || output().limits(|limits| limits.passes = 1).start().expect_call("1/main", 1).replied(&save("x"));
    let world = of_run().checked(CheckResult::Passed).ends(StopReason::Completed);
    assert_eq!(world.reasons(), [StopReason::Completed, StopReason::MaxPasses]);
    // Rejected, there is no pass for another.
    let world = of_run().checked(rejected("no")).ends(StopReason::MaxPasses);
    assert!(is(&world, "x", false));
    assert_eq!(world.outcome().stop.class, StopClass::Partial);
    let last = output().output_spec(|output| output.attempts = 1).limits(|limits| limits.passes = 1);
    let world = last.start().replied(&save("x")).checked(rejected("no")).ends(StopReason::MaxAttempts);
    assert_eq!(world.reasons(), [StopReason::MaxAttempts, StopReason::MaxPasses]);
}

#[test]
fn limits_end_it_without_a_final_pass() {
    // S2-78, C12, C13
    let world = output().limits(|limits| limits.passes = 2).start().replied(&look("a")).all_finished();
    let world = world.expect_call("2/main", 1).replied(&look("b")).ends(StopReason::MaxPasses);
    assert_eq!(world.outcome().stop.primary.change.as_ref().unwrap().to_string(), "limits.passes = 3");
    let world =
        output().limits(|limits| limits.model_calls = 1).start().expect_call("1/main", 1).replied(&look("a"));
    world.ends(StopReason::MaxModelCalls);
    let world = output().limits(|limits| limits.tool_calls = 1).start().replied(&look("a")).all_finished();
    let world = world.replied(&look("b")).ends(StopReason::MaxToolCalls);
    assert_eq!(world.verdicts(), ["run", "over_limit"]);
    let world = output().limits(|limits| limits.tokens = Some(9_000)).start();
    world.replied(&look("a").using(Some(used(8_000, 2_000)))).ends(StopReason::TokenLimit);
    let messages =
        output().limits(|limits| limits.messages = Some(3)).start().replied(&look("a")).all_finished();
    messages.expect_call("2/main", 1).replied(&look("b")).all_finished().ends(StopReason::MaxMessages);
    // No time is held back for one.
    let world = output()
        .limits(|limits| limits.wall_ms = 100_000)
        .start()
        .replied(&look("a"))
        .wait(80_000)
        .all_finished();
    world.expect_call("2/main", 1).wait(20_000).deadline().ends(StopReason::Timeout);
}

#[test]
fn an_output_beside_calls_over_the_limit_is_validated_all_the_same() {
    // S2-73
    let mixed = calls(&[("fetch_device", target("a")), ("save", target("x"))]);
    let world = output().limits(|limits| limits.tool_calls = 1).start().replied(&look("b")).all_finished();
    let world = world.replied(&mixed);
    assert_eq!(world.verdicts(), ["run", "over_limit", "kept"]);
    world.checked(CheckResult::Passed).ends(StopReason::Completed);
}

#[test]
fn what_needs_consent_beside_an_output_is_asked_for_before_it_is_validated() {
    // S2-73
    let mixed = calls(&[("save", target("x")), ("wipe", target("a"))]);
    let world = output().people().start().replied(&mixed).expect_phase("waiting_for_person");
    let world = world.answered_by_person("1/action-1", PersonAnswer::Approved).all_finished();
    world
        .expect_check(&format!("1/check#1 {}", value("x")))
        .checked(CheckResult::Passed)
        .ends(StopReason::Completed);
    // Where nobody can be asked the output still stands.
    let world = output().start().replied(&mixed).expect_phase("validating");
    assert_eq!(world.results(), ["kept", "needs_person"]);
}

// ---- with a reflection ----

#[test]
fn a_reflected_output_is_answered_and_submitted() {
    // S2-24, S2-70
    let world = reflected().start().replied(&save("x")).expect_tools(&["1/action-0#1 save"]).all_finished();
    let world = world.expect_call("2/main", 1).replied(&submit());
    assert_eq!(world.verdicts(), ["run", "kept"]);
    let world = world.expect_check(&format!("2/check#1 {}", value("x"))).checked(CheckResult::Passed);
    assert!(is(&world.ends(StopReason::Completed), "x", true));
}

#[test]
fn the_last_output_is_the_one_that_is_submitted() {
    // S2-71
    let world = reflected().start().replied(&save("x")).all_finished().replied(&save("y")).all_finished();
    let world = world.replied(&look("a")).all_finished().replied(&submit());
    world.expect_check(&format!("4/check#1 {}", value("y")));
}

#[test]
fn to_submit_before_there_is_an_output_is_an_error() {
    // S2-60, S2-72
    let world = reflected().start().replied(&submit()).ends(StopReason::SubmitBeforeOutput);
    assert_eq!((world.outcome().stop.class, world.outcome().output.as_ref()), (StopClass::Failed, None));
    let world = reflected().start().replied(&look("a")).all_finished().replied(&submit());
    world.ends(StopReason::SubmitBeforeOutput);
    // One of another attempt is none of this one.
    let world =
        reflected().start().replied(&save("x")).all_finished().replied(&submit()).checked(rejected("no"));
    let world = world.replied(&submit()).ends(StopReason::SubmitBeforeOutput);
    assert!(is(&world, "x", false));
}

#[test]
fn an_output_and_a_submission_in_one_reply_go_together_in_either_order() {
    // S2-74, S2-d1
    let either: [Vec<(&str, Value)>; 2] = [
        vec![("save", target("x")), ("submit", json!({}))],
        vec![("submit", json!({})), ("save", target("x"))],
    ];
    for order in either {
        let world = reflected().start().replied(&calls(&order)).all_finished();
        let world = world.expect_check(&format!("1/check#1 {}", value("x"))).checked(CheckResult::Passed);
        world.ends(StopReason::Completed);
    }
    // The last of several, and every call beside them is processed.
    let mixed = calls(&[
        ("save", target("x")),
        ("submit", json!({})),
        ("fetch_device", target("a")),
        ("save", target("y")),
    ]);
    let world = reflected().start().replied(&mixed).all_finished().all_finished().all_finished();
    assert_eq!(world.results(), ["run ok", "kept", "run ok", "run ok"]);
    world.expect_check(&format!("1/check#1 {}", value("y")));
}

#[test]
fn an_output_that_nobody_can_read_is_answered_with_an_error_and_does_not_count() {
    // S2-d2
    let world = reflected().start().replied(&save("x")).all_finished();
    let world = world.replied(&calls(&[("save", json!({"target": 1}))])).expect_call("3/main", 1);
    assert_eq!(world.results(), ["run ok", "invalid_arguments"]);
    world.replied(&submit()).expect_check(&format!("3/check#1 {}", value("x")));
    let first = reflected().start().replied(&calls(&[("save", json!({"target": 1})), ("submit", json!({}))]));
    first.ends(StopReason::SubmitBeforeOutput);
}

#[test]
fn an_output_that_its_tool_cannot_read_is_taken_back() {
    // S2-d2: what a schema says beyond the core's part of it is known once the tool has answered.
    let schema_violation = || observed(Status::InvalidInput);
    let world = reflected().start().replied(&save("x")).all_finished();
    let world = world.replied(&save("y")).finished("2/action-0", schema_violation()).expect_call("3/main", 1);
    assert_eq!(world.run.attempts()[0].output.as_deref(), Some(&*value("x")));
    world.clone().replied(&submit()).expect_check(&format!("3/check#1 {}", value("x")));
    // Nor does it count when it is repeated.
    let world = world.replied(&save("y")).expect_call("4/main", 1);
    assert_eq!(world.results(), ["run ok", "run invalid_input", "duplicate"]);
    world.replied(&submit()).expect_check(&format!("4/check#1 {}", value("x")));
    // Beside its submission, in either order: the one before stands, or nothing was submitted.
    for order in [["y", "submit"], ["submit", "y"]] {
        let both: Vec<_> =
            order.map(|it| if it == "submit" { ("submit", json!({})) } else { ("save", target(it)) }).into();
        let key = |pass: u32| format!("{pass}/action-{}", order.iter().position(|it| *it == "y").unwrap());
        let world = reflected().start().replied(&save("x")).all_finished().replied(&calls(&both));
        let world = world.finished(&key(2), schema_violation());
        world.expect_check(&format!("2/check#1 {}", value("x")));
        let world = reflected().start().replied(&calls(&both)).finished(&key(1), schema_violation());
        let world = world.ends(StopReason::SubmitBeforeOutput);
        assert_eq!(world.outcome().output, None);
    }
    // Nobody is asked about a call of a reply that has failed.
    let asks = calls(&[("save", target("y")), ("wipe", target("a")), ("submit", json!({}))]);
    let world = reflected().people().start().replied(&asks).finished("1/action-0", schema_violation());
    let world = world.ends(StopReason::SubmitBeforeOutput);
    assert_eq!(world.results(), ["run invalid_input", "ended", "kept"]);
    // A stop that was asked for before stays the reason.
    let world = reflected().people().start().replied(&asks).stop(StopMode::AtGate);
    let world = world.finished("1/action-0", schema_violation()).ends(StopReason::ManualStop);
    assert_eq!(world.results(), ["run invalid_input", "needs_person", "kept"]);
    // The last of several that fits.
    let three = calls(&[("save", target("x")), ("save", target("y")), ("save", target("z"))]);
    let world = reflected().start().replied(&three).all_finished().finished("1/action-1", found("it"));
    let world = world.finished("1/action-2", schema_violation()).replied(&submit());
    world.expect_check(&format!("2/check#1 {}", value("y")));
    // A stop takes it back as well.
    let world = reflected()
        .start()
        .replied(&save("y"))
        .stop(StopMode::AtGate)
        .finished("1/action-0", schema_violation());
    assert_eq!(world.ends(StopReason::ManualStop).outcome().output, None);
}

#[test]
fn an_output_that_is_requested_twice_in_one_reply_is_taken_back_with_the_call_that_ran() {
    // S2-d2: the second is a repeat of the first, whose result is not known when the reply is judged.
    let twice = calls(&[("save", target("y")), ("save", target("y")), ("submit", json!({}))]);
    let setup = || reflected().repeating(loop_core::spec::Repeats::NeverRerun);
    let ends =
        |before: World, action: &str| before.replied(&twice).finished(action, observed(Status::InvalidInput));
    let world = ends(setup().start(), "1/action-0").ends(StopReason::SubmitBeforeOutput);
    assert_eq!(world.results(), ["run invalid_input", "duplicate", "kept"]);
    assert_eq!(world.outcome().output, None);
    let world = ends(setup().start().replied(&save("x")).all_finished(), "2/action-0");
    world.expect_check(&format!("2/check#1 {}", value("x")));
    // What the call that ran could read is the output.
    let world = setup().start().replied(&twice).finished("1/action-0", found("formatted"));
    world.expect_check(&format!("1/check#1 {}", value("y")));
}

#[test]
fn a_formatter_that_fails_is_told_and_the_output_stands() {
    // S2-77
    let world =
        reflected().start().replied(&save("x")).finished("1/action-0", observed(Status::PermanentError));
    world.expect_call("2/main", 1).replied(&submit()).expect_check(&format!("2/check#1 {}", value("x")));
}

#[test]
fn a_submission_takes_any_arguments() {
    for written in ["", "{}", "null", "{\"sure\": true}", "nonsense"] {
        let world = reflected().start().replied(&save("x")).all_finished();
        let world = world.replied(&calls(&[]).calling("submit", written)).expect_phase("validating");
        assert_eq!(world.verdicts(), ["run", "kept"]);
    }
}

#[test]
fn helpers_are_told_apart_from_the_output_by_their_own_names() {
    // Without a reflection `submit` is a tool like any other.
    let setup = output().with(|spec| spec.tools.push(tool("submit", loop_core::types::Effect::Read)));
    let world = setup.start().replied(&calls(&[("submit", target("a"))]));
    world.expect_tools(&["1/action-0#1 submit"]).all_finished().expect_call("2/main", 1);
}

// ---- ways out ----

#[test]
fn a_stop_at_the_gate_waits_for_the_validation() {
    // C31
    let validating =
        || output().start().replied(&save("x")).stop(StopMode::AtGate).expect_phase("validating");
    let world = validating().checked(CheckResult::Passed).ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::Completed]);
    assert!(is(&world, "x", true), "what was found out is kept");
    let world = validating().checked(rejected("no")).ends(StopReason::ManualStop);
    assert_eq!((world.outcome().attempts, is(&world, "x", false)), (1, true));
    validating().withdrawn().checked(rejected("no")).expect_call("2/main", 1);
    // Asked for while calls beside the output run, nothing is validated any more.
    let mixed = calls(&[("fetch_device", target("a")), ("save", target("x"))]);
    let world =
        output().start().replied(&mixed).stop(StopMode::AtGate).all_finished().ends(StopReason::ManualStop);
    assert!(is(&world, "x", false));
    // And while the reply is awaited.
    let world =
        output().start().started().stop(StopMode::AtGate).answered(&save("x")).ends(StopReason::ManualStop);
    assert!(is(&world, "x", false));
}

#[test]
fn a_stop_now_ends_it_in_every_phase_and_tells_which() {
    // C31, S2-79
    let mixed = calls(&[("fetch_device", target("a")), ("save", target("x"))]);
    let requested = calls(&[("wipe", target("a"))]);
    let worlds = [
        ("calling", output().start().started()),
        ("acting", output().start().replied(&mixed)),
        ("waiting_for_person", output().people().start().replied(&requested)),
        ("validating", output().start().replied(&save("x"))),
    ];
    for (phase, world) in worlds {
        let world = world.expect_phase(phase).stop(StopMode::Now);
        let world = if world.run.is_done() { world } else { world.deadline() };
        let world = world.ends(StopReason::ManualStop);
        let reported = &world.outcome().stopped_in;
        assert_eq!((&*reported.phase, reported.pass, reported.attempt), (phase, 1, 1));
        let late =
            EventKind::Checked { key: key("1/check"), attempt: 1, result: CheckResult::Passed, used: None };
        world.rejects(late);
    }
}

#[test]
fn the_wall_clock_goes_on_while_an_output_is_validated() {
    // C12
    let setup = || output().limits(|limits| limits.wall_ms = 50_000).start().replied(&save("x"));
    let commanded = |world: &World| match world.run.commands().as_slice() {
        [loop_core::Command::Check(command)] => command.timeout_ms,
        other => panic!("{other:?}"),
    };
    assert_eq!(commanded(&setup()), 30_000);
    let late =
        output().limits(|limits| limits.wall_ms = 50_000).start().started().wait(45_000).answered(&save("x"));
    assert_eq!(commanded(&late), 5_000);
    let world = setup().deadline().ends(StopReason::Timeout);
    assert_eq!((world.run.now().0, &*world.outcome().stopped_in.phase), (50_000, "validating"));
    assert!(is(&world, "x", false));
    // Time without a driver does not count.
    let world = setup().resumed(1_000_000).expect_phase("validating");
    assert_eq!(world.run.elapsed_ms(), 0);
}

#[test]
fn a_lost_validation_is_made_again_three_times_in_all() {
    // I-12
    let world = output().start().replied(&save("x")).resumed(5);
    let world = world.expect_check(&format!("1/check#2 {}", value("x")));
    let late =
        EventKind::Checked { key: key("1/check"), attempt: 1, result: CheckResult::Passed, used: None };
    let world = world.rejects(late).resumed(5).expect_check(&format!("1/check#3 {}", value("x")));
    let ended = world.clone().checked(CheckResult::Passed).ends(StopReason::Completed);
    assert!(is(&ended, "x", true));
    let world = world.resumed(5).ends(StopReason::ToolFailure);
    assert!(is(&world, "x", false));
    // Whoever asked for a stop before gets that as the reason.
    let world = output().start().replied(&save("x")).stop(StopMode::AtGate).resumed(5).resumed(5).resumed(5);
    world.ends(StopReason::ManualStop);
}

#[test]
fn an_output_that_comes_while_stopping_is_told_and_not_validated() {
    // C31: nothing that was paid for is lost.
    let world = output().start().started().stop(StopMode::Now).answered_while_stopping("1/main", &save("x"));
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(world.verdicts(), ["ended"]);
    assert_eq!(&*world.outcome().actions[0].action.parameters, value("x"));
    assert!(is(&world, "x", false));
}

#[test]
fn what_was_looked_up_is_not_given_again_in_the_next_attempt() {
    // S2-100
    let world =
        output().repeating(Repeats::Reuse).start().replied(&look("a")).all_finished().replied(&look("a"));
    assert_eq!(world.verdicts(), ["run", "duplicate"]);
    let world = world.replied(&save("x")).checked(rejected("no")).replied(&look("a"));
    world.expect_tools(&["4/action-0#1 fetch_device"]);
}

#[test]
fn passes_in_which_nothing_ran_are_counted_by_attempt() {
    // S2-14
    let lost = calls(&[("nope", json!({}))]);
    let world = output().start().replied(&lost).replied(&lost).replied(&save("x")).checked(rejected("no"));
    let world = world.replied(&lost).replied(&lost).expect_call("6/main", 1);
    world.replied(&lost).ends(StopReason::NoProgress);
}

#[test]
fn a_validation_of_something_else_is_not_taken() {
    let world = output().start().replied(&save("x"));
    let reported = |name: &str, attempt| EventKind::Checked {
        key: key(name),
        attempt,
        result: CheckResult::Passed,
        used: None,
    };
    let world =
        world.rejects(reported("2/check", 1)).rejects(reported("1/check", 2)).rejects(reported("1/main", 1));
    let world = world.checked(CheckResult::Passed).rejects(reported("1/check", 1));
    world.ends(StopReason::Completed);
    output().start().rejects(reported("1/check", 1));
    conversation().start().rejects(reported("1/check", 1));
}

#[test]
fn an_output_by_another_name_of_its_tool_is_one() {
    let setup = output().with(|spec| spec.tools.last_mut().unwrap().aliases = vec!["store".into()]);
    let world = setup.start().replied(&calls(&[("store", target("x"))])).expect_phase("validating");
    assert_eq!(world.run.actions()[0].verdict, Verdict::Kept);
}

#[test]
fn a_blank_argument_of_another_tool_is_refused_where_an_output_is_expected() {
    // The content of the output alone is left to its validation.
    let wants = json!({"type": "object", "required": ["target"], "properties": {"target": {"minLength": 1}}});
    let setup =
        output().with(|spec| spec.tools.iter_mut().for_each(|tool| tool.args = ArgSpec::from_schema(&wants)));
    let world = setup.start().replied(&look(" "));
    assert_eq!(world.verdicts(), ["invalid_arguments"]);
}
