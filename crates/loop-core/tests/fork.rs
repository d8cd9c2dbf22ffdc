//! Forks: a run that begins with the state that another run had, and that repeats none of its effects on its own.

use loop_testkit::*;

use loop_core::gate::DeniedBy;
use loop_core::run::{NotTakenOver, PersonAnswer, StopMode, Takeover};
use loop_core::spec::Repeats;
use loop_core::types::{Observation, Status};
use loop_core::{EventKind, Run, StopReason, Verdict};

use crate::common::started::{repeats_nothing, started_writes};
use crate::crash;

const APPROVED: PersonAnswer = PersonAnswer::Approved;

/// A parent that restarts `a` in pass 1 and wipes `b` in pass 2, both unasked.
fn parent() -> World {
    let setup = run().people().approving(&["restart", "wipe"]).patient();
    setup
        .start()
        .wait(100)
        .replied(&draft("medium").asks("restart", target("a")).asks("fetch_device", target("a")))
        .finished("1/action-0", found("restarted"))
        .finished("1/action-1", found("a device"))
        .replied(&draft("medium").asks("wipe", target("b")))
        .finished("2/action-0", found("wiped"))
        .replied(&draft("high"))
        .ends(StopReason::Confident)
}

/// The number of events up to the first of this kind, that event included.
fn through(world: &World, name: &str, nth: usize) -> usize {
    let of_kind = |at: &usize| world.journal[*at].0.kind.name() == name;
    1 + (0..world.journal.len()).filter(of_kind).nth(nth).expect("there is such an event")
}

#[test]
fn a_fork_begins_at_every_entry_before_the_reason_is_fixed() {
    // I-11, I-12, I-6: the world checks each state of the fork, and the fork replays from its own journal.
    let mut forks = 0;
    for parent in crash::scripts() {
        for length in places(1..parent.journal.len() + 1) {
            let forked = parent.forked(length);
            assert_eq!(forked.is_ok(), parent.run_after(length).may_fork(), "after {length}");
            let Ok(fork) = forked else { continue };
            assert_eq!(fork.run.now(), parent.run_after(length).now());
            assert!(fork.run.evidence().len() >= parent.run_after(length).evidence().len());
            let fork = fork.autopilot(&draft("high"));
            fork.check_replay();
            repeats_nothing(&parent, length, &fork);
            forks += 1;
        }
    }
    assert!(forks > if is_full() { 35 } else { 8 }, "{forks}");
}

#[test]
fn a_fork_has_what_its_parent_had_and_an_id_of_its_own() {
    let parent = parent();
    let length = through(&parent, "call_started", 1) - 1;
    let fork = parent.forked(length).unwrap().expect_call("2/main", 1);
    let (started, before) = (fork.run.started(), parent.run.started());
    assert_ne!(started.run, before.run);
    assert_eq!((&started.item, &started.nonce), (&before.item, &before.nonce));
    let of = started.parent.as_ref().unwrap();
    assert_eq!((of.how, of.entries, &of.run), (Takeover::Fork, length as u64, &before.run));
    // What was spent counts (I-21), and evidence, taint and document are the parent's.
    let cut = parent.run_after(length);
    assert_eq!(of.totals(), loop_core::types::Totals { wall_ms: 100, ..*cut.totals() });
    assert_eq!(fork.run.totals(), cut.totals());
    assert_eq!((fork.run.evidence(), fork.run.document()), (cut.evidence(), cut.document()));
    // Only what happened after it is listed.
    let listed: Vec<_> = of.effects.iter().map(|it| (&*it.key, &*it.tool, it.status)).collect();
    assert_eq!(listed, [("r1/2/action-0", "wipe", Some(Status::Ok))]);
    assert!(!of.lost && !of.changed);
}

