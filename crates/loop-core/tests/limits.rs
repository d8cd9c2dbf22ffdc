//! Limits: what is never passed, a limit of 0, and what a call is granted.

use crate::common::usd;
use loop_testkit::*;

use loop_core::run::{PromptSize, Refusal};
use loop_core::spec::Limits;
use loop_core::types::{Millis, StopClass, SubCallUse, Tier};
use loop_core::{Note, StopReason};

fn device(name: &str) -> DraftReply {
    draft("medium").asks("fetch_device", target(name))
}

#[test]
fn a_limit_of_nothing_stops_before_the_first_call() {
    // S4-d3, S0-40
    let limits = Limits::default;
    let cases = [
        (Limits { passes: 0, ..limits() }, StopReason::MaxPasses),
        (Limits { cost: usd(0), ..limits() }, StopReason::BudgetExceeded),
        (Limits { tokens: Some(0), ..limits() }, StopReason::TokenLimit),
        (Limits { model_calls: 0, ..limits() }, StopReason::MaxModelCalls),
        (Limits { wall_ms: 0, ..limits() }, StopReason::Timeout),
    ];
    for (limits, reason) in cases {
        let limited = |setup: Setup| setup.with(|spec| spec.limits = limits.clone()).start();
        let world = limited(run().selector(&[])).ends(reason);
        assert_eq!((world.outcome().totals.model_calls, world.outcome().stop.class), (0, StopClass::Partial));
        limited(run().saving()).saved(1, saved_at("x")).ends(reason);
        assert_eq!(world.reasons(), [reason]);
    }
}

#[test]
fn no_tool_calls_stop_before_the_first_call_where_there_are_tools() {
    // S4-d3: `maxToolCalls` of 0 holds before anything is proposed, as that of 0 steps and of no time does.
    for setup in [run().selector(&[]), run(), loop_testkit::conversation()] {
        let world =
            setup.clone().limits(|limits| limits.tool_calls = 0).start().ends(StopReason::MaxToolCalls);
        assert_eq!((world.outcome().totals.model_calls, world.outcome().stop.class), (0, StopClass::Partial));
        let change = world.outcome().stop.primary.change.as_ref().unwrap().to_string();
        assert_eq!(change, "limits.tool_calls = 1");
        // Where there is nothing that could be called, the limit forbids nothing.
        let none = setup.clone().limits(|limits| limits.tool_calls = 0);
        none.clone().with(|spec| spec.tools.clear()).start().expect_phase("calling");
        none.with(|spec| spec.gate.forbid = vec!["*".into()]).start().expect_phase("calling");
    }
    // What a loop ends with is no tool of its choice.
    let only_output = loop_testkit::output().limits(|limits| limits.tool_calls = 0);
    only_output.with(|spec| spec.tools.retain(|tool| &*tool.name == "save")).start().expect_phase("calling");
}

#[test]
fn limits_of_nothing_are_told_in_the_order_of_steps_tool_calls_and_time() {
    // S4-39, S4-70
    // S4-d3: a step, a tool call and a millisecond that are not there are all true at once.
    let none = |limits: &mut Limits| (limits.passes, limits.tool_calls, limits.wall_ms) = (0, 0, 0);
    let world = run().limits(none).start();
    assert_eq!(world.reasons(), [StopReason::MaxPasses, StopReason::MaxToolCalls, StopReason::Timeout]);
}

#[test]
fn the_loop_makes_no_more_than_five_passes() {
    // S0-12, S0-43, S0-50, S0-125
    let mut world = run().patient().start();
    for pass in 1..5 {
        world =
            world.expect_call(&format!("{pass}/main"), 1).replied(&device(&format!("{pass}"))).all_finished();
    }
    let world = world.expect_call("5/final", 1).replied(&device("more")).ends(StopReason::MaxPasses);
    assert_eq!((world.outcome().totals.passes, world.outcome().totals.model_calls), (5, 5));
    assert_eq!(world.outcome().stop.class, StopClass::Partial);
}

