//! Events that cannot follow: late, foreign, doubled, too early, back in time. They change nothing.

use loop_testkit::*;

use std::sync::Arc;

use loop_core::run::{CheckResult, PersonAnswer, Refusal, Reserve, SaveResult, StopMode};
use loop_core::types::{Millis, Tier};
use loop_core::{Event, EventKind, Note, Rejected, Run, StopReason};

/// One fact of every kind for a key, whether or not it may follow.
fn every_kind(at: &str, attempt: u32) -> Vec<EventKind> {
    let (key, reply) = (loop_testkit::key(at), draft("high").reply());
    let first = run().start().journal.remove(0).0.kind;
    vec![
        first,
        EventKind::CallStarted {
            key,
            attempt,
            tier: Tier::Base,
            prompt_bytes: 2_000,
            shared_bytes: 0,
            prompt_hash: digest(),
            max_output_tokens: 1,
            reserve: Reserve::default(),
        },
        EventKind::CallRefused { key, attempt, prompt_bytes: 2_000, shared_bytes: 0, refusal: Refusal::Cost },
        EventKind::ModelReplied { key, attempt, reply: reply.into() },
        EventKind::ModelFailed { key, attempt, failure: failure(true).into() },
        EventKind::ToolStarted { key, attempt },
        EventKind::ToolFinished { key, attempt, observation: found("x").into() },
        EventKind::PersonAnswered {
            key: loop_testkit::key("9/action-0"),
            answer: PersonAnswer::Approved,
            binding: None,
        },
        EventKind::SaveFinished { attempt: attempt + 8, result: saved_at("x") },
        EventKind::StopWithdrawn,
        EventKind::DeadlineReached,
    ]
}

fn device() -> DraftReply {
    draft("low").asks("fetch_device", target("a"))
}

/// A run in every phase.
fn phases() -> Vec<World> {
    let selection = run().selector(&[]).start();
    let asking = run().people().start().replied(&draft("low").asks("wipe", target("a")));
    vec![
        selection.clone(),
        selection.clone().started(),
        selection.selected(&[("fetch_device", target("a"))]),
        run().start(),
        run().start().started(),
        run().start().replied(&text("## Situation\nx")),
        run().start().replied(&text("## Situation\nx")).started(),
        run().start().replied(&device()),
        asking.clone(),
        asking.answered_by_person("1/action-0", PersonAnswer::Approved),
        run().limits(|limits| limits.passes = 1).start(),
        run().start().started().stop(StopMode::Now),
        run().start().replied(&device()).stop(StopMode::Now),
        run().saving().start().replied(&draft("high")),
        run().start().replied(&draft("high")),
    ]
}

#[test]
fn what_is_not_open_is_rejected_in_every_phase_and_changes_nothing() {
    // T10, T11, I-6: `rejects` compares the whole run.
    for mut world in phases() {
        for at in
            ["0/select", "1/main", "1/action-0", "7/main", "7/action-9", "1/repair", "1/final", "1/save"]
        {
            for attempt in [0, 4] {
                for kind in every_kind(at, attempt) {
                    world = world.rejects(kind);
                }
            }
        }
    }
}

#[test]
fn a_settlement_is_taken_once() {
    // T10, U2
    let world = run().start().started();
    let reply = EventKind::ModelReplied { key: key("1/main"), attempt: 1, reply: device().reply().into() };
    let failed = EventKind::ModelFailed { key: key("1/main"), attempt: 1, failure: failure(true).into() };
    let finished =
        EventKind::ToolFinished { key: key("1/action-0"), attempt: 1, observation: found("x").into() };
    let world = world.rejects(finished.clone()).answered(&device()).rejects(reply.clone()).rejects(failed);
    let world = world.finished("1/action-0", found("x")).rejects(finished).rejects(reply);
    world.expect_call("2/main", 1);
}

#[test]
fn a_settlement_before_its_start_is_rejected() {
    // I-25: nothing is answered that was not announced.
    let world = run().start();
    let reply =
        EventKind::ModelReplied { key: key("1/main"), attempt: 1, reply: draft("high").reply().into() };
    let world = world.rejects(reply);
    let requested = draft("low").asks("wipe", target("a"));
    let world = world.replied(&requested);
    world.ends(StopReason::NeedsHuman);
    let approved =
        run().people().start().replied(&requested).answered_by_person("1/action-0", PersonAnswer::Approved);
    let finished =
        EventKind::ToolFinished { key: key("1/action-0"), attempt: 1, observation: found("x").into() };
    let started = EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 };
    let mut world = approved.rejects(finished.clone());
    world.apply(started.clone());
    world = world.rejects(started);
    world.apply(finished);
}

#[test]
fn a_reply_of_an_earlier_try_is_rejected() {
    let world = run().start().started().failed(failure(true)).started();
    let late =
        EventKind::ModelReplied { key: key("1/main"), attempt: 1, reply: draft("high").reply().into() };
    world.rejects(late).expect_call("1/main", 2);
}