#[test]
fn an_effect_of_the_parent_needs_an_approval_and_keeps_its_key() {
    // I-6, I-26
    for repeats in [Repeats::NeverRerun, Repeats::Progress, Repeats::Off, Repeats::ThreeTier] {
        let parent = parent();
        let spec = loop_core::RunSpec { gate: parent.spec.gate.clone(), ..(*parent.spec).clone() };
        let spec = Setup::of(spec).repeating(repeats).spec;
        let length = through(&parent, "call_started", 1) - 1;
        let again = draft("medium").asks("wipe", target("b")).asks("wipe", target("c"));
        let fork = parent.forked_under(length, spec).unwrap().replied(&again);
        // What the parent did not do runs unasked, as it did there.
        let fork = fork.expect_tools(&["2/action-1#1 wipe"]).finished("2/action-1", found("wiped"));
        assert_eq!(fork.asks(), ["2/action-0"], "{repeats:?}");
        let why = &fork.run.requested()[0].why;
        assert!(why.contains("run r1 has started it already"), "{why}");
        let fork = fork.answered_by_person("2/action-0", APPROVED).expect_tools(&["2/action-0#1 wipe"]);
        let key = fork.tools()[0].key;
        assert_eq!(&*fork.run.idempotency_key(&key), "r1/2/action-0");
        // The other one is the fork's own.
        assert_eq!(&*fork.run.idempotency_key(&loop_testkit::key("2/action-1")), "r1/fork/2/action-1");
        fork.finished("2/action-0", found("wiped")).autopilot(&draft("high")).check_replay();
    }
}

/// A fork of a run that made an effect twice, under two keys; its first is approved.
fn fork_of_two(wipe: &DraftReply) -> World {
    let setup = run().people().approving(&["wipe"]).patient().repeating(Repeats::Off);
    let setup = setup.with(|spec| spec.tools[3].policy.repeats.allowed = true);
    let once = |world: World, action: &str| world.replied(wipe).finished(action, found("wiped"));
    let parent = once(once(setup.start(), "1/action-0"), "2/action-0").replied(&draft("high"));
    parent.forked(1).unwrap().replied(wipe).answered_by_person("1/action-0", APPROVED)
}

#[test]
fn an_effect_that_the_parent_made_twice_needs_two_approvals() {
    let wipe = draft("medium").asks("wipe", target("b"));
    let fork = fork_of_two(&wipe);
    let fork = fork.finished("1/action-0", found("wiped")).replied(&wipe);
    assert_eq!(fork.asks(), ["2/action-0"]);
    let fork = fork.answered_by_person("2/action-0", APPROVED);
    let keys: Vec<String> = started_writes(&fork.finished("2/action-0", found("wiped")))
        .iter()
        .map(|it| it.key.to_string())
        .collect();
    assert_eq!(keys, ["r1/1/action-0", "r1/2/action-0"]);
}

#[test]
fn every_try_of_an_approved_effect_keeps_the_key_of_its_first() {
    // I-6: the parent made it twice, under two keys. The first approved call fails and is approved once more.
    let wipe = draft("medium").asks("wipe", target("b"));
    let fork = fork_of_two(&wipe);
    let fork = fork.finished("1/action-0", observed(Status::RetryableError)).replied(&wipe);
    assert_eq!(fork.asks(), ["2/action-0"]);
    let fork = fork.answered_by_person("2/action-0", APPROVED).expect_tools(&["1/action-0#2 wipe"]);
    assert_eq!(&*fork.run.idempotency_key(&key("1/action-0")), "r1/1/action-0");
}

