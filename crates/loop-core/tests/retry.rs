//! Retries: a run that begins its work anew and knows what an ended run found and did. Salvaged runs: what is left of a
//! damaged journal continues.

use loop_testkit::*;

use loop_core::run::{NotTakenOver, PersonAnswer, StopMode, Takeover};
use loop_core::spec::{RepeatScope, Repeats};
use loop_core::types::{CommandKey, Slot, Status};
use loop_core::{EventKind, Run, StopReason};

use crate::crash;

const APPROVED: PersonAnswer = PersonAnswer::Approved;

fn help_desk() -> Setup {
    run().people().approving(&["restart", "wipe"]).patient()
}

/// A parent that found `a`, restarted it, did not restart `b`, and left `wipe c` in doubt.
fn parent(repeats: Repeats) -> World {
    let world = help_desk().repeating(repeats).start();
    let world =
        world.replied(&draft("medium").asks("fetch_device", target("a")).asks("restart", target("a")));
    let world = world.finished("1/action-0", found("a device")).finished("1/action-1", found("restarted"));
    let world = world.replied(&draft("medium").asks("restart", target("b")).asks("wipe", target("c")));
    let world = world.finished("2/action-0", observed(Status::RetryableError));
    let world = world.finished("2/action-1", observed(Status::Timeout));
    world
        .replied(&draft("low").asks("fetch_device", target("x")).asks_as("nice_to_have", "wipe", target("d")))
        .finished("3/action-0", observed(Status::PermanentError))
        .stop(StopMode::Now)
        .autopilot(&draft("high"))
}

#[test]
fn a_retry_knows_the_evidence_and_begins_its_work_anew() {
    let parent = parent(Repeats::NeverRerun);
    let retry = parent.retried().unwrap().expect_call("1/main", 1);
    let (started, before) = (retry.run.started(), parent.run.started());
    let of = started.parent.as_ref().unwrap();
    assert_eq!((of.how, of.entries), (Takeover::Retry, parent.journal.len() as u64));
    // The nonce is that of its own facts: texts of the parent may hold the old one.
    assert_eq!((&started.item, &*started.nonce), (&before.item, NONCE));
    // Draft, totals and time begin anew.
    assert_eq!((retry.run.totals(), retry.now), (&loop_core::types::Totals::default(), 0));
    assert_eq!((retry.run.passes().len(), retry.run.document().sections.len()), (0, 0));
    // The evidence has its numbers, and keys that no call of the retry can have.
    let (mine, theirs) = (retry.run.evidence(), parent.run.evidence());
    assert_eq!(mine.len(), theirs.len());
    for ((n, mine), theirs) in (0..).zip(mine).zip(theirs) {
        assert_eq!(
            (mine.id, &mine.observation, &mine.parameters),
            (theirs.id, &theirs.observation, &theirs.parameters)
        );
        assert_eq!((mine.key, mine.pass), (CommandKey::new(0, Slot::Inherited(n)), 0));
        assert_eq!(retry.run.idempotency_key(&mine.key), parent.run.idempotency_key(&theirs.key));
    }
    let listed: Vec<_> = of.effects.iter().map(|it| (&*it.key, it.status.map(Status::name))).collect();
    let expected = [
        ("r1/1/action-1", Some("ok")),
        ("r1/2/action-0", Some("retryable_error")),
        ("r1/2/action-1", Some("in_doubt")),
    ];
    assert_eq!(listed, expected);
    retry.replied(&draft("high")).ends(StopReason::Confident);
}

#[test]
fn a_retry_repeats_no_write_that_succeeded_or_is_in_doubt() {
    // I-6, I-7
    for repeats in [Repeats::NeverRerun, Repeats::Progress, Repeats::Off, Repeats::ThreeTier, Repeats::Reuse]
    {
        let parent = parent(repeats);
        let all = draft("medium")
            .asks("restart", target("a"))
            .asks("restart", target("b"))
            .asks("wipe", target("c"))
            .asks("wipe", target("e"));
        let retry = parent.retried().unwrap().replied(&all);
        assert_eq!(retry.verdicts(), ["duplicate", "run", "needs_person", "run"], "{repeats:?}");
        // What failed in a retryable way has its tries again, under the parent's key.
        let retry = retry.expect_tools(&["0/inherited-2#1 restart", "1/action-3#1 wipe"]);
        let key_of = |retry: &World, at: usize| retry.run.idempotency_key(&retry.tools()[at].key).to_string();
        assert_eq!(key_of(&retry, 0), "r1/2/action-0");
        assert_eq!(key_of(&retry, 1), "r1/retry/1/action-3");
        let retry = retry.finished("0/inherited-2", found("done")).finished("1/action-3", found("done"));
        assert_eq!(retry.asks(), ["1/action-2"], "{repeats:?}");
        let retry = retry.answered_by_person("1/action-2", APPROVED);
        assert_eq!(key_of(&retry, 0), "r1/2/action-1");
        let key = retry.tools()[0].key.to_string();
        let retry = retry.finished(&key, found("done")).replied(&draft("high"));
        let retry = retry.ends(StopReason::Confident);
        let outcome = retry.outcome();
        assert_eq!(outcome.evidence.len(), parent.run.evidence().len() + 3);
        assert!(!retry.reasons().contains(&StopReason::InDoubt));
    }
}

