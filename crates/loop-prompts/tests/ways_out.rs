//! What a model is told when a pass is granted to repair, when it makes its final pass for want of money, tokens or time, and of tools
//! that never run.

use crate::common;

use common::*;
use loop_core::types::{PicoUsd, Price};
use loop_prompts::Layout;

const HIGH: &str = "## 🔍 Situation\n\nSlips.\n\n";

/// A run that demands a result of `fetch_part`, after a confident reply without one.
fn to_revise(layout: Layout) -> World {
    let mut demanding = spec();
    demanding.gate.required_tools = vec!["fetch_part".into()];
    let mut world = start(demanding, item(), in_layout(layout));
    world.replied(&format!("{HIGH}{}", contract("high", &[])));
    world
}

#[test]
fn a_revision_pass_is_told_what_is_missing() {
    // C30
    for layout in [Layout::Append, Layout::SystemEvidence] {
        let mut world = to_revise(layout);
        assert_eq!(world.call().key.to_string(), "2/main");
        let prompt = world.prompt();
        let last = prompt.turns.last().unwrap().text().to_owned();
        let instruction = "- Your last reply claims high confidence, but this is demanded and not there: \
                    section `next_steps`, a result of `fetch_part`. Revise it,";
        assert!(last.contains(instruction), "{last}");
        assert!(!prompt.system.contains("claims high confidence"));
    }
}

#[test]
fn a_final_pass_that_revises_is_told_what_is_missing_and_offered_no_tools() {
    let mut demanding = spec();
    demanding.gate.required_tools = vec!["fetch_part".into()];
    demanding.limits.passes = 2;
    let mut world = start(demanding, item(), prompts());
    world.replied(&format!("{HIGH}{}", contract("high", &[])));
    assert_eq!(world.call().key.to_string(), "2/final");
    let last = world.prompt().turns.last().unwrap().text().to_owned();
    assert!(last.contains("a result of `fetch_part`. Revise it. If it cannot be had"), "{last}");
    assert!(last.contains("LAST call: pass 2 of 2"), "{last}");
}

#[test]
fn what_a_revision_pass_was_told_stays_word_for_word() {
    // I-17: what was missing then, not what is missing now.
    let mut world = to_revise(Layout::Append);
    let revisions = world
        .replied(&format!("## Next steps\n\nOil it [E0].\n\n{}", contract("high", &[("fetch_part", "P-1")])));
    world.tools_end(|_| ok("found 1 item", "a chain"));
    let next = world.prompt();
    assert!(bytes(&next).starts_with(&bytes(&revisions)), "{}", shown(&next));
    assert_eq!(world.prompt_anew(), next);
    assert!(!next.turns.last().unwrap().text().contains("claims high confidence"), "only that pass is told");
}

#[test]
fn a_final_pass_names_the_limit_that_makes_it_the_last_call() {
    // Each limit is reached by the second call, which has evidence to write of.
    let final_pass = |tight: &dyn Fn(&mut loop_core::RunSpec), now: u64| {
        let mut limited = spec();
        limited.models.selector = None;
        limited.models.base.price = Some(Price::flat(100_000, 400_000));
        limited.limits.output_tokens = 256;
        tight(&mut limited);
        let mut world = start(limited, item(), prompts());
        world.replied(&format!("{HIGH}{}", contract("low", &[("fetch_bike", "FR-0042")])));
        world.now = now;
        world.tools_end(|_| ok("found 1 item", &"long ".repeat(400)));
        if world.call().key.to_string() == "2/main" {
            world.announce();
        }
        assert_eq!(world.call().key.to_string(), "2/final");
        world.prompt().turns.last().unwrap().text().to_owned()
    };
    let first = start(spec(), item(), prompts()).prompt().size.bytes / 2;
    let money = final_pass(&|spec| spec.limits.cost = Some(PicoUsd((first + 1_100) * 100_000 * 2)), 2);
    assert!(money.contains("LAST call: the limit of money leaves one. No tool runs"), "{money}");
    let tokens = final_pass(&|spec| spec.limits.tokens = Some((first + 300) * 2), 2);
    assert!(tokens.contains("LAST call: the limit of tokens leaves one."), "{tokens}");
    let time = final_pass(&|spec| spec.limits.wall_ms = 40_000, 30_000);
    assert!(time.contains("LAST call: the limit of time leaves one."), "{time}");
    let calls = final_pass(&|spec| spec.limits.model_calls = 2, 2);
    assert!(calls.contains("LAST call: the limit of 2 model calls leaves one."), "{calls}");
}

#[test]
fn a_tool_that_never_runs_is_not_offered() {
    let mut forbidding = spec();
    let system = |spec: &loop_core::RunSpec| start(spec.clone(), item(), prompts()).prompt().system;
    assert!(system(&forbidding).contains("- fetch_part:"));
    forbidding.gate.forbid = vec!["fetch_part".into()];
    let without = system(&forbidding);
    assert!(!without.contains("- fetch_part:") && without.contains("- fetch_bike:"), "{without}");
}
