//! The gate after each pass: what runs, what does not, and why the loop ends.

use crate::common::usd;
use loop_testkit::*;

use loop_core::gate::Measure;
use loop_core::reply::FinishReason;
use loop_core::run::Decision;
use loop_core::spec::{Cite, ProtocolSpec, SectionSpec};
use loop_core::types::{Confidence, Status, StopClass};
use loop_core::{Note, StopReason};
use serde_json::{Value, json};

fn device(name: &str) -> DraftReply {
    draft("medium").asks("fetch_device", target(name))
}

#[test]
fn the_loop_analyses_fetches_refines_and_ends_by_itself() {
    // S0-1, S0-2, S0-6, S0-8, S0-9, S0-10, S0-11, S0-12, S0-14, S0-30, S0-56
    let world = run()
        .start()
        .expect_phase("calling")
        .expect_call("1/main", 1)
        .replied(&device("a"))
        .expect_phase("acting")
        .expect_tools(&["1/action-0#1 fetch_device"])
        .finished("1/action-0", found("Disk: 100 %"))
        .expect_call("2/main", 1)
        .replied(&bare_draft("high").section("Findings", "Full: 100 % [E1]."))
        .ends(StopReason::Confident);
    let outcome = world.outcome();
    assert_eq!((outcome.stop.class, outcome.stop.class.exit_code()), (StopClass::Answered, 0));
    // S0-25, S0-40: the evidence has the tool's Markdown, and every gate has left its decision.
    assert_eq!(&*outcome.evidence[0].observation.markdown, "Disk: 100 %");
    let gates = world.all_notes().filter(|note| matches!(note, Note::GateDecided { .. })).count();
    assert_eq!(gates, 2);
    assert_eq!((outcome.totals.passes, outcome.totals.model_calls, outcome.totals.tool_calls), (2, 2, 1));
}

#[test]
fn high_confidence_ends_only_when_nothing_is_left_to_run() {
    // S0-41, S0-53, S0-100
    run().start().replied(&draft("high")).ends(StopReason::Confident);
    run().start().replied(&draft("high").asks("fetch_device", target("a"))).expect_phase("acting");
    run()
        .start()
        .replied(&draft("high").asks_as("nice_to_have", "fetch_device", target("a")))
        .ends(StopReason::Confident);
}

#[test]
fn nothing_new_at_lower_confidence_ends_with_no_new_actions() {
    // S0-42, S0-54
    for confidence in ["low", "medium"] {
        let world = run().start().replied(&draft(confidence)).ends(StopReason::NoNewActions);
        assert_eq!(world.outcome().stop.class, StopClass::Partial);
    }
    run().start().replied(&device("a")).all_finished().replied(&device("a")).ends(StopReason::NoNewActions);
}

#[test]
fn required_and_recommended_actions_run_and_nice_to_have_is_skipped() {
    // S0-23, S0-102, S0-104, S0-105
    let reply = draft("low")
        .asks_as("nice_to_have", "fetch_device", target("a"))
        .asks_as("recommended", "fetch_device", target("b"))
        .asks_as("required", "fetch_device", target("c"));
    let world = run().start().replied(&reply);
    assert_eq!(world.verdicts(), ["skipped", "run", "run"]);
    world.expect_tools(&["1/action-1#1 fetch_device", "1/action-2#1 fetch_device"]);
}

#[test]
fn actions_of_a_pass_run_side_by_side_and_all_settle_before_the_next() {
    // S0-122, S0-93, S0-129, I-22
    let reply = draft("low").asks("fetch_device", target("a")).asks("fetch_docs", target("b"));
    let mut world = run().start().replied(&reply);
    assert_eq!(world.tools().len(), 2);
    world = world.finished("1/action-1", observed(Status::PermanentError)).expect_phase("acting");
    world.finished("1/action-0", found("x")).expect_call("2/main", 1);
}

