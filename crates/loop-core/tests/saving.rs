//! Saving: the outcome goes out once, is tried again when that makes sense, and its failure is told.

use loop_testkit::*;

use loop_core::run::{SaveResult, SaveState, StopMode};
use loop_core::types::Millis;
use loop_core::{Command, EventKind, StopReason};

fn saving() -> World {
    run().saving().start().replied(&draft("high")).expect_phase("saving")
}

fn later(at: u64) -> SaveResult {
    SaveResult::Failed { message: "busy".into(), retry_at: Some(Millis(at)) }
}

#[test]
fn the_outcome_is_saved_at_the_end_whatever_the_reason() {
    // S0-13, S0-31
    let world = saving();
    assert_eq!(world.run.commands(), [Command::Save { attempt: 1 }]);
    assert_eq!(world.outcome().saved, None);
    let world = world.saved(1, saved_at("tickets/1")).ends(StopReason::Confident);
    assert_eq!(world.outcome().saved, Some(SaveState::At { location: "tickets/1".into() }));
    let stopped = run().saving().start().stop(StopMode::Now).expect_phase("saving");
    stopped.saved(1, saved_at("x")).ends(StopReason::ManualStop);
}

#[test]
fn nothing_is_saved_where_there_is_no_target() {
    let world = run().start().replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!(world.outcome().saved, None);
}

#[test]
fn a_save_that_fails_is_tried_again_at_its_time_and_changes_no_reason() {
    // U7
    let world = saving().saved(1, later(500)).expect_nothing();
    assert_eq!(world.run.deadline(), Some(Millis(500)));
    let early = EventKind::SaveFinished { attempt: 2, result: saved_at("x") };
    let world = world.rejects(early).deadline();
    assert_eq!(world.run.commands(), [Command::Save { attempt: 2 }]);
    let world = world.rejects(EventKind::SaveFinished { attempt: 1, result: saved_at("x") });
    let world = world.saved(2, later(900)).deadline().saved(3, later(1_500)).ends(StopReason::Confident);
    assert_eq!(world.outcome().saved, Some(SaveState::Not { message: "busy".into() }));
}

#[test]
fn a_save_that_cannot_succeed_is_not_tried_again() {
    // U7
    let never = SaveResult::Failed { message: "no such table".into(), retry_at: None };
    let world = saving().saved(1, never).ends(StopReason::Confident);
    assert_eq!(world.outcome().saved, Some(SaveState::Not { message: "no such table".into() }));
}

#[test]
fn a_save_is_commanded_again_after_a_crash() {
    let world = saving().resumed(10_000);
    assert_eq!(world.run.commands(), [Command::Save { attempt: 1 }]);
    world.saved(1, saved_at("x")).ends(StopReason::Confident);
}
