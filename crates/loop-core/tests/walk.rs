//! Random walks: legal and illegal events in any order, with the invariants after each.

use loop_testkit::*;

use std::sync::Arc;

use crate::common::cases;
use crate::common::noted::notes_are_true;
use crate::common::started::repeats_nothing;
use crate::common::walk::{choices, native_setups, setups, walked, walked_on};
use loop_core::run::Phase;
use loop_core::spec::RepeatScope;
use loop_core::types::Status;
use loop_core::{Note, Run};
use proptest::prelude::*;

/// What holds of the end of each walk.
#[track_caller]
fn ended_well(world: &World) -> loop_core::Outcome {
    world.check_replay();
    notes_are_true(&world.run);
    let stops = world.all_notes().filter(|note| matches!(note, Note::Stopped { .. })).count();
    assert_eq!(stops, 1, "a reason is fixed once");
    let outcome = world.outcome();
    // Exactly one observation for every admitted action, and every action is kept (I-5, I-32).
    let admitted = outcome.actions.iter().filter(|action| action.evidence.is_some()).count();
    assert_eq!(admitted, outcome.evidence.len());
    for evidence in &outcome.evidence {
        let requested = outcome.actions.iter().filter(|action| action.evidence == Some(evidence.id)).count();
        assert_eq!(requested, 1);
    }
    // I-10: the primary reason comes first, and is told once.
    let mut reasons = world.reasons();
    let reported = reasons.len();
    reasons.sort();
    reasons.dedup();
    assert_eq!(reasons.len(), reported);
    outcome.clone()
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn every_walk_keeps_the_invariants_and_comes_to_an_end(setup in setups(), choices in choices(120)) {
        // I-4, I-8, I-9, I-10, I-11, I-20, I-21: the world checks every state; the rest is checked here.
        let world = walked(setup, &choices).autopilot(&draft("high"));
        let outcome = ended_well(&world);
        // I-7: the same call does not succeed twice in one scope, which may be a pass.
        let is_by_pass = world.run.spec().gate.scope == RepeatScope::Step;
        let mut done: Vec<(u32, &str, &str)> = outcome
            .evidence
            .iter()
            .filter(|evidence| evidence.observation.status == Status::Ok)
            .map(|evidence| {
                let scope = if is_by_pass { evidence.key.pass } else { 0 };
                (scope, &*evidence.tool, &*evidence.parameters)
            })
            .collect();
        let successes = done.len();
        done.sort_unstable();
        done.dedup();
        prop_assert_eq!(done.len(), successes);
        // What the model refused or what was paid for is in the outcome whatever the reason.
        prop_assert_eq!(&outcome.document, world.run.document());
    }

    #[test]
    fn every_walk_of_calls_and_messages_keeps_the_invariants_and_comes_to_an_end(
        setup in native_setups(),
        choices in choices(120),
    ) {
        // I-4, I-5, I-8, I-9, I-20, I-21, C1, C3, S1-25, S2-14: the world checks every state; the rest is checked here.
        let world = walked(setup, &choices).autopilot(&text("Done."));
        let outcome = ended_well(&world);
        // I-6: what ended well is never run again as another try of the same call.
        let mut ended: Vec<_> = outcome
            .evidence
            .iter()
            .filter(|evidence| !evidence.observation.status.is_retryable())
            .map(|evidence| evidence.key)
            .collect();
        let once = ended.len();
        ended.sort_unstable();
        ended.dedup();
        prop_assert_eq!(ended.len(), once);
        prop_assert_eq!(outcome.attempts as usize, world.run.attempts().len());
    }

    #[test]
    fn a_walk_that_is_cut_and_restored_goes_on_as_if_nothing_had_happened(
        setup in prop_oneof![setups(), native_setups()],
        choices in choices(40),
        at in any::<prop::sample::Index>(),
    ) {
        // I-11, I-12
        let world = walked(setup, &choices);
        let cut = at.index(world.journal.len());
        let mut run = Run::restore(reread(&world.journal[cut].2), Arc::clone(&world.spec)).unwrap();
        for (event, notes, state) in &world.journal[cut + 1..] {
            prop_assert_eq!(&run.apply(event).unwrap(), notes);
            prop_assert_eq!(run.state(), state);
        }
    }
}

