//! Recorded runs under other policies: checked against runs that are driven under them with the same numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::{CostMode, EventKind, PicoUsd, Run, RunSpec, Stale};
use loop_eval::backtest::{Backtested, Finding, FindingKind, Under, backtest};
use loop_runtime::journal::{Entry, Recorded};
use loop_testkit::*;

fn recorded(world: &World) -> Recorded {
    let entries = world.journal.iter().enumerate().map(|(seq, (event, notes, _))| Entry {
        seq: seq as u64,
        event: event.clone(),
        notes: notes.clone(),
    });
    Recorded {
        spec: Arc::clone(&world.spec),
        manifest: "[]".into(),
        origin: None,
        entries: entries.collect(),
        unverified: None,
        since_last_ms: None,
    }
}

fn tested(world: &World, specs: &[RunSpec]) -> Backtested {
    let under: Vec<Under> = specs.iter().map(|spec| Under::new(Arc::new(spec.clone()))).collect();
    backtest(world.run.id(), &recorded(world), &Under::new(Arc::clone(&world.spec)), &under).unwrap()
}

fn one(world: &World, spec: &RunSpec) -> Finding {
    tested(world, std::slice::from_ref(spec)).findings.remove(0)
}

/// Another policy for a run of this spec, as the numbers choose it.
fn other(spec: &RunSpec, numbers: &mut Numbers) -> RunSpec {
    let mut spec = spec.clone();
    for _ in 0..=numbers.below(2) {
        let (which, how) = (numbers.below(15), numbers.below(6));
        let (limits, gate) = (&mut spec.limits, &mut spec.gate);
        match which {
            0 | 1 => limits.passes = how as u32,
            2 => limits.model_calls = 2 * how as u32,
            3 => limits.tool_calls = how as u32,
            4 => limits.cost = Some(PicoUsd(how * 400_000_000)),
            5 => limits.cost = None,
            6 => limits.tokens = Some(1_000 + how * 4_000),
            7 => limits.wall_ms = 1_000 + how * 9_001,
            8 => {
                limits.cost_mode = [CostMode::Estimated, CostMode::Strict, CostMode::After][how as usize % 3]
            }
            9 => gate.no_progress = how as u32,
            10 => gate.stale = [Stale::Off, Stale::Equal, Stale::NotImproved][how as usize % 3],
            11 => gate.high_is_final = !gate.high_is_final,
            12 => gate.final_pass = !gate.final_pass,
            13 => gate.forbid.push(["wipe", "fetch_docs", "restart"][how as usize % 3].into()),
            _ => gate.breakers.tool_failures = how as u32,
        }
    }
    spec
}

/// Whether a reply of the run is longer than what was granted, which no provider returns.
fn breaks_its_grant(world: &World) -> bool {
    let mut granted = u64::MAX;
    world.journal.iter().any(|(event, _, _)| match &event.kind {
        EventKind::CallStarted { max_output_tokens, .. } => {
            granted = *max_output_tokens;
            false
        }
        EventKind::ModelReplied { reply, .. } => reply.usage.is_some_and(|usage| usage.output > granted),
        _ => false,
    })
}

fn result(run: &Run) -> impl PartialEq + std::fmt::Debug + use<> {
    let outcome = run.outcome().unwrap();
    (outcome.document.clone(), outcome.answer.clone(), outcome.output.clone())
}

#[test]
fn the_same_policy_gives_no_difference() {
    // Issue 16, part 6: whatever the protocol, the limits, the failures and the people.
    for seed in 0..300_u64 {
        let mut numbers = Numbers(seed);
        let setup = random_setup(&mut numbers);
        let world = random_run(setup, &mut numbers);
        let tested = tested(&world, &[(*world.spec).clone()]);
        let finding = &tested.findings[0];
        assert_eq!(finding.kind, FindingKind::Same, "seed {seed}: {finding:?}");
        assert_eq!(finding.totals, world.outcome().totals, "seed {seed}");
        assert_eq!((finding.is_same_result, finding.is_exact, &finding.more), (true, true, &None));
        assert_eq!(tested.recorded, world.run);
    }
}

#[test]
fn what_is_found_is_what_a_run_under_the_other_policy_does() {
    // Issue 16, part 6: an earlier stop is exact, and nothing else exceeds its bound.
    let mut kinds = BTreeMap::<FindingKind, u32>::new();
    for seed in 0..1_000_u64 {
        let mut numbers = Numbers(seed);
        let setup = random_setup(&mut numbers);
        let policy = other(&setup.clone().start().spec, &mut numbers);
        let world = random_run(setup.clone(), &mut numbers.clone());
        let finding = one(&world, &policy);
        let again = random_run(setup.with(|spec| *spec = policy), &mut numbers);
        *kinds.entry(finding.kind).or_default() += 1;
        let really = again.outcome();
        let shown =
            || format!("seed {seed}: {finding:?}\nreally {:?} {:?}", really.stop.primary, really.totals);
        let stop = Some((really.stop.reason(), really.stop.class));
        match finding.kind {
            FindingKind::Same | FindingKind::OtherReason => {
                assert_eq!(finding.stop, stop, "{}", shown());
                assert_eq!(finding.totals, really.totals, "{}", shown());
                assert_eq!(result(&again.run), result(&world.run), "{}", shown());
            }
            FindingKind::StopsEarlier => {
                let outcome = finding.outcome.as_deref().unwrap();
                assert_eq!(finding.stop, stop, "{}", shown());
                assert_eq!(
                    (&outcome.document, &outcome.answer),
                    (&really.document, &really.answer),
                    "{}",
                    shown()
                );
                assert_eq!(finding.is_same_result, result(&again.run) == result(&world.run), "{}", shown());
                if finding.is_exact {
                    assert_eq!(finding.totals, really.totals, "{}", shown());
                } else {
                    assert!(finding.totals.cost.known >= really.totals.cost.known, "{}", shown());
                }
            }
            FindingKind::FinalPass | FindingKind::Continues | FindingKind::Differs => {
                let (at, more) = (finding.at.unwrap(), finding.more.unwrap());
                assert!(finding.totals.cost.known <= really.totals.cost.known, "{}", shown());
                assert!(at.entry < world.journal.len() as u64, "{}", shown());
                if breaks_its_grant(&again) {
                    continue;
                }
                let calls = really.totals.model_calls - finding.totals.model_calls;
                // A call in flight is counted in both.
                assert!(calls <= more.model_calls, "{}", shown());
                if let Some(cost) = more.cost {
                    let at_most = finding.totals.cost.known.plus(cost);
                    assert!(really.totals.cost.known <= at_most, "{}", shown());
                }
            }
        }
    }
    let all = FindingKind::ALL.iter().all(|kind| kinds.get(kind).is_some_and(|runs| *runs >= 8));
    assert!(all, "{kinds:?}");
}
