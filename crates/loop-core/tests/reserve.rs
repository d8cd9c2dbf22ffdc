//! Limits are promises: what a call may take, what is reserved for the final pass, which tier pays.

use crate::common::{tier_of, usd};
use loop_testkit::*;

use loop_core::gate::{Measure, TierCause, TierChange};
use loop_core::reply::ParseWarning;
use loop_core::run::{Decision, PromptSize, Refusal, RunTool};
use loop_core::spec::CostMode;
use loop_core::types::{
    Confidence, Millis, ModelFailure, Observation, PicoUsd, Price, Status, StopClass, SubCallUse, Tier, Usage,
};
use loop_core::{Command, EventKind, Note, StopReason, Verdict};

fn device(name: &str) -> DraftReply {
    draft("medium").asks("fetch_device", target(name))
}

/// 1,000 input tokens by the estimate: 10^8 pico-dollars, and 256 output tokens another 1.024 × 10^8.
const FIRST: PromptSize = PROMPT;
/// A thousand bytes more: 1,100 tokens after a first call that took 100.
const SECOND: PromptSize = PromptSize { bytes: 3_000, shared_bytes: 2_000 };

/// One tier, and this limit of money.
fn with_money(limit: u64) -> Setup {
    run().with(|spec| spec.models.selector = None).limits(|limits| limits.cost = usd(limit))
}

/// A pass with one tool behind it; a second call is commanded.
fn second_call(setup: Setup) -> World {
    setup.start().started_with(FIRST).answered(&device("a")).all_finished().expect_call("2/main", 1)
}

#[test]
fn output_tokens_are_cut_to_what_the_money_leaves() {
    let world = with_money(300_000_000).start();
    let quote = world.run.quote(&key("1/main"), FIRST).unwrap();
    // A quarter is held back; the input takes 10^8.
    assert_eq!(quote.max_output_tokens, (300_000_000 - 75_000_000 - 100_000_000) / 400_000);
    assert_eq!(quote.reserve.cost, usd(100_000_000 + 312 * 400_000));
    // With more money what is held back is what a final pass would take.
    let quote = with_money(1_600_000_000).start().run.quote(&key("1/main"), FIRST).unwrap();
    let final_pass = 100_000_000 + 1_500 * 400_000;
    let left = (1_600_000_000 - 400_000_000 - 100_000_000) / 400_000;
    assert!(400_000_000 < final_pass);
    assert_eq!(quote.max_output_tokens, left);
    let quote = with_money(3_000_000_000).start().run.quote(&key("1/main"), FIRST).unwrap();
    assert_eq!(quote.max_output_tokens, 4_096, "the limit of a call");
}

#[test]
fn what_the_money_does_not_pay_for_is_landed_from_what_was_held_back() {
    // S0-45, S0-51: the next call would not leave the final pass its part.
    let world = second_call(with_money(300_000_000)).started_with(SECOND);
    let world = world.expect_call("2/final", 1).started_with(SECOND);
    let world = world.answered(&draft("low")).ends(StopReason::BudgetExceeded);
    assert_eq!(world.reasons(), [StopReason::BudgetExceeded, StopReason::NoNewActions]);
    assert_eq!(world.outcome().stop.class, StopClass::Partial);
    assert!(world.run.passes().last().unwrap().final_pass);
    let primary = &world.outcome().stop.primary;
    let taken = PicoUsd(100 * 100_000 + 50 * 400_000);
    let needs = PicoUsd(1_100 * 100_000 + 256 * 400_000);
    assert_eq!(primary.value, Measure::NextCost { spent: taken, needs, held: PicoUsd(75_000_000) });
    assert_eq!(primary.threshold, usd(300_000_000).map(Measure::PicoUsd));
    assert!(world.outcome().totals.cost.known.0 <= 300_000_000);
}

#[test]
fn the_change_that_a_refusal_names_is_the_smallest_that_would_have_gone_on() {
    let refused = second_call(with_money(300_000_000)).started_with(SECOND).started_with(SECOND);
    let world = refused.answered(&draft("high")).ends(StopReason::BudgetExceeded);
    let change = world.outcome().stop.primary.change.clone().unwrap();
    assert_eq!(change.setting.path(), "limits.cost_usd");
    let Measure::PicoUsd(PicoUsd(to)) = change.to else { panic!("{change:?}") };
    let goes_on =
        |limit: u64| second_call(with_money(limit)).started_with(SECOND).call().key == key("2/main");
    assert!(goes_on(to));
    assert!(!goes_on(to - 1));
    // The same by tokens.
    let with = |limit: u64| second_call(run().limits(|limits| limits.tokens = Some(limit)));
    let world = with(2_000).started_with(SECOND).expect_call("2/final", 1).started_with(SECOND);
    let world = world.answered(&draft("high")).ends(StopReason::TokenLimit);
    let primary = world.outcome().stop.primary.clone();
    assert_eq!(primary.value, Measure::NextTokens { used: 150, needs: 1_356, held: 500 });
    let Measure::Count(to) = primary.change.unwrap().to else { panic!() };
    assert!(to > 2_000, "a cheaper tier counts its input otherwise, and is not asked");
    assert!(with(to).started_with(SECOND).call().key == key("2/main"));
    assert!(with(to - 1).started_with(SECOND).call().key == key("2/final"));
}

