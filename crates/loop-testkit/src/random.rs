//! Random runs: everything that happens is chosen by numbers, so that the same numbers always give the same run.

use loop_core::reply::FinishReason;
use loop_core::run::{CallModel, CheckResult, CheckWhat, PersonAnswer, Phase, PromptSize, RunTool, StopMode};
use loop_core::spec::CostMode;
use loop_core::types::{PicoUsd, Status, SubCallUse};
use loop_core::{Command, EventKind};
use serde_json::json;

use crate::{
    DraftReply, Setup, World, broken, calls, conversation, draft, failure, found, observed, output, rejected,
    run, saved_at, target, text, used,
};

/// A sequence of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// A number below `most`, or 0.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most.max(1)
    }
}

/// A setup of any protocol, with limits that the numbers choose.
pub fn random_setup(numbers: &mut Numbers) -> Setup {
    let setup = match numbers.below(4) {
        0 => conversation(),
        1 => output(),
        _ => run(),
    };
    let [passes, model_calls, tool_calls] = [6, 9, 7].map(|most| numbers.below(most) as u32);
    let (cost, tokens, mode) = (numbers.below(3), numbers.below(3), numbers.below(3));
    let (cost_limit, token_limit) = (numbers.below(3_000_000_000), 400 + numbers.below(40_000));
    let (people, breakers, no_progress) =
        (numbers.below(2) == 0, numbers.below(4) as u32, numbers.below(3) as u32);
    setup.with(|spec| {
        let limits = &mut spec.limits;
        (limits.passes, limits.model_calls, limits.tool_calls) = (passes, model_calls, tool_calls);
        limits.cost = (cost == 0).then_some(PicoUsd(cost_limit)).or(limits.cost);
        limits.tokens = (tokens == 0).then_some(token_limit);
        limits.cost_mode = match mode {
            0 => CostMode::Estimated,
            1 => CostMode::Strict,
            _ => CostMode::After,
        };
        (limits.wall_ms, limits.person_ms) = (40_000, Some(3_000));
        (spec.gate.people, spec.gate.no_progress) = (people, no_progress);
        let breaker = &mut spec.gate.breakers;
        (breaker.tool_failures, breaker.denied, breaker.bad_arguments) = (breakers, breakers, breakers);
        if breakers == 3 {
            spec.gate.forbid.push("wipe".into());
        }
    })
}

/// Drives a run of this setup to its end. Events depend on the numbers alone, so two runs only differ where the core
/// decides differently.
///
/// # Panics
/// The run does not end.
pub fn random_run(setup: Setup, numbers: &mut Numbers) -> World {
    let mut world = setup.start();
    for _ in 0..600 {
        if world.run.is_done() {
            return world;
        }
        world = step(world, numbers);
    }
    panic!("not done: {:?}", world.run.phase());
}

fn step(mut world: World, numbers: &mut Numbers) -> World {
    // The same amount of numbers for each step, so that two runs part only where they decide otherwise.
    let [which, how, ms, stop] = [1_000, 1_000, 3_000, 80].map(|most| numbers.below(most));
    if stop == 0 && world.run.outcome().is_none() && !matches!(world.run.phase(), Phase::Stopping(_)) {
        let mode = if how % 2 == 0 { StopMode::AtGate } else { StopMode::Now };
        let _refused_or_not = world.try_apply(EventKind::StopRequested { how: mode });
        return world;
    }
    let commands = world.run.commands();
    let command = commands.get(which as usize % commands.len().max(1)).cloned();
    let due = world.run.deadline();
    let Some(command) = command.filter(|_| due.is_none_or(|due| due.0 > world.now + ms)) else {
        return if due.is_some() { world.deadline() } else { world };
    };
    world.now += ms;
    match command {
        Command::CallModel(CallModel { granted: None, .. }) => {
            world.started_with(PromptSize { bytes: 300 + how * 9, shared_bytes: 0 })
        }
        Command::CallModel(call) if how % 11 == 0 => {
            let (key, attempt, failure) = (call.key, call.attempt, failure(how % 2 == 0));
            world.apply(EventKind::ModelFailed { key, attempt, failure: Box::new(failure) });
            world
        }
        Command::CallModel(_) => {
            let reply = reply(&world, how).using(Some(used(how, how / 3)));
            world.answered(&reply)
        }
        Command::RunTool(RunTool { key, attempt, announced: false, .. }) => {
            world.apply(EventKind::ToolStarted { key, attempt });
            world
        }
        Command::RunTool(tool) => {
            let observation = match how % 5 {
                0 => observed(Status::PermanentError),
                1 => observed(Status::RetryableError),
                _ => found(&format!("found {how}")),
            };
            world.finished(&tool.key.to_string(), observation)
        }
        Command::AskPerson { key, .. } => world.answered_by_person(&key.to_string(), PersonAnswer::Approved),
        Command::Check(check) => {
            let is_output = matches!(check.what, CheckWhat::Output(_));
            let result = match how % 5 {
                0 | 1 => CheckResult::Passed,
                2 if !is_output => broken(),
                3 if is_output => CheckResult::Passed,
                _ => rejected("no"),
            };
            let asks = check.sub_call.is_some() && how % 3 > 0;
            world.check(result, asks.then(|| SubCallUse::new(true, Some(used(how, how / 3)))));
            world
        }
        Command::Abort { .. } => world.deadline(),
        Command::Save { attempt } => world.saved(attempt, saved_at("x")),
    }
}

fn reply(world: &World, how: u64) -> DraftReply {
    let to = target(match how / 8 % 5 {
        0 => "a",
        1 => "b",
        2 => "c",
        3 => "d",
        _ => "e",
    });
    if world.spec.protocol.properties().native_calls {
        return match how % 8 {
            0 => text("It is done."),
            1 => calls(&[("save", to)]),
            2 => calls(&[("nope", to)]),
            3 => calls(&[("restart", to)]),
            4 => calls(&[("wipe", to)]),
            5 => text("It is do").ending(FinishReason::MaxTokens),
            _ => calls(&[("fetch_device", to.clone()), ("fetch_docs", to)]),
        };
    }
    match how % 8 {
        0 => draft("high"),
        1 => draft("low").member("refuse", json!("no")),
        2 => draft("medium").asks("nope", to),
        3 => draft("low").asks("restart", to),
        4 => draft("medium").asks("wipe", to),
        5 => text("## Situation\nno contract"),
        _ => draft("low").asks("fetch_device", to.clone()).asks("fetch_docs", to),
    }
}