#[test]
fn a_write_that_waits_for_its_next_try_has_been_started() {
    // I-26: not in flight at the place of the fork, since its driver was lost or its tool was not ready.
    let asked = draft("low").asks("restart", target("a"));
    let open = run().people().approving(&["restart"]).start().replied(&asked);
    let start = |mut world: World| {
        world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
        world
    };
    let pending = Observation { retry_after_ms: Some(500), ..observed(Status::Pending) };
    for begun in [start(open.clone()).resumed(10), open.clone().finished("1/action-0", pending)] {
        let length = begun.journal.len();
        let parent = begun.clone().stop(StopMode::Now).ends(StopReason::ManualStop);
        let fork = parent.forked(length).unwrap();
        // The fork has the parent's result, and does not try again by itself.
        assert_eq!((fork.results(), fork.tools()), (parent.results(), Vec::new()));
        assert_eq!(parent.run.fork(length as u64, []).err(), Some(NotTakenOver::Fixed));
        let salvaged = begun.salvaged(length, /*lost*/ false).unwrap();
        assert_eq!((salvaged.results(), salvaged.tools()), (vec!["run in_doubt".to_owned()], Vec::new()));
    }
    // One that was never started is made by whichever run continues.
    let fork = open.salvaged(open.journal.len(), /*lost*/ false).unwrap();
    fork.expect_tools(&["1/action-0#1 restart"]);
}

#[test]
fn a_fork_knows_the_trace_of_its_parent() {
    let parent = parent();
    let fork = parent.forked(1).unwrap();
    assert_eq!(parent.run.started().parent_trace(), None);
    assert_eq!(fork.run.started().parent_trace(), Some(parent.run.started().trace()));
    assert_ne!(fork.run.started().trace().span, parent.run.started().trace().span);
}

#[test]
fn without_an_approver_it_is_denied() {
    let parent = parent();
    let length = through(&parent, "call_started", 1) - 1;
    let spec = Setup::of((*parent.spec).clone()).gate(|gate| gate.people = false).spec;
    let fork = parent.forked_under(length, spec).unwrap();
    let fork = fork.replied(&draft("medium").asks("wipe", target("b")));
    assert_eq!(fork.tools(), []);
    fork.ends(StopReason::NeedsHuman);
}

#[test]
fn what_was_in_flight_takes_the_parents_result() {
    // `restart a` is announced, and settles after the fork begins.
    let parent = parent();
    for name in ["model_replied", "tool_started"] {
        let length = through(&parent, name, 0);
        let fork = parent.forked(length).unwrap();
        // The read is the fork's own and runs again, the write does not.
        let fork = fork.expect_tools(&["1/action-1#2 fetch_device"]);
        let of = fork.run.started().parent.as_ref().unwrap();
        let listed: Vec<_> = of.effects.iter().map(|it| (&*it.key, it.evidence.map(|id| id.0))).collect();
        assert_eq!(listed, [("r1/1/action-0", Some(1)), ("r1/2/action-0", None)], "{name}");
        let fork = fork.all_finished().expect_call("2/main", 1);
        let evidence = fork.run.evidence();
        assert_eq!(evidence[0].observation, parent.run.evidence()[0].observation);
        // It succeeded, so it is a repeat like any other.
        let fork = fork.replied(&draft("medium").asks("restart", target("a")));
        assert_eq!(fork.verdicts().last(), Some(&"duplicate"));
    }
}

#[test]
fn a_read_is_made_again_unless_a_write_after_it_was_made() {
    // I-26: side by side a read is independent of the writes. In order it does not run after those that follow it.
    let forked = |open: World| {
        let length = open.journal.len();
        open.all_finished().forked(length).unwrap()
    };
    let asked = draft("low").asks("fetch_device", target("a")).asks("wipe", target("b"));
    let beside = forked(run().people().approving(&["wipe"]).start().replied(&asked));
    beside.expect_tools(&["1/action-0#2 fetch_device"]);
    let ordered = |tools: [&str; 2]| {
        let wanted = tools.map(|tool| (tool, target(tool)));
        let open = conversation().people().approving(&["restart"]).start().replied(&calls(&wanted));
        let length = open.journal.len();
        let parent = open.finished("1/action-0", found("first")).finished("1/action-1", found("second"));
        parent.forked(length).unwrap()
    };
    ordered(["restart", "fetch_device"]).expect_tools(&["1/action-1#1 fetch_device"]);
    ordered(["fetch_device", "restart"]).expect_call("2/main", 1);
}

