//! Stops: asked for at the gate or now, taken back, by a failure; and what still settles.

use crate::common;

use common::*;

use loop_core::{Fact, Millis, Status, StopClass, StopMode, StopReason};
use serde_json::json;

fn device(name: &str) -> Said {
    said("medium").asks("fetch_device", target(name))
}

fn acting() -> World {
    run().people().start().replied(&device("a").asks("fetch_device", target("b")))
}

#[test]
fn a_stop_at_the_gate_waits_for_the_call_in_flight_and_keeps_its_reply() {
    // S0-46, S0-47, U5
    let world =
        run().start().started().stop(StopMode::AtGate).expect_phase("calling").expect_call("1/main", 1);
    let world = world.answered(&device("a")).ends(StopReason::ManualStop);
    assert_eq!(
        (world.outcome().stop.class, world.outcome().stop.class.exit_code()),
        (StopClass::Cancelled, 130)
    );
    assert!(world.outcome().document.get("situation").is_some());
    assert_eq!(world.verdicts(), ["ended"]);
}

#[test]
fn a_stop_at_the_gate_waits_for_the_tools_in_flight_and_starts_no_pass() {
    // S0-46, S0-47
    let world = acting().stop(StopMode::AtGate).expect_phase("acting");
    let world = world.finished("1/action-0", found("x")).expect_phase("acting");
    let world = world.finished("1/action-1", found("y")).ends(StopReason::ManualStop);
    assert_eq!(world.outcome().evidence.len(), 2);
}

#[test]
fn a_stop_at_the_gate_may_be_taken_back_until_it_takes_effect() {
    // S0-47
    let world = acting().stop(StopMode::AtGate).withdrawn().all_finished().expect_call("2/main", 1);
    world.replied(&said("high")).ends(StopReason::Confident);
    run().start().rejects(Fact::StopWithdrawn);
    run().start().stop(StopMode::AtGate).ends(StopReason::ManualStop).rejects(Fact::StopWithdrawn);
}

#[test]
fn a_stop_at_the_gate_takes_effect_at_once_where_nothing_is_in_flight() {
    // S0-46
    let picking = run().picker(&[]).start();
    let calling = run().start();
    let repairing = run().start().replied(&text("## Situation\nx"));
    let landing = run().limits(|limits| limits.passes = 1).start();
    let asking = run().people().start().replied(&said("low").asks("wipe", target("a")));
    let approved = asking.clone().answered_by_person("1/action-0", loop_core::PersonAnswer::Approved);
    let waiting = run()
        .start()
        .started()
        .failed(loop_core::ModelFailure { retry_at: Some(Millis(900)), ..failure(true) });
    for world in [picking, calling, repairing, landing, asking, approved, waiting] {
        let phase = world.phase();
        let world = world.stop(StopMode::AtGate).ends(StopReason::ManualStop);
        assert_eq!(
            world
                .outcome()
                .evidence
                .iter()
                .filter(|found| found.observation.status != Status::Cancelled)
                .count(),
            0,
            "{phase}"
        );
    }
}

#[test]
fn a_stop_at_the_gate_while_picking_gathering_or_repairing_ends_after_what_is_in_flight() {
    // S0-46
    let picks = text(&json!([{"tool": "fetch_device", "params": {"target": "a"}}]).to_string());
    let picking = run().picker(&[]).start().started().stop(StopMode::AtGate);
    let world = picking.clone().answered(&picks).ends(StopReason::ManualStop);
    assert_eq!(world.outcome().totals.model_calls, 1);
    picking.failed(failure(false)).ends(StopReason::ManualStop);

    let gathering = run().picker(&[]).start().picked(&[("fetch_device", target("a"))]).stop(StopMode::AtGate);
    let world = gathering.expect_phase("gathering").all_finished().ends(StopReason::ManualStop);
    assert_eq!(world.outcome().evidence.len(), 1);

    let repairing = run().start().replied(&text("## Situation\nx")).started().stop(StopMode::AtGate);
    repairing.clone().answered(&said_bare("high")).ends(StopReason::ManualStop);
    let world = repairing.failed(failure(false)).ends(StopReason::ManualStop);
    assert!(world.outcome().document.get("situation").is_some());

    // A garbled reply is not repaired once a stop is asked for.
    let calling = run().start().started().stop(StopMode::AtGate).answered(&text("## Situation\nx"));
    calling.ends(StopReason::ManualStop);
    // Neither is a failed call tried again.
    let world =
        run().start().started().stop(StopMode::AtGate).failed(failure(true)).ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::ModelFailure]);
}

#[test]
fn a_landing_during_which_a_stop_is_asked_for_tells_both() {
    let world = run()
        .limits(|limits| limits.passes = 1)
        .start()
        .started()
        .stop(StopMode::AtGate)
        .answered(&said("high"));
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::MaxPasses, StopReason::Confident]);
    // Nobody who asked before gets another answer: version 1 put the limit first.
    let before = run().with(|spec| spec.version = 1).limits(|limits| limits.passes = 1).start();
    before.started().stop(StopMode::AtGate).answered(&said("high")).ends(StopReason::MaxPasses);
}

#[test]
fn a_stop_now_fixes_the_reason_in_the_same_step_and_aborts_what_is_in_flight() {
    // S0-46, U1, I-9, I-15
    let world = run().start().started().stop(StopMode::Now).expect_phase("stopping");
    assert_eq!(world.aborts(), ["1/main"]);
    // What was paid for is taken while it settles.
    let settled = world.clone().answered_while_stopping("1/main", &device("a")).ends(StopReason::ManualStop);
    assert_eq!((settled.outcome().totals.passes, settled.outcome().totals.model_calls), (1, 1));
    assert_eq!((confidence(&settled).name(), settled.outcome().totals.usage.total()), ("medium", 150));
    // After two seconds nothing is waited for: the call is charged at its reserve.
    assert_eq!(world.run.deadline(), Some(Millis(2_000)));
    let lost = world.deadline().ends(StopReason::ManualStop);
    assert_eq!(lost.outcome().totals.usage, loop_core::Usage { estimated: true, ..used(1_000, 4_096) });
}

