//! Writes that may have happened, or are under way: never begun anew by themselves, whatever the policy.

use loop_testkit::*;
use std::collections::BTreeSet;

use loop_core::repeats::{CallFacts, Fingerprint, Rules};
use loop_core::run::{History, PersonAnswer, StopMode};
use loop_core::spec::{Breakers, RepeatScope, Repeats};
use loop_core::types::{Digest, Observation, Status, StopClass};
use loop_core::{EventKind, Note, StopReason};

const POLICIES: [Repeats; 5] =
    [Repeats::Progress, Repeats::Off, Repeats::Reuse, Repeats::ThreeTier, Repeats::NeverRerun];

/// Someone answers, and both writes may run unasked.
fn setup(repeats: Repeats) -> Setup {
    let setup = conversation().people().approving(&["restart", "wipe"]).repeating(repeats);
    setup.with(|spec| spec.gate.breakers = Breakers { tool_failures: 0, ..Breakers::default() })
}

fn write(tool: &str, name: &str) -> DraftReply {
    calls(&[(tool, target(name))])
}

fn no() -> PersonAnswer {
    PersonAnswer::Denied { why: "no".into() }
}

fn pending() -> Observation {
    let waits = Observation::new(Status::Pending, "not ready", "not ready yet", "{\"state\": \"waits\"}");
    Observation { retry_after_ms: Some(500), ..waits }
}

/// The one commanded tool ends like this.
#[track_caller]
fn ends(world: World, observation: Observation) -> World {
    let tools = world.tools();
    let [tool] = tools.as_slice() else { panic!("one tool is commanded, not {tools:?}") };
    world.finished(&tool.key.to_string(), observation)
}

#[track_caller]
fn failed(world: World, status: Status) -> World {
    ends(world, observed(status))
}

/// `wipe a` was cut off.
fn lost(repeats: Repeats) -> World {
    let world = setup(repeats).start().replied(&write("wipe", "a"));
    let world = failed(world, Status::Timeout);
    assert_eq!(world.results(), ["run in_doubt"], "{repeats:?}");
    world
}

#[test]
fn a_denial_does_not_settle_a_doubt() {
    // I-6, H1
    for repeats in POLICIES {
        let world = lost(repeats).replied(&write("wipe", "a"));
        assert_eq!(world.asks(), ["2/action-0"], "{repeats:?}");
        let world = world.answered_by_person("2/action-0", no());
        let world = ends(world.replied(&write("restart", "b")), found("done"));
        let world = world.replied(&write("wipe", "a"));
        assert_eq!(world.tools(), [], "{repeats:?}");
        // Where the policy refuses what was denied nobody has to be asked twice.
        let is_refused = matches!(repeats, Repeats::ThreeTier | Repeats::NeverRerun);
        let expected = if is_refused { Vec::new() } else { vec!["4/action-0".to_owned()] };
        assert_eq!(world.asks(), expected, "{repeats:?}");
    }
    // With nothing changed since, the same question is not put again.
    let world = lost(Repeats::Progress).replied(&write("wipe", "a")).answered_by_person("2/action-0", no());
    assert_eq!(world.replied(&write("wipe", "a")).verdicts(), ["run", "denied", "duplicate"]);
}

#[test]
fn an_approval_does_and_the_call_keeps_its_key() {
    for repeats in [Repeats::Progress, Repeats::Off, Repeats::Reuse] {
        let world = lost(repeats).replied(&write("wipe", "a"));
        let world = world.answered_by_person("2/action-0", PersonAnswer::Approved);
        let world = ends(world.expect_tools(&["1/action-0#2 wipe"]), found("done"));
        assert_eq!(world.replied(&write("wipe", "a")).asks(), ["3/action-0"], "it ran, so a person is asked");
        // It is in doubt again where it was cut off again.
        let world = lost(repeats).replied(&write("wipe", "a"));
        let world = world.answered_by_person("2/action-0", PersonAnswer::Approved);
        let world = failed(world, Status::Timeout).replied(&write("wipe", "a"));
        assert_eq!(world.asks(), ["3/action-0"], "{repeats:?}");
        let world = world.answered_by_person("3/action-0", no()).replied(&write("restart", "b"));
        let world = ends(world, found("done")).replied(&write("wipe", "a"));
        // What was denied took the number of a try with it.
        world.answered_by_person("5/action-0", PersonAnswer::Approved).expect_tools(&["1/action-0#4 wipe"]);
    }
}