#[test]
fn what_never_settled_is_in_doubt() {
    // The parent was stopped while `restart a` ran, and does not continue.
    let setup = run().people().approving(&["restart", "wipe"]).patient();
    let mut parent = setup.start().replied(&draft("medium").asks("restart", target("a")));
    parent.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let parent = parent.stop(StopMode::Now).deadline();
    assert!(parent.run.is_done());
    for length in [3, 4] {
        let fork = parent.forked(length).unwrap().expect_call("2/main", 1);
        assert_eq!(fork.results(), ["run in_doubt"], "after {length}");
        let fork = fork.replied(&draft("medium").asks("restart", target("a")));
        assert_eq!(fork.asks(), ["2/action-0"]);
        let fork = fork.answered_by_person("2/action-0", APPROVED);
        let tool = fork.tools()[0].clone();
        assert_eq!(&*fork.run.idempotency_key(&tool.key), "r1/1/action-0");
    }
}

#[test]
fn an_approval_of_the_parent_does_not_count() {
    // I-26: two calls wait; one is approved, then the fork begins.
    let world = run().people().start();
    let world = world.replied(&draft("medium").asks("wipe", target("a")).asks("restart", target("b")));
    assert_eq!(world.asks(), ["1/action-0", "1/action-1"]);
    let parent = world.answered_by_person("1/action-0", APPROVED);
    let length = parent.journal.len();
    let parent = parent.answered_by_person("1/action-1", PersonAnswer::Denied { why: "no".into() });
    let parent = parent.finished("1/action-0", found("wiped")).replied(&draft("high"));
    let fork = parent.forked(length).unwrap();
    assert_eq!(fork.asks(), ["1/action-0", "1/action-1"]);
    let why: Vec<String> = fork.run.requested().into_iter().map(|it| it.why).collect();
    assert!(why[0].contains("run r1 has started it already"), "{why:?}");
    // An approval of the fork has the fork's binding.
    let binding = |run: &Run| run.binding(&key("1/action-0"));
    assert_ne!(binding(&fork.run), binding(&parent.run));
    let fork = fork.answered_by_person("1/action-1", PersonAnswer::Denied { why: "no".into() });
    let fork = fork.answered_by_person("1/action-0", APPROVED).expect_tools(&["1/action-0#1 wipe"]);
    assert_eq!(&*fork.run.idempotency_key(&key("1/action-0")), "r1/1/action-0");
}

#[test]
fn the_key_of_the_parent_goes_to_the_call_that_is_approved() {
    // I-6: two equal calls wait. The parent made the first, and the fork is allowed the second.
    let setup = conversation().people().repeating(Repeats::Off);
    let no = || PersonAnswer::Denied { why: "no".into() };
    let world = setup.start().replied(&calls(&[("wipe", target("a")), ("wipe", target("a"))]));
    let length = world.journal.len();
    let parent = world.answered_by_person("1/action-0", APPROVED).answered_by_person("1/action-1", no());
    let parent = parent.finished("1/action-0", found("wiped")).replied(&text("Done."));
    let fork = parent.ends(StopReason::Completed).forked(length).unwrap();
    let fork = fork.answered_by_person("1/action-0", no()).answered_by_person("1/action-1", APPROVED);
    let fork = fork.expect_tools(&["1/action-1#1 wipe"]);
    assert_eq!(&*fork.run.idempotency_key(&key("1/action-1")), "r1/1/action-0");
}

