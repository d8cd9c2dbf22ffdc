//! Eager reads: which call may start before its reply is complete, and what becomes of it.

use loop_testkit::*;

use loop_core::run::{DropReason, NotEager, StopMode};
use loop_core::spec::{Execution, ProtocolSpec};
use loop_core::types::Status;
use loop_core::{EventKind, Note, Rejected, StopReason};
use serde_json::json;

/// The conversation whose tool `fetch_device` is cheap, at its first call.
fn calling(setup: Setup) -> World {
    setup.with(|spec| spec.tools[0].policy.cheap = true).start().started()
}

/// Whether the next call may start.
fn may(world: &World, name: &str, arguments: &str) -> Result<EventKind, NotEager> {
    let call = world.call();
    world.run.eager_read(world.run.now(), (call.key, call.attempt), &name.into(), &arguments.into())
}

#[track_caller]
fn refused(world: &World, name: &str, arguments: &str) -> NotEager {
    may(world, name, arguments).unwrap_err()
}

/// Starts the next call.
#[track_caller]
fn early(mut world: World, to: &str) -> World {
    let kind = may(&world, "fetch_device", &target(to).to_string()).unwrap();
    world.apply(kind);
    world
}

fn looks(names: &[&str]) -> DraftReply {
    let wanted: Vec<_> = names.iter().map(|name| ("fetch_device", target(name))).collect();
    calls(&wanted)
}

const A: &str = r#"{"target":"a"}"#;

#[test]
fn why_a_call_waits_for_its_reply_is_named() {
    let world = calling(conversation());
    assert!(may(&world, "fetch_device", A).is_ok());
    // By an alias it is the same tool.
    assert!(may(&world, "fetch_devices", A).is_ok());
    for (name, arguments, why) in [
        ("nope", A, NotEager::Tool),
        ("fetch_docs", A, NotEager::Tool),
        ("restart", A, NotEager::Tool),
        ("fetch_device", "{", NotEager::Refused),
        ("fetch_device", "{}", NotEager::Refused),
    ] {
        assert_eq!(refused(&world, name, arguments), why, "{name} {arguments}");
    }
    // A smart tool costs a model call, also where it says that it is cheap.
    let smart = conversation().with(|spec| spec.tools.iter_mut().for_each(|tool| tool.policy.cheap = true));
    let smart = calling(smart);
    assert_eq!(refused(&smart, "fetch_docs", A), NotEager::Tool);
    assert_eq!(refused(&smart, "restart", A), NotEager::Tool);
    let off = calling(conversation().gate(|gate| gate.eager = Some(false)));
    assert_eq!(refused(&off, "fetch_device", A), NotEager::Off);
    let strict =
        calling(conversation().limits(|limits| limits.cost_mode = loop_core::spec::CostMode::Strict));
    assert_eq!(refused(&strict, "fetch_device", A), NotEager::Off);
    // What is inside a contract is complete at the end alone.
    assert_eq!(refused(&calling(run()), "fetch_device", A), NotEager::Off);
    // Before the call is sent, and of another try.
    let unsent = conversation().with(|spec| spec.tools[0].policy.cheap = true).start();
    assert_eq!(refused(&unsent, "fetch_device", A), NotEager::NoReply);
    let other = world.run.eager_read(world.run.now(), (key("1/main"), 2), &"fetch_device".into(), &A.into());
    assert_eq!(other.unwrap_err(), NotEager::NoReply);
    // The last pass permitted has no tools.
    let last = calling(conversation().limits(|limits| limits.passes = 1));
    assert_eq!(refused(&last, "fetch_device", A), NotEager::NoReply);
    // Once a stop is asked for nothing is started.
    let stopping = world.stop(StopMode::AtGate);
    assert_eq!(refused(&stopping, "fetch_device", A), NotEager::Refused);
}

