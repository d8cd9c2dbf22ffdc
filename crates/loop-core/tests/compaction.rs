//! Conversations that grow until a call does not fit: what gives way, in which order, and what stays.

use loop_testkit::*;

use loop_core::gate::Measure;
use loop_core::run::{PromptSize, StopMode};
use loop_core::spec::ModelSpec;
use loop_core::types::{ModelFailure, Price, Status};
use loop_core::{Note, StopReason};

const TOO_LARGE: PromptSize = PromptSize { bytes: 1_000_000, shared_bytes: 0 };

fn small() -> Setup {
    conversation().limits(|limits| limits.cost = None).with(|spec| {
        spec.models.base = ModelSpec { context_tokens: 8_000, ..model(Some(Price::flat(100_000, 400_000))) };
    })
}

fn begun(setup: Setup, messages: Option<u32>) -> World {
    match messages {
        Some(messages) => setup.history(history(messages)).start(),
        None => setup.start(),
    }
}

/// After so many passes with one call each.
fn after(setup: Setup, messages: Option<u32>, passes: u32) -> World {
    (1..=passes).fold(begun(setup, messages), |world, pass| {
        world.replied(&calls(&[("fetch_device", target(&pass.to_string()))])).all_finished()
    })
}

/// What gave way after each refusal: the passes, and whether the messages before the run did.
fn given_way(mut world: World) -> (World, Vec<(u32, bool)>) {
    let mut seen = Vec::new();
    while !world.run.is_done() {
        world = world.started_with(TOO_LARGE);
        if !world.run.is_done() {
            let state = (world.run.compacted_through(), world.run.is_history_compacted());
            let reported = Note::Compacted { through: state.0, history: state.1 };
            assert!(world.notes().contains(&reported), "{:?}", world.notes());
            seen.push(state);
        }
    }
    (world, seen)
}

fn shortened(world: &World) -> Vec<u32> {
    let whole = world.run.evidence().iter().filter(|evidence| evidence.shortened);
    whole.map(|evidence| evidence.id.0).collect()
}

#[test]
fn what_stands_before_the_run_gives_way_first_then_the_older_half_and_at_last_all() {
    let (world, seen) = given_way(after(small(), Some(20), 5));
    assert_eq!(seen, [(0, true), (3, true), (4, true), (5, true)]);
    let world = world.ends(StopReason::TokenLimit);
    assert_eq!(
        world.outcome().stop.primary.value,
        Measure::Text("the next call was refused: context".into())
    );
    assert_eq!(shortened(&world), [1, 2, 3, 4, 5]);
    let (_, seen) = given_way(after(small(), None, 4));
    assert_eq!(seen, [(2, false), (3, false), (4, false)]);
    // Without anything to shorten there is no room.
    let (world, seen) = given_way(after(small(), None, 0));
    assert_eq!((seen, world.ends(StopReason::TokenLimit).outcome().totals.model_calls), (vec![], 0));
}

#[test]
fn a_compacted_conversation_goes_on_with_what_fits() {
    let world = after(small(), Some(20), 4).started_with(TOO_LARGE).started_with(TOO_LARGE);
    assert_eq!((world.run.compacted_through(), world.run.is_history_compacted()), (2, true));
    assert_eq!(shortened(&world), [1, 2]);
    let world = world.expect_call("5/main", 1).replied(&calls(&[("fetch_docs", target("x"))])).all_finished();
    // Numbers and what was found stay; the evidence of later passes is whole.
    assert_eq!(world.run.evidence().len(), 5);
    assert!(world.run.evidence().iter().all(|evidence| evidence.observation.status == Status::Ok));
    assert_eq!(&*world.run.evidence()[0].observation.markdown, "result of 1/action-0");
    assert_eq!(shortened(&world), [1, 2]);
    // The next time it is the older half of what is whole by then.
    let world = world.started_with(TOO_LARGE);
    assert_eq!((world.run.compacted_through(), shortened(&world)), (4, vec![1, 2, 3, 4]));
    world.replied(&text("Done.")).ends(StopReason::Completed);
}

#[test]
fn a_retry_belongs_to_the_pass_that_made_it() {
    // Its key is that of the first time that it was asked for.
    let ask = calls(&[("fetch_device", target("a"))]);
    let world = small().start().replied(&ask).finished("1/action-0", observed(Status::RetryableError));
    let world = world.replied(&ask).expect_tools(&["1/action-0#2 fetch_device"]).all_finished();
    let world = world.started_with(TOO_LARGE);
    assert_eq!((world.run.compacted_through(), shortened(&world)), (1, vec![1]));
}

