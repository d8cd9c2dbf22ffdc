//! What software says to a call, in its order: its name, policy by name, its arguments, policy, repeats, limits, people;
//! what the model gets for a repeat; and what an answer needs before it counts.

use loop_testkit::*;

use loop_core::gate::DeniedBy;
use loop_core::repeats::RepeatRule;
use loop_core::run::{CheckResult, PersonAnswer};
use loop_core::spec::{OnDuplicate, RepeatScope, Repeats};
use loop_core::types::{Observation, Status};
use loop_core::{EventKind, StopReason, Verdict};
use serde_json::{Value, json};

fn look(name: &str) -> DraftReply {
    calls(&[("fetch_device", target(name))])
}

/// Everything that is commanded runs and finds the same.
fn all(mut world: World) -> World {
    while world.phase() == "acting" {
        let key = world.tools()[0].key.to_string();
        world = world.finished(&key, found("the same"));
    }
    world
}

// ---- the order ----

#[test]
fn each_verdict_comes_before_the_next() {
    // S4-9, S4-16, S4-63, S4-79, S4-80: forbidden, wrong arguments, a repeat, no call left, a person.
    let setup = conversation().repeating(Repeats::NeverRerun).with(|spec| {
        spec.gate.forbid = vec!["fetch_d?cs".into(), "fetch_docs".into()];
        spec.limits.tool_calls = 1;
    });
    let world = setup.start().replied(&look("a")).all_finished();
    let world = world.replied(&calls(&[
        ("nope", json!({})),
        ("fetch_docs", json!({"target": 1})),
        ("fetch_device", json!({"target": 1})),
        ("fetch_device", target("a")),
        ("fetch_device", target("b")),
        ("restart", target("a")),
    ]));
    let expected =
        ["run", "unknown_tool", "denied", "invalid_arguments", "duplicate", "over_limit", "needs_person"];
    assert_eq!(world.verdicts(), expected);
}

#[test]
fn what_is_forbidden_is_denied_even_where_no_tool_has_the_name() {
    // S4-83, S4-53
    let setup = conversation().with(|spec| spec.gate.forbid = vec!["delete_order".into()]);
    let world = setup.start().replied(&calls(&[("delete_order", json!({})), ("delete_orders", json!({}))]));
    assert_eq!(world.verdicts(), ["denied", "unknown_tool"]);
}

// ---- what a run has read ----

// ---- repeats ----

#[test]
fn a_call_that_brings_the_same_again_and_again_is_refused_and_then_ends_the_run() {
    // S4-40, I-7, I-32: twice is allowed; then the reason, once more, and no progress.
    let mut world = conversation().start();
    for _ in 0..2 {
        world = all(world.replied(&look("a")));
    }
    assert_eq!(world.run.totals().tool_calls, 2);
    let world = world.replied(&look("a")).replied(&look("a")).expect_call("5/main", 1);
    let Verdict::Duplicate { rule: Some(RepeatRule::SameResult { times: 2, .. }), evidence, .. } =
        &world.run.actions()[2].verdict
    else {
        panic!("{:?}", world.run.actions()[2].verdict)
    };
    assert_eq!(*evidence, Some(loop_core::types::EvidenceId(2)));
    let world = world.replied(&look("a")).expect_phase("final_pass").replied(&text("As I said."));
    let world = world.ends(StopReason::NoProgress);
    assert_eq!(world.run.totals().tool_calls, 2);
}

#[test]
fn a_repeat_can_be_a_denial() {
    // C5, C9: it counts as one.
    let setup = conversation().repeating(Repeats::NeverRerun).with(|spec| {
        spec.gate.on_duplicate = OnDuplicate::Deny;
        spec.gate.on_denied = loop_core::spec::OnDenied::Stop;
    });
    let world = all(setup.start().replied(&look("a"))).replied(&look("a")).ends(StopReason::Refused);
    let why = "Tool 'fetch_device' was already executed with identical parameters";
    assert_eq!(world.run.actions()[1].verdict, Verdict::Denied { why: why.into(), by: DeniedBy::Repeat });
}

#[test]
fn a_recipe_compares_exactly_for_each_step_and_outside_services_only() {
    // S3-24: "Per recipe step", "Exact match only", "Composio actions only".
    let setup = conversation().parallel().repeating(Repeats::NeverRerun).with(|spec| {
        (spec.gate.scope, spec.gate.repeats_for) = (RepeatScope::Step, vec!["composio_*".into()]);
        spec.tools.push(tool("composio_execute", loop_core::types::Effect::Read));
    });
    let outside = |name: &str| ("composio_execute", target(name));
    let own = || ("fetch_device", target("a"));
    // Within a step only what is equal is a repeat, and only of the outside service.
    let reply = calls(&[outside("fix bug"), outside("fix bug"), outside("fix the bug"), own(), own()]);
    let world = setup.start().replied(&reply);
    assert_eq!(world.verdicts(), ["run", "duplicate", "run", "run", "run"]);
    // The next step begins with an empty record.
    let world = all(world).replied(&calls(&[outside("fix bug"), own()]));
    assert_eq!(world.verdicts()[5..], ["run", "run"]);
}

// ---- what an answer needs ----

fn demanding(setup: Setup) -> Setup {
    setup.with(|spec| spec.gate.required_tools = vec!["fetch_device".into()])
}

