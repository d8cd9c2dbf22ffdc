//! Another route: when a model cannot be had, the run goes on with the fallback, by its own price and with its own tries.

use loop_testkit::*;

use loop_core::gate::TierCause;
use loop_core::types::{FailureKind, ModelFailure, PicoUsd, Tier};
use loop_core::{Note, StopReason};

fn of_kind(kind: FailureKind) -> ModelFailure {
    ModelFailure { kind, ..failure(false) }
}

#[test]
fn a_model_that_cannot_be_had_gives_way_to_the_other_route() {
    // L2
    for kind in [
        FailureKind::Overloaded,
        FailureKind::RateLimited,
        FailureKind::Connection,
        FailureKind::Auth,
        FailureKind::QuotaExhausted,
        FailureKind::ModelNotFound,
    ] {
        let world = run().with_fallback().start().started().failed(of_kind(kind)).expect_call("1/main", 2);
        assert_eq!(world.call().tier, Tier::Fallback, "{kind}");
        let changed = Note::TierChanged { from: Tier::Base, to: Tier::Fallback, why: TierCause::Unavailable };
        assert!(world.all_notes().any(|note| *note == changed));
        let world = world.replied(&draft("high")).ends(StopReason::Confident);
        assert_eq!(world.run.passes()[0].tier, Tier::Fallback);
        assert_eq!(world.run.tier(), Tier::Base, "it is given back");
    }
}

#[test]
fn what_is_wrong_with_the_request_is_wrong_on_every_route() {
    for kind in [
        FailureKind::ContentFilter,
        FailureKind::ContextTooLong,
        FailureKind::InvalidRequest,
        FailureKind::MalformedToolCall,
        FailureKind::Unsupported,
    ] {
        let world = run().with_fallback().start().started().failed(of_kind(kind));
        world.ends(StopReason::ModelFailure);
    }
    run().start().started().failed(of_kind(FailureKind::Overloaded)).ends(StopReason::ModelFailure);
}

#[test]
fn what_breaks_off_is_tried_again_on_each_route_and_what_cannot_be_had_is_not() {
    let tiers = |failure: &ModelFailure| {
        let (mut world, mut tiers) = (run().with_fallback().start(), Vec::new());
        while world.phase() == "calling" {
            tiers.push(world.call().tier);
            world = world.started().failed(failure.clone());
        }
        world.ends(StopReason::ModelFailure);
        tiers
    };
    let broken = ModelFailure { kind: loop_core::types::FailureKind::StreamInterrupted, ..failure(true) };
    assert_eq!(tiers(&broken), [[Tier::Base; 3], [Tier::Fallback; 3]].concat());
    // Whoever makes the calls has tried the first route already, and waits for nobody while there is another.
    assert_eq!(tiers(&failure(true)), [&[Tier::Base][..], &[Tier::Fallback; 3]].concat());
    let late = ModelFailure { retry_at: Some(loop_core::types::Millis(30_000)), ..failure(true) };
    let world = run().with_fallback().start().started().failed(late);
    assert_eq!(world.call().tier, Tier::Fallback, "it may be made at once");
    let hung = ModelFailure { kind: loop_core::types::FailureKind::Timeout, ..failure(true) };
    assert_eq!(tiers(&hung).first_chunk(), Some(&[Tier::Base, Tier::Fallback]));
}

#[test]
fn a_connection_that_was_lost_is_tried_again_on_its_route_since_the_client_did_not() {
    // P3: what may be billed is repeated here alone, with a reserve for each try.
    let kind = FailureKind::Connection;
    let lost = ModelFailure { kind, usage: None, ..failure(true) };
    let world = run().with_fallback().start().started().failed(lost);
    assert_eq!(world.call().tier, Tier::Base);
    let refused = ModelFailure { kind, usage: Some(loop_core::types::Usage::default()), ..failure(true) };
    let world = run().with_fallback().start().started().failed(refused);
    assert_eq!(world.call().tier, Tier::Fallback, "the client has tried already");
}

