//! No run uses more than its spec says before it begins (`WorstCase`): random runs of a driver that is punctual, with
//! models that write and read what they may at most.

use std::sync::Arc;

use crate::common::walk::{choices, follow, native_setups, observed_by, settlement, setups};
use loop_core::run::{CallModel, Phase, PromptSize, RunTool, WorstCase};
use loop_core::spec::CostMode;
use loop_core::types::{Millis, PicoUsd, SubCallUse};
use loop_core::{Command, EventKind};
use loop_testkit::*;
use proptest::prelude::*;

/// What a simulated run has used so far that its totals do not tell.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    requests: u32,
    person_ms: u64,
}

/// How a run spends: hundredths of what it may.
type Spending = (u8, u8);

/// Does one thing that the run commands, after as long as `spending` says. Deadlines are reported in time.
fn step(mut world: World, (what, how): (u8, u8), (input, output): Spending, used_up: &mut Used) -> World {
    let commands = world.run.commands();
    let command = commands.get(usize::from(what) % commands.len().max(1)).cloned();
    let ms = u64::from(what) * u64::from(how) / 4;
    let due = world.run.deadline();
    let (before, was_waiting) = (world.now, matches!(world.run.phase(), Phase::WaitingForPerson { .. }));
    let asked: Vec<String> = world.asks();
    let command = command.filter(|_| due.is_none_or(|due| due.0 > world.now + ms));
    world = match command {
        None if due.is_some() => world.deadline(),
        None => world,
        Some(command) => {
            world.now += ms;
            match command {
                Command::CallModel(CallModel { granted: None, .. }) => {
                    let bytes = 200 + u64::from(how) * u64::from(how) * 4;
                    let shared_bytes = if what.is_multiple_of(3) { bytes / 2 } else { 0 };
                    world.started_with(PromptSize { bytes, shared_bytes })
                }
                Command::CallModel(call) => {
                    let mut kind = settlement(&world, &call, how);
                    if let EventKind::ModelReplied { reply, .. } = &mut kind {
                        reply.usage = Some(usage_of(&world, input, output));
                    }
                    world.apply(kind);
                    world
                }
                Command::RunTool(RunTool {
                    key, attempt, announced: true, sub_call: Some(budget), ..
                }) => {
                    let mut observation = observed_by(how);
                    let of = |most: u64, part: u8| most * u64::from(part % 101) / 100;
                    let usage = used(of(budget.bytes, input), of(budget.output_tokens, output));
                    observation.sub_call = Some(SubCallUse::new(true, Some(usage)).into());
                    world.apply(EventKind::ToolFinished { key, attempt, observation: Arc::new(observation) });
                    world
                }
                // A call that is cut off ends at once or with the time that it has to settle.
                Command::Abort { .. } if world.run.deadline().is_some() => world.deadline(),
                command => follow(world, command, how),
            }
        }
    };
    let asks = world.asks();
    used_up.requests += asks.iter().filter(|key| !asked.contains(key)).count() as u32;
    if was_waiting {
        used_up.person_ms += world.now - before;
    }
    world
}

/// The usage of the call in flight: parts of what it may take in and write.
fn usage_of(world: &World, input: u8, output: u8) -> loop_core::types::Usage {
    let Phase::Calling { call, .. } = world.run.phase() else { panic!("no call is in flight") };
    let started = call.started.unwrap();
    let bytes = started.prompt_bytes.min(world.spec.model(started.tier).context_tokens);
    let of = |most: u64, part: u8| most * u64::from(part % 101) / 100;
    used(of(bytes, input), of(started.max_output_tokens, output))
}

/// A run from its start to its end.
fn simulated(setup: Setup, choices: &[(u8, u8)], spending: &[Spending]) -> (World, Used) {
    let mut world = setup.start();
    let mut used_up = Used::default();
    let mut spending = spending.iter().copied().cycle();
    let mut choices = choices.iter().copied().chain(std::iter::repeat((1, 2)));
    for _ in 0..2_000 {
        if world.run.is_done() {
            return (world, used_up);
        }
        world = step(world, choices.next().unwrap(), spending.next().unwrap(), &mut used_up);
    }
    panic!("not done after 2,000 steps: {:?}", world.run.phase());
}