#[test]
fn a_read_that_returned_something_is_not_made_again_and_a_failed_one_is() {
    let retry = parent(Repeats::NeverRerun).retried().unwrap();
    let reads = draft("medium").asks("fetch_device", target("a")).asks("fetch_device", target("x"));
    let retry = retry.replied(&reads);
    assert_eq!(retry.verdicts(), ["duplicate", "run"]);
    retry.expect_tools(&["1/action-1#1 fetch_device"]);
}

#[test]
fn a_retry_of_a_retry_keeps_the_keys_of_both() {
    let first = parent(Repeats::NeverRerun).retried().unwrap();
    let first =
        first.replied(&draft("medium").asks("wipe", target("e"))).finished("1/action-0", found("wiped"));
    let first = first.replied(&draft("high")).ends(StopReason::Confident);
    let second = first.retried().unwrap();
    let keys: Vec<String> =
        second.run.evidence().iter().map(|it| second.run.idempotency_key(&it.key).to_string()).collect();
    let expected = [
        "r1/1/action-0",
        "r1/1/action-1",
        "r1/2/action-0",
        "r1/2/action-1",
        "r1/3/action-0",
        "r1/retry/1/action-0",
    ];
    assert_eq!(keys, expected);
    let second = second.replied(&draft("medium").asks("wipe", target("c")).asks("wipe", target("e")));
    assert_eq!(second.verdicts(), ["needs_person", "duplicate"]);
    // A fork of a retry as well.
    let second = second.answered_by_person("1/action-0", APPROVED);
    let key = second.tools()[0].key.to_string();
    let second = second.finished(&key, found("wiped")).replied(&draft("high"));
    let fork = second.forked(1).unwrap().replied(&draft("medium").asks("wipe", target("c")));
    assert_eq!(fork.asks(), ["1/action-0"]);
    let fork = fork.answered_by_person("1/action-0", APPROVED);
    assert_eq!(&*fork.run.idempotency_key(&fork.tools()[0].key), "r1/2/action-1");
}

#[test]
fn a_doubt_is_one_in_a_retry_of_a_retry() {
    // I-6, H1: `wipe c` may have happened, and neither retry was allowed to find out.
    for repeats in [Repeats::NeverRerun, Repeats::Progress, Repeats::Off] {
        let once = parent(repeats).retried().unwrap().stop(StopMode::Now).autopilot(&draft("high"));
        let twice = once.retried().unwrap().replied(&draft("medium").asks("wipe", target("c")));
        assert_eq!(twice.asks(), ["1/action-0"], "{repeats:?}");
    }
}

#[test]
fn what_the_last_step_of_the_parent_did_is_known_in_every_scope_of_a_retry() {
    // I-6: with a scope for each step, a call of an earlier step of the same run may be made again.
    for scope in [RepeatScope::Step, RepeatScope::Run] {
        let setup = run().people().approving(&["restart"]).patient().gate(|gate| gate.scope = scope);
        let asked = draft("medium").asks("restart", target("a"));
        let mut parent = setup.start().replied(&asked);
        parent.apply(EventKind::ToolStarted { key: loop_testkit::key("1/action-0"), attempt: 1 });
        let parent = parent.stop(StopMode::AtGate).finished("1/action-0", found("restarted"));
        let retry = parent.ends(StopReason::ManualStop).retried().unwrap().replied(&asked);
        assert_eq!((retry.tools().len(), retry.verdicts()), (0, vec!["duplicate"]), "{scope:?}");
    }
}