#[test]
fn another_try_is_noted_by_its_number() {
    let world = run().start().started().failed(failure(true));
    let retried = Note::CallRetried { key: key("1/main"), attempt: 2, not_before: None, without: None };
    assert!(world.notes().contains(&retried), "{:?}", world.notes());
}

#[test]
fn a_call_is_not_announced_twice_nor_while_it_has_to_wait() {
    let world = run().start();
    let started = world.clone().started().journal.last().unwrap().0.kind.clone();
    let world = world.started().rejects(started);
    let mut later = failure(true);
    later.retry_at = Some(Millis(100));
    let waiting = world.failed(later);
    assert_eq!(waiting.run.quote(&key("1/main"), PROMPT), Err(Refusal::NotCommanded));
    let started = waiting.clone().wait(100).started_after_wait();
    waiting.wait(99).rejects(started);
}

#[test]
fn nothing_is_announced_once_a_stop_is_asked_for() {
    // I-9
    let requested = draft("low").asks("restart", target("a")).asks("wipe", target("b"));
    let mut world = run().people().start().replied(&requested);
    for action in ["1/action-0", "1/action-1"] {
        world = world.answered_by_person(action, PersonAnswer::Approved);
    }
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let world =
        world.stop(StopMode::AtGate).rejects(EventKind::ToolStarted { key: key("1/action-1"), attempt: 1 });
    let world = world.expect_tools(&["1/action-0#1 restart"]);
    world.finished("1/action-0", found("x")).ends(StopReason::ManualStop);
}

#[test]
fn time_does_not_go_back() {
    // S4-25, S4-d2, H7
    let mut run = run().start().wait(500).started().run;
    let before = run.clone();
    let event = Event { at: Millis(499), kind: EventKind::StopRequested { how: StopMode::Now } };
    assert_eq!(run.apply(&event), Err(Rejected::BackInTime { event: "stop_requested", at: 499, now: 500 }));
    assert_eq!(run, before);
}

#[test]
fn a_rejection_does_not_move_the_clock() {
    let world = run().start().wait(900).rejects(EventKind::StopWithdrawn);
    assert_eq!(world.run.now(), Millis(0));
}

#[test]
fn a_rejection_says_what_was_wrong() {
    let mut run = run().start().run;
    let reported =
        |run: &mut Run, at, kind| run.apply(&Event { at: Millis(at), kind }).unwrap_err().to_string();
    assert_eq!(reported(&mut run, 0, EventKind::StopWithdrawn), "stop_withdrawn while calling");
    assert_eq!(
        reported(&mut run, 5, EventKind::DeadlineReached),
        "deadline_reached at 5 ms, before the deadline"
    );
    let finished =
        EventKind::ToolFinished { key: key("1/action-0"), attempt: 1, observation: found("x").into() };
    assert_eq!(reported(&mut run, 0, finished), "tool_finished while calling");
    let reply =
        EventKind::ModelReplied { key: key("2/main"), attempt: 1, reply: draft("high").reply().into() };
    assert_eq!(
        reported(&mut run, 0, reply),
        "model_replied for 2/main attempt 1, which is not open while calling"
    );
}

#[test]
fn a_run_begins_with_started_once_and_with_its_own_spec() {
    let world = run().start();
    let other = Arc::new(run().limits(|limits| limits.passes = 2).spec);
    let first = &world.journal[0].0;
    assert!(matches!(Run::open(first, Arc::clone(&other)), Err(Rejected::OtherSpec { .. })));
    assert!(matches!(Run::restore(world.run.state().clone(), other), Err(Rejected::OtherSpec { .. })));
    // H11: rules that are not known are refused by their number.
    let (spec, item) = (loop_core::RunSpec { version: 3, ..(*world.spec).clone() }, run().item);
    let (spec, facts) = (Arc::new(spec), facts());
    let (newer, first, _) = Run::start(loop_core::types::RunId::new("r1"), Arc::clone(&spec), item, facts);
    let unknown = Rejected::UnknownVersion { found: 3 };
    assert_eq!(unknown.to_string(), "the spec has version 3, and this crate knows version 2");
    assert_eq!(Run::open(&first, Arc::clone(&spec)).unwrap_err(), unknown);
    assert_eq!(Run::restore(newer.state().clone(), spec).unwrap_err(), unknown);
    let stop = Event { at: Millis(0), kind: EventKind::StopWithdrawn };
    assert_eq!(Run::open(&stop, Arc::clone(&world.spec)), Err(Rejected::NotTheStart("stop_withdrawn")));
    world.rejects(run().start().journal[0].0.kind.clone());
}

