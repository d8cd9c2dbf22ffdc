//! S4's pattern: what a loop is made of, under the rules of a step, one action at a time.

use crate::common;

use common::native::{calls, conversation};
use common::*;
use loop_core::{
    Decision, ErrorStyle, Fact, FinishReason, Limits, Note, OnDenied, OnToolError, Run, Slot, Status,
    StopClass, StopMode, StopReason,
};
use serde_json::json;

/// A conversation under the rules of a step.
fn step() -> Setup {
    conversation().with(|spec| {
        let loop_core::ProtocolSpec::Conversation(talk) = &mut spec.protocol else { unreachable!() };
        talk.execution = loop_core::Execution::Single;
        spec.gate.on_denied = OnDenied::Stop;
        spec.gate.on_tool_error = OnToolError::Stop;
    })
}

fn look() -> Said {
    calls(&[("fetch_device", json!({"target": "SRV-7"}))])
}

#[test]
fn a_step_is_proposed_checked_done_recorded_and_judged_until_the_goal_is_reached() {
    // S4-1, S4-2, S4-7, S4-9, S4-17, S4-18, S4-29
    let world = step().start();
    let mut seen = vec![world.phase()];
    let world = world.replied(&look());
    seen.push(world.phase());
    // Permitted by software, which wrote down why, before anything ran.
    let judged = world.all_notes().position(|note| matches!(note, Note::ActionJudged(_))).unwrap();
    let decided = world.all_notes().position(|note| matches!(note, Note::GateDecided { .. })).unwrap();
    assert!(judged < decided && world.run.evidence().is_empty());
    let world = world.finished("1/action-0", found("It is full."));
    let totals = world.run.totals();
    assert_eq!((totals.passes, totals.tool_calls, world.run.evidence().len()), (1, 1, 1));
    seen.push(world.phase());
    let world = world.replied(&text("The disk is full.")).ends(StopReason::Completed);
    assert_eq!(seen, ["calling", "acting", "calling"]);
    let outcome = world.outcome();
    assert_eq!((outcome.answer.as_deref(), outcome.totals.passes), (Some("The disk is full."), 2));
}

#[test]
fn a_task_names_its_goal_its_limits_and_its_trace() {
    // S4-12, S4-60, S4-68
    let world = step().with(|spec| spec.goal = "Find out why it hangs.".into()).start();
    let started = world.run.started();
    assert!(!started.run.0.is_empty() && !started.item.id.is_empty() && !started.item.full.is_empty());
    assert_eq!(&*world.run.spec().goal, "Find out why it hangs.");
    assert_eq!((started.spec, started.policy), (world.spec.hash(), world.spec.policy_hash()));
    // Each part that decides has a name that changes with it.
    let other = step().with(|spec| spec.gate.on_denied = OnDenied::FeedBack).start();
    assert_ne!(other.run.started().policy, started.policy);
    let route = step().with(|spec| spec.models.base.model = "another".into()).start();
    assert_ne!(route.run.started().spec, started.spec);
    assert_eq!(route.run.started().policy, started.policy);
}

#[test]
fn the_state_holds_observations_errors_and_what_is_left_and_lives_outside_the_prompt() {
    // S4-13, S4-22, S4-42, S4-61
    let world = conversation().start().replied(&look()).finished("1/action-0", found("full"));
    let world = world.replied(&calls(&[("fetch_device", json!({"target": "b"}))]));
    let world = world.finished("2/action-0", observed(Status::PermanentError));
    let run = &world.run;
    let statuses: Vec<Status> = run.evidence().iter().map(|evidence| evidence.observation.status).collect();
    assert_eq!(statuses, [Status::Ok, Status::PermanentError]);
    let limits: &Limits = &run.spec().limits;
    assert_eq!((limits.passes - run.totals().passes, limits.tool_calls - run.totals().tool_calls), (8, 48));
    // All of it is in what is stored, and nothing else is needed to go on.
    let stored = serde_json::to_string(run.state()).unwrap();
    let again = Run::restore(serde_json::from_str(&stored).unwrap(), world.spec.clone()).unwrap();
    assert_eq!((&again, again.commands()), (run, run.commands()));
}

#[test]
fn each_kind_of_proposal_is_decided_in_its_own_way() {
    // S4-10, S4-15, S4-73, S4-77: final, execute, deny, escalate.
    let decision = |world: &World| {
        let mut all: Vec<Note> = world.all_notes().cloned().collect();
        all.reverse();
        all.into_iter().find_map(|note| match note {
            Note::GateDecided { decision, .. } => Some(decision),
            _ => None,
        })
    };
    let tool = step().start().replied(&look());
    assert!(matches!(decision(&tool), Some(Decision::Act { runs: 1, .. })));
    let answer = step().start().replied(&text("Done."));
    assert!(matches!(decision(&answer), Some(Decision::Stop(_))));
    answer.ends(StopReason::Completed);
    let refusal = step().start().replied(&Said { finish: FinishReason::Refusal, ..text("I will not.") });
    refusal.ends(StopReason::Refused);
    let forbidden =
        step().with(|spec| spec.gate.forbid = vec!["fetch_device".into()]).start().replied(&look());
    assert_eq!(forbidden.verdicts(), ["denied"]);
    forbidden.ends(StopReason::Refused);
    let asks = step()
        .with(|spec| spec.tools[0].policy.asks_person = true)
        .start()
        .replied(&calls(&[("fetch_device", json!({"target": "which one?"}))]));
    assert_eq!(asks.verdicts(), ["needs_person"]);
    asks.ends(StopReason::NeedsHuman);
}

