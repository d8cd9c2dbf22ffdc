//! Trouble that repeats: breakers, denials and failures that end a run, each named in its certificate.

use loop_testkit::*;

use loop_core::gate::{Breaker, Measure, Remedy};
use loop_core::run::{SaveResult, StopMode};
use loop_core::spec::{Execution, OnDenied, OnToolError, ProtocolSpec, Setting};
use loop_core::types::{Effect, Millis, ModelFailure, Observation, Status, StopClass};
use loop_core::{StopReason, Verdict};
use serde_json::json;

fn look(name: &str) -> DraftReply {
    calls(&[("fetch_device", target(name))])
}

/// Looks here and there, and each look ends like this.
fn looked(mut world: World, names: &[&str], status: Status) -> World {
    for name in names {
        world = world.replied(&look(name));
        let key = world.tools()[0].key.to_string();
        world = world.finished(&key, observed(status));
    }
    world
}

#[track_caller]
fn check_in_a_row(world: &World, what: &str, times: u64, max: u64, setting: Setting) {
    let primary = &world.outcome().stop.primary;
    let value = Measure::InARow { what: what.into(), times };
    assert_eq!((&primary.value, &primary.threshold), (&value, &Some(Measure::Count(max))));
    assert_eq!(primary.change, Some(Remedy { setting, to: Measure::Count(times + 1) }));
}

// ---- the breaker of a tool ----

#[test]
fn a_tool_that_failed_three_times_in_a_row_is_not_run_any_more() {
    // S4-40, S4-52, S4-67, C10
    let world = looked(conversation().start(), &["a", "b", "c"], Status::Timeout);
    // The model is told once, and may go on without it.
    let world = world.replied(&look("d")).expect_call("5/main", 1);
    let setting = Setting::ToolFailuresBreaker;
    assert_eq!(world.run.actions()[3].verdict, Verdict::BreakerOpen { breaker: Breaker::ToolFailures });
    assert_eq!(world.run.totals().tool_calls, 3);
    let others = world.clone().replied(&calls(&[("fetch_docs", target("d"))])).all_finished();
    others.replied(&text("Without it.")).ends(StopReason::Completed);
    let world = world.replied(&look("e")).ends(StopReason::NeedsHuman);
    check_in_a_row(&world, "failures of fetch_device", 3, 3, setting);
    assert_eq!(world.outcome().stop.class, StopClass::NeedsHuman);
}

#[test]
fn what_fails_for_good_is_no_matter_of_waiting() {
    // S4-51, S4-67: nobody who waits will see it work.
    for status in [Status::PermanentError, Status::MalformedResult] {
        let world = looked(conversation().start(), &["a", "b", "c"], status);
        let world = world.replied(&look("d")).replied(&look("e")).ends(StopReason::ToolFailure);
        assert_eq!(world.outcome().stop.class, StopClass::Failed);
    }
}

#[test]
fn a_success_takes_back_what_was_counted_and_other_tools_count_for_themselves() {
    // S4-67, T14: a tool that flaps never fails so often in a row. What is open stays open (ADR 28).
    let world = looked(conversation().start(), &["a", "b"], Status::Timeout);
    let world = looked(world, &["c"], Status::Empty);
    let world = looked(world, &["d", "e"], Status::RetryableError);
    world.replied(&look("f")).expect_tools(&["6/action-0#1 fetch_device"]);
    let world = looked(conversation().start(), &["a", "b", "c"], Status::Timeout);
    let docs = calls(&[("fetch_device", target("d")), ("fetch_docs", target("d"))]);
    world.replied(&docs).expect_tools(&["4/action-1#1 fetch_docs"]);
    // What is not the tool's fault does not count.
    for status in [Status::InvalidInput, Status::Denied, Status::Cancelled, Status::Pending] {
        let world = looked(conversation().start(), &["a", "b", "c"], status);
        world.replied(&look("d")).expect_tools(&["4/action-0#1 fetch_device"]);
    }
}

#[test]
fn a_document_ends_where_only_a_broken_tool_is_left() {
    // S4-67, design "The gate", step 4
    let asks = |name: &str| draft("medium").asks("fetch_device", target(name));
    let mut world = run().patient().limits(|limits| limits.passes = 9).start();
    for name in ["a", "b", "c"] {
        world = world.replied(&asks(name));
        let key = world.tools()[0].key.to_string();
        world = world.finished(&key, observed(Status::Timeout));
    }
    let both = asks("d").asks("fetch_docs", target("d"));
    world.clone().replied(&both).expect_tools(&["4/action-1#1 fetch_docs"]);
    let world = world.replied(&asks("d")).ends(StopReason::NeedsHuman);
    assert_eq!(world.reasons(), [StopReason::NeedsHuman]);
}

