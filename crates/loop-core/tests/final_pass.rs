//! The final pass: the last permitted pass or model call, without tools.

use crate::common::confidence;
use loop_testkit::*;

use loop_core::gate::Measure;
use loop_core::run::PromptSize;
use loop_core::types::{FailureKind, Millis, ModelFailure, RequestPart, StopClass, Usage};
use loop_core::{Note, StopReason};

fn device(name: &str) -> DraftReply {
    draft("medium").asks("fetch_device", target(name))
}

fn last_pass() -> World {
    run()
        .limits(|limits| limits.passes = 2)
        .start()
        .replied(&device("a"))
        .all_finished()
        .expect_call("2/final", 1)
}

#[test]
fn the_last_permitted_pass_is_the_final_pass() {
    // S0-50: a confident answer there is answered, and says so.
    let world = last_pass().replied(&draft("high")).ends(StopReason::MaxPasses);
    assert_eq!(world.reasons(), [StopReason::MaxPasses, StopReason::Confident]);
    assert_eq!(world.outcome().stop.class, StopClass::Answered);
    assert!(world.run.passes().last().unwrap().final_pass);
}

#[test]
fn the_last_permitted_model_call_is_the_final_pass() {
    let world = run().limits(|limits| limits.model_calls = 2).start().replied(&device("a")).all_finished();
    let world = world.expect_call("2/final", 1).replied(&draft("low")).ends(StopReason::MaxModelCalls);
    assert_eq!(world.reasons(), [StopReason::MaxModelCalls, StopReason::NoNewActions]);
}

#[test]
fn a_retry_that_is_the_last_permitted_model_call_is_the_final_pass() {
    let mut later = failure(true);
    later.retry_at = Some(Millis(500));
    let world =
        run().limits(|limits| limits.model_calls = 2).start().started().failed(later).expect_nothing();
    let world =
        world.deadline().expect_call("1/final", 2).replied(&device("a")).ends(StopReason::MaxModelCalls);
    assert_eq!(world.verdicts(), ["ended"]);
    let lost = run().limits(|limits| limits.model_calls = 2).start().started().resumed(10);
    lost.expect_call("1/final", 2).replied(&draft("high")).ends(StopReason::MaxModelCalls);
}

#[test]
fn sections_of_a_call_that_was_cut_off_for_the_final_pass_are_changes_of_that_pass() {
    // I-18, I-19: the whole section counts, the half one does not.
    let mut broke = failure(true);
    broke.kind = FailureKind::Timeout;
    broke.partial = Some("## Situation\n\nIt is full.\n\n## Findings\n\nha".into());
    let setup = run().limits(|limits| limits.wall_ms = 100_000);
    let world = setup.start().started().wait(75_000).failed(broke).expect_call("1/final", 1);
    let world = world.replied(&bare_draft("low").section("Findings", "Nothing.")).ends(StopReason::Timeout);
    let changed: Vec<&str> = world.run.passes()[0].changed.iter().map(|id| &**id).collect();
    assert_eq!(changed, ["situation", "findings"]);
}

#[test]
fn what_a_final_pass_asks_for_is_left_undone() {
    let world = last_pass().replied(&device("b")).ends(StopReason::MaxPasses);
    assert_eq!(world.verdicts(), ["run", "ended"]);
    assert_eq!(world.outcome().undone().count(), 1);
    assert_eq!(world.reasons(), [StopReason::MaxPasses]);
}

#[test]
fn a_final_pass_without_a_contract_is_not_repaired() {
    let world = last_pass().replied(&text("## Findings\nAll is lost.")).ends(StopReason::MaxPasses);
    assert!(world.outcome().document.get("findings").is_some());
    assert_eq!(confidence(&world).name(), "unknown");
    assert_eq!(world.reasons(), [StopReason::MaxPasses, StopReason::NoNewActions]);
}

#[test]
fn a_blank_final_pass_is_tried_again_and_then_given_up_with_the_document_as_it_is() {
    // S0-130, L19
    let world = last_pass()
        .replied(&text(" \n"))
        .expect_call("2/final", 2)
        .replied(&text(""))
        .expect_call("2/final", 3)
        .replied(&text(""))
        .ends(StopReason::MaxPasses);
    assert_eq!(world.reasons(), [StopReason::MaxPasses, StopReason::ModelFailure]);
    assert!(world.outcome().document.get("situation").is_some());
    // What was paid for nothing is on the cost.
    assert_eq!((world.outcome().totals.model_calls, world.outcome().totals.passes), (4, 1));
}

