//! The ways out that look back over the passes: stale confidence, no progress, escalation, revision; and what policy
//! forbids.

use loop_testkit::*;

use loop_core::gate::{DeniedBy, Measure, TierCause};
use loop_core::run::{Decision, StopMode};
use loop_core::spec::Stale;
use loop_core::types::{Confidence, Observation, Status, StopClass, Tier};
use loop_core::{Note, StopReason, Verdict};
use serde_json::json;

/// A pass of this confidence that asks for something new and writes something new.
fn pass(confidence: &str, n: u32) -> DraftReply {
    let asks = draft(confidence).section("Findings", &format!("Finding {n}."));
    asks.asks("fetch_device", target(&format!("d{n}")))
}

/// Passes of these confidences, each with one tool behind it that finds something new.
fn passes(setup: Setup, confidences: &[&str]) -> World {
    let mut world = setup.start();
    for (n, confidence) in (1..).zip(confidences) {
        world = world.replied(&pass(confidence, n));
        let action = format!("{n}/action-0");
        if world.phase() == "acting" {
            world = world.finished(&action, found(&format!("returned {n}")));
        }
    }
    world
}

#[test]
fn from_the_third_pass_on_a_confidence_that_does_not_improve_ends_the_run() {
    // S0-44, S0-55, S0-120, C16
    let world = passes(run(), &["medium", "medium"]).expect_call("3/main", 1);
    drop(world);
    let world = passes(run(), &["medium", "medium", "medium"]).ends(StopReason::StaleConfidence);
    let primary = &world.outcome().stop.primary;
    assert_eq!(primary.value, Measure::Confidence(Confidence::Medium));
    assert_eq!(primary.threshold, Some(Measure::Confidence(Confidence::Medium)));
    assert_eq!((world.outcome().stop.class, world.outcome().undone().count()), (StopClass::Partial, 1));
    // Rising goes on; the pass before counts, not the best one.
    passes(run(), &["low", "medium", "high"]).expect_call("4/main", 1);
    passes(run(), &["medium", "low", "medium"]).expect_call("4/main", 1);
    // Unknown counts as low.
    let unknown = passes(run(), &["medium", "low"]).replied(&text("## Findings\n\nNo contract.\n"));
    let unknown = unknown.expect_phase("repairing").started().failed(failure(false));
    unknown.ends(StopReason::NoNewActions);
}

#[test]
fn whether_a_fall_is_stale_is_a_setting() {
    // C16: equal (S0-44, S0-55), or not improved (S0-120).
    let stale = |setting: Stale| run().with(|spec| spec.gate.stale = setting);
    let world =
        passes(stale(Stale::NotImproved), &["medium", "medium", "low"]).ends(StopReason::StaleConfidence);
    let change = world.outcome().stop.primary.change.clone().unwrap();
    assert_eq!((change.setting.path(), change.to), ("gate.stale", Measure::Text("equal".into())));
    passes(stale(Stale::Equal), &["medium", "medium", "low"]).expect_call("4/main", 1);
    let world =
        passes(stale(Stale::Equal), &["medium", "medium", "medium"]).ends(StopReason::StaleConfidence);
    let change = world.outcome().stop.primary.change.clone().unwrap();
    assert_eq!(change.to, Measure::Text("off".into()), "the smallest change");
    passes(stale(Stale::Off), &["medium", "medium", "medium"]).expect_call("4/main", 1);
    let unless = run().with(|spec| spec.gate.stale_unless_new_evidence = true);
    passes(unless, &["medium", "medium", "medium"]).expect_call("4/main", 1);
}

#[test]
fn two_passes_without_new_evidence_and_without_a_changed_section_are_no_progress() {
    let patient = || run().with(|spec| spec.gate.stale = Stale::Off);
    let same = |n: u32| draft("medium").asks("fetch_device", target(&format!("d{n}")));
    let step = |world: World, n: u32, returned: Observation| {
        world.replied(&same(n)).finished(&format!("{n}/action-0"), returned)
    };
    // The first pass writes, the second sees something new, the third and fourth see the same again.
    let world = step(patient().start(), 1, found("x"));
    let world = step(world, 2, found("x"));
    let world = step(world, 3, found("x"));
    let world = world.replied(&same(4)).ends(StopReason::NoProgress);
    let change = world.outcome().stop.primary.change.clone().unwrap();
    assert_eq!((change.setting.path(), change.to), ("gate.no_progress", Measure::Count(3)));
    // One new finding in between is progress; a failure is none.
    let world = step(step(step(patient().start(), 1, found("x")), 2, found("x")), 3, found("new"));
    world.replied(&same(4)).expect_phase("acting");
    let failed = || observed(Status::RetryableError);
    let world = step(step(step(patient().start(), 1, found("x")), 2, failed()), 3, failed());
    world.replied(&same(4)).ends(StopReason::NoProgress);
    // A changed section is progress too; a preamble is none.
    let written = |heading: &str| {
        let world = step(step(step(patient().start(), 1, found("x")), 2, found("x")), 3, found("x"));
        let mut last = same(4);
        last.text = format!("{heading}{}", last.text);
        world.replied(&last)
    };
    written("## Findings\n\nNew.\n\n").expect_phase("acting");
    written("Well.\n\n").ends(StopReason::NoProgress);
    let off = patient().with(|spec| spec.gate.no_progress = 0);
    let world = step(step(step(off.start(), 1, found("x")), 2, found("x")), 3, found("x"));
    world.replied(&same(4)).expect_phase("acting");
}

