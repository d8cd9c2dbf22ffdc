//! S4's pattern: what a loop is made of, under the rules of a step, one action at a time.

use loop_core::gate::Measure;
use loop_core::reply::FinishReason;
use loop_core::run::{Decision, StopMode};
use loop_core::spec::{ErrorStyle, Limits, OnDenied, OnInvalid, OnToolError};
use loop_core::types::{Status, StopClass};
use loop_core::{Note, Run, StopReason};
use loop_testkit::*;
use serde_json::json;

/// A conversation under the rules of a step.
fn step() -> Setup {
    conversation().with(|spec| {
        let loop_core::spec::ProtocolSpec::Conversation(conversation) = &mut spec.protocol else {
            unreachable!()
        };
        conversation.execution = loop_core::spec::Execution::Single;
        spec.gate.on_denied = OnDenied::Stop;
        spec.gate.on_tool_error = OnToolError::Stop;
    })
}

fn look() -> DraftReply {
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
    // S4-15, S4-73, S4-77: final, execute, deny, escalate.
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
    let refusal =
        step().start().replied(&DraftReply { finish: FinishReason::Refusal, ..text("I will not.") });
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
fn a_model_hands_the_work_over_or_refuses_it_with_its_reason_in_every_protocol() {
    // S4-15, S4-28, S4-73, S4-86, T5: `{ kind: "escalate", reason: "script_exhausted" }`
    let native = |name| calls(&[(name, json!({"reason": " script_exhausted "}))]);
    for (name, reason, class) in [
        ("escalate", StopReason::NeedsHuman, StopClass::NeedsHuman),
        ("refuse", StopReason::Refused, StopClass::Refused),
    ] {
        for world in [
            run().start().replied(&draft("high").member(name, json!("script_exhausted"))),
            conversation().start().replied(&native(name)),
            step().start().replied(&native(name)),
            // It is a proposal and no tool, so no list of tools has to name it.
            example(3).start().replied(&native(name)),
            output().start().replied(&native(name)),
            // Nothing is saved over a reply that also says that it must not be.
            output().start().replied(&calls(&[
                ("save", json!({"target": "a"})),
                (name, json!({"reason": "script_exhausted"})),
            ])),
        ] {
            let world = world.ends(reason);
            let stop = &world.outcome().stop;
            assert_eq!(stop.primary.value, Measure::Text("script_exhausted".into()));
            assert_eq!((stop.class, world.run.totals().tool_calls), (class, 0));
            assert!(world.verdicts().iter().all(|verdict| *verdict == "kept"), "{:?}", world.verdicts());
        }
    }
    // One that gives no reason is one all the same.
    for arguments in [json!({}), json!({"reason": ""}), json!({"reason": 7}), json!([])] {
        let world = conversation().start().replied(&calls(&[("escalate", arguments)]));
        assert_eq!(
            world.ends(StopReason::NeedsHuman).outcome().stop.primary.value.to_string(),
            "no reason given"
        );
    }
}

#[test]
fn what_a_reply_calls_beside_its_escalation_runs_first() {
    // T5, design "The gate", step 5
    let both =
        || calls(&[("fetch_device", json!({"target": "a"})), ("escalate", json!({"reason": "too old"}))]);
    for setup in [conversation(), step()] {
        let world = setup.start().replied(&both()).expect_tools(&["1/action-0#1 fetch_device"]);
        let world = world.finished("1/action-0", found("it")).expect_call("2/main", 1);
        let last = calls(&[("escalate", json!({"reason": "too old"}))]);
        assert_eq!(world.replied(&last).ends(StopReason::NeedsHuman).run.totals().tool_calls, 1);
    }
    // Where nothing of it can run, nothing is waited for.
    let repeat =
        conversation().start().replied(&look()).finished("1/action-0", observed(Status::PermanentError));
    let forbidden = repeat.replied(&calls(&[("nothing", json!({})), ("escalate", json!({"reason": "no"}))]));
    assert_eq!(forbidden.ends(StopReason::NeedsHuman).reasons(), [StopReason::NeedsHuman]);
}

#[test]
fn a_domain_takes_the_escalation_away_or_has_a_tool_of_that_name() {
    // T5
    let escalate = || calls(&[("escalate", json!({"target": "b"}))]);
    let own = conversation().with(|spec| spec.tools.push(tool("escalate", loop_core::types::Effect::Read)));
    own.start().replied(&escalate()).expect_tools(&["1/action-0#1 escalate"]);
    let never = conversation().with(|spec| spec.gate.forbid = vec!["escalate".into()]);
    let never = never.start();
    assert_eq!(loop_core::policy::forbids_nothing(&never.spec), Vec::<String>::new());
    assert_eq!(never.replied(&escalate()).expect_call("2/main", 1).verdicts(), ["denied"]);
    // A question that nobody can be asked is in the certificate, and is no lack of consent.
    let asks = conversation().with(|spec| spec.tools[0].policy.asks_person = true);
    let world = asks.start().replied(&calls(&[("fetch_device", json!({"target": "Which one?"}))]));
    let world = world.ends(StopReason::NeedsHuman);
    assert_eq!(world.outcome().stop.primary.value, Measure::Question("Which one?".into()));
}

// ---- the example's own tests, under the rules of a step as the document has them ----

/// One tool, `lookup_order`, that takes the number of an order, and what the document's loop makes of everything else.
fn example(max_steps: u32) -> Setup {
    step().with(|spec| {
        let order = json!({"type": "object", "properties": {"orderId": {"type": "string", "minLength": 1}}, "required": ["orderId"]});
        spec.tools = vec![loop_core::spec::ToolSpec {
            args: loop_core::spec::ArgSpec::from_schema(&order),
            ..tool("lookup_order", loop_core::types::Effect::Read)
        }];
        spec.gate.allow = vec!["lookup_order".into()];
        spec.gate.on_invalid = OnInvalid::Stop;
        spec.gate.final_pass = false;
        spec.limits.passes = max_steps;
    })
}

fn lookup(input: serde_json::Value) -> DraftReply {
    calls(&[("lookup_order", input)])
}

#[test]
fn the_example_completes_with_a_tool_and_then_an_answer() {
    // S4-82
    let world = example(3).start().replied(&lookup(json!({"orderId": "A-104"})));
    let world = world.finished("1/action-0", found("shipped")).replied(&text("The order shipped."));
    let world = world.ends(StopReason::Completed);
    assert_eq!(world.outcome().evidence.len(), 1);
    assert_eq!(world.outcome().answer.as_deref(), Some("The order shipped."));
}

#[test]
fn the_example_refuses_a_tool_that_is_not_on_its_list_and_observes_nothing() {
    // S4-79, S4-83: `delete_order` is forbidden by not being on the list, and there is no such tool.
    let proposal = calls(&[("delete_order", json!({"orderId": "A-104"}))]);
    let world = example(3).start().replied(&proposal).ends(StopReason::Refused);
    assert_eq!((world.verdicts(), world.outcome().evidence.len()), (vec!["denied"], 0));
    assert_eq!(world.outcome().stop.class, StopClass::Refused);
    let primary = &world.outcome().stop.primary;
    assert_eq!(primary.value.to_string(), "delete_order: not among what gate.allow names");
    // A tool that is there and not on the list is denied alike.
    let other =
        example(3).with(|spec| spec.tools.push(tool("delete_order", loop_core::types::Effect::WriteKeyed)));
    other.start().replied(&proposal).ends(StopReason::Refused);
    // Where the policy only tells the model, it goes on.
    let reported = example(3).with(|spec| spec.gate.on_denied = OnDenied::FeedBack);
    assert_eq!(reported.start().replied(&proposal).expect_call("2/main", 1).verdicts(), ["denied"]);
}

#[test]
fn the_example_ends_as_refused_with_any_proposal_that_is_denied() {
    // S4-27, S4-78, S4-80: an empty answer, a tool that is not allowed, an input of another type or none.
    for denied in [
        text(""),
        text("  \n"),
        calls(&[("delete_order", json!({}))]),
        lookup(json!({"orderId": 104})),
        lookup(json!({"orderId": ""})),
        lookup(json!({})),
    ] {
        let world = example(3).start().replied(&denied).ends(StopReason::Refused);
        let totals = world.run.totals();
        assert_eq!(
            (totals.model_calls, totals.tool_calls, world.outcome().evidence.len()),
            (1, 0, 0),
            "{denied:?}"
        );
    }
    let change = |draft: &DraftReply| {
        let world = example(3).start().replied(draft).ends(StopReason::Refused);
        world.outcome().stop.primary.change.as_ref().unwrap().to_string()
    };
    assert_eq!(change(&text("")), "gate.on_invalid = feed_back");
    assert_eq!(change(&lookup(json!({}))), "gate.on_invalid = feed_back");
    assert_eq!(change(&calls(&[("delete_order", json!({}))])), "gate.on_denied = feed_back");
    // A tool whose own check finds its input wrong.
    let world = example(3).start().replied(&lookup(json!({"orderId": "?"})));
    let world = world.finished("1/action-0", observed(Status::InvalidInput)).ends(StopReason::Refused);
    assert_eq!(
        world.outcome().stop.primary.change.as_ref().unwrap().to_string(),
        "gate.on_invalid = feed_back"
    );
}

#[test]
fn the_example_ends_as_a_tool_failure_where_a_tool_says_error() {
    // S4-84
    let world = example(3).start().replied(&lookup(json!({"orderId": "A-104"})));
    world.finished("1/action-0", observed(Status::PermanentError)).ends(StopReason::ToolFailure);
}

#[test]
fn the_tool_of_the_one_permitted_step_runs_and_the_second_proposal_does_not() {
    // S4-85, S4-26
    let world = example(1).start().expect_call("1/main", 1).replied(&lookup(json!({"orderId": "A-104"})));
    let world = world.finished("1/action-0", found("shipped")).ends(StopReason::MaxPasses);
    let totals = world.run.totals();
    assert_eq!((totals.passes, totals.model_calls, totals.tool_calls), (1, 1, 1));
    assert_eq!((world.results(), world.outcome().evidence.len()), (vec!["run ok".to_owned()], 1));
    assert_eq!(world.outcome().stop.reason().name_in(ErrorStyle::Tagged), "max_steps");
    // An answer is one, in the last step as in any other (S4-29).
    let world = example(1).start().replied(&text("The order shipped.")).ends(StopReason::Completed);
    assert_eq!(world.reasons(), [StopReason::Completed, StopReason::MaxPasses]);
    // The last model call is like the last step.
    let calls = example(9)
        .limits(|limits| limits.model_calls = 1)
        .start()
        .replied(&lookup(json!({"orderId": "A-104"})));
    let world = calls.finished("1/action-0", found("shipped")).ends(StopReason::MaxModelCalls);
    assert_eq!(world.run.totals().tool_calls, 1);
    // In a document as well: without a final pass the last pass is one like any other.
    let document =
        run().patient().with(|spec| (spec.gate.final_pass, spec.limits.passes) = (false, 1)).start();
    let world = document.expect_call("1/main", 1).replied(&draft("low").asks("fetch_device", target("a")));
    let world = world.all_finished().ends(StopReason::MaxPasses);
    assert_eq!(world.outcome().evidence.len(), 1);
}

#[test]
fn nothing_is_held_back_for_a_final_pass_that_is_none() {
    // All of the time is the steps': a call that starts late is granted what is left.
    let world = example(3).limits(|limits| limits.wall_ms = 4_000).start().wait(3_500);
    let world = world.expect_call("1/main", 1).replied(&text("The order shipped."));
    world.ends(StopReason::Completed);
    let world = example(3).limits(|limits| limits.wall_ms = 4_000).start().wait(4_000).deadline();
    world.ends(StopReason::Timeout);
}

#[test]
fn every_end_is_an_ordinary_one_and_told_apart() {
    // S4-19, S4-66
    let ends = [
        (step().start().replied(&text("Done.")).outcome().stop.class, StopClass::Answered),
        (
            step()
                .start()
                .replied(&DraftReply { finish: FinishReason::Refusal, ..text("No.") })
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
                .with(|spec| spec.tools.push(tool("reboot", loop_core::types::Effect::WriteKeyed)))
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

/// A reason of the domain's own: an order is found among those that were refunded.
fn own(name: &str, class: StopClass, status: Status) -> loop_core::spec::OwnReason {
    let name = name.parse().unwrap();
    loop_core::spec::OwnReason {
        name,
        class,
        says: "It was refunded before.".into(),
        tool: "fetch_device".into(),
        status,
    }
}

#[test]
fn a_domain_adds_stop_reasons_of_its_own_which_software_finds_in_what_a_call_returned() {
    // S4-35, C22
    let found_it = |class, status| {
        let setup =
            conversation().with(|spec| spec.stop_reasons = vec![own("already_refunded", class, status)]);
        setup.start().replied(&look()).finished("1/action-0", observed(status))
    };
    let name = StopReason::Domain("already_refunded".parse().unwrap());
    for class in [
        StopClass::Answered,
        StopClass::Partial,
        StopClass::Refused,
        StopClass::NeedsHuman,
        StopClass::Failed,
    ] {
        for status in [Status::Ok, Status::Empty] {
            let world = found_it(class, status).ends(name);
            let outcome = world.outcome();
            assert_eq!((outcome.stop.class, outcome.totals.model_calls), (class, 1));
            assert_eq!(outcome.stop.primary.value.to_string(), "It was refunded before. [E1]");
            assert_eq!(outcome.evidence.len(), 1);
            // By its name on the wire, as every other.
            let written = serde_json::to_value(&outcome.stop).unwrap();
            assert_eq!(written["primary"]["reason"], json!("already_refunded"));
            assert_eq!(serde_json::from_value::<loop_core::Certificate>(written).unwrap(), outcome.stop);
            for style in [ErrorStyle::Plain, ErrorStyle::Quoted, ErrorStyle::Prefixed, ErrorStyle::Tagged] {
                assert_eq!(outcome.stop.reason().name_in(style), "already_refunded");
            }
        }
    }
    // Another status, and another tool, bring it about as little as what the model says of it.
    let setup = || {
        conversation()
            .with(|spec| spec.stop_reasons = vec![own("already_refunded", StopClass::Partial, Status::Ok)])
    };
    let empty = setup().start().replied(&look()).finished("1/action-0", observed(Status::Empty));
    let empty = empty.expect_call("2/main", 1).replied(&calls(&[("fetch_docs", json!({"target": "a"}))]));
    empty.all_finished().replied(&text("already_refunded")).ends(StopReason::Completed);
    // What stops a run anyway is told first, and the domain's own reason with it.
    let stopped = setup().start().replied(&look()).stop(StopMode::AtGate);
    let stopped = stopped.finished("1/action-0", found("it")).ends(StopReason::ManualStop);
    assert_eq!(stopped.reasons(), [StopReason::ManualStop, name]);
    // A document, and a tool that was selected before its first pass.
    let selections = run().selector(&[]).with(|spec| {
        spec.stop_reasons = vec![own("already_refunded", StopClass::Partial, Status::Ok)];
    });
    let world =
        selections.start().selected(&[("fetch_device", json!({"target": "a"}))]).all_finished().ends(name);
    assert_eq!(world.run.totals().passes, 0);
}

#[test]
fn every_reason_has_the_name_that_each_document_gives_it() {
    // C22, S4-21, S4-72
    let names = |style| move |reason: StopReason| reason.name_in(style).to_owned();
    let s0 = [
        StopReason::MaxPasses,
        StopReason::BudgetExceeded,
        StopReason::Confident,
        StopReason::NoNewActions,
        StopReason::StaleConfidence,
    ];
    let of_s0 = ["max-passes", "budget-exceeded", "confident", "no-new-actions", "stale-confidence"];
    assert_eq!(s0.map(names(ErrorStyle::Quoted)), of_s0.map(str::to_owned));
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
    assert_eq!(s4.map(names(ErrorStyle::Tagged)), of_s4.map(str::to_owned));
    assert_eq!(StopReason::SubmitBeforeOutput.name_in(ErrorStyle::Prefixed), "SUBMIT_BEFORE_OUTPUT");
    assert_eq!(StopReason::InvalidResponse.name_in(ErrorStyle::Prefixed), "INVALID_RESPONSE");
    assert_eq!(StopReason::ManualStop.name_in(ErrorStyle::Prefixed), "EXECUTION_CANCELLED");
    assert_eq!(StopReason::ManualStop.name_in(ErrorStyle::Quoted), "manual-stop");
    assert_eq!(StopReason::MaxPasses.name_in(ErrorStyle::Named), "Max iterations reached");
    for reason in [StopReason::InvalidResponse, StopReason::MaxAttempts, StopReason::StorageFailed] {
        assert_eq!(reason.name_in(ErrorStyle::Tagged), "failed");
    }
    assert_eq!(StopReason::NoProgress.name_in(ErrorStyle::Named), "no_progress");
    assert_eq!(StopReason::MaxPasses.name_in(ErrorStyle::Prefixed), "MAX_ITERATIONS");
    assert_eq!(StopReason::MaxPasses.name_in(ErrorStyle::Plain), "max_passes");
}

#[test]
fn an_observation_tells_tool_status_and_output() {
    // S4-58, S4-74, S4-75
    let world = conversation().start().replied(&look());
    let failed =
        loop_core::types::Observation::failed(Status::RetryableError, "fetch_device", "upstream_timeout");
    let world = world.finished("1/action-0", failed).replied(&text("It cannot be reached."));
    let outcome = world.outcome();
    let evidence = &outcome.evidence[0];
    assert_eq!((&*evidence.tool, evidence.observation.status), ("fetch_device", Status::RetryableError));
    assert_eq!(&*evidence.observation.summary, "upstream_timeout");
    assert_eq!((outcome.answer.is_some(), outcome.actions.len()), (true, 1));
    assert!(world.all_notes().count() > 3, "the way is there as well as its end");
}
