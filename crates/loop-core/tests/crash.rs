//! Crashes: a replayed journal, a restored checkpoint and a resumed run end as the straight run does.

use loop_testkit::*;

use std::sync::Arc;

use loop_core::gate::Effects;
use loop_core::run::{PersonAnswer, Phase, PromptSize, Purpose, SaveResult, State, StopMode};
use loop_core::types::{Millis, Status, StopClass, SubCallUse};
use loop_core::{EventKind, Note, Run, StopReason};

fn device(name: &str) -> DraftReply {
    draft("medium").asks("fetch_device", target(name))
}

/// Straight runs that together see every phase and every event.
pub fn scripts() -> Vec<World> {
    let mut later = failure(true);
    later.retry_at = Some(Millis(400));
    let mut filtered = found("docs");
    filtered.sub_call = Some(SubCallUse::new(true, None).into());
    let huge = PromptSize { bytes: 1_000_000, shared_bytes: 0 };
    let full = run()
        .selector(&[("fetch_device", target("default"))])
        .people()
        .saving()
        .start()
        .selected(&[("fetch_docs", target("p")), ("fetch_device", target("p"))])
        .wait(20)
        .finished("0/action-1", found("device"))
        .finished("0/action-0", filtered)
        .started()
        .failed(later)
        .deadline()
        .replied(&device("a").asks("restart", target("a")).asks("wipe", target("a")))
        .finished("1/action-0", observed(Status::RetryableError))
        .wait(5_000)
        .answered_by_person("1/action-2", PersonAnswer::Denied { why: "no".into() })
        .answered_by_person("1/action-1", PersonAnswer::Approved)
        .finished("1/action-1", found("restarted"))
        .started_with(huge)
        .replied(&text(
            "## Findings\nA garbled contract.\n```json\n{\"analysis_confidence\": \"high\"\n```\n",
        ))
        .replied(&device("a"))
        .stop(StopMode::AtGate)
        .withdrawn()
        .finished("1/action-0", found("late"))
        .replied(&bare_draft("high").section("Findings", "See [E4]."))
        .saved(1, SaveResult::Failed { message: "busy".into(), retry_at: Some(Millis(9_000)) })
        .deadline()
        .saved(2, saved_at("x"));
    let finished = run().limits(|limits| limits.passes = 2).start().replied(&device("a")).all_finished();
    let stopped =
        run().start().replied(&device("a")).stop(StopMode::Now).finished_while_stopping("1/action-0");
    vec![
        full.ends(StopReason::Confident),
        finished.replied(&draft("high")).ends(StopReason::MaxPasses),
        stopped.ends(StopReason::ManualStop),
        run().start().started().stop(StopMode::Now).deadline().ends(StopReason::ManualStop),
        run()
            .limits(|limits| limits.wall_ms = 50)
            .start()
            .started()
            .deadline()
            .deadline()
            .ends(StopReason::Timeout),
        run()
            .people()
            .start()
            .replied(&draft("low").asks("wipe", target("a")))
            .deadline()
            .replied(&draft("high")),
    ]
}

#[test]
fn the_scripts_see_every_phase() {
    let mut seen: Vec<&str> = Vec::new();
    for world in scripts() {
        for length in 1..=world.journal.len() {
            seen.push(world.run_after(length).phase().name());
        }
    }
    for phase in [
        "selection",
        "gathering",
        "calling",
        "repairing",
        "acting",
        "waiting_for_person",
        "final_pass",
        "stopping",
        "saving",
        "done",
    ] {
        assert!(seen.contains(&phase), "{phase}");
    }
}

#[test]
fn every_prefix_of_a_journal_replays_to_the_same_state_notes_and_commands() {
    // I-11, I-12
    for world in scripts() {
        world.check_replay();
        for length in places(1..world.journal.len() + 1) {
            let prefix = world.cut(length);
            assert_eq!(prefix.run.state(), &world.journal[length - 1].2);
            prefix.check_invariants();
        }
    }
}