#[test]
fn spending_as_much_as_the_limit_ends_the_run() {
    // S0-45, S0-51, S0-119: `>=`, with the selector's call in the sum.
    let both = 100 * 10 + 50 * 40 + 100 * 100_000 + 50 * 400_000;
    let with = |limit: u64| {
        let setup = run().checked_after().selector(&[]).limits(|limits| limits.cost = usd(limit));
        setup.start().selected(&[]).replied(&device("a"))
    };
    with(both + 1).expect_phase("acting");
    let world = with(both).ends(StopReason::BudgetExceeded);
    assert_eq!(world.outcome().totals.cost.total(), usd(both));
}

#[test]
fn using_as_many_tokens_as_the_limit_ends_the_run() {
    let with = |limit: u64| {
        run().checked_after().limits(|limits| limits.tokens = Some(limit)).start().replied(&device("a"))
    };
    with(151).expect_phase("acting");
    with(150).ends(StopReason::TokenLimit);
}

#[test]
fn an_unknown_price_is_never_taken_for_nothing() {
    let unpriced = run().with(|spec| spec.models.base = model(None)).limits(|limits| limits.cost = None);
    let world = unpriced.start().replied(&draft("high")).ends(StopReason::Confident);
    let cost = world.outcome().totals.cost;
    assert_eq!((cost.total(), cost.unknown_calls), (None, 1));
}

#[test]
fn the_wall_clock_ends_the_run_in_every_phase_in_which_it_works() {
    let setup = || run().selector(&[]).limits(|limits| limits.wall_ms = 10_000);
    let selection = || setup().start();
    let gathering = || selection().selected(&[("fetch_device", target("a"))]);
    let calling = || selection().selected(&[]);
    let acting = || calling().replied(&device("a"));
    let repairing = || calling().replied(&text("## Situation\nno contract"));
    let final_pass = || setup().limits(|limits| limits.passes = 1).start().selected(&[]);
    for (name, world) in [
        ("selection", selection()),
        ("selection", selection().started()),
        ("gathering", gathering()),
        ("calling", calling()),
        ("calling", calling().started()),
        ("acting", acting()),
        ("repairing", repairing()),
        ("repairing", repairing().started()),
        ("final_pass", final_pass()),
        ("final_pass", final_pass().started()),
    ] {
        assert_eq!((world.phase(), world.run.deadline()), (name, Some(Millis(10_000))));
        let in_flight = !world.tools().is_empty()
            || world.run.commands().iter().any(
                |command| matches!(command, loop_core::Command::CallModel(call) if call.granted.is_some()),
            );
        let mut world = world.deadline();
        if in_flight {
            assert_eq!(
                (world.phase(), world.aborts().len(), world.run.deadline()),
                ("stopping", 1, Some(Millis(12_000)))
            );
            world = world.deadline();
        }
        let world = world.ends(StopReason::Timeout);
        assert!(world.outcome().totals.wall_ms <= 12_000);
    }
}

#[test]
fn a_call_that_may_succeed_only_after_the_end_fails_now() {
    let retried = |at: u64| {
        let mut later = failure(true);
        later.retry_at = Some(Millis(at));
        run().limits(|limits| limits.wall_ms = 10_000).start().started().failed(later)
    };
    retried(7_499).expect_phase("calling");
    retried(10_000).ends(StopReason::ModelFailure);
    // What may succeed in the final pass's time is the final pass, and nobody announces a pass before that.
    let world = retried(9_000).expect_nothing().deadline().expect_call("1/final", 2);
    assert_eq!(world.call().timeout_ms, 60_000);
}

#[test]
fn the_gate_sees_the_wall_clock_too() {
    let world =
        run().limits(|limits| limits.wall_ms = 1_000).start().started().wait(1_000).answered(&device("a"));
    let world = world.ends(StopReason::Timeout);
    // T11: with a millisecond more it would have ended as well. What the next call would take is not known.
    assert_eq!(world.outcome().stop.primary.change, None);
}

