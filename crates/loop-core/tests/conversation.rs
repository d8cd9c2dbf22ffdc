//! Conversations: native calls until there are none, every call with a result, and every way in which one can end.

use loop_testkit::*;

use loop_core::gate::{Limit, Measure};
use loop_core::reply::FinishReason;
use loop_core::run::{PersonAnswer, StopMode};
use loop_core::types::{Effect, StopClass, Usage};
use loop_core::{EventKind, RunSpec, StopReason, Verdict};
use serde_json::{Value, json};

fn look(name: &str) -> DraftReply {
    calls(&[("fetch_device", target(name))])
}

#[test]
fn a_reply_without_calls_is_the_answer() {
    // S1-9, S1-19, C11
    let world = conversation().start().expect_call("1/main", 1).replied(&text("All is well."));
    let world = world.ends(StopReason::Completed);
    let outcome = world.outcome();
    assert_eq!(outcome.answer.as_deref(), Some("All is well."));
    assert_eq!((outcome.stop.class, outcome.totals.passes), (StopClass::Answered, 1));
    assert_eq!((&*outcome.stopped_in.phase, outcome.stopped_in.pass, outcome.attempts), ("calling", 1, 0));
    assert_eq!((outcome.output.as_ref(), outcome.missing.len()), (None, 0));
}

#[test]
fn calls_lead_to_another_pass_until_there_are_none() {
    // S1-14, S1-43: three tools, four replies, and the history in its order.
    let person = |name: &str, effect| loop_core::spec::ToolSpec {
        args: loop_core::spec::ArgSpec::from_schema(&json!({"type": "object", "properties": {
            "name": {"type": "string"}, "id": {"type": "integer"}, "company": {"type": "string"}}})),
        ..tool(name, effect)
    };
    let setup = conversation().approving(&["update_user"]).with(|spec| {
        spec.tools = vec![
            person("search_user", Effect::Read),
            person("get_user_by_id", Effect::Read),
            person("update_user", Effect::WriteKeyed),
        ];
    });
    let world = setup.start();
    let requested = [
        ("search_user", json!({"name": "Bob"})),
        ("get_user_by_id", json!({"id": 42})),
        ("update_user", json!({"id": 42, "company": "EPAM"})),
    ];
    let world = (1..).zip(requested).fold(world, |world, (pass, call)| {
        let world =
            world.expect_call(&format!("{pass}/main"), 1).replied(&calls(std::slice::from_ref(&call)));
        let commanded = format!("{pass}/action-0#1 {}", call.0);
        world.expect_tools(&[&commanded]).finished(&format!("{pass}/action-0"), found(call.0))
    });
    let world = world.replied(&text("Updated Bob's company to EPAM")).ends(StopReason::Completed);
    assert_eq!(world.results(), ["run ok", "run ok", "run ok"]);
    assert_eq!(world.outcome().answer.as_deref(), Some("Updated Bob's company to EPAM"));
    // USER + 3 × (AI, TOOL) + AI
    assert_eq!((world.run.messages(), world.run.totals().tool_calls), (8, 3));
}

#[test]
fn text_beside_calls_is_no_answer() {
    // S1-14
    let world =
        conversation().start().replied(&text("Let me look.").calling("fetch_device", "{\"target\":\"a\"}"));
    let world = world.expect_phase("acting").all_finished().replied(&text("Done."));
    assert_eq!(&*world.run.passes()[0].reply, "Let me look.");
    assert_eq!(world.ends(StopReason::Completed).outcome().answer.as_deref(), Some("Done."));
}