#[test]
fn the_same_call_beside_it_is_not_started() {
    // [wipe a, wipe a] in one reply, of which the first is cut off.
    let twice = calls(&[("wipe", target("a")), ("wipe", target("a")), ("wipe", target("b"))]);
    let setup = |repeats| setup(repeats).with(|spec| spec.tools[3].policy.repeats.allowed = true);
    for repeats in [Repeats::Progress, Repeats::Off, Repeats::Reuse] {
        for setup in [setup(repeats), setup(repeats).parallel()] {
            let world = failed(setup.start().replied(&twice), Status::Timeout);
            let world = ends(world.expect_tools(&["1/action-2#1 wipe"]), found("done"));
            assert_eq!(world.results(), ["run in_doubt", "run duplicate", "run ok"], "{repeats:?}");
            let world = world.replied(&write("wipe", "a"));
            assert_eq!(world.asks(), ["2/action-0"], "{repeats:?}");
            let world = world.answered_by_person("2/action-0", PersonAnswer::Approved);
            let world = failed(world.expect_tools(&["1/action-0#2 wipe"]), Status::RetryableError);
            world.replied(&write("wipe", "a")).expect_tools(&["1/action-0#3 wipe"]);
        }
    }
    // A driver that is gone leaves the same behind.
    let mut world = setup(Repeats::Progress).start().replied(&twice);
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let world = ends(world.resumed(5).expect_tools(&["1/action-2#1 wipe"]), found("done"));
    assert_eq!(world.results(), ["run in_doubt", "run duplicate", "run ok"]);
}

#[test]
fn of_two_equal_calls_in_doubt_one_is_asked_about() {
    // I-7: found by the simulator. Approved one after the other, the second would run after the first has succeeded.
    let twice = calls(&[("wipe", target("a")), ("wipe", target("a"))]);
    for (repeats, asks) in [
        (Repeats::NeverRerun, 1),
        (Repeats::ThreeTier, 1),
        // These let an equal call run again, so each needs its own approval.
        (Repeats::Progress, 2),
        (Repeats::Off, 2),
        (Repeats::Reuse, 2),
    ] {
        let world = lost(repeats).replied(&twice);
        assert_eq!(world.asks().len(), asks, "{repeats:?}");
        if asks == 1 {
            assert_eq!(*world.verdicts().last().unwrap(), "duplicate", "{repeats:?}");
            let world = world.answered_by_person("2/action-0", PersonAnswer::Approved);
            let world = ends(world.expect_tools(&["1/action-0#2 wipe"]), found("done"));
            assert_eq!(world.tools(), [], "{repeats:?}");
        }
    }
}

#[test]
fn a_write_that_waits_for_an_approver_changes_nothing_for_its_reply() {
    // I-7: found by the simulator. The read has returned the same twice, and runs before the write or without it.
    let read = calls(&[("fetch_device", target("d"))]);
    let setup = conversation().people().repeating(Repeats::Progress);
    let twice = || {
        let world = ends(setup.clone().start().replied(&read), found("full"));
        ends(world.replied(&read), found("full"))
    };
    let both = calls(&[("wipe", target("a")), ("fetch_device", target("d"))]);
    let world = twice().replied(&both);
    assert_eq!(world.verdicts()[2..], ["needs_person", "duplicate"]);
    assert_eq!(world.tools(), []);
    // One that nobody has to approve does change something.
    let setup = conversation().people().approving(&["wipe"]).repeating(Repeats::Progress);
    let world = ends(setup.start().replied(&read), found("full"));
    let world = ends(world.replied(&read), found("full")).replied(&both);
    assert_eq!(world.verdicts()[2..], ["run", "run"]);
}

/// `restart` and `wipe` of `a` in messages before the run, after which it is started.
fn after_a_turn(setup: Setup, doubtful: &[&str]) -> World {
    let signature = |tool: &str| -> Digest {
        let tool = setup.spec.tool(tool).unwrap();
        let arguments = tool.args.rebuild(&target("a")).unwrap();
        Fingerprint::of(&CallFacts::of(tool, &arguments), &Rules::of_run(&setup.spec)).signature()
    };
    let doubts: BTreeSet<Digest> = doubtful.iter().map(|tool| signature(tool)).collect();
    let history = History { doubts, ..history(4) };
    let stored = serde_json::to_string(&history).unwrap();
    assert_eq!(stored.contains("doubts"), !doubtful.is_empty());
    assert_eq!(serde_json::from_str::<History>(&stored).unwrap(), history);
    setup.history(history).start()
}