#[test]
fn a_checkpoint_of_every_state_goes_on_as_the_straight_run_does() {
    // I-11
    for world in scripts() {
        for length in places(1..world.journal.len() + 1) {
            let text = serde_json::to_string(&world.journal[length - 1].2).unwrap();
            let state: State = serde_json::from_str(&text).unwrap();
            let mut run = Run::restore(state, Arc::clone(&world.spec)).unwrap();
            for (event, notes, state) in &world.journal[length..] {
                assert_eq!(&run.apply(event).unwrap(), notes);
                assert_eq!(run.state(), state);
            }
            assert_eq!(run, world.run);
        }
    }
}

#[test]
fn a_run_that_is_resumed_after_any_event_comes_to_a_proper_end() {
    // I-8, I-12, H1
    for world in scripts() {
        for length in places(1..world.journal.len()) {
            let resumed = world.cut(length).resumed(60_000);
            let ended = resumed.autopilot(&draft("high"));
            assert!(ended.run.is_done());
            ended.check_replay();
            // What was acknowledged before the crash is still there (I-13).
            for before in world.cut(length).run.evidence() {
                assert!(
                    ended
                        .run
                        .evidence()
                        .iter()
                        .any(|after| after.id == before.id && after.observation == before.observation)
                );
            }
        }
    }
}

#[test]
fn a_run_that_is_resumed_again_and_again_still_comes_to_an_end() {
    // I-8: the limits bind calls, and a tool that is killed three times is given up.
    for world in scripts() {
        for length in places(1..world.journal.len()) {
            let mut world = world.cut(length);
            for _ in 0..60 {
                if world.run.is_done() {
                    break;
                }
                world = match world.run.commands().first() {
                    Some(loop_core::Command::CallModel(call)) if call.granted.is_none() => world.started(),
                    Some(loop_core::Command::Save { .. }) => world.saved_whatever(),
                    Some(loop_core::Command::AskPerson { .. }) | None => world.deadline(),
                    Some(loop_core::Command::RunTool(tool)) if !tool.announced => {
                        let (key, attempt) = (tool.key, tool.attempt);
                        world.apply(EventKind::ToolStarted { key, attempt });
                        world
                    }
                    Some(_) => world,
                };
                if !world.run.is_done() {
                    world = world.resumed(1);
                }
            }
            assert!(world.run.is_done(), "{:?}", world.run.phase());
        }
    }
}

#[test]
fn a_lost_call_is_charged_at_its_whole_reserve_and_made_again() {
    // S0-119, L3, H1
    let world = run().start().started().resumed(1_000).expect_call("1/main", 2);
    assert_eq!(world.run.totals().usage, loop_core::types::Usage { estimated: true, ..used(1_000, 4_096) });
    let late =
        EventKind::ModelReplied { key: key("1/main"), attempt: 1, reply: draft("high").reply().into() };
    world.rejects(late).started();
}

#[test]
fn a_kill_is_no_fault_of_the_model() {
    // B14, H1: of three tries a kill uses up none, and the limits bind.
    let mut world = run().start();
    for attempt in 1..=5 {
        world = world.expect_call("1/main", attempt).started().resumed(1_000);
    }
    let mut failing = world.clone();
    for attempt in 6..=8 {
        failing = failing.expect_call("1/main", attempt).started().failed(failure(true));
    }
    failing.ends(StopReason::ModelFailure);
    let mut world = world.started();
    for _ in 0..5 {
        world = world.resumed(1).started();
    }
    let world = world.expect_phase("calling").resumed(1).expect_call("1/final", 12);
    let world = world.started().resumed(1).started().ends(StopReason::MaxModelCalls);
    assert_eq!(world.outcome().totals.model_calls, 12);
}

#[test]
fn a_kill_uses_up_no_try_of_a_tool_that_fails() {
    // B14: two tries of `restart`, of which one was cut off by the end of the program.
    let world = run().people().start().replied(&draft("low").asks("restart", target("a")));
    let mut world = world.answered_by_person("1/action-0", PersonAnswer::Approved);
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let world = world.resumed(1).finished("1/action-0", observed(Status::RetryableError));
    let world = world.replied(&draft("low").asks("restart", target("a")));
    let world = world.answered_by_person("2/action-0", PersonAnswer::Approved);
    world.expect_tools(&["1/action-0#3 restart"]);
}