#[test]
fn a_final_pass_that_cannot_be_paid_is_the_end() {
    let large = PromptSize { bytes: 5_000, shared_bytes: 0 };
    let world = second_call(with_money(300_000_000)).started_with(large).expect_call("2/final", 1);
    let world = world.started_with(large).ends(StopReason::BudgetExceeded);
    assert_eq!(world.reasons(), [StopReason::BudgetExceeded]);
    assert_eq!(world.outcome().evidence.len(), 1, "what was paid for is there");
}

#[test]
fn without_anything_new_to_write_there_is_no_final_pass() {
    // Pass 2 returned nothing that the document lacks: the required section is there, and all evidence was seen.
    let revisions =
        || with_money(300_000_000).with(|spec| spec.gate.required_tools = vec!["fetch_docs".into()]);
    let world = revisions().start().started_with(FIRST).answered(&draft("high")).expect_call("2/main", 1);
    let world = world.started_with(SECOND).ends(StopReason::BudgetExceeded);
    assert_eq!((world.outcome().totals.passes, world.outcome().totals.model_calls), (1, 1));
}

/// A run whose cost limit pays for a second pass on the cheaper tier alone.
fn poor() -> Setup {
    run().limits(|limits| limits.cost = usd(300_000_000))
}

fn cheaper(setup: Setup) -> Setup {
    setup.with(|spec| spec.gate.cheaper_tier = true)
}

#[test]
fn a_run_that_cannot_pay_for_its_model_ends_and_no_cheaper_one_replies() {
    // P1: off by default.
    let world = second_call(poor());
    assert_eq!(world.run.quote(&key("2/main"), SECOND), Err(Refusal::Cost));
    let world = world.started_with(SECOND).expect_call("2/final", 1).started_with(SECOND);
    assert_eq!(tier_of(&world), Tier::Base);
    let world = world.answered(&draft("high")).ends(StopReason::BudgetExceeded);
    assert!(!world.reasons().contains(&StopReason::TierChanged));
    assert!(world.all_notes().all(|note| !matches!(note, Note::TierChanged { .. })));
}

#[test]
fn failures_that_cost_their_reserve_do_not_bring_the_cheaper_model() {
    // P1: the case that was seen: lost tries take the money of the base model.
    let failed = || ModelFailure { usage: None, ..failure(true) };
    let mut world = run().limits(|limits| limits.cost = usd(2_000_000_000)).start();
    while !world.run.is_done() {
        let is_granted = world.run.quote(&world.call().key, FIRST).is_ok();
        world = world.started_with(FIRST);
        world = if is_granted { world.failed(failed()) } else { world };
    }
    assert!(world.reasons().contains(&StopReason::BudgetExceeded), "{:?}", world.reasons());
    assert_ne!(world.outcome().stop.class, StopClass::Answered);
    assert!(world.all_notes().all(|note| !matches!(note, Note::CallCharged { tier: Tier::Selector, .. })));
}

#[test]
fn where_it_is_on_the_cheaper_tier_replies_and_the_certificate_says_so() {
    // P1
    let mut world = second_call(cheaper(poor()));
    let quote = world.run.quote(&key("2/main"), SECOND).unwrap();
    // Another tier: nothing was reported for what the prompt shares.
    assert_eq!((quote.tier, quote.reserve.input_tokens), (Tier::Selector, 1_500));
    world = world.started_with(SECOND);
    assert_eq!(tier_of(&world), Tier::Selector, "the call is sent to the tier that was granted");
    let changed = Note::TierChanged { from: Tier::Base, to: Tier::Selector, why: TierCause::Cost };
    assert!(world.notes().contains(&changed), "{:?}", world.notes());
    world = world.answered(&draft("high")).ends(StopReason::NoNewActions);
    assert_eq!(world.run.passes()[1].tier, Tier::Selector);
    assert_eq!(world.reasons(), [StopReason::NoNewActions, StopReason::TierChanged]);
    let reported = world.outcome().stop.also[0].clone();
    let change = TierChange { pass: 2, from: Tier::Base, to: Tier::Selector, why: TierCause::Cost };
    assert_eq!(reported.value, Measure::Tiers(vec![change]));
    assert_eq!(reported.change.unwrap().to_string(), "gate.cheaper_tier = false");
}

