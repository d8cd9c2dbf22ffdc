//! People: asked after what may run has run; an approval counts once, silence is a no.

use loop_testkit::*;

use std::sync::Arc;

use loop_core::gate::{Condition, DeniedBy, Effects, Measure};
use loop_core::run::{AnswerFault, PersonAnswer, StopMode};
use loop_core::spec::{ToolPolicy, ToolSpec};
use loop_core::types::{Approver, CommandKey, Digest, Effect, Millis, Status};
use loop_core::{Certificate, Event, EventKind, Outcome, Rejected, StopReason, Verdict};
use serde_json::json;

fn no() -> PersonAnswer {
    PersonAnswer::Denied { why: "not today".into() }
}

const YES: PersonAnswer = PersonAnswer::Approved;

fn requested() -> World {
    let reply =
        draft("low").asks("wipe", target("a")).asks("fetch_device", target("b")).asks("restart", target("c"));
    run().people().start().replied(&reply).expect_tools(&["1/action-1#1 fetch_device"])
}

#[test]
fn a_person_is_asked_after_what_may_run_has_run() {
    let world = requested();
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
    let world = requested()
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
    assert!(world.run.evidence()[1].observation.text().contains("not today"));
    assert_eq!(world.run.totals().tool_calls, 2, "what was denied was not called");
    // What was denied is not asked again.
    let world = world.replied(&draft("low").asks("wipe", target("a")));
    assert_eq!(world.ends(StopReason::NoNewActions).verdicts()[3], "duplicate");
}

#[test]
fn a_certificate_counts_what_was_done_and_what_was_not() {
    // W4: calls that only read are no effects.
    let world = requested().all_finished();
    let waiting = world.run.outcome_so_far(Certificate::new(waits(), Vec::new())).stop.effects;
    assert_eq!(waiting, Effects { waiting: 2, ..Effects::default() });
    let world = world.answered_by_person("1/action-2", YES).answered_by_person("1/action-0", no());
    let world = world.finished("1/action-2", found("restarted"));
    let world = world.replied(&draft("high").asks("restart", json!({})).asks("restart", target("d")));
    let world = world.stop(StopMode::Now).ends(StopReason::ManualStop);
    let expected = Effects { executed: 1, denied: 1, waiting: 1, not_run: 1, ..Effects::default() };
    assert_eq!(world.outcome().stop.effects, expected);
    assert_eq!(expected.to_string(), "1 executed, 1 denied, 1 waiting, 1 not run");
}

#[test]
fn time_in_which_people_are_waited_for_is_no_time_of_the_run_wherever_it_is_left() {
    let wall = |world: &World| {
        let stop = Certificate::new(waits(), Vec::new());
        world.run.outcome_so_far(stop).totals.wall_ms
    };
    let world = requested().wait(700).all_finished();
    let before = wall(&world);
    assert_eq!(before, 700);
    // One of two has answered, a minute later; the other is waited for.
    let world = world.wait(60_000).answered_by_person("1/action-2", YES);
    assert_eq!((world.now, wall(&world)), (before + 60_000, before));
    let world = world.wait(60_000).answered_by_person("1/action-0", no());
    assert_eq!((world.now, wall(&world)), (before + 120_000, before));
    let world = world.stop(StopMode::Now);
    let world = if world.phase() == "stopping" { world.deadline() } else { world };
    let ran = world.now - before - 120_000;
    assert_eq!(world.outcome().totals.wall_ms, before + ran);
}

fn waits() -> Condition {
    let value = Measure::Names(Vec::new());
    Condition::new(StopReason::NeedsHuman, value)
}

#[test]
fn a_denial_of_everything_goes_on_with_the_next_pass() {
    let world = run().people().start().replied(&draft("low").asks("wipe", target("a")));
    let world = world.answered_by_person("1/action-0", no()).expect_call("2/main", 1);
    assert_eq!(
        world.run.actions()[0].verdict,
        Verdict::Denied { why: "not today".into(), by: DeniedBy::Person }
    );
    assert_eq!(world.run.totals().tool_calls, 0);
}

