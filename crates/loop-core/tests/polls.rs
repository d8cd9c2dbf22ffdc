//! Tools that are not ready: asked again without a model, under their key, within their number and the run's time.

use loop_testkit::*;

use loop_core::run::StopMode;
use loop_core::spec::OnToolError;
use loop_core::types::{Millis, Observation, Status, SubCallUse};
use loop_core::{EventKind, Note, Run, StopReason};

fn pending(after_ms: u64) -> Observation {
    let waits = Observation::new(Status::Pending, "not ready", "not ready yet", "{\"state\": \"waits\"}");
    Observation { retry_after_ms: Some(after_ms), ..waits }
}

fn looks(names: &[&str]) -> DraftReply {
    let wanted: Vec<_> = names.iter().map(|name| ("fetch_device", target(name))).collect();
    calls(&wanted)
}

/// How a run comes to have a tool in flight that answers that it is not ready.
fn requested(setup: Setup) -> World {
    setup.start().replied(&looks(&["a"])).finished("1/action-0", pending(500))
}

/// The tool is announced once more, and ends like this.
#[track_caller]
fn reported(mut world: World, attempt: u32, observation: Observation) -> World {
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt });
    world.apply(EventKind::ToolFinished { key: key("1/action-0"), attempt, observation: observation.into() });
    world
}

#[test]
fn it_is_asked_again_when_it_said_so_and_no_model_is_called() {
    // S3-3, C4, I-6: the same key, the next try, not before its time.
    let world = requested(conversation()).expect_phase("acting").expect_nothing();
    assert_eq!(world.run.deadline(), Some(Millis(500)));
    let polled = Note::Polled { key: key("1/action-0"), attempt: 2, not_before: Millis(500) };
    assert_eq!(world.notes(), [polled]);
    let early = EventKind::ToolStarted { key: key("1/action-0"), attempt: 2 };
    let world = world.rejects(early).deadline().expect_tools(&["1/action-0#2 fetch_device"]);
    assert!(!world.tools()[0].announced, "each start is told");
    let world = reported(world, 2, pending(700)).expect_nothing().deadline();
    let world = reported(world, 3, found("ready")).expect_call("2/main", 1);
    assert_eq!((world.now, world.results()), (1_200, vec!["run ok".to_owned()]));
    let totals = world.run.totals();
    assert_eq!((totals.tool_calls, totals.model_calls, totals.passes), (1, 1, 1));
    world.replied(&text("It is ready.")).ends(StopReason::Completed);
}

#[test]
fn it_is_asked_so_often_and_not_once_more() {
    let few = conversation().with(|spec| spec.tools[0].policy.repeats.polls = 2);
    let mut world = requested(few);
    for attempt in [2, 3] {
        world = reported(world.deadline(), attempt, pending(500));
    }
    assert_eq!(world.expect_call("2/main", 1).results(), ["run pending"]);
    let none = conversation().with(|spec| spec.tools[0].policy.repeats.polls = 0);
    assert_eq!(requested(none).expect_call("2/main", 1).results(), ["run pending"]);
    // Twenty times unless set otherwise.
    let mut world = requested(conversation());
    let mut attempt = 1;
    while world.phase() == "acting" {
        attempt += 1;
        world = reported(world.deadline(), attempt, pending(500));
    }
    assert_eq!(attempt, 21);
}

#[test]
fn it_is_not_asked_again_without_a_time_or_when_the_time_is_the_final_passes() {
    let without = Observation { retry_after_ms: None, ..pending(1) };
    let world = conversation().start().replied(&looks(&["a"])).finished("1/action-0", without);
    assert_eq!(world.expect_call("2/main", 1).results(), ["run pending"]);
    // 300 s, of which 30 are held back.
    let waits = |ms: u64| {
        let world = conversation().start().replied(&looks(&["a"]));
        world.finished("1/action-0", pending(ms)).phase()
    };
    assert_eq!((waits(269_999), waits(270_000), waits(u64::MAX)), ("acting", "calling", "calling"));
}