#[test]
fn every_failure_of_a_tool_is_an_observation_and_the_loop_goes_on() {
    // S0-81, S0-94, S0-129
    for status in [
        Status::PermanentError,
        Status::RetryableError,
        Status::Timeout,
        Status::MalformedResult,
        Status::InvalidInput,
        Status::Empty,
    ] {
        let world = run()
            .start()
            .replied(&device("a"))
            .finished("1/action-0", observed(status))
            .expect_call("2/main", 1);
        assert_eq!(world.run.evidence()[0].observation.status, status);
    }
}

#[test]
fn an_unknown_confidence_is_never_high() {
    // S0-d9, S0-20
    let garbled = draft("certain");
    let world = run().start().replied(&garbled).expect_phase("repairing").started().failed(failure(false));
    world.ends(StopReason::NoNewActions);
}

#[test]
fn high_confidence_without_what_the_domain_demands_is_not_confident() {
    // C30
    let bare = bare_draft("high").section("Findings", "Nothing.");
    let world = run().unrevised().start().replied(&bare).ends(StopReason::EvidenceMissing);
    let missing = Measure::Names(vec!["section `situation`".into()]);
    assert_eq!((&world.outcome().stop.primary.value, world.outcome().missing.len()), (&missing, 1));

    let cites = || {
        let mut sections = vec![SectionSpec::new("situation", "Situation")];
        sections[0].cite = loop_core::spec::Cite::Any;
        run().unrevised().sections(sections)
    };
    cites().start().replied(&draft("high")).ends(StopReason::EvidenceMissing);
    cites()
        .start()
        .replied(&bare_draft("high").section("Situation", "So says the item [E0]."))
        .ends(StopReason::Confident);
    let failed =
        cites().start().replied(&device("a")).finished("1/action-0", observed(Status::PermanentError));
    failed.replied(&bare_draft("high").section("Situation", "x [E1]")).ends(StopReason::EvidenceMissing);
    let absent = cites().start().replied(&device("a")).finished("1/action-0", observed(Status::Empty));
    absent.replied(&bare_draft("high").section("Situation", "none [E1]")).ends(StopReason::Confident);

    let demands =
        || run().unrevised().with(|spec| spec.gate.required_tools = vec!["fetch_docs".into()]).start();
    demands().replied(&draft("high")).ends(StopReason::EvidenceMissing);
    let observed = demands().replied(&draft("low").asks("fetch_docs", target("a"))).all_finished();
    observed.replied(&draft("high")).ends(StopReason::Confident);
}

#[test]
fn a_section_of_citations_alone_is_not_written() {
    // G1
    for bare in ["[E1]", "[E0]", "- [E1]\n- [E1, E2]", "**[E1]**", "[E1]. [E1]!", "—"] {
        let world = run().unrevised().start().replied(&device("a")).all_finished();
        let had = world.run.document().clone();
        let world = world.replied(&bare_draft("high").section("Situation", bare).section("Findings", bare));
        // What was there stays, and what was not there is not written.
        assert_eq!(world.run.document(), &had, "{bare}");
        let first = run().unrevised().start().replied(&bare_draft("high").section("Situation", bare));
        let world = first.ends(StopReason::EvidenceMissing);
        assert_eq!(world.outcome().missing, ["section `situation`".into()], "{bare}");
    }
    // A word or a number is one.
    for own in ["Full [E0]", "[E0] 97 %", "満", "see [E0] [here]"] {
        let world = run().start().replied(&bare_draft("high").section("Situation", own));
        world.ends(StopReason::Confident);
    }
}