#[test]
fn a_limit_that_a_call_has_passed_names_no_value_that_would_be_refused_again() {
    // T11: in `estimated` one more pico-dollar pays for no call, and checked after the spend it does.
    for after in [false, true] {
        let setup = run().limits(|limits| limits.cost = usd(500_000_000));
        let setup = if after { setup.checked_after() } else { setup };
        let world = setup.start().started().answered(&device("a").using(Some(used(90_000, 100))));
        let world = world.ends(StopReason::BudgetExceeded);
        assert_eq!(world.outcome().stop.primary.change.is_some(), after);
    }
    let mut cut = failure(true);
    cut.kind = loop_core::types::FailureKind::Timeout;
    let world = run().limits(|limits| limits.wall_ms = 40_000).start().replied(&device("a")).all_finished();
    let world = world.started().wait(30_000).failed(cut).expect_call("2/final", 1);
    let world = world.replied(&draft("low")).ends(StopReason::Timeout);
    assert_eq!(world.outcome().stop.primary.change, None, "the call would have been cut off again");
}

#[test]
fn a_call_is_granted_what_model_limit_and_context_leave() {
    let world = run().start();
    let quote = |bytes: u64| world.run.quote(&key("1/main"), PromptSize { bytes, shared_bytes: 0 });
    let small = quote(2_000).unwrap();
    assert_eq!((small.tier, small.max_output_tokens, small.reserve.input_tokens), (Tier::Base, 4_096, 1_000));
    assert_eq!(small.reserve.cost, usd(1_000 * 100_000 + 4_096 * 400_000));
    assert_eq!(quote(2 * (100_000 - 300)).map(|quote| quote.max_output_tokens), Ok(300));
    // No call is made for fewer than 256 tokens of output.
    assert_eq!(quote(2 * (100_000 - 256)).map(|quote| quote.max_output_tokens), Ok(256));
    assert_eq!(quote(2 * (100_000 - 255)), Err(Refusal::Context));
    assert_eq!(world.run.quote(&key("2/main"), PROMPT), Err(Refusal::NotCommanded));
    assert_eq!(world.started().run.quote(&key("1/main"), PROMPT), Err(Refusal::NotCommanded));
}

#[test]
fn a_later_call_is_bounded_by_what_was_reported_for_the_shared_part() {
    let world = run().start().replied(&device("a")).all_finished();
    let quote =
        |shared_bytes: u64| world.run.quote(&key("2/main"), PromptSize { bytes: 2_500, shared_bytes });
    // 100 tokens were reported for the first 2,000 bytes; 500 bytes are at most 500 tokens.
    assert_eq!(quote(2_000).unwrap().reserve.input_tokens, 600);
    assert_eq!(quote(1_999).unwrap().reserve.input_tokens, 1_250);
}

#[test]
fn a_grant_that_the_state_does_not_give_is_rejected() {
    // I-2
    let world = run().start();
    let quote = world.run.quote(&key("1/main"), PROMPT).unwrap();
    let grant = |max_output_tokens, tier| loop_core::EventKind::CallStarted {
        key: key("1/main"),
        attempt: 1,
        tier,
        prompt_bytes: PROMPT.bytes,
        shared_bytes: 0,
        prompt_hash: digest(),
        max_output_tokens,
        reserve: quote.reserve,
    };
    let refusal = refused(&world.call(), PROMPT, Refusal::Cost);
    world
        .rejects(grant(quote.max_output_tokens + 1, Tier::Base))
        .rejects(grant(quote.max_output_tokens, Tier::Escalated))
        .rejects(refusal);
}

