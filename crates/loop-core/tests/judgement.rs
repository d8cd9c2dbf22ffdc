//! What software says to a call, in its order: its name, policy by name, its arguments, policy, repeats, limits, people;
//! what the model gets for a repeat; and what an answer needs before it counts.

use loop_testkit::*;

use loop_core::gate::DeniedBy;
use loop_core::policy::PolicyRule;
use loop_core::repeats::RepeatRule;
use loop_core::run::{CheckResult, PersonAnswer};
use loop_core::spec::{OnDuplicate, RepeatScope, Repeats, Resolve, TaintRule};
use loop_core::types::{Observation, Status};
use loop_core::{EventKind, StopReason, Verdict};
use serde_json::{Value, json};

fn look(name: &str) -> DraftReply {
    calls(&[("fetch_device", target(name))])
}

/// The tool at this place of the help desk's list.
fn tool_at(setup: Setup, at: usize, change: impl FnOnce(&mut loop_core::spec::ToolSpec)) -> Setup {
    setup.with(|spec| change(&mut spec.tools[at]))
}

const DEVICE: usize = 0;
const DOCS: usize = 1;
const RESTART: usize = 2;

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
fn a_repeat_never_hides_a_denial() {
    // I-32, K2: the first time nothing untrusted had been read.
    let setup = tool_at(conversation(), DEVICE, |tool| tool.policy.returns_untrusted = true);
    let setup = tool_at(setup, DOCS, |tool| tool.policy.reads_private = true);
    let setup = tool_at(setup, RESTART, |tool| tool.effect = loop_core::types::Effect::Egress);
    let setup = setup.approving(&["restart"]).repeating(Repeats::NeverRerun);
    let send = calls(&[("restart", target("a"))]);
    let world = all(setup.start().replied(&send));
    let both = calls(&[("fetch_device", target("a")), ("fetch_docs", target("a"))]);
    let world = all(world.replied(&both)).replied(&send);
    assert_eq!(world.verdicts().last(), Some(&"denied"));
}

#[test]
fn what_is_forbidden_is_denied_even_where_no_tool_has_the_name() {
    // S4-83, S4-53
    let setup = conversation().with(|spec| spec.gate.forbid = vec!["delete_order".into()]);
    let world = setup.start().replied(&calls(&[("delete_order", json!({})), ("delete_orders", json!({}))]));
    assert_eq!(world.verdicts(), ["denied", "unknown_tool"]);
}

#[test]
fn a_name_found_by_its_part_is_journaled_as_a_guess() {
    // C21, S0-87
    let guess = calls(&[("fetch_dev", target("a")), ("fetch_device", target("b")), ("resta", target("c"))]);
    let setup = conversation().with(|spec| spec.gate.resolve = Resolve::FuzzyUnique);
    let world = setup.start().replied(&guess);
    let guessed: Vec<bool> = world.run.actions().iter().map(|action| action.guessed).collect();
    assert_eq!((world.verdicts(), guessed), (vec!["run", "run", "unknown_tool"], vec![true, false, false]));
    assert_eq!(world.run.actions()[0].tool_name(), "fetch_device");
    all(world).replied(&text("Done.")).ends(StopReason::Completed);
}

// ---- what a run has read ----

#[test]
fn after_something_untrusted_was_read_an_effect_needs_a_person_even_where_it_is_approved() {
    // K2, I-27
    let tainted = || {
        let setup = tool_at(conversation(), DEVICE, |tool| tool.policy.returns_untrusted = true);
        setup.approving(&["restart"])
    };
    let write = calls(&[("restart", target("a"))]);
    let read = |setup: Setup, status: Status| {
        let world = setup.start().replied(&look("a"));
        world.finished("1/action-0", observed(status)).replied(&write)
    };
    // An error may hold its words as well.
    for status in [Status::Ok, Status::PermanentError, Status::Timeout] {
        let world = read(tainted(), status).ends(StopReason::NeedsHuman);
        let Verdict::NeedsPerson { why: Some(why), .. } = &world.run.actions()[1].verdict else { panic!() };
        assert_eq!(&**why, "the run has read untrusted text");
        assert_eq!(world.run.actions()[1].rules, [PolicyRule::Taint]);
    }
    let world = read(tainted().people(), Status::Ok);
    world.answered_by_person("2/action-0", PersonAnswer::Approved).expect_tools(&["2/action-0#1 restart"]);
    // Nothing untrusted was read, or it does not matter.
    tainted().start().replied(&write).expect_tools(&["1/action-0#1 restart"]);
    let off = tainted().with(|spec| spec.gate.taint = TaintRule::Off);
    read(off, Status::Ok).expect_tools(&["2/action-0#1 restart"]);
    // The work item itself.
    let item = tainted().with(|spec| spec.gate.item_untrusted = true);
    item.start().replied(&write).ends(StopReason::NeedsHuman);
}