#[test]
fn the_work_item_is_no_evidence_where_evidence_is_demanded() {
    // G1
    let cites = || {
        let mut sections = vec![SectionSpec::new("situation", "Situation")];
        sections[0].cite = loop_core::spec::Cite::Evidence;
        run().unrevised().sections(sections).start()
    };
    let says = |body: &str| bare_draft("high").section("Situation", body);
    let world = cites().replied(&says("So says the item [E0].")).ends(StopReason::EvidenceMissing);
    let missing = "a citation of evidence other than the work item (E0) in section `situation`";
    assert_eq!(world.outcome().missing, [missing.into()]);
    let world = cites().replied(&says("So it is.")).ends(StopReason::EvidenceMissing);
    assert_eq!(world.outcome().missing, ["a citation in section `situation`".into()]);
    let world = cites().replied(&device("a")).all_finished();
    world.replied(&says("The item [E0] is right [E1].")).ends(StopReason::Confident);
    // It is told in the same words as it is written.
    for (cite, text) in [
        (loop_core::spec::Cite::No, "false"),
        (loop_core::spec::Cite::Any, "true"),
        (loop_core::spec::Cite::Evidence, "\"evidence\""),
    ] {
        assert_eq!(serde_json::to_string(&cite).unwrap(), text);
        assert_eq!(serde_json::from_str::<loop_core::spec::Cite>(text).unwrap(), cite);
    }
}

#[test]
fn a_section_that_must_cite_needs_words_of_its_own() {
    for (body, is_enough) in [
        ("Full. [E1]", false),
        ("[E1] a [E1] b [E1, E2]", false),
        ("It is full [E1].", true),
        ("満杯です [E1]", true),
    ] {
        let world = run().unrevised().with(|spec| {
            spec.gate.min_words = 3;
            let ProtocolSpec::Document(document) = &mut spec.protocol else { return };
            document.sections.iter_mut().for_each(|section| section.cite = Cite::Evidence);
        });
        let world = world.start().replied(&device("a").asks("fetch_device", target("b"))).all_finished();
        let world = world.replied(&bare_draft("high").section("Situation", body));
        let reason = if is_enough { StopReason::Confident } else { StopReason::EvidenceMissing };
        let world = world.ends(reason);
        let missing = "3 words besides citations in section `situation`";
        let named = world.outcome().missing.iter().any(|it| &**it == missing);
        assert_eq!(named, !is_enough, "{body}");
    }
}

#[test]
fn what_returned_nothing_is_not_the_evidence_that_is_demanded() {
    // G6
    let demands =
        || run().unrevised().with(|spec| spec.gate.required_tools = vec!["fetch_device".into()]).start();
    for status in [Status::Empty, Status::PermanentError, Status::InvalidInput, Status::MalformedResult] {
        let world = demands().replied(&device("a")).finished("1/action-0", observed(status));
        let world = world.replied(&draft("high")).ends(StopReason::EvidenceMissing);
        assert_eq!(world.outcome().missing, ["a result of `fetch_device`".into()], "{status:?}");
    }
    // Another call of it that returns something is.
    let world = demands().replied(&device("a")).finished("1/action-0", observed(Status::Empty));
    let world = world.replied(&device("b")).all_finished();
    world.replied(&draft("high")).ends(StopReason::Confident);
}

#[test]
fn a_refusal_ends_the_run_once_nothing_is_left_to_run() {
    // L20
    let world =
        run().start().replied(&draft("high").member("refuse", json!("not my job"))).ends(StopReason::Refused);
    assert_eq!(world.reasons(), [StopReason::Refused, StopReason::Confident]);
    assert_eq!((world.outcome().stop.class, world.outcome().stop.class.exit_code()), (StopClass::Refused, 4));
    run().start().replied(&device("a").member("refuse", json!("later"))).expect_phase("acting");
    let filtered = run().start().replied(&text("I cannot help.\nMore.").ending(FinishReason::Refusal));
    let filtered = filtered.ends(StopReason::Refused);
    assert_eq!(filtered.outcome().stop.primary.value, Measure::Text("I cannot help.".into()));
    run().start().replied(&text("").ending(FinishReason::Refusal)).ends(StopReason::Refused);
}

#[test]
fn a_content_filter_is_not_the_models_refusal() {
    // W4: in each protocol it ends the run as refused, and the certificate says who stopped it.
    for start in [run().start(), loop_testkit::conversation().start(), loop_testkit::output().start()] {
        let world = start.replied(&text("So far").ending(FinishReason::Filtered)).ends(StopReason::Refused);
        assert_eq!(world.outcome().stop.primary.value, Measure::ContentFilter);
    }
}