#[test]
fn low_confidence_in_two_passes_brings_the_escalated_model_once() {
    // S0-121, S0-117, C17, I-28
    let world = passes(run().escalating(), &["low", "low"]);
    assert_eq!((world.call().key, world.call().tier), (key("3/main"), Tier::Escalated));
    assert!(world.all_notes().any(|note| *note
        == Note::TierChanged { from: Tier::Base, to: Tier::Escalated, why: TierCause::LowConfidence }));
    // Its first pass is not held against the one before it; the one after it is.
    let world = passes(run().escalating(), &["low", "low", "low"]);
    assert_eq!((world.call().key, world.call().tier), (key("4/main"), Tier::Escalated));
    let world = passes(run().escalating(), &["low", "low", "low", "low"]).ends(StopReason::StaleConfidence);
    assert_eq!(world.run.tier(), Tier::Base);
    assert_eq!(
        world.run.passes().iter().map(|pass| pass.tier).collect::<Vec<_>>(),
        [Tier::Base, Tier::Base, Tier::Escalated, Tier::Escalated]
    );
    let changes = world.all_notes().filter(|note| matches!(note, Note::TierChanged { .. })).count();
    assert_eq!(changes, 2, "there and back, once");
    // One low pass is not enough, nor is a model that nobody named, nor a setting of 0.
    assert_eq!(passes(run().escalating(), &["medium", "low"]).call().tier, Tier::Base);
    assert_eq!(passes(run(), &["low", "low"]).call().tier, Tier::Base);
    let never = run().escalating().with(|spec| spec.gate.escalate_after = 0);
    assert_eq!(passes(never, &["low", "low"]).call().tier, Tier::Base);
    let at_once = run().escalating().with(|spec| spec.gate.escalate_after = 1);
    assert_eq!(passes(at_once, &["low"]).call().tier, Tier::Escalated);
}

#[test]
fn the_last_pass_brings_no_escalated_model() {
    // S0-121, I-28: its calls run, and no other pass follows that the model could make.
    let last =
        || run().escalating().limits(|limits| limits.passes = 2).with(|spec| spec.gate.final_pass = false);
    let world = passes(last(), &["low", "low"]).ends(StopReason::MaxPasses);
    assert_eq!(world.run.evidence().len(), 2);
    assert!(!world.all_notes().any(|note| matches!(note, Note::TierChanged { .. })));
}

#[test]
fn without_anything_to_run_nothing_is_escalated() {
    let world = passes(run().escalating(), &["low"]).replied(&draft("low")).ends(StopReason::NoNewActions);
    assert!(!world.all_notes().any(|note| matches!(note, Note::TierChanged { .. })));
}

#[test]
fn the_model_is_given_back_on_every_way_out() {
    // S0-32, I-28
    let escalated = || passes(run().escalating(), &["low", "low"]);
    let ends = [
        escalated().replied(&draft("high")),
        escalated().replied(&draft("low")),
        escalated().started().stop(StopMode::Now).deadline(),
        escalated().started().failed(failure(false)),
        escalated().deadline(),
        passes(run().escalating().limits(|limits| limits.passes = 3), &["low", "low"]).replied(&draft("low")),
    ];
    for world in ends {
        assert!(world.run.is_done(), "{:?}", world.run.phase());
        assert_eq!(world.run.tier(), Tier::Base, "{:?}", world.outcome().stop.reason());
        let last = world.all_notes().filter(|note| matches!(note, Note::TierChanged { .. })).last();
        assert_eq!(
            last,
            Some(&Note::TierChanged { from: Tier::Escalated, to: Tier::Base, why: TierCause::Ended })
        );
    }
}

