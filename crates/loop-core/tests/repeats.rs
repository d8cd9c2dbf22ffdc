//! Repeats: the same call is not run again, unless it failed in a way that may pass.

use loop_testkit::*;

use loop_core::types::{EvidenceId, Status};
use loop_core::{StopReason, Verdict};
use serde_json::{Value, json};

fn asks(tool: &str, parameters: Value) -> DraftReply {
    draft("medium").asks(tool, parameters)
}

#[track_caller]
fn check_repeat(first: (&str, Value), second: (&str, Value), is_repeat: bool) {
    let world =
        run().start().replied(&asks(first.0, first.1)).all_finished().replied(&asks(second.0, second.1));
    if is_repeat {
        let of = Verdict::Duplicate { of: key("1/action-0"), evidence: Some(EvidenceId(1)), rule: None };
        assert_eq!(world.run.actions()[1].verdict, of);
        world.ends(StopReason::NoNewActions);
    } else {
        world.expect_tools(&["2/action-0#1 fetch_device"]);
    }
}

#[test]
fn a_call_that_succeeded_is_not_run_again_however_it_is_written() {
    // S0-22, S0-52, S0-118, C24: by tool and rebuilt parameters.
    check_repeat(("fetch_device", target("a")), ("fetch_device", target("a")), true);
    check_repeat(("fetch_device", target("a")), ("fetch_device", target("b")), false);
    check_repeat(("fetch_docs", target("a")), ("fetch_device", target("a")), false);
    // S0-84: by alias.
    check_repeat(("fetch_device", target("a")), ("fetch_devices", target("a")), true);
    // The order of keys, defaults and fields that the tool does not declare do not matter.
    check_repeat(("fetch_device", target("a")), ("fetch_device", json!({"limit": 3, "target": "a"})), true);
    check_repeat(("fetch_device", json!({"target": "a", "x": 1})), ("fetch_device", target("a")), true);
    check_repeat(("fetch_device", target("a")), ("fetch_device", json!({"limit": 4, "target": "a"})), false);
}

#[test]
fn the_same_call_twice_in_one_reply_runs_once() {
    // S0-118, S0-d8
    let reply = asks("fetch_device", target("a")).asks("fetch_devices", target("a"));
    let world = run().start().replied(&reply).expect_tools(&["1/action-0#1 fetch_device"]);
    assert_eq!(
        world.run.actions()[1].verdict,
        Verdict::Duplicate { of: key("1/action-0"), evidence: None, rule: None }
    );
}

#[test]
fn a_selected_call_is_not_run_again_by_a_pass() {
    // S0-118
    let world = run().selector(&[]).start().selected(&[("fetch_device", target("a"))]).all_finished();
    world.replied(&asks("fetch_device", target("a"))).ends(StopReason::NoNewActions);
}

#[test]
fn what_failed_for_good_is_not_run_again() {
    // S0-118
    for status in [
        Status::Ok,
        Status::Empty,
        Status::PermanentError,
        Status::InvalidInput,
        Status::MalformedResult,
        Status::InDoubt,
    ] {
        let world = run()
            .start()
            .replied(&asks("fetch_device", target("a")))
            .finished("1/action-0", observed(status));
        world.replied(&asks("fetch_device", target("a"))).ends(StopReason::NoNewActions);
    }
}

#[test]
fn a_failure_that_may_pass_is_repeated_under_its_first_key_up_to_the_tools_limit() {
    // C26, S4-30, I-6: `attempts = 2`.
    for status in [Status::RetryableError, Status::Timeout] {
        let world = run()
            .start()
            .replied(&asks("fetch_device", target("a")))
            .finished("1/action-0", observed(status))
            .replied(&asks("fetch_devices", target("a")))
            .expect_tools(&["1/action-0#2 fetch_device"])
            .finished("1/action-0", observed(status))
            .replied(&asks("fetch_device", target("a")))
            .ends(StopReason::NoNewActions);
        let evidence: Vec<_> =
            world.run.evidence().iter().map(|found| (found.id.0, found.pass, found.key)).collect();
        assert_eq!(evidence, [(1, 1, key("1/action-0")), (2, 2, key("1/action-0"))]);
        let last = world.run.actions().last().unwrap().verdict.clone();
        assert_eq!(
            last,
            Verdict::Duplicate { of: key("1/action-0"), evidence: Some(EvidenceId(2)), rule: None }
        );
    }
}

#[test]
fn a_repeat_that_succeeds_settles_the_call() {
    let world = run()
        .start()
        .replied(&asks("fetch_device", target("a")))
        .finished("1/action-0", observed(Status::RetryableError))
        .replied(&asks("fetch_device", target("a")))
        .finished("1/action-0", found("x"))
        .replied(&asks("fetch_device", target("a")));
    world.ends(StopReason::NoNewActions);
}

#[test]
fn a_write_that_a_person_approves_again_keeps_its_key() {
    // C26, I-6, I-26
    let approve = loop_core::run::PersonAnswer::Approved;
    let world = run()
        .people()
        .start()
        .replied(&asks("restart", target("a")))
        .answered_by_person("1/action-0", approve.clone())
        .finished("1/action-0", observed(Status::RetryableError))
        .replied(&asks("restart", target("a")))
        .answered_by_person("2/action-0", approve)
        .expect_tools(&["1/action-0#2 restart"])
        .finished("1/action-0", observed(Status::RetryableError))
        .replied(&asks("restart", target("a")));
    world.ends(StopReason::NoNewActions);
}

#[test]
fn a_result_that_reports_work_in_progress_may_be_read_again() {
    // C4: in a run, under `progress`, whatever its status says.
    for (data, third) in [(r#"{"status": "running"}"#, "run"), (r#"{"status": "delivered"}"#, "duplicate")] {
        let result = || loop_core::types::Observation::new(Status::Ok, "x", "x", data);
        let looks = asks("fetch_device", target("a"));
        let setup = run()
            .repeating(loop_core::spec::Repeats::Progress)
            .gate(|gate| gate.stale = loop_core::spec::Stale::Off);
        let mut world = setup.start().replied(&looks);
        for pass in 1..3 {
            world = world.finished(&format!("{pass}/action-0"), result()).replied(&looks);
        }
        assert_eq!(world.verdicts(), ["run", "run", third], "{data}");
    }
}