#[test]
fn an_escalation_hands_the_work_to_a_person() {
    let world =
        run().start().replied(&draft("high").member("escalate", json!(true))).ends(StopReason::NeedsHuman);
    assert_eq!(world.outcome().stop.class.exit_code(), 5);
    for nothing in [Value::Null, json!(false), json!(" ")] {
        run().start().replied(&draft("high").member("escalate", nothing)).ends(StopReason::Confident);
    }
}

#[test]
fn what_only_a_person_may_allow_ends_the_run_where_nobody_can_be_asked() {
    let world = run().start().replied(&draft("low").asks("wipe", target("a"))).ends(StopReason::NeedsHuman);
    assert_eq!(world.outcome().stop.primary.change, None, "no setting brings somebody who can be asked");
    assert_eq!(world.outcome().undone().count(), 1);
    // What may run without a person runs first.
    let both = draft("low").asks("wipe", target("a")).asks("fetch_device", target("b"));
    run().start().replied(&both).expect_tools(&["1/action-1#1 fetch_device"]);
}

#[test]
fn the_conditions_stand_in_the_gates_order_and_all_of_them_are_told() {
    // C14, S0-21, S0-50, S0-51, I-10: passes, then cost, tokens, model calls, then confidence.
    let tight = run().checked_after().limits(|limits| {
        limits.passes = 1;
        limits.model_calls = 1;
        limits.tokens = Some(150);
        limits.cost = usd(100 * 100_000 + 50 * 400_000);
    });
    let world = tight.start().expect_call("1/final", 1).replied(&draft("high")).ends(StopReason::MaxPasses);
    let expected = [
        StopReason::MaxPasses,
        StopReason::BudgetExceeded,
        StopReason::TokenLimit,
        StopReason::MaxModelCalls,
        StopReason::Confident,
    ];
    assert_eq!(world.reasons(), expected);
    // A confident answer on the last permitted pass is an answer.
    assert_eq!(world.outcome().stop.class, StopClass::Answered);
    let decided = world.all_notes().find_map(|note| match note {
        Note::GateDecided { pass, confidence, decision: Decision::Stop(certificate) } => {
            Some((*pass, *confidence, **certificate == world.outcome().stop))
        }
        _ => None,
    });
    assert_eq!(decided, Some((1, Confidence::High, true)));
}

#[test]
fn a_certificate_names_value_threshold_and_the_smallest_change() {
    let world = run()
        .checked_after()
        .limits(|limits| limits.cost = usd(10))
        .start()
        .replied(&device("a"))
        .ends(StopReason::BudgetExceeded);
    let primary = &world.outcome().stop.primary;
    let spent = world.outcome().totals.cost.known;
    assert_eq!(primary.value, Measure::PicoUsd(spent));
    assert_eq!(primary.threshold, usd(10).map(Measure::PicoUsd));
    let change = primary.change.clone().unwrap();
    assert_eq!(
        (change.setting.path(), change.to),
        ("limits.cost_usd", Measure::PicoUsd(loop_core::types::PicoUsd(spent.0 + 1)))
    );
    // The change is the smallest one: with it the run goes on, with one less it does not.
    let with = |limit: u64| {
        run().checked_after().limits(|limits| limits.cost = usd(limit)).start().replied(&device("a"))
    };
    with(spent.0 + 1).expect_phase("acting");
    with(spent.0).ends(StopReason::BudgetExceeded);
}

#[test]
fn what_a_stopped_pass_asked_for_is_told_as_left_undone() {
    let world = run().checked_after().limits(|limits| limits.cost = usd(10)).start().replied(&device("a"));
    let undone: Vec<String> = world.outcome().undone().map(|action| action.verdict.reason()).collect();
    assert_eq!(undone, ["the run was ending (budget_exceeded)"]);
    assert_eq!(world.outcome().totals.tool_calls, 0);
}