#[test]
fn after_a_compaction_nothing_is_known_of_the_size_of_a_prompt() {
    // The prefix is another one: what was reported for the last says nothing about it.
    let world = after(small(), None, 2);
    let shared = PromptSize { bytes: 2_100, shared_bytes: 2_000 };
    let input = |world: &World| world.run.quote(&world.call().key, shared).unwrap().reserve.input_tokens;
    assert_eq!(input(&world), 100 + 100);
    assert_eq!(input(&world.started_with(TOO_LARGE)), 1_050);
}

fn too_long() -> ModelFailure {
    ModelFailure {
        kind: loop_core::types::FailureKind::ContextTooLong,
        message: "8000 tokens are the most".into(),
        ..failure(false)
    }
}

#[test]
fn what_the_provider_finds_too_long_is_shortened_once() {
    // L4: its window is smaller than what is known of it.
    let refused = |world: World| world.started().failed(too_long());
    let world = refused(after(conversation(), Some(20), 2)).expect_call("3/main", 2);
    assert_eq!((world.run.compacted_through(), world.run.is_history_compacted()), (0, true));
    assert!(world.notes().contains(&Note::Compacted { through: 0, history: true }));
    world.clone().replied(&text("Done.")).ends(StopReason::Completed);
    let world = refused(world).ends(StopReason::TokenLimit);
    let reported = Measure::Text("context_too_long: 8000 tokens are the most".into());
    assert_eq!((&world.outcome().stop.primary.value, world.run.compacted_through()), (&reported, 0));
    // Each call has its own turn, and so has a final pass.
    let world = refused(after(conversation(), None, 2)).expect_call("3/main", 2);
    let world = world.replied(&calls(&[("fetch_docs", target("x"))])).all_finished();
    assert_eq!(refused(world).expect_call("4/main", 2).run.compacted_through(), 2);
    let final_pass = conversation().limits(|limits| limits.passes = 3);
    let world = refused(after(final_pass, None, 2).expect_call("3/final", 1)).expect_call("3/final", 2);
    world.replied(&text("Short.")).ends(StopReason::MaxPasses);
    // Also at the last try: what is too long has not failed in the way that tries are for (I-6).
    let world = after(conversation(), Some(20), 2).started().failed(failure(true));
    let world = refused(world.started().failed(failure(true)).expect_call("3/main", 3));
    refused(world.expect_call("3/main", 4)).ends(StopReason::TokenLimit);
    // Without anything to shorten there is no room, nor after a stop was asked for.
    refused(after(output(), None, 0)).ends(StopReason::TokenLimit);
    let world = after(conversation(), None, 2).started().stop(StopMode::AtGate).failed(too_long());
    assert_eq!(world.ends(StopReason::ManualStop).run.compacted_through(), 0);
}

#[test]
fn a_final_pass_is_made_to_fit_as_well() {
    let setup = small().limits(|limits| limits.passes = 3);
    let world = after(setup, None, 2).expect_call("3/final", 1).started_with(TOO_LARGE);
    assert_eq!(world.run.compacted_through(), 1);
    let world = world.expect_call("3/final", 1).replied(&text("Short.")).ends(StopReason::MaxPasses);
    assert_eq!(world.outcome().answer.as_deref(), Some("Short."));
}

#[test]
fn an_output_is_asked_for_in_what_fits() {
    let setup = output().limits(|limits| limits.cost = None).with(|spec| {
        spec.models.base = ModelSpec { context_tokens: 8_000, ..model(Some(Price::flat(100_000, 400_000))) };
    });
    let (world, seen) = given_way(after(setup, None, 3));
    assert_eq!(seen, [(2, false), (3, false)]);
    let stopped = &world.ends(StopReason::TokenLimit).outcome().stopped_in.clone();
    assert_eq!((&*stopped.phase, stopped.pass, stopped.attempt), ("calling", 4, 1));
}

#[test]
fn a_document_drops_its_oldest_evidence_one_by_one() {
    // S4-43: what it says stays as a summary under its number, and the whole of it in the outcome.
    // Its rule is its own: no conversation is compacted.
    let setup = run().with(|spec| {
        spec.models.base = ModelSpec { context_tokens: 8_000, ..spec.models.base.clone() };
    });
    let two = draft("low").asks("fetch_device", target("a")).asks("fetch_device", target("b"));
    let world = setup.start().replied(&two).all_finished().started_with(TOO_LARGE);
    assert_eq!((shortened(&world), world.run.compacted_through()), (vec![1], 0));
    assert!(world.run.evidence().iter().all(|evidence| !evidence.observation.text().is_empty()));
}