#[test]
fn of_a_parent_that_is_not_over_every_write_needs_an_approval() {
    let setup = run().people().approving(&["restart", "wipe"]).patient();
    let world = setup.start().replied(&draft("medium").asks("fetch_device", target("a")));
    let parent = world.finished("1/action-0", found("a"));
    let fork = parent.forked(1).unwrap().replied(&draft("medium").asks("wipe", target("z")));
    assert!(fork.run.started().parent.as_ref().unwrap().lost);
    assert_eq!(fork.asks(), ["1/action-0"]);
    let why = &fork.run.requested()[0].why;
    assert!(why.contains("may still make it"), "{why}");
    // Reads need none.
    parent
        .forked(1)
        .unwrap()
        .replied(&draft("medium").asks("fetch_device", target("z")))
        .expect_tools(&["1/action-0#1 fetch_device"]);
    // An open write of its batch is in doubt, also where it was not announced yet.
    let open = setup_with_open_write();
    let fork = open.forked(open.journal.len()).unwrap().expect_call("2/main", 1);
    assert_eq!(fork.results(), ["run in_doubt"]);
}

fn setup_with_open_write() -> World {
    let setup = run().people().approving(&["restart"]).patient();
    setup.start().replied(&draft("medium").asks("restart", target("a")))
}

#[test]
fn more_passes_continue_a_fork_and_fewer_end_it() {
    let device = |name: &str| draft("medium").asks("fetch_device", target(name));
    let setup = run().patient().limits(|limits| limits.passes = 2);
    let parent = setup.start().replied(&device("a")).all_finished().replied(&device("b"));
    let parent = parent.ends(StopReason::MaxPasses);
    let length = (1..=parent.journal.len()).rev().find(|at| parent.run_after(*at).may_fork()).unwrap();
    assert_eq!(parent.forked(length + 1).err(), Some(NotTakenOver::Fixed));
    let passes = |passes: u32| {
        let mut spec = (*parent.spec).clone();
        spec.limits.passes = passes;
        spec
    };
    let from = through(&parent, "call_started", 0) - 1;
    let fork = parent.forked_under(from, passes(4)).unwrap();
    assert!(fork.run.started().parent.as_ref().unwrap().changed);
    let fork = fork.replied(&device("a")).all_finished().replied(&device("b")).all_finished();
    fork.expect_call("3/main", 1).autopilot(&draft("high")).ends(StopReason::Confident);
    // The second pass is the final one, so its reason is fixed before its call, except under other limits.
    let last =
        (1..=parent.journal.len()).rev().find(|at| parent.run_after(*at).may_fork_under_other_limits());
    let last = last.unwrap();
    assert_eq!(parent.run_after(last).phase().name(), "final_pass");
    assert_eq!(parent.forked(last).err(), Some(NotTakenOver::Fixed));
    let fork = parent.forked_under(last, passes(4)).unwrap().expect_call("2/main", 1);
    assert_eq!(fork.phase(), "calling");
    fork.autopilot(&draft("high")).ends(StopReason::Confident).check_replay();
    // A setting that is not the limit leaves it the final pass.
    let mut other = (*parent.spec).clone();
    other.limits.person_ms = Some(1);
    let fork = parent.forked_under(last, other).unwrap().expect_phase("final_pass");
    fork.replied(&draft("high")).ends(StopReason::MaxPasses);
    // One pass was read, and the fork may have none more.
    let at = (1..=length).rev().find(|at| parent.run_after(*at).is_between_calls()).unwrap();
    let fork = parent.forked_under(at, passes(1)).unwrap();
    assert!(fork.run.totals().passes <= 1);
}

#[test]
fn other_limits_continue_a_final_pass_that_a_limit_of_calls_money_or_time_made() {
    let look = |name: &str| calls(&[("fetch_device", target(name))]);
    let forked = |parent: &World| {
        let mut spec = (*parent.spec).clone();
        spec.limits.passes += 1;
        parent.forked_under(parent.journal.len(), spec).err()
    };
    let last = run().limits(|limits| limits.passes = 1).start().expect_phase("final_pass");
    assert_eq!(forked(&last), None);
    // Its call is in flight, or was tried already: the prompt said that it is the last one.
    assert_eq!(forked(&last.clone().started()), Some(NotTakenOver::Fixed));
    assert_eq!(forked(&last.started().failed(failure(true))), Some(NotTakenOver::Fixed));
    // Another cause is not a limit that another spec could have raised before.
    let tools = conversation().limits(|limits| limits.tool_calls = 1).start().replied(&look("a"));
    let tools = tools.all_finished().replied(&look("b")).expect_phase("final_pass");
    assert_eq!(forked(&tools), Some(NotTakenOver::Fixed));
}