#[test]
fn a_blank_answer_is_asked_for_again_and_never_a_success() {
    // C11, S4-78: nothing, white space, and characters that nobody sees.
    for blank in ["", " \n\t", "\u{200b}\u{feff}", "\u{2060} \u{ad}", "\u{e0041}\u{202e}"] {
        let world = conversation().start().replied(&text(blank)).expect_call("1/main", 2);
        let world = world.replied(&text(blank)).expect_call("1/main", 3).replied(&text(blank));
        let world = world.ends(StopReason::ModelFailure);
        let reported = Measure::Text("empty_response: the model's reply was empty".into());
        assert_eq!((&world.outcome().stop.primary.value, world.outcome().answer.as_ref()), (&reported, None));
        assert_eq!(world.outcome().totals.usage.total(), 3 * 150, "{blank:?} is paid for");
    }
    // What is seen in the second try counts.
    let world = conversation().start().replied(&text("\u{200b}")).replied(&text("Yes."));
    assert_eq!(world.ends(StopReason::Completed).outcome().answer.as_deref(), Some("Yes."));
}

#[test]
fn a_reply_that_ends_for_tools_and_calls_none_is_no_answer() {
    // It is asked for again, and what it says is kept.
    let lost = text("Let me look.").ending(FinishReason::ToolUse);
    let world = conversation().start().replied(&lost).expect_call("1/main", 2);
    let world = world.replied(&lost).expect_call("1/main", 3);
    assert_eq!(world.clone().replied(&text("Yes.")).ends(StopReason::Completed).run.passes().len(), 1);
    let world = world.replied(&lost).ends(StopReason::ModelFailure);
    let reported = "malformed_tool_call: the reply says that it calls tools, and calls none";
    assert_eq!(world.outcome().stop.primary.value, Measure::Text(reported.into()));
    assert_eq!(world.outcome().answer.as_deref(), Some("Let me look."));
    // Once a stop is asked for it is not asked for again.
    for how in [StopMode::Now, StopMode::AtGate] {
        let mut world = conversation().start().started().stop(how);
        world.apply(EventKind::ModelReplied { key: key("1/main"), attempt: 1, reply: lost.reply().into() });
        let world = world.ends(StopReason::ManualStop);
        assert_eq!((world.run.passes().len(), world.outcome().answer.as_deref()), (0, Some("Let me look.")));
    }
}

#[test]
fn a_blank_reply_that_was_cut_is_not_asked_for_again() {
    // The limit fell into its reasoning, or into the arguments of a call.
    for blank in ["", " \n", "\u{200b}"] {
        let cut = text(blank).ending(FinishReason::MaxTokens);
        let world = conversation().start().replied(&cut).ends(StopReason::OutputLimit);
        let change = world.outcome().stop.primary.change.as_ref().map(ToString::to_string);
        assert!(change.is_some_and(|change| change.starts_with("limits.output_tokens = ")));
        assert_eq!((world.outcome().totals.model_calls, world.outcome().answer.as_ref()), (1, None));
    }
}

#[track_caller]
fn check_refused(name: &str, arguments: &str, verdict: &str, reported: &str) {
    let world = conversation().start().replied(&calls(&[]).calling(name, arguments));
    assert_eq!(world.results(), [verdict]);
    assert_eq!(world.run.actions()[0].verdict.reason(), reported);
    assert_eq!(&*world.run.actions()[0].action.parameters, arguments, "as it came");
    let world = world.expect_call("2/main", 1).replied(&text("So be it.")).ends(StopReason::Completed);
    assert_eq!(world.run.totals().tool_calls, 0);
}

#[test]
fn a_call_that_cannot_be_run_has_a_result_and_the_model_goes_on() {
    // S1-25, S2-76, C9, C10; S1-d1: a call without a name; S1-d2: arguments that are not an object of JSON.
    check_refused(
        "fetch_devise",
        "{}",
        "unknown_tool",
        "no tool has this name; similar names: fetch_device, fetch_docs",
    );
    check_refused("", "{}", "unknown_tool", "no tool has this name");
    check_refused("fetch_device", "{}", "invalid_arguments", "/target: is required");
    let broken = "the arguments are not JSON: EOF while parsing a string at line 1 column 12";
    check_refused("fetch_device", "{\"target\": \"", "invalid_arguments", broken);
    check_refused("fetch_device", "[1]", "invalid_arguments", "expected an object, found an array");
    check_refused("fetch_device", "\"a\"", "invalid_arguments", "expected an object, found a string");
    check_refused("fetch_device", "  ", "invalid_arguments", "/target: is required");
}