#[test]
fn the_order_in_which_tools_finish_makes_no_difference() {
    // I-20, S0-122: all 24 orders of four actions end in the same state.
    let names = ["a", "b", "c", "d"];
    let reply = names.iter().fold(draft("low"), |draft, name| draft.asks("fetch_device", target(name)));
    let start = run().start().replied(&reply);
    let mut ends: Vec<Run> = Vec::new();
    for order in permutations(4) {
        let finish = |world: World, n: &usize| world.finished(&format!("1/action-{n}"), found(names[*n]));
        ends.push(order.iter().fold(start.clone(), finish).expect_call("2/main", 1).run);
    }
    assert_eq!(ends.len(), 24);
    assert!(ends.iter().all(|end| *end == ends[0]));
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    permutations(n - 1)
        .into_iter()
        .flat_map(|shorter| {
            (0..n).map(move |at| {
                let mut longer = shorter.clone();
                longer.insert(at, n - 1);
                longer
            })
        })
        .collect()
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn a_fork_of_any_walk_at_any_event_repeats_nothing_and_keeps_the_invariants(
        setup in prop_oneof![setups(), native_setups()],
        before in choices(80),
        at in any::<prop::sample::Index>(),
        after in choices(60),
    ) {
        // I-6, I-11, I-12, I-26: the world checks every state of the fork.
        let end = if setup.spec.protocol.properties().native_calls { text("Done.") } else { draft("high") };
        let parent = walked(setup, &before);
        let length = 1 + at.index(parent.journal.len());
        if let Ok(fork) = parent.forked(length) {
            let fork = walked_on(fork, &after).autopilot(&end);
            fork.check_replay();
            repeats_nothing(&parent, length, &fork);
        }
        let parent = parent.autopilot(&end);
        let length = 1 + at.index(parent.journal.len());
        let mut wider = (*parent.spec).clone();
        (wider.limits.passes, wider.limits.tool_calls) = (wider.limits.passes + 2, wider.limits.tool_calls + 2);
        wider.limits.model_calls += 4;
        let (same, wider) = (parent.forked(length), parent.forked_under(length, wider));
        let before = parent.run_after(length);
        prop_assert_eq!(same.is_ok(), before.may_fork());
        // A call in flight is made again, under the other limits.
        let is_calling = before.may_fork() && matches!(before.phase(), Phase::Calling { .. });
        prop_assert_eq!(wider.is_ok(), is_calling || before.may_fork_under_other_limits());
        for fork in [same, wider].into_iter().flatten() {
            let fork = walked_on(fork, &after).autopilot(&end);
            fork.check_replay();
            repeats_nothing(&parent, length, &fork);
        }
    }

    #[test]
    fn a_retry_or_a_salvaged_run_of_any_walk_keeps_the_invariants(
        setup in prop_oneof![setups(), native_setups()],
        before in choices(80),
        at in any::<prop::sample::Index>(),
        lost in any::<bool>(),
        after in choices(60),
    ) {
        // I-6, I-11, I-12
        let is_native = setup.spec.protocol.properties().native_calls;
        let end = if is_native { text("Done.") } else { draft("high") };
        let parent = walked(setup, &before);
        let length = 1 + at.index(parent.journal.len());
        if let Ok(salvaged) = parent.salvaged(length, lost) {
            let salvaged = walked_on(salvaged, &after).autopilot(&end);
            salvaged.check_replay();
        }
        let parent = parent.autopilot(&end);
        let retried = parent.retried();
        prop_assert_eq!(retried.is_ok(), !is_native);
        if let Ok(retry) = retried {
            let retry = walked_on(retry, &after).autopilot(&end);
            retry.check_replay();
        }
    }
}
