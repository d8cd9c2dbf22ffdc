//! The words in which a decision is told: why a call did not run, and names of decisions.

use loop_testkit::*;

use std::collections::BTreeSet;

use loop_core::gate::{CutExtent, Limit, TierCause, TierChange};
use loop_core::policy::{Choice, PolicyAsk, Taint};
use loop_core::repeats::{CallFacts, Fingerprint, RepeatRule, Rules};
use loop_core::run::{DropReason, PersonAnswer, Rejection, Takeover};
use loop_core::spec::{ErrorStyle, ModelSpec, SpecNames};
use loop_core::types::Tier;
use loop_core::{EventKind, Rejected, StopReason, Verdict};

/// The reason of the last action.
fn last_reason(world: &World) -> String {
    world.run.actions().last().unwrap().reason(world.run.evidence())
}

#[test]
fn a_repeat_names_the_call_before_it_and_its_evidence() {
    // I-32
    let asks = draft("low").asks("fetch_device", target("a"));
    let world = run().start().replied(&asks).finished("1/action-0", found("a device")).replied(&asks);
    assert_eq!(world.verdicts(), ["run", "duplicate"]);
    assert_eq!(last_reason(&world), "already run as 1/action-0, see E1");
}

#[test]
fn a_repeat_of_what_an_approver_denied_says_so() {
    // I-32: such a call never ran.
    let asks = draft("low").asks("wipe", target("a"));
    let world = run().people().start().replied(&asks);
    let denied = world.answered_by_person("1/action-0", PersonAnswer::Denied { why: "not today".into() });
    let world = denied.replied(&asks);
    assert_eq!(world.verdicts(), ["denied", "duplicate"]);
    let reason = last_reason(&world);
    assert!(reason.starts_with("already asked for as 1/action-0 and denied: "), "{reason}");
    assert!(reason.ends_with("; see E1"), "{reason}");
}

#[test]
fn a_call_without_a_tool_name_is_told_as_such() {
    for name in ["", " "] {
        let world = run().start().replied(&draft("low").asks(name, target("a")));
        assert_eq!(last_reason(&world), "it names no tool");
    }
    let world = run().start().replied(&draft("low").asks("xyzzy", target("a")));
    assert_ne!(last_reason(&world), "it names no tool");
}

#[test]
fn each_cause_and_each_decision_has_a_name_of_its_own() {
    let causes = [
        TierCause::LowConfidence,
        TierCause::Unavailable,
        TierCause::Cost,
        TierCause::Context,
        TierCause::Ended,
    ];
    let words: BTreeSet<&str> = causes.into_iter().map(TierCause::words).collect();
    assert_eq!(words.len(), causes.len());
    let dropped = [
        DropReason::CallFailed,
        DropReason::CallChanged,
        DropReason::NotAdmitted,
        DropReason::Stopped,
        DropReason::Lost,
    ];
    let texts: BTreeSet<&str> = dropped.into_iter().map(DropReason::text).collect();
    assert_eq!(texts.len(), dropped.len());
    assert_eq!(StopReason::MaxPasses.to_string(), StopReason::MaxPasses.name());
    let rejection = Rejection { by: "schema".into(), message: "too short".into() };
    assert_eq!(rejection.to_string(), "schema: too short");
    let decisions = [Choice::Runs, Choice::Asks, Choice::LeftUndone, Choice::Denied];
    let names: BTreeSet<&str> = decisions.into_iter().map(Choice::name).collect();
    assert_eq!(names.len(), decisions.len());
}

#[test]
fn how_far_a_reply_got_is_told() {
    let whole = CutExtent { tokens: Some(9), reasoning: 0, visible: true, capped: false };
    assert_eq!(whole.to_string(), "9 output tokens");
    let thought = CutExtent { reasoning: 9, visible: false, ..whole };
    assert_eq!(thought.to_string(), "9 output tokens, 9 of them reasoning, none of them visible");
    let one = CutExtent { tokens: None, reasoning: 1, ..whole };
    assert_eq!(one.to_string(), "an unknown number of output tokens, 1 of them reasoning");
}