#[test]
fn calls_that_other_settings_admitted_are_not_continued() {
    let parent = parent();
    let mut spec = (*parent.spec).clone();
    spec.gate.forbid.push("restart".into());
    let length = through(&parent, "model_replied", 0);
    assert_eq!(parent.forked_under(length, spec.clone()).err(), Some(NotTakenOver::Admitted));
    // Where a call is made next, all that follows is judged by the new settings.
    let fork = parent.forked_under(1, spec).unwrap().replied(&draft("medium").asks("restart", target("a")));
    assert!(matches!(
        fork.run.actions()[0].verdict,
        Verdict::Denied { by: DeniedBy::Policy, .. } | Verdict::UnknownTool { .. }
    ));
    // Another protocol does not continue it.
    let spec = conversation().spec;
    assert_eq!(parent.forked_under(1, spec).err(), Some(NotTakenOver::OtherProtocol));
}

#[test]
fn a_stop_of_the_parent_is_not_one_of_the_fork() {
    let parent = run().start().started().stop(StopMode::AtGate);
    let length = parent.journal.len();
    let parent =
        parent.answered(&draft("medium").asks("fetch_device", target("a"))).ends(StopReason::ManualStop);
    let fork = parent.forked(length).unwrap();
    assert!(!fork.run.is_stop_requested());
    fork.autopilot(&draft("high")).ends(StopReason::Confident);
}

#[test]
fn a_fork_of_a_fork_keeps_the_keys_of_both() {
    let parent = parent();
    let length = through(&parent, "call_started", 1) - 1;
    let both = draft("medium").asks("wipe", target("b")).asks("wipe", target("c"));
    let fork = parent.forked(length).unwrap().replied(&both).finished("2/action-1", found("wiped"));
    let fork = fork.answered_by_person("2/action-0", APPROVED).finished("2/action-0", found("wiped"));
    let fork = fork.replied(&draft("high")).ends(StopReason::Confident);
    let second = fork.forked(1).unwrap();
    let of = second.run.started().parent.as_ref().unwrap();
    let listed: Vec<&str> = of.effects.iter().map(|it| &*it.key).collect();
    assert_eq!(listed, ["r1/fork/2/action-1", "r1/2/action-0"]);
    let second = second.replied(&both);
    assert_eq!(second.asks(), ["2/action-0", "2/action-1"]);
    // The time before each fork is the time of the run that was there.
    let started = second.run.started();
    let (first, day) = (parent.run.started().unix_ms, 86_400_000);
    assert_eq!(started.unix_ms_at(loop_core::types::Millis(50)), first + 50);
    assert_eq!(second.run.now(), loop_core::types::Millis(100));
    assert_eq!(started.unix_ms_at(loop_core::types::Millis(100)), first + 2 * day);
    assert_eq!(started.unix_ms_at(loop_core::types::Millis(150)), first + 2 * day + 50);
}

#[test]
fn a_conversation_forks_between_its_writes() {
    // C3: calls in order, of which the parent made all.
    let batch = calls(&[("fetch_device", target("a")), ("restart", target("a")), ("wipe", target("b"))]);
    for setup in [conversation(), conversation().parallel()] {
        let setup = setup.people().approving(&["restart", "wipe"]);
        let mut parent = setup.start().replied(&batch);
        while let Some(tool) = parent.tools().first().cloned() {
            parent = parent.finished(&tool.key.to_string(), found(&tool.key.to_string()));
        }
        let parent = parent.replied(&text("Done.")).ends(StopReason::Completed);
        for length in 1..parent.journal.len() {
            let Ok(fork) = parent.forked(length) else { continue };
            let fork = fork.autopilot(&text("Done."));
            fork.check_replay();
            repeats_nothing(&parent, length, &fork);
        }
    }
}

