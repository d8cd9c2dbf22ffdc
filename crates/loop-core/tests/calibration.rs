//! A stated confidence that evals measured: what it ends, what it leaves alone, and what it can never do.

use std::sync::Arc;

use loop_core::gate::Measure;
use loop_core::run::Decision;
use loop_core::spec::{Calibrated, Calibration, MeasuredLevel, MeasuredModel, ModelSpec};
use loop_core::types::{Confidence, StopClass};
use loop_core::{Event, Note, Run, RunSpec, StopReason};
use loop_testkit::*;

/// The base model's levels: passes of as many runs, for low, medium and high.
fn measured(spec: &RunSpec, [low, medium, high]: [(u32, u32); 3]) -> Arc<Calibration> {
    let level = |(passed, runs)| MeasuredLevel { passed, runs };
    let ModelSpec { provider, model, .. } = spec.models.base.clone();
    let (low, medium, high) = (level(low), level(medium), level(high));
    Arc::new(Calibration { models: vec![MeasuredModel { provider, model, low, medium, high }] })
}

fn calibrated(levels: [(u32, u32); 3], allow_raise: bool) -> Setup {
    run().with(|spec| {
        spec.gate.calibration = Some(measured(spec, levels));
        spec.gate.allow_raise = allow_raise;
    })
}

#[test]
fn a_high_that_is_worth_less_ends_no_run_as_confident_and_says_why() {
    // Issue 19, part 5.
    let world = calibrated([(0, 0), (0, 0), (12, 20)], false).start().replied(&draft("high"));
    let world = world.ends(StopReason::NoNewActions);
    let outcome = world.outcome();
    assert_eq!(outcome.stop.class, StopClass::Partial);
    let found = Calibrated {
        stated: Confidence::High,
        measured: Confidence::Medium,
        runs: MeasuredLevel { passed: 12, runs: 20 },
    };
    assert_eq!(outcome.stop.primary.value, Measure::Calibrated(found));
    assert_eq!(
        outcome.stop.primary.value.to_string(),
        "medium, measured; stated high, and 12 of 20 runs that stated it passed"
    );
    // What the model stated is kept as it was, and what counted is told besides it.
    assert_eq!(outcome.confidence, Confidence::High);
    assert_eq!(outcome.passes[0].measured, Some(Confidence::Medium));
    assert_eq!(world.run.passes()[0].counted(), Confidence::Medium);
    let decided = |note: &Note| {
        matches!(note, Note::GateDecided { confidence: Confidence::Medium, decision: Decision::Stop(_), .. })
    };
    assert!(world.all_notes().any(decided));
}

#[test]
fn a_level_that_was_right_or_hardly_measured_counts_as_it_is_stated() {
    for levels in [[(0, 0), (0, 0), (19, 20)], [(0, 0), (0, 0), (0, 15)]] {
        let world = calibrated(levels, false).start().replied(&draft("high")).ends(StopReason::Confident);
        assert_eq!(world.outcome().passes[0].measured, None);
    }
}

#[test]
fn a_level_is_raised_with_permission_only() {
    let levels = [(0, 0), (20, 20), (0, 0)];
    calibrated(levels, false).start().replied(&draft("medium")).ends(StopReason::NoNewActions);
    calibrated(levels, true).start().replied(&draft("medium")).ends(StopReason::Confident);
}

#[test]
fn a_lowered_answer_is_not_revised_and_what_is_missing_is_not_excused() {
    let setup = calibrated([(0, 0), (0, 0), (12, 20)], false);
    let setup = setup.section(loop_core::spec::SectionSpec::new("cause", "Cause").required());
    setup.start().replied(&draft("high")).ends(StopReason::NoNewActions);
}

#[test]
fn stale_confidence_and_escalation_compare_what_is_stated() {
    // Two highs count as medium. The second is not higher than the first, and 3 passes are needed to compare.
    let device = |name: &str| draft("high").asks("fetch_device", target(name));
    let world = calibrated([(0, 20), (0, 20), (0, 20)], false).escalating().start();
    let world = world.replied(&device("a")).all_finished().replied(&device("b")).all_finished();
    // Low by evals, twice: the escalated model is for what the model itself calls low.
    assert_eq!(world.run.tier(), loop_core::types::Tier::Base);
    world.replied(&device("c")).ends(StopReason::StaleConfidence);
}

/// Drives the events of a run again under another spec, as far as it takes them.
fn again(events: &[Event], spec: RunSpec, setup: &Setup) -> Run {
    let (mut run, ..) = Run::start(
        loop_core::types::RunId::new("again"),
        Arc::new(spec),
        setup.item.clone(),
        setup.facts.clone(),
    );
    for event in &events[1..] {
        if run.apply(event).is_err() {
            break;
        }
    }
    run
}

#[test]
fn without_permission_to_raise_no_run_ends_confident_that_would_not_have_without_calibration() {
    // Issue 19, part 5, over whole random runs: whatever was measured, and whatever happens.
    let (mut confident, mut withheld) = (0, 0);
    for seed in 0..u64::from(share(800)) {
        let mut numbers = Numbers(seed);
        let setup = random_setup(&mut numbers);
        if !setup.spec.protocol.properties().states_confidence {
            continue;
        }
        let levels = [0, 1, 2].map(|_| (numbers.below(41) as u32, 40));
        let setup = setup.with(|spec| {
            spec.gate.high_is_final = numbers.below(3) == 0;
            spec.gate.calibration = Some(measured(spec, levels));
            if numbers.below(2) == 0 {
                spec.models.escalated =
                    Some(ModelSpec { model: "better".into(), ..spec.models.base.clone() });
            }
        });
        let world = random_run(setup.clone(), &mut numbers);
        let events: Vec<Event> = world.journal.iter().map(|(event, ..)| event.clone()).collect();
        let plain = RunSpec {
            gate: loop_core::spec::GateSettings { calibration: None, ..setup.spec.gate.clone() },
            ..setup.spec.clone()
        };
        let run = again(&events, plain, &setup);
        let is_confident = |run: &Run| {
            run.outcome().is_some_and(|outcome| {
                let all = std::iter::once(&outcome.stop.primary).chain(&outcome.stop.also);
                all.into_iter().any(|condition| condition.reason == StopReason::Confident)
            })
        };
        if is_confident(&world.run) {
            assert!(is_confident(&run), "seed {seed}: {:?}", world.run.outcome());
            confident += 1;
        } else if is_confident(&run) {
            withheld += 1;
        }
    }
    // Of all seeds neither side is empty by chance.
    assert!(!is_full() || (confident > 4 && withheld > 10), "{confident} {withheld}");
}