#[test]
fn a_confidence_that_a_cheaper_tier_states_counts_as_unknown() {
    // P1: by its own reply, and by the repair of its contract.
    let second = || second_call(cheaper(poor())).started_with(SECOND);
    let bare = text("## Findings\n\nNo contract.\n");
    for world in [second().answered(&draft("high")), second().answered(&bare).replied(&draft("high"))] {
        let world = world.ends(StopReason::NoNewActions);
        assert_eq!(world.outcome().confidence, Confidence::Unknown);
        assert_eq!(world.run.passes()[1].confidence, Confidence::Unknown);
        assert_ne!(world.outcome().stop.class, StopClass::Answered);
    }
    let stated = ParseWarning::CheaperConfidence { stated: Confidence::High };
    let reported = |note: &Note| matches!(note, Note::ReplyRead { parse_warnings, .. } if parse_warnings.contains(&stated));
    assert!(second().answered(&draft("high")).all_notes().any(reported));
}

#[test]
fn a_contract_is_repaired_by_the_model_whose_reply_it_belongs_to() {
    // P1: the auxiliary model does not state the base model's confidence.
    let world = run().start().replied(&text("## Situation\n\nNo contract.\n")).expect_phase("repairing");
    assert_eq!(world.call().tier, Tier::Base);
    let world = world.replied(&draft("high"));
    assert_eq!(world.run.passes()[0].confidence, Confidence::High);
}

#[test]
fn a_dearer_tier_steps_down_one_by_one() {
    let mut world = second_call(cheaper(poor()).escalating().limits(|limits| limits.cost = usd(600_000_000)));
    assert_eq!(world.call().tier, Tier::Base);
    world =
        world.started_with(SECOND).answered(&draft("low").asks("fetch_device", target("b"))).all_finished();
    assert_eq!(world.call().tier, Tier::Base, "one low pass does not escalate");
}

#[test]
fn every_change_of_tier_is_a_condition_of_the_certificate() {
    // P1: escalated, fallback and a context that is too small.
    let causes = |world: &World| -> Vec<(Tier, Tier, TierCause)> {
        let reported =
            world.outcome().stop.also.iter().find(|it| it.reason == StopReason::TierChanged).cloned();
        let Some(Measure::Tiers(changes)) = reported.map(|reported| reported.value) else {
            return Vec::new();
        };
        changes.into_iter().map(|change| (change.from, change.to, change.why)).collect()
    };
    let low = |n: &str| draft("low").section("Findings", n).asks("fetch_device", target(n));
    let twice =
        |setup: Setup| setup.start().replied(&low("a")).all_finished().replied(&low("b")).all_finished();
    let raised = (Tier::Base, Tier::Escalated, TierCause::LowConfidence);
    let world = twice(run().escalating()).replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!((causes(&world), world.outcome().stop.class), (vec![raised], StopClass::Answered));
    let small = run().escalating().with(|spec| {
        if let Some(escalated) = &mut spec.models.escalated {
            escalated.context_tokens = 900;
        }
    });
    let world = twice(small).started_with(FIRST).answered(&draft("high")).ends(StopReason::Confident);
    assert_eq!(causes(&world), [raised, (Tier::Escalated, Tier::Base, TierCause::Context)]);
    let world = run().with_fallback().start().started().failed(failure(false)).replied(&draft("high"));
    let world = world.ends(StopReason::Confident);
    assert_eq!(causes(&world), [(Tier::Base, Tier::Fallback, TierCause::Unavailable)]);
    assert!(causes(&run().start().replied(&draft("high")).ends(StopReason::Confident)).is_empty());
}

#[test]
fn an_escalated_pass_is_bound_by_the_same_limit_of_money() {
    // S0-126: what the escalated model would cost is quoted like any call; where it is too dear, the base model goes on.
    let low = |n: &str| draft("low").section("Findings", n).asks("fetch_device", target(n));
    let after_two = |limit: u64| {
        let setup = run().escalating().with(|spec| spec.models.selector = None);
        let world = setup.limits(|limits| limits.cost = usd(limit)).start();
        world.replied(&low("a")).all_finished().replied(&low("b")).all_finished()
    };
    let dear = after_two(1_000_000_000_000);
    assert_eq!(dear.call().tier, Tier::Escalated);
    assert_eq!(tier_of(&dear.started()), Tier::Escalated);
    let tight = after_two(2_000_000_000).started();
    assert_eq!(tier_of(&tight), Tier::Base);
    let world = tight.answered(&draft("high")).ends(StopReason::Confident);
    assert!(world.outcome().totals.cost.known.0 < 2_000_000_000);
    // The setting of the cheaper tier did not change the tier, so it is not named.
    let changed = world.outcome().stop.also.iter().find(|it| it.reason == StopReason::TierChanged);
    assert_eq!(changed.unwrap().change, None);
}