#[test]
fn a_doubt_of_an_earlier_turn_is_one() {
    for repeats in POLICIES {
        let world = after_a_turn(setup(repeats), &["wipe"]).replied(&write("wipe", "a"));
        assert_eq!(world.asks(), ["1/action-0"], "{repeats:?}");
        let world = world.answered_by_person("1/action-0", PersonAnswer::Approved);
        world.expect_tools(&["1/action-0#1 wipe"]);
        let world = after_a_turn(setup(repeats), &["wipe"]).replied(&write("restart", "a"));
        world.expect_tools(&["1/action-0#1 restart"]);
        after_a_turn(setup(repeats), &[]).replied(&write("wipe", "a")).expect_tools(&["1/action-0#1 wipe"]);
    }
}

#[test]
fn a_doubt_of_an_earlier_turn_is_one_in_a_retry() {
    // I-6: the run itself did not request it, and its retry has no messages before it.
    let world = after_a_turn(run().people().approving(&["wipe"]), &["wipe"]).replied(&draft("high"));
    let retried = |target_of: &str| {
        let asked = draft("low").asks("wipe", target(target_of));
        world.clone().ends(StopReason::Confident).retried().unwrap().replied(&asked)
    };
    assert_eq!(retried("a").asks(), ["1/action-0"]);
    retried("b").expect_tools(&["1/action-0#1 wipe"]);
}

#[test]
fn a_write_that_was_cut_off_each_time_is_not_begun_anew() {
    // I-6: `attempts = 2`.
    for repeats in POLICIES {
        let world = failed(setup(repeats).start().replied(&write("restart", "a")), Status::Timeout);
        let world = world.replied(&write("restart", "a")).expect_tools(&["1/action-0#2 restart"]);
        let world = failed(world, Status::Timeout).replied(&write("restart", "a"));
        assert_eq!(world.verdicts()[2], "duplicate", "{repeats:?}");
        // Whatever else was changed since.
        let world = ends(world.replied(&write("wipe", "b")), found("done")).replied(&write("restart", "a"));
        assert_eq!(world.verdicts()[4], "duplicate", "{repeats:?}");
    }
    // Nor in another scope, nor beside its next try.
    for repeats in [Repeats::Progress, Repeats::Off] {
        let setup = setup(repeats).with(|spec| spec.gate.scope = RepeatScope::Step);
        let world = failed(setup.start().replied(&write("restart", "a")), Status::Timeout);
        let world = failed(
            world.replied(&calls(&[("restart", target("a")), ("restart", target("a"))])),
            Status::Timeout,
        );
        assert_eq!(world.results(), ["run timeout", "run timeout", "duplicate"], "{repeats:?}");
        let world = world.replied(&write("restart", "a"));
        assert_eq!(world.verdicts()[3], "duplicate", "{repeats:?}");
    }
}

#[test]
fn to_be_asked_again_at_once_takes_no_try() {
    // C26: not ready twice, then a failure that may pass: one try of two.
    for repeats in POLICIES {
        let mut world = setup(repeats).start().replied(&write("restart", "a"));
        for _ in 0..2 {
            world = ends(world, pending()).deadline();
        }
        let world = failed(world, Status::RetryableError).replied(&write("restart", "a"));
        let world = world.expect_tools(&["1/action-0#4 restart"]);
        let world = failed(world, Status::RetryableError).replied(&write("restart", "a"));
        // It is under way for all that is known: if it is made again, then under its key.
        let made: Vec<String> =
            world.tools().iter().map(|tool| format!("{}#{}", tool.key, tool.attempt)).collect();
        let expected =
            if matches!(repeats, Repeats::Off | Repeats::Reuse) { vec!["1/action-0#5"] } else { vec![] };
        assert_eq!(made, expected, "{repeats:?}");
    }
}

#[test]
fn what_is_still_not_ready_keeps_its_key() {
    for repeats in POLICIES {
        let few = |spec: &mut loop_core::RunSpec| {
            spec.tools.iter_mut().for_each(|tool| tool.policy.repeats.polls = 1);
        };
        let world = ends(setup(repeats).with(few).start().replied(&write("restart", "a")), pending());
        let world =
            ends(world.deadline(), pending()).expect_call("2/main", 1).replied(&write("restart", "a"));
        world.expect_tools(&["1/action-0#3 restart"]);
    }
    // A second one beside it would begin another.
    let without = || Observation { retry_after_ms: None, ..pending() };
    let world = ends(setup(Repeats::Off).start().replied(&write("restart", "a")), without());
    let world = world.replied(&calls(&[("restart", target("a")), ("restart", target("a"))]));
    assert_eq!(world.verdicts(), ["run", "run", "duplicate"]);
}