#[test]
fn no_arguments_at_all_are_none() {
    // S1-d2
    let setup = || {
        conversation().with(|spec| {
            spec.tools.push(loop_core::spec::ToolSpec {
                args: loop_core::spec::ArgSpec::from_schema(&json!({"type": "object", "properties": {}})),
                ..tool("list", Effect::Read)
            });
        })
    };
    for nothing in ["", " \n", "{}"] {
        let world = setup().start().replied(&calls(&[]).calling("list", nothing));
        assert_eq!(&*world.expect_tools(&["1/action-0#1 list"]).tools()[0].parameters, "{}", "{nothing:?}");
    }
}

#[test]
fn arguments_are_rebuilt_and_kept_as_they_came() {
    // S4-81
    let written = r#"{ "target": "a", "colour": "red" }"#;
    let world = conversation().start().replied(&calls(&[]).calling("fetch_devices", written));
    assert_eq!(&*world.tools()[0].parameters, r#"{"limit":3,"target":"a"}"#);
    let action = &world.run.actions()[0];
    assert_eq!(
        (&*action.action.id, &*action.action.parameters, action.tool_name()),
        ("c-0", written, "fetch_device")
    );
}

#[test]
fn three_passes_in_which_nothing_can_run_are_enough() {
    // S1-46, C12: the model may still say what it has.
    let lost = calls(&[("nope", target("a"))]);
    let world = conversation().start().replied(&lost).replied(&lost).expect_call("3/main", 1).replied(&lost);
    let world =
        world.expect_call("4/final", 1).replied(&text("I cannot find it.")).ends(StopReason::NoProgress);
    let stop = &world.outcome().stop;
    assert_eq!(
        (stop.class, world.outcome().answer.as_deref()),
        (StopClass::Partial, Some("I cannot find it."))
    );
    assert_eq!(
        (&stop.primary.value, &stop.primary.threshold),
        (&Measure::Count(3), &Some(Measure::Count(3)))
    );
    assert_eq!(stop.primary.change.as_ref().unwrap().to_string(), "gate.no_progress = 4");
    // One that ran in between begins the count anew.
    let world = conversation().start().replied(&lost).replied(&lost).replied(&look("a")).all_finished();
    world.replied(&lost).replied(&lost).expect_call("6/main", 1);
    // And it can be switched off.
    let setup = conversation().with(|spec| spec.gate.no_progress = 0);
    setup.start().replied(&lost).replied(&lost).replied(&lost).expect_call("4/main", 1);
}

#[test]
fn what_is_forbidden_is_told_and_ends_the_run_when_it_is_asked_for_again_and_again() {
    // C9
    let setup = conversation().with(|spec| spec.gate.forbid = vec!["fetch_device".into()]);
    let ask = |setup: Setup| setup.start().replied(&look("a")).replied(&look("b")).replied(&look("c"));
    let world = ask(setup.clone()).ends(StopReason::NeedsHuman);
    // S4-67: three in a row open the breaker.
    assert_eq!(world.reasons(), [StopReason::NeedsHuman]);
    assert_eq!(world.results(), ["denied", "denied", "denied"]);
    // The same one again is a repeat and no further denial.
    let same = |setup: Setup| (0..4).fold(setup.start(), |world, _| world.replied(&look("a")));
    let world = same(setup.gate(|gate| gate.no_progress = 3)).ends(StopReason::PolicyBlocked);
    assert_eq!(world.reasons(), [StopReason::PolicyBlocked, StopReason::NoProgress]);
}

#[test]
fn the_number_of_passes_is_a_limit_and_the_last_one_answers() {
    // S1-46, S1-47, S1-48, C12, C13: ten unless set otherwise; the last is told to answer without tools.
    assert_eq!(conversation().spec.limits.passes, 10);
    let world = (1..10).fold(conversation().start(), |world, pass| {
        world.expect_call(&format!("{pass}/main"), 1).replied(&look(&pass.to_string())).all_finished()
    });
    let world =
        world.expect_call("10/final", 1).replied(&text("As far as I came.")).ends(StopReason::MaxPasses);
    let stop = &world.outcome().stop;
    assert_eq!(
        (stop.class, world.outcome().answer.as_deref()),
        (StopClass::Partial, Some("As far as I came."))
    );
    assert_eq!(stop.primary.change.as_ref().unwrap().to_string(), "limits.passes = 11");
    let setup = conversation().limits(|limits| limits.passes = 2);
    let world = setup.start().replied(&look("a")).all_finished().expect_call("2/final", 1);
    // Tools that it calls all the same are left undone, and told.
    let world = world.replied(&look("b")).ends(StopReason::MaxPasses);
    assert_eq!(
        (world.results(), world.outcome().answer.as_ref()),
        (vec!["run ok".to_owned(), "ended".to_owned()], None)
    );
}

#[test]
fn a_limit_of_nothing_stops_before_the_first_call() {
    conversation().limits(|limits| limits.passes = 0).start().ends(StopReason::MaxPasses);
    conversation().limits(|limits| limits.tool_calls = 0).start().ends(StopReason::MaxToolCalls);
}

#[test]
fn when_no_tool_call_is_left_the_model_says_what_it_has() {
    // C12: what fits runs, what does not is told, and the next pass is the last.
    let two =
        calls(&[("fetch_device", target("a")), ("fetch_device", target("b")), ("fetch_device", target("c"))]);
    let setup = || conversation().limits(|limits| limits.tool_calls = 2);
    let world = setup().start().replied(&two);
    assert_eq!(world.verdicts(), ["run", "run", "over_limit"]);
    let world = world.all_finished().all_finished().expect_call("2/main", 1).replied(&look("d"));
    let world = world.expect_call("3/final", 1).replied(&text("Two of four.")).ends(StopReason::MaxToolCalls);
    assert_eq!(world.outcome().answer.as_deref(), Some("Two of four."));
    assert_eq!(world.outcome().stop.primary.change.as_ref().unwrap().to_string(), "limits.tool_calls = 3");
    assert_eq!(world.run.actions()[3].verdict, Verdict::OverLimit { limit: Limit::ToolCalls });
}

#[test]
fn the_number_of_messages_is_a_limit_with_a_final_pass_before_it() {
    // S1-39: results are counted one by one; a hundred unless set otherwise.
    assert_eq!(RunSpec::conversation("d", model(None)).limits.messages, Some(100));
    let limited = |messages| conversation().limits(|limits| limits.messages = Some(messages)).start();
    // USER, AI, TOOL: with room for another reply and its result only just.
    limited(5).replied(&look("a")).all_finished().expect_call("2/main", 1);
    let world = limited(4).replied(&look("a")).all_finished().expect_call("2/final", 1);
    let world = world.replied(&text("So far.")).ends(StopReason::MaxMessages);
    assert_eq!(
        (world.outcome().stop.class, world.outcome().answer.as_deref()),
        (StopClass::Partial, Some("So far."))
    );
    // A reply with many calls can leap over the final pass.
    let many = calls(&[("nope", json!({})), ("nope", json!({})), ("nope", json!({}))]);
    let world = limited(4).replied(&many).ends(StopReason::MaxMessages);
    assert_eq!((world.run.messages(), world.results().len()), (5, 3));
    assert_eq!(world.outcome().stop.primary.change.as_ref().unwrap().to_string(), "limits.messages = 5");
}

#[test]
fn a_final_pass_for_want_of_tools_has_no_more_messages_than_are_allowed() {
    // S1-39: eight messages are too many for the final pass as well.
    let setup = conversation().limits(|limits| (limits.messages, limits.tool_calls) = (Some(7), 1));
    let four: Vec<(&str, Value)> = vec![("fetch_device", target("b")); 4];
    let world = setup.start().replied(&look("a")).all_finished().replied(&calls(&four));
    assert_eq!(world.ends(StopReason::MaxToolCalls).run.messages(), 8);
}

#[test]
fn messages_before_the_run_count() {
    // S1-39
    let start = |messages: u32, limit: u32| {
        let setup = conversation().limits(|limits| limits.messages = Some(limit));
        setup.history(history(messages)).start().run
    };
    assert_eq!((start(7, 9).messages(), start(7, 9).phase().name()), (7, "calling"));
    assert_eq!(start(7, 8).phase().name(), "final_pass");
    let over = start(9, 8);
    assert_eq!(over.outcome().unwrap().stop.reason(), StopReason::MaxMessages);
}

#[test]
fn an_answer_that_was_cut_is_kept_and_is_no_success() {
    // S2-d4
    let setup = conversation().limits(|limits| limits.output_tokens = 700);
    let world = setup.start().replied(&text("It begins wi").ending(FinishReason::MaxTokens));
    let world = world.ends(StopReason::OutputLimit);
    let stop = &world.outcome().stop;
    assert_eq!((stop.class, world.outcome().answer.as_deref()), (StopClass::Partial, Some("It begins wi")));
    assert_eq!(stop.primary.threshold, Some(Measure::Count(700)));
    assert_eq!(stop.primary.change.as_ref().unwrap().to_string(), "limits.output_tokens = 701");
}

#[test]
fn calls_that_were_cut_are_told_and_the_loop_goes_on() {
    // S2-d4
    let cut = look("a").calling("fetch_device", "{\"target\": \"b").ending(FinishReason::MaxTokens);
    let world = conversation().start().replied(&cut).all_finished().expect_call("2/main", 1);
    assert_eq!(world.results(), ["run ok", "invalid_arguments"]);
}

#[test]
fn a_refusal_ends_the_run_and_says_so() {
    // S2-d4: what it calls beside runs first.
    for (draft, reported) in [("I will not.\nEver.", "I will not."), ("", "no reason given")] {
        let world = conversation().start().replied(&text(draft).ending(FinishReason::Refusal));
        let world = world.ends(StopReason::Refused);
        assert_eq!(world.outcome().stop.primary.value, Measure::Text(reported.into()));
    }
    let world = conversation().start().replied(&look("a").ending(FinishReason::Refusal));
    world.expect_tools(&["1/action-0#1 fetch_device"]).all_finished().expect_call("2/main", 1);
}

#[test]
fn the_work_itself_is_not_the_reason_of_a_refusal_and_the_words_of_the_refusal_are() {
    // T11: "The model refused the work: ## Situation."
    for (refusal, expected) in [(None, "no reason given"), (Some("I will not."), "I will not.")] {
        let mut reply = draft("high").ending(FinishReason::Refusal).reply();
        reply.refusal = refusal.map(Into::into);
        let mut world = run().start().started();
        let reply = reply.into();
        world.apply(loop_core::EventKind::ModelReplied { key: key("1/main"), attempt: 1, reply });
        let world = world.ends(StopReason::Refused);
        assert_eq!(world.outcome().stop.primary.value, Measure::Text(expected.into()));
        assert!(world.outcome().document.get("situation").is_some(), "what was written is kept");
    }
}

#[test]
fn what_changes_something_needs_consent_unless_it_was_given_beforehand() {
    // C3, S4: nobody there to be asked, somebody there, and consent beforehand.
    let write = calls(&[("fetch_device", target("a")), ("restart", target("a"))]);
    let world = conversation().start().replied(&write).all_finished().expect_call("2/main", 1);
    assert_eq!(world.results(), ["run ok", "needs_person"]);
    let world = world.replied(&calls(&[("restart", target("a"))])).ends(StopReason::NeedsHuman);
    assert_eq!(world.outcome().stop.class, StopClass::NeedsHuman);

    let world = conversation().people().start().replied(&write).all_finished();
    assert_eq!(world.expect_phase("waiting_for_person").asks(), ["1/action-1"]);
    let requested = || conversation().people().start().replied(&write).all_finished();
    let allowed = requested().answered_by_person("1/action-1", PersonAnswer::Approved).all_finished();
    assert_eq!(allowed.expect_call("2/main", 1).results(), ["run ok", "run ok"]);
    let denied =
        requested().answered_by_person("1/action-1", PersonAnswer::Denied { why: "not today".into() });
    assert_eq!(denied.expect_call("2/main", 1).results(), ["run ok", "denied denied"]);

    let world = conversation().approving(&["restart"]).start().replied(&write).all_finished();
    let world = world.expect_tools(&["1/action-1#1 restart"]);
    assert!(!world.tools()[0].announced);
    assert_eq!(world.all_finished().expect_call("2/main", 1).results(), ["run ok", "run ok"]);
}

#[test]
fn consent_is_given_to_a_tool_by_its_own_name() {
    let setup = conversation().approving(&["fetch_device", "restarts"]).with(|spec| {
        spec.tools[2].aliases = vec!["restarts".into()];
    });
    let world = setup.start().replied(&calls(&[("restarts", target("a"))])).ends(StopReason::NeedsHuman);
    assert_eq!(world.verdicts(), ["needs_person"]);
}

#[test]
fn an_answer_without_what_is_demanded_is_not_one() {
    let setup = conversation().with(|spec| spec.gate.required_tools = vec!["fetch_device".into()]);
    // S4-54: one pass is granted to repair it.
    let world = setup.clone().start().replied(&text("Surely.")).expect_call("2/main", 1);
    assert_eq!(world.run.revisions(2).unwrap(), ["a result of `fetch_device`".into()]);
    let world = world.replied(&text("Surely.")).ends(StopReason::EvidenceMissing);
    let world_without = setup.clone().unrevised().start().replied(&text("Surely."));
    world_without.ends(StopReason::EvidenceMissing);
    assert_eq!(
        (world.outcome().stop.class, world.outcome().answer.as_deref()),
        (StopClass::Partial, Some("Surely."))
    );
    let world = setup.start().replied(&look("a")).all_finished().replied(&text("Surely."));
    world.ends(StopReason::Completed);
}

#[test]
fn a_reply_that_comes_while_stopping_is_kept_and_nothing_of_it_runs() {
    // C31, S2-79: phase and pass are told.
    let stopped = || conversation().start().started().stop(StopMode::Now).expect_phase("stopping");
    let world = stopped().answered_while_stopping("1/main", &look("a")).ends(StopReason::ManualStop);
    assert_eq!(world.results(), ["ended"]);
    let outcome = world.outcome();
    assert_eq!((&*outcome.stopped_in.phase, outcome.stopped_in.pass), ("calling", 1));
    assert_eq!((outcome.totals.passes, outcome.totals.usage.total()), (1, 150));
    let world = stopped().answered_while_stopping("1/main", &text("Late.")).ends(StopReason::ManualStop);
    assert_eq!(
        (world.outcome().answer.as_deref(), world.outcome().stop.class),
        (Some("Late."), StopClass::Cancelled)
    );
    // Without a reply the grace ends it.
    stopped().deadline().ends(StopReason::ManualStop);
}

#[test]
fn a_stop_at_the_gate_waits_for_the_reply_and_runs_nothing_of_it() {
    // C31
    let world = conversation().start().started().stop(StopMode::AtGate).answered(&look("a"));
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(world.results(), ["ended"]);
    let world = conversation().start().started().stop(StopMode::AtGate).answered(&text("Just in time."));
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::Completed]);
    assert_eq!(world.outcome().answer.as_deref(), Some("Just in time."));
}