#[test]
fn strict_counts_a_token_a_byte_at_the_dearest_price_and_never_passes() {
    // C18
    let price =
        Price { cache_read: Some(10_000), cache_write: Some(125_000), ..Price::flat(100_000, 400_000) };
    let setup = |limit: u64| {
        run().with(|spec| {
            spec.models.base.price = Some(price.clone());
            spec.models.selector = None;
            spec.limits.cost_mode = CostMode::Strict;
            spec.limits.cost = usd(limit);
        })
    };
    let quote = setup(100_000_000_000).start().run.quote(&key("1/main"), FIRST).unwrap();
    assert_eq!(quote.reserve.input_tokens, 2_256, "2,000 bytes and the frame of the turns");
    assert_eq!(quote.reserve.cost, usd(2_256 * 125_000 + 6 * 4_096 * 400_000));
    // What suffices for the estimate is refused here.
    assert!(with_money(300_000_000).start().run.quote(&key("1/main"), FIRST).is_ok());
    let tight = setup(300_000_000).start();
    assert_eq!(tight.run.quote(&key("1/main"), FIRST), Err(Refusal::Cost));
    tight.started_with(FIRST).expect_call("1/final", 1).started_with(FIRST).ends(StopReason::BudgetExceeded);
}

#[test]
fn after_lets_the_last_call_pass_the_limit_and_none_after_it() {
    // C18, S0-51, I-3
    let world = with_money(40_000_000).checked_after().start();
    let quote = world.run.quote(&key("1/main"), FIRST).unwrap();
    assert_eq!(quote.max_output_tokens, 256, "cut to what is left, and not below what is worth a call");
    let world = world.started_with(FIRST).answered(&device("a").using(Some(used(1_000, 200))));
    let world = world.ends(StopReason::BudgetExceeded);
    assert_eq!(world.outcome().totals.cost.known, PicoUsd(1_000 * 100_000 + 200 * 400_000));
    assert_eq!(world.outcome().totals.model_calls, 1);
}

#[test]
fn a_limit_of_money_without_a_price_stops_before_the_first_call() {
    // L22: nobody could keep such a limit.
    let unpriced = || run().with(|spec| spec.models.base = model(None));
    let world = unpriced().start().ends(StopReason::BudgetExceeded);
    assert_eq!(world.outcome().totals.model_calls, 0);
    let change = world.outcome().stop.primary.change.clone().unwrap();
    assert_eq!((change.setting.path(), change.to), ("limits.cost_usd", Measure::Text("none".into())));
    unpriced().limits(|limits| limits.cost = None).start().expect_call("1/main", 1);
    // A selector without a price is not asked.
    let selector = run()
        .selector(&[("fetch_device", target("a"))])
        .with(|spec| spec.models.selector = Some(model(None)));
    let world = selector.start();
    assert_eq!(world.run.quote(&key("0/select"), FIRST), Err(Refusal::UnknownPrice));
    world.started().expect_tools(&["0/action-0#1 fetch_device"]);
}

#[test]
fn a_sub_call_is_granted_only_out_of_money_that_is_left() {
    // S0-65, S0-119: 12,000 tokens of input and 512 of output, at the selector's price: 140,480.
    let granted = |limit: u64| -> Vec<bool> {
        let setup = run().with(|spec| {
            spec.models.base.price = Some(Price::flat(0, 0));
            spec.limits.cost = usd(limit);
        });
        let asks = draft("low").asks("fetch_docs", target("a")).asks("fetch_docs", target("b"));
        let world = setup.start().replied(&asks);
        assert!(world.run.reserved().cost.unwrap().0 <= limit);
        world.tools().iter().map(|tool: &RunTool| tool.sub_call.is_some()).collect()
    };
    assert_eq!(granted(280_960), [true, true]);
    assert_eq!(granted(280_959), [true, false]);
    assert_eq!(granted(140_479), [false, false]);
}