#[test]
fn an_answer_to_a_question_stays_in_a_fork() {
    // I-26: a question is answered, a call still waits, and the fork begins.
    let setup = run().people().with(|spec| {
        let device = spec.tools.iter_mut().find(|tool| &*tool.name == "fetch_device").unwrap();
        device.policy.asks_person = true;
    });
    let asked = draft("low").asks("fetch_device", target("Which?")).asks("wipe", target("b"));
    let open = setup.start().replied(&asked);
    assert_eq!(open.asks(), ["1/action-0", "1/action-1"]);
    let open = open.answered_by_person("1/action-0", PersonAnswer::Answered { text: "The first.".into() });
    let length = open.journal.len();
    let parent = open.stop(StopMode::Now).autopilot(&draft("high"));
    let fork = parent.forked(length).unwrap();
    assert_eq!(fork.asks(), ["1/action-1"]);
    let fork = fork.answered_by_person("1/action-1", PersonAnswer::Denied { why: "no".into() });
    assert_eq!(fork.results(), ["run ok", "denied denied"]);
}

#[test]
fn a_denial_stays_and_what_is_open_is_asked_as_before() {
    // I-26: only an approval counts for the run alone that it was given to.
    let asked = draft("low").asks("wipe", target("a")).asks("wipe", target("b"));
    let denied = PersonAnswer::Denied { why: "no".into() };
    // The parent ended before it started what was approved, so that nothing of it is in doubt.
    let forked = |answer: PersonAnswer| {
        let open = run().people().start().replied(&asked).answered_by_person("1/action-0", answer);
        let length = open.journal.len();
        let parent = open.clone().stop(StopMode::Now).autopilot(&draft("high"));
        (open, parent.forked(length).unwrap())
    };
    let why = |world: &World| world.run.requested().iter().map(|it| it.why.clone()).collect::<Vec<_>>();
    let (open, fork) = forked(denied);
    assert_eq!(fork.asks(), ["1/action-1"]);
    assert_eq!((fork.verdicts(), why(&fork)), (open.verdicts(), why(&open)));
    // An approval is asked for again, and the request says why.
    let (open, fork) = forked(APPROVED);
    assert_eq!(fork.asks(), ["1/action-0", "1/action-1"]);
    assert!(why(&fork)[0].contains("the approval was given to run r1"), "{:?}", why(&fork));
    assert_eq!(why(&fork)[1], why(&open)[0]);
    // Of a parent whose end is not known any write may have happened.
    let fork = open.forked(open.journal.len()).unwrap();
    assert!(why(&fork).iter().all(|why| why.contains("run r1 may have made it already")), "{:?}", why(&fork));
}

#[test]
fn who_is_asked_anew_has_the_whole_time_again() {
    // I-26: the fork begins 1,000 ms after the parent asked. What was answered is asked for again as well.
    let asked = draft("low").asks("wipe", target("a")).asks("wipe", target("b"));
    let open = run().people().start().replied(&asked).wait(1_000).answered_by_person("1/action-0", APPROVED);
    let (length, limit) = (open.journal.len(), open.spec.limits.person_ms.unwrap());
    let deadlines = |world: &World| -> Vec<u64> {
        world.run.requested().iter().map(|it| it.deadline.unwrap().0).collect()
    };
    assert_eq!(deadlines(&open), [limit]);
    let fork = open.stop(StopMode::Now).autopilot(&draft("high")).forked(length).unwrap();
    assert_eq!(deadlines(&fork), [1_000 + limit; 2]);
}
