//! How the calls of one reply are run: one after another, or side by side; and what becomes of one that was made before.

use loop_testkit::*;

use loop_core::run::{PersonAnswer, StopMode};
use loop_core::spec::Repeats;
use loop_core::types::{EvidenceId, Observation, Status};
use loop_core::{EventKind, Run, StopReason, Verdict};
use serde_json::{Value, json};

fn looks(names: &[&str]) -> DraftReply {
    let wanted: Vec<(&str, Value)> = names.iter().map(|name| ("fetch_device", target(name))).collect();
    calls(&wanted)
}

fn statuses(world: &World) -> Vec<Status> {
    world.run.evidence().iter().map(|evidence| evidence.observation.status).collect()
}

#[test]
fn in_order_means_one_at_a_time() {
    // S1-25, C3
    let world = conversation().start().replied(&looks(&["a", "b", "c"]));
    let world = world.expect_tools(&["1/action-0#1 fetch_device"]).finished("1/action-0", found("a"));
    let world = world.expect_tools(&["1/action-1#1 fetch_device"]);
    // What is not commanded is not taken.
    let early =
        EventKind::ToolFinished { key: key("1/action-2"), attempt: 1, observation: found("c").into() };
    let world = world.rejects(early).finished("1/action-1", observed(Status::PermanentError));
    // One that fails does not keep the next from running.
    let world = world.expect_tools(&["1/action-2#1 fetch_device"]).finished("1/action-2", found("c"));
    assert_eq!(world.expect_call("2/main", 1).results(), ["run ok", "run permanent_error", "run ok"]);
}

#[test]
fn what_changes_something_is_announced_in_its_turn() {
    // S1-25, C3
    let reply = calls(&[("restart", target("a")), ("fetch_device", target("a")), ("restart", target("b"))]);
    let mut world = conversation().approving(&["restart"]).start().replied(&reply);
    let announced = |n: u32| EventKind::ToolStarted { key: key(&format!("1/action-{n}")), attempt: 1 };
    world = world.rejects(announced(2)).rejects(announced(1));
    world.apply(announced(0));
    world = world.rejects(announced(2)).expect_tools(&["1/action-0#1 restart"]).all_finished();
    world = world.rejects(announced(2)).expect_tools(&["1/action-1#1 fetch_device"]).all_finished();
    assert!(!world.tools()[0].announced);
    world.apply(announced(2));
    world.all_finished().expect_call("2/main", 1);
}

#[test]
fn side_by_side_is_for_those_that_only_look() {
    // C3: two reads at once, and one write after another.
    let reply = calls(&[
        ("restart", target("a")),
        ("fetch_device", target("a")),
        ("restart", target("b")),
        ("fetch_docs", target("b")),
    ]);
    let mut world = conversation().parallel().approving(&["restart"]).start().replied(&reply);
    world =
        world.expect_tools(&["1/action-0#1 restart", "1/action-1#1 fetch_device", "1/action-3#1 fetch_docs"]);
    let announced = |n: u32| EventKind::ToolStarted { key: key(&format!("1/action-{n}")), attempt: 1 };
    world = world.rejects(announced(2));
    world.apply(announced(0));
    world =
        world.rejects(announced(2)).finished("1/action-3", found("docs")).finished("1/action-0", found("0"));
    world = world.expect_tools(&["1/action-1#1 fetch_device", "1/action-2#1 restart"]);
    world = world.finished("1/action-2", found("2")).finished("1/action-1", found("1"));
    // The results stand in the order of the calls.
    let reported: Vec<String> =
        world.run.evidence().iter().map(|evidence| evidence.observation.text().to_string()).collect();
    assert_eq!(reported, ["0", "1", "2", "docs"]);
    world.expect_call("2/main", 1);
}