#[test]
fn the_time_of_the_final_pass_is_held_back() {
    let setup = || run().limits(|limits| limits.wall_ms = 40_000);
    let world = setup().start();
    assert_eq!(world.call().timeout_ms, 30_000, "a call leaves the final pass its quarter");
    let world = world.started().wait(5_000).answered(&device("a"));
    assert_eq!(world.tools()[0].timeout_ms, 12_000);
    let world = world.wait(20_000).all_finished();
    assert_eq!(world.call().timeout_ms, 5_000);
    // The tools of the second pass take the rest.
    let world = world.started().answered(&draft("high").asks("fetch_device", target("b")));
    let world = world.wait(5_000).all_finished().expect_call("3/final", 1);
    assert_eq!(
        world.call().timeout_ms,
        60_000,
        "the final pass may take what is left, and the deadline ends it"
    );
    let world = world.started().wait(1_000).answered(&draft("high")).ends(StopReason::Timeout);
    assert_eq!(world.reasons(), [StopReason::Timeout, StopReason::Confident]);
    assert_eq!(world.outcome().stop.class, StopClass::Answered);
    let primary = &world.outcome().stop.primary;
    assert_eq!(primary.value, Measure::NextTime { elapsed_ms: 30_000, held_ms: 10_000 });
    assert_eq!(primary.change.as_ref().unwrap().to, Measure::Millis(40_001));
}

#[test]
fn a_call_that_is_cut_off_for_the_final_passes_sake_is_followed_by_it() {
    let mut cut = failure(true);
    cut.kind = loop_core::types::FailureKind::Timeout;
    cut.partial = Some("## Situation\n\nKept.\n\n## Findings\n\nha".into());
    let world = run().limits(|limits| limits.wall_ms = 40_000).start().replied(&device("a")).all_finished();
    cut.retry_at = Some(Millis(30_500));
    // At once: nobody waits for a second try that will not come.
    let world = world.started().wait(30_000).failed(cut).expect_call("2/final", 1);
    assert_eq!(&*world.run.document().get("situation").unwrap().body, "Kept.", "what was complete stays");
    world.replied(&draft("low")).ends(StopReason::Timeout);
}

#[test]
fn the_gate_starts_nothing_in_the_final_passes_time() {
    let at = |wait: u64, draft: &DraftReply| {
        run().limits(|limits| limits.wall_ms = 40_000).start().started().wait(wait).answered(draft)
    };
    at(29_999, &device("a")).expect_phase("acting");
    // The required section is there and nothing waits unseen: no final pass would help.
    let world = at(30_000, &device("a")).ends(StopReason::Timeout);
    assert_eq!(world.verdicts(), ["ended"]);
    let unfinished = bare_draft("low").section("Findings", "x").asks("fetch_device", target("a"));
    let world = at(30_000, &unfinished).expect_call("2/final", 1);
    assert!(matches!(&world.run.actions()[0].verdict, Verdict::Ended { reason: StopReason::Timeout }));
}

#[test]
fn the_reserve_is_what_is_in_flight() {
    let world = run().start();
    assert_eq!(world.run.reserved().cost, usd(0));
    let world = world.started();
    let quoted = match &world.journal.last().unwrap().0.kind {
        EventKind::CallStarted { reserve, .. } => *reserve,
        other => panic!("{other:?}"),
    };
    assert_eq!(world.run.reserved(), quoted);
    let world = world.answered(&draft("low").asks("fetch_docs", target("a")));
    assert_eq!(world.run.reserved().output_tokens, 512, "a granted sub-call is in flight");
    assert_eq!(world.all_finished().run.reserved().output_tokens, 0);
}

#[test]
fn a_call_that_was_refused_is_noted_with_the_cause() {
    let world = second_call(with_money(300_000_000)).started_with(SECOND);
    let refused: Vec<&Note> =
        world.all_notes().filter(|note| matches!(note, Note::CallRefused { .. })).collect();
    assert_eq!(refused, [&Note::CallRefused { key: key("2/main"), refusal: Refusal::Cost }]);
    assert!(
        matches!(world.run.commands().as_slice(), [Command::CallModel(call)] if call.key == key("2/final"))
    );
}

#[test]
fn what_nobody_reported_costs_its_whole_reserve() {
    // I-1: a lost call may have been written to the cache, at the dearest price.
    let price = Price { cache_write: Some(1_000_000), ..Price::flat(100_000, 400_000) };
    let strict = run().with(|spec| {
        spec.models.base.price = Some(price);
        spec.models.selector = None;
        spec.limits.cost_mode = CostMode::Strict;
        spec.limits.cost = usd(6_000_000_000);
    });
    let world = strict.start().started_with(FIRST);
    let reserved = world.run.reserved().cost.unwrap();
    let world = world.resumed(1);
    assert_eq!(world.run.totals().cost.known, reserved);
    let world = world.started_with(FIRST);
    let taken = world.run.totals().cost.known.plus(world.run.reserved().cost.unwrap());
    assert!(taken.0 <= 6_000_000_000, "{taken}");
}