#[test]
fn a_change_of_tier_names_both_tiers_and_its_cause() {
    let (from, to, why) = (Tier::Base, Tier::Escalated, TierCause::LowConfidence);
    let told = TierChange { pass: 3, from, to, why }.to_string();
    assert_eq!(told, "from pass 3 escalated instead of base: the confidence stayed low");
}

#[test]
fn a_reason_has_the_name_of_each_style() {
    let named =
        |style| [StopReason::MaxPasses, StopReason::Confident].map(|reason| reason.name_in(style).to_owned());
    assert_eq!(named(ErrorStyle::Named), ["Max iterations reached", "confident"]);
    assert_eq!(named(ErrorStyle::Tagged), ["max_steps", "completed"]);
}

#[test]
fn a_limit_of_a_tool_says_how_many_calls_and_which_rule_refused() {
    // I-32
    let of_tool = |calls| Verdict::OverLimit { limit: Limit::OfTool { calls } };
    let reasons = [0, 1, 2].map(|calls| of_tool(calls).reason());
    assert_eq!(reasons[0], "its tool is not to be run (its limit is 0 calls)");
    assert_eq!(reasons[1], "its tool has reached its limit of 1 call");
    assert_eq!(reasons[2], "its tool has reached its limit of 2 calls");
    assert_eq!(of_tool(2).repeat_code(), Some(Limit::OfTool { calls: 2 }.code()));
    let repeat = |rule| Verdict::Duplicate { of: key("1/action-0"), evidence: None, rule };
    assert_eq!(repeat(None).repeat_code(), Some("exact_duplicate"));
    let cycle = RepeatRule::Cycle { length: 2, times: 2 };
    assert_eq!(repeat(Some(cycle)).repeat_code(), Some("cycle"));
    for other in [Verdict::Run, Verdict::Skipped, Verdict::OverLimit { limit: Limit::ToolCalls }] {
        assert_eq!(other.repeat_code(), None);
    }
}

#[test]
fn a_run_says_what_it_was_begun_with_and_which_instructions_it_takes() {
    assert_eq!(
        [Takeover::Fork, Takeover::Retry, Takeover::Salvage].map(Takeover::name),
        ["fork", "retry", "salvage"]
    );
    let mut world = run().start().started();
    assert_eq!(world.run.takes_instruction("Hurry."), Ok(()));
    assert_eq!(world.run.takes_instruction(" "), Err(Rejected::EmptyInstruction));
    world.apply(EventKind::Instruction { text: "Hurry.".into() });
    let texts: Vec<&str> = world.run.instructions().iter().map(|it| &*it.text).collect();
    assert_eq!(texts, ["Hurry."]);
    let ended = world.answered(&draft("high")).ends(StopReason::Confident);
    assert!(ended.run.takes_instruction("Hurry.").is_err());
    // Under another spec it has the digests of that one.
    let mut other = (*ended.spec).clone();
    other.limits.passes += 1;
    let (spec, names) = (std::sync::Arc::new(other.clone()), SpecNames::of(&other));
    let under = ended.run.under(spec);
    assert_eq!((under.started().spec, under.started().policy), (names.spec, names.policy));
    assert_ne!(under.started().spec, ended.run.started().spec);
}

#[test]
fn a_call_that_is_judged_shows_its_tool() {
    let spec = loop_core::RunSpec {
        tools: run().spec.tools,
        ..loop_core::RunSpec::conversation("d", ModelSpec::new("p", "m"))
    };
    let tool = spec.tool("wipe").unwrap();
    let arguments = target("a");
    let facts = CallFacts::of(tool, &arguments);
    assert_eq!(Fingerprint::of(&facts, &Rules::of_run(&spec)).tool(), "wipe");
    let ask = PolicyAsk {
        spec: &spec,
        tool,
        parameters: &arguments,
        taint: Taint::default(),
        sources: &(),
        planned: None,
    };
    assert!(format!("{ask:?}").contains("wipe"), "{ask:?}");
}