#[test]
fn silence_is_a_no() {
    // U3
    let world = requested().all_finished().answered_by_person("1/action-2", YES).deadline();
    assert_eq!(world.now, 600_000);
    assert_eq!(
        world.run.actions()[0].verdict,
        Verdict::Denied { why: "nobody answered in time".into(), by: DeniedBy::Silence }
    );
    world.expect_tools(&["1/action-2#1 restart"]);
}

#[test]
fn what_has_no_deadline_waits_until_it_is_answered() {
    // U3
    let reply = draft("low").asks("wipe", target("a"));
    let world = run().people().limits(|limits| limits.person_ms = None).start().replied(&reply);
    let world = world.expect_phase("waiting_for_person");
    assert_eq!((world.run.deadline(), world.run.requested()[0].deadline), (None, None));
    let years = world.wait(100 * 365 * 86_400_000).rejects(EventKind::DeadlineReached);
    years.answered_by_person("1/action-0", YES).expect_tools(&["1/action-0#1 wipe"]);
}

#[test]
fn an_answer_counts_once_and_only_in_time_and_only_for_what_was_asked() {
    // U4, I-26
    let answer =
        |key_text: &str, answer| EventKind::PersonAnswered { key: key(key_text), answer, binding: None };
    let early = requested().rejects(answer("1/action-0", YES)).all_finished();
    let world = early
        .rejects(answer("1/action-1", YES))
        .rejects(answer("9/action-0", YES))
        .answered_by_person("1/action-0", no());
    let world = world.rejects(answer("1/action-0", YES)).wait(600_000).rejects(answer("1/action-2", YES));
    world.deadline().expect_call("2/main", 1).rejects(answer("1/action-2", YES));
}

#[test]
fn waiting_for_a_person_does_not_count_against_the_wall_clock() {
    let reply = draft("low").asks("wipe", target("a"));
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
        .replied(&draft("high"))
        .ends(StopReason::Confident);
    assert_eq!(world.outcome().totals.wall_ms, 3_000);
    // A stop while waiting does not make the waiting count.
    let stopped = setup().wait(500_000).stop(StopMode::Now).ends(StopReason::ManualStop);
    assert_eq!(stopped.outcome().totals.wall_ms, 1_000);
}

#[test]
fn the_time_without_a_driver_counts_for_a_persons_deadline() {
    let world = requested().all_finished().resumed(599_999).expect_phase("waiting_for_person");
    assert_eq!(world.run.elapsed_ms(), 0);
    let world = world.wait(1).deadline().expect_call("2/main", 1);
    assert_eq!(world.run.elapsed_ms(), 0);
}

#[test]
fn evidence_is_numbered_when_it_is_admitted_whatever_the_order_of_the_answers() {
    // I-20
    let order = |first: &str, second: &str| {
        let world = requested().all_finished().answered_by_person(first, YES).answered_by_person(second, YES);
        let world = world.finished("1/action-2", found("2")).finished("1/action-0", found("0"));
        world.run.evidence().to_vec()
    };
    assert_eq!(order("1/action-0", "1/action-2"), order("1/action-2", "1/action-0"));
}

// ---- what an approval binds ----

/// A question to a person, whatever its tool would do to the world.
fn question(effect: Effect) -> ToolSpec {
    let policy = ToolPolicy { asks_person: true, ..ToolPolicy::default() };
    ToolSpec { policy, ..tool("ask", effect) }
}

fn asking(effect: Effect) -> World {
    let reply = draft("low").asks("ask", target("Which host?")).asks("wipe", target("a"));
    run().people().with(|spec| spec.tools.push(question(effect))).start().replied(&reply)
}