#[test]
fn breakers_can_be_switched_off() {
    let off = conversation().with(|spec| spec.gate.breakers.tool_failures = 0);
    let world = looked(off.start(), &["a", "b", "c", "d"], Status::Timeout);
    world.replied(&look("e")).expect_tools(&["5/action-0#1 fetch_device"]);
}

// ---- calls that are denied, or of no use ----

#[test]
fn three_calls_in_a_row_that_policy_denied_are_enough() {
    // S4-53, S4-67, C9
    let setup = conversation().with(|spec| spec.gate.forbid = vec!["fetch_device".into()]);
    let world = setup.clone().start().replied(&look("a")).replied(&look("b")).expect_call("3/main", 1);
    let other = calls(&[("fetch_docs", target("a"))]);
    // A success in between begins the count anew.
    let again = world.clone().replied(&other).all_finished().replied(&look("c")).expect_call("5/main", 1);
    assert_eq!(again.verdicts(), ["denied", "denied", "run", "denied"]);
    let world = world.replied(&look("c")).ends(StopReason::NeedsHuman);
    check_in_a_row(&world, "calls that policy denied", 3, 3, Setting::DeniedBreaker);
    // Beside something that runs they end nothing.
    let mixed = calls(&[
        ("fetch_device", target("a")),
        ("fetch_device", target("b")),
        ("fetch_device", target("c")),
        ("fetch_docs", target("a")),
    ]);
    setup.start().replied(&mixed).expect_phase("acting");
}

#[test]
fn five_calls_in_a_row_of_no_use_are_enough() {
    // S4-67, S4-80
    let wrong = || calls(&[("fetch_device", json!({"target": 1})), ("nope", json!({}))]);
    let world = conversation().start().replied(&wrong()).replied(&wrong()).expect_call("3/main", 1);
    let world = world.replied(&calls(&[("nope", json!({}))])).ends(StopReason::NeedsHuman);
    let what = "calls with an unknown tool or with arguments that do not fit";
    check_in_a_row(&world, what, 5, 5, Setting::BadArgumentsBreaker);
    // What the tool itself says of its arguments counts like what the core finds.
    let world = looked(conversation().start(), &["a", "b", "c", "d", "e"], Status::InvalidInput);
    check_in_a_row(&world.ends(StopReason::NeedsHuman), what, 5, 5, Setting::BadArgumentsBreaker);
}

// ---- a denial that ends the run ----

#[test]
fn a_denial_ends_the_run_where_policy_says_so() {
    // S4-27, S4-83, C9: nothing of that reply runs.
    let stops = conversation().with(|spec| {
        spec.gate.on_denied = OnDenied::Stop;
        spec.gate.forbid = vec!["delete_*".into()];
    });
    let both = calls(&[("fetch_device", target("a")), ("delete_order", json!({}))]);
    let world = stops.clone().start().replied(&both).ends(StopReason::Refused);
    assert_eq!((world.outcome().stop.class, world.run.totals().tool_calls), (StopClass::Refused, 0));
    assert_eq!(world.results(), ["ended", "denied"]);
    assert_eq!(world.outcome().evidence, []);
    let primary = &world.outcome().stop.primary;
    assert_eq!(primary.value, Measure::Text("delete_order: forbidden by gate.forbid".into()));
    assert_eq!(primary.change.as_ref().unwrap().to_string(), "gate.on_denied = feed_back");
    // An unknown name is no denial: it may be a slip.
    stops.start().replied(&calls(&[("nope", json!({}))])).expect_call("2/main", 1);
    // A document as well.
    let world = run().with(|spec| {
        spec.gate.on_denied = OnDenied::Stop;
        spec.gate.forbid = vec!["wipe".into()];
    });
    let reply = draft("medium").asks("wipe", target("a")).asks("fetch_device", target("a"));
    let world = world.start().replied(&reply).ends(StopReason::Refused);
    assert_eq!(world.verdicts(), ["denied", "ended"]);
}

#[test]
fn a_person_who_says_no_is_not_policy() {
    // S4-36
    let setup = conversation().people().with(|spec| spec.gate.on_denied = OnDenied::Stop);
    let world = setup.start().replied(&calls(&[("wipe", target("a"))]));
    let no = loop_core::run::PersonAnswer::Denied { why: "no".into() };
    world.answered_by_person("1/action-0", no).expect_call("2/main", 1);
}

// ---- a failure that ends the run ----