#[test]
fn a_reply_that_broke_off_is_asked_for_again_and_runs_nothing() {
    // I-19
    let mut broke = failure(true);
    broke.partial = Some("I thi".into());
    let world = conversation().start().started().failed(broke.clone()).expect_call("1/main", 2);
    let world = world.started().failed(broke.clone()).started().failed(broke).ends(StopReason::ModelFailure);
    assert_eq!((world.outcome().answer.as_deref(), world.outcome().totals.passes), (Some("I thi"), 0));
    assert_eq!(world.run.broken_off().map(|text| &**text), Some("I thi"));
}

#[test]
fn when_only_the_time_of_a_final_pass_is_left_the_model_says_what_it_has() {
    // C12
    let setup = || conversation().limits(|limits| limits.wall_ms = 100_000);
    let world = setup().start().replied(&look("a")).wait(75_000).all_finished().expect_call("2/final", 1);
    let world = world.replied(&text("In haste.")).ends(StopReason::Timeout);
    assert_eq!(world.outcome().answer.as_deref(), Some("In haste."));
    // An answer that comes that late is one.
    let world = setup().start().started().wait(80_000).answered(&text("At last."));
    let world = world.ends(StopReason::Timeout);
    assert_eq!(world.reasons(), [StopReason::Timeout, StopReason::Completed]);
    assert_eq!(world.outcome().stop.class, StopClass::Answered);
}