#[test]
fn the_wall_clock_ends_it_and_what_it_said_last_is_kept() {
    let mut world = requested(conversation().limits(|limits| limits.wall_ms = 2_000));
    world.now = 2_000;
    world.apply(EventKind::DeadlineReached);
    let world = world.ends(StopReason::Timeout);
    assert_eq!(world.results(), ["run pending"]);
}

#[test]
fn a_stop_does_not_wait_for_it() {
    // C31
    for how in [StopMode::AtGate, StopMode::Now] {
        let world = requested(conversation()).stop(how).ends(StopReason::ManualStop);
        assert_eq!(world.results(), ["run pending"]);
        assert_eq!(&*world.run.evidence()[0].observation.summary, "not ready");
    }
    // In the middle of a try: what it brings late is kept.
    let mut world = requested(conversation()).deadline();
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 2 });
    let mut world = world.stop(StopMode::Now);
    assert_eq!(world.aborts(), ["1/action-0"]);
    world.apply(EventKind::ToolFinished {
        key: key("1/action-0"),
        attempt: 2,
        observation: pending(5).into(),
    });
    assert_eq!(world.ends(StopReason::ManualStop).results(), ["run pending"]);
}

#[test]
fn a_driver_that_is_gone_loses_neither_the_wait_nor_the_tries() {
    // I-6, I-12, T10: the time away counts for the wait.
    let world = requested(conversation()).resumed(400).expect_nothing().wait(100).deadline();
    let mut world = world.expect_tools(&["1/action-0#2 fetch_device"]);
    // A try that is lost is one of three; the times that it was asked again are none.
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 2 });
    world = world.resumed(5).expect_tools(&["1/action-0#3 fetch_device"]);
    world.apply(EventKind::ToolFinished {
        key: key("1/action-0"),
        attempt: 3,
        observation: pending(1).into(),
    });
    world = world.deadline().expect_tools(&["1/action-0#4 fetch_device"]);
    reported(world, 4, found("ready")).expect_call("2/main", 1);
}

#[test]
fn in_order_it_keeps_its_turn_and_side_by_side_it_holds_up_nobody() {
    // C3
    let two = looks(&["a", "b"]);
    let world = conversation().start().replied(&two).finished("1/action-0", pending(500)).expect_nothing();
    let world = reported(world.deadline(), 2, found("a"));
    world.expect_tools(&["1/action-1#1 fetch_device"]);
    let world = conversation().parallel().start().replied(&two).finished("1/action-0", pending(500));
    let world = world.expect_tools(&["1/action-1#1 fetch_device"]).finished("1/action-1", found("b"));
    let world = reported(world.expect_nothing().deadline(), 2, found("a")).expect_call("2/main", 1);
    let ids: Vec<String> =
        world.run.evidence().iter().map(|evidence| evidence.observation.text().to_string()).collect();
    assert_eq!(ids, ["a", "b"]);
    // One after another as well where only one is made.
    let mut single = conversation();
    let loop_core::spec::ProtocolSpec::Conversation(spec) = &mut single.spec.protocol else { unreachable!() };
    spec.execution = loop_core::spec::Execution::Single;
    let world = reported(requested(single).deadline(), 2, found("a"));
    world.expect_call("2/main", 1);
}

#[test]
fn two_that_wait_are_asked_in_any_order_and_it_comes_to_the_same() {
    // I-20
    let start = || {
        let world = conversation().parallel().start().replied(&looks(&["a", "b"]));
        world.finished("1/action-0", pending(500)).finished("1/action-1", pending(500)).deadline()
    };
    let mut ends: Vec<Run> = Vec::new();
    for order in [["1/action-0", "1/action-1"], ["1/action-1", "1/action-0"]] {
        let world = order.iter().fold(start(), |world, name| world.finished(name, found(name)));
        ends.push(world.expect_call("2/main", 1).run);
    }
    assert_eq!(ends[0], ends[1]);
}

#[test]
fn a_write_is_asked_again_only_where_twice_is_the_same_as_once() {
    // S4-41, I-6
    let world = conversation().approving(&["restart", "wipe"]).start();
    let write = |tool: &str| {
        let world = world.clone().replied(&calls(&[(tool, target("a"))]));
        world.finished("1/action-0", pending(500))
    };
    let again = write("restart").expect_phase("acting").deadline();
    let again = again.expect_tools(&["1/action-0#2 restart"]).finished("1/action-0", found("done"));
    again.expect_call("2/main", 1);
    assert_eq!(write("wipe").expect_call("2/main", 1).results(), ["run pending"]);
}

