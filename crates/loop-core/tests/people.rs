//! People: asked after what may run has run; an approval counts once, silence is a no.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, unreachable_pub)]

mod common;

use common::*;

use loop_core::{Fact, Millis, PersonAnswer, Status, StopMode, StopReason, Verdict};

fn no() -> PersonAnswer {
    PersonAnswer::Denied { why: "not today".into() }
}

const YES: PersonAnswer = PersonAnswer::Approved;

fn asked() -> World {
    let reply =
        said("low").asks("wipe", target("a")).asks("fetch_device", target("b")).asks("restart", target("c"));
    run().people().start().replied(&reply).expect_tools(&["1/action-1#1 fetch_device"])
}

#[test]
fn a_person_is_asked_after_what_may_run_has_run() {
    let world = asked();
    assert!(world.asks().is_empty());
    let world = world.all_finished().expect_phase("waiting_for_person");
    assert_eq!(
        (world.asks(), world.run.deadline()),
        (vec!["1/action-0".to_owned(), "1/action-2".to_owned()], Some(Millis(600_000)))
    );
}

#[test]
fn what_is_approved_runs_and_what_is_denied_is_an_observation() {
    // I-26, S0-56
    let world = asked()
        .all_finished()
        .answered_by_person("1/action-2", YES)
        .expect_phase("waiting_for_person")
        .answered_by_person("1/action-0", no())
        .expect_tools(&["1/action-2#1 restart"]);
    assert!(!world.tools()[0].announced, "a write is announced before it starts");
    let world = world.finished("1/action-2", found("restarted")).expect_call("2/main", 1);
    let evidence: Vec<_> = world
        .run
        .evidence()
        .iter()
        .map(|found| (found.id.0, &*found.tool, found.observation.status))
        .collect();
    assert_eq!(
        evidence,
        [(1, "fetch_device", Status::Ok), (2, "wipe", Status::Denied), (3, "restart", Status::Ok)]
    );
    assert!(world.run.evidence()[1].observation.markdown.contains("not today"));
    assert_eq!(world.run.totals().tool_calls, 2, "what was denied was not called");
    // What was denied is not asked again.
    let world = world.replied(&said("low").asks("wipe", target("a")));
    assert_eq!(world.ends(StopReason::NoNewActions).verdicts()[3], "duplicate");
}

#[test]
fn a_denial_of_everything_goes_on_with_the_next_pass() {
    let world = run().people().start().replied(&said("low").asks("wipe", target("a")));
    let world = world.answered_by_person("1/action-0", no()).expect_call("2/main", 1);
    assert_eq!(world.run.actions()[0].verdict, Verdict::Denied { why: "not today".into() });
    assert_eq!(world.run.totals().tool_calls, 0);
}

#[test]
fn silence_is_a_no() {
    // U3
    let world = asked().all_finished().answered_by_person("1/action-2", YES).deadline();
    assert_eq!(world.now, 600_000);
    assert_eq!(world.run.actions()[0].verdict, Verdict::Denied { why: "nobody answered in time".into() });
    world.expect_tools(&["1/action-2#1 restart"]);
}

#[test]
fn an_answer_counts_once_and_only_in_time_and_only_for_what_was_asked() {
    // U4, I-26
    let answer = |key_text: &str, answer| Fact::PersonAnswered { key: key(key_text), answer, binding: None };
    let early = asked().rejects(answer("1/action-0", YES)).all_finished();
    let world = early
        .rejects(answer("1/action-1", YES))
        .rejects(answer("9/action-0", YES))
        .answered_by_person("1/action-0", no());
    let world = world.rejects(answer("1/action-0", YES)).wait(600_000).rejects(answer("1/action-2", YES));
    world.deadline().expect_call("2/main", 1).rejects(answer("1/action-2", YES));
}

#[test]
fn waiting_for_a_person_does_not_count_against_the_wall_clock() {
    let reply = said("low").asks("wipe", target("a"));
    let setup = || {
        run().people().limits(|limits| limits.wall_ms = 10_000).start().started().wait(1_000).answered(&reply)
    };
    let world = setup().wait(500_000);
    assert_eq!(world.run.deadline(), Some(Millis(601_000)));
    let world = world.answered_by_person("1/action-0", YES).expect_phase("acting");
    assert_eq!((world.run.elapsed_ms(), world.run.deadline()), (1_000, Some(Millis(510_000))));
    let world = world
        .wait(2_000)
        .finished("1/action-0", found("x"))
        .replied(&said("high"))
        .ends(StopReason::Confident);
    assert_eq!(world.outcome().totals.wall_ms, 3_000);
    // A stop while waiting does not make the waiting count.
    let stopped = setup().wait(500_000).stop(StopMode::Now).ends(StopReason::ManualStop);
    assert_eq!(stopped.outcome().totals.wall_ms, 1_000);
}

#[test]
fn the_time_without_a_driver_counts_for_a_persons_deadline() {
    let world = asked().all_finished().resumed(599_999).expect_phase("waiting_for_person");
    assert_eq!(world.run.elapsed_ms(), 0);
    let world = world.wait(1).deadline().expect_call("2/main", 1);
    assert_eq!(world.run.elapsed_ms(), 0);
}

#[test]
fn evidence_is_numbered_when_it_is_admitted_whatever_the_order_of_the_answers() {
    // I-20
    let order = |first: &str, second: &str| {
        let world = asked().all_finished().answered_by_person(first, YES).answered_by_person(second, YES);
        let world = world.finished("1/action-2", found("2")).finished("1/action-0", found("0"));
        world.run.evidence().to_vec()
    };
    assert_eq!(order("1/action-0", "1/action-2"), order("1/action-2", "1/action-0"));
}
