//! The words in which a decision is told: why a call did not run, and names of decisions.

use loop_testkit::*;

use std::collections::BTreeSet;

use loop_core::policy::May;
use loop_core::{DropReason, PersonAnswer, Rejection, StopReason, TierCause};

/// The reason of the last action.
fn last_reason(world: &World) -> String {
    world.run.actions().last().unwrap().reason(world.run.evidence())
}

#[test]
fn a_repeat_names_the_call_before_it_and_its_evidence() {
    // I-32
    let asks = draft("low").asks("fetch_device", target("a"));
    let world = run().start().replied(&asks).finished("1/action-0", found("a device")).replied(&asks);
    assert_eq!(world.verdicts(), ["run", "duplicate"]);
    assert_eq!(last_reason(&world), "already run as 1/action-0, see E1");
}

#[test]
fn a_repeat_of_what_an_approver_denied_says_so() {
    // I-32: such a call never ran.
    let asks = draft("low").asks("wipe", target("a"));
    let world = run().people().start().replied(&asks);
    let denied = world.answered_by_person("1/action-0", PersonAnswer::Denied { why: "not today".into() });
    let world = denied.replied(&asks);
    assert_eq!(world.verdicts(), ["denied", "duplicate"]);
    let reason = last_reason(&world);
    assert!(reason.starts_with("already asked for as 1/action-0 and denied: "), "{reason}");
    assert!(reason.ends_with("; see E1"), "{reason}");
}

#[test]
fn a_call_without_a_tool_name_is_told_as_such() {
    for name in ["", " "] {
        let world = run().start().replied(&draft("low").asks(name, target("a")));
        assert_eq!(last_reason(&world), "it names no tool");
    }
    let world = run().start().replied(&draft("low").asks("xyzzy", target("a")));
    assert_ne!(last_reason(&world), "it names no tool");
}

#[test]
fn each_cause_and_each_decision_has_a_name_of_its_own() {
    let causes = [
        TierCause::LowConfidence,
        TierCause::Unavailable,
        TierCause::Cost,
        TierCause::Context,
        TierCause::Ended,
    ];
    let words: BTreeSet<&str> = causes.into_iter().map(TierCause::words).collect();
    assert_eq!(words.len(), causes.len());
    let dropped = [
        DropReason::CallFailed,
        DropReason::CallChanged,
        DropReason::NotAdmitted,
        DropReason::Stopped,
        DropReason::Lost,
    ];
    let texts: BTreeSet<&str> = dropped.into_iter().map(DropReason::text).collect();
    assert_eq!(texts.len(), dropped.len());
    assert_eq!(StopReason::MaxPasses.to_string(), StopReason::MaxPasses.name());
    let rejection = Rejection { by: "schema".into(), message: "too short".into() };
    assert_eq!(rejection.to_string(), "schema: too short");
    let decisions = [May::Runs, May::Asks, May::LeftUndone, May::Denied];
    let names: BTreeSet<&str> = decisions.into_iter().map(May::name).collect();
    assert_eq!(names.len(), decisions.len());
}