#[test]
fn a_stop_at_the_gate_lets_the_first_end_and_does_not_start_the_second() {
    // S1-25, C31
    let world = conversation().start().replied(&looks(&["a", "b"])).stop(StopMode::AtGate);
    let world =
        world.expect_tools(&["1/action-0#1 fetch_device"]).all_finished().ends(StopReason::ManualStop);
    assert_eq!(statuses(&world), [Status::Ok, Status::Cancelled]);
    assert_eq!(&*world.outcome().stopped_in.phase, "acting");
    // Taken back in time, it does.
    let world = conversation().start().replied(&looks(&["a", "b"])).stop(StopMode::AtGate).withdrawn();
    world.all_finished().expect_tools(&["1/action-1#1 fetch_device"]);
    // A write that waits for its turn never started.
    let reply = calls(&[("fetch_device", target("a")), ("wipe", target("a"))]);
    let world = conversation().approving(&["wipe"]).start().replied(&reply).stop(StopMode::AtGate);
    let world = world.all_finished().ends(StopReason::ManualStop);
    assert_eq!(statuses(&world), [Status::Ok, Status::Cancelled]);
}

#[test]
fn a_stop_now_cuts_off_only_what_runs() {
    // C31
    let world = conversation().start().replied(&looks(&["a", "b"])).stop(StopMode::Now);
    assert_eq!(world.aborts(), ["1/action-0"]);
    let world = world.finished_while_stopping("1/action-0").ends(StopReason::ManualStop);
    assert_eq!(statuses(&world), [Status::Ok, Status::Cancelled]);
    let side_by_side = conversation().parallel().start().replied(&looks(&["a", "b"])).stop(StopMode::Now);
    assert_eq!(side_by_side.aborts(), ["1/action-0", "1/action-1"]);
}

#[test]
fn a_crash_between_the_first_and_the_second_loses_neither() {
    // S1-25, I-12
    let between = || conversation().start().replied(&looks(&["a", "b"])).all_finished();
    // The second was free to start: it is tried again, under its own key.
    let world = between().resumed(5).expect_tools(&["1/action-1#2 fetch_device"]).all_finished();
    assert_eq!(world.expect_call("2/main", 1).results(), ["run ok", "run ok"]);
    // One that was not announced is not lost: it is the same try.
    let reply =
        calls(&[("fetch_device", target("a")), ("restart", target("a")), ("fetch_device", target("b"))]);
    let mut world = conversation().approving(&["restart"]).start().replied(&reply).all_finished().resumed(5);
    world = world.expect_tools(&["1/action-1#1 restart"]);
    world.apply(EventKind::ToolStarted { key: key("1/action-1"), attempt: 1 });
    world = world.resumed(5).expect_tools(&["1/action-1#2 restart"]).all_finished();
    let world = world.expect_tools(&["1/action-2#1 fetch_device"]).all_finished();
    assert_eq!(world.expect_call("2/main", 1).results(), ["run ok", "run ok", "run ok"]);
}

#[test]
fn a_write_that_may_have_happened_is_in_doubt_and_the_next_has_its_turn() {
    // H1, I-6
    let reply = calls(&[("wipe", target("a")), ("fetch_device", target("a"))]);
    let mut world = conversation().approving(&["wipe"]).start().replied(&reply);
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let world = world.resumed(5).expect_tools(&["1/action-1#1 fetch_device"]).all_finished();
    assert_eq!(world.expect_call("2/main", 1).results(), ["run in_doubt", "run ok"]);
}

#[test]
fn a_document_still_runs_what_was_allowed_side_by_side() {
    // S0-122
    let both = draft("low").asks("restart", target("a")).asks("wipe", target("a"));
    let world = run().people().start().replied(&both);
    let world = world.answered_by_person("1/action-0", PersonAnswer::Approved);
    let world = world.answered_by_person("1/action-1", PersonAnswer::Approved);
    world.expect_tools(&["1/action-0#1 restart", "1/action-1#1 wipe"]);
}

#[test]
fn all_orders_of_ending_side_by_side_come_to_the_same() {
    // I-20, C3
    for repeats in [Repeats::Off, Repeats::Reuse, Repeats::NeverRerun] {
        let reply =
            calls(&[("fetch_device", target("a")), ("restart", target("a")), ("fetch_device", target("b"))]);
        let setup = conversation().parallel().approving(&["restart"]).repeating(repeats);
        let start = setup.start().replied(&reply);
        let mut ends: Vec<Run> = Vec::new();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let finish =
                |world: World, n: &i32| world.finished(&format!("1/action-{n}"), found(&n.to_string()));
            ends.push(order.iter().fold(start.clone(), finish).expect_call("2/main", 1).run);
        }
        assert!(ends.iter().all(|end| *end == ends[0]), "{repeats:?}");
    }
}