#[test]
fn whom_an_effect_reaches_comes_from_the_work_item_or_from_a_person() {
    // K3
    let setup = || {
        let setup = tool_at(conversation(), RESTART, |tool| tool.policy.authority = vec!["/target".into()]);
        setup.approving(&["restart"]).item_text("Please restart web-1 today.")
    };
    let write = |name: &str| calls(&[("restart", target(name))]);
    setup().start().replied(&write("web-1")).expect_tools(&["1/action-0#1 restart"]);
    let world = setup().start().replied(&write("web-2"));
    assert_eq!(world.verdicts(), ["denied"]);
    setup().people().start().replied(&write("web-2")).expect_phase("waiting_for_person");
}

#[test]
fn a_question_waits_for_a_person_whatever_it_does() {
    // S4-37
    let setup = tool_at(conversation(), DOCS, |tool| tool.policy.asks_person = true);
    let ask = calls(&[("fetch_docs", target("which one?"))]);
    let world = setup.clone().people().approving(&["fetch_docs"]).start().replied(&ask);
    assert_eq!(world.asks(), ["1/action-0"]);
    setup.start().replied(&ask).ends(StopReason::NeedsHuman);
}

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
fn a_repeat_is_one_within_its_scope() {
    // C6, S3-3, S3-25, S2-100: the turn of a chat is a run, the step of a recipe is a pass.
    let scoped = |scope| {
        let setup = output().repeating(Repeats::NeverRerun).with(|spec| spec.gate.scope = scope);
        let world = all(setup.start().replied(&look("a"))).replied(&look("a"));
        let in_next_pass = world.verdicts()[1];
        let world = all(world).replied(&calls(&[("save", target("x"))])).checked(rejected("no"));
        (in_next_pass, *world.replied(&look("a")).verdicts().last().unwrap())
    };
    assert_eq!(scoped(RepeatScope::Run), ("duplicate", "duplicate"));
    assert_eq!(scoped(RepeatScope::Attempt), ("duplicate", "run"));
    assert_eq!(scoped(RepeatScope::Step), ("run", "run"));
    // Within one reply it is one everywhere.
    let twice = calls(&[("fetch_device", target("a")), ("fetch_device", target("a"))]);
    let setup = conversation().repeating(Repeats::NeverRerun);
    let setup = setup.with(|spec| spec.gate.scope = RepeatScope::Step);
    assert_eq!(setup.start().replied(&twice).verdicts(), ["run", "duplicate"]);
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

#[test]
fn the_three_tiers_of_a_turn_hold_in_a_run() {
    // S3-1, S3-14..20, S3-25, S3-31
    let mut search = tool("semantic_search", loop_core::types::Effect::Read);
    search.args = loop_core::spec::ArgSpec::from_schema(&json!({
        "type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"],
    }));
    let setup = conversation().repeating(Repeats::ThreeTier).with(|spec| spec.tools.push(search));
    let ask = |query: &str| calls(&[("semantic_search", json!({"query": query}))]);
    let mut world = setup.start();
    for query in ["fix bug", "fix the bug", "fix bug", "restart the server", "something else again"] {
        world = all(world.replied(&ask(query)));
    }
    let codes = world.run.actions().iter().map(|action| match &action.verdict {
        Verdict::Duplicate { rule: Some(rule), .. } => rule.code(),
        Verdict::OverLimit { limit } => limit.code(),
        verdict => verdict.name(),
    });
    let codes: Vec<&str> = codes.collect();
    assert_eq!(codes, ["run", "similar_query", "exact_duplicate", "run", "limit_exceeded"]);
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