#[test]
fn half_an_answer_is_kept_and_is_no_reason_not_to_final_pass() {
    // C12, I-19
    let mut broke = failure(true);
    (broke.kind, broke.partial) = (loop_core::types::FailureKind::Timeout, Some("I thi".into()));
    let setup = conversation().limits(|limits| limits.wall_ms = 100_000);
    let world = setup.start().started().wait(75_000).failed(broke).expect_call("1/final", 1);
    let finished = world.clone().replied(&text("In short: yes.")).ends(StopReason::Timeout);
    assert_eq!(finished.outcome().answer.as_deref(), Some("In short: yes."));
    assert_eq!(finished.run.broken_off(), None, "a reply replaced it");
    let world = world.started().deadline().expect_phase("stopping").deadline();
    assert_eq!(world.ends(StopReason::Timeout).outcome().answer.as_deref(), Some("I thi"));
}

#[test]
fn nothing_is_read_for_a_contract() {
    // A native reply has neither confidence nor sections.
    let world = conversation().start().replied(&draft("high")).ends(StopReason::Completed);
    assert!(world.outcome().document.sections.is_empty());
    assert!(world.outcome().answer.as_deref().unwrap().contains("analysis_confidence"));
}

#[test]
fn a_call_that_runs_or_waits_for_a_person_is_progress_after_passes_in_which_nothing_ran() {
    let none = calls(&[("no_such_tool", target("a"))]);
    let setup = conversation().people().gate(|gate| (gate.no_progress, gate.breakers.bad_arguments) = (3, 0));
    let idle = setup.start().replied(&none).replied(&none).expect_call("3/main", 1);
    idle.clone().replied(&look("a")).expect_tools(&["3/action-0#1 fetch_device"]);
    let asked = idle.clone().replied(&calls(&[("wipe", target("a"))]));
    assert_eq!(asked.asks(), ["3/action-0"]);
    idle.replied(&none).expect_phase("final_pass");
}

#[test]
fn a_reply_that_was_cut_at_its_first_token_is_no_fault_of_the_output_limit() {
    // A server whose context is full stops after one token, with the word for the limit.
    let full = Some(Usage { input: 4_000, output: 1, ..Usage::default() });
    let cut = text("").ending(FinishReason::MaxTokens).using(full);
    let world = conversation().start().replied(&cut).ends(StopReason::OutputLimit);
    assert_eq!(world.outcome().stop.primary.change, None);
    let enough = Some(Usage { input: 4_000, output: 4_000, ..Usage::default() });
    let cut = text("").ending(FinishReason::MaxTokens).using(enough);
    let world = conversation().start().replied(&cut).ends(StopReason::OutputLimit);
    assert!(world.outcome().stop.primary.change.is_some());
}