#[test]
fn what_needs_consent_keeps_its_key_too() {
    let requested = |world: World, n: u32, answer| {
        let key = format!("{n}/action-0");
        let world = world.replied(&write("restart", "a"));
        assert_eq!(world.asks(), [key.as_str()]);
        world.answered_by_person(&key, answer)
    };
    let without = || Observation { retry_after_ms: None, ..pending() };
    let mut world = ends(requested(conversation().people().start(), 1, PersonAnswer::Approved), without());
    for n in 2..5 {
        world =
            requested(world, n, PersonAnswer::Approved).expect_tools(&[&format!("1/action-0#{n} restart")]);
        world = ends(world, without());
    }
    // A denial ends nothing that is under way.
    let world = conversation().people().repeating(Repeats::Off).start();
    let world = requested(ends(requested(world, 1, PersonAnswer::Approved), without()), 2, no());
    requested(world, 3, PersonAnswer::Approved).expect_tools(&["1/action-0#3 restart"]);
}

#[test]
fn a_lost_driver_counts_tries_alone() {
    // I-12: of five attempts one was a try that failed, three were none.
    let mut world = setup(Repeats::Progress).start().replied(&write("restart", "a"));
    for _ in 0..3 {
        world = ends(world, pending()).deadline();
    }
    let mut world = failed(world, Status::RetryableError).replied(&write("restart", "a"));
    world = world.expect_tools(&["1/action-0#5 restart"]);
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 5 });
    world.resumed(5).expect_tools(&["1/action-0#6 restart"]);
}

#[test]
fn the_next_scope_does_not_forget_a_write_that_timed_out_at_its_only_try() {
    // M1, I-6: nothing but a look at what became of it tells whether it happened; a new key could do it twice.
    for repeats in POLICIES {
        let once = |spec: &mut loop_core::RunSpec| {
            spec.gate.scope = RepeatScope::Step;
            spec.tools.iter_mut().for_each(|tool| tool.attempts = 1);
        };
        let world =
            failed(setup(repeats).with(once).start().replied(&write("restart", "a")), Status::Timeout);
        let world = world.replied(&write("restart", "a"));
        assert_eq!(world.verdicts(), ["run", "duplicate"], "{repeats:?}");
        // The scope after that does not either.
        let world = world.replied(&write("restart", "b"));
        let world = ends(world, found("done")).replied(&write("restart", "a"));
        assert_eq!(world.verdicts()[3], "duplicate", "{repeats:?}");
    }
}

#[test]
fn a_next_try_that_was_not_started_leaves_no_doubt_of_its_own() {
    // I-6, H1: the try before it failed and said so, so nothing may have happened.
    let again = |status: Status| {
        let world = conversation().people().start().replied(&write("restart", "a"));
        let world = world.answered_by_person("1/action-0", PersonAnswer::Approved);
        let world = failed(world, status).replied(&write("restart", "a"));
        let world = world.answered_by_person("2/action-0", PersonAnswer::Approved);
        world.expect_tools(&["1/action-0#2 restart"])
    };
    for how in [StopMode::AtGate, StopMode::Now] {
        let world = again(Status::RetryableError).stop(how).ends(StopReason::ManualStop);
        assert_eq!(world.results(), ["run retryable_error", "run cancelled"], "{how:?}");
        assert_eq!(world.reasons(), [StopReason::ManualStop], "{how:?}");
        // One that was cut off before stays in doubt, whatever became of the next.
        let world = again(Status::Timeout).stop(how).ends(StopReason::ManualStop);
        assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::InDoubt], "{how:?}");
        // So does one that was lost with its driver and not started again.
        let mut world = again(Status::RetryableError);
        world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 2 });
        let world = world.resumed(5).stop(how).ends(StopReason::ManualStop);
        assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::InDoubt], "{how:?}");
    }
}

#[test]
fn the_last_note_of_the_stop_has_the_class_of_the_outcome() {
    // Issue 40, T6b: lists read the notes.
    for (world, class) in [
        (lost(Repeats::Progress).replied(&text("It is done.")), StopClass::InDoubt),
        (setup(Repeats::Progress).start().replied(&text("It is done.")), StopClass::Answered),
    ] {
        let noted = world.all_notes().filter_map(Note::certificate).last().unwrap();
        assert_eq!((noted.class, world.outcome().stop.class), (class, class));
        assert_eq!(noted.also, world.outcome().stop.also);
    }
}