#[test]
fn a_document_waits_too_and_so_does_what_was_selected() {
    // S0-122
    let asks = draft("medium").asks("fetch_device", target("a")).asks("fetch_docs", target("a"));
    let world = run().start().replied(&asks).finished("1/action-0", pending(500)).all_finished();
    let world = world.expect_nothing().deadline().finished("1/action-0", found("a"));
    world.expect_call("2/main", 1);
    let world = run().selector(&[]).start().selected(&[("fetch_device", target("a"))]);
    let world = world.finished("0/action-0", pending(500)).expect_phase("gathering").expect_nothing();
    world.deadline().finished("0/action-0", found("a")).expect_call("1/main", 1);
}

#[test]
fn what_a_smart_tool_used_while_it_waited_is_charged_each_time() {
    // I-21, S0-119
    let used_up = |observation| Observation {
        sub_call: Some(SubCallUse::new(true, Some(used(7, 3))).into()),
        ..observation
    };
    let world = conversation().start().replied(&calls(&[("fetch_docs", target("a"))]));
    let world = world.finished("1/action-0", used_up(pending(500))).deadline();
    let world = world.finished("1/action-0", used_up(found("it"))).expect_call("2/main", 1);
    assert_eq!((world.run.totals().sub_calls, world.run.totals().usage.input), (2, 114));
}

#[test]
fn a_failure_beside_it_that_ends_the_run_does_not_wait_for_it() {
    let setup = conversation().parallel().with(|spec| spec.gate.on_tool_error = OnToolError::Stop);
    let both = looks(&["a", "b"]);
    let first = setup.clone().start().replied(&both).finished("1/action-0", pending(500));
    let first = first.finished("1/action-1", observed(Status::Timeout)).ends(StopReason::ToolFailure);
    let second = setup.start().replied(&both).finished("1/action-1", observed(Status::Timeout));
    let second = second.finished("1/action-0", pending(500)).ends(StopReason::ToolFailure);
    assert_eq!(first.run.evidence(), second.run.evidence());
    assert_eq!(first.results(), ["run pending", "run timeout"]);
}

#[test]
fn a_write_that_waits_to_be_asked_again_is_pending_when_the_run_stops() {
    // M12, C31: it answered, and nothing of it is in flight: it is as ready as it said, and not in doubt.
    let waits = || {
        let world = conversation().approving(&["restart"]).start();
        world.replied(&calls(&[("restart", target("a"))])).finished("1/action-0", pending(500))
    };
    for how in [StopMode::AtGate, StopMode::Now] {
        let world = waits().stop(how).ends(StopReason::ManualStop);
        assert_eq!(world.results(), ["run pending"], "{how:?}");
        assert_eq!(&*world.run.evidence()[0].observation.summary, "not ready");
    }
    // Once it is asked again nobody knows.
    let mut world = waits().deadline();
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 2 });
    let world = world.stop(StopMode::Now).deadline().ends(StopReason::ManualStop);
    assert_eq!(world.results(), ["run in_doubt"]);
}

#[test]
fn the_try_that_was_not_made_before_the_stop_is_not_counted_in_a_retry() {
    // I-6: the write was started once. A retry that an approver permits makes its second try, under the same key.
    let asked = draft("low").asks("restart", target("a"));
    let world = run().people().approving(&["restart"]).start().replied(&asked);
    let world = world.finished("1/action-0", pending(500)).stop(StopMode::Now).ends(StopReason::ManualStop);
    assert_eq!(world.results(), ["run pending"]);
    let retry = world.retried().unwrap().replied(&asked);
    assert_eq!(retry.asks(), ["1/action-0"]);
    let retry = retry.answered_by_person("1/action-0", loop_core::run::PersonAnswer::Approved);
    let [tool] = retry.tools().try_into().unwrap();
    assert_eq!((&*retry.run.idempotency_key(&tool.key), tool.attempt), ("r1/1/action-0", 2));
}