#[test]
fn an_answer_that_lacks_what_is_demanded_is_repaired_once() {
    // S4-45, S4-54, C30
    let world = demanding(conversation()).start().replied(&text("Surely.")).expect_call("2/main", 1);
    assert_eq!(world.run.messages(), 3, "the item, the answer, and what was said to it");
    let world = all(world.replied(&look("a"))).replied(&text("It is so."));
    let world = world.ends(StopReason::Completed);
    assert_eq!(world.outcome().answer.as_deref(), Some("It is so."));
    // G6: neither a failure nor an empty result is what was demanded.
    let ended = |status| {
        let world = demanding(conversation()).unrevised().start().replied(&look("a"));
        world.finished("1/action-0", observed(status)).replied(&text("Done.")).outcome().stop.reason()
    };
    assert_eq!(ended(Status::Ok), StopReason::Completed);
    assert_eq!(ended(Status::Empty), StopReason::EvidenceMissing);
    assert_eq!(ended(Status::PermanentError), StopReason::EvidenceMissing);
}

#[test]
fn an_output_before_its_evidence_is_repaired_once() {
    // S4-54, C30: nothing is validated before.
    let save = |more: &[(&str, Value)]| {
        let mut wanted = more.to_vec();
        wanted.push(("save", target("x")));
        calls(&wanted)
    };
    let world = demanding(output()).start().replied(&save(&[("fetch_docs", target("a"))]));
    let world = world.expect_tools(&["1/action-0#1 fetch_docs"]).all_finished().expect_call("2/main", 1);
    assert_eq!(world.run.attempts().len(), 1);
    let again = world.clone().replied(&save(&[])).ends(StopReason::EvidenceMissing);
    assert!(!again.outcome().output.as_ref().unwrap().valid);
    // The tool beside the output is enough, if it brings something.
    let both = world.replied(&save(&[("fetch_device", target("a"))]));
    let good = both.clone().finished("2/action-0", found("it")).checked(CheckResult::Passed);
    good.ends(StopReason::Completed);
    let bad = both.finished("2/action-0", observed(Status::Timeout)).checked(CheckResult::Passed);
    bad.ends(StopReason::EvidenceMissing);
    // With a reflection it is the submission that is too early.
    let world = demanding(reflected()).start().replied(&save(&[])).all_finished();
    let world = world.replied(&calls(&[("submit", json!({}))])).expect_call("3/main", 1);
    let world = all(world.replied(&look("a"))).replied(&calls(&[("submit", json!({}))]));
    world.checked(CheckResult::Passed).ends(StopReason::Completed);
}

#[test]
fn high_is_refused_where_a_section_cites_what_failed() {
    // S4-54, C30
    let cite = loop_core::spec::SectionSpec::new("situation", "Situation").required().cited();
    let cited = || bare_draft("high").section("Situation", "The disk is full [E1].");
    let ends = |status| {
        let world = run().sections(vec![cite.clone()]).unrevised().start();
        let world = world.replied(&draft("medium").asks("fetch_device", target("a")));
        world.finished("1/action-0", observed(status)).replied(&cited()).outcome().stop.reason()
    };
    assert_eq!(ends(Status::PermanentError), StopReason::EvidenceMissing);
    assert_eq!(ends(Status::Empty), StopReason::Confident);
    let world = run().sections(vec![cite.clone()]).start().replied(&cited()).expect_call("2/main", 1);
    world.replied(&cited()).ends(StopReason::EvidenceMissing);
    // One citation that is sound does not vouch for those of what is not there, or failed.
    let more = || bare_draft("high").section("Situation", "It is full [E1]. So they say [E99, E2].");
    let asks = draft("medium").asks("fetch_device", target("a")).asks("fetch_docs", target("a"));
    let world = run().sections(vec![cite]).unrevised().start().replied(&asks);
    let world =
        world.finished("1/action-0", found("a")).finished("1/action-1", observed(Status::PermanentError));
    let world = world.replied(&more()).ends(StopReason::EvidenceMissing);
    assert_eq!(world.outcome().missing, ["evidence for [E2], [E99] in section `situation`".into()]);
}

#[test]
fn a_citation_counts_as_soon_as_what_it_cites_is_there() {
    let cite = loop_core::spec::SectionSpec::new("situation", "Situation").required().cited();
    let same = |confidence| bare_draft(confidence).section("Situation", "Full [E1].");
    let world = run().sections(vec![cite]).unrevised().start();
    let world = world.replied(&same("medium").asks("fetch_device", target("a"))).all_finished();
    world.replied(&same("high")).ends(StopReason::Confident);
}

#[test]
fn what_is_in_doubt_says_so_to_the_person_who_is_asked() {
    // I-6, H1
    let write = calls(&[("wipe", target("a"))]);
    let mut world = conversation().approving(&["wipe"]).start().replied(&write);
    world.apply(EventKind::ToolStarted { key: key("1/action-0"), attempt: 1 });
    let world = world.resumed(5).replied(&write).ends(StopReason::NeedsHuman);
    assert_eq!(world.run.actions()[1].verdict.reason(), "it may have happened already");
    // What policy has against it is told beside it (K8).
    let untrusted_origin = conversation().people().with(|spec| {
        let wipe = spec.tools.iter_mut().find(|tool| &*tool.name == "wipe").unwrap();
        wipe.policy.authority = vec!["/target".into()];
    });
    let write = calls(&[("wipe", target("srv-9"))]);
    let world =
        untrusted_origin.start().replied(&write).answered_by_person("1/action-0", PersonAnswer::Approved);
    let world = world.finished("1/action-0", Observation::failed(Status::Timeout, "wipe", "too late"));
    let why = world.replied(&write).run.actions()[1].verdict.reason();
    let expected = "it may have happened already; /target is \"srv-9\", which was given neither";
    assert!(why.starts_with(expected), "{why}");
}