#[test]
fn a_tier_without_a_model_of_its_own_is_no_cheaper_one() {
    // The base model is not asked again under another name, by which nothing was reported.
    let world = with_money(900_000_000).start().started_with(FIRST);
    let world = world.answered(&device("a").using(Some(used(4_000, 50)))).all_finished();
    let more = PromptSize { bytes: 2_200, shared_bytes: 2_000 };
    assert_eq!(world.run.quote(&key("2/main"), more), Err(Refusal::Cost));
    // Another model counts otherwise, but hardly to less than half of what was reported.
    let with_selector =
        cheaper(run()).limits(|limits| limits.cost = usd(900_000_000)).start().started_with(FIRST);
    let world = with_selector.answered(&device("a").using(Some(used(4_000, 50)))).all_finished();
    let quote = world.run.quote(&key("2/main"), more).unwrap();
    assert_eq!((quote.tier, quote.reserve.input_tokens), (Tier::Selector, 4_100));
}

#[test]
fn an_escalated_model_with_too_little_context_gives_way_to_the_base_model() {
    let small = run().escalating().with(|spec| {
        spec.models.selector = None;
        if let Some(escalated) = &mut spec.models.escalated {
            escalated.context_tokens = 900;
        }
    });
    let low = |n: &str| draft("low").section("Findings", n).asks("fetch_device", target(n));
    let world = small.start().replied(&low("a")).all_finished().replied(&low("b")).all_finished();
    assert_eq!(world.call().tier, Tier::Escalated);
    assert_eq!(world.run.quote(&key("3/main"), FIRST).unwrap().tier, Tier::Base);
    assert!(world.run.evidence().iter().all(|evidence| !evidence.shortened), "nothing was cut for it");
}

#[test]
fn a_refusal_names_what_the_tiers_need_that_money_opens() {
    // The selector's context is too small for the prompt, so that no money would bring it.
    let small = || {
        cheaper(run()).with(|spec| {
            if let Some(selector) = &mut spec.models.selector {
                selector.context_tokens = 600;
            }
        })
    };
    let refused = |limit: u64| second_call(small().limits(|limits| limits.cost = usd(limit)));
    let world = refused(300_000_000).started_with(SECOND).expect_call("2/final", 1).started_with(SECOND);
    let world = world.answered(&draft("high")).ends(StopReason::BudgetExceeded);
    let change = world.outcome().stop.primary.change.clone().unwrap();
    let Measure::PicoUsd(PicoUsd(to)) = change.to else { panic!("{change:?}") };
    assert!(to > 300_000_000, "{to}");
    assert!(refused(to).started_with(SECOND).call().key == key("2/main"));
    assert!(refused(to - 1).started_with(SECOND).call().key == key("2/final"));
}

#[test]
fn without_output_tokens_there_is_no_call_and_that_setting_is_named() {
    let none = run().limits(|limits| {
        limits.output_tokens = 0;
        limits.tokens = Some(1_000_000);
    });
    let world = none.start().started().expect_call("1/final", 1).started().ends(StopReason::TokenLimit);
    let change = world.outcome().stop.primary.change.clone().unwrap();
    assert_eq!(change.to_string(), "limits.output_tokens = 1");
    run().limits(|limits| limits.output_tokens = 1).start().started().expect_phase("calling");
}

#[test]
fn what_changes_the_world_is_neither_asked_about_nor_cut_short_in_the_final_passes_time() {
    let tight = || run().people().limits(|limits| limits.wall_ms = 40_000);
    let both = draft("medium").asks("fetch_device", target("a")).asks("wipe", target("b"));
    let late = tight().start().replied(&both).wait(30_000).all_finished();
    let late = late.expect_call("2/final", 1);
    assert!(matches!(&late.run.actions()[1].verdict, Verdict::Ended { reason: StopReason::Timeout }));
    let world = tight().start().replied(&both).wait(29_990).all_finished();
    let world = world.answered_by_person("1/action-1", loop_core::run::PersonAnswer::Approved);
    assert_eq!(world.tools()[0].timeout_ms, 12_000, "it ends by itself, or the wall clock ends it");
}

#[test]
fn a_contract_is_not_repaired_in_the_final_passes_time() {
    let bare = text("## Situation\n\nNo contract.\n");
    let at = |wait: u64| {
        run().limits(|limits| limits.wall_ms = 40_000).start().started().wait(wait).answered(&bare)
    };
    at(29_999).expect_phase("repairing");
    at(30_000).ends(StopReason::Timeout);
}

#[test]
fn a_final_pass_for_time_keeps_time_as_its_cause() {
    // Pass 2 of 3 ends in the final pass's time: the third would be the last one anyway, but time is why it is.
    let limits = run().limits(|limits| {
        limits.wall_ms = 40_000;
        limits.passes = 2;
    });
    let unfinished = bare_draft("low").section("Findings", "x").asks("fetch_device", target("a"));
    let world = limits.start().started().wait(30_000).answered(&unfinished).expect_call("2/final", 1);
    let decided = world.notes().iter().any(|note| {
        matches!(note, Note::GateDecided { decision: Decision::FinalPass { cause }, .. } if cause.reason == StopReason::Timeout)
    });
    assert!(decided, "{:?}", world.notes());
    let world = world.replied(&draft("low")).ends(StopReason::Timeout);
    assert_eq!(world.reasons(), [StopReason::Timeout, StopReason::MaxPasses, StopReason::NoNewActions]);
}

