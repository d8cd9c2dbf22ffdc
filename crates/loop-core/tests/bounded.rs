//! A state is as large as what was asked for and what came back, and no larger (I-23).

use loop_testkit::*;

use loop_core::EventKind;
use loop_core::types::{Observation, Status};

/// Bytes of the stored state.
fn size(world: &World) -> usize {
    serde_json::to_string(world.run.state()).unwrap().len()
}

/// By how much each of these sizes exceeds the one before it.
fn steps(sizes: &[usize]) -> Vec<usize> {
    sizes.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
}

/// Every step adds the same, but for the digits of its numbers.
#[track_caller]
fn check_even(sizes: &[usize]) {
    let steps = steps(sizes);
    let (least, max) = (steps.iter().min().unwrap(), steps.iter().max().unwrap());
    assert!(max - least <= 40, "each pass adds as much as the one before it: {steps:?}");
}

fn many(setup: Setup) -> Setup {
    setup.patient().limits(|limits| {
        (limits.passes, limits.model_calls, limits.tool_calls) = (60, 60, 200);
        (limits.cost, limits.messages) = (None, None);
    })
}

#[test]
fn a_state_grows_by_what_a_pass_asks_for_and_not_by_what_the_run_has_become() {
    // I-23: state size = O(actions), in each protocol that goes through passes.
    let page = "x".repeat(1_000);
    let ask = |n: u32, native: bool| {
        let names = [format!("a{n:03}"), format!("b{n:03}")];
        if native {
            calls(&names.map(|name| ("fetch_device", target(&name))))
        } else {
            names.iter().fold(draft("low"), |draft, name| draft.asks("fetch_device", target(name)))
        }
    };
    for setup in [conversation().parallel(), run(), output().parallel()] {
        let native = setup.spec.protocol.properties().native_calls;
        let setup = if setup.spec.protocol.output().is_some() {
            setup.output_spec(|output| output.passes_per_attempt = 60)
        } else {
            setup
        };
        let world = many(setup).start();
        // What is checked after each event of so long a run takes most of the time.
        let mut world = if is_full() { world } else { world.unchecked() };
        let mut sizes = Vec::new();
        for n in 100..124 {
            world = world.replied(&ask(n, native));
            for tool in world.tools() {
                world = world.finished(&tool.key.to_string(), found(&format!("{page}{}", tool.key)));
            }
            sizes.push(size(&world));
        }
        check_even(&sizes[10..]);
    }
}

#[test]
fn what_fails_and_is_tried_again_leaves_no_more_than_the_last_of_it() {
    // I-23: a reply that broke off twice is kept once, and a tool that is not ready keeps its last answer.
    let broken = |n: u32| loop_core::types::ModelFailure {
        partial: Some(format!("## Situation\n{}{n}\n## Findings\nand", "y".repeat(5_000)).into()),
        ..failure(true)
    };
    let once = conversation().start().started().failed(broken(1));
    let twice = once.clone().started().failed(broken(2));
    assert!(size(&twice) < size(&once) + 200, "{} after {}", size(&twice), size(&once));
    let waits = || Observation {
        retry_after_ms: Some(500),
        ..Observation::new(Status::Pending, "not ready", "z".repeat(3_000), "null")
    };
    let mut world = conversation().start().replied(&calls(&[("fetch_device", target("a"))]));
    world = world.finished("1/action-0", waits());
    let first = size(&world);
    for _ in 0..10 {
        world = world.deadline().finished("1/action-0", waits());
        assert!(size(&world) < first + 200, "{} after {first}", size(&world));
    }
}

#[test]
fn what_is_refused_leaves_its_verdict_and_no_more() {
    // I-23, I-32: the same call over and over, an unknown tool, arguments that do not fit, and what is rejected at once.
    let odd = calls(&[("nope", target("a")), ("fetch_device", serde_json::json!({}))]);
    let mut world = many(conversation().with(|spec| spec.gate.breakers.bad_arguments = 0)).start();
    let mut sizes = Vec::new();
    for n in 100..120 {
        let name = format!("a{n:03}");
        let reply = odd.clone().calling("fetch_device", &target(&name).to_string());
        world = world.replied(&reply).all_finished();
        sizes.push(size(&world));
    }
    check_even(&sizes[10..]);
    let before = size(&world);
    for n in 0..100 {
        let key = key(&format!("{}/action-{n}", n + 1));
        world = world.rejects(EventKind::ToolFinished { key, attempt: 7, observation: found("late").into() });
    }
    assert_eq!(size(&world), before);
}