#[test]
fn limits_of_steps_calls_and_time_hold_before_the_model_is_asked() {
    // S4-23, S4-26, S4-39, S4-62, S4-70, S4-d3: with 0 nothing is asked at all.
    type Change = fn(&mut Limits);
    let zero: [(Change, StopReason); 3] = [
        (|limits| limits.passes = 0, StopReason::MaxPasses),
        (|limits| limits.model_calls = 0, StopReason::MaxModelCalls),
        (|limits| limits.wall_ms = 0, StopReason::Timeout),
    ];
    for (change, reason) in zero {
        let world = step().with(|spec| change(&mut spec.limits)).start();
        assert_eq!(world.run.totals().model_calls, 0, "{reason}");
        world.ends(reason);
    }
    // A model that always wants more gets no more than there is, whatever it says.
    let mut world = conversation()
        .with(|spec| {
            spec.limits.passes = 4;
            spec.gate.repeats = Some(loop_core::Repeats::Off);
        })
        .start();
    for pass in 1..4 {
        world = world.replied(&look()).finished(&format!("{pass}/action-0"), found(&pass.to_string()));
    }
    assert_eq!(world.call().key.slot, Slot::Landing, "the last one offers no tools");
    let world = world.replied(&look());
    assert_eq!(world.outcome().stop.reason(), StopReason::MaxPasses);
    assert_eq!((world.run.totals().passes, world.run.totals().tool_calls), (4, 3));
}

#[test]
fn time_is_handed_in_and_never_goes_back() {
    // S4-25, S4-d2
    let world = step().start().wait(500).replied(&look());
    let now = world.run.now();
    let early = Fact::StopRequested { how: StopMode::Now };
    let mut run = world.run.clone();
    assert!(run.apply(&loop_core::Event { at: loop_core::Millis(now.0 - 400), fact: early }).is_err());
    assert_eq!((run.now(), &run), (now, &world.run));
    // The same facts at the same instants give the same run, whenever that is.
    let again = |world: World| world.wait(500).replied(&look()).run;
    assert_eq!(again(step().start()), again(step().start()));
}

#[test]
fn every_end_is_an_ordinary_one_and_told_apart() {
    // S4-19, S4-66
    let ends = [
        (step().start().replied(&text("Done.")).outcome().stop.class, StopClass::Answered),
        (
            step()
                .start()
                .replied(&Said { finish: FinishReason::Refusal, ..text("No.") })
                .outcome()
                .stop
                .class,
            StopClass::Refused,
        ),
        (step().start().stop(StopMode::Now).outcome().stop.class, StopClass::Cancelled),
        (step().with(|spec| spec.limits.passes = 0).start().outcome().stop.class, StopClass::Partial),
        (
            step()
                .start()
                .replied(&look())
                .finished("1/action-0", observed(Status::PermanentError))
                .outcome()
                .stop
                .class,
            StopClass::Failed,
        ),
        (
            conversation()
                .with(|spec| spec.tools.push(tool("reboot", loop_core::Effect::WriteKeyed)))
                .start()
                .replied(&calls(&[("reboot", json!({"target": "SRV-7"}))]))
                .outcome()
                .stop
                .class,
            StopClass::NeedsHuman,
        ),
    ];
    for (class, expected) in ends {
        assert_eq!(class, expected);
    }
}

#[test]
fn every_reason_has_the_name_that_each_document_gives_it() {
    // C22, S4-21, S4-72, S4-35
    let names = |style| move |reason: StopReason| reason.name_in(style);
    let s0 = [
        StopReason::MaxPasses,
        StopReason::BudgetExceeded,
        StopReason::Confident,
        StopReason::NoNewActions,
        StopReason::StaleConfidence,
    ];
    let of_s0 = ["max-passes", "budget-exceeded", "confident", "no-new-actions", "stale-confidence"];
    assert_eq!(s0.map(names(ErrorStyle::Seed000)), of_s0);
    let s4 = [
        StopReason::Completed,
        StopReason::ModelFailure,
        StopReason::Refused,
        StopReason::NeedsHuman,
        StopReason::MaxPasses,
        StopReason::MaxToolCalls,
        StopReason::Timeout,
        StopReason::ToolFailure,
        StopReason::EvidenceMissing,
        StopReason::PolicyBlocked,
    ];
    let of_s4 = [
        "completed",
        "failed",
        "refused",
        "needs_human",
        "max_steps",
        "max_tool_calls",
        "timeout",
        "tool_failure",
        "evidence_missing",
        "policy_blocked",
    ];
    assert_eq!(s4.map(names(ErrorStyle::Seed004)), of_s4);
    assert_eq!(StopReason::SubmitBeforeOutput.name_in(ErrorStyle::Seed002), "SUBMIT_BEFORE_OUTPUT");
    assert_eq!(StopReason::NoProgress.name_in(ErrorStyle::Seed001), "no_progress");
}

#[test]
fn an_observation_tells_tool_status_and_output() {
    // S4-58, S4-74, S4-75
    let world = conversation().start().replied(&look());
    let failed = loop_core::Observation::failed(Status::RetryableError, "fetch_device", "upstream_timeout");
    let world = world.finished("1/action-0", failed).replied(&text("It cannot be reached."));
    let outcome = world.outcome();
    let evidence = &outcome.evidence[0];
    assert_eq!((&*evidence.tool, evidence.observation.status), ("fetch_device", Status::RetryableError));
    assert_eq!(&*evidence.observation.summary, "upstream_timeout");
    assert_eq!((outcome.answer.is_some(), outcome.actions.len()), (true, 1));
    assert!(world.all_notes().count() > 3, "the way is there as well as its end");
}