#[test]
fn without_anything_to_write_a_lost_call_is_not_landed_for() {
    // All that is demanded is there and seen: the revision call is lost in the final pass's time.
    let demands = run().with(|spec| {
        spec.gate.required_tools = vec!["fetch_docs".into()];
        spec.limits.wall_ms = 40_000;
    });
    let world = demands.start().replied(&draft("high")).started().wait(30_000).resumed(0);
    world.ends(StopReason::Timeout);
}

#[test]
fn a_failure_over_the_limit_tells_both() {
    let world = with_money(40_000_000).checked_after().start().started_with(FIRST);
    let mut late = failure(false);
    late.usage = Some(used(1_000, 200));
    let world = world.failed(late).ends(StopReason::ModelFailure);
    assert_eq!(world.reasons(), [StopReason::ModelFailure, StopReason::BudgetExceeded]);
}

#[test]
fn nobody_waits_into_the_final_passes_time_for_a_final_pass_that_would_bring_nothing() {
    // I-10: what ends such a run is the model's failure, not a time that has not come.
    let demands = run().with(|spec| spec.gate.required_tools = vec!["fetch_docs".into()]);
    let mut later = failure(true);
    later.retry_at = Some(Millis(275_000));
    let world = demands.start().replied(&draft("high")).started().wait(10_000).failed(later);
    let world = world.ends(StopReason::ModelFailure);
    assert_eq!(world.reasons(), [StopReason::ModelFailure, StopReason::EvidenceMissing]);
}

#[test]
fn a_revision_that_broke_off_and_supplied_what_was_missing_is_not_reported_as_missing_it() {
    // I-10: found by seed 56439 of the simulator. The required section is missing, the revision returns it and breaks off.
    let revised = |partial: Option<&str>| {
        let world = run().start().replied(&bare_draft("high").section("Findings", "x")).started();
        let mut cut = failure(false);
        cut.partial = partial.map(Into::into);
        world.failed(cut).ends(StopReason::ModelFailure).reasons()
    };
    assert_eq!(revised(None), [StopReason::ModelFailure, StopReason::EvidenceMissing]);
    assert_eq!(revised(Some("## 🔍 Situation\n\nFull.\n\n## Findings\n\nha")), [StopReason::ModelFailure]);
}

#[test]
fn a_stop_that_was_asked_for_stays_the_reason_when_the_call_is_lost() {
    let demands = run().with(|spec| spec.gate.required_tools = vec!["fetch_docs".into()]);
    let world = demands.start().replied(&draft("high")).started().stop(loop_core::run::StopMode::AtGate);
    world.wait(280_000).resumed(0).ends(StopReason::ManualStop);
}

#[test]
fn a_final_pass_that_time_ends_tells_how_the_call_before_it_failed() {
    let mut later = failure(true);
    later.retry_at = Some(Millis(9_000));
    let world = run().limits(|limits| limits.wall_ms = 10_000).start().started().failed(later);
    let world = world.deadline().started().deadline().deadline().ends(StopReason::Timeout);
    assert_eq!(world.reasons(), [StopReason::Timeout, StopReason::ModelFailure]);
}

#[test]
fn input_that_was_read_from_a_cache_counts_in_the_estimate_of_the_next_call() {
    // M4, I-2: a cached prefix is as long as one that is not.
    let next = |usage: Usage| {
        let world = run().start().started_with(FIRST).answered(&device("a").using(Some(usage)));
        let world = world.all_finished().expect_call("2/main", 1);
        world.run.quote(&key("2/main"), SECOND).unwrap().reserve.input_tokens
    };
    let cached = |cache_read, cache_write_short, cache_write_long| Usage {
        cache_read,
        cache_write_short,
        cache_write_long,
        ..used(100, 50)
    };
    assert_eq!(next(used(1_000, 50)), 2_000);
    for usage in [cached(900, 0, 0), cached(0, 900, 0), cached(0, 0, 900), cached(400, 300, 200)] {
        assert_eq!(next(usage), 2_000, "{usage:?}");
    }
}