#[test]
fn what_an_earlier_step_of_the_parent_did_is_not_done_again_without_a_person() {
    // I-6, I-7: a scope that ended in the parent did not undo its writes.
    for scope in [RepeatScope::Step, RepeatScope::Run] {
        let asked = draft("medium").asks("restart", target("a"));
        let setup = run().people().approving(&["restart"]).gate(|gate| gate.scope = scope);
        let parent = setup.start().replied(&asked);
        let parent = parent.finished("1/action-0", found("restarted"));
        let parent = parent.replied(&draft("medium").asks("fetch_device", target("b"))).all_finished();
        let parent = parent.replied(&draft("high")).ends(StopReason::Confident);
        let retry = parent.retried().unwrap().replied(&asked);
        let verdict = if scope == RepeatScope::Step { "needs_person" } else { "duplicate" };
        assert_eq!((retry.tools().len(), retry.verdicts()), (0, vec![verdict]), "{scope:?}");
        if scope == RepeatScope::Step {
            // What is approved is made under the parent's key.
            let retry = retry.answered_by_person("1/action-0", APPROVED);
            assert_eq!(&*retry.run.idempotency_key(&retry.tools()[0].key), "r1/1/action-0");
        }
    }
}

#[test]
fn the_time_of_a_retry_begins_anew() {
    // A fork and its parent share one clock. A retry of that fork has a clock of its own.
    let fork =
        parent(Repeats::Progress).forked(1).unwrap().replied(&draft("high")).ends(StopReason::Confident);
    let times = |world: &World| world.run.started().parent.as_ref().unwrap().times.len();
    assert_eq!(times(&fork), 1);
    let retry = fork.retried().unwrap();
    assert_eq!((times(&retry), retry.run.now().0, retry.run.elapsed_ms()), (0, 0, 0));
}

#[test]
fn a_retry_inherits_the_taint() {
    // K2, I-27
    let untrusted = |setup: Setup| {
        setup.with(|spec| {
            spec.tools.iter_mut().for_each(|tool| tool.policy.returns_untrusted = tool.effect.is_read())
        })
    };
    let parent = untrusted(run()).start().replied(&draft("medium").asks("fetch_device", target("a")));
    let parent = parent.all_finished().replied(&draft("high")).ends(StopReason::Confident);
    let retry = parent.retried().unwrap();
    assert!(is_tainted(&retry.run));
    let fork = parent.forked(1).unwrap();
    assert!(!is_tainted(&fork.run));
}

#[test]
fn a_write_that_was_cut_off_is_in_doubt_in_a_retry() {
    // I-6: `restart` is keyed, so the parent may try it again by itself. A retry may come much later.
    for status in [Status::Timeout, Status::Pending] {
        let world = help_desk().start().replied(&draft("medium").asks("restart", target("a")));
        let parent =
            world.finished("1/action-0", observed(status)).stop(StopMode::Now).autopilot(&draft("high"));
        let retry = parent.retried().unwrap().replied(&draft("medium").asks("restart", target("a")));
        assert_eq!(retry.asks(), ["1/action-0"], "{status:?}");
        let retry = retry.answered_by_person("1/action-0", APPROVED);
        assert_eq!(&*retry.run.idempotency_key(&retry.tools()[0].key), "r1/1/action-0", "{status:?}");
    }
}

fn is_tainted(run: &Run) -> bool {
    let state = serde_json::to_value(run.state()).unwrap();
    state["knowledge"]["taint"]["untrusted"] == true
}

#[test]
fn there_is_no_retry_of_a_run_that_is_not_over_or_has_no_document() {
    let open = run().start();
    assert_eq!(open.retried().err(), Some(NotTakenOver::NotOver));
    let talk = conversation().start().replied(&text("Done.")).ends(StopReason::Completed);
    assert_eq!(talk.retried().err(), Some(NotTakenOver::NoDocument));
}

#[test]
fn each_ended_script_is_retried_and_the_retry_replays() {
    // I-11, I-12
    for parent in crash::scripts().into_iter().filter(|parent| parent.run.is_done()) {
        let retry = parent.retried().unwrap().autopilot(&draft("high"));
        retry.check_replay();
        let succeeded = |run: &Run| -> Vec<String> {
            let is_write = |tool: &str| parent.spec.tool(tool).is_some_and(|tool| !tool.effect.is_read());
            let all =
                run.evidence().iter().filter(|it| it.observation.status == Status::Ok && is_write(&it.tool));
            all.map(|it| format!("{} {}", it.tool, it.parameters)).collect()
        };
        let mut done = succeeded(&retry.run);
        let all = done.len();
        done.sort();
        done.dedup();
        assert_eq!(done.len(), all, "a write succeeded twice");
    }
}