#[track_caller]
fn check_within(world: &World, used_up: Used) {
    let worst = WorstCase::of(&world.spec);
    let totals = world.outcome().totals;
    let limits = &world.spec.limits;
    assert!(totals.passes <= worst.passes, "{totals:?} {worst:?}");
    assert!(totals.model_calls <= worst.model_calls, "{totals:?} {worst:?}");
    assert!(totals.tool_calls <= worst.tool_calls, "{totals:?} {worst:?}");
    assert!(totals.usage.total() <= worst.tokens, "{totals:?} {worst:?} {limits:?}");
    assert!(worst.cost.is_none_or(|cost| totals.cost.known <= cost), "{totals:?} {worst:?} {limits:?}");
    assert!(totals.wall_ms <= worst.wall_ms, "{totals:?} {worst:?}");
    assert!(used_up.requests <= worst.requests, "{used_up:?} {worst:?}");
    assert!(worst.person_ms.is_some_and(|most| used_up.person_ms <= most), "{used_up:?} {worst:?}");
}

proptest! {
    #![proptest_config(crate::common::cases(400))]

    #[test]
    fn no_run_passes_the_worst_case_of_its_spec(
        setup in prop_oneof![setups(), native_setups()],
        choices in choices(120),
        spending in prop::collection::vec(any::<Spending>(), 1..12),
    ) {
        // I-1, I-2, I-4, S4-62: what `loopgate plan` prints.
        let (world, used_up) = simulated(setup, &choices, &spending);
        check_within(&world, used_up);
    }

    #[test]
    fn no_run_with_a_tight_budget_passes_its_worst_case(
        mode in prop::sample::select(vec![CostMode::Estimated, CostMode::Strict, CostMode::After]),
        cost in prop::option::of(0_u64..6_000_000_000),
        tokens in prop::option::of(0_u64..40_000),
        sub_call_bytes in 0_u64..20_000,
        choices in choices(60),
    ) {
        // Each call uses all that it may; the selector's model is the base model, so that sub-calls cost as much.
        let setup = run().patient().escalating().limits(|limits| {
            (limits.cost, limits.tokens, limits.cost_mode) = (cost.map(PicoUsd), tokens, mode);
            limits.sub_call_bytes = sub_call_bytes;
        });
        let setup = setup.with(|spec| spec.models.selector = None);
        let (world, used_up) = simulated(setup, &choices, &[(100, 100)]);
        check_within(&world, used_up);
    }
}

#[test]
fn a_strict_limit_is_the_worst_case_itself() {
    let spec = |mode| {
        let setup = run().limits(|limits| {
            (limits.cost, limits.tokens, limits.cost_mode) = (Some(PicoUsd(50_000_000)), Some(900), mode);
        });
        Arc::new(setup.spec)
    };
    let strict = WorstCase::of(&spec(CostMode::Strict));
    assert_eq!((strict.cost, strict.tokens), (Some(PicoUsd(50_000_000)), 900));
    assert_eq!((strict.cost_over, strict.tokens_over), (PicoUsd(0), 0));
    let estimated = WorstCase::of(&spec(CostMode::Estimated));
    assert!(estimated.cost_over > PicoUsd(0) && estimated.tokens_over > 0);
    assert_eq!(estimated.cost, Some(PicoUsd(50_000_000).plus(estimated.cost_over)));
    assert_eq!(estimated.tokens, 900 + estimated.tokens_over);
}

#[test]
fn a_run_that_ends_before_its_first_call_uses_nothing() {
    let spec = Arc::new(run().limits(|limits| limits.passes = 0).spec);
    let worst = WorstCase::of(&spec);
    assert_eq!((worst.model_calls, worst.tokens, worst.cost), (0, 0, Some(PicoUsd(0))));
    assert_eq!((worst.wall_ms, worst.requests), (0, 0));
}