#[test]
fn a_prompt_that_does_not_fit_gives_up_its_oldest_evidence_first() {
    // T9: what a tool returned is more than the model takes; its number stays.
    let reply = draft("low").asks("fetch_device", target("a")).asks("fetch_device", target("b"));
    let huge = PromptSize { bytes: 1_000_000, shared_bytes: 0 };
    let world = run().start().replied(&reply).all_finished();
    let shortened = |world: &World| -> Vec<bool> {
        world.run.evidence().iter().map(|evidence| evidence.shortened).collect()
    };
    let world = world.started_with(huge);
    assert_eq!((shortened(&world), world.call().attempt), (vec![true, false], 1));
    assert!(
        world
            .notes()
            .iter()
            .any(|note| matches!(note, Note::EvidenceShortened { evidence } if evidence.0 == 1))
    );
    let world = world.started_with(huge);
    assert_eq!(shortened(&world), [true, true]);
    let fits = world.clone().replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!(fits.outcome().evidence.len(), 2);
    world.started_with(huge).ends(StopReason::TokenLimit);
}

#[test]
fn a_sub_call_is_granted_only_while_a_call_is_left_for_the_document() {
    // S0-65, S0-119, I-4
    let reply = draft("low")
        .asks("fetch_docs", target("a"))
        .asks("fetch_docs", target("b"))
        .asks("fetch_docs", target("c"));
    let world = run().limits(|limits| limits.model_calls = 4).start().replied(&reply);
    let granted: Vec<bool> = world.tools().iter().map(|tool| tool.sub_call.is_some()).collect();
    assert_eq!(granted, [true, true, false]);
    let mut filtered = found("x");
    filtered.sub_call = Some(SubCallUse::new(true, Some(used(1_000, 20))).into());
    let world = world
        .finished("1/action-0", filtered.clone())
        .finished("1/action-1", filtered)
        .finished("1/action-2", found("y"))
        .expect_call("2/final", 1)
        .replied(&draft("high"))
        .ends(StopReason::MaxModelCalls);
    let totals = world.outcome().totals;
    assert_eq!((totals.model_calls, totals.sub_calls, totals.usage.total()), (4, 2, 2 * 150 + 2 * 1_020));
}

#[test]
fn a_grant_that_was_not_used_is_free_again() {
    // S0-128: without an answer the tool falls back to code, and what was used is charged all the same.
    let reply = draft("low").asks("fetch_docs", target("a"));
    let again = draft("low").asks("fetch_docs", target("b"));
    let world =
        run().limits(|limits| limits.model_calls = 4).start().replied(&reply).all_finished().replied(&again);
    assert!(world.tools()[0].sub_call.is_some());
    let mut silent = found("x");
    silent.sub_call = Some(SubCallUse::new(false, None).into());
    let world = world.finished("2/action-0", silent);
    let totals = world.run.totals();
    assert_eq!((totals.model_calls, totals.usage.output), (3, 50 + 50 + 512));
    assert!(totals.usage.estimated);
    world.expect_call("3/final", 1);
}

fn many(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("d{n}")).collect()
}

#[test]
fn what_a_selection_asks_for_beyond_the_limit_is_counted_and_not_read() {
    // P5
    let names = many(10_000);
    let selections: Vec<_> = names.iter().map(|name| ("fetch_device", target(name))).collect();
    let world = run().selector(&[]).start().selected(&selections);
    assert_eq!(world.run.actions().len(), 64);
    let reported = Note::CallsNotRead { call: key("0/select"), limit: 64, count: 9_936 };
    assert!(world.all_notes().any(|note| *note == reported));
    let world = world.all_finished().replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!((world.outcome().totals.unread_calls, world.outcome().totals.tool_calls), (9_936, 5));
}

#[test]
fn what_a_reply_asks_for_beyond_the_limit_is_counted_and_not_read() {
    // P5: in a document, and in a conversation, whose turn goes back without the calls that were not read.
    let names = many(100);
    let asks =
        |draft: DraftReply| names.iter().fold(draft, |draft, name| draft.asks("fetch_device", target(name)));
    let few = |limits: &mut loop_core::spec::Limits| limits.requested_calls = 3;
    let world = run().limits(few).start().replied(&asks(draft("low")));
    assert_eq!((world.run.actions().len(), world.run.passes()[0].unread_calls), (3, 97));
    assert_eq!(world.run.totals().unread_calls, 97);
    let mut world = loop_testkit::conversation().limits(few).start().started();
    let mut reply = text("").reply();
    let calls = names.iter().map(|name| loop_core::types::ToolCall {
        id: name.as_str().into(),
        name: "fetch_device".into(),
        arguments: target(name).to_string().into(),
    });
    reply.calls = calls.collect();
    reply.raw = Some("[]".into());
    world.apply(loop_core::EventKind::ModelReplied { key: key("1/main"), attempt: 1, reply: reply.into() });
    assert_eq!((world.run.actions().len(), world.run.passes()[0].unread_calls), (3, 97));
    assert_eq!(world.run.passes()[0].raw, None);
}