#[test]
fn an_effect_whose_outcome_is_unknown_is_told_at_the_end_whatever_the_end_is() {
    // W5, H1
    let wipes = || {
        let world = run().people().start().replied(&draft("high").asks("wipe", target("a")));
        world.answered_by_person("1/action-0", PersonAnswer::Approved)
    };
    let names = |world: &World| match &world.outcome().stop.also.last().unwrap().value {
        loop_core::gate::Measure::Names(names) => names.iter().map(ToString::to_string).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let mut world = wipes();
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let killed = world.clone().resumed(1).replied(&draft("high")).ends(StopReason::Confident);
    let stop = &killed.outcome().stop;
    assert_eq!((stop.class, stop.class.exit_code()), (StopClass::InDoubt, 7));
    assert_eq!(stop.also.last().unwrap().reason, StopReason::InDoubt);
    assert_eq!(names(&killed), ["1/action-0 wipe"]);
    killed.check_replay();
    // It is told of a stop by hand as well, whose class it leaves.
    let stopped = world.clone().stop(StopMode::Now).deadline().ends(StopReason::ManualStop);
    assert_eq!((stopped.outcome().stop.class, names(&stopped).len()), (StopClass::Cancelled, 1));
    let cut = world.clone().stop(StopMode::Now).finished_while_stopping_as("1/action-0", Status::Cancelled);
    assert_eq!(names(&cut.ends(StopReason::ManualStop)).len(), 1);
    // What came back is known.
    let done =
        world.finished("1/action-0", found("wiped")).replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!(done.outcome().stop.class, StopClass::Answered);
    // A journal that fails while it runs leaves it in doubt.
    let mut world = wipes();
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let outcome = world.run.outcome_so_far(killed.outcome().stop.clone());
    assert_eq!((outcome.stop.class, outcome.stop.also.len()), (StopClass::InDoubt, 1));
}

#[test]
fn an_effect_in_doubt_that_is_made_again_and_comes_back_is_known() {
    // W5: a keyed write that was cut off, and the same call again under its key.
    let restart = || draft("low").asks("restart", target("a"));
    let asks = |world: World, pass: u32| {
        let world = world.replied(&restart());
        world.answered_by_person(&format!("{pass}/action-0"), PersonAnswer::Approved)
    };
    let world = asks(run().people().start(), 1).finished("1/action-0", observed(Status::Timeout));
    let ended = world.clone().replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!(ended.outcome().stop.class, StopClass::InDoubt);
    let again = asks(world, 2).expect_tools(&["1/action-0#2 restart"]);
    let world = again.clone().finished("1/action-0", found("restarted"));
    let world = world.replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!(world.outcome().stop.class, StopClass::Answered);
    let world = again.finished("1/action-0", observed(Status::RetryableError));
    let world = world.replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!(world.outcome().stop.class, StopClass::InDoubt);
}

#[test]
fn a_call_that_was_not_announced_is_not_lost() {
    let world = run().start().resumed(1_000).expect_call("1/main", 1);
    assert_eq!(world.notes(), []);
}

#[test]
fn a_lost_repair_leaves_the_confidence_unknown() {
    // The limits bind, and the last call is not the repair's to lose.
    let few = run().limits(|limits| limits.model_calls = 5);
    let mut world = few.start().replied(&text("## Situation\nx"));
    for attempt in 1..=3 {
        world = world.expect_call("1/repair", attempt).started().resumed(1);
    }
    world.started().ends(StopReason::NoNewActions);
}

#[test]
fn reads_run_again_and_keep_their_key() {
    // H1, I-6
    let world = run().start().replied(&device("a")).resumed(5).expect_tools(&["1/action-0#2 fetch_device"]);
    let late = EventKind::ToolFinished { key: key("1/action-0"), attempt: 1, observation: found("x").into() };
    let world = world.rejects(late).resumed(5).expect_tools(&["1/action-0#3 fetch_device"]).resumed(5);
    let world = world.expect_call("2/main", 1);
    assert_eq!(world.run.evidence()[0].observation.status, Status::RetryableError);
    assert_eq!(world.run.totals().tool_calls, 1);
}

#[test]
fn a_lost_write_is_repeated_if_that_is_safe_and_in_doubt_if_not() {
    // H1, T2, I-6
    let both = draft("low").asks("restart", target("a")).asks("wipe", target("a"));
    let mut world = run().people().start().replied(&both);
    for (action, tool) in [("1/action-0", "restart"), ("1/action-1", "wipe")] {
        assert!(world.run.actions().iter().any(|judged| &*judged.action.tool == tool));
        world = world.answered_by_person(action, PersonAnswer::Approved);
    }
    let unannounced = world.clone().resumed(1).expect_tools(&["1/action-0#1 restart", "1/action-1#1 wipe"]);
    assert_eq!(unannounced.notes(), []);
    for action in ["1/action-0", "1/action-1"] {
        world.apply(EventKind::ToolStarted { key: key(action), attempt: 1 });
    }
    let world = world.resumed(1).expect_tools(&["1/action-0#2 restart"]);
    assert!(!world.tools()[0].announced, "each try is announced");
    // A stop before the second try leaves the first one in doubt.
    let stopped = world.clone().stop(StopMode::AtGate).ends(StopReason::ManualStop);
    let statuses = |world: &World| -> Vec<Status> {
        world.run.evidence().iter().map(|found| found.observation.status).collect()
    };
    assert_eq!(statuses(&stopped), [Status::InDoubt, Status::InDoubt]);
    assert_eq!(stopped.outcome().stop.effects, Effects { in_doubt: 2, ..Effects::default() });
    let world = world.finished("1/action-0", found("x")).expect_call("2/main", 1);
    assert_eq!(statuses(&world), [Status::Ok, Status::InDoubt]);
}

#[test]
fn a_lost_sub_call_is_charged_and_its_tool_is_granted_another() {
    // S0-119, I-21
    let world = run().start().replied(&draft("low").asks("fetch_docs", target("a"))).resumed(1);
    assert_eq!((world.run.totals().sub_calls, world.run.totals().usage.output), (1, 50 + 512));
    assert!(world.tools()[0].sub_call.is_some());
    let scarce = run()
        .limits(|limits| limits.model_calls = 3)
        .start()
        .replied(&draft("low").asks("fetch_docs", target("a")));
    let world = scarce.resumed(1);
    assert!(world.tools()[0].sub_call.is_none(), "the last call is for the document");
    world.all_finished().expect_call("2/final", 1);
}

#[test]
fn the_time_away_does_not_count_against_the_wall_clock() {
    let setup = || run().limits(|limits| limits.wall_ms = 10_000).start().wait(1_000).started();
    let world = setup().resumed(1_000_000);
    assert_eq!((world.run.elapsed_ms(), world.run.deadline()), (1_000, Some(Millis(1_010_000))));
    // Nobody is believed to have been away for longer than time has passed.
    let mut world = setup();
    world.apply(EventKind::Resumed { away_ms: 1_000_000, by: None });
    assert_eq!(world.run.elapsed_ms(), 1_000);
}

#[test]
fn a_stop_that_was_asked_for_before_the_crash_takes_effect_after_it() {
    let world = run().start().started().stop(StopMode::AtGate).resumed(1).ends(StopReason::ManualStop);
    assert_eq!(world.outcome().totals.model_calls, 1);
    let world = run().start().started().stop(StopMode::Now).resumed(1).ends(StopReason::ManualStop);
    let lost = world.all_notes().filter(|note| matches!(note, Note::Lost { .. })).count();
    let charged = world.all_notes().filter(|note| matches!(note, Note::CallCharged { .. })).count();
    assert_eq!((lost, charged), (1, 1));
    let reads = run().start().replied(&device("a")).stop(StopMode::AtGate).resumed(1).expect_phase("acting");
    reads.all_finished().ends(StopReason::ManualStop);
}

#[test]
fn a_state_holds_its_phase_and_clones_are_equal() {
    let world = run().start().started();
    assert!(matches!(world.run.phase(), Phase::Calling { purpose: Purpose::Main, .. }));
    assert_eq!(world.run.clone(), world.run);
}