#[test]
fn one_pass_is_granted_to_revise_what_a_confident_answer_lacks() {
    // C30
    let demands = || run().with(|spec| spec.gate.required_tools = vec!["fetch_docs".into()]);
    let world = demands().start().replied(&draft("high")).expect_call("2/main", 1);
    let missing = vec!["a result of `fetch_docs`".into()];
    assert_eq!(world.run.revisions(2), Some(missing.as_slice()));
    assert!(world.all_notes().any(|note| matches!(
        note,
        Note::GateDecided { decision: Decision::Revise { missing: reported }, .. } if *reported == missing
    )));
    // Mended: it fetches what is demanded and is confident.
    let repaired = world.clone().replied(&draft("high").asks("fetch_docs", target("a"))).all_finished();
    repaired.replied(&draft("high")).ends(StopReason::Confident);
    // Not repaired: the run ends, and says what is missing.
    let world = world.replied(&draft("high")).ends(StopReason::EvidenceMissing);
    assert_eq!(world.outcome().missing, missing);
    assert_eq!((world.outcome().stop.class, world.outcome().totals.passes), (StopClass::Partial, 2));
}

#[test]
fn a_revision_pass_is_not_held_against_the_one_before_it() {
    let demands = || run().with(|spec| spec.gate.required_tools = vec!["fetch_docs".into()]);
    let world = passes(demands(), &["medium"]).replied(&draft("high")).expect_call("3/main", 1);
    // High after high would be stale; but this is what it was asked for.
    world.replied(&draft("high").asks("fetch_docs", target("a"))).expect_phase("acting");
}

#[test]
fn a_final_pass_is_not_repaired() {
    let demands = run().with(|spec| {
        spec.gate.required_tools = vec!["fetch_docs".into()];
        spec.limits.passes = 1;
    });
    let world = demands.start().expect_call("1/final", 1).replied(&draft("high")).ends(StopReason::MaxPasses);
    assert_eq!(world.reasons(), [StopReason::MaxPasses, StopReason::EvidenceMissing]);
    assert_eq!(world.outcome().stop.class, StopClass::Partial);
}

#[test]
fn high_confidence_goes_on_while_something_is_left_unless_it_is_set_to_be_final() {
    // C15: S0-53 to S0-56 by default, the words of S0-100 by setting.
    passes(run(), &["high"]).expect_call("2/main", 1);
    let last = || run().with(|spec| spec.gate.high_is_final = true);
    let world = last().start().replied(&pass("high", 1)).ends(StopReason::Confident);
    let change = world.outcome().stop.primary.change.clone().unwrap();
    assert_eq!((change.setting.path(), change.to), ("gate.high_is_final", Measure::Text("false".into())));
    assert_eq!(world.verdicts(), ["ended"]);
    passes(last(), &["medium"]).expect_call("2/main", 1);
    // What is demanded is demanded all the same.
    let demands = last().with(|spec| spec.gate.required_tools = vec!["fetch_docs".into()]);
    demands.start().replied(&pass("high", 1)).expect_phase("acting");
}

#[test]
fn where_every_action_that_mattered_is_forbidden_policy_ends_the_run() {
    let forbids = || run().with(|spec| spec.gate.forbid = vec!["fetch_device".into()]);
    let world = forbids().start().replied(&pass("medium", 1)).ends(StopReason::PolicyBlocked);
    assert_eq!((world.outcome().stop.class, world.outcome().stop.class.exit_code()), (StopClass::Refused, 4));
    assert_eq!(
        world.run.actions()[0].verdict,
        Verdict::Denied { why: "forbidden by gate.forbid".into(), by: DeniedBy::Policy }
    );
    assert_eq!(world.outcome().totals.tool_calls, 0);
    // By alias too; and what is allowed beside it runs.
    let world = forbids().start().replied(&draft("low").asks("fetch_devices", target("a")));
    world.ends(StopReason::PolicyBlocked);
    let world = forbids().start().replied(&pass("low", 1).asks("fetch_docs", target("a")));
    world.expect_tools(&["1/action-1#1 fetch_docs"]);
    // A selector cannot either.
    let world = forbids().selector(&[]).start().selected(&[("fetch_device", json!({"target": "a"}))]);
    world.expect_call("1/main", 1);
}

#[test]
fn no_progress_is_counted_from_where_another_task_or_model_took_over() {
    // C17: neither the first pass of the escalated model nor a revision pass can be the end of idle passes before it.
    let patient = || run().with(|spec| (spec.gate.stale, spec.gate.breakers.tool_failures) = (Stale::Off, 0));
    let same = |confidence: &str, n: u32| draft(confidence).asks("fetch_device", target(&format!("d{n}")));
    let failed = || observed(Status::PermanentError);
    let demands = patient().with(|spec| spec.gate.required_tools = vec!["fetch_docs".into()]);
    let world = demands.start().replied(&same("medium", 1)).finished("1/action-0", failed());
    let world = world.replied(&draft("high")).expect_call("3/main", 1);
    world.replied(&draft("high").asks("fetch_docs", target("a"))).expect_phase("acting");

    let mut world = patient().escalating().start();
    for n in 1..=2 {
        world = world.replied(&same("low", n)).finished(&format!("{n}/action-0"), failed());
    }
    assert_eq!(world.call().tier, Tier::Escalated);
    world = world.replied(&same("low", 3)).finished("3/action-0", failed());
    let world = world.replied(&same("low", 4)).ends(StopReason::NoProgress);
    assert_eq!(world.outcome().stop.primary.value, Measure::Count(2));
}