#[test]
fn a_final_pass_that_fails_keeps_its_cause_and_the_document() {
    let world = last_pass().started().failed(failure(false)).ends(StopReason::MaxPasses);
    assert_eq!(world.reasons(), [StopReason::MaxPasses, StopReason::ModelFailure]);
    let detail = Measure::Text("overloaded: try later".into());
    assert_eq!(world.outcome().stop.also[0].value, detail);
    assert!(world.outcome().document.get("situation").is_some());
}

#[test]
fn a_final_pass_that_fails_for_want_of_model_calls_says_so_once() {
    let world = run().limits(|limits| limits.model_calls = 1).start().expect_call("1/final", 1);
    let world = world.started().failed(failure(true)).expect_call("1/final", 2).started();
    // No reply ever came, so that the limit is not what ended it.
    let world = world.ends(StopReason::ModelFailure);
    assert_eq!(world.reasons(), [StopReason::ModelFailure, StopReason::MaxModelCalls]);
}

#[test]
fn a_model_that_never_answers_is_a_failure_even_where_its_call_was_the_last() {
    // I-10
    let world = run().limits(|limits| limits.passes = 1).start().started().failed(failure(false));
    let world = world.ends(StopReason::ModelFailure);
    assert_eq!(world.reasons(), [StopReason::ModelFailure, StopReason::MaxPasses]);
    assert_eq!(world.outcome().stop.class, loop_core::types::StopClass::Failed);
}

#[test]
fn a_final_pass_that_does_not_fit_stops_with_both_reasons() {
    let huge = PromptSize { bytes: 1_000_000, shared_bytes: 0 };
    let world = last_pass().started_with(huge).started_with(huge).ends(StopReason::MaxPasses);
    assert_eq!(world.reasons(), [StopReason::MaxPasses, StopReason::TokenLimit]);
}

#[test]
fn a_final_pass_that_is_lost_again_and_again_keeps_its_cause() {
    // B14: it is made again until the limits bind.
    let mut world = last_pass();
    for attempt in 1..=11 {
        world = world.expect_call("2/final", attempt).started().resumed(1);
    }
    let world = world.expect_call("2/final", 12).started().ends(StopReason::MaxPasses);
    assert_eq!(world.reasons(), [StopReason::MaxPasses, StopReason::MaxModelCalls]);
}

#[test]
fn one_pass_means_one_final_pass() {
    let world = run().limits(|limits| limits.passes = 1).start().expect_call("1/final", 1);
    world.replied(&draft("high")).ends(StopReason::MaxPasses);
}

#[test]
fn what_a_provider_refuses_by_name_is_left_out_and_the_call_is_made_once_more() {
    // T17: also where no further call would be permitted, as no model saw the request.
    let refused = |part| ModelFailure {
        kind: FailureKind::InvalidRequest,
        refused: Some(part),
        usage: Some(Usage::default()),
        ..failure(false)
    };
    let scarce = run().limits(|limits| limits.model_calls = 2).start().replied(&device("a")).all_finished();
    for world in [last_pass(), scarce.expect_call("2/final", 1)] {
        let world = world.started().failed(refused(RequestPart::ToolChoice)).expect_call("2/final", 2);
        let world = world.started().failed(refused(RequestPart::LateInstruction)).expect_call("2/final", 3);
        assert_eq!((world.run.left_out().len(), world.run.totals().model_calls), (2, 1));
        let noted: Vec<_> = world
            .all_notes()
            .filter_map(|note| if let Note::CallRetried { without, .. } = note { *without } else { None })
            .collect();
        assert_eq!(noted, [RequestPart::ToolChoice, RequestPart::LateInstruction]);
        // Once for each part.
        let again = world.clone().started().failed(refused(RequestPart::ToolChoice));
        assert_eq!(again.outcome().stop.class, StopClass::Partial);
        let world = world.replied(&draft("high"));
        assert_eq!((world.outcome().stop.class, world.run.totals().model_calls), (StopClass::Answered, 2));
    }
}