#[test]
fn small_calls_go_the_way_of_the_run_unless_they_have_a_model_of_their_own_and_repairs_always() {
    let repairing = |setup: Setup| {
        let world =
            setup.start().started().failed(failure(false)).replied(&text("## Findings\n\nNo contract.\n"));
        let world = world.expect_phase("repairing");
        (world.call().tier, world.run.auxiliary_tier())
    };
    assert_eq!(repairing(run().with_fallback()), (Tier::Fallback, Tier::Selector));
    let without_selector = run().with_fallback().with(|spec| spec.models.selector = None);
    assert_eq!(repairing(without_selector), (Tier::Fallback, Tier::Fallback));
}

#[test]
fn the_other_route_stays_and_nothing_is_escalated_from_it() {
    let world = run().escalating().with_fallback().start().started().failed(failure(false));
    let mut world = world;
    for n in 1..=3 {
        world = world.replied(&draft("low").asks("fetch_device", target(&format!("d{n}"))));
        if world.phase() == "acting" {
            world = world.finished(&format!("{n}/action-0"), found(&format!("returned {n}")));
        }
    }
    assert!(world.run.passes().iter().all(|pass| pass.tier == Tier::Fallback));
}

#[test]
fn the_other_route_is_paid_at_its_own_price_and_only_where_the_money_lasts() {
    let paid = |setup: Setup| {
        let world =
            setup.start().started().failed(ModelFailure { usage: Some(used(0, 0)), ..failure(false) });
        world.replied(&draft("high")).run.totals().cost.known
    };
    let (dear, cheap) =
        (paid(run().with_fallback()), run().start().replied(&draft("high")).run.totals().cost.known);
    assert_eq!(dear, PicoUsd(cheap.0 * 2));
    // Money for the base model alone: the route that is dearer is not taken beyond it.
    let poor = run().with_fallback().limits(|limits| limits.cost = Some(PicoUsd(300_000_000)));
    let world = poor.start().started().failed(failure(false));
    assert_eq!(world.call().tier, Tier::Fallback);
    assert_eq!(world.run.quote(&key("1/main"), PROMPT), Err(loop_core::run::Refusal::Cost));
}

#[test]
fn a_model_that_was_heard_finishes_by_itself_and_an_escalated_one_leaves_the_base_model_to_small_calls() {
    let cut = ModelFailure {
        kind: loop_core::types::FailureKind::Timeout,
        partial: Some("## Situation\nKept.\n## Findings\nHalf".into()),
        ..failure(true)
    };
    // In the time that is held back for a final pass too. Nothing is heard of a route that is not there.
    let late = |setup: Setup, failure: &ModelFailure| {
        let world = setup.start().started().wait(280_000).failed(failure.clone()).expect_phase("final_pass");
        let changes = world.all_notes().filter(|note| matches!(note, Note::TierChanged { .. })).count();
        (world.call().tier, changes)
    };
    let silent = ModelFailure { partial: None, ..cut.clone() };
    assert_eq!(late(run().with_fallback(), &cut), (Tier::Base, 0));
    assert_eq!(late(run().with_fallback(), &silent), (Tier::Fallback, 1));
    assert_eq!(late(run(), &silent), (Tier::Base, 0));
    let world = run().with_fallback().start().started().failed(cut);
    assert!(world.all_notes().all(|note| !matches!(note, Note::TierChanged { to: Tier::Fallback, .. })));
    let low = |n: u32| draft("low").asks("fetch_device", target(&format!("d{n}")));
    let without_selector = run().escalating().with_fallback().with(|spec| {
        spec.models.selector = None;
        spec.gate.escalate_after = 1;
    });
    let world = without_selector.start().replied(&low(1)).finished("1/action-0", found("returned 1"));
    assert_eq!(world.call().tier, Tier::Escalated);
    let world = world.started().failed(failure(false)).replied(&text("## Findings\n\nNo contract.\n"));
    let world = world.expect_phase("repairing");
    assert_eq!((world.call().tier, world.run.auxiliary_tier()), (Tier::Fallback, Tier::Selector));
}