#[test]
fn the_change_that_no_progress_names_would_have_gone_on() {
    // Passes that were idle before it could stop count as well.
    let idle = |limit: u32| {
        let setup = run().escalating().with(|spec| {
            spec.gate.stale = Stale::Off;
            spec.gate.no_progress = limit;
            spec.gate.escalate_after = 4;
            spec.limits.passes = 9;
        });
        let mut world = setup.start();
        for n in 1..=4 {
            let says = draft("medium").asks("fetch_device", target(&format!("d{n}")));
            world = world.replied(&says);
            if world.run.is_done() {
                return world;
            }
            world = world.finished(&format!("{n}/action-0"), observed(Status::PermanentError));
        }
        world
    };
    let world = idle(2).ends(StopReason::NoProgress);
    let change = world.outcome().stop.primary.change.clone().unwrap();
    assert_eq!(change.to_string(), "gate.no_progress = 3");
    assert!(idle(3).run.passes().len() > world.run.passes().len());
}

#[test]
fn a_final_answer_tells_what_would_have_ended_the_run_all_the_same() {
    let last = || run().with(|spec| spec.gate.high_is_final = true);
    let world = last().start().replied(&pass("medium", 1)).finished("1/action-0", found("x"));
    let world = world.replied(&pass("high", 2)).ends(StopReason::Confident);
    assert_eq!(world.reasons(), [StopReason::Confident]);
    let stale = last().with(|spec| spec.gate.required_tools = vec!["fetch_docs".into()]);
    let world = passes(stale, &["medium", "high"]);
    let world = world.replied(&pass("high", 3).asks("fetch_docs", target("a")));
    world.ends(StopReason::StaleConfidence);
    // A write beside the read, and a call over the limit, are no reasons where something could run. What was asked for
    // and is not done is said.
    let both = pass("high", 1).asks("wipe", target("a"));
    let world = last()
        .limits(|limits| limits.tool_calls = 1)
        .start()
        .replied(&both.asks("fetch_device", target("z")));
    let world = world.ends(StopReason::Confident);
    assert_eq!(
        (world.reasons(), world.outcome().stop.class),
        (vec![StopReason::Confident, StopReason::EffectNotDone], StopClass::Partial)
    );
}

#[test]
fn a_revision_pass_that_cannot_be_paid_tells_what_is_missing() {
    let demands = run().with(|spec| {
        spec.gate.required_tools = vec!["fetch_docs".into()];
        spec.limits.tokens = Some(2_000);
    });
    let large = loop_core::run::PromptSize { bytes: 9_000, shared_bytes: 2_000 };
    let world = demands.start().replied(&draft("high")).started_with(large).ends(StopReason::TokenLimit);
    assert_eq!(world.reasons(), [StopReason::TokenLimit, StopReason::EvidenceMissing]);
}

#[test]
fn where_every_tool_is_forbidden_nobody_selects() {
    let names = ["fetch_device", "fetch_docs", "restart", "wipe"];
    let world = run().selector(&[]).with(|spec| spec.gate.forbid = names.map(Into::into).to_vec()).start();
    world.expect_call("1/main", 1);
}

#[test]
fn an_answer_after_a_pass_in_which_nothing_ran_is_not_a_lack_of_progress() {
    // S0-44: a reply without calls is not one more idle pass.
    let setup = conversation().gate(|gate| gate.no_progress = 2);
    let world = setup.start().replied(&calls(&[("nope", json!({}))])).replied(&text("Done."));
    assert_eq!(world.ends(StopReason::Completed).reasons(), [StopReason::Completed]);
}

#[test]
fn a_last_pass_is_judged_the_same_with_a_model_that_it_cannot_escalate_to() {
    // S0-121: before the last pass an escalation does not replace the reasons to stop.
    let ended = |setup: Setup| {
        let setup = setup.gate(|gate| (gate.escalate_after, gate.final_pass) = (3, false));
        let world = passes(setup.limits(|limits| limits.passes = 3), &["low"; 3]);
        world.ends(StopReason::StaleConfidence).reasons()
    };
    assert_eq!(ended(run().escalating()), ended(run()));
}