#[test]
fn a_failure_ends_the_run_where_policy_says_so() {
    // S4-44, S4-84, C10
    for status in [Status::RetryableError, Status::PermanentError, Status::Timeout, Status::MalformedResult] {
        let setup = conversation().with(|spec| spec.gate.on_tool_error = OnToolError::Stop);
        let world = looked(setup.start(), &["a"], status).ends(StopReason::ToolFailure);
        let primary = &world.outcome().stop.primary;
        let what = format!("fetch_device: {}: it did not work", status.name());
        assert_eq!(primary.value, Measure::Text(what.into()));
        assert_eq!(primary.change.as_ref().unwrap().to_string(), "gate.on_tool_error = continue");
        assert_eq!(world.outcome().evidence.len(), 1);
    }
    let setup = conversation().with(|spec| spec.gate.on_tool_error = OnToolError::Stop);
    looked(setup.start(), &["a"], Status::Empty).expect_call("2/main", 1);
}

#[test]
fn after_a_failure_that_ends_the_run_nothing_more_is_started() {
    // S4-84, C3: what is in flight ends, and its result is kept.
    let stops = || conversation().with(|spec| spec.gate.on_tool_error = OnToolError::Stop);
    let two = calls(&[("fetch_device", target("a")), ("fetch_device", target("b"))]);
    let world = stops().start().replied(&two).finished("1/action-0", observed(Status::Timeout));
    let world = world.ends(StopReason::ToolFailure);
    assert_eq!(world.results(), ["run timeout", "run cancelled"]);
    let world = stops().parallel().start().replied(&two);
    let world = world.finished("1/action-0", observed(Status::Timeout)).expect_phase("acting");
    let world = world.finished("1/action-1", found("b")).ends(StopReason::ToolFailure);
    assert_eq!(world.results(), ["run timeout", "run ok"]);
    // Who asked for a stop before gets that as the reason.
    let world = stops().parallel().start().replied(&two).stop(StopMode::AtGate);
    let world = world.finished("1/action-0", observed(Status::Timeout)).finished("1/action-1", found("b"));
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::ToolFailure]);
}

#[test]
fn two_failures_in_a_row_hand_it_to_a_person_where_policy_says_so() {
    // S4-52, S4-57, C10: the run case `shipping_lookup_repeated_failure`.
    let setup = conversation().with(|spec| {
        spec.gate.on_tool_error = OnToolError::EscalateAfter(2);
        let ProtocolSpec::Conversation(conversation) = &mut spec.protocol else { unreachable!() };
        conversation.execution = Execution::Single;
    });
    let ask = look("O-1");
    let failed = |world: World| {
        let key = world.tools()[0].key.to_string();
        world.finished(&key, observed(Status::RetryableError))
    };
    let world = failed(failed(setup.start().replied(&ask)).replied(&ask)).ends(StopReason::NeedsHuman);
    assert_eq!((world.run.totals().tool_calls, world.run.totals().passes), (2, 2));
    let primary = &world.outcome().stop.primary;
    assert_eq!(primary.value.to_string(), "2 failures of fetch_device in a row");
    assert_eq!(primary.change.as_ref().unwrap().to_string(), "gate.on_tool_error = { escalate_after = 3 }");
    // The same key twice: it is one call, tried twice (S4-41, I-6).
    let keys: Vec<_> = world.run.evidence().iter().map(|evidence| evidence.key).collect();
    assert_eq!(keys, [key("1/action-0"), key("1/action-0")]);
}