#[test]
fn the_gates_limits_are_those_of_the_complete_reply() {
    // Time: what would be over at the gate is not started.
    let world = calling(conversation().limits(|limits| limits.wall_ms = 40_000));
    let call = (key("1/main"), 1);
    let at = |ms| world.run.eager_read(loop_core::types::Millis(ms), call, &"fetch_device".into(), &A.into());
    assert!(at(29_000).is_ok());
    assert_eq!(at(30_500).unwrap_err(), NotEager::Refused);
    // Tool calls of the run, among them the earlier reads of the reply.
    let two = early(calling(conversation().parallel().limits(|limits| limits.tool_calls = 2)), "a");
    let two = early(two, "b");
    assert_eq!(refused(&two, "fetch_device", r#"{"target":"c"}"#), NotEager::Limit);
    // The same call twice in one reply.
    let never = conversation().parallel().repeating(loop_core::spec::Repeats::NeverRerun);
    let once = early(calling(never), "a");
    assert_eq!(refused(&once, "fetch_devices", A), NotEager::Refused);
    assert!(may(&once, "fetch_device", r#"{"target":"b"}"#).is_ok());
    // What a person has to allow, after untrusted text was read, and what policy forbids.
    let forbidden = calling(conversation().gate(|gate| gate.forbid = vec!["fetch_*".into()]));
    assert_eq!(refused(&forbidden, "fetch_device", A), NotEager::Refused);
}

#[test]
fn in_order_the_next_call_waits_for_the_one_before() {
    let world = early(calling(conversation()), "a");
    assert_eq!(refused(&world, "fetch_device", r#"{"target":"b"}"#), NotEager::Waits);
    let world = early(world.finished("1/action-0", found("a")), "b");
    let world = world.answered(&looks(&["a", "b", "c"]));
    // The first has settled, the second runs on under its own key, and the third waits.
    let world = world.expect_tools(&["1/action-1#1 fetch_device"]).finished("1/action-1", found("b"));
    let world = world.expect_tools(&["1/action-2#1 fetch_device"]).all_finished();
    assert_eq!((world.run.totals().tool_calls, world.run.totals().eager_dropped), (3, 0));
    // With one call for each reply there is no second.
    let single = conversation().with(|spec| {
        if let ProtocolSpec::Conversation(conversation) = &mut spec.protocol {
            conversation.execution = Execution::Single;
        }
    });
    let world = early(calling(single), "a").finished("1/action-0", found("a"));
    assert_eq!(refused(&world, "fetch_device", r#"{"target":"b"}"#), NotEager::Refused);
}

#[test]
fn an_announcement_that_the_state_does_not_give_is_refused() {
    let world = calling(conversation());
    let kind = may(&world, "fetch_device", A).unwrap();
    let EventKind::EagerStarted { call, call_attempt, attempt, name, arguments, .. } = kind.clone() else {
        panic!("{kind:?}")
    };
    let other =
        EventKind::EagerStarted { call, call_attempt, key: key("1/action-1"), attempt, name, arguments };
    let mut world = world.rejects(other);
    // The same announcement twice is the announcement of a second call.
    world.apply(kind.clone());
    let event = loop_core::Event { at: world.run.now(), kind };
    let why = world.run.clone().apply(&event).unwrap_err();
    assert!(matches!(why, Rejected::NotEager { .. }), "{why}");
}

#[test]
fn a_result_is_used_if_the_call_is_the_same_and_admitted() {
    let begun =
        || early(early(calling(conversation().parallel()), "a"), "b").finished("1/action-0", found("it"));
    // The second of them is another call in the whole reply.
    let world = begun().answered(&looks(&["a", "c"]));
    let dropped: Vec<_> = world
        .notes()
        .iter()
        .filter_map(|note| match note {
            Note::ReadDropped(read) => Some((read.key.to_string(), read.finished, read.why)),
            _ => None,
        })
        .collect();
    assert_eq!(dropped, [("1/action-1".to_owned(), false, DropReason::CallChanged)]);
    let world = world.expect_tools(&["1/action-1#1 fetch_device"]).all_finished();
    assert_eq!((world.run.totals().tool_calls, world.run.totals().eager_dropped), (2, 1));
    let texts: Vec<_> = world.run.evidence().iter().map(|it| it.observation.text().to_string()).collect();
    assert_eq!(texts[0], "it");
    // A call that has failed: a retryable failure counts as a try of its action.
    let world = early(calling(conversation()), "a").finished("1/action-0", observed(Status::RetryableError));
    let world = world.answered(&looks(&["a"]));
    let again = early(world.started(), "a");
    assert_eq!(again.run.eager_reads()[0].attempt, 2);
    assert_eq!(again.run.eager_reads()[0].key, key("1/action-0"));
}

#[test]
fn every_way_out_of_the_call_drops_its_reads() {
    let begun =
        || early(early(calling(conversation().parallel()), "a"), "b").finished("1/action-1", found("b"));
    let whys = |world: &World| -> Vec<DropReason> {
        world.run.outcome().unwrap().dropped_reads.iter().map(|read| read.why).collect()
    };
    let world = begun().stop(StopMode::Now);
    assert_eq!(world.aborts(), ["1/main"]);
    let world = world.deadline().ends(StopReason::ManualStop);
    assert_eq!(whys(&world), [DropReason::Stopped; 2]);
    // A driver that is gone: reads may be repeated.
    let world = begun().resumed(5);
    assert!(world.run.eager_reads().is_empty());
    assert_eq!(world.run.totals().eager_dropped, 2);
    let world = world.replied(&looks(&["a"])).expect_tools(&["1/action-0#1 fetch_device"]);
    assert_eq!(world.run.totals().tool_calls, 1);
    // The time is over.
    let world = begun().deadline();
    let world = world.deadline().ends(StopReason::Timeout);
    assert_eq!(whys(&world), [DropReason::Stopped; 2]);
    // The reply is cut, so that none of its calls is read.
    let world = begun().answered(&text("Let me lo").ending(loop_core::reply::FinishReason::MaxTokens));
    assert_eq!(world.run.totals().eager_dropped, 2);
    // A reply that refuses.
    let world = begun()
        .answered(&text("No.").ending(loop_core::reply::FinishReason::Refusal))
        .ends(StopReason::Refused);
    assert_eq!(whys(&world), [DropReason::CallChanged; 2]);
}

#[test]
fn a_run_that_can_be_driven_no_further_tells_its_reads() {
    let world = early(calling(conversation().parallel()), "a");
    let condition =
        loop_core::gate::Condition::new(StopReason::StorageFailed, loop_core::gate::Measure::Count(1));
    let outcome = world.run.outcome_so_far(loop_core::Certificate::new(condition, Vec::new()));
    assert_eq!((outcome.totals.eager_dropped, outcome.dropped_reads.len()), (1, 1));
    // One whose announcement could not be journaled never ran.
    let mut run = world.run;
    let kind = EventKind::EagerStarted {
        call: key("1/main"),
        call_attempt: 1,
        key: key("1/action-0"),
        attempt: 1,
        name: "fetch_device".into(),
        arguments: json!({"target": "a"}).to_string().as_str().into(),
    };
    run.take_back(&kind);
    assert!(run.eager_reads().is_empty());
}

#[test]
fn a_result_belongs_to_the_read_that_its_key_names() {
    // The second read ends first.
    let world = early(early(calling(conversation().parallel()), "a"), "b");
    let world = world.finished("1/action-1", found("of b")).finished("1/action-0", found("of a"));
    let world = world.answered(&looks(&["a", "b"])).expect_call("2/main", 1);
    let results: Vec<_> = world.run.evidence().iter().map(|evidence| &evidence.observation).collect();
    assert_eq!(results, [&std::sync::Arc::new(found("of a")), &std::sync::Arc::new(found("of b"))]);
}