fn answer(text: &str) -> PersonAnswer {
    PersonAnswer::Answered { text: text.into() }
}

#[track_caller]
fn refuses(world: &mut World, at: &str, answer: &PersonAnswer, binding: Option<Digest>, fault: AnswerFault) {
    let kind = EventKind::PersonAnswered { key: key(at), answer: answer.clone(), binding };
    assert_eq!(world.try_apply(kind), Err(Rejected::Answer { key: key(at), why: fault }));
    let requested = world.run.may_answer(Millis(world.now), &key(at), answer, binding.as_ref());
    assert_eq!(requested, Err(fault), "it can be known before");
}

#[test]
fn an_approval_is_for_one_action_with_its_arguments_tools_and_policy_in_one_run() {
    // I-26, K8, S4-36
    let requested = |run_id: &str, limit: u32, tools: &[u8], parameters| {
        let mut setup = run().people().limits(|limits| limits.tool_calls = limit);
        setup.facts.tools = Digest::of("tools", tools);
        let world = setup.start_as(run_id);
        let reply = draft("low").asks("wipe", parameters).asks("restart", target("a"));
        world.replied(&reply).expect_phase("waiting_for_person")
    };
    let of = |world: &World, at: &str| world.run.binding(&key(at)).unwrap();
    let mut own = requested("r1", 25, b"", target("a"));
    let bindings = [
        of(&own, "1/action-0"),
        of(&own, "1/action-1"),
        of(&requested("r2", 25, b"", target("a")), "1/action-0"),
        of(&requested("r1", 24, b"", target("a")), "1/action-0"),
        of(&requested("r1", 25, b"other", target("a")), "1/action-0"),
        of(&requested("r1", 25, b"", target("a ")), "1/action-0"),
    ];
    let different: std::collections::BTreeSet<_> = bindings.iter().collect();
    assert_eq!(different.len(), bindings.len());
    assert_eq!(bindings[0], of(&requested("r1", 25, b"", target("a")), "1/action-0"));
    assert_eq!(own.run.binding(&key("9/action-0")), None);
    for other in &bindings[1..] {
        refuses(&mut own, "1/action-0", &YES, Some(*other), AnswerFault::OtherBinding);
        refuses(&mut own, "1/action-0", &no(), Some(*other), AnswerFault::OtherBinding);
    }
    let approval =
        EventKind::PersonAnswered { key: key("1/action-0"), answer: YES, binding: Some(bindings[0]) };
    own.apply(approval);
    assert_eq!(own.asks(), ["1/action-1"]);
}