#[test]
fn nothing_follows_the_end() {
    // I-9
    let mut world = run().start().replied(&draft("high")).ends(StopReason::Confident);
    for kind in every_kind("1/main", 1) {
        world = world.rejects(kind);
    }
    for kind in [
        EventKind::StopRequested { how: StopMode::Now },
        EventKind::Resumed { away_ms: 0, by: None },
        EventKind::SaveFinished { attempt: 1, result: SaveResult::Saved { location: "x".into() } },
    ] {
        world = world.rejects(kind);
    }
}

#[test]
fn an_announcement_names_the_call_that_is_commanded_and_its_next_try() {
    // M14, I-6, I-25: all else is as the state quotes it.
    let reported = |world: &World, name: &str, attempt: u32| {
        let Ok(quote) = world.run.quote(&world.call().key, PROMPT) else { panic!("{:?}", world.call()) };
        EventKind::CallStarted {
            key: key(name),
            attempt,
            tier: quote.tier,
            prompt_bytes: PROMPT.bytes,
            shared_bytes: PROMPT.shared_bytes,
            prompt_hash: digest(),
            max_output_tokens: quote.max_output_tokens,
            reserve: quote.reserve,
        }
    };
    let check = |mut world: World, commanded: &str, attempt: u32| {
        for name in
            ["0/select", "1/main", "2/main", "1/repair", "2/repair", "1/final", "1/action-0", "1/save"]
        {
            for tried in 0..=attempt + 1 {
                let kind = reported(&world, name, tried);
                world = if (name, tried) == (commanded, attempt) { world } else { world.rejects(kind) };
            }
        }
        let kind = reported(&world, commanded, attempt);
        world.apply(kind);
    };
    check(run().selector(&[]).start(), "0/select", 1);
    check(run().start(), "1/main", 1);
    check(run().start().started().failed(failure(true)), "1/main", 2);
    check(run().start().started().resumed(5), "1/main", 2);
    check(run().start().replied(&text("## Situation\nNo contract.")), "1/repair", 1);
    check(run().start().replied(&device()).all_finished(), "2/main", 1);
    check(run().limits(|limits| limits.passes = 1).start(), "1/final", 1);
}

#[test]
fn a_validation_of_another_try_or_call_is_not_open() {
    // T10: told apart from an event that cannot occur in the phase at all.
    let validated = |at: &str, attempt| {
        let key = key(at);
        EventKind::Checked { key, attempt, result: CheckResult::Passed, used: None }
    };
    let mut waits = output().start().replied(&calls(&[("save", target("x"))]));
    waits = waits.expect_check("1/check#1 {\"target\":\"x\"}");
    for (at, attempt) in [("1/check", 2), ("2/check", 1)] {
        let why = waits.try_apply(validated(at, attempt)).unwrap_err();
        assert!(matches!(why, Rejected::NotOpen { .. }), "{why}");
    }
    let why = run().start().try_apply(validated("1/check", 1)).unwrap_err();
    assert!(matches!(why, Rejected::OutOfOrder { .. }), "{why}");
}

#[test]
fn a_result_of_another_call_is_not_open_while_the_run_stops() {
    // T11: what is still awaited is a result as before, so another one is told apart by its key.
    let world = run().start().replied(&device());
    let mut stopping = world.stop(StopMode::Now).expect_phase("stopping");
    let other =
        EventKind::ToolFinished { key: key("1/action-7"), attempt: 1, observation: found("x").into() };
    let why = stopping.try_apply(other).unwrap_err();
    assert!(matches!(why, Rejected::NotOpen { .. }), "{why}");
}

#[test]
fn an_announcement_that_was_not_journaled_is_taken_back_and_no_other_one() {
    // H4, I-25
    let before = run().start();
    let started = before.clone().started();
    let mut taken = started.run.clone();
    taken.take_back(&started.journal.last().unwrap().0.kind);
    assert_eq!(taken.state(), before.run.state());
    let mut other = started.journal.last().unwrap().0.kind.clone();
    if let EventKind::CallStarted { key: at, .. } = &mut other {
        *at = key("2/main");
    }
    let mut taken = started.run.clone();
    taken.take_back(&other);
    assert_eq!(taken.state(), started.run.state());
    let of = |at: &str, attempt| EventKind::ToolStarted { key: key(at), attempt };
    let asks = draft("low").asks("wipe", target("a")).asks("restart", target("b"));
    let mut one = run().approving(&["wipe", "restart"]).start().replied(&asks);
    one.apply(of("1/action-0", 1));
    let mut both = one.clone();
    both.apply(of("1/action-1", 1));
    let mut taken = both.run.clone();
    taken.take_back(&of("1/action-1", 2));
    taken.take_back(&of("1/action-7", 1));
    assert_eq!(taken.state(), both.run.state());
    taken.take_back(&of("1/action-1", 1));
    assert_eq!(taken.state(), one.run.state());
}