#[test]
fn an_unknown_price_is_unknown_and_never_0() {
    let free_of_limits = run().limits(|limits| limits.cost = None);
    let spec = Arc::new(free_of_limits.with(|spec| spec.models.base.price = None).spec);
    assert_eq!(WorstCase::of(&spec).cost, None);
}

#[test]
fn without_a_person_none_is_asked() {
    let spec = |people| Arc::new(run().with(|spec| spec.gate.people = people).spec);
    assert_eq!((WorstCase::of(&spec(false)).requests, WorstCase::of(&spec(false)).person_ms), (0, Some(0)));
    let asked = WorstCase::of(&spec(true));
    let limits = &spec(true).limits;
    assert_eq!((asked.requests, asked.person_ms), (limits.tool_calls * limits.passes, None));
    let in_time = Arc::new(run().people().spec);
    assert_eq!(WorstCase::of(&in_time).person_ms, Some(600_000 * u64::from(in_time.limits.passes)));
    let reads =
        run().with(|spec| spec.tools.retain(|tool| tool.effect.is_read() && !tool.policy.asks_person));
    let reads = Arc::new(reads.with(|spec| spec.gate.people = true).spec);
    assert_eq!(WorstCase::of(&reads).requests, 0);
}

#[test]
fn the_time_of_a_run_is_its_limit_and_two_seconds_to_settle() {
    let world = run().limits(|limits| limits.wall_ms = 60_000).start().started();
    let mut world = world;
    while world.run.deadline().is_some_and(|due| due > Millis(world.now)) && !world.run.is_done() {
        world = world.deadline();
    }
    assert_eq!(world.outcome().totals.wall_ms, WorstCase::of(&world.spec).wall_ms);
}

#[test]
fn sub_calls_of_one_batch_may_exceed_a_limit_together() {
    // S0-51: each is granted by its estimate, and all of them are in flight.
    let setup = run().patient().limits(|limits| {
        (limits.cost, limits.tokens) = (None, Some(60_000));
        (limits.sub_call_bytes, limits.sub_call_tokens) = (20_000, 100);
    });
    let setup = setup.with(|spec| {
        (spec.models.selector, spec.models.base.context_tokens) = (None, 6_000);
    });
    let reply =
        ["a", "b", "c", "d"].iter().fold(draft("low"), |draft, name| draft.asks("fetch_docs", target(name)));
    let mut world = setup.start().replied(&reply.using(Some(used(10, 10))));
    let granted = world.tools().iter().filter(|tool| tool.sub_call.is_some()).count();
    assert_eq!(granted, 4);
    for tool in world.tools() {
        let mut observation = found(&tool.key.to_string());
        observation.sub_call = Some(SubCallUse::new(true, Some(used(20_000, 100))).into());
        world = world.finished(&tool.key.to_string(), observation);
    }
    let world = world.autopilot(&draft("high"));
    let total = world.outcome().totals.usage.total();
    assert!(total > 60_000 + 20_356, "one of them alone does not explain it: {total}");
    check_within(&world, Used::default());
}

#[test]
fn requests_that_are_denied_by_silence_do_not_use_up_the_tool_calls() {
    // W15: each pass may ask again, so the limit of tool calls alone does not bound the requests.
    let setup = run().patient().limits(|limits| {
        (limits.passes, limits.tool_calls, limits.person_ms) = (5, 2, Some(5_000));
    });
    let mut world = setup.with(|spec| spec.gate.people = true).start();
    let mut used_up = Used::default();
    for pass in 1..5 {
        let reply = ["a", "b", "c"]
            .iter()
            .fold(draft("low"), |draft, name| draft.asks("restart", target(&format!("{name}{pass}"))));
        world = world.replied(&reply);
        let asks = world.asks().len() as u32;
        if asks == 0 {
            break;
        }
        used_up.requests += asks;
        let since = world.now;
        world = world.deadline();
        used_up.person_ms += world.now - since;
    }
    let world = world.autopilot(&draft("high"));
    assert!(used_up.requests > world.spec.limits.tool_calls, "{used_up:?}");
    assert!(Some(used_up.person_ms) > world.spec.limits.person_ms, "{used_up:?}");
    check_within(&world, used_up);
}