// ---- repeats ----

#[test]
fn a_conversation_may_make_the_same_call_again() {
    // C4, C5: a changed result is progress.
    let world = conversation().start().replied(&looks(&["a", "a"])).all_finished().all_finished();
    let world = world.replied(&looks(&["a"])).expect_tools(&["2/action-0#1 fetch_device"]).all_finished();
    assert_eq!(world.results(), ["run ok", "run ok", "run ok"]);
    let setup = conversation().repeating(Repeats::NeverRerun);
    let world = setup.start().replied(&looks(&["a", "a"])).all_finished().replied(&looks(&["a"]));
    assert_eq!(world.results(), ["run ok", "duplicate", "duplicate"]);
}

#[test]
fn a_failure_that_may_pass_is_tried_again_under_its_key() {
    // C4, I-6, C26
    let write = calls(&[("restart", target("a"))]);
    let another = Observation::failed(Status::RetryableError, "restart", "another failure");
    let failed = |status| {
        let setup = conversation().approving(&["restart"]);
        let world = setup.start().replied(&write).finished("1/action-0", observed(status)).replied(&write);
        world.expect_tools(&["1/action-0#2 restart"])
    };
    // Once its tries are used up the call is another one, unless one of them may have happened.
    for (status, then) in
        [(Status::RetryableError, "3/action-0#1 restart"), (Status::Timeout, "1/action-0#3 restart")]
    {
        let world = failed(status).finished("1/action-0", another.clone());
        world.replied(&write).expect_tools(&[then]);
    }
}

#[test]
fn two_equal_calls_never_share_a_key_whichever_of_them_fails() {
    // I-6: the second succeeded, so a third is no try of it.
    for first_fails in [true, false] {
        let setup = conversation().parallel();
        let mut world = setup.start().replied(&looks(&["a", "a"]));
        let (failing, going) =
            if first_fails { ("1/action-0", "1/action-1") } else { ("1/action-1", "1/action-0") };
        world = world.finished(going, found("x")).finished(failing, observed(Status::RetryableError));
        let commanded: Vec<String> = world
            .replied(&looks(&["a"]))
            .tools()
            .iter()
            .map(|tool| format!("{}#{}", tool.key, tool.attempt))
            .collect();
        assert!(!commanded.contains(&format!("{going}#2")), "{commanded:?} after {going} had succeeded");
    }
}

#[track_caller]
fn check_reuse(replies: &[DraftReply], expected: &[&str]) {
    let setup = conversation().approving(&["restart"]).repeating(Repeats::Reuse);
    let mut world = setup.with(|spec| spec.tools[2].policy.repeats.allowed = true).start();
    for reply in replies {
        world = world.replied(reply);
        while world.phase() == "acting" {
            world = world.all_finished();
        }
    }
    assert_eq!(world.results(), expected);
}

#[test]
fn what_was_looked_up_is_given_again_until_something_changes() {
    // C4, S2-100
    let look = || looks(&["a"]);
    let write = || calls(&[("restart", target("a"))]);
    check_reuse(&[look(), look()], &["run ok", "duplicate"]);
    check_reuse(&[looks(&["a", "a"])], &["run ok", "duplicate"]);
    check_reuse(&[look(), looks(&["b"])], &["run ok", "run ok"]);
    check_reuse(&[look(), write(), look()], &["run ok", "run ok", "run ok"]);
    // What changes something is never given again.
    check_reuse(&[write(), write()], &["run ok", "run ok"]);
    check_reuse(&[calls(&[("restart", target("a")), ("restart", target("a"))])], &["run ok", "run ok"]);
    // Within one reply as well.
    let around =
        calls(&[("fetch_device", target("a")), ("restart", target("a")), ("fetch_device", target("a"))]);
    check_reuse(&[around], &["run ok", "run ok", "run ok"]);
    let before = calls(&[("restart", target("a")), ("fetch_device", target("a"))]);
    check_reuse(&[look(), before], &["run ok", "run ok", "run ok"]);
}