#[test]
fn calls_that_the_client_did_not_read_count_with_those_beyond_the_limit() {
    // P5: with a limit above what is ever read, the number that is named is the one that applies.
    for (limit, read) in [(64, 64), (1_000, 128)] {
        let mut world = loop_testkit::conversation()
            .limits(|limits| limits.requested_calls = limit)
            .limits(|limits| limits.tool_calls = 1_000)
            .start()
            .started();
        let mut reply = text("").reply();
        reply.calls = many(128)
            .iter()
            .map(|name| loop_core::types::ToolCall {
                id: name.as_str().into(),
                name: "fetch_device".into(),
                arguments: target(name).to_string().into(),
            })
            .collect();
        (reply.unread_calls, reply.raw) = (9_872, Some("[]".into()));
        world.apply(loop_core::EventKind::ModelReplied {
            key: key("1/main"),
            attempt: 1,
            reply: reply.into(),
        });
        assert_eq!(world.run.actions().len(), read);
        let count = 10_000 - read as u32;
        let reported = Note::CallsNotRead { call: key("1/main"), limit: read as u32, count };
        assert!(world.all_notes().any(|note| *note == reported));
        assert_eq!((world.run.unread_calls(1), world.run.totals().unread_calls), (count, count));
        assert_eq!(world.run.passes()[0].raw, None);
    }
}

#[test]
fn a_limit_that_a_refused_call_ends_beside_is_in_the_certificate() {
    // P5: the selection took all the money, and the prompt does not fit either.
    let setup = run().selector(&[]).with(|spec| spec.models.base.context_tokens = 2_000);
    let setup = setup.limits(|limits| limits.cost = usd(100_000_000));
    let world = setup.start().started().answered(&text("[]").using(Some(used(20_000_000, 0))));
    assert!(world.run.totals().cost.known.0 > 100_000_000, "{}", world.run.totals().cost);
    let world = world.started_with(PromptSize { bytes: 1_000_000, shared_bytes: 0 });
    let world = world.ends(StopReason::TokenLimit);
    assert_eq!(world.reasons(), [StopReason::TokenLimit, StopReason::BudgetExceeded]);
}

#[test]
fn what_a_call_in_flight_takes_after_the_reason_is_fixed_is_in_the_certificate() {
    // P5
    let mut failed = failure(false);
    failed.usage = Some(used(10_000_000, 0));
    let mut world = run().start().started().stop(loop_core::run::StopMode::Now);
    world.apply(loop_core::EventKind::ModelFailed { key: key("1/main"), attempt: 1, failure: failed.into() });
    let world = world.ends(StopReason::ManualStop);
    assert_eq!(world.reasons(), [StopReason::ManualStop, StopReason::BudgetExceeded]);
}

#[test]
fn what_a_repair_asks_for_beyond_the_limit_counts_in_its_own_pass() {
    // P5
    let few = |limits: &mut loop_core::spec::Limits| limits.requested_calls = 3;
    let asks = many(5).iter().fold(draft("low"), |draft, name| draft.asks("fetch_device", target(name)));
    let world =
        run().limits(few).start().replied(&draft("low").asks("fetch_docs", target("z"))).all_finished();
    let world = world.replied(&text("## Situation\nx")).expect_call("2/repair", 1).replied(&asks);
    let unread: Vec<u32> = world.run.passes().iter().map(|pass| pass.unread_calls).collect();
    assert_eq!(unread, [0, 2]);
}