#[test]
fn a_smart_tool_that_is_asked_again_frees_its_own_reserve_alone() {
    // M10, I-1, S0-65: two sub-calls are in flight, and stay so.
    let both = calls(&[("fetch_docs", target("a")), ("fetch_docs", target("b"))]);
    let world = conversation().parallel().start().replied(&both);
    let two = world.run.reserved();
    assert_eq!(two.output_tokens, 2 * 512);
    let used_up = Some(Box::new(SubCallUse::new(true, Some(used(7, 3)))));
    for sub_call in [used_up, None] {
        let reported = sub_call.clone();
        let pending =
            Observation { retry_after_ms: Some(500), sub_call: reported, ..observed(Status::Pending) };
        let world = world.clone().finished("1/action-0", pending);
        assert_eq!(world.run.reserved(), two, "{sub_call:?}");
        let world = world.finished("1/action-1", found("b"));
        assert_eq!(world.run.reserved().output_tokens, 512, "{sub_call:?}");
        let world = world.deadline().finished("1/action-0", found("a"));
        assert_eq!(world.run.reserved().output_tokens, 0, "{sub_call:?}");
    }
}

#[test]
fn the_same_model_under_another_tier_is_not_a_cheaper_one() {
    // M15: another tier estimates the prompt anew, and 4,000 new bytes are fewer tokens by that estimate. It is the same
    // model all the same, so the call is refused.
    let same =
        |limit| cheaper(with_money(limit)).with(|spec| spec.models.selector = Some(spec.models.base.clone()));
    let long = PromptSize { bytes: 6_000, shared_bytes: 2_000 };
    let world = second_call(same(650_000_000));
    assert_eq!(world.run.quote(&key("2/main"), long), Err(Refusal::Cost));
    // A cheaper one is asked, and the base model is where the money pays for it.
    let cheaper = run().with(|spec| spec.gate.cheaper_tier = true);
    let cheaper = cheaper.limits(|limits| limits.cost = usd(650_000_000));
    assert_eq!(second_call(cheaper).run.quote(&key("2/main"), long).unwrap().tier, Tier::Selector);
    assert_eq!(second_call(same(750_000_000)).run.quote(&key("2/main"), long).unwrap().tier, Tier::Base);
}

#[test]
fn without_a_final_pass_no_tokens_are_kept_back_for_one() {
    let setup = run().limits(|limits| limits.tokens = Some(2_000)).gate(|gate| gate.final_pass = false);
    let quote = setup.start().run.quote(&key("1/main"), FIRST).unwrap();
    assert_eq!(quote.max_output_tokens, 2_000 - quote.reserve.input_tokens);
}

#[test]
fn a_sub_call_reserves_its_whole_grant() {
    // S0-65
    let reserve = run().selector(&[]).start().run.sub_call_reserve(&key("1/action-0"));
    assert_eq!((reserve.input_tokens, reserve.output_tokens), (12_000, 512));
}

#[test]
fn an_escalated_pass_steps_down_to_the_cheaper_tier_only_where_that_is_permitted() {
    // P1
    let low = |n: &str| draft("low").section("Findings", n).asks("fetch_device", target(n));
    let quoted = |setup: Setup, limit: u64| {
        let world = setup.escalating().limits(|limits| limits.cost = usd(limit)).start();
        let world = world.replied(&low("a")).all_finished().replied(&low("b")).all_finished();
        assert_eq!((world.call().key, world.call().tier), (key("3/main"), Tier::Escalated));
        world.run.quote(&key("3/main"), SECOND).map(|quote| quote.tier)
    };
    assert_eq!(quoted(cheaper(run()), 330_000_000), Ok(Tier::Selector));
    assert_eq!(quoted(run(), 330_000_000), Err(Refusal::Cost));
}

#[test]
fn where_costs_are_counted_afterwards_a_refusal_names_what_was_used() {
    // A failed try used the rest of the tokens, so the next try and the final pass are refused.
    let asks = draft("low").asks("fetch_device", target("a"));
    let failed = ModelFailure { usage: Some(used(100, 50)), ..failure(true) };
    let setup = run().limits(|limits| (limits.cost_mode, limits.tokens) = (CostMode::After, Some(300)));
    let world = setup.start().replied(&asks).all_finished().started().failed(failed.clone());
    let world = world.started().expect_call("2/final", 2).started().ends(StopReason::TokenLimit);
    let primary = &world.outcome().stop.primary;
    assert_eq!((&primary.value, &primary.threshold), (&Measure::Count(300), &Some(Measure::Count(300))));
    // The same of money.
    let setup = run().limits(|limits| (limits.cost_mode, limits.cost) = (CostMode::After, usd(60_000_000)));
    let world = setup.start().replied(&asks).all_finished().started().failed(failed);
    let world = world.started().expect_call("2/final", 2).started().ends(StopReason::BudgetExceeded);
    let (primary, spent) =
        (&world.outcome().stop.primary, Measure::PicoUsd(loop_core::types::PicoUsd(60_000_000)));
    assert_eq!((&primary.value, &primary.threshold), (&spent, &Some(spent.clone())));
}