#[test]
fn a_call_that_has_settled_is_neither_aborted_nor_charged_again() {
    // I-21, S0-119: a stop in the step of a settlement.
    for world in [
        run().start().replied(&said("high")),
        run().limits(|limits| limits.passes = 1).start().replied(&said("high")),
        run().start().replied(&text("## Situation\nx")).replied(&said_bare("high")),
        run().picker(&[]).start().started().stop(StopMode::AtGate).answered(&text("[]")),
        run().start().started().failed(failure(false)),
    ] {
        assert_eq!((world.phase(), world.aborts().len()), ("done", 0));
        assert!(!world.outcome().totals.usage.estimated);
    }
}

#[test]
fn tools_that_settle_while_stopping_are_kept_and_the_others_are_cancelled() {
    // I-13, T11
    let world = acting().finished("1/action-1", found("b")).stop(StopMode::Now);
    assert_eq!(world.aborts(), ["1/action-0"]);
    let world = world.deadline().ends(StopReason::ManualStop);
    let statuses: Vec<_> = world.outcome().evidence.iter().map(|found| found.observation.status).collect();
    assert_eq!(statuses, [Status::Cancelled, Status::Ok]);
}

#[test]
fn a_write_that_was_announced_and_did_not_settle_is_in_doubt() {
    // T2, H1
    let asked = said("low").asks("wipe", target("a")).asks("wipe", target("b"));
    let yes = loop_core::PersonAnswer::Approved;
    let mut world = run().people().start().replied(&asked);
    world = world.answered_by_person("1/action-0", yes.clone()).answered_by_person("1/action-1", yes);
    world.tell(Fact::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let world = world.stop(StopMode::Now);
    assert_eq!(world.aborts(), ["1/action-0"], "what was not announced is not in flight");
    let world = world.deadline().ends(StopReason::ManualStop);
    let statuses: Vec<_> = world.outcome().evidence.iter().map(|found| found.observation.status).collect();
    assert_eq!(statuses, [Status::InDoubt, Status::Cancelled]);
}

#[test]
fn a_stop_at_the_gate_may_become_a_stop_now_but_not_after_the_reason_is_fixed() {
    let world =
        acting().stop(StopMode::AtGate).stop(StopMode::AtGate).stop(StopMode::Now).expect_phase("stopping");
    let again = Fact::StopRequested { how: StopMode::Now };
    world.rejects(again.clone()).rejects(Fact::StopWithdrawn).deadline().rejects(again);
}

#[test]
fn a_model_that_fails_for_good_ends_the_run_with_the_document_so_far() {
    // S0-130, L4
    let world = run().start().replied(&device("a")).all_finished().started().failed(failure(false));
    let world = world.ends(StopReason::ModelFailure);
    assert_eq!((world.outcome().stop.class, world.outcome().document.sections.len()), (StopClass::Failed, 1));
    assert_eq!(world.outcome().evidence.len(), 1);
}

#[test]
fn a_call_that_may_succeed_later_is_tried_three_times_not_before_its_time() {
    // L1, L2
    let mut later = failure(true);
    later.retry_at = Some(Millis(700));
    let world = run().start().started().failed(later).expect_nothing();
    assert_eq!(world.run.deadline(), Some(Millis(700)));
    let world = world.wait(699).rejects(Fact::DeadlineReached).deadline();
    let world = world.expect_call("1/main", 2).started().failed(failure(true)).expect_call("1/main", 3);
    let world = world.started().failed(failure(true)).ends(StopReason::ModelFailure);
    assert_eq!(world.outcome().totals.model_calls, 3);
}

#[test]
fn an_empty_reply_is_never_an_answer() {
    // L19
    let mut world = run().start();
    for attempt in 1..=3 {
        world = world.expect_call("1/main", attempt).replied(&text("\n"));
    }
    let world = world.ends(StopReason::ModelFailure);
    assert!(world.outcome().stop.primary.value.to_string().starts_with("empty_response"));
    assert_eq!(world.outcome().totals.usage.total(), 450);
}

#[test]
fn of_a_reply_that_failed_midway_the_complete_sections_are_kept_and_no_action_is_run() {
    // S0-130, I-19, L6
    let whole = said("high").section("Findings", "Half").asks("fetch_device", target("a")).whole_text();
    let mut partial = failure(true);
    partial.partial = Some(whole.into());
    let world = run().start().started().failed(partial).ends(StopReason::ModelFailure);
    let ids: Vec<&str> = world.outcome().document.sections.iter().map(|section| &*section.id).collect();
    assert_eq!(ids, ["situation"], "the last section may be cut anywhere");
    assert_eq!((world.outcome().actions.len(), world.outcome().totals.passes), (0, 0));
    // While stopping, the same.
    let mut partial = failure(true);
    partial.partial = Some("## Situation\nKept.\n## Findings\nha".into());
    let mut world = run().start().started().stop(StopMode::Now);
    world.tell(Fact::ModelFailed { key: key("1/main"), attempt: 1, failure: partial });
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(&*world.outcome().document.get("situation").unwrap().body, "Kept.");
}

#[test]
fn the_certificate_of_a_manual_stop_tells_the_limits_that_were_reached_too() {
    // C14
    let world = run()
        .checked_after()
        .limits(|limits| limits.cost = usd(1))
        .picker(&[])
        .start()
        .picked(&[])
        .stop(StopMode::AtGate);
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::BudgetExceeded]);
}