#[test]
fn a_permanent_failure_ends_as_such_and_two_that_may_pass_go_to_a_person() {
    // S4-57, S4-84, C10: both at once.
    let setup = || conversation().with(|spec| spec.gate.on_tool_error = OnToolError::StopOrEscalateAfter(2));
    for status in [Status::PermanentError, Status::MalformedResult] {
        let world = looked(setup().start(), &["a"], status).ends(StopReason::ToolFailure);
        let change = world.outcome().stop.primary.change.as_ref().unwrap().to_string();
        assert_eq!(change, "gate.on_tool_error = { escalate_after = 2 }");
    }
    for status in [Status::RetryableError, Status::Timeout] {
        let world = looked(setup().start(), &["a"], status).expect_call("2/main", 1);
        let world = looked(world, &["b"], status).ends(StopReason::NeedsHuman);
        let primary = &world.outcome().stop.primary;
        assert_eq!(primary.value.to_string(), "2 failures of fetch_device in a row");
        let change = primary.change.as_ref().unwrap().to_string();
        assert_eq!(change, "gate.on_tool_error = { stop_or_escalate_after = 3 }");
    }
    // A success between takes it back.
    let world = looked(looked(setup().start(), &["a"], Status::Timeout), &["b"], Status::Ok);
    looked(world, &["c"], Status::Timeout).expect_call("4/main", 1);
    // What waits its turn behind a permanent failure is not started; behind one that may pass it is.
    let two = calls(&[("fetch_device", target("a")), ("fetch_device", target("b"))]);
    let world = setup().start().replied(&two).finished("1/action-0", observed(Status::PermanentError));
    assert_eq!(world.ends(StopReason::ToolFailure).results(), ["run permanent_error", "run cancelled"]);
    let world = setup().start().replied(&two).finished("1/action-0", observed(Status::Timeout));
    world.expect_tools(&["1/action-1#1 fetch_device"]);
    // Of both in one batch the permanent one is told first.
    let world = setup().parallel().start().replied(&calls(&[
        ("fetch_device", target("a")),
        ("fetch_device", target("b")),
        ("fetch_docs", target("a")),
    ]));
    let world = world.finished("1/action-0", observed(Status::Timeout));
    let world = world.finished("1/action-1", observed(Status::Timeout));
    let world = world.finished("1/action-2", observed(Status::PermanentError)).ends(StopReason::ToolFailure);
    assert_eq!(world.reasons(), [StopReason::ToolFailure, StopReason::NeedsHuman]);
}

#[test]
fn a_failure_of_a_selected_tool_counts_as_well() {
    // S0-129, S4-84
    let setup = run().selector(&[]).with(|spec| spec.gate.on_tool_error = OnToolError::Stop);
    let world = setup.start().selected(&[("fetch_device", target("a")), ("fetch_docs", target("a"))]);
    let world = world.finished("0/action-1", found("docs"));
    world.finished("0/action-0", observed(Status::Timeout)).ends(StopReason::ToolFailure);
}

#[test]
fn what_a_write_may_have_done_is_a_failure_of_it() {
    // S4-41, S4-67
    let setup = conversation().approving(&["wipe"]).with(|spec| spec.gate.on_tool_error = OnToolError::Stop);
    let mut world = setup.start().replied(&calls(&[("wipe", target("a"))]));
    world.apply(loop_core::EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    world.resumed(5).ends(StopReason::ToolFailure);
}

// ---- calibration ----

#[test]
fn high_confidence_that_still_asks_is_counted() {
    // C15
    let sure = draft("high").asks("fetch_device", target("a"));
    let world =
        run().start().replied(&sure).all_finished().replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!(world.outcome().totals.contradictions, 1);
    let command = draft("high").asks_as("nice_to_have", "fetch_device", target("a"));
    let world = run().start().replied(&command).ends(StopReason::Confident);
    assert_eq!(world.outcome().totals.contradictions, 0);
}

#[test]
fn a_tool_of_any_effect_has_a_breaker() {
    let setup = conversation().approving(&["restart"]);
    let mut world = setup.start();
    for name in ["a", "b", "c"] {
        world = world.replied(&calls(&[("restart", target(name))]));
        let key = world.tools()[0].key.to_string();
        world = world.finished(&key, Observation::failed(Status::PermanentError, "restart", "no"));
    }
    assert_eq!(world.spec.tool("restart").unwrap().effect, Effect::WriteKeyed);
    let world = world.replied(&calls(&[("restart", target("d"))])).expect_call("5/main", 1);
    assert_eq!(world.results().last().unwrap(), "breaker_open");
}

#[test]
fn what_may_happen_now_is_not_waited_for() {
    // A try that is due at this instant is commanded, and the next deadline is the wall clock.
    let at = |retry_at: u64| {
        let failed = ModelFailure { retry_at: Some(Millis(retry_at)), ..failure(true) };
        run().start().wait(500).started().failed(failed)
    };
    for (retry_at, deadline, commands) in [(499, 300_000, 1), (500, 300_000, 1), (501, 501, 0)] {
        let world = at(retry_at);
        assert_eq!(world.run.deadline(), Some(Millis(deadline)), "{retry_at}");
        assert_eq!(world.run.commands().len(), commands, "{retry_at}");
    }
    let saves = |retry_at: u64| {
        let setup = run().with(|spec| spec.save = true);
        let failed = SaveResult::Failed { message: "busy".into(), retry_at: Some(Millis(retry_at)) };
        setup.start().wait(500).replied(&draft("high")).saved(1, failed)
    };
    for (retry_at, deadline, commands) in [(500, None, 1), (501, Some(Millis(501)), 0)] {
        let world = saves(retry_at);
        assert_eq!((world.run.deadline(), world.run.commands().len()), (deadline, commands), "{retry_at}");
    }
}