#[test]
fn a_salvaged_run_continues_and_every_write_needs_an_approval() {
    // H3: what was in flight as the good part ends is in doubt, and later writes may have happened.
    let mut parent = help_desk().start();
    parent = parent.replied(&draft("medium").asks("restart", target("a")).asks("fetch_device", target("a")));
    parent.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let length = parent.journal.len();
    let salvaged = parent.salvaged(length, true).unwrap();
    let of = salvaged.run.started().parent.as_ref().unwrap();
    assert_eq!((of.how, of.entries, of.lost), (Takeover::Salvage, length as u64, true));
    assert_eq!(of.effects[0].status, None);
    let salvaged = salvaged.expect_tools(&["1/action-1#2 fetch_device"]).all_finished();
    assert_eq!(salvaged.results(), ["run in_doubt", "run ok"]);
    // The key of a call that the parent requested is the old one.
    assert_eq!(&*salvaged.run.idempotency_key(&key("1/action-0")), "r1/1/action-0");
    let writes = draft("medium").asks("restart", target("a")).asks("wipe", target("z"));
    let salvaged = salvaged.replied(&writes);
    assert_eq!(salvaged.asks(), ["2/action-0", "2/action-1"]);
    let why = salvaged.run.requested()[1].why.clone();
    assert!(why.contains("run r1 may have made it already"), "{why}");
    let salvaged =
        salvaged.answered_by_person("2/action-0", APPROVED).answered_by_person("2/action-1", APPROVED);
    let keys: Vec<String> =
        salvaged.tools().iter().map(|tool| salvaged.run.idempotency_key(&tool.key).to_string()).collect();
    assert_eq!(keys, ["r1/1/action-0", "r1/salvage/2/action-1"]);
    salvaged.all_finished().autopilot(&draft("high")).check_replay();
    // With nothing lost only what was in flight is in doubt.
    let salvaged = parent.salvaged(length, false).unwrap().all_finished();
    assert_eq!(salvaged.results(), ["run in_doubt", "run ok"]);
    salvaged.replied(&draft("medium").asks("wipe", target("z"))).expect_tools(&["2/action-0#1 wipe"]);
}

#[test]
fn every_prefix_that_is_not_over_is_salvaged() {
    // I-12
    for parent in crash::scripts() {
        for length in places(1..parent.journal.len() + 1) {
            for lost in [true, false] {
                match parent.salvaged(length, lost) {
                    Ok(salvaged) => salvaged.autopilot(&draft("high")).check_replay(),
                    Err(why) => {
                        assert_eq!(why, NotTakenOver::Fixed);
                        assert!(matches!(parent.run_after(length).phase().name(), "saving" | "done"));
                    }
                }
            }
        }
    }
}

#[test]
fn a_write_that_was_not_started_is_not_an_effect_of_the_parent() {
    // I-6: only what was announced may have happened.
    let asks = draft("medium").asks("restart", target("a")).asks("wipe", target("b"));
    let mut world = help_desk().start().replied(&asks.asks("fetch_device", target("a")));
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let salvaged = world.salvaged(world.journal.len(), false).unwrap();
    let listed = |of: &World| -> Vec<String> {
        let parent = of.run.started().parent.as_ref().unwrap();
        parent.effects.iter().map(|it| it.key.to_string()).collect()
    };
    assert_eq!(listed(&salvaged), ["r1/1/action-0"]);
    // One whose result is known is evidence.
    let observation = found("restarted").into();
    world.apply(EventKind::ToolFinished { key: key("1/action-0"), attempt: 1, observation });
    assert_eq!(listed(&world.salvaged(world.journal.len(), false).unwrap()), [""; 0]);
}

#[test]
fn a_fork_has_the_messages_before_its_parent() {
    let asks = calls(&[("fetch_device", target("a"))]);
    let parent = conversation().history(history(2)).start().replied(&asks).all_finished();
    let length = parent.journal.len();
    let parent = parent.replied(&text("Done."));
    let of = |world: World| world.run.started().history.clone();
    assert_eq!(of(parent.forked(length).unwrap()), parent.run.started().history);
    assert!(parent.run.started().history.is_some());
}