#[test]
fn a_failure_is_not_given_again() {
    // C4, C10
    let setup = || conversation().repeating(Repeats::Reuse).start().replied(&looks(&["a"]));
    let world = setup().finished("1/action-0", observed(Status::PermanentError)).replied(&looks(&["a"]));
    world.expect_tools(&["2/action-0#1 fetch_device"]);
    let world = setup().finished("1/action-0", observed(Status::Empty)).replied(&looks(&["a"]));
    let of = Verdict::Duplicate { of: key("1/action-0"), evidence: Some(EvidenceId(1)), rule: None };
    assert_eq!(world.run.actions()[1].verdict, of);
}

#[test]
fn the_same_question_three_times_over_is_no_progress() {
    // C5: reuse brings nothing new.
    let look = looks(&["a"]);
    let world = conversation().repeating(Repeats::Reuse).start().replied(&look).all_finished();
    let world = world.replied(&look).replied(&look).replied(&look).expect_phase("final_pass");
    world.replied(&text("Enough.")).ends(StopReason::NoProgress);
}

#[test]
fn a_denied_change_changed_nothing() {
    // S2-100
    let setup = conversation().people().repeating(Repeats::Reuse);
    let both = calls(&[("fetch_device", target("a")), ("restart", target("a"))]);
    let world = setup.start().replied(&both).all_finished();
    let world = world.answered_by_person("1/action-1", PersonAnswer::Denied { why: "no".into() });
    assert_eq!(world.replied(&looks(&["a"])).results(), ["run ok", "denied denied", "duplicate"]);
}

#[test]
fn a_document_keeps_its_own_rule() {
    // S0-118
    let ask = draft("medium").asks("fetch_device", target("a"));
    let world = run().start().replied(&ask).all_finished().replied(&ask.member("x", json!(1)));
    assert_eq!(world.ends(StopReason::NoNewActions).verdicts(), ["run", "duplicate"]);
}

#[test]
fn what_may_have_happened_is_not_done_again_without_anybody_knowing() {
    // H1, I-6: consent that was given beforehand is for a call whose end is known.
    let write = calls(&[("wipe", target("a"))]);
    let in_doubt = |setup: Setup| {
        let mut world = setup.approving(&["wipe"]).start().replied(&write);
        world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
        world.resumed(5).expect_call("2/main", 1).replied(&write)
    };
    let world = in_doubt(conversation()).ends(StopReason::NeedsHuman);
    assert_eq!(world.results(), ["run in_doubt", "needs_person"]);
    let world = in_doubt(conversation().people()).answered_by_person("2/action-0", PersonAnswer::Approved);
    world.expect_tools(&["1/action-0#2 wipe"]);
    // Another one of the same tool is not in doubt.
    let mut world = conversation().approving(&["wipe"]).start().replied(&write);
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    world.resumed(5).replied(&calls(&[("wipe", target("b"))])).expect_tools(&["2/action-0#1 wipe"]);
}

#[test]
fn a_call_that_waits_for_a_person_is_the_one_of_its_step() {
    // M7, C3, S4-31: one action a step, also where a person has to allow it first.
    let mut single = conversation().people();
    let loop_core::spec::ProtocolSpec::Conversation(spec) = &mut single.spec.protocol else { unreachable!() };
    spec.execution = loop_core::spec::Execution::Single;
    let reply = calls(&[("wipe", target("a")), ("fetch_device", target("a")), ("nope", json!({}))]);
    let world = single.clone().start().replied(&reply).expect_phase("waiting_for_person");
    assert_eq!(world.verdicts(), ["needs_person", "one_at_a_time", "unknown_tool"]);
    let world = world.answered_by_person("1/action-0", PersonAnswer::Approved);
    world.expect_tools(&["1/action-0#1 wipe"]).all_finished().expect_call("2/main", 1);
    // What is refused is no step: the next one is.
    let reply = calls(&[("nope", json!({})), ("fetch_device", target("a")), ("wipe", target("a"))]);
    let world = single.start().replied(&reply).expect_tools(&["1/action-1#1 fetch_device"]);
    assert_eq!(world.verdicts(), ["unknown_tool", "run", "one_at_a_time"]);
}