#[test]
fn what_is_asked_names_the_exact_arguments_the_reason_and_the_end() {
    // K8
    let world = requested().all_finished();
    let found = world.run.requested();
    let first = &found[0];
    assert_eq!(found.len(), 2);
    assert_eq!(
        (first.key, &*first.tool, first.effect),
        (key("1/action-0"), "wipe", Effect::WriteIrreversible)
    );
    assert_eq!(&*first.parameters, r#"{"limit":3,"target":"a"}"#, "as it would be run");
    assert_eq!((first.deadline, first.is_question), (Some(Millis(600_000)), false));
    assert_eq!(Some(first.binding), world.run.binding(&first.key));
    assert!(first.why.contains("consent"), "{}", first.why);
    let world = world.answered_by_person("1/action-0", no());
    assert_eq!(world.run.requested().len(), 1, "what is answered waits no longer");
    assert!(world.answered_by_person("1/action-2", no()).run.requested().is_empty());
}

#[test]
fn who_is_asked_reads_the_name_of_the_tool_and_not_the_one_that_the_model_wrote() {
    // I-26: what is approved is what runs.
    let setup = run().people().with(|spec| {
        let wipe = spec.tools.iter_mut().find(|tool| &*tool.name == "wipe").unwrap();
        wipe.aliases = vec!["tidy_up".into()];
    });
    let world = setup.start().replied(&draft("low").asks("tidy_up", json!({"target": "a"})));
    let commands = world.run.commands();
    let [loop_core::Command::AskPerson { action, .. }] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!(
        (&*action.tool, action.parameters.to_string()),
        ("wipe", r#"{"limit":3,"target":"a"}"#.to_owned())
    );
}

#[test]
fn an_answer_that_does_not_count_says_why() {
    // I-26, U4
    let mut world = requested();
    refuses(&mut world, "1/action-0", &YES, None, AnswerFault::NotYet);
    // What can never count is not told to wait.
    refuses(&mut world, "1/action-0", &answer("yes"), None, AnswerFault::IsNoQuestion);
    refuses(&mut world, "1/action-0", &YES, Some(Digest::of("other", b"")), AnswerFault::OtherBinding);
    refuses(&mut world, "7/action-0", &YES, None, AnswerFault::NoAction);
    refuses(&mut world, "1/action-1", &YES, None, AnswerFault::NotRequested { verdict: "run" });
    let mut world = world.all_finished();
    refuses(&mut world, "1/action-1", &YES, None, AnswerFault::NotRequested { verdict: "run" });
    refuses(&mut world, "1/action-0", &answer("yes"), None, AnswerFault::IsNoQuestion);
    let mut world = world.answered_by_person("1/action-0", YES);
    refuses(&mut world, "1/action-0", &YES, None, AnswerFault::Answered);
    refuses(&mut world, "1/action-0", &no(), None, AnswerFault::Answered);
    let mut world = world.wait(600_000);
    refuses(&mut world, "1/action-2", &YES, None, AnswerFault::Expired { limit_ms: 600_000 });
    let mut world = world.deadline().expect_tools(&["1/action-0#1 wipe"]);
    refuses(&mut world, "1/action-0", &YES, None, AnswerFault::NotRequested { verdict: "run" });
    refuses(&mut world, "1/action-2", &YES, None, AnswerFault::NotRequested { verdict: "denied" });
}

// ---- questions ----

#[test]
fn a_question_waits_for_a_person_whatever_its_effect_and_their_answer_is_its_result() {
    // S4-37
    for effect in [Effect::Read, Effect::WriteKeyed, Effect::Egress] {
        let mut world = asking(effect).expect_phase("waiting_for_person");
        assert_eq!(world.asks(), ["1/action-0", "1/action-1"]);
        assert!(world.run.requested()[0].is_question);
        refuses(&mut world, "1/action-0", &YES, None, AnswerFault::IsQuestion);
        refuses(&mut world, "1/action-0", &answer(" \n"), None, AnswerFault::Empty);
        let stated_it = "srv-7\u{202e}\u{1b}, the\nnew one";
        let world =
            world.answered_by_person("1/action-0", answer(stated_it)).answered_by_person("1/action-1", no());
        let world = world.expect_call("2/main", 1);
        let found = &world.run.evidence()[0];
        assert_eq!((&*found.tool, found.observation.status), ("ask", Status::Ok));
        assert_eq!(&*found.observation.markdown, "srv-7, the\nnew one");
        let data: serde_json::Value = serde_json::from_str(&found.observation.data).unwrap();
        assert_eq!(data, json!({"answer": "srv-7, the\nnew one", "by": "person"}));
        assert_eq!(world.run.totals().tool_calls, 0, "nobody ran a tool");
        world.check_replay();
    }
}

#[test]
fn what_a_question_was_answered_stays_when_the_run_stops_while_others_wait() {
    let requested = || {
        let reply = draft("low").asks("ask", target("Which host?")).asks("wipe", target("a"));
        let reply = reply.asks("restart", target("c"));
        let world = run().people().with(|spec| spec.tools.push(question(Effect::Read))).start();
        let world = world.replied(&reply).answered_by_person("1/action-0", answer("srv-7"));
        world.answered_by_person("1/action-1", YES)
    };
    let check = |outcome: &Outcome| {
        let returned: Vec<_> =
            outcome.evidence.iter().map(|it| (&*it.tool, &**it.observation.text())).collect();
        assert_eq!(returned, [("ask", "srv-7")]);
        assert_eq!(outcome.actions[0].evidence, Some(outcome.evidence[0].id));
    };
    let world = requested().stop(StopMode::Now).ends(StopReason::ManualStop);
    assert_eq!(world.verdicts(), ["run", "ended", "needs_person"]);
    check(world.outcome());
    world.check_replay();
    let stop = world.outcome().stop.clone();
    check(&requested().run.outcome_so_far(stop));
    // Nothing was answered: nothing is there.
    let silent = asking(Effect::Read).stop(StopMode::Now).ends(StopReason::ManualStop);
    assert_eq!(silent.verdicts(), ["needs_person", "needs_person"]);
    assert!(silent.outcome().evidence.is_empty());
}

#[test]
fn a_question_that_nobody_answers_is_denied() {
    // U3
    let world = asking(Effect::Read).answered_by_person("1/action-0", no());
    assert_eq!(
        world.run.actions()[0].verdict,
        Verdict::Denied { why: "not today".into(), by: DeniedBy::Person }
    );
    let world = asking(Effect::Read).deadline().expect_call("2/main", 1);
    let statuses: Vec<_> = world.run.evidence().iter().map(|found| found.observation.status).collect();
    assert_eq!(statuses, [Status::Denied, Status::Denied]);
}

#[test]
fn with_nobody_to_ask_a_question_needs_a_human() {
    // S4-28, S4-37
    let setup = run().with(|spec| spec.tools.push(question(Effect::Read)));
    let world = setup.start().replied(&draft("low").asks("ask", target("Which host?")));
    assert_eq!(world.ends(StopReason::NeedsHuman).verdicts(), ["needs_person"]);
}

// ---- what a run is told ----

fn instructions(world: &mut World, text: &str) {
    world.apply(EventKind::Instruction { text: text.into() });
}

fn instructions_for(world: &World, pass: u32) -> Vec<String> {
    world.run.instructions_for(pass).map(|instructions| instructions.text.to_string()).collect()
}

#[test]
fn what_a_run_is_told_is_for_the_next_pass_whose_call_is_not_announced() {
    let mut world = run().patient().people().start();
    instructions(&mut world, "before the first call");
    world = world.started();
    instructions(&mut world, "while it is called");
    instructions(&mut world, "and once more");
    world = world.answered(&draft("low").asks("fetch_device", target("a")).asks("wipe", target("b")));
    instructions(&mut world, "while a tool runs");
    world = world.all_finished().expect_phase("waiting_for_person");
    instructions(&mut world, "while it waits");
    world = world.answered_by_person("1/action-1", no());
    let second = ["while it is called", "and once more", "while a tool runs", "while it waits"];
    assert_eq!(
        (instructions_for(&world, 1), instructions_for(&world, 2)),
        (vec!["before the first call".to_owned()], second.map(str::to_owned).to_vec())
    );
    // A try that failed is made again as it was.
    world = world.started();
    instructions(&mut world, "late");
    world = world.failed(failure(true)).expect_call("2/main", 2);
    assert_eq!(
        (instructions_for(&world, 2).len(), instructions_for(&world, 3)),
        (4, vec!["late".to_owned()])
    );
    world.check_replay();
}

#[test]
fn a_run_is_told_something_only_while_a_pass_is_still_to_come() {
    let mut world = run().start();
    assert_eq!(
        world.try_apply(EventKind::Instruction { text: " \n".into() }),
        Err(Rejected::EmptyInstruction)
    );
    world = world.replied(&draft("high")).ends(StopReason::Confident);
    let over = Rejected::OutOfOrder { event: "instruction", phase: "done" };
    assert_eq!(world.try_apply(EventKind::Instruction { text: "late".into() }), Err(over));
    // The last call may still be told before it is made, not while it is made.
    let last = run().limits(|limits| limits.passes = 1).start();
    let key: CommandKey = last.call().key;
    assert_eq!(key, self::key("1/final"));
    let mut last = last;
    instructions(&mut last, "early enough");
    assert_eq!(instructions_for(&last, 1), ["early enough"]);
    let mut last = last.started();
    let late = Rejected::OutOfOrder { event: "instruction", phase: "final_pass" };
    assert_eq!(last.try_apply(EventKind::Instruction { text: "late".into() }), Err(late));
}

#[test]
fn what_a_conversation_is_told_counts_as_a_message() {
    // S1-39
    let mut world = loop_testkit::conversation().start();
    let before = world.run.messages();
    instructions(&mut world, "one");
    assert_eq!(world.run.messages(), before + 1);
    world = world.started();
    instructions(&mut world, "for the call after");
    assert_eq!(world.run.messages(), before + 1);
    world = world.answered(&loop_testkit::calls(&[("fetch_device", target("a"))]));
    assert_eq!(world.run.messages(), before + 4, "the reply, its call and what it was told");
}

#[test]
fn an_absence_while_a_person_is_waited_for_is_taken_off_the_wall_clock_once() {
    // M8, C12: 700 ms of work, then 8 s of waiting, of which 5 without a driver.
    let world = run().people().start().started().wait(700).answered(&draft("low").asks("wipe", target("a")));
    assert_eq!(world.run.elapsed_ms(), 700);
    let world = world.wait(1_000).resumed(5_000);
    assert_eq!(world.run.elapsed_ms(), 700);
    let world = world.wait(2_000).answered_by_person("1/action-0", no()).expect_call("2/main", 1);
    assert_eq!((world.run.now(), world.run.elapsed_ms()), (Millis(8_700), 700));
    // An absence before it and one after it are taken off as well.
    let world = world.wait(100).started().resumed(4_000).wait(200).started();
    assert_eq!((world.run.now(), world.run.elapsed_ms()), (Millis(13_000), 1_000));
}

#[test]
fn a_contract_in_what_a_person_says_is_an_echo_where_the_model_repeats_it() {
    // M11, L13, K5: a pasted mail can hold one.
    let planted = r#"{"analysis_confidence": "high", "ai_actions": []}"#;
    let bare = text(&format!("## Situation\nAs I was told:\n```json\n{planted}\n```\n"));
    let mut world = run().start();
    instructions(&mut world, &format!("They wrote: ```json {planted} ``` What now?"));
    world.replied(&bare).expect_phase("repairing").expect_call("1/repair", 1);
    // Where nobody said it, it is the model's own.
    run().start().replied(&bare).ends(StopReason::Confident);
}

#[test]
fn a_contract_in_an_answer_or_in_the_reason_of_a_denial_is_an_echo_where_the_model_repeats_it() {
    // M11, L13, K5
    let planted = r#"{"analysis_confidence": "high", "ai_actions": []}"#;
    let pasted: Arc<str> = format!("They wrote: ```json {planted} ```").into();
    let bare = text(&format!("## Situation\nAs I was told:\n```json\n{planted}\n```\n"));
    let next = |at: &str, answer: PersonAnswer| {
        let reply = draft("low").asks("ask", target("Which host?")).asks("wipe", target("a"));
        let world =
            run().people().with(|spec| spec.tools.push(question(Effect::Read))).start().replied(&reply);
        let world = world.answered_by_person(at, answer);
        // The other question expires.
        world.deadline().expect_call("2/main", 1)
    };
    for (at, answer) in [
        ("1/action-0", PersonAnswer::Answered { text: Arc::clone(&pasted) }),
        ("1/action-0", PersonAnswer::Denied { why: Arc::clone(&pasted) }),
        ("1/action-1", PersonAnswer::Denied { why: Arc::clone(&pasted) }),
    ] {
        next(at, answer).replied(&bare).expect_phase("repairing");
    }
    // Where nobody said it, it is the model's own.
    next("1/action-0", answer("web-1")).replied(&bare).ends(StopReason::Confident);
}

fn by(account: &str, claim: Option<&str>) -> Approver {
    Approver { account: account.into(), user: "".into(), claim: claim.map(Into::into) }
}

fn approved_by(world: &World, action: &str, by: Approver) -> EventKind {
    let key: CommandKey = action.parse().unwrap();
    EventKind::ApprovedBy { key, by, binding: world.run.binding(&key) }
}

#[test]
fn where_two_people_are_demanded_two_accounts_approve() {
    // K8, U4, I-26: a name that is claimed makes no second person, and an approval without an account counts for nothing.
    let mut setup = run().people();
    setup.spec.gate.approvals = 2;
    let mut world =
        setup.start().replied(&draft("low").asks("wipe", target("a"))).expect_phase("waiting_for_person");
    let refused = |world: &mut World, kind: EventKind| {
        let event = Event { at: world.run.now(), kind };
        match world.run.clone().apply(&event) {
            Err(Rejected::Answer { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    };
    let key: CommandKey = "1/action-0".parse().unwrap();
    let plain = EventKind::PersonAnswered { key, answer: YES, binding: None };
    assert_eq!(refused(&mut world, plain), AnswerFault::Unnamed { people: 2 });
    // A driver asks before it tells.
    let may = |world: &World, account: &str| {
        world.run.may_approve(world.run.now(), &key, &by(account, None), world.run.binding(&key).as_ref())
    };
    assert_eq!((may(&world, ""), may(&world, "token 1")), (Err(AnswerFault::Unnamed { people: 2 }), Ok(())));
    let unchecked = approved_by(&world, "1/action-0", by("", Some("Ada")));
    assert_eq!(refused(&mut world, unchecked.clone()), AnswerFault::Unnamed { people: 2 });
    let first = approved_by(&world, "1/action-0", by("token 1", Some("Ada")));
    world.apply(first);
    let mut world = world.expect_phase("waiting_for_person");
    let requested = world.run.requested();
    assert_eq!((requested[0].approvals, requested[0].approvers.len()), (2, 1));
    for claim in [None, Some("Ada"), Some("Bob")] {
        let again = approved_by(&world, "1/action-0", by("token 1", claim));
        assert_eq!(refused(&mut world, again), AnswerFault::SamePerson { people: 2 });
    }
    assert_eq!(refused(&mut world, unchecked), AnswerFault::Unnamed { people: 2 });
    assert_eq!(may(&world, "token 1"), Err(AnswerFault::SamePerson { people: 2 }));
    let second = approved_by(&world, "1/action-0", by("token 2", Some("Ada")));
    world.apply(second);
    world.expect_tools(&["1/action-0#1 wipe"]);
}

#[test]
fn a_denial_needs_one_person_and_one_approval_is_enough_elsewhere() {
    // K8, U4
    let mut setup = run().people();
    setup.spec.gate.approvals = 2;
    let mut world =
        setup.start().replied(&draft("low").asks("wipe", target("a"))).expect_phase("waiting_for_person");
    let first = approved_by(&world, "1/action-0", by("token 1", None));
    world.apply(first);
    let world = world.answered_by_person("1/action-0", no()).expect_call("2/main", 1);
    assert_eq!(world.run.evidence()[0].observation.status, Status::Denied);
    // Where one is enough, it need not be an account that was checked.
    for account in ["token 1", ""] {
        let mut world = run().people().start().replied(&draft("low").asks("wipe", target("a")));
        let only = approved_by(&world, "1/action-0", by(account, None));
        world.apply(only);
        world.expect_tools(&["1/action-0#1 wipe"]);
    }
}
